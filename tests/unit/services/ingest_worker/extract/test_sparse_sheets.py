import io
import zipfile

import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.sparse_sheets import moved_together
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_zip, an_xlsx

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


def test_a_sheet_that_is_not_far_apart_stays_as_it_is() -> None:
    data = _with_cells('<row r="1000000"><c r="B1000000"><v>2</v></c></row>')

    assert moved_together(data, ["xl/sheet1.xml"], _HINTS) == data


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
