from pathlib import Path
from unicodedata import normalize

from hypothesis import given
from hypothesis import strategies as st

from shared.ids import bytes_hash, chunk_id, document_id, file_hash, point_id, text_hash

NAMES = st.text(max_size=5)


def test_ids_never_change() -> None:
    assert document_id("default", "s", "p") == "24943db8-f398-572e-a6e8-b400fe0451c2"
    assert point_id("d", 5, 0) == "1753b1cf-f559-5714-9d5f-d815711728f2"
    assert chunk_id("d", "h", 0) == "5a182bab-e07d-5ee8-a883-3ccfc3a583fc"


@given(first=st.tuples(NAMES, NAMES, NAMES), second=st.tuples(NAMES, NAMES, NAMES))
def test_only_equal_names_give_equal_ids(first: tuple[str, str, str], second: tuple[str, str, str]) -> None:
    same = [normalize("NFC", name) for name in first[1:]] == [normalize("NFC", name) for name in second[1:]]
    assert (document_id(*first) == document_id(*second)) == (first[0] == second[0] and same)


def test_a_separator_in_a_name_changes_the_id() -> None:
    assert document_id("t", "a", "b/c") != document_id("t", "a/b", "c")


def test_texts_that_differ_in_their_unicode_form_alone_have_equal_hashes() -> None:
    assert text_hash("é") == text_hash("e\u0301")
    assert text_hash("\ud800") != text_hash("")


def test_a_files_hash_is_that_of_its_bytes(tmp_path: Path) -> None:
    data = b"x" * ((1 << 20) + 1)  # more than a piece
    (tmp_path / "file").write_bytes(data)

    assert file_hash(tmp_path / "file") == bytes_hash(data)
