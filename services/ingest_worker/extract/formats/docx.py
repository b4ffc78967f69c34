"""Reads Word files since version 2007 as Markdown; notes and text boxes follow the paragraph that refers to them."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from zipfile import ZipFile

from services.ingest_worker.extract import limits
from services.ingest_worker.extract.archive import addresses, drawn, names, opened, part, properties, related
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.document_properties import declared
from services.ingest_worker.extract.drawings import referred
from services.ingest_worker.extract.embedded_files import embedded, part_texts
from services.ingest_worker.extract.equations import equation
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.markdown_writer import (
    CHANGES,
    LINK,
    NUMBER,
    MarkdownBlock,
    counted,
    framed,
    joined,
    raised,
)
from services.ingest_worker.extract.part_names import declares, main_part
from services.ingest_worker.extract.rows import Cell, spread, table
from services.ingest_worker.extract.safe_xml import attribute, parsed, tag, whole
from services.ingest_worker.extract.symbols import in_font, shown
from shared.contracts import Note
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.etree import _Element

_MAIN = re.compile(rb"(?:wordprocessingml|ms-word)\.[\w.]{1,60}\.main\+xml")
_DOCUMENT = "word/document.xml"
_NOTES = {"footnoteReference": "footnotes", "endnoteReference": "endnotes"}
_FRAMES = ("headerReference", "footerReference")
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_HEADING = re.compile(r"(?i)heading (\d)|(title)")
_CODE = re.compile(r"(?i)\b(?:code|source|preformatted|listing)")
_CODE_POINT = re.compile("[0-9A-Fa-f]{1,4}")
_SYMBOLS = range(0xF000, 0xF100)  # code points of symbol fonts such as Wingdings
# Between the paragraphs of a text
_RANGES = frozenset({"bookmarkStart", "bookmarkEnd", "commentRangeStart", "commentRangeEnd", "proofErr"})
_DRAWN = frozenset({"chart", "relIds"})  # references to a chart or a diagram
_FIELD = frozenset({"instrText", "fldChar", "fldSimple"})
_UNSEEN = frozenset({"del", "moveFrom", "rPr", "delText", "Fallback", "rt", "pPr", "sectPr", "tblPr"})
_OFF = frozenset({"0", "false", "off", "none"})
_ASKED = 4_000  # characters of what a field is
_OFTEN = 1_000  # paragraphs between two looks at the clock
_KINDS = {"lowerLetter": "a", "upperLetter": "A", "lowerRoman": "i", "upperRoman": "I", "ordinal": "st"}
_KINDS |= {"russianLower": "а", "russianUpper": "А", "decimalEnclosedCircle": "①"}
_COUNTING = re.compile("(?:chinese|taiwanese|japanese)Counting(?:Thousand)?")
_CONDITION = re.compile(r"\s*IF\b", re.IGNORECASE)  # a field whose texts stand in what it asks
_LEVELS = 9  # levels that a list can have
_PATTERN = 100  # characters of a list's mark, which each of its items repeats
_DEPTH = 20  # styles, each based on the next


class _Style(NamedTuple):
    """What a style says about its paragraphs."""

    heading: int | None = None  # 1 to 6
    numbering: str | None = None  # id of the list that the paragraph belongs to
    level: int = 0  # level in that list, from 0
    code: bool = False
    hidden: bool = False


class _Level(NamedTuple):
    """How a list marks its items on one level."""

    kind: str = "bullet"
    pattern: str = ""  # for example "%1.%2."
    start: int = 1
    legal: bool = False  # the numbers of all levels are Arabic
    restarts: bool = True  # below each item of the level above


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text as Markdown, with title, description, language and dates.

    Page headers come once, before the text, and page footers once, after it.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    with opened(data, hints) as archive:
        says = properties(archive, hints)
        path = main_part(archive, _DOCUMENT, hints)
        root = _filled(part(archive, path, hints))
        body = None if root is None else root.find("{*}body")
        if body is None:
            raise Rejected(f"{hints.name} is damaged: its text can't be parsed", "damaged")
        blocks: list[MarkdownBlock] = []
        notes: tuple[Note, ...] = ()
        document = _Document(archive, path, hints)
        for block in document.blocks(body):
            if len(blocks) % _OFTEN == 0 and limits.spent():
                message = f"only the first {len(blocks)} paragraphs were read in {limits.seconds()}"
                notes = (Note(code="timeout", place="", message=message),)
                break
            blocks.append(block)
        heads, feet = (list(document.frames(body, kind)) for kind in _FRAMES)
        texts, unread = embedded(archive, related(archive, path, hints).values(), hints)
        blocks += map(MarkdownBlock, texts)
    text = cleaned(joined(blocks))
    return Extraction(
        text=framed(heads, text, feet),
        notes=(*notes, *unread),
        **declared(says, text),
    )


def _filled(source: bytes) -> "_Element | None":
    """Return the root of a part without the prompts of controls that nothing was entered into."""
    root = parsed(source)
    prompts = () if root is None else root.iter("{*}showingPlcHdr")
    for control in {next(prompt.iterancestors("{*}sdt"), prompt): None for prompt in prompts if _is_on(prompt)}:
        for text in control.iter("{*}t"):
            text.text = None
    return root


class _Document:
    """A Word file's styles, lists and notes, and the current counters of its lists."""

    def __init__(self, archive: ZipFile, path: str, hints: Hints) -> None:
        listed = frozenset(archive.namelist())
        targets = related(archive, path, hints)
        paths = {kind: target for kind, target in targets.values() if target in listed}

        def root(kind: str) -> "_Element | None":
            found = _filled(part(archive, paths[kind], hints)) if kind in paths else None
            if found is not None:
                self._addresses[found] = addresses(archive, paths[kind], hints)
            return found

        self._hints = hints
        self._part = drawn(archive, targets, hints)
        self._links: Callable[[str], dict[str, str]] = lambda of: addresses(archive, targets[of][1], hints)
        self._addresses: dict[_Element | None, dict[str, str]] = {None: addresses(archive, path, hints)}
        self._styles = _Styles(root("styles"))
        self._hidden = False  # in a paragraph whose style hides its text
        self._lists = _lists(root("numbering"))
        self._counts: defaultdict[str, list[int]] = defaultdict(lambda: [0] * _LEVELS)
        self._in_table = False
        self._in_frame = False
        self._address = ""  # of the link that is a field, until its end
        self._asks: list[str] = []  # what the fields around are, each until its result begins
        self._in_number = False  # inside a field that shows a page number
        self._begun: tuple[list[str], list[_Element]] = [], []  # of a paragraph whose end is deleted
        self._notes = {
            kind: {} if notes is None else {attribute(note, "id"): note for note in notes}
            for kind, notes in ((kind, root(name)) for kind, name in _NOTES.items())
        }
        settings = root("settings")
        even = settings is not None and _is_on(settings.find("{*}evenAndOddHeaders"))
        self._shown = {"default", "first", *(["even"] if even else [])}

    def frames(self, body: "_Element", kind: str) -> Iterator[str]:
        """Yield the headers or footers that are shown on at least one page."""
        first = any(_is_on(each) for each in body.iter("{*}titlePg"))
        self._in_frame = True
        for reference in body.iter(f"{{*}}{kind}"):
            of = attribute(reference, "type") or "default"
            source = self._part(attribute(reference, "id")) if of in self._shown and (of != "first" or first) else None
            root = None if source is None else _filled(source)
            if root is not None:
                self._addresses[root] = self._links(attribute(reference, "id"))
                yield "\n".join(block.text for block in self.blocks(root))
        self._in_frame = False

    def blocks(self, parent: "_Element") -> Iterator[MarkdownBlock]:
        """Yield the blocks of a body, cell, note or text box."""
        for element in parent:
            match tag(element):
                case "p":
                    yield from self._paragraph(element)
                case "tbl":
                    yield from self._table(element)
                case "altChunk":  # a document of another format
                    source = self._part(attribute(element, "id"))
                    texts, _ = part_texts([("", partial(bytes, source))] if source else [], self._hints)
                    yield from map(MarkdownBlock, texts)
                case name if name not in _UNSEEN:
                    yield from self.blocks(element)

    def _paragraph(self, paragraph: "_Element") -> Iterator[MarkdownBlock]:
        words, beside = self._begun  # beside it are boxes, notes and charts
        self._hidden = self._styles.hides and self._style(paragraph).hidden
        self._gather(paragraph, words, beside)
        beside_ = (each for each in paragraph.itersiblings() if tag(each) not in _RANGES)
        following = next(beside_, None)
        if following is not None and tag(following) == "p" and paragraph.find("{*}pPr/{*}rPr/{*}del") is not None:
            return
        self._begun = [], []
        self._asks = [asks for asks in self._asks if not _CONDITION.match(asks)]  # one may lack its end
        lines = "".join(words).strip("\n")
        line = " ".join(lines.split())
        style = _Style() if self._in_frame else self._style(paragraph)
        if line:
            mark = self._mark(style)
            if style.heading:
                yield MarkdownBlock(f"{'#' * style.heading} {mark}{line}")
            elif style.code:
                yield MarkdownBlock(lines.rstrip(), "code")
            elif mark:
                yield MarkdownBlock(f"{'  ' * min(style.level, _LEVELS)}{mark}{line}", "list")
            else:
                yield MarkdownBlock("\n".join(" ".join(each.split()) for each in lines.split("\n")))
        for element in beside:
            if tag(element) in _DRAWN:
                text = referred(element, self._part)
                yield from [MarkdownBlock(text)] if text else []
            else:
                yield from self.blocks(element)

    def _gather(self, element: "_Element", words: list[str], beside: "list[_Element]") -> None:
        for child in element:
            name = tag(child)
            if name in _WORDS:
                asked = self._in_number or any(map(_CONDITION.match, self._asks[-_DEPTH:]))
                words.append("" if asked and name == "t" else _WORDS[name](child))
            elif name in _NOTES:
                note = self._notes[name].pop(attribute(child, "id"), None)  # read once, whatever refers to it
                beside.extend([] if note is None else [note])
            elif name == "txbxContent" or name in _DRAWN:
                beside.append(child)
            elif name == "AlternateContent":
                chosen = next(iter(child.iterfind("{*}Choice")), None)
                self._gather(child if chosen is None else chosen, words, beside)
            elif name in _FIELD:
                self._field(child, words, beside)
            elif name in ("hyperlink", "r"):
                self._marked(child, words, beside)
            elif name and name not in _UNSEEN:
                self._gather(child, words, beside)

    def _marked(self, element: "_Element", words: list[str], beside: "list[_Element]") -> None:
        """Gather a run or a link, struck text between tildes, and the link's address behind its text."""
        if self._is_hidden(element):
            return
        own: list[str] = []
        self._gather(element, own, beside)
        text = "".join(own)
        if element.find("{*}sym") is None:  # which names its own font
            text = in_font(text, attribute(element.find("{*}rPr/{*}rFonts"), "ascii"))
        if text.strip() and any(_is_on(element.find(f"{{*}}rPr/{{*}}{name}")) for name in ("strike", "dstrike")):
            text = f"~~{text}~~"
        if attribute(element.find("{*}rPr/{*}vertAlign")) == "superscript":
            text = raised(text, words[-1] if words else "")
        address = self._address_of(element) if tag(element) == "hyperlink" else ""
        words.append(f"[{text}]({address})" if address and text.strip() else text)

    def _address_of(self, link: "_Element") -> str:
        addresses = self._addresses.get(link.getroottree().getroot(), self._addresses[None])  # a note's are its part's
        return addresses.get(attribute(link, "id"), "")

    def _is_hidden(self, run: "_Element") -> bool:
        """Return whether a run is hidden, by itself or else by its style or that of its paragraph."""
        own = run.find("{*}rPr/{*}vanish")
        if own is not None or not self._styles.hides or tag(run) != "r":
            return _is_on(own)
        named = attribute(run.find("{*}rPr/{*}rStyle"))
        return self._hidden or self._styles.named(named).hidden

    def _field(self, element: "_Element", words: list[str], beside: "list[_Element]") -> None:
        """Gather a field's result; in page headers and footers, `NUMBER` replaces values that change with the page."""
        name = tag(element)
        if name == "instrText":  # Word writes it in pieces, too
            asks = ("".join(self._asks[-1:]) + (element.text or ""))[:_ASKED]
            self._asks[-1:] = [asks]
        else:
            asks, kind = attribute(element, "instr"), attribute(element, "fldCharType")
            if kind == "begin":
                self._asks.append("")
            elif kind:
                self._asks[-1:] = [""] if kind == "separate" else []
        if self._in_frame and CHANGES.match(asks):
            words.append(NUMBER)
            self._in_number = name == "instrText"
        elif name == "instrText" and (link := LINK.match(asks)):
            self._address = link[1]
        elif name == "fldChar":
            words.append(_entered(element))
            if self._address and attribute(element, "fldCharType") == "end":
                words.append(f" ({self._address})")
                self._address = ""
            self._in_number = self._in_number and attribute(element, "fldCharType") != "end"
        elif name == "fldSimple":
            self._gather(element, words, beside)

    def _table(self, element: "_Element") -> Iterator[MarkdownBlock]:
        rows = [row for row in _children(element, "tr") if row.find("{*}trPr/{*}del") is None]
        cells = [list(_children(row, "tc")) for row in rows]
        side_by_side = len(cells) == 1 and any(len(list(_children(cell, "p"))) > 2 for cell in cells[0][:1])
        if self._in_frame or side_by_side or all(len(row) < 2 for row in cells):  # a layout table
            for cell in chain.from_iterable(cells):
                yield from self.blocks(cell)
            return
        within, self._in_table = self._in_table, True
        texts = spread(map(self._cells, rows, cells))
        self._in_table = within
        headed = self._is_headed(element, cells[0])
        yield MarkdownBlock(" ".join(" ".join(row) for row in texts) if within else table(texts, headed=headed))

    def _cells(self, row: "_Element", cells: "list[_Element]") -> list[Cell]:
        """Return the row's cells; the columns that it leaves out at its beginning are one, too."""
        before = whole(attribute(row.find("{*}trPr/{*}gridBefore")))
        found = [Cell("", before)] if before else []
        for at, cell in enumerate(cells):
            across = whole(attribute(cell.find("{*}tcPr/{*}gridSpan")), 1)
            if at and _goes_on(cell, "hMerge"):
                found[-1] = found[-1]._replace(across=found[-1].across + across)
            else:
                text = " ".join(block.text for block in self.blocks(cell))
                found.append(Cell(text, across, 0 if _goes_on(cell, "vMerge") else 1))
        return found

    def _is_headed(self, element: "_Element", first: "list[_Element]") -> bool:
        """Return whether the first row is marked as a header, or looks different from others."""
        row, look = next(_children(element, "tr"), None), element.find("{*}tblPr/{*}tblLook")
        styled = self._styles.is_emphatic(attribute(element.find("{*}tblPr/{*}tblStyle")))
        marked = row is not None and _is_on(row.find("{*}trPr/{*}tblHeader"))
        filled = [cell for cell in first if any((text.text or "").strip() for text in cell.iter("{*}t"))]
        bold = bool(filled) and all(_is_on(next(cell.iterfind(".//{*}rPr/{*}b"), None)) for cell in filled)
        bits = int(attribute(look), 16) if _CODE_POINT.fullmatch(attribute(look)) else 0x20  # of older files
        on = attribute(look, "firstRow") or str(bits >> 5 & 1)
        return marked or bold or (styled and on not in _OFF)

    def _style(self, paragraph: "_Element") -> _Style:
        says = paragraph.find("{*}pPr")
        if says is None:
            return self._styles.of("")
        return _own(says, self._styles.of(attribute(says.find("{*}pStyle"))))

    def _mark(self, style: _Style) -> str:
        """Count the list item and return its bullet or number with a space; '' outside of lists."""
        levels = self._lists.get(style.numbering or "")
        if not levels:
            return ""
        at = min(style.level, _LEVELS - 1)
        level = levels.get(at, _Level())
        counts = self._counts[style.numbering or ""]
        counts[at] = counts[at] + 1 if counts[at] else level.start
        counts[at + 1 :] = [
            0 if levels.get(below, _Level()).restarts else counts[below] for below in range(at + 1, _LEVELS)
        ]
        if level.kind == "bullet":
            return "" if style.heading else "- "

        def shown(place: re.Match[str]) -> str:
            of = int(place[1]) - 1
            other = levels.get(of, _Level())
            number = counts[of] or other.start
            kind = "" if level.legal else "一" if _COUNTING.fullmatch(other.kind) else _KINDS.get(other.kind, "")
            if other.kind == "none":
                return ""
            return f"{number:02}" if other.kind == "decimalZero" else counted(number, kind)

        mark = re.sub(r"%([1-9])", shown, level.pattern)
        return f"{mark} " if mark.strip() else ""


def _is_on(element: "_Element | None") -> bool:
    return element is not None and attribute(element) not in _OFF


def _sign(element: "_Element") -> str:
    """Return the character that a symbol font shows; '' if no character matches."""
    code = attribute(element, "char")
    if not _CODE_POINT.fullmatch(code):
        return ""
    known = shown(int(code, 16), attribute(element, "font"))
    return known or ("" if int(code, 16) in _SYMBOLS else chr(int(code, 16)))


def _entered(element: "_Element") -> str:
    """Return what was entered in a form field that shows no text of its own: a choice, or a check mark."""
    choice, box = element.find("{*}ffData/{*}ddList"), element.find("{*}ffData/{*}checkBox")
    if choice is not None:
        entries = [attribute(each) for each in choice.iterfind("{*}listEntry")]
        chosen = choice.find("{*}result")
        at = whole(attribute(choice.find("{*}default") if chosen is None else chosen))
        return entries[at] if at < len(entries) else ""
    if box is not None:
        checked = box.find("{*}checked")
        return "checked" if _is_on(box.find("{*}default") if checked is None else checked) else "not checked"
    return ""


_WORDS: dict[str, "Callable[[_Element], str]"] = {
    "t": lambda element: element.text or "",
    "sym": _sign,
    "oMath": equation,
    **dict.fromkeys(("br", "cr"), lambda _: "\n"),
    **dict.fromkeys(("tab", "ptab"), lambda _: " "),
    "noBreakHyphen": lambda _: "-",
    "textpath": lambda element: attribute(element, "string"),  # words in drawn letters
}


def _children(element: "_Element", name: str) -> "Iterator[_Element]":
    """Yield the rows of a table or the cells of a row, whatever they are wrapped in."""
    for child in element:
        if tag(child) == name:
            yield child
        elif tag(child) not in _UNSEEN:
            yield from _children(child, name)


def _goes_on(cell: "_Element", way: str) -> bool:
    """Return whether the cell continues the one above (`vMerge`) or before it (`hMerge`)."""
    merge = cell.find(f"{{*}}tcPr/{{*}}{way}")
    return merge is not None and attribute(merge) in ("", "continue")


def _own(says: "_Element", style: _Style) -> _Style:
    """Return the style, overridden by the properties of a paragraph or of a style based on it."""
    outline = attribute(says.find("{*}outlineLvl"))
    if outline:
        level = whole(outline, 9)
        style = style._replace(heading=min(level + 1, 6) if level < _LEVELS else None)  # 9 is body text
    numbering = says.find("{*}numPr/{*}numId")
    if numbering is not None:
        of = attribute(numbering)
        style = style._replace(numbering=None if of == "0" else of)
    level_of = says.find("{*}numPr/{*}ilvl")
    return style if level_of is None else style._replace(level=whole(attribute(level_of)))


class _Styles:
    """The styles of a Word file, each read when it is first asked for."""

    def __init__(self, root: "_Element | None") -> None:
        listed = () if root is None else root.iterfind("{*}style")
        self._listed = {attribute(each, "styleId"): each for each in listed}
        self._found: dict[str, _Style] = {}
        self.hides = root is not None and next(root.iter("{*}vanish"), None) is not None
        kind, on = "paragraph", ("1", "true")
        usual = (name for name, each in self._listed.items() if attribute(each, "default") in on and _is(each, kind))
        self._default = next(usual, "")

    def of(self, name: str) -> _Style:
        """Return the style with that id, or else the default one for paragraphs."""
        return self.named(name if name in self._listed else self._default)

    def named(self, name: str, depth: int = 0) -> _Style:
        """Return the style with that id; one that says nothing if there is none."""
        if name in self._found or name not in self._listed or depth > _DEPTH:
            return self._found.get(name, _Style())
        element = self._listed[name]
        based = self.named(attribute(element.find("{*}basedOn")), depth + 1)
        called = attribute(element.find("{*}name"))
        heading = _HEADING.fullmatch(called)
        if heading:
            based = based._replace(heading=min(whole(heading[1] or "1", 1), 6) or 1)
        hides = element.find("{*}rPr/{*}vanish")
        hidden = based.hidden if hides is None else _is_on(hides)
        based = based._replace(code=based.code or bool(_CODE.search(called)), hidden=hidden)
        says = element.find("{*}pPr")
        self._found[name] = based if says is None else _own(says, based)
        return self._found[name]

    def is_emphatic(self, name: str) -> bool:
        """Return whether the first row looks different in that style of tables, or in one that it is based on."""
        for _ in range(_DEPTH):
            element = self._listed.get(name)
            if element is None or any(_is(part, "firstRow") for part in element.iterfind("{*}tblStylePr")):
                return element is not None
            name = attribute(element.find("{*}basedOn"))
        return False


def _is(element: "_Element", kind: str) -> bool:
    return attribute(element, "type") == kind


def _lists(root: "_Element | None") -> dict[str, dict[int, _Level]]:
    """Return the levels of each list by the list's id."""
    if root is None:
        return {}
    kinds = {attribute(each, "abstractNumId"): _levels(each) for each in root.iterfind("{*}abstractNum")}
    found: dict[str, dict[int, _Level]] = {}
    for each in root.iterfind("{*}num"):
        levels = dict(kinds.get(attribute(each.find("{*}abstractNumId")), {}))
        for override in each.iterfind("{*}lvlOverride"):
            at = whole(attribute(override, "ilvl"))
            start = override.find("{*}startOverride")
            levels.update(_levels(override))
            if start is not None:
                levels[at] = levels.get(at, _Level())._replace(start=whole(attribute(start), 1))
        found[attribute(each, "numId")] = levels
    return found


def _levels(element: "_Element") -> dict[int, _Level]:
    return {
        whole(attribute(level, "ilvl")): _Level(
            attribute(level.find("{*}numFmt")) or "decimal",
            attribute(level.find("{*}lvlText"))[:_PATTERN],
            whole(attribute(level.find("{*}start")), 1),
            _is_on(level.find("{*}isLgl")),
            attribute(level.find("{*}lvlRestart")) != "0",
        )
        for level in element.iterfind("{*}lvl")
    }


FORMAT = Format(
    document_type="docx",
    nests=True,
    media_types=frozenset({_TYPE, "application/vnd.ms-word.document.macroenabled.12"}),
    suffixes=frozenset({".docx", ".docm", ".dotx", ".dotm"}),
    sniff=lambda data: _DOCUMENT in names(data) or declares(data, _MAIN),
    read=read,
    begins=b"PK",
    libraries=("lxml",),
    revision=12,
)
