"""Joins the plain and the HTML form of one message, which mostly say the same."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

_MOST = 0.5  # share of words: one form says mostly what the other does, or a line mostly something else
_REMARK = 30  # different words of a plain form that may only say that there is HTML
_WORD = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]|\d++|[^\W\d_\u3040-\u9fff\uac00-\ud7af]++")
# The two forms write these differently: addresses, names of pictures, the signs of lists; numbers and umlauts.
_UNSAID = re.compile(
    r"(?:https?://|www\.|mailto:)[^\s()<>\[\]|]*+|\[(?:image|cid|https?|inline)\b[^\[\]\n]*+\]"
    r"|^[ \t>]*+(?:\d{1,3}[.)]|#++)[ \t]|(?<=\d)[.,:'’](?=\d)",
    re.IGNORECASE | re.MULTILINE,
)
_GROUPS = re.compile(r"\d++(?:[\s/()-]{1,2}+\d++)*+")  # a number in groups, as of a telephone
_LETTERS = str.maketrans({"ä": "ae", "æ": "ae", "ö": "oe", "ø": "oe", "ü": "ue", "å": "aa"})


def merge_forms(plain: str, html: str) -> str:
    """Return the plain form, which has quotes and code as they are, and below it what only the HTML form says.

    Where a short plain form has few of the other's words, the HTML form comes first, and below it the plain form's
    lines with a number that is missing there.
    """
    in_plain, in_html = _words(plain), _words(html)
    if plain.strip() and (
        len(in_html & in_plain) >= _MOST * len(in_html) or len(in_plain) > max(len(in_html), _REMARK)
    ):
        parts = [plain, *_lacking_blocks(html, in_plain)]
    else:
        parts = [html, "\n".join(line for line in plain.split("\n") if _lacks_number(line, in_html))]
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def _lacking_blocks(markdown: str, known: AbstractSet[str]) -> Iterator[str]:
    """Yield tables of which most rows say more than the known words, and other lines that mostly do."""
    for block in markdown.split("\n\n"):
        lines = block.split("\n")
        rows = lines[2:] if block.startswith("|") else []
        if rows and sum(bool(_words(row) - known) for row in rows) > _MOST * len(rows):
            yield block
        else:
            yield "\n".join(line.strip("| ").replace(" | ", "; ") for line in rows or lines if _lacks(line, known))


def _lacks(line: str, known: AbstractSet[str]) -> bool:
    own = {word for word in _words(line) if not word.isdecimal()}
    return len(own - known) > _MOST * len(own) or _lacks_number(line, known)


def _lacks_number(line: str, known: AbstractSet[str]) -> bool:
    groups = (re.findall(r"\d+", found) for found in _GROUPS.findall(_UNSAID.sub(_unsaid, line)))
    return any("".join(numbers) not in known and not set(numbers) <= known for numbers in groups)


def _words(text: str) -> set[str]:
    """Return the different words and numbers, each of these also joined with those right beside it."""
    said = _UNSAID.sub(_unsaid, text).casefold().translate(_LETTERS)
    return {*_WORD.findall(said), *("".join(re.findall(r"\d+", found)) for found in _GROUPS.findall(said))}


def _unsaid(found: re.Match[str]) -> str:
    return "" if len(found[0]) == 1 else " "
