"""What chosen documents are about, without a language model: title, headings, and the first sentence under each."""

from collections.abc import Sequence
from typing import Final

import msgspec

from shared.answers import Passage
from shared.answers.citations import unmarked
from shared.answers.quotable_units import Unit, parts

MOST_PLACES: Final = 20  # of one answer; of more, an even spread of each document's
_LONGEST: Final = 200  # characters of a heading or a sentence


class _Place(msgspec.Struct, frozen=True):
    """A heading's first sentence."""

    passage: Passage
    document: str
    heading: str
    text: str


def outline(passages: Sequence[Passage]) -> tuple[tuple[Passage, ...], list[str]]:
    """Return the passages quoted, numbered in order of mention, and the answer's pieces; none if nothing can be quoted.

    `passages` are in reading order. A part without headings is told by its first sentence, and a document that has none
    by its first row or code.
    """
    documents: dict[str, list[_Place]] = {}
    others: dict[str, _Place] = {}
    seen: set[tuple[str, object]] = set()  # since the last heading, which may be one of the same name
    for passage in passages:
        document = str(passage.metadata.get("documentId") or passage.number)
        for at, part in enumerate(parts(passage.shown, str(passage.metadata.get("sectionTitle") or ""))):
            seen = set() if at else seen
            for unit in part:
                heading, own = unmarked(unit.about.rpartition(" > ")[2]), (document, unit.about or passage.number)
                place = _Place(passage, document, heading, _first(unit))
                told = documents.setdefault(document, [])
                if unit.kind in ("code", "row"):
                    others.setdefault(document, place)
                elif seen.isdisjoint({own, (document, heading)}):
                    seen.add(own)
                    told.append(place)
    numbers: dict[int, int] = {}
    pieces: list[str] = []
    before = ""
    for place in _shared([told or [others[document]] for document, told in documents.items()]):
        number = numbers.setdefault(place.passage.number, len(numbers) + 1)
        title = unmarked(place.passage.title)
        if place.document != before:
            pieces.append(f"{before and chr(10) * 2}**{_cut(title)}**\n")
        named = "" if place.heading in ("", title) else f"{_cut(place.heading)}: "
        pieces.append(f"\n- {named}{place.text} [{number}]")
        before = place.document
    read = {each.number: each for each in passages}
    quoted = (msgspec.structs.replace(read[own], number=number) for own, number in numbers.items())
    return tuple(quoted), pieces


def _shared(documents: Sequence[Sequence[_Place]]) -> list[_Place]:
    """Return at most `MOST_PLACES` places, but one of each document; a long one gets what short ones leave."""
    left, counts = MOST_PLACES, dict[int, int]()
    for done, at in enumerate(sorted(range(len(documents)), key=lambda at: len(documents[at]))):
        counts[at] = min(len(documents[at]), max(1, left // (len(documents) - done)))
        left -= counts[at]
    return [
        places[number * len(places) // counts[at]]
        for at, places in enumerate(documents)
        for number in range(counts[at])
    ]


def _first(unit: Unit) -> str:
    return _cut(" ".join(unit.text.split()))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rsplit(' ', 1)[0]} …"
