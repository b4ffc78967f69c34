"""A TCP proxy that does to a connection what networks and dying servers do, at the word of a test."""

import asyncio
import random
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

Mode = Literal[
    "pass",
    "refused",  # nobody listens, and what was open is reset
    "silent",  # takes connections and bytes, and passes none on
    "slow",  # 200 bytes a second and direction
    "cut",  # resets each connection within its first 400 bytes of answer
    "garbage",  # answers with random bytes
    "flipped",  # flips a bit in about every 300 bytes of answer
]
_BLOCK = 1 << 16
_SLOW_BLOCK = 50
_CUT = 400
_FLIP = 300


class Proxy:
    """Listens on a loopback port of its own and passes on to another, from a thread of its own."""

    def __init__(self, host: str, port: int, seed: int = 0) -> None:
        self._target = host, port
        self._rng = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._moved = asyncio.Event()
        self._mode: Mode = "pass"
        self.port = 0
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._call(self._listen())

    @property
    def address(self) -> str:
        """Return host:port."""
        return f"127.0.0.1:{self.port}"

    def set(self, mode: Mode) -> None:
        """Treat all connections so from now on; those that are open are reset, but for `silent` and `slow`."""
        self._call(self._set(mode))

    def close(self) -> None:
        """End all of it."""
        self._call(self._set("refused"))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _set(self, mode: Mode) -> None:
        self._mode = mode
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        if mode not in ("silent", "slow"):
            await self._reset()
        if mode == "refused" and self._server is not None:
            for listening in self._server.sockets:
                self._loop.remove_reader(listening.fileno())
            # a connection that was taken a moment ago has no task yet, and needs the open server to get one
            while asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.sleep(0)
                await self._reset()
            self._server.close()
            self._server = None
        elif mode != "refused" and self._server is None:
            await self._listen()

    async def _reset(self) -> None:
        for task, writer in self._connections.items():
            writer.transport.abort()
            task.cancel()
        if self._connections:
            await asyncio.wait(list(self._connections))

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            del self._connections[task]
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "garbage":
            await reader.read(_BLOCK)
            writer.write(self._rng.randbytes(2000))
            await writer.drain()
            return
        there, back = await asyncio.open_connection(*self._target)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, back, answers=False))
                group.create_task(self._pump(there, writer, answers=True))
        except* (OSError, _Over):
            pass
        finally:
            back.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        passed = 0
        while data := await reader.read(_BLOCK):
            while self._mode == "silent":
                await self._moved.wait()
            if self._mode == "cut" and answers and passed + len(data) > _CUT:
                writer.write(data[: max(0, _CUT - passed)])
                await writer.drain()
                break
            if self._mode == "flipped" and answers:
                data = self._flipped(data)
            passed += len(data)
            while self._mode == "slow" and data:
                writer.write(data[:_SLOW_BLOCK])
                data = data[_SLOW_BLOCK:]
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), 0.25)
            writer.write(data)
            await writer.drain()
        raise _Over  # which ends the other direction too

    def _flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(len(data) // _FLIP + (self._rng.randrange(_FLIP) < len(data) % _FLIP)):
            changed[self._rng.randrange(len(changed))] ^= 1 << self._rng.randrange(8)
        return bytes(changed)


class _Over(Exception):  # noqa: N818 - says what happened
    pass


@contextmanager
def proxied(address: str) -> Iterator[Proxy]:
    """Give a proxy of host:port."""
    host, _, port = address.rpartition(":")
    proxy = Proxy(host, int(port))
    try:
        yield proxy
    finally:
        proxy.close()
