"""Packs units of text into chunks, so that a small edit changes few chunks.

A chunk ends before each part of the text: a sheet, a message, a file within the file; those of less than 100 characters
share one, under what all of them are in. Else it ends where it is between a quarter and wholly full, at the best border
in that range: before a heading or a page, else at the coarsest structure, and among equals where the words change most.
These rules depend on the text around a border alone. So after an edit, packing soon chooses the same borders as before:
docs/adr/0019-chunks.md.
"""

import heapq
import re
import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise, takewhile
from typing import NamedTuple

import xxhash

from services.ingest_worker.text_blocks import Kind, TextBlock, blocks
from shared.contracts import Chunk, ChunkType, embedded_of
from shared.embedder import TokenCounter
from shared.ids import text_hash
from shared.inputs.limits import checked_sizes
from shared.inputs.prepared_chunks import quality

_SIGHT = 400  # characters before and after a border whose words are compared
_WORDS = re.compile(r"[^\W\d_]{4,}+")  # shorter words are ignored
_STEM = 6  # letters


def _cohesion(text: str, at: int) -> float:
    """Return how similar the words before and after are, 0..1: their cosine squared (Hearst, TextTiling, 1997)."""
    before, behind = _stems(text[max(0, at - _SIGHT) : at]), _stems(text[at : at + _SIGHT])
    shared = len(before & behind)
    return shared * shared / (len(before) * len(behind)) if shared else 0.0


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORDS.findall(text.lower())}


CHUNKER = "7"  # part of a generation's fingerprint: raise it when the same text gives different chunks

_OUTSIDE = 10  # levels of headings around those of a part: what it is in, the outermost first
_LEAST = 100  # characters; a chunk is shorter only if no more text is left
_AHEAD = 64  # characters after a border that its hash covers
_COUNTED = 64  # spans whose tokens are counted at a time; each may have hundreds of units
_SEARCHED, _GOES_ON = 1 << 18, 1 << 12  # characters searched at a time, and how far a border may reach
_WEIGHED = 8  # most borders whose words are compared; among more, their hashes choose
_CAPTION = 300  # characters of the lines above a table that each of its chunks keeps
_CAPTION_LINE = 120  # characters; a longer one that ends as a sentence does is none of them


class _Cut(NamedTuple):
    """The borders at which a unit that is too large is split, from coarse to fine."""

    border: re.Pattern[str]
    grain: int  # 0: as good as a block's border; a larger number is worse


# Text that isn't wrapped has a paragraph on each line; a short line before a long one belongs to it, as a heading does.
_UNWRAPPED = _Cut(re.compile(r"\n(?<=[^\n]{200}\n)\s*+"), 0)
_SENTENCE = _Cut(
    # Every match begins with one of few characters, which makes the search many times as fast.
    re.compile(
        r"[.!?…。！？｡](?:(?<=[.!?…])[\"'”’»)\]]*+\s++(?![a-z])|(?<=[。！？｡])[」』”’)）】]*+\s*+(?![」』”’)）】]))"
    ),
    2,
)
_SENTENCE_END = re.compile(r"[.!?…,;。！？][\"'”’)]?$")
_LINE = _Cut(re.compile(r"\n\s*+"), 3)
_WORD = _Cut(re.compile(r"\s++"), 4)
_MARK = r"(?:[-*+]|\d{1,9}+[.)])[ \t]"
_ITEM = _Cut(re.compile(rf"\n(?=[ \t]{{0,1}}{_MARK})"), 1)
_POINT = _Cut(re.compile(rf"\n(?=[ \t]*+{_MARK})"), 1)
_STANZA = _Cut(re.compile(r"\n(?:[^\S\n]*+\n)++"), 1)
_ROW = _Cut(re.compile(r"\n"), 2)
_FIELD = _Cut(re.compile(r"(?:;|(?<= )\|) (?=(?:[^:;|\n]|:(?=\d)){1,80}(?:: | \|))"), 1)
_LONGEST_LABEL = 120  # characters of a row's first field, for its later parts to repeat it
_NAME = re.compile(r"(?:[^:;|\n]|:(?=\d)){1,80}: ")
_DELIMITERS = re.compile(r"[>|:\- \t]*+$")
_CUTS: dict[Kind, tuple[_Cut, ...]] = {
    "heading": (_SENTENCE, _LINE, _WORD),
    "paragraph": (_UNWRAPPED, _SENTENCE, _LINE, _WORD),
    "list": (_ITEM, _POINT, _SENTENCE, _LINE, _WORD),
    "table": (_ROW, _WORD),
    "code": (_STANZA, _ROW, _WORD),
    "record": (_FIELD, _SENTENCE, _WORD),
}
_TORN = 5  # the grain of a border within a word
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")  # join emoji


class _Unit(NamedTuple):
    """A piece of text that is packed whole if it fits."""

    start: int
    end: int
    kind: Kind
    section: str | None
    opens: bool = False  # starts a heading, a page or a part
    grain: int = 0  # of the border before it
    depth: int = 0  # how often it has been split
    header: str | None = None  # the caption of the table that it is of, and the header or row that it continues
    opens_part: bool = False

    @property
    def is_row(self) -> bool:
        """Return whether it is a row of a table, and none of its parts."""
        return (self.kind == "record" and self.depth == 0) or (self.kind == "table" and self.depth == 1)


_Span = tuple[_Unit, ...]  # that make a chunk


def chunks(
    text: str,
    *,
    tokens: TokenCounter,
    size: int = 800,
    overlap: int = 0,
    pages: Sequence[int] = (),
    parts: Sequence[tuple[int, int]] = (),
    structured: bool = True,
) -> tuple[Chunk, ...]:
    """Return the passages of an extracted (NFC) text in reading order, none for a blank one.

    `text[c.start:c.end] == c.text` for each chunk `c`. Chunks don't overlap, and only white space is between them. No
    chunk is longer than `size` characters or `tokens.max_tokens`. None is of two `parts` (`Extraction.parts`), unless
    each of them is shorter than 100 characters. Only the last one is shorter than 100
    characters, unless a part, white space, the token limit or a row that fits a chunk forces it. A chunk that begins
    within a table or row has its caption and header, which are counted in tokens. `overlap` changes no chunk: readers
    add it with `context_before`. `structured` says that the text is Markdown with headings, tables, lists and code;
    otherwise it has only paragraphs.

    Raises:
        ValueError: a size is out of its range, or one character exceeds the model's token limit.
    """
    checked_sizes(size, overlap)
    spans = _packed(text, _units(text, pages, parts, structured=structured), size, max(_LEAST, size // 4))
    headers = _Headers(tokens, size)
    found: list[Chunk] = []
    while some := list(islice(spans, _COUNTED)):
        for span, count in _within_limit(text, some, tokens, headers):
            found.append(_chunk(text, len(found), span, count, pages, header=headers.of(span)))
    return tuple(found)


def context_before(text: str, start: int, overlap: int) -> str:
    """Return up to `overlap` characters that precede offset `start`, beginning at a word."""
    begin = max(0, start - overlap)
    context = text[begin:start]
    if begin and not text[begin - 1].isspace() and (space := _WORD.border.search(context)):
        context = context[space.end() :]
    return context.strip()


class _Headers:
    """The headers of spans that continue a table; what would take half of a chunk is left out, the caption first."""

    def __init__(self, tokens: TokenCounter, size: int) -> None:
        self._tokens = tokens
        self._size = size
        self._counts: dict[str, int] = {}

    def of(self, span: _Span) -> str | None:
        """Return the span's header."""
        header = span[0].header or ""
        for some in (header, header.rpartition("\n\n")[2]):
            if some and self.count(some) <= self._tokens.max_tokens // 2:
                return some
        return None

    def count(self, header: str) -> int:
        """Return the header's tokens."""
        if header not in self._counts:
            long = len(header) > self._size
            self._counts[header] = self._tokens.max_tokens if long else self._tokens.count([header])[0]
        return self._counts[header]


def _chunk(text: str, order: int, span: _Span, count: int, pages: Sequence[int], *, header: str | None) -> Chunk:
    piece = text[span[0].start : span[-1].end]
    body = next((unit for unit in span if unit.kind != "heading"), span[-1])
    parts = [body, *(unit for unit in span if unit.opens_part and unit.start > body.start)]
    levels = zip(*((unit.section or "").split(" > ") for unit in parts), strict=False)
    shared = [level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels)]
    return Chunk(
        order=order,
        text=piece,
        hash=text_hash(embedded_of(piece, header)),
        start=span[0].start,
        end=span[-1].end,
        tokens=count,
        section=" > ".join(shared) or None,
        page=max(1, bisect_right(pages, span[0].start)) if pages else None,
        page_starts=tuple(_page_starts(pages, span)),
        type=(kind := _type(span)),
        semantic_score=quality(piece, kind).score,
        table_header=header,
    )


def _page_starts(pages: Sequence[int], span: _Span) -> Iterator[tuple[int, int]]:
    at = bisect_right(pages, span[0].start)
    while at < len(pages) and pages[at] < span[-1].end:
        start = pages[at]
        at = bisect_right(pages, start)  # a page without text starts where the next one does
        yield start - span[0].start, at


def _type(span: _Span) -> ChunkType:
    if span[0].kind == "heading":
        return "section"
    kinds = {unit.kind for unit in span} - {"heading"}
    kind = kinds.pop()
    match kind:
        case "heading" | "record":
            return "paragraph"
        case _:
            return "paragraph" if kinds else kind


def _units(text: str, pages: Sequence[int], parts: Sequence[tuple[int, int]], *, structured: bool) -> Iterator[_Unit]:
    path: list[tuple[int, str]] = []
    section: str | None = None
    lines: list[str] = []  # the last ones above the block at hand that may be a table's caption
    caption: str | None = None
    following = deque(parts)
    for block in blocks(text, structured=structured, pages=sorted({*pages, *(at for at, _ in parts)})):
        depth = 0
        while following and following[0][0] <= block.start:
            depth = following.popleft()[1]
        level = depth - _OUTSIDE if depth else block.level
        heading = block.kind == "heading"
        in_table = block.kind in ("record", "table")
        caption = "\n".join(lines) or caption if in_table else None
        above = () if block.opens_page else lines
        lines = _caption(text, block, above) if block.kind == "paragraph" else []
        if heading:
            while path and path[-1][0] >= level:
                path.pop()
            if block.title:
                path.append((level, block.title))
            section = " > ".join(title for _, title in path) or None
        opens = heading or block.opens_page
        yield _Unit(block.start, block.end, block.kind, section, opens, header=caption, opens_part=depth > 0)


def _caption(text: str, block: TextBlock, above: Sequence[str]) -> list[str]:
    """Return the lines at the end of the paragraph that are the caption of a table below it, with those above it."""
    line = text[text.rfind("\n", block.start, block.end) + 1 or block.start : block.end].strip()
    alone = len(line) == block.end - block.start
    sentence = _SENTENCE_END.search(line) is not None
    if len(line) > (_CAPTION if alone and not sentence else _CAPTION_LINE) or (sentence and not alone):
        return []
    lines = [*above, line] if alone else [line]
    while sum(map(len, lines)) > _CAPTION:
        del lines[0]
    return lines


def _packed(
    text: str, units: Iterable[_Unit], size: int, least: int, *, even: bool = False, rows: bool = False
) -> Iterator[_Span]:
    """Yield chunks of `least` to `size` characters; with `even`, each as long as it can be.

    With `rows`, a row that is longer is a chunk of its own.
    """
    source = _fitting(text, units, size, rows=rows)
    before: list[_Unit] = []  # the last chunk, kept back in case a tiny rest must join it
    ahead: list[_Unit] = []
    while True:
        while (not ahead or ahead[-1].end - ahead[0].start <= size + least) and (unit := next(source, None)):
            ahead.append(unit)
        if not ahead:
            break
        start = ahead[0].start
        fits = sum(unit.end - start <= size for unit in ahead)
        end = _end(text, ahead, fits, least, even=even)
        if end is None:
            room = start + size - ahead[fits].start
            if ahead[fits].is_row and (fits or rows):
                end = max(fits, 1)
            elif room > 0:
                ahead[fits : fits + 1] = _parts(text, ahead[fits], room, size)
                continue
            else:
                end = fits  # nothing but white space can be added
        closed, ahead = ahead[:end], ahead[end:]
        tail = closed[-1].end - closed[0].start < min(_LEAST, least) and not closed[0].opens_part
        if before and tail and closed[-1].end - before[0].start <= size:
            before += closed
            continue
        if before:
            yield tuple(before)
        before = closed
    if before:
        yield tuple(before)


def _fitting(text: str, units: Iterable[_Unit], size: int, *, rows: bool) -> Iterator[_Unit]:
    """Yield the units; one that is too large for a chunk is yielded in parts. With `rows`, a larger row stays whole."""
    pending = [iter(units)]  # within each other; a text's millions of words never exist at once
    while pending:
        if (unit := next(pending[-1], None)) is None:
            pending.pop()
        elif unit.end - unit.start > size and not (rows and unit.is_row):
            pending.append(_parts(text, unit, size, size))
        else:
            yield unit


def _end(text: str, ahead: Sequence[_Unit], fits: int, least: int, *, even: bool) -> int | None:
    """Return how many of the units that fit make the next chunk; None if those are too few."""
    start = ahead[0].start
    part = _end_of_parts(ahead, least)
    ahead, fits = ahead[:part], min(fits, part)
    borders = [
        at
        for at in range(1, min(fits + 1, len(ahead)))
        if ahead[at - 1].end - start >= least and not _leads(text, *ahead[at - 1 : at + 1])
    ]
    heading = next((at for at in borders if ahead[at].opens), None)
    if heading is not None and not even:
        return heading
    if fits == len(ahead):
        return fits
    if even or not borders:
        return borders[-1] if borders else None
    roomy = _before_the_next(ahead, least)
    borders = [at for at in borders if at in roomy] or borders
    grain = min(ahead[at].grain for at in borders)
    # From the last border, and the last among equals, so that repetitive text fills its chunks.
    borders = [at for at in reversed(borders) if ahead[at].grain == grain]
    if len(borders) == 1:
        return borders[0]
    behind = {at: text[ahead[at].start : ahead[at].start + _AHEAD] for at in borders}
    hashes = {at: xxhash.xxh3_64_intdigest(some.encode("utf-8", "surrogatepass")) for at, some in behind.items()}
    some = heapq.nsmallest(_WEIGHED, borders, key=hashes.__getitem__) if len(borders) > _WEIGHED else borders
    return min(some, key=lambda at: (_cohesion(text, ahead[at].start), hashes[at]))


def _end_of_parts(ahead: Sequence[_Unit], least: int) -> int:
    """Return how many of the units are of the first part, or of parts so small that they share a chunk."""
    opening = [at for at in range(1, len(ahead)) if ahead[at].opens_part and ahead[at - 1].kind != "heading"]
    before = 0
    for at, end in pairwise([*opening, len(ahead)]):
        longest = max(ahead[at - 1].end - ahead[before].start, ahead[end - 1].end - ahead[at].start)
        if longest >= min(_LEAST, least) or ahead[at - 1].end - ahead[0].start >= least or not ahead[0].opens_part:
            return at
        before = at
    return len(ahead)


def _leads(text: str, unit: _Unit, following: _Unit) -> bool:
    """Return whether the unit would be cut from what it stands above: a heading, a caption, the names of columns."""
    if unit.kind == "heading":
        return True
    if unit.kind == "paragraph" and following.header:
        return unit.end - unit.start <= _CAPTION
    if not unit.kind == following.kind == "record" or unit.depth or text.find(" | ", unit.start, unit.end) < 0:
        return False
    row = text[following.start : following.end]
    return any(f"{name}: " in row for name in text[unit.start : unit.end].split(" | "))


def _before_the_next(ahead: Sequence[_Unit], least: int) -> set[int]:
    """Return the borders with at least `least` characters between them and the next heading, page or end."""
    roomy: set[int] = set()
    end = ahead[-1].end
    for at in range(len(ahead) - 1, 0, -1):
        if end - ahead[at].start >= least:
            roomy.add(at)
        if ahead[at].opens:
            end = ahead[at - 1].end
    return roomy


def _parts(text: str, unit: _Unit, room: int, size: int) -> Iterator[_Unit]:
    """Return the unit's parts at the next finer grain that has a border in it; at the finest, `room` and the rest."""
    cuts = _CUTS[unit.kind]
    for depth in range(unit.depth, len(cuts)):
        parts = _cut(text, unit, cuts[depth], depth + 1)
        first = tuple(islice(parts, 3))
        if len(first) > 1:
            return _headed(text, unit, first, parts, size)
    middle = _between_graphemes(text, unit.start, unit.start + room)
    return iter(
        (
            unit._replace(end=middle, depth=len(cuts)),
            unit._replace(start=middle, opens=False, opens_part=False, grain=_TORN, depth=len(cuts)),
        )
    )


def _cut(text: str, unit: _Unit, cut: _Cut, depth: int) -> Iterator[_Unit]:
    start, opens, opens_part, grain = unit.start, unit.opens, unit.opens_part, unit.grain
    found = _borders(cut.border, text, unit.start, unit.end)
    borders = ((m.start() + len(m[0].rstrip()), m.end()) for m in found)
    for end, following in chain(borders, [(unit.end, unit.end)]):
        if start < end and not text[start:end].isspace():
            yield _Unit(start, end, unit.kind, unit.section, opens, grain, depth, unit.header, opens_part)
            opens, opens_part, grain = False, False, max(unit.grain, cut.grain)
        start = following


def _borders(border: re.Pattern[str], text: str, at: int, end: int) -> Iterator[re.Match[str]]:
    """Yield the matches of `finditer`, from searches that keep Python's lock for a millisecond or two."""
    while at < end:
        stop = min(end, at + _SEARCHED)
        for match in border.finditer(text, at, stop):
            if match.end() > stop - _GOES_ON and stop < end:
                if match.start() > at:
                    at = match.start()
                elif whole := border.match(text, at, end):  # it is longer than what is searched at a time
                    yield whole
                    at = whole.end()
                else:
                    at += 1
                break
            yield match
            at = match.end()
        else:
            at = max(at, stop - _GOES_ON) if stop < end else end


def _headed(text: str, unit: _Unit, few: Sequence[_Unit], others: Iterator[_Unit], size: int) -> Iterator[_Unit]:
    """Return the parts of a table or row with what each keeps above it; a header stays with a first row that fits.

    `few` are the first two or three parts.
    """
    first, second, header = few[0], few[1], unit.header
    if unit.kind == "table" and unit.depth == 0:
        blank = _DELIMITERS.match(text, first.start, first.end)  # a table without names of columns
        if blank or not _DELIMITERS.match(text, second.start, second.end):
            return chain(few, others)
        header = "\n\n".join(filter(None, (header, text[first.start : second.end])))
        end = 3 if len(few) > 2 and few[2].end - first.start <= size else 2
        few = [first._replace(end=few[end - 1].end), *few[end:]]
    elif unit.kind == "record" and unit.depth == 0 and first.end - first.start <= _LONGEST_LABEL:
        label = text[first.start : first.end].rstrip(" ;|")
        header = "\n\n".join(filter(None, (header, f"{label};" if _NAME.match(label) else f"{label} |")))
    elif unit.kind == "record" and unit.depth == 1 and (name := _NAME.match(text, unit.start, unit.end)):
        between = " " if header and header.endswith((";", " |")) else "\n\n"
        header = f"{header or ''}{between}{name[0]}…".lstrip()
    rest = chain(few[1:], others)
    return chain(few[:1], (part._replace(header=header) for part in rest) if header else rest)


def _between_graphemes(text: str, start: int, at: int) -> int:
    """Return `at`, or up to 16 characters earlier so that no combining mark or joined emoji is torn off."""
    for earlier in range(at, max(start, at - 16), -1):
        character = text[earlier]
        if not (unicodedata.combining(character) or character in _JOINERS or text[earlier - 1] == "\u200d"):
            return earlier
    return at


def _within_limit(
    text: str, spans: Sequence[_Span], tokens: TokenCounter, headers: _Headers
) -> Iterator[tuple[_Span, int]]:
    """Yield every span with its tokens; a span over the model's limit is yielded in smaller pieces of similar size."""
    counts = tokens.count([embedded_of(text[span[0].start : span[-1].end], headers.of(span)) for span in spans])
    for span, count in zip(spans, counts, strict=True):
        if count <= tokens.max_tokens:
            yield span, count
            continue
        length = span[-1].end - span[0].start
        header = headers.of(span)
        if length < 2:
            if header:
                yield from _within_limit(text, [(span[0]._replace(header=None),)], tokens, headers)
                continue
            raise ValueError(
                f"the character {text[span[0].start]!r} has {count} tokens, the model takes {tokens.max_tokens}"
            )
        above = headers.count(header) if header else 0
        pieces = max(2, -(-(count - above) // max(1, tokens.max_tokens - above)))
        # An eighth above the even share, because borders seldom lie exactly there.
        smaller = min(length - 1, -(-length // pieces) + length // (8 * pieces))
        rows = len(span) > 1  # else the row is too large by itself
        smaller_spans = list(_packed(text, span, smaller, smaller // 4, even=True, rows=rows))
        yield from _within_limit(text, smaller_spans, tokens, headers)
