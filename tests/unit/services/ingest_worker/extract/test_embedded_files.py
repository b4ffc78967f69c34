import operator
from collections.abc import Mapping
from email.message import EmailMessage
from typing import Final

import pytest

from services.ingest_worker.chunk import chunks
from services.ingest_worker.extract import extract
from services.ingest_worker.extract.embedded_files import part_texts, refused, sentence, within
from services.ingest_worker.extract.format_types import PART, Hints
from shared.contracts import Note
from shared.errors import Rejected
from tests.fakes.tokens import Words
from tests.unit.services.ingest_worker.files import a_zip, an_opendocument, an_xlsx


def test_readable_parts_have_their_names_as_headings_and_others_a_sentence() -> None:
    texts, unread = part_texts(
        [("a.txt", lambda: b"Herons."), ("b.png", lambda: b"\x89PNG\r\n\x1a\n broken")], Hints(filename="all.zip")
    )

    assert texts == [f"{PART}# a.txt\n\nHerons."]
    assert [(each.code, each.place) for each in unread] == [("damaged", "b.png")]


def test_a_part_that_its_reader_fails_at_is_noted_without_what_it_raised() -> None:
    def fail() -> bytes:
        raise KeyError("/srv/sluice/secret.py")

    texts, unread = part_texts([("a.doc", fail), ("b.txt", lambda: b"Herons.")], Hints(filename="all.zip"))

    assert texts == [f"{PART}# b.txt\n\nHerons."]
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


FLEET: Final = {"Schiffe": "Skua liegt am Kai.", "Anker": "Er wiegt 40 kg.", "Segel": "Es ist rot."}
LONG: Final = {name: f"{text} {'Mehr davon steht im Buch der Boote. ' * 3}".strip() for name, text in FLEET.items()}


def _in_archive(fleet: Mapping[str, str]) -> tuple[bytes, str]:
    return a_zip({f"{name}.txt": text for name, text in fleet.items()}), "a.zip"


def _in_book(fleet: Mapping[str, str], suffix: str) -> tuple[bytes, str]:
    rows = {name: [[text, "ja"]] for name, text in fleet.items()}
    if suffix == ".xlsx":
        return an_xlsx(**rows), "a.xlsx"  # type: ignore[arg-type]  # a list of lists of strings
    if suffix == ".xml":
        cell = '<Table><Row><Cell><Data s:Type="String">{}</Data></Cell></Row></Table>'
        sheets = "".join(f'<Worksheet s:Name="{name}">{cell.format(text)}</Worksheet>' for name, text in fleet.items())
        space = "urn:schemas-microsoft-com:office:spreadsheet"
        return f'<?xml version="1.0"?><Workbook xmlns="{space}" xmlns:s="{space}">{sheets}</Workbook>'.encode(), "a.xml"
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    tables = (
        f'<table:table table:name="{name}"><table:table-row>{cell.format(text)}</table:table-row></table:table>'
        for name, text in fleet.items()
    )
    return an_opendocument("spreadsheet", "".join(tables)), "a.ods"


def _in_mails(fleet: Mapping[str, str]) -> tuple[bytes, str]:
    mails = (
        f"From a@b.de Mon Sep  {day} 08:15:00 2025\nFrom: a@b.de\nSubject: {name}\n\n{text}\n\n"
        for day, (name, text) in enumerate(fleet.items(), 1)
    )
    return "".join(mails).encode(), "a.mbox"


def _attached(fleet: Mapping[str, str]) -> tuple[bytes, str]:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "a@b.de", "Drei Dateien"
    mail.set_content("Anbei.")
    for name, text in fleet.items():
        mail.add_attachment(text, filename=f"{name}.txt")
    return mail.as_bytes(), "a.eml"


def _files(fleet: Mapping[str, str]) -> list[tuple[bytes, str]]:
    books = (_in_book(fleet, suffix) for suffix in (".xlsx", ".ods", ".xml"))
    return [_in_archive(fleet), *books, _in_mails(fleet), _attached(fleet)]


@pytest.mark.parametrize("file", _files(LONG), ids=operator.itemgetter(1))
def test_each_part_of_a_file_is_cited_under_its_own_name(file: tuple[bytes, str]) -> None:
    read = extract(file[0], Hints(filename=file[1]))

    found = chunks(read.text, tokens=Words(), parts=read.parts)

    for name, text in FLEET.items():
        [section] = [chunk.section or "" for chunk in found if text in chunk.text]
        assert section.removesuffix(".txt") == name


@pytest.mark.parametrize("file", _files(FLEET), ids=operator.itemgetter(1))
def test_small_parts_share_a_chunk_that_is_cited_under_none_of_them(file: tuple[bytes, str]) -> None:
    read = extract(file[0], Hints(filename=file[1]))

    [small] = [chunk for chunk in chunks(read.text, tokens=Words(), parts=read.parts) if "Skua" in chunk.text]
    assert small.section is None
    assert all(text in small.text for text in FLEET.values())

    assert PART not in read.text


def test_a_long_part_shares_no_chunk_with_a_small_one() -> None:
    long = "Die Skua liegt am Kai und wartet auf den Wind. " * 30

    read = extract(a_zip({"a.txt": "Es ist Ebbe.", "b.txt": long, "c.txt": "Es ist Flut."}), Hints(filename="a.zip"))

    found = chunks(read.text, tokens=Words(), parts=read.parts)
    assert [chunk.section for chunk in found] == ["a.txt", "b.txt", "b.txt", "c.txt"]


def test_small_parts_within_a_part_are_cited_under_it() -> None:
    book, _ = _in_book({f"Kai{number}": "Skua" for number in range(30)}, ".xlsx")
    notes = {f"n{number}.txt": "Es ist Ebbe." for number in range(30)}

    read = extract(a_zip({"a.xlsx": book, **notes}), Hints(filename="a.zip"))

    found = chunks(read.text, tokens=Words(), parts=read.parts)
    assert {chunk.section for chunk in found if "Skua" in chunk.text and "Ebbe" not in chunk.text} == {"a.xlsx"}
    assert len(found) < 10


def test_what_is_within_a_part_is_cited_under_both_names_and_small_sections_of_it_stay_together() -> None:
    book = an_xlsx(Kai=[["Skua " * 20, "Tern"]], Bucht=[["Alk " * 25, "Gull"]])
    notes = f"# Tide\n\nIt rises{' and rises' * 10}.\n\n# Ebb\n\nIt falls.\n"

    read = extract(
        a_zip({"a.xlsx": book, "n.md": notes, "run.sh": f"# up\nx{' 1' * 50}\n\n# down\ny"}), Hints(filename="a.zip")
    )

    found = chunks(read.text, tokens=Words(), parts=read.parts)
    assert [chunk.section for chunk in found] == ["a.xlsx > Kai", "a.xlsx > Bucht", "n.md > Tide", "run.sh > up"]


def test_a_heading_in_a_file_that_has_no_parts_begins_none() -> None:
    read = extract(b"# Tide\n\nIt rises.\n\n# Ebb\n\nIt falls.\n", Hints(filename="n.md"))

    assert read.parts == ()
    assert len(chunks(read.text, tokens=Words(), parts=read.parts)) == 1


def test_a_part_is_one_deeper_than_what_it_is_in() -> None:
    inner = a_zip({"a.txt": "Skua"})
    for name in ("b.zip", "c.zip"):
        inner = a_zip({name: inner, f"{name}.txt": "Es ist Ebbe."})

    assert [depth for _, depth in extract(inner, Hints(filename="d.zip")).parts] == [1, 2, 3, 2, 1]


@pytest.mark.parametrize("mark", ["\U0010fffd", "\U0010fffd\U0010fffd", "\ufffd", "\ue000"])
def test_a_private_character_in_a_text_begins_no_part_and_stays(mark: str) -> None:
    text = f"Es ist Ebbe.\n\n{mark}# Skua\n\n{mark} Tern"

    assert extract(text.encode(), Hints(filename="a.md")).parts == ()
    read = extract(a_zip({"a.zip": a_zip({"a.md": text})}), Hints(filename="b.zip"))
    assert [depth for _, depth in read.parts] == [1, 2]
    assert read.text.endswith(text)
