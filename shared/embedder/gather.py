"""Texts of many callers, sent to a model's server together: it is never idle while there are texts, and never flooded.

A small document has five chunks; alone they would be a call of five, and the way there and back would cost what the
model could have done meanwhile. Nothing waits for others to come: what is there when a call may begin, goes.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from shared.embedder import Vector
from shared.errors import RetryLater, Unavailable

MOST: Final = 64  # texts of a call
FIRST: Final = 8
TARGET_S: Final = 1.0
KEPT: Final = 1024  # vectors of calls that failed: 16 MB of the largest models'


class Pace:
    """How many texts a call may have, so that it takes about a second, its wait for the call before it included.

    A query waits at the server for what is there already; and on a slow machine 64 texts would outlast every time-out,
    again and again. Much shorter calls cost more than they bring: a busy machine takes its time between two of them. So
    it begins small, at most doubles, and begins again after a failure.
    """

    def __init__(self) -> None:
        self.texts = FIRST

    def took(self, texts: int, seconds: float) -> None:
        """Take in that a call of so many texts took so long."""
        fitting = texts * TARGET_S / max(seconds, 1e-6)
        # A call that wasn't full says only whether it was too slow.
        if texts >= self.texts or fitting < self.texts:
            self.texts = round(min(max(fitting, self.texts / 2, 1), self.texts * 2, MOST))

    def failed(self) -> None:
        """Take in that a call failed."""
        self.texts = min(self.texts, FIRST) // 2 or 1


class Ask:
    """A text whose vector a caller waits for."""

    def __init__(self, text: str, beside: Sequence[str], answer: "asyncio.Future[Vector]") -> None:
        self.text = text
        self.beside = beside  # all that its caller asks for
        self.answer = answer

    def give(self, vector: Vector) -> None:
        """Answer."""
        if not self.answer.done():
            self.answer.set_result(vector)

    def fail(self, error: BaseException) -> None:
        """Answer that it failed."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Gather:
    """Callers' texts on their way to `answer`, in the order in which they came, `calls` calls at a time."""

    def __init__(self, answer: Callable[[Sequence[Ask]], Awaitable[None]], pace: Pace, calls: int) -> None:
        """Take what settles every Ask that it is given; what it raises, all of them get."""
        self._answer = answer
        self._pace = pace
        self._most_calls = calls
        self._waiting: deque[Ask] = deque()
        self._kept: OrderedDict[str, Vector] = OrderedDict()
        self._calls: set[asyncio.Task[None]] = set()

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector a text, in order; raise what the first text to fail met, and ask for no more of them.

        RetryLater is raised when all others are answered. What was answered before an outage is kept, so that the next
        try asks for the rest: a text has one vector, whoever asks.
        """
        loop = asyncio.get_running_loop()
        asks = [Ask(text, texts, loop.create_future()) for text in texts]
        for ask in asks:
            if (vector := self._kept.pop(ask.text, None)) is not None:
                ask.give(vector)
        self._waiting.extend(ask for ask in asks if not ask.answer.done())
        loop.call_soon(self._fill)  # with what others ask for in this turn
        try:
            await _settled([ask.answer for ask in asks])
            return [ask.answer.result() for ask in asks]
        except Unavailable:
            self._keep(asks)
            raise
        finally:
            for ask in asks:
                ask.answer.cancel()

    def _keep(self, asks: Sequence[Ask]) -> None:
        for ask in asks:
            if ask.answer.done() and ask.answer.exception() is None:
                self._kept[ask.text] = ask.answer.result()
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    async def close(self) -> None:
        """Give up the calls; who still waits is cancelled."""
        for ask in self._waiting:
            ask.answer.cancel()
        self._waiting.clear()
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    def _fill(self) -> None:
        while len(self._calls) < self._most_calls and (batch := self._batch()):
            task = asyncio.get_running_loop().create_task(self._call(batch))
            self._calls.add(task)
            task.add_done_callback(self._ended)

    def _batch(self) -> list[Ask]:
        batch: list[Ask] = []
        while self._waiting and len(batch) < self._pace.texts:
            ask = self._waiting.popleft()
            if not ask.answer.done():  # its caller has gone
                batch.append(ask)
        return batch

    async def _call(self, batch: Sequence[Ask]) -> None:
        try:
            await self._answer(batch)
        except asyncio.CancelledError:
            for ask in batch:
                ask.answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - the callers raise it
            for ask in batch:
                ask.fail(error)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._calls.discard(task)
        self._fill()


async def _settled(answers: Sequence["asyncio.Future[Vector]"]) -> None:
    """Return when all are answered, or failed by RetryLater; raise what else the first to fail met, at once."""
    pending = set(answers)
    while pending:
        _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        failed = [error for each in answers if each.done() and (error := each.exception()) is not None]
        for error in failed:
            if not isinstance(error, RetryLater):
                raise error
