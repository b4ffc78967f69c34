"""PDF: pdfium, and pypdf behind it for what pdfium refuses. Page borders are kept."""

import importlib
import io
import re
import unicodedata
from collections.abc import Callable
from typing import Any

from services.ingest_worker.extract.clean import cleaned, one_line
from services.ingest_worker.extract.format import Extraction, Format, Hints, laid_out
from shared.errors import Rejected

# pdfium puts U+FFFE for a hyphen at a line's end. It belongs to the word where a number or a capital
# follows, or where the word has another one (470-E, touch-and-go); else it only broke the word.
_BROKEN = re.compile("(?<=(.))\ufffe(?:\r?\n)?(?=(\\S*))")
_LIGATURES = re.compile(
    "[\ufb00-\ufb06\ufb13-\ufb17\ufb50-\ufdcf\ufdf0-\ufdfb\ufe70-\ufefc]++"
)  # Latin, Armenian, Arabic forms
_TOOL_IN_TITLE = re.compile(r"^Microsoft \w+ - ")
_NO_TITLE = re.compile(r"(?i)untitled|.*\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|graffle|pdf|qxd|pmd)")


class _Refused(Exception):  # noqa: N818 - says what the reader did
    """A reader could not open the file; `locked` when a password is all that is missing."""

    def __init__(self, *, locked: bool) -> None:
        super().__init__()
        self.locked = locked


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text of all pages, a blank line between them.

    Raises:
        Rejected: code `password`, `damaged`, or `empty` where no page has a text layer.
    """
    try:
        pages, title = _by_pdfium(data)
    except _Refused as refused:
        if refused.locked:
            raise Rejected(f"{hints.name} is locked by a password", "password") from None
        pages, title = _by_pypdf(data, hints)
    texts = [None if page is None else cleaned(_joined(page)) for page in pages]
    if not any(texts):
        if not pages or all(page is None for page in pages):
            raise Rejected(f"{hints.name} is damaged: none of its {len(pages)} pages can be read", "damaged")
        images = f"{len(pages)} page image{'s' if len(pages) > 1 else ''}"
        raise Rejected(f"{hints.name} holds no text, {images}", "empty")
    text, starts = laid_out([page or "" for page in texts])
    unread = texts.count(None)
    return Extraction(
        text=text,
        document_type="pdf",
        title=_title(title),
        pages=starts,
        note=f"{unread} of {len(texts)} pages could not be read" if unread else None,
    )


def _joined(page: str) -> str:
    if "\ufffe" in page:
        page = _BROKEN.sub(_hyphen, page)
    return _LIGATURES.sub(lambda form: unicodedata.normalize("NFKC", form[0]), page)


def _hyphen(match: re.Match[str]) -> str:
    before, rest = match[1], match[2]
    belongs = before.isdigit() or not rest or not rest[0].islower() or "-" in rest.rstrip("-\ufffe")
    return "-" if belongs else ""


def _title(title: str | None) -> str | None:
    line = _TOOL_IN_TITLE.sub("", one_line(title) or "")
    return None if _NO_TITLE.fullmatch(line) else line or None


def _by_pdfium(data: bytes) -> tuple[list[str | None], str | None]:
    import pypdfium2  # noqa: PLC0415 - native code that only the parser processes load
    import pypdfium2.raw  # noqa: PLC0415

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise _Refused(locked=getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD) from error
    try:
        return [_page(document, number) for number in range(len(document))], document.get_metadata_value("Title")
    finally:
        document.close()


def _page(document: Any, number: int) -> str | None:
    import pypdfium2  # noqa: PLC0415 - as above

    try:
        page = document[number]
        try:
            text: str = page.get_textpage().get_text_range()
        finally:
            page.close()  # its text page with it
    except pypdfium2.PdfiumError:
        return None
    return text


def _by_pypdf(data: bytes, hints: Hints) -> tuple[list[str | None], str | None]:
    from pypdf import PdfReader  # noqa: PLC0415 - half a second that only the parser processes pay
    from pypdf.errors import DependencyError, FileNotDecryptedError  # noqa: PLC0415

    try:
        reader = PdfReader(io.BytesIO(data))
        pages = [_attempt(page.extract_text) for page in reader.pages]
        return pages, _attempt(lambda: reader.metadata.title if reader.metadata else None)
    except (DependencyError, FileNotDecryptedError):
        raise Rejected(f"{hints.name} is locked by a password", "password") from None
    except Exception as error:  # pypdf lets KeyError, RecursionError and more past on a broken file
        raise Rejected(f"{hints.name} is damaged: not a readable PDF", "damaged") from error


def _attempt(give: Callable[[], str | None]) -> str | None:
    try:
        return give()
    except Exception:  # noqa: BLE001 - as above: one broken page must not cost the others
        return None


def _count(data: bytes) -> int:
    import pypdfium2  # noqa: PLC0415 - as above

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError:
        return 0
    try:
        return len(document)
    finally:
        document.close()


def _warm() -> None:
    for library in ("pypdf", "pypdfium2"):
        importlib.import_module(library)


FORMAT = Format(
    document_type="pdf",
    media_types=frozenset({"application/pdf", "application/x-pdf"}),
    suffixes=frozenset({".pdf"}),
    sniff=lambda data: b"%PDF-" in data[:1024],
    read=read,
    warm=_warm,
    pages=_count,
    libraries=("pypdf", "pypdfium2"),
)
