import pytest

from services.ingest_worker.extract import Hints, detect, extract
from tests.unit.services.ingest_worker.files import a_docx, a_pptx, a_shape, a_zip, an_xlsx, parts_of

_PARAGRAPH = "<w:p><w:r><w:t>It rises.</w:t></w:r></w:p>"


def _renamed(data: bytes, names: dict[str, str]) -> bytes:
    """Return the container with other names for its parts, and for what refers to them by an absolute or own path."""
    parts = {}
    for name, body in parts_of(data).items():
        for before, after in names.items():
            name = name.replace(before, after)  # noqa: PLW2901 - one after the other
            body = body.replace(before.encode(), after.encode())  # noqa: PLW2901
        parts[name] = body
    return a_zip(parts)


@pytest.mark.parametrize(
    ("data", "names", "kind", "text"),
    [
        (a_docx(_PARAGRAPH), {"document.xml": "document2.xml"}, "docx", "It rises."),
        (a_pptx(a_shape("It rises.")), {"presentation.xml": "show.xml"}, "pptx", "It rises."),
        (an_xlsx(Tide=[["It rises."]]), {"workbook.xml": "book.xml"}, "xlsx", "# Tide\n\nIt rises."),
        (an_xlsx(Tide=[["It rises."]]), {"workbook.xml": "book.xml", "xl/": "data/"}, "xlsx", "# Tide\n\nIt rises."),
        (an_xlsx(Tide=[["Port"]], box="High"), {"xl/": "excel/"}, "xlsx", "# Tide\n\nPort\n\nHigh"),
    ],
)
@pytest.mark.parametrize("filename", ["a", "a.bin"])
def test_parts_are_found_by_relation_and_not_by_name(
    data: bytes, names: dict[str, str], kind: str, text: str, filename: str
) -> None:
    other = _renamed(data, names)

    assert detect(other, Hints(filename=filename)).document_type == kind
    assert extract(other, Hints(filename=filename)).text == text


def test_shared_texts_under_another_name_are_found() -> None:
    parts = parts_of(an_xlsx(Tide=[["x"]]))
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
    link = f'<Relationship Id="t" Type="{relation}" Target="texts.xml"/></Relationships>'
    listed = parts["xl/_rels/workbook.xml.rels"].decode().replace("</Relationships>", link)
    sheet = (
        f'<worksheet xmlns="{main}"><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c></row></sheetData></worksheet>'
    )
    texts = f'<sst xmlns="{main}"><si><t>It rises.</t></si></sst>'

    book = a_zip(parts | {"xl/texts.xml": texts, "xl/sheet1.xml": sheet, "xl/_rels/workbook.xml.rels": listed})

    assert extract(book, Hints(filename="a.xlsx")).text == "# Tide\n\nIt rises."


def test_a_container_without_types_is_not_recognised_by_them() -> None:
    assert detect(a_zip({"a": "b"}), Hints()).document_type == "txt"
