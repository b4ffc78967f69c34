"""Words of scripts that are written without blanks. Pure.

Only a dictionary tells where their words end. Pairs of neighbouring characters need no dictionary, and rank better than
the engine's own segmentation did (docs/adr/0021-languages.md).
"""

import re
from typing import Final

# Tone marks and other signs of Thai, Lao, Khmer and Myanmar. As they are no letters, the engine would split words
# there.
_SIGNS: Final = re.compile("[\u0e47-\u0e4e\u0ec8-\u0ece\u17c6-\u17d3\u1037\u1039\u103a]+")
RUN: Final = re.compile(  # one or more characters of these scripts
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "]+"
)


def paired(text: str) -> str:
    """Return the text with each run of such a script replaced by its pairs of characters, with blanks between.

    A run of one character stays that character; all other text stays as it is.
    """
    return text if text.isascii() else RUN.sub(_pairs, text)


def _pairs(run: re.Match[str]) -> str:
    plain = _SIGNS.sub("", run[0])
    if len(plain) < 2:
        return f" {plain} "
    return f" {' '.join(plain[at : at + 2] for at in range(len(plain) - 1))} "
