"""Reads the content of a submission: its body (from the record, a blob or a URL) and the text extracted from it.

It describes the body as it was sent, for the ledger, and compares submissions of different routes.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from services.ingest_worker.accept import Submission
from services.ingest_worker.extract import Extraction, detect
from services.ingest_worker.extract.format_types import Hints
from services.ingest_worker.fetch import FetchedPage, Fetcher, robots
from services.ingest_worker.parsers import ParserPool
from shared.blobs import Blobs
from shared.claim_check import json_of, messages_of
from shared.contracts import (
    BlobRef,
    DocumentSubmitted,
    LogPosition,
    PreparedChunk,
    SubmittedBody,
    TextReading,
    Validators,
    like,
)
from shared.errors import Rejected
from shared.ids import bytes_hash
from shared.state.ledger import Accepted, Entry

_HASHED_AT_ONCE: Final = 1 << 20  # bytes


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a submission."""

    body: bytes | None = None  # also None for a deletion
    raw_hash: str
    unread: bool = False  # the page is unchanged since its validators were stored, so its body wasn't fetched
    validators: Validators | None = None
    page: FetchedPage | None = None
    before: Accepted | None = None  # the version whose body is kept


@dataclass(frozen=True, kw_only=True)
class ContentReader:
    """Reads the content of submissions."""

    blobs: Blobs
    fetch: Fetcher
    parsers: ParserPool

    @asynccontextmanager
    async def content(
        self, submitted: DocumentSubmitted, known: Accepted | None, before: Accepted | None
    ) -> AsyncIterator[Content]:
        """Yield the submission's content; a page's memory is counted until the block ends.

        `known` is the accepted version where a page may be asked for with its validators: if it is unchanged, its body
        isn't fetched. `before` is the accepted version where only its metadata changes.

        Raises:
            Rejected: there is no body, or the page can't be fetched.
            Busy: the page's host has too many requests already.
        """
        if before is not None:
            yield Content(raw_hash=before.raw_hash, validators=before.validators, before=before)
            return
        if submitted.fetched:
            assert submitted.url is not None
            async with self.fetch.page(
                submitted.url, known.validators if known else None, tenant=submitted.tenant
            ) as page:
                if page is not None:
                    # The hash covers type and charset, because these affect how the body is parsed.
                    hints = Hints(media_type=page.media_type)
                    raw_hash = bytes_hash(f"{hints.essence};{(hints.charset or '').lower()}\n".encode(), page.body)
                    yield Content(body=page.body, raw_hash=raw_hash, validators=page.validators, page=page)
                    return
                assert known is not None
                yield Content(raw_hash=known.raw_hash, unread=True, validators=known.validators)
                return
        body = await self._body(submitted)
        yield Content(body=body, raw_hash=bytes_hash(body or b""))

    async def extract(self, submitted: DocumentSubmitted, content: Content) -> Extraction | None:
        """Return the extraction of the content; None where there is no body.

        Raises:
            Rejected: the body can't be parsed.
        """
        if content.before is not None:
            return await self._extracted_before(submitted, content.before)
        if content.body is None:
            return None
        page = content.page
        site = await asyncio.to_thread(robots.sitemap, page.body) if page is not None and submitted.leads_on else None
        if page is not None and site is not None:
            text = f"The sitemap {page.url} lists {len(site.pages)} pages and {len(site.sitemaps)} sitemaps."
            return Extraction(text=text, document_type="xml", text_format="markdown", title=page.url)
        hints = msgspec.structs.replace(_hints(submitted, page), title=submitted.title, links=submitted.leads_on)
        return await self.parsers.extract(content.body, hints, tenant=submitted.tenant)

    async def store_reading(self, submitted: DocumentSubmitted, extraction: Extraction | None) -> TextReading | None:
        """Return what a later change of metadata needs of the extraction; store its prepared chunks as a blob."""
        if extraction is None:
            return None
        chunks: BlobRef | None = None
        if extraction.chunks:
            data = await json_of(extraction.chunks)
            chunks = await self.blobs.put(submitted.tenant, submitted.document_id, data)
        bare = msgspec.structs.replace(extraction, text="", chunks=(), links=(), robots=(), notes=(), note_count=0)
        return like(
            TextReading,
            submitted,
            extracted={name: value for name, value in msgspec.to_builtins(bare).items() if value},
            notes=extraction.notes,
            note_count=extraction.note_count,
            chunks=chunks,
        )

    async def _body(self, submitted: DocumentSubmitted) -> bytes | None:
        if submitted.deleted:
            return None
        if (body := submitted.body) is not None:
            return body
        if submitted.blob is not None:
            return await self.blobs.get(submitted.tenant, submitted.document_id, submitted.blob)
        raise Rejected(
            f"{submitted.source}/{submitted.path} has no body; it needs text, content, blob or url", "no_body"
        )

    async def _extracted_before(self, submitted: DocumentSubmitted, before: Accepted) -> Extraction:
        """Return the extraction of the accepted version, from the ledger and its blobs.

        Raises:
            Rejected: a blob is missing or altered.
        """
        assert before.reading is not None, "it can be changed"
        assert before.text is not None
        tenant, name, ref = submitted.tenant, submitted.document_id, before.reading.chunks
        text = (await self.blobs.get(tenant, name, before.text)).decode()
        chunks = await self.blobs.get(tenant, name, ref) if ref is not None else b"[]"
        extraction = msgspec.convert({**before.reading.extracted, "text": text}, Extraction)
        return msgspec.structs.replace(
            extraction,
            chunks=await messages_of(chunks, PreparedChunk),
            notes=before.reading.notes,
            note_count=before.reading.note_count,
        )


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
    hints, held = _hints(submitted, None), Hints(filename=reading.filename or entry.path, media_type=reading.media_type)
    if (hints.charset, _file_name(hints)) != (held.charset, _file_name(held)):
        return False
    # Sniffing may decode the body. It is safe here: a parser has read these bytes before.
    found = await asyncio.to_thread(detect, body, hints)
    return found.document_type == reading.extracted.get("document_type")


def _hints(submitted: DocumentSubmitted, page: FetchedPage | None) -> Hints:
    """Return the declarations about a body that was sent, or fetched as `page`."""
    sent_as = page.media_type if page is not None else "text/markdown" if submitted.text is not None else None
    name = submitted.path if page is None else page.url.partition("?")[0]
    return Hints(filename=submitted.filename or name, media_type=submitted.media_type or sent_as)


def _file_name(hints: Hints) -> str:
    return (hints.filename or "").rpartition("/")[2]
