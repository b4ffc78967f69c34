"""The process that owns the embedded engine: `python -m shared.store.edge_server FOLDER LOCK_WAIT_S UPKEEP_EVERY_S`.

It ends when the process at the other end of its standard input ends. It writes `ready` to standard output once every
collection is open and the socket answers, and its log events to standard error, one JSON line each. It ignores Ctrl-C
and SIGTERM: its parent handles them, and may still have to write.
"""

import asyncio
import fcntl
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from shared import sandbox
from shared.fair_queue import FairQueue
from shared.store import wire
from shared.store.collection_compaction import Rewriter
from shared.store.edge_engine import Broken, Engine, Mismatch, NoCollection, Unserved, arguments_of, sync_logs
from shared.store.file_prefetch import available_memory, read_ahead
from shared.store.index_builder import IndexBuilder

_POLL_S = 0.02  # polled: a blocking lock call would not notice that the parent has ended


def lock(folder: Path, wait_s: float, parent: int) -> bool:
    """Return whether this process could lock the folder within the time; the lock lasts until the process ends.

    Call it before a shard is opened: the engine refuses to open a shard twice, but the attempt breaks the first opener.
    """
    # The file is never closed. If this lock were released before the engine's own locks, the next owner would open a
    # shard that is still open here.
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    deadline = time.monotonic() + wait_s
    while not (_locked(descriptor) and _all_closed(folder)):
        if time.monotonic() > deadline or os.getppid() != parent:
            return False
        time.sleep(_POLL_S)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return True


def _listener(folder: Path) -> socket.socket:
    """Return a socket for this user alone. The folder is locked: a socket that is there was left by a killed owner.

    Raises:
        OSError: no place can have it; the sentence is about the last one.
    """
    for path in wire.socket_paths(folder):
        try:
            if path.name != wire.IN_FOLDER:
                path.parent.mkdir(mode=0o700, exist_ok=True)
            wire.check_private(path)
            path.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            inherited = os.umask(0o177)  # nobody else may connect, not even for a moment
            try:
                listener.bind(str(path))
            finally:
                os.umask(inherited)
        except OSError as error:
            reason = error
        else:
            return listener
    raise reason


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _all_closed(folder: Path) -> bool:
    """Return whether no shard is open any more: the locks of an ending process aren't all released at one moment."""
    for log in folder.glob("collections/*/*/wal"):
        descriptor = os.open(log, os.O_RDONLY)
        try:
            if not _locked(descriptor):
                return False
        finally:
            os.close(descriptor)
    return True


LOCKED, BROKEN, FAILED = 3, 4, 5  # exit codes
_WATCH_S = 0.5  # between checks that the parent is alive
_LONG_LOAD_S = 1.0
Send = Callable[[bytes], None]  # sends a call's reply
_name = wire.body_decoder(tuple[str])  # arguments of a rewrite
_TURN_S = 0.002  # requests are answered for so long, or one at least, before new ones are read


def tell(event: str, **fields: object) -> None:
    """Write a line, which the parent copies to its own log."""
    with suppress(OSError):  # the parent may be gone
        sys.stderr.write(msgspec.json.encode({"event": event, **fields}).decode() + "\n")
        sys.stderr.flush()


class _Server:
    """Answers all connections from one engine, one request at a time: the engine can't serve two at once.

    Collections take turns, and searches and other requests of one collection do, so that a write of the registry or of
    a document doesn't wait for a queue of searches.
    """

    def __init__(self, engine: Engine, rewriter: Rewriter) -> None:
        self._engine = engine
        self._rewriter = rewriter
        self.ended = asyncio.Event()
        self.flushed = False  # the owner asked for a flush, and it is done
        self.code = 0
        self._waiting: FairQueue[tuple[int, wire.Request, Send]] = FairQueue()
        self._works = False  # `_work` is scheduled
        self._syncs: list[tuple[int, Send]] = []
        self._to_sync = asyncio.Event()

    def end(self, code: int = 0) -> None:
        self.code = self.code or code
        self.ended.set()

    def hear(self) -> None:
        """Stop when standard input ends. Nobody writes to it, so its end means that the parent is gone."""
        if not os.read(sys.stdin.fileno(), 4096):
            self.end()

    def take(self, frame: bytes, send: Send) -> None:
        """Queue a request, whose reply goes to `send`; that of a flush comes when the answered writes are on disk."""
        call = wire.CALLS.decode(frame)
        try:
            if call.method == "rewrite":
                task = asyncio.create_task(self._rewriter.now(*_name.decode(call.arguments)))
                task.add_done_callback(lambda done: self._answer(call.number, send, done.result))
                return
            stops = call.method == "stop"
            method = "flush" if stops else call.method
            request = wire.Request(method, arguments_of(method).decode(call.arguments))
        except (ValueError, msgspec.DecodeError) as error:
            send(wire.failed_frame(call.number, "value", f"not a request: {error}"))
            return
        if stops:
            self._work(float("inf"))  # what was asked before is answered
            self._answer(call.number, send, partial(self._engine.answer, request), stops=True)
            return
        if method == "flush":
            self._syncs.append((call.number, send))
            self._to_sync.set()
            return
        flow = next(iter(request.arguments), ""), method == "search"
        self._waiting.put(flow, (call.number, request, send))
        if not self._works:
            self._works = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self, longest_s: float = _TURN_S) -> None:
        """Answer requests for some time, then let others come in."""
        self._works = False
        until = time.monotonic() + longest_s
        while self._waiting and not self.ended.is_set():
            if time.monotonic() > until:
                self._works = True
                asyncio.get_running_loop().call_soon(self._work)
                return
            number, request, send = self._waiting.take()
            self._answer(number, send, partial(self._engine.answer, request))

    def _answer(self, number: int, send: Send, answer: Callable[[], Any], *, stops: bool = False) -> None:
        try:
            reply = wire.done_frame(number, answer())
            if stops:
                self.flushed = True
                self.end()
        except ValueError as error:
            reply = wire.failed_frame(number, "value", str(error))
        except Mismatch as error:
            reply = wire.failed_frame(number, "settings", str(error))
        except NoCollection as error:
            reply = wire.failed_frame(number, "missing", str(error))
        except Unserved as error:
            tell("store_request_failed", reason=str(error))
            if isinstance(error, Broken):
                self.end(BROKEN)
            reply = wire.failed_frame(number, "unavailable", str(error))
        except asyncio.CancelledError:  # a rewrite, as the process ends
            return
        except BaseException as error:  # noqa: BLE001 - of a rewrite: who asked would wait for ever
            tell("store_request_failed", reason=repr(error))
            reply = wire.failed_frame(number, "unavailable", str(error) or type(error).__name__)
        send(reply)

    async def sync(self) -> None:
        """Sync the write-ahead logs whenever a flush is requested; one sync answers all waiting requests.

        It runs in a thread, so that searches go on. The engine's own flush would block them.
        """
        while True:
            await self._to_sync.wait()
            self._to_sync.clear()
            waiting, self._syncs = self._syncs, []
            unsynced = self._engine.unsynced()
            for each in unsynced:
                each.unsynced = False
            try:
                await asyncio.to_thread(sync_logs, [each.log for each in unsynced])
            except OSError as error:
                for each in unsynced:
                    each.unsynced = True
                tell("store_sync_failed", reason=str(error))
                for number, send in waiting:
                    send(wire.failed_frame(number, "unavailable", f"the disk did not take the writes: {error}"))
            else:
                for number, send in waiting:
                    send(wire.done_frame(number, None))

    async def keep(self, parent: int, flush_every_s: float) -> None:
        """Flush at intervals. Stop when the parent is gone, even if another of its children keeps the pipe open."""
        flushed = time.monotonic()
        while True:
            await asyncio.sleep(_WATCH_S)
            if os.getppid() != parent:
                self.end()
            if time.monotonic() - flushed >= flush_every_s:
                self._engine.answer(wire.Request("flush", ()))
                flushed = time.monotonic()

    async def rewrite_what_is_due(self, every_s: float) -> None:
        """Rewrite collections with too many dead points, for ever."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self._rewriter.look()
            except Broken:
                raise
            except Exception as error:  # noqa: BLE001 - such as a file that the engine deletes while it is measured
                tell("store_rewrite_failed", reason=repr(error))

    async def run(self, *loops: Coroutine[Any, Any, None]) -> None:
        """Run the loops until `ended` is set. One that fails sets it: others would wait for ever for what it does."""
        tasks = [asyncio.create_task(each) for each in loops]
        for task in tasks:
            task.add_done_callback(self._failed)
        await self.ended.wait()
        for task in tasks:
            task.cancel()

    def _failed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            error = task.exception()
            tell("store_failed", reason=str(error) if isinstance(error, Unserved) else repr(error))
            self.end(BROKEN)


class _Session(asyncio.Protocol):
    """One connection."""

    _transport: asyncio.Transport

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._frames = wire.Frames()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if self._server.ended.is_set():
                    return
                self._server.take(frame, self._transport.write)
        except (ValueError, msgspec.DecodeError) as error:
            tell("store_connection_refused", reason=str(error))
            self._transport.abort()

    def pause_writing(self) -> None:
        self._transport.pause_reading()  # a client that doesn't read its answers may send no more requests

    def resume_writing(self) -> None:
        self._transport.resume_reading()


async def _serve(  # noqa: PLR0917 - of `main` alone
    engine: Engine, bound: socket.socket, parent: int, folder: Path, builder: IndexBuilder, upkeep_every_s: float
) -> tuple[int, bool]:
    """Return the exit code, and whether the engine was flushed."""
    loop = asyncio.get_running_loop()
    server = _Server(engine, Rewriter(engine, folder, tell, builder))
    listener = await loop.create_unix_server(lambda: _Session(server), sock=bound)
    loop.add_reader(sys.stdin.fileno(), server.hear)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.run(server.keep(parent, upkeep_every_s), server.sync(), server.rewrite_what_is_due(upkeep_every_s))
    builder.stop()
    listener.close()
    return server.code, server.flushed


def main(folder: Path, lock_wait_s: float, upkeep_every_s: float, parent: int) -> int:
    """Serve until the parent is gone or asks to stop; return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    if not lock(folder, lock_wait_s, parent):
        tell("store_not_started", reason=f"{folder} is in use by process {(folder / 'lock').read_text()}")
        return LOCKED
    try:
        listener = _listener(folder)
    except OSError as error:
        tell("store_not_started", reason=str(error))
        return FAILED
    path = Path(listener.getsockname())
    memory = available_memory()
    builder = IndexBuilder(folder)  # started now, because a confined process may start none
    sandbox.confine(sandbox.STORE, read=sandbox.libraries(), write=[folder, path.parent])
    engine = Engine(folder)
    try:
        engine.load(_tell_long_load)
        # A daemon: it mustn't keep the process from ending.
        threading.Thread(target=read_ahead, args=(engine.searched_files(), memory // 2), daemon=True).start()
    except BaseException as error:  # noqa: BLE001 - a Rust panic, too: the parent must learn the reason
        tell("store_not_started", reason=f"a collection in {folder} can't be opened: {error}; {wire.DAMAGED}")
        return FAILED
    code, flushed = asyncio.run(_serve(engine, listener, parent, folder, builder, upkeep_every_s))
    path.unlink(missing_ok=True)
    # If the parent is gone, exit at once, because the next process waits for the lock; the logs have every write.
    if flushed:
        engine.close()
    return code


def _tell_long_load(name: str, seconds: float) -> None:
    if seconds > _LONG_LOAD_S:
        tell("store_collection_opened", collection=name, seconds=round(seconds, 1))


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Not sys.exit: there is nothing left to finalise, and the engine's threads needn't be joined.
    os._exit(main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), os.getppid()))
