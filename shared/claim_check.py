"""What is too large for a record goes into the blob store, and a reference travels."""

import msgspec

from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.contracts import BlobRef, DocumentExtracted, DocumentSubmitted, DocumentVersion, PreparedChunk, encode
from shared.errors import Rejected


async def submission_value(document: DocumentSubmitted, blobs: Blobs) -> bytes:
    """Return the record's value; its size is the claim check's at most, but for fields other than the body.

    Raises:
        Unavailable: the blob store is away.
    """
    body = document.text.encode("utf-8", "surrogatepass") if document.text is not None else document.content
    if body is None or len(body) <= CLAIM_CHECK_BYTES:
        value = encode(document)
        if body is None or len(value) <= CLAIM_CHECK_BYTES:
            return value
    blob = await blobs.put(document.tenant, document.document_id, body)
    # A text says what it is by its field; as a blob it has to say so by its type.
    kind = document.media_type or ("text/markdown" if document.text is not None else None)
    return encode(msgspec.structs.replace(document, text=None, content=None, blob=blob, media_type=kind))


async def prepared_chunks_of(event: DocumentExtracted, blobs: Blobs) -> tuple[PreparedChunk, ...]:
    """Return the chunks that the caller has made.

    Raises:
        Rejected: their blob is missing or altered. Unavailable: the blob store is away.
    """
    if event.chunks_blob is None:
        return event.chunks
    document = event.document
    data = await blobs.get(document.tenant, document.document_id, event.chunks_blob)
    return msgspec.json.decode(data, type=tuple[PreparedChunk, ...])


async def text_of(event: DocumentExtracted, blobs: Blobs) -> str:
    """Return the text that was read from the document.

    Raises:
        Rejected: the version names none, or its blob is missing or altered. Unavailable: the blob store is away.
    """
    return await blob_of_text(event.document, blobs) if event.text is None else event.text


async def blob_of_text(document: DocumentVersion, blobs: Blobs) -> str:
    """Return the text that was read from the document, as it is shown.

    Raises:
        Rejected: the version names none, or its blob is missing or altered. Unavailable: the blob store is away.
    """
    if document.text_sha256 is None:
        raise Rejected(f"version {document.version} of {document.document_id} names no text", "undecodable")
    ref = BlobRef(sha256=document.text_sha256, size=document.text_size)
    return (await blobs.get(document.tenant, document.document_id, ref)).decode()
