"""The first stage: turns a submission into a version on documents.extracted, or finds that none is needed.

Order of effects (correctness.md, section 1): the conditional write to the ledger, then the event, then the commit.
`content` reads a submission, `crawler` follows its links, `accept` decides, `decisions` writes the decision to the
ledger, and `version_publisher` publishes the version.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
import structlog

from services.ingest_worker import accept, crawl_rules
from services.ingest_worker.accept import Conflict, IndexedVersion, Joined, Published, Unchanged
from services.ingest_worker.content import Content, ContentReader, alike, body_as_sent
from services.ingest_worker.crawler import Crawler
from services.ingest_worker.decisions import Decisions, submission_at, with_kept_fields
from services.ingest_worker.extract import READERS, Extraction
from services.ingest_worker.fetch import Busy, Fetcher
from services.ingest_worker.parsers import ParserPool
from services.ingest_worker.version_publisher import VersionPublisher
from shared import tracing
from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.claim_check import submission_value
from shared.contracts import DocumentSubmitted, Forwarded
from shared.errors import Rejected
from shared.inputs.limits import check_described, check_names
from shared.inputs.metadata import checked_metadata
from shared.inputs.urls import canonical
from shared.log import Publish, Record
from shared.log.dead_letters import RecordOwner
from shared.log.headers import (
    FORWARDED_HEADER,
    PLACE_HEADER,
    forwarded_from,
    header,
    position_header,
    position_of,
    redriven,
    redrives_of,
)
from shared.runtime.body_budget import MemoryBudget
from shared.state.callbacks import KEPT_MS, Callbacks
from shared.state.index import Index
from shared.state.ledger import Entry, Ledger
from shared.state.statuses import Statuses
from shared.submission import deletion, document_key, needs_headers, submission_of
from shared.topics import SUBMITTED

log = structlog.get_logger(__name__)

REKEYED = "sluice-rekeyed"


@dataclass(kw_only=True)
class Ingest:
    """Handles records of documents.submitted. Idempotent."""

    ledger: Ledger
    index: Index
    blobs: Blobs
    parsers: ParserPool
    publish: Publish
    statuses: Statuses
    partition_of: Callable[[bytes], Awaitable[int]]
    fetch: Fetcher
    room: MemoryBudget = field(default_factory=MemoryBudget)
    bounds: crawl_rules.Bounds = crawl_rules.Bounds()  # noqa: RUF009 - frozen
    callbacks: Callbacks | None = None
    moves: int = 0

    def __post_init__(self) -> None:
        blobs, publish = self.blobs, self.publish
        self._reader = ContentReader(blobs=blobs, fetch=self.fetch, parsers=self.parsers)
        self._crawler = Crawler(
            ledger=self.ledger, reader=self._reader, fetch=self.fetch, publish=publish, bounds=self.bounds
        )
        self._versions = VersionPublisher(blobs=blobs, send=publish)
        self._decisions = Decisions(
            ledger=self.ledger,
            index=self.index,
            blobs=blobs,
            publish=publish,
            statuses=self.statuses,
            moves=self.moves,
        )

    async def __call__(self, record: Record) -> None:
        """Process one record.

        Raises:
            Rejected: the record can't be processed; `failed` records that.
            Unavailable: a component is unavailable; call again.
        """
        submitted = await self._submitted(record)
        check_names(submitted)
        name = submitted.document_id
        tracing.about(submitted.tenant, name)
        try:
            async with self.room.taken(submitted.blob.size if submitted.blob else 0, submitted.tenant):
                refetch = False
                while not await self._take(record, submitted, name, refetch=refetch):
                    refetch = True
        except Busy:
            # The record goes to the end of the log, so that the ones after it don't wait for this host.
            await self._sent_on(record, submitted)
            log.info("record_postponed", document_id=name, partition=record.partition, offset=record.offset)

    async def _take(self, record: Record, submitted: DocumentSubmitted, name: str, *, refetch: bool = False) -> bool:
        """Return whether the record is done, else call again with `refetch`.

        It isn't done if its page was reported unchanged, but the version with that content no longer answers; nor if
        it keeps something of a version that has been replaced meanwhile. With `refetch` the page is fetched in full.
        """
        entry, place = await self.ledger.get(name), position_of(record)
        if entry is not None and entry.tenant != submitted.tenant:
            raise Rejected(f"document {name} does not belong to the tenant {submitted.tenant!r}", "foreign")
        # Before the body is read or published under another key: an erased document's body is gone.
        if accept.late(entry, place):
            if entry is not None and not entry.erased:
                await self._register_callback(record, submitted)
            log.info("submission_superseded", document_id=name)
            return True
        if entry is not None and not redrives_of(record) and accept.settled(entry, place):
            await self.statuses.notify_end(entry, place)  # a crash may have come before the notice
            log.info("submission_ended_before", document_id=name)
            return True
        source_record = _source_record(record)
        if entry is not None and entry.has_forwarded(source_record, place):
            await self._decisions.repeat(submitted, place)
            return True
        if await self._rekeyed(record, submitted, name):
            return True
        await self._register_callback(record, submitted)
        # What a foreign producer may not send. The doors refuse such a request.
        check_described(submitted)
        checked_metadata(submitted.metadata, "metadata")
        if submitted.patch and (entry is None or accept.unpatchable(entry, place, submitted.if_version)):
            return await self._decisions.refuse_patch(submitted, place, source_record)
        submitted = with_kept_fields(submitted, entry)
        answering = await self._decisions.answering(name)
        # A crawl needs the page's links, which are in its body.
        conditional = submitted.fetched and not submitted.leads_on and not refetch
        known = accept.standing(entry, submission_at(place, submitted), answering) if conditional else None
        before = entry.accepted if entry is not None and submitted.patch else None
        async with self._reader.content(submitted, known, before) as content:
            return await self._take_content(record, entry, submitted, content, answering)

    async def _register_callback(self, record: Record, submitted: DocumentSubmitted) -> None:
        """Register the submission's callback, if it has one, before anything can end the submission."""
        place = position_of(record)
        # A replay of older submissions makes no callbacks; those of younger ones are still in the store.
        replayed = record.timestamp - place.time > KEPT_MS
        if self.callbacks is None or submitted.callback_url is None or submitted.erases or replayed:
            return
        url, refused = submitted.callback_url, None
        try:
            url = canonical(url)
        except Rejected as error:  # of a foreign producer; the doors refuse such a URL
            refused = error.sentence
        await self.callbacks.register(submitted.document_id, submitted.tenant, place, url, refused=refused)

    async def _take_content(
        self,
        record: Record,
        entry: Entry | None,
        submitted: DocumentSubmitted,
        content: Content,
        answering: IndexedVersion | None,
    ) -> bool:
        """Return whether the submission is done, as `_take` does."""
        place = position_of(record)
        extraction = await self._crawler.follow(submitted, place, content)
        submission = submission_at(place, submitted, content.raw_hash, content.validators, _source_record(record))
        submission = msgspec.structs.replace(submission, body=await body_as_sent(content, place))
        if content.before is not None:
            submission = msgspec.structs.replace(submission, extractor=content.before.extractor)
        elif entry is not None and await alike(entry, submitted, submission, content):
            submission = msgspec.structs.replace(submission, metadata_hash=entry.accepted.metadata_hash)
        decision = accept.decide(entry, submission, answering)
        if isinstance(decision, Published):
            extraction = await self._extract(submitted, content, extraction)
            text = await self._versions.store_text(submission, extraction)
            reading = await self._reader.store_reading(submitted, extraction)
            reader = submission.extractor or (READERS.name(extraction.document_type) if extraction else "")
            submission = msgspec.structs.replace(submission, text=text, reading=reading, extractor=reader)
        keeps = bool(submitted.keep) or submitted.patch
        unread = content.unread or not isinstance(decision, Published)
        written = await self._decisions.write(entry, submission, answering, unread=unread, keeps=keeps)
        if written is None or (unread and isinstance(written, Published)):
            return False
        if isinstance(written, Conflict):
            await self._decisions.end_conflict(submitted, submission, content.body)
        elif isinstance(written, Published):
            extraction = await self._extract(submitted, content, extraction)
            # An erasure may have deleted the text that was stored before it, so the text is stored again.
            if entry is not None and (entry.erased or written.entry.rev != entry.rev):
                submission = msgspec.structs.replace(submission, text=None)
            await self._versions.publish(written.entry, submitted, submission, extraction, redriven(record))
        elif isinstance(written, Unchanged):
            await self.statuses.notify(written.entry)
        elif isinstance(written, Joined):
            log.info("submission_joined", document_id=submitted.document_id, version=written.entry.accepted.version)
        else:
            log.info("submission_superseded", document_id=submitted.document_id)
        return True

    async def _extract(
        self, submitted: DocumentSubmitted, content: Content, known: Extraction | None
    ) -> Extraction | None:
        """Return the extraction of the body, which is `known` if that was given; None where there is no body.

        Raises:
            Rejected: the body can't be parsed; or a crawl found the page, and it asks robots not to index it.
        """
        extraction = known or await self._reader.extract(submitted, content)
        self._crawler.check_indexable(submitted, content, extraction)
        return extraction

    @staticmethod
    def owner(record: Record) -> RecordOwner | None:
        """Return the owner of the record, or None where it can't be decoded or its names can't be kept."""
        try:
            submitted = _named(record)
        except Rejected:
            return None
        return RecordOwner(submitted.tenant, submitted.document_id, submitted.source, submitted.path)

    async def failed(self, record: Record, sentence: str, code: str) -> None:
        """Record the failure in the ledger, where the record can be decoded, and notify waiting clients."""
        try:
            submitted = _named(record)
        except Rejected:
            return
        await self._decisions.fail(submitted, position_of(record), sentence, code, _source_record(record))

    async def _submitted(self, record: Record) -> DocumentSubmitted:
        """Return the record's message; a null record under the id of a known document is a deletion."""
        if record.value is None and (id_ := document_key(record)) is not None:
            entry = await self.ledger.get(id_)
            if entry is not None:
                return deletion(entry)
        return submission_of(record)

    async def _rekeyed(self, record: Record, submitted: DocumentSubmitted, name: str) -> bool:
        """Return whether the record was republished under its document's key: it had a wrong key or partition."""
        key = name.encode()
        if header(record, REKEYED) is not None:
            return False
        if record.key == key and record.partition == await self.partition_of(key):
            return False
        await self._sent_on(record, submitted)
        log.info("record_rekeyed", document_id=name, partition=record.partition, offset=record.offset)
        return True

    async def _sent_on(self, record: Record, submitted: DocumentSubmitted) -> None:
        """Append the record again under its document's key; a header keeps its log position."""
        headers = {REKEYED: "1", PLACE_HEADER: position_header(position_of(record)), **redriven(record)}
        if (came_from := header(record, FORWARDED_HEADER)) is not None:
            headers[FORWARDED_HEADER] = came_from
        value = record.value
        # Our headers replace the record's, so what they say must go into the value; and they add to its size, which
        # the topic limits.
        if value is None or needs_headers(record) or len(value) > CLAIM_CHECK_BYTES:
            value = await submission_value(submitted, self.blobs)
        await self.publish(SUBMITTED, value, key=submitted.document_id.encode(), headers=headers)


def _named(record: Record) -> DocumentSubmitted:
    """Return the record's message. Raises Rejected if it can't be decoded, or if its names are too long to keep."""
    submitted = submission_of(record)
    check_names(submitted)
    return submitted


def _source_record(record: Record) -> Forwarded | None:
    """Return which record of a tenant's own topic the record was made from; a redrive is judged by its place alone."""
    return None if redrives_of(record) else forwarded_from(record)
