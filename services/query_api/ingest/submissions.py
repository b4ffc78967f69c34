"""Submits documents: appends them to the log, enters them in the ledger, and waits for their end.

Nothing here calls a stage. Success is reported only after the log has the record on disk.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from services.query_api.http.audit import note_change
from services.query_api.http.monitoring import Metrics
from services.query_api.http.problems import unavailable
from services.query_api.http.signing import Signer
from services.query_api.ingest.status_waiters import StatusWaiters
from shared.blobs import Blobs
from shared.claim_check import submission_value
from shared.contracts import DocumentSubmitted, LogPosition
from shared.errors import Unavailable
from shared.log import Publish
from shared.log.backlog import Backlog
from shared.log.headers import sent_position
from shared.runtime.memory_budget import MemoryBudget
from shared.state.index import Index
from shared.state.ledger import Accepted, Entry, Last, Ledger
from shared.topics import SUBMITTED

log = structlog.get_logger(__name__)


ENTER_S: Final = 2.0  # a store that hangs holds up no reply: the worker enters the document, too
MOVED_S: Final = 0.1  # seconds: least wait for a submission that was moved to another name
UNKNOWN: Final = "log_timeout"  # code of an outage after which the record may be on the log


class SubmissionReceipt(msgspec.Struct, frozen=True):
    """The log has the submission."""

    document_id: str
    place: LogPosition
    token: str  # by which callers know the submission


class SubmissionEnd(msgspec.Struct, frozen=True):
    """How a submission ended."""

    entry: Entry
    last: Last  # the end of this submission, not of later ones
    chunk_count: int  # of its version, or if that is no longer known, of the answering one
    seen: float  # when the ledger was read, in seconds of the loop's clock


@dataclass(kw_only=True)
class Submissions:
    """Submits documents and waits for their end."""

    publish: Publish
    ledger: Ledger
    index: Index
    blobs: Blobs
    notices: StatusWaiters
    metrics: Metrics
    backlog: Backlog
    signer: Signer
    at_once: int = 64  # documents appended to the log
    moves: int = 0  # of the log
    count: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self.room = MemoryBudget()  # for bodies in memory
        self._turn = asyncio.Semaphore(self.at_once)

    async def submit(self, document: DocumentSubmitted) -> SubmissionReceipt:
        """Return the receipt once the log has the submission.

        Raises:
            Problem: 503, the log or the blob store didn't take it, or it is unknown whether it did; or unread records
                on the log are so old that retention may delete them.
            Rejected: the record is too large even without its body.
        """
        if self.backlog.trouble is not None:
            raise unavailable(f"no documents are accepted at present: {self.backlog.trouble}", code="BACKLOG")
        id_ = document.document_id
        try:
            async with self._turn:
                value = await submission_value(document, self.blobs)
                written = await self.publish(SUBMITTED, value, key=id_.encode())
        except Unavailable as error:
            log.warning("submission_not_confirmed", document_id=id_, reason=error.sentence)
            if error.code == UNKNOWN:
                note_change(id_, "unknown")
            raise unavailable(
                f"{error.sentence}; sending the document again is safe",
                code="OUTCOME_UNKNOWN" if error.code == UNKNOWN else "UNAVAILABLE",
                documentId=id_,
            ) from error
        note_change(id_)
        self.count(document.tenant)
        place = sent_position(written, self.moves)
        await self._enter(id_, document, place)
        log.info("submission_accepted", document_id=id_, tenant=document.tenant, deleted=document.deleted)
        return SubmissionReceipt(id_, place, self.signer.submission(document.tenant, place))

    def spare(self, document: DocumentSubmitted) -> None:
        """Count a document that isn't submitted, because the index holds it unchanged."""
        self.count(document.tenant)
        self.metrics.ingests.labels("unchanged").inc()

    async def end(self, receipt: SubmissionReceipt, wait_s: float) -> SubmissionEnd | None:
        """Return how the submission ended; None if it didn't within `wait_s` seconds."""

        async def look() -> SubmissionEnd | None:
            seen = asyncio.get_running_loop().time()
            try:
                entry = await self.ledger.get(receipt.document_id)
                last = entry.end_of(receipt.place) if entry is not None else None
                if entry is None or last is None:
                    return None
                return SubmissionEnd(entry, last, await self._chunk_count(entry, last), seen)
            except Unavailable:
                return None  # the log has the record: the answer is 'accepted', whatever the store says

        if self.ledger.rebuilding:  # no submission ends before the ledger is rebuilt
            wait_s = 0.0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        ended = await self.notices.until(receipt.document_id, look, wait_s)
        if ended is not None and (moved := ended.last.moved_to) is not None:
            # `look` asks for it from now on
            receipt = msgspec.structs.replace(receipt, document_id=moved.document_id, place=moved.place)
            ended = await self.notices.until(receipt.document_id, look, max(deadline - loop.time(), MOVED_S))
        self.metrics.ingests.labels(ended.last.status if ended else "accepted").inc()
        return ended

    async def _enter(self, id_: str, document: DocumentSubmitted, place: LogPosition) -> None:
        """Enter the document in the ledger before the first stage has read it, so that its status can be shown."""

        def first(entry: Entry | None) -> Entry | None:
            if entry is not None:
                return None
            return Entry(
                document_id=id_,
                tenant=document.tenant,
                source=document.source,
                path=document.path,
                rev=0,
                writer="",
                accepted=Accepted(),
                last=Last(version=0, place=place, status="accepted", at=place.time),
                created_at=place.time,
                updated_at=place.time,
                title=document.title,
                url=document.url,
                tags=document.tags,
            )

        try:
            async with asyncio.timeout(ENTER_S):
                if not await self.ledger.known(id_):
                    await self.ledger.update_seen(id_, None, first)
        except (Unavailable, TimeoutError) as error:
            log.warning("ledger_entry_left_to_the_worker", document_id=id_, reason=str(error) or "the store hangs")

    async def _chunk_count(self, entry: Entry, last: Last) -> int:
        if last.chunk_count is not None:
            return last.chunk_count
        head = await self.index.head(entry.document_id)
        return head.chunk_count if head is not None and not head.deleted else 0
