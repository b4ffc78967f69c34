"""The passages that a search compares: one record each, to which every step of the search adds what it found."""

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
    similar: float  # share of the query's weight that only similar words cover, each times its cosine, 0..1


class WordFeatures(NamedTuple):
    """The features of a passage's words, as far as they are known before adjacent and similar words are looked for.

    Passages with the same words of the query share them.
    """

    coverage: float
    phrases: float  # the most that adjacent words could give
    similar: float  # the most that similar words could give


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
                candidate.cosine = hit.cosine or 0.0
                found[hit.id] = candidate
            candidate.ranks[leg] = LegRank(rank, hit.score)
    return list(found.values())


def distinct(candidates: Iterable[Candidate], known: dict[tuple[str, ...], Candidate]) -> list[Candidate]:
    """Return the candidates without those of other documents that have the text of one before below the same headings.

    The one before gets their payloads. `known` are those of earlier calls, and becomes those of all.
    """
    found = []
    for each in candidates:
        first = known.setdefault((each.text, *each.headings), each)
        if first.document_id == each.document_id:
            found.append(each)
        else:
            first.copies.append(each.encoded)
    return found
