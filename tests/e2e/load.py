"""A load with edits, and an oracle that knows from the requests alone what has to be there.

It shares ids with the product and nothing else: what it expects, it wrote down when it asked.
"""

import random
import threading
import time
from dataclasses import dataclass, field

import httpx

from shared.ids import document_id
from tests.e2e.harness import Server
from tests.e2e.text import paragraph

SOURCE = "load"
Content = tuple[str, ...]  # paragraphs; empty: deleted


@dataclass
class Document:
    """One document's history as its only writer knows it."""

    number: int
    tried: set[Content] = field(default_factory=set)  # everything that was ever sent
    wanted: Content | None = None  # what was sent last, answered or not
    settled: Content | None = None  # what a 200 has confirmed; None while something else is under way
    epoch: int = 0  # counts sends: a reader's look is judged only when none began meanwhile

    @property
    def path(self) -> str:
        return f"{self.number}.md"

    @property
    def id(self) -> str:
        return document_id("default", SOURCE, self.path)


class Load:
    """Writers that own documents, and readers that look at all of them."""

    def __init__(self, server: Server, documents: int, seed: int) -> None:
        self.server = server
        self.documents = [Document(number) for number in range(documents)]
        self.faults: list[str] = []
        self.reads = 0
        self.writes = 0
        self._seed = seed
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, writers: int = 3, readers: int = 1) -> None:
        """Begin writing and reading."""
        self._stop.clear()
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

    def settle(self) -> None:
        """Send again, until it is confirmed, whatever has no answer yet."""
        deadline = time.monotonic() + 120
        for document in self.documents:
            while document.wanted is not None and document.settled != document.wanted:
                assert time.monotonic() < deadline, f"document {document.number} does not settle"
                self._send(document, document.wanted, wait=30)

    # -- writers

    def _write(self, mine: list[Document], rng: random.Random) -> None:
        while not self._stop.is_set():
            document = rng.choice(mine)
            if document.wanted is None or document.settled == document.wanted or rng.random() < 0.5:
                document.wanted = self._next(document, rng)
            self._send(document, document.wanted, wait=rng.choice((0, 0, 10)))

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
        document.settled = None
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
            document.settled = content  # it never came into being
            return
        if reply.status_code not in (200, 202, 503):
            self.faults.append(f"{reply.status_code} for document {document.number}: {reply.text[:200]}")
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
            with self.server.client(timeout=30) as client:
                reply = client.post("/rag/search", json=body)
        except httpx.HTTPError:
            return None
        if reply.status_code == 503:
            return None
        if reply.status_code != 200:
            self.faults.append(f"search answered {reply.status_code}: {reply.text[:200]}")
            return None
        hits = sorted(reply.json()["results"], key=lambda hit: hit["metadata"]["chunkOrder"])
        if len({hit["metadata"]["version"] for hit in hits}) > 1:
            self.faults.append(f"document {document.number}: a reader saw two versions")
        return tuple(hit["text"] for hit in hits)
