"""The ledger's writes of one turn, on a store in memory."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from shared.state.ledger import Entry, Ledger, Transition
from shared.store import Point
from tests.builders import an_entry
from tests.fakes.store import MemoryStore

NAMES = [str(UUID(int=number)) for number in range(1, 41)]


class Counting(MemoryStore):
    """A store that notes how many points each write had."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []

    async def upsert(self, name: str, points: Sequence[Point], **options: Any) -> None:
        self.writes.append(len(points))
        await super().upsert(name, points, **options)

    async def insert(self, name: str, points: Sequence[Point]) -> None:
        self.writes.append(len(points))
        await super().insert(name, points)


async def a_ledger(store: MemoryStore) -> Ledger:
    ledger = Ledger(store)
    await ledger.create()
    return ledger


def tagged(name: str, tag: str) -> Transition:
    """Return what adds a tag."""

    def transition(entry: Entry | None) -> Entry:
        entry = entry or an_entry(name)
        return msgspec.structs.replace(entry, tags=(*entry.tags, tag))

    return transition


async def test_documents_seen_at_one_revision_are_written_together() -> None:
    store = Counting()
    ledger = await a_ledger(store)

    for tag in "ab":
        await asyncio.gather(*(ledger.update(name, tagged(name, tag)) for name in NAMES))

    assert store.writes == [len(NAMES), len(NAMES)]
    assert {entry.tags for entry in (await ledger.entries(NAMES)).values()} == {("a", "b")}


async def test_of_two_changes_that_saw_the_same_entry_each_comes_in_once() -> None:
    store = Counting()
    ledger = await a_ledger(store)
    name, tags = NAMES[0], "abcdef"

    standing = await asyncio.gather(*(ledger.update(name, tagged(name, tag)) for tag in tags))

    entry = await ledger.get(name)
    assert entry is not None
    assert sorted(entry.tags) == sorted(tags)
    assert entry.rev == len(tags)
    assert entry in standing


async def test_an_entry_that_was_seen_and_has_changed_since_is_read_again() -> None:
    ledger = await a_ledger(MemoryStore())
    name = NAMES[0]
    seen = await ledger.update(name, tagged(name, "a"))
    await ledger.update(name, tagged(name, "b"))

    stands = await ledger.update_seen(name, seen, tagged(name, "c"))

    assert stands == await ledger.get(name)
    assert stands is not None
    assert stands.tags == ("a", "b", "c")
    assert await ledger.known(name)
    assert not await ledger.known(NAMES[1])
