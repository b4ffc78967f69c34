"""Sentences and content words of plain text, in any script, and plain text of Markdown."""

import re
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

from shared.answers.citations import unmarked
from shared.text import words as text_words

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
    # Strong and deleted words, up to the next such mark: one that closes nothing is looked for once.
    (re.compile(r"(\*\*|__|~~)(?=\S)((?:(?!\1).)++)(?<=\S)\1", re.DOTALL), r"\2"),
    (re.compile(r"(?<![\w*])([*_])(?=\S)([^*_]+?)(?<=\S)\1(?![\w*])"), r"\2"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
    (re.compile(r"\s+"), " "),
)
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
_POINTED: Final = re.compile(r"(?<![\d.])(\d+(?:\.\d+)++)")
_VERSION: Final = re.compile(r"(?:(?:\b[Vv]ersion|\b[Rr]elease|(?<=\s)[A-Z]\w*) v?|\bv)(\d+(?:\.\d+)++)(?![\d,%])")
_OPTION: Final = re.compile(r"(?<![\w-])(?:--([^\W_][\w-]*+)|([^\W_]++(?:_[^\W_]++)++))")
# What words of answers are without: `can't` is `can`, `isn't` is `is`.
_APART: Final = re.compile(r"_|(?<!ca)n['’]t\b|['’](?:[stdm]|ll|re|ve)\b", re.IGNORECASE)
# English only: in other languages, the words' weights by rarity have nearly the same effect.
_MORE_STOP_WORDS: Final = "cannot get like many may me might much must shall tell us use want"


def words(text: str) -> list[str]:
    """Return the words of `text` in their compared form, as searches compare them, without `_`, `'s` and the like."""
    return text_words.stems(text_words.words(_APART.sub(" ", text)))


def content_words(text: str) -> list[str]:
    """Return `words` without stop words."""
    return [word for word in words(text) if word not in _STOPPED]


def names(question: str) -> tuple[set[str], set[str]]:
    """Return the words that are written like names, with a capital within a sentence, and those that explain one.

    "Wausau, Wisconsin": a name behind another and a comma explains it. In German every noun looks like a name.
    """
    found: tuple[set[str], set[str]] = (set(), set())
    for sentence in split(question):
        before: re.Match[str] | None = None
        for match in islice(_WORD.finditer(sentence), 1, None):
            capital = match[0][0].isupper()
            if capital:
                behind = sentence[before.end() : match.start()].strip() if before else ""
                found[behind == ","].update(words(match[0]))
            before = match if capital else None
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


def versions(text: str, *, asked: bool = False) -> set[str]:
    """Return the numbers with points, without `.0` at the end, and the version above, as 0.6 of 0.6.3.

    If `asked`, only what a question asks for by a name, as `Python 3.10`.
    """
    found = {_short(match[1]) for match in (_VERSION if asked else _POINTED).finditer(text)}
    return found if asked else found | {version.rpartition(".")[0] for version in found if "." in version}


def _short(version: str) -> str:
    parts = version.split(".")
    while len(parts) > 1 and not parts[-1].strip("0"):
        parts.pop()
    return ".".join(parts)


def numbered(text: str) -> set[tuple[str, str]]:
    """Return each word that a number follows, with the number: `quay 5`, `svc-33`."""
    return {
        (word, number)
        for word, number in pairwise(words(text))
        if number.isdecimal() and word.isalpha() and word not in _STOPPED
    }


def options(question: str) -> set[str]:
    """Return the options and variables that are written as such, as `--keep-last` and `PACK_SIZE`, without dashes."""
    return {match[match.lastindex or 0].casefold() for match in _OPTION.finditer(question)}


def plain(text: str) -> str:
    """Return a line of Markdown without its markup, and without text that looks like a citation."""
    for pattern, kept in _LINKS:
        text = pattern.sub(kept, text)
    for pattern, kept in _INLINE:
        text = pattern.sub(kept, text)
    return unmarked(text).strip()


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


# Words that show that a question is German; none of them is English.
_GERMAN_WORDS: Final = "der das dem den des ist wie wo wer welche welcher welches welchem welchen auf und"
_GERMAN: Final = frozenset(_GERMAN_WORDS.split())
_STOPPED: Final = frozenset(text_words.stems([*text_words.STOP_WORDS, *_MORE_STOP_WORDS.split()]))
