"""Recognises queries in scripts or languages that the embedding model wasn't trained on. Pure."""

import unicodedata
from typing import Final

from services.query_api.search.words import STOP_WORDS, is_common, words

# A model that isn't listed is assumed to know all scripts. all-MiniLM-L6-v2 was trained on English.
_READ: Final = {"all-MiniLM-L6-v2": ("LATIN",)}
_FEWEST: Final = 3  # words needed to tell the language; fewer may be names
_LETTERS: Final = 5  # of an English word; shorter ones are often words of other languages, too
_SHARE: Final = 5  # at least every fifth word of an English query is such a word
_FOREIGN_TOO: Final = frozenset({"a", "all", "am", "an", "do", "he", "in", "me", "no", "on", "so", "to", "was", "will"})


def reads(model: str, query: str) -> bool:
    """Return whether the model was trained on the script, and for Latin script on the language, of the query."""
    scripts = _READ.get(model)
    if scripts is None:
        return True
    if not query.isascii():
        letters = [letter for letter in query if letter.isalpha()]
        known = sum(unicodedata.name(letter, "").startswith(scripts) for letter in letters)
        if 2 * known < len(letters):
            return False
    return _may_be_english(query)


def _may_be_english(query: str) -> bool:
    """Return whether the query has an English function word or enough English words, or is too short to tell."""
    found = [word for word in words(query) if not word.isdigit()]
    if len(found) < _FEWEST or any(word in STOP_WORDS - _FOREIGN_TOO for word in found):
        return True
    return _SHARE * sum(len(word) >= _LETTERS and is_common(word) for word in found) >= len(found)
