"""Makes the chunks of a version: from those that the caller prepared, or from its text."""

from collections.abc import Sequence

import msgspec

from services.ingest_worker.chunk.pack import chunks, context_before
from shared.contracts import Chunk, DocumentVersion, PreparedChunk
from shared.embedder import TokenCounter
from shared.errors import Rejected
from shared.ids import text_hash
from shared.inputs.chunk_sizes import TOKEN_CHARACTERS, checked_sizes
from shared.inputs.prepared_chunks import SEPARATOR, semantic_score
from shared.state.index import Generation


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
                order=order,
                text=chunk.text,
                hash=text_hash(chunk.embedded),
                start=start,
                end=end,
                tokens=count,
                section=chunk.section,
                page=chunk.page,
                type=chunk.type,
                semantic_score=semantic_score(chunk.text, chunk.type),
                embedding=chunk.embedding,
                tags=chunk.tags,
                metadata=chunk.metadata,
            )
        )
        start = end + len(SEPARATOR)
    return tuple(found)


def version_chunks(
    document: DocumentVersion, text: str, pages: Sequence[int], *, generation: Generation, tokens: TokenCounter
) -> tuple[Chunk, ...]:
    """Return the chunks that the generation's chunker makes of the text, in the sizes requested for the document.

    Raises:
        Rejected: code `chunk_size`: a requested size is out of range.
    """
    size, overlap, limit = sizes(document, generation, tokens)
    structured = document.text_format != "plain"
    made = chunks(text, tokens=limit, size=size, overlap=overlap, pages=pages, structured=structured)
    if not overlap:
        return made
    return tuple(
        msgspec.structs.replace(chunk, context_before=context_before(text, chunk.start, overlap) or None)
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
