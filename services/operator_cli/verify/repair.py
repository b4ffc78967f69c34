"""Repairs differences: deletes wrong points and heads, then publishes the document's version again.

The workers apply that version with their usual code, so they copy vectors from sound points with the same text. They
take every existing point as correct. A wrong point is therefore deleted first, or, if its vector is sound, rewritten
around it. A head above the truth is deleted first, too: otherwise the workers would take the version for a late one
and delete its record from the truth.
"""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from services.operator_cli.verify.findings import Remedy, VerifyReport
from services.operator_cli.verify.verifier import SeenDocument, Verifier
from shared.contracts import DocumentExtracted, LogPosition, Message, decode
from shared.log.headers import PLACE_HEADER, position_header, position_of, text_headers
from shared.log.publish import sending
from shared.log.read import records_now
from shared.settings import ConfigurationError
from shared.state import ledger
from shared.state.ledger import Entry, Ledger
from shared.store import Filter, Ids, Match, Payload, Point
from shared.topics import EXTRACTED, SUBMITTED

_LOOK_S = 0.1  # seconds between two reads of the workers' offsets


class Repaired(Message, frozen=True):
    """The number of repairs, or of those that a dry run would make."""

    published: int = 0  # versions
    resubmitted: int = 0  # submissions, which the first stage decides again
    points_deleted: int = 0
    points_mended: int = 0  # rewritten with their own vector
    heads: int = 0  # deleted or corrected
    entries: int = 0  # of the ledger
    texts: int = 0  # written again as blobs
    left: int = 0  # documents that the log can't repair, or that are being changed
    applied: bool = True  # whether the workers have processed everything published


@dataclass
class Repair:
    """Repairs the differences that a verification has found; in a dry run it only counts what it would do."""

    verifier: Verifier
    dry_run: bool

    def __post_init__(self) -> None:
        self.parts = self.verifier.parts
        self._ledger = Ledger(self.parts.store)
        self._places: dict[LogPosition, str] = {}  # documents by the submission to send again
        self._done = Repaired()

    async def repair(self, report: VerifyReport) -> Repaired:
        """Return what was done, once the workers have finished or made no progress within the patience.

        Raises:
            ConfigurationError: the log has no version of any document, and the store has points.
            Unavailable: a part is away; begin again.
        """
        if not self.verifier.truth.versions.documents:
            raise ConfigurationError(
                "the log has no version of any document, so it can't say what the store should hold: is SLUICE_LOG the "
                "right one? Nothing was repaired"
            )
        async with sending(self.parts.log, "verify") as self._publish:
            await self.verifier.read_on()
            busy = self.verifier.busy()
            async with aclosing(self.verifier.look(report.wrong, "repairing")) as looked:
                async for some in looked:
                    differing = [each for each in some if each.judged.differences]
                    still = [each for each in differing if each.name not in busy]
                    self._count(left=len(differing) - len(still))
                    await asyncio.gather(*map(self._mend, still))
            await self._delete_points(report.strays)
            await self._resubmit()
            if not self.dry_run:
                await self.parts.store.flush()
        return msgspec.structs.replace(self._done, applied=self.dry_run or await self._caught_up())

    async def _caught_up(self) -> bool:
        """Return whether each stage reached the end of its topic; False if a stage makes no progress."""
        for topic in self.verifier.groups:
            await self.verifier.read_on()
            target = {tp: end for tp, end in self.verifier.cut.ends.items() if tp.topic == topic}
            moved, committed = time.monotonic(), self.verifier.cut.committed
            while any(self.verifier.cut.committed[tp] < end for tp, end in target.items()):
                await asyncio.sleep(_LOOK_S)
                await self.verifier.read_on()
                if self.verifier.cut.committed != committed:
                    moved, committed = time.monotonic(), self.verifier.cut.committed
                elif time.monotonic() - moved > self.verifier.patience_s:
                    return False
        return True

    async def _mend(self, seen: SeenDocument) -> None:
        remedy = seen.judged.remedy
        if remedy == Remedy():
            self._count(left=1)
            return
        await self._delete_points(remedy.delete_points)
        await self._index(remedy)
        await self._entry(seen.name, remedy)
        if (record := seen.record) is not None:
            self._count(texts=remedy.text, published=remedy.publish)
            event = decode(record.value, DocumentExtracted) if remedy.text and not self.dry_run else None
            if event is not None and event.text is not None:
                await self.parts.blobs.put(event.document.tenant, event.document.document_id, event.text.encode())
            if remedy.publish and not self.dry_run:
                route, headers = seen.name.encode(), text_headers(record)
                await self._publish(EXTRACTED, record.value, key=record.key, route=route, headers=headers)
        if remedy.resubmit is not None:
            self._places[remedy.resubmit] = seen.name

    async def _delete_points(self, points: tuple[str, ...]) -> None:
        self._count(points_deleted=len(points))
        if points and not self.dry_run:
            await self.parts.store.delete(self.parts.generation.chunks, Filter(must=(Ids(points),)))

    async def _index(self, remedy: Remedy) -> None:
        store, generation = self.parts.store, self.parts.generation
        head = remedy.mend_head
        self._count(
            heads=(remedy.drop_head is not None) + (head is not None),
            points_mended=len(remedy.mend_points),
        )
        if self.dry_run:
            return
        if remedy.drop_head is not None:
            await store.delete(generation.heads, remedy.drop_head)
        if remedy.mend_points:
            await store.upsert(generation.chunks, remedy.mend_points)
        if head is not None:
            payload: Payload = {**msgspec.json.decode(msgspec.json.encode(head)), "version": head.version}
            same = Filter(must=(Match("version", (head.version,)),))
            await store.upsert(generation.heads, [Point(id=head.document_id, payload=payload)], only_if=same)

    async def _entry(self, name: str, remedy: Remedy) -> None:
        self._count(entries=remedy.drop_entry is not None or remedy.entry is not None)
        if self.dry_run:
            return
        if remedy.drop_entry is not None:
            await self.parts.store.delete(ledger.COLLECTION, remedy.drop_entry)
        if remedy.entry is not None:

            def transition(seen: Entry | None) -> Entry | None:
                return remedy.entry if seen is None or seen.rev == remedy.entry_rev else None

            await self._ledger.update(name, transition)

    async def _resubmit(self) -> None:
        """Publish submissions again, each with the log position where it first entered the log."""
        if not self._places:
            return
        async with aclosing(records_now(self.parts.log, SUBMITTED)) as found:
            async for record in found:
                place = position_of(record)
                name = self._places.pop(place, None)
                if name is None:
                    continue
                self._count(resubmitted=1)
                if not self.dry_run:
                    headers = {**text_headers(record), PLACE_HEADER: position_header(place)}
                    await self._publish(SUBMITTED, record.value, key=name.encode(), headers=headers)
        self._count(left=len(self._places))  # retention has deleted them

    def _count(self, **more: int) -> None:
        self._done = msgspec.structs.replace(
            self._done, **{name: getattr(self._done, name) + count for name, count in more.items()}
        )
