"""Reads XML: its text in blocks, with titles as headings. Declared entities and links are not resolved."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from html import escape, unescape
from itertools import chain
from typing import TYPE_CHECKING

from services.ingest_worker.extract.archive import ADDRESS
from services.ingest_worker.extract.clean import cleaned, decoded, is_base64, one_line
from services.ingest_worker.extract.document_properties import declared
from services.ingest_worker.extract.equations import equation
from services.ingest_worker.extract.format_types import Extraction, Format, Hints, as_part
from services.ingest_worker.extract.html_markdown import declared_charset, part_text
from services.ingest_worker.extract.lightweight_markup import of_wiki
from services.ingest_worker.extract.markdown_writer import counted, fenced, raised
from services.ingest_worker.extract.rows import Cell, labelled, spread, table
from services.ingest_worker.extract.safe_xml import (
    attribute,
    enclose,
    parsed,
    set_lines_apart,
    tag,
    text_before,
    texts,
    whole,
    words,
)
from services.ingest_worker.extract.sheet_views import SheetView
from services.ingest_worker.extract.sheets import LeftOut, left_out_notes, shown_rows
from shared.contracts import Note
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.etree import _Element

# The document type declaration is removed before parsing, so that entities are not declared and can't expand.
_PROLOG = re.compile(r"\s*+(?:<\?xml[^>]*+>\s*+)?(?:<!DOCTYPE[^\[>]*+(?:\[[^\]]*+\][^>]*+)?>)?")
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)(\w{1,40});")
_TITLES = frozenset({"title", "article-title", "heading", "head"})
_FEEDS = {"rss": "item", "RDF": "item", "feed": "entry"}  # by root: its entries, whose fields but these have names
_SAID = _TITLES | {"description", "summary", "content", "encoded"}
_PROSE = frozenset({"p", "para", "section"})
_EXAMPLES = frozenset({"code", "codeblock", "example", "literal", "literallayout", "pre", "programlisting", "screen"})
_TABLES = frozenset({"table", "tgroup", "tbl", "simpletable", "choicetable"})
_ROWS = ("{*}tr", "{*}row", "{*}sthead", "{*}strow", "{*}chhead", "{*}chrow")
_UNSEEN = [f"{{http://www.w3.org/{name}}}{kind}" for name in ("2000/svg", "1999/xhtml") for kind in ("style", "script")]
_LISTS = frozenset({"opml", "urlset"})  # roots of records, whatever their fields' names
_NAMED = frozenset({"ExtendedData", "SchemaData", "context-group", "plurals"})  # whose values an attribute names
# Tags within the texts of translations, by their file's root
_MARKS = {
    "xliff": ("g", "x", "bx", "ex", "bpt", "ept", "ph", "it", "mrk", "pc", "sc", "ec"),
    "resources": ("g", "b", "i", "u"),
}
# Elements whose words don't touch those beside them
# fmt: off
_APART = tuple(f"{{*}}{name}" for name in (
    "br", "lb", "break", "tab", "p", "para", "item", "li", "listitem", "td", "entry", "note", "fn", "footnote",
))
# Elements within a line
_INLINE = frozenset((
    "a", "b", "bold", "em", "emphasis", "ext-link", "hi", "i", "italic", "link", "literal", "ref", "sub", "sup",
    "strong", "tspan", "ulink", "underline", "xref",
))
_LINES = frozenset(("p", "para", "simpara", "text"))
# fmt: on
_TOUCH = re.compile(r"(?![\u2e80-\ua4cf]{2})[\w.,;:!?)]\w")  # two characters that belong to different words
_MATH = "{http://www.w3.org/1998/Math/MathML}math"
_ORDERED = ("{*}list", "{*}orderedlist", "{*}ol", "{*}procedure", "{*}steps")
_ITEMS = frozenset({"item", "li", "list-item", "listitem", "step"})
_COUNTS = re.compile("(?<!un)order|number|arabic|alpha|roman")
_LABELS = ("{*}label", "{*}term", "{*}dt", "{*}glossterm")
_TERMS = frozenset({"listitem", "def", "dd", "glossdef"})  # what stands beside a term that it explains
_MANY = _TABLES | {"def-list", "dl", "itemizedlist", "list", "ol", "orderedlist", "sl", "ul", "variablelist"}
# What stands between the parts of an element that has no text but theirs
_TOGETHER = {
    "name": " ", "personname": " ", "author": " ", "pub-date": " ", "person-group": ", ", "contrib": " ",
    "element-citation": ", ", "kwd-group": ", ", "keycombo": "+", "menucascade": " > ", "menuchoice": " > ",
}  # fmt: skip
_OWN_LINES = ("{*}p", "{*}para", "{*}title", "{*}label")  # in such an element: then each part has its own
_LINKS = ("{*}a", "{*}ext-link", "{*}link", "{*}ref", "{*}ulink", "{*}uri", "{*}xref")
_MARKED = re.compile(r"\d{1,3}(?:[,\u2013-]\d{1,3})*")
_NOTE_KINDS = frozenset({"bibr", "fn", "table-fn"})
_TECHNICAL = frozenset({"schemaLocation", "noNamespaceSchemaLocation", "space", "lang"})
_SHEETS = "{urn:schemas-microsoft-com:office:spreadsheet}"  # of Excel 2003, and of programs that export for it
_MOST_ROWS, _COLUMNS = 65_536, 256  # of such a sheet
_FIRST_YEAR = 1900  # what is before it is a time of day
_NESTED = 3  # levels of fields within a record's fields
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text of the elements in blocks.

    Raises:
        Rejected: code `unsupported`: the data is not text; `damaged`: nothing can be parsed.
    """
    text = decoded(data, hints, declared=declared_charset(data))
    prolog = _PROLOG.match(text)
    text = _ENTITY.sub(_entity, text[prolog.end() if prolog else 0 :])
    root = parsed(text.encode("utf-8", "replace"), encoding="utf-8")
    if root is None:
        raise Rejected(f"{hints.name} is damaged: not readable XML", "damaged")
    if root.tag == f"{_SHEETS}Workbook":
        return _workbook(root)
    for each in root.iterfind(".//*[@value]"):
        if len(each.attrib) == 1 and not len(each) and not each.text:  # a value with the element's name
            each.text = str(each.attrib.pop("value"))
    for unseen in [each for each in root.iter(*_UNSEEN) if each is not root]:
        unseen[:], unseen.text = [], None
    for math in list(root.iter(_MATH)):
        says = equation(math)
        if says:
            math[:], math.text = [], says
    for file in root.iterfind(".//*[@encoding='base64']"):
        file.text = None
    _drop_marks(root)
    _set_apart(root)
    _mark_raised(root)
    records = len(root) > 0 and not _is_prose(root)  # which have titles of their own
    if not records:
        _join_parts(root)
        _number_items(root)
        _join_labels(root)
        _write_addresses(root)
    titles = (
        root.iterfind("./{*}head/{*}title") if records else root.iter("{*}article-title", "{*}book-title", "{*}title")
    )
    title = next(map(_words, titles), None)
    return Extraction(
        text=_text(root, records=records) or _text(root, records=True),
        title=one_line(title),
        language=one_line(root.get(_LANGUAGE), 35),
    )


def _workbook(root: "_Element") -> Extraction:
    """Return a heading per sheet, and a paragraph per row."""
    texts: list[str] = []
    notes: list[Note] = []
    for sheet in root.iterfind("{*}Worksheet"):
        name = " ".join(sheet.get(f"{_SHEETS}Name", "").split())
        if (sheet.findtext("{*}WorksheetOptions/{*}Visible") or "").startswith("SheetHidden"):
            notes.append(Note(code="hidden", place=name, message=f"the hidden sheet {name} was left out"))
            continue
        left_out = LeftOut(set)
        rows = labelled(shown_rows(*_grid(sheet), left_out))
        notes += left_out_notes(name, left_out)
        texts += [as_part(name, rows)] if rows else []
    says = {name: root.findtext(f"{{*}}DocumentProperties/{{*}}{name.title()}") for name in ("title", "author")}
    text = cleaned("\n\n".join(texts))
    return Extraction(text=text, notes=tuple(notes), **declared(says))


def _placed(sheet: "_Element", kind: str) -> "Iterator[tuple[int, int, _Element]]":
    """Yield the first and the last number, from 0, of what each row or column of the sheet stands for."""
    end = 0
    for each in sheet.iterfind(f"{{*}}Table/{{*}}{kind}"):
        place, more = (whole(each.get(f"{_SHEETS}{name}")) for name in ("Index", "Span"))
        first = max(place - 1, end) if place <= _MOST_ROWS else end
        end = first + 1 + (more if first + more < _MOST_ROWS else 0)
        yield first, end - 1, each


def _hidden(sheet: "_Element", kind: str) -> frozenset[int]:
    placed = _placed(sheet, kind)
    return frozenset(
        at for first, last, each in placed if each.get(f"{_SHEETS}Hidden") == "1" for at in range(first, last + 1)
    )


def _grid(sheet: "_Element") -> tuple[Iterator[list[object]], SheetView]:
    """Return the values of all rows, and what is hidden or merged among them."""
    rows: list[list[object]] = []
    merged: list[tuple[tuple[int, int], tuple[int, int]]] = []
    covered: dict[int, int] = {}  # the last row that a cell above goes on in, by column
    for at, _, row in _placed(sheet, "Row"):
        cells: list[object] = []
        for cell in row.iterfind("{*}Cell"):
            place, across, down = (
                whole(cell.get(f"{_SHEETS}{name}")) for name in ("Index", "MergeAcross", "MergeDown")
            )
            while len(cells) < min(place, _COLUMNS) - 1 or (not place and covered.get(len(cells), -1) >= at):
                cells.append("")
            begin, end = len(cells), min(len(cells) + across, _COLUMNS - 1)
            cells += [_value_of(cell.find("{*}Data")), *[""] * (end - begin)]
            if across or down:
                merged.append(((at, begin), (at + down, end)))
                covered |= dict.fromkeys(range(begin, end + 1), at + down)
        rows += [*[[]] * (at - len(rows)), cells]
    width = max(map(len, rows), default=0)
    hidden_rows, hidden_columns = _hidden(sheet, "Row"), _hidden(sheet, "Column")
    view = SheetView(hidden_rows=hidden_rows, hidden_columns=hidden_columns, merged=merged)
    return ([*row, *[""] * (width - len(row))] if row else [] for row in rows), view


def _value_of(data: "_Element | None") -> object:
    text = "" if data is None else words(data)
    try:
        match "" if data is None else data.get(f"{_SHEETS}Type"):
            case "Number":
                return float(text)
            case "Boolean":
                return text == "1"
            case "DateTime":
                at = datetime.fromisoformat(text)
                return at if at.year >= _FIRST_YEAR else at.time()
    except ValueError:
        pass
    return text


def _entity(reference: re.Match[str]) -> str:
    """Return the character that HTML defines for an entity reference, or '' if HTML defines none."""
    meant = unescape(reference[0])
    return "" if meant == reference[0] else escape(meant)


def _text(root: "_Element", *, records: bool) -> str:
    return cleaned("\n\n".join(filter(None, _blocks(root, records=records))))


def _blocks(root: "_Element", *, records: bool) -> Iterator[str]:
    """Yield the whole text of each element that has text of its own and no ancestor with text; tables as tables.

    With `records`, each record is a block instead: `name: Skua; draught: 4.2`.
    """
    ahead, listed = [(root, 0, "")], tag(root) in _LISTS
    entry = _FEEDS.get(tag(root))
    while ahead:
        element, depth, path = ahead.pop()
        if records and (not len(element) or _is_record(element, _NESTED if depth else 0)):
            yield "; ".join(_fields(element, path))
        elif tag(element) in _TABLES and (rows := list(element.iter(*_ROWS))):
            places = {each.get("colname"): at for at, each in enumerate(element.iter("{*}colspec"))}
            headed = next(element.iter("{*}thead", "{*}th", "{*}sthead", "{*}chhead"), None) is not None
            cells = ([_cell(cell, places) for cell in row if tag(cell) not in ("", "trPr", "tblPrEx")] for row in rows)
            yield table(spread(cells), headed=headed)
        elif not records and (code := _code(element)):
            yield code
        elif not records and (
            element.find("{*}r/{*}t") is not None
            or (element.text or "").strip()
            or any((child.tail or "").strip() for child in element)
            or (
                tag(element) in _LINES
                and all(tag(each) in _INLINE for each in element.iterdescendants())
                and (tag(element) == "text" or all(each.tail for each in list(element)[:-1]))
            )
        ):
            line = _page(element) or ("" if is_base64(element.text or "") else _words(element))
            if (
                line
                and tag(element) not in _SAID
                and (around := element.getparent()) is not None
                and tag(around) == entry
            ):
                line = f"{tag(element)}: {line}"
            yield f"{'#' * min(max(depth, 1), 6)} {line}" if tag(element) in _TITLES and line else line
        else:
            leaves = [child for child in element if records and tag(child) and not len(child) and _value(child.text)]
            alone = len({tag(child) for child in leaves}) == len(leaves) > 1
            once = dict.fromkeys(leaves if alone else ())  # fields of the whole
            if records or (element.get("href") and not len(element)):
                yield "; ".join(chain(_attributes(element), *(_fields(child, path) for child in once)))
            kinds = Counter(tag(child) for child in element if len(child))  # one alone has a name that tells it apart
            paths = {kind: f"{kind} " for kind, count in kinds.items() if count == 1 < len(kinds) and not listed}
            within = path if len(kinds) == 1 == kinds.total() else ""
            ahead.extend(
                (child, depth + 1, paths.get(tag(child), within))
                for child in reversed(element)
                if tag(child) and child not in once
            )


def _code(element: "_Element") -> str:
    """Return a preformatted element of several lines with its lines, else ''."""
    if tag(element) not in _EXAMPLES - {"example"}:
        return ""
    lines = "".join(map(str, element.itertext()))
    return fenced(lines) if "\n" in lines.strip() and not is_base64(lines) else ""


def _page(element: "_Element") -> str:
    """Return the text of a page of HTML that is written as text within the element, or of a wiki's; '' if none is."""
    titled = tag(element) in _TITLES and element.get("type") != "html"
    plain = len(element) or tag(element) in _EXAMPLES or titled or tag(element) == "name"
    text = "" if plain else element.text or ""
    if tag(element) == "text" and tag(element.getroottree().getroot()) == "mediawiki":
        return of_wiki(text.strip())
    return part_text(text, within=_may_be_page(element))


def _may_be_page(element: "_Element") -> bool:
    root = tag(element.getroottree().getroot())  # a title of Atom says that it is one
    in_feed = root in (*_FEEDS, "kml") and tag(element) in (_SAID - _TITLES if root == "feed" else _SAID)
    return element.get("type") == "html" or (in_feed and element.get("type") != "text")


def _words(element: "_Element") -> str:
    """Return all text in the element on one line; words beside a line end, or of different items, don't touch."""
    if next(element.iterdescendants(*_APART), None) is None:
        return unescape(words(element)) if _may_be_page(element) else words(element)
    says, last = list[str](), ""
    for apart, text in texts(element, {name.removeprefix("{*}") for name in _APART}):
        says += [" "] if apart and _TOUCH.fullmatch(last + text[0]) else []
        says.append(text)
        last = text[-1]
    return " ".join("".join(says).split())


def _cell(cell: "_Element", places: Mapping[str | None, int]) -> Cell:
    """Return a cell as HTML, CALS and Word declare it; `places` are the columns' by name."""
    first, last = (places.get(cell.get(name), 0) for name in ("namest", "nameend"))
    across, down, more = (whole(cell.get(name)) for name in ("colspan", "rowspan", "morerows"))
    across = across or whole(attribute(cell.find("{*}tcPr/{*}gridSpan")))
    return Cell(_words(cell), across or 1 + last - first, down or 1 + more)


def _drop_marks(root: "_Element") -> None:
    """Write what the tags within the texts of translations stand for."""
    from lxml import etree  # imported here, because only parser processes should load heavy libraries

    for kind in _MARKS.get(tag(root), ()):
        for mark in root.iter(f"{{*}}{kind}"):
            says = mark.get("equiv-text") or mark.get("disp") or ""
            mark.text = mark.text or ("" if says.startswith("<") else says)
        etree.strip_tags(root, f"{{*}}{kind}")


def _set_apart(root: "_Element") -> None:
    """Put blanks around lines of a drawing's text, and between the readings of a word."""
    set_lines_apart(root)
    for choice in root.iter("{*}choice"):
        for reading in list(choice)[:-1]:
            enclose(reading, "", " ")


def _mark_raised(root: "_Element") -> None:
    """Keep raised numbers apart from digits before them (10^5), and [1] for a note; SCOAP3 stays a word."""
    for each in list(root.iter("{*}sup", "{*}superscript", "{*}xref")):
        number, parent, ahead = words(each), each.getparent(), text_before(each)
        refers = (parent is not None and tag(parent) == "xref") or each.find("{*}xref") is not None
        if tag(each) == "xref":
            touches = ahead[-1:].isalnum() or ahead[-1:] in tuple(".,;:!?)")
            if not (touches and each.get("ref-type") in _NOTE_KINDS and _MARKED.fullmatch(number)):
                continue
            refers = True
        apart = ahead[-1:].isdigit() or not number[:1].isdigit()
        each[:], each.text = [], f"[{number}]" if refers else raised(number, ahead) if apart else number


def _number_items(root: "_Element") -> None:
    """Write the numbers of ordered lists before their items."""
    for listed in root.iter(*_ORDERED):
        kind = " ".join(listed.get(name, "") for name in ("list-type", "type", "rend", "numeration"))
        if tag(listed) == "list" and not _COUNTS.search(kind):
            continue
        letters = next((sign for name, sign in (("alpha", "a"), ("roman", "i")) if name in kind), "")
        start = whole(listed.get("start") or listed.get("startingnumber")) or 1
        for number, item in enumerate((each for each in listed if tag(each) in _ITEMS), start):
            first = _first_within(item)
            if words(first) and tag(first) != "label" and next(first.iterancestors(*_ORDERED), listed) is listed:
                mark = counted(number, letters.upper() if "upper" in kind else letters)
                first.text = f"{mark}. {(first.text or '').lstrip()}"


def _first_within(element: "_Element") -> "_Element":
    """Return the innermost element with which the element's text begins."""
    while not (element.text or "").strip() and len(element) and tag(element[0]) not in _TABLES and words(element[0]):
        element = element[0]
    return element


def _join_parts(root: "_Element") -> None:
    """Drop the words of an index, and write names, sources and keywords, whose parts are elements, as one text."""
    for entry in list(root.iter("{*}indexterm")):  # one may be within another
        entry[:], entry.text = [], None
    for kind, sign in _TOGETHER.items():
        for each in reversed(list(root.iter(f"{{*}}{kind}"))):  # the inner ones first, so that none is read again
            own = any((text or "").strip() for text in (each.text, *(part.tail for part in each)))
            if len(each) and not own and next(each.iterdescendants(*_OWN_LINES), None) is None:
                keys = [part for part in each if tag(part) == "shortcut"]  # of a menu's last step
                each[:] = [part for part in each if part not in keys]
                each.text, each[:] = "".join((_joined(each, sign), *(f" ({words(key)})" for key in keys))), []


def _joined(element: "_Element", sign: str = " ") -> str:
    """Return all text in the element; the sign stands between parts that have no text beside them."""
    says = [_joined(part) for part in element]
    beside = [part.tail or "" for part in element]
    if "".join((element.text or "", *beside)).strip() or all(tag(part) in _INLINE for part in element):
        return f"{element.text or ''}{''.join(chain.from_iterable(zip(says, beside, strict=True)))}"
    return sign.join(filter(None, (" ".join(each.split()) for each in says)))


def _join_labels(root: "_Element") -> None:
    """Write numbers of sections and tables, and terms, before what they name or what explains them."""
    for label in list(root.iter(*_LABELS)):
        told, is_term = label.getnext(), tag(label) != "label"
        if told is None or tag(told) == tag(label) or not words(told) or (is_term and tag(told) not in _TERMS):
            continue
        labels = [label]
        while is_term and (before := labels[-1].getprevious()) is not None and tag(before) == tag(label):
            labels.append(before)
        first, around = _first_within(told), [told]
        while around[-1] is not first:
            around.append(around[-1][0])
        said = " / ".join(filter(None, map(words, reversed(labels))))
        apart = any((each.tail or "").strip() for each in labels) or any(tag(each) in _MANY for each in around)
        if not said or apart or _code(first) or (len(first) and not (first.text or "").strip()):  # code or a table
            continue
        first.text = f"{said}{':' if is_term and said[-1] != ':' else ''} {(first.text or '').lstrip()}"
        for each in labels:
            each[:], each.text = [], None


def _write_addresses(root: "_Element") -> None:
    """Write the addresses of links in brackets behind their words."""
    for link in root.iter(*_LINKS):
        address = next(filter(ADDRESS.fullmatch, (attribute(link, name) for name in ("href", "url", "target"))), "")
        if address and (said := words(link)) and address not in said:
            enclose(link, "", f" ({address})")


def _is_prose(root: "_Element") -> bool:
    """Return whether the file has titles, paragraphs, or text beside elements: it is to be read, not looked up."""
    return tag(root) not in _LISTS and any(
        tag(element) in _PROSE
        or (any(tag(child) in _TITLES for child in element) and not _is_entry(element))
        or (len(element) > 0 and (element.text or "").strip())
        or (element.tail or "").strip()
        or str(element.tag).startswith("{http://www.w3.org/2000/svg}")
        for element in root.iter()
    )


def _is_entry(element: "_Element") -> bool:
    """Return whether a title in it is a field: beside another of its name, with three kinds of fields or more.

    Where half of these are sentences, or any within them is one, the title is a heading above them.
    """
    said = [(each.text or "").rstrip().endswith((".", "!", "?")) for each in element]
    within = any((each.text or "").rstrip().endswith((".", "!", "?")) for each in element.iterfind("*//*"))
    beside = {each.tag for each in (element.getprevious(), element.getnext()) if each is not None}
    kinds = {tag(child) for child in element}
    plain = 2 * sum(said) < len(said) and not within
    return element.tag in beside and len(kinds) > 2 and plain and _is_record(element, 1)


def _is_record(element: "_Element", depth: int) -> bool:
    """Return whether the children are fields, or have such in turn, `depth` levels deep.

    Where some have attributes or fields, no name comes again: else they are a list.
    """
    fields = [child for child in element if tag(child)]
    inner = [child for child in fields if len(child) or (_attributes(child) and not _value(child.text))]
    names = {tag(child) for child in fields} - {tag(element)}  # one within itself is a tree
    if tag(element) in _NAMED:
        names = {str(next(iter(child.attrib.values()), "")) for child in fields}
    if tag(element) == "dict":  # of a property list
        fields, names = fields[1::2], {child.text or "" for child in fields[::2]}
    once = len(names) == len(fields) or not (inner or any(map(_attributes, fields)))
    around = depth == _NESTED and len(inner) == len(fields) == 1 and not _attributes(element)  # only leads to another
    return once and (not inner or (depth > 0 and not around)) and all(_is_record(each, depth - 1) for each in inner)


def _fields(element: "_Element", path: str = "") -> Iterator[str]:
    """Yield an element's attributes, its text, and all texts within its children, each with the names around it."""
    yield from (f"{path}{each}" for each in _attributes(element))
    if text := _value(element.text):
        yield f"{path}{tag(element)}: {text}"
    name = ""  # of a property list, in which a key stands before its value
    for child in filter(tag, element):
        text = _value(_page(child) or child.text) or (tag(child) if tag(child) in ("true", "false") else "")
        if tag(child) == "key" and not name:
            name = text
        elif len(child) == len(child.attrib) == 1 and tag(child[0]) == "value" and (text := _value(child[0].text)):
            yield f"{path}{next(iter(child.attrib.values()))}: {text}"
        elif len(child) or not text:
            yield from _fields(child, f"{path}{name or tag(child)} ")
            name = ""
        else:
            about = ", ".join(_attributes(child))
            yield f"{path}{name or tag(child)}: {text}{about and f' ({about})'}"
            name = ""
    yield from [f"key: {name}"] if name else []


def _attributes(element: "_Element") -> list[str]:
    named = ((str(name).rpartition("}")[2], _value(str(value))) for name, value in element.attrib.items())
    return [f"{name}: {value}" for name, value in named if value and name not in _TECHNICAL]


def _value(text: str | None) -> str:
    return "" if is_base64(text or "") else " ".join((text or "").split())


FORMAT = Format(
    document_type="xml",
    media_types=frozenset({"application/xml", "text/xml", "application/rss+xml", "application/atom+xml"}),
    suffixes=frozenset({".xml", ".nxml", ".jats", ".rss", ".atom", ".svg", ".dita", ".tei"}),
    sniff=lambda data: data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<?xml"),  # HTML is asked first
    read=read,
    libraries=("chardet", "lxml"),
    revision=14,
)
