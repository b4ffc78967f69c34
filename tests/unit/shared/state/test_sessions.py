"""Sessions of browsers: how long they are known, here and in another process, and what the store has of them."""

from services.operator_cli.moving.collections import in_reading_order
from shared.state.sessions import COLLECTION, KNOWN_S, SESSION_S, Sessions
from tests.fakes.clock import SetClock
from tests.fakes.store import MemoryStore


async def pair() -> tuple[Sessions, Sessions, MemoryStore, SetClock]:
    """Return the sessions as two APIs on one store see them."""
    store, clock = MemoryStore(), SetClock()
    here, there = (Sessions(store, lambda: int(clock.now * 1000), clock) for _ in range(2))
    await here.create()
    return here, there, store, clock


async def test_a_session_that_is_closed_is_unknown_at_once_here_and_soon_elsewhere() -> None:
    here, there, _, clock = await pair()
    name, kept = await here.open("k", ["k"]), await here.open("k", ["k"])
    assert [await here.key(name), await there.key(name)] == ["k", "k"]

    await here.close(name)

    assert await here.key(name) is None
    clock.now += KNOWN_S
    assert await there.key(name) is None
    assert await there.key(kept) == "k"


async def test_old_sessions_and_those_of_revoked_keys_leave_the_store() -> None:
    here, _, store, clock = await pair()
    old = await here.open("k", ["k", "revoked"])
    clock.now += SESSION_S - 1
    revoked = await here.open("revoked", ["k", "revoked"])
    clock.now += 1

    new = await here.open("k", ["k"])

    assert [await here.key(name) for name in (old, revoked, new)] == [None, None, "k"]
    assert await store.count(COLLECTION) == 1


async def test_the_store_has_no_name_and_copies_have_no_session() -> None:
    here, _, store, _ = await pair()
    names = {await here.open("k", ["k"]) for _ in range(100)}

    assert len(names) == 100
    [*points] = (await store.scroll(COLLECTION)).points
    assert not any(name in str(point) for name in names for point in points)
    assert in_reading_order(["documents", COLLECTION, "callbacks"]) == ["callbacks", "documents"]
