"""Reads RTF as Markdown; notes and text boxes follow the paragraph that refers to them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from services.ingest_worker.extract import limits
from services.ingest_worker.extract.clean import cleaned, decoded, known_encoding
from services.ingest_worker.extract.document_properties import declared
from services.ingest_worker.extract.embedded_files import pictures
from services.ingest_worker.extract.equations import equation
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.markdown_writer import CHANGES, LINK, NUMBER, MarkdownBlock, framed, joined, raised
from services.ingest_worker.extract.rows import Cell, spread, table
from services.ingest_worker.extract.symbols import shown
from shared.contracts import Note

if TYPE_CHECKING:
    from lxml.etree import _Element

_MARK = b"{\\rtf"
_TOKEN = re.compile(
    r"\\(?P<word>[a-zA-Z]{1,40})(?P<number>-?\d{1,10})?[ ]?|\\'(?P<byte>[0-9a-fA-F]{2})|\\(?P<sign>[^a-zA-Z])"
    r"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n\0]+)|[\r\n\0]+|\\",
    re.DOTALL,
)
_HEAD = 1024
_DEPTH = 10_000  # nested groups; real files have fewer than a hundred
_OFTEN = 20_000  # tokens between two looks at the clock
_TABLE_OF_FONTS = 256 * 1024  # characters in which fonts and styles are looked for
_FONT = re.compile(
    r"\\f(\d{1,5})((?:\\[a-z]+-?\d* ?){0,8}?)\\fcharset(\d{1,3})(?:\\[a-z]+-?\d* ?|\{[^{}]*\}){0,8} ?([^;{}]*)"
)
_STYLE = re.compile(r"\{\\s(\d{1,5})\b((?:[^{}]|\{[^{}]{0,500}\}){0,500}?)(?:heading (\d)|\btitle);\}", re.IGNORECASE)
_CODEPAGE = re.compile(r"\\ansicpg(\d{1,5})")

# fmt: off
_SETS = {"ansi": "cp1252", "mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 78: "cp932", 79: "cp949", 80: "gb18030", 81: "cp950", 83: "cp1255", 84: "cp1256",
    85: "mac_greek", 86: "mac_turkish", 87: "cp874", 88: "mac_latin2", 89: "mac_cyrillic", 128: "cp932",
    129: "cp949", 130: "johab", 134: "gb18030", 136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258",
    177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}
_FONTS = {"f", "plain", *_SETS}
_BODY_TEXT = 9  # the outline level of body text
_SYMBOL_CHARSET = 2  # the charset number of symbol fonts
_PAGES = {"936": "gb18030", "10000": "mac_roman", "10007": "mac_cyrillic", "65001": "utf-8", "1361": "johab"}
_WORDS = {
    "emdash": "\u2014", "endash": "\u2013", "lquote": "\u2018", "rquote": "\u2019", "ldblquote": "\u201c",
    "rdblquote": "\u201d", "bullet": "\u2022", "tab": "\t", "emspace": " ", "enspace": " ", "qmspace": " ",
    "line": "\n", "lbr": "\n", "nestcell": " ", "nestrow": " ", "zwj": "\u200d", "zwnj": "\u200c", "chpgn": NUMBER,
}
_SIGNS = {"~": " ", "_": "-"}
_ENDS = frozenset({"par", "sect", "page", "column", "cell", "row"})
_PROPERTIES = frozenset({
    "uc", "v", "deleted", "strike", "striked", "super", "nosupersub", "sub", "pard", "intbl", "outlinelevel", "s", "b",
})
_COLUMNS = frozenset({"trowd", "trhdr", "clvmrg", "clmrg", "cellx"})
_MOST_COLUMNS = 256  # of a row; rows that follow may share them
_APART_BY = 60  # twips between the borders of two columns, at least: a millimetre
_UNSEEN = frozenset({
    "fonttbl", "colortbl", "stylesheet", "pict", "nonshppict", "shprslt", "xe", "tc", "tcn", "rxe", "txe", "filetbl",
    "template", "private", "sp", "ftnsep", "ftnsepc", "ftncn", "aftnsep", "aftnsepc", "aftncn", "mmathPr", "pgdsctbl",
    "objdata", "objclass", "datafield", "bkmkstart", "bkmkend", "annotation", "atnid", "atnauthor", "listtable",
    "listoverridetable", "revtbl", "rsidtbl", "generator", "themedata", "datastore", "nonesttables", "xmlnstbl",
    "leveltext", "levelnumbers", "listname",
})
_SEEN = frozenset({"shppict", "shpinst", "do", "ud", "nesttableprops", "moMath"})  # read, although `\*` precedes them
_BESIDE = frozenset({"footnote", "shptxt", "dptxbxtext"})
_HEADS = frozenset({"header", "headerl", "headerr", "headerf"})
_FEET = frozenset({"footer", "footerl", "footerr", "footerf"})
_SAYS = frozenset({"title", "subject", "author", "operator", "manager", "company", "category", "keywords"})
_TIMES = {"creatim": "created", "revtim": "modified"}
_POINTS = frozenset({"pntext", "listtext"})
# fmt: on
_APART = _BESIDE | _HEADS | _FEET | _SAYS | _POINTS | {"fldinst"}  # destinations with a text of their own


class _Flow:
    """A text of its own: the body, a note, a text box or a page header."""

    def __init__(self) -> None:
        self.words: list[str] = []  # of the current paragraph
        self.point = ""  # the current paragraph's bullet or number in a list
        self.beside: list[MarkdownBlock] = []  # the current paragraph's notes and text boxes
        self._blocks: list[MarkdownBlock] = []
        self._rows: list[tuple[list[str], list[tuple[int, str]]]] = []  # cells, and right border and merge of each
        self._columns: list[tuple[int, str]] = []  # of the rows that follow
        self._merge = ""  # of the next column
        self._cells: list[str] = []
        self._cell: list[str] = []  # the paragraphs of the current cell
        self._headed = False  # whether the table's first row is marked or in bold letters
        self.bold = True  # whether all of the current row is

    def end_paragraph(self, *, heading: int = 0, in_table: bool = False) -> None:
        lines = list(
            filter(None, (" ".join(line.split()) for line in "".join(self.words).replace("~~~~", "").split("\n")))
        )
        line = " ".join(lines)
        self.words.clear()
        if in_table:
            self._cell += filter(None, [self.point, line])
        else:
            self._end_table()
            self.bold = True
            if line and heading:
                self._blocks.append(MarkdownBlock(f"{'#' * min(heading, 6)} {self.point and self.point + ' '}{line}"))
            elif line and self.point:
                self._blocks.append(MarkdownBlock(f"{self.point} {line}", "list"))
            elif line:
                self._blocks.append(MarkdownBlock("\n".join(lines)))
            self._blocks += self.beside
            self.beside.clear()
        self.point = ""

    def define(self, word: str, number: int) -> None:
        """Take a word of a row's definition."""
        if word == "trowd":
            self._columns, self._merge = [], ""
        elif word == "trhdr":
            self._headed = self._headed or not self._rows
        elif word == "cellx":
            self._columns += [(number, self._merge)] if len(self._columns) < _MOST_COLUMNS else []
            self._merge = ""
        else:
            self._merge = word

    def end_cell(self) -> None:
        self.end_paragraph(in_table=True)
        self._cells.append(" ".join(self._cell))
        self._cell.clear()

    def end_row(self) -> None:
        if self._cell or self.words:
            self.end_cell()
        self._headed = self._headed or (not self._rows and any(self._cells) and self.bold)
        self._rows += [(self._cells, self._columns)] if self._cells else []
        self._cells, self.bold = [], True

    def _end_table(self) -> None:
        self.end_row()
        # A table of one column is a frame around text.
        if any(len(cells) > 1 for cells, _ in self._rows):
            self._blocks.append(MarkdownBlock(table(_spread(self._rows), headed=self._headed)))
        else:
            self._blocks += (MarkdownBlock(cell) for cells, _ in self._rows for cell in cells if cell)
        self._rows, self._headed = [], False

    def blocks(self) -> list[MarkdownBlock]:
        self.end_paragraph()
        return self._blocks

    def text(self) -> str:
        return joined(self.blocks())


def _spread(rows: Sequence[tuple[list[str], list[tuple[int, str]]]]) -> list[list[str]]:
    """Return the rows' texts by column; a merged cell's text stands in each cell that it covers."""
    merged = len({len(cells) for cells, _ in rows}) > 1 or any(merge for _, columns in rows for _, merge in columns)
    if not merged or any(len(cells) > len(columns) for cells, columns in rows):
        return [cells for cells, _ in rows]
    places: dict[int, int] = {}
    last, place = -_APART_BY, 0
    for border in sorted({border for _, columns in rows for border, _ in columns}):
        place += border - last >= _APART_BY
        last, places[border] = border, place
    found: list[list[Cell]] = []
    for cells, columns in rows:
        row, left = list[Cell](), 0
        for text, (border, merge) in zip(cells, columns, strict=False):
            across = max(places[border] - left, 0)
            if merge == "clmrg" and row:
                row[-1] = row[-1]._replace(across=row[-1].across + across)
            elif across:
                row.append(Cell(text, across, 0 if merge == "clvmrg" else 1))
            left = max(left, places[border])
        found.append(row)
    return spread(found)


@dataclass(slots=True)
class _Group:
    """The properties that end with a group."""

    flow: _Flow
    kind: str = ""  # the group's destination
    begun: bool = False
    starred: bool = False
    skipped: bool = False
    hidden: bool = False
    struck: bool = False
    bold: bool = False
    raised: bool = False
    address: str = ""  # of the link that the group is
    math: "_Element | None" = None  # of the equation that the group is a part of
    codec: str = ""  # the encoding of the current font
    signs: str = ""  # the current font's name if it is a symbol font
    fallback: int = 1  # characters that follow `\u` for programs without Unicode
    heading: int = 0
    in_table: bool = False
    numbers_pages: bool = False  # whether the group is a field with a page number


@dataclass
class _Rtf:
    """Reads a document token by token."""

    source: str
    codec: str = "cp1252"
    page: str | None = None  # the code page that the document declares
    fonts: dict[int, tuple[str, str]] = field(default_factory=dict)
    styles: dict[int, int] = field(default_factory=dict)
    says: dict[str, str | None] = field(default_factory=dict)
    heads: list[str] = field(default_factory=list)
    feet: list[str] = field(default_factory=list)
    body: _Flow = field(default_factory=_Flow)
    note: Note | None = None
    pictures: int = 0

    def __post_init__(self) -> None:
        found = _CODEPAGE.search(self.source, 0, 4096)
        self.page = known_encoding(_PAGES.get(found[1], f"cp{found[1]}")) if found else None
        at = self.source.find("\\fonttbl")
        for font in _FONT.finditer(self.source, at, at + _TABLE_OF_FONTS) if at >= 0 else ():
            charset = int(font[3])
            codec = _CHARSETS.get(charset) or self.page or self.codec
            self.fonts[int(font[1])] = (codec, font[4].strip() or "?" if charset == _SYMBOL_CHARSET else "")
        at = self.source.find("\\stylesheet")
        for style in _STYLE.finditer(self.source, at, at + _TABLE_OF_FONTS) if at >= 0 else ():
            self.styles[int(style[1])] = int(style[3] or 1)
        self._stack: list[_Group] = []
        self._at = _Group(self.body, codec=self.page or self.codec)
        self._default = self._at.codec
        self._bytes = bytearray()  # bytes not yet decoded: a character may have two
        self._ignored = 0  # fallback characters still to skip after `\u`

    def read(self) -> None:
        position, count = 0, 0
        while len(self._stack) <= _DEPTH and (token := _TOKEN.match(self.source, position)):
            position = token.end()
            count += 1
            if count % _OFTEN == 0 and limits.spent():
                message = f"only the first {100 * position // len(self.source)} % were read in {limits.seconds()}"
                self.note = Note(code="timeout", place="", message=message)
                break
            position += self._take(token)
        if len(self._stack) > _DEPTH:
            message = "its groups are nested too deeply; only the text before them was read"
            self.note = Note(code="too_large", place="", message=message)
        self._flush()
        while self._stack:
            self._close()

    def _take(self, token: re.Match[str]) -> int:
        """Process one token; return how many bytes of binary data follow it."""
        raw = 0
        match token.lastgroup:
            case "text":
                self._text(token["text"].encode("latin-1"))
            case "byte":
                self._text(bytes.fromhex(token["byte"]))
            case "word" | "number":
                number = int(token["number"]) if token["number"] else None
                if token["word"] == "bin":
                    raw = max(number or 0, 0)
                else:
                    self._word(token["word"], number)
            case "sign":
                self._sign(token["sign"])
            case "brace":
                self._flush()
                self._ignored = 0
                self._open() if token["brace"] == "{" else self._close()
                return raw
        self._at.begun = self._at.begun or token.lastgroup not in (None, "sign")
        return raw

    def _open(self) -> None:
        before = self._at
        self._stack.append(before)
        self._at = replace(before, kind="", begun=False, starred=False, numbers_pages=False, address="")
        if before.kind == "upr":  # the text twice: for readers without Unicode, and in a `\ud` group, which is read
            self._at.skipped = True

    def _close(self) -> None:
        if not self._stack:
            return
        group, self._at = self._at, self._stack.pop()
        if group.math is not None and self._at.math is None:
            self._put(equation(group.math))
        if group.flow is self._at.flow:
            self._at.flow.words += [f" ({group.address})"] if group.address else []
            return
        if group.kind in _BESIDE:
            self._at.flow.beside += group.flow.blocks()
        elif group.kind in _HEADS | _FEET:
            (self.heads if group.kind in _HEADS else self.feet).append(group.flow.text())
        elif group.kind in _SAYS:
            self.says.setdefault(group.kind, group.flow.text())
        elif group.kind in _POINTS:
            point = " ".join(group.flow.text().split())
            self._at.flow.point = "-" if not any(map(str.isalnum, point)) else point
        elif group.kind == "fldinst" and (link := LINK.match(group.flow.text())):
            self._at.address = link[1]
        elif group.kind == "fldinst" and self._at.flow is not self.body and CHANGES.match(group.flow.text()):
            self._at.numbers_pages = True
            self._at.flow.words.append(NUMBER)

    def _word(self, word: str, number: int | None) -> None:
        self._flush()
        if word == "u" and number is not None:
            self._put(chr(number & 0xFFFF))
            self._ignored = self._at.fallback
            return
        self._ignored = max(self._ignored - 1, 0)
        if word in _WORDS:
            self._put(_WORDS[word] if word != "chpgn" or self._at.flow is not self.body else "")
        elif word in _ENDS:
            self._end(word)
        elif word in _FONTS:
            self._font(word, number)
        elif word in _PROPERTIES:
            self._property(word, number)
        elif word in _COLUMNS:
            self._at.flow.define(word, number or 0)
        else:
            self._destination(word, number)

    def _property(self, word: str, number: int | None) -> None:
        group = self._at
        match word:
            case "uc":
                group.fallback = max(number or 0, 0)
            case "v" | "deleted":
                group.hidden = number != 0
            case "b":
                group.bold = number != 0
            case "super" | "nosupersub" | "sub":
                group.raised = word == "super" and number != 0
            case "strike" | "striked":
                group.struck = number != 0
            case "pard":
                group.heading, group.in_table = 0, False
            case "intbl":
                group.in_table = True
            case "outlinelevel":
                group.heading = number + 1 if number is not None and 0 <= number < _BODY_TEXT else 0
            case _:
                group.heading = self.styles.get(number or 0, 0)

    def _destination(self, word: str, number: int | None) -> None:
        group = self._at
        if word == "moMath" or (group.math is not None and word[0] == "m" and not group.begun):
            self._part(word[1:] or "r")
        elif word == "ud":
            group.skipped = self._stack[-1].skipped if self._stack else False
        elif word == "fldrslt":
            group.skipped = group.skipped or (bool(self._stack) and self._stack[-1].numbers_pages)
        elif word == "pict" and not group.skipped:
            group.skipped = True
            self.pictures += 1
        elif word in _UNSEEN or (group.starred and word not in _SEEN | _APART):
            group.skipped = True
        elif word == "upr":
            group.kind = word
        elif word in _TIMES or (word in ("yr", "mo", "dy") and group.kind in _TIMES):
            self._time(word, number or 0)
        elif word == "info":
            group.flow = _Flow()  # the other properties are not part of the text
        elif word in _APART and not group.skipped:
            group.kind, group.flow = word, _Flow()
        group.starred = False

    def _part(self, name: str) -> None:
        """Begin an equation or a part of one, which RTF names as Office Open XML does."""
        from lxml import etree  # imported here, because only few files have equations

        outer, self._at.math = self._at.math, etree.Element(name)
        if outer is not None:
            outer.append(self._at.math)

    def _time(self, word: str, number: int) -> None:
        if word in _TIMES:
            self._at.kind = word
        else:
            name = _TIMES[self._at.kind]
            before = self.says.get(name)
            self.says[name] = f"{before}-{number:02}" if before else f"{number:04}"

    def _end(self, word: str) -> None:
        group = self._at
        if group.skipped or (group.hidden and word == "par"):
            return
        if word == "cell":
            group.flow.end_cell()
        elif word == "row":
            group.flow.end_row()
        else:
            group.flow.end_paragraph(heading=group.heading, in_table=group.in_table and word == "par")

    def _font(self, word: str, number: int | None) -> None:
        if word in _SETS:
            self._default = self._at.codec = self.page or _SETS[word]
        elif word == "plain":
            self._at.codec, self._at.signs, self._at.hidden = self._default, "", False
            self._at.struck = self._at.raised = self._at.bold = False
        else:
            self._at.codec, self._at.signs = self.fonts.get(number or 0, (self._default, ""))

    def _sign(self, sign: str) -> None:
        if sign in "\r\n":
            self._flush()
            self._end("par")
        elif sign == "*":
            self._at.starred = not self._at.begun  # `\*` counts only at the start of a group
        elif sign in "\\{}":
            self._text(sign.encode())
        elif sign in _SIGNS:
            self._flush()
            self._put(_SIGNS[sign])

    def _text(self, data: bytes) -> None:
        if self._ignored:
            ignored = min(self._ignored, len(data))
            self._ignored -= ignored
            data = data[ignored:]
        if not (self._at.skipped or self._at.hidden):
            self._bytes += data

    def _flush(self) -> None:
        if self._bytes:
            if self._at.signs:
                self._put("".join(shown(code, self._at.signs) if code > 0x20 else " " for code in self._bytes))
            else:
                self._put(self._bytes.decode(self._at.codec, "ignore"))
            self._bytes.clear()

    def _put(self, text: str) -> None:
        group = self._at
        if group.skipped or group.hidden:
            return
        group.flow.bold = group.flow.bold and (group.bold or not text.strip())
        if group.math is not None:
            self._part("t")
            assert self._at.math is not None
            self._at.math.text, group.math = cleaned(text), self._at.math.getparent()
        elif group.struck and text.strip():
            group.flow.words.append(f"~~{text}~~")
        else:
            before = next(reversed(group.flow.words), "")
            group.flow.words.append(raised(text, before) if group.raised else text)


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text as Markdown, with title, description and dates.

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    if _MARK not in data[:_HEAD]:  # only the file's name or declared type says RTF
        return Extraction(text=cleaned(decoded(data, hints)))
    document = _Rtf(data.decode("latin-1"))  # RTF is ASCII; its escapes name their own encoding
    document.read()
    text = cleaned(_paired(document.body.text()))
    says = {name: value and _paired(value) for name, value in document.says.items()}
    return Extraction(
        text=framed(map(_paired, document.heads), text, map(_paired, document.feet)),
        notes=(*([] if document.note is None else [document.note]), *pictures(document.pictures)),
        **declared({**says, "description": says.get("subject"), "modifiedBy": says.pop("operator", None)}, text),
    )


def _paired(text: str) -> str:
    """Return the text with each surrogate pair combined into one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


FORMAT = Format(
    document_type="rtf",
    revision=9,
    media_types=frozenset({"application/rtf", "text/rtf"}),
    suffixes=frozenset({".rtf"}),
    sniff=lambda data: data[:_HEAD].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_MARK),
    read=read,
)
