"""What the door and the probes say while what nobody has read grows old."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from services.ingest_worker.chunk import CHUNKER
from services.query_api.http.monitoring import Metrics
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import Problem
from services.query_api.ingest.submissions import StatusWaiters, Submissions
from shared.contracts import DocumentSubmitted
from shared.log import Record
from shared.log.consume import consume
from shared.log.publish import publish
from shared.log.retention_risk import Backlog
from shared.runtime.resources import open_resources
from shared.settings import Settings
from shared.topics import DAY, SUBMITTED, readers
from tests.contract.logs import until
from tests.selection import CI_ONLY

DOCUMENT = DocumentSubmitted(source="s", path="a.md", text="A text.")


@CI_ONLY
async def test_records_that_nobody_reads_in_time_shut_the_door_and_turn_readiness_red(tmp_path: Path) -> None:
    late_ms = 0
    wakes = asyncio.Event()

    async def sleeps(_: Record) -> None:
        await wakes.wait()

    async def never(record: Record, *_: object) -> None:
        raise AssertionError(f"{record} was set aside")

    async with AsyncExitStack() as stack:
        base = await open_resources(Settings(data=tmp_path / "data"), stack, chunker=CHUNKER, attach=False)
        groups = readers(base.index.generation.id)
        backlog = Backlog(base.log, groups, now=lambda: time.time_ns() // 1_000_000 + late_ms)
        base = replace(base, backlog=backlog)
        broker = base.log.broker("all")
        stage = consume(broker, SUBMITTED, groups[SUBMITTED], sleeps, stage="ingest", on_dead=never)
        troubles = await base.begin(broker, [stage], stack)
        submissions = Submissions(
            base=base,
            publish=partial(publish, broker),
            notices=StatusWaiters(),
            metrics=Metrics(CollectorRegistry()),
            signer=Signer(b"secret"),
        )

        await submissions.submit(DOCUMENT)
        await backlog.measure()
        assert (await troubles())["backlog"] is None

        late_ms = 4 * DAY
        await backlog.measure()
        said = (await troubles())["backlog"]
        assert said is not None
        assert said.startswith("ingest has not read 1 of documents.submitted's records for longer than half of the 7")
        with pytest.raises(Problem, match="no documents are accepted at present: ingest has not read 1") as refused:
            await submissions.submit(DOCUMENT)
        assert (refused.value.status, "Retry-After" in refused.value.headers) == (503, True)

        wakes.set()
        await until(lambda: stage.handled == 1)
        await stage.stop()  # which commits
        await backlog.measure()
        assert (await troubles())["backlog"] is None
        await submissions.submit(DOCUMENT)
