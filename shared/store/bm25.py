"""Text to sparse vectors: BM25's term weights. The store multiplies them with the terms' rarity (IDF)."""

import functools
import re
from collections.abc import Callable, Sequence

import msgspec
import qdrant_edge
import xxhash

from shared.store import Sparse
from shared.text.words import WORD, folded, paired, with_beginnings
from shared.times import LoopTurns

K1, B, AVERAGE_TOKENS = 1.2, 0.75, 256.0  # avg: chunks of 800 characters have 100 to 150 without stop words
FOLDED = 0.5  # weight of a folded form or a beginning beside the exact word: `schon` is not `schön`
# Of a query in another language, a word of one to three letters is mostly "wie", "się" or "jak": function words of any
# language, without a list of each. Chosen on Pro Git in five languages (docs/measurements.md#languages).
SHORT, _LONGER = 0.4, 4
_NAME = re.compile(r"(?<=[\w,] )[A-Z]\b")  # C or R, but no word that begins a sentence, such as Polish "W"
_BEYOND_CYRILLIC = "\u0530"  # Arabic and Hebrew write no vowels: their short words say more
_LANGUAGE = "english"
_SPECIMEN = "Running runners ran: Café №7, naïve 東京タワー e-mail foo_bar x86-64 it's über-straße, 경로를. " * 3


class Bm25:
    """Makes vectors of documents and of queries, with English stems and stop words. Deterministic; safe in any thread.

    Of a script without blanks, each pair of characters counts as a word. Words with accents and the like count in their
    folded form, too, and words of other languages than English by their beginnings, both of which weigh less.
    """

    def __init__(self) -> None:
        self._model = qdrant_edge.Bm25(
            qdrant_edge.Bm25Config(k=K1, b=B, avg_len=AVERAGE_TOKENS, language=_LANGUAGE, tokenizer=None)
        )

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return an identifier of the settings: equal ones give equal vectors with any version of the engine."""
        specimen = self.document(_SPECIMEN)
        digest = xxhash.xxh3_64_hexdigest(msgspec.msgpack.encode(specimen))
        return f"bm25:{_LANGUAGE}:{K1}:{B}:{AVERAGE_TOKENS:g}:{digest}"

    def document(self, text: str) -> Sparse:
        """Return the text's term weights; empty for a text of stop words only."""
        return self._vector(self._model.embed_document, text, of_query=False)

    def query(self, text: str, *, foreign: bool = False) -> Sparse:
        """Return weight 1 for each of the query's terms, and less for folded forms and beginnings.

        In a `foreign` query, one in another language than English, short words weigh less, but not abbreviations.
        """
        whole = self._vector(self._model.embed_query, text, of_query=True)
        if not foreign or not (short := set(self._model.embed_query(_short_words(text)).indices)):
            return whole
        weighed = zip(whole.indices, whole.values, strict=True)
        return Sparse(whole.indices, [value * SHORT if index in short else value for index, value in weighed])

    def _vector(self, embed: Callable[[str], qdrant_edge.SparseVector], text: str, *, of_query: bool) -> Sparse:
        if not text.isascii():
            text = text.encode(errors="replace").decode()  # the engine refuses lone surrogates
        prepared, whole = paired(text), with_beginnings(text, of_query=of_query)
        exact = embed(prepared)
        if whole == prepared:
            return Sparse(exact.indices, exact.values)
        both, own = embed(whole), set(exact.indices)
        folded = [
            (index, FOLDED * value) for index, value in zip(both.indices, both.values, strict=True) if index not in own
        ]
        return Sparse(
            [*exact.indices, *(index for index, _ in folded)], [*exact.values, *(value for _, value in folded)]
        )

    async def documents(self, texts: Sequence[str]) -> list[Sparse]:
        """Return `document` of each text. The event loop is held up for some milliseconds, or by one long text.

        The engine keeps Python's lock during a text, so a thread would gain nothing.
        """
        vectors, turns = list[Sparse](), LoopTurns()
        for text in texts:
            vectors.append(self.document(text))
            await turns.give()
        return vectors


def _short_words(text: str) -> str:
    """Return the text's short words of letters, exact and folded, without those in capitals."""
    words = WORD.findall(_NAME.sub("", text))
    few = [word for word in words if len(word) < _LONGER and word.isalpha() and not word[1:].isupper()]
    return " ".join(each for word in few if (plain := folded(word)) < _BEYOND_CYRILLIC for each in {word, plain})


@functools.cache
def current_bm25() -> Bm25:
    """Return the tokenizer of this release; all calls return the same one."""
    return Bm25()
