"""Sentences and content words of plain text, in any script, and plain text of Markdown."""

import functools
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from shared.answers.citations import unmarked

_LINKS: Final = (
    (re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\s+\"[^\"]*\")?\)|\[[^\[\]]*\])"), r"\1"),  # image, link
    (
        re.compile(r"(?<=\S)\{[:.#][^{}]*\}|\{:\s[^{}]*\}|(?<!\S)\{ [\w-]+ \}"),
        "",
    ),  # attributes of a link in MkDocs and Kramdown
    (re.compile(r"`#!\w+ "), "`"),  # the language of inline code
    (re.compile(r"<(https?://[^<>\s]+)>"), r"\1"),
)
_INLINE: Final = (
    (re.compile(r"(?<![\w*])([*_])(?=\S)([^*_]+?)(?<=\S)\1(?![\w*])"), r"\2"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
    (re.compile(r"\s+"), " "),
)
_STRONG: Final = re.compile(r"(\*\*|__|~~)(?=\S)")
# Full stops followed by white space, after closing quotes and brackets; CJK needs no space.
_END: Final = re.compile(
    r"(?<=[.!?…।؟۔])\s+|(?<=[.!?…][\"'”’»)\]])\s+|(?<=[。！？｡])(?![」』）”])|(?<=[。！？][」』）”])"
)
_UNFINISHED: Final = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|approx|incl|no|nr|fig|eq|sec|ch|pp?|vol|mr|mrs|ms|dr|prof|st|z\.\s?B|d\.\s?h|bzw|ca|[A-Z]))\.$",
    re.IGNORECASE,
)
_UNFINISHED_REACH: Final = 16  # characters; the longest abbreviation, and what is before it

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# Scripts without spaces, and Korean, whose particles are attached to words: pairs of characters replace words.
_PAIRED: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_ACCENT: Final = re.compile(r"[\u0300-\u036f]")
_ENDINGS: Final = tuple(
    (re.compile(ending), instead)
    for ending, instead in (
        (r"['’]s?$", ""),
        (r"(?<=\w\w)ies$", "y"),
        (r"(?<=\w[sxz])es$|(?<=\w[cs]h)es$|(?<=\w\w)(?<![sui])s$", ""),
        (r"(?<=\w\w\w)(?:ing|ed|ly)$", ""),
        (r"(?<=\w\w)([^aeiouls])\1$", r"\1"),  # running, runn, run
        (r"(?<=\w\w\w)e$", ""),
    )
)
_MOST_KNOWN: Final = 20_000  # words whose compared form is cached (5 MB); most words of a text are frequent
_LONGEST_KNOWN: Final = 32  # characters
# English only: in other languages, the words' weights by rarity have nearly the same effect.
_STOP: Final = """
a about above after again all also am an and any are as at be because been before being below between both but by
can cannot could did do does doing down during each few for from further get had has have having he her here hers
him his how i if in into is it its itself just let like many may me might more most much must my no nor not of off
on once one only or other our ours out over own please same shall she should so some such tell than that the their
them then there these they this those through to too under until up us use very want was we were what when where
which while who whom whose why will with would you your
"""


def words(text: str) -> list[str]:
    """Return the words of `text` in their compared form: folded, without accents and endings, in reading order."""
    if text.isascii():
        composed = text.lower()
    else:
        folded = _ACCENT.sub("", unicodedata.normalize("NFKD", text)).casefold()
        composed = unicodedata.normalize("NFC", folded)  # composes Korean again
    found: list[str] = []
    for match in _WORD.finditer(composed):
        found += _known_parts(match[0]) if match.end() - match.start() <= _LONGEST_KNOWN else _parts(match[0])
    return found


def content_words(text: str) -> list[str]:
    """Return `words` without stop words."""
    return [word for word in words(text) if word not in _STOPPED]


def names(question: str) -> tuple[set[str], set[str]]:
    """Return the words that are written like names, with a capital within the question, and those that explain one.

    "Wausau, Wisconsin": a name behind another and a comma explains it. In German every noun looks like a name.
    """
    found: tuple[set[str], set[str]] = (set(), set())
    before: re.Match[str] | None = None
    for position, match in enumerate(_WORD.finditer(question)):
        capital = match[0][0].isupper()
        if position and capital:
            behind = question[before.end() : match.start()].strip() if before else ""
            found[behind == ","].update(words(match[0]))
        before = match if capital and position else None
    return found[0] - _STOPPED, found[1] - _STOPPED


def is_german(question: str) -> bool:
    """Return whether the question has words that are German and not English: there every noun has a capital."""
    return not _GERMAN.isdisjoint(question.casefold().split())


def codes(question: str) -> set[str]:
    """Return the words that are written like codes, as `MQTT`, `RabbitMQ` and `N1458U` are."""
    return {
        word for match in _WORD.finditer(question) if sum(map(str.isupper, match[0])) > 1 for word in words(match[0])
    } - _STOPPED


def numbers(question: str) -> set[str]:
    """Return the years and other numbers of two digits or more, and words that hold one, as they are compared."""
    return {
        word for match in _WORD.finditer(question) if sum(map(str.isdigit, match[0])) > 1 for word in words(match[0])
    }


def numbered(text: str) -> set[tuple[str, str]]:
    """Return each word that a number follows, with the number: `quay 5`, `svc-33`."""
    return {
        (word, number)
        for word, number in pairwise(words(text))
        if number.isdecimal() and word.isalpha() and word not in _STOPPED
    }


def plain(text: str) -> str:
    """Return a line of Markdown without its markup, and without text that looks like a citation."""
    for pattern, kept in _LINKS:
        text = pattern.sub(kept, text)
    text = _unstressed(text)
    for pattern, kept in _INLINE:
        text = pattern.sub(kept, text)
    return unmarked(text).strip()


def _unstressed(text: str) -> str:
    """Return the line without the marks around strong and deleted words. Each mark is looked for once."""
    parts: list[str] = []
    at = 0
    unclosed: set[str] = set()  # marks that nothing closes any more
    for opening in _STRONG.finditer(text):
        mark = opening[0]
        if opening.start() < at or mark in unclosed:
            continue
        end = text.find(mark, opening.end() + 1)
        while end > 0 and text[end - 1].isspace():
            end = text.find(mark, end + 1)
        if end < 0:
            unclosed.add(mark)
            continue
        parts += [text[at : opening.start()], text[opening.end() : end]]
        at = end + len(mark)
    return "".join([*parts, text[at:]]) if parts else text


def split(text: str) -> Iterator[str]:
    """Yield the sentences of a text that stands on one line."""
    begun: list[str] = []
    end = ""  # of what is begun
    for part in filter(None, _END.split(text)):
        begun.append(part)
        end = f"{end} {part[-_UNFINISHED_REACH:]}".lstrip()[-_UNFINISHED_REACH:]
        # A lower-case letter continues the sentence, whatever mark came before it.
        if not _UNFINISHED.search(end):
            yield " ".join(begun)
            begun, end = [], ""
    if begun:
        yield " ".join(begun)


@functools.lru_cache(_MOST_KNOWN)
def _known_parts(word: str) -> tuple[str, ...]:
    return tuple(_parts(word))


def _parts(word: str) -> Iterator[str]:
    start = 0
    for run in _PAIRED.finditer(word):
        if before := word[start : run.start()]:
            yield _stem(before)
        pairs = [run[0][at : at + 2] for at in range(len(run[0]) - 1)]
        yield from pairs or [run[0]]
        start = run.end()
    if rest := word[start:]:
        yield _stem(rest)


def _stem(word: str) -> str:
    """Return the word without its commonest English endings; enough to match, not to print."""
    for ending, instead in _ENDINGS:
        word = ending.sub(instead, word)
    return word


# Words that show that a question is German; none of them is English.
_GERMAN_WORDS: Final = "der das dem den des ist wie wo wer welche welcher welches welchem welchen auf und"
_GERMAN: Final = frozenset(_GERMAN_WORDS.split())
_STOPPED: Final = frozenset(map(_stem, _STOP.split()))
