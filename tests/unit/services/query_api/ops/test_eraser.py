"""An erasure on parts in memory: what it takes for older than itself."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from services.query_api.ingest.submissions import SubmissionEnd, SubmissionReceipt, Submissions
from services.query_api.ops.eraser import Eraser
from shared.contracts import DEFAULT_TENANT, ERASED, DocumentSubmitted, LogPosition, encode
from shared.ids import document_id
from shared.state.callbacks import Callbacks
from shared.state.index import Generation, Index
from shared.state.ledger import Entry
from shared.topics import DEAD_LETTERS, EXTRACTED, FEEDBACK, SUBMITTED, chunks_topic
from tests.builders import an_entry
from tests.fakes.blobs import MemoryBlobs
from tests.fakes.embedder import MemoryEmbedder
from tests.fakes.log import MemoryLog
from tests.fakes.store import MemoryStore

GENERATION = Generation(chunker="1", chunk_size=100, chunk_overlap=0, model=MemoryEmbedder.model, bm25="1")
FIRST, SECOND = document_id(DEFAULT_TENANT, "s", "1"), document_id(DEFAULT_TENANT, "s", "2")


def entry(name: str, place: LogPosition, raw_hash: str = ERASED) -> Entry:
    """Return how the document stands when all has ended that was submitted up to `place`."""
    return an_entry(name, accepted=1, place=place, status="deleted", raw_hash=raw_hash, source="", path="")


class Stands(NamedTuple):
    """A door behind which each document stands as it is said."""

    entries: dict[str, Entry]
    places: dict[str, LogPosition]  # of the erasures

    async def submit(self, document: DocumentSubmitted, *, of_many: bool = False) -> SubmissionReceipt:
        return SubmissionReceipt(document.document_id, self.places[document.document_id], "")

    async def end(self, receipt: SubmissionReceipt, wait_s: float) -> SubmissionEnd:
        entry = self.entries[receipt.document_id]
        return SubmissionEnd(entry, entry.last, 0, asyncio.get_running_loop().time())


class Shelf:
    """A log and blobs, with what erases in them."""

    def __init__(self) -> None:
        topics = (SUBMITTED, EXTRACTED, chunks_topic(GENERATION.id), DEAD_LETTERS, FEEDBACK)
        self.log, self.blobs = MemoryLog(dict.fromkeys(topics, 1), (0,)), MemoryBlobs()

    async def submitted(self, name: str, path: str) -> LogPosition:
        """Return the place of a submission whose body is a blob."""
        self.log.pass_time(1)
        blob = await self.blobs.put(DEFAULT_TENANT, name, b"words")
        value = encode(DocumentSubmitted(source="s", path=path, blob=blob))
        return self._place(self.log.append(SUBMITTED, value, key=name.encode()))

    def erasure(self) -> LogPosition:
        """Return the place of an erasure."""
        self.log.pass_time(1)
        return self._place(self.log.append(SUBMITTED, b"{}", key=b""))

    async def erase(self, stands: Stands) -> dict[str, str | None]:
        async def publish(topic: str, value: bytes | None, **options: Any) -> Any:
            return self.log.append(topic, value, **options)

        async def nobody() -> Sequence[Index]:
            return ()

        base: Any = SimpleNamespace(index=Index(MemoryStore(), GENERATION), blobs=self.blobs, log=self.log)
        eraser = Eraser(base, publish, cast("Submissions", stands), await _no_callbacks(), nobody)
        return await eraser.erase([*stands.entries.values()], 1.0)

    @staticmethod
    def _place(written: Any) -> LogPosition:
        return LogPosition(partition=written.partition, offset=written.offset, time=written.timestamp)


async def _no_callbacks() -> Callbacks:
    callbacks = Callbacks(MemoryStore())
    await callbacks.create()
    return callbacks


async def test_given_two_erased_at_once_when_one_was_sent_between_their_places_then_its_blob_goes() -> None:
    selector = Shelf()
    first = selector.erasure()
    await selector.submitted(SECOND, "2")
    second = selector.erasure()
    places = {FIRST: first, SECOND: second}

    said = await selector.erase(Stands({name: entry(name, place) for name, place in places.items()}, places))

    assert said == {FIRST: None, SECOND: None}
    assert selector.blobs.documents() == set()


async def test_given_an_erasure_that_stands_at_a_later_place_when_erased_again_then_all_before_it_goes() -> None:
    selector = Shelf()
    behind = selector.erasure()
    await selector.submitted(FIRST, "1")
    standing = selector.erasure()

    said = await selector.erase(Stands({FIRST: entry(FIRST, standing)}, {FIRST: behind}))

    assert said == {FIRST: None}
    assert selector.blobs.documents() == set()


async def test_given_a_submission_that_stands_at_a_later_place_when_erased_then_that_is_said_and_all_stays() -> None:
    selector = Shelf()
    behind = selector.erasure()
    standing = await selector.submitted(FIRST, "1")

    said = await selector.erase(Stands({FIRST: entry(FIRST, standing, "a hash")}, {FIRST: behind}))

    assert said == {FIRST: "a later submission was accepted: erase it again"}
    assert selector.blobs.documents() == {FIRST}
