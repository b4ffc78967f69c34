"""Reads an older chunker's chunks back from the points, and checks that they make up the whole text. Pure.

How an older chunker chose its borders can't be checked any more, but that its chunks are the whole text in order can.
"""

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from services.operator_cli.verify.compare import alike
from services.operator_cli.verify.expected_points import Expected
from shared.contracts import Chunk, ChunkType
from shared.embedder import TokenCounter
from shared.ids import text_hash
from shared.inputs.chunk_sizes import LARGEST
from shared.store import Point, Sparse


class _Stored(msgspec.Struct, rename="camel"):
    """The fields of a chunk that only its point has."""

    chunk_order: int
    start: int
    end: int
    chunk_type: ChunkType
    section_title: str | None
    semantic_score: float | None = None
    context_before: str | None = None


def read_back(
    points: Sequence[Point], text: str, pages: Sequence[int], tokens: TokenCounter
) -> tuple[Chunk, ...] | None:
    """Return the chunks that a version's points contain; None if they don't make up its text."""
    try:
        stored = [msgspec.convert(point.payload.get("metadata"), _Stored) for point in points]
    except msgspec.ValidationError:
        return None
    stored.sort(key=lambda each: each.chunk_order)
    ends = [0, *(each.end for each in stored)]
    if text[ends[-1] :].strip() or not all(
        each.chunk_order == order and _follows(each, at, text)
        for order, (each, at) in enumerate(zip(stored, ends, strict=False))
    ):
        return None
    pieces = [text[each.start : each.end] for each in stored]
    counts = tokens.count(pieces)
    if any(count > tokens.max_tokens for count in counts):
        return None
    return tuple(
        Chunk(
            order=each.chunk_order,
            text=piece,
            hash=text_hash(piece),
            start=each.start,
            end=each.end,
            tokens=count,
            section=each.section_title,
            page=max(1, bisect_right(pages, each.start)) if pages else None,
            type=each.chunk_type,
            semantic_score=each.semantic_score,
            context_before=each.context_before,
        )
        for each, piece, count in zip(stored, pieces, counts, strict=True)
    )


def _follows(chunk: _Stored, at: int, text: str) -> bool:
    """Return whether only white space separates offset `at` from the chunk, and the chunk's context is right."""
    if not at <= chunk.start < chunk.end <= len(text) or text[at : chunk.start].strip():
        return False
    return text[max(0, chunk.start - LARGEST) : chunk.start].rstrip().endswith(chunk.context_before or "")


def as_it_was_written(wanted: Expected, points: Sequence[Point], bare: Sequence[Sparse]) -> Expected:
    """Return the expectation without what the older release didn't write yet: quality scores, and sections in vectors.

    `bare` has the sparse vectors without sections.
    """
    right = dict(wanted.points)
    for point in points:
        if (now := right.get(point.id)) is None:
            continue
        metadata = dict(now.payload["metadata"])
        if "semanticScore" not in point.payload["metadata"]:
            del metadata["semanticScore"]
        before = bare[metadata["chunkOrder"]]
        sparse = before if alike(point.sparse, before) else now.sparse
        right[point.id] = msgspec.structs.replace(now, payload={**now.payload, "metadata": metadata}, sparse=sparse)
    return msgspec.structs.replace(wanted, points=right)
