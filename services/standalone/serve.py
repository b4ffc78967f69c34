"""All services in one process: one log, one store child, one embedder, one port. `sluice serve`."""

import asyncio
import fcntl
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO

import httpx
import structlog
import uvicorn
from prometheus_client import CollectorRegistry

from services.embed_worker import app as embed_worker
from services.ingest_worker import app as ingest_worker
from services.ingest_worker.chunk import CHUNKER
from services.ingest_worker.parsers import ParserPool
from services.query_api.app import Parts, make_api
from services.query_api.notices import Notices, listen
from services.standalone.loop_lag import LoopLag
from services.standalone.samples import load_samples
from shared.answers.open import open_answers
from shared.blobs.open import open_blobs
from shared.embedder.open import open_embedder
from shared.errors import Unavailable
from shared.index import Generation, Index, serving
from shared.ledger import Ledger
from shared.log.consume import Consumption
from shared.log.open import open_log
from shared.log.publish import publish
from shared.settings import ConfigurationError, Settings
from shared.store import Store
from shared.store.bm25 import Bm25
from shared.store.open import open_store
from shared.topics import pipeline_topics
from shared.version import VERSION

log = structlog.get_logger(__name__)

STATE_FILE = "serve.json"  # {"pid", "url"}: where the running server is
PROBE_S = 2.0
SWITCH_S = 0.0005
STOP_S = 3  # requests still running get this long


class Announce(Protocol):
    """Tells whoever started the server what it does."""

    def ready(self, url: str) -> None:
        """Say where it listens."""
        ...

    def progress(self, done: int, of: int, name: str) -> None:
        """Say that a sample document is in."""
        ...

    def loaded(self, count: int) -> None:
        """Say that all samples are in."""
        ...


def url_of(listener: socket.socket) -> str:
    """Return the address as a browser takes it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(settings: Settings, announce: Announce) -> int:
    """Return the exit code after a polite end: 0 after SIGINT or SIGTERM.

    Raises:
        ConfigurationError: the folder is in use, the port is taken, or a setting can't work.
    """
    settings.data.mkdir(parents=True, exist_ok=True)
    # A thread that embeds or chunks gives way to the event loop after this long, instead of 5 ms: every system
    # call of the loop hands the interpreter's lock over, and waits for it again.
    sys.setswitchinterval(SWITCH_S)
    with _own(settings.data), _bound(settings.host, settings.port) as listener:
        return asyncio.run(_serve(settings, listener, announce))


@contextmanager
def _own(data: Path) -> Iterator[TextIO]:
    """Hold the data folder: two servers on it would both own its store."""
    lock = (data / "serve.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ConfigurationError(f"SLUICE_DATA={data} is in use by another Sluice") from None
    try:
        yield lock
    finally:
        lock.close()


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """Hold the port from the start; nobody is let in before `listen`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise ConfigurationError(f"SLUICE_HOST={host} SLUICE_PORT={port} can't be listened on: {reason}") from None
    try:
        yield listener
    finally:
        listener.close()


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: one owner decides when all of it ends."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(settings: Settings, listener: socket.socket, announce: Announce) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        starting = asyncio.create_task(start(settings, stack))
        if not await _done_before(stop, starting):
            return 0
        parts = starting.result()
        # What the start has made stays; left to the collector, it would be walked through for 50 ms again and again.
        gc.collect()
        gc.freeze()
        server = _Server(
            uvicorn.Config(
                make_api(parts),
                log_config=None,
                access_log=False,
                http="httptools",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=STOP_S,
            )
        )
        answering = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started and not answering.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        url = url_of(listener)
        state = settings.data / STATE_FILE
        state.write_text(json.dumps({"pid": os.getpid(), "url": url}))
        announce.ready(url)
        sampling = asyncio.create_task(_sample(settings, url, announce))
        await _done_before(stop, answering)
        sampling.cancel()
        state.unlink(missing_ok=True)
        parts.notices.close()
        server.should_exit = True
        await answering
    return 0


async def _done_before(stop: asyncio.Event, work: "asyncio.Task[Any]") -> bool:
    """Return whether `work` ended before `stop` was set; what didn't is left to run only when it is answering."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({stopped, work}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    return work.done()


async def start(settings: Settings, stack: AsyncExitStack) -> Parts:
    """Return the started parts; `stack` ends them, last started first."""
    registry = CollectorRegistry()
    log_ = open_log(settings.log, settings.data)
    store = open_store(settings.store, settings.data)
    embedder = open_embedder(settings.embedder)
    answers = await open_answers(settings.chat, settings.history)
    blobs = open_blobs(settings.blobs, settings.data)
    for close in (log_.stop, store.close, embedder.close):
        stack.push_async_callback(close)
    await asyncio.gather(log_.start(), store.start(), embedder.start())
    parsers = ParserPool(settings.parsers, tokens=embedder.tokens)
    stack.push_async_callback(parsers.close)

    bm25 = Bm25()
    generation = await serving(
        store,
        Generation(
            chunker=CHUNKER,
            chunk_size=settings.chunk_size,
            chunk_overlap=settings.chunk_overlap,
            model=embedder.model,
            bm25=bm25.fingerprint,
        ),
    )
    ledger, index = Ledger(store), Index(store, generation)
    await asyncio.gather(ledger.create(), index.create(), log_.ensure_topics(pipeline_topics(generation.id)))

    broker = log_.broker("standalone")
    consumptions = [
        *ingest_worker.join(broker, ingest_worker.Parts(ledger=ledger, index=index, blobs=blobs, parsers=parsers)),
        embed_worker.join(
            broker,
            embed_worker.Parts(
                ledger=ledger, index=index, embedder=embedder, bm25=bm25, blobs=blobs, registry=registry
            ),
        ),
    ]
    notices = Notices()
    listen(broker, notices)
    stack.push_async_callback(broker.stop)
    await broker.start()
    for consumption in consumptions:
        stack.push_async_callback(consumption.stop)
    for task in (
        asyncio.create_task(embed_worker.sweep_for_ever(index)),
        asyncio.create_task(LoopLag(registry).watch()),
    ):
        stack.callback(task.cancel)
    return Parts(
        settings=settings,
        version=VERSION,
        publish=partial(publish, broker),
        notices=notices,
        ledger=ledger,
        index=index,
        embedder=embedder,
        bm25=bm25,
        blobs=blobs,
        answers=answers,
        readiness=partial(_readiness, store, consumptions),
        registry=registry,
    )


async def _readiness(store: Store, consumptions: Sequence[Consumption]) -> dict[str, str | None]:
    """Return what each part says of itself: None when it is well."""
    found: dict[str, str | None] = {"store": None}
    try:
        async with asyncio.timeout(PROBE_S):
            await store.collections()
    except (TimeoutError, Unavailable) as error:
        found["store"] = str(error) or f"the store gave no answer in {PROBE_S:g} s"
    for consumption in consumptions:
        found[consumption.name] = consumption.broken or next(iter(consumption.waiting.values()), None)
    return found


async def _sample(settings: Settings, url: str, announce: Announce) -> None:
    try:
        loaded = await load_samples(settings, url, progress=announce.progress)
    except httpx.HTTPError as error:
        log.warning("samples_not_loaded", reason=str(error))
        return
    if loaded:
        announce.loaded(loaded)
