"""Which records of documents.extracted a generation needs that is being filled, or that shows a past moment.

Versions that were replaced have a tombstone, and are left out, so that their texts aren't embedded. For a past moment,
tombstones since then don't count, and documents erased since are left out: before the first version is chunked, each
erasure is written as a head, which keeps older versions from being written. ADR 0013
"""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass

from services.ingest_worker.history import erased
from shared.log import Log, Record
from shared.log.read import records_now
from shared.state.generations import AsOf, Registered
from shared.state.index import Index, deletion_head
from shared.topics import EXTRACTED


@dataclass
class PastTruth:
    """Chooses the records. Raises Unavailable when the log or the store is away."""

    as_of: AsOf | None  # the past moment that the index shows; None: the present
    index: Index
    log: Log

    def __post_init__(self) -> None:
        self._reading = asyncio.Lock()
        self._read = False
        self._replaced: set[bytes] = set()  # keys of versions that were replaced at that moment, or when it was read
        self._ends: dict[int, int] = {}  # by partition, the first offset that wasn't read

    async def _read_all(self) -> None:
        """Read the whole topic: which versions had been replaced by then, and what was erased since."""
        async with aclosing(records_now(self.log, EXTRACTED)) as records:
            async for record in records:
                self._ends[record.partition] = record.offset + 1
                if self.as_of is not None and not self.as_of.covers(record.partition, record.offset):
                    await self._apply_erasure(record)
                elif record.value is None:
                    self._replaced.add(record.key or b"")
                else:  # published again, by a repair or a redrive
                    self._replaced.discard(record.key or b"")

    async def shows(self, record: Record) -> bool:
        """Return whether the document may have this version at that moment; documents erased since have none."""
        async with self._reading:
            if not self._read:
                await self._read_all()
                self._read = True
        if self.as_of is None:
            new = record.offset >= self._ends.get(record.partition, 0)
            return new or record.key not in self._replaced
        if not self.as_of.covers(record.partition, record.offset):
            await self._apply_erasure(record)
            return False
        return record.key not in self._replaced

    async def _apply_erasure(self, record: Record) -> None:
        document = erased(record)
        if document is not None:
            name, version = document.document_id, document.version
            await self.index.switch(deletion_head(name, version, document.tenant))
            await self.index.delete_below(name, version)


def past_truth_of(registered: Registered, index: Index, log: Log) -> PastTruth | None:
    """Return what the generation needs of the truth; None if that is everything."""
    return PastTruth(registered.as_of, index, log) if registered.as_of is not None or registered.fills else None
