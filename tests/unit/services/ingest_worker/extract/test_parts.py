import pytest

from services.ingest_worker.extract.format import Hints
from services.ingest_worker.extract.parts import note, part_texts
from shared.errors import Rejected


def test_readable_parts_have_their_names_as_headings_and_others_a_sentence() -> None:
    texts, unread = part_texts(
        [("a.txt", lambda: b"Herons."), ("b.png", lambda: b"\x89PNG\r\n\x1a\n broken")], Hints(filename="all.zip")
    )

    assert texts == ["# a.txt\n\nHerons."]
    assert len(unread) == 1
    assert "b.png" in unread[0]


def test_a_part_that_its_reader_fails_at_is_noted_without_what_it_raised() -> None:
    def fail() -> bytes:
        raise KeyError("/srv/sluice/secret.py")

    texts, unread = part_texts([("a.doc", fail), ("b.txt", lambda: b"Herons.")], Hints(filename="all.zip"))

    assert texts == ["# b.txt\n\nHerons."]
    assert len(unread) == 1
    assert "a.doc" in unread[0]
    assert "/srv" not in unread[0]


def test_containers_may_not_be_nested_for_ever() -> None:
    with pytest.raises(Rejected, match="nested more than 3 files deep"):
        part_texts([], Hints(filename="all.zip", depth=3))


def test_a_note_has_five_sentences_at_most() -> None:
    assert note([]) is None
    assert note("ab") == "a; b"
    assert note("abcdefg") == "a; b; c; d; e; and 2 more"
