import io

import pypdfium2
import pypdfium2.raw as pdfium
import pytest

from services.ingest_worker.extract.pdfium_access import OpenPage, bounds, drawn
from tests.unit.services.ingest_worker.files import a_drawn_pdf, a_pdf


def test_what_is_drawn_comes_in_its_order_with_its_place() -> None:
    document = pypdfium2.PdfDocument(
        io.BytesIO(a_drawn_pdf([(72, 700, "The tide"), (72, 600, "falls")], lines="10 20 30 40 re f"))
    )
    page = document[0]

    found = list(drawn(page))

    kinds = (pdfium.FPDF_PAGEOBJ_PATH, pdfium.FPDF_PAGEOBJ_TEXT, pdfium.FPDF_PAGEOBJ_TEXT)
    assert tuple(each.kind for each in found) == kinds
    assert tuple(map(round, bounds(found[0]))) == (10, 20, 40, 60)
    assert [round(bounds(each)[0]) for each in found[1:]] == [72, 72]
    page.close()
    document.close()


def test_a_page_has_the_text_that_pypdfium2_gives_also_after_a_change() -> None:
    document = pypdfium2.PdfDocument(io.BytesIO(a_pdf("The tide falls.\nAt 9.", "")))
    first, blank = OpenPage(document, 0), OpenPage(document, 1)

    assert first.text() == document[0].get_textpage().get_text_range() == "The tide falls.\r\nAt 9."
    assert blank.text() == ""
    first.open()
    assert first.text().startswith("The tide")
    for page in (first, blank, blank):
        page.close()
    with pytest.raises(pypdfium2.PdfiumError):
        OpenPage(document, 2)
    document.close()
