"""What documents.extracted held at a past moment, for a generation that shows it.

Documents that were erased since are left out: before the first version is chunked, each erasure is written as a head of
that generation, and the head keeps older versions from being written. docs/adr/0013-generations.md
"""

from contextlib import aclosing

from services.ingest_worker.rebuild.history import erased
from shared.log import Log, Record
from shared.log.read import records_now
from shared.state.generations import AsOf, Registered
from shared.state.index import Index, deletion_head
from shared.topics import EXTRACTED


class PastTruth:
    """Chooses the records of a moment. Raises Unavailable when the log or the store is away."""

    def __init__(self, as_of: AsOf, index: Index) -> None:
        self._as_of = as_of
        self._index = index
        self._replaced: set[bytes] = set()  # keys of versions that were replaced at that moment

    async def read(self, log: Log) -> None:
        """Read the whole topic: which versions had been replaced by then, and what was erased since."""
        async with aclosing(records_now(log, EXTRACTED)) as records:
            async for record in records:
                if not self._as_of.covers(record.partition, record.offset):
                    await self._apply_erasure(record)
                elif record.value is None:
                    self._replaced.add(record.key or b"")
                else:  # published again, by a repair or a redrive
                    self._replaced.discard(record.key or b"")

    async def shows(self, record: Record) -> bool:
        """Return whether the document may have had this version at that moment; documents erased since had none."""
        if not self._as_of.covers(record.partition, record.offset):
            await self._apply_erasure(record)
            return False
        return record.key not in self._replaced

    async def _apply_erasure(self, record: Record) -> None:
        document = erased(record)
        if document is not None:
            name, version = document.document_id, document.version
            await self._index.switch(deletion_head(name, version, document.tenant))
            await self._index.delete_below(name, version)


async def past_truth_of(registered: Registered, index: Index, log: Log) -> PastTruth | None:
    """Return the past that the generation shows; None if it shows the present. Raises Unavailable."""
    if registered.as_of is None:
        return None
    past = PastTruth(registered.as_of, index)
    await past.read(log)
    return past
