"""Separate processes: on the embedded adapters, without any server, and the demo's story on real ones."""

import asyncio
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from services.operator_cli import demo
from services.operator_cli.demo import DemoServer
from shared.errors import Unavailable
from shared.log.background import repeat
from shared.runtime.process import StopSignal, drained
from tests.docs import readme
from tests.e2e.cluster import Cluster, cluster, servers, status
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BODY = {"source": "s", "path": "a.md", "text": "A lantern on the pier."}


def test_a_document_goes_through_four_processes(tmp_path: Path) -> None:
    with cluster(tmp_path) as running, running.client() as client:
        created = client.post("/rag/ingest", json=BODY).json()
        again = client.post("/rag/ingest", json=BODY).json()
        hits = client.post("/rag/search", json={"query": "lantern"}).json()["results"]
        [worker] = running.of("embed-worker")

        assert (created["status"], again["status"]) == ("created", "unchanged")
        assert [hit["text"] for hit in hits] == [BODY["text"]]
        assert worker.metric("sluice_embedded_texts_total") == 1
        assert worker.metric("sluice_records_handled_total") == 1


def test_whatever_order_they_start_in_they_wait_for_each_other_and_say_for_what(tmp_path: Path) -> None:
    running = Cluster(tmp_path)
    try:
        waiting = [running.launch(role) for role in ("query-api", "embed-worker", "ingest-worker")]
        side = waiting[1].starting()
        assert status(f"{side}/livez") == 200
        assert status(f"{side}/readyz") == 503
        running.launch("store")
        running.wait()
        with running.client() as client:
            assert client.post("/rag/ingest", json=BODY).json()["status"] == "created"
    finally:
        running.kill()


def test_what_waits_for_its_start_stops_at_once_when_asked(tmp_path: Path) -> None:
    running = Cluster(tmp_path)
    try:
        worker = running.launch("embed-worker")
        worker.starting()

        assert worker.stop() == 0
        assert "Traceback" not in worker.tail(1000)
    finally:
        running.kill()


def test_the_demo_tells_the_same_story_on_kafka_and_ollama(
    kafka: KafkaServer, ollama_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def started(folder: Path) -> Iterator[DemoServer]:
        with cluster(folder, **servers(kafka.address, ollama_url)) as running:
            yield DemoServer(running.url, "separate processes", running.metric)

    demo.run(started)

    assert steps(capsys.readouterr().out) == steps(readme.block("demo"))


def steps(transcript: str) -> list[str]:
    """Return what the demo did; how it started and which words the passages have is the size's own."""
    lines = readme.steady(transcript).splitlines()
    return [line for line in lines if line and not line.startswith((" ", "`", "$", "Start"))]


def test_given_a_worker_that_is_killed_when_a_receiver_fails_then_another_one_delivers(
    tmp_path: Path, kafka: KafkaServer
) -> None:
    with (
        receiver() as (url, seen, failing),
        cluster(tmp_path, LOG=f"kafka://{kafka.address}", CALLBACK_ALLOW="127.0.0.1") as running,
        running.client() as client,
    ):
        failing.set()
        created = client.post("/rag/ingest", json={**BODY, "callbackUrl": f"{url}/done"}).json()
        first = seen.get(timeout=60)
        [worker] = running.of("ingest-worker")
        worker.kill()
        failing.clear()
        running.launch("ingest-worker")
        again = seen.get(timeout=120)  # the dead worker's lease may have to end first

        assert created["status"] == "created"
        assert first == again
        assert (again["status"], again["documentId"]) == ("created", created["documentId"])


@contextmanager
def receiver() -> Iterator[tuple[str, queue.Queue[dict[str, Any]], threading.Event]]:
    """Give the address of a server, what was posted to it, and an event while which it replies 503."""
    seen: queue.Queue[dict[str, Any]] = queue.Queue()
    failing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(503 if failing.is_set() else 200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen, failing
    finally:
        server.shutdown()
        server.server_close()


async def test_what_is_repeated_goes_on_after_an_outage_and_ends_with_its_stack() -> None:
    calls: list[int] = []
    fourth = asyncio.Event()

    async def act() -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise Unavailable("the store is away")
        if len(calls) == 4:
            fourth.set()

    async with AsyncExitStack() as stack:
        repeat(stack, act, 0.001, "act_waits")
        repeat(stack, act, 3600.0, at_once=False)
        async with asyncio.timeout(20):
            await fourth.wait()
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == {asyncio.current_task()}


LARGE_BLOCKS = """
import psutil
from services.operator_cli import demo
from services.operator_cli.demo import DemoServer
from shared.runtime.process import tune_interpreter

tune_interpreter()
seen = b"z" * 30_000_000
del seen
large, small = [], []
for number in range(20):
    large.append(b"x" * (10_000_000 + number))
    small.append(b"y" * 5_000)
before = psutil.Process().memory_info().rss
large.clear()
print(before - psutil.Process().memory_info().rss)
"""


def test_memory_of_large_bodies_is_given_back() -> None:
    told = subprocess.run([sys.executable, "-c", LARGE_BLOCKS], capture_output=True, check=True)

    assert int(told.stdout) > 150_000_000 or sys.platform != "linux"


OLD_CYCLES = """
import asyncio, gc, weakref
from services.operator_cli import demo
from services.operator_cli.demo import DemoServer
from shared.runtime.process import settle_memory

class Node: pass

async def main():
    settle_memory(0.05)
    node = Node()
    node.itself, alive = node, weakref.ref(node)
    gc.collect(1)
    del node
    gc.collect(1)
    assert alive() is not None, "it was of the oldest generation"
    async with asyncio.timeout(60):
        while alive() is not None:
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


FREE_BETWEEN = """
import asyncio, gc, psutil
from services.operator_cli import demo
from services.operator_cli.demo import DemoServer
from shared.runtime.process import settle_memory

async def main():
    settle_memory(0.05)
    blocks = [bytes(4_000) for _ in range(40_000)]
    above = bytes(4_000)
    full = psutil.Process().memory_info().rss
    blocks.clear()
    gc.collect(1)
    async with asyncio.timeout(60):
        while full - psutil.Process().memory_info().rss < 100_000_000:
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


LOOKED_UP = """
import asyncio, gc, sys
from services.operator_cli import demo
from services.operator_cli.demo import DemoServer
from shared.runtime.process import settle_memory

class Thing:
    field = 1

async def main():
    settle_memory(0.05)
    name = "".join(("fi", "eld"))  # as extensions make one for a look-up
    before = sys.getrefcount(name)
    getattr(Thing, name)
    assert sys.getrefcount(name) > before, "the interpreter keeps no names"
    gc.collect(1)
    async with asyncio.timeout(60):
        while sys.getrefcount(name) > before:
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


LATE = """
import asyncio, gc
from shared.runtime.process import settle_memory

async def main():
    loop, raised = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: raised.append(context))
    settle_memory(0.01)
    await loop.shutdown_default_executor()  # as at the end, while its threads have work
    for _ in range(20):
        gc.collect(1)
        gc.collect(1)
        await asyncio.sleep(0.02)
    assert not raised, raised

asyncio.run(main())
"""


def test_memory_that_settles_while_the_process_ends_raises_nothing() -> None:
    subprocess.run([sys.executable, "-c", LATE], check=True)


async def test_a_drain_that_takes_too_long_leaves_no_task() -> None:
    work = asyncio.create_task(asyncio.Event().wait())
    before = asyncio.all_tasks()

    await drained(StopSignal(), 0.0, work)
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == before
    work.cancel()


def test_old_garbage_goes_without_a_request() -> None:
    subprocess.run([sys.executable, "-c", OLD_CYCLES], check=True)


@pytest.mark.parametrize("program", [FREE_BETWEEN, LOOKED_UP])
def test_what_is_free_between_blocks_in_use_is_given_back(program: str) -> None:
    if sys.platform == "linux":
        subprocess.run([sys.executable, "-c", program], check=True)
