"""Vectors for chunks: copied from points with equal text, else computed once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass

from prometheus_client import CollectorRegistry, Counter

from shared.contracts import Chunk
from shared.embedder import Embedder, Vector
from shared.errors import Unavailable
from shared.log.consume import stepped_aside
from shared.state.index import Index


@dataclass
class Vectors:
    """Provides the vectors of chunks. correctness.md, section 3, step 1 and I7.

    `siblings` returns other indexes with vectors of the same model. `fills` returns whether the index is
    being filled and doesn't serve; then siblings are asked first, because they have nearly all texts.
    """

    index: Index
    embedder: Embedder
    metrics: "VectorMetrics"
    _: KW_ONLY
    siblings: Callable[[], Sequence[Index]] = tuple
    fills: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.embedded = 0  # texts given to the model
        self.copied = 0  # vectors copied
        # Texts that some document is looking up or embedding now; other documents wait for these vectors.
        self._claims: dict[tuple[str, str], asyncio.Future[Vector]] = {}

    @asynccontextmanager
    async def of(self, tenant: str, chunks: Sequence[Chunk]) -> AsyncIterator[list[Vector]]:
        """Yield one vector per chunk, in order, to the block that writes their points.

        Vectors are looked up by hash and used only if the texts are equal; they never cross tenants. Until the block
        ends, other documents with equal texts get these vectors, which the index doesn't have yet.

        Raises:
            Unavailable: the index or the model is away. Rejected: the model refuses a text.
        """
        texts = [chunk.embedded for chunk in chunks]
        hashes = {text: chunk.embedded_hash for text, chunk in zip(texts, chunks, strict=True)}
        tokens = {text: chunk.tokens for text, chunk in zip(texts, chunks, strict=True)}
        found: dict[str, Vector] = {}
        mine: dict[str, asyncio.Future[Vector]] = {}
        try:
            while missing := [text for text in hashes if text not in found]:
                theirs = {text: self._claims[tenant, text] for text in missing if (tenant, text) in self._claims}
                claims = {text: asyncio.Future[Vector]() for text in missing if text not in theirs}
                mine.update(claims)
                self._claims.update({(tenant, text): claim for text, claim in claims.items()})
                for text, vector in (await self._get(tenant, {text: hashes[text] for text in claims}, tokens)).items():
                    found[text] = vector
                    claims[text].set_result(vector)
                # A document waits for others only after its own claims have results, which prevents deadlocks.
                for text, claim in theirs.items():
                    with stepped_aside("another document's texts are embedded"):
                        await asyncio.wait([claim])
                    if not claim.cancelled():  # else that document failed, and this one claims the text
                        found[text] = claim.result()
                        self._count(copied=1)
            yield [found[text] for text in texts]
        finally:
            for text, claim in mine.items():
                del self._claims[tenant, text]
                claim.cancel()  # does nothing if the vector is set

    async def _get(self, tenant: str, hashes: Mapping[str, str], tokens: Mapping[str, int]) -> dict[str, Vector]:
        """Return the vector of each text, from the index or newly embedded."""
        if not hashes:
            return {}
        found: dict[str, Vector] = {}
        siblings = self.siblings()
        for index in (*siblings, self.index) if self.fills() else (self.index, *siblings):
            if missing := {text: hash_ for text, hash_ in hashes.items() if text not in found}:
                found |= await _copied(index, tenant, missing)
        self._count(copied=len(found))
        if new := [text for text in hashes if text not in found]:
            # A document has its turns at the model beside others, which it doesn't keep waiting; nobody needs to know.
            with stepped_aside(""):
                vectors = await self.embedder.embed_documents(new, flow=tenant)
            self._count(embedded=len(new))
            self.metrics.calls.inc()
            self.metrics.tokens.inc(sum(tokens[text] for text in new))
            found.update(zip(new, vectors, strict=True))
        return found

    def _count(self, *, embedded: int = 0, copied: int = 0) -> None:
        self.embedded += embedded
        self.copied += copied
        self.metrics.embedded.inc(embedded)
        self.metrics.copied.inc(copied)


async def _copied(index: Index, tenant: str, hashes: Mapping[str, str]) -> dict[str, Vector]:
    """Return the vectors that the index has of these texts."""
    try:
        known = await index.known(tenant, sorted(set(hashes.values())))
    except Unavailable as error:
        if error.code == "no_collection":  # another generation's, dropped just now
            return {}
        raise
    return {
        text: point.vector
        for text, hash_ in hashes.items()
        if (point := known.get(hash_)) is not None and point.text == text
    }


class VectorMetrics:
    """The counters of all generations of a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.embedded = Counter("sluice_embedded_texts", "Texts given to the embedding model.", registry=registry)
        self.calls = Counter("sluice_embedding_calls", "Calls of the embedding model for documents.", registry=registry)
        self.tokens = Counter(
            "sluice_embedding_tokens", "Tokens of the chunks whose texts were embedded.", registry=registry
        )
        self.copied = Counter("sluice_reused_vectors", "Vectors copied from points of equal text.", registry=registry)
