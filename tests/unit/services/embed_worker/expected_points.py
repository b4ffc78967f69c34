"""Says a second time, by other code than the worker's, what the index contains when a version answers."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from shared.contracts import Chunk, DocumentVersion
from shared.ids import chunk_id, point_id, text_hash
from shared.state.index import Head
from shared.store import Payload
from shared.topics import SUBMITTED


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


def points(document: DocumentVersion, chunks: Sequence[Chunk]) -> dict[str, Payload]:
    """Return the payload of each point by its id, without `vectorHash`."""
    name, version = document.document_id, document.version
    occurrences: Counter[str] = Counter()
    made = {}
    for order, chunk in enumerate(chunks):
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
        made[point] = payload
    return made


def head(document: DocumentVersion, chunk_count: int) -> Head:
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


def _iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"
