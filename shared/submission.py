"""Reads records of documents.submitted: our own, foreign JSON, CloudEvents and tombstones; makes deletions.

Also says of any record whose document it is about, and which blobs it names.
"""

from typing import NamedTuple

import msgspec

from shared.contracts import (
    DEFAULT_TENANT,
    ERASED,
    BlobRef,
    DocumentChunked,
    DocumentExtracted,
    DocumentSubmitted,
    DocumentVersion,
    LogPosition,
    decode,
    erasure,
)
from shared.errors import Rejected
from shared.ids import bytes_hash, is_uuid
from shared.inputs import prepared_chunks
from shared.log import Record
from shared.log.headers import header, position_of, tenants_of
from shared.state.ledger import Entry
from shared.topics import EXTRACTED, SUBMITTED, is_chunks_topic


def submission_of(record: Record) -> DocumentSubmitted:
    """Return the record's message; a record without a value deletes the document that its headers name.

    A foreign record may be plain JSON or a CloudEvent in either mode. A body that isn't JSON is the document itself,
    and headers name it. A CloudEvent without source and path uses the event's `source` and `subject`.

    Raises:
        Rejected: code `undecodable`, or `tombstone` if a record without a value names no document.
    """
    submitted = _read(record)
    if submitted.chunks is None:
        return submitted
    return msgspec.structs.replace(submitted, chunks=None, content=prepared_chunks.body_of(submitted.chunks))


def document_key(record: Record) -> str | None:
    """Return the record's key if it is a document id in canonical form, else None."""
    name = (record.key or b"").decode(errors="replace")
    return name if is_uuid(name) else None


def document_id_of(record: Record) -> str | None:
    """Return the id of the document that the record is about; None if it is no valid submission."""
    try:
        return submission_of(record).document_id
    except Rejected:
        return None


def submission_for(record: Record, tenant: str) -> DocumentSubmitted:
    """Return the message of a record whose topic belongs to the tenant.

    Raises:
        Rejected: as `submission_of`; code `foreign` if the record names another tenant.
    """
    submitted = submission_of(record)
    for named in tenants_of(record):
        if named != tenant:
            raise Rejected(
                f"the record names the tenant {named!r}, but {record.topic} belongs to {tenant!r}", "foreign"
            )
    return msgspec.structs.replace(submitted, tenant=tenant)


def needs_headers(record: Record) -> bool:
    """Return whether decoding the record needs its headers."""
    return (
        record.value is None
        or header(record, _BINARY) is not None
        or not _is_json(header(record, "content-type") or "")
    )


def description_hash(submitted: DocumentSubmitted) -> str:
    """Return 32 hex digits, the hash of all fields but the body. A change of these fields makes a new version, too."""
    sizes = submitted.chunk_size, submitted.chunk_overlap
    described = (
        submitted.title,
        submitted.description,
        submitted.url,
        submitted.filename,
        submitted.media_type,
        submitted.tags,
        submitted.metadata,
        # Only if set: otherwise the hashes of all existing documents would change.
        *(() if sizes == (None, None) else (sizes,)),
    )
    return bytes_hash(msgspec.json.encode(described, order="sorted"))


def deletion(entry: Entry) -> DocumentSubmitted:
    """Return the submission that deletes a known document. An erased document has no names, so it is erased again."""
    if entry.erased:
        return erasure(entry.tenant, entry.document_id)
    return DocumentSubmitted(tenant=entry.tenant, source=entry.source, path=entry.path, deleted=True)


def _read(record: Record) -> DocumentSubmitted:
    if record.value is None:
        source, path = _named(record)
        if source is None or path is None:
            raise Rejected(
                "a record without a value must name the document to delete: by headers source and path, or by a key "
                "that is the id of a known document; this one has neither",
                "tombstone",
            )
        return DocumentSubmitted(tenant=_tenant(record), source=source, path=path, deleted=True)
    if needs_headers(record):
        return _of_binary(record, header(record, "content-type") or "")
    if b'"specversion"' in record.value:
        return _of_structured(record.value)
    return decode(record.value, DocumentSubmitted)


# CloudEvents 1.0, https://github.com/cloudevents/spec: binary mode has the attributes in headers, structured in JSON.
_BINARY = "ce_specversion"


class _CloudEvent(msgspec.Struct):
    specversion: str
    source: str | None = None
    subject: str | None = None
    datacontenttype: str | None = None
    data: msgspec.Raw = msgspec.Raw()
    data_base64: bytes | None = None


_cloud_event = msgspec.json.Decoder(_CloudEvent)


def _of_binary(record: Record, kind: str) -> DocumentSubmitted:
    source, path = _named(record)
    if _is_json(kind):
        return decode(_with_names(record.value, source, path), DocumentSubmitted)
    if source is None or path is None:
        if header(record, _BINARY) is None:
            return decode(record.value, DocumentSubmitted)  # many producers declare JSON as another type
        raise Rejected(
            f"an event with {kind} is a document, and its headers must name it: ce_source and ce_subject, or source "
            "and path",
            "undecodable",
        )
    return DocumentSubmitted(tenant=_tenant(record), source=source, path=path, content=record.value, media_type=kind)


def _of_structured(value: bytes) -> DocumentSubmitted:
    try:
        event = _cloud_event.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Not a CloudEvent, or not JSON: the message's decoder raises the better error.
        return decode(value, DocumentSubmitted)
    if event.data_base64 is None:
        return decode(_with_names(bytes(event.data) or value, event.source, event.subject), DocumentSubmitted)
    if event.source is None or event.subject is None:
        raise Rejected("an event with data_base64 is a document: source and subject must name it", "undecodable")
    return DocumentSubmitted(
        source=event.source, path=event.subject, content=event.data_base64, media_type=event.datacontenttype
    )


def _with_names(data: bytes | None, source: str | None, path: str | None) -> bytes | None:
    """Return the JSON object, with source and path added if it lacks them."""
    try:
        fields = msgspec.json.decode(data or b"", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data  # the message's decoder raises the better error
    names = {"source": source, "path": path}
    more = {name: value for name, value in names.items() if value is not None and name not in fields}
    return msgspec.json.encode({**fields, **more}) if more else data


def _named(record: Record) -> tuple[str | None, str | None]:
    source, path = header(record, "source"), header(record, "path")
    if source is None or path is None:
        return header(record, "ce_source"), header(record, "ce_subject")
    return source, path


def _tenant(record: Record) -> str:
    return header(record, "tenant") or DEFAULT_TENANT


def _is_json(kind: str) -> bool:
    essence = kind.partition(";")[0].strip().lower()
    return essence in ("", "application/json", "text/json") or essence.endswith("+json")


class DocumentMention(NamedTuple):
    """A record's reference to a document."""

    document_id: str
    place: LogPosition  # place of the submission that the record comes from
    blobs: frozenset[str]  # SHA-256 of the blobs that the record refers to
    erases: bool  # the record is an erasure, which contains only the id


def mention(record: Record) -> DocumentMention | None:
    """Return the document that a record of documents.submitted, documents.extracted or a chunk topic is about.

    None if the record can't be decoded.
    """
    try:
        if record.topic == SUBMITTED:
            submitted = submission_of(record)
            return DocumentMention(
                submitted.document_id, position_of(record), _sha256(submitted.blob), submitted.erases is not None
            )
        if record.topic == EXTRACTED and record.value is not None:
            extracted = decode(record.value, DocumentExtracted)
            return _of_version(extracted.document, _sha256(extracted.chunks_blob, *extracted.document.blobs))
        if is_chunks_topic(record.topic) and record.value is not None:
            chunked = decode(record.value, DocumentChunked)
            return _of_version(chunked.document, _sha256(chunked.blob, *chunked.document.blobs))
    except Rejected:
        return None
    return None


def _of_version(document: DocumentVersion, blobs: frozenset[str]) -> DocumentMention:
    return DocumentMention(document.document_id, document.place, blobs, document.raw_hash == ERASED)


def _sha256(*refs: BlobRef | None) -> frozenset[str]:
    return frozenset(ref.sha256 for ref in refs if ref is not None)
