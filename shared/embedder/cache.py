"""Caches the vectors of the latest queries, because people repeat a query to page and filter."""

from collections import OrderedDict
from collections.abc import Sequence

from shared.embedder import Embedder, Model, TokenCounter, Vector


class QueryCache:
    """An embedder that caches the query vectors of another embedder, for the `size` most recent queries."""

    def __init__(self, embedder: Embedder, size: int = 1024) -> None:
        """Take the embedder that does the work; 1024 vectors of 384 numbers are 1.5 MB."""
        self._embedder = embedder
        self._size = size
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    @property
    def model(self) -> Model:
        """Return the model's identity."""
        return self._embedder.model

    @property
    def tokens(self) -> TokenCounter:
        """Return the model's token counter."""
        return self._embedder.tokens

    async def start(self) -> None:
        """Start the embedder."""
        await self._embedder.start()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector per text. Not cached here, because the store finds equal text by its hash."""
        return await self._embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> Vector:
        """Return the query's unit vector, read-only."""
        if (known := self._vectors.get(text)) is not None:
            self._vectors.move_to_end(text)
            return known
        vector = await self._embedder.embed_query(text)
        self._vectors[text] = vector
        while len(self._vectors) > self._size:
            self._vectors.popitem(last=False)
        return vector

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of the question with each text; not cached."""
        return await self._embedder.similarities(question, texts)

    async def ping(self) -> None:
        """Ping the embedder."""
        await self._embedder.ping()

    async def close(self) -> None:
        """Close the embedder."""
        await self._embedder.close()
