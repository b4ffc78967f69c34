"""The last stage on parts in memory."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from aiokafka import ConsumerRecord
from msgspec import json
from msgspec.structs import replace as replaced
from prometheus_client import CollectorRegistry

from services.embed_worker.embed import Embed
from services.embed_worker.points import chunk_points
from services.embed_worker.sweep import sweep
from services.embed_worker.vectors import VectorMetrics, Vectors
from shared.contracts import (
    DEFAULT_TENANT,
    BlobRef,
    Chunk,
    DocumentChunked,
    DocumentVersion,
    LogPosition,
    encode,
    truth_key,
)
from shared.embedder import Vector
from shared.errors import Rejected
from shared.ids import text_hash
from shared.log import Record
from shared.state.index import MOST_WITHDRAWN, Head, Index
from shared.state.ledger import Ledger
from shared.state.statuses import Statuses
from shared.store import Sparse
from shared.store.bm25 import Bm25
from tests.builders import an_entry, an_event
from tests.fakes.blobs import MemoryBlobs
from tests.fakes.consumer import consume_all
from tests.fakes.embedder import MemoryEmbedder, vector_of
from tests.fakes.state import ledger_and_index
from tests.fakes.store import MemoryStore

NAME = "11ca04b3-12ec-5b35-8f4b-4ab297c91387"


async def test_given_a_newer_head_when_a_version_is_replayed_then_its_erased_blob_is_not_missed() -> None:
    tombstones = list[bytes]()
    ledger, index = await ledger_and_index(MemoryStore())
    await index.switch(Head(document_id=NAME, version=2, tenant=DEFAULT_TENANT, source="", path="", deleted=True))

    async def publish(topic: str, value: bytes | None, *, key: bytes, **options: Any) -> Any:
        tombstones.append(key)

    statuses = Statuses(ledger, publish)
    vectors = Vectors(index, MemoryEmbedder(), VectorMetrics(CollectorRegistry()))
    embed = Embed(index=index, vectors=vectors, bm25=Bm25(), publish=publish, statuses=statuses, blobs=MemoryBlobs())
    place = LogPosition(partition=0, offset=0, time=1)
    document = DocumentVersion(
        document_id=NAME, version=1, place=place, tenant=DEFAULT_TENANT, source="s", path="p", outcome="created"
    )
    value = encode(DocumentChunked(document=document, blob=BlobRef(sha256="0" * 64, size=1)))
    record = ConsumerRecord("chunks", 0, 0, 1, 1, NAME.encode(), value, None, -1, len(value), ())

    await embed(record)

    assert tombstones == [truth_key(NAME, 1)]


async def test_points_of_another_text_are_written_anew_and_those_beyond_the_last_chunk_go() -> None:
    ledger, index = await ledger_and_index(MemoryStore())

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any: ...

    asked = list[str]()

    class Told(MemoryEmbedder):
        async def embed_documents(self, texts: Sequence[str], *, flow: Hashable = None) -> list[Vector]:
            asked.extend(texts)
            return await super().embed_documents(texts, flow=flow)

    apply = Embed(
        index=index,
        vectors=Vectors(index, Told(), VectorMetrics(CollectorRegistry())),
        bm25=Bm25(),
        publish=publish,
        statuses=Statuses(ledger, publish),
        blobs=MemoryBlobs(),
    ).apply
    place = LogPosition(partition=0, offset=0, time=1)
    document = DocumentVersion(
        document_id=NAME, version=1, place=place, tenant=DEFAULT_TENANT, source="s", path="p", outcome="created"
    )

    async def read(*texts: str) -> tuple[Chunk, ...]:
        return tuple(
            Chunk(order=order, text=text, hash=text_hash(text), start=0, end=len(text), tokens=1)
            for order, text in enumerate(texts)
        )

    class CrashError(Exception): ...

    async def crash(head: Head, attempt: int = 0, *, first: bool = False) -> Head:
        raise CrashError

    switch, index.switch = index.switch, crash  # type: ignore[method-assign]  # before the head, once
    with pytest.raises(CrashError):
        await apply(document, partial(read, "one", "two", "three"))
    index.switch = switch  # type: ignore[method-assign]
    await apply(document, partial(read, "one", "other"))

    shown = [payload["text"] for payload in await index.chunks_page(NAME, 1, start=0, limit=9)]
    head = await index.head(NAME)
    assert (shown, head.chunk_count if head else 0) == (["one", "other"], 2)
    assert asked == ["one", "two", "three", "other"]


PLACE = LogPosition(partition=0, offset=0, time=1)


def version(number: int) -> DocumentVersion:
    return DocumentVersion(
        document_id=NAME, version=number, place=PLACE, tenant=DEFAULT_TENANT, source="s", path="p", outcome="created"
    )


async def load() -> tuple[Chunk, ...]:
    return (Chunk(order=0, text="one", hash=text_hash("one"), start=0, end=3, tokens=1),)


class Applying:
    """The last stage on an empty store, and a ledger that has accepted version 2 and heard that it failed."""

    def __init__(self, ledger: Ledger, index: Index) -> None:
        async def publish(topic: str, value: bytes | None, **options: Any) -> Any: ...

        self.ledger = ledger
        self.index = index
        self.publish = publish
        self.statuses = Statuses(ledger, publish)
        self.registry = CollectorRegistry()
        vectors = Vectors(index, MemoryEmbedder(), VectorMetrics(self.registry))
        self.embed = Embed(
            index=index,
            vectors=vectors,
            bm25=Bm25(),
            publish=publish,
            statuses=self.statuses,
            blobs=MemoryBlobs(),
        )
        self.apply = self.embed.apply

    @property
    def embedded(self) -> float | None:
        return self.registry.get_sample_value("sluice_embedded_texts_total")

    @classmethod
    async def begun(cls) -> "Applying":
        ledger, index = await ledger_and_index(MemoryStore())
        await ledger.update(NAME, lambda _: an_entry(NAME, accepted=2))
        return cls(ledger, index)

    async def fails(self, number: int, attempt: int = 0) -> None:
        assert await self.embed.withdraw(version(number), attempt) is None
        await self.statuses.end(version(number), "failed", error="no model takes it", code="model_refuses")

    async def stands(self) -> tuple[int | None, int]:
        """Return the version that answers, and how many points the document has."""
        head = await self.index.head(NAME)
        return (head.version if head else None), await self.index.points(NAME)


async def test_a_version_that_was_withdrawn_is_refused_to_whoever_comes_later_and_taken_when_it_is_redriven() -> None:
    world = await Applying.begun()
    apply, stands = world.apply, world.stands

    assert await world.embed.withdraw(version(2)) is None
    assert await stands() == (None, 0), "the mark is no head"
    with pytest.raises(Rejected, match="version 2 was withdrawn"):  # nobody has said so yet
        await apply(version(2), load)
    await world.fails(2)

    await apply(version(2), load)
    assert await stands() == (None, 0)
    await apply(version(1), load)
    assert await stands() == (1, 1), "an older one that comes later is good"
    assert await world.embed.withdraw(version(2)) is None
    await apply(version(2), load, attempt=1)
    assert await stands() == (2, 1)
    withdrawn = await world.embed.withdraw(version(2))
    assert withdrawn is not None
    assert await stands() == (2, 1), "it answers: nobody withdraws it any more"
    await apply(version(3), load)
    assert await stands() == (3, 1)


async def test_given_two_withdrawn_versions_when_a_frozen_worker_wakes_then_it_can_switch_to_neither() -> None:
    world = await Applying.begun()
    await world.apply(version(1), load)
    await world.fails(2)
    await world.fails(3)

    for number in (2, 3):
        await world.apply(version(number), load)

    assert await world.stands() == (1, 1)


async def test_given_a_redrive_under_way_when_a_worker_of_the_first_attempt_wakes_then_no_point_goes() -> None:
    world = await Applying.begun()
    await world.fails(2)
    points = chunk_points(version(2), await load(), slice(None), [vector_of("one")], [Sparse([1], [1.0])])
    await world.index.put(points)  # by the worker that froze
    await world.index.put(points, 1)

    await world.index.put(points)
    await world.embed.withdraw(version(2))
    await sweep(world.index, world.ledger, world.publish)

    assert await world.stands() == (None, 1)
    await world.apply(version(2), load, attempt=1)
    assert await world.stands() == (2, 1)


async def test_a_redrive_writes_the_points_of_an_earlier_attempt_anew_and_embeds_nothing() -> None:
    world = await Applying.begun()
    points = chunk_points(version(2), await load(), slice(None), [vector_of("one")], [Sparse([1], [1.0])])
    await world.fails(2)
    await world.index.put(points)  # by the worker that froze

    await world.apply(version(2), load, attempt=1)
    await world.index.delete_attempts(NAME, 2, 0)  # by the worker that froze, with what it had in mind

    assert await world.stands() == (2, 1)
    assert world.embedded == 0


async def test_a_document_that_fails_for_ever_keeps_a_bounded_list_of_its_withdrawn_versions() -> None:
    world = await Applying.begun()

    for number in range(2, 2 * MOST_WITHDRAWN):
        await world.embed.withdraw(version(number))

    head = (await world.index.fences([NAME]))[NAME]
    assert [each.version for each in head.withdrawals] == list(range(MOST_WITHDRAWN, 2 * MOST_WITHDRAWN))


@pytest.mark.timeout(100)
async def test_a_version_that_is_too_old_for_the_list_of_withdrawn_ones_can_be_withdrawn_again() -> None:
    world = await Applying.begun()
    for number in range(2, 2 * MOST_WITHDRAWN):
        await world.embed.withdraw(version(number))

    replayed = await world.embed.withdraw(version(2))
    dropped = await world.index.withdraw_for_good(NAME, 3, DEFAULT_TENANT)

    head = (await world.index.fences([NAME]))[NAME]
    assert (replayed, dropped) == (None, True)
    assert [each.version for each in head.withdrawals] == list(range(MOST_WITHDRAWN, 2 * MOST_WITHDRAWN))


async def test_a_version_that_failed_is_tried_again_only_by_a_redrive() -> None:
    ledger, index = await ledger_and_index(MemoryStore())

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any: ...

    statuses = Statuses(ledger, publish)
    vectors = Vectors(index, MemoryEmbedder(), VectorMetrics(CollectorRegistry()))
    embed = Embed(index=index, vectors=vectors, bm25=Bm25(), publish=publish, statuses=statuses, blobs=MemoryBlobs())
    place = LogPosition(partition=0, offset=0, time=1)
    document = DocumentVersion(
        document_id=NAME, version=1, place=place, tenant=DEFAULT_TENANT, source="s", path="p", outcome="created"
    )
    value = encode(DocumentChunked(document=document, blob=BlobRef(sha256="0" * 64, size=1)))
    record = ConsumerRecord("chunks", 0, 0, 1, 1, NAME.encode(), value, None, -1, len(value), ())
    await ledger.update(NAME, lambda _: an_entry(NAME, accepted=1))
    await embed.failed(record, "its chunks are gone", "blob_missing")

    await embed(record)
    await ledger.update(NAME, lambda _: an_entry(NAME, accepted=9, published=(9,), forgotten=1))
    await embed(record)  # the ledger doesn't remember its failure any more

    with pytest.raises(Rejected, match="missing"):
        await embed(replace(record, headers=(("sluice-redrive", b"1"),)))


async def test_what_the_ledger_lists_below_a_version_leaves_the_truth() -> None:
    ledger, index = await ledger_and_index(MemoryStore())
    tombstones = list[bytes]()

    async def publish(topic: str, value: bytes | None, *, key: bytes, **options: Any) -> Any:
        if value is None:
            tombstones.append(key)

    statuses = Statuses(ledger, publish)
    vectors = Vectors(index, MemoryEmbedder(), VectorMetrics(CollectorRegistry()))
    embed = Embed(index=index, vectors=vectors, bm25=Bm25(), publish=publish, statuses=statuses, blobs=MemoryBlobs())
    await ledger.update(NAME, lambda _: an_entry(NAME, accepted=3, place=PLACE, published=(1, 3)))

    await embed.apply(version(3), load, 0)

    entry = await ledger.get(NAME)
    assert tombstones == [truth_key(NAME, 1)]
    assert entry is not None
    assert (entry.last.status, entry.published) == ("created", (3,))


@pytest.mark.parametrize(("inline", "at_blobs"), [(False, False), (True, False), (False, True)])
async def test_documents_that_wait_for_the_model_or_for_blobs_hold_up_no_other(*, inline: bool, at_blobs: bool) -> None:
    class SlowBlobs(MemoryBlobs):
        async def get(self, tenant: str, document_id: str, ref: BlobRef) -> bytes:
            if at_blobs:
                await go.wait()
            return await super().get(tenant, document_id, ref)

    ledger, index = await ledger_and_index(MemoryStore())
    go, blobs, ended = asyncio.Event(), SlowBlobs(), list[int]()

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any: ...

    class Slow(MemoryEmbedder):
        async def embed_documents(self, texts: Sequence[str], *, flow: Hashable = None) -> list[Vector]:
            if "one" in texts:
                await go.wait()
            return await super().embed_documents(texts, flow=flow)

    vectors = Vectors(index, Slow(), VectorMetrics(CollectorRegistry()))
    statuses = Statuses(ledger, publish)
    embed = Embed(index=index, vectors=vectors, bm25=Bm25(), publish=publish, statuses=statuses, blobs=blobs)

    async def a_record(offset: int) -> Record:
        document = replaced(version(2), document_id=str(UUID(int=offset)))
        some = await load() if offset < 3 else (replaced((await load())[0], text="few", hash=text_hash("few")),)
        large = offset < 3 and not inline
        blob = await blobs.put(DEFAULT_TENANT, document.document_id, json.encode(some)) if large else None
        value = encode(DocumentChunked(document=document, blob=blob, chunks=() if blob else some))
        return an_event(offset, document.document_id.encode(), value)

    async def handle(record: Record) -> None:
        await embed(record)
        ended.append(record.offset)
        go.set()

    await consume_all(handle, [await a_record(offset) for offset in range(4)], key_concurrency=2)

    assert ended[0] == 3
