from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from services.query_api.http.metrics import Metrics
from services.query_api.search import retrieval
from services.query_api.search.retrieval import Retriever
from shared.embedder import Model
from shared.store.bm25 import Bm25


class Counting:
    """A model that says what it was asked, and an index in which nothing is found."""

    model = Model(name="m", digest="d", dimension=2, max_tokens=9)

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> Any:
        self.asked.append(text)
        return np.array([1, 0], dtype=np.float32)

    async def search(self, tenant: str, legs: list[Any], *what: object, **how: object) -> list[list[Any]]:
        return [[] for _ in legs]


@pytest.mark.feature(118)
async def test_a_query_is_embedded_once_for_each_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "MOST_VECTORS", 2)
    both = Counting()
    retriever = Retriever(both, both, Bm25(), Metrics(CollectorRegistry()))  # type: ignore[arg-type]  # what it uses

    for tenant, query in (("a", "x"), ("a", "x"), ("b", "x"), ("a", "x"), ("a", "y"), ("a", "x"), ("b", "x")):
        await retriever.search(tenant, query)

    assert both.asked == ["x", "x", "y", "x"]  # for a, for b, for a, and for b again, which was asked longest ago
