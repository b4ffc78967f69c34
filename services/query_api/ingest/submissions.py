"""Submits documents: appends them to the log, enters them in the ledger, and waits for their end.

Nothing here calls a stage. Success is reported only after the log has the record on disk. A notice of an end only wakes
a request that waits: it reads the state from the ledger, and looks again by itself where a notice is missed
(correctness.md, section 5).
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec
import structlog
from faststream.kafka import KafkaBroker

from services.query_api.http.audit import note_change
from services.query_api.http.monitoring import Metrics
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import unavailable
from shared import tracing
from shared.claim_check import submission_value
from shared.contracts import DocumentSubmitted, LogPosition, StatusNotice, decode, like
from shared.errors import Unavailable
from shared.log import Publish
from shared.log.consume import follow
from shared.log.headers import sent_position
from shared.runtime.body_budget import MemoryBudget
from shared.runtime.resources import Resources
from shared.state.ledger import Accepted, Entry, Last
from shared.topics import STATUS, SUBMITTED

T = TypeVar("T")

LOOK_AGAIN_S = 2.0
LATEST: Final = 1000  # notices kept for those who follow all of a tenant


class StatusWaiters:
    """The waiting requests, by document, or by tenant where they wait for any change of its documents."""

    def __init__(self, look_again_s: float = LOOK_AGAIN_S) -> None:
        self._look_again_s = look_again_s
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._latest: deque[tuple[int, StatusNotice]] = deque(maxlen=LATEST)  # by offset, without gaps
        self.closed = False
        self.consumer: Callable[[], Any] = lambda: None  # returns the consumer of the notices; set by `listen`

    async def ready(self) -> None:
        """Wait until no later notice can be missed. Call it after the broker has started."""
        consumer = self.consumer()
        for partition in consumer.assignment():
            await consumer.position(partition)

    def heard(self, offset: int, notice: StatusNotice) -> None:
        """Keep a notice for `after`, by its offset in the topic's one partition, and wake those who wait for it.

        These are the requests that wait for its document, or for any of its tenant.
        """
        if self._latest and self._latest[-1][0] + 1 != offset:
            self._latest.clear()
        self._latest.append((offset, notice))
        self.wake(any_of(notice.tenant))
        self.wake(notice.document_id)

    def after(self, cursor: int) -> Iterable[tuple[int, StatusNotice]] | None:
        """Return the notices heard from this offset on, with their offsets; None if earlier ones aren't kept."""
        first, end = (self._latest[0][0], self._latest[-1][0] + 1) if self._latest else (0, -1)
        return islice(self._latest, cursor - first, None) if first <= cursor <= end else None

    def wake(self, document_id: str) -> None:
        """Wake all requests that wait for the document."""
        for event in self._waiting.get(document_id, ()):
            event.set()

    def close(self) -> None:
        """End all waiting, now and later, because the server is about to stop."""
        self.closed = True
        for document_id in self._waiting:
            self.wake(document_id)

    async def until(self, document_id: str, look: Callable[[], Awaitable[T | None]], seconds: float) -> T | None:
        """Return the first result of `look` that isn't None, or None after `seconds`.

        `look` is called now, at each notice, and every few seconds; one that hangs ends with the time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        waiting, woken = self._waiting.setdefault(document_id, set()), asyncio.Event()
        waiting.add(woken)
        try:
            while not self.closed and (left := deadline - loop.time()) > 0:
                woken.clear()  # before the look, so that a notice during it counts
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        found = await look()
                    if found is not None:
                        return found
                    async with asyncio.timeout(min(left, self._look_again_s)):
                        await woken.wait()
            return None
        finally:
            waiting.discard(woken)
            if not waiting and self._waiting.get(document_id) is waiting:
                del self._waiting[document_id]


def any_of(tenant: str) -> str:
    """Return the name under which requests wait for a change of any document of the tenant; no document has this id."""
    return f"changes of {tenant}"


def listen(broker: KafkaBroker, notices: StatusWaiters) -> None:
    """Let every later notice wake its waiters. Call it before `broker.start()`."""
    notices.consumer = follow(
        broker, STATUS, lambda record: notices.heard(record.offset, decode(record.value, StatusNotice))
    )


log = structlog.get_logger(__name__)


DOUBT_S: Final = 60.0  # in which a record comes that a broker took and didn't confirm: three times the producer's wait
ENTER_S: Final = 2.0  # a store that hangs holds up no reply: the worker enters the document, too
MOVED_S: Final = 0.1  # seconds: least wait for a submission that was moved to another name
UNKNOWN: Final = "log_timeout"  # code of an outage after which the record may be on the log


class SubmissionReceipt(msgspec.Struct, frozen=True):
    """The log has the submission, or it has ended without one."""

    document_id: str
    place: LogPosition
    token: str  # by which callers know the submission; blank for one that has ended
    ended: "SubmissionEnd | None" = None  # it would have changed nothing, and isn't on the log


class SubmissionEnd(msgspec.Struct, frozen=True):
    """How a submission ended."""

    entry: Entry
    last: Last  # the end of this submission, not of later ones
    chunk_count: int  # of its version, or if that is no longer known, of the answering one
    seen: float  # when the ledger was read, in seconds of the loop's clock


@dataclass(kw_only=True)
class Submissions:
    """Submits documents and waits for their end."""

    base: Resources
    publish: Publish
    notices: StatusWaiters
    metrics: Metrics
    signer: Signer
    count: Callable[[str], None] = lambda _: None
    # None: the first stage compares
    unchanged: Callable[[DocumentSubmitted], Awaitable[SubmissionEnd | None]] | None = None
    sent: Callable[[DocumentSubmitted, int, int], None] = lambda *_: None  # called with each record's partition, offset

    def __post_init__(self) -> None:
        self.room = MemoryBudget()  # for bodies in memory
        self._turn = asyncio.Semaphore(self.base.settings.max_documents)  # appended to the log at once
        self._under_way: Counter[str] = Counter()  # records of a document that nothing is known of yet
        self._doubts: dict[str, float] = {}  # until when one may come of which nothing was heard, by document id

    def doubtful(self, document_id: str) -> bool:
        """Return whether this process sent a record of the document that may still come, after all that was read.

        Then only a record after it tells what was sent last.
        """
        now = asyncio.get_running_loop().time()
        return document_id in self._under_way or self._doubts.get(document_id, now) > now

    async def submit(
        self, document: DocumentSubmitted, *, of_many: bool = False, compared: bool = False
    ) -> SubmissionReceipt:
        """Return the receipt once the log has the submission, or the index is seen to hold the document unchanged.

        Each `of_many` in a request has a trace of its own. What was `compared` isn't again.

        Raises:
            Problem: 503, the log or the blob store didn't take it, or it is unknown whether it did; or unread records
                on the log are so old that retention may delete them.
            Rejected: the record is too large even without its body.
        """
        with tracing.step("submit", apart=of_many):
            tracing.about(document.tenant, document.document_id)
            ended = None if compared or self.unchanged is None else await self.unchanged(document)
            if ended is not None and not self.doubtful(document.document_id):
                return self.spared(document, ended)
            return await self._submit(document)

    async def _submit(self, document: DocumentSubmitted) -> SubmissionReceipt:
        if self.base.backlog.trouble is not None:
            raise unavailable(f"no documents are accepted at present: {self.base.backlog.trouble}", code="BACKLOG")
        id_ = document.document_id
        try:
            async with self._turn:
                value = await submission_value(document, self.base.blobs)
                with self._sending(id_):
                    written = await self.publish(SUBMITTED, value, key=id_.encode())
                    self.sent(document, written.partition, written.offset)
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
        place = sent_position(written, self.base.log.moves)
        await self._enter(id_, document, place)
        log.debug("submission_accepted", document_id=id_, tenant=document.tenant, deleted=document.deleted)
        return SubmissionReceipt(id_, place, self.signer.submission(document.tenant, place))

    @contextmanager
    def _sending(self, document_id: str) -> Iterator[None]:
        """Let the document be doubtful meanwhile, and for a time afterwards unless its record's fate is known."""
        self._under_way[document_id] += 1
        now = asyncio.get_running_loop().time
        known = False
        try:
            yield
            known = True
        except Unavailable as error:
            known = error.code != UNKNOWN
            raise
        finally:
            self._under_way[document_id] -= 1
            self._under_way += Counter()  # drops those of which there is none
            if not known:
                self._doubts = {id_: until for id_, until in self._doubts.items() if until > now()}
                self._doubts[document_id] = now() + DOUBT_S

    def spared(self, document: DocumentSubmitted, ended: SubmissionEnd) -> SubmissionReceipt:
        """Count a document that isn't submitted, because the index holds it unchanged, and return its receipt."""
        self.count(document.tenant)
        return SubmissionReceipt(document.document_id, ended.last.place, "", ended)

    async def end(self, receipt: SubmissionReceipt, wait_s: float) -> SubmissionEnd | None:
        """Return how the submission ended; None if it didn't within `wait_s` seconds."""
        ended = receipt.ended if receipt.ended is not None else await self._ended(receipt, wait_s)
        self.metrics.ingests.labels(ended.last.status if ended else "accepted").inc()
        return ended

    async def _ended(self, receipt: SubmissionReceipt, wait_s: float) -> SubmissionEnd | None:
        async def look() -> SubmissionEnd | None:
            seen = asyncio.get_running_loop().time()
            try:
                entry = await self.base.ledger.get(receipt.document_id)
                last = entry.end_of(receipt.place) if entry is not None else None
                if entry is None or last is None:
                    return None
                count = last.chunk_count
                if count is None:
                    head = await self.base.index.head(entry.document_id)
                    count = head.chunk_count if head is not None and not head.deleted else 0
                return SubmissionEnd(entry, last, count, seen)
            except Unavailable:
                return None  # the log has the record: the answer is 'accepted', whatever the store says

        if self.base.ledger.rebuilding:  # no submission ends before the ledger is rebuilt
            wait_s = 0.0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        ended = await self.notices.until(receipt.document_id, look, wait_s)
        if ended is not None and (moved := ended.last.moved_to) is not None:
            # `look` asks for it from now on
            receipt = msgspec.structs.replace(receipt, document_id=moved.document_id, place=moved.place)
            ended = await self.notices.until(receipt.document_id, look, max(deadline - loop.time(), MOVED_S))
        return ended

    async def _enter(self, id_: str, document: DocumentSubmitted, place: LogPosition) -> None:
        """Enter the document in the ledger before the first stage has read it, so that its status can be shown."""
        entry = like(
            Entry,
            document,
            rev=0,
            writer="",
            accepted=Accepted(),
            last=Last(version=0, place=place, status="accepted", at=place.time),
            created_at=place.time,
            updated_at=place.time,
        )
        try:
            async with asyncio.timeout(ENTER_S):
                await self.base.ledger.enter(entry)
        except (Unavailable, TimeoutError) as error:
            log.warning("ledger_entry_left_to_the_worker", document_id=id_, reason=str(error) or "the store hangs")
