"""Splits text into words and stems. Pure.

Words are compared in a folded form: without accents, vowel points and width. BM25 has the exact forms beside them, and
a word of a query weighs what its exact form does.

Only a dictionary tells where the words of a script without blanks end. Pairs of neighbouring characters need no
dictionary, and rank better than the engine's own segmentation did (docs/adr/0021-languages.md).
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final

WORD: Final = re.compile("(?:\\w|[\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0dff])+")  # with vowel signs
BETWEEN_WORDS: Final = {
    code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")
}  # of ASCII, all that `WORD` doesn't match
# Tone marks and other signs of Thai, Lao, Khmer and Myanmar. As they are no letters, the engine would split words
# there.
_SIGNS: Final = re.compile("[\u0e47-\u0e4e\u0ec8-\u0ece\u17c6-\u17d3\u1037\u1039\u103a]+")
RUN: Final = re.compile(  # one or more characters of these scripts
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Kana
    "\uac00-\ud7a3"  # Hangul: a word's endings are many, and its beginning is what a question shares with a text
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "]+"
)
_FOLDED: Final = re.compile(  # what may have a folded form
    "[\u00aa-\u1fff\u200b-\u200d\u2060-\u209c\u2100-\u218b\u2c60-\uffff\U00010000-\U0010ffff]"
)
_MARKS: Final = re.compile(  # of Latin, Greek, Cyrillic, Hebrew and Arabic; those of other scripts make other letters
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u00ad\u200b-\u200d\u2060-\u2064\ufeff]+"
)
_LETTERS: Final = {  # Unicode has no parts for them
    "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ŧ": "t",
}  # fmt: skip
_VOWELS: Final = (("\u0e4d\u0e32", "\u0e33"), ("\u0ecd\u0eb2", "\u0eb3"))  # of Thai and Lao, which NFC leaves in parts
_MARKED: Final = re.compile("[\\w\u0300-\u036f]+")  # words with their accents
_WHOLE: Final = re.compile(f"[{''.join(_LETTERS)}]")
_LONGEST: Final = 100_000  # characters; the order of very many marks takes quadratic time
_KEPT: Final = 50_000  # words whose forms are cached, about 10 MB
_BEGINNING: Final = 5  # letters; what follows is what forms of a word differ in (docs/adr/0021-languages.md)
_MARK: Final = "7"  # in front of a beginning, so that it equals no word
_HYPHEN: Final = re.compile("[-\u2010]")
_HYPHENATED: Final = re.compile("(?<![\\w-])[^\\W\\d_]+(?:[-\u2010][^\\W\\d_]+)+(?![\\w-])")  # words of letters
_HANGUL: Final = re.compile("(?<![\uac00-\ud7a3])[\uac00-\ud7a3]{2}")  # a word's first pair; others are often endings

STOP_WORDS: Final = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing down during each few for from further had has have having he her here hers him
    his how i if in into is it its itself just me more most my no nor not of off on once only or other our out
    over own same she should so some such than that the their them then there these they this those through to too
    under until up very was we were what when where which while who whom why will with would you your
    """.split()  # noqa: SIM905 - a list has a line for each
)
_FOREIGN_TOO: Final = frozenset(  # words of other languages, too
    ["a", "all", "am", "an", "as", "by", "do", "has", "he", "her", "i", "in", "me", "no", "on", "so", "to", "was"]
)
FUNCTION_WORDS: Final = STOP_WORDS - _FOREIGN_TOO - {"we", "will"}  # of English alone
_FUNCTION_SHARE: Final = 10  # at least every tenth word of an English text is one of these


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
    if len(word) > 9 and word.endswith("ment"):  # `acknowledgement`, but not `statement`
        word = word[:-4]
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls0123456789":
        word = word[:-1]
    return word


def beginning(word: str) -> str:
    """Return the first five letters of the word; one with digits or vowel signs is unchanged."""
    return word[:_BEGINNING] if word.isalpha() else word


class Forms(dict[str, str]):
    """Caches a form of words: a look-up costs a tenth of `stem`."""

    def __init__(self, form: Callable[[str], str]) -> None:
        self._form = form

    def __missing__(self, word: str) -> str:
        if len(self) >= _KEPT:
            self.clear()
        self[word] = found = self._form(word)
        return found


STEMS: Final = Forms(stem)
BEGINNINGS: Final = Forms(beginning)  # compare words of languages other than English


def words(text: str) -> list[str]:
    """Return the text's words in lower case; in scripts without blanks, pairs of characters."""
    if text.isascii():  # the same words, in half the time
        return text.lower().translate(BETWEEN_WORDS).split()
    return WORD.findall(paired(folded(text)))


def folded(text: str) -> str:
    """Return the text in lower case without accents, vowel points, ligatures, width and invisible signs."""
    if text.isascii() or len(text) > _LONGEST or not _FOLDED.search(text):
        return text.lower()
    # Twice: parts may be capitals, and small letters may have parts.
    small = unicodedata.normalize("NFKD", text).casefold()
    apart = _MARKS.sub("", unicodedata.normalize("NFKD", small))
    for parts, vowel in _VOWELS:
        apart = apart.replace(parts, vowel)
    return _WHOLE.sub(lambda letter: _LETTERS[letter[0]], unicodedata.normalize("NFC", apart))


def exact_words(text: str) -> list[str]:
    """Return the text's words as `words`, but with their accents."""
    return words(text) if text.isascii() else WORD.findall(paired(text.lower()))


def stems(found: Iterable[str], forms: Forms = STEMS) -> list[str]:
    """Return the stem of each of a text's words, in order."""
    return list(map(forms.__getitem__, found))


def paired(text: str) -> str:
    """Return the text with each run of such a script replaced by its pairs of characters, with blanks between.

    A run of one character stays that character; all other text stays as it is.
    """
    return text if text.isascii() else RUN.sub(_pairs, text)


def with_folded(text: str) -> str:
    """Return the text as `paired`, and behind it what else its words may be written like.

    These are hyphenated words of letters joined (`email` for `e-mail`), and folded forms that differ from exact ones.
    """
    exact = paired(text)
    plain = folded(text)
    hyphenated = _HYPHENATED.findall(plain) if "-" in plain or "\u2010" in plain else ()
    joined = [_HYPHEN.sub("", each) for each in hyphenated]
    if text.isascii() or not _FOLDED.search(text):
        return " ".join([exact, *joined])
    known = set(WORD.findall(exact.lower()))
    return " ".join([exact, *joined, *(word for word in words(text) if word not in known)])


def with_beginnings(text: str, *, of_query: bool) -> str:
    """Return the text as `with_folded`, and behind it the beginnings of its longer words, unless it is English.

    Of a Korean word, the first pair is the beginning. A digit stands before each, so that none equals a word. A
    document without letters that could be folded is hardly of another language, and its code gets no beginnings.
    """
    if not of_query and (text.isascii() or not _FOLDED.search(text)):
        return with_folded(text)
    exact = exact_words(text)
    if _FUNCTION_SHARE * sum(map(FUNCTION_WORDS.__contains__, exact)) >= len(exact):
        return with_folded(text)
    small = folded(text)
    starts = stems(WORD.findall(paired(small)), BEGINNINGS)
    longer = [each for each in starts if len(each) == _BEGINNING and each.isalpha()]
    return " ".join([with_folded(text), *(_MARK + each for each in [*longer, *_HANGUL.findall(small)])])


def exact_forms(text: str) -> dict[str, str]:
    """Return the exact form, in lower case, of each word of the text that `words` folds to another one."""
    if text.isascii() or not _FOLDED.search(text):
        return {}
    exact = _MARKED.findall(unicodedata.normalize("NFC", text[:_LONGEST]).lower())
    own = {word: words(word) for word in exact if not word.isascii()}
    return {found[0]: word for word, found in own.items() if len(found) == 1 and found[0] != word}


def _pairs(run: re.Match[str]) -> str:
    plain = _SIGNS.sub("", run[0])
    if len(plain) < 2:
        return f" {plain} "
    return f" {' '.join(plain[at : at + 2] for at in range(len(plain) - 1))} "
