"""The ledger's writes of one turn, on a store in memory."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from shared.contracts import LogPosition, Status
from shared.state.ledger import REMEMBERED_MS, End, Entry, Last, Ledger, Transition, finished, shortened
from shared.store import EVERYTHING, Filter, Point, PointPage
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

    async def put_if(self, name: str, points: Sequence[Point], only_if: Filter | None, **options: Any) -> list[Point]:
        if only_if is None:  # else it is an upsert here
            self.writes.append(len(points))
        return await super().put_if(name, points, only_if, **options)


class Reading(MemoryStore):
    """A store that notes its reads: what was asked, and how many points came back."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int]] = []

    async def retrieve(self, name: str, ids: Sequence[str], **options: Any) -> list[Point]:
        found = await super().retrieve(name, ids, **options)
        self.reads.append(("retrieve", len(found)))
        return found

    async def scroll(self, name: str, where: Filter = EVERYTHING, **options: Any) -> PointPage:
        page = await super().scroll(name, where, **options)
        self.reads.append(("scroll", len(page.points)))
        return page


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


async def test_an_entry_that_was_read_before_is_written_without_reading_again() -> None:
    store = Reading()
    ledger = await a_ledger(store)
    name = NAMES[0]

    created = await ledger.update_known(name, None, tagged(name, "a"))
    changed = await ledger.update_known(name, created, tagged(name, "b"))

    assert len(store.reads) == 2  # a write gives back what stands
    assert await ledger.get(name) == changed
    assert changed is not None
    assert changed.tags == ("a", "b")


async def test_an_entry_that_has_changed_since_it_was_read_is_read_again() -> None:
    ledger = await a_ledger(MemoryStore())
    name = NAMES[0]
    known = await ledger.update(name, tagged(name, "a"))
    await ledger.update(name, tagged(name, "b"))

    stale = await ledger.update_known(name, known, tagged(name, "c"))
    missing = await ledger.update_known(name, None, tagged(name, "d"))

    assert stale is not None
    assert missing is not None
    assert (stale.tags, missing.tags) == (("a", "b", "c"), ("a", "b", "c", "d"))


async def test_that_nothing_changes_is_decided_on_the_entry_as_it_is() -> None:
    ledger = await a_ledger(MemoryStore())
    name = NAMES[0]
    known = await ledger.update(name, tagged(name, "a"))
    await ledger.update(name, tagged(name, "b"))

    def closed(entry: Entry | None) -> Entry | None:
        return tagged(name, "c")(entry) if entry is not None and "b" in entry.tags else None

    written = await ledger.update_known(name, known, closed)

    assert written is not None
    assert written.tags == ("a", "b", "c")


async def test_a_door_enters_only_a_document_that_nobody_knows() -> None:
    ledger = await a_ledger(MemoryStore())
    there, new = NAMES[:2]
    stands = await ledger.update(there, tagged(there, "a"))

    for name in (there, new):
        entry = tagged(name, "b")(None)
        assert entry is not None
        await ledger.enter(entry)

    assert await ledger.get(there) == stands
    entered = await ledger.get(new)
    assert entered is not None
    assert (entered.tags, entered.rev) == (("b",), 1)


def a_deleted_entry(status: Status = "deleted") -> Entry:
    """Return an entry deleted at 5,000 ms, with four earlier submissions."""
    before: list[tuple[int, Status]] = [(1, "created"), (2, "updated"), (9, "failed"), (3, "accepted")]
    earlier = [
        Last(version=version, place=LogPosition(partition=0, offset=version, time=version), status=each, at=1)
        for version, each in before
    ]
    entry = an_entry(
        NAMES[0],
        accepted=4,
        place=LogPosition(partition=0, offset=4, time=5000),
        status=status,
        earlier=tuple(earlier),
        title="Kept for lists of deleted documents",
    )
    last = msgspec.structs.replace(entry.last, chunk_count=0, extracted_at=7, chunked_at=8)
    return msgspec.structs.replace(entry, last=last)


def test_given_a_document_deleted_long_ago_when_its_entry_is_shortened_then_remembered_ends_go() -> None:
    entry = a_deleted_entry()

    short = shortened(entry, 5001 + REMEMBERED_MS)

    assert [(each.version, each.status) for each in short.earlier] == [(9, "failed"), (3, "accepted")]
    assert (short.last.chunk_count, short.last.extracted_at, short.last.chunked_at) == (None, 0, 0)
    assert msgspec.structs.replace(short, last=entry.last, earlier=entry.earlier) == entry, "the rest stays"
    end = short.end_of(LogPosition(partition=0, offset=1, time=1))
    assert end is not None
    assert end.status == "superseded"


def test_given_a_document_that_lives_or_was_just_deleted_when_its_entry_is_shortened_then_it_stays() -> None:
    for status in ("created", "accepted", "failed"):
        assert shortened(a_deleted_entry(status), 5001 + REMEMBERED_MS) == a_deleted_entry(status)
    assert shortened(a_deleted_entry(), 5000 + REMEMBERED_MS) == a_deleted_entry()


def test_a_version_that_fails_after_a_newer_one_was_accepted_is_listed_until_one_above_it_answers() -> None:
    entry = an_entry("d", accepted=5, published=(1, 2, 3, 5))

    for version in (3, 2, 3, 4, 5):  # 4 was never published, and 5 is the accepted one: a redrive may need it
        entry = finished(entry, version, End("failed", 1)) or entry
    listed = entry.failed
    after = finished(entry, 2, End("updated", 2))
    last = finished(entry, 5, End("updated", 2), forgotten=(1, 2, 3))

    assert listed == (2, 3)
    assert after is not None
    assert after.failed == (3,)
    assert last is not None
    assert (last.published, last.failed) == ((5,), ())


async def test_a_foreign_document_is_read_as_one_that_does_not_exist() -> None:
    store = Reading()
    ledger = await a_ledger(store)
    own, foreign, unknown = NAMES[:3]
    for name, tenant in ((own, "one"), (foreign, "two")):
        await ledger.update(name, lambda _, name=name, tenant=tenant: an_entry(name, tenant=tenant))  # type: ignore[misc]
    store.reads.clear()

    found = [await ledger.of_tenant("one", name) for name in (own, foreign, unknown)]

    assert [entry and entry.document_id for entry in found] == [own, None, None]
    assert store.reads == [("scroll", 1), ("scroll", 0), ("scroll", 0)], "decoding a foreign entry takes time"
