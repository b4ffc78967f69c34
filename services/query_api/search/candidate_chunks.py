"""Candidates of a search as they are compared with the query, and the sparse leg's before the query is embedded."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from services.query_api.search.relevance import CandidatePassage, Comparer, Question, WordFeatures, question
from services.query_api.search.scripts import reads
from shared.errors import Unavailable
from shared.inputs.language_variants import FIELD as VARIANTS
from shared.inputs.language_variants import variant_texts
from shared.state.index import Index
from shared.store import BegunSearch, Filter, Sparse
from shared.store.bm25 import Bm25


class ComparedMetadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of a chunk's metadata that it is compared by."""

    document_id: str
    chunk_order: int
    title: Any = None
    section_title: Any = None
    description: Any = None
    language_variants: Any = None


class ComparedChunk(msgspec.Struct, frozen=True, gc=False):
    """The part of a chunk's payload that it is compared by; the rest is decoded for the hits that are shown."""

    text: str
    metadata: ComparedMetadata


class KnownChunk(msgspec.Struct, frozen=True, gc=False):
    """A chunk whose words were compared with the query's."""

    encoded: msgspec.Raw
    chunk: ComparedChunk
    headings: Sequence[str]
    words: WordFeatures


decode_chunk = msgspec.msgpack.Decoder(ComparedChunk).decode


def headings(chunk: ComparedChunk) -> list[str]:
    """Return what is searched with a chunk's text: title, section, variants, and the description with chunk 0."""
    of = chunk.metadata
    title, section = of.title, of.section_title
    named = [title] if title and isinstance(title, str) else []
    if section and isinstance(section, str):
        named.append(section)
    if of.chunk_order == 0 and of.description and isinstance(of.description, str):
        named.append(of.description)
    return [*named, *variant_texts({VARIANTS: of.language_variants})] if of.language_variants else named


class EarlyLeg:
    """The sparse leg of a search, ranked and compared with the query while the model embeds it.

    Whatever isn't done when the vector is there is done afterwards, as if there were no such leg.
    """

    def __init__(self, index: Index, bm25: Bm25) -> None:
        self._index = index
        self._bm25 = bm25
        self.sparse: Sparse | None = None
        self.begun: BegunSearch | None = None  # None: the store can't, or has other searches
        self.asked: Question | None = None
        self.is_read: bool | None = None  # whether the model reads the query's language; None: not looked at yet
        self.known: dict[str, KnownChunk] = {}  # by point id
        self._running: asyncio.Task[None] | None = None

    def start(self, tenant: str, query: str, where: Filter, *, limit: int, compared: int, model: str) -> None:
        """Ask for the leg's `limit` best hits once the caller waits for `model`, and compare the first so many."""
        running = self._run(tenant, query, where, limit=limit, compared=compared, model=model)
        self._running = asyncio.create_task(running)

    def stop(self) -> None:
        """Compare no further."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self, tenant: str, query: str, where: Filter, *, limit: int, compared: int, model: str) -> None:
        """Do as `start` says. A failure is left to the whole search."""
        self.sparse = self._bm25.query(query)
        if not self.sparse.indices:
            return
        with suppress(Unavailable, ValueError):
            self.begun = self._index.begin_search(tenant, self.sparse, where, limit=limit)
        self.asked = asked = question(query)
        self.is_read = reads(model, query)
        if self.begun is None:
            return
        with suppress(Unavailable, ValueError):
            hits = (await self.begun.hits())[:compared]
            chunks = [decode_chunk(hit.encoded) for hit in hits]
            passages = [CandidatePassage(0.0, chunk.text, headings(chunk)) for chunk in chunks]
            words = Comparer(asked).compared(passages)
            self.known = {
                hit.id: KnownChunk(hit.encoded, chunk, passage.headings, features)
                for hit, chunk, passage, features in zip(hits, chunks, passages, words, strict=True)
            }
