"""What a crash after the switch left behind."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from services.embed_worker.sweep import LONGEST_REST_S, shorten_deleted, sweep, throttle
from shared.contracts import LogPosition, Status, truth_key
from shared.errors import Unavailable
from shared.ids import point_id
from shared.state.index import ATTEMPT, Head, Index
from shared.state.ledger import MOST_FAILED, REMEMBERED_MS, Entry, Last, Ledger
from shared.store import Point
from shared.topics import EXTRACTED
from tests.builders import an_entry
from tests.fakes.embedder import DIMENSION
from tests.fakes.state import ledger_and_index
from tests.fakes.store import MemoryStore

C = "31ca04b3-12ec-5b35-8f4b-4ab297c91387"
A, B = "11ca04b3-12ec-5b35-8f4b-4ab297c91387", "21ca04b3-12ec-5b35-8f4b-4ab297c91387"


async def points_of(index: Index) -> set[tuple[str, int]]:
    found = [each async for page in index.versions() for each in page]
    return {(point.payload["metadata"]["documentId"], point.payload["metadata"]["version"]) for point in found}


async def left_by_a_crash() -> tuple[Ledger, Index]:
    """Return an empty ledger, and an index with A at version 3 and points of 1 to 3, and B at none with points of 5."""
    ledger, index = await ledger_and_index(MemoryStore())
    for document, version in ((A, 1), (A, 2), (A, 3), (B, 5)):
        for order in range(2):
            metadata = {"tenant": "default", "documentId": document, "version": version, "chunkOrder": order}
            vector = np.ones(DIMENSION, np.float32)
            await index.put(
                [Point(id=point_id(document, version, order), payload={"metadata": metadata}, dense=vector)]
            )
    await index.switch(Head(document_id=A, version=3, tenant="default", source="s", path="p", chunk_count=2))
    return ledger, index


async def test_stale_versions_are_removed_from_the_truth_and_then_their_points_go() -> None:
    (ledger, index), removed = await left_by_a_crash(), list[tuple[str, bytes | None, bytes, bytes | None]]()

    async def publish(topic: str, value: bytes | None, *, key: bytes, route: bytes | None = None, **_: Any) -> Any:
        assert len(await points_of(index)) == 4, "the points tell which versions there were: they go last"
        removed.append((topic, value, key, route))

    assert await sweep(index, ledger, publish) == 4

    assert removed == [(EXTRACTED, None, truth_key(A, version), A.encode()) for version in (1, 2)]
    assert await points_of(index) == {(A, 3), (B, 5)}
    assert await sweep(index, ledger, publish) == 0


async def test_a_sweep_rests_so_that_its_pages_take_their_share_of_the_time() -> None:
    ledger, index = await left_by_a_crash()
    now, rests = 0.0, list[float]()

    async def publish(*_: Any, **__: Any) -> Any:
        nonlocal now
        now += 0.02

    async def pause(seconds: float) -> None:
        nonlocal now
        rests.append(round(seconds, 9))
        now += seconds

    rest = throttle(0.05, lambda: now, pause)
    await sweep(index, ledger, publish, rest)
    await rest()

    assert rests == [0.76, 0.0, 0.0], "all is on one page: two tombstones before the first rest, nothing before others"


async def test_a_page_that_waited_long_is_no_reason_to_rest_for_minutes() -> None:
    now, rests = 0.0, list[float]()

    async def pause(seconds: float) -> None:
        rests.append(seconds)

    rest = throttle(0.05, lambda: now, pause)
    now = 10.0
    await rest()

    assert rests == [LONGEST_REST_S]


async def test_given_a_log_that_is_away_when_it_sweeps_then_the_points_stay_for_the_next_time() -> None:
    ledger, index = await left_by_a_crash()

    async def publish(topic: str, *_: Any, **__: Any) -> Any:
        raise Unavailable(f"no {topic}")

    with pytest.raises(Unavailable):
        await sweep(index, ledger, publish)

    assert len(await points_of(index)) == 4


async def test_points_of_a_withdrawn_version_go_and_those_of_its_redrive_stay() -> None:
    (ledger, index), removed = await left_by_a_crash(), list[bytes]()

    async def publish(topic: str, value: bytes | None, *, key: bytes, **_: Any) -> Any:
        removed.append(key)

    await sweep(index, ledger, publish)
    removed.clear()
    await index.withdraw(Head(document_id=B, version=5, tenant="default", source="s", path="p"))
    [redriven, _] = [
        p
        for p in [each async for page in index.versions() for each in page]
        if p.payload["metadata"]["documentId"] == B
    ]
    vector = np.ones(DIMENSION, np.float32)
    await index.put([Point(id=redriven.id, payload=redriven.payload, dense=vector)], 1)

    assert await sweep(index, ledger, publish) == 1

    assert [
        point.id for point in [each async for page in index.versions() for each in page] if point.payload.get(ATTEMPT)
    ] == [redriven.id]
    assert await points_of(index) == {(A, 3), (B, 5)}
    assert removed == [], "a version that failed stays in the truth: it can be redriven"


async def test_old_versions_without_points_are_removed_from_the_truth_by_the_ledgers_list() -> None:
    (ledger, index), removed = await left_by_a_crash(), list[bytes]()

    async def publish(topic: str, value: bytes | None, *, key: bytes, **_: Any) -> Any:
        assert value is None
        removed.append(key)

    await sweep(index, ledger, publish)
    removed.clear()
    await ledger.update(A, lambda _: an_entry(A, accepted=4, published=(1, 2, 3, 4)))  # 1 was a deletion, 2 failed
    await ledger.update(B, lambda _: an_entry(B, accepted=5, published=(4, 5)))  # nothing answers yet

    assert await sweep(index, ledger, publish) == 2

    assert removed == [truth_key(A, 1), truth_key(A, 2)]
    assert [(entry.published if entry else None) for entry in [await ledger.get(A), await ledger.get(B)]] == [
        (3, 4),
        (4, 5),
    ]
    assert await sweep(index, ledger, publish) == 0


async def test_a_surplus_of_failed_versions_is_removed_where_a_crash_came_before() -> None:
    (ledger, index), removed = await ledger_and_index(MemoryStore()), list[bytes]()
    failed = tuple(range(2, 3 + MOST_FAILED))

    async def publish(topic: str, value: bytes | None, *, key: bytes, **_: Any) -> Any:
        removed.append(key)

    await ledger.update(A, lambda _: an_entry(A, accepted=99, published=(*failed, 99), failed=failed))

    assert await sweep(index, ledger, publish) == 1
    assert await sweep(index, ledger, publish) == 0

    assert removed == [truth_key(A, 2)]


def _same(_: Entry | None, entry: Entry) -> Entry:
    return entry


async def a_ledger_with(*entries: tuple[str, Status, int]) -> Ledger:
    """Return a ledger with an entry of each name, status, and time of its last change; each has one earlier end."""
    ledger, _ = await ledger_and_index(MemoryStore())
    for name, status, time in entries:
        place = LogPosition(partition=0, offset=2, time=time)
        first = Last(version=1, place=LogPosition(partition=0, offset=1, time=1), status="created", at=1)
        entry = an_entry(name, accepted=2, place=place, status=status, updated_at=time, earlier=(first,))
        await ledger.update(name, partial(_same, entry=entry))
    return ledger


async def test_given_documents_deleted_long_ago_when_entries_are_shortened_then_theirs_are_and_no_others() -> None:
    long_ago, later = 1000, 1001 + REMEMBERED_MS
    ledger = await a_ledger_with((A, "deleted", long_ago), (B, "deleted", later), (C, "updated", long_ago))

    since = await shorten_deleted(ledger)

    left = {name: len(entry.earlier) for name, entry in (await ledger.entries([A, B, C])).items()}
    assert left == {A: 0, B: 1, C: 1}
    assert since == later - REMEMBERED_MS, "what changed since is looked at the next time"

    revisions = {name: entry.rev for name, entry in (await ledger.entries([A, B, C])).items()}
    await shorten_deleted(ledger)
    assert {name: entry.rev for name, entry in (await ledger.entries([A, B, C])).items()} == revisions, "once"

    await shorten_deleted(ledger, since, now=later + REMEMBERED_MS + 1)
    assert [entry.earlier for entry in (await ledger.entries([B])).values()] == [()]
