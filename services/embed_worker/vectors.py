"""Vectors for chunks: copied where the index has them, computed once where it hasn't."""

import asyncio
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter

from shared.contracts import Chunk
from shared.embedder import Embedder, Vector
from shared.index import Index


class Vectors:
    """Gives each chunk its vector. CORRECTNESS 3 step 1 and I7."""

    def __init__(self, index: Index, embedder: Embedder, registry: CollectorRegistry) -> None:
        self._index = index
        self._embedder = embedder
        # Equal text of documents that are under way at the same moment: the first one embeds for all.
        self._under_way: dict[tuple[str, str], asyncio.Future[Vector]] = {}
        self.embedded = Counter("sluice_embedded_texts", "Texts given to the embedding model.", registry=registry)
        self.reused = Counter("sluice_reused_vectors", "Vectors copied from points of equal text.", registry=registry)

    async def of(self, tenant: str, chunks: Sequence[Chunk]) -> list[Vector]:
        """Return one vector a chunk, in order.

        Equality of text decides, the hash only finds; a vector never crosses tenants.
        """
        texts = {chunk.text: chunk.hash for chunk in chunks}
        known = await self._index.known(tenant, sorted(set(texts.values())))
        found: dict[str, Vector] = {}
        for text, hash_ in texts.items():
            if (point := known.get(hash_)) is not None and point.text == text:
                found[text] = point.vector
        self.reused.inc(sum(chunk.text in found for chunk in chunks))
        waiting = {
            text: self._under_way[tenant, text] for text in texts.keys() - found if (tenant, text) in self._under_way
        }
        mine = [text for text in texts if text not in found and text not in waiting]
        found.update(zip(mine, await self._embed(tenant, mine), strict=True))
        for text, future in waiting.items():
            found[text] = await self._shared(tenant, text, future)
        return [found[chunk.text] for chunk in chunks]

    async def _embed(self, tenant: str, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        loop = asyncio.get_running_loop()
        futures = {text: loop.create_future() for text in texts}
        self._under_way.update({(tenant, text): future for text, future in futures.items()})
        try:
            vectors = await self._embedder.embed_documents(texts)
            self.embedded.inc(len(texts))
            for text, vector in zip(texts, vectors, strict=True):
                futures[text].set_result(vector)
        finally:
            for text, future in futures.items():
                del self._under_way[tenant, text]
                future.cancel()  # does nothing where the vector is there
        return vectors

    async def _shared(self, tenant: str, text: str, future: asyncio.Future[Vector]) -> Vector:
        """Return what another document's embedding gives, or embed here when that one failed."""
        try:
            vector = await asyncio.shield(future)
        except asyncio.CancelledError:
            if not future.cancelled():  # it is this task that was cancelled
                raise
            return (await self._embed(tenant, [text]))[0]
        self.reused.inc()
        return vector
