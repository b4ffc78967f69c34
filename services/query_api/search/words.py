"""Splits queries and passages into words with weights. Pure, except for a table that is loaded at the first use.

A word's weight must not depend on what is indexed, or the same query and passage would score differently in another
index. So the table is fixed: the vocabulary of BERT's tokenizer, which lists words by their frequency in English text.
"""

import functools
import math
import re
import string
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from shared.embedder.minilm import package_folder
from shared.settings import ConfigurationError
from shared.store.pairs import RUN, paired

_WORD: Final = re.compile("(?:\\w|[\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0dff])+")  # with vowel signs
_NEXT_WORD: Final = re.compile("[a-z0-9_]+")  # in lower-case ASCII, the same
_IN_WORDS: Final = frozenset(string.ascii_letters + string.digits + "_")
_BETWEEN_WORDS: Final = {
    code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")
}  # of ASCII, all that `_WORD` doesn't match
_ENDS_WORDS: Final = frozenset(map(chr, _BETWEEN_WORDS))
_FIRST_WORD: Final = 1996  # the vocabulary's number of "the"; special tokens and single characters precede it
_COMMON: Final = 3.0  # subtracted from each logarithm, because the commonest words mean little
_LEAST, _MOST = 0.5, 30.0  # range of the weights of words that aren't stop words
_CHARACTER: Final = 3.0  # weight of a single digit or letter
_IN_PIECES: Final = 7.0  # least weight of a word that isn't in the vocabulary as a whole: that of its rarest word
_REST: Final = 0.6  # share of the further pieces' logarithms that is added
_KEPT: Final = 50_000  # words whose stems are cached, about 10 MB

STOP_WORDS: Final = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing down during each few for from further had has have having he her here hers him
    his how i if in into is it its itself just me more most my no nor not of off on once only or other our out
    over own same she should so some such than that the their them then there these they this those through to too
    under until up very was we were what when where which while who whom why will with would you your
    """.split()  # noqa: SIM905 - a list has a line for each
)


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


def is_common(word: str) -> bool:
    """Return whether the lower-case word is one of the table's 23,000 whole English words; true without the table."""
    ranks = _ranks()
    return not ranks or word in ranks


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


def stem(word: str) -> str:
    """Return the lower-case word without the commonest English endings; words of other scripts are unchanged."""
    if not word.isascii():
        return word
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word[-1] == "s" and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if len(word) > 5 and word.endswith("ing"):
        word = word[:-3]
    elif (len(word) > 4 and word.endswith("ed")) or (len(word) > 5 and word.endswith("ly")):
        word = word[:-2]
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word


class _Stems(dict[str, str]):
    """Caches stems: a look-up costs a tenth of `stem`."""

    def __missing__(self, word: str) -> str:
        if len(self) >= _KEPT:
            self.clear()
        self[word] = found = stem(word)
        return found


_STEMS: Final = _Stems()


def words(text: str) -> list[str]:
    """Return the text's words in lower case; in scripts without blanks, pairs of characters."""
    if text.isascii():  # the same words, in half the time
        return text.lower().translate(_BETWEEN_WORDS).split()
    return _WORD.findall(paired(text.lower()))


def stems(found: Iterable[str]) -> list[str]:
    """Return the stem of each of a text's words, in order."""
    return list(map(_STEMS.__getitem__, found))


def distinct_stems(found: Iterable[str]) -> frozenset[str]:
    """Return the stems of a text's words."""
    return frozenset(map(_STEMS.__getitem__, set(found)))


def occurring(wanted: Sequence[str], texts: Sequence[str]) -> list[int]:
    """Return, for each text, which of the stems are among its own: bit n stands for `wanted[n]`.

    It looks for the stems instead of splitting the texts, because few of a text's words are the query's, and it looks
    in all texts at once: between two finds, no Python runs.
    """
    found = [0] * len(texts)
    # ASCII apart: one character outside of Latin would widen every character of the joined text.
    narrow = [number for number, text in enumerate(texts) if text.isascii()]
    wide = [number for number, text in enumerate(texts) if not text.isascii()]
    for numbers in (narrow, wide):
        if not numbers:
            continue
        lowered = [texts[number].lower() for number in numbers]
        joined = "\n".join(("", *lowered, ""))
        starts = list(accumulate([len(text) + 1 for text in lowered], initial=1))
        for bit, each in enumerate(wanted):
            if each.isascii():
                for beginning in _beginnings(each):
                    for at in _places(each, beginning, joined, starts):
                        found[numbers[at]] |= 1 << bit
    foreign = [(1 << bit, each) for bit, each in enumerate(wanted) if not each.isascii()]
    for number in wide if foreign else ():
        own = distinct_stems(words(texts[number]))
        found[number] |= sum(bit for bit, each in foreign if each in own)
    return found


def _places(wanted: str, beginning: str, joined: str, starts: Sequence[int]) -> list[int]:
    """Return the numbers of the texts that have a word of this stem with this beginning.

    The texts are joined in lower case, with a line feed around each.
    """
    places = []
    find, match, length, number = joined.find, _WORD.match, len(beginning), 0
    is_word = _STEMS[beginning] == wanted  # the beginning alone
    at = find(beginning)
    while at >= 0:
        before = joined[at - 1]
        if before in _ENDS_WORDS or (not before.isascii() and _ends_word(before)):
            if joined[at + length] in _ENDS_WORDS:  # most finds: no word to cut out and look up
                found = is_word
            else:
                word = match(joined, at)[0]  # type: ignore[index]  # a stem is letters of a word
                found = _STEMS[word if word.isascii() else RUN.split(word, 1)[0]] == wanted
            if found:
                number = bisect_right(starts, at, number)
                places.append(number - 1)
                at = find(beginning, starts[number])
                continue
        at = find(beginning, at + 1)
    return places


def adjacent(wanted: Iterable[tuple[str, str]], text: str) -> set[tuple[str, str]]:
    """Return the given pairs of stems that belong to two adjacent words of the text."""
    if not text.isascii():
        return {*wanted}.intersection(pairwise(stems(words(text))))
    lowered = text.lower()
    found = set()
    for pair in wanted:
        for end in _ends(pair[0], lowered):
            following = _NEXT_WORD.search(lowered, end)
            if following is not None and _STEMS[following[0]] == pair[1]:
                found.add(pair)
                break
    return found


def _ends(wanted: str, lowered: str) -> Iterator[int]:
    """Yield the ends of all words of the lower-case ASCII text with this stem."""
    for beginning in _beginnings(wanted):
        at = lowered.find(beginning)
        while at >= 0:
            if at == 0 or lowered[at - 1] not in _IN_WORDS:
                found = _NEXT_WORD.match(lowered, at)
                assert found is not None  # a stem is letters of a word
                if _STEMS[found[0]] == wanted:
                    yield found.end()
            at = lowered.find(beginning, at + 1)


def _beginnings(wanted: str) -> Sequence[str]:
    """Return how words of this stem begin: with it or, if its final `y` replaced `ies`, with the rest of it."""
    return (wanted, f"{wanted[:-1]}ies") if wanted[-1:] == "y" else (wanted,)


def _ends_word(character: str) -> bool:
    """Return whether a word may begin after this character: no letter of a word, or one of a script without blanks."""
    return not _WORD.match(character) or RUN.match(character) is not None
