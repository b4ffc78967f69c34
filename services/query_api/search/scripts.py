"""Knows which scripts a model was trained on. Pure."""

import unicodedata
from typing import Final

# A model that isn't listed is assumed to know all scripts. all-MiniLM-L6-v2 was trained on English.
_READ: Final = {"all-MiniLM-L6-v2": ("LATIN",)}


def reads(model: str, query: str) -> bool:
    """Return whether the model was trained on the script of most of the query's letters."""
    scripts = _READ.get(model)
    if scripts is None or query.isascii():
        return True
    letters = [letter for letter in query if letter.isalpha()]
    known = sum(unicodedata.name(letter, "").startswith(scripts) for letter in letters)
    return 2 * known >= len(letters)
