"""Reads PDF with pdfium, or with pypdf if pdfium can't open the file. Page breaks are recorded."""

import io
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from services.ingest_worker.extract import limits, ocr
from services.ingest_worker.extract.clean import cleaned, one_line
from services.ingest_worker.extract.declared import own_title
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports, laid_out
from shared.contracts import Note
from shared.errors import Rejected

# pdfium writes U+FFFE for a hyphen at the end of a line. The hyphen belongs to the word if a digit or a capital
# follows, or if the word has another hyphen (470-E, touch-and-go). Otherwise it only divided the word.
_BROKEN = re.compile("(?<=(.))\ufffe(?:\r?\n)?(?=(\\S{0,99}))")
_LIGATURES = re.compile(
    "[\ufb00-\ufb06\ufb13-\ufb17\ufb50-\ufdcf\ufdf0-\ufdfb\ufe70-\ufefc]++"
)  # Latin, Armenian, Arabic forms
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?")
_HEADINGS = 2_000  # headings read from an outline; a longer one is not a table of contents
_HEADING_LINES = 3
_SCALE = 150 / 72  # pixels per point: 150 dpi; at 200 dpi, OCR finds no more and takes longer
_LANGUAGE_BYTES = 200
_FEW = 200  # characters; a page with fewer, and an image over half of it, is a scan with a stamp or a page number


class _Heading(NamedTuple):
    page: int
    level: int  # 0 is the highest
    title: str


class _Refused(Exception):  # noqa: N818 - says what the reader did
    """The library could not open the file; `locked` if only a password is missing."""

    def __init__(self, *, locked: bool) -> None:
        super().__init__()
        self.locked = locked


class _Read(NamedTuple):
    """What a library read from the file."""

    pages: list[str | None]  # None for a page that can't be read
    says: dict[str, str]
    outline: list[_Heading]
    images: Sequence[int] = ()  # numbers from 0 of the pages that need OCR
    unseen: int = 0  # pages that need OCR and were left out for lack of time
    late: int = 0  # pages at the end that were left out for lack of time


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text of all pages, joined by blank lines, with the titles of the outline as headings.

    Pages without text are read with OCR if the `ocr` extra is installed.

    Raises:
        Rejected: code `password`, `damaged`, `timeout` or `too_large`; `empty`: no page has text.
    """
    try:
        found = _by_pdfium(data, hints)
    except _Refused as refused:
        if refused.locked:
            raise Rejected(f"{hints.name} is locked by a password", "password") from None
        found = _by_pypdf(data, hints)
    pages = found.pages
    texts = [None if page is None else cleaned(_joined(page)) for page in pages]
    if not any(texts):
        if found.late or found.unseen:
            raise Rejected(f"{hints.name} took longer than {limits.seconds()} to read", "timeout")
        if not pages or all(page is None for page in pages):
            raise Rejected(f"{hints.name} is damaged: none of its {len(pages)} pages can be read", "damaged")
        images = f"{len(pages)} page image{'s' if len(pages) > 1 else ''}"
        advice = "" if ocr.installed() else f", {ocr.INSTALL}"
        raise Rejected(f"{hints.name} holds no text, only {images}{advice}", "empty")
    text, starts = laid_out(_with_headings([page or "" for page in texts], found.outline))
    read_to = len(texts) - found.late
    notes = [
        Note(code="damaged", place=f"page {number}", message="the page could not be read")
        for number, page in enumerate(texts[:read_to], 1)
        if page is None
    ]
    if found.late:
        message = f"the last {found.late} of {len(texts)} pages were not read within {limits.seconds()}"
        notes.append(Note(code="timeout", place=f"page {read_to + 1}", message=message))
    if found.images and not ocr.installed():
        message = f"{len(found.images)} of {len(texts)} pages are images, {ocr.INSTALL}"
        notes.append(Note(code="picture", place=f"page {found.images[0] + 1}", message=message))
    elif found.unseen:
        message = f"{found.unseen} of {len(found.images)} page images could not be read within {limits.seconds()}"
        notes.append(Note(code="timeout", place=f"page {found.images[-found.unseen] + 1}", message=message))
    return Extraction(
        text=text,
        document_type="pdf",
        title=own_title(found.says.get("Title")),
        description=own_title(found.says.get("Subject"), 2000),
        language=one_line(found.says.get("Lang"), 35),
        pages=starts,
        created=_date(found.says.get("CreationDate")),
        modified=_date(found.says.get("ModDate")),
        notes=tuple(notes),
    )


def _with_headings(pages: list[str], outline: Sequence[_Heading]) -> list[str]:
    """Return the pages with the outline's titles as Markdown headings; titles that no line matches are ignored."""
    lines_of: dict[int, list[str]] = {}
    for heading in outline:
        if not 0 <= heading.page < len(pages):
            continue
        wanted = _letters(heading.title)
        lines = lines_of.setdefault(heading.page, pages[heading.page].split("\n"))
        for at in range(len(lines) if wanted else 0):
            if lines[at].startswith("#"):
                continue
            for count in range(1, _HEADING_LINES + 1):  # a long title covers several lines
                if _letters("".join(lines[at : at + count])) == wanted:
                    title = " ".join(" ".join(lines[at : at + count]).split())
                    lines[at : at + count] = [f"\n{'#' * min(heading.level + 1, 6)} {title}\n"]
                    break
            else:
                continue
            break
    for number, lines in lines_of.items():
        pages[number] = "\n".join(lines).strip("\n").replace("\n\n\n", "\n\n")
    return pages


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _date(stamp: str | None) -> str | None:
    match = _DATE.match(stamp or "")
    if match is None:
        return None
    year, month, day, *clock = match.groups()
    time = ":".join(clock) if all(clock) else ""
    return "-".join(filter(None, (year, month, day))) + (f"T{time}" if month and day and time else "")


def _joined(page: str) -> str:
    if "\ufffe" in page:
        page = _BROKEN.sub(_hyphen, page)
    return page if page.isascii() else _LIGATURES.sub(lambda form: unicodedata.normalize("NFKC", form[0]), page)


def _hyphen(match: re.Match[str]) -> str:
    before, rest = match[1], match[2]
    belongs = before.isdigit() or not rest or not rest[0].islower() or "-" in rest.rstrip("-\ufffe")
    return "-" if belongs else ""


def _by_pdfium(data: bytes, hints: Hints) -> _Read:
    import pypdfium2  # native code that only parser processes load
    import pypdfium2.raw

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise _Refused(locked=getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD) from error
    try:
        pages: list[str | None] = []
        images = []
        late = 0
        limits.check_pages(hints.name, len(document))  # before any page costs time
        limits.earn(pages=len(document))
        filled = document.get_formtype() != pypdfium2.raw.FORMTYPE_NONE
        for number in range(len(document)):
            if limits.spent():
                late = len(document) - number
                pages += [None] * late
                break
            text, is_image = _page(document, number, filled=filled)
            pages.append(text)
            if is_image:
                images.append(number)
        unseen = _recognise(document, images, pages) if images and ocr.installed() else 0
        says = document.get_metadata_dict() | {"Lang": _language(document)}
        return _Read(pages, says, _outline(document), images, unseen, late)
    finally:
        document.close()


def _outline(document: Any) -> list[_Heading]:
    headings: list[_Heading] = []
    try:
        for entry in islice(document.get_toc(), _HEADINGS):
            target = entry.get_dest()
            page = None if target is None else target.get_index()
            if page is not None:
                headings.append(_Heading(page, entry.level, entry.get_title()))
    except Exception:  # noqa: BLE001 - a broken outline must not cost the text
        return headings
    return headings


def _recognise(document: Any, images: Sequence[int], pages: list[str | None]) -> int:
    """Put the OCR text of the page images into `pages`; return how many were left out for lack of time."""
    ocr.begin(len(images))
    for done, number in enumerate(images):
        if limits.spent():
            return len(images) - done
        page = document[number]
        try:
            width, height = page.get_size()
            scale = min(_SCALE, (ocr.PIXELS / max(width * height, 1)) ** 0.5)
            seen = ocr.text_of(page.render(scale=scale, rev_byteorder=True).to_numpy()[:, :, :3])
            pages[number] = max(seen, pages[number] or "", key=len)
        finally:
            page.close()
    return 0


def _page(document: Any, number: int, *, filled: bool) -> tuple[str | None, bool]:
    """Return the page's text, None if it can't be read, and whether the page needs OCR.

    With `filled`, the values of form fields become text, too.
    """
    import pypdfium2
    import pypdfium2.raw as pdfium

    try:
        page = document[number]
        try:
            if filled and pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY) == pdfium.FLATTEN_SUCCESS:
                page.close()
                page = document[number]
            text: str = page.get_textpage().get_text_range()
            shows = len(text) < _FEW and _shows(page, blank=not text.strip())
        finally:
            page.close()  # closes its text page as well
    except pypdfium2.PdfiumError:
        return None, False
    return text, shows


def _shows(page: Any, *, blank: bool) -> bool:
    """Return whether the page needs OCR: a page without text shows something, or an image covers half of the page."""
    import pypdfium2.raw as pdfium

    if blank:
        return bool(pdfium.FPDFPage_CountObjects(page) > 0)
    width, height = page.get_size()
    pictures = (each.get_bounds() for each in page.get_objects([pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=2))
    return any(2 * (right - left) * (top - bottom) > width * height for left, bottom, right, top in pictures)


def _language(document: Any) -> str:
    import pypdfium2.raw as pdfium

    size = pdfium.FPDFCatalog_GetLanguage(document, None, 0)
    if not 0 < size <= _LANGUAGE_BYTES:
        return ""
    buffer = (pdfium.FPDF_WCHAR * (size // 2))()
    pdfium.FPDFCatalog_GetLanguage(document, buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")


def _by_pypdf(data: bytes, hints: Hints) -> _Read:
    from pypdf import PdfReader  # takes half a second, so only parser processes import it
    from pypdf.errors import DependencyError, FileNotDecryptedError

    try:
        reader = PdfReader(io.BytesIO(data))
        limits.check_pages(hints.name, len(reader.pages))
        pages = [_attempt(page.extract_text) for page in reader.pages]
        title = _attempt(lambda: reader.metadata.title if reader.metadata else None)
        return _Read(pages, {"Title": title} if title else {}, [])
    except Rejected:
        raise
    except (DependencyError, FileNotDecryptedError):
        raise Rejected(f"{hints.name} is locked by a password", "password") from None
    except Exception as error:  # on a damaged file pypdf raises KeyError, RecursionError and others
        raise Rejected(f"{hints.name} is damaged: not a readable PDF", "damaged") from error


def _attempt(give: Callable[[], str | None]) -> str | None:
    try:
        return give()
    except Exception:  # noqa: BLE001 - as above: one damaged page must not cost the others
        return None


FORMAT = Format(
    document_type="pdf",
    text_format="sections",
    media_types=frozenset({"application/pdf", "application/x-pdf"}),
    suffixes=frozenset({".pdf"}),
    sniff=lambda data: b"%PDF-" in data[:1024],
    read=read,
    warm=imports("pypdf", "pypdfium2"),
    libraries=("pypdf", "pypdfium2", "rapidocr"),
)
