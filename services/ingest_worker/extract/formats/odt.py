"""Reads OpenDocument texts and presentations as Markdown."""

import math
import re
import zipfile
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from services.ingest_worker.extract.archive import ADDRESS, Properties, named, names, opened, packed, part, root_of
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.document_properties import declared
from services.ingest_worker.extract.drawings import Box, in_reading_order
from services.ingest_worker.extract.embedded_files import pictures
from services.ingest_worker.extract.equations import equation
from services.ingest_worker.extract.format_types import Extraction, Format, Hints, laid_out
from services.ingest_worker.extract.markdown_writer import counted, raised
from services.ingest_worker.extract.rows import REPEATED, Cell, spread, table
from services.ingest_worker.extract.safe_xml import attribute, enclose, parsed, tag, text_before, whole, words
from services.ingest_worker.extract.symbols import in_font
from shared.contracts import Note
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.etree import _Element

_CONTENT, _META, _MANIFEST = "content.xml", "meta.xml", "META-INF/manifest.xml"
_MIME = b"application/vnd.oasis.opendocument."
_SAYS = b'office:mimetype="' + _MIME  # of a flat file
_HEAD = 64 * 1024  # bytes in which it says so
GAP = re.compile(rb">\s++(?=</?table:)")
_PROPERTIES = {
    "title": "title",
    "description": "description",
    "language": "language",
    "creation-date": "created",
    "date": "modified",
    "subject": "subject",
    "initial-creator": "author",
    "creator": "modifiedBy",
    "keyword": "keywords",
}
_OBJECTS = 200  # embedded charts and equations that are read
_LENGTH = re.compile(r"(-?\d{1,9}(?:\.\d{0,9})?)(cm|mm|in|pt|px)")
_POINTS = {"cm": 28.35, "mm": 2.835, "in": 72.0, "pt": 1.0, "px": 0.75}
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_SPAN = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}span"
TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAWN = ("{*}frame", "{*}custom-shape")
HREF = "{http://www.w3.org/1999/xlink}href"
_SLIDE = "drawing-page"  # the family of slides' styles
_FAMILIES = {"span": "text", "p": "paragraph", "h": "paragraph"}  # of styles, by elements
_INHERITED = 20  # styles, each of the one before
# What a style says of these
_SHOWN = frozenset({"display", "visibility", "text-line-through-style", "text-position", "font-name", "font-weight"})
_BOLD = "bold"  # ours: text in bold letters, or in the style of columns' names
_NUMBER = "number"  # ours: of an item
_COUNT = "count"  # ours: of an item, behind those of the items that it is within
_LEVELS = 10  # of headings
_LONGEST = 100  # characters around a number, which each item repeats
_STYLES = "styles.xml"
_NAMING = "Table_20_Heading"  # the style of columns' names
_CLASS = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}class"
_REPEATED = 1_000  # spaces or columns; a larger count is an attack
_COLUMNS = 50  # columns that a cell may cover or be repeated in


def holds(data: bytes, kind: str) -> bool:
    """Return whether it is an OpenDocument file of that kind: text, presentation, spreadsheet."""
    # The standard puts the media type first and uncompressed, so it is at a fixed offset.
    if data[38 : 38 + len(_MIME) + len(kind)] == _MIME + kind.encode():
        return _CONTENT in names(data)
    at = data.find(_SAYS, 0, _HEAD) if data.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"<?xml") else -1
    return at >= 0 and data.startswith(kind.encode(), at + len(_SAYS))


def contained(data: bytes) -> bytes:
    """Return the file as a container; one that is flat, a single XML file, becomes its content."""
    if data.startswith(b"PK"):
        return data
    content = GAP.sub(b">", data)  # between cells calamine takes nothing else, and asks for the two before it
    return packed([("mimetype", _MIME + b"spreadsheet"), (_MANIFEST, "<manifest/>"), (_CONTENT, content)])


def described(data: bytes, hints: Hints) -> Properties:
    """Return title, description, language, created, modified, author and others, as far as the file has them.

    Raises:
        Rejected: code `damaged`, `password` or `too_large`.
    """
    with opened(data, hints) as archive:
        listed = archive.namelist()
        if _MANIFEST in listed and b"encryption-data" in part(archive, _MANIFEST, hints):
            raise Rejected(f"{hints.name} is locked by a password", "password")
        root = parsed(part(archive, _META if _META in listed else _CONTENT, hints))
    return {} if root is None else named(root.iterfind("{*}meta/*"), _PROPERTIES)


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the paragraphs, headings, lists and tables in reading order; notes and text boxes follow their paragraph.

    Slides become pages.

    Raises:
        Rejected: code `damaged`, `password` or `too_large`.
    """
    data = contained(data)
    says = described(data, hints)
    with opened(data, hints) as archive:
        root = parsed(part(archive, _CONTENT, hints))
        styles = root_of(archive, _STYLES, hints)
        notes = [] if root is None else [*_with_objects(root, archive, hints), *pictures(pictured(archive))]
    body = None if root is None else root.find("{*}body")
    if body is None:
        raise Rejected(f"{hints.name} is damaged: its content can't be parsed", "damaged")
    assert root is not None
    for box in root.iter("{*}fieldmark"):
        checked = [each for each in box.iter("{*}param") if attribute(each, "name") == "Checkbox_Checked"]
        if attribute(box, "type").endswith("FORMCHECKBOX"):
            on = checked and attribute(checked[0], "value") == "true"
            behind = " " if (box.tail or "")[:1].isalnum() else ""
            box.text = f" {'' if on else 'not '}checked{behind}"
    for field in root.iter("{*}page-number"):
        if (field.text or "").startswith("<"):  # what programs show where there is no page
            field.text = None
    hidden = _restyled(root, styles)
    _number_items(root, styles)
    slides = list(body.iter("{*}page"))
    unseen = [number for number, slide in enumerate(slides, 1) if attribute(slide, "style-name") in hidden]
    shown = [() if number in unseen else _blocks(each) for number, each in enumerate(slides or [body], 1)]
    text, pages = laid_out([cleaned("\n\n".join(filter(None, blocks))) for blocks in shown])
    return Extraction(
        text=text,
        pages=pages if slides else (),
        notes=(
            *(
                Note(code="hidden", place=f"slide {number}", message=f"the hidden slide {number} was left out")
                for number in unseen
            ),
            *notes,
        ),
        **declared(says, text),
    )


def drawings(root: "_Element", archive: zipfile.ZipFile, hints: Hints) -> tuple[dict[str, str], list[Note]]:
    """Take text boxes and charts out of a spreadsheet; return their text by the sheet's name, and notes."""
    notes = list(_with_objects(root, archive, hints))
    found: dict[str, str] = {}
    for sheet in root.iterfind("{*}body/{*}spreadsheet/{*}table"):
        drawn = [each for each in sheet.iter(*_DRAWN) if next(each.iterancestors(*_DRAWN), None) is None]
        found[sheet.get(f"{TABLE}name", "")] = "\n\n".join(filter(None, chain.from_iterable(map(_blocks, drawn))))
        for each in drawn:
            each[:] = []  # `remove` would take the text behind it
            each.text = None
    return found, notes


def pictured(archive: zipfile.ZipFile) -> int:
    """Return the number of pictures in the file."""
    # LibreOffice also stores how a slide's table looks.
    return sum(name.startswith("Pictures/") and "/TablePreview" not in name for name in archive.namelist())


def _with_objects(root: "_Element", archive: zipfile.ZipFile, hints: Hints) -> Iterator[Note]:
    """Put embedded equations and the tables of charts in their places; yield notes about other objects."""
    left = set(archive.namelist())  # each is read once, whatever refers to it
    for drawn in list(islice(root.iter("{*}object", "{*}object-ole"), _OBJECTS)):
        path, frame = drawn.get(HREF, "").removeprefix("./"), drawn.getparent()
        content = f"{path}/{_CONTENT}"
        inner = parsed(part(archive, content, hints)) if content in left else next(iter(drawn), None)
        left.discard(content)
        if frame is None or inner is None:
            yield Note(code="object", place=path, message=f"the embedded object {path} could not be read")
        elif tag(inner) == "math":
            text, tail = equation(inner), frame.tail
            frame.clear()
            frame.tag, frame.text, frame.tail = _SPAN, text, tail
        else:
            drawn[:] = inner.iterfind("{*}body/*")


def _box(element: "_Element") -> Box | None:
    """Return where a shape is; a slide's notes come last, and what has no place first."""
    if tag(element) == "notes":
        return Box(math.inf, 0, 0)
    if tag(element) == "g":
        return min(filter(None, map(_box, element)), default=None)
    found = [_LENGTH.match(element.get(f"{_SVG}{name}", "")) for name in ("y", "x", "height")]
    top, left, height = (float(each[1]) * _POINTS[each[2]] if each else None for each in found)
    return None if top is None or left is None else Box(top, left, height or 0.0)


def _restyled(root: "_Element", styles: "_Element | None") -> frozenset[str]:
    """Take hidden text away, mark struck, raised and bold text, and write what symbol fonts show for letters.

    Return the names of the hidden styles of slides.
    """
    for hides in [each for each in root.iter("{*}hidden-paragraph") if attribute(each, "is-hidden") == "true"]:
        if (paragraph := hides.getparent()) is not None:
            paragraph[:], paragraph.text = [], None
    known = dict(_styles(root, styles))
    struck = {name for name, says in known.items() if says.get("text-line-through-style", "none") != "none"}
    for element in list(root.iter("{*}span", "{*}p", "{*}h")):
        says = known.get(_named(element), {})
        element.text = in_font(element.text or "", says.get("font-name", ""))
        if says.get("font-weight") == "bold" or attribute(element, "style-name").startswith(_NAMING):
            element.set(_BOLD, "1")
        if _hides(says):
            element[:], element.text = [], None
        elif _named(element) in struck:
            around = any(_named(each) in struck for each in element.iterancestors("{*}span", "{*}p", "{*}h"))
            if words(element) and not around:
                enclose(element, "~~", "~~")
        elif says.get("text-position", "").startswith("super") and tag(element) == "span" and element.text:
            element.text = raised(element.text, text_before(element))
    return frozenset(name for (family, name), says in known.items() if family == _SLIDE and _hides(says))


def _hides(says: dict[str, str]) -> bool:
    return says.get("display") == "none" or says.get("visibility") == "hidden"


def _named(element: "_Element") -> tuple[str, str]:
    """Return the family and name of the style of a text."""
    return _FAMILIES[tag(element)], attribute(element, "style-name")


def _styles(root: "_Element", styles: "_Element | None") -> Iterator[tuple[tuple[str, str], dict[str, str]]]:
    """Yield the family and name of each style, and what it says of how text is shown, with what it inherits."""
    known: dict[tuple[str, str], tuple[str, dict[str, str]]] = {}
    usual = (root if styles is None else styles).iterfind("{*}styles/{*}style")
    for style in (*usual, *root.iterfind("{*}automatic-styles/{*}style")):
        own = {str(key).rpartition("}")[2]: str(value) for each in style for key, value in each.attrib.items()}
        says = {key: own[key] for key in _SHOWN & own.keys()}
        if attribute(style, "parent-style-name").startswith(_NAMING):
            says["font-weight"] = "bold"
        for family in (attribute(style, "family"),) if attribute(style, "family") else {*_FAMILIES.values(), _SLIDE}:
            known[family, attribute(style, "name")] = attribute(style, "parent-style-name"), says
    for name in known:
        says, above = {}, name
        for _ in range(_INHERITED):  # a style may be its own parent
            if above not in known:
                break
            parent, own = known[above]
            says, above = own | says, (above[0], parent)
        yield name, says


def _number_items(root: "_Element", styles: "_Element | None") -> None:
    """Mark the items of numbered lists, and numbered headings, with their numbers."""
    roots = [each for each in (styles, root) if each is not None]
    numbered = {
        (attribute(style, "name"), whole(attribute(level, "level"))): level
        for each in roots
        for style in each.iter("{*}list-style", "{*}outline-style")
        for level in style
        if attribute(level, "num-format")[:1] in tuple("1aAiI一①")
    }
    last: dict[tuple[str, int], int] = {}
    for listed in root.iter("{*}list") if numbered else ():
        above = [listed, *listed.iterancestors("{*}list")]
        at = next(filter(None, (attribute(each, "style-name") for each in above)), ""), len(above)
        goes_on = attribute(listed, "continue-numbering") == "true" or attribute(listed, "continue-list")
        number, outer = last.get(at, 0) if goes_on else 0, listed.getparent()
        for item in listed.iterfind("{*}list-item"):
            inner = item[0] if len(item) and tag(item[0]) == "list" else None
            if inner is None:
                number = whole(attribute(item, "start-value"), number + 1)
            elif goes_on and number == last.get(at):  # a list that goes on below an item of its first part
                inner.set("continue-numbering", "true")
            if at in numbered:
                _number(item, numbered[at], number, "" if outer is None else outer.get(_COUNT, ""))
        last[at] = number
    plain = set[str]()  # styles of headings without numbers
    for style in (style for each in roots for style in each.iter("{*}style")):
        own = {str(key).rpartition("}")[2]: str(value) for key, value in style.attrib.items()}
        if own.get("list-style-name", "" if own.get("parent-style-name") in plain else None) == "":
            plain.add(own.get("name", ""))
    outline = {level: of for (_, level), of in numbered.items() if tag(of) == "outline-level-style"}
    counts = [0] * (_LEVELS + 1)
    shown = [""] * (_LEVELS + 1)
    for heading in root.iter("{*}h") if outline else ():
        level = min(whole(attribute(heading, "outline-level"), 1), _LEVELS)
        if level in outline and attribute(heading, "style-name") not in plain:
            counts[level:] = [counts[level] + 1, *[0] * (_LEVELS - level)]
            _number(heading, outline[level], counts[level], shown[level - 1])
            shown[level:] = [heading.get(_COUNT, "")] * (_LEVELS + 1 - level)


def _number(element: "_Element", level: "_Element", number: int, outer: str) -> None:
    """Mark an item with its number, behind those of the items that it is within if the level shows them."""
    counts = [*filter(None, outer.split(".")), counted(number, attribute(level, "num-format")[:1])]
    shown = ".".join(counts[-(whole(attribute(level, "display-levels"), 1) or 1) :])
    plain = "." not in shown and attribute(level, "num-format")[:1] != "①"
    after = attribute(level, "num-suffix") or ("." if plain and tag(element) == "list-item" else "")
    element.set(_COUNT, ".".join(counts))
    element.set(_NUMBER, f"{attribute(level, 'num-prefix')[:_LONGEST]}{shown}{after[:_LONGEST]} ")


def _blocks(element: "_Element") -> Iterator[str]:
    for child in in_reading_order(list(element), _box) if tag(element) in ("page", "g") else element:
        match tag(child):
            case "h" | "p" as kind:
                level = min(whole(attribute(child, "outline-level"), 1), 6)
                line = _line(child)
                yield f"{'#' * level} {child.get(_NUMBER, '') if line else ''}{line}" if kind == "h" else line
                yield from _beside(child)
            case "list":
                yield "\n".join(_items(child, ""))
                for paragraph in child.iter("{*}p", "{*}h"):
                    yield from _beside(paragraph)
            case "table":
                first = next(_rows(child), None)
                named = next(child.iterfind("{*}table-header-rows"), None) is not None or _is_bold(first)
                yield table(spread(map(_cells, _rows(child))), headed=named)
            case "frame" if child.get(_CLASS) == "title":
                yield f"# {' '.join(filter(None, map(_line, child.iter('{*}p'))))}".rstrip("# ")
            case "notes":
                spoken = list(filter(None, _blocks(child)))
                yield "\n\n".join(["Notes:", *spoken] if spoken else [])
            case "section" if attribute(child, "display") == "none":
                continue
            case "tracked-changes" | "forms" | "annotation" | "page-thumbnail" | "note-citation" | "":
                continue  # deleted text, form fields, comments, note numbers
            case _:
                yield from _blocks(child)


def _is_bold(row: "_Element | None") -> bool:
    lines = [] if row is None else [each for each in row.iter("{*}p", "{*}h") if words(each)]
    return bool(lines) and all(any(each.get(_BOLD) for each in (line, *line)) for line in lines)


def _beside(paragraph: "_Element") -> Iterator[str]:
    """Yield the blocks of a paragraph's notes and text boxes."""
    for child in paragraph:
        if tag(child) in ("note", "frame", "custom-shape"):
            yield from _blocks(child)
        elif tag(child) != "annotation":
            yield from _beside(child)


def _items(element: "_Element", indent: str) -> Iterator[str]:
    for item in element:
        first = True
        for child in item:
            if tag(child) == "list":
                yield from _items(child, indent + "  ")
            elif line := _line(child):
                yield f"{indent}{item.get(_NUMBER, '- ') if first else '  '}{line}"
                first = False


def _rows(element: "_Element") -> Iterator["_Element"]:
    for child in element:
        if tag(child) == "table-row":
            yield child
        elif tag(child) in ("table-header-rows", "table-row-group", "table-rows"):
            yield from _rows(child)


def _cells(row: "_Element") -> Iterator[Cell]:
    blank = 0  # cells that have been left out, unless one follows
    for cell in row:
        if tag(cell) != "table-cell":  # it is covered by another one
            continue
        text = " ".join(filter(None, map(_line, cell.iter("{*}p", "{*}h"))))
        counts = (attribute(cell, f"number-{name}") for name in ("columns-repeated", "columns-spanned", "rows-spanned"))
        repeated, across, down = (min(whole(count, 1), _COLUMNS) for count in counts)
        if not text and across == down == 1:
            blank = min(blank + repeated, _COLUMNS)
            continue
        yield from [Cell("")] * blank
        yield from [Cell(text, across, down)] * (repeated if len(text) <= REPEATED else 1)
        blank = 0


def _line(element: "_Element") -> str:
    """Return a paragraph's text on one line, with the format's white-space elements as spaces."""
    parts: list[str] = []
    _gather(element, parts)
    return " ".join("".join(parts).split())


def _gather(element: "_Element", parts: list[str]) -> None:
    parts.append(element.text or "")
    for child in element:
        match tag(child):
            case "s":
                parts.append(" " * min(whole(attribute(child, "c"), 1), _REPEATED))
            case "tab" | "line-break":
                parts.append(" ")
            case "annotation" | "note" | "frame" | "custom-shape" | "placeholder" | "ruby-text" | "":
                pass
            case "hidden-text" if attribute(child, "is-hidden") == "true":
                pass
            case "a" if ADDRESS.fullmatch(address := child.get(HREF, "").strip()):
                own: list[str] = []
                _gather(child, own)
                parts.append(f"[{''.join(own)}]({address})" if "".join(own).strip() else "")
            case _:
                _gather(child, parts)  # libxml2 limits the depth
        parts.append(child.tail or "")


FORMATS = tuple(
    Format(
        document_type=document_type,
        revision=11,
        media_types=frozenset({f"application/vnd.oasis.opendocument.{kind}"}),
        suffixes=frozenset(suffixes),
        sniff=partial(holds, kind=kind),
        read=read,
        libraries=("lxml",),
    )
    for document_type, kind, suffixes in (
        ("odt", "text", (".odt", ".ott", ".fodt")),
        ("odp", "presentation", (".odp", ".otp", ".fodp")),
    )
)
