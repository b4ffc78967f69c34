import io
import struct
import zipfile

import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.sparse_sheets import book_moved_together, moved_together
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_zip, an_ole, an_xlsx, parts_of

_HINTS = Hints(filename="book.xlsx")


def _with_cells(*rows: str) -> bytes:
    book = zipfile.ZipFile(io.BytesIO(an_xlsx(A=[["near"]])))
    parts: dict[str, bytes | str] = {name: book.read(name) for name in book.namelist()}
    sheet = book.read("xl/sheet1.xml").replace(b"</sheetData>", "".join(rows).encode() + b"</sheetData>")
    return a_zip({**{name: data for name, data in parts.items() if name != "xl/sheet1.xml"}, "xl/sheet1.xml": sheet})


@pytest.mark.parametrize("row", ["", ' r="1048576"'])
@pytest.mark.parametrize("place", ["XFD1048576", "xfd1048576"])
def test_a_cell_in_the_far_corner_is_read_like_any_other(row: str, place: str) -> None:
    read = extract(_with_cells(f'<row{row}><c r="{place}"><v>7</v></c></row>'), _HINTS)

    assert read.text == "# A\n\nnear\n\n7"


def test_rows_keep_their_order_and_one_blank_row_between_tables() -> None:
    cells = ['<row r="900000"><c r="A900000"><v>2</v></c><c r="ZZ900000"><v>3</v></c></row>']
    cells += ['<row r="900001"><c r="A900001"><v>4</v></c><c><v>5</v></c></row>']

    assert extract(_with_cells(*cells), _HINTS).text == "# A\n\nnear\n\n2 | 3\n\n4 | 5"


def test_links_and_hidden_places_move_with_the_cells() -> None:
    rows = (
        '<row r="3" hidden="1"/><row r="900000"><c r="A900000"><v>2</v></c><c r="ZZ900000"><v>3</v></c></row>'
        '<row r="900001" hidden="1"><c r="A900001"><v>4</v></c></row>'
        '<row r="900002"><c r="A900002"><v>5</v></c><c r="AAA900002"><v>6</v></c></row>'
    )
    links = "".join(f'<hyperlink ref="{place}" r:id="{place}"/>' for place in ("A3", "ZZ900000"))
    targets = "".join(
        f'<Relationship Id="{place}" Type="x/hyperlink" Target="https://{place}.example" TargetMode="External"/>'
        for place in ("A3", "ZZ900000")
    )
    parts = parts_of(_with_cells(rows))
    sheet = (
        parts["xl/sheet1.xml"]
        .decode()
        .replace("<sheetData>", '<cols><col min="703" max="703" hidden="1"/></cols><sheetData>')
    )
    sheet = sheet.replace("</worksheet>", f'<hyperlinks xmlns:r="urn:r">{links}</hyperlinks></worksheet>')
    data = a_zip(
        parts | {"xl/sheet1.xml": sheet, "xl/_rels/sheet1.xml.rels": f"<Relationships>{targets}</Relationships>"}
    )

    read = extract(data, _HINTS)

    assert read.text == "# A\n\nnear\n\n2 | [3](https://ZZ900000.example)\n\n5"
    assert [note.code for note in read.notes] == ["hidden"]


def test_a_hidden_column_of_a_binary_sheet_moves_with_its_cells() -> None:
    column = _record(60, struct.pack("<4IH", 16_383, 16_383, 2000, 0, 1))
    cells = [(0, 0, "near"), (900_000, 1, "far"), (900_000, 16_383, "SECRET"), (1_048_575, 1, "last")]

    assert extract(_xlsb(cells, before=column), _BINARY).text == "# A\n\nnear\n\nfar\n\nlast"


def test_a_sheet_that_is_not_far_apart_stays_as_it_is() -> None:
    data = _with_cells('<row r="1000000"><c r="B1000000"><v>2</v></c></row>')

    assert moved_together([("xl/sheet1.xml", parts_of(data)["xl/sheet1.xml"])], _HINTS) == {}


def test_a_diagonal_of_cells_is_too_large() -> None:
    rows = (f'<row><c r="{_column(at)}{at * 60}"><v>1</v></c></row>' for at in range(1, 3_000))

    with pytest.raises(Rejected) as refused:
        extract(_with_cells(*rows), _HINTS)

    assert refused.value.code == "too_large"


def _column(number: int) -> str:
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def test_a_far_cell_of_a_binary_sheet_is_read_like_any_other() -> None:
    cells = [(0, 0, "near"), (0, 3, "by"), (900_000, 16_383, "far"), (1_048_575, 1, "last")]

    assert extract(_xlsb(cells), _BINARY).text == "# A\n\nnear | by\n\nfar\n\nlast"


def test_a_binary_sheet_that_is_not_far_apart_stays_as_it_is() -> None:
    data = _xlsb([(0, 0, "near"), (1_000_000, 1, "far")])

    assert moved_together([(_SHEET, parts_of(data)[_SHEET])], _BINARY) == {}


def test_a_diagonal_of_cells_in_a_binary_sheet_is_too_large() -> None:
    with pytest.raises(Rejected) as refused:
        extract(_xlsb([(60 * at, at, "1") for at in range(3_000)]), _BINARY)

    assert refused.value.code == "too_large"


def test_hidden_rows_and_columns_of_a_binary_sheet_are_left_out() -> None:
    cells = [(0, 0, "Part"), (0, 1, "SECRET"), (1, 0, "GHOST"), (2, 0, "Boat")]
    column = _record(60, struct.pack("<4IH", 1, 1, 2000, 0, 1))

    read = extract(_xlsb(cells, hidden=1, before=column), _BINARY)

    assert read.text == "# A\n\nPart\n\nBoat"
    assert [note.code for note in read.notes] == ["hidden"]


@pytest.mark.parametrize("end", [1, 2, 3, 5, 9, 40])
def test_a_binary_sheet_that_ends_too_early_is_read_or_refused(end: int) -> None:
    sheet = zipfile.ZipFile(io.BytesIO(_xlsb([(0, 0, "near"), (1_048_575, 16_383, "far")]))).read(_SHEET)

    assert set(moved_together([(_SHEET, sheet[:-end])], _BINARY)) <= {_SHEET}


def test_a_far_cell_of_an_old_sheet_is_read_like_any_other() -> None:
    cells = [(0, 0, "1"), (0, 3, "2"), (30_000, 7, "3"), (30_000, 8, "4"), (65_535, 255, "5")]
    merged = _old_record(0xE5, struct.pack("<HHHHH", 1, 30_000, 30_000, 7, 8))

    assert extract(_xls(cells, merged), _OLD).text == "# A\n\n1 | 2\n\n3 | 4\n\n5"


def test_a_record_of_many_cells_is_moved_whole() -> None:
    numbers = b"".join(struct.pack("<HI", 0, number << 2 | 2) for number in (7, 8, 9))
    many = _old_record(0xBD, struct.pack("<HH", 60_000, 200) + numbers + struct.pack("<H", 202))

    assert extract(_xls([(0, 0, "1"), (0, 201, "2"), (65_535, 255, "5")], many), _OLD).text.split("\n\n")[2:] == [
        "7 | 8 | 9",
        "5",
    ]


def test_an_old_sheet_that_is_not_far_apart_or_broken_stays_as_it_is() -> None:
    near = _xls([(0, 0, "1"), (65_535, 70, "2")])
    broken = [near[:512], near[:3_000], an_ole("Workbook", bytes(5_000)), an_ole("Workbook", b"\x85\0\4\0\1" * 1_000)]

    assert [book_moved_together(data, _OLD) for data in (near, *broken)] == [near, *broken]


def test_a_diagonal_of_cells_in_an_old_sheet_is_too_large() -> None:
    with pytest.raises(Rejected) as refused:
        extract(_xls([(2 * at, at % 256, "1") for at in range(32_000)]), _OLD)

    assert refused.value.code == "too_large"


def test_a_value_that_is_an_error_is_shown_in_an_old_sheet() -> None:
    stored = _old_record(0x205, struct.pack("<HHHBB", 1, 0, 0, 42, 1)) + _old_record(
        0x205, struct.pack("<HHHBB", 1, 2, 0, 1, 0)
    )
    failed = _old_record(0x06, struct.pack("<HHHBBBBBBHHIH", 2, 0, 0, 2, 0, 7, 0, 0, 0, 0xFFFF, 0, 0, 0))

    assert extract(_xls([(0, 0, "1"), (3, 1, "2")], stored + failed), _OLD).text.split("\n\n")[1:] == [
        "1",
        "#N/A | TRUE",
        "#DIV/0!",
        "2",
    ]


def test_a_value_that_is_an_error_is_shown_in_a_binary_sheet() -> None:
    row = _record(0, struct.pack("<I7xB5x", 1, 0))
    errors = _record(3, struct.pack("<IIB", 0, 0, 42)) + _record(11, struct.pack("<IIBHI", 1, 0, 23, 0, 0))
    sheet = _record(129) + _record(148, struct.pack("<IIII", 0, 1, 0, 1)) + _record(145)
    first = _record(0, struct.pack("<I7xB5x", 0, 0)) + b"".join(
        _record(6, struct.pack("<II", at, 0) + _text("Kai")) for at in (0, 1)
    )

    assert extract(_book(sheet + first + row + errors + _record(146) + _record(130)), _BINARY).text == (
        "# A\n\nKai | Kai\n\nKai: #N/A; Kai: #REF!"
    )


_OLD = Hints(filename="book.xls")


def _xls(cells: list[tuple[int, int, str]], more: bytes = b"") -> bytes:
    """Return a workbook of Excel 97 whose sheet A has the numbers: row, column and value; then `more` records."""
    begins = [_old_record(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 1997, 0, 0x600)) for kind in (5, 0x10)]
    end = _old_record(0x0A)
    start = len(begins[0]) + 4 + 9 + len(end)
    listed = _old_record(0x85, struct.pack("<IHBB", start, 0, 1, 0) + b"A")
    rows, columns = 1 + max(row for row, _, _ in cells), 1 + max(column for _, column, _ in cells)
    sheet = _old_record(0x200, struct.pack("<IIHHH", 0, rows, 0, columns, 0))
    values = [_old_record(0x203, struct.pack("<HHHd", row, column, 0, float(value))) for row, column, value in cells]
    last = values.pop()
    return an_ole("Workbook", b"".join([begins[0], listed, end, begins[1], sheet, *values, more, last, end]))


def _old_record(kind: int, content: bytes = b"") -> bytes:
    return struct.pack("<HH", kind, len(content)) + content


_BINARY = Hints(filename="book.xlsb")
_SHEET = "xl/worksheets/sheet1.bin"


def _xlsb(cells: list[tuple[int, int, str]], hidden: int = -1, before: bytes = b"") -> bytes:
    """Return a binary workbook whose sheet A has the cells: row, column and text; `before` is before them."""
    content, row = b"", -1
    for at, column, text in cells:
        content += _record(0, struct.pack("<I7xB5x", at, 16 * (at == hidden))) if at != row else b""
        content += _record(6, struct.pack("<II", column, 0) + _text(text))
        row = at
    size = struct.pack("<IIII", 0, max(at for at, _, _ in cells), 0, max(column for _, column, _ in cells))
    begin = _record(129) + _record(148, size) + before + _record(145)
    return _book(begin + content + _record(146) + _record(130))


def _book(sheet: bytes) -> bytes:
    listed = _record(156, struct.pack("<II", 0, 1) + _text("rId1") + _text("A"))
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"
    relation = f'<Relationship Id="rId1" Type="{kind}" Target="worksheets/sheet1.bin"/>'
    relations = f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{relation}'
    book = b"".join([_record(131), _record(143), listed, _record(144), _record(132)])
    return a_zip({"xl/workbook.bin": book, "xl/_rels/workbook.bin.rels": f"{relations}</Relationships>", _SHEET: sheet})


def _record(kind: int, content: bytes = b"") -> bytes:
    assert len(content) < 128
    begins = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
    return begins + bytes([len(content)]) + content


def _text(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")
