"""Makes the chunks of a version: from those that the caller prepared, or from its text."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

import msgspec

from services.ingest_worker.chunk.pack import chunks, context_before
from shared.contracts import Chunk, DocumentVersion, PreparedChunk
from shared.embedder import TokenCounter
from shared.errors import Rejected
from shared.ids import text_hash
from shared.inputs.limits import TOKEN_CHARACTERS, checked_sizes
from shared.inputs.prepared_chunks import SEPARATOR, quality
from shared.state.index import Generation

PREFIX_TOKENS: Final = 32  # most of a chunk's prefix
_LONGEST: Final = 10 * PREFIX_TOKENS  # characters of title and section that a prefix is cut from
_PATH: Final = re.compile(r"[^\s/\\]*[/\\]\S*|\S+\.\w{1,5}")  # a title that is an address or the name of a file


def from_prepared(prepared: Sequence[PreparedChunk], tokens: TokenCounter) -> tuple[Chunk, ...]:
    """Return the chunks that the caller prepared, each with its offsets in `prepared_text`.

    Raises:
        Rejected: code `chunk_too_long`: the model takes fewer tokens than a chunk has.
    """
    found: list[Chunk] = []
    start = 0
    counts = tokens.count([chunk.embedded for chunk in prepared])
    for order, (chunk, count) in enumerate(zip(prepared, counts, strict=True)):
        if count > tokens.max_tokens:
            own = chunk.metadata.get("chunk_id")
            raise Rejected(
                f"chunk {order}{f' ({own})' if own is not None else ''} has {count} tokens, the model takes "
                f"{tokens.max_tokens}: make it shorter, or give it a shorter embeddingText",
                "chunk_too_long",
            )
        end = start + len(chunk.text)
        found.append(
            Chunk(
                **msgspec.structs.asdict(chunk),
                order=order,
                hash=text_hash(chunk.embedded),
                start=start,
                end=end,
                tokens=count,
                semantic_score=quality(chunk.text, chunk.type).score,
            )
        )
        start = end + len(SEPARATOR)
    return tuple(found)


def version_chunks(
    document: DocumentVersion,
    text: str,
    pages: Sequence[int],
    parts: Sequence[tuple[int, int]] = (),
    *,
    generation: Generation,
    tokens: TokenCounter,
) -> tuple[Chunk, ...]:
    """Return the chunks that the generation's chunker makes of the text, in the sizes requested for the document.

    Each has its prefix, which changes neither borders nor hashes.

    Raises:
        Rejected: code `chunk_size`: a requested size is out of range.
    """
    size, overlap, limit = sizes(document, generation, tokens)
    structured = document.text_format != "plain"
    made = chunks(text, tokens=limit, size=size, overlap=overlap, pages=pages, parts=parts, structured=structured)
    prefixes = _Prefixes(document, tokens)
    return tuple(
        msgspec.structs.replace(
            chunk,
            prefix=prefixes.of(chunk),
            context_before=(context_before(text, chunk.start, overlap) or None) if overlap else None,
        )
        for chunk in made
    )


def sizes(document: DocumentVersion, generation: Generation, tokens: TokenCounter) -> tuple[int, int, TokenCounter]:
    """Return the characters of a chunk and of the overlap, and the token counter with the chunk's limit."""
    size, overlap, limit = generation.chunk_size, generation.chunk_overlap, tokens
    if generation.chunk_unit == "tokens":
        limit = _LimitedTokens(tokens, size)
        size, overlap = TOKEN_CHARACTERS * size, TOKEN_CHARACTERS * overlap
    if document.chunk_size is not None:
        size, overlap, limit = document.chunk_size, min(overlap, document.chunk_size // 2), tokens
    if document.chunk_overlap is not None:
        # One that was sent without a size fitted the generation of then, and a smaller one takes what fits.
        overlap = document.chunk_overlap if document.chunk_size else min(document.chunk_overlap, size // 2)
    try:
        checked_sizes(size, overlap)
    except ValueError as error:
        raise Rejected(str(error), "chunk_size") from None
    return size, overlap, limit


class _LimitedTokens:
    """Counts tokens as the model does, with a lower limit."""

    def __init__(self, tokens: TokenCounter, limit: int) -> None:
        self._tokens = tokens
        self.max_tokens = min(limit, tokens.max_tokens)

    def count(self, texts: Sequence[str]) -> list[int]:
        return self._tokens.count(texts)


class _Prefixes:
    """Makes the prefixes of a document's chunks: what tells the model where a passage is from (ADR 0019)."""

    def __init__(self, document: DocumentVersion, tokens: TokenCounter) -> None:
        self._title = readable_title(document)
        self._tokens = tokens
        self._known: dict[tuple[str, int], str] = {}  # saves 0.3 ms of CPU time a chunk

    def of(self, chunk: Chunk) -> str:
        """Return title and section, cut at the end to `PREFIX_TOKENS` and to what the chunk leaves of the limit."""
        title, section = self._title, chunk.section or ""
        named = not title or section == title or section.startswith(f"{title} > ")
        whole = section if named else f"{title} > {section}" if section else title
        room = min(PREFIX_TOKENS, self._tokens.max_tokens - chunk.tokens - 1)  # an estimate may grow by the line feed
        if (key := (whole[:_LONGEST], room)) not in self._known:
            self._known[key] = self._cut(*key)
        return self._known[key]

    def _cut(self, whole: str, room: int) -> str:
        def count(end: int) -> int:
            return self._tokens.count([whole[:end]])[0]

        if not whole or room <= 0:
            return ""
        if count(len(whole)) <= room:
            return whole
        fits = bisect_right(range(1, len(whole)), room, key=count)
        cut = whole[:fits]
        return (cut if whole[fits] == " " or " " not in cut else cut.rsplit(" ", 1)[0]).strip(" >")


def readable_title(document: DocumentVersion) -> str:
    """Return the document's title on one line; empty if it has none, or one that is an address or a file's name.

    A file without a title is called by its name without the ending, which is readable if it has several words.
    """
    title = " ".join((document.title or "").split())
    stems = {PurePath(name).stem for name in (document.path, document.filename) if name}
    return "" if _PATH.fullmatch(title) or (title in stems and " " not in title) else title
