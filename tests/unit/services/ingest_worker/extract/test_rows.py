import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.rows import named_rows
from services.ingest_worker.extract.table_header import Covered
from tests.unit.services.ingest_worker.files import a_docx, a_drawn_pdf, an_opendocument

_PEOPLE = [["Ada Pole", "Bath", "Painter"], ["Bo Reed", "Hull", "Baker"], ["Cy Lund", "York", "Sailor"]]


def _in_word(look: str = "") -> bytes:
    def row(cells: list[str]) -> str:
        run = f"<w:r>{look if cells == _PEOPLE[0] else ''}<w:t>{{}}</w:t></w:r>"
        return f"<w:tr>{''.join(f'<w:tc><w:p>{run.format(text)}</w:p></w:tc>' for text in cells)}</w:tr>"

    return a_docx(f"<w:tbl>{''.join(map(row, _PEOPLE))}</w:tbl>")


def _in_odt() -> bytes:
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>".format
    rows = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in _PEOPLE)
    return an_opendocument("text", f"<table:table>{rows}</table:table>")


def _in_pdf() -> bytes:
    placed = [(72 + 90 * x, 700 - 20 * y, text) for y, row in enumerate(_PEOPLE) for x, text in enumerate(row)]
    boxes = (f"{70 + 90 * x} {695 - 20 * y} 90 20 re S" for x in range(3) for y in range(3))
    return a_drawn_pdf(placed, lines=" ".join(boxes))


@pytest.mark.parametrize("data", [_in_word(), _in_odt(), _in_pdf()], ids=["docx", "odt", "pdf"])
def test_no_value_becomes_a_name_where_the_first_row_looks_like_the_others(data: bytes) -> None:
    text = extract(data, Hints()).text

    assert ":" not in text
    assert "Ada Pole" not in text.partition("| --- |")[0] or "| --- |" not in text
    assert "Bath" in text


def test_a_first_row_in_bold_letters_is_the_header() -> None:
    text = extract(_in_word("<w:rPr><w:b/></w:rPr>"), Hints()).text

    assert "| Ada Pole | Bath | Painter |\n| --- |" in text


def test_a_long_row_of_one_merged_cell_is_kept() -> None:
    names = ["Station", *[f"Month {at} of the year {'as it was counted at the quay ' * 2}" for at in range(12)]]
    row = ["", "Not surveyed in 2020", *[Covered("Not surveyed in 2020")] * 11]

    assert list(named_rows([row], names)) == [f"{names[1]}: Not surveyed in 2020"]
