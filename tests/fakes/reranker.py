"""The fake of `shared.reranker.Reranker`."""

from collections.abc import Sequence

from shared.errors import Unavailable
from tests.servers.fake_rerank import score_list


class MemoryReranker:
    """Scores by shared words; it fails as often as `failures` says."""

    def __init__(self) -> None:
        self.failures = 0
        self.asked: list[int] = []  # the number of texts of each call

    async def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        self.asked.append(len(texts))
        if self.failures:
            self.failures -= 1
            raise Unavailable("the reranker is away")
        return score_list(query, list(texts))

    async def close(self) -> None:
        """Do nothing."""
