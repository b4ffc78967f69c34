"""A load with edits, and an oracle that knows from the requests alone what has to be there.

It shares ids with the product and nothing else: what it expects, it wrote down when it asked.
"""

import os
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from shared.ids import document_id
from tests.e2e.text import paragraph

SOURCE = "load"
HANG_S = 30.0  # a search that takes longer hangs: nobody still waits for it
Content = tuple[str, ...]  # paragraphs; empty: deleted


@dataclass
class Document:
    """One document's history as its only writer knows it."""

    number: int
    tried: set[Content] = field(default_factory=set)  # everything that was ever sent
    wanted: Content | None = None  # what was sent last, answered or not
    settled: Content | None = None  # what a 200 has confirmed; None while something else is under way
    came: bool = False  # whether the log ever took something of it
    taken: bool = True  # whether the log is known to have what was sent last
    epoch: int = 0  # counts sends: a reader's look is judged only when none began meanwhile

    @property
    def path(self) -> str:
        return f"{self.number}.md"

    @property
    def id(self) -> str:
        return document_id("default", SOURCE, self.path)


def new_seed() -> int:
    """Return SLUICE_TEST_SEED, else a new one; it is printed, so that a failure can be had again."""
    seed = int(os.environ.get("SLUICE_TEST_SEED") or time.time_ns() % 1_000_000)
    print(f"SLUICE_TEST_SEED={seed}")
    return seed


class Asked(Protocol):
    """What answers HTTP, one process or many."""

    def client(self, **options: Any) -> httpx.Client:
        """Return a client whose base address is its door."""
        ...


class Load:
    """Writers that own documents, and readers that look at all of them."""

    def __init__(self, server: Asked, documents: int, seed: int) -> None:
        self.server = server
        self.documents = [Document(number) for number in range(documents)]
        self.faults: list[str] = []
        self.reads = 0
        self.refusals = 0  # searches answered 503
        self.taken = 0  # writes answered 200 or 202
        self.writes = 0  # answered 200: done
        self._seed = seed
        self._rest_s = 0.0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, writers: int = 3, readers: int = 1, rest_s: float = 0.0) -> None:
        """Begin writing and reading; each writer rests so long after each write."""
        self._stop.clear()
        self._rest_s = rest_s
        self._threads = [
            threading.Thread(target=self._write, args=(self.documents[n::writers], random.Random(f"{self._seed}/{n}")))
            for n in range(writers)
        ] + [threading.Thread(target=self._read, args=(random.Random(f"{self._seed}/r{n}"),)) for n in range(readers)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Return when every thread has ended; what a writer was sending is still `wanted`."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    @property
    def expected(self) -> dict[str, Content]:
        """Return what has to be there once all is quiet: {document id: paragraphs}."""
        return {document.id: document.wanted or () for document in self.documents}

    def settle(self) -> None:
        """Return when everything sent is there: what was taken arrives by itself, the rest is sent again."""
        deadline = time.monotonic() + 120
        for document in self.documents:
            while not document.taken and document.wanted is not None:
                assert time.monotonic() < deadline, f"document {document.number} is not taken"
                self._send(document, document.wanted, wait=0)
        for document in self.documents:
            while document.wanted is not None and document.settled != document.wanted:
                # Not sent again before it is seen: that would heal a loss.
                if self._look(document) == document.wanted:
                    self._send(document, document.wanted, wait=30)
                assert time.monotonic() < deadline, f"document {document.number} was taken, and did not arrive"
                time.sleep(0.05)  # another process: there is nothing to await

    # -- writers

    def _write(self, mine: list[Document], rng: random.Random) -> None:
        while not self._stop.is_set():
            document = rng.choice(mine)
            # What may or may not be on the log is sent again, unchanged: it could still come in behind other words.
            if document.taken and (document.settled == document.wanted or rng.random() < 0.5):
                document.wanted = self._next(document, rng)
            assert document.wanted is not None
            self._send(document, document.wanted, wait=rng.choice((0, 0, 10)))
            self._stop.wait(self._rest_s)

    def _next(self, document: Document, rng: random.Random) -> Content:
        """Return an edit, growth, shrink, delete, re-creation, or the same again."""
        revision = rng.randrange(1, 1_000_000)
        now = list(document.wanted or ())
        what = rng.random()
        if not now:
            now = [paragraph(document.number, revision, n, of=0) for n in range(rng.randint(1, 4))]
        elif what < 0.4:
            n = rng.randrange(len(now))
            now[n] = paragraph(document.number, revision, n, of=0)
        elif what < 0.6 and len(now) < 6:
            now.append(paragraph(document.number, revision, len(now), of=0))
        elif what < 0.75 and len(now) > 1:
            now.pop(rng.randrange(len(now)))
        elif what < 0.85:
            now = []
        return tuple(now)

    def _send(self, document: Document, content: Content, *, wait: int) -> None:
        document.epoch += 1
        document.tried.add(content)
        document.settled, document.taken = None, False
        headers = {"Prefer": f"wait={wait}"}
        try:
            with self.server.client(timeout=wait + 30, headers=headers) as client:
                if content:
                    body = {"source": SOURCE, "path": document.path, "text": "\n\n".join(content)}
                    reply = client.post("/rag/ingest", json=body)
                else:
                    reply = client.delete(f"/rag/documents/{document.id}")
        except httpx.HTTPError:
            time.sleep(0.05)  # it is down on purpose; asking in a tight loop would only slow its return
            return
        if reply.status_code == 404 and not content:
            if not document.came:
                document.settled, document.taken = content, True
            return  # else no worker has seen it yet, and it is deleted once more
        if reply.status_code not in (200, 202, 503):
            self.faults.append(f"{reply.status_code} for document {document.number}: {reply.text[:200]}")
        document.taken = reply.status_code in (200, 202)
        document.came |= document.taken
        self.taken += document.taken
        if reply.status_code == 200:
            document.settled = content
            self.writes += 1
            if (count := reply.json().get("chunkCount")) is not None and count != len(content):
                self.faults.append(f"document {document.number}: chunkCount {count}, sent {len(content)}")

    # -- readers

    def _read(self, rng: random.Random) -> None:
        while not self._stop.is_set():
            document = rng.choice(self.documents)
            epoch, settled = document.epoch, document.settled
            found = self._look(document)
            if found is not None:
                self.reads += 1
                if found and found not in document.tried:
                    self.faults.append(f"document {document.number}: a reader saw a mix: {[t[:60] for t in found]}")
                if settled is not None and document.epoch == epoch and found != settled:
                    self.faults.append(f"document {document.number}: a reader saw {len(found)} of {len(settled)} parts")
            time.sleep(0.05)  # twenty a second

    def _look(self, document: Document) -> Content | None:
        body = {"query": f"document {document.number}", "topK": 100, "filters": {"documentIds": [document.id]}}
        try:
            with self.server.client(timeout=HANG_S) as client:
                reply = client.post("/rag/search", json=body)
        except httpx.ReadTimeout:
            self.faults.append(f"a search gave no answer in {HANG_S:g} s")
            return None
        except httpx.HTTPError:
            return None
        if reply.status_code == 503:
            self.refusals += 1
            if "retry-after" not in reply.headers:
                self.faults.append(f"a search was refused without Retry-After: {reply.text[:200]}")
            return None
        if reply.status_code != 200:
            self.faults.append(f"search answered {reply.status_code}: {reply.text[:200]}")
            return None
        hits = sorted(reply.json()["results"], key=lambda hit: hit["metadata"]["chunkOrder"])
        if len({hit["metadata"]["version"] for hit in hits}) > 1:
            self.faults.append(f"document {document.number}: a reader saw two versions")
        return tuple(hit["text"] for hit in hits)
