"""Names whose name server doesn't answer hold up their own tenant, and nobody else."""

import asyncio
from collections.abc import Iterator

import pytest

from services.ingest_worker.fetch import Busy, Fetcher, FetchLimits
from services.ingest_worker.fetch.dns_lookup import AT_ONCE_PER_TENANT, Names
from services.ingest_worker.fetch.guard import Guard
from shared.errors import Rejected
from shared.log.failure import Backoff
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
