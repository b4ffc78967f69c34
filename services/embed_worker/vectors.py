"""Vectors for chunks: copied from points with equal text, else computed once."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry, Counter

from shared.contracts import Chunk
from shared.embedder import Embedder, Vector
from shared.state.index import Index


class Vectors:
    """Provides the vectors of chunks. correctness.md, section 3, step 1 and I7."""

    def __init__(self, index: Index, embedder: Embedder, registry: CollectorRegistry) -> None:
        self._index = index
        self._embedder = embedder
        # Texts that some document is looking up or embedding now; other documents wait for these vectors.
        self._claims: dict[tuple[str, str], asyncio.Future[Vector]] = {}
        self.embedded = Counter("sluice_embedded_texts", "Texts given to the embedding model.", registry=registry)
        self.reused = Counter("sluice_reused_vectors", "Vectors copied from points of equal text.", registry=registry)

    @asynccontextmanager
    async def of(self, tenant: str, chunks: Sequence[Chunk]) -> AsyncIterator[list[Vector]]:
        """Yield one vector per chunk, in order, to the block that writes their points.

        Vectors are looked up by hash and used only if the texts are equal; they never cross tenants. Until the block
        ends, other documents with equal texts get these vectors, which the index doesn't have yet.

        Raises:
            Unavailable: the index or the model is away. Rejected: the model refuses a text.
        """
        hashes = {chunk.embedded: chunk.hash for chunk in chunks}
        found: dict[str, Vector] = {}
        mine: dict[str, asyncio.Future[Vector]] = {}
        try:
            while missing := [text for text in hashes if text not in found]:
                theirs = {text: self._claims[tenant, text] for text in missing if (tenant, text) in self._claims}
                claims = {text: asyncio.Future[Vector]() for text in missing if text not in theirs}
                mine.update(claims)
                self._claims.update({(tenant, text): claim for text, claim in claims.items()})
                for text, vector in (await self._get(tenant, {text: hashes[text] for text in claims})).items():
                    found[text] = vector
                    claims[text].set_result(vector)
                # A document waits for others only after its own claims have results, which prevents deadlocks.
                for text, claim in theirs.items():
                    await asyncio.wait([claim])
                    if not claim.cancelled():  # else that document failed, and this one claims the text
                        found[text] = claim.result()
                        self.reused.inc()
            yield [found[chunk.embedded] for chunk in chunks]
        finally:
            for text, claim in mine.items():
                del self._claims[tenant, text]
                claim.cancel()  # does nothing if the vector is set

    async def _get(self, tenant: str, hashes: Mapping[str, str]) -> dict[str, Vector]:
        """Return the vector of each text, from the index or newly embedded."""
        if not hashes:
            return {}
        known = await self._index.known(tenant, sorted(set(hashes.values())))
        found: dict[str, Vector] = {}
        for text, hash_ in hashes.items():
            if (point := known.get(hash_)) is not None and point.text == text:
                found[text] = point.vector
        self.reused.inc(len(found))
        if new := [text for text in hashes if text not in found]:
            vectors = await self._embedder.embed_documents(new)
            self.embedded.inc(len(new))
            found.update(zip(new, vectors, strict=True))
        return found
