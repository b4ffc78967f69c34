"""A set of our own: 200 paragraphs and 50 questions in each of ten languages.

A paragraph is about one of ten matters in one of twenty places. The other paragraphs about the matter have the same
words but another place; the others about the place have its name but other words. A question names the place and asks
in words that are different where it can: it shares at most half of its words with the paragraph that answers it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

PLACES: Final = 20
QUESTIONS: Final = 50


class Matter(msgspec.Struct, frozen=True):
    """Templates: `{p}` is the place, `{n}` a number."""

    paragraph: str
    questions: tuple[str, str]


class Language(msgspec.Struct, frozen=True):
    """The places and matters of one language."""

    places: tuple[str, ...]
    matters: tuple[Matter, ...]


class Text(msgspec.Struct, frozen=True):
    """A paragraph, or a question with the path of the paragraph that answers it."""

    path: str
    text: str


LANGUAGES: Final = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, Language])


def paragraphs(language: Language) -> Iterator[Text]:
    """Yield the 200 paragraphs."""
    for place, name in enumerate(language.places):
        for number, matter in enumerate(language.matters):
            yield Text(f"{number}/{place}", matter.paragraph.format(p=name, n=place + 3))


def questions(language: Language) -> Iterator[Text]:
    """Yield the 50 questions: five about each matter, each about another place."""
    for number in range(QUESTIONS):
        turn, matter = divmod(number, 10)
        place = (7 * number + turn) % PLACES
        template = language.matters[matter].questions[turn % 2]
        yield Text(f"{matter}/{place}", template.format(p=language.places[place]))
