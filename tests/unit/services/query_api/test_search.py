"""A search that has to wait for a part that says nothing."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from services.query_api.http.metrics import Metrics
from services.query_api.search.retrieval import Mode, Retriever
from shared.errors import Unavailable
from shared.store.bm25 import Bm25


class Silent:
    """A model, or an index, that never answers."""

    async def embed_query(self, text: str) -> None:
        await asyncio.Event().wait()

    async def search(self, *what: object, **how: object) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(("mode", "part"), [("dense", "the embedding model"), ("sparse", "the store")])
async def test_a_search_ends_with_the_name_of_what_is_silent(mode: Mode, part: str) -> None:
    silent = Silent()
    metrics = Metrics(CollectorRegistry())
    retriever = Retriever(silent, silent, Bm25(), metrics, patience_s=0.01)  # type: ignore[arg-type]  # what it uses

    with pytest.raises(Unavailable, match=f"{part} gave no answer within 0.01 s"):
        await retriever.search("tenant", "lantern", mode=mode)
