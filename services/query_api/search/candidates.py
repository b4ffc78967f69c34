"""The passages that a search compares: one record each, joined from the legs, fused into one order.

Every step of the search adds what it found.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from shared.inputs.metadata import FIELD as VARIANTS
from shared.inputs.metadata import variant_texts
from shared.store import StoreHit


class Features(NamedTuple):
    """The features of one query and one passage."""

    cosine: float  # of their vectors, -1..1; 0 without vectors
    coverage: float  # share of the query's weight whose words occur in the passage, its title or its section, 0..1
    phrases: float  # share of the query's pairs of words that are adjacent in the passage, 0..1


class WordFeatures(NamedTuple):
    """The features of a passage's words, as far as they are known before adjacent words are looked for.

    Passages with the same words of the query share them.
    """

    coverage: float
    phrases: float  # the most that adjacent words could give


class LegRank(NamedTuple):
    """Where a leg of the search ranked a passage."""

    rank: int  # from 1
    score: float  # the leg's own: a cosine, or BM25


class ComparedMetadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of a chunk's metadata that it is compared by."""

    document_id: str
    chunk_order: int
    title: Any = None
    section_title: Any = None
    table_header: Any = None
    description: Any = None
    language_variants: Any = None
    path: Any = None
    original_filename: Any = None

    @property
    def called_by_file(self) -> bool:
        """Return whether the title is only a file's name, as that of a text without headings."""
        title = self.title
        names = [str(each or "").rpartition("/")[2] for each in (self.path, self.original_filename)]
        return isinstance(title, str) and any(each == title or each.startswith(f"{title}.") for each in names)

    @property
    def headings(self) -> list[str]:
        """Return what is searched with a chunk's text: title, section, header, variants, description (with chunk 0)."""
        named = [each for each in (self.title, self.section_title, self.table_header) if each and isinstance(each, str)]
        if self.chunk_order == 0 and self.description and isinstance(self.description, str):
            named.append(self.description)
        return [*named, *variant_texts({VARIANTS: self.language_variants})] if self.language_variants else named


class ComparedChunk(msgspec.Struct, frozen=True, gc=False):
    """The part of a chunk's payload that it is compared by; the rest is decoded for the hits that are shown."""

    text: str
    metadata: ComparedMetadata


class Candidate(msgspec.Struct):
    """A passage on its way through a search. What isn't known yet has its default."""

    text: str
    headings: Sequence[str] = ()  # its title, its section, and what else is searched with its text
    # From the join of the legs:
    id: str = ""  # of its point
    document_id: str = ""
    chunk_order: int = 0  # its position in the document
    encoded: msgspec.Raw = msgspec.Raw()  # the whole payload
    called_by_file: bool = False  # whether its title, the first of the headings, is only its file's name
    cosine: float = 0.0  # of its vector and the query's; 0 without vectors
    ranks: dict[str, LegRank] = {}  # by the name of each leg that found it
    # From the fusion:
    copies: list[msgspec.Raw] = []  # payloads of chunks with the same text below the same headings
    fused: int = 0  # rank, from 1
    # From the scoring:
    features: Features | None = None
    score: float = 0.0


_decode = msgspec.msgpack.Decoder(ComparedChunk).decode


def join(rankings: Mapping[str, Iterable[StoreHit]]) -> list[Candidate]:
    """Return each chunk that a leg found, once, with its rank in every leg and its cosine.

    `rankings` are the legs' hits by the leg's name, best first.
    """
    found: dict[str, Candidate] = {}
    for leg, hits in rankings.items():
        for rank, hit in enumerate(hits, 1):
            candidate = found.get(hit.id)
            if candidate is None:
                chunk = _decode(hit.encoded)
                of = chunk.metadata
                candidate = Candidate(chunk.text, of.headings, hit.id, of.document_id, of.chunk_order, hit.encoded)
                candidate.cosine, candidate.called_by_file = hit.cosine or 0.0, of.called_by_file
                found[hit.id] = candidate
            candidate.ranks[leg] = LegRank(rank, hit.score)
    return list(found.values())


def distinct(candidates: Iterable[Candidate], known: dict[tuple[str, ...], Candidate]) -> list[Candidate]:
    """Return the candidates without those of other documents that have the text of one before below the same headings.

    A title that is only a file's name doesn't count. The one before gets their payloads. `known` are those of earlier
    calls, and becomes those of all.
    """
    found = []
    for each in candidates:
        first = known.setdefault((each.text, *each.headings[each.called_by_file :]), each)
        if first.document_id == each.document_id:
            found.append(each)
        else:
            first.copies.append(each.encoded)
    return found


# Fusion

NO_WEIGHTS: Mapping[str, float] = {}
NEIGHBOUR_WEIGHT = 0.15  # of the best neighbour's score; chosen on SciFact's train queries


def fuse(
    candidates: Sequence[Candidate], weights: Mapping[str, float] = NO_WEIGHTS, *, neighbours: bool = True
) -> list[Candidate]:
    """Return the candidates in the order of their `fused_scores`, highest first. Ties: the smaller id first.

    With `neighbours`, good candidates in neighbouring chunks move a candidate up.
    """
    scores = fused_scores(candidates, weights)
    if neighbours:
        scores = _with_neighbours(candidates, scores)
    return [candidates[at] for _, _, at in sorted((-scores[at], each.id, at) for at, each in enumerate(candidates))]


def fused_scores(candidates: Sequence[Candidate], weights: Mapping[str, float] = NO_WEIGHTS) -> list[float]:
    """Return each candidate's fused score: usually 0 to 1, and more for one that is far ahead.

    Distribution-based score fusion: in each leg a score s becomes (s - (m - 3d)) / 6d, with m the mean and d the
    standard deviation of the leg's scores. A leg whose scores are all equal gives 0.5. A candidate that isn't in a leg
    gets 0 from it, as if its score were three deviations below the mean. The fused score is the mean over the legs that
    found anything, weighted by `weights` (default 1). Formula from Mazzeschi, "Distribution-Based Score Fusion" (2023),
    as in Qdrant's DBSF, but not clipped, which keeps the lead of an outstanding hit (nDCG@10 on three collections
    0.728, 0.848, 0.609 instead of 0.729, 0.835, 0.593; docs/adr/0020-scores.md).
    """
    sums = [0.0] * len(candidates)
    total = 0.0
    for leg in sorted({leg for each in candidates for leg in each.ranks}):
        weight = weights.get(leg, 1.0)
        total += weight
        found = [(at, each.ranks[leg].score) for at, each in enumerate(candidates) if leg in each.ranks]
        for (at, _), value in zip(found, _normalised([score for _, score in found]), strict=True):
            sums[at] += weight * value
    return [value / total for value in sums]


def _with_neighbours(candidates: Sequence[Candidate], scores: Sequence[float]) -> list[float]:
    """Return each candidate's score plus a share of the best score among the two chunks on each side of it.

    The chunks beside an answer are often about the same subject (docs/adr/0020-scores.md).
    """
    by_document: dict[str, dict[int, float]] = {}
    for each, score in zip(candidates, scores, strict=True):
        by_document.setdefault(each.document_id, {})[each.chunk_order] = score
    found = []
    for each, score in zip(candidates, scores, strict=True):
        position, own, best = each.chunk_order, by_document[each.document_id], 0.0
        if len(own) > 1:
            around = own.get  # without a loop, which would take twice as long
            before = max(around(position - 2, 0.0), around(position - 1, 0.0))
            best = max(before, around(position + 1, 0.0), around(position + 2, 0.0))
        found.append(score + NEIGHBOUR_WEIGHT * best)
    return found


def _normalised(scores: Sequence[float]) -> list[float]:
    mean = math.fsum(scores) / len(scores)
    deviation = math.sqrt(math.fsum([(score - mean) ** 2 for score in scores]) / len(scores))
    if deviation <= 1e-9 * max(1.0, abs(mean)):
        return [0.5] * len(scores)
    return [(score - mean + 3 * deviation) / (6 * deviation) for score in scores]
