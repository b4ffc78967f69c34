"""Writes to the ledger what `accept` decides: acceptances, conflicts, refusals, failures."""

from collections.abc import Callable
from dataclasses import dataclass
from posixpath import splitext
from typing import Any

import msgspec
import structlog

from services.ingest_worker import accept
from services.ingest_worker.accept import Conflict, Decision, IndexedVersion, Published, Submission, Superseded
from shared.blobs import Blobs
from shared.claim_check import submission_value
from shared.contracts import ERASED, DocumentSubmitted, Forwarded, LogPosition, Validators
from shared.errors import Rejected
from shared.log import Publish
from shared.log.headers import sent_position
from shared.state.index import Index
from shared.state.ledger import Entry, Ledger, MovedTo, with_forwarded
from shared.state.statuses import Statuses
from shared.state.version_deletion import forget_surplus
from shared.submission import description_hash
from shared.topics import SUBMITTED

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """The decisions about submissions, each written in a conditional write to the document's ledger entry."""

    ledger: Ledger
    index: Index
    blobs: Blobs
    publish: Publish
    statuses: Statuses
    moves: int = 0

    async def answering(self, name: str) -> IndexedVersion | None:
        """Return the document's state in the serving index; None where the index doesn't know it."""
        head = await self.index.head(name)
        if head is None:
            return None
        whole = head.deleted or await self.index.points(name) == head.chunk_count
        return IndexedVersion(**msgspec.structs.asdict(head), whole=whole)

    async def write(
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
            return with_forwarded(decision.entry, submission.source_record)

        await self.ledger.update_known(submission.document_id, entry, transition)
        return decision

    async def end_conflict(self, submitted: DocumentSubmitted, submission: Submission, body: bytes | None) -> None:
        """Record in the ledger that the submission was refused, or under which new name it was submitted."""
        moved_to: MovedTo | None = None
        if submission.on_conflict == "new":
            # The name is derived from the content, so a retry creates no second document.
            renamed = msgspec.structs.replace(
                submitted, path=_renamed(submitted.path, submission.raw_hash), on_conflict=None, keep=()
            )
            if renamed.blob is not None:  # a blob belongs to one document, so the new one needs its own
                renamed = msgspec.structs.replace(renamed, blob=None, content=body)
            value = await submission_value(renamed, self.blobs)
            sent = await self.publish(SUBMITTED, value, key=renamed.document_id.encode())
            moved_to = MovedTo(document_id=renamed.document_id, place=sent_position(sent, self.moves))

        await self._end(
            submission,
            lambda seen: with_forwarded(accept.in_conflict(seen, submission, moved_to), submission.source_record),
        )
        log.info("submission_in_conflict", document_id=submission.document_id, asked=submission.on_conflict)

    async def repeat(self, submitted: DocumentSubmitted, place: LogPosition) -> None:
        """Record that the submission is a copy of one that was forwarded before."""
        submission = submission_at(place, submitted)
        await self._end(submission, lambda seen: accept.repeated(seen, submission))
        log.info("submission_repeated", document_id=submitted.document_id)

    async def refuse_patch(
        self, submitted: DocumentSubmitted, place: LogPosition, source_record: Forwarded | None
    ) -> bool:
        """Return True once the ledger says why the metadata can't change, or False if by now it can.

        Raises:
            Rejected: the document is unknown.
        """
        submission = submission_at(place, submitted)

        def refused(seen: Entry) -> Entry | None:
            why = accept.unpatchable(seen, place, submitted.if_version)
            return None if why is None else with_forwarded(accept.refused(seen, submission, *why), source_record)

        entry = await self._end(submission, refused)
        if entry is None:
            raise Rejected(
                f"the metadata of {submitted.source}/{submitted.path} can't change: there is no such document",
                "no_document",
            )
        return entry.ended(place)

    async def _end(self, submission: Submission, end: Callable[[Entry], Entry | None]) -> Entry | None:
        """Write what `end` makes of the entry, unless the submission has ended or is late; return the entry as it is.

        Clients that wait for the submission are notified of its end.
        """
        place = submission.place

        def ends(seen: Entry | None) -> Entry | None:
            return None if seen is None or accept.late(seen, place) or seen.ended(place) else end(seen)

        entry = await self.ledger.update(submission.document_id, ends)
        if entry is not None:
            await self.statuses.notify_end(entry, place)
        return entry

    async def fail(
        self,
        submitted: DocumentSubmitted,
        place: LogPosition,
        sentence: str,
        code: str,
        source_record: Forwarded | None = None,
    ) -> None:
        """Record the failure in the ledger, and notify waiting clients."""
        # A failure moves only `last`, so what the body was doesn't matter.
        submission = submission_at(place, submitted)

        def fails(seen: Entry | None) -> Entry | None:
            if seen is not None and seen.tenant != submitted.tenant:
                return None  # rejected because the document belongs to another tenant: its entry must not change
            failed = accept.fail(seen, submission, sentence, code)
            return None if failed is None else with_forwarded(failed, source_record)

        entry = await self.ledger.update(submitted.document_id, fails)
        if entry is not None:
            await self.statuses.notify(entry)
            await forget_surplus(self.index, self.ledger, self.publish, entry.document_id)


def submission_at(
    place: LogPosition,
    submitted: DocumentSubmitted,
    raw_hash: str = "",
    validators: Validators | None = None,
    source_record: Forwarded | None = None,
) -> Submission:
    """Return what the decision needs of the submission; `raw_hash` is empty where its body isn't read."""
    deletes = submitted.deleted
    return Submission(
        document_id=submitted.document_id,
        tenant=submitted.tenant,
        source=submitted.source,
        path=submitted.path,
        place=place,
        raw_hash=ERASED if submitted.erases else accept.DELETION if deletes else raw_hash,
        metadata_hash="" if deletes else description_hash(submitted),
        title=submitted.title,
        url=submitted.url,
        tags=submitted.tags,
        validators=validators,
        given=None if deletes else submitted.given,
        on_conflict=None if deletes else submitted.on_conflict,
        source_record=source_record,
    )


def with_kept_fields(submitted: DocumentSubmitted, entry: Entry | None) -> DocumentSubmitted:
    """Return the submission, with the fields it asks to keep filled in from the accepted version.

    Fields that the submission sets itself win.
    """
    if entry is None or (given := entry.accepted.given) is None:
        return submitted
    own = submitted.given
    fields: dict[str, Any] = {name: getattr(given, name) for name in submitted.keep if not getattr(own, name)}
    if submitted.patch and (reading := entry.accepted.reading) is not None:  # so it is described as if sent whole
        fields["hash"] = given.hash
        for name in ("filename", "media_type", "url", "chunk_size", "chunk_overlap"):
            fields[name] = getattr(reading, name)
    return msgspec.structs.replace(submitted, **fields)


def _renamed(path: str, raw_hash: str) -> str:
    """Return the path with a part of the content's hash before its suffix."""
    stem, suffix = splitext(path)
    return f"{stem}-{raw_hash[:8]}{suffix}"
