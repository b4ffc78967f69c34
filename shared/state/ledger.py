"""The ledger: one point per document, over all generations. correctness.md, sections 1, 3 and 5.

Every change is read, decided by a pure transition, and written under the condition that nobody wrote
in between; then read back, because a store gives no error for a refused write. Whoever lost decides
again on what is there now, so transitions must be safe to repeat.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from shared.contracts import (
    ERASED,
    TERMINAL,
    BlobRef,
    DocumentVersion,
    Given,
    Kept,
    LogPosition,
    Message,
    Status,
    Validators,
    VersionOutcome,
)
from shared.state.batching import Batcher
from shared.state.rebuild_gate import AlwaysWhole, Gate
from shared.store import Filter, Ids, IndexKind, Match, Payload, Point, Store

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
_PROCESS = uuid4().hex
_writes = itertools.count()  # a random name for each write would cost a system call each
NOWHERE = LogPosition(partition=-1, offset=-1, time=-1)  # earlier than every place
REMEMBERED_MS = 600_000  # when another one comes, ends of submissions that came so long before it are forgotten
MOST_ENDED = 8  # ends of earlier submissions that are kept
MOST_WAITING = 64  # earlier submissions that have not ended
_WELL: frozenset[Status] = frozenset({"created", "updated", "unchanged", "deleted"})


class TextReading(Message, frozen=True):
    """What a change of metadata needs of a version beside its text: what else was read, and how it was sent."""

    said: dict[str, Any]  # the first stage's own
    chunks: BlobRef | None = None  # ready-made ones, as JSON
    filename: str | None = None
    media_type: str | None = None
    url: str | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None


class Accepted(Message, frozen=True):
    """The newest version the first stage has taken; version 0 means none yet."""

    version: int = 0
    place: LogPosition = NOWHERE
    raw_hash: str = ""
    metadata_hash: str = ""
    extractor: str = ""
    outcome: VersionOutcome = "created"
    validators: Validators | None = None
    text: BlobRef | None = (
        None  # what was read of it, decided once (ADR 0055); None: by an earlier release, or a deletion
    )

    reading: TextReading | None = None  # None: by an earlier release, or a deletion
    given: Given | None = None  # as it was submitted, or kept from the version before; None: by an earlier release

    @property
    def blobs(self) -> tuple[BlobRef, ...]:
        """Return the blobs that a later change of metadata reads."""
        chunks = None if self.reading is None else self.reading.chunks
        return tuple(ref for ref in (self.text, chunks) if ref is not None)


class Replaced(Message, frozen=True):
    """The version that a submission took the place of."""

    version: int
    updated_at: int  # ms since 1970


class MovedTo(Message, frozen=True):
    """Under which name a submission was taken, where its own belongs to another document (`onConflict=new`)."""

    document_id: str
    place: LogPosition


class Last(Message, frozen=True):
    """How the newest submission stands; a failed one has a version here that was never accepted."""

    version: int
    place: LogPosition
    status: Status
    at: int  # ms since 1970
    error: str | None = None
    code: str | None = None
    chunk_count: int | None = None
    replaced: Replaced | None = None  # what its version follows, where the document was there before
    dropped: tuple[Kept, ...] = ()  # what the version before had, and this one no more
    moved_to: MovedTo | None = None

    @property
    def entered_by_door(self) -> bool:
        """Return whether only a door has said this: the first stage has taken nothing yet."""
        return self.version == 0 and self.status == "accepted"


class Entry(Message, frozen=True):
    """A document's ledger point."""

    document_id: str
    tenant: str
    source: str
    path: str
    rev: int  # counts writes; the condition of the next one
    writer: str  # names the write, so that its writer knows it again
    accepted: Accepted
    last: Last
    created_at: int  # ms since 1970
    updated_at: int
    title: str | None = None
    url: str | None = None
    tags: tuple[str, ...] = ()
    earlier: tuple[Last, ...] = ()  # how the submissions before the newest one stand; only the last minutes' (ADR 0054)

    @property
    def erased(self) -> bool:
        """Return whether nothing of the document is left but its id and version."""
        return self.accepted.raw_hash == ERASED

    def ended(self, place: LogPosition) -> bool:
        """Return whether the submission at `place` has ended, by itself or by a newer one."""
        return self.end_of(place) is not None

    def end_of(self, place: LogPosition) -> Last | None:
        """Return how the submission at `place` ended; None: it hasn't.

        It is `superseded` where a newer one has ended and this one's own end was never written, or is forgotten.
        """
        own = self.submitted(place)
        if own is not None:
            return own if own.status in TERMINAL else None
        if older(self.last.place, place) or self.last.status not in TERMINAL:
            return None
        return msgspec.structs.replace(self.last, place=place, status="superseded", error=None, code=None)

    def submitted(self, place: LogPosition) -> Last | None:
        """Return how the submission at `place` stands, None where the entry doesn't say."""
        return next((each for each in (self.last, *self.earlier) if each.place == place), None)

    def standing(self, version: int) -> Last | None:
        """Return how the version stands, None where the entry doesn't say."""
        return next((each for each in (self.last, *self.earlier) if each.version == version), None)


def older(a: LogPosition, b: LogPosition) -> bool:
    """Return whether place `a` comes before place `b`.

    In one partition: when neither offset nor time is later, and one is earlier. (A topic that was made
    anew starts at offset 0 again; its times go on.) Across partitions: by time, partition, offset.
    """
    if a.partition == b.partition:
        return a.offset <= b.offset and a.time <= b.time and (a.offset, a.time) != (b.offset, b.time)
    return (a.time, a.partition, a.offset) < (b.time, b.partition, b.offset)


def noted(entry: Entry, said: Last) -> Entry:
    """Return the entry with how the submission at `said.place` stands; it is `last` where no newer one is known."""
    newest = entry.last if older(said.place, entry.last.place) else said
    earlier = [each for each in (*entry.earlier, entry.last) if each.place != said.place and not each.entered_by_door]
    others = [each for each in (*earlier, said) if each.place != newest.place]
    waiting = [each for each in others if each.status == "accepted"]
    # By the log's times: a process' clock may be wrong by days.
    recent = newest.place.time - REMEMBERED_MS
    known = entry.accepted.version  # whether it ended well decides on what comes next
    ended = [
        each
        for each in others
        if each.status != "accepted" and (each is said or each.version == known or each.place.time >= recent)
    ]
    kept = (*ended[-MOST_ENDED:], *waiting[-MOST_WAITING:])
    return _overtaken(msgspec.structs.replace(entry, last=newest, earlier=kept), said)


def _overtaken(entry: Entry, said: Last) -> Entry:
    """Return the entry with those versions superseded that `said`, which answers, has overtaken."""
    if said.status not in _WELL:
        return entry

    def settled(each: Last) -> Last:
        if each.status != "accepted" or each.version >= said.version:
            return each
        return msgspec.structs.replace(each, status="superseded", at=said.at)

    return msgspec.structs.replace(entry, earlier=tuple(map(settled, entry.earlier)))


def finished(
    entry: Entry | None,
    version: int,
    status: Status,
    *,
    at: int,
    chunk_count: int | None = None,
    error: str | None = None,
    code: str | None = None,
    described: DocumentVersion | None = None,
) -> Entry | None:
    """Return the entry with the end of `version` for all its submissions, or None where that changes nothing.

    Where it is `described`, the entry tells of the document what that does: lists and filters fit as searches do.
    """
    if entry is None or entry.standing(version) is None:
        return None

    def ends(each: Last) -> Last:
        # Submissions of the same content may have joined: this is their end too.
        if each.version != version:
            return each
        return msgspec.structs.replace(each, status=status, at=at, error=error, code=code, chunk_count=chunk_count)

    earlier = tuple(ends(each) if each.status in ("accepted", "failed") else each for each in entry.earlier)
    ended = _overtaken(
        msgspec.structs.replace(entry, last=ends(entry.last), earlier=earlier),
        Last(version=version, place=NOWHERE, status=status, at=at),
    )
    if described is not None and version in (entry.last.version, entry.accepted.version):
        ended = msgspec.structs.replace(ended, title=described.title, url=described.url, tags=described.tags)
    return None if ended == entry else ended


Transition = Callable[[Entry | None], Entry | None]


class _Write:
    """A point to be written where the revision is still `rev`; 0: where there is none."""

    def __init__(self, rev: int, point: Point) -> None:
        self.rev = rev
        self.point = point


class Ledger:
    """Reads and changes entries. Raises Unavailable when the store is away.

    Where an entry is missing, or entries are listed, `gate` is asked whether the ledger was whole.
    """

    def __init__(self, store: Store, gate: Gate | None = None) -> None:
        self._store = store
        self._gate = gate or AlwaysWhole()
        self._lookup: Batcher[str, Entry] = Batcher(self._found)
        self._writing: Batcher[_Write, None] = Batcher(self._write)
        self._writer: Batcher[str, str] = Batcher(self._writers)

    async def create(self) -> None:
        """Make the collection unless it is there."""
        await self._store.create_collection(COLLECTION, size=None, sparse=False, indexes=INDEXES)

    @property
    def rebuilding(self) -> bool:
        """Return whether the ledger isn't whole yet, as far as is known."""
        return self._gate.ledger_waits

    async def get(self, document_id: str) -> Entry | None:
        """Return the document's entry, or None; concurrent calls share one read."""
        entry = await self._lookup.get(document_id)
        if entry is None:
            await self._gate.ledger()
        return entry

    async def entries(self, ids: Sequence[str]) -> Mapping[str, Entry]:
        """Return the entries of those documents that have one."""
        found = await self._found(ids)
        if len(found) < len(set(ids)):
            await self._gate.ledger()
        return found

    async def _found(self, ids: Sequence[str]) -> Mapping[str, Entry]:
        return {point.id: _entry(point.payload) for point in await self._store.retrieve(COLLECTION, ids)}

    async def known(self, document_id: str) -> bool:
        """Return whether the document has an entry."""
        if await self._writer.get(document_id) is not None:
            return True
        await self._gate.ledger()
        return False

    async def _writers(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Return who has last written the entries: a tenth of what reading them whole costs."""
        points = await self._store.retrieve(COLLECTION, ids, fields=("writer",))
        return {point.id: str(point.payload.get("writer", "")) for point in points}

    async def update(self, document_id: str, transition: Transition) -> Entry | None:
        """Return the entry as it stands after `transition`; one that returns None changes nothing."""
        return await self.update_seen(document_id, await self.get(document_id), transition)

    async def update_seen(self, document_id: str, seen: Entry | None, transition: Transition) -> Entry | None:
        """Do as `update`, for whoever has read the entry as `seen`: it is read again only where it has changed since.

        `seen` may be old, so `transition` must return None only where a newer entry would give None as well.
        """
        while True:
            wanted = transition(seen)
            if wanted is None:
                return seen
            writer = f"{_PROCESS}-{next(_writes)}"
            rev = seen.rev if seen else 0
            wanted = msgspec.structs.replace(wanted, rev=rev + 1, writer=writer)
            await self._writing.get(_Write(rev, Point(id=document_id, payload=_payload(wanted))))
            if await self._writer.get(document_id) == writer:
                return wanted
            seen = await self.get(document_id)

    async def _write(self, writes: Sequence["_Write"]) -> Mapping["_Write", None]:
        """Write each point unless it has changed since: one call for all that were seen at the same revision."""
        by_rev: dict[int, dict[str, Point]] = {}
        for write in writes:
            # Of two writers of one document, who both saw it so, only one may come through.
            by_rev.setdefault(write.rev, {}).setdefault(write.point.id, write.point)
        for rev, points in by_rev.items():
            if rev == 0:
                await self._store.insert(COLLECTION, [*points.values()])
            else:
                unseen = Filter(must=(Match("rev", (rev,)),))
                await self._store.upsert(COLLECTION, [*points.values()], only_if=unseen)
        return {}

    async def count(self, where: Filter) -> int:
        """Return how many entries match."""
        count = await self._store.count(COLLECTION, where)
        await self._gate.ledger()
        return count

    async def scan(self, where: Filter, *, after: str | None, limit: int) -> tuple[list[Entry], str | None]:
        """Return a piece of the matching entries, in id order, and from where to ask for the next one."""
        page = await self._store.scroll(COLLECTION, where, limit=limit, after=after)
        await self._gate.ledger()
        return [_entry(point.payload) for point in page.points], page.after

    async def page(
        self,
        where: Filter,
        *,
        limit: int,
        start: int | None = None,
        seen: Sequence[str] = (),
        descending: bool = True,
    ) -> list[Entry]:
        """Return at most `limit` matching entries by their last change, the newest first, without `seen`.

        `start` is the time (ms) of the first one; not `descending`: the oldest first.
        """
        if seen:
            where = Filter(must=where.must, must_not=(*where.must_not, Ids(tuple(seen))))
        points = await self._store.ordered(
            COLLECTION, where, by="updatedAt", descending=descending, limit=limit, start=start
        )
        await self._gate.ledger()
        return [_entry(point.payload) for point in points]

    async def sources(self, where: Filter) -> Mapping[str, int]:
        """Return how many matching entries each source has, the largest MOST_SOURCES of them."""
        counts = await self._store.facet(COLLECTION, "source", where, limit=MOST_SOURCES)
        await self._gate.ledger()
        return counts


def _payload(entry: Entry) -> Payload:
    payload: Payload = msgspec.json.decode(msgspec.json.encode(entry))
    return payload


def _entry(payload: Payload) -> Entry:
    return msgspec.convert(payload, Entry)
