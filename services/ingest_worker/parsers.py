"""Parses files in child processes, which are killed when they hang or use too much memory."""

import asyncio
import contextlib
import os
import pickle
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import NamedTuple

import msgspec
import structlog

from services.ingest_worker import parser_child
from services.ingest_worker.chunk import from_prepared, version_chunks
from services.ingest_worker.extract import Extraction, Hints, detect, extract, limits
from services.ingest_worker.parser_child import (
    LENGTH_BYTES,
    MOST_FRAME,
    PART_TEXT,
    ParserBegun,
    ParserFailed,
    ParserJob,
    ParserOutOfMemory,
    ParserPart,
    ParserRead,
    ParserReady,
    ParserRefused,
    Reply,
)
from shared import sandbox
from shared.contracts import Chunk, DocumentExtracted, DocumentVersion, PreparedChunk
from shared.embedder import TokenCounter
from shared.errors import PipelineError, Rejected, RetryLater, Unavailable
from shared.fair_queue import FairTurns
from shared.inputs.limits import LONGEST_URL
from shared.log import Record
from shared.log.consume import Handle, stepped_aside
from shared.settings import Settings
from shared.state.index import Generation

log = structlog.get_logger(__name__)

_LIGHT_BYTES = 64 * 1024  # up to this size, parsing a text costs less than sending it to a child process
_TINY_BYTES = 4 * 1024  # up to this size, parsing takes a fraction of a millisecond, as much as a thread hand-over
_START_S = 60.0  # a busy machine may take long to start a process
_POLL_S = 0.05
_MOST_PIECES = 100_000  # of a reply: frames, links, chunks, pages and parts; a document has at most 71,000
# Else kreuzberg and numpy start as many threads as there are processors, for one file at a time.
_ONE_THREAD = {"TOKIO_WORKER_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_MOST_THREADS = 64  # the readers of all formats start 13 on a machine with 64 processors
_UNLOCKED_PER_BYTE = 4  # pdfium writes a file anew
_PICTURE = 20 << 20  # bytes of a page's picture
_TRIES = 3  # for a document that takes too long by the wall clock
_TRIES_ALONE = 2  # for a record that may have killed the worker
_LONG = 1 << 20  # characters, which take a second or more to be chunked
_CHUNKING_S_PER_BYTE = 10e-6  # Chinese text takes a sixth
_CHUNKED_PER_BYTE = 16  # characters of JSON; usual chunks take two
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PIECE = 256 * 1024  # bytes of a file that are on their way to a process at a time
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_alone: ContextVar[bool] = ContextVar("alone", default=False)  # the record being handled may have killed the worker
_CHUNK = msgspec.json.Decoder(Chunk)
_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


class _TimeOut(Exception):  # noqa: N818 - says what happened to the document
    pass


class _OverLimit(PipelineError):  # noqa: N818 - as above
    """It used more than it may have, and would again; `code` says of what."""


class _Died(Exception):  # noqa: N818 - as above
    pass


class _Slow(Exception):  # noqa: N818 - as above
    pass


class _Memory(NamedTuple):
    """Bytes of memory that a parser may hold: usually, and for a document with images for OCR."""

    usual: int
    images: int


class _Usage(NamedTuple):
    """What all threads of a process have used, and hold; the defaults on a system without /proc."""

    cpu_s: float | None = None
    resident: int = 0  # bytes
    threads: int = 0


def alone(handle: Handle) -> Handle:
    """Return `handle` for records that may have killed the worker.

    What it would read or chunk in the worker itself, a parser process does, for one such record at a time. A record
    that kills the process, or exceeds a limit, twice is rejected with code `killed_the_worker`.
    """

    async def handle_alone(record: Record) -> None:
        _alone.set(True)  # each record has a task, and so a context, of its own
        await handle(record)

    return handle_alone


@dataclass
class ParserPool:
    """Parses files in at most `size` processes at a time. Waiting tenants take turns, each with its oldest file.

    Processes start when they are needed and stay. Each reads the documents of one tenant only: whatever a document
    leaves behind in it, no other tenant meets. Up to `kept` processes stay; when there are more tenants than that, the
    one unused for longest makes room for a new one. They are confined (`shared.sandbox`) unless `confined` is False.

    A document gets `cpu_s` seconds of CPU time, 0.1 more for each
    PDF page (up to 1,000) and 20 for each page image for OCR (up to 100). It gets `memory_mb` MB of resident memory,
    or `image_memory_mb` with such images. At either limit its process is killed, and the next document gets a new one.
    A reader that goes page by page stops before the limit and returns the pages so far.
    The wall clock has a limit, too: `wall_factor` times the CPU limit, for readers that wait without working.

    Slow documents, which use more than `patience_s` of that time or killed their process, get at most half of the
    processes, so that the others aren't delayed. A document that turns out to be slow while that half is taken is
    stopped, and starts over when a process is free for it.
    """

    size: int
    _: KW_ONLY
    cpu_s: float = 10.0
    wall_factor: float = limits.WALL_FACTOR
    patience_s: float = 2.0
    again_s: float = 60.0  # between two tries; together with the wall-clock limit, the last begins within ten minutes
    memory_mb: int = 512
    image_memory_mb: int = 1200
    most_text: int = limits.MOST_TEXT
    kept: int = 6
    confined: bool = True
    program: str = parser_child.__name__  # the module to run as a parser

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"parsers {self.size} must be at least 1")
        self._memory = _Memory(self.memory_mb << 20, max(self.memory_mb, self.image_memory_mb) << 20)
        self._kept = max(self.size, self.kept)
        self._turns = FairTurns(self.size)
        self._slow_turns = FairTurns(max(1, self.size // 2))
        threads = max(3, os.cpu_count() or 1)  # of the process' own, which are more by four
        self._chunking, self._long_chunking = FairTurns(threads, threads - 1), FairTurns(threads - 1, 1)
        self._idle: list[_Child] = []  # the one unused for longest first
        self._busy: set[_Child] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._suspect = asyncio.Lock()  # held for the one record that is handled alone
        self._closed = False

    async def extract(self, data: bytes, hints: Hints, *, tenant: str, wait_s: float | None = None) -> Extraction:
        """Return the file's text and properties, and its links if the hints ask for them.

        If a file has waited for a process for `wait_s` seconds, it is given up. None: it waits as long as it takes.

        Raises:
            Rejected: code `empty`, `unsupported`, `damaged`, `password`, `too_large`, or `timeout` after its CPU time.
            RetryLater: code `timeout` by the wall clock: the machine may have been too busy.
            Unavailable: no process can be started, none was free in time, or the pool is closed.
            RuntimeError: a bug in a reader, with its traceback.
        """
        job = ParserJob(data, hints, self.cpu_s, self.most_text)
        if len(data) <= _LIGHT_BYTES and (form := detect(data, hints)).light:
            if _alone.get():
                return await self._ask_alone(job, tenant)

            def read() -> Extraction:
                with limits.lightly():
                    return extract(data, hints, self.most_text, form)

            with contextlib.suppress(limits.Heavy):  # a text with HTML in it, or with a file
                return read() if len(data) <= _TINY_BYTES else await asyncio.to_thread(read)
        return await self._read(job, tenant, wait_s)

    async def pdf_copy(
        self,
        data: bytes,
        *,
        tenant: str,
        filename: str | None,
        password: str | None = None,
        page: int | None = None,
        wait_s: float | None = None,
    ) -> bytes:
        """Return the file without its lock, or its page, counted from 1, as PNG; see `extract.pdf_conversion`.

        Raises:
            Rejected, RetryLater, Unavailable: as `extract`.
        """
        most = _PICTURE if password is None else _UNLOCKED_PER_BYTE * len(data) + (1 << 20)
        job = ParserJob(data, Hints(filename=filename), self.cpu_s, most, password=password, page=page)
        made = await self._read(job, tenant, wait_s)
        return await asyncio.to_thread(made.text.encode, "latin-1")

    async def _read(self, job: ParserJob, tenant: str, wait_s: float | None) -> Extraction:
        hints = job.hints
        try:
            try:
                return await self._quickly(job, tenant, wait_s)
            except (_Died, _Slow):
                # The system may have killed the process. If it dies twice, the document is the cause.
                async with _turn(self._slow_turns, tenant, wait_s):
                    return await self._in_turn(job, tenant, _always, wait_s)
        except _Died as end:
            raise Rejected(f"{hints.name} is damaged: it {end}", "damaged") from None
        except _TimeOut as end:
            raise RetryLater(f"{hints.name} {end} to read", "timeout", after_s=self.again_s, tries=_TRIES) from None
        except _OverLimit as end:
            raise Rejected(f"{hints.name} {end} to read", end.code) from None

    async def chunk(
        self, event: DocumentExtracted, text: str, generation: Generation, tokens: TokenCounter
    ) -> tuple[Chunk, ...]:
        """Return the text's chunks (see `chunk.version_chunks`), made in a thread unless the text is tiny.

        A thread is enough: it yields often, and the long step, counting tokens, releases the GIL.
        """
        document = event.document
        make = partial(version_chunks, document, text, event.pages, event.parts, generation=generation, tokens=tokens)
        if _alone.get():
            return await self._chunk_alone(make, document)
        return make() if len(text) <= _TINY_BYTES else await self._in_thread(make, document.tenant, len(text))

    async def from_prepared(
        self, document: DocumentVersion, prepared: Sequence[PreparedChunk], tokens: TokenCounter
    ) -> tuple[Chunk, ...]:
        """Return the chunks that the caller prepared (see `chunk.from_prepared`). A thread counts their tokens."""
        make = partial(from_prepared, prepared, tokens)
        if _alone.get():
            return await self._chunk_alone(make, document)
        return await self._in_thread(make, document.tenant, sum(len(chunk.text) for chunk in prepared))

    async def _in_thread(self, make: Callable[[], tuple[Chunk, ...]], tenant: str, length: int) -> tuple[Chunk, ...]:
        """Return the chunks of so many characters. Whatever else needs a thread finds one, and short texts a turn."""
        async with AsyncExitStack() as turns:
            if length > _LONG:
                await turns.enter_async_context(_turn(self._long_chunking, tenant))
            await turns.enter_async_context(_turn(self._chunking, tenant))
            return await asyncio.to_thread(make)

    async def _chunk_alone(self, make: Callable[[], tuple[Chunk, ...]], document: DocumentVersion) -> tuple[Chunk, ...]:
        call, hints = pickle.dumps(make), Hints(filename=f"{document.source}/{document.path}")
        cpu_s, most_text = self.cpu_s + _CHUNKING_S_PER_BYTE * len(call), _CHUNKED_PER_BYTE * len(call)
        made = await self._ask_alone(ParserJob(call, hints, cpu_s, most_text, chunks=True), document.tenant)
        return await asyncio.to_thread(lambda: tuple(_CHUNK.decode(line) for line in made.text.split("\n") if line))

    async def _ask_alone(self, job: ParserJob, tenant: str) -> Extraction:
        """Return what a process makes of a record that may have killed the worker, one such record after the other."""
        async with self._suspect:
            for _ in range(_TRIES_ALONE):
                try:
                    return await self._in_turn(job, tenant, _always)
                except (_Died, _TimeOut, _OverLimit) as ended:
                    end = str(ended)
        sentence = f"{job.hints.name} was being processed when a worker died; alone, it {end}, twice"
        raise Rejected(sentence, "killed_the_worker")

    async def close(self) -> None:
        """End all processes; documents waiting or being read raise Unavailable."""
        if self._closed:
            return
        self._closed = True
        for child in self._busy:
            child.stop()
        for _ in range(self.size):  # every holder of a turn has been stopped and releases it
            await self._turns.acquire("")
        await asyncio.gather(*(child.end() for child in self._idle), *self._ending)
        self._idle.clear()

    async def _quickly(self, job: ParserJob, tenant: str, wait_s: float | None) -> Extraction:
        """Return the extraction. A document that turns out to be slow needs a slow turn; raises _Slow without one."""
        async with AsyncExitStack() as stack:

            async def may_take_long() -> bool:
                if self._slow_turns.locked(tenant):
                    return False
                await stack.enter_async_context(_turn(self._slow_turns, tenant))  # doesn't wait, as it isn't locked
                return True

            return await self._in_turn(job, tenant, may_take_long, wait_s)

    async def _in_turn(
        self, job: ParserJob, tenant: str, may_take_long: Callable[[], Awaitable[bool]], wait_s: float | None = None
    ) -> Extraction:
        if self._closed:  # `close` took all turns for good
            raise Unavailable("the parser pool is closed")
        async with _turn(self._turns, tenant, wait_s):
            if self._closed:
                raise Unavailable("the parser pool is closed")
            child = self._child_of(tenant)
            self._busy.add(child)
            sound = False
            try:
                reply = await child.ask(job, self.patience_s, may_take_long)
                sound = isinstance(reply, ParserRead | ParserRefused) and not child.swollen
            except (_Died, Unavailable):
                if self._closed:
                    raise Unavailable("the parser pool is closed") from None
                raise
            finally:
                # Also after a cancellation: a process in the middle of a document can't serve the next one.
                self._busy.discard(child)
                if sound and not self._closed:
                    self._idle.append(child)
                else:
                    await asyncio.shield(child.end())
        match reply:
            case ParserRead(extraction):
                return extraction
            case ParserRefused(sentence, code):
                raise Rejected(sentence, code)
            case ParserOutOfMemory():
                raise child.too_large()
            case ParserFailed(trace):
                bug = RuntimeError("a reader failed")
                bug.add_note(trace)  # the log tells it, and no reply
                raise bug
            case _:
                raise RuntimeError(f"a parser answered out of turn: {type(reply).__name__}")

    def _child_of(self, tenant: str) -> "_Child":
        """Return a process that has read no other tenant's documents; idle ones beyond `kept` are ended."""
        self._idle = [child for child in self._idle if child.alive]  # that others died is no document's fault
        own = next((child for child in reversed(self._idle) if child.tenant == tenant), None)
        if own is not None:
            self._idle.remove(own)
            return own
        while self._idle and len(self._idle) + len(self._busy) >= self._kept:
            ending = asyncio.create_task(self._idle.pop(0).end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        return _Child(tenant, self.program, self._memory, self.wall_factor, self.confined)


@dataclass(eq=False)
class _Child:
    """One parser process, started by the first document it is asked to read."""

    tenant: str
    program: str
    memory: _Memory
    wall_factor: float
    confined: bool

    def __post_init__(self) -> None:
        self._allowed = self.memory.usual
        self._process: asyncio.subprocess.Process | None = None
        self._stopped = False
        self._limit_s = 0.0

    @property
    def alive(self) -> bool:
        return self._process is None or self._process.returncode is None

    @property
    def swollen(self) -> bool:
        """Return whether the last document left so much in use that the next one might exceed a limit."""
        usage = self._usage()
        full = usage.resident > self.memory.usual // 2 or usage.threads > _MOST_THREADS
        return full or self._allowed > self.memory.usual

    def too_large(self) -> _OverLimit:
        """Return that the current document needs more memory than it may have."""
        return _OverLimit(f"needs more than {self._allowed >> 20} MB of memory", "too_large")

    async def ask(self, job: ParserJob, patience_s: float, may_take_long: Callable[[], Awaitable[bool]]) -> Reply:
        """Return the reply to a job. After `patience_s` of its time, `may_take_long` is called once.

        Raises:
            _TimeOut, _OverLimit, _Died: the document exceeded a limit or killed the process.
            _Slow: `may_take_long` returned False.
            Unavailable: the process can't be started.
        """
        process = self._process or await self._start()
        if self._stopped:  # while it started
            raise _Died("was stopped")
        self._limit_s, self._allowed = job.cpu_s, self.memory.usual
        began, worked, asked = time.monotonic(), self._usage().cpu_s, False
        exchange = asyncio.create_task(self._exchange(process, job))
        try:
            while not (await asyncio.wait({exchange}, timeout=_POLL_S))[0]:
                usage = self._usage()
                if usage.resident > self._allowed:
                    raise self.too_large()
                if usage.threads > _MOST_THREADS:
                    raise _Died(f"started {usage.threads} threads")
                passed, limit_s, cpu_s = time.monotonic() - began, self._limit_s, None
                if usage.cpu_s is not None and worked is not None:
                    cpu_s = usage.cpu_s - worked
                    if cpu_s > limit_s:
                        raise _OverLimit(f"took longer than {limit_s:g} s of CPU time", "timeout")
                used = passed if cpu_s is None else limits.used(cpu_s, passed, self.wall_factor)
                if used > limit_s:
                    raise _TimeOut(f"took longer than {limit_s * (1 if cpu_s is None else self.wall_factor):g} s")
                if used > patience_s and not asked:
                    asked = True
                    if not await may_take_long():
                        raise _Slow
            return exchange.result()
        finally:
            exchange.cancel()
            await asyncio.gather(exchange, return_exceptions=True)
            del exchange  # with its error, it and this frame would keep the file until the next full collection

    def stop(self) -> None:
        """Kill the process; a pending `ask` raises _Died."""
        self._stopped = True
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def end(self) -> None:
        """Kill the process and return when it is gone."""
        self.stop()
        if self._process is not None and self._process.stdout is not None:
            await self._process.stdout.read()  # an unread pipe would stay open
            await self._process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        confined = "on" if self.confined else "off"
        command = [sys.executable, "-P", "-m", self.program, str(os.getpid()), *map(str, self.memory), confined]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=sandbox.environment(**_ONE_THREAD),
                start_new_session=True,  # Ctrl-C is for the parent
            )
            async with asyncio.timeout(_START_S):
                reply, _ = await _received(self._process)
        except OSError as error:
            raise Unavailable(f"no parser process can be started: {error.strerror}") from error
        except TimeoutError:
            raise Unavailable(f"a parser process was not ready after {_START_S:g} s") from None
        except _Died as death:
            raise Unavailable(f"a parser process ended before it was ready: it {death}") from None
        if not isinstance(reply, ParserReady):
            log.error("parser_not_started", reason=reply)
            raise Unavailable("a parser process could not load its libraries; see parser_not_started in the log")
        log.info("parser_started", confined_by=reply.means)
        return self._process

    async def _exchange(self, process: asyncio.subprocess.Process, job: ParserJob) -> Reply:
        assert process.stdin is not None
        frame, data = msgspec.msgpack.encode(msgspec.structs.replace(job, data=b"")), memoryview(job.data)
        process.stdin.write(
            b"".join((len(frame).to_bytes(LENGTH_BYTES, "big"), frame, len(data).to_bytes(LENGTH_BYTES, "big")))
        )
        with contextlib.suppress(ConnectionError):  # reading the reply reports the death of the process
            for at in range(0, len(data), _PIECE):  # the pipe would hold a copy of all that is written at once
                process.stdin.write(data[at : at + _PIECE])
                await process.stdin.drain()
        # A process that was taken over may send anything, so that all is counted.
        texts, links, chunks = list[str](), list[str](), list[PreparedChunk]()
        pieces = _MOST_PIECES + job.most_text // PART_TEXT
        size = 4 * (job.most_text + len(job.data) + limits.MOST_LINKS * LONGEST_URL) + MOST_FRAME
        while True:
            reply, length = await _received(process)
            pieces, size = pieces - 1, size - length
            match reply:
                case ParserBegun(pages, scans):
                    self._limit_s = limits.allowed(job.cpu_s, pages, scans)
                    if scans:
                        self._allowed = self.memory.images
                case ParserPart(text, some_links, some_chunks):
                    texts.append(text)
                    links += some_links
                    chunks += some_chunks
                    pieces -= len(some_links) + len(some_chunks)
                case ParserRead(read):
                    pieces -= len(read.pages) + len(read.parts)
                    whole = "".join(texts)
                    read = msgspec.structs.replace(read, text=whole, links=tuple(links), chunks=tuple(chunks))
                    if len(whole) <= job.most_text and pieces >= 0:
                        return ParserRead(read)
                case _:
                    return reply
            if pieces < 0 or size < 0 or isinstance(reply, ParserRead):
                raise _Died("crashed the parser (a reply of more than a document has)")
            await asyncio.sleep(0)  # many may have come at once

    def _usage(self) -> _Usage:
        assert self._process is not None
        try:
            with open(f"/proc/{self._process.pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - half the time
                stat = file.read()
        except OSError:
            return _Usage()
        # The fields after the name, which may hold any byte. CPU time: utime, stime, and both of children that ended.
        fields = [int(field) for field in stat.rpartition(b")")[2].split()[1:22]]
        return _Usage(sum(fields[10:14]) * _TICK_S, fields[20] * _PAGE_BYTES, fields[16])


def parser_pool(settings: Settings) -> ParserPool:
    """Return the pool that the settings describe."""
    return ParserPool(
        settings.parsers,
        most_text=settings.max_text,
        kept=settings.parsers_kept,
        confined=settings.parsers_confined == "on",
    )


async def _always() -> bool:
    return True


@asynccontextmanager
async def _turn(turns: FairTurns, tenant: str, wait_s: float | None = None) -> AsyncIterator[None]:
    """Run the block when the tenant has a turn; meanwhile the record steps aside, unless it is handled alone.

    Raises:
        Unavailable: there is none within `wait_s`.
    """
    aside = nullcontext if _alone.get() else stepped_aside
    with aside("other files are read first" if turns.locked(tenant) else ""):
        if not await turns.came(tenant, wait_s):
            raise Unavailable("all parsers are busy with other files")
    try:
        with aside(""):
            yield
    finally:
        turns.release(tenant)


async def _received(process: asyncio.subprocess.Process) -> tuple[Reply, int]:
    """Return a frame and its size in bytes. Raises _Died."""
    assert process.stdout is not None
    try:
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
        if length > MOST_FRAME:
            raise _Died(f"crashed the parser (a frame of {length} bytes)")
        return _REPLIES.decode(await process.stdout.readexactly(length)), length
    except asyncio.IncompleteReadError:
        code = await process.wait()
        raise _Died(f"crashed the parser ({f'signal {-code}' if code < 0 else f'exit status {code}'})") from None
    except msgspec.DecodeError:
        raise _Died("crashed the parser (a reply that can't be read)") from None
