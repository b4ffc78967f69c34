"""Damage done to the store behind a server that is at work: `sluice verify` names it, and its repair heals it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from services.operator_cli.terminal import CommandProgress
from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from services.operator_cli.verify.verifier import VerifierParts
from shared.ids import document_id
from shared.settings import Settings
from shared.store import Filter, Ids, Match, Point
from tests.e2e.faults import rounds
from tests.e2e.harness import Server, served
from tests.e2e.load import Content, Load, new_seed
from tests.e2e.oracle import differences
from tests.e2e.text import paragraph

SOURCE = "still"  # what nobody edits, and somebody harms
DOCUMENTS, PARTS = 10, 2
PATIENCE_S = 20.0


class Harm:
    """What is done to the points of documents that stand still."""

    def __init__(self, parts: VerifierParts, rng: random.Random) -> None:
        self.parts = parts
        self._rng = rng

    async def store_emptied(self) -> set[str]:
        """Delete every chunk and head."""
        everything = Filter(must_not=(Ids(()),))
        for name in (self.parts.generation.chunks, self.parts.generation.heads):
            await self.parts.store.delete(name, everything)
        return set(IDS)

    async def points_deleted(self) -> set[str]:
        """Delete five in a hundred of the points, one at least."""
        points = await self._points()
        gone = self._rng.sample(points, -(-len(points) // 20))
        await self.parts.store.delete(self.parts.generation.chunks, Filter(must=(Ids(tuple(p.id for p in gone)),)))
        return {point.payload["metadata"]["documentId"] for point in gone}

    async def vector_altered(self) -> set[str]:
        """Turn a vector's numbers round."""
        point = self._rng.choice(await self._points())
        assert point.dense is not None
        return await self._put(point, dense=np.roll(point.dense, 1))

    async def text_altered(self) -> set[str]:
        """Put other words into a point."""
        point = self._rng.choice(await self._points())
        return await self._put(point, payload={**point.payload, "text": "Something else."})

    async def head_raised(self) -> set[str]:
        """Let a head name a version that was never there."""
        name = self._rng.choice(IDS)
        [head] = await self.parts.store.retrieve(self.parts.generation.heads, [name])
        raised = {**head.payload, "version": head.payload["version"] + 1_000_000}
        await self.parts.store.upsert(self.parts.generation.heads, [Point(id=name, payload=raised)])
        return {name}

    async def _points(self) -> list[Point]:
        where = Filter(must=(Match("metadata.documentId", tuple(IDS)),))
        return (await self.parts.store.scroll(self.parts.generation.chunks, where, limit=1000, vectors=True)).points

    async def _put(self, point: Point, **changed: Any) -> set[str]:
        await self.parts.store.upsert(self.parts.generation.chunks, [msgspec.structs.replace(point, **changed)])
        return {point.payload["metadata"]["documentId"]}


IDS = [document_id("default", SOURCE, f"{number}.md") for number in range(DOCUMENTS)]
HARMS: tuple[Callable[[Harm], Awaitable[set[str]]], ...] = (
    Harm.store_emptied,
    Harm.points_deleted,
    Harm.vector_altered,
    Harm.text_altered,
    Harm.head_raised,
)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_given_a_load_when_the_store_is_harmed_then_it_is_named_and_healed_meanwhile(tmp_path: Path) -> None:
    seed = new_seed()
    rng = random.Random(seed)
    settings = Settings(data=tmp_path / "data", samples="off", chat="extractive:")
    with served(settings.data) as server:
        expected = await asyncio.to_thread(_fill, server)
        load = Load(server, documents=6, seed=seed)
        try:
            async with opened(settings) as parts:
                harm = Harm(parts, rng)
                harms = chain.from_iterable(rng.sample(HARMS, len(HARMS)) for _ in count())
                for do in islice(harms, rounds(ci=2)):
                    # A reader would see that it's empty, and it is.
                    load.start(writers=2, readers=int(do is not Harm.store_emptied), rest_s=0.2)
                    harmed = await do(harm)
                    outcome = await command.verify(
                        parts, CommandProgress(), repair=True, dry_run=False, sample=0, patience_s=PATIENCE_S
                    )
                    await asyncio.to_thread(load.stop)
                    assert outcome.found is not None, do.__name__
                    print(f"{do.__name__}: {outcome.found.counts}, {outcome.repaired}")
                    assert harmed & set(outcome.found.wrong) == harmed, do.__name__
                    assert outcome.report.first == {}, do.__name__
                await asyncio.to_thread(load.settle)
                at_last = await command.verify(
                    parts, CommandProgress(), repair=False, dry_run=False, sample=0, patience_s=PATIENCE_S
                )
            wrong = await differences(settings.data / "store", expected | load.expected)
        finally:
            await asyncio.to_thread(load.stop)

    print(f"{load.writes} confirmed writes, {load.reads} reads")
    assert load.faults == []
    assert at_last.report.verdict == "right"
    assert wrong == []


def _fill(server: Server) -> dict[str, Content]:
    """Return the documents that stand still, by id."""
    expected: dict[str, Content] = {}
    with server.client(timeout=120) as client:
        for number, name in enumerate(IDS):
            expected[name] = tuple(paragraph(5_000 + number, 0, part, of=PARTS) for part in range(PARTS))
            body = {"source": SOURCE, "path": f"{number}.md", "text": "\n\n".join(expected[name])}
            client.post("/rag/ingest", json=body, headers={"Prefer": "wait=60"}).raise_for_status()
    return expected
