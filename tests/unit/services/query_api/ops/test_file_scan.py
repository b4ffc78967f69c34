from pathlib import Path

from services.query_api.ops import file_scan


def test_files_that_contain_words_are_named_with_how_many(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"one and two")
    (tmp_path / "b").write_bytes(b"nothing")
    (tmp_path / "link").symlink_to(tmp_path / "b")

    assert file_scan.search(tmp_path, [b"one", b"two"]) == (2, [("sub/a", 2)])


def test_a_word_across_two_blocks_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * (file_scan._BLOCK - 2) + b"word")

    assert file_scan.search(tmp_path, [b"word"]) == (1, [("a", 1)])
