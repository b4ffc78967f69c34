"""A table of English words: what each weighs by its frequency.

A word's weight must not depend on what is indexed, or the same query and passage would score differently in another
index. So the table is fixed: the vocabulary of BERT's tokenizer, which lists words by their frequency in English text.
It is loaded at the first use (docs/adr/0020-scores.md).
"""

import functools
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from shared.embedder import BUILT_IN_MODEL
from shared.embedder.minilm import package_folder
from shared.settings import ConfigurationError
from shared.text.words import FUNCTION_WORDS, RUN, STOP_WORDS, exact_forms, exact_words, folded, words

_FIRST_WORD: Final = 1996  # the vocabulary's number of "the"; special tokens and single characters precede it
_COMMON: Final = 3.0  # subtracted from each logarithm, because the commonest words mean little
_LEAST, _MOST = 0.5, 30.0  # range of the weights of words that aren't stop words
_CHARACTER: Final = 3.0  # weight of a single digit or letter
_IN_PIECES: Final = 7.0  # least weight of a word that isn't in the vocabulary as a whole: that of its rarest word
_REST: Final = 0.6  # share of the further pieces' logarithms that is added
_KEPT: Final = 50_000  # words whose weights are cached

# A model that isn't listed is assumed to know all scripts. the built-in one was trained on English.
_READ: Final = {BUILT_IN_MODEL: ("LATIN",)}
_FEWEST: Final = 3  # words needed to tell the language; fewer may be names
_LETTERS: Final = 5  # of an English word; shorter ones are often words of other languages, too
_SHARE: Final = 5  # at least every fifth word of an English query is such a word
_LONGEST_WEIGHT: Final = 8.0  # of a word of another language
_WITHIN: Final = re.compile(r"(?<=[^\s.?!…] )[^\W\d_]++")  # words that begin no sentence
_LONGEST_PRONOUN: Final = 3  # letters: German "Sie", "Ihr"
_CODE: Final = 5.0  # weight of one with digits


@functools.cache
def _ranks() -> dict[str, int]:
    """Return the rank of each word and, after `##`, of each piece of a word; empty without the package."""
    try:
        data = (package_folder() / "tokenizer.json").read_bytes()
    except (ConfigurationError, OSError):
        return {}
    vocabulary: dict[str, int] = msgspec.json.decode(data)["model"]["vocab"]
    return vocabulary


@functools.cache
def _longest() -> int:
    """Return the number of characters of the longest word or piece."""
    return max(map(len, _ranks()), default=1)


@functools.lru_cache(_KEPT)
def weight(word: str) -> float:
    """Return the weight of the lower-case word: 0 for a stop word, else 0.5 to 30.

    By Zipf's law, a word's frequency falls with its rank, so the logarithm of the rank replaces IDF. A word that the
    vocabulary has only in pieces is rarer than all its whole words, and the rarer, the rarer its pieces are. The
    constants were chosen on SciFact's train queries.
    """
    if word in STOP_WORDS:
        return 0.0
    ranks = _ranks()
    if not ranks:
        return min(_IN_PIECES, 3.0 + len(word) / 2)
    rank = ranks.get(word)
    if rank is not None:
        return max(_LEAST, _log(rank) - _COMMON) if rank >= _FIRST_WORD else _CHARACTER
    further = (ranks.get(piece, len(ranks)) for piece in _pieces(word, ranks)[1:])
    return min(_MOST, _IN_PIECES + _REST * math.fsum(map(_log, further)))


def capitals(query: str) -> frozenset[str]:
    """Return the words that have a capital within a query: names, and the nouns of German. None if all words have."""
    found = [word for word in _WITHIN.findall(query) if word[0].isupper()]
    telling = [word for word in found if len(word) > _LONGEST_PRONOUN or word.isupper()]
    return frozenset() if query.isupper() else frozenset(words(" ".join(telling)))


def weight_by_length(word: str, *, capital: bool = False) -> float:
    """Return the weight of a lower-case word of another language: the longer, the rarer; most for one with a capital.

    In a script without blanks, pairs of characters weigh the same. Chosen on documentation in five languages, and
    checked on others (docs/adr/0021-languages.md).
    """
    if word in STOP_WORDS:
        return 0.0
    if capital:
        return _LONGEST_WEIGHT
    short = len(word) < 4 or RUN.match(word)
    return _CODE if any(map(str.isdigit, word)) else _LEAST if short else min(_LONGEST_WEIGHT, len(word) - 1.0)


def weights_of(query: str) -> tuple[Callable[[str], float], bool]:
    """Return the weight of each lower-case word of the query, and whether the query is English."""
    if reads(BUILT_IN_MODEL, query):
        return weight, True
    named = capitals(query)
    return lambda word: weight_by_length(word, capital=folded(word) in named), False


def _log(rank: int) -> float:
    return math.log(max(2, rank - _FIRST_WORD + 2))


def _pieces(word: str, ranks: Mapping[str, int]) -> list[str]:
    """Return the word split into the vocabulary's longest pieces, from the left, as by WordPiece."""
    found: list[str] = []
    start = 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(min(len(word), start + _longest()), start, -1)  # no longer piece is known
        end = next((end for end in ends if mark + word[start:end] in ranks), start + 1)
        found.append(mark + word[start:end])
        start = end
    return found


def reads(model: str, query: str) -> bool:
    """Return whether the model was trained on the script, and for Latin script on the language, of the query.

    A query is English if it has an English function word, or enough English words and no accents, or is too short to
    tell.
    """
    scripts = _READ.get(model)
    if scripts is None:
        return True
    if not query.isascii():
        letters = [letter for letter in query if letter.isalpha()]
        known = sum(unicodedata.name(letter, "").startswith(scripts) for letter in letters)
        if 2 * known < len(letters):
            return False
    found = [word for word in exact_words(query) if not word.isdigit()]
    if len(found) < _FEWEST or not FUNCTION_WORDS.isdisjoint(found):
        return True
    ranks = _ranks()  # of 23,000 whole English words
    english = sum(len(word) >= _LETTERS and (not ranks or word in ranks) for word in found)
    return not exact_forms(query) and _SHARE * english >= len(found)
