"""Batches the texts of many callers into calls to a model, a few calls at a time.

A small document has five chunks. In a call of their own, the round trip to a server would cost more than the model's
work. No text waits for others to arrive: a call takes the texts that are queued when it may begin.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from shared.embedder import Vector
from shared.errors import RetryLater, Unavailable
from shared.fair_queue import FairQueue

MOST: Final = 64  # texts per call
FIRST: Final = 8  # texts of the first call
TARGET_S: Final = 1.0  # aimed-at duration of a call
KEPT: Final = 1024  # vectors kept for a retry: 16 MB for the largest models


class Pace:
    """The number of texts per call at which a call takes about a second, including its wait for the call before it.

    Larger calls delay queries, which wait at the server for the calls before them, and on a slow machine 64 texts would
    exceed the timeout on every retry. Much smaller calls waste time between two calls. So the size begins small, at
    most doubles, and is halved after a failure.
    """

    def __init__(self) -> None:
        self.texts = FIRST

    def took(self, texts: int, seconds: float) -> None:
        """Adapt to a call of `texts` texts that took `seconds`."""
        fitting = texts * TARGET_S / max(seconds, 1e-6)
        # A call that wasn't full can only show that the size is too large.
        if texts >= self.texts or fitting < self.texts:
            self.texts = round(min(max(fitting, self.texts / 2, 1), self.texts * 2, MOST))

    def failed(self) -> None:
        """Adapt to a call that failed."""
        self.texts = min(self.texts, FIRST) // 2 or 1


class Ask(NamedTuple):
    """A text whose vector a caller waits for."""

    text: str
    beside: Sequence[str]  # all texts of the same caller
    answer: "asyncio.Future[Vector]"

    def give(self, vector: Vector) -> None:
        """Settle with the vector."""
        if not self.answer.done():
            self.answer.set_result(vector)

    def fail(self, error: BaseException) -> None:
        """Settle with an error."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Gather:
    """A queue of callers' texts, passed in batches to `answer`, at most `calls` calls at a time.

    Flows, such as tenants, take turns of `FIRST` texts, and within a flow its callers do, so that no long document, or
    list of a client, holds up the others, nor do a hundred of one tenant hold up those of another.
    """

    def __init__(self, answer: Callable[[Sequence[Ask]], Awaitable[None]], pace: Pace, calls: int) -> None:
        """Take `answer`, which settles every Ask of a batch; if it raises, all of the batch fail with that error."""
        self._answer = answer
        self._pace = pace
        self._most_calls = calls
        self._waiting = FairQueue[FairQueue[Sequence[Ask]]]()  # the turns of each flow, which are its callers'
        self._flows = WeakValueDictionary[Hashable, FairQueue[Sequence[Ask]]]()
        self._turn: deque[Ask] = deque()  # what is left of the current one
        self._kept: OrderedDict[str, Vector] = OrderedDict()
        self._calls: set[asyncio.Task[None]] = set()

    async def vectors(self, texts: Sequence[str], flow: Hashable = None) -> list[Vector]:
        """Return one vector per text, in order. Raises the error of the first text to fail, and cancels the rest.

        RetryLater is raised only after all other texts are settled. Vectors received before an outage are kept, so that
        a retry asks only for the rest; callers with equal texts can share them.
        """
        loop = asyncio.get_running_loop()
        asks = [Ask(text, texts, loop.create_future()) for text in texts]
        for ask in asks:
            if (vector := self._kept.pop(ask.text, None)) is not None:
                ask.give(vector)
        left = [ask for ask in asks if not ask.answer.done()]
        flow = id(asks) if flow is None else flow
        turns = self._flows.setdefault(flow, FairQueue())
        for at in range(0, len(left), FIRST):
            turns.put(id(asks), left[at : at + FIRST])
            self._waiting.put(flow, turns)
        loop.call_soon(self._fill)  # later in this turn of the loop, so that other callers' texts join the batch
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
        """Cancel the calls and all waiting callers."""
        while (ask := self._next()) is not None:
            ask.answer.cancel()
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
        while len(batch) < self._pace.texts and (ask := self._next()) is not None:
            if not ask.answer.done():  # done: its caller was cancelled or has failed
                batch.append(ask)
        return batch

    def _next(self) -> Ask | None:
        while not self._turn and self._waiting:
            callers = self._waiting.take()
            while callers and len(self._turn) < FIRST:  # notes have a text each
                self._turn.extend(callers.take())
        return self._turn.popleft() if self._turn else None

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
    """Return when every answer has a result or RetryLater; raise any other error at once."""
    pending = set(answers)
    while pending:
        _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        failed = [error for each in answers if each.done() and (error := each.exception()) is not None]
        for error in failed:
            if not isinstance(error, RetryLater):
                raise error
