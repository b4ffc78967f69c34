"""What is told of a document while the stages do their parts."""

import json
from contextlib import aclosing
from typing import Any, Self

import msgspec

from services.query_api.documents.detail import ProgressTracker
from services.query_api.documents.document_routes import DocumentViews
from services.query_api.http.opaque_tokens import Signer
from services.query_api.ingest.submissions import StatusWaiters
from shared.contracts import DEFAULT_TENANT, LogPosition, Status
from shared.ids import point_id
from shared.state.index import Generation, Head, Index
from shared.state.ledger import Entry, Last, Ledger
from shared.store import Point
from tests.builders import an_entry
from tests.fakes.blobs import MemoryBlobs
from tests.fakes.embedder import MemoryEmbedder, vector_of
from tests.fakes.store import MemoryStore

NAME = "11ca04b3-12ec-5b35-8f4b-4ab297c91387"
GENERATION = Generation(chunker="1", chunk_size=100, chunk_overlap=0, model=MemoryEmbedder.model, bm25="1")
HANG_S = 30.0  # a guard: nothing here waits for it
FIRST, SECOND = (LogPosition(partition=0, offset=n, time=n) for n in (1, 2))


class World:
    """A document on its way, and who watches it."""

    def __init__(self, *, look_again_s: float = 0.001, keep_alive_s: float = HANG_S) -> None:
        store = MemoryStore()
        self.ledger = Ledger(store)
        self.index = Index(store, GENERATION)
        self.notices = StatusWaiters(look_again_s)
        library = DocumentViews(self.ledger, self.index, MemoryBlobs(), Signer(b"secret"))
        self.tracker = ProgressTracker(library, self.index, self.notices, keep_alive_s)

    async def begun(self) -> Self:
        await self.ledger.create()
        await self.index.create()
        return self

    async def stand(self, place: LogPosition, version: int, status: Status) -> None:
        last = Last(version=version, place=place, status=status, at=1)

        def moved(seen: Entry | None) -> Entry:
            if seen is not None:
                return msgspec.structs.replace(seen, last=last)
            return msgspec.structs.replace(an_entry(NAME), last=last)

        await self.ledger.update(NAME, moved)

    async def embed(self, version: int, order: int, of: int) -> None:
        metadata = {"documentId": NAME, "version": version, "chunkOrder": order, "totalChunks": of}
        payload = {"text": str(order), "metadata": metadata}
        await self.index.put([Point(id=point_id(NAME, version, order), payload=payload, dense=vector_of(str(order)))])

    async def switch(self, version: int, count: int) -> None:
        names: dict[str, Any] = {"document_id": NAME, "tenant": DEFAULT_TENANT, "source": "s", "path": "p"}
        await self.index.switch(Head(**names, version=version, deleted=False, chunk_count=count))


async def test_each_step_is_told_once() -> None:
    world = await World().begun()
    await world.stand(FIRST, 0, "accepted")
    told = []
    async with aclosing(world.tracker.watch(DEFAULT_TENANT, NAME, FIRST, "")) as watching:
        async for message in watching:
            assert isinstance(message.data, bytes)
            told.append((message.event, json.loads(message.data)))
            match len(told):
                case 1:
                    await world.stand(FIRST, 7, "accepted")
                case 2:
                    await world.embed(7, 0, of=3)
                    await world.embed(6, 0, of=9)  # of the version before
                case 3:
                    await world.embed(7, 1, of=3)
                case 4:
                    await world.embed(7, 2, of=3)
                    await world.switch(7, 3)
                    await world.stand(FIRST, 7, "created")

    assert [name for name, _ in told] == ["received", "extracted", "embedding", "embedding", "searchable"]
    assert [(each["chunksEmbedded"], each["chunkCount"]) for _, each in told[2:4]] == [(1, 3), (2, 3)]
    assert told[-1][1] == {
        "documentId": NAME,
        "step": "searchable",
        "status": "created",
        "version": 7,
        "chunkCount": 3,
    }


async def test_the_end_of_an_older_submission_is_not_this_ones() -> None:
    world = await World().begun()
    await world.stand(FIRST, 7, "created")

    early = await world.tracker.progress(DEFAULT_TENANT, NAME, SECOND)
    newest = await world.tracker.progress(DEFAULT_TENANT, NAME, None)
    await world.stand(SECOND, 8, "unchanged")
    late = await world.tracker.progress(DEFAULT_TENANT, NAME, SECOND)

    assert [each.step for each in (early, newest, late)] == ["received", "searchable", "searchable"]


async def test_a_watcher_who_comes_back_is_told_only_what_is_new() -> None:
    world = await World().begun()
    await world.stand(FIRST, 7, "accepted")
    seen = (await world.tracker.progress(DEFAULT_TENANT, NAME, FIRST)).mark
    await world.stand(FIRST, 7, "failed")

    async with aclosing(world.tracker.watch(DEFAULT_TENANT, NAME, FIRST, seen)) as watching:
        [message] = [message async for message in watching]

    assert message.event == "failed"
    assert message.id == "failed-7-0"


async def test_silence_is_broken_by_comments() -> None:
    world = await World(keep_alive_s=0.001).begun()
    await world.stand(FIRST, 0, "accepted")

    async with aclosing(world.tracker.watch(DEFAULT_TENANT, NAME, FIRST, "")) as watching:
        while (message := await anext(watching)).event is None:  # the first look may take longer than the silence
            pass
        comments = [await anext(watching) for _ in range(2)]
        world.notices.close()
        rest = [late async for late in watching if late.event]

    assert message.event == "received"
    assert [comment.encode() for comment in comments] == [b": keep-alive\r\n\r\n"] * 2
    assert rest == []
