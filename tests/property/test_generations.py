"""The registry of generations: exactly one serves at every moment, whoever changes it and in whatever order."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from shared.embedder import Model
from shared.errors import Rejected
from shared.state.generations import (
    Registered,
    Registry,
    begun,
    change,
    dropped,
    first_registry,
    registry_of,
    serving,
    succeeded,
    switch_begun,
    switch_ended,
    switched,
)
from shared.state.index import Generation
from shared.store import Point, Store
from tests.fakes.store import MemoryStore

MODEL = Model(name="m", digest="d", dimension=2, max_tokens=100)
FIRST = Generation(chunker="1", chunk_size=800, chunk_overlap=0, model=MODEL, bm25="b")
Step = Callable[[Registry], Registry]


def pick(registry: Registry, number: int) -> str:
    return registry.generations[number % len(registry.generations)].id


def a_build(number: int) -> Step:
    return partial(begun, generation=FIRST, embedder="minilm:", ends={}, now=number)


def a_switch(number: int) -> Step:
    return lambda registry: switch_begun(registry, pick(registry, number))


def a_drop(number: int) -> Step:
    return lambda registry: dropped(registry, pick(registry, number))


def a_loss(number: int) -> Step:
    return lambda registry: succeeded(registry, pick(registry, number), number)


makers: list[Callable[[int], Step]] = [a_build, a_switch, a_drop, a_loss, lambda _: switched, lambda _: switch_ended]
steps = st.builds(lambda maker, number: maker(number), st.sampled_from(makers), st.integers(0, 5))


def taken(step: Step, registry: Registry) -> Registry:
    try:
        return step(registry)
    except Rejected:
        return registry


@given(st.lists(steps, max_size=40))
def test_one_generation_serves_after_every_step(chosen: list[Step]) -> None:
    registry = Registry(serving=FIRST.id, generations=(Registered(generation=FIRST, served=True),))
    ids = {FIRST.id}
    for step in chosen:
        before, registry = registry, taken(step, registry)

        states = [registry.state(each) for each in registry.generations]
        assert states.count("serving") == 1
        assert states.count("building") <= 1
        assert registry.current.served
        new = {each.id for each in registry.generations} - {each.id for each in before.generations}
        assert not new & ids, "an id was given twice"
        ids |= new
        if registry.switching is not None:
            assert {registry.switching.target, registry.switching.origin} <= {each.id for each in registry.generations}
            assert registry.serving in (registry.switching.target, registry.switching.origin)
        if registry.serving != before.serving and registry.current.before[:1] == (before.serving,):
            assert registry.current.fills
            assert before.serving not in {each.id for each in registry.fed}
            assert registry.switching is None
        elif registry.serving != before.serving:
            assert before.switching is not None
            assert before.switching.target == registry.serving
            assert registry.current in registry.fed
            assert not before.current.lost


class Interleaved(MemoryStore):
    """Lets others in, for a random number of turns, before each read and write of a point."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    async def _others(self) -> None:
        for _ in range(self._random.randrange(4)):
            await asyncio.sleep(0)

    async def retrieve(self, *args: Any, **options: Any) -> list[Point]:
        await self._others()
        return await super().retrieve(*args, **options)

    async def upsert(self, *args: Any, **options: Any) -> None:
        await self._others()
        await super().upsert(*args, **options)


@given(st.lists(st.lists(steps, min_size=2, max_size=6), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_processes_that_change_it_at_once_lose_no_step(plans: list[list[Step]], random: Random) -> None:
    written: dict[int, Registry] = {}

    async def work(store: Store, plan: list[Step]) -> None:
        for step in plan:
            with suppress(Rejected):
                standing = await change(store, step)
                assert written.setdefault(standing.rev, standing) == standing, "two writes have one revision"

    async def together() -> Registry | None:
        store = cast("Store", Interleaved(random))
        await serving(store, first_registry(FIRST))
        await asyncio.gather(*(work(store, plan) for plan in plans))
        return await registry_of(store)

    last = asyncio.run(together())

    assert last is not None
    assert last.current.served
    if written:
        assert written[max(written)] == last
