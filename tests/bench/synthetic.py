"""Fills a data folder with made-up documents: no model runs, so a million chunks take minutes.

`python -m tests.bench.synthetic FOLDER --chunks 100000`. Vectors lie in clusters, as embeddings do; words are as
frequent as Zipf's law says; a document has five to ten chunks of about 600 characters and belongs to one of twenty
sources. The points and heads go through the store's port, as the embed worker writes them.
"""

import argparse
import asyncio
import functools
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from services.embed_worker.points import chunk_points, head_of
from services.query_api.app import ApiParts
from services.standalone.serve import start
from shared.contracts import DocumentVersion
from shared.embedder import Vector
from shared.ids import document_id
from shared.settings import Settings
from tests.builders import a_version, chunks_of

TENANT, OTHER = "default", "other"
SOURCES = 20
_WORDS = 50_000
_WORDS_EACH = 67  # about 600 characters
_CHUNKS = (5, 10)
_IN_CLUSTER = 50  # chunks whose vectors lie around one centre
_NEAR = 0.75  # cosine of a vector with its centre, about
_BATCH = 100  # documents written at a time


class Made(Struct, frozen=True):
    """A document with its chunks' texts and vectors."""

    document: DocumentVersion
    texts: list[str]
    vectors: list[Vector]


class Words:
    """Draws words of a made-up vocabulary, the same for all libraries; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self._vocabulary = _vocabulary()
        self._rng = np.random.default_rng(seed)
        weights = 1.0 / (1.0 + np.arange(_WORDS))
        self._cumulated = np.cumsum(weights / weights.sum())

    def drawn(self, count: int) -> list[str]:
        """Return this many words, frequent ones more often."""
        at = np.searchsorted(self._cumulated, self._rng.random(count))
        return [str(word) for word in self._vocabulary[at]]


@functools.cache
def _vocabulary() -> NDArray[np.str_]:
    rng = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlcumwfgypbvk"))
    lengths = rng.integers(2, 11, _WORDS)
    return np.array(["".join(rng.choice(letters, size)) + format(n % 1296, "x") for n, size in enumerate(lengths)])


class Library:
    """Makes documents and queries; the same seed makes the same ones."""

    def __init__(self, chunks: int, dimension: int, seed: int = 1) -> None:
        self.chunks = chunks
        self._rng = np.random.default_rng(seed)
        self._spectrum = (1.0 + np.arange(dimension, dtype=np.float32)) ** -0.35
        self._centres = _units(self._noise(max(10, chunks // _IN_CLUSTER)))
        self._words = Words(seed)

    def documents(self) -> Iterator[Made]:
        """Yield documents until all chunks are made."""
        made = number = 0
        while made < self.chunks:
            count = min(int(self._rng.integers(_CHUNKS[0], _CHUNKS[1] + 1)), self.chunks - made)
            yield self._document(number, count)
            made, number = made + count, number + 1

    def queries(self, count: int) -> NDArray[np.float32]:
        """Return unit vectors drawn as the chunks' are."""
        return self._vectors(count)

    def _document(self, number: int, count: int) -> Made:
        tenant = OTHER if number % 10 == 9 else TENANT
        source, path = f"source-{self._rng.integers(SOURCES)}", f"library/{number}.md"
        document = a_version(
            document_id=document_id(tenant, source, path),
            tenant=tenant,
            source=source,
            path=path,
            title=" ".join(self._words.drawn(4)),
            tags=("even",) if number % 2 == 0 else ("odd",),
            text_sha256=f"{number:064x}",
            text_size=600 * count,
        )
        texts = [" ".join(self._words.drawn(_WORDS_EACH)) for _ in range(count)]
        return Made(document, texts, list(self._vectors(count)))

    def _vectors(self, count: int) -> NDArray[np.float32]:
        centres = self._centres[self._rng.integers(len(self._centres), size=count)]
        return _units(_NEAR * centres + (1 - _NEAR**2) ** 0.5 * _units(self._noise(count)))

    def _noise(self, count: int) -> NDArray[np.float32]:
        drawn = self._rng.standard_normal((count, len(self._spectrum)), dtype=np.float32)
        noise: NDArray[np.float32] = drawn * self._spectrum
        return noise


def _units(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    units: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units


async def fill(data: Path, chunks: int) -> int:
    """Write a library of so many chunks into a data folder; return the number of documents."""
    async with AsyncExitStack() as stack:
        parts = await start(Settings(data=data, samples="off", chat="extractive:"), stack)
        return await _written(parts, Library(chunks, parts.embedder.model.dimension))


async def _written(parts: ApiParts, library: Library) -> int:
    documents = 0
    batch: list[Made] = []

    async def write() -> None:
        points = []
        for made in batch:
            chunks = chunks_of(*made.texts)
            sparse = await parts.bm25.documents(made.texts)
            precision = parts.index.generation.vectors
            every = slice(0, len(chunks))
            points += chunk_points(made.document, chunks, every, made.vectors, sparse, precision=precision)
        await parts.index.put(points)
        await asyncio.gather(*(parts.index.switch(head_of(made.document, len(made.texts))) for made in batch))
        batch.clear()

    for made in library.documents():
        batch.append(made)
        documents += 1
        if len(batch) == _BATCH:
            await write()
    await write()
    await parts.index.flush()
    return documents


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.synthetic", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chunks", type=int, default=100_000)
    chosen = parser.parse_args()
    print(asyncio.run(fill(chosen.folder, chosen.chunks)), "documents")


if __name__ == "__main__":
    main()
