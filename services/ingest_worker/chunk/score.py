"""How much a chunk says by itself: 0.3 diversity + 0.4 density + 0.3 completeness. docs/chunks.md"""

import re

_WORD = re.compile(r"\w+")
_BLANKED = str.maketrans({chr(code): " " for code in range(128) if not _WORD.match(chr(code))})  # is faster
_ENDS = re.compile(r"[.!?…。！？｡:;|`][\"'”’»)\]」』*_]*$")
_LETTERS = 4  # shorter words are seldom terms, in any language that has words
_UNSPACED = "\u2e7f"  # behind it, scripts without blanks between words, where short ones say enough
_ENOUGH = 20  # words: fewer are a label
# English; elsewhere the length has to do.
_COMMON = frozenset(
    """
    about after also another because been before being between both could each from further have here into itself
    just more most much only other over same should some such than that their them then there these they this those
    through under until very were what when where which while will with would your
    """.split()  # noqa: SIM905 - a list that can be read
)


def semantic_score(text: str, kind: str) -> float:
    """Return 0..1, three digits.

    Diversity: distinct words to words. Density: terms to words, a term being a word that is no common one and has four
    letters or a digit. Completeness: a third each for a beginning that no sentence runs into, an end that none is cut
    at, and enough words.
    """
    words = _words(text.lower())
    if not words:
        return 0.0
    total = len(words)
    diversity = len(set(words)) / total
    terms = [
        word
        for word in words
        if word not in _COMMON and (len(word) >= _LETTERS or not word.isalpha() or word[0] > _UNSPACED)
    ]
    density = len(terms) / total
    structured = kind in ("code", "table", "list")
    begins = structured or not text[0].islower()
    ends = structured or _ENDS.search(text, max(0, len(text) - 8)) is not None
    completeness = (begins + ends + (total >= _ENOUGH)) / 3
    return round(0.3 * diversity + 0.4 * density + 0.3 * completeness, 3)


def _words(text: str) -> list[str]:
    return text.translate(_BLANKED).split() if text.isascii() else _WORD.findall(text)
