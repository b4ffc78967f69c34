"""Reads PDF with pdfium, or with pypdf if pdfium can't open the file. Page breaks are recorded."""

import ctypes
import io
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice, pairwise, product
from statistics import median_low
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from services.ingest_worker.extract import limits, ocr
from services.ingest_worker.extract.archive import ADDRESS
from services.ingest_worker.extract.clean import cleaned, one_line
from services.ingest_worker.extract.document_properties import own_title
from services.ingest_worker.extract.embedded_files import part_texts
from services.ingest_worker.extract.format_types import Extraction, Format, Hints, laid_out
from services.ingest_worker.extract.hidden_text import drop_hidden_text
from services.ingest_worker.extract.markdown_writer import NUMBER, framed
from services.ingest_worker.extract.page_furniture import (
    FOOTNOTE,
    Furniture,
    letters,
    with_whole_sentences,
    without_furniture,
    without_line_numbers,
)
from services.ingest_worker.extract.page_layout import INITIAL, Columns, Edge, Page, Word, headline, text_of
from services.ingest_worker.extract.pdfium_access import (
    Matrix,
    OpenPage,
    Unopened,
    bounds,
    drawn,
    on_page,
    opened,
    pdfium,
    quick,
)
from services.ingest_worker.extract.reading_direction import (
    LINE,
    RIGHT_TO_LEFT,
    as_read,
    is_from_left,
    line_as_read,
    with_inserted,
    words_as_read,
)
from shared.contracts import Note, NoteCode
from shared.errors import Rejected
from shared.text.words import folded

# pdfium writes U+FFFE for a hyphen at the end of a line. The hyphen belongs to the word if a digit or a capital
# follows, or if the word has another hyphen (470-E, touch-and-go). Otherwise it only divided the word. Behind a hyphen
# that is drawn, U+FFFE asks whether it belongs to the word.
_BROKEN = re.compile("(?<=(.))(-?)\ufffe(?:\r?\n)?(?=(\\S{0,99}))")
_HYPHENATED = re.compile(r"[^\W\d_]++(?:-[^\W\d_]++)*+")
_LONGEST_WORD = 40  # characters
_JOINS = frozenset({"and", "or", "und", "oder"})  # behind a hyphen for what follows: short- and long-term
# Latin, Armenian and Arabic forms.
_LIGATURES = re.compile("[\ufb00-\ufb06\ufb13-\ufb17\ufb50-\ufdcf\ufdf0-\ufdfb\ufe70-\ufefc]++")
_LEADERS = re.compile(r"(?:\r?\n| )?\.(?:\s*+\.){5,}+[^\S\n]*+(?:\n(?=\d))?")  # from a title to its page
# In scripts without blanks; a list's mark begins no such line.
_LINE_IN_WORDS = re.compile(
    "[\u3001\u3002\u3041-\u30fa\u30fc-\u9fff\uff09\uff0c]\n[\u3001\u3002\u300c\u3041-\u30fa\u3400-\u9fff\uff08\uff0c]"
)
_WIDE = re.compile("[\u2e80-\u9fff\uff00-\uff60]")  # as two others
_LEAST_WIDTH = 44  # of a line that goes on, in letters; names and addresses are shorter
_UNEVEN = 4  # no line begins with a full stop, so it may stand behind the others' ends, or a word before
_DOTS = re.compile(r"\.\s*+\.\s*+\.")  # few pages have three
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?")
_HEADINGS = 2_000  # headings read from an outline; a longer one is not a table of contents
_HEADING_LINES = 3
_SCALE = 150 / 72  # pixels per point: 150 dpi; at 200 dpi, OCR finds no more and takes longer
_LANGUAGE_BYTES = 200
_SAMPLE = 12  # letters of a page that tell whether its font has a meaning
# A letter alone may begin the next line's word. Marks of a list alone on their lines were drawn behind its text.
_MARK = r"(?:\d{1,3}[.)]|[•◦▪●○■]) ?"
_ALONE = re.compile(rf"\n(?:([^\W\d_])|{_MARK}\r\n{_MARK})(?:\r\n|\Z)")
_SPACED = re.compile(r"(?<!\S)[^\W\d_](?: [^\W\d_]){3,}(?!\S)")
_SPACE = 0.6  # times the size of the letters; cells are further apart, and words by a quarter of it
_LOST_SPACE = 0.12  # times their height; letters of a word stood at most 0.06 apart in 60 documents, words 0.14
_LONG_WORD = re.compile(r"\S{4,}")
_BLANK = re.compile(r"(?<=\w) (?=\w)")
# Signs that TeX draws over or under a letter, and what Unicode adds to the letter for them.
_ACCENTS = dict(
    zip("`´ˆ˜¯˘˙¨˚˝ˇ¸˛", "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327\u0328", strict=True)
)
_ORDINALS = ("st", "nd", "rd", "th")
_LINE_END = re.compile(r"(?<=\S)\r\n(?=\S)")
_ACCENT = re.compile(f"[{''.join(_ACCENTS)}]")
_MOST_ACCENTS = 5_000  # of a page
_DOTLESS = {"ı": "i", "ȷ": "j"}
_BEFORE_SIGN = re.compile(r"(?<=\w) (?=[.,;:!?])")
_SINGLE = re.compile(r" \w \w \w(?!\w)")  # few pages have such letters; finds them in a fifth of the time
_STAMP = 200  # characters; a scan's stamp or page number has fewer
_CODE = re.compile(r"(?=\D*+\d)\S++")  # a title that a machine gave: HHS2022B, 0000320193-23-000077
_NAME = re.compile(r"[^\W_]++")
_ATTACHED = 64 << 20  # bytes of embedded files that are read
_FILES = 200  # embedded files that are read
_NUMBER = re.compile(r"[0-9]++")
_MOST_MARKS = 200  # of a page
_BEFORE_MARK = frozenset(".,;:!?)”“»")  # letters go without saying
_NOTE = re.compile(r"(?:^|(?<=\n))(\d{1,3}) ?([^\W\d_])")  # with its number at the foot of a page
_NOTE_SIZE = 0.95  # times the height of most letters, at most
_SCHEME = re.compile(r"\w{1,10}:(?://(?:www\.)?)?", re.IGNORECASE)  # of an address, with what is often left out
_NEAR = 40  # characters around an address that is shown, which may have line ends in it
_ADDRESS = 2_000  # bytes of a link's address
_ANNOTATIONS = 200  # of a page that are looked at
_LINES_IN_TITLE = 4  # running lines that may add to a headline
_FEW = 600  # characters; of a page with fewer, and an image over a third of it, a part is a scan


_WORDS = re.compile("[^\\s\ufffe]++\ufffe?")
_CODE_ENDS = "{};:([\\"  # of lines
_CODE_LINES = 2  # of a page that end so; few pages of prose have them
_CODE_LEADING = 2.0  # times the height of the letters, from line to line
_INDENT = "\b"  # before the blanks of an indent; takes those away that the text has there
_MOST_INDENT = 100  # blanks
_BEFORE_INDENT = re.compile(rf"(?<! ) *+{_INDENT}")
_CODE_LETTERS = 40  # of a line that are looked at
_NARROW_OR_WIDE = frozenset("fijlmrtwIMW")  # one of them beside others tells whether all letters are as wide
_LOOKED_AT = 60  # pieces of text of a page that a look takes in, in runs: more cost as much as their positions
_RUN = 10
_OBJECTS = 20  # of a page that a look takes in
_LARGER = 1.2  # times the height of most pieces
_TITLE_LARGER = 1.15  # times the height of most letters: 80 % of such lines in 53 files are titles, below it half
_TITLES = 1 / 3  # share of a document's letters; one with more such letters is a poster
_LONGEST_TITLE = 150  # characters
_TITLE_GAP = 0.25  # times the height of a bold title's letters, at least between it and the line above
_BOLD = re.compile(rb"bold|black|heavy|demi|[cs][mf]bx", re.IGNORECASE)  # in fonts' names, of TeX, too
_FORCE_BOLD = 1 << 18  # PDF 32000-1:2008, table 123
_TITLE_WORD = re.compile(r"[^\W\d_]{3}|[\u2e80-\u9fff\uac00-\ud7af]{2}")
_NO_TITLE = re.compile(r"\A[•◦▪●○■‣]|[.,;!?][\"'”’)]*+\Z")
_LEADING = 1.7  # times the height of the letters, from one line of a title to the next
_OPENING = re.compile(r"\n[^\S\n]*+[^\sa-z]")  # of a line that may be a title
_SAMPLED = 12  # letters of a page that are measured to know what is usual
_SHORT_PAGE = 800  # letters; on one with fewer, all lines may be titles
_PAGES = 3  # that have a line in common: it is no title
_SMALLER = 0.8
_PATHS = 4_000  # of a page; more are a drawing
_MOST_CHARACTERS = 100_000  # of a page
_CORNERS = 64  # of an outline; more are a curve
_SEGMENTS = 2_500  # of a path: 500 boxes; more are a drawing
_LEAST_SIDE = 3  # points; what is smaller is no line of a table


class _Heading(NamedTuple):
    page: int
    level: int  # 0 is the highest
    title: str


class _Read(NamedTuple):
    """What a library read from the file."""

    pages: list[str | None]  # None for a page that can't be read
    says: dict[str, str]
    outline: list[_Heading]
    images: Sequence[int] = ()  # numbers from 0 of the pages that need OCR
    unseen: int = 0  # pages that need OCR and were left out for lack of time
    attached: Sequence[tuple[str, bytes]] = ()  # embedded files
    late: int = 0  # pages at the end that were left out for lack of time
    headline: str | None = None  # of the first page
    garbled: Mapping[int, str] = MappingProxyType({})  # texts of those of `images` whose letters have no meaning
    hiding: Sequence[int] = ()  # pages with text that they don't show, which was left out
    by_size: Sequence[_Heading] = ()  # of a document without an outline


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text of all pages, joined by blank lines, with the titles of the outline as headings.

    Without an outline, lines in larger letters are headings. Pages without text are read with OCR if the `ocr` extra is
    installed.

    Raises:
        Rejected: code `password`, `damaged`, `timeout` or `too_large`; `empty`: no page has text.
    """
    try:
        found = _by_pdfium(data, hints)
    except Unopened as unopened:
        if unopened.locked:
            raise Rejected(f"{hints.name} is locked by a password", "password") from None
        found = _by_pypdf(data, hints)
    pages = found.pages
    headings, sections = _letters_of(found.outline), _letters_of(found.outline or found.by_size)
    shown, furniture = without_furniture([without_line_numbers(page or "") for page in pages], headings, sections)
    shown = with_whole_sentences(shown)
    known = _words(shown)
    texts = [
        None if page is None else _rejoined(cleaned(_joined(text, known)))
        for page, text in zip(pages, shown, strict=True)
    ]
    if not any(texts):  # better letters without a meaning than nothing
        texts = [cleaned(found.garbled[at]) if at in found.garbled else text for at, text in enumerate(texts)]
    if not any(texts) and not found.attached:
        if found.late or found.unseen:
            raise Rejected(f"{hints.name} took longer than {limits.seconds()} to read", "timeout")
        if not pages or all(page is None for page in pages):
            raise Rejected(f"{hints.name} is damaged: none of its {len(pages)} pages can be read", "damaged")
        images = f"{len(pages)} page image{'s' if len(pages) > 1 else ''}"
        advice = "" if ocr.installed() else f", {ocr.INSTALL}"
        raise Rejected(f"{hints.name} holds no text, only {images}{advice}", "empty")
    written = _with_headings([page or "" for page in texts], found.outline or found.by_size)
    written[0] = framed(furniture.heads, written[0], ())
    written[-1] = framed((), written[-1], furniture.feet)
    text, starts = laid_out(written)
    attached, unread = (
        part_texts([(name, partial(bytes, data)) for name, data in found.attached], hints)
        if found.attached
        else ([], [])
    )
    text = "\n\n".join(filter(None, [text, *attached]))
    notes = _notes(found, texts)
    return Extraction(
        text=text,
        title=_title(found, furniture, hints),
        description=own_title(found.says.get("Subject"), 2000),
        language=one_line(found.says.get("Lang"), 35),
        pages=starts,
        created=_date(found.says.get("CreationDate")),
        modified=_date(found.says.get("ModDate")),
        file={"author": found.says.get("Author"), "keywords": found.says.get("Keywords")},
        notes=(*notes, *unread),
    )


def _letters_of(headings: Iterable[_Heading]) -> dict[int, set[str]]:
    """Return the letters of headings by page."""
    found: dict[int, set[str]] = {}
    for heading in headings:
        found.setdefault(heading.page, set()).add(letters(heading.title))
    return found


def _notes(found: _Read, texts: Sequence[str | None]) -> list[Note]:
    """Return what could not be read."""
    read_to = len(texts) - found.late
    notes = [
        Note(code="damaged", place=f"page {number}", message="the page could not be read")
        for number, page in enumerate(texts[:read_to], 1)
        if page is None
    ]
    if found.late:
        message = f"the last {found.late} of {len(texts)} pages were not read within {limits.seconds()}"
        notes.append(Note(code="timeout", place=f"page {read_to + 1}", message=message))
    if found.hiding:
        message = f"text that can't be seen was left out of {len(found.hiding)} of {len(texts)} pages"
        notes.append(Note(code="hidden", place=f"page {found.hiding[0] + 1}", message=message))
    if found.images and not ocr.installed():
        for code, what, some in (
            ("picture", "are images", [number for number in found.images if number not in set(found.garbled)]),
            ("font", "have fonts that don't tell their letters", found.garbled),
        ):
            if some:
                message = f"{len(some)} of {len(texts)} pages {what}, {ocr.INSTALL}"
                notes.append(Note(code=cast("NoteCode", code), place=f"page {min(some) + 1}", message=message))
    elif found.unseen:
        message = f"{found.unseen} of {len(found.images)} page images could not be read within {limits.seconds()}"
        notes.append(Note(code="timeout", place=f"page {found.images[-found.unseen] + 1}", message=message))
    return notes


def _is_titled(says: Mapping[str, str]) -> bool:
    title = own_title(says.get("Title"))
    return title is not None and not _CODE.fullmatch(title)


def _title(found: _Read, furniture: Furniture, hints: Hints) -> str | None:
    """Return the document's title; for a machine's, the first page's headline with what other names add to it."""
    if _is_titled(found.says) or not found.headline:
        return own_title(found.says.get("Title"))
    stem = hints.name.rpartition("/")[2].removesuffix(hints.suffix)
    lines = [line for line in [*furniture.heads, *furniture.feet] if NUMBER not in line]
    parts = [found.headline]
    for more in (*lines[:_LINES_IN_TITLE], *([" ".join(_NAME.findall(stem))] if hints.filename else [])):
        known = set(_NAME.findall(folded(" ".join(parts))))
        if not known.issuperset(_NAME.findall(folded(more))):
            parts.append(more)
    return one_line(" – ".join(parts))


def _with_headings(pages: list[str], outline: Sequence[_Heading]) -> list[str]:
    """Return the pages with the titles as Markdown headings; titles that no line matches are ignored."""
    lines_of: dict[int, list[str | None]] = {}  # None: part of the title above
    places_of: dict[int, dict[str, list[int]]] = {}  # by the letters of a line
    for heading in outline:
        if not 0 <= heading.page < len(pages):
            continue
        wanted = letters(heading.title)
        if heading.page not in lines_of:
            lines_of[heading.page] = [*pages[heading.page].split("\n")]
            places = places_of[heading.page] = {}
            for at, line in enumerate(lines_of[heading.page]):
                places.setdefault(letters(line or ""), []).append(at)
        lines, places = lines_of[heading.page], places_of[heading.page]
        begun = sorted(chain.from_iterable(places.get(wanted[:end], ()) for end in range(1, len(wanted) + 1)))
        for at, count in product(begun, range(1, _HEADING_LINES + 1)):  # a long title covers several lines
            parts = [part for part in lines[at : at + count] if part is not None]
            free = len(parts) == count and not parts[0].lstrip("\n").startswith("#")
            if free and letters("".join(parts)) == wanted:
                title = " ".join(" ".join(parts).split())
                lines[at : at + count] = [f"\n{'#' * min(heading.level + 1, 6)} {title}\n", *[None] * (count - 1)]
                break
    for number, some in lines_of.items():
        shown = "\n".join(line for line in some if line is not None)
        pages[number] = shown.strip("\n").replace("\n\n\n", "\n\n")
    return pages


def _date(stamp: str | None) -> str | None:
    match = _DATE.match(stamp or "")
    if match is None:
        return None
    year, month, day, *clock = match.groups()
    time = ":".join(clock) if all(clock) else ""
    return "-".join(filter(None, (year, month, day))) + (f"T{time}" if month and day and time else "")


def _words(pages: Sequence[str]) -> frozenset[str]:
    """Return the words of the pages if some are divided: how one is written elsewhere tells what its hyphen is."""
    whole = "\n".join(pages)
    found = _HYPHENATED.findall(whole.casefold()) if "\ufffe" in whole else []
    return frozenset(chain(found, (f"-{word.rpartition('-')[2]}" for word in found if "-" in word)))


def _joined(page: str, known: frozenset[str] = frozenset()) -> str:
    if "\ufffe" in page:
        page = _BROKEN.sub(partial(_hyphen, known), page)
    if _DOTS.search(page):
        page = _LEADERS.sub(" … ", page)
    return page if page.isascii() else _LIGATURES.sub(lambda form: unicodedata.normalize("NFKC", form[0]), page)


def _rejoined(page: str) -> str:
    """Return the page; of lines in scripts without blanks, those that are as long as any beside them go on."""
    if not _LINE_IN_WORDS.search(page):
        return page
    paragraphs = []
    for paragraph in page.split("\n\n"):
        lines = paragraph.split("\n")
        widths = [len(line) + len(_WIDE.findall(line)) for line in lines]
        least = max(_LEAST_WIDTH, max(widths) - _UNEVEN) if "。" in paragraph else math.inf
        found = lines[:1]
        for line, above, width in zip(lines[1:], lines, widths, strict=False):
            goes_on = width >= least and _LINE_IN_WORDS.fullmatch(f"{above[-1:]}\n{line[:1]}")
            found += [f"{found.pop()}{line}"] if goes_on else [line]
        paragraphs.append("\n".join(found))
    return "\n\n".join(paragraphs)


def _hyphen(known: frozenset[str], match: re.Match[str]) -> str:
    before, drawn, rest = match[1], match[2], match[3]
    head = _HYPHENATED.findall(match.string[max(0, match.start() - _LONGEST_WORD) : match.start()].casefold())
    tail = _HYPHENATED.match(rest.casefold())
    if head and tail and before.isalpha() and tail[0] not in _JOINS:
        if f"{head[-1]}{tail[0]}" in known:
            return ""
        # Beside short-term, long-term has its hyphen, too.
        if f"{head[-1]}-{tail[0]}" in known or f"-{tail[0]}" in known:
            return "-"
    if drawn or (tail and tail[0] in _JOINS):
        return "- "
    belongs = before.isdigit() or not rest or not rest[0].islower() or "-" in rest.rstrip("-\ufffe")
    return "-" if belongs else ""


def _by_pdfium(data: bytes, hints: Hints) -> _Read:
    document = opened(data)
    try:
        read: list[_Page] = []
        late = 0
        says = document.get_metadata_dict() | {"Lang": _string(document)}
        columns: Columns | None = None  # of the table at the end of the page before
        first_line: str | None = None
        count = len(document)
        limits.check_pages(hints.name, count)  # before any page costs time
        limits.earn(pages=count)
        outline = _outline(document)
        filled = document.get_formtype() != pdfium.FORMTYPE_NONE
        known = _Known(filled=filled, titled=_is_titled(says), measured=not outline)
        for number in range(count):
            if limits.spent():
                late = count - number
                break
            page = _page(document, number, columns, known)
            read.append(page)
            columns, first_line = page.columns, first_line or page.headline
            known = known._replace(titled=True)
        pages = [*(page.text for page in read), *[None] * late]
        images = [number for number, page in enumerate(read) if page.is_image]
        garbled = {number: page.garbled for number, page in enumerate(read) if page.garbled}
        hiding = [number for number, page in enumerate(read) if page.hides]
        unseen = _recognise(document, images, pages) if images and ocr.installed() else 0
        attached, by_size = _attached(document), _by_size([page.lines for page in read])
        return _Read(pages, says, outline, images, unseen, attached, late, first_line, garbled, hiding, by_size)
    finally:
        document.close()


def _attached(document: Any) -> list[tuple[str, bytes]]:
    """Return the files embedded in the document, by name, as many as `_ATTACHED` bytes hold."""
    found: list[tuple[str, bytes]] = []
    room = _ATTACHED
    with suppress(Exception):  # as below
        for at in range(min(document.count_attachments(), _FILES)):
            attachment = document.get_attachment(at)
            data = bytes(attachment.get_data())
            room -= len(data)
            if room < 0:
                break
            found.append((one_line(attachment.get_name(), 200) or f"attachment {at + 1}", data))
    return found


def _outline(document: Any) -> list[_Heading]:
    headings: list[_Heading] = []
    with suppress(Exception):  # a broken outline must not cost the text
        for entry in islice(document.get_toc(), _HEADINGS):
            target = entry.get_dest()
            page = None if target is None else target.get_index()
            if page is not None:
                headings.append(_Heading(page, entry.level, entry.get_title()))
    return headings


def _recognise(document: Any, images: Sequence[int], pages: list[str | None]) -> int:
    """Put the OCR text of the page images into `pages`; return how many were left out for lack of time."""
    limits.earn(scans=len(images))
    for done, number in enumerate(images):
        if limits.spent():
            return len(images) - done
        page = document[number]
        try:
            width, height = page.get_size()
            scale = min(_SCALE, (ocr.PIXELS / max(width * height, 1)) ** 0.5)
            seen = ocr.text_of(page.render(scale=scale, rev_byteorder=True).to_numpy()[:, :, :3])
            pages[number] = _with_scan(pages[number] or "", seen)
        finally:
            page.close()
    return 0


class _Line(NamedTuple):
    """How high the letters of a line are, how many, and where it is, in points; or of all lines that are no titles."""

    height: float
    letters: int
    text: str = ""
    left: float = 0.0
    bottom: float = 0.0
    right: float = 0.0
    bold: bool = False  # a title by its letters and the space above it, as high as it may be

    def goes_on(self, above: "_Line") -> bool:
        """Return whether the line is the next one of a title, not another title: it begins or is centred as it is."""
        left, right = abs(self.left - above.left), abs(self.right - above.right)
        aligned = min(left, right, abs(self.left + self.right - above.left - above.right)) < self.height / 2
        return self.height == above.height and aligned and 0 < above.bottom - self.bottom < _LEADING * self.height


class _Page(NamedTuple):
    """What was read from a page."""

    text: str | None = None  # None if it can't be read
    is_image: bool = False  # whether it needs OCR
    columns: Columns | None = None  # of the table at its end
    headline: str | None = None
    garbled: str = ""  # its text if most letters have no meaning
    hides: bool = False  # whether text that can't be seen was left out
    lines: Sequence[_Line] = ()  # if measured


def _by_size(pages: Sequence[Sequence[_Line]]) -> list[_Heading]:
    """Return the titles among the pages' lines: up to three in letters larger than most, or a bold one; no sentence."""
    heights = Counter[float]()
    for line in chain.from_iterable(pages):
        heights[line.height] += line.letters
    usual = max(heights, key=lambda height: heights[height], default=0.0) * _TITLE_LARGER
    if sum(count for height, count in heights.items() if height > usual) > _TITLES * heights.total():
        return []
    found: list[tuple[int, float, str]] = []  # 0 for a bold title that is no larger than most letters
    for number, lines in enumerate(pages):
        titles: list[list[_Line]] = []
        for line in lines:
            if not (line.bold or line.height > usual) or not line.text:
                titles.append([])
            elif titles and titles[-1] and line.goes_on(titles[-1][-1]):
                titles[-1].append(line)
            else:
                titles.append([line])
        for some in filter(None, titles):
            title = " ".join(line.text for line in some)
            titling = some[0].bold or _is_titling(title)
            if len(some) <= _HEADING_LINES and len(title) <= _LONGEST_TITLE and titling:
                found.append((number, some[0].height if some[0].height > usual else 0.0, title))
    often = Counter(title for _, title in {(number, letters(title)) for number, _, title in found})
    most = max(2, min(_PAGES, len(pages)))
    shown = [each for each in found if often[letters(each[2])] < most][:_HEADINGS]
    levels = sorted({height for _, height, _ in shown}, reverse=True)
    return [_Heading(number, levels.index(height), title) for number, height, title in shown]


def _is_titling(title: str) -> bool:
    most = 2 * sum(map(str.isalpha, title)) >= len(title.replace(" ", ""))
    return most and _TITLE_WORD.search(title) is not None and _NO_TITLE.search(title) is None


def _sizes(page: OpenPage, text: str) -> list[_Line]:
    """Return how high some letters are, each for those around it, and the lines in larger letters than most.

    A title doesn't begin with a small letter, but its second line may. Measuring each line takes an eighth of the time
    of a page, this a fortieth.
    """
    heights: dict[float, int] = {}
    step = len(text) // _SAMPLED + 1
    for at in range(step // 2, len(text), step):
        if height := _size(_box(page, at)):
            heights[height] = heights.get(height, 0) + step
    usual = max(heights, key=heights.__getitem__, default=0.0) if len(text) > _SHORT_PAGE else 0.0
    from_left = is_from_left(text)
    found = [_Line(height, count) for height, count in heights.items() if height <= usual]
    done = -1
    for opening in _OPENING.finditer(f"\n{text}"):
        start = opening.end() - 2
        if found and found[-1].text:
            found.append(_Line(0.0, 0))  # other lines are between
        while start > done and (line := LINE.match(text, start)):
            first, bold = _box(page, start), _is_bold_title(page, text, line)
            if not (bold or _size(first) > usual):
                break
            done = line.end()
            last, read = _box(page, done - 1), line_as_read(page, line, from_left=from_left)
            middle = _box(page, next(at for at in range((start + done) // 2, done) if not text[at].isspace()))
            height = median_low(map(_size, (first, middle, last)))  # not an initial's, nor a mark's
            found.append(_Line(height, len(read), read, first.left, first.bottom, last.right, bold))
            start = next_.start() if (next_ := LINE.search(text, done)) else done
    return found


def _is_bold_title(page: OpenPage, text: str, line: re.Match[str]) -> bool:
    """Return whether the line is bold, the one below it is not, begins a sentence and is nearer than the one above."""
    start, end = line.span()
    below, title = LINE.search(text, end), line[0].removesuffix("?")
    if below is None or not _TITLE_WORD.search(below[0]) or below[0][0].islower():
        return False
    if ":" in title or not _is_titling(title):
        return False
    if not _is_bold(page, start, end - 1) or _is_bold(page, below.start(), below.end() - 1):
        return False
    box, next_, above = _box(page, start), _box(page, below.start()), text[:start].rstrip()
    height, near = box.top - box.bottom, box.bottom - next_.top
    far = _box(page, len(above) - 1).bottom - box.top if above else math.inf
    beside = ((_box(page, at - 1), _box(page, at + 1)) for at in range(start, end) if text[at] == " ")
    gaps = (max(one.left, other.left) - min(one.right, other.right) for one, other in beside)
    return bool(-height / 2 < near <= far and far > _TITLE_GAP * height and 2 * max(gaps, default=0.0) < height)


def _is_bold(page: OpenPage, *places: int) -> bool:
    name, flags = ctypes.create_string_buffer(_LANGUAGE_BYTES), ctypes.c_int()
    for at in places:
        quick("FPDFText_GetFontInfo")(page.textpage, at, name, _LANGUAGE_BYTES, ctypes.byref(flags))
        if not (_BOLD.search(name.value) or flags.value & _FORCE_BOLD):
            return False
    return True


def _size(box: Any) -> float:
    """Return how high a letter's box is, in points, to a half."""
    return float((box.top - box.bottom) * 2 // 1 / 2)


def _with_scan(text: str, seen: str) -> str:
    """Return the longer one of a page's text and what OCR saw; a page with some text keeps it, and gets other lines."""
    if len(text) < _STAMP:
        return max(seen, text, key=len)
    known = set(_NAME.findall(text.casefold()))
    lines = ((line, set(_NAME.findall(line.casefold()))) for line in seen.splitlines())
    return "\n".join([text, *(line for line, words in lines if 2 * len(words & known) < len(words))])


class _Known(NamedTuple):
    """What is known of a document before its next page is read, and so what is looked for."""

    filled: bool  # it has form fields, whose values become text
    titled: bool  # no headline is needed
    measured: bool  # it has no outline, so that lines in larger letters are headings


def _page(document: Any, number: int, before: Columns | None, known: _Known) -> _Page:
    """Return what is on the page; what annotations show becomes text, too.

    Text that can't be seen is left out.
    """
    import pypdfium2

    try:
        page = OpenPage(document, number)
        try:
            added, draws, linked = _annotations(document, page)
            flat = (known.filled or draws) and (
                pdfium.FPDFPage_Flatten(page.raw, pdfium.FLAT_NORMALDISPLAY) == pdfium.FLATTEN_SUCCESS
            )
            if flat:
                page.open()
            hides = drop_hidden_text(page)
            text = _mended(page)
            columns: Columns | None = None
            # What was flattened is drawn last, wherever it stands.
            garbled = text if _is_garbled(page, text) else ""
            text = "" if garbled else text
            exact = len(text) == pdfium.FPDFText_CountChars(page.textpage)  # else places are those of other letters
            lines = _sizes(page, text) if known.measured and exact else ()
            look = _Look(arranged=True) if (flat or added) and not garbled else _look(page, text, titled=known.titled)
            arranges = look.arranged or _is_alone(page, text)
            inserted = _lost_spaces(page, text) | _links(page, text, linked) if exact else {}
            indents = _indents(page, text) if exact else {}
            if exact and (arranges or look.small):
                notes, blanks = _footnotes(page, text)
                indents, inserted = indents | notes, _marks(page, text) | inserted | blanks
            wanted = exact and (arranges or (look.large and not known.titled))
            positions = _positions(page, text, added, inserted) if wanted else None
            if positions and arranges:
                arranged, columns = text_of(positions._replace(indents=indents), before)
                text = as_read(page, text, inserted | indents) if arranged is None else arranged
            else:
                text = "\n".join([as_read(page, text, inserted | indents), *(each[0] for each in added)])
            text = _BEFORE_INDENT.sub("", text) if _INDENT in text else text
            shows = bool(garbled) or (len(text) < _FEW and _shows(page, blank=not text.strip()))
            first_line = headline(positions) if positions and not known.titled else None
        finally:
            page.close()
    except pypdfium2.PdfiumError:
        return _Page()
    return _Page(text, shows, columns, first_line, garbled, hides, lines)


def _is_alone(page: OpenPage, text: str) -> bool:
    """Return whether an initial as high as several lines, or marks of a list, stand on lines of their own."""
    found = _ALONE.search(f"\n{text}")
    if found is None or found[1] is None:
        return found is not None
    return _height(page, found.start(1) - 1) > INITIAL * _height(page, len(text) // 2)


def _mended(page: OpenPage) -> str:
    """Return the page's text without what pdfium reads wrongly from the places of letters, as long as it was."""
    text = page.text()
    if len(text) != pdfium.FPDFText_CountChars(page.textpage):
        return text
    return _tightened(page, _accented(page, _with_whole_lines(page, text)))


def _with_whole_lines(page: OpenPage, text: str) -> str:
    """Return the text without the line ends that pdfium puts around exponents and indices; U+FFFF takes their place."""
    shown = list(text)
    for end in _LINE_END.finditer(text):
        before, behind = _box(page, end.start() - 1), _box(page, end.end())
        small, large = sorted((before, behind), key=lambda box: box.top - box.bottom)
        middle, gap = (small.top + small.bottom) / 2, behind.left - before.right
        size = large.top - large.bottom
        if large.bottom < middle < large.top and -_SPACE / 2 * size < gap < _SPACE * size:
            joins = "\uffff" if gap < _SPACE / 4 * (small.top - small.bottom) else " "
            if joins != " " and text[end.start() - 1].isdigit():
                digits, letters_ = text[end.end()].isdigit(), text[end.end()].isalpha()
                lowered = before is small and middle < (large.top + large.bottom) / 2
                # A price has its cents higher; a large figure, or a note's, is no part of the word behind it.
                part = lowered or text.startswith(_ORDINALS, end.end())
                joins = "^" if digits else " " if letters_ and not part else joins
            shown[end.start() : end.end()] = (joins, "\uffff")
    return "".join(shown)


def _accented(page: OpenPage, text: str) -> str:
    """Return the text with letters for those that an accent of its own is drawn over; U+FFFF is where it was."""
    shown = list(text)
    for each in islice(_ACCENT.finditer(text), _MOST_ACCENTS):
        at = each.start()
        left, right, bottom, top = _tight(page, at)
        middle, below = (left + right) / 2, bottom - 2 * (top - bottom)
        # pdfium puts a sign that is higher than others, over a capital letter, behind the line.
        near = pdfium.FPDFText_GetCharIndexAtPos(page.textpage, middle, below, 1, 4)
        for other in (at + 1, at - 1, near):
            letter = shown[other] if 0 <= other < len(shown) else ""
            whole = unicodedata.normalize("NFC", f"{_DOTLESS.get(letter, letter)}{_ACCENTS[text[at]]}")
            if letter.isalpha() and len(whole) == 1:
                left, right, *_ = _tight(page, other)
                if left <= middle <= right:
                    shown[other], shown[at] = whole, "\uffff"
                    break
    return "".join(shown)


def _tightened(page: OpenPage, text: str) -> str:
    """Return the text with U+FFFF, which cleaning takes away, for the blanks that pdfium put between spaced letters."""
    signs = [each.start() for each in _BEFORE_SIGN.finditer(text)]
    single = _SINGLE.search(text)
    if not (single or signs):
        return text
    shown = list(text)
    for at in signs:  # a glyph may stand for a blank and a sign
        before, behind = _box(page, at), _box(page, at + 1)
        if before.left == behind.left < before.right == behind.right:
            shown[at] = "\uffff"
    for run in _SPACED.finditer(text) if single else ():
        gaps: dict[int, float] = {}
        for at in range(run.start() + 1, run.end(), 2):
            before, behind = _box(page, at - 1), _box(page, at + 1)
            if pdfium.FPDFText_IsGenerated(page.textpage, at) == 1:
                gaps[at] = (behind.left - before.right) / (before.top - before.bottom)
        least = min(gaps.values(), default=1.0)
        for at in gaps if least < _SPACE else ():
            shown[at] = "\uffff" if gaps[at] < least + _SPACE / 4 else " "
    return "".join(shown)


def _lost_spaces(page: OpenPage, text: str) -> dict[int, str]:
    """Return blanks for the offsets within words at which letters are apart: in some fonts pdfium misses a few."""
    found: dict[int, str] = {}
    if RIGHT_TO_LEFT.search(text):
        return found
    blanks = [at.start() for at in islice(_BLANK.finditer(text), _SAMPLED)]
    if 2 * sum(pdfium.FPDFText_IsGenerated(page.textpage, at) for at in blanks) <= len(blanks):
        return found  # they are drawn
    box, give = pdfium.FS_RECTF(), quick("FPDFText_GetLooseCharBox")
    into = ctypes.byref(box)
    for word in _LONG_WORD.finditer(text):
        gaps: list[float] = []
        end, bottom = math.inf, 0.0
        for at in range(*word.span()):
            give(page.textpage, at, into)
            level = abs(box.bottom - bottom) < 1
            gaps.append((box.left - end) / (box.top - box.bottom) if level and box.top > box.bottom else 0.0)
            end, bottom = box.right, box.bottom
        if max(gaps) > _LOST_SPACE and median_low(gaps) < _LOST_SPACE / 2:
            found |= {
                at: " "
                for at, gap in enumerate(gaps, word.start())
                if _LOST_SPACE < gap < _SPACE and (text[at].islower() or text[at].isupper())
            }
    return found


def _height(page: OpenPage, at: int) -> float:
    box = _box(page, at)
    return float(box.top - box.bottom)


def _box(page: OpenPage, at: int) -> Any:
    """Return the box of a letter with the space above and below it."""
    box = pdfium.FS_RECTF()
    quick("FPDFText_GetLooseCharBox")(page.textpage, at, ctypes.byref(box))
    return box


def _is_raised(page: OpenPage, at: int) -> bool:
    """Return whether the digit stands higher than the letter before it; some raised ones have the size of others."""
    x, line = ctypes.c_double(), ctypes.c_double()
    quick("FPDFText_GetCharOrigin")(page.textpage, at - 1, ctypes.byref(x), ctypes.byref(line))
    left, _, bottom, top = _tight(page, at)
    return left > x.value and bottom - line.value > 0.5 * (top - bottom)


def _tight(page: OpenPage, at: int) -> tuple[float, float, float, float]:
    """Return left, right, bottom and top of what is drawn of a letter."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    quick("FPDFText_GetCharBox")(page.textpage, at, *map(ctypes.byref, (left, right, bottom, top)))
    return left.value, right.value, bottom.value, top.value


def _is_garbled(page: OpenPage, text: str) -> bool:
    """Return whether the font of most letters doesn't say what they mean."""
    sample, fails = range(0, len(text), max(1, len(text) // _SAMPLE)), quick("FPDFText_HasUnicodeMapError")
    failed = sum([bool(fails(page.textpage, at) == 1) for at in sample])
    return 2 * failed > max(len(sample), 9)


def _annotations(document: Any, page: OpenPage) -> tuple[list[tuple[str, Any]], bool, list[tuple[str, Any]]]:
    """Return the texts that only the page's annotations have, with their boxes, and whether others draw text; links.

    The texts are the states of check boxes, and notes on the page that no program has drawn yet.
    """
    found: list[tuple[str, Any]] = []
    links: list[tuple[str, Any]] = []
    draws = False
    for at in range(min(quick("FPDFPage_GetAnnotCount")(page.raw), _ANNOTATIONS)):
        annotation = pdfium.FPDFPage_GetAnnot(page.raw, at)
        kind, text = pdfium.FPDFAnnot_GetSubtype(annotation), ""
        if kind == pdfium.FPDF_ANNOT_WIDGET and _string(annotation, b"FT") == "Btn":
            state = _string(annotation, b"AS")
            text = ("not checked" if state == "Off" else "checked") if state else ""
        elif kind == pdfium.FPDF_ANNOT_FREETEXT and not pdfium.FPDFAnnot_HasKey(annotation, b"AP"):
            text = " ".join(_string(annotation, b"Contents").split())
        elif kind == pdfium.FPDF_ANNOT_LINK:
            action = pdfium.FPDFLink_GetAction(pdfium.FPDFAnnot_GetLink(annotation))
            buffer = ctypes.create_string_buffer(_ADDRESS)
            if 1 < pdfium.FPDFAction_GetURIPath(document, action, buffer, _ADDRESS) < _ADDRESS:
                text = buffer.value.decode("utf-8", "replace").strip()
        draws = draws or kind in (pdfium.FPDF_ANNOT_FREETEXT, pdfium.FPDF_ANNOT_STAMP)
        if text:
            box = pdfium.FS_RECTF()
            pdfium.FPDFAnnot_GetRect(annotation, box)
            (links if kind == pdfium.FPDF_ANNOT_LINK else found).append((text, box))
        pdfium.FPDFPage_CloseAnnot(annotation)
    return found, draws, links


def _links(page: OpenPage, text: str, linked: Iterable[tuple[str, Any]]) -> dict[int, str]:
    """Return the addresses of links that the text doesn't show, by the offset behind the link's words."""
    ends: dict[str, int] = {}
    last = ""
    for address, box in linked:
        middle = (box.top + box.bottom) / 2
        at = pdfium.FPDFText_GetCharIndexAtPos(page.textpage, box.right - 2, middle, box.right - box.left, 4)
        near = letters(text[max(0, at - len(address) - _NEAR) : at + len(address) + _NEAR])
        shown = not ADDRESS.fullmatch(address) or letters(_SCHEME.sub("", address)) in near
        if at >= 0 and not shown and (address == last or address not in ends):  # a long link has a box on each line
            word = _NAME.match(text, at)
            ends[address] = word.end() if word else at + 1
        last = address
    return {end: f" ({address})" for address, end in ends.items()}


def _marks(page: OpenPage, text: str) -> dict[int, str]:
    """Return a sign for the offsets at which a smaller number follows a word or number: that of a note, or a power."""
    found: dict[int, str] = {}
    for each in islice(_NUMBER.finditer(text), _MOST_MARKS):
        before = text[each.start() - 1 : each.start()]
        begin, start = each.start() - (before.isalpha() or before in _BEFORE_MARK), each.end()
        small = _SMALLER * _height(page, begin) if start - begin > 1 else 0.0
        while start > begin + 1 and _height(page, start - 1) < small:
            start -= 1
        if start < each.end():
            found |= {start: "^"} if _is_raised(page, start) else {}  # else an index
        elif begin < each.start() and _is_raised(page, each.start()):
            found[each.start()] = "^"
    return found


def _footnotes(page: OpenPage, text: str) -> tuple[dict[int, str], dict[int, str]]:
    """Return what is put before lines of notes, in smaller letters, each begun by a raised number; blanks behind these.

    All are by offsets.
    """
    before: dict[int, str] = {}
    behind: dict[int, str] = {}
    boxes = [_box(page, at) for at in range(0, len(text), len(text) // _SAMPLED + 1)]
    usual = median_low([box.top - box.bottom for box in boxes] or [0.0])
    middle = median_low([box.bottom for box in boxes] or [0.0])  # below are notes, above are authors' addresses
    for number in islice(_NOTE.finditer(text), _MOST_MARKS):
        start, first = number.span(1)[0], number.start(2)
        size, bottom = _height(page, first), _box(page, first).bottom
        if bottom > middle or size > _NOTE_SIZE * usual or _height(page, start) > _SMALLER * size:
            continue
        before[start] = f"{FOOTNOTE}^"
        behind |= {first: " "} if first == number.end(1) else {}
        for line in islice(LINE.finditer(text, number.end()), 1, None):
            box = _box(page, line.start())
            if not 0 < bottom - box.bottom < _LEADING * size or abs(box.top - box.bottom - size) > size / 20:
                break
            before.setdefault(line.start(), FOOTNOTE)
            bottom = box.bottom
    return before, behind


class _CodeLine(NamedTuple):
    """A line that may be code: the offset and the box of its first letter, and how wide all of its letters are."""

    at: int
    left: float
    top: float
    bottom: float
    width: float | None  # 0 if the line has few letters, None if they differ

    def goes_on(self, above: "_CodeLine", known: float) -> bool:
        """Return whether the line is the next one of a block whose letters are as wide as is `known`; 0: not yet."""
        apart = above.bottom - self.bottom
        near = 0 < apart < _CODE_LEADING * (self.top - self.bottom)
        return near and (not known or not self.width or abs(known - self.width) < known / 20)


def _indents(page: OpenPage, text: str) -> dict[int, str]:
    """Return blanks for the offsets at which lines of code begin: they stand further right than others around them."""
    ends = sum(text.count(f"{sign}\r\n") for sign in _CODE_ENDS if sign in text)
    if ends < _CODE_LINES:
        return {}
    blocks: list[tuple[list[_CodeLine], float]] = []  # with the width of their letters
    for each in LINE.finditer(text):
        line = _code_line(page, each[0], each.start())
        if line.width is None:
            continue
        block, width = blocks.pop() if blocks else ([], 0.0)
        if block and not line.goes_on(block[-1], width):
            blocks.append((block, width))
            block, width = [], 0.0
        block.append(line)
        blocks.append((block, width or line.width))
    found: dict[int, str] = {}
    for block, width in blocks:
        least = min(line.left for line in block)
        for line in block if width else ():
            if 0.5 < (line.left - least) / width < _MOST_INDENT:  # a file may give any place
                found[line.at] = _INDENT + " " * round((line.left - least) / width)
    return found


def _code_line(page: OpenPage, line: str, start: int) -> _CodeLine:
    widths: dict[str, float] = {}
    for at, letter in enumerate(line[:_CODE_LETTERS], start):
        if letter.isalpha():
            box = _box(page, at)
            widths[letter] = float(box.right - box.left)
    width: float | None = 0.0
    if not _NARROW_OR_WIDE.isdisjoint(widths) and not _NARROW_OR_WIDE.issuperset(widths):
        least, most = min(widths.values()), max(widths.values())
        width = most if most - least < most / 50 else None
    box = _box(page, start)
    return _CodeLine(start, float(box.left), float(box.top), float(box.bottom), width)


def _string(of: Any, key: bytes | None = None) -> str:
    """Return what an annotation has under the key; without one, the language of a document."""
    give = partial(pdfium.FPDFAnnot_GetStringValue, of, key) if key else partial(pdfium.FPDFCatalog_GetLanguage, of)
    size = min(give(None, 0), _MOST_CHARACTERS)
    buffer = (pdfium.FPDF_WCHAR * (size // 2 + 1))()
    give(buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").partition("\0")[0]


class _Look(NamedTuple):
    """What a cheap look at a page tells, because positions cost time."""

    arranged: bool = False  # it may have tables or columns, or be rotated
    large: bool = False  # some of its letters are larger than others
    small: bool = False  # some are smaller, as marks and texts of notes are


def _look(page: OpenPage, text: str, *, titled: bool) -> _Look:
    raw = page.textpage
    count = quick("FPDFText_CountRects")(raw, 0, -1)
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    into = tuple(map(ctypes.byref, (left, top, right, bottom)))
    give, heights = quick("FPDFText_GetRect"), list[float]()
    run, step = _RUN, max(1 if count < 2 * _RUN else 2, count // _LOOKED_AT)
    if titled and count <= text.count("\n") + 1:  # a piece a line: nothing is beside another, and no mark behind it
        run, step = 1, count // _RUN + 1
    gaps = tall = 0
    begin = end = low = high = 0.0
    for first in range(0, count, run * step):
        for at in range(first, min(first + run, count)):
            give(raw, at, *into)
            x, y, to_x, to_y = left.value, bottom.value, right.value, top.value
            high_ = to_y - y
            tall += 2 * (to_x - x) < high_
            if low < (y + to_y) / 2 < high and (x - end > 0.8 * high_ or begin - to_x > 0.8 * high_):
                gaps += 1
                if gaps > 1:
                    return _Look(arranged=True)
            heights.append(high_)
            begin, low, end, high = x, y, to_x, to_y
    objects = quick("FPDFPage_CountObjects")(page.raw)
    step = max(1, objects // _OBJECTS) if objects > count + 1 else objects + 1  # else it has little but text
    kind_of, piece = quick("FPDFPageObj_GetType"), quick("FPDFPage_GetObject")
    kinds = [kind_of(piece(page.raw, at)) for at in range(0, objects, step)]
    arranged = kinds.count(pdfium.FPDF_PAGEOBJ_PATH) > 1 or 2 * tall > len(heights) or text.count("   ") > 2
    usual = median_low(heights) if heights else 0.0
    return _Look(
        arranged, bool(heights) and max(heights) > _LARGER * usual, min(heights, default=0.0) < _SMALLER * usual
    )


def _positions(page: OpenPage, text: str, added: Iterable[tuple[str, Any]], inserted: Mapping[int, str]) -> Page | None:
    """Return the page's words and lines with their positions, upright; None if its words can't be told apart.

    `added` are texts with their boxes that are no part of `text`.
    """
    raw = page.textpage
    if len(text) > _MOST_CHARACTERS:
        return None
    found = list(_WORDS.finditer(text))
    box, angle = pdfium.FS_RECTF(), quick("FPDFText_GetCharAngle")
    angles = Counter(-round(angle(raw, word.start()) / (math.pi / 2)) % 4 for word in found[::16])
    turns = angles.most_common(1)[0][0] if angles else 0
    words: list[Word] = []
    mirrored = False
    if RIGHT_TO_LEFT.search(text):
        if turns:
            return None
        mirrored = not is_from_left(text)
        words, found = _words_as_read(page, text, inserted, mirrored=mirrored)
    give, into = quick("FPDFText_GetLooseCharBox"), ctypes.byref(box)
    for each, place in added:
        (left, top), (right, bottom) = _turned(place.left, place.top, turns), _turned(place.right, place.bottom, turns)
        words.append(Word(each, min(left, right), min(top, bottom), max(left, right), max(top, bottom), -1))
    for word in found:
        start, end = word.span()
        give(raw, start, into)
        left, bottom, right, top = box.left, box.bottom, box.right, box.top
        if end - start > 1:
            give(raw, end - 1, into)
            left, bottom = min(left, box.left), min(bottom, box.bottom)
            right, top = max(right, box.right), max(top, box.top)
        if turns:
            (left, top), (right, bottom) = _turned(left, top, turns), _turned(right, bottom, turns)
            left, right, top, bottom = min(left, right), max(left, right), min(top, bottom), max(top, bottom)
        else:
            top, bottom = -top, -bottom
        shown = with_inserted(text, start, end, inserted) if inserted else word[0]
        words.append(Word(shown, left, top, right, bottom, start))
    words.sort(key=lambda word: word.at)
    placed = Page(words, *_edges(page, turns), partial(_style, raw))
    return placed.mirrored() if mirrored else placed


def _words_as_read(
    page: OpenPage, text: str, inserted: Mapping[int, str], *, mirrored: bool
) -> tuple[list[Word], list[re.Match[str]]]:
    """Return the words of lines that are read from the right, or have such words, and those of others, to be placed."""
    words: list[Word] = []
    others: list[re.Match[str]] = []
    for line in LINE.finditer(text):
        turned = mirrored or RIGHT_TO_LEFT.search(line[0])
        as_seen = list(words_as_read(page, line, from_left=not mirrored, inserted=inserted)) if turned else []
        words += as_seen
        others += [] if as_seen else _WORDS.finditer(text, *line.span())
    return words, others


def _edges(page: OpenPage, turns: int) -> tuple[list[Edge], list[Edge]]:
    """Return the lines drawn across the page, and those upright."""
    across: list[Edge] = []
    upright: list[Edge] = []
    paths = (each for each in drawn(page) if each.kind == pdfium.FPDF_PAGEOBJ_PATH)
    outlines = chain.from_iterable(_corners(each.handle, on_page(each)) for each in islice(paths, _PATHS))
    for corners in islice(filter(_may_be_a_cell, islice(outlines, 4 * _PATHS)), _PATHS):
        for (x, y), (to_x, to_y) in pairwise([_turned(*corner, turns) for corner in corners]):
            if abs(y - to_y) < 1 < abs(x - to_x):
                across.append(Edge((y + to_y) / 2, min(x, to_x), max(x, to_x)))
            elif abs(x - to_x) < 1 < abs(y - to_y):
                upright.append(Edge((x + to_x) / 2, min(y, to_y), max(y, to_y)))
    return across, upright


def _turned(x: float, y: float, turns: int) -> tuple[float, float]:
    """Return the point, with y from top to bottom, on a page whose text runs upwards for 1, downwards for 3."""
    return ((x, -y), (y, x), (-x, y), (-y, -x))[turns]


def _style(textpage: Any, at: int) -> object:
    name = ctypes.create_string_buffer(_LANGUAGE_BYTES)
    pdfium.FPDFText_GetFontInfo(textpage, at, name, _LANGUAGE_BYTES, None)
    colour = [ctypes.c_uint() for _ in range(4)]
    pdfium.FPDFText_GetFillColor(textpage, at, *colour)
    return name.value, *(each.value for each in colour)


def _may_be_a_cell(corners: list[tuple[float, float]]) -> bool:
    return any(max(along) - min(along) >= _LEAST_SIDE for along in zip(*corners, strict=True))


def _corners(path: Any, matrix: Matrix) -> Iterator[list[tuple[float, float]]]:
    """Yield the corners of each outline of a path; a thin box is one line."""
    count = pdfium.FPDFPath_CountSegments(path)
    if count > _SEGMENTS:
        return
    a, b, c, d, e, f = matrix
    give, kind_of = quick("FPDFPath_GetPathSegment"), quick("FPDFPathSegment_GetType")
    point, closes = quick("FPDFPathSegment_GetPoint"), quick("FPDFPathSegment_GetClose")
    x, y = ctypes.c_float(), ctypes.c_float()
    into = ctypes.byref(x), ctypes.byref(y)
    outline: list[tuple[float, float]] = []
    for at in range(count):
        segment = give(path, at)
        kind = kind_of(segment)
        if kind == pdfium.FPDF_SEGMENT_BEZIERTO or len(outline) > _CORNERS:
            return
        if kind == pdfium.FPDF_SEGMENT_MOVETO and outline:
            yield outline
            outline = []
        point(segment, *into)
        outline.append((a * x.value + c * y.value + e, b * x.value + d * y.value + f))
        if closes(segment):
            yield [*outline, outline[0]]
            outline = []
    if outline:
        yield outline


def _shows(page: OpenPage, *, blank: bool) -> bool:
    """Return whether the page needs OCR: a page without text shows something, or an image covers a third of it."""
    if blank:
        return bool(pdfium.FPDFPage_CountObjects(page.raw) > 0)
    area = pdfium.FPDF_GetPageWidthF(page.raw) * pdfium.FPDF_GetPageHeightF(page.raw)
    pictures = (bounds(each) for each in drawn(page) if each.kind == pdfium.FPDF_PAGEOBJ_IMAGE)
    return any(3 * (right - left) * (top - bottom) > area for left, bottom, right, top in pictures)


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
    nests=True,
    libraries=("pypdf", "pypdfium2", "rapidocr"),
    revision=20,
)
