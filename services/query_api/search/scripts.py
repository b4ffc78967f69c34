"""Which scripts a model reads. Pure."""

import unicodedata
from typing import Final

# A model that isn't listed is taken to read everything. all-MiniLM-L6-v2 was trained on English.
_READ: Final = {"all-MiniLM-L6-v2": ("LATIN",)}


def reads(model: str, query: str) -> bool:
    """Return whether the model was trained on the script that most of the query's letters belong to."""
    scripts = _READ.get(model)
    if scripts is None or query.isascii():
        return True
    letters = [letter for letter in query if letter.isalpha()]
    known = sum(unicodedata.name(letter, "").startswith(scripts) for letter in letters)
    return 2 * known >= len(letters)
