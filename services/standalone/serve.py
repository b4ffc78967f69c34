"""All services in one process: one log, one store child, one embedder, one port. `sluice serve`."""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack

import httpx
import structlog

from services.embed_worker import app as embed_worker
from services.ingest_worker import app as ingest_worker
from services.ingest_worker.chunk import CHUNKER
from services.query_api.app import ApiParts
from services.query_api.process import opened
from services.query_api.serving_api import ServingApi
from services.standalone.parser_adapter import FileReader
from services.standalone.samples import load_samples
from shared.log.consume import Consumption
from shared.runtime import loop_lag
from shared.runtime.data_lock import STATE_FILE, lock_data_folder, made_folder, socket_in
from shared.runtime.listening import answered, bound, connections_of, url_of
from shared.runtime.process import (
    Announce,
    done_before,
    drained,
    result_before,
    settle_memory,
    stop_signal,
    tune_interpreter,
)
from shared.runtime.resources import open_resources
from shared.runtime.stage_runner import GenerationParts
from shared.settings import Settings
from shared.version import VERSION

log = structlog.get_logger(__name__)

QUESTION = "When is the tower open in October?"


def serve(settings: Settings, announce: Announce) -> int:
    """Run the server and return its exit code: 0 after SIGINT or SIGTERM.

    Raises:
        ConfigurationError: the folder is in use, the port is taken, or a setting can't work.
    """
    tune_interpreter()
    with (
        bound(settings.host, settings.port) as listener,
        made_folder(settings.data, with_store=settings.embeds_store) as keep,
        lock_data_folder(settings.data),
        socket_in(settings.data) as own,
    ):
        return loop_lag.run(_serve(settings, listener, own, announce, keep))


async def _serve(
    settings: Settings, listener: socket.socket, own: list[socket.socket], announce: Announce, keep: Callable[[], None]
) -> int:
    stop = stop_signal()
    async with AsyncExitStack() as stack:
        parts = await result_before(stop, start(settings, stack))
        if parts is None:
            return 0
        keep()
        settle_memory()
        async with answered(ServingApi(parts).app, listener, connections_of(settings), *own) as answering:
            url = url_of(listener)
            state = settings.data / STATE_FILE
            state.write_text(json.dumps({"pid": os.getpid(), "url": url}))
            announce(_welcome(url, needs_key=settings.needs_key))
            for sentence in parts.not_in_force:
                announce(f"Note: {sentence}")
            sampling = asyncio.create_task(_sample(settings, url, announce))
            await done_before(stop, answering)
            sampling.cancel()
            parts.stopping.begin()
            await drained(stop, settings.drain, answering)
            state.unlink(missing_ok=True)
            parts.close()
    return 0


async def start(settings: Settings, stack: AsyncExitStack) -> ApiParts:
    """Return the started parts; `stack` ends them, last started first.

    Raises:
        ConfigurationError: a setting can't work. Unavailable: a part is away.
    """
    base = await open_resources(settings, stack, chunker=CHUNKER, attach=False, name="serve")
    broker = base.log.broker("standalone")
    ingesting = await ingest_worker.opened(base, broker, settings, stack)
    embedding = embed_worker.EmbedStages(base)

    async def join(of: GenerationParts, own: AsyncExitStack) -> list[Consumption]:
        return [ingest_worker.join_generation(ingesting, of, base.log), *await embedding.join(of, own)]

    ingest = [
        ingest_worker.join_ingest(broker, ingesting),
        *ingest_worker.join_forwarders(broker, ingesting, settings.topics_of_tenants),
    ]
    call_back = await ingest_worker.callbacks_of(base, broker, ingesting, stack)
    parts = await opened(base, broker, ingest, stack, FileReader(lambda: ingesting.parsers), join=join, embeds=True)
    call_back()
    embed_worker.keep_collected(base, stack)
    ingest_worker.keep_whole(base, stack)
    return parts


async def _sample(settings: Settings, url: str, announce: Announce) -> None:
    def progress(done: int, of: int, name: str) -> None:
        announce(f"  sample {done:2} of {of}  {name}")

    try:
        loaded = await load_samples(settings, url, progress=progress)
    except httpx.HTTPError as error:
        log.warning("samples_not_loaded", reason=str(error))
        return
    if loaded:
        announce(f"The sample library is loaded: {loaded} documents. Remove it: sluice documents rm --source samples")


def _welcome(url: str, *, needs_key: bool) -> str:
    """Return the address, with a search and a question as shell commands to paste."""
    key = ' -H "Authorization: Bearer $SLUICE_API_KEY"' if needs_key else ""
    headers = f"{key} -H 'Content-Type: application/json'"
    return (
        f"Sluice {VERSION} listens on {url}  (Ctrl-C stops it)\n\nAsk it something:\n\n"
        f'  curl -s {url}/rag/search{headers} -d \'{{"query": "tickets for the boat", "topK": 2}}\'\n'
        f'  curl -s {url}/chat{headers} -d \'{{"message": "{QUESTION}", "useRag": true}}\'\n'
    )
