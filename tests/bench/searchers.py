"""Searches and ingests beside a measurement, in a process of its own: `python -m tests.bench.searchers URL …`.

It works until its standard input ends, then prints a `Seen` as one line of JSON. It shares no interpreter with the
server, so its own work is no part of what is measured.
"""

import argparse
import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import msgspec

from tests.e2e.background import Background
from tests.e2e.text import WORDS, paragraph

STEADY = "steady.md"  # a document that is always there, and found first by its own words
STEADY_WORDS = "The lighthouse keeper counts every ship that passes the northern pier."
SOURCE = "bench"


def text_of(number: int) -> str:
    """Return the text of the document that is sent as `number`, one chunk."""
    return paragraph(10**6 + number, 0, 1, of=1)


class Seen(msgspec.Struct):
    """What the searchers and the ingester saw."""

    searches: int = 0
    failed: int = 0  # no reply, another status than 200, or the steady document is missing or doubled
    first_failure: str = ""
    search_ms: list[float] = []
    sent: int = 0
    ended: int = 0  # ingests answered `created`
    ingest_ms: list[float] = []
    seconds: float = 0.0


class _Caller:
    """A connection that is opened again after a failure."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc
        self._connection = http.client.HTTPConnection(self._address, timeout=60)

    def post(self, path: str, body: object) -> tuple[int, bytes]:
        try:
            self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            reply = self._connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise


def run(url: str, searchers: int, think_s: float, ingest_every_s: float, first: int) -> Seen:
    """Search and ingest until standard input ends."""
    seen, lock = Seen(), threading.Lock()
    begun = time.perf_counter()

    def note(change: Callable[[], None]) -> None:
        with lock:
            change()

    def search(number: int) -> Callable[[], None]:
        def task() -> None:
            rng, caller = random.Random(number), _Caller(url)
            load.stopping.wait(rng.random() * think_s)
            while not load.stopping.is_set():
                _search(caller, rng, seen, note)
                if think_s:
                    load.stopping.wait(think_s * rng.uniform(0.5, 1.5))

        return task

    def ingest() -> None:
        with ThreadPoolExecutor(16) as pool:
            number = first
            while not load.stopping.wait(max(0.0, begun + (number - first) * ingest_every_s - time.perf_counter())):
                pool.submit(_ingest, url, number, seen, note)
                number += 1

    tasks = [search(number) for number in range(searchers)]
    load = Background(*tasks, *([ingest] if ingest_every_s else []))
    with load:
        sys.stdin.read()
    seen.seconds = time.perf_counter() - begun
    return seen


def _search(caller: _Caller, rng: random.Random, seen: Seen, note: Callable[[Callable[[], None]], None]) -> None:
    steady = rng.random() < 0.25
    query = STEADY_WORDS if steady else " ".join(rng.sample(WORDS.split(), 4))
    begun = time.perf_counter()
    try:
        status, body = caller.post("/rag/search", {"query": query, "topK": 5})
        failure = "" if status == 200 else f"{status} {body[:300].decode(errors='replace')}"
        if not failure and steady:
            paths = [hit["metadata"]["path"] for hit in json.loads(body)["results"]]
            failure = "" if paths.count(STEADY) == 1 else f"{STEADY} was found {paths.count(STEADY)} times: {paths}"
    except (OSError, http.client.HTTPException) as error:
        failure = repr(error)
    took = 1000 * (time.perf_counter() - begun)

    def change() -> None:
        seen.searches += 1
        seen.search_ms.append(took)
        if failure:
            seen.failed += 1
            seen.first_failure = seen.first_failure or failure

    note(change)


def _ingest(url: str, number: int, seen: Seen, note: Callable[[Callable[[], None]], None]) -> None:
    begun = time.perf_counter()
    body = {"source": SOURCE, "path": f"new-{number}.md", "text": text_of(number)}
    try:
        status, reply = _Caller(url).post("/rag/ingest", body)
        ended = status == 200 and json.loads(reply)["status"] == "created"
    except (OSError, http.client.HTTPException):
        ended = False
    took = 1000 * (time.perf_counter() - begun)

    def change() -> None:
        seen.sent += 1
        seen.ended += ended
        seen.ingest_ms.append(took)

    note(change)


class Beside:
    """The running process; `seen` is there once the block has ended."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.seen = Seen()


@contextmanager
def beside(
    url: str, *, searchers: int = 20, think_s: float = 0.0, ingest_every_s: float = 0.0, first: int = 0
) -> Iterator[Beside]:
    """Search and ingest while the block runs. The number of the first document that is sent is `first`."""
    options = [str(value) for value in (searchers, think_s, ingest_every_s, first)]
    running = Beside(
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.searchers", url, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    )
    try:
        yield running
        told, _ = running.process.communicate(timeout=120)
        running.seen = msgspec.json.decode(told, type=Seen)
    finally:
        running.process.kill()
        running.process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.searchers", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("searchers", type=int)
    parser.add_argument("think_s", type=float)
    parser.add_argument("ingest_every_s", type=float)
    parser.add_argument("first", type=int)
    print(msgspec.json.encode(run(*vars(parser.parse_args()).values())).decode())
