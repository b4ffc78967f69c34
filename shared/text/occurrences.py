"""Finds the words of a query in passages without splitting them, because few of a passage's words are the query's."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final

from shared.text.words import BETWEEN_WORDS, RUN, STEMS, WORD, Forms, folded, stems, words

_ENDS_WORDS: Final = frozenset(map(chr, BETWEEN_WORDS))


def occurring(wanted: Sequence[str], texts: Sequence[str], forms: Forms = STEMS) -> list[int]:
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
        lowered = [folded(texts[number]) for number in numbers]
        joined = "\n".join(("", *lowered, ""))
        starts = list(accumulate([len(text) + 1 for text in lowered], initial=1))
        for bit, each in enumerate(wanted):
            if each.isascii():
                for beginning in _beginnings(each):
                    for at in _places(each, beginning, joined, starts, forms):
                        found[numbers[at]] |= 1 << bit
    foreign = [(1 << bit, each) for bit, each in enumerate(wanted) if not each.isascii()]
    for number in wide if foreign else ():
        own = set(stems(words(texts[number]), forms))
        found[number] |= sum(bit for bit, each in foreign if each in own)
    return found


def _places(wanted: str, beginning: str, joined: str, starts: Sequence[int], forms: Forms) -> list[int]:
    """Return the numbers of the texts that have a word of this stem with this beginning.

    The texts are joined in lower case, with a line feed around each.
    """
    places = []
    find, match, length, number = joined.find, WORD.match, len(beginning), 0
    is_word = forms[beginning] == wanted  # the beginning alone
    at = find(beginning)
    while at >= 0:
        before = joined[at - 1]
        if before in _ENDS_WORDS or (not before.isascii() and _ends_word(before)):
            if joined[at + length] in _ENDS_WORDS:  # most finds: no word to cut out and look up
                found = is_word
            else:
                word = match(joined, at)[0]  # type: ignore[index]  # a stem is letters of a word
                found = forms[word if word.isascii() else RUN.split(word, 1)[0]] == wanted
            if found:
                number = bisect_right(starts, at, number)
                places.append(number - 1)
                at = find(beginning, starts[number])
                continue
        at = find(beginning, at + 1)
    return places


def adjacent(wanted: Iterable[tuple[str, str]], text: str, forms: Forms = STEMS) -> set[tuple[str, str]]:
    """Return the given pairs of stems that belong to two adjacent words of the text."""
    return {*wanted}.intersection(pairwise(stems(words(text), forms)))


def _beginnings(wanted: str) -> Sequence[str]:
    """Return how words of this stem begin: with it or, if its final `y` replaced `ies`, with the rest of it."""
    return (wanted, f"{wanted[:-1]}ies") if wanted[-1:] == "y" else (wanted,)


def _ends_word(character: str) -> bool:
    """Return whether a word may begin after this character: no letter of a word, or one of a script without blanks."""
    return not WORD.match(character) or RUN.match(character) is not None
