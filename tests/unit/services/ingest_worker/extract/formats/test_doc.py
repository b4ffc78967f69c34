import importlib.util

import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.formats.doc import lines_with_tables
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import an_ole, an_ole_of_small

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)


@pytest.mark.parametrize(
    ("stream", "filename"),
    [("WordDocument", "a.doc"), ("PowerPoint Document", "a.ppt"), ("__properties_version1.0", "a.msg")],
)
def test_without_the_extra_it_says_how_to_get_it(stream: str, filename: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(
        Rejected, match=rf"^{filename} can't be read without the office extra; install it with: make extras$"
    ) as caught:
        extract(_OLE + stream.encode("utf-16-le"), Hints(filename=filename))

    assert caught.value.code == "unsupported"


@pytest.mark.parametrize("filename", ["a.doc", "a.ppt", "a.msg"])
def test_a_broken_file_is_damaged(filename: str) -> None:
    with pytest.raises(Rejected, match=rf"^{filename} is damaged: ") as caught:
        extract(_OLE, Hints(filename=filename))

    assert caught.value.code == "damaged"


@pytest.mark.parametrize(
    ("filename", "stream", "first"),
    [
        ("a.doc", "WordDocument", b"\xec\xa5\xc1\0" + b"\0" * 6 + b"\xf0\x13"),
        ("a.xls", "Workbook", b"\x09\x08\x10\0" + b"\0" * 16 + b"\x2f\0"),
        ("a.xls", "Book", b"\x09\x08\x08\0" + b"\0" * 8 + b"\x86\0\0\0\x2f\0"),
        ("a.ppt", "PowerPoint Document", b"\0\0\xf6\x0f\x2c\0\0\0\x14\0\0\0\xdf\xc4\xd1\xf3"),
    ],
)
def test_a_file_of_old_that_a_password_locks_says_so(filename: str, stream: str, first: bytes) -> None:
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(512, b"\0")
    data = head + first.ljust(512, b"\0") + stream.encode("utf-16-le")

    with pytest.raises(Rejected, match=r"is locked by a password$") as caught:
        extract(data, Hints(filename=filename))

    assert caught.value.code == "password"


def test_a_name_in_an_old_container_has_no_case() -> None:
    with pytest.raises(Rejected, match=r"is locked by a password$"):
        extract(an_ole("ENCRYPTEDPACKAGE", b"x"), Hints(filename="a.docx"))


@pytest.mark.parametrize("first", [b"\xdc\xa5\x68\0", b"\xdc\xa5\x65\0"])
def test_word_95_and_before_is_too_old(first: bytes) -> None:
    data = _OLE[:8].ljust(512, b"\0") + first.ljust(512, b"\0") + "WordDocument".encode("utf-16-le")

    with pytest.raises(Rejected, match="too old") as caught:
        extract(data, Hints(filename="a.doc"))
    for other in (b"\xdb\xa5\x2d\0" + bytes(600), data[:512] + bytes(3 * 64) + data[512:]):  # in a small stream
        with pytest.raises(Rejected, match="too old"):
            extract(other, Hints(filename="a.doc"))

    assert caught.value.code == "unsupported"


@pytest.mark.parametrize("filename", ["a.doc", "a.dot", "a.ppt", "a.pps", "a.msg"])
def test_a_text_named_like_an_old_office_file_is_a_text(filename: str) -> None:
    found = extract("digraph été { a -> b }".encode("utf-16"), Hints(filename=filename))

    assert (found.document_type, found.text) == ("txt", "digraph été { a -> b }")


def test_a_table_named_like_a_workbook_is_read_by_its_columns() -> None:
    assert extract(b"Name\tAge\nAnna Adams\t31\nBo\t22\n", Hints(filename="a.xls")).text.endswith("Name: Bo; Age: 22")


def _a_message(plain: str = "", html: str = "", rich: bytes = b"") -> bytes:
    texts = {"001A": "IPM.Note", "0037": "Fares", "1000": plain}
    named = {f"__substg1.0_{tag}001F": text.encode("utf-16-le") for tag, text in texts.items() if text}
    forms = {"__substg1.0_10130102": html.encode(), "__substg1.0_10090102": rich}
    held = {name: data for name, data in forms.items() if data}
    return an_ole_of_small({"__properties_version1.0": bytes(32), **named, **held})


_TABLE = "<table><tr><th>Class</th><th>Fare</th></tr><tr><td>Van</td><td>72.10</td></tr></table>"


@pytest.mark.parametrize(
    ("plain", "html", "said"),
    [
        ("The fares rise.", "<p>The fares <b>rise</b>.</p>", "The fares rise."),
        ("", f"<p>Fares:</p>{_TABLE}", "Fares:\n\n| Class | Fare |\n| --- | --- |\n| Van | 72.10 |"),
        (
            "The fares rise.",
            f"The fares rise.{_TABLE}",
            "The fares rise.\n\n| Class | Fare |\n| --- | --- |\n| Van | 72.10 |",
        ),
        ("The fares rise.", "", "The fares rise."),
        # A line of the body that looks like a head is of the body.
        (
            "**Note**: The fares rise.",
            f"<b>Note</b>: The fares rise.{_TABLE}",
            "**Note**: The fares rise.\n\n| Class | Fare |\n| --- | --- |\n| Van | 72.10 |",
        ),
    ],
)
def test_a_message_of_outlook_is_read_from_the_form_that_says_all(plain: str, html: str, said: str) -> None:
    read = extract(_a_message(plain, html), Hints(filename="a.msg"))

    assert (read.text, read.notes) == (f"**Subject**: Fares\n\n{said}", ())


def test_a_message_of_outlook_in_rich_text_alone_is_noted() -> None:
    (note,) = extract(_a_message(rich=b"LZFu"), Hints(filename="a.msg")).notes

    assert (note.code, note.message) == ("unsupported", "the message in RTF could not be read")


def test_tabs_end_the_cells_and_rows_of_a_table() -> None:
    lines = "Prices\nFrom May.\nCut\tPrice\tTime\t\tHair\n\t28 €\t30 min\t\tBeard\t15 €\t\t\tThe end."

    assert lines_with_tables(lines, "## Prices\n\nFrom May.") == (
        "## Prices\n\nFrom May.\n\n| Cut | Price | Time |\n| --- | --- | --- |\n| Hair | 28 € | 30 min |"
        "\n| Beard | 15 € |  |\n\nThe end."
    )


@pytest.mark.parametrize(
    ("lines", "table"),
    [
        (
            "Name\tAge\t\tCity\tZip\t\tAnn\t30\t\tRome\t11\t\tBob\t40\t\tBonn\t22\t\t",
            (
                "| Name | Age |  | City | Zip |\n| --- | --- | --- | --- | --- |\n| Ann | 30 |  | Rome | 11 |"
                "\n| Bob | 40 |  | Bonn | 22 |"
            ),
        ),
        (
            "Name\tAge\t\tAnn\t30\t\tBob\t40\t\tKim\t50\t\t",
            "| Name | Age |\n| --- | --- |\n| Ann | 30 |\n| Bob | 40 |\n| Kim | 50 |",
        ),
        ("Name\tAge\t\tAnn\t30\t\tBob\t40", "| Name | Age |\n| --- | --- |\n| Ann | 30 |\n| Bob | 40 |"),
        ("Cut\tLong.\nSlow.\t\tDye\tRed.\nBlue.\t\t", "| Cut | Long. Slow. |\n| --- | --- |\n| Dye | Red. Blue. |"),
    ],
)
def test_a_column_may_be_empty_and_cells_may_have_paragraphs(lines: str, table: str) -> None:
    assert lines_with_tables(lines, "").strip() == table


@pytest.mark.parametrize(
    "line", ["Name:\tKim\tAge:\t4", "a\t\tb", "Name\tPort\t\tX", "a\tb\t\tc\td\te\t\tf", "a\tb\t\tc\td"]
)
def test_other_tabs_stay(line: str) -> None:
    assert lines_with_tables(line, "") == line
    assert lines_with_tables("\n".join([line] * 4), "") == "\n\n".join([line] * 4)
