"""A query on its way through a search."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from services.query_api.search.relevance import Question, question
from services.query_api.search.word_table import reads
from shared.store import Filter, Sparse
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
