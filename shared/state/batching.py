"""Combines the single look-ups of one event loop turn into one call."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Batcher(Generic[K, V]):
    """Combines look-ups of single keys into batches.

    Look-ups of one event loop turn share one call of `load`, which starts after them: no value is older than its
    look-up.
    """

    def __init__(self, load: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]], most: int = 256) -> None:
        self._load = load
        self._most = most
        self._waiting: dict[K, list[asyncio.Future[V | None]]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def get(self, key: K) -> V | None:
        """Return the key's value, or None if `load` returned none. Raises what `load` raises."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._send)
        # One future per caller: a cancelled caller must not cancel another's look-up, and a shield costs twice as much.
        future: asyncio.Future[V | None] = loop.create_future()
        self._waiting.setdefault(key, []).append(future)
        return await future

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        keys = list(waiting)
        for start in range(0, len(keys), self._most):
            part = {key: waiting[key] for key in keys[start : start + self._most]}
            task = asyncio.get_running_loop().create_task(self._answer(part))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _answer(self, part: dict[K, list[asyncio.Future[V | None]]]) -> None:
        try:
            found = await self._load(list(part))
        except BaseException as error:
            for future in itertools.chain.from_iterable(part.values()):
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for key, futures in part.items():
            for future in futures:
                if not future.done():
                    future.set_result(found.get(key))
