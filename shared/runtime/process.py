"""Runs one service as a process: start-up retries, readiness, and graceful shutdown."""

import asyncio
import ctypes
import gc
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from litestar.types import ASGIApp
from prometheus_client import CollectorRegistry

from shared.errors import Unavailable
from shared.log.failure import Backoff
from shared.runtime import loop_lag
from shared.runtime.connections import Connections
from shared.runtime.listening import answered, bound, connections_of, url_of
from shared.runtime.probes import Probed, Troubles, side_app
from shared.settings import Settings

T = TypeVar("T")

log = structlog.get_logger(__name__)

SWITCH_S = 0.0005
YOUNG_COLLECTION = 5_000  # new objects before a collection; with Python's 700 they took 2 % of a load's CPU time
FULL_COLLECTION = 1000  # collections of the middle generation before a full one; Python's default is 10
COLLECT_S = 30.0  # between two full collections, if there was one of the middle generation
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)
_APART, _SPARE = 1 << 20, 32 << 20  # bytes of a block that is mapped by itself, and of free ones that are kept
# Of names of attributes: each of the 4096, as old as it may be, holds a megabyte in which nothing else is left.
_clear_caches = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache  # noqa: SLF001 - before 3.13
_BACKOFF = Backoff(0.2, 5.0)
_PROBES = 100  # connections to the side port


@dataclass(frozen=True, kw_only=True)
class RunningService:
    """A service that has started."""

    troubles: Troubles  # its readiness checks
    registry: CollectorRegistry
    door: ASGIApp | None = None  # the application on SLUICE_PORT
    draining: Callable[[], None] = lambda: None  # called at the signal: the door isn't ready from then on
    closing: Callable[[], None] = lambda: None  # called before the server stops accepting requests


Start = Callable[[Settings, AsyncExitStack], Awaitable[RunningService]]
Announce = Callable[[str], None]  # prints a line for the person who started the process


def run(name: str, settings: Settings, start: Start, announce: Announce, *, door: bool = False) -> int:
    """Run the service until SIGINT or SIGTERM; return the exit code, 0 after a graceful shutdown.

    While a part that `start` needs is away, `start` is retried and the side port's readiness names the part.

    Raises:
        ConfigurationError: a port is taken, or a setting can't work.
    """
    tune_interpreter()
    with ExitStack() as ports:
        listener = ports.enter_context(bound(settings.host, settings.port)) if door else None
        side = ports.enter_context(
            bound(settings.side_host, settings.side_port, host_from="SLUICE_SIDE_HOST", port_from="SLUICE_SIDE_PORT")
        )
        service = _Named(name, settings, start)
        return loop_lag.run(service.run(announce, listener, side))


def tune_interpreter() -> None:
    """Shorten the interpreter's switch interval from 5 ms, so that embedding threads yield to the event loop sooner.

    The event loop releases the interpreter's lock at every system call, and may have to wait that long to get it back.

    Have the memory of large bodies given back, too, as soon as they are done with. Once glibc has seen some, it would
    keep such blocks: 100 senders left 360 MB behind.
    """
    sys.setswitchinterval(SWITCH_S)
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            for option, size in ((_M_MMAP_THRESHOLD, _APART), (_M_TRIM_THRESHOLD, _SPARE)):
                ctypes.CDLL(None).mallopt(option, size)


def settle_memory(collect_s: float = COLLECT_S) -> None:
    """Exclude objects made during start-up from garbage collection: traversing them costs 50 ms each time.

    Full collections come by the clock: they stop the event loop while they look at each object of all connections, and
    a large batch caused one after the other, of 0.1 s each. What they free isn't left to the next request, either, and
    what is free between blocks in use goes back to the system: 100 senders of large bodies left 200 MB behind.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_COLLECTION, gc.get_threshold()[1], FULL_COLLECTION)
    loop = asyncio.get_running_loop()

    def collect() -> None:
        if gc.get_count()[2]:
            _clear_caches()
            gc.collect()
            if sys.platform == "linux":
                with suppress(RuntimeError):  # the process ends: its threads take nothing new
                    loop.run_in_executor(None, _trim)
        loop.call_later(collect_s, collect)

    loop.call_later(collect_s, collect)


def _trim() -> None:
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


class StopSignal(asyncio.Event):
    """Set by SIGINT and SIGTERM; `at_once` by SIGINT alone."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = asyncio.Event()

    def interrupt(self) -> None:
        """StopSignal without draining."""
        self.at_once.set()
        self.set()


def stop_signal() -> StopSignal:
    """Return the event that SIGINT and SIGTERM set, in the running loop."""
    stop = StopSignal()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.interrupt)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


async def drained(stop: StopSignal, seconds: float, *work: "asyncio.Task[object]") -> None:
    """Return after `seconds`, at SIGINT, or when some of `work` has ended: until then a balancer sends requests."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await done_before(stop.at_once, *work)


async def done_before(stop: asyncio.Event, *work: "asyncio.Task[object]") -> bool:
    """Return whether some of `work` ended before `stop` was set; unfinished work goes on."""
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({stopped, *work}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
    return any(task.done() for task in work)


async def result_before(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`, or None if `stop` was set first: then `work` has been cancelled, and has ended."""
    task = asyncio.create_task(work)
    if not await done_before(stop, task):
        task.cancel()
        await asyncio.wait({task})
        return None
    return task.result()


class _Named:
    """A running service, with its readiness before the start and during the stop."""

    def __init__(self, name: str, settings: Settings, start: Start) -> None:
        self._name = name
        self._settings = settings
        self._start = start
        self._state = "it is starting"

    async def run(self, announce: Announce, listener: socket.socket | None, side: socket.socket) -> int:
        stop = stop_signal()
        probed = Probed(self._troubles, CollectorRegistry())
        async with AsyncExitStack() as ports, AsyncExitStack() as parts:
            answering = [await ports.enter_async_context(answered(side_app(probed), side, Connections(_PROBES)))]
            watched = f"probes and metrics on {url_of(side)}"
            announce(f"{self._name} is starting: {watched}")
            service = await result_before(stop, self._started(parts))
            if service is None:
                return 0
            probed.troubles, probed.registry = service.troubles, service.registry
            settle_memory()
            async with AsyncExitStack() as doors:
                if listener is not None and service.door is not None:
                    door = answered(service.door, listener, connections_of(self._settings))
                    answering.append(await doors.enter_async_context(door))
                    doors.callback(service.closing)
                where = f"listens on {url_of(listener)}, " if listener is not None else ""
                announce(f"{self._name} is ready: {where}{watched}")
                await done_before(stop, *answering)
                self._state, probed.troubles = "it is stopping", self._troubles
                service.draining()
                if len(answering) > 1:
                    await drained(stop, self._settings.drain, *answering)
            log.info("stopping", service=self._name)
        return 0

    async def _started(self, stack: AsyncExitStack) -> RunningService:
        outages = 0
        while True:
            async with AsyncExitStack() as attempt:
                try:
                    service = await self._start(self._settings, attempt)
                except Unavailable as error:
                    self._state = error.sentence
                    log.warning("start_waits", service=self._name, reason=error.sentence)
                else:
                    stack.push_async_exit(attempt.pop_all())
                    return service
            await asyncio.sleep(_BACKOFF.delay(outages))
            outages += 1

    async def _troubles(self) -> dict[str, str | None]:
        return {self._name: self._state}
