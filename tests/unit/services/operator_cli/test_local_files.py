from pathlib import Path

import pytest

from services.operator_cli.local_files import FoundFile, Watched, files_at, stamps


def tree(root: Path, *names: str) -> Path:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return root


def names(*paths: Path, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> list[str]:
    return [each.name for each in files_at(paths, include=include, exclude=exclude)]


@pytest.mark.feature(66)
def test_a_folder_gives_all_its_files_by_their_path_in_it_in_order(tmp_path: Path) -> None:
    tree(tmp_path, "b.md", "a/z.txt", "a/b/c.pdf")

    assert names(tmp_path) == ["a/b/c.pdf", "a/z.txt", "b.md"]


def test_hidden_files_and_folders_are_left_out_unless_named(tmp_path: Path) -> None:
    tree(tmp_path, "a.md", ".env", ".git/config", "b/.cache/x")

    assert names(tmp_path) == ["a.md"]
    assert names(tmp_path / ".env") == [".env"]


def test_globs_match_the_path_or_its_last_part_and_exclude_wins(tmp_path: Path) -> None:
    tree(tmp_path, "a.md", "sub/b.md", "sub/c.txt", "drafts/d.md")

    assert names(tmp_path, include=("*.md",)) == ["a.md", "drafts/d.md", "sub/b.md"]
    assert names(tmp_path, include=("sub/*",)) == ["sub/b.md", "sub/c.txt"]
    assert names(tmp_path, include=("*.md",), exclude=("drafts/*", "a.md")) == ["sub/b.md"]


def test_a_file_named_outright_is_taken_whatever_the_globs_say(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt")

    assert names(tmp_path / "a.txt", include=("*.md",)) == ["a.txt"]


def test_one_file_named_twice_is_loaded_once(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt")

    assert names(tmp_path, tmp_path / "a.txt") == ["a.txt"]


def test_two_files_of_one_name_are_refused_rather_than_one_replacing_the_other(tmp_path: Path) -> None:
    tree(tmp_path, "x/a.txt", "y/a.txt")

    with pytest.raises(ValueError, match=r"would both be called a\.txt"):
        names(tmp_path / "x", tmp_path / "y")


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")

    assert names(tmp_path) == ["a.txt"]


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        files_at([tmp_path / "nowhere"])


def test_a_file_without_text_is_empty(tmp_path: Path) -> None:
    for name, text in {"a": "", "b": "\ufeff \r\n\f\n", "c": "-", "d": " " * 2000}.items():
        (tmp_path / name).write_text(text, newline="")
    found = [*files_at([tmp_path]), FoundFile("gone", tmp_path / "gone")]

    assert [each.name for each in found if each.is_empty()] == ["a", "b"]


def test_a_name_has_one_spelling_and_two_files_of_it_are_refused(tmp_path: Path) -> None:
    composed, apart = "é.md", "e\u0301.md"
    tree(tmp_path / "a", apart)
    tree(tmp_path / "b", composed, apart)

    assert names(tmp_path / "a") == [composed]
    with pytest.raises(ValueError, match=r"would both be called é\.md"):
        names(tmp_path / "b")


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
