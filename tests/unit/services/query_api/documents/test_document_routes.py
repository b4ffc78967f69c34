"""Reading a document that is edited, deleted or damaged between the look at its head and the look at its points."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from services.query_api.documents.document_routes import ChunkPage, DocumentViews
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import Problem
from shared.contracts import DEFAULT_TENANT
from shared.errors import Unavailable
from shared.ids import point_id
from shared.state.index import Generation, Head, Index
from shared.state.ledger import Ledger
from shared.state.rebuild_gate import Gate
from shared.store import Point, PointPage
from tests.builders import an_entry
from tests.fakes.blobs import MemoryBlobs
from tests.fakes.embedder import MemoryEmbedder, vector_of
from tests.fakes.store import MemoryStore

NAME = "11ca04b3-12ec-5b35-8f4b-4ab297c91387"
GENERATION = Generation(chunker="1", chunk_size=100, chunk_overlap=0, model=MemoryEmbedder.model, bm25="1")
Happens = Callable[[], Awaitable[None]]
OLD, NEW = ("old one", "old two"), ("new one", "new two", "new three")


class Edited(MemoryStore):
    """A store in which something happens just before points are read, once."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Happens] = []

    async def scroll(self, *what: Any, **how: Any) -> PointPage:
        if self.meanwhile and "order" in how:
            await self.meanwhile.pop()()
        return await super().scroll(*what, **how)


class Shelf:
    """A library with one document, at version 1."""

    def __init__(self) -> None:
        self.store = Edited()
        self.index = Index(self.store, GENERATION)
        self.library = DocumentViews(Ledger(self.store), self.index, MemoryBlobs(), Signer(b"secret"))

    async def apply(self, version: int, texts: tuple[str, ...]) -> None:
        """Put, switch, delete: as the embed worker does; without texts the version deletes the document."""
        for order, text in enumerate(texts):
            metadata = {"documentId": NAME, "version": version, "chunkOrder": order}
            payload = {"text": text, "metadata": metadata}
            await self.index.put([Point(id=point_id(NAME, version, order), payload=payload, dense=vector_of(text))])
        head = Head(
            document_id=NAME,
            version=version,
            tenant=DEFAULT_TENANT,
            source="s",
            path="p",
            deleted=not texts,
            chunk_count=len(texts),
        )
        await self.index.switch(head)
        await self.index.delete_below(NAME, version)

    async def page(self, limit: int, cursor: str | None = None) -> ChunkPage:
        return await self.library.chunks(DEFAULT_TENANT, NAME, limit=limit, cursor=cursor)

    async def texts(self) -> tuple[str, ...]:
        return tuple(item.text for item in (await self.page(10)).items)


@pytest.fixture
async def selector() -> Shelf:
    selector = Shelf()
    ledger = Ledger(selector.store)
    await ledger.create()
    await selector.index.create()
    await ledger.update(NAME, lambda _: an_entry(NAME, accepted=1, status="created"))
    await selector.apply(1, OLD)
    return selector


class NotedStore(MemoryStore):
    """A store that notes what is read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    async def retrieve(self, *what: Any, **how: Any) -> list[Point]:
        self.steps.append("retrieve")
        return await super().retrieve(*what, **how)

    async def scroll(self, *what: Any, **how: Any) -> PointPage:
        self.steps.append("scroll")
        return await super().scroll(*what, **how)


class NotedGate(Gate):
    """A gate that notes in the store's steps that it was asked."""

    def __init__(self, steps: list[str]) -> None:
        self.steps = steps
        self.whole = True

    async def ledger(self) -> None:
        self.steps.append("gate")
        if not self.whole:
            raise Unavailable("the index is being rebuilt", code="index_rebuilding")

    async def points(self, *names: str) -> None:
        self.steps.append("points")


@pytest.mark.parametrize("whole", [True, False])
async def test_a_document_of_another_tenant_takes_the_same_steps_as_an_unknown_one(*, whole: bool) -> None:
    store = NotedStore()
    gate = NotedGate(store.steps)
    ledger = Ledger(store, gate)
    await ledger.create()
    await ledger.update(NAME, lambda _: an_entry(NAME, accepted=1, status="created"))
    library = DocumentViews(ledger, Index(store, GENERATION), MemoryBlobs(), Signer(b"secret"))
    gate.whole = whole

    async def refused(tenant: str, document_id: str) -> tuple[list[str], str]:
        store.steps.clear()
        with pytest.raises((Problem, Unavailable)) as raised:
            await library.entry(tenant, document_id)
        return [*store.steps], str(raised.value)

    foreign = await refused("another", NAME)
    unknown = await refused("another", NAME.replace("1", "2"))
    assert foreign == unknown
    assert foreign[0] == ["scroll", "gate"]
    assert (await library.entry(DEFAULT_TENANT, NAME)).document_id == NAME


async def test_given_an_edit_between_head_and_points_when_read_then_the_new_version_is_shown_whole(
    selector: Shelf,
) -> None:
    selector.store.meanwhile.append(lambda: selector.apply(2, NEW))

    assert await selector.texts() == NEW


async def test_given_a_deletion_between_head_and_points_when_read_then_nothing_is_shown(selector: Shelf) -> None:
    selector.store.meanwhile.append(lambda: selector.apply(2, ()))

    assert await selector.texts() == ()


async def test_given_an_edit_between_head_and_points_when_read_on_then_the_cursor_is_refused(selector: Shelf) -> None:
    cursor = (await selector.page(1)).next_cursor
    selector.store.meanwhile.append(lambda: selector.apply(2, NEW))

    with pytest.raises(Problem, match="the document has changed since this cursor was issued"):
        await selector.page(1, cursor)


async def test_given_a_lost_point_when_read_then_what_is_left_is_shown(selector: Shelf) -> None:
    await selector.index.delete_points([point_id(NAME, 1, 0)])

    assert await selector.texts() == OLD[1:]
