"""Statistics count documents by their newest submission, and ask a log that hangs once."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest
from prometheus_client import CollectorRegistry

from services.embed_worker.vectors import VectorMetrics
from services.query_api.documents import stats
from services.query_api.documents.stats import BUCKET_S, LAG_S, Census, ModelWork, SourceSize, tenant_sizes, usage_of
from shared.errors import Unavailable
from shared.state.index import Head
from tests.builders import an_entry
from tests.fakes.state import ledger_and_index
from tests.fakes.store import MemoryStore

NOW_S = 1_700_000_010


async def _base(store: MemoryStore, log: Any = None) -> Any:
    """Return what a census needs of a process; only the pipeline's numbers need the log."""
    ledger, index = await ledger_and_index(store)
    settings = SimpleNamespace(keeps_data=False, embedding_price=0.0)
    return SimpleNamespace(log=log, ledger=ledger, index=index, settings=settings, registry=CollectorRegistry())


async def test_documents_count_in_the_bucket_of_their_submission() -> None:
    base = await _base(MemoryStore())
    census, ledger = Census(base, now=lambda: NOW_S), base.ledger
    for number, ago_s in enumerate((0, BUCKET_S, BUCKET_S, 100 * BUCKET_S)):
        entry = an_entry(str(uuid5(NAMESPACE_OID, str(number))), updated_at=(NOW_S - ago_s) * 1000)
        await ledger.update(entry.document_id, lambda _, entry=entry: entry)

    counted = await census.of("default", pipeline=False)

    assert [bucket.documents for bucket in counted.recent][-3:] == [0, 2, 1]
    assert counted.documents["total"] == 4


async def test_sizes_are_added_up_by_tenant_and_source_largest_first() -> None:
    def held(tenant: str, source: str, chunks: int, size: int, *, deleted: bool = False) -> Head:
        return Head("d", 1, tenant, source, deleted=deleted, chunk_count=chunks, text_size=size)

    async def pages() -> AsyncIterator[list[Head]]:
        yield [held("a", "s", 2, 100), held("b", "s", 1, 5000), held("a", "t", 3, 900)]
        yield [held("a", "s", 1, 50), held("b", "s", 7, 70, deleted=True)]

    big, small = await tenant_sizes(pages())

    assert (big.tenant, big.documents, big.chunks, big.bytes) == ("b", 1, 1, 5000)
    assert (small.tenant, small.documents, small.chunks, small.bytes) == ("a", 3, 6, 1050)
    assert small.sources == [SourceSize("t", 1, 3, 900), SourceSize("s", 2, 3, 150)]


@pytest.mark.feature(243)
@pytest.mark.feature(244)
def test_the_cost_is_that_of_the_tokens_at_the_price_of_a_million() -> None:
    registry = CollectorRegistry()
    metrics = VectorMetrics(registry)
    metrics.embedded.inc(76)
    metrics.copied.inc(4)
    metrics.calls.inc(3)
    metrics.tokens.inc(5_000)

    usage = usage_of(registry, 0.02)

    assert usage is not None
    assert (usage.embedded, usage.copied, usage.calls, usage.tokens) == (76, 4, 3, 5_000)
    assert usage.cost == pytest.approx(0.0001)
    assert usage_of(registry, 0.0) == ModelWork(embedded=76, copied=4, calls=3, tokens=5_000)


def test_an_api_without_embed_workers_knows_nothing_of_their_work() -> None:
    assert usage_of(CollectorRegistry(), 0.02) is None


class SilentLog:
    """A log that answers nobody, after longer than figures are kept."""

    def __init__(self) -> None:
        self.asked = 0
        self.clock = SimpleNamespace(monotonic=lambda: self.asked * 2 * LAG_S)

    async def committed(self, *_: str) -> None:
        self.asked += 1
        await asyncio.sleep(0)
        raise Unavailable("it hangs")


async def test_a_log_that_hangs_leaves_its_figures_out_and_is_asked_once_for_all_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = SilentLog()
    census = Census(await _base(MemoryStore(), log), now=lambda: NOW_S)
    monkeypatch.setattr(stats, "time", log.clock)

    found = await asyncio.gather(*(census.of("default", pipeline=True) for _ in range(2)))

    assert [stage.unread for each in found if each.pipeline for stage in each.pipeline.stages] == [None] * 6
    assert log.asked == 3
