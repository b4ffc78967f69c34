"""A record of documents.submitted, read: ours, a foreign producer's, a CloudEvent, or a null that deletes; and made."""

import msgspec

from shared import ready_chunks
from shared.contracts import DocumentSubmitted, decode, erasure
from shared.errors import Rejected
from shared.ledger import Entry
from shared.log import Record
from shared.places import header


def submission_of(record: Record) -> DocumentSubmitted:
    """Return the record's message, also out of a CloudEvent; one without a value deletes what its headers name.

    Raises:
        Rejected: code `undecodable`, or `tombstone` when nothing says which document.
    """
    if record.value is None:
        source, path = header(record, "source"), header(record, "path")
        if source is None or path is None:
            raise Rejected(
                "a record without a value deletes a document by its headers source and path, or by a key that is the "
                "id of a document we know; it has neither",
                "tombstone",
            )
        tenant = header(record, "tenant") or "default"
        return DocumentSubmitted(tenant=tenant, source=source, path=path, deleted=True)
    submitted = decode(_data(record.value), DocumentSubmitted)
    if submitted.chunks is None:
        return submitted
    return msgspec.structs.replace(submitted, chunks=None, content=ready_chunks.body_of(submitted.chunks))


def deletion(entry: Entry) -> DocumentSubmitted:
    """Return the submission that deletes a known document; where it was erased, no name is left to do that by."""
    if entry.erased:
        return erasure(entry.tenant, entry.document_id)
    return DocumentSubmitted(tenant=entry.tenant, source=entry.source, path=entry.path, deleted=True)


class _CloudEvent(msgspec.Struct):
    specversion: str
    data: msgspec.Raw


_cloud_event = msgspec.json.Decoder(_CloudEvent)


def _data(value: bytes) -> bytes:
    """Return what a CloudEvent in JSON carries; any other value as it is."""
    if b'"specversion"' not in value:
        return value
    try:
        return bytes(_cloud_event.decode(value).data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return value  # it only speaks of one, or is nothing at all: the message's own decoder says what
