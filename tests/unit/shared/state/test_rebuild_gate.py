"""Whoever reads an index that is lost or being rebuilt learns of it, however seldom the gate looks at the store."""

from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from shared.errors import Unavailable
from shared.state import pairing
from shared.state.index import Index
from shared.state.ledger import Ledger
from shared.state.pairing import Pairing
from shared.state.rebuild_gate import CODE, LEASE_S, Phase, Rebuild, RebuildGate, last_rebuild, write_rebuild
from shared.store import Filter
from tests.fakes.clock import SetClock
from tests.fakes.state import GENERATION
from tests.fakes.store import MemoryStore

NAME = "00000000-0000-5000-8000-0000000000aa"


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest_asyncio.fixture
async def store() -> AsyncIterator[MemoryStore]:
    made = MemoryStore()
    await pairing.create(made)
    await pairing.tell_store(made, Pairing(log_id="l", store_id="s"), known=None)
    await Ledger(made).create()
    yield made


async def note(store: MemoryStore, phase: Phase, number: int = 1) -> None:
    known = await last_rebuild(store)
    wanted = Rebuild(number=number, rev=0, lost=("ledger",), phase=phase, left=4)
    assert await write_rebuild(store, wanted, known=known) is not None


async def test_an_empty_ledger_is_believed_only_where_it_is_whole(store: MemoryStore, clock: SetClock) -> None:
    ledger = Ledger(store, RebuildGate(store, clock=clock))
    empty = await ledger.get(NAME), await ledger.count(Filter()), await ledger.entries([NAME])
    await note(store, "ledger")
    clock.now += LEASE_S

    for read in (ledger.get(NAME), ledger.count(Filter()), ledger.entries([NAME])):
        with pytest.raises(Unavailable, match="its ledger is read from the log") as told:
            await read
        assert told.value.code == CODE
    assert ledger.rebuilding
    assert empty == (None, 0, {})


async def test_lists_work_before_searches_do(store: MemoryStore, clock: SetClock) -> None:
    gate = RebuildGate(store, clock=clock)
    await note(store, "points")

    await gate.ledger()
    with pytest.raises(Unavailable, match="its points are made again, 4 records are left"):
        await gate.points()
    await note(store, "done")
    clock.now += LEASE_S
    await gate.points()


async def test_a_young_look_holds_and_an_old_one_does_not(store: MemoryStore, clock: SetClock) -> None:
    gate = RebuildGate(store, clock=clock)
    await gate.points()
    await note(store, "points")

    clock.now += LEASE_S / 2
    await gate.points()  # the collections are made no sooner than the look grows old
    clock.now += LEASE_S / 2
    with pytest.raises(Unavailable):
        await gate.points()


async def test_a_rebuild_that_began_and_ended_between_two_looks_is_noticed(store: MemoryStore, clock: SetClock) -> None:
    gate = RebuildGate(store, clock=clock)
    await gate.points()
    await note(store, "done")

    clock.now += LEASE_S
    with pytest.raises(Unavailable, match="was rebuilt just now"):
        await gate.points()
    await gate.points()


async def test_what_was_lost_is_never_believed_again(store: MemoryStore, clock: SetClock) -> None:
    gate = RebuildGate(store, clock=clock)
    # The rebuild is done, and the process hasn't turned to the successor.
    await write_rebuild(store, Rebuild(number=1, rev=0, lost=(GENERATION.chunks,), phase="done"), known=None)

    with pytest.raises(Unavailable):
        await Index(store, GENERATION, gate).whole()
    await Index(store, msgspec.structs.replace(GENERATION, build=1), gate).whole()


async def test_a_store_that_has_forgotten_its_log_or_belongs_to_another_is_not_believed(clock: SetClock) -> None:
    lost, other = MemoryStore(), MemoryStore()
    await pairing.create(other)
    await pairing.tell_store(other, Pairing(log_id="other", store_id="s"), known=None)

    for store, sentence in (
        (lost, "the index is lost"),
        (other, "belongs to the log other now, and this is the log l"),
    ):
        gate = RebuildGate(store, clock=clock)
        gate.log_id = "l"
        with pytest.raises(Unavailable, match=sentence):
            await gate.ledger()
        assert gate.ledger_waits


async def test_of_two_that_change_a_rebuild_one_comes_through(store: MemoryStore) -> None:
    await note(store, "ledger")
    known = await last_rebuild(store)
    assert known is not None
    wanted = [Rebuild(number=1, rev=0, lost=(), phase="ledger", left=left) for left in (1, 2)]

    standing = [await write_rebuild(store, each, known=known) for each in wanted]

    assert [each and each.left for each in standing] == [1, 1]
