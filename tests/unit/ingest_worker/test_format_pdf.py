import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from services.ingest_worker.extract.formats.pdf import FORMAT, _joined
from shared.errors import Rejected
from tests.unit.ingest_worker.files import a_pdf, locked


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="report.pdf", media_type="application/pdf"))


def test_pages_are_kept_by_their_offsets() -> None:
    read = _read(a_pdf("First page,\nsecond line.", "", "Third page.", title="Annual report"))

    assert read.text == "First page,\nsecond line.\n\nThird page."
    assert read.pages == (0, 26, 26)
    assert (read.title, read.document_type, read.note) == ("Annual report", "pdf", None)
    assert FORMAT.pages(a_pdf("a", "b", "c")) == 3


@pytest.mark.parametrize(
    ("title", "expected"),
    [("Microsoft Word - Budget", "Budget"), ("Microsoft Word - budget.docx", "report"), ("untitled", "report")],
)
def test_a_title_left_by_a_tool_is_none(title: str, expected: str) -> None:
    assert _read(a_pdf("Text.", title=title)).title == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("a fundamen\ufffetal step", "a fundamental step"),
        ("a fundamen\ufffe\r\ntal step", "a fundamental step"),
        ("third touch\ufffeand-go", "third touch-and-go"),
        ("Motors IO\ufffe470-E", "Motors IO-470-E"),
        ("the 20\ufffeyear term", "the 20-year term"),
        ("Anglo\ufffeSaxon", "Anglo-Saxon"),
        ("at the end\ufffe", "at the end-"),
        ("\ufb01nd the \ufb02oor, x² stays", "find the floor, x² stays"),
    ],
)
def test_broken_words_are_joined_and_ligatures_opened(page: str, expected: str) -> None:
    assert _joined(page) == expected


def test_a_locked_pdf_is_refused_as_such() -> None:
    with pytest.raises(Rejected, match=r"^report\.pdf is locked by a password$") as caught:
        _read(locked(a_pdf("Secret."), "s3cret"))

    assert caught.value.code == "password"


def test_an_empty_password_locks_nothing() -> None:
    assert _read(locked(a_pdf("Open."), "")).text == "Open."


@pytest.mark.parametrize(("pages", "images"), [(1, "1 page image"), (12, "12 page images")])
def test_a_scan_is_refused_with_the_number_of_its_pages(pages: int, images: str) -> None:
    with pytest.raises(Rejected, match=rf"^report\.pdf holds no text, {images}$") as caught:
        _read(a_pdf(*[""] * pages))

    assert caught.value.code == "empty"


@pytest.mark.parametrize("data", [b"%PDF-1.7\n%%EOF", b"%PDF-1.4\n" + bytes(range(256)) * 8, a_pdf("x" * 500)[:300]])
def test_a_broken_pdf_is_damaged(data: bytes) -> None:
    with pytest.raises(Rejected, match=r"^report\.pdf is damaged: ") as caught:
        _read(data)

    assert caught.value.code == "damaged"


def test_what_pdfium_refuses_pypdf_may_read() -> None:
    headless = a_pdf("Still readable.", title="Rescued").replace(b"%PDF-1.4", b"%XXX-1.4")

    read = _read(headless)

    assert (read.text, read.title, read.pages) == ("Still readable.", "Rescued", (0,))
