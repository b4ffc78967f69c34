"""The whole log again: nothing in the index changes, and nothing is embedded."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.contracts import DocumentSubmitted
from shared.log.dead_letters import key_of
from shared.log.headers import PLACE_HEADER, position_header, position_of
from shared.log.open import open_log
from shared.log.open_letters import LetterFilter, OpenLetters
from shared.replay import ReplayOrder, replay
from shared.state.index import vector_hash
from shared.state.ledger import Entry
from shared.store import Filter
from shared.store.edge import EdgeStore
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, chunks_topic, readers
from tests.e2e.faults import rounds
from tests.e2e.load import new_seed
from tests.e2e.oracle import all_points
from tests.e2e.text import paragraphs
from tests.integration.pipeline import Pipeline, running

DOCUMENTS = rounds(ci=20)
AT_ONCE = 16
GUARD_S = 60.0 + DOCUMENTS  # a hang guard: a replay takes a hundredth of a second a document, on an idle machine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(10 * GUARD_S)]
REPLAYS = 3
State = dict[str, tuple[Any, ...]]


async def test_a_whole_replay_changes_no_point_and_embeds_nothing(tmp_path: Path) -> None:
    rng = random.Random(new_seed())
    folder = tmp_path / "data"
    async with running(folder, partitions=2) as pipeline:
        await _history(pipeline, rng)
        groups = readers(pipeline.parts.index.generation.id)
        settings = pipeline.settings
    before = await _state(folder)
    for number in range(REPLAYS):
        # Now one stage alone, now all of them: each finds the later ones' work done.
        rewound = dict(list(groups.items())[: number + 1])
        log = open_log(settings.log, settings.data)
        await log.start()
        for topic, group in rewound.items():
            tool, partitions = log.consumer(group_id=group), await log.end_offsets(topic)
            tool.assign([*partitions])
            await tool.start()
            await tool.commit(dict.fromkeys(partitions, 0))
            await tool.stop()
        await log.stop()

        async with running(folder, partitions=2) as pipeline:
            await _at_rest(pipeline)
            embedded, letters = pipeline.embedded(), await pipeline.dead_letters()
        assert (embedded, letters) == (0, [])
        after = await _state(folder)
        assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == set()


async def test_every_event_up_to_five_times_in_any_order_changes_nothing(tmp_path: Path) -> None:
    rng = random.Random(new_seed())
    folder = tmp_path / "data"
    async with running(folder, partitions=2) as pipeline:
        await _history(pipeline, rng)
        generation = pipeline.parts.index.generation.id
    before = await _state(folder)

    async with running(folder, partitions=2) as pipeline:
        records = [
            record
            for topic in (SUBMITTED, EXTRACTED, chunks_topic(generation))
            for record in await pipeline.records(topic)
            for _ in range(rng.randint(0, 4))
        ]
        rng.shuffle(records)
        for record in records:
            # A submission that comes again is the same one by its place; without it, somebody has sent it anew.
            headers = {PLACE_HEADER: position_header(position_of(record))} if record.topic == SUBMITTED else {}
            route = record.key.partition(b"/")[0]
            await pipeline.parts.publish(record.topic, record.value, key=record.key, route=route, headers=headers)
        await _at_rest(pipeline)
        embedded, letters = pipeline.embedded(), await pipeline.dead_letters()

    after = await _state(folder)
    assert (embedded, letters) == (0, [])
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == set()


async def test_each_topic_replayed_three_times_after_blobs_and_letters_are_gone_changes_nothing(tmp_path: Path) -> None:
    rng = random.Random(new_seed())
    folder = tmp_path / "data"
    async with running(folder, partitions=2) as pipeline:
        await _history(pipeline, rng)
        large = "A paragraph of a large body. " * 12_000  # above the claim check
        for text in (large, f"{large}Changed."):
            await pipeline.send(DocumentSubmitted(source="s", path="large.txt", text=text), GUARD_S)
        damaged = DocumentSubmitted(source="s", path="damaged.pdf", filename="damaged.pdf", content=b"%PDF-1.7 none")
        await pipeline.send(damaged, GUARD_S)
        await _at_rest(pipeline)
        letters = await pipeline.dead_letters()
        generation = pipeline.parts.index.generation.id
    assert [each.path for each in letters] == ["damaged.pdf"]
    before = await _state(folder)

    async with running(folder, partitions=2) as pipeline:
        parts = pipeline.parts
        for letter in letters:  # dropped: a new one would be seen
            await parts.publish(DEAD_LETTERS, None, key=key_of(letter))
        blobs = parts.blobs
        texts = {entry.accepted.text.sha256 async for entry in _entries(pipeline) if entry.accepted.text is not None}
        async for some in blobs.stored():
            for blob in some:
                if blob.sha256 not in texts:
                    await blobs.remove(blob)
        for topic in (SUBMITTED, EXTRACTED, chunks_topic(generation)) * REPLAYS:
            done = await replay(parts.log, parts.publish, ReplayOrder(topic=topic))
            assert (done.unreadable, done.sent > 0) == (0, True)
            await _at_rest(pipeline)
        left = await OpenLetters(parts.log).newest(LetterFilter(tenant="default"), limit=10)
        assert (pipeline.embedded(), len(left.letters)) == (0, 0)

    after = await _state(folder)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == set()


async def _entries(pipeline: Pipeline) -> AsyncIterator[Entry]:
    after: str | None = None
    while True:
        page, after = await pipeline.parts.ledger.scan(Filter(), after=after, limit=256)
        for entry in page:
            yield entry
        if after is None:
            return


async def _history(pipeline: Pipeline, rng: random.Random) -> None:
    """Send documents that are edited, shrink, grow, get other tags, are deleted and made again; some share text."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def live(number: int, rng: random.Random) -> None:
        async with turns:
            await _life(pipeline, number, rng)

    await asyncio.gather(*(live(number, random.Random(rng.random())) for number in range(DOCUMENTS)))


async def _life(pipeline: Pipeline, number: int, rng: random.Random) -> None:
    """Send one document, and what becomes of it."""
    path = f"{number}.md"
    texts = [*paragraphs(number, rng.randint(1, 5)), *paragraphs(7_000, 1)]
    await pipeline.send(DocumentSubmitted(source="s", path=path, text="\n\n".join(texts)), GUARD_S)
    for change in rng.sample(("edit", "cut", "tags", "delete", "same"), rng.randint(0, 3)):
        fields: dict[str, Any] = {"text": "\n\n".join(texts)}
        match change:
            case "edit":
                texts[0] = paragraphs(10_000 + number, 1)[0]
                fields = {"text": "\n\n".join(texts)}
            case "cut":
                texts = texts[:1]
                fields = {"text": texts[0]}
            case "tags":
                fields["tags"] = ("new",)
            case "delete":
                fields = {"deleted": True}
        await pipeline.send(DocumentSubmitted(source="s", path=path, **fields), GUARD_S)


async def _at_rest(pipeline: Pipeline) -> None:
    """Return when every stage has committed all of its topic, each in turn."""
    log = pipeline.parts.log
    async with asyncio.timeout(GUARD_S):
        for topic, group in readers(pipeline.parts.index.generation.id).items():
            while await log.committed(group, topic) != await log.end_offsets(topic):  # noqa: ASYNC110 - nothing tells when they have nothing left
                await asyncio.sleep(0.1)


async def _state(folder: Path) -> State:
    """Return every chunk and head of the stopped store, to the bit."""
    store = EdgeStore(folder / "store")
    await store.start()
    try:
        found: State = {}
        for prefix in ("chunks.", "heads."):
            for point in await all_points(store, prefix):
                dense = None if point.dense is None else vector_hash(point.dense)
                found[f"{prefix}{point.id}"] = (point.payload, dense, point.sparse)
        assert found
        return found
    finally:
        await store.close()
