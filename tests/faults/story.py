"""What is told to a server that dies, and what has to be in the index then.

A step that was answered is never told again, so that a loss is seen; one that was not is told until it is.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from services.query_api.http.opaque_tokens import Signer
from services.query_api.ops.erase import Canaries
from shared.ids import document_id
from tests.e2e.load import Content
from tests.e2e.text import paragraph
from tests.faults.server import SECRET, CrashingServer

SOURCE = "story"
LARGE = 470  # equal paragraphs: over 256 KiB, the claim check's size, and one text to embed
GUARD_S = 60.0
PAGE = 100  # hits of a search


@dataclass(frozen=True)
class Write:
    """A document is created or edited; without content, deleted."""

    path: str
    content: Content


@dataclass(frozen=True)
class Damage:
    """A file comes that can't be read."""

    path: str


@dataclass(frozen=True)
class Redrive:
    """What was set aside of a document is tried again."""

    path: str


@dataclass(frozen=True)
class Erase:
    """A document goes, and all that is older."""

    path: str


@dataclass(frozen=True)
class Forget:
    """The files are made anew without what was erased."""

    canaries: Content


Step = Write | Damage | Redrive | Erase | Forget


class Story:
    """Steps without an end."""

    def __init__(self, server: CrashingServer, rng: random.Random) -> None:
        self.server = server
        self.expected: dict[str, Content] = {}  # by document id
        self.damaged: set[str] = set()  # ids of documents that can't be read
        self._possible: dict[str, set[Content]] = {}  # by path: what a reader may see until all of it is in the index
        self._rng = rng
        self._revision = 0
        self._pending: Step | None = None

    def documents(self) -> Iterator[Step]:
        """Yield one lap: creations, edits, deletions, re-creations, a large body, and what can't be read."""
        one, two = self._new(), self._new()
        # A document's next step comes late: it would heal what the death under the one before has lost.
        yield Write("edited.md", (one, two))
        yield Write("deleted.md", (self._new(),))
        yield Write("large.md", (self._new(),) * LARGE)
        yield self._damage()
        yield Write("edited.md", (one, self._new(), self._new()))
        yield Write("deleted.md", ())
        yield Write("large.md", (self._new(),))
        yield Write("deleted.md", (self._new(), self._new()))

    def operator(self) -> Iterator[Step]:
        """Yield one lap of what only an operator asks for."""
        secret = self._new()
        damage = self._damage()
        yield Write("erased.md", (secret, self._new()))
        yield damage
        yield Redrive(damage.path)
        yield Write("erased.md", (self._new(), self._new()))
        yield Erase("erased.md")
        yield Forget((secret[:60],))

    def tell(self, step: Step) -> None:
        """Return when the step was answered, or the server has died of it: then it is told again by `resume`."""
        self._pending = step
        self._expect(step)
        self._insist()

    def resume(self) -> None:
        """Go on after a death: see that no document is torn, and tell again what wasn't answered."""
        for path, possible in self._possible.items():
            if max(map(len, possible)) <= PAGE:
                seen = self._seen(path)
                assert seen in possible, f"{path}: a reader saw {seen}"
        self._insist()
        assert self._pending is None, f"the server died of {self._pending} again: {self.server.tail()}"

    def settled(self) -> None:
        """Note that all of it was seen in the index."""
        self._possible.clear()

    def letters(self) -> list[str]:
        """Return for each dead letter the id of its document."""
        with self.server.client() as client:
            reply = client.get("/ops/dead-letters", params={"limit": 100})
        assert reply.status_code == 200, reply.text
        page = reply.json()
        assert page["total"] <= 100, page["total"]
        assert {(item["stage"], item["code"]) for item in page["items"]} <= {("ingest", "DAMAGED")}, page["items"]
        return [item["documentId"] for item in page["items"]]

    def _new(self) -> str:
        self._revision += 1
        return paragraph(0, self._revision, 0, of=0)

    def _damage(self) -> Damage:
        self._revision += 1
        return Damage(f"damaged-{self._revision}.pdf")

    def _expect(self, step: Step) -> None:
        match step:
            case Write(path, content):
                pass
            case Damage(path) | Erase(path):
                content = ()
            case Redrive() | Forget():
                return
        before = self.expected.get(_id(path), ())
        self._possible.setdefault(path, {before}).add(content)
        self.expected[_id(path)] = content
        if isinstance(step, Damage):
            self.damaged.add(_id(path))

    def _insist(self) -> None:
        deadline = time.monotonic() + GUARD_S
        while self._pending is not None and self.server.alive:
            assert time.monotonic() < deadline, f"{self._pending} is not taken: {self.server.tail()}"
            try:
                with self.server.client() as client:
                    answered = self._answered(self._ask(client, self._pending), self._pending)
            except httpx.HTTPError:
                answered = False
            if answered:
                self._pending = None
            else:
                time.sleep(0.05)  # another process: there is nothing to await

    def _ask(self, client: httpx.Client, step: Step) -> httpx.Response:
        match step:
            case Write(path, content):
                # Answered at the end, or as soon as the log has it: then more of it is under way when the server dies.
                wait = {"Prefer": f"wait={self._rng.choice((0, 0, 30))}"}
                if not content:
                    return client.delete(f"/rag/documents/{_id(path)}", headers=wait)
                body = {"source": SOURCE, "path": path, "text": "\n\n".join(content)}
                if path == "edited.md":
                    body["callbackUrl"] = "http://127.0.0.1:9/"  # an address that isn't allowed
                return client.post("/rag/ingest", json=body, headers=wait)
            case Damage(path):
                form = {"source": SOURCE, "path": path}
                return client.post("/rag/ingest/upload", data=form, files={"file": (path, b"%PDF-1.7 nothing")})
            case Redrive(path):
                return client.post("/ops/dead-letters/redrive", json={"documentId": _id(path)})
            case Erase(path):
                return client.post("/ops/erase", json={"documentIds": [_id(path)]})
            case Forget(canaries):
                proof = Signer(SECRET.encode()).sign(Canaries(canaries))
                return client.post("/ops/forget", json={"proofs": [proof]})

    def _answered(self, reply: httpx.Response, step: Step) -> bool:
        if reply.status_code == 503:
            return False
        match step:
            case Write():
                expected = {200, 202}
            case Damage():
                expected = {422}
            case _:
                expected = {200}
        assert reply.status_code in expected, f"{step}: {reply.status_code} {reply.text[:300]}"
        match step:
            case Erase():
                return [item["outcome"] for item in reply.json()["items"]] == ["erased"]
            case Forget():
                assert reply.json()["found"] == [], (step, reply.json())
        return True

    def _seen(self, path: str) -> Content:
        body = {"query": path, "topK": PAGE, "filters": {"documentIds": [_id(path)]}}
        with self.server.client() as client:
            reply = client.post("/rag/search", json=body)
        assert reply.status_code == 200, reply.text
        hits = sorted(reply.json()["results"], key=lambda hit: hit["metadata"]["chunkOrder"])
        return tuple(hit["text"] for hit in hits)


def _id(path: str) -> str:
    return document_id("default", SOURCE, path)
