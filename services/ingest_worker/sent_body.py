"""Describes a body as it was sent, for the ledger, and compares submissions of different routes."""

import asyncio
import hashlib
from typing import Final

import msgspec

from services.ingest_worker.accept import Submission
from services.ingest_worker.content import Content
from services.ingest_worker.extract import detect
from services.ingest_worker.extract.format import Hints
from shared.contracts import DocumentSubmitted, LogPosition, SubmittedBody
from shared.state.ledger import Entry

_HASHED_AT_ONCE: Final = 1 << 20  # bytes


async def body_as_sent(content: Content, place: LogPosition) -> SubmittedBody | None:
    """Return hash, size and position of the body; None if there is no body, or if it wasn't read."""
    if content.before is not None:
        return content.before.body
    if content.body is None:
        return None
    body = content.body
    # Hashing holds the event loop for a millisecond per MB.
    digest = await asyncio.to_thread(hashlib.sha256, body) if len(body) > _HASHED_AT_ONCE else hashlib.sha256(body)
    return SubmittedBody(sha256=digest.hexdigest(), size=len(body), place=place)


async def alike(entry: Entry, submitted: DocumentSubmitted, submission: Submission, content: Content) -> bool:
    """Return whether the accepted version has the same bytes and description, sent by another route.

    Routes declare a body differently: a text has no file name, a file has a name and a type.
    """
    before, body = entry.accepted, content.body
    reading, given = before.reading, before.given
    if (
        body is None
        or reading is None
        or given is None
        or content.page is not None
        or before.raw_hash != submission.raw_hash
        or before.metadata_hash == submission.metadata_hash
        or msgspec.structs.replace(given, hash=submitted.hash) != submitted.given
        or (reading.url, reading.chunk_size, reading.chunk_overlap)
        != (submitted.url, submitted.chunk_size, submitted.chunk_overlap)
    ):
        return False
    hints, held = _hints(submitted), Hints(filename=reading.filename or entry.path, media_type=reading.media_type)
    if (hints.charset, _file_name(hints)) != (held.charset, _file_name(held)):
        return False
    # Sniffing may decode the body. It is safe here: a parser has read these bytes before.
    found = await asyncio.to_thread(detect, body, hints)
    return found.document_type == reading.extracted.get("document_type")


def _hints(submitted: DocumentSubmitted) -> Hints:
    """Return the declarations about a body that was sent, not fetched."""
    sent_as = "text/markdown" if submitted.text is not None else None
    return Hints(filename=submitted.filename or submitted.path, media_type=submitted.media_type or sent_as)


def _file_name(hints: Hints) -> str:
    return (hints.filename or "").rpartition("/")[2]
