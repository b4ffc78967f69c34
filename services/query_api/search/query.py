"""A query on its way through a search, and its sparse leg before its vector is there."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from services.query_api.search.candidates import Candidate, candidate_of
from services.query_api.search.relevance import Comparer, Question, question
from services.query_api.search.word_table import reads
from shared.errors import Unavailable
from shared.state.index import Index
from shared.store import BegunSearch, Filter, Sparse
from shared.store.bm25 import Bm25

Mode = Literal["hybrid", "dense", "sparse"]

DEPTH = 50  # candidates per leg


@dataclass
class Query:
    """What is searched for, and where. What the steps need of its text is made once, at its first use."""

    tenant: str
    text: str
    where: Filter
    mode: Mode
    top_k: int
    limit: int  # hits that each leg is asked for
    bm25: Bm25
    model: str  # name of the embedding model

    @cached_property
    def sparse(self) -> Sparse:
        """Return the text's terms; empty for stop words and punctuation."""
        return self.bm25.query(self.text)

    @cached_property
    def asked(self) -> Question:
        """Return the text as it is compared with passages."""
        return question(self.text)

    @cached_property
    def is_read(self) -> bool:
        """Return whether the model reads the text's script and language."""
        return reads(self.model, self.text)


class EarlyLeg:
    """The sparse leg of a search, ranked and compared with the query while the model embeds it.

    Whatever isn't done when the vector is there is done afterwards, as if there were no such leg.
    """

    def __init__(self, index: Index, query: Query) -> None:
        self._index = index
        self._query = query
        self._running: asyncio.Task[None] | None = None
        self.begun: BegunSearch | None = None  # None: the store can't, or has other searches
        self.known: dict[str, Candidate] = {}  # by point id

    def start(self) -> None:
        """Ask for the leg once the caller waits for the model, and compare its first `DEPTH` hits."""
        self._running = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Compare no further."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> None:
        """Do as `start` says. A failure is left to the whole search."""
        query = self._query
        if not query.sparse.indices:
            return
        with suppress(Unavailable, ValueError):
            self.begun = self._index.begin_search(query.tenant, query.sparse, query.where, limit=query.limit)
        _ = query.asked, query.is_read  # the model is at work meanwhile
        if self.begun is None:
            return
        with suppress(Unavailable, ValueError):
            candidates = [candidate_of(hit) for hit in (await self.begun.hits())[:DEPTH]]
            Comparer(query.asked).compare_words(candidates)
            self.known = {each.id: each for each in candidates}
