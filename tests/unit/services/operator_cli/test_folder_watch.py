from pathlib import Path

from services.operator_cli.folder_watch import Watched, stamps
from services.operator_cli.local_files import FoundFile

OLD, NEW, NEWER = (1, 1, 1), (2, 1, 1), (3, 1, 1)


def test_what_has_not_changed_since_it_was_loaded_is_left_alone() -> None:
    watched = Watched({"a": OLD})

    assert watched.look({"a": OLD}) == ([], [])


def test_a_change_is_taken_once_two_looks_in_a_row_saw_the_same() -> None:
    watched = Watched({"a": OLD})

    looks = [watched.look({"a": NEW}), watched.look({"a": NEWER}), watched.look({"a": NEWER})]
    watched.done("a")

    assert looks == [([], []), ([], []), (["a"], [])]
    assert watched.look({"a": NEWER}) == ([], [])


def test_what_was_not_done_comes_again() -> None:
    watched = Watched({"gone": OLD})
    watched.look({"new": NEW})

    assert watched.look({"new": NEW}) == watched.look({"new": NEW}) == (["new"], ["gone"])


def test_what_is_gone_and_done_is_forgotten_and_new_when_it_comes_back() -> None:
    watched = Watched({"a": OLD})

    gone = watched.look({})
    watched.done("a")

    assert gone == ([], ["a"])
    assert watched.look({}) == ([], [])
    watched.look({"a": OLD})
    assert watched.look({"a": OLD}) == (["a"], [])


def test_stamps_tell_states_of_a_file_and_leave_out_what_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    files = [FoundFile("a", tmp_path / "a"), FoundFile("b", tmp_path / "b")]

    first = stamps(files)
    (tmp_path / "a").write_text("changed")

    assert first.keys() == {"a"}
    assert stamps(files) != first
