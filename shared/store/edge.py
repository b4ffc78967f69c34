"""`Store` on Qdrant's embedded engine, in a child process that owns it.

It is a child process because the engine holds Python's lock while it works: a large flush would block the event loop
for 150 ms, an `optimize` for seconds. Here the loop only packs and unpacks frames.
"""

import asyncio
import itertools
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from shared import sandbox
from shared.errors import Unavailable
from shared.fair_queue import CALLER, FairTurns
from shared.settings import ConfigurationError
from shared.store import (
    EVERYTHING,
    CollectionSize,
    Filter,
    IndexKind,
    Leg,
    Order,
    Payload,
    Point,
    PointPage,
    StoreHit,
    wire,
)
from shared.store.input_validation import (
    check_after,
    check_legs,
    check_limit,
    check_name,
    check_narrow,
    check_payload,
    check_points,
)
from shared.times import PATIENCE, LoopTurns

log = structlog.get_logger(__name__)
T = TypeVar("T")

UPKEEP_EVERY_S = 10.0  # bounds the write-ahead logs, and the time to open them
_SLICE = 64  # points in one frame: some milliseconds of the engine's time, then other requests get their turn
_READ_SLICE = 256
_SEARCHES = 2  # searches sent at once: the engine works on one while the event loop processes the previous one
_READS = 1  # other reads of many points sent at once: whatever is sent is answered before what others ask for
_PROLONG_EVERY_S = 0.1  # 1,000 that wait cost 2 ms
_STOP_S = 3.0  # wait for the flush at the end
_LEAVE_S = 1.5  # wait for its exit after the flush; then it is killed, which loses nothing: its log has all writes
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 5.0
_STEADY_S = 30.0  # once a process has lived this long, the delay before its restart is short again
_IMPATIENT_S = 5.0
# The engine allocates each field of a payload by itself; freed ones are kept for reuse instead of being merged.
_MALLOC = "glibc.malloc.tcache_count=65535"

_nothing = wire.body_decoder(None)
_names = wire.body_decoder(list[str])
_points = wire.body_decoder(list[Point])
_page = wire.body_decoder(PointPage)
_number = wire.body_decoder(int)
_counts = wire.body_decoder(dict[str, int])
_sizes = wire.body_decoder(list[CollectionSize])
_found = wire.body_decoder(wire.SearchFound)


class EdgeStore:
    """The store of a folder, for one event loop. See `shared.store.Store` for the methods.

    It runs the process that owns the folder, restarts it when it dies, and ends it in `close`. With `attach` it uses
    the store process that another process runs, and reconnects after its restart.
    """

    def __init__(
        self,
        folder: Path,
        *,
        attach: bool = False,
        timeout_s: float = 60.0,
        lock_wait_s: float = 20.0,
        upkeep_every_s: float = UPKEEP_EVERY_S,
    ) -> None:
        """Take the settings; nothing is started or connected yet.

        `timeout_s` is the longest wait for a turn and an answer, `lock_wait_s` that for an earlier owner's
        process to end. `upkeep_every_s` is the time between two flushes; after each, dead points are counted.
        """
        self.folder = folder
        self._paths = wire.socket_paths(folder)
        self._timeout_s = timeout_s
        self._child = None if attach else _Child(folder, lock_wait_s, upkeep_every_s)
        self._connection: _Connection | None = None
        self._dialling = asyncio.Lock()
        self._searching, self._reading = FairTurns(_SEARCHES), FairTurns(_READS)
        self._limits: dict[asyncio.Timeout, tuple[float, float]] = {}  # of each question: seconds of patience, its end
        self._prolonged = 0.0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Return the pid of our child with the engine; None when it is down, or another process started it."""
        return None if self._child is None else self._child.pid

    async def start(self) -> None:
        """Start the process, or with `attach` connect to it, and wait until all collections are open.

        Raises:
            Unavailable: another process keeps the folder, or a collection can't be opened; or nobody serves it.
        """
        if self._child is not None:
            await self._child.start()
        await self._connected()

    async def close(self) -> None:
        """Flush, end the process unless attached, and disconnect. Later calls raise Unavailable."""
        if self._closed:
            return
        if self._child is not None:
            self._child.ending()
            if self._child.pid is not None:  # otherwise another owner's process might answer
                with suppress(Unavailable, TimeoutError):
                    async with asyncio.timeout(_STOP_S):
                        await self._ask(_nothing, "stop")
            await self._child.stop()
        self._closed = True
        if self._connection is not None:
            self._connection.close()

    async def create_collection(
        self, name: str, *, size: int | None, sparse: bool, indexes: Mapping[str, IndexKind], half: bool = False
    ) -> None:
        await self._ask(_nothing, "create_collection", check_name(name), size, sparse, dict(indexes), half)

    async def drop_collection(self, name: str) -> None:
        await self._ask(_nothing, "drop_collection", check_name(name))

    async def collections(self) -> list[str]:
        return await self._ask(_names, "collections")

    async def upsert(self, name: str, points: Sequence[Point], *, only_if: Filter | None = None) -> None:
        await self._check(name, points)
        for some in _slices(points, _SLICE):
            await self._ask(_nothing, "upsert", name, some, only_if)

    async def put_if(
        self, name: str, points: Sequence[Point], only_if: Filter | None, *, fields: Sequence[str] | None = None
    ) -> list[Point]:
        await self._check(name, points)
        stored: list[Point] = []
        for some in _slices(points, _SLICE):
            stored += await self._ask(_points, "put_if", name, some, only_if, fields)
        return stored

    @staticmethod
    async def _check(name: str, points: Sequence[Point]) -> None:
        check_name(name)
        turns = LoopTurns()  # a point's metadata may take milliseconds
        for point in points:
            check_points([point])
            await turns.give()

    async def set_payload(self, name: str, payload: Payload, where: Filter) -> None:
        check_payload(payload, f"payload for {name}")
        await self._ask(_nothing, "set_payload", check_name(name), payload, where)

    async def retrieve(
        self, name: str, ids: Sequence[str], *, vectors: bool = False, fields: Sequence[str] | None = None
    ) -> list[Point]:
        check_name(name)
        found: list[Point] = []
        for some in _slices(ids, _READ_SLICE):
            found += await self._ask(_points, "retrieve", name, some, vectors, fields)
        return found

    async def scroll(
        self,
        name: str,
        where: Filter = EVERYTHING,
        *,
        limit: int = 256,
        after: str | None = None,
        vectors: bool = False,
        fields: Sequence[str] | None = None,
        order: Order | None = None,
    ) -> PointPage:
        arguments = check_name(name), where, check_limit(limit), check_after(after), vectors, fields, order
        return await self._ask(_page, "scroll", *arguments, turns=self._reading)

    async def count(self, name: str, where: Filter = EVERYTHING) -> int:
        return await self._ask(_number, "count", check_name(name), where, turns=self._reading)

    async def facet(self, name: str, field: str, where: Filter = EVERYTHING, *, limit: int = 1000) -> dict[str, int]:
        arguments = check_name(name), field, where, check_limit(limit)
        return await self._ask(_counts, "facet", *arguments, turns=self._reading)

    async def delete(self, name: str, where: Filter) -> None:
        await self._ask(_nothing, "delete", check_name(name), check_narrow(where))

    async def search(
        self, name: str, legs: Sequence[Leg], where: Filter, *, limit: int, heads: str
    ) -> list[list[StoreHit]]:
        check_legs(legs)
        arguments = check_name(name), legs, where, check_limit(limit), heads
        # If twenty were sent, their answers would come together, and each step of all other work would wait for all of
        # them to be decoded and scored.
        found: wire.SearchFound = await self._ask(_found, "search", *arguments, turns=self._searching)
        return found.hits()

    async def rewrite(self, name: str) -> None:
        """Return when the files hold the collection's current points and nothing of deleted ones, and have its index.

        Reads and writes go on meanwhile. Raises Unavailable; then the old files stay, and it can be called again.
        """
        rewriting = asyncio.create_task(self._ask(_nothing, "rewrite", check_name(name), patience_s=math.inf))
        try:
            while not (await asyncio.wait([rewriting], timeout=self._timeout_s))[0]:
                await self.collections()  # a store that hangs would be waited for as long as one that works
            await rewriting
        finally:
            rewriting.cancel()

    async def sizes(self) -> list[CollectionSize]:
        """Return the size of each collection, in the order of their names. Raises Unavailable."""
        return await self._ask(_sizes, "sizes")

    async def flush(self) -> None:
        await self._ask(_nothing, "flush")

    async def _ask(
        self,
        decoder: "msgspec.msgpack.Decoder[T]",
        method: str,
        *arguments: Any,
        patience_s: float | None = None,
        turns: FairTurns | None = None,
    ) -> T:
        """Return the answer, to a question that is sent when the caller has its turn.

        Raises:
            Unavailable: the store answered nobody for `patience_s`, or this question not within the longest wait.
        """
        patience_s = min(self._timeout_s, PATIENCE.get()) if patience_s is None else patience_s
        limit = asyncio.timeout(patience_s)
        self._limits[limit] = patience_s, asyncio.get_running_loop().time() + max(patience_s, self._timeout_s)
        try:
            async with limit, nullcontext() if turns is None else turns.turn(CALLER.get()):
                connection = self._connection
                if connection is None or connection.lost:
                    connection = await self._connected()
                reply = await connection.start(wire.Request(method, arguments))
                self._prolong()
        except TimeoutError:
            raise Unavailable(f"the store gave no answer to {method} within {patience_s:g} s") from None
        finally:
            del self._limits[limit]
        if isinstance(reply, wire.CallFailed):
            raise _error(reply)
        return decoder.decode(reply.body)

    def _prolong(self) -> None:
        """Let everybody wait on: a store that has just answered does not hang."""
        now = asyncio.get_running_loop().time()
        if now - self._prolonged < _PROLONG_EVERY_S:
            return
        self._prolonged = now
        for limit, (patience_s, end) in self._limits.items():
            if not limit.expired():
                limit.reschedule(min(now + patience_s, end))

    async def _connected(self) -> "_Connection":
        async with self._dialling:
            if self._connection is None or self._connection.lost:
                self._connection = await self._dial()
            return self._connection

    async def _dial(self) -> "_Connection":
        if self._closed:
            raise Unavailable(f"the store of {self.folder} is closed")
        loop = asyncio.get_running_loop()
        for path in self._paths:
            try:
                wire.check_private(path)
                _, connection = await loop.create_unix_connection(_Connection, str(path))
            except OSError as error:
                reason = error.strerror
            else:
                return connection
        raise Unavailable(f"the store of {self.folder} is not running: {reason}")


class _Connection(asyncio.Protocol):
    """Calls in progress on one socket. Requests of one turn of the event loop are sent in one write."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames = wire.Frames()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[wire.Reply]] = {}
        self._unsent: list[bytes] = []
        self.lost = False

    def start(self, request: wire.Request) -> "asyncio.Future[wire.Reply]":
        """Send the request with the next write, and return its reply to come."""
        number = next(self._numbers)
        frame = wire.call_frame(number, request)
        if self.lost:
            raise Unavailable("the connection to the store was lost")
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(frame)
        reply: asyncio.Future[wire.Reply] = self._loop.create_future()
        self._waiting[number] = reply
        return reply

    def _send(self) -> None:
        if not self.lost:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                reply = wire.REPLIES.decode(frame)
                waiting = self._waiting.pop(reply.number, None)
                if waiting is not None and not waiting.done():  # done: its caller has timed out
                    waiting.set_result(reply)
        except (ValueError, msgspec.DecodeError):
            log.exception("store_answer_unreadable")
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio.Protocol's signature
        self.lost = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Unavailable("the connection to the store was lost"))


class _Child:
    """The process that owns the folder: one at a time, restarted when it ends unasked."""

    def __init__(self, folder: Path, lock_wait_s: float, upkeep_every_s: float) -> None:
        self._folder = folder
        self._lock_wait_s = lock_wait_s
        self._upkeep_every_s = upkeep_every_s
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._last_words = ""
        self._ending = False

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Return when it is ready. Raises Unavailable with the process's own reason if it ends before."""
        await self._run()
        self._keeper = asyncio.create_task(self._keep(), name="store-keeper")

    def ending(self) -> None:
        """Expect the process to end: from now on it isn't restarted."""
        self._ending = True
        if self._keeper is not None:
            self._keeper.cancel()

    async def stop(self) -> None:
        self.ending()
        if self._keeper is not None:
            await asyncio.wait([self._keeper])
        await self._end(_LEAVE_S)

    async def _run(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"{__package__}.edge_server",
            str(self._folder.resolve()),
            str(self._lock_wait_s),
            str(self._upkeep_every_s),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=2**20,  # bytes of a line
            # numpy's threads are never used there, and cost a third of its start.
            env=sandbox.environment(RUST_BACKTRACE="0", GLIBC_TUNABLES=_MALLOC, OPENBLAS_NUM_THREADS="1"),
            start_new_session=True,  # Ctrl-C in a terminal goes to its whole process group
        )
        self._listener = asyncio.create_task(self._listen(self._process), name="store-listener")
        ready = asyncio.create_task(self._ready(self._process))
        try:
            while not (await asyncio.wait([ready], timeout=_IMPATIENT_S))[0]:
                log.info("store_opening", folder=str(self._folder))
            if not await ready:
                await self._end(0.0)
                raise Unavailable(self._last_words or f"the store of {self._folder} ended before it was ready")
        except asyncio.CancelledError:
            ready.cancel()
            await self._end(0.0)
            raise

    @staticmethod
    async def _ready(process: asyncio.subprocess.Process) -> bool:
        assert process.stdout is not None
        return await process.stdout.readline() == b"ready\n"

    async def _keep(self) -> None:
        delay = _FIRST_DELAY_S
        while True:
            began = time.monotonic()
            assert self._process is not None
            code = await self._process.wait()
            if time.monotonic() - began > _STEADY_S:
                delay = _FIRST_DELAY_S
            log.warning("store_ended", code=code, restart_in_s=delay)
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY_S)
            try:
                await self._run()
            except Exception as error:  # noqa: BLE001 - such as a thread too many: nobody else would try again
                log.error("store_not_restarted", reason=str(error))  # noqa: TRY400 - the sentence says it all

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Copy the process's lines to our log until it ends: a full pipe would block it."""
        assert process.stderr is not None
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:  # a line beyond the limit
                continue
            if not line:
                return
            text = line.decode(errors="replace").strip()
            try:
                fields = msgspec.json.decode(text, type=dict[str, Any])
            except msgspec.DecodeError:
                fields = {"text": text}
            self._last_words = str(fields.get("reason", text))
            log.warning(fields.pop("event", "store_says"), **fields)

    async def _end(self, patience_s: float) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            async with asyncio.timeout(patience_s):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._listener is not None:
            await self._listener


def _error(failed: wire.CallFailed) -> Exception:
    match failed.kind:
        case "value":
            return ValueError(failed.sentence)
        case "settings":
            return ConfigurationError(f"SLUICE_STORE: {failed.sentence}")
        case "missing":
            return Unavailable(failed.sentence, "no_collection")
        case "unavailable":
            return Unavailable(failed.sentence, "store_failed")


def _slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[at : at + size] for at in range(0, len(items), size))
