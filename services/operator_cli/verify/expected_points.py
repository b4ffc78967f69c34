"""Defines what the index must contain for a version, independently of the worker that writes it. Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from shared.contracts import ERASED, Chunk, DocumentVersion
from shared.ids import chunk_id, document_id, point_id, text_hash
from shared.state.index import Head
from shared.store import Payload, Point, Sparse
from shared.topics import SUBMITTED


class Expected(msgspec.Struct, frozen=True):
    """A version that must answer. Its points have no dense vector, because only the model can compute it."""

    document: DocumentVersion
    head: Head
    points: dict[str, Point]  # by id; their metadata lack `vectorHash`
    cut_here: bool = True  # False: another chunker cut the text, so neither the points nor their number are known


def texts(document: DocumentVersion, chunks: Sequence[Chunk]) -> list[str]:
    """Return the texts from which the chunks' sparse vectors are made."""
    made = []
    for chunk in chunks:
        lines = [document.title, chunk.section, chunk.table_header, chunk.text, chunk.embedding]
        if chunk.order == 0:
            lines.append(document.description)
            for name, value in document.file.items():
                lines.append(f"{name}: " + "; ".join([value] if isinstance(value, str) else value))
        lines += _variants(chunk.metadata.get("languageVariants"))
        made.append("\n".join(line for line in lines if line))
    return made


def expected(document: DocumentVersion, chunks: Sequence[Chunk] | None, sparse: Sequence[Sparse] = ()) -> Expected:
    """Return what the index contains when `document` answers; `sparse` has one vector per chunk.

    `chunks` is None if another chunker cut the text: then only the head is known, but for its number of chunks.
    """
    if chunks is None:
        return Expected(document, _head(document, 0), {}, cut_here=False)
    name, version = document.document_id, document.version
    occurrences: Counter[str] = Counter()
    points = {}
    for order, (chunk, vector) in enumerate(zip(chunks, sparse, strict=True)):
        hash_ = text_hash(chunk.hashed)
        metadata: dict[str, Any] = {
            **document.metadata,
            **({"description": document.description[:1000]} if document.description else {}),
            **chunk.metadata,
            "tenant": document.tenant,
            "source": document.source,
            "path": document.path,
            "title": document.title,
            "url": document.url,
            "originalFilename": document.filename,
            "file": document.file or None,
            "tags": [*document.tags, *(tag for tag in chunk.tags if tag not in set(document.tags))],
            "documentId": name,
            "chunkId": chunk_id(name, hash_, occurrences[hash_]),
            "chunkOrder": order,
            "totalChunks": len(chunks),
            "pageNumber": chunk.page,
            "pageEnd": chunk.page_end,
            "pageStarts": [list(start) for start in chunk.page_starts] or None,
            "sectionTitle": chunk.section,
            "tableHeader": chunk.table_header,
            "documentType": document.document_type,
            "sourceType": document.source_type,
            "language": document.language,
            "tokenCount": chunk.tokens,
            "charCount": len(chunk.text),
            "chunkType": chunk.type,
            "semanticScore": chunk.semantic_score,
            "createdAt": _iso(document.created_at),
            "updatedAt": _iso(document.updated_at),
            "chunkHash": hash_,
            "embeddedHash": text_hash(chunk.embedded),
            "start": chunk.start,
            "end": chunk.end,
            "version": version,
            "textBlob": document.text_sha256,
            "textSize": document.text_size,
            "origin": {"topic": SUBMITTED, "partition": document.place.partition, "offset": document.place.offset},
        }
        if chunk.context_before is not None:
            metadata["contextBefore"] = chunk.context_before
        occurrences[hash_] += 1
        point = point_id(name, version, order)
        payload: Payload = {"text": chunk.text, "metadata": metadata}
        if chunk.prefix:
            payload["prefix"] = chunk.prefix
        if chunk.embedding is not None:
            payload["embeddingText"] = chunk.embedding
        points[point] = Point(id=point, payload=payload, sparse=vector)
    return Expected(document, _head(document, len(chunks)), points)


def _head(document: DocumentVersion, chunk_count: int) -> Head:
    name, version, tenant = document.document_id, document.version, document.tenant
    if document.deleted:
        return Head(document_id=name, version=version, tenant=tenant, deleted=True)
    return Head(
        document_id=name,
        version=version,
        tenant=tenant,
        source=document.source,
        path=document.path,
        chunk_count=chunk_count,
        title=document.title,
        url=document.url,
        tags=document.tags,
        text_sha256=document.text_sha256,
        text_size=document.text_size,
        text_format=document.text_format,
        updated_at=document.updated_at,
    )


def _variants(variants: Any) -> list[str]:
    """Return the texts of a chunk's language variants."""
    if not isinstance(variants, dict):
        return []
    texts = [variant.get("text") if isinstance(variant, dict) else variant for variant in variants.values()]
    return [text for text in texts if isinstance(text, str) and text.strip()]


def misnamed(document: DocumentVersion, name: str, version: int) -> str | None:
    """Return the fault of a record of documents.extracted with the key of `name` and `version`; None if it is right."""
    if (document.document_id, document.version) != (name, version):
        return f"the record under {name}/{version} is about {document.document_id}/{document.version}"
    if document.raw_hash == ERASED:
        named = document.source or document.path or document.title
        return f"version {version} erases {name}, but still contains {named!r}" if named else None
    if document_id(document.tenant, document.source, document.path) != name:
        return f"{document.tenant}'s {document.source}/{document.path} has another id than {name}"
    return None


def _iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"
