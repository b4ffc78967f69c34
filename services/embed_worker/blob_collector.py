"""Removes blobs that nothing refers to any more. docs/adr/0010-blobs.md

A blob has an owner while a record on the log, a head of any generation, the ledger, an open dead letter or the record
inside one refers to it, and while a submission of its document hasn't ended. A blob without an owner is marked. It is
removed if it still has none a day later and wasn't stored again meanwhile.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import structlog
from aiokafka import ConsumerRecord
from prometheus_client import CollectorRegistry, Gauge

from services.embed_worker.sweep import throttle
from shared.blobs import Blobs, StoredBlob
from shared.contracts import TERMINAL, DeadLetter, decode
from shared.errors import Rejected
from shared.log import Log, Record
from shared.log.dead_letters import body_owner
from shared.log.read import records_now
from shared.log.sqlite import SqliteLog, deleting
from shared.state.ledger import Ledger
from shared.store import Filter, Ids, Point, Store, pages, retrieved
from shared.submission import mention
from shared.times import now_ms
from shared.topics import DAY, DEAD_LETTERS, EXTRACTED, SUBMITTED, Topic, chunks_topic

log = structlog.get_logger(__name__)

GRACE_MS: Final = DAY  # between the scan that finds no owner and the scan that removes
MARKS: Final = "unowned.blobs"  # `since`: log time of the scan that found no owner, ms since 1970
_HEADS: Final = "heads."
_LAST_LOOK: Final = "00000000-0000-5000-8000-000000000001"  # a point beside the marks: time of the last scan
_BATCH: Final = 256
_RECORDS: Final = 200  # read between two pauses
_SHARE: Final = 0.2  # of the time that reading takes, pauses included: a scan has no hurry

Name = tuple[str, str]  # document id, sha256


class Collected(NamedTuple):
    """The result of a scan."""

    owned_bytes: int
    unowned_bytes: int  # of blobs that are marked and not removed yet
    removed: int  # number of blobs


@dataclass(kw_only=True)
class BlobCollector:
    """Scans for blobs without an owner. Calls are idempotent and may run concurrently."""

    log: Log
    store: Store
    ledger: Ledger
    blobs: Blobs
    registry: CollectorRegistry
    clock: Callable[[], int] = now_ms  # ms since 1970; only decides when the next scan is due

    def __post_init__(self) -> None:
        told = "Bytes of blobs, as of the last look for their owners"
        self._bytes = Gauge("sluice_blob_bytes", told, ["owner"], registry=self.registry)

    async def collect_daily(self) -> Collected | None:
        """Return the result of a scan; None if the last one was less than a day ago.

        Raises:
            Unavailable: a part is away; call again.
        """
        found = await retrieved(self.store, MARKS, [_LAST_LOOK])
        # The absolute difference: a clock that was once a year ahead must not stop the scans for a year.
        if found and abs(self.clock() - found[0].payload["lookedAt"]) < DAY:
            return None
        return await self.collect()

    async def collect(self, now: int | None = None) -> Collected:
        """Return what was found and removed; `now` (ms) replaces the log's time.

        Raises:
            Unavailable: a part is away; what was done so far stays valid.
        """
        candidates, total = await self._candidates()
        newest = await self._drop_owned(candidates)
        # Look up heads and ledger again: a head may have replaced a record as owner, or a new submission has arrived.
        for name in await self._held({document for document, _ in candidates}, candidates):
            candidates.pop(name, None)
        if now is None:
            now = await self.log.age_ms() if isinstance(self.log, SqliteLog) else newest
        with deleting(self.log):
            removed, left = await self._settle(candidates, now)
        freed, unowned = sum(blob.size for blob in removed), sum(blob.size for blob in left)
        found = Collected(total - unowned - freed, unowned, len(removed))
        self._bytes.labels("yes").set(found.owned_bytes)
        self._bytes.labels("no").set(found.unowned_bytes)
        if removed:
            log.info("blobs_collected", blobs=found.removed, bytes=freed)
        return found

    async def _candidates(self) -> tuple[dict[Name, list[StoredBlob]], int]:
        """Return the blobs that neither a head nor the ledger refers to, and the bytes of all blobs."""
        candidates: dict[Name, list[StoredBlob]] = {}
        total = 0
        async for some in self.blobs.stored():
            held = await self._held({blob.document_id for blob in some}, {_name(blob) for blob in some})
            for blob in some:
                total += blob.size
                if _name(blob) not in held:
                    candidates.setdefault(_name(blob), []).append(blob)
        return candidates, total

    async def _held(self, documents: set[str], names: Iterable[Name]) -> set[Name]:
        """Return the names that heads or the ledger refer to, and all of documents with unfinished submissions."""
        ids, held, under_way = sorted(documents), set[Name](), set[str]()
        heads = [name for name in await self.store.collections() if name.startswith(_HEADS)]
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            for collection in heads:
                points = await self.store.retrieve(collection, some, fields=("textSha256",))
                held |= {(point.id, point.payload["textSha256"]) for point in points if point.payload}
            for document, entry in (await self.ledger.entries(some)).items():
                held |= {(document, ref.sha256) for ref in entry.accepted.blobs}
                if any(each.status not in TERMINAL for each in (entry.last, *entry.earlier)):  # one hasn't ended
                    under_way.add(document)
        return {name for name in names if name in held or name[0] in under_way}

    async def _drop_owned(self, candidates: dict[Name, list[StoredBlob]]) -> int:
        """Drop the candidates that the log refers to; return the newest record's time, ms since 1970.

        Topics are read in pipeline order, so that no reference moves from a topic still to be read to one already
        read. Dead letters come first: a redrive publishes a letter's record before it settles the letter.
        """
        newest = 0
        if not candidates:
            return newest
        async for letter in self._open_letters():
            newest = max(newest, letter.last_seen)
            for name in await self._named_by(letter):
                candidates.pop(name, None)
        for topic in [SUBMITTED, EXTRACTED, *await self._chunk_topics()]:
            async for record in self._records(topic):
                newest = max(newest, record.timestamp)
                for name in names_in(record):
                    candidates.pop(name, None)
        return newest

    async def _chunk_topics(self) -> list[str]:
        generations = [name.removeprefix(_HEADS) for name in await self.store.collections() if name.startswith(_HEADS)]
        found = await self.log.inspect_topics([Topic(name=chunks_topic(each)) for each in generations])
        return [each.topic for each in found if each.partitions is not None]

    async def _open_letters(self) -> AsyncIterator[DeadLetter]:
        newest: dict[bytes, int] = {}
        async for record in self._records(DEAD_LETTERS):
            newest[record.key or b""] = record.offset
        async for record in self._records(DEAD_LETTERS):
            if record.value is None or newest.get(record.key or b"", record.offset) > record.offset:
                continue
            try:
                yield decode(record.value, DeadLetter)
            except Rejected:  # an unreadable letter refers to nothing
                continue

    async def _named_by(self, letter: DeadLetter) -> set[Name]:
        tenant, document = body_owner(letter)
        value, names = letter.value, set[Name]()
        if letter.blob is not None:
            names.add((document, letter.blob.sha256))
            try:
                value = await self.blobs.get(tenant, document, letter.blob)
            except Rejected as error:
                log.warning("dead_letter_without_body", topic=letter.topic, offset=letter.offset, reason=error.sentence)
        record = ConsumerRecord(
            letter.topic, letter.partition, letter.offset, letter.time, 1, letter.key, value, None, 0, 0, letter.headers
        )
        return names | names_in(record)

    async def _records(self, topic: str) -> AsyncIterator[Record]:
        count, rest = 0, throttle(_SHARE)
        async with aclosing(records_now(self.log, topic)) as records:
            async for record in records:
                yield record
                count += 1
                if count % _RECORDS == 0:
                    await rest()

    async def _settle(
        self, candidates: dict[Name, list[StoredBlob]], now: int
    ) -> tuple[list[StoredBlob], list[StoredBlob]]:
        """Return the removed blobs, and the unowned blobs that are marked and stay for now."""
        unowned = {
            str(uuid5(NAMESPACE_OID, f"{blob.tenant}/{blob.document_id}/{blob.sha256}/{blob.put}")): blob
            for blobs in candidates.values()
            for blob in blobs
        }
        await self.store.create_collection(MARKS, size=None, sparse=False, indexes={})
        removed, left, gone = list[StoredBlob](), dict(unowned), list[str]()
        async for page in pages(self.store, MARKS):
            for point in page:
                if point.id == _LAST_LOOK:
                    continue
                blob = unowned.pop(point.id, None)
                if blob is None:  # it has an owner again, was stored again, or is removed
                    gone.append(point.id)
                elif now >= point.payload["since"] + GRACE_MS:
                    if await self.blobs.remove(blob):
                        removed.append(blob)
                    left.pop(point.id)
                    gone.append(point.id)
        await self._write_marks(unowned, gone, now)
        return removed, list(left.values())

    async def _write_marks(self, new: dict[str, StoredBlob], gone: list[str], now: int) -> None:
        marks = [Point(id=id_, payload={"since": now}) for id_ in new]
        for start in range(0, len(marks), _BATCH):
            await self.store.put_if(MARKS, marks[start : start + _BATCH], None, fields=())
        for start in range(0, len(gone), _BATCH):
            await self.store.delete(MARKS, Filter(must=(Ids(tuple(gone[start : start + _BATCH])),)))
        await self.store.upsert(MARKS, [Point(id=_LAST_LOOK, payload={"lookedAt": self.clock()})])
        await self.store.flush()


def names_in(record: Record) -> set[Name]:
    """Return the blobs that the record refers to; none if the record can't be decoded."""
    if record.topic == SUBMITTED and b"sha256" not in (record.value or b""):
        return set()  # most have none, and decoding a large body is slow
    found = mention(record)
    return set() if found is None else {(found.document_id, sha256) for sha256 in found.blobs}


def _name(blob: StoredBlob) -> Name:
    return blob.document_id, blob.sha256
