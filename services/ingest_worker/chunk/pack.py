"""Packing: units into chunks, so that the cost of an edit follows the size of the edit.

Greedy up to `size`, with borders that the text itself decides: a heading or a page starts a new chunk,
and so does, one time in eight, a paragraph, by its own hash. After an edit the packing meets the next
such border and is itself again: one of 2,000 paragraphs of 300 characters taken out renews 3 chunks,
where packing by size alone renewed 871 of 1,000.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import xxhash

from services.ingest_worker.chunk.blocks import STRUCTURED, Kind, blocks
from shared.contracts import Chunk, ChunkType
from shared.embedder import TokenCounter
from shared.ids import text_hash

CHUNKER = "1"  # part of a generation's fingerprint: raise it when the same text gives other chunks

_MIN_SIZE, _MAX_SIZE = 100, 2000  # characters
_TINY = 100  # characters; a shorter chunk is made only where nothing else is left


class _Cut(NamedTuple):
    """How a unit too large is taken apart: from coarse to fine."""

    border: re.Pattern[str]
    bits: int  # a part opens a chunk where so many low bits of its hash are zero


# Three bits for a paragraph, not two: as few chunks renewed after an edit, and 9 % more chunks than
# greedy packing on a documentation tree, where two bits gave 17 %. The smaller the part, the rarer.
_SENTENCE = _Cut(
    re.compile(r"(?<=[.!?…])[\"'”’»)\]]*+\s++(?![a-z])|(?<=[。！？｡])[」』”’)）】]*+\s*+(?![」』”’)）】])"),
    5,
)
_LINE = _Cut(re.compile(r"\n\s*+"), 5)
_WORD = _Cut(re.compile(r"\s++"), 9)
_MARK = r"(?:[-*+]|\d{1,9}+[.)])[ \t]"
_ITEM = _Cut(re.compile(rf"\n(?=[ \t]{{0,1}}{_MARK})"), 4)
_POINT = _Cut(re.compile(rf"\n(?=[ \t]*+{_MARK})"), 4)
_CODE_LINE = _Cut(re.compile(r"\n"), 6)
_CUTS: dict[Kind, tuple[_Cut, ...]] = {
    "heading": (_SENTENCE, _LINE, _WORD),
    "paragraph": (_SENTENCE, _LINE, _WORD),
    "list": (_ITEM, _POINT, _SENTENCE, _LINE, _WORD),
    "table": (_Cut(re.compile(r"\n"), 5), _WORD),
    "code": (_Cut(re.compile(r"\n(?:[^\S\n]*+\n)++"), 4), _CODE_LINE, _WORD),
}
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")  # hold emoji together


class _Unit(NamedTuple):
    """What is packed whole where it fits."""

    start: int
    end: int
    kind: Kind
    section: str | None
    opens: bool = False  # starts a heading or a page
    bits: int = 3
    depth: int = 0  # how many of the kind's cuts have been made


class _Span(NamedTuple):
    units: tuple[_Unit, ...]

    @property
    def start(self) -> int:
        return self.units[0].start

    @property
    def end(self) -> int:
        return self.units[-1].end


def checked_sizes(size: int, overlap: int) -> None:
    """Raise ValueError unless 100 <= size <= 2000 and 0 <= overlap <= size / 2 (characters)."""
    if not _MIN_SIZE <= size <= _MAX_SIZE:
        raise ValueError(f"chunk size {size} must be in [{_MIN_SIZE}, {_MAX_SIZE}] characters")
    if not 0 <= overlap <= size // 2:
        raise ValueError(f"chunk overlap {overlap} must be in [0, {size // 2}] characters, half of the size {size}")


def chunks(
    text: str,
    *,
    tokens: TokenCounter,
    size: int = 800,
    overlap: int = 0,
    pages: Sequence[int] = (),
    type_hint: str = "md",
) -> tuple[Chunk, ...]:
    """Return the passages of an extracted (NFC) text in reading order, none for a blank one.

    `text[c.start:c.end] == c.text` for each; they don't overlap, and between them is only white space.
    None is longer than `size` characters or `tokens.max_tokens`; none but the last is shorter than
    100 (a quarter of a small size) unless white space or the token limit forces it. `overlap` changes
    no chunk: readers take `context_before`. `type_hint` is the document type: structure is read as
    Markdown where it says md or html.

    Raises:
        ValueError: a size is out of its range, or one character exceeds the model's token limit.
    """
    checked_sizes(size, overlap)
    spans = list(_packed(text, _units(text, pages, structured=type_hint in STRUCTURED), size))
    return tuple(
        _chunk(text, order, span, count, pages)
        for order, (span, count) in enumerate(_within_limit(text, spans, tokens))
    )


def context_before(text: str, start: int, overlap: int) -> str:
    """Return up to `overlap` characters that precede offset `start`, from a word's beginning on."""
    begin = max(0, start - overlap)
    context = text[begin:start]
    if begin and not text[begin - 1].isspace() and (space := _WORD.border.search(context)):
        context = context[space.end() :]
    return context.strip()


def _chunk(text: str, order: int, span: _Span, count: int, pages: Sequence[int]) -> Chunk:
    piece = text[span.start : span.end]
    body = next((unit for unit in span.units if unit.kind != "heading"), span.units[-1])
    return Chunk(
        order=order,
        text=piece,
        hash=text_hash(piece),
        start=span.start,
        end=span.end,
        tokens=count,
        section=body.section,
        page=max(1, bisect_right(pages, span.start)) if pages else None,
        type=_type(span),
    )


def _type(span: _Span) -> ChunkType:
    if span.units[0].kind == "heading":
        return "section"
    kinds = {unit.kind for unit in span.units} - {"heading"}
    kind = kinds.pop()
    return "paragraph" if kinds or kind == "heading" else kind


def _units(text: str, pages: Sequence[int], *, structured: bool) -> Iterator[_Unit]:
    path: list[tuple[int, str]] = []
    section: str | None = None
    for block in blocks(text, structured=structured, pages=pages):
        heading = block.kind == "heading"
        if heading:
            while path and path[-1][0] >= block.level:
                path.pop()
            if block.title:
                path.append((block.level, block.title))
            section = " > ".join(title for _, title in path) or None
        yield _Unit(block.start, block.end, block.kind, section, heading or block.opens_page)


def _packed(text: str, units: Iterable[_Unit], size: int, *, soft: bool = True) -> Iterator[_Span]:
    quarter, tiny = size // 4, min(_TINY, size // 4)
    before: list[_Unit] = []  # the chunk last closed, kept back for a tiny tail
    held: list[_Unit] = []
    pending: list[_Unit] = []  # parts of a unit that was cut, last one first
    source = iter(units)

    while (unit := pending.pop() if pending else next(source, None)) is not None:
        if held:
            start, length = held[0].start, held[-1].end - held[0].start
            room = size - (unit.start - start)
            border = soft and length >= quarter and (unit.opens or _opens_by_hash(text, unit))
            if border or (unit.end - start > size and (length >= tiny or room < quarter)):
                if before:
                    yield _Span(tuple(before))
                before, held = held, []
        if not held:
            room = size
        if unit.end - unit.start > room:
            pending.extend(reversed(_parts(text, unit, room)))
        else:
            held.append(unit)

    if before and held and held[-1].end - held[0].start < tiny and held[-1].end - before[0].start <= size:
        before, held = before + held, []
    for rest in (before, held):
        if rest:
            yield _Span(tuple(rest))


def _opens_by_hash(text: str, unit: _Unit) -> bool:
    digest = xxhash.xxh3_64_intdigest(text[unit.start : unit.end].encode("utf-8", "surrogatepass"))
    return digest & ((1 << unit.bits) - 1) == 0


def _parts(text: str, unit: _Unit, room: int) -> list[_Unit]:
    """Return the unit at the next finer grain that has a border in it; at the last, `room` and the rest."""
    cuts = _CUTS[unit.kind]
    for depth in range(unit.depth, len(cuts)):
        cut = cuts[depth]
        parts: list[_Unit] = []
        start, opens = unit.start, unit.opens
        for end, following in [
            *((m.start() + len(m[0].rstrip()), m.end()) for m in cut.border.finditer(text, unit.start, unit.end)),
            (unit.end, unit.end),
        ]:
            if text[start:end].strip():
                parts.append(unit._replace(start=start, end=end, opens=opens, bits=cut.bits, depth=depth + 1))
                opens = False
            start = following
        if len(parts) > 1:
            return parts
    middle = _between_graphemes(text, unit.start, unit.start + room)
    return [
        unit._replace(end=middle, depth=len(cuts)),
        unit._replace(start=middle, opens=False, bits=64, depth=len(cuts)),
    ]


def _between_graphemes(text: str, start: int, at: int) -> int:
    """Return `at`, or up to 16 characters earlier where a mark or a joined emoji would be torn off."""
    for earlier in range(at, max(start, at - 16), -1):
        character = text[earlier]
        if not (unicodedata.combining(character) or character in _JOINERS or text[earlier - 1] == "\u200d"):
            return earlier
    return at


def _within_limit(text: str, spans: Sequence[_Span], tokens: TokenCounter) -> Iterator[tuple[_Span, int]]:
    """Yield every span with its tokens, those over the model's limit in smaller, similar pieces."""
    for span, count in zip(spans, tokens.count([text[s.start : s.end] for s in spans]), strict=True):
        if count <= tokens.max_tokens:
            yield span, count
            continue
        length = span.end - span.start
        if length < 2:
            raise ValueError(
                f"the character {text[span.start]!r} has {count} tokens, the model takes {tokens.max_tokens}"
            )
        pieces = -(-count // max(1, tokens.max_tokens))
        # An eighth above the even share: borders seldom fall where it would have them.
        smaller = min(length - 1, -(-length // pieces) + length // (8 * pieces))
        yield from _within_limit(text, list(_packed(text, span.units, smaller, soft=False)), tokens)
