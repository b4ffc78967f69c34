from pathlib import Path

import pytest

from services.operator_cli.local_files import FoundFile, files_at


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
