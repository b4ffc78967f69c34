import struct

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_zip, an_ole, an_xlsx, parts_of


def _read(data: bytes, filename: str = "book.xlsx") -> Extraction:
    return extract(data, Hints(filename=filename))


def test_sheets_are_sections_and_rows_keep_their_headers() -> None:
    read = _read(an_xlsx(Ducks=[["Year", "Count"], [2024, 7.5]], Empty=[], Geese=[["Grey"]]))

    assert read.text == "# Ducks\n\nYear | Count\n\nYear: 2024; Count: 7.5\n\n# Geese\n\nGrey"
    assert (read.title, read.document_type, read.modified) == ("The tide", "xlsx", "2024-06-01T10:00:00Z")


@pytest.mark.parametrize("filename", ["book.xlsx", "book.xls", "book.ods"])
@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 4, a_zip({"a": "b"}), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)]
)
def test_a_broken_book_is_damaged(filename: str, data: bytes) -> None:
    with pytest.raises(Rejected, match=rf"^{filename.replace('.', '[.]')} is damaged: ") as caught:
        _read(data, filename)

    assert caught.value.code == "damaged"


def test_a_header_of_two_rows_names_groups_and_a_merged_cell_counts_for_all_that_it_covers() -> None:
    rows: list[list[str | float]] = [
        ["", "Tides of the year", "", "", "", ""],
        ["", "Coast", "Port", "High", "", "Low"],
        ["", "", "", "Plan", "Seen", "Seen"],
        ["", "West", "Bath", 4, 5, 0.1 + 0.2],
        ["", "", "Barry", 6, "none", ""],
    ]

    read = _read(an_xlsx(Levels=rows, merged=["B1:F1", "B2:B3", "C2:C3", "D2:E2", "B4:B5", "E5:F5"]))

    assert read.text.split("\n\n") == [
        "# Levels",
        "Tides of the year",
        "Coast | Port | High Plan | High Seen | Low Seen",
        "Coast: West; Port: Bath; High Plan: 4; High Seen: 5; Low Seen: 0.3",
        "Coast: West; Port: Barry; High Plan: 6; High Seen: none; Low Seen: none",
    ]


def test_boxes_follow_the_rows_of_their_sheet() -> None:
    assert _read(an_xlsx(One=[["Port"]], box="High water")).text == "# One\n\nPort\n\nHigh water"


@pytest.mark.parametrize("beside", ["D1:D3", "D2:E2", "B2:D4"])
def test_an_empty_merged_cell_beside_the_data_changes_nothing(beside: str) -> None:
    rows: list[list[str | float]] = [["Year", "Count"], [2024, 7], [2025, 8]]

    assert _read(an_xlsx(Ducks=rows, merged=[beside])).text == _read(an_xlsx(Ducks=rows)).text


def test_a_merged_block_counts_for_each_row_and_column_that_it_covers() -> None:
    rows: list[list[str | float]] = [["Deck", "", "Side", "Price"]]
    rows += [["Low", "", "in", 5], ["", "", "out", 6], ["High", "", "in", 8], ["", "", "out", 9]]

    read = _read(an_xlsx(Cabins=rows, merged=["A1:B1", "A2:B3", "A4:B5"]))

    assert read.text.split("\n\n")[-1] == "Deck: High; Side: out; Price: 9"


def test_hidden_sheets_are_left_out_with_a_note() -> None:
    data = _changed(
        an_xlsx(Ducks=[["Grey"]], Geese=[["White"]]), "xl/workbook.xml", '"Geese"', '"Geese" state="hidden"'
    )

    read = _read(data)

    assert read.text == "# Ducks\n\nGrey"
    assert [(each.code, each.place) for each in read.notes] == [("hidden", "Geese")]


def _changed(data: bytes, part: str, before: str, after: str) -> bytes:
    parts = parts_of(data)
    text = parts[part].decode()
    assert before in text
    return a_zip(parts | {part: text.replace(before, after)})


def _biff(kind: int, layout: str = "", *values: int, text: bytes = b"") -> bytes:
    content = struct.pack(f"<{layout}", *values) + text
    return struct.pack("<HH", kind, len(content)) + content


def _old_book(sheet: bytes, names: bytes = b"") -> bytes:
    begin = _biff(0x809, "8H", 0x600, 5, 0, 0, 0, 0, 0, 0) + names
    at = len(begin) + len(_biff(0x85, "IHBB", 0, 0, 1, 0, text=b"A")) + 4
    book = begin + _biff(0x85, "IHBB", at, 0, 1, 0, text=b"A") + _biff(0x0A) + sheet
    return an_ole("Workbook", book.ljust(4096, b"\0"))


def _old_sheet(rows: list[list[str]], *records: bytes) -> bytes:
    cells = [(row, at, text.encode()) for row, each in enumerate(rows) for at, text in enumerate(each) if text]
    return b"".join(
        [
            _biff(0x809, "8H", 0x600, 0x10, 0, 0, 0, 0, 0, 0),
            _biff(0x200, "IIHHH", 0, len(rows), 0, len(rows[0]), 0),
            *(_biff(0x204, "4HB", row, at, 0, len(text), 0, text=text) for row, at, text in cells),
            *records,
            _biff(0x0A),
        ]
    )


def _range(name: bytes, sheet: int = 1) -> bytes:
    formula = b"\x3b" + struct.pack("<5H", 0, 0, 0, 0, 255)
    return _biff(0x18, "H2B3H4B", 0x20, 0, 1, len(formula), 0, sheet, 0, 0, 0, 0, text=b"\0" + name + formula)


@pytest.mark.parametrize(
    ("records", "names", "headed"),
    [
        (b"", b"", False),
        (_biff(0x23E, "3HIHHI", 0x6BE, 0, 0, 64, 0, 0, 0) + _biff(0x41, "4HB", 0, 1, 1, 0, 2), b"", True),
        (_biff(0x23E, "3HIHHI", 0x6B6, 0, 0, 64, 0, 0, 0) + _biff(0x41, "4HB", 0, 1, 1, 0, 2), b"", False),
        (b"", _range(b"\x0d"), True),
        (b"", _range(b"\x07"), True),
        (b"", _range(b"\x0d", sheet=2), False),
    ],
)
def test_a_row_of_an_old_book_that_is_frozen_filtered_or_printed_on_each_page_is_the_header(
    records: bytes, names: bytes, headed: bool
) -> None:
    crew = [["Duty", "Bosun", "Deck"], ["A1", "Anna", "Lower"], ["B2", "Olof", "Upper"], ["C3", "Mia", "Lower"]]

    read = _read(_old_book(_old_sheet(crew, records), names), "book.xls")

    assert ("Duty: B2; Bosun: Olof; Deck: Upper" in read.text) is headed


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (b"\x17\x12\x00https://a.example/\x17\x04\x00open\x42\x02", "[open](https://a.example/)"),
        (b"\x17\x12\x00https://a.example/\x44\x00\x00\x00\xc0\x42\x02", "[open](https://a.example/)"),
        (b"\x17\x12\x00https://a.example/\x42\x01", "[open](https://a.example/)"),
        (b"\x17\x12\x00https://a.example/\x44\x00\x00\x00\xc0\x08\x42\x01", "open"),
        (b"\x17\x12\x00script:alert(1);;\x42\x01", "open"),
    ],
)
def test_the_address_of_a_link_that_is_a_formula_is_kept_in_an_old_book(arguments: bytes, shown: str) -> None:
    formula = arguments + b"\x67\x01"
    stored = _biff(0x207, "HB", 4, 0, text=b"open")
    cell = _biff(0x06, "3H6BHHIH", 1, 1, 0, *bytes(6), 0xFFFF, 0, 0, len(formula), text=formula) + stored

    read = _read(_old_book(_old_sheet([["Part", "Page"], ["Crane", ""], ["Boat", "none"]], cell)), "book.xls")

    assert read.text.split("\n\n")[2] == f"Part: Crane; Page: {shown}"


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("https://a.example/b", "[Crane](https://a.example/b)"),
        ("javascript:alert(1)", "Crane"),
        ("https://a.example/b) [c](d", "Crane"),
    ],
)
def test_hidden_rows_and_columns_of_an_old_book_are_left_out_and_its_links_are_kept(link: str, shown: str) -> None:
    moniker = bytes.fromhex("e0c9ea79f9bace118c8200aa004ba90b") + struct.pack("<I", 2 * len(link) + 2)
    address = moniker + f"{link}\0".encode("utf-16-le")
    cells = [(0, 0, "Part"), (0, 1, "SECRET"), (1, 0, "Crane"), (2, 0, "GHOST"), (3, 0, "Boat")]
    sheet = b"".join(
        [
            _biff(0x809, "8H", 0x600, 0x10, 0, 0, 0, 0, 0, 0),
            _biff(0x7D, "6H", 1, 1, 2000, 0, 1, 0),
            _biff(0x200, "IIHHH", 0, 4, 0, 2, 0),
            *(_biff(0x208, "6HI", row, 0, 2, 255, 0, 0, 0x120 if row == 2 else 0x100) for row in range(4)),
            *(_biff(0x204, "4HB", row, at, 0, len(text), 0, text=text.encode()) for row, at, text in cells),
            _biff(0x1B8, "4H", 1, 1, 0, 0, text=bytes(24) + address),
            _biff(0x0A),
        ]
    )
    read = _read(_old_book(sheet), "book.xls")

    assert read.text == f"# A\n\nPart\n\n{shown}\n\nBoat"
    assert [note.code for note in read.notes] == ["hidden"]
