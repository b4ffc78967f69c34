"""Names whose name server doesn't answer hold up their own tenant, and nobody else."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from services.ingest_worker.fetch import Busy, Fetcher, FetchLimits
from services.ingest_worker.fetch import fetcher as fetcher_module
from services.ingest_worker.fetch.dns_lookup import AT_ONCE_PER_TENANT, Names
from services.ingest_worker.fetch.guard import Guard
from shared.errors import Rejected
from shared.log.failure import Backoff
from tests.contract.logs import until
from tests.fakes.lookup import DeadNames
from tests.servers.loopback import running
from tests.servers.website import Website, a_page

HANG_GUARD_S = 60.0


@pytest.fixture
def lookup() -> Iterator[DeadNames]:
    lookup = DeadNames()
    yield lookup
    lookup.over.set()


async def test_a_thousand_dead_names_of_one_tenant_leave_the_others_theirs(lookup: DeadNames) -> None:
    names = Names(lookup)
    stuck = [asyncio.create_task(names.addresses(f"dead{number}.test", 80, "a")) for number in range(1000)]
    await asyncio.sleep(0)

    async with asyncio.timeout(HANG_GUARD_S):
        assert await names.addresses("alive.test", 80, "b") == ["127.0.0.1"]
        assert await asyncio.to_thread(lambda: "the loop's own threads are free") != ""
        for task in stuck[AT_ONCE_PER_TENANT:]:
            with pytest.raises(Busy):
                await task
        lookup.over.set()
        for task in stuck[:AT_ONCE_PER_TENANT]:
            with pytest.raises(OSError, match="no name server answers"):
                await task
        assert await names.addresses("alive.test", 80, "a") == ["127.0.0.1"]

    assert lookup.most_waiting <= AT_ONCE_PER_TENANT


async def test_a_caller_that_leaves_does_not_make_room_for_another_dead_name(lookup: DeadNames) -> None:
    names = Names(lookup)
    for number in range(AT_ONCE_PER_TENANT):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await names.addresses(f"dead{number}.test", 80, "a")

    with pytest.raises(Busy):
        await names.addresses("alive.test", 80, "a")
    lookup.over.set()
    async with asyncio.timeout(HANG_GUARD_S):
        assert await names.addresses("alive.test", 80, "a") == ["127.0.0.1"]

    assert lookup.most_waiting <= AT_ONCE_PER_TENANT


async def test_callers_of_one_dead_name_share_its_thread(lookup: DeadNames) -> None:
    names = Names(lookup)
    stuck = [asyncio.create_task(names.addresses("dead.test", 80, "a")) for _ in range(3 * AT_ONCE_PER_TENANT)]
    async with asyncio.timeout(HANG_GUARD_S):
        assert await names.addresses("alive.test", 80, "a") == ["127.0.0.1"]
        lookup.over.set()
        ends = await asyncio.gather(*stuck, return_exceptions=True)

    assert {type(end) for end in ends} == {socket.gaierror}
    assert await names.addresses("alive.test", 80, "a") == ["127.0.0.1"]


@pytest.mark.parametrize("robots", [False, True], ids=["", "robots"])
async def test_dead_pages_end_while_their_names_are_still_looked_up(lookup: DeadNames, *, robots: bool) -> None:
    limits = FetchLimits(patience_s=0.2, delay_s=0, robots=robots)
    fetcher = Fetcher(Guard("*.test", resolver=lookup), limits, backoff=Backoff(0, 0))
    async with asyncio.timeout(HANG_GUARD_S):
        for number in range(AT_ONCE_PER_TENANT):
            with pytest.raises(Rejected, match=r"can't be reached|not fetched"):
                async with fetcher.page(f"http://dead{number}.test/", tenant="a"):
                    raise AssertionError
    await fetcher.close()


async def test_pages_that_hold_up_nobody_are_not_postponed(lookup: DeadNames, monkeypatch: pytest.MonkeyPatch) -> None:
    """A postponed page is written to the log anew."""
    monkeypatch.setattr(fetcher_module, "_TURN_S", 0.001)
    looks = 0
    crowded = False

    def is_crowded() -> bool:
        nonlocal looks
        looks += 1
        return crowded

    monkeypatch.setattr(fetcher_module, "stepped_aside", lambda _: nullcontext(is_crowded))
    fetcher = Fetcher(Guard("*.test", resolver=lookup), FetchLimits(patience_s=60, delay_s=0, robots=False))

    async def fetched(number: int) -> None:
        async with fetcher.page(f"http://dead{number}.test/", tenant="a"):
            raise AssertionError

    stuck = [asyncio.create_task(fetched(number)) for number in range(1000)]
    few = fetcher_module.AT_ONCE_PER_TENANT
    await until(lambda: looks >= 3 * len(stuck))
    assert sum(task.done() for task in stuck) <= few
    crowded = True
    await until(lambda: sum(task.done() for task in stuck) >= len(stuck) - few)
    for task in stuck:
        task.cancel()
    ends = await asyncio.gather(*stuck, return_exceptions=True)
    assert sum(isinstance(end, Busy) for end in ends) >= len(stuck) - few
    await fetcher.close()


@pytest.mark.parametrize("robots", [False, True], ids=["", "robots"])
async def test_a_thousand_pages_of_dead_names_leave_the_others_theirs(lookup: DeadNames, *, robots: bool) -> None:
    limits = FetchLimits(patience_s=2, delay_s=0, robots=robots)
    fetcher = Fetcher(Guard("*.test", resolver=lookup), limits, backoff=Backoff(0, 0))
    ends: list[str] = []

    async def fetched(url: str, tenant: str) -> None:
        try:
            async with fetcher.page(url, tenant=tenant) as page:
                assert page is not None
                ends.append(url)
        except (Busy, Rejected) as error:
            ends.append(type(error).__name__)

    async with running(Website({"/": a_page("here")})) as website, asyncio.timeout(HANG_GUARD_S):
        alive = f"http://alive.test:{website.url.rpartition(':')[2]}/"
        stuck = [asyncio.create_task(fetched(f"http://dead{number}.test/", "a")) for number in range(1000)]
        await asyncio.sleep(0)
        await fetched(alive, "b")
        assert ends == [alive]

        for task in stuck:
            task.cancel()
        lookup.over.set()
        await asyncio.gather(*stuck, return_exceptions=True)
        ends.clear()
        await fetched(alive, "a")
        assert ends == [alive]
    await fetcher.close()
