"""Combines the look-ups and writes of many callers into few calls."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from typing import Final, Generic, NamedTuple, TypeVar

from shared.errors import Unavailable
from shared.times import PATIENCE

G = TypeVar("G")
K = TypeVar("K")
V = TypeVar("V")

_AT_ONCE: Final = 2  # calls: the store works on one while the event loop makes the next


def grouped(items: Iterable[K], group_of: Callable[[K], G]) -> dict[G, list[K]]:
    """Return the items by their group, in their order."""
    groups: dict[G, list[K]] = {}
    for each in items:
        groups.setdefault(group_of(each), []).append(each)
    return groups


class WaitingCaller(NamedTuple, Generic[K, V]):
    """A look-up that waits, in the context of its caller."""

    keys: Sequence[K]
    # One future per caller: a cancelled caller must not cancel another's look-up, and a shield costs twice as much.
    future: asyncio.Future[Mapping[K, V]]
    context: Context
    patience_s: float


class Batcher(Generic[K, V]):
    """Combines look-ups of keys into batches.

    Look-ups of one event loop turn share one call of `load`, which starts after them: no value is older than its
    look-up. While `at_once` calls are under way, further look-ups wait and then share the next one, so calls get larger
    as the store gets busier, instead of more.

    If a shared call raises anything but Unavailable, `load` is called for each caller alone, so that only the one at
    fault fails. Writes must therefore be safe to repeat. A caller that is cancelled, or whose `PATIENCE` is over,
    doesn't stop the call under way, which has that of its most patient caller.
    """

    def __init__(
        self, load: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]], most: int = 256, at_once: int = _AT_ONCE
    ) -> None:
        """Take `load`, and the number of keys from which on a call is full."""
        self._load = load
        self._most = most
        self._at_once = at_once
        self._waiting: list[WaitingCaller[K, V]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._scheduled = False

    async def get(self, key: K) -> V | None:
        """Return the key's value, or None if `load` returned none. Raises what `load` raises."""
        return (await self.get_all((key,))).get(key)

    async def get_all(self, keys: Sequence[K]) -> Mapping[K, V]:
        """Return the values of the keys that have one, and perhaps of others.

        Raises:
            Unavailable: there was no answer within the caller's `PATIENCE`. Anything that `load` raises.
        """
        if not keys:
            return {}
        loop = asyncio.get_running_loop()
        caller: WaitingCaller[K, V] = WaitingCaller(keys, loop.create_future(), copy_context(), PATIENCE.get())
        self._waiting.append(caller)
        if not self._scheduled and len(self._running) < self._at_once:
            self._scheduled = True
            loop.call_soon(self._send)
        if caller.patience_s == math.inf:  # a timeout costs 3 % of a document's way
            return await caller.future
        try:
            async with asyncio.timeout(caller.patience_s):
                return await caller.future
        except TimeoutError:
            raise Unavailable(f"the store gave no answer within {caller.patience_s:g} s") from None

    def _send(self) -> None:
        self._scheduled = False
        while self._waiting and len(self._running) < self._at_once:
            keys: dict[K, None] = {}
            callers: list[WaitingCaller[K, V]] = []  # not `list[…]()`, which would be looked up each time
            taken = 0
            for caller in self._waiting:
                if callers and len(keys) + len(caller.keys) > self._most:
                    break
                taken += 1
                if not caller.future.done():  # done: it was cancelled
                    keys |= dict.fromkeys(caller.keys)
                    callers.append(caller)
            del self._waiting[:taken]
            if callers:
                # In the context of a caller, not in that of the call before: log lines name the request in it.
                context = max(callers, key=lambda each: each.patience_s).context
                task = asyncio.get_running_loop().create_task(self._answer([*keys], callers), context=context)
                self._running.add(task)
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._send()

    async def _answer(self, keys: Sequence[K], callers: Sequence[WaitingCaller[K, V]]) -> None:
        try:
            found = await self._load(keys)
        except BaseException as error:
            if len(callers) > 1 and isinstance(error, Exception) and not isinstance(error, Unavailable):
                for caller in callers:
                    await self._answer(caller.keys, [caller])
                return
            for caller in callers:
                if not caller.future.done():
                    caller.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for caller in callers:
            if not caller.future.done():
                caller.future.set_result(found)
