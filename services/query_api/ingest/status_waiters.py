"""Wakes requests that wait until a document is processed. correctness.md, section 5.

A notice only wakes. The waiter reads the state from the ledger. If a notice is missed, the waiter looks again by
itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from faststream.kafka import KafkaBroker

from shared.contracts import StatusNotice, decode
from shared.log import Record
from shared.log.follow import follow
from shared.topics import STATUS

T = TypeVar("T")

LOOK_AGAIN_S = 2.0


class StatusWaiters:
    """The waiting requests, by document."""

    def __init__(self, look_again_s: float = LOOK_AGAIN_S) -> None:
        self._look_again_s = look_again_s
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.closed = False
        self.watchers: list[Callable[[str], None]] = []  # functions called with the tenant of each notice
        self.consumer: Callable[[], Any] = lambda: None  # returns the consumer of the notices; set by `listen`

    async def ready(self) -> None:
        """Wait until no later notice can be missed. Call it after the broker has started."""
        consumer = self.consumer()
        for partition in consumer.assignment():
            await consumer.position(partition)

    def heard(self, notice: StatusNotice) -> None:
        """Call the tenant's watchers, then wake all requests that wait for the document."""
        for changed in self.watchers:
            changed(notice.tenant)
        self.wake(notice.document_id)

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
        with self._listening(document_id) as woken:
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

    @contextmanager
    def _listening(self, document_id: str) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        waiting = self._waiting.setdefault(document_id, set())
        waiting.add(event)
        try:
            yield event
        finally:
            waiting.discard(event)
            if not waiting and self._waiting.get(document_id) is waiting:
                del self._waiting[document_id]


def listen(broker: KafkaBroker, notices: StatusWaiters) -> None:
    """Let every later notice wake its waiters. Call it before `broker.start()`."""

    def seen(record: Record) -> None:
        notices.heard(decode(record.value, StatusNotice))

    notices.consumer = follow(broker, STATUS, seen)
