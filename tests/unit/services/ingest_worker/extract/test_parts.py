import pytest

from services.ingest_worker.extract.format import Hints
from services.ingest_worker.extract.parts import part_texts, refused, sentence, within
from shared.contracts import Note
from shared.errors import Rejected


def test_readable_parts_have_their_names_as_headings_and_others_a_sentence() -> None:
    texts, unread = part_texts(
        [("a.txt", lambda: b"Herons."), ("b.png", lambda: b"\x89PNG\r\n\x1a\n broken")], Hints(filename="all.zip")
    )

    assert texts == ["# a.txt\n\nHerons."]
    assert [(each.code, each.place) for each in unread] == [("damaged", "b.png")]


def test_a_part_that_its_reader_fails_at_is_noted_without_what_it_raised() -> None:
    def fail() -> bytes:
        raise KeyError("/srv/sluice/secret.py")

    texts, unread = part_texts([("a.doc", fail), ("b.txt", lambda: b"Herons.")], Hints(filename="all.zip"))

    assert texts == ["# b.txt\n\nHerons."]
    [note] = unread
    assert (note.code, note.place) == ("failed", "a.doc")
    assert "/srv" not in note.message


def test_containers_may_not_be_nested_for_ever() -> None:
    with pytest.raises(Rejected, match="nested more than 3 files deep"):
        part_texts([], Hints(filename="all.zip", depth=3))


def test_a_sentence_has_five_notes_at_most() -> None:
    notes = [Note(code="hidden", place=each, message=each) for each in "abcdefg"]

    assert sentence(notes[:2]) == "a; b"
    assert sentence(notes) == "a; b; c; d; e; and 2 more"


def test_a_note_about_a_part_says_in_which_file_it_is() -> None:
    page = refused(Rejected("x.pdf has no page 3", "damaged"), "page 3")
    other = refused(Rejected("it is odd", "invalid_chunks"), "")

    assert [each.place for each in within("x.pdf", [page, other])] == ["x.pdf, page 3", "x.pdf"]
    assert [each.code for each in (page, other)] == ["damaged", "damaged"]
