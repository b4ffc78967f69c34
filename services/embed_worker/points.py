"""Builds chunk points and heads. Pure, no I/O."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from shared.contracts import MAX_NATURAL, Chunk, DocumentVersion
from shared.embedder import Vector
from shared.embedder.half_precision import Precision, half_precision
from shared.ids import chunk_id, point_id
from shared.inputs.metadata import variant_texts
from shared.state.index import EMBEDDED, PREFIX, TABLE_HEADER, Head, deletion_head, vector_hash
from shared.store import Payload, Point, Sparse
from shared.times import iso
from shared.topics import SUBMITTED

FILE = "file"  # the metadata field of what the file says about itself
LONGEST_SHOWN = 1_000  # characters of a description that each chunk shows


def sparse_text(document: DocumentVersion, chunk: Chunk) -> str:
    """Return the text of the sparse vector.

    It includes title and section, the chunk's language variants and, for the first chunk, the description and what the
    file says about itself (ADR 0021).
    """
    about = (document.description, *_lines(document.file)) if chunk.order == 0 else ()
    more = (*about, *variant_texts(chunk.metadata))
    return "\n".join(
        filter(None, (document.title, chunk.section, chunk.table_header, chunk.text, chunk.embedding, *more))
    )


def _matchable(value: Any) -> Any:
    """Return the value with 2.0 as 2: a store compares whole numbers, and JSON has one kind of number."""
    if isinstance(value, dict):
        return {name: _matchable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_matchable(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MAX_NATURAL else value


def _lines(about: Mapping[str, str | list[str]]) -> Iterator[str]:
    return (f"{name}: {value if isinstance(value, str) else '; '.join(value)}" for name, value in about.items())


def chunk_points(
    document: DocumentVersion,
    chunks: Sequence[Chunk],
    slice_: slice,
    vectors: Sequence[Vector],
    sparse: Sequence[Sparse],
    *,
    precision: Precision = "full",
) -> list[Point]:
    """Return the points of `chunks[slice_]`; `vectors` and `sparse` belong to the slice.

    `precision` is that of the index's vectors.
    """
    points = []
    kept = vectors if precision == "full" else half_precision(vectors)
    for (point, payload), dense, bm25 in zip(payloads(document, chunks, slice_), kept, sparse, strict=True):
        payload["metadata"]["vectorHash"] = vector_hash(dense)
        points.append(Point(id=point, payload=payload, dense=dense, sparse=bm25))
    return points


def payloads(document: DocumentVersion, chunks: Sequence[Chunk], slice_: slice) -> Iterator[tuple[str, Payload]]:
    """Yield id and payload of each point of `chunks[slice_]`, without the hash of its vector."""
    description = {"description": document.description[:LONGEST_SHOWN]} if document.description else {}
    occurrences: Counter[str] = Counter(chunk.hash for chunk in chunks[: slice_.start])
    given = _matchable(document.metadata)
    same = {
        "tenant": document.tenant,
        "source": document.source,
        "path": document.path,
        "title": document.title,
        "url": document.url,
        "originalFilename": document.filename,
        "documentId": document.document_id,
        "totalChunks": len(chunks),
        FILE: document.file or None,  # also if it is None, so that no caller's field of that name is taken for it
        "documentType": document.document_type,
        "sourceType": document.source_type,
        "language": document.language,
        "createdAt": iso(document.created_at),
        "updatedAt": iso(document.updated_at),
        "version": document.version,
        "textBlob": document.text_sha256,
        "textSize": document.text_size,
        "origin": {"topic": SUBMITTED, "partition": document.place.partition, "offset": document.place.offset},
    }
    for chunk in chunks[slice_]:
        metadata = {
            **given,  # first, so that a caller's keys never override ours
            **description,
            **_matchable(chunk.metadata),
            **same,
            "tags": [*document.tags, *(tag for tag in chunk.tags if tag not in document.tags)],
            "chunkOrder": chunk.order,
            "pageNumber": chunk.page,
            "pageEnd": chunk.page_end,
            "pageStarts": [list(start) for start in chunk.page_starts] or None,
            "sectionTitle": chunk.section,
            TABLE_HEADER: chunk.table_header,  # also None, so that no caller's field of that name is taken for it
            "tokenCount": chunk.tokens,
            "charCount": len(chunk.text),
            "chunkType": chunk.type,
            "semanticScore": chunk.semantic_score,
            "chunkHash": chunk.hash,
            "embeddedHash": chunk.embedded_hash,
            "start": chunk.start,
            "end": chunk.end,
            "chunkId": chunk_id(document.document_id, chunk.hash, occurrences[chunk.hash]),
        }
        if chunk.context_before is not None:
            metadata["contextBefore"] = chunk.context_before
        occurrences[chunk.hash] += 1
        point = point_id(document.document_id, document.version, chunk.order)
        payload: Payload = {"text": chunk.text, "metadata": metadata}
        if chunk.prefix:
            payload[PREFIX] = chunk.prefix
        if chunk.embedding is not None:
            payload[EMBEDDED] = chunk.embedding
        yield point, payload


def head_of(document: DocumentVersion, chunk_count: int) -> Head:
    """Return the head that makes this version answer; a deletion's is a fence, which needs no names."""
    if document.deleted:
        return deletion_head(document.document_id, document.version, document.tenant)
    return msgspec.structs.replace(msgspec.convert(document, Head, from_attributes=True), chunk_count=chunk_count)
