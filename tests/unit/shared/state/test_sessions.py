"""Sessions of browsers: when they end, here and in another process, and what the store has of them."""

from services.operator_cli.moving.collections import in_reading_order
from shared.state.sessions import COLLECTION, SESSION_S, OpenSession, Sessions
from shared.store import Point
from tests.fakes.clock import SetClock
from tests.fakes.store import MemoryStore

K = OpenSession("k")


async def pair() -> tuple[Sessions, Sessions, MemoryStore, SetClock]:
    """Return the sessions as two APIs on one store see them."""
    store, clock = MemoryStore(), SetClock()
    here, there = (Sessions(store, lambda: int(clock.now * 1000)) for _ in range(2))
    await here.create()
    return here, there, store, clock


async def test_a_session_that_is_closed_is_unknown_at_once_here_and_elsewhere() -> None:
    here, there, *_ = await pair()
    name, kept = await here.open(K, ["k"]), await here.open(K, ["k"])
    assert [await here.find(name), await there.find(name)] == [K, K]

    await here.close(name)

    assert await here.find(name) is None
    assert await there.find(name) is None
    assert await there.find(kept) == K


async def test_old_sessions_and_those_of_revoked_keys_leave_the_store() -> None:
    here, _, store, clock = await pair()
    old = await here.open(K, ["k", "revoked"])
    clock.now += SESSION_S - 1
    revoked = await here.open(OpenSession("revoked"), ["k", "revoked"])
    clock.now += 1

    new = await here.open(K, ["k"])

    assert [await here.find(name) for name in (old, revoked, new)] == [None, None, K]
    assert await store.count(COLLECTION) == 1


async def test_the_store_has_no_name_and_copies_have_no_session() -> None:
    here, _, store, _ = await pair()
    names = {await here.open(K, ["k"]) for _ in range(100)}

    assert len(names) == 100
    [*points] = (await store.scroll(COLLECTION)).points
    assert not any(name in str(point) for name in names for point in points)
    assert in_reading_order(["documents", COLLECTION, "callbacks"]) == ["callbacks", "documents"]


async def test_a_session_of_an_api_that_knew_no_provider_is_a_key_s() -> None:
    here, _, store, _ = await pair()
    name = await here.open(K, ["k"])
    [point] = (await store.scroll(COLLECTION)).points
    older = {field: point.payload[field] for field in ("key", "over")}
    await store.upsert(COLLECTION, [Point(id=point.id, payload=older)])

    assert await here.find(name) == K


async def test_a_session_ends_in_time_though_it_was_found_just_before() -> None:
    here, _, _, clock = await pair()
    user = OpenSession("provider", "oidc:u", "t", ("query",))
    name = await here.open(user, ["k", "provider"], 100)
    clock.now += 99
    assert await here.find(name) == user

    clock.now += 1

    assert await here.find(name) is None


async def test_a_session_of_a_clock_that_was_a_year_ahead_has_ended_and_of_one_that_was_a_minute_has_not() -> None:
    here, there, _, clock = await pair()
    now, found = clock.now, list[OpenSession | None]()
    for ahead_s in (60, 365 * 86_400):
        clock.now = now + ahead_s
        name = await here.open(K, ["k"])
        clock.now = now
        found.append(await there.find(name))

    assert found == [K, None]
    clock.now = now + 360 * 86_400  # near the time at which that clock was
    assert await there.find(name) is None
