"""Writes how a version ended: to the ledger, then as a notice for waiting callers. correctness.md, section 5."""

from collections.abc import Awaitable, Callable, Collection

import structlog

from shared.contracts import TERMINAL, DocumentVersion, LogPosition, Status, StatusNotice, encode, like
from shared.log import Publish, Record
from shared.log.consume import OnDead
from shared.log.dead_letters import DeadLetters
from shared.log.failure import Failure
from shared.state.index import Head, Index
from shared.state.ledger import End, Entry, Last, Ledger, finished
from shared.state.version_deletion import forget_surplus
from shared.times import now_ms
from shared.topics import STATUS

log = structlog.get_logger(__name__)

Failed = Callable[[Record, str, str], Awaitable[None]]  # record, sentence, code


def dead_letter(letters: DeadLetters, failed: Failed) -> OnDead:
    """Return the `on_dead` of a stage: it stores the dead letter, then writes the failure.

    The order matters: a caller that sees the failure finds the dead letter.
    """

    async def on_dead(record: Record, failure: Failure) -> None:
        await letters(record, failure)
        await failed(record, failure.sentence, failure.code)

    return on_dead


class Statuses:
    """Writes final statuses. Every call is idempotent. Raises Unavailable when the store or the log is away."""

    def __init__(self, ledger: Ledger, publish: Publish) -> None:
        self._ledger = ledger
        self._publish = publish

    async def end(
        self,
        document: DocumentVersion,
        status: Status,
        *,
        chunk_count: int | None = None,
        error: str | None = None,
        code: str | None = None,
        forgotten: Collection[int] = (),
        known: Entry | None = None,
    ) -> None:
        """Write the version's final status, if the ledger knows a submission of this version.

        The versions in `forgotten` have tombstones on documents.extracted. `known` is the entry, if it was read before.
        """
        at = now_ms()  # only for display

        def ends(entry: Entry | None) -> Entry | None:
            end = End(status, at, chunk_count, error, code)
            return finished(entry, document.version, end, document=document, forgotten=forgotten)

        name = document.document_id
        entry = await (self._ledger.update_known(name, known, ends) if known else self._ledger.update(name, ends))
        if entry is not None:
            await self._notify_ended(entry, document.version, at)
        (log.info if status == "failed" else log.debug)(
            "version_ended", document_id=document.document_id, version=document.version, status=status, reason=error
        )

    async def applied(
        self,
        document: DocumentVersion,
        chunk_count: int,
        forgotten: Collection[int] = (),
        known: Entry | None = None,
    ) -> None:
        """Write that the version answers, and that the versions in `forgotten` have tombstones; `known` as in `end`."""
        await self.end(document, document.outcome, chunk_count=chunk_count, forgotten=forgotten, known=known)

    async def entry(self, document: DocumentVersion) -> Entry | None:
        """Return the document's ledger entry."""
        return await self._ledger.get(document.document_id)

    async def serves(self) -> bool:
        """Return whether these are the statuses of the serving generation."""
        return True

    async def ended(self, document: DocumentVersion) -> bool:
        """Return whether the version's final status is written, or the ledger doesn't know the version any more."""
        entry = await self.entry(document)
        stands = None if entry is None else entry.standing(document.version)
        return stands is None or stands.status in TERMINAL

    async def failed(self, document: DocumentVersion, answering: Head | None, *, error: str, code: str) -> None:
        """Write that the version failed, unless `answering`, its head, shows that it answers: then keep its outcome."""
        if answering is None:
            await self.end(document, "failed", error=error, code=code)
        else:
            await self.end(document, document.outcome, chunk_count=answering.chunk_count)

    async def forget_surplus(self, document: DocumentVersion, index: Index) -> None:
        """Remove the document's surplus of failed versions from the truth, if these are the serving generation's."""
        await forget_surplus(index, self._ledger, self._publish, document.document_id)

    async def has_failed(self, document: DocumentVersion, entry: Entry | None) -> bool:
        """Return whether the entry has the version's failure, so that only a redrive can change it, or nothing can."""
        if entry is None:
            return False
        stands = entry.standing(document.version)
        if document.version in entry.failed or entry.was_forgotten(document.version):
            return True
        return stands is not None and stands.status == "failed"

    async def notify(self, entry: Entry) -> None:
        """Notify callers that wait for the document of its newest submission."""
        await self._notify(entry, entry.last)

    async def notify_end(self, entry: Entry, place: LogPosition) -> None:
        """Notify callers that wait for the submission at `place` of its end; do nothing if it hasn't ended."""
        if (end := entry.end_of(place)) is not None:
            await self._notify(entry, end)

    async def _notify_ended(self, entry: Entry, version: int, at: int) -> None:
        """Notify callers of every submission that ended with the version, or was superseded by it, at the time `at`.

        If nothing ended at that time, an earlier process may have crashed before its notices, so every known end is
        sent.
        """
        known = [each for each in (*entry.earlier, entry.last) if each.status in TERMINAL]
        ended = [each for each in known if each.version == version or each.at == at]
        first = any(each.at == at for each in known)
        for each in ended if first else known:
            await self._notify(entry, each)

    async def _notify(self, entry: Entry, told: Last) -> None:
        reading = entry.reading(told.version)
        notice = like(
            StatusNotice,
            told,
            document_id=entry.document_id,
            tenant=entry.tenant,
            note_codes=tuple(dict.fromkeys(note.code for note in reading.notes)),
            note_count=reading.note_count,
        )
        await self._publish(STATUS, encode(notice), key=entry.document_id.encode())
