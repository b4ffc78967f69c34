import pytest
from prometheus_client import CollectorRegistry

from services.embed_worker.vectors import VectorMetrics
from services.query_api.documents.usage import ModelWork, SizeSum, SourceSize, usage_of
from shared.state.index import Holding


def test_sizes_are_added_up_by_tenant_and_source_largest_first() -> None:
    total = SizeSum()
    total.add([Holding("a", "s", 2, 100), Holding("b", "s", 1, 5000), Holding("a", "t", 3, 900)])
    total.add([Holding("a", "s", 1, 50)])

    big, small = total.tenants()

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
