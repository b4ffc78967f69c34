"""Parts behind a bad network: nothing is set aside for what it does, and work goes on when it is well again."""

import asyncio
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from pydantic import SecretStr

from shared.contracts import DocumentSubmitted
from shared.errors import Unavailable
from shared.state.ledger import Entry
from tests.e2e.text import paragraphs
from tests.integration.pipeline import Pipeline, running
from tests.servers.choice import own
from tests.servers.kafka import RECIPE as KAFKA
from tests.servers.kafka import KafkaServer
from tests.servers.kafka import missing as no_kafka
from tests.servers.ollama import EMBEDDING_MODEL
from tests.servers.ports import free_port
from tests.servers.proxy import Mode, Proxy, proxied
from tests.servers.qdrant import QdrantServer
from tests.servers.s3 import Bucket

AWAY_S = float(os.environ.get("SLUICE_TEST_AWAY_S", "15"))  # a long run sets 120
PROGRESS_GUARD_S = 50.0  # a hang guard: five times what the first progress may take
DOCUMENTS = 4  # before, during and after each fault
BAD: tuple[Mode, ...] = ("refused", "silent", "cut", "garbage")
# Each a network of its own, which waits most of the time: they are bad beside each other.
TOGETHER = ("model_server", "blob_store", "broker")
CASES: list[tuple[tuple[str, ...], Mode]] = [(parts, mode) for parts in (TOGETHER, ("store",)) for mode in BAD]
# Flipped bits are for blobs alone, which are named by their hash. Elsewhere it is TLS that keeps a stream whole.
CASES.append((("blob_store",), "flipped"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Dependency:
    """A part that is reached through a proxy."""

    proxy: Proxy
    settings: dict[str, Any]


@pytest.fixture
def model_server(ollama_url: str) -> Iterator[Dependency]:
    with proxied(urlsplit(ollama_url).netloc) as proxy:
        yield Dependency(proxy, {"embedder": f"ollama://{proxy.address}/{EMBEDDING_MODEL}"})


@pytest.fixture
def blob_store(s3_bucket: Bucket) -> Iterator[Dependency]:
    with proxied(urlsplit(s3_bucket.server.url).netloc) as proxy:
        yield Dependency(proxy, {"blobs": s3_bucket.setting.replace(s3_bucket.server.url, f"http://{proxy.address}")})


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Dependency]:
    listener = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        proxy = stack.enter_context(proxied(listener))
        protocols = ",".join(f"{name}:PLAINTEXT" for name in ("BROKER", "CONTROLLER", "PROXIED"))
        node = KafkaServer(
            own("Kafka", KAFKA, no_kafka()),
            tmp_path / "kafka",
            {"listener.security.protocol.map": protocols},
            also=[f"PROXIED://{listener}"],
        )
        node.advertise({"BROKER": node.address, "PROXIED": proxy.address})
        stack.enter_context(node)
        yield Dependency(proxy, {"log": f"kafka://{proxy.address}"})


@pytest.fixture
def store(qdrant_server: QdrantServer) -> Iterator[Dependency]:
    with proxied(urlsplit(qdrant_server.address.url).netloc) as proxy:
        key = qdrant_server.api_key
        yield Dependency(
            proxy,
            {
                "store": f"qdrant+http://{proxy.address}",
                "qdrant_api_key": None if key is None else SecretStr(key),
                "qdrant_prefix": f"t{uuid4().hex[:8]}",
            },
        )


@pytest.mark.parametrize(
    ("parts", "mode"),
    [pytest.param(parts, mode, id="+".join((*parts, mode))) for number, (parts, mode) in enumerate(CASES)],
)
async def test_given_a_bad_network_when_it_is_well_again_then_work_goes_on_and_nothing_was_set_aside(
    parts: tuple[str, ...], mode: Mode, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    dependencies = {part: request.getfixturevalue(part) for part in parts}

    await asyncio.gather(*(_endured(tmp_path / part, part, of, mode) for part, of in dependencies.items()))


async def _endured(folder: Path, part: str, dependency: Dependency, mode: Mode) -> None:
    """Fail unless a pipeline behind this network goes on after the fault, and has set nothing aside."""
    async with running(folder / "data", partitions=2, **dependency.settings) as pipeline:
        await asyncio.gather(*(_sent(pipeline, f"before/{number}") for number in range(DOCUMENTS)))
        dependency.proxy.set(mode)
        began = time.monotonic()
        during = [asyncio.create_task(_sent(pipeline, f"during/{number}")) for number in range(DOCUMENTS)]
        await asyncio.sleep(AWAY_S)  # the outage itself
        ended_before = sum(task.done() for task in during)
        dependency.proxy.set("pass")
        back = time.monotonic()
        first, _ = await asyncio.wait(during, timeout=PROGRESS_GUARD_S, return_when=asyncio.FIRST_COMPLETED)
        progress = time.monotonic() - back
        assert first, f"no progress {PROGRESS_GUARD_S:g} s after the fault: {await pipeline.parts.readiness()}"
        entries = await asyncio.gather(*during)
        entries += await asyncio.gather(*(_sent(pipeline, f"after/{number}") for number in range(DOCUMENTS)))
        letters = await pipeline.dead_letters()

    print(
        f"{part} {mode} for {back - began:.0f} s: {ended_before} of {DOCUMENTS} done meanwhile, "
        f"first progress {progress:.1f} s after"
    )
    assert {entry.last.status for entry in entries} == {"created"}
    assert letters == []


async def _sent(pipeline: Pipeline, path: str) -> Entry:
    """Return how a document ended, whose submission was sent until the log took it."""
    document = DocumentSubmitted(
        source="s", path=path, text="\n\n".join(paragraphs(zlib.crc32(path.encode()) % 10_000, 2))
    )
    while True:
        try:
            return await pipeline.send(document, within_s=240)
        except Unavailable:
            await asyncio.sleep(0.5)  # as a client does that is told to come again
