"""Port: a cross-encoder, a model that reads a query together with a passage and scores how well they fit."""

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Scores passages. Safe for concurrent calls."""

    async def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the score of each text, in order: finite, on the model's own scale; higher is better.

        Raises:
            Unavailable: the model fails, or gives no valid answer in time.
        """

    async def close(self) -> None:
        """Close the connections."""
