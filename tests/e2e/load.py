"""A load with edits, and an oracle that knows from the requests alone what has to be there.

It shares ids with the product and nothing else: what it expects, it wrote down when it asked.
"""

import itertools
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from shared.contracts import DEFAULT_TENANT
from tests.e2e.caller import Asked, Caller
from tests.e2e.documents import GONE, SOURCE, Content, Document, Version
from tests.e2e.reader import Reader
from tests.e2e.text import paragraph
from tests.selection import COMMIT

__all__ = ["Content", "Load", "new_seed"]

COMMON = 99  # the document that nobody has: its paragraphs stand in others', of every tenant
SEARCHES_S = 20.0  # how many a second
LIST_S = 1.0  # how often


def new_seed() -> int:
    """Return SLUICE_TEST_SEED, else the commit's; it is printed, so that a failure can be had again."""
    seed = int(os.environ.get("SLUICE_TEST_SEED") or COMMIT % 1_000_000)
    print(f"SLUICE_TEST_SEED={seed}")
    return seed


class Load:
    """Writers that own so many documents, of one tenant or several, and readers that look at all of them."""

    def __init__(self, server: Asked, documents: int, seed: int, tenants: Sequence[str] = (DEFAULT_TENANT,)) -> None:
        self.documents = [Document(tenant, number) for number in range(documents // len(tenants)) for tenant in tenants]
        self.faults: list[str] = []
        self.taken = 0  # writes answered 200 or 202
        self.writes = 0  # answered 200: done
        self.ends: Counter[str] = Counter()  # of those that were judged, by what was answered
        self.marks: set[str] = set()  # of what was taken: the log must have them
        self.deletions: Counter[str] = Counter()  # that were taken, by document id: the log must have as many
        self._callers = {tenant: Caller(server, tenant) for tenant in tenants}
        self._readers = {
            tenant: Reader(caller, tenant, self.documents, self.faults) for tenant, caller in self._callers.items()
        }
        self._seed = seed
        self._numbers = itertools.count()
        self._rest_s = 0.0
        self._judging = True
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def reads(self) -> int:
        return sum(reader.reads for reader in self._readers.values())

    @property
    def refusals(self) -> int:
        """Return how many reads were answered 503."""
        return sum(reader.refusals for reader in self._readers.values())

    def start(self, writers: int = 3, readers: int = 1, rest_s: float = 0.0) -> None:
        """Begin writing and reading, each tenant by so many readers; each writer rests so long after each write.

        Without readers, how a write ends isn't judged either: somebody harms the store.
        """
        self._stop.clear()
        self._rest_s, self._judging = rest_s, readers > 0
        self._threads = [
            threading.Thread(target=self._write, args=(self.documents[n::writers], random.Random(f"{self._seed}/{n}")))
            for n in range(writers)
        ]
        every_s = readers * len(self._readers) / SEARCHES_S
        for tenant, reader in self._readers.items():
            for n in range(readers):
                rng = random.Random(f"{self._seed}/{tenant}/{n}")
                self._threads.append(threading.Thread(target=reader.search_on, args=(self._stop, every_s, rng)))
            if readers:
                rng = random.Random(f"{self._seed}/{tenant}")
                self._threads.append(threading.Thread(target=reader.list_on, args=(self._stop, LIST_S, rng)))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Return when every thread has ended; what a writer was sending is still `wanted`."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {status}" for status, count in sorted(self.ends.items()))
        return f"{self.taken} writes taken, {self.writes} ended: {ends}; {self.reads} reads, {self.refusals} refused"

    @property
    def expected(self) -> dict[str, Content]:
        """Return what has to be there once all is quiet: {document id: paragraphs}."""
        return {document.id: document.wanted.texts for document in self.documents}

    @property
    def described(self) -> dict[str, dict[str, Any]]:
        """Return what the metadata of each document's chunks has to hold."""
        return {
            document.id: {
                "tenant": document.tenant,
                "source": SOURCE,
                "path": document.path,
                "title": document.wanted.title,
                "tags": [*document.wanted.tags],
                "shelf": document.wanted.shelf,
                "totalChunks": len(document.wanted.texts),
            }
            for document in self.documents
        }

    def settle(self) -> None:
        """Return when everything sent is there: what was taken arrives by itself, the rest is sent again."""
        rng, deadline = random.Random(self._seed), time.monotonic() + 120
        for document in self.documents:
            while not document.taken:
                assert time.monotonic() < deadline, f"{document.tenant}'s {document.path} is not taken"
                self._send(document, document.wanted, rng, wait=0)
        for document in self.documents:
            while document.settled != document.wanted:
                # Not sent again before it is seen: that would heal a loss.
                if self._readers[document.tenant].look(document) == document.wanted:
                    self._send(document, document.wanted, rng, wait=30)
                assert time.monotonic() < deadline, f"{document.tenant}'s {document.path} was taken, and did not arrive"
                time.sleep(0.05)  # another process: there is nothing to await

    # -- writers

    def _write(self, mine: list[Document], rng: random.Random) -> None:
        while not self._stop.is_set():
            document = rng.choice(mine)
            # What may or may not be on the log is sent again, unchanged: it could still come in behind other words.
            if document.taken and (document.settled == document.wanted or rng.random() < 0.5):
                document.wanted = self._next(document, rng)
            times = 2 if rng.random() < 0.2 else 1
            self._send(document, document.wanted, rng, wait=rng.choice((0, 10)), times=times)
            self._stop.wait(self._rest_s)

    def _next(self, document: Document, rng: random.Random) -> Version:
        """Return an edit, growth, shrink, another description, delete, re-creation, or the same again."""
        new = self._paragraphs(document, rng)
        now = document.wanted
        texts = [*now.texts]
        what = rng.random()
        if not texts:
            return Version(tuple(itertools.islice(new, rng.randint(1, 4))), f"Report {next(self._numbers)}")
        if what < 0.3:
            texts[rng.randrange(len(texts))] = next(new)
        elif what < 0.42 and len(texts) < 6:
            texts.append(next(new))
        elif what < 0.52 and len(texts) > 1:
            texts.pop(rng.randrange(len(texts)))
        elif what < 0.57:
            now = now._replace(title=f"Report {next(self._numbers)}")
        elif what < 0.62:
            now = now._replace(tags=tuple(rng.sample(("red", "green", "blue"), rng.randint(0, 2))))
        elif what < 0.67:
            now = now._replace(shelf=now.shelf + 1)
        elif what < 0.77:
            return GONE
        return now._replace(texts=tuple(texts))

    def _paragraphs(self, document: Document, rng: random.Random) -> Iterator[str]:
        """Yield new ones, and some that stand in other documents too."""
        while True:
            if rng.random() < 0.2:
                yield paragraph(COMMON, 0, rng.randrange(6), of=0)
            else:
                yield paragraph(document.number, rng.randrange(1, 1_000_000), 0, of=0)

    def _send(self, document: Document, version: Version, rng: random.Random, *, wait: int, times: int = 1) -> None:
        """Send it, also several times at the same moment, and judge and note what was answered."""
        before = document.begin(version)
        bodies = [self._body(document, version, rng) for _ in range(times)] if version.texts else [None] * times
        with ThreadPoolExecutor(times) as pool:
            replies = list(pool.map(lambda body: self._post(document, body, wait), bodies))
        taken = [False if reply is None else self._taken(document, version, reply) for reply in replies]
        for body, reply in itertools.compress(zip(bodies, replies, strict=True), taken):
            # What is there unchanged needn't come into the log.
            if body is not None and reply is not None and reply.json().get("status") != "unchanged":
                self.marks.add(body["hash"])
        if [reply.status_code for reply in replies if reply is not None] == [404] * times and not version.texts:
            # Else no worker has seen it yet, and it is deleted once more.
            document.taken = not document.came
            document.settled = GONE if document.taken else None
            return
        document.came |= any(taken)
        document.taken = all(taken)
        self.taken += sum(taken)
        for reply in replies:
            if reply is not None and reply.status_code == 200:
                document.settled = version
                self.writes += 1
                self._ended(document, version, reply.json(), before if times == 1 else None)
        if None in replies:
            time.sleep(0.05)  # it is down on purpose; asking in a tight loop would only slow its return

    def _body(self, document: Document, version: Version, rng: random.Random) -> dict[str, Any]:
        """Return the request, its members in whatever order, with a mark that the log keeps and nothing depends on."""
        metadata = {"shelf": version.shelf, "aisle": "left", "keeper": {"name": "Ada", "since": 2001}}
        body = {
            "source": SOURCE,
            "path": document.path,
            "text": "\n\n".join(version.texts),
            "title": version.title,
            "tags": [*version.tags],
            "metadata": _permuted(metadata, rng),
            "hash": f"mark-{next(self._numbers)}",
        }
        return _permuted(body, rng)

    def _post(self, document: Document, body: dict[str, Any] | None, wait: int) -> httpx.Response | None:
        ask, headers = self._callers[document.tenant], {"Prefer": f"wait={wait}"}
        try:
            if body is None:
                return ask("DELETE", f"/rag/documents/{document.id}", wait + 30, headers=headers)
            return ask("POST", "/rag/ingest", wait + 30, json=body, headers=headers)
        except httpx.ReadTimeout:
            return None

    def _taken(self, document: Document, version: Version, reply: httpx.Response) -> bool:
        """Return whether the log has it, or needs no record of it."""
        status = reply.status_code
        if status not in (200, 202, 503) and (version.texts or status != 404):
            self.faults.append(f"{status} for {document.tenant}'s {document.path}: {reply.text[:200]}")
        taken = status in (200, 202)
        if taken and not version.texts:
            self.deletions[document.id] += 1
        return taken

    def _ended(self, document: Document, version: Version, reply: dict[str, Any], before: Version | None) -> None:
        """Judge the end of a submission; `before` is what stood there for certain."""
        where = f"{document.tenant}'s {document.path}"
        if (count := reply.get("chunkCount")) is not None and count != len(version.texts):
            self.faults.append(f"{where}: chunkCount {count}, sent {len(version.texts)}")
        if before is None or not self._judging:
            return
        if not version.texts:
            due = "deleted"
        elif before == version:
            due = "unchanged"
        else:
            due = "updated" if before.texts else "created"
        self.ends[due] += 1
        if reply["status"] != due:
            self.faults.append(f"{where}: {reply['status']}, and should be {due}")


def _permuted(members: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    return dict(rng.sample([*members.items()], len(members)))
