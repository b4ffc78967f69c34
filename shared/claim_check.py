"""The claim check: large bodies are stored as blobs, and records carry a reference."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.contracts import BlobRef, DocumentExtracted, DocumentSubmitted, DocumentVersion, PreparedChunk, encode
from shared.errors import Rejected

M = TypeVar("M", bound=msgspec.Struct)
_FEW = 64  # messages that are encoded at once


async def submission_value(document: DocumentSubmitted, blobs: Blobs) -> bytes:
    """Return the record's value; a body that makes it larger than `CLAIM_CHECK_BYTES` is stored as a blob.

    Raises:
        Unavailable: the blob store is away.
    """
    body = document.body
    if body is None or len(body) <= CLAIM_CHECK_BYTES:
        value = encode(document)
        if body is None or len(value) <= CLAIM_CHECK_BYTES:
            return value
    blob = await blobs.put(document.tenant, document.document_id, body)
    # The field `text` implies the media type; a blob needs it stated.
    kind = document.media_type or ("text/markdown" if document.text is not None else None)
    return encode(msgspec.structs.replace(document, text=None, content=None, blob=blob, media_type=kind))


async def prepared_chunks_of(event: DocumentExtracted, blobs: Blobs) -> tuple[PreparedChunk, ...]:
    """Return the chunks that the caller prepared.

    Raises:
        Rejected: their blob is missing or altered. Unavailable: the blob store is away.
    """
    if event.chunks_blob is None:
        return event.chunks
    document = event.document
    return await messages_of(await blobs.get(document.tenant, document.document_id, event.chunks_blob), PreparedChunk)


async def json_of(messages: Sequence[msgspec.Struct]) -> bytes:
    """Return the messages as a JSON array, made beside the event loop, in steps that yield Python's lock, if many."""
    if len(messages) <= _FEW:
        return msgspec.json.encode(messages)
    return await asyncio.to_thread(lambda: b"[" + b",".join([msgspec.json.encode(each) for each in messages]) + b"]")


async def messages_of(data: bytes, kind: type[M]) -> tuple[M, ...]:
    """Return the messages of a JSON array, decoded as `json_of` encodes them."""
    one = msgspec.json.Decoder(kind)
    return await asyncio.to_thread(
        lambda: tuple([one.decode(each) for each in msgspec.json.decode(data, type=list[msgspec.Raw])])
    )


async def text_of(event: DocumentExtracted, blobs: Blobs) -> str:
    """Return the text extracted from the document.

    Raises:
        Rejected: the version has no text blob, or the blob is missing or altered. Unavailable: the blob store is away.
    """
    return await blob_of_text(event.document, blobs) if event.text is None else event.text


async def blob_of_text(document: DocumentVersion, blobs: Blobs) -> str:
    """Return the text extracted from the document, from its blob.

    Raises:
        Rejected: the version has no text blob, or the blob is missing or altered. Unavailable: the blob store is away.
    """
    if document.text_sha256 is None:
        raise Rejected(f"version {document.version} of {document.document_id} has no text blob", "undecodable")
    ref = BlobRef(sha256=document.text_sha256, size=document.text_size)
    return (await blobs.get(document.tenant, document.document_id, ref)).decode()
