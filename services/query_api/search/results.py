"""The results of a search."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from services.query_api.search.candidates import Candidate
from shared.answers.prompt import day_of
from shared.contracts import with_header

MOST_COPIES = 20  # other places of a text that a hit names
_PLACE = ("documentId", "source", "path", "chunkOrder")
PRIVATE = frozenset({"vectorHash", "chunkHash", "embeddedHash", "origin", "textBlob", "textSize", "tenant"})


class Ranks(msgspec.Struct, frozen=True, omit_defaults=True):
    """The hit's ranks in the two legs, from 1; None in a leg that didn't find it."""

    dense: int | None = None
    sparse: int | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures behind a hit's score and rank."""

    cosine: float | None = None  # of query and passage; None in a search without vectors
    bm25: float | None = None  # includes the terms' rarity in this index; None if the sparse leg didn't find it
    ranks: Ranks
    fused: int  # rank in the fused ranking, from 1
    coverage: float  # share of the query's weight whose words occur in the passage, 0..1
    query: str | None = None  # the related question that found the hit, where a search is expanded
    reranked: float | None = None  # the cross-encoder's score, on its own scale; None: it didn't read the passage


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that matches the query."""

    text: str
    score: float  # 0..1: probability that the passage answers the query; comparable between searches
    metadata: dict[str, Any]
    explanation: Explanation

    @property
    def shown(self) -> str:
        """Return the text below the header of the table that it continues."""
        return with_header(self.text, self.metadata.get("tableHeader"))


class Expanded(msgspec.Struct, frozen=True):
    """A passage joined with its neighbours."""

    text: str
    start: int  # offset in the document's text
    end: int


class Timings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Milliseconds."""

    embed_ms: float
    store_ms: float
    fuse_ms: float
    rerank_ms: float | UnsetType = UNSET  # if a cross-encoder is configured


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The hits of a search, best first, with warnings and timings."""

    hits: list[Found]
    warnings: list[str] = []
    timings: Timings
    related: list[str] = []  # questions that were searched, too


class _WholeChunk(msgspec.Struct, frozen=True):
    metadata: dict[str, Any]


_decode = msgspec.msgpack.Decoder(_WholeChunk).decode


def found_chunk(candidate: Candidate, *, by_words: bool) -> Found:
    """Return a scored candidate as a hit, at the newest place of its title; `by_words`: the search had no vector."""
    assert candidate.features is not None
    metadata = public(_decode(candidate.encoded).metadata)
    if candidate.copies:
        equal = [metadata, *(public(_decode(each).metadata) for each in candidate.copies[:MOST_COPIES])]
        # Another title may be that of another file, and this one's name may be what the query asks for.
        metadata = max((each for each in equal if each.get("title") == metadata.get("title")), key=day_of)
        others = (each for each in equal if each is not metadata)
        metadata["copies"] = [{name: each.get(name) for name in _PLACE} for each in others]
    dense, sparse = candidate.ranks.get("dense"), candidate.ranks.get("sparse")
    return Found(
        text=candidate.text,
        score=candidate.score,
        metadata=metadata,
        explanation=Explanation(
            cosine=None if by_words else candidate.cosine,
            bm25=sparse and sparse.score,
            ranks=Ranks(dense=dense and dense.rank, sparse=sparse and sparse.rank),
            fused=candidate.fused,
            coverage=candidate.features.coverage,
        ),
    )


def public(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chunk's metadata without the pipeline's internal fields."""
    return {name: value for name, value in metadata.items() if name not in PRIVATE}


def joined(chunks: Sequence[Expanded]) -> Expanded:
    """Return neighbouring chunks as one passage. Only white space, which chunks leave out, is between them."""
    text = chunks[0].text
    for before, chunk in pairwise(chunks):
        gap = chunk.start - before.end
        text += ("" if gap <= 0 else " " if gap == 1 else "\n\n") + chunk.text
    return Expanded(text, chunks[0].start, chunks[-1].end)
