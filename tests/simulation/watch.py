"""What must be true at every moment: whoever looks sees one whole version, a status is no promise, tenants are apart.

correctness.md, section 8, I6 to I8. It looks at the store itself after each write, with rules of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import TopicPartition

from shared.log import Record
from shared.state.index import Generation, embedded_text
from shared.state.ledger import COLLECTION as LEDGER
from shared.store import StoreHit
from tests.fakes.store import MemoryStore

DONE = frozenset({"created", "updated", "unchanged"})


class Violation(AssertionError):  # noqa: N818 - says what happened to the promise
    """Something that must never be was."""


class Watch:
    """Sees every write. What it finds is in `violations`."""

    def __init__(self, store: MemoryStore, generation: Generation, now: Callable[[], int], *, calm: bool) -> None:
        self.violations: list[str] = []
        self.bugs: list[str] = []
        self.embeddings = 0  # texts given to the model
        self.uncounted: set[str] = set()
        self.interrupted = False  # the power is going: what is seen is half of it
        self._store, self._now, self._calm = store, now, calm
        self._heads, self._chunks = generation.heads, generation.chunks
        self._contents: dict[str, set[tuple[str, ...]]] = {}  # of each document, all that was ever sent
        self._tenants: dict[str, str] = {}
        self._embedded: set[tuple[str, str]] = set()
        self._versions: dict[str, int] = {}  # the highest head seen
        self._absent: dict[str, int] = {}  # the last step at which the document had nothing to show
        self._torn: set[str] = set()  # not whole since the power went, until its worker has read again
        self._unflushed: set[tuple[object, TopicPartition, int]] = set()
        self._healed: dict[str, int] = {}  # the step at which each was whole again

    def check(self) -> None:
        """Raise what was found since."""
        for found in (*self.bugs, *self.violations):
            raise Violation(found)

    def sent(self, id_: str, tenant: str, text: str | None) -> None:
        """Note a text that the document may have from now on."""
        self._tenants[id_] = tenant
        self._absent.setdefault(id_, self._now())
        if text is not None:
            self._contents.setdefault(id_, set()).add(tuple(text.split("\n\n")))

    def embedded(self, tenant: str, texts: Sequence[str]) -> None:
        """I7: nothing is embedded that the tenant's points hold; claims don't reach over processes or crashes."""
        self.embeddings += len(texts)
        self._embedded.update((tenant, text) for text in texts)
        if not self._calm:
            return
        for point in self._store.points(self._chunks).values():
            if point.payload["metadata"]["tenant"] == tenant and embedded_text(point.payload) in texts:
                self.violations.append(
                    f"I7: {tenant} has a vector of {point.payload['text']!r}, which was embedded again"
                )

    def written(self, collection: str) -> None:
        """Look at the store after a write."""
        if self.interrupted:
            for id_ in self._tenants:
                self.look(id_)
            return
        if collection == LEDGER:
            self._statuses()
        else:
            self._documents()

    def wrote(self, process: object, record: Record) -> None:
        """Note that the process has written something to the store for the record, and not flushed it."""
        self._unflushed.add((process, TopicPartition(record.topic, record.partition), record.offset))

    def flushed(self) -> None:
        """Note that whatever was written is on the disk."""
        self._unflushed.clear()

    def committed(self, process: object, tp: TopicPartition, offset: int) -> None:
        """I5: what is committed is done, and on the disk."""
        for other, there, done in self._unflushed:
            if other is process and there == tp and done < offset:
                self.violations.append(f"I5: {tp} is committed to {offset}, and what {done} wrote isn't flushed")

    def power_lost(self) -> None:
        """Excuse what is torn: heads and points are flushed together, and not written together."""
        heads = self._store.points(self._heads)
        self._torn |= {id_ for id_ in heads if self._flaw(id_) is not None}
        self._torn |= {
            id_ for id_, seen in self._versions.items() if id_ not in heads or heads[id_].payload["version"] < seen
        }
        self._versions = {id_: head.payload["version"] for id_, head in heads.items()}
        for id_ in self._tenants:
            self._absent[id_] = self._now()

    def succeeded(self, generation: Generation) -> None:
        """Look at the generation that serves in a lost one's place from now on; it is empty."""
        self._heads, self._chunks, self._versions = generation.heads, generation.chunks, {}

    def filled(self) -> None:
        """Look at the generation in a lost one's place, which is said to be full."""
        self.interrupted = False
        for id_ in self._tenants:
            self._absent[id_] = self._now()
        self._documents()
        self._statuses()

    def look(self, id_: str) -> None:
        """Note whether the document has nothing to show now."""
        head = self._store.points(self._heads).get(id_)
        if head is None or head.payload.get("deleted") or id_ in self._torn:
            self._absent[id_] = self._now()

    def forgot(self, truth: Sequence[Record]) -> None:
        """Note the documents whose newest version on the log the ledger has forgotten: its status may stay behind.

        The event is durable before the ledger's point is, so a loss of power leaves a version nobody has counted.
        """
        for record in truth:
            id_, _, version = (record.key or b"").decode().partition("/")
            entry = self._store.points(LEDGER).get(id_)
            if entry is None or entry.payload["accepted"].get("version", 0) < int(version):
                self.uncounted.add(id_)

    def read(self, id_: str, texts: tuple[str, ...], *, since: int) -> None:
        """I6: a reader was shown these chunks of the document, beginning at step `since`."""
        if texts in self._contents.get(id_, ()) or id_ in self._torn or self._healed.get(id_, -1) >= since:
            return
        if texts == () and self._absent.get(id_, 0) >= since:
            return
        self.violations.append(f"I6: a reader of document {id_} was shown {list(texts)}")

    def found(self, tenant: str, hit: StoreHit) -> None:
        """I8: a search of the tenant's had this hit."""
        if self._tenants[hit.payload["metadata"]["documentId"]] != tenant:
            self.violations.append(f"I8: {tenant} found {hit.payload}")

    def _documents(self) -> None:
        heads = self._store.points(self._heads)
        for id_ in self._tenants:
            self.look(id_)
        for id_, head in heads.items():
            version = head.payload["version"]
            if version < self._versions.get(id_, 0):
                self.violations.append(f"I6: the head of {id_} went from {self._versions[id_]} back to {version}")
            self._versions[id_] = version
            flaw = self._flaw(id_)
            if flaw is None and id_ in self._torn:
                self._torn.remove(id_)
                self._healed[id_] = self._now()
            elif flaw is not None and id_ not in self._torn:
                self.violations.append(f"I6: {flaw}")
        for point in self._store.points(self._chunks).values():
            metadata = point.payload["metadata"]
            if (metadata["tenant"], embedded_text(point.payload)) not in self._embedded:
                self.violations.append(f"I8: {metadata['tenant']} has a vector it never had embedded: {point.payload}")

    def _flaw(self, id_: str) -> str | None:
        """Return what a reader of the document would find wrong now."""
        head = self._store.points(self._heads)[id_].payload
        if head.get("deleted"):
            return None
        texts: dict[int, str] = {}
        for point in self._store.points(self._chunks).values():
            metadata: dict[str, Any] = point.payload["metadata"]
            if metadata["documentId"] == id_ and metadata["version"] == head["version"]:
                texts[metadata["chunkOrder"]] = point.payload["text"]
                if metadata["tenant"] != self._tenants[id_]:
                    return f"document {id_} of {self._tenants[id_]} has a point of {metadata['tenant']}"
        shown = tuple(texts[order] for order in sorted(texts))
        if len(shown) != head.get("chunkCount", 0) or shown not in self._contents.get(id_, ()):
            return f"document {id_} at version {head['version']} shows {list(shown)}, its head says {head}"
        return None

    def _statuses(self) -> None:
        """A status that says done is written after what it speaks of."""
        heads = self._store.points(self._heads)
        for id_, entry in self._store.points(LEDGER).items():
            last = entry.payload["last"]
            if last["status"] not in DONE or id_ in self._torn:
                continue
            head = heads.get(id_)
            if head is None or head.payload["version"] < last["version"]:
                self.violations.append(f"I3: {id_} is {last['status']} at version {last['version']}, and not there")
