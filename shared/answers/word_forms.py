"""Tells which words are other forms of a question's words. Pure."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from shared.answers.sentences import words

STEM: Final = 5  # characters that two forms of a word share at least
_LONGEST_ENDING: Final = 5  # characters by which two forms of a word may differ

# What "how old" and the like ask for; all words as they are compared.
NOUNS_OF: Final[Mapping[str, frozenset[str]]] = {
    adjective: frozenset(word for noun in nouns.split() for word in words(noun))
    for adjective, nouns in {
        "old": "age aged",
        "long": "length duration",
        "high": "height elevation altitude",
        "tall": "height",
        "wide": "width",
        "deep": "depth",
        "heavy": "weight",
        "fast": "speed",
        "far": "distance",
        "large": "size",
        "big": "size",
        "cold": "temperature",
        "hot": "temperature",
        "warm": "temperature",
    }.items()
}


def other_forms(asked: AbstractSet[str], there: AbstractSet[str]) -> dict[str, frozenset[str]]:
    """Return, for each of the question's words, those of the others that are another form of it.

    `inspection` continues `inspect`, and an age or a length answers how old or how long something is.
    """
    beginnings: dict[str, list[str]] = {}
    for word in there:
        beginnings.setdefault(word[:STEM], []).append(word)
    found = {}
    for word in asked:
        alike = beginnings.get(word[:STEM], ()) if len(word) >= STEM else ()
        longer = {each for each in alike if each != word and len(each) >= STEM and _continues(each, word)}
        if forms := longer | (NOUNS_OF.get(word, frozenset()) & there):
            found[word] = frozenset(forms)
    return found


def _continues(one: str, other: str) -> bool:
    """Return whether one of the words is the other with an ending, perhaps for its last letter: `kostet, kosten`."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short[:-1]) and len(long) - len(short) <= _LONGEST_ENDING


def with_forms(terms: frozenset[str], forms: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the words together with those of the question of which they have another form."""
    return terms | {word for word, others in forms.items() if not others.isdisjoint(terms)}
