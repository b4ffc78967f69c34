"""Pages of one tenant whose names no server knows, on both logs: documents of others go on."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from services.ingest_worker.fetch import Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from shared.contracts import DocumentSubmitted, LogPosition, encode
from shared.ids import document_id
from shared.log import Log
from shared.topics import SUBMITTED
from tests.contract.logs import until
from tests.fakes.lookup import DeadNames
from tests.integration.first_stages import FirstStages, first_stages
from tests.selection import CI_ONLY

PAGES = 1000


@pytest.fixture
def lookup() -> Iterator[DeadNames]:
    lookup = DeadNames()
    yield lookup
    lookup.over.set()


@pytest.fixture
async def stages(unstarted_log: Log, tmp_path: Path, users: AsyncExitStack, lookup: DeadNames) -> FirstStages:
    fetch = Fetcher(Guard(resolver=lookup), FetchLimits(patience_s=60, robots=False))
    users.push_async_callback(fetch.close)
    return await first_stages(unstarted_log, tmp_path, users, fetch=fetch)


@CI_ONLY
async def test_a_thousand_pages_whose_names_nobody_knows_hold_up_no_other_tenant(
    stages: FirstStages, users: AsyncExitStack, lookup: DeadNames
) -> None:
    broker = stages.log.broker("api")
    await broker.start()
    users.push_async_callback(broker.stop)

    async def submit(tenant: str, path: str, **fields: str) -> LogPosition:
        submitted = DocumentSubmitted(tenant=tenant, source="s", path=path, **fields)  # type: ignore[arg-type]
        sent = await broker.publish(encode(submitted), SUBMITTED, key=submitted.document_id.encode())
        return LogPosition(partition=sent.partition, offset=sent.offset, time=sent.timestamp)

    for number in range(PAGES):
        url = f"http://dead{number}.example/"
        await submit("stuck", url, url=url)

    async def stuck() -> bool:
        return bool(lookup.waiting)

    await until(stuck)
    for number in range(20):
        place = await submit("other", f"{number}.md", text="A lantern.")
        await stages.accepted(document_id("other", "s", f"{number}.md"), place)

    assert lookup.waiting, "the others were still waited for"
