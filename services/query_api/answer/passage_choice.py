"""Tells what a question needs of the documents that were chosen or found, and picks it. Pure."""

import re
from collections.abc import Sequence
from functools import reduce
from importlib.resources import files
from typing import Any, Final

import msgspec

from services.query_api.search.results import Expanded, joined
from shared.answers import Passage
from shared.answers.follow_up import LONGEST_QUESTION
from shared.answers.prompt import text_tokens
from shared.store import Filter, Ids, Match, Prefix
from shared.text.words import folded

MOST_FOUND: Final = 20  # passages for a model, if the request names no number
JOINED: Final = "chunkIds"  # metadata of a joined passage: those of its chunks
_USUAL: Final = 10  # of them whatever their scores; the others must be good answers: docs/search.md
_GOOD: Final = 0.2
_MOST_JOINED: Final = 3  # chunks: a citation still says where
_LONGEST_JOINED: Final = 1_000  # tokens: one fits into the half of a small model's context that passages have

_CHOOSING: Final = ("metadata.documentId", "metadata.path")
_OF_CHUNKS: Final = frozenset(
    f"metadata.{name}"
    for name in ("chunkId", "chunkOrder", "chunkType", "sectionTitle", "pageNumber", "pageEnd", "start", "end")
)
_TEXTS: Final = files(__package__)
# A regular expression a line; those above the blank line begin at the beginning of a word.
_AT_WORDS, _ANYWHERE = (
    part.strip().replace("\n", "|")
    for part in _TEXTS.joinpath("questions_of_the_whole.txt").read_text("utf-8").split("\n\n")
)
_OF_THE_WHOLE: Final = re.compile(rf"\b(?:{_AT_WORDS})|{_ANYWHERE}", re.IGNORECASE)
_COMPARES: Final = re.compile(
    r"\b(?:compar\w+|contrast\w*|differ\w*|versus|vs|in common|vergleich\w*|unterschied\w*|différen\w*|diferenci\w*|"
    r"porówn\w+|porovn\w+|so sánh|сравн\w+|karşılaştır\w*|σ[υύ]γκρ\w+)\b|比较|比較|비교|قارن|เปรียบเทียบ|तुलना",
    re.IGNORECASE,
)
# Words beside greetings; then greetings and thanks, behind the greeting that answers them where no language model does.
# Half of one (`evening`) is none.
_SAID_BESIDE, _SAID = _TEXTS.joinpath("greetings.txt").read_text("utf-8").split("\n\n")
_BESIDE: Final = frozenset(folded(_SAID_BESIDE).split())
_GREETINGS: Final = {
    greeting: re.compile(f" (?:{folded(said).replace(', ', '|')})(?= )")
    for greeting, said in (line.split(" = ") for line in _SAID.splitlines())
}
_BETWEEN: Final = re.compile(
    r"[\s!-/:-@\[-`{-~¡¿…’«»،؟।、。！？～]+"
)  # not `\W`: vowel signs of Thai and Hindi are no letters
_MOST_WORDS: Final = 6


def chooses(where: Filter) -> bool:
    """Return whether the filter names documents or paths, and narrows nothing within a document."""
    conditions = (*where.must, *where.must_not)
    if any(isinstance(each, Ids) or each.field in _OF_CHUNKS for each in conditions):
        return False
    return any(isinstance(each, Match | Prefix) and each.field in _CHOOSING for each in where.must)


def asks_of_the_whole(question: str) -> bool:
    """Return whether the question is about documents as wholes: a summary, the main topic, an overview."""
    return bool(_OF_THE_WHOLE.search(question, 0, LONGEST_QUESTION))


def compares(question: str) -> bool:
    """Return whether the question asks for a comparison."""
    return bool(_COMPARES.search(question, 0, LONGEST_QUESTION))


def greeting_for(message: str) -> str | None:
    """Return the greeting in the language of a message that is a greeting or thanks and nothing else."""
    parts = _BETWEEN.split(folded(message)) if len(message) < 100 else []
    said = [part for part in parts if any(map(str.isalnum, part))]
    left = text = f" {' '.join(said)} "
    for known in _GREETINGS.values():
        left = known.sub("", left)
    if len(said) > _MOST_WORDS or not _BESIDE.issuperset(left.split()):
        return None
    return next((greeting for greeting, known in _GREETINGS.items() if known.search(text)), None)


def spread(sections: Sequence[object], count: int) -> list[int]:
    """Return the positions of at most `count` chunks in reading order: the first of each section, then evenly spread.

    `sections` has the section of each chunk. More sections than `count` are evenly spread.
    """
    first = [at for at, section in enumerate(sections) if not at or section != sections[at - 1]]
    if len(first) >= count:
        return _evenly(first, count)
    others = sorted(set(range(len(sections))) - set(first))
    return sorted([*first, *_evenly(others, count - len(first))])


def _evenly(positions: Sequence[int], count: int) -> list[int]:
    if len(positions) <= count:
        return list(positions)
    return [positions[number * len(positions) // count] for number in range(count)]


def supported(passages: Sequence[Passage]) -> list[Passage]:
    """Return the first ten passages, and the others whose scores say that they are good answers."""
    return [each for at, each in enumerate(passages) if at < _USUAL or each.score >= _GOOD]


def together(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages with neighbours of one document joined, at the place of the best of them; numbered anew."""
    runs: list[list[int]] = []
    for at in sorted(range(len(passages)), key=lambda at: _place(passages[at])):
        fits = runs and sum(text_tokens(passages[each].text) for each in (*runs[-1], at)) <= _LONGEST_JOINED
        if fits and len(runs[-1]) < _MOST_JOINED and _follows(passages[runs[-1][-1]], passages[at]):
            runs[-1].append(at)
        else:
            runs.append([at])
    whole = (reduce(_joined, [passages[at] for at in run]) for run in sorted(runs, key=min))
    return tuple(msgspec.structs.replace(each, number=number) for number, each in enumerate(whole, start=1))


def _place(passage: Passage) -> tuple[Any, ...]:
    return passage.metadata["documentId"], passage.metadata["version"], passage.metadata["chunkOrder"]


def _follows(passage: Passage, other: Passage) -> bool:
    *version, order = _place(passage)
    copied = "copies" in passage.metadata or "copies" in other.metadata  # each has other places of its own
    return not copied and _place(other) == (*version, order + 1)


def _joined(passage: Passage, other: Passage) -> Passage:
    before, after = passage.metadata, other.metadata
    parts = [Expanded(each.text, each.metadata["start"], each.metadata["end"]) for each in (passage, other)]
    whole = joined(parts)
    metadata = {**before, "end": whole.end, JOINED: [*before.get(JOINED, [before["chunkId"]]), after["chunkId"]]}
    if page := after.get("pageNumber"):
        shift = len(whole.text) - len(other.text)
        starts = [[shift, page], *([shift + start, on] for start, on in after.get("pageStarts") or [])]
        metadata |= {
            "pageEnd": after.get("pageEnd") or page,
            "pageStarts": [*(before.get("pageStarts") or []), *starts],
        }
    score = max(passage.score, other.score)
    return msgspec.structs.replace(passage, text=whole.text, score=score, metadata=metadata)
