"""Turns reStructuredText, AsciiDoc, Org and wikis into Markdown as far as it shows borders: headings, code, tables."""

import csv
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from services.ingest_worker.extract.markdown_writer import counted, fenced
from services.ingest_worker.extract.rows import REPEATED, Cell, spread, table

_RST_VALUE = re.compile(r"[ \t]*\.\. \|([^|\n]{1,100})\| replace::([^\n]*)\Z")
_RST_MARKS = re.compile(
    r"(?P<code>``[^\n]*?``)"
    r"|^[ \t]*\.\. _[^:\n]{1,200}:[ \t]*(?:\n|\Z)"
    r"|`(?P<words>[^`<>|]{1,300}?)\s*<(?P<to>(?:https?://|mailto:)[^\s<>`]{1,2000})>`__?(?!\w)"
    r"|(?<![\w`]):(?P<kind>[a-z][\w:+-]{0,40}):`(?P<role>[^`<>\n]{1,300}?)(?P<target> *<[^`<>\n]{1,300}>)?`"
    r"|(?P<cell>\\?)\|(?P<name>[^|\s][^|\n]{0,99}?)\\?\|_{0,2}",
    re.MULTILINE,
)
_RST_NAME = re.compile(r"\|([^|\s][^|\n]{0,99})\|")
_RST_REFERS = re.compile(
    r"(?:[\w+-]+:)?(?:any|attr|class|const|data|doc|download|envvar|exc|func|meth|mod|numref|obj|option|ref|term|type)\Z"
)
_SIGNS = frozenset("=-~^\"'`#*+:.<>_")
_DIRECTIVE = re.compile(
    r"([ \t]*+)\.\. (?:code-block|code|sourcecode|parsed-literal|literalinclude) ?::[ \t]*+([\w+-]*+)[ \t]*+\Z"
)
_RST_BLOCK = re.compile(r"([ \t]*+)\.\. ([a-z][\w:.+-]*?) ?::(?:[ \t]+([^\n]*))?\Z")
_RST_UNSEEN = frozenset({
    "contents", "currentmodule", "default-role", "highlight", "image", "index", "meta", "raw", "role", "sectnum",
    "tabularcolumns",
})  # fmt: skip
# They have no text but what is in them.
_RST_ABOUT = frozenset({"class", "container", "figure", "glossary", "only", "rst-class", "toctree"})
_REMARKS = ("attention", "caution", "danger", "error", "hint", "important", "note", "tip", "warning")
_RST_SAID = {name: f"{name.capitalize()}:" for name in _REMARKS} | {
    "deprecated": "Deprecated since",
    "seealso": "See also",
    "versionadded": "New in",
    "versionchanged": "Changed in",
}
_COMMENT = re.compile(r"[ \t]*\.\.(?:[ \t]+(?![\[_|]|[\w:.+-]+ ?::)\S[^\n]*)?\Z")
_TABLE = re.compile(r"[ \t]*\.\. (list-|csv-|)table ?::[ \t]*([^\n]*)\Z")
_ROW_ITEM = re.compile(r"[ \t]*(?:(\*)[ \t]+)?-(?:[ \t]+|\Z)([^\n]*)\Z")
_HEADER = re.compile(r"[ \t]+:header:[ \t]*([^\n]*)\Z")
_WIKI_COMMENT = re.compile(
    r"(`[^`\n]*+`|<(nowiki|pre|syntaxhighlight|source)\b[^<>]*+(?<!/)>.*?(?:</\2>|\Z))|<!--.*?(?:-->|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_RULE = re.compile(r"\+(?:[-=]++\+)++")
_GRID = re.compile(r"\+(?:[-=]+\+)+\Z")
_SIMPLE = re.compile(r"=+(?:[ \t]+=+)+\Z")
_RST_ITEM = re.compile(r"([ \t]*)(#|\d{1,4})[.)][ \t]+(\S[^\n]*)\Z")
_ADOC_ITEM = re.compile(r"[ \t]*(?:(\.{1,5})|[*-]{1,5})[ \t]+(\S[^\n]*)\Z")
_ADOC_START = re.compile(r"\[[^\]]*start=\"?(\d{1,4})")
_ADOC_KINDS = ("1", "a", "i", "A", "I")
_WIKI_ITEM = re.compile(r"(#+)([*:;]*)[ \t]+(\S[^\n]*)\Z")
_WIKI_CODE = re.compile(r"<(/?)(?:pre|syntaxhighlight|source|nowiki|math|code)\b(?![^<>\n]*/>)", re.IGNORECASE)
_MOST_COLUMNS = 64
_OPTION = re.compile(r"[ \t]+:[\w-]+:")
_ADOC_HEADING = re.compile(r"(={1,6})[ \t]+([^\n]{1,500})\Z")
_ADOC_ATTRIBUTE = re.compile(r":!?([A-Za-z_][\w-]*)!?:(?:[ \t]+(\S[^\n]*))?[ \t]*\Z")
_ADOC_LINK = re.compile(
    r"(?<![\w:])(?:link:)?(https?://[^\s\[\]]{1,2000})\[([^\[\]\n]{1,300}?)\^?\]"
    r"|(?<![\w<])(?:<<[^\W\d][\w.:#/-]{0,199},([^<>\n]{1,300})>>|xref:[\w.:#/-]{1,200}\[([^\[\]\n]{1,300})\])"
    r"|\blink:([\w.:#/%-]{1,200})\[([^\[\]\n]{1,300})\]|\Ainclude::([^\s\[\]]{1,500})\[[^\]\n]*\]"
    r"|(?<![\w<])<<([^\W\d_][^<>,\n]{0,300})>>"
)
_ADOC_TERM = re.compile(r"([^\n]{0,300}?[^\s:]):{2,4}(?=[ \t]|\Z)")
# Of the block below: who said it, or only how it looks
_ADOC_ABOUT = re.compile(r"\[(?:(?:quote|verse)[ \t]*,[ \t]*([^\[\]\n]{1,300})|(?![\d\s])[^\[\]\n]{0,300})\][ \t]*\Z")
_ADOC_SIGNS = ("--", "+", "'''")  # of blocks and rules
_ADOC_TITLE = re.compile(r"\.(?![\s.])([^\n]{1,300})\Z")
_ADOC_MACRO = re.compile(r"\b(kbd|btn|footnote|menu):([\w-]{0,60})\[([^\[\]\n]{1,500})\]")
_ADOC_SHOWN = ("author", "revdate", "revnumber")  # attributes that stand below the title
_ADOC_UNSEEN = re.compile(
    r"(?:ifn?def|endif)::[^\s\[]*\[([^\]]*)\][ \t]*\Z"
    r"|(?:(?:audio|ifeval|image|toc|video)::[^\s\[]{0,500}\[|\[[#.])[^\[\]]*\][ \t]*\Z|\[\[[^\[\]]*\]\][ \t]*\Z"
    r"|\[(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\][ \t]*\Z"
)
_ADOC_BETWEEN = re.compile(r"//|(?:include|ifn?def|ifeval|endif)::")  # lines that end no paragraph, nor begin one
_ADOC_APART = re.compile(r"={1,6}[ \t]|\[[^\[\]\n]*\][ \t]*\Z")
_ADOC_VALUE = re.compile(r"(?<!\\)\{([A-Za-z_][\w-]*)\}")
_ADOC_SETEXT = "=-~^+"
_ADOC_SOURCE = re.compile(r"\[(?:source|listing)[%\w]*+(?:,[ \t]*+([\w+-]++))?[^\]]*+\][ \t]*+\Z")
_ADOC_COLUMNS = re.compile(r"\[[^\]]*cols=\"?([^\"\]]{1,500})")
_ADOC_TIMES = re.compile(r"\s*(\d{1,2})\*")
_ADOC_CELL = re.compile(r"(?<!\\)(?:(?:(\d{1,3})?(?:\.(\d{1,4}))?\+)?[\d.*<>^]{0,9}[a-z]?)?\|")
_ORG_HEADING = re.compile(r"(\*{1,50})[ \t]+([^\n]{1,500})\Z")
_ORG_COMMENT = re.compile(r"(?:(?:TODO|DONE)[ \t]+)?COMMENT(?:[ \t]|\Z)")
_ORG_TAGS = re.compile(r"(?<![ \t])[ \t]++:(?:[\w@#%]*+:)++[ \t]*+\Z")
# A drawer up to its end, and code, in which it is text
_ORG_DRAWER = re.compile(
    r"(^[ \t]*#\+begin_(?:src|example|export|comment)\b.*?(?:^[ \t]*#\+end_|\Z))"
    r"|^[ \t]*:(?:PROPERTIES|LOGBOOK):[ \t]*\n"
    r"(?:(?!\*|[ \t]*:(?:PROPERTIES|LOGBOOK|END):[ \t]*$)[^\n]*\n)*+[ \t]*:END:[ \t]*(?:\n|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_ORG_CLOCK = re.compile(r"[ \t]*CLOCK: *\[\d{4}-")
_ORG_LINK = re.compile(
    r"(?<![\w~=])(?P<code>[~=])(?=\S)[^\n]{1,500}?(?<=\S)(?P=code)(?![\w~=])"
    r"|(?<!\w)\[\[(?P<to>[^\[\]\s][^\[\]\n]{0,2000})\](?:\[(?P<words>[^\[\]\n]{1,500})\])?\]"
)
_ORG_BLOCK = re.compile(
    r"[ \t]*#\+(begin|end)_(src|example|quote|verse|center|export|comment)\b[ \t]*([\w+-]*)", re.IGNORECASE
)
_ORG_KEYWORD = re.compile(r"[ \t]*#\+(\w+)(?:\[[^\]]{0,200}\])?:[ \t]*([^\n]*)\Z")
_WIKI_ABOUT = re.compile(r"((?:\s*+[\w-]++\s*+=\s*+(?:\"[^\"]*+\"|[^\s|\"]++))++)\s*+\|(?!\|)")
_WIKI_SPAN = re.compile(r"(col|row)span\s*+=\s*+\"?(\d{1,4})")
_WIKI_MARKS = re.compile(
    r"(`[^`\n]*+`)|\[\[(?:[^\[\]|]{0,500}\|){0,9}([^\[\]|]{1,500})\]\]|'{2,5}"
    r"|\[(https?://[^\s\[\]]{1,2000}) ([^\[\]\n]{1,500})\]"
)
_TEX_ENVIRONMENT = re.compile(r"\\(begin|end)\{([^{}\n]{1,60})\}")
_TEX_CODE = ("verbatim", "Verbatim", "lstlisting", "minted", "tabbing")
# Environments of text; another one may be of code, in which a percent sign begins no comment.
_TEX_PROSE = re.compile(
    r"(?:abstract|align|aligned|appendix|appendices|array|block|bmatrix|cases|center|columns?|corollary|definition"
    r"|description|document|enumerate|equation|example|figure|flushleft|flushright|frame|gather|itemize|lemma|letter"
    r"|longtable|matrix|minipage|multicols|multline|picture|pmatrix|proof|proposition|quotation|quote|remark|split"
    r"|subequations|subfigure|table|tabularx?|thebibliography|theorem|tikzpicture|titlepage|verse|wrapfigure)\*?\Z"
)
_TEX_COMMENT = re.compile(r"((?<!\\)(?:\\\\)*+)%[^\n]*")
_TEX_VERB = re.compile(r"\\(?:verb|lstinline)\*?([^\w\s*])[^\n]{0,200}?\1")
_TEX_AS_IS = re.compile(r"\\(?:url|href|verb|lstinline|path)\b")
_TEX_MARKS = dict(
    zip("`'^~=.\"Hckruv", "\u0300\u0301\u0302\u0303\u0304\u0307\u0308\u030b\u0327\u0328\u030a\u0306\u030c", strict=True)
)
_TEX_ACCENT = re.compile(
    r"""(?<!\\)\\([`'^~=."]|[Hckruv](?=[ {]))[ ]?(?:\{(\\i|[A-Za-z])\}|(\\i(?![A-Za-z])|[A-Za-z]))"""
)
_TEX_LETTERS = dict(zip(["ss", "ae", "AE", "oe", "OE", "aa", "AA", *"oOlL"], "ßæÆœŒåÅøØłŁ", strict=True))
_TEX_LETTER = re.compile(r"(?<!\\)\\(ss|ae|AE|oe|OE|aa|AA|[oOlL])(?:\{\}|[ ](?=[a-z])|(?![A-Za-z ]))")
_ORG_RULE = re.compile(r"[ \t]*\|-[-+|]*\Z")


def of_rst(text: str) -> str:
    """Return reStructuredText with `#` before its headings, literal blocks in fences, and without its comments."""
    values: dict[str, str] = {}

    def said(found: re.Match[str]) -> str:
        if found["to"]:
            return f"[{' '.join(found['words'].split())}]({found['to']})"
        if found["name"]:
            value = values.get(found["name"], found[0])
            return value.replace("|", "\\|") if found["cell"] and value != found[0] else value
        if found["target"] and not _RST_REFERS.match(found["kind"]):
            return found[0]
        named = f"{found['kind'].upper()} " if found["kind"] in ("pep", "rfc") else ""
        return found["code"] or named + (found["role"] or "")

    parts = list(_rst(text.split("\n"), values))
    runs = ((code, "\n".join(run)) for code, run in groupby(parts, lambda part: part[:3] == "```" and "\n" in part))
    return "\n".join(run if code else _RST_MARKS.sub(said, run) for code, run in runs)


def _rst(lines: list[str], values: dict[str, str]) -> Iterator[str]:
    """Yield lines, tables and fences; put what substitutions stand for into `values`."""
    written = list(lines)  # what directives show is written into the lines
    levels: dict[tuple[str, bool], int] = {}
    counts: dict[int, int] = {}  # of the lists that this line may go on with, by indentation
    at = 0
    while at < len(lines):
        line = lines[at]
        line, counts = _rst_numbered(line, counts) if line.strip() else (line, counts)
        over = (
            at + 2 < len(lines) and _ruled(line) and line.rstrip() == lines[at + 2].rstrip() and lines[at + 1].strip()
        )
        title = lines[at + 1] if over else line
        under = lines[at + 2] if over else lines[at + 1] if at + 1 < len(lines) else ""
        above = lines[at - 1].strip() if at else ""
        if (over or (not above and not line[:1].isspace() and _ruled(under))) and _underlines(under, title):
            style = (under.strip()[0], bool(over))
            level = levels.setdefault(style, len(levels) + 1)
            yield f"{'#' * min(level, 6)} {title.strip()}"
            at += 3 if over else 2
            continue
        if given := _RST_VALUE.match(line):
            at, begin = _indented(lines, at + 1, _indent(line)), at + 1
            values[" ".join(given[1].split())] = " ".join(" ".join([given[2], *lines[begin:at]]).split())
            continue
        if made := _rst_table(lines, at):
            text, at = made
            yield from ("", text, "")
            continue
        apart = not above or written[at - 1].lstrip().startswith("..") or _indent(lines[at - 1]) != _indent(line)
        if apart and (after := _rst_shown(lines, at)) is not None:
            at = after
            continue
        directive = _DIRECTIVE.match(line)
        literal = line.rstrip().endswith("::") and not line.lstrip().startswith(".. ")
        if directive or literal:
            if literal:
                yield line.rstrip()[:-1]
            end = _indented(lines, at + 1, _indent(line))
            known = values if directive and "parsed-literal" in line else {}
            said = _RST_NAME.sub(lambda name: known.get(name[1], name[0]), "\n".join(lines[at + 1 : end]))  # noqa: B023
            body = said.split("\n")
            while directive and body and (not body[0].strip() or _OPTION.match(body[0])):
                body.pop(0)
            if any(map(str.strip, body)):
                yield from _fenced(body, directive[2] if directive else "")
            at = end
            continue
        yield line
        at += 1


def _rst_shown(lines: list[str], at: int) -> int | None:
    """Write what a directive shows into its lines, and return the line to go on with; a comment and others show
    nothing. None for code, and for what is neither.
    """
    line = lines[at]
    if _COMMENT.match(line.rstrip()):
        empty = line.strip() == ".." and not "".join(lines[at + 1 : at + 2]).strip()
        return at + 1 if empty else _indented(lines, at + 1, _indent(line))
    block = _RST_BLOCK.match(line)
    if block is None or _DIRECTIVE.match(line) or block[2] == "include":
        return None
    indent, kind, said = block[1], block[2], block[3] or ""
    if kind in _RST_UNSEEN:
        return _indented(lines, at + 1, len(indent))
    end = at + 1
    while end < len(lines) and _OPTION.match(lines[end]) and _indent(lines[end]) > len(indent):
        end += 1
    mark = _RST_SAID.get(kind, "")
    said = "" if kind in _RST_ABOUT else f"{mark} {said}" if mark else said
    below = next((there for there in range(end, min(end + 2, len(lines))) if lines[there].strip()), end)
    ahead = lines[below] if below < len(lines) else ""
    if mark and not block[3] and _indent(ahead) > len(indent) and ahead.lstrip()[0].isalpha():
        lines[below] = f"{ahead[: _indent(ahead)]}{said}{ahead.lstrip()}"
        return below
    lines[end - 1] = f"{indent}{said.rstrip()}"
    return end - 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _rst_numbered(line: str, counts: dict[int, int]) -> tuple[str, dict[int, int]]:
    """Return the line, an item with its number, and the counts of the lists that the next line may go on with."""
    item, indent = _RST_ITEM.match(line), _indent(line)
    counts = {depth: count for depth, count in counts.items() if depth < indent + (item is not None)}
    if item:
        counts[indent] = counts.get(indent, 0) + 1 if item[2] == "#" else int(item[2])
        line = f"{item[1]}{counts[indent]}. {item[3]}" if item[2] == "#" else line
    return line, counts


def _rst_table(lines: Sequence[str], at: int) -> tuple[str, int] | None:
    """Return the Markdown of a table that begins in this line, and where it ends; None if there is none."""
    line = lines[at].rstrip()
    if named := _TABLE.match(line):
        end = _indented(lines, at + 1, _indent(line))
        caption = f"{named[2]}\n\n" if named[2] else ""
        if not named[1]:  # a drawn one, moved in
            within = [each for each in lines[at + 1 : end] if each.strip() and not _OPTION.match(each)]
            margin = min(map(_indent, within), default=0)
            made = _rst_table([each[margin:] for each in within], 0) if within and ".." not in within[0] else None
            return None if made is None or made[1] < len(within) else (caption + made[0], end)
        rows = _listed_rows(lines[at + 1 : end]) if named[1] == "list-" else _csv_rows(lines[at + 1 : end])
        return (caption + table(rows) if rows else "\n".join(lines[at:end])), end
    if line.count("+" if line[:1] == "+" else " =") > _MOST_COLUMNS:
        return None
    if _GRID.match(line):
        end = next((there for there in range(at, len(lines)) if lines[there][:1] not in ("+", "|")), len(lines))
        grid = lines[at:end]
        full = {at for each in grid if _GRID.match(each.rstrip()) for at, sign in enumerate(each) if sign == "+"}
        drawn = (rule for each in grid for rule in _RULE.finditer(each) if {rule.start(), rule.end() - 1} <= full)
        borders = sorted(
            full.union(rule.start() + at for rule in drawn for at, sign in enumerate(rule[0]) if sign == "+")
        )
        if len(borders) > _MOST_COLUMNS:
            return "\n".join(grid), end
        cells = [(start + 1, stop) for start, stop in pairwise(borders)]
        head = next((at for at, each in enumerate(grid) if set(each.rstrip()) == {"+", "="}), 0)
        names = [
            " ".join(dict.fromkeys(filter(None, each))) for each in zip(*_columns(grid[:head], cells), strict=True)
        ]
        return table([*([names] if names else []), *_columns(grid[head:], cells)]), end
    if _SIMPLE.match(line):
        blank = next((there for there in range(at, len(lines)) if not lines[there].strip()), len(lines))
        rules = [there for there in range(at + 1, blank) if _SIMPLE.match(lines[there].rstrip())]
        starts = [found.start() for found in re.finditer(r"=+", line)]
        if rules:
            columns = [*pairwise(starts), (starts[-1], None)]
            return table(_columns(lines[at : rules[-1]], columns, by_line=True)), rules[-1] + 1
    return None


def _columns(
    lines: Sequence[str], columns: Sequence[tuple[int, int | None]], *, by_line: bool = False
) -> list[list[str]]:
    """Return the rows: what is between two rules or, `by_line`, on each line that has something in its first column.

    A cell without a rule below it is in the next row, too; its text only if it is short, as in `spread`.
    """
    rows: list[list[list[str]]] = []
    begins = True
    ruled = [True] * len(columns)
    for line in lines:
        reached = columns[: bisect_left(columns, (len(line),))]  # a short line doesn't cost what the widest one does
        rules = [set(line[start:stop].rstrip()) in ({"-"}, {"="}) for start, stop in reached]
        if any(rules) if not by_line else _SIMPLE.match(line.rstrip()):
            _add_beside(rows, line, reached, rules)
            begins, ruled = True, [*rules, *[False] * (len(columns) - len(rules))]
            continue
        if by_line:
            cells = [line[start:stop].strip() for start, stop in reached]
        elif line.count("|") == len(columns) + 1:  # also where wide letters move them
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
        else:
            cells = _spanning(line, reached)
        if begins or (by_line and any(cells[:1])):
            goes_on = not by_line and bool(rows)
            rows.append([rows[-1][at] if goes_on and not ruled[at] else [] for at in range(len(columns))])
        for parts, cell in zip(rows[-1], cells, strict=False):
            if cell:
                parts.append(cell)
        begins = False
    shown: dict[int, str] = {}  # by the cell, in the rows below its first

    def said(parts: list[str]) -> str:
        if (text := shown.get(id(parts))) is None:
            text = " ".join(parts)
            shown[id(parts)] = text if len(text) <= REPEATED else ""
        return text

    return [list(map(said, row)) for row in rows]


def _add_beside(
    rows: Sequence[Sequence[list[str]]], line: str, columns: Sequence[tuple[int, int | None]], rules: Sequence[bool]
) -> None:
    """Add the text beside a rule that divides only some of the columns to the last row."""
    for parts, (start, stop), ruled in zip(rows[-1] if rows else (), columns, rules, strict=False):
        if not ruled and (text := line[start:stop].strip(" |+")):
            parts.append(text)


def _spanning(line: str, columns: Sequence[tuple[int, int | None]]) -> list[str]:
    """Return the cells of a grid's line; one without a border behind it goes on in the next columns."""
    cells: list[str] = []
    for at, (start, _) in enumerate(columns):
        if at and line[start - 1] not in "|+":
            cells.append(cells[-1] if len(cells[-1]) <= REPEATED else "")
            continue
        stop = next((end for _, end in columns[at:] if line[end : (end or 0) + 1] in ("|", "+")), None)
        cells.append(line[start:stop].strip().removeprefix("| ").removesuffix(" |").strip())
    return cells


def _listed_rows(lines: Sequence[str]) -> list[list[str]]:
    rows: list[list[str]] = []
    for line in lines:
        item = _ROW_ITEM.match(line)
        if item and (item[1] or rows):
            if item[1]:
                rows.append([])
            rows[-1].append(item[2].strip())
        elif rows and rows[-1] and line.strip():
            rows[-1][-1] = f"{rows[-1][-1]} {line.strip()}"
    return rows


def _csv_rows(lines: Sequence[str]) -> list[list[str]]:
    header = [found[1] for line in lines if (found := _HEADER.match(line))]
    body = [line.strip() for line in lines if line.strip() and not _OPTION.match(line)]
    try:
        return list(csv.reader([*header, *body], skipinitialspace=True))
    except csv.Error:
        return []


def _ruled(line: str) -> bool:
    rule = line.strip()
    return len(rule) >= 2 and rule[0] in _SIGNS and rule == rule[0] * len(rule) and not line[:1].isspace()


def _underlines(rule: str, title: str) -> bool:
    words = title.strip()
    return (
        _ruled(rule)
        and bool(words)
        and len(words) < 500
        and not _ruled(words)
        and len(rule.strip()) >= min(len(words), 4)
    )


def _indented(lines: Sequence[str], at: int, indent: int) -> int:
    """Return the end of the block of lines that are blank or indented deeper."""
    end = at
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > indent):
        at += 1
        end = at if lines[at - 1].strip() else end
    return end


def _fenced(body: Sequence[str], language: str = "") -> Iterator[str]:
    margin = min(map(_indent, filter(str.strip, body)), default=0)
    yield from ("", fenced("\n".join(line[margin:].rstrip() for line in body), language), "")


def of_adoc(text: str) -> str:
    """Return AsciiDoc with `#` before its headings, listings in fences and Markdown tables, without its comments."""
    return "\n".join(_adoc(text.split("\n")))


def _with_values(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines with the values of attributes instead of their names, but for those of listings.

    What gives attributes their values stands between paragraphs, and is left out, as are conditions and anchors.
    """
    values: dict[str, str] = {}
    rule, above, head = "", "", True
    named, goes_on = "", []  # an attribute whose value goes on in the next line
    for line in lines:
        shown: str | None = line
        within = above and not head
        head = line.startswith("= ") or (head and bool(line.strip()))
        given = None if rule or within else _ADOC_ATTRIBUTE.match(line)
        if not _ADOC_BETWEEN.match(line):
            above = "" if given or named or _ADOC_APART.match(line) else line.strip()
        if named or given:
            said = line.strip()
            if given and not named:
                named, said = given[1], given[2] or ""
            goes_on.append(said.removesuffix("\\").strip())
            shown = None
            if not said.endswith(" \\"):
                values[named] = " ".join(goes_on)
                shown = values[named] if named in _ADOC_SHOWN else None
                named, goes_on = "", []
        elif line[:4] in ("----", "....") and line.rstrip() == line[0] * len(line.rstrip()) and rule in ("", line):
            rule, above = "" if rule else line, ""
        elif not rule and (unseen := _ADOC_UNSEEN.match(line)):
            shown = None if _ADOC_ATTRIBUTE.match(unseen[1] or "") else unseen[1]
            yield from (f"{unseen[2]}:", "") if unseen[2] else ()  # apart, or the border below would underline it
        elif not rule and values and "{" in line:
            shown = _ADOC_VALUE.sub(lambda name: values.get(name[1], name[0]), line)
        if shown is not None:
            yield shown if rule else _ADOC_MACRO.sub(_adoc_macro, _ADOC_LINK.sub(_adoc_link, shown))


def _adoc_link(link: re.Match[str]) -> str:
    if to := link[1] or link[5]:
        return f"[{(link[2] or link[6]).partition(',window=')[0].removesuffix('^')}]({to})"
    return link[3] or link[4] or link[7] or link[8]


def _adoc_macro(macro: re.Match[str]) -> str:
    if macro[1] == "footnote":
        return f" ({macro[3]})"
    return " > ".join(filter(None, (macro[2], macro[3])))


def _adoc(raw: Sequence[str]) -> Iterator[str]:
    lines = list(_with_values(raw))
    at, language, columns = 0, "", 0
    lists = _AdocLists()
    while at < len(lines):
        line = lists.numbered(lines[at].rstrip())
        at += 1
        if source := _ADOC_SOURCE.match(line):
            language = source[1] or ""
            continue
        if given := _ADOC_COLUMNS.match(line):
            columns = sum(int(times[1]) if (times := _ADOC_TIMES.match(each)) else 1 for each in given[1].split(","))
            continue
        if (rule := line[:4]) in ("----", "....", "////", "```") and line == line[0] * len(line):
            end = next((there for there in range(at, len(lines)) if lines[there].rstrip() == line), len(lines))
            if rule != "////":
                yield from _fenced(lines[at:end], language)
            at, language = end + 1, ""
        elif line.startswith("|==="):
            end = next((there for there in range(at, len(lines)) if lines[there].rstrip() == line), len(lines))
            yield from ("", _adoc_table(lines[at:end], columns), "")
            at, columns = end + 1, 0
        elif at < len(lines) and _adoc_underline(line, lines[at].rstrip()):
            yield f"{'#' * (_ADOC_SETEXT.index(lines[at][0]) + 1)} {line.strip()}"
            at += 1
        else:
            yield from _adoc_line(line, lines, at - 1)


def _adoc_line(line: str, lines: Sequence[str], at: int) -> list[str]:
    """Return what a line shows: a heading, the title of the block below it, its author, a term, a text, or nothing."""
    above = lines[at - 1] if at else ""
    if heading := _ADOC_HEADING.match(line):
        return [f"{'#' * len(heading[1])} {heading[2].rstrip('= ')}"]
    title = _ADOC_TITLE.match(line) if above[:1] in ("", "[") and "".join(lines[at + 1 : at + 2]).strip() else None
    if title:
        return [title[1], ""]
    if (
        line.startswith("//")
        or line in _ADOC_SIGNS
        or (len(line) > 3 and line[0] in "=*_+" and not line.strip(line[0]))
    ):
        return [""]
    if (about := _ADOC_ABOUT.match(line)) and not above[:1].isalnum():
        said = (about[1] or "").replace('"', "").split(",")
        return [f"{', '.join(map(str.strip, said))}:", ""] if about[1] else []
    line = line.removesuffix(" +")
    return [_ADOC_TERM.sub(r"\1:", line, count=1) if "::" in line else line]


class _AdocLists:
    """Numbers the items of ordered lists."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}  # of the lists that the next line may go on with, by depth
        self._start = 1
        self._goes_on = True

    def numbered(self, line: str) -> str:
        """Return the line, an item of an ordered list with its number."""
        self._goes_on = line == "+" or (self._goes_on and bool(line))
        if item := _ADOC_ITEM.match(line):
            self._goes_on = True
            if not (depth := len(item[1] or "")):
                return line
            self._counts = {each: count for each, count in self._counts.items() if each <= depth}
            self._counts[depth] = self._counts[depth] + 1 if depth in self._counts else self._start
            self._start = 1
            return f"{'  ' * (depth - 1)}{counted(self._counts[depth], _ADOC_KINDS[depth - 1])}. {item[2]}"
        if begins := _ADOC_START.match(line):
            self._start = int(begins[1])
        elif line and not self._goes_on and not line[0].isspace() and not line.startswith(("[", "//")):
            self._counts = {}
        return line


def _adoc_underline(line: str, below: str) -> bool:
    return (
        below[:1] in tuple(_ADOC_SETEXT)
        and len(below) > 3
        and below == below[0] * len(below)
        and abs(len(below) - len(line)) < 2
        and line[:1].isalnum()
    )


def _adoc_table(lines: Sequence[str], columns: int) -> str:
    if not any("|" in line for line in lines):  # values between commas
        return table(_csv_rows(lines))
    cells: list[Cell] = []
    for line in lines:
        first, *others = _ADOC_CELL.split(line)
        if cells and first.strip():
            cells[-1] = cells[-1]._replace(text=f"{cells[-1].text} {first.strip()}")
        found = [
            Cell(text.strip(), int(across or 1), int(down or 1))
            for across, down, text in zip(*[iter(others)] * 3, strict=True)
        ]
        columns = columns or sum(cell.across for cell in found)
        cells += found
    rows: list[list[Cell]] = []
    columns = min(columns, _MOST_COLUMNS)
    covered, at = [0] * columns, columns  # rows that a cell above covers, by column
    for cell in cells if columns else ():
        while at >= columns or covered[at]:
            if at < columns:
                at += 1
                continue
            rows.append([])
            covered, at = [max(count - 1, 0) for count in covered], 0
        end = min(at + max(cell.across, 1), columns)
        covered[at:end] = [cell.down] * (end - at)
        if min(covered) > 1:  # the row below has a cell of its own, too, or a short file could make many rows
            covered[at:end] = [1] * (end - at)
        rows[-1].append(cell._replace(down=covered[at]))
        at = end
    return table(spread(rows))


def of_org(text: str) -> str:
    """Return Org with `#` before its headings and blocks of code in fences; comments and settings are left out."""
    return "\n".join(_org(_ORG_DRAWER.sub(lambda found: found[1] or "", text).split("\n")))


def _org(lines: Sequence[str]) -> Iterator[str]:  # noqa: C901, PLR0912 - a branch for each kind of line
    code: list[str] | None = None
    language = ""
    unseen = 0  # the level of the heading of a comment, until one as high
    for line in lines:
        block = _ORG_BLOCK.match(line)
        heading = _ORG_HEADING.match(line) if code is None else None
        if heading and (not unseen or len(heading[1]) <= unseen):
            unseen = len(heading[1]) if _ORG_COMMENT.match(heading[2]) else 0
        if unseen:
            continue
        if block and block[2].lower() in ("src", "example", "export", "comment"):
            if block[1].lower() == "begin":
                code, language = [], block[3]
            elif code is not None:
                yield from _fenced(code, language) if block[2].lower() != "comment" else ()
                code = None
        elif code is not None:
            code.append(line)
        elif _ORG_CLOCK.match(line):
            continue
        elif block:
            yield ""
        elif heading:
            yield f"{'#' * min(len(heading[1]), 6)} {_ORG_TAGS.sub('', heading[2])}"
        elif keyword := _ORG_KEYWORD.match(line):
            yield keyword[2] if keyword[1].lower() in ("title", "subtitle", "author", "date", "caption") else ""
        elif line.startswith("# ") or line.strip() == "#":
            continue
        elif _ORG_RULE.match(line):
            yield line.replace("+", "|")
        else:
            yield line if line.lstrip().startswith(": ") else _ORG_LINK.sub(_org_link, line)
    if code:
        yield from _fenced(code, language)


def _org_link(link: re.Match[str]) -> str:
    to, words = link["to"], link["words"]
    if link["code"] or not words:
        return to or link[0]
    return f"[{words}]({to})" if to.startswith(("http://", "https://", "mailto:")) else words


def of_wiki(text: str) -> str:
    """Return MediaWiki's text with its tables in Markdown and its lists with numbers, without its comments.

    Headings are read as they are.
    """
    text = _WIKI_COMMENT.sub(lambda found: found[1] or "", text)
    return "\n".join(_wiki(text.split("\n")))


def _wiki(lines: Sequence[str]) -> Iterator[str]:
    held: list[str] = []  # from the beginning of a table on
    counts: dict[int, int] = {}  # of the lists that this line may go on with, by depth
    code = False
    for line, below in zip(lines, (*lines[1:], ""), strict=True):
        marks = _WIKI_CODE.findall(line)
        code = not marks[-1] if marks else code
        item = None if held or code else _WIKI_ITEM.match(line)
        # In Markdown, which some wikis write, a line like this is a heading, with a blank one below it.
        if item and (counts or _WIKI_ITEM.match(below)):
            depth = len(item[1])
            counts = {each: count for each, count in counts.items() if each <= depth}
            counts[depth] = counts.get(depth, 0) + (not item[2])
            mark = f"{counts[depth]}. " if not item[2] else "- " if item[2][-1] == "*" else ""
            yield f"{'  ' * (depth - (not item[2]))}{mark}{_wiki_says(item[3])}"
            continue
        counts = {}
        bare = line.lstrip(" \t:*")
        if bare.startswith("{|"):
            yield from held  # a table around another one stays as it is
            held = [line]
        elif held and bare.startswith("|}"):
            yield from ("", _wiki_table(held[1:]), "", *filter(None, [bare[2:].strip()]))
            held = []
        elif held:
            held.append(line)
        else:
            yield line if code or marks or line[:1].isspace() else _wiki_says(line)
    yield from held


def _wiki_table(lines: Sequence[str]) -> str:
    rows: list[list[list[str]]] = [[]]  # parts of each cell
    above: list[str] = []  # the caption, and what is in no cell
    for line in (line.lstrip(" \t:*") for line in lines):
        if line.startswith("|-"):
            rows.append([])
        elif line.startswith("|+"):
            above.append(_wiki_says(line[2:]))
        elif line[:1] in ("|", "!"):
            rows[-1] += [[cell] for cell in re.split(r"\|\||!!" if line[0] == "!" else r"\|\|", line[1:])]
        elif rows[-1]:
            rows[-1][-1].append(line)
        elif line:
            above.append(line)
    headed = any(line.lstrip(" \t:*").startswith("!") for line in lines)
    cells = spread((_wiki_cell(" ".join(cell)) for cell in row) for row in rows if row)
    return "\n\n".join([*above, table(cells, headed=headed)])


def _wiki_cell(text: str) -> Cell:
    about = _WIKI_ABOUT.match(text)
    spans = {name: int(count) for name, count in _WIKI_SPAN.findall(about[1])} if about else {}
    return Cell(_wiki_says(text[about.end() :] if about else text), spans.get("col", 1), spans.get("row", 1))


def _wiki_says(text: str) -> str:
    """Return the text without signs of bold letters, and links as their words."""
    return (text if _WIKI_CODE.search(text) else _WIKI_MARKS.sub(_wiki_words, text)).strip()


def _wiki_words(mark: re.Match[str]) -> str:
    said = _WIKI_MARKS.sub("", mark[2] or "")
    target, *options = mark[0].split("|") if mark[2] else [""]
    picture = len(options) > 1 or (":" in target and "." in target[-5:])
    if options and picture and (" " not in said or "=" in said):  # its size or place, and no caption
        return mark[0]
    return mark[1] or said or (f"[{mark[4]}]({mark[3]})" if mark[3] else "")


def of_tex(text: str, *, comments: bool = True) -> str:
    """Return TeX with letters instead of the commands for their accents, so that words are found.

    It may have `comments`, which are left out.
    """
    lines: list[str] = []
    opened: list[str] = []  # the environments that may be code
    for line in text.split("\n"):
        doubt = bool(opened)
        seen = line if opened else _TEX_COMMENT.sub(r"\1", _TEX_VERB.sub("", line))  # one that is only named opens none
        for mark, name in _TEX_ENVIRONMENT.findall(seen):
            if opened and (mark, name) == ("end", opened[-1]):
                opened.pop()
            elif mark == "begin" and not _TEX_PROSE.match(name) and not _tex_code(opened):
                opened.append(name)
        if _tex_code(opened) or _TEX_AS_IS.search(line):
            lines.append(line)
            continue
        said = _TEX_COMMENT.sub(r"\1", line) if comments and not doubt and not opened else line
        if said.strip() or not line.strip():
            lines.append(_TEX_LETTER.sub(lambda found: _TEX_LETTERS[found[1]], _TEX_ACCENT.sub(_accented, said)))
    return "\n".join(lines)


def _tex_code(opened: Sequence[str]) -> bool:
    return bool(opened) and opened[-1].startswith(_TEX_CODE)


def _accented(found: re.Match[str]) -> str:
    letter = (found[2] or found[3]).removeprefix("\\")
    made = unicodedata.normalize("NFC", letter + _TEX_MARKS[found[1]])
    return made if len(made) == 1 else found[0]
