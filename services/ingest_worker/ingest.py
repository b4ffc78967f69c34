"""The first stage: turns a submission into a version on documents.extracted, or finds that none is needed.

Order of effects (correctness.md, section 1): the conditional write to the ledger, then the event, then the commit.
`extract` parses files, and `accept` decides what becomes of a submission.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from services.ingest_worker import accept, crawl
from services.ingest_worker.accept import (
    Conflict,
    Decision,
    IndexedVersion,
    Joined,
    Published,
    Submission,
    Superseded,
    Unchanged,
)
from services.ingest_worker.extract import EXTRACTOR, Extraction
from services.ingest_worker.extract.format import Hints
from services.ingest_worker.fetch import Busy, Fetch, FetchedPage, robots, sitemap
from services.ingest_worker.parsers import ParserPool
from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.claim_check import submission_value
from shared.contracts import (
    ERASED,
    BlobRef,
    DocumentExtracted,
    DocumentSubmitted,
    DocumentVersion,
    LogPosition,
    PreparedChunk,
    Validators,
    encode,
    truth_key,
)
from shared.errors import Rejected
from shared.ids import bytes_hash, document_id
from shared.inputs.urls import canonical
from shared.log import Publish, Record
from shared.log.dead_letters import RecordOwner
from shared.log.headers import PLACE_HEADER, header, position_header, position_of, redriven
from shared.runtime.memory_budget import MemoryBudget
from shared.state.index import Index
from shared.state.ledger import Accepted, Entry, Ledger, MovedTo, TextReading
from shared.state.statuses import Statuses
from shared.submission import deletion, description_hash, needs_headers, submission_of
from shared.topics import EXTRACTED, SUBMITTED

log = structlog.get_logger(__name__)

REKEYED = "sluice-rekeyed"
_AT_ONCE: Final = 50  # pages of a crawl that are published concurrently


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a submission."""

    body: bytes | None = None  # also None for a deletion
    raw_hash: str
    unread: bool = False  # the page is unchanged since its validators were stored, so its body wasn't fetched
    validators: Validators | None = None
    page: FetchedPage | None = None
    before: Accepted | None = None  # the version whose body is kept


class Ingest:
    """Handles records of documents.submitted. Idempotent."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        index: Index,
        blobs: Blobs,
        parsers: ParserPool,
        publish: Publish,
        statuses: Statuses,
        partition_of: Callable[[bytes], Awaitable[int]],
        room: MemoryBudget,
        fetch: Fetch,
        bounds: crawl.Bounds = crawl.Bounds(),  # noqa: B008 - frozen
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._blobs = blobs
        self._parsers = parsers
        self._publish = publish
        self._statuses = statuses
        self._partition_of = partition_of
        self._room = room
        self._fetch = fetch
        self._bounds = bounds

    async def __call__(self, record: Record) -> None:
        """Process one record.

        Raises:
            Rejected: the record can't be processed; `failed` records that.
            Unavailable: a component is unavailable; call again.
        """
        submitted = await self._submitted(record)
        name = submitted.document_id
        try:
            async with self._room.taken(submitted.blob.size if submitted.blob else 0):
                anew = False
                while not await self._take(record, submitted, name, anew=anew):
                    anew = True
        except Busy:
            # The record goes to the end of the log, so that the ones after it don't wait for this host.
            await self._sent_on(record, submitted)
            log.info("record_postponed", document_id=name, partition=record.partition, offset=record.offset)

    async def _take(self, record: Record, submitted: DocumentSubmitted, name: str, *, anew: bool = False) -> bool:
        """Return whether the record is done, else call again with `anew`.

        It isn't done if its page was reported unchanged, but the version with that content no longer answers; nor if
        it keeps something of a version that has been replaced meanwhile. With `anew` the page is fetched in full.
        """
        entry, place = await self._ledger.get(name), position_of(record)
        if entry is not None and entry.tenant != submitted.tenant:
            raise Rejected(f"document {name} does not belong to the tenant {submitted.tenant!r}", "foreign")
        # Before the body is read or published under another key: an erased document's body is gone.
        if accept.late(entry, place):
            log.info("submission_superseded", document_id=name)
            return True
        if await self._rekeyed(record, submitted, name):
            return True
        if submitted.patch and not _patchable(entry, submitted, place):
            return await self._refuse_patch(submitted, place)
        submitted = _kept(submitted, entry)
        answering = await self._answering(name)
        # A crawl needs the page's links, which are in its body.
        asks = submitted.fetched and not submitted.leads_on and not anew
        known = accept.standing(entry, _submission(submitted, name, place, ""), answering) if asks else None
        before = entry.accepted if entry is not None and submitted.patch else None
        async with self._content(submitted, name, known, before) as content:
            return await self._take_content(entry, submitted, place, content, answering)

    async def _take_content(
        self,
        entry: Entry | None,
        submitted: DocumentSubmitted,
        place: LogPosition,
        content: Content,
        answering: IndexedVersion | None,
    ) -> bool:
        """Return whether the submission is done, as `_take` does."""
        extraction = await self._follow(submitted, place, content)
        submission = _submission(submitted, submitted.document_id, place, content.raw_hash, content.validators)
        if content.before is not None:
            submission = msgspec.structs.replace(submission, extractor=content.before.extractor)
        decision = accept.decide(entry, submission, answering)
        if isinstance(decision, Published):
            extraction = await self._extract(submitted, content, extraction)
            text, reading = await self._put(submission, extraction), await self._reading(submitted, extraction)
            submission = msgspec.structs.replace(submission, text=text, reading=reading)
        keeps = bool(submitted.keep) or submitted.patch
        written = await self._write(entry, submission, answering, unread=content.unread, keeps=keeps)
        if written is None or (content.unread and isinstance(written, Published)):
            return False
        if isinstance(written, Conflict):
            await self._end_conflict(submitted, submission, content)
        elif isinstance(written, Published):
            extraction = await self._extract(submitted, content, extraction)
            # An erasure may have deleted the text that was stored before it, so the text is stored again.
            if entry is not None and (entry.erased or written.entry.rev != entry.rev):
                submission = msgspec.structs.replace(submission, text=None)
            await self._publish_version(written.entry, submitted, submission, extraction)
        else:
            await self._announce(submitted, written)
        return True

    async def _end_conflict(self, submitted: DocumentSubmitted, submission: Submission, content: Content) -> None:
        """Record in the ledger that the submission was refused, or under which new name it was submitted."""
        moved_to: MovedTo | None = None
        if submission.on_conflict == "new":
            # The name is derived from the content, so a retry creates no second document.
            renamed = msgspec.structs.replace(
                submitted, path=_renamed(submitted.path, submission.raw_hash), on_conflict=None, keep=()
            )
            if renamed.blob is not None:  # a blob belongs to one document, so the new one needs its own
                renamed = msgspec.structs.replace(renamed, blob=None, content=content.body)
            value = await submission_value(renamed, self._blobs)
            sent = await self._publish(SUBMITTED, value, key=renamed.document_id.encode())
            place = LogPosition(partition=sent.partition, offset=sent.offset, time=sent.timestamp)
            moved_to = MovedTo(document_id=renamed.document_id, place=place)

        def ends(seen: Entry | None) -> Entry | None:
            if seen is None or accept.late(seen, submission.place) or seen.ended(submission.place):
                return None
            return accept.in_conflict(seen, submission, moved_to)

        entry = await self._ledger.update(submission.document_id, ends)
        log.info("submission_in_conflict", document_id=submission.document_id, asked=submission.on_conflict)
        if entry is not None:
            await self._statuses.notify(entry)

    async def _announce(self, submitted: DocumentSubmitted, decision: Superseded | Unchanged | Joined) -> None:
        """Log the decision and notify waiting clients."""
        name = submitted.document_id
        match decision:
            case Superseded():
                log.info("submission_superseded", document_id=name)
            case Unchanged(entry):
                await self._statuses.notify(entry)
            case Joined(entry):
                log.info("submission_joined", document_id=name, version=entry.accepted.version)

    @staticmethod
    def owner(record: Record) -> RecordOwner | None:
        """Return the owner of the record, or None where the record can't be decoded."""
        try:
            submitted = submission_of(record)
        except Rejected:
            return None
        return RecordOwner(submitted.tenant, submitted.document_id, submitted.source, submitted.path)

    async def failed(self, record: Record, sentence: str, code: str) -> None:
        """Record the failure in the ledger, where the record can be decoded, and notify waiting clients."""
        try:
            submitted = submission_of(record)
        except Rejected:
            return
        name = submitted.document_id
        # A failure moves only `last`, so what the body was doesn't matter.
        submission = _submission(submitted, name, position_of(record), "")

        def failed(seen: Entry | None) -> Entry | None:
            if seen is not None and seen.tenant != submitted.tenant:
                return None  # rejected because the document belongs to another tenant: its entry must not change
            return accept.fail(seen, submission, sentence, code)

        entry = await self._ledger.update(name, failed)
        if entry is not None:
            await self._statuses.notify(entry)

    async def _submitted(self, record: Record) -> DocumentSubmitted:
        """Return the record's message; a null record under the id of a known document is a deletion."""
        if record.value is None and (id_ := _document_key(record)) is not None:
            entry = await self._ledger.get(id_)
            if entry is not None:
                return deletion(entry)
        return submission_of(record)

    async def _rekeyed(self, record: Record, submitted: DocumentSubmitted, name: str) -> bool:
        """Return whether the record was republished under its document's key: it had a wrong key or partition."""
        key = name.encode()
        if header(record, REKEYED) is not None:
            return False
        if record.key == key and record.partition == await self._partition_of(key):
            return False
        await self._sent_on(record, submitted)
        log.info("record_rekeyed", document_id=name, partition=record.partition, offset=record.offset)
        return True

    async def _sent_on(self, record: Record, submitted: DocumentSubmitted) -> None:
        """Append the record again under its document's key; a header keeps its log position."""
        headers = {REKEYED: "1", PLACE_HEADER: position_header(position_of(record)), **redriven(record)}
        value = record.value
        # Our headers replace the record's, so what they say must go into the value; and they add to its size, which
        # the topic limits.
        if value is None or needs_headers(record) or len(value) > CLAIM_CHECK_BYTES:
            value = await submission_value(submitted, self._blobs)
        await self._publish(SUBMITTED, value, key=submitted.document_id.encode(), headers=headers)

    async def _refuse_patch(self, submitted: DocumentSubmitted, place: LogPosition) -> bool:
        """Return True once the ledger says why the metadata can't change, or False if by now it can.

        Raises:
            Rejected: the document is unknown.
        """
        submission = _submission(submitted, submitted.document_id, place, "")

        def refuses(seen: Entry | None) -> Entry | None:
            if seen is None or accept.late(seen, place) or seen.ended(place):
                return None
            why = accept.unpatchable(seen, place, submitted.if_version)
            return None if why is None else accept.refused(seen, submission, *why)

        standing = await self._ledger.update(submitted.document_id, refuses)
        if standing is None:
            raise Rejected(
                f"the metadata of {submitted.source}/{submitted.path} can't change: there is no such document",
                "no_document",
            )
        if not standing.ended(place):
            return False
        await self._statuses.notify(standing)
        return True

    async def _reading(self, submitted: DocumentSubmitted, extraction: Extraction | None) -> TextReading | None:
        """Return what a later metadata change needs of the extraction; prepared chunks go into a blob."""
        if extraction is None:
            return None
        chunks: BlobRef | None = None
        if extraction.chunks:
            data = msgspec.json.encode(extraction.chunks)
            chunks = await self._blobs.put(submitted.tenant, submitted.document_id, data)
        bare = msgspec.structs.replace(extraction, text="", chunks=(), links=(), robots=())
        return TextReading(
            said={name: value for name, value in msgspec.to_builtins(bare).items() if value},
            chunks=chunks,
            filename=submitted.filename,
            media_type=submitted.media_type,
            url=submitted.url,
            chunk_size=submitted.chunk_size,
            chunk_overlap=submitted.chunk_overlap,
        )

    async def _read_before(self, submitted: DocumentSubmitted, before: Accepted) -> Extraction:
        """Return the extraction of the accepted version, from the ledger and its blobs.

        Raises:
            Rejected: a blob is missing or altered.
        """
        assert before.reading is not None, "it can be changed"
        assert before.text is not None
        tenant, name, ref = submitted.tenant, submitted.document_id, before.reading.chunks
        text = (await self._blobs.get(tenant, name, before.text)).decode()
        chunks = await self._blobs.get(tenant, name, ref) if ref is not None else b"[]"
        said = {**before.reading.said, "text": text, "chunks": msgspec.json.decode(chunks)}
        return msgspec.convert(said, Extraction)

    @asynccontextmanager
    async def _content(
        self, submitted: DocumentSubmitted, name: str, known: Accepted | None, before: Accepted | None
    ) -> AsyncIterator[Content]:
        """Yield the submission's content; a page's memory is counted until the block ends.

        `before` is the accepted version, given where only its metadata changes.
        """
        if before is not None:
            yield Content(raw_hash=before.raw_hash, validators=before.validators, before=before)
            return
        if submitted.fetched:
            assert submitted.url is not None
            async with self._fetch.page(submitted.url, known.validators if known else None) as page:
                if page is not None:
                    # The hash covers the type, because the type affects how the body is parsed.
                    raw_hash = bytes_hash(f"{_typed(page)}\n".encode() + page.body)
                    yield Content(body=page.body, raw_hash=raw_hash, validators=page.validators, page=page)
                    return
                assert known is not None
                yield Content(raw_hash=known.raw_hash, unread=True, validators=known.validators)
                return
        body = await self._body(submitted, name)
        yield Content(body=body, raw_hash=bytes_hash(body or b""))

    async def _body(self, submitted: DocumentSubmitted, name: str) -> bytes | None:
        if submitted.deleted:
            return None
        if submitted.text is not None:
            return submitted.text.encode("utf-8", "surrogatepass")
        if submitted.content is not None:
            return submitted.content
        if submitted.blob is not None:
            return await self._blobs.get(submitted.tenant, name, submitted.blob)
        raise Rejected(
            f"{submitted.source}/{submitted.path} has no body; it needs text, content, blob or url", "no_body"
        )

    async def _follow(self, submitted: DocumentSubmitted, place: LogPosition, content: Content) -> Extraction | None:
        """Submit the pages that the page leads to, and return its extraction; None where the crawl ends here."""
        page = content.page
        if page is None or submitted.crawl is None or not submitted.leads_on:
            return None
        goes_on = crawl.begun(submitted.crawl, place, page.url, self._bounds)
        extraction = await self._read(submitted, content)
        depths: dict[str, int] = {}
        if goes_on.sitemap:
            listed = await self._fetch.listed(page, goes_on.pages or 0)
            depths = dict.fromkeys(crawl.addresses(listed, page.url, goes_on), goes_on.depth)
        if goes_on.depth and extraction is not None and "nofollow" not in self._asked(page, extraction):
            for address in crawl.addresses(extraction.links, page.url, goes_on):
                depths.setdefault(address, goes_on.depth - 1)
        for itself in (page.url, submitted.path, canonical(submitted.url or page.url)):
            depths.pop(itself, None)
        names = [document_id(submitted.tenant, submitted.source, address) for address in depths]
        entries = await asyncio.gather(*map(self._ledger.get, names))
        new = {
            address: depth
            for (address, depth), entry in zip(depths.items(), entries, strict=True)
            if entry is None or entry.last.place.time < goes_on.since
        }
        found = crawl.submissions(submitted, goes_on, new)
        for start in range(0, len(found), _AT_ONCE):
            await asyncio.gather(*map(self._submit, found[start : start + _AT_ONCE]))
        log.info("pages_found", document_id=submitted.document_id, submitted=len(found), left_out=len(new) - len(found))
        return extraction

    async def _submit(self, found: DocumentSubmitted) -> None:
        await self._publish(SUBMITTED, encode(found), key=found.document_id.encode())

    async def _answering(self, name: str) -> IndexedVersion | None:
        head = await self._index.head(name)
        if head is None:
            return None
        whole = head.deleted or await self._index.points(name) == head.chunk_count
        return IndexedVersion(
            version=head.version,
            deleted=head.deleted,
            whole=whole,
            chunk_count=head.chunk_count,
            updated_at=head.updated_at,
        )

    def _asked(self, page: FetchedPage, extraction: Extraction | None) -> frozenset[str]:
        """Return the page's known robots directives; empty if they are ignored by setting."""
        said = [*page.robots, *(extraction.robots if extraction else ())]
        return robots.directives(said) if self._bounds.robots else frozenset()

    async def _extract(
        self, submitted: DocumentSubmitted, content: Content, known: Extraction | None
    ) -> Extraction | None:
        """Return the extraction of the body, which is `known` if that was given; None where there is no body.

        Raises:
            Rejected: the body can't be parsed; or a crawl found the page, and it asks robots not to index it.
        """
        extraction = known or await self._read(submitted, content)
        page = content.page
        if page is not None and submitted.found and "noindex" in self._asked(page, extraction):
            raise Rejected(f"{page.url} was found by a crawl and asks robots not to index it", "noindex")
        return extraction

    async def _read(self, submitted: DocumentSubmitted, content: Content) -> Extraction | None:
        if content.before is not None:
            return await self._read_before(submitted, content.before)
        if content.body is None:
            return None
        page = content.page
        if page is not None and submitted.leads_on and (site := sitemap.read(page.body)) is not None:
            text = f"The sitemap {page.url} lists {len(site.pages)} pages and {len(site.sitemaps)} sitemaps."
            return Extraction(text=text, document_type="xml", text_format="markdown", title=page.url)
        sent_as = page.media_type if page is not None else "text/markdown" if submitted.text is not None else None
        return await self._parsers.extract(
            content.body,
            filename=submitted.filename or (submitted.path if page is None else page.url.partition("?")[0]),
            media_type=submitted.media_type or sent_as,
            title_hint=submitted.title,
            links=submitted.leads_on,
        )

    async def _write(
        self,
        entry: Entry | None,
        submission: Submission,
        answering: IndexedVersion | None,
        *,
        unread: bool = False,
        keeps: bool = False,
    ) -> Decision | None:
        """Decide on the submission, write the decision to the ledger, and return it.

        Not written: a conflict, and a new version whose body is `unread`. None: the submission `keeps` something of a
        version that has been replaced since `entry` was read.
        """
        decision: Decision | None = Superseded()

        def transition(seen: Entry | None) -> Entry | None:
            nonlocal decision
            if keeps and (seen.accepted.version if seen else 0) != (entry.accepted.version if entry else 0):
                decision = None
                return None
            decision = accept.decide(seen, submission, answering)
            if isinstance(decision, Superseded | Conflict) or (unread and isinstance(decision, Published)):
                return None
            return decision.entry

        await self._ledger.update_seen(submission.document_id, entry, transition)
        return decision

    async def _put(self, submission: Submission, extraction: Extraction | None) -> BlobRef | None:
        """Store the extracted text and return its blob; None where there is no text."""
        if extraction is None:
            return None
        return await self._blobs.put(submission.tenant, submission.document_id, extraction.text.encode())

    async def _decided(self, entry: Entry, extraction: Extraction, ref: BlobRef) -> tuple[Extraction, BlobRef]:
        """Return the extraction with the version's final text: that of the first worker to write it (ADR 0055).

        Raises:
            Rejected: another worker was first, and its text is missing or altered.
        """
        version = entry.accepted.version

        def decides(seen: Entry | None) -> Entry | None:
            if seen is None or seen.accepted.version != version or seen.accepted.text is not None:
                return None
            return msgspec.structs.replace(seen, accepted=msgspec.structs.replace(seen.accepted, text=ref))

        if entry.accepted.text is None:  # accepted by an earlier release, or meanwhile by another worker
            entry = await self._ledger.update(entry.document_id, decides) or entry
        decided = entry.accepted.text
        if entry.accepted.version != version or decided is None or decided.sha256 == ref.sha256:
            return extraction, ref
        log.warning("text_read_otherwise", document_id=entry.document_id, version=version)
        text = (await self._blobs.get(entry.tenant, entry.document_id, decided)).decode()
        # The page offsets belong to our text, not to this one.
        return msgspec.structs.replace(extraction, text=text, pages=()), decided

    async def _publish_version(
        self, entry: Entry, submitted: DocumentSubmitted, submission: Submission, extraction: Extraction | None
    ) -> None:
        text: str | None = None
        ref = None if extraction is None else submission.text or await self._put(submission, extraction)
        if extraction is not None and ref is not None:
            extraction, ref = await self._decided(entry, extraction, ref)
        document = _version(entry, submitted, extraction)
        if extraction is not None and ref is not None:
            document = msgspec.structs.replace(document, text_sha256=ref.sha256, text_size=ref.size)
            text = extraction.text if ref.size <= CLAIM_CHECK_BYTES // 2 else None  # JSON may double it
        event = DocumentExtracted(
            document=document,
            text=text,
            pages=extraction.pages if extraction else (),
            note=extraction.note if extraction else None,
        )
        if extraction is not None and extraction.chunks:
            event = await self._with_chunks(event, extraction.chunks)
        await self._publish(
            EXTRACTED,
            encode(event),
            key=truth_key(entry.document_id, document.version),
            route=entry.document_id.encode(),
        )
        log.info("version_accepted", document_id=entry.document_id, version=document.version, outcome=document.outcome)

    async def _with_chunks(self, event: DocumentExtracted, chunks: tuple[PreparedChunk, ...]) -> DocumentExtracted:
        if event.note is not None:
            log.warning("chunks_left_out", document_id=event.document.document_id, note=event.note)
        data = msgspec.json.encode(chunks)
        if len(data) <= CLAIM_CHECK_BYTES // 2:  # the chunks contain the text, so the event needn't repeat it
            return msgspec.structs.replace(event, text=None, chunks=chunks)
        ref = await self._blobs.put(event.document.tenant, event.document.document_id, data)
        return msgspec.structs.replace(event, text=None, chunks_blob=ref)


def _document_key(record: Record) -> str | None:
    """Return the record's key if it is a document id in canonical form, else None."""
    try:
        id_ = (record.key or b"").decode()
        return id_ if str(UUID(id_)) == id_ else None
    except ValueError:
        return None


def _typed(page: FetchedPage) -> str:
    """Return the part of the page's media type that affects parsing: the type and its charset."""
    hints = Hints(media_type=page.media_type)
    return f"{hints.essence};{(hints.charset or '').lower()}"


def _renamed(path: str, raw_hash: str) -> str:
    """Return the path with a part of the content's hash before its suffix."""
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    stem, dot, suffix = (stem, dot, suffix) if stem else (name, "", "")
    return f"{folder}{slash}{stem}-{raw_hash[:8]}{dot}{suffix}"


def _patchable(entry: Entry | None, submitted: DocumentSubmitted, place: LogPosition) -> bool:
    """Return whether the metadata of the accepted version can be changed as requested."""
    return entry is not None and accept.unpatchable(entry, place, submitted.if_version) is None


def _kept(submitted: DocumentSubmitted, entry: Entry | None) -> DocumentSubmitted:
    """Return the submission, with the fields it asks to keep filled in from the accepted version.

    Fields that the submission sets itself win.

    Raises:
        Rejected: an earlier release accepted that version and didn't store these fields.
    """
    if (
        not (submitted.keep or submitted.patch)
        or entry is None
        or not entry.accepted.version
        or entry.accepted.outcome == "deleted"
    ):
        return submitted
    given, own = entry.accepted.given, submitted.given
    wanted = [name for name in submitted.keep if not getattr(own, name)]
    if given is None and wanted:
        raise Rejected(
            f"{', '.join(wanted)} can't be kept: version {entry.accepted.version} was accepted by an earlier release, "
            "which didn't store them; send them once more",
            "unknown_before",
        )
    fields: dict[str, Any] = {name: getattr(given, name) for name in wanted}
    if submitted.patch and (sent := entry.accepted.reading) is not None:  # so it is described as if sent whole
        for name in ("filename", "media_type", "url", "chunk_size", "chunk_overlap"):
            fields[name] = getattr(sent, name)
    return msgspec.structs.replace(submitted, **fields)


def _submission(
    submitted: DocumentSubmitted, name: str, place: LogPosition, raw_hash: str, validators: Validators | None = None
) -> Submission:
    deletes = submitted.deleted
    return Submission(
        document_id=name,
        tenant=submitted.tenant,
        source=submitted.source,
        path=submitted.path,
        place=place,
        raw_hash=ERASED if submitted.erases else accept.DELETION if deletes else raw_hash,
        metadata_hash="" if deletes else description_hash(submitted),
        extractor="" if deletes else EXTRACTOR,
        title=submitted.title,
        url=submitted.url,
        tags=submitted.tags,
        validators=validators,
        given=submitted.given,
        on_conflict=None if deletes else submitted.on_conflict,
    )


def _version(entry: Entry, submitted: DocumentSubmitted, extraction: Extraction | None) -> DocumentVersion:
    accepted = entry.accepted
    return DocumentVersion(
        document_id=entry.document_id,
        version=accepted.version,
        place=accepted.place,
        tenant=entry.tenant,
        source=entry.source,
        path=entry.path,
        outcome=accepted.outcome,
        raw_hash=accepted.raw_hash,
        metadata_hash=accepted.metadata_hash,
        extractor=accepted.extractor,
        validators=accepted.validators,
        title=submitted.title or (extraction.title if extraction else None),
        description=submitted.description or (extraction.description if extraction else None),
        url=submitted.url or (extraction.url if extraction else None),
        filename=submitted.filename,
        tags=submitted.tags or (extraction.tags if extraction else ()),
        metadata={**_said(extraction), **submitted.metadata},
        chunk_size=submitted.chunk_size,
        chunk_overlap=submitted.chunk_overlap,
        document_type=extraction.document_type if extraction else "",
        text_format=extraction.text_format if extraction else None,
        source_type=_source_type(submitted, extraction),
        language=extraction.language if extraction else None,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
    )


def _said(extraction: Extraction | None) -> dict[str, Any]:
    """Return the file's properties that have no field in a version; the sender's metadata overrides them."""
    if extraction is None:
        return {}
    said = {
        "pageCount": len(extraction.pages) or None,
        "documentCreated": extraction.created,
        "documentModified": extraction.modified,
        "extractionNote": extraction.note,
    }
    return {name: value for name, value in said.items() if value is not None}


def _source_type(submitted: DocumentSubmitted, extraction: Extraction | None) -> str:
    if submitted.url is not None and submitted.text is None:
        return "url"
    if submitted.filename is None:
        return "text"
    return extraction.document_type if extraction else "text"
