import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from shared.errors import Rejected
from tests.unit.ingest_worker.files import a_zip, an_opendocument, an_xlsx


def _read(data: bytes, filename: str = "book.xlsx") -> Extraction:
    return extract(data, Hints(filename=filename))


def test_sheets_are_sections_and_rows_keep_their_headers() -> None:
    read = _read(an_xlsx(Ducks=[["Year", "Count"], [2024, 7.5]], Empty=[], Geese=[["Grey"]]))

    assert read.text == "# Ducks\n\nYear | Count\n\nYear: 2024; Count: 7.5\n\n# Geese\n\nGrey"
    assert (read.title, read.document_type, read.modified) == ("The tide", "xlsx", "2024-06-01T10:00:00Z")


def test_opendocument_sheets_are_read_alike() -> None:
    row = "<table:table-row>{}</table:table-row>".format
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'.format
    rows = row(cell("Year") + cell("Count")) + row(cell("2024") + cell("7"))

    read = _read(an_opendocument("spreadsheet", f'<table:table table:name="Ducks">{rows}</table:table>'), "book.ods")

    assert read.text == "# Ducks\n\nYear | Count\n\nYear: 2024; Count: 7"
    assert (read.title, read.document_type, read.language) == ("The tide", "ods", "en-GB")


@pytest.mark.parametrize("filename", ["book.xlsx", "book.xls", "book.ods"])
@pytest.mark.parametrize("data", [b"no book", a_zip({"a": "b"}), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)])
def test_a_broken_book_is_damaged(filename: str, data: bytes) -> None:
    with pytest.raises(Rejected, match=rf"^{filename.replace('.', '[.]')} is damaged: ") as caught:
        _read(data, filename)

    assert caught.value.code == "damaged"
