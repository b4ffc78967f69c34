"""Cuts a passage into units that can be quoted alone: sentences, lists, code blocks, rows of tables, lines of forms."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal

import msgspec

from shared.answers.citations import unmarked
from shared.answers.sentences import plain, split, words

Kind = Literal["sentence", "list", "code", "row", "field"]

LONGEST_LIST: Final = 600  # characters of a list that is quoted whole; items of a longer one are quoted alone
LONGEST_CELL: Final = 300  # characters of a row's cell that is quoted with the row
LONGEST_CODE: Final = 900  # of a code block; a longer one is left out

_FENCE: Final = re.compile(r"(?:```|~~~)\s*([\w+-]*)")
_HEADING: Final = re.compile(r"#{1,6}\s++((?:[^\s#]++|[\s#]++(?!$))*+)[\s#]*+$")
_RULE: Final = re.compile(r"(?:=++|-++|(?:[-*_]\s*+){3,}+)$")
_ROW: Final = re.compile(r"\|(.*?)\|?$")
_ITEM: Final = re.compile(r"\A(?:[-*+•]|(\d{1,3}[.)]))\s+(?:\[[ xX]\]\s+)?")
_NUMBER: Final = re.compile(r"\A\d{1,3}[.)] ")
FIELD_LABEL: Final = re.compile(r"[^\W\d_a-z][\w/&().#'-]*+(?: [\w/&().#'-]++){0,6}+:(?:\s|$)")
# Directives of documentation generators: included files, admonitions, tabs.
_INCLUDED: Final = re.compile(r"\{!(?:(?!\{!|!\}).)*+!\}|\{%(?:(?!\{%|%\}).)*+%\}")
_LABEL: Final = re.compile(r"(?:!!!|\?\?\?\+?|===!?|:{3,}+)\s*+[\w ]*+(?:\".*\"|\[.*\]|\{.*\})?\s*+$")
_PAGE: Final = re.compile(
    r"(?:page|seite|página|pagina|strana|sida|стр\.?)\s*+\d++(?:\s*+(?:/|of|von|de|di|sur|из|z|av)\s*+\d++)?(?:\W.{0,40})?$"
    r"|\W*+\d{1,4}+\W*+$",
    re.IGNORECASE,
)
_NAME: Final = r"(?:[^:;\n]|:(?=\d)){1,80}"  # of a row's cell; a time, as 09:00, may be one
_NAMED: Final = re.compile(rf"({_NAME}): ")
_BORDER: Final = re.compile(rf"; (?={_NAME}: )")
_OPEN_END: Final = (":", "：")
_ASKING: Final = ("?", "？")
_SHORT_LINE: Final = 50  # characters; the longest heading in text without markup
_WRAPPED: Final = 75  # characters; a line this long continues on the next one


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be quoted on its own."""

    kind: Kind
    text: str  # a sentence, row or field on one line; a list or code with its opening, in Markdown
    about: str  # the headings, question or opening above it
    opening: str = ""  # of a list or code: the sentence that ends with a colon right above
    cells: tuple[tuple[str, str], ...] = ()  # of a row: its name, then column and value


def units(text: str, section: str = "") -> list[Unit]:
    """Return the units in reading order; `section` is the heading above."""
    return [unit for part in parts(text, section) for unit in part]


def parts(text: str, section: str = "") -> list[list[Unit]]:  # noqa: C901 - a branch for each kind
    """Return the same units, those above the first heading, then those under each."""
    found: list[list[Unit]] = [[]]
    heading = about = plain(section)
    opening = ""  # the sentence that ends with a colon right above
    items: list[str] = []
    columns: set[str] = set()

    def listed() -> None:
        nonlocal items, opening
        if items:
            found[-1].extend(_list(items, opening, about))
            items, opening = [], ""

    blocks = [("", ""), *_blocks(text), ("", "")]
    for (before, _), (kind, block), (after, _) in zip(blocks, blocks[1:], blocks[2:], strict=False):
        if kind == "item":
            items.append(block)
            continue
        listed()
        match kind:
            case "heading":
                heading, opening = plain(block), ""
                about = heading
                found.append([])
            case "code":
                found[-1].extend(_code(block, opening, about))
                opening = ""
            case "row":
                columns.update(block.partition("\n")[0].split("\x1f"))
                if "row" not in (before, after) and _has_only_values(block):
                    block = f"\x1f{block}".replace("\n", f"\n{_caption(found[-1], columns)}\x1f")  # noqa: PLW2901
                found[-1].extend(_row(block, about))
                opening = ""
            case "field":
                found[-1].append(Unit(kind="field", text=plain(block), about=about))
                opening = ""
            case _:
                for part in split(plain(block)):
                    if part.endswith(_ASKING):
                        about, opening = f"{heading} {part}".strip(), ""
                    elif part.endswith(_OPEN_END):
                        opening = part
                    elif words(part):
                        whole = f"{opening} {part}" if opening else part
                        found[-1].append(Unit(kind="sentence", text=whole, about=about))
                        opening = ""
    listed()
    return [[unit for unit in part if unit.text and not _names(unit.text, columns)] for part in found]


def _names(line: str, columns: AbstractSet[str]) -> bool:
    """Return whether it is the line of columns' names that our readers write above rows; a row may be in parts."""
    cells = line.split(" | ")
    return len(cells) > 1 and 2 * sum(cell in columns for cell in cells) >= len(cells)


def _has_only_values(block: str) -> bool:
    """Return whether also the first cell is a value: its column is called like the next, as `FY 2019, FY 2020`."""
    names, _, row = block.partition("\n")
    first, second = [set(words(name)) for name in [*names.split("\x1f"), "", ""][:2]]
    return bool(first & second) and not any(map(str.isalpha, row.split("\x1f")[0].replace("N/A", "")))


def _caption(above: list[Unit], columns: AbstractSet[str]) -> str:
    """Return the line right above a row, which is then no unit of its own; '' if it is a sentence or there is none."""
    while above and _names(above[-1].text, columns):
        above.pop()
    last = above[-1] if above else None
    if last and last.kind == "sentence" and last.text[-1].isalnum() and len(last.text) <= LONGEST_CELL:
        return above.pop().text
    return ""


def _list(items: Sequence[str], opening: str, about: str) -> Iterator[Unit]:
    """Yield a short list whole, or the items of a long one."""
    marks = [found[0] if (found := _NUMBER.match(item)) else "" for item in items]
    quoted = [plain(item.removeprefix(mark)) for item, mark in zip(items, marks, strict=True)]
    lines = [f"{mark or '- '}{item}" for item, mark in zip(quoted, marks, strict=True)]
    whole = "\n".join([*([opening, ""] if opening else []), *lines])
    if len(items) > 1 and len(whole) <= LONGEST_LIST:
        yield Unit(kind="list", text=whole, about=about, opening=opening)
        return
    for item in quoted:
        if words(item):
            yield Unit(kind="sentence", text=item, about=f"{about} {opening}".strip())


def _code(block: str, opening: str, about: str) -> Iterator[Unit]:
    code = unmarked(block)
    if words(code) and len(code) <= LONGEST_CODE:
        fenced = f"```\n{code}\n```"
        yield Unit(kind="code", text=f"{opening}\n\n{fenced}" if opening else fenced, about=about, opening=opening)


def _row(block: str, about: str) -> Iterator[Unit]:
    """Yield a row, of its header's cells and its own, as `row, column: value`; then the sentences of its long cells."""
    header_line, _, row_line = block.partition("\n")
    header = [plain(cell) for cell in header_line.split("\x1f")] if header_line else []
    cells = [plain(cell) for cell in row_line.split("\x1f")]
    if len(header) != len(cells) or len(cells) < 2:
        yield Unit(kind="row", text=row_text("", [("", cell) for cell in cells if cell]), about=about)
        return
    above = f"{about} {header[0]}".strip()
    named = [(name, value) for name, value in zip(header[1:], cells[1:], strict=True) if value]
    short = tuple(cell for cell in named if len(cell[1]) <= LONGEST_CELL)
    if short or len(named) == 0:
        yield Unit(kind="row", text=row_text(cells[0], short), about=above, cells=((cells[0], ""), *short))
    for name, value in named:
        if len(value) > LONGEST_CELL:
            of_cell = f"{above} {name}" if short else f"{above} {cells[0]} {name}"
            parts = filter(words, split(value))
            yield from (Unit(kind="sentence", text=part, about=of_cell) for part in parts)


def row_text(row: str, cells: Sequence[tuple[str, str]]) -> str:
    """Return `row, column: value; column: value`."""
    values = "; ".join(f"{name}: {value}" if name else value for name, value in cells)
    whole = f"{row}, {values}" if row and values else row or values
    return whole.replace(":, ", ": ").replace(":; ", ": ")  # a form's name before its value


def _blocks(text: str) -> Iterator[tuple[str, str]]:  # noqa: C901, PLR0912, PLR0915 - a branch for each kind of line
    """Yield (heading | prose | item | row | code | field, its text), prose and items with their lines joined."""
    prose: list[str] = []
    item: list[str] = []
    header: list[str] = []
    row: list[str] = []  # may turn out to be a header
    code: list[str] = []
    fenced = False

    def flushed() -> Iterator[tuple[str, str]]:
        nonlocal row
        if item:
            yield "item", " ".join(item)
            item.clear()
        if prose:
            # A row may stand below its first field, where it continues in another chunk.
            whole = " ".join(prose) if len(prose) == 1 or (len(prose) == 2 and prose[0].endswith((";", "…"))) else ""
            if record := fields(whole):
                names, values = zip(*record, strict=True)
                yield "row", "\x1f".join(names) + "\n" + "\x1f".join(values)
            else:
                yield from _paragraph(prose)
            prose.clear()
        if row:
            yield "row", "\x1f".join(header) + "\n" + "\x1f".join(row)
            row = []

    for raw in text.splitlines():
        line = raw.strip()
        if _FENCE.match(line):
            yield from flushed()
            if fenced and code:
                yield "code", _dedented(code)
            code.clear()
            fenced = not fenced
        elif fenced:
            if not _INCLUDED.search(line):
                code.append(raw)
        elif _PAGE.match(line):
            continue
        elif row and "-" in line and not line.strip("|:- \t"):
            header, row = row, []
        elif cells := _ROW.match(line):
            yield from flushed()
            row = [cell.strip() for cell in cells[1].split("|")]
        elif heading := _HEADING.match(line):
            yield from flushed()
            header = []
            yield "heading", heading[1]
        elif _LABEL.match(line) and not _RULE.match(line):
            yield from flushed()
        elif _RULE.match(line):
            if len(prose) == 1 and not item:  # underlined: a heading
                yield "heading", prose.pop()
            yield from flushed()
        else:
            content = _INCLUDED.sub("", line.lstrip("> ")).strip()
            if not content:
                yield from flushed()
                header = []
            elif begun := _ITEM.match(content):
                yield from flushed()
                header = []
                item.append(f"{begun[1]} " * bool(begun[1]) + content[begun.end() :])
            else:
                (item or prose).append(content)
    yield from flushed()
    if fenced and code:
        yield "code", _dedented(code)


def _paragraph(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the parts of adjacent lines: short titles, lines of a form, and prose.

    A page of a PDF has no blank lines: what is a title or a line of a form only shows in its lines.
    """
    form = sum(1 for line in lines if FIELD_LABEL.match(line)) > 1
    kind, begun = "prose", list[str]()
    widths = sorted(map(len, lines))
    for position, line in enumerate(lines):
        before, after = begun[-1] if begun else "", lines[position + 1] if position + 1 < len(lines) else ""
        wide = widths[-1] if len(line) < widths[-1] else widths[-2:][0]  # of the other lines
        if after and _is_title(line, after, before, wide, form=kind == "field"):
            if begun:
                yield kind, " ".join(begun)
            yield "heading", line
            kind, begun = "prose", []
        elif form and FIELD_LABEL.match(line) and not before.endswith(("-", ",")):
            if begun:
                yield kind, " ".join(begun)
            kind, begun = "field", [line]
        elif kind == "field" and not (
            line[:1].islower() or len(before) >= _WRAPPED or before.endswith((",", *_OPEN_END))
        ):
            yield kind, " ".join(begun)
            kind, begun = "prose", [line]
        else:
            begun.append(line)
    if begun:
        yield kind, " ".join(begun)


def _is_title(line: str, after: str, before: str, wide: int, *, form: bool) -> bool:
    """Return whether a line of plain text reads as a heading: short, no sentence, between two that are.

    In a narrow column a short line is no sign: a heading ends where the next word had room, as another line is `wide`.
    """
    starts = line[:1].isupper() and after[:1].isupper()
    ended = not before or before.endswith((".", "!", "?", ":")) or (form and len(before) < _WRAPPED)
    return (
        starts
        and ended
        and len(line) <= _SHORT_LINE
        and len(line) + 1 + len(after.split(maxsplit=1)[0]) <= wide
        and ":" not in line
        and not line.endswith((".", ",", ";", "!", "?", "-", ")"))
    )


def _dedented(lines: Sequence[str]) -> str:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:].rstrip() for line in lines).strip("\n")


def fields(line: str) -> list[tuple[str, str]]:
    """Return names and values of a row as our readers write it, `name: value; name: value`; none if it isn't one.

    A cell without a name has ''.
    """
    if "\n" in line or "; " not in line or ": " not in line:
        return []
    found = []
    for part in _BORDER.split(line):
        named = _NAMED.match(part)
        found.append((named[1].strip(), part[named.end() :].strip()) if named else ("", part.strip()))
    return found if sum(bool(name) for name, _ in found) > 1 else []
