"""The ledger: one point per document, over all generations. correctness.md, sections 1, 3 and 5.

A change reads the entry, applies a pure transition, and writes the result if nobody wrote in between. Then it
reads the writer back, because a store raises no error for a refused write. A writer that lost applies its
transition to the new entry, so transitions must be safe to repeat.
"""

import itertools
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from secrets import token_urlsafe

import msgspec

from shared.contracts import (
    ERASED,
    TERMINAL,
    BlobRef,
    DocumentVersion,
    Forwarded,
    Kept,
    LogPosition,
    Message,
    Status,
    TextReading,
    VersionContent,
    VersionOutcome,
)
from shared.state.batching import Batcher, grouped
from shared.state.rebuild_gate import Gate
from shared.store import Filter, Ids, IndexKind, Match, Order, Payload, Point, Store, each_page

COLLECTION = "ledger"
INDEXES: dict[str, IndexKind] = {
    "tenant": "tenant",
    "source": "keyword",
    "tags": "keyword",
    "last.status": "keyword",
    "rev": "integer",
    "updatedAt": "integer",
}
MOST_SOURCES = 10_000
MOST_TENANTS = 10_000
_PROCESS = token_urlsafe(8)  # in every entry, so it is short
_writes = itertools.count()  # numbers instead of random names, which would cost a system call per write
NOWHERE = LogPosition(partition=-1, offset=-1, time=-1)  # older than every position
REMEMBERED_MS = 600_000  # ms: ends of submissions this much older than the newest one are dropped
MOST_ENDED = 8  # earlier submissions kept after their end
MOST_WAITING = 64  # earlier submissions kept that haven't ended
MOST_FAILED = 8  # failed versions below the accepted one that stay in the truth (ADR 0007)
NOTHING_READ = TextReading(extracted={})
WELL: frozenset[Status] = frozenset({"created", "updated", "unchanged", "deleted"})


class Accepted(VersionContent, frozen=True):
    """The newest version that the ingest stage accepted; version 0: none yet."""

    version: int = 0
    place: LogPosition = NOWHERE
    outcome: VersionOutcome = "created"
    text: BlobRef | None = None  # the extracted text, decided once (ADR 0006); None: a deletion

    @property
    def blobs(self) -> tuple[BlobRef, ...]:
        """Return the blobs that a later metadata change reads."""
        chunks = None if self.reading is None else self.reading.chunks
        return tuple(ref for ref in (self.text, chunks) if ref is not None)


class Replaced(Message, frozen=True):
    """The version that a submission replaced."""

    version: int
    updated_at: int  # ms since 1970


class MovedTo(Message, frozen=True):
    """The document as which a submission was accepted because its own name was in use (`onConflict=new`)."""

    document_id: str
    place: LogPosition


class Last(Message, frozen=True):
    """The status of a submission; if it failed, its version was never accepted."""

    version: int
    place: LogPosition
    status: Status
    at: int  # ms since 1970
    error: str | None = None
    code: str | None = None
    chunk_count: int | None = None
    replaced: Replaced | None = None  # the version before, if the document existed
    dropped: tuple[Kept, ...] = ()  # fields that the version before had and this one hasn't
    changed: tuple[str, ...] = ()  # fields that made this version, if its bytes are those of the version before
    moved_to: MovedTo | None = None
    extracted_at: int = 0  # ms since 1970, by the log; 0: the version hasn't come that far
    chunked_at: int = 0  # likewise

    @property
    def entered_by_door(self) -> bool:
        """Return whether only the API wrote this: the ingest stage hasn't handled the submission yet."""
        return self.version == 0 and self.status == "accepted"


class Entry(Message, frozen=True):
    """A document's ledger point."""

    document_id: str
    tenant: str
    source: str
    path: str
    rev: int  # number of writes; the next write is conditional on it
    writer: str  # unique name of the last write, by which its writer recognises it
    accepted: Accepted
    last: Last
    created_at: int  # ms since 1970
    updated_at: int
    title: str | None = None
    url: str | None = None
    tags: tuple[str, ...] = ()
    earlier: tuple[Last, ...] = ()  # recent submissions before the newest one (ADR 0006)
    forwarded: tuple[Forwarded, ...] = ()  # by topic and partition, where the newest submissions came from
    published: tuple[int, ...] = ()  # versions that documents.extracted may hold (ADR 0007), oldest first
    failed: tuple[int, ...] = ()  # those of them that failed and are below the accepted version, oldest first
    forgotten: int = 0  # newest version that left the truth because too many had failed (ADR 0007); 0: none

    @property
    def erased(self) -> bool:
        """Return whether the document was erased: only its id and version are left."""
        return self.accepted.raw_hash == ERASED

    @property
    def surplus(self) -> tuple[int, ...]:
        """Return the failed versions that the truth needn't hold: all but the newest MOST_FAILED."""
        return self.failed[: max(0, len(self.failed) - MOST_FAILED)]

    def was_forgotten(self, version: int) -> bool:
        """Return whether the version left the truth because too many had failed: it may never answer."""
        return version <= self.forgotten and version not in self.published

    def has_forwarded(self, source: Forwarded | None, place: LogPosition) -> bool:
        """Return whether the record of a tenant's own topic, or a later one, became another submission than this."""
        if source is None or place == self.accepted.place or self.submitted(place) is not None:
            return False
        return any(not _newer(source, each) for each in self.forwarded if _same_partition(source, each))

    def ended(self, place: LogPosition) -> bool:
        """Return whether the submission at `place` has ended, itself or because a newer one has."""
        return self.end_of(place) is not None

    def end_of(self, place: LogPosition) -> Last | None:
        """Return how the submission at `place` ended, None if it hasn't.

        Its status is `superseded` if a newer submission has ended, and its own end wasn't written or is no longer kept.
        """
        own = self.submitted(place)
        if own is not None:
            return own if own.status in TERMINAL else None
        if self.last.status not in TERMINAL or all(older(each.place, place) for each in (self.last, *self.earlier)):
            return None
        return msgspec.structs.replace(self.last, place=place, status="superseded", error=None, code=None)

    def submitted(self, place: LogPosition) -> Last | None:
        """Return the status of the submission at `place`, None if the entry doesn't have it."""
        return next((each for each in (self.last, *self.earlier) if each.place == place), None)

    def reading(self, version: int) -> TextReading:
        """Return what was read of the version: nothing is known where it isn't the accepted one."""
        reading = self.accepted.reading if version == self.accepted.version else None
        return reading or NOTHING_READ

    def standing(self, version: int) -> Last | None:
        """Return the version's status, None if the entry doesn't have it."""
        return next((each for each in (self.last, *self.earlier) if each.version == version), None)

    @property
    def open_versions(self) -> tuple[int, ...]:
        """Return the versions that haven't ended, the lowest first."""
        every = (self.last, *self.earlier)
        return tuple(sorted({each.version for each in every if each.version and each.status not in TERMINAL}))


def older(a: LogPosition, b: LogPosition) -> bool:
    """Return whether position `a` is before position `b`.

    In one partition: neither offset nor time is greater, and one is less. (A topic that was recreated starts
    at offset 0 again, but its times continue.) Across partitions: by time, partition, offset.
    """
    if a.partition == b.partition:
        return a.offset <= b.offset and a.time <= b.time and (a.offset, a.time) != (b.offset, b.time)
    return (a.time, a.partition, a.offset) < (b.time, b.partition, b.offset)


def with_forwarded(entry: Entry, source: Forwarded | None) -> Entry:
    """Return the entry, which remembers the record of a tenant's own topic that a submission was made from."""
    if source is None or any(_same_partition(source, each) and not _newer(source, each) for each in entry.forwarded):
        return entry
    others = tuple(each for each in entry.forwarded if not _same_partition(source, each))
    return msgspec.structs.replace(entry, forwarded=(*others, source))


def _same_partition(a: Forwarded, b: Forwarded) -> bool:
    return (a.topic, a.place.partition) == (b.topic, b.place.partition)


def _newer(a: Forwarded, b: Forwarded) -> bool:
    # A topic that was recreated starts at offset 0 again, but its times continue.
    return older(b.place, a.place) or (a.place.offset < b.place.offset and a.place.time > b.place.time)


def noted(entry: Entry, update: Last) -> Entry:
    """Return the entry with a submission's status `update`, which becomes `last` unless a newer one is known.

    A submission that became another document's leaves `last` to the version that is open: `last` says if one is.
    """
    stays = older(update.place, entry.last.place) or (update.moved_to is not None and bool(entry.open_versions))
    newest = entry.last if stays else update
    earlier = [each for each in (*entry.earlier, entry.last) if each.place != update.place and not each.entered_by_door]
    others = [each for each in (*earlier, update) if each.place != newest.place]
    waiting = [each for each in others if each.status == "accepted"]
    # The log's times, because a process' clock may be wrong by days.
    recent = newest.place.time - REMEMBERED_MS
    known = entry.accepted.version  # later submissions are compared with this version, so its end is kept
    ended = [
        each
        for each in others
        if each.status != "accepted" and (each is update or each.version == known or each.place.time >= recent)
    ]
    kept = (*ended[-MOST_ENDED:], *waiting[-MOST_WAITING:])
    return _overtaken(msgspec.structs.replace(entry, last=newest, earlier=kept), update)


def _overtaken(entry: Entry, update: Last) -> Entry:
    """Return the entry with older unfinished submissions superseded, if `update` is a successful end."""
    if update.status not in WELL or update.moved_to is not None:
        return entry

    def settled(each: Last) -> Last:
        if each.status != "accepted" or each.version >= update.version:
            return each
        return msgspec.structs.replace(each, status="superseded", at=update.at)

    return msgspec.structs.replace(entry, earlier=tuple(map(settled, entry.earlier)))


class End(msgspec.Struct, frozen=True):
    """How a version ended."""

    status: Status
    at: int  # ms since 1970
    chunk_count: int | None = None
    error: str | None = None
    code: str | None = None


def finished(
    entry: Entry | None,
    version: int,
    end: End,
    *,
    document: DocumentVersion | None = None,
    forgotten: Collection[int] = (),
) -> Entry | None:
    """Return the entry with the end of `version` for all its submissions, or None if that changes nothing.

    If the version answers and `document` is given, the entry takes title, url and tags from it, so that lists and
    filters agree with searches. A deleted document's entry keeps its own.
    The versions in `forgotten` have tombstones on documents.extracted.
    """
    if entry is None:
        return None
    kept = without(entry, forgotten)
    if end.status in WELL:  # earlier failures are about to leave the truth as well
        kept = msgspec.structs.replace(kept, failed=tuple(each for each in kept.failed if each > version))
    elif version in kept.published and version < kept.accepted.version and not kept.erased:
        kept = msgspec.structs.replace(kept, failed=tuple(sorted({*kept.failed, version})))
    if entry.standing(version) is None:
        return None if kept == entry else kept

    def ends(each: Last) -> Last:
        # Submissions of the same content share a version, and so its end.
        if each.version != version:
            return each
        if {each.status, end.status} <= WELL:  # a replay; an unchanged submission stays unchanged
            return msgspec.structs.replace(each, chunk_count=end.chunk_count)
        return msgspec.structs.replace(
            each,
            **msgspec.structs.asdict(end),
            extracted_at=document.extracted_at if document is not None else 0,
            chunked_at=document.chunked_at if document is not None else 0,
        )

    earlier = tuple(ends(each) if each.status in ("accepted", "failed") else each for each in entry.earlier)
    ended = _overtaken(
        msgspec.structs.replace(kept, last=ends(entry.last), earlier=earlier),
        Last(version=version, place=NOWHERE, status=end.status, at=end.at),
    )
    answers = end.status in ("created", "updated")
    if document is not None and answers and version in (entry.last.version, entry.accepted.version):
        ended = msgspec.structs.replace(ended, title=document.title, url=document.url, tags=document.tags)
    return None if ended == entry else ended


def published_below(entry: Entry | None, version: int) -> set[int]:
    """Return the versions below `version` that documents.extracted may hold."""
    return set() if entry is None else {each for each in entry.published if each < version}


def without(entry: Entry, forgotten: Collection[int]) -> Entry:
    """Return the entry, in which these versions are no longer published."""
    left = tuple(version for version in entry.published if version not in forgotten)
    failed = tuple(version for version in entry.failed if version in left)
    return msgspec.structs.replace(entry, published=left, failed=failed)


def without_surplus(entry: Entry, gone: Collection[int]) -> Entry:
    """Return the entry after these of its `surplus` versions have left the truth."""
    return msgspec.structs.replace(without(entry, gone), forgotten=max(entry.forgotten, *gone))


def shortened(entry: Entry, now: int) -> Entry:
    """Return a deleted document's entry without the fields that are kept only for REMEMBERED_MS.

    These are the ends of earlier submissions, which then count as superseded, and the deletion's stage times. `now` is
    the log's time.
    """
    last = entry.last
    answers = last.status == "deleted" and last.version == entry.accepted.version
    if not answers or last.place.time >= now - REMEMBERED_MS:
        return entry
    # A failure may have a higher version, which must not be reused. A submission that hasn't ended is still awaited.
    earlier = tuple(each for each in entry.earlier if each.version > last.version or each.status not in TERMINAL)
    bare = msgspec.structs.replace(last, chunk_count=None, extracted_at=0, chunked_at=0)
    return msgspec.structs.replace(entry, last=bare, earlier=earlier)


Transition = Callable[[Entry | None], Entry | None]


class _Write(msgspec.Struct, frozen=True, eq=False):
    """A point to write if the stored revision is still `rev`; 0: if there is no point."""

    rev: int
    point: Point


class Ledger:
    """Reads and changes entries. Raises Unavailable when the store is away.

    If an entry is missing, and for lists, `gate` checks that the ledger was complete.
    """

    def __init__(self, store: Store, gate: Gate | None = None) -> None:
        self._store = store
        self._gate = gate or Gate()
        self._lookup: Batcher[str, Entry] = Batcher(self._found)
        self._writing: Batcher[_Write, str] = Batcher(self._write)

    async def create(self) -> None:
        """Create the collection unless it exists."""
        await self._store.create_collection(COLLECTION, size=None, sparse=False, indexes=INDEXES)

    @property
    def rebuilding(self) -> bool:
        """Return whether the ledger is known to be incomplete."""
        return self._gate.ledger_waits

    async def get(self, document_id: str) -> Entry | None:
        """Return the document's entry, or None; concurrent calls share one read."""
        return await self._certain(await self._lookup.get(document_id))

    async def of_tenant(self, tenant: str, document_id: str) -> Entry | None:
        """Return the tenant's entry of the document, or None.

        A document of another tenant takes the same steps as one that doesn't exist, so that nothing tells them apart:
        no time, and no Unavailable while the ledger is incomplete. The store compares the tenants, because reading
        and decoding a foreign entry would take measurably longer than finding none.
        """
        where = Filter(must=(Ids((document_id,)), Match("tenant", (tenant,))))
        points = (await self._store.scroll(COLLECTION, where, limit=1)).points
        return await self._certain(_entry(points[0].payload) if points else None)

    async def _certain(self, entry: Entry | None) -> Entry | None:
        """Return the entry; if there is none, check that the ledger was complete."""
        if entry is None:
            await self._gate.ledger()
        return entry

    async def entries(self, ids: Sequence[str]) -> Mapping[str, Entry]:
        """Return the entries of the documents that have one."""
        found = await self._found(ids)
        if len(found) < len(set(ids)):
            await self._gate.ledger()
        return found

    async def _found(self, ids: Sequence[str]) -> Mapping[str, Entry]:
        return {point.id: _entry(point.payload) for point in await self._store.retrieve(COLLECTION, ids)}

    async def update(self, document_id: str, transition: Transition) -> Entry | None:
        """Return the entry after `transition`; if that returns None, nothing changes."""
        while True:
            seen = await self.get(document_id)
            wanted = transition(seen)
            if wanted is None:
                return seen
            if (written := await self._written(seen.rev if seen else 0, wanted)) is not None:
                return written

    async def update_known(self, document_id: str, known: Entry | None, transition: Transition) -> Entry | None:
        """Do as `update`, without reading first: `known` was read before, and is written over only if it still stands.

        If `transition` returns None for it, the entry is read after all.
        """
        wanted = transition(known)
        if wanted is not None and (written := await self._written(known.rev if known else 0, wanted)) is not None:
            return written
        return await self.update(document_id, transition)

    async def enter(self, entry: Entry) -> None:
        """Write the entry of a document that has none; do nothing for others."""
        await self._gate.ledger()
        await self._written(0, entry)

    async def _written(self, rev: int, wanted: Entry) -> Entry | None:
        """Return the entry as it was written; None if the stored one hasn't the revision `rev` any more."""
        wanted = msgspec.structs.replace(wanted, rev=rev + 1, writer=new_writer())
        write = _Write(rev, Point(id=wanted.document_id, payload=_payload(wanted)))
        return wanted if await self._writing.get(write) == wanted.writer else None

    async def _write(self, writes: Sequence["_Write"]) -> Mapping["_Write", str]:
        """Write each point unless its stored revision has changed, and return the last writer of each.

        Points of one revision share a call.
        """
        writers: dict[_Write, str] = {}
        for rev, some in grouped(writes, lambda write: write.rev).items():
            # Of two writes of one document at the same revision only one may succeed.
            points = {write.point.id: write.point for write in reversed(some)}
            unseen = Filter(must=(Match("rev", (rev,)),)) if rev else None
            stored = await self._store.put_if(COLLECTION, [*points.values()], unseen, fields=("writer",))
            found = {point.id: str(point.payload.get("writer", "")) for point in stored}
            writers |= {write: found[write.point.id] for write in some if write.point.id in found}
        return writers

    async def count(self, where: Filter) -> int:
        """Return how many entries match."""
        count = await self._store.count(COLLECTION, where)
        await self._gate.ledger()
        return count

    async def scan(self, where: Filter, *, after: str | None, limit: int) -> tuple[list[Entry], str | None]:
        """Return a page of the matching entries in id order, and the cursor of the next page."""
        page = await self._store.scroll(COLLECTION, where, limit=limit, after=after)
        await self._gate.ledger()
        return [_entry(point.payload) for point in page.points], page.after

    def pages(self, where: Filter, *, limit: int) -> AsyncGenerator[list[Entry]]:
        """Yield the matching entries in id order, page by page."""
        return each_page(lambda after: self.scan(where, after=after, limit=limit))

    async def page(
        self,
        where: Filter,
        *,
        limit: int,
        start: int | None = None,
        seen: Sequence[str] = (),
        descending: bool = True,
    ) -> list[Entry]:
        """Return at most `limit` matching entries by their last change, newest first, without the ids in `seen`.

        `start` is the time (ms since 1970) of the first one. If not `descending`, the oldest come first.
        """
        if seen:
            where &= Filter(must_not=(Ids(tuple(seen)),))
        page = await self._store.scroll(COLLECTION, where, limit=limit, order=Order("updatedAt", descending, start))
        await self._gate.ledger()
        return [_entry(point.payload) for point in page.points]

    async def statuses(self, where: Filter) -> Mapping[str, int]:
        """Return the number of matching entries by the status of their newest submission."""
        return await self._counts("last.status", where)

    async def tenants(self, where: Filter) -> Mapping[str, int]:
        """Return the number of matching entries of each tenant, for the MOST_TENANTS largest tenants."""
        return await self._counts("tenant", where, limit=MOST_TENANTS)

    async def sources(self, where: Filter) -> Mapping[str, int]:
        """Return the number of matching entries of each source, for the MOST_SOURCES largest sources."""
        return await self._counts("source", where, limit=MOST_SOURCES)

    async def _counts(self, field: str, where: Filter, **how: int) -> Mapping[str, int]:
        counts = await self._store.facet(COLLECTION, field, where, **how)
        await self._gate.ledger()
        return counts


def new_writer() -> str:
    """Return a name that no other write has, in any process."""
    return f"{_PROCESS}-{next(_writes)}"


def _payload(entry: Entry) -> Payload:
    payload: Payload = msgspec.json.decode(msgspec.json.encode(entry))
    return payload


def _entry(payload: Payload) -> Entry:
    return msgspec.convert(payload, Entry)
