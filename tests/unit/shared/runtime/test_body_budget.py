"""Room for large bodies: how it is shared out."""

import asyncio
from contextlib import suppress

import pytest

from shared.runtime.body_budget import MemoryBudget


class Holders:
    """Tasks that take room, and stay until they are let go."""

    def __init__(self, room: MemoryBudget) -> None:
        self.inside: list[str] = []
        self._room = room
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, size: int, tenant: str = "") -> None:
        self._tasks[name] = asyncio.create_task(self._stay(name, size, tenant))
        await settled()

    async def go(self, name: str) -> None:
        self._tasks[name].cancel()
        with suppress(asyncio.CancelledError):
            await self._tasks[name]
        await settled()

    async def _stay(self, name: str, size: int, tenant: str) -> None:
        async with self._room.taken(size, tenant):
            self.inside.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.inside.remove(name)


async def settled() -> None:
    """Return when whatever could run in this loop has run."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.fixture
def holders() -> Holders:
    return Holders(MemoryBudget(10))


async def test_what_fits_is_in_and_the_others_come_in_order_as_there_is_room(holders: Holders) -> None:
    for name, size in (("a", 6), ("b", 4), ("c", 5), ("d", 1)):
        await holders.come(name, size)
    assert holders.inside == ["a", "b"]

    await holders.go("b")
    assert holders.inside == ["a"]  # d would fit, and waits behind c

    await holders.go("a")
    assert holders.inside == ["c", "d"]


async def test_who_wants_more_than_all_of_it_gets_it_alone(holders: Holders) -> None:
    await holders.come("small", 1)
    await holders.come("huge", 11)
    await holders.come("next", 1)
    assert holders.inside == ["small"]

    await holders.go("small")
    assert holders.inside == ["huge"]

    await holders.go("huge")
    assert holders.inside == ["next"]


async def test_who_gives_up_waiting_leaves_its_place_to_the_next(holders: Holders) -> None:
    for name, size in (("a", 8), ("b", 8), ("c", 2)):
        await holders.come(name, size)

    await holders.go("b")

    assert holders.inside == ["a", "c"]


async def test_what_needs_nothing_never_waits(holders: Holders) -> None:
    await holders.come("a", 10)
    await holders.come("b", 1)

    await holders.come("inline", 0)

    assert holders.inside == ["a", "inline"]


async def test_a_tenant_s_large_bodies_keep_no_other_tenant_waiting(holders: Holders) -> None:
    for name in "abc":
        await holders.come(name, 10, "many")
    assert holders.inside == ["a"]

    await holders.come("d", 10, "other")
    assert holders.inside == ["a", "d"]

    await holders.come("e", 1, "third")
    assert holders.inside == ["a", "d"]  # no memory is left

    await holders.go("a")
    assert holders.inside == ["d", "e"]


async def test_a_tenant_leaves_nothing_behind() -> None:
    room = MemoryBudget(10)
    async with room.taken(6, "a"):
        assert list(room._each) == ["a"]

    assert not room._each
