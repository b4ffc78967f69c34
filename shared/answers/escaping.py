"""Escapes a document's text for a prompt: nothing in it reads as a mark of the prompt or of a chat template.

Marks are looked for in a folded copy of the text, in which a character of any script or width stands as the Latin
letter or ASCII sign that it looks like. What is found is changed in the text itself, so everything else stays as it is.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Final

from shared.answers.citations import marks

_INVISIBLE: Final = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
# Our delimiters, and the words by which chat templates (Llama, Mistral) tell roles and tools apart in brackets.
_BRACKETED: Final = re.compile(
    r"\[\s*+(?:/\s*+)?(?:context[\s_-]*+(?:start|end)|inst|sys|system_prompt|available_tools|tool_calls|tool_results"
    r"|tool_content|args|call_id|think|img|prefix|middle|suffix)\s*+\]"
)
# Where a space takes a mark of a chat template apart: <|im_start|>, <s>, <start_of_turn>, <<sys>>, <tool_call>.
_PARTED: Final = re.compile(
    r"<(?=\|)|\|(?=>)|<(?=/?(?:s|bos|eos|pad|unk|think|tools?|tool_calls?|tool_response|function_calls?"
    r"|system|user|assistant|im_start|im_end)>|(?:start|end)_of_(?:turn|text|sentence)|/?sys>>)"
)
_ROLE: Final = re.compile(
    r"^[ \t*_-]*(?:(?:system|assistant|user|human|developer|question|boundary)[ \t*_]*:"
    r"|boundary [0-9a-f]{8}|#{2,}[ \t]*(?:system|instruction|input|response|user|assistant)\b)",
    re.MULTILINE,
)
_QUOTE: Final = "> "

_LOOK_ALIKES: Final = files(__package__).joinpath("look_alikes.txt").read_text("utf-8")  # behind what they look like
_CONFUSABLE: Final = {each: line[0] for line in _LOOK_ALIKES.splitlines() for each in line[2:]}


def quoted(text: str) -> str:
    """Return a document's text without anything that reads as our delimiters, a passage's number or a role's mark."""
    # Invisible characters first: they would hide a mark from us, but not from a model.
    visible = _INVISIBLE.sub("", text)
    folded, places = _folded(visible)
    parts = []
    at = 0
    for start, end, instead in sorted(_changes(folded)):
        first, last = places[start], places[end]
        if first >= at:
            parts += [visible[at:first], instead]
            at = last
    return "".join([*parts, visible[at:]])


def _changes(folded: str) -> Iterator[tuple[int, int, str]]:
    """Yield what to replace in the folded text, and by what."""
    for mark in _BRACKETED.finditer(folded):
        yield from _rounded(*mark.span())
    for start, end, _ in marks(folded):
        yield from _rounded(start, end)
    for mark in _PARTED.finditer(folded):
        yield mark.end(), mark.end(), " "
    for mark in _ROLE.finditer(folded):
        yield mark.start(), mark.start(), _QUOTE


def _rounded(start: int, end: int) -> Iterator[tuple[int, int, str]]:
    yield start, start + 1, "("
    yield end - 1, end, ")"


def _folded(text: str) -> tuple[str, list[int] | range]:
    """Return the folded text, and for each of its characters, and its end, the place in `text`."""
    if text.isascii():
        return text.lower(), range(len(text) + 1)
    folded, places = [], []
    for place, character in enumerate(text):
        for letter in _fold(character):
            folded.append(letter)
            places.append(place)
    return "".join(folded), [*places, len(text)]


@lru_cache(maxsize=8192)
def _fold(character: str) -> str:
    """Return what the character looks like, in ASCII where there is such; '' for marks above or below another one."""
    if character.isascii():
        return character.lower()
    if (alike := _CONFUSABLE.get(character)) is not None:
        return alike
    if "\U0001f1e6" <= character <= "\U0001f1ff":  # letters of flags
        return chr(ord("a") + ord(character) - 0x1F1E6)
    plain = "".join(
        _CONFUSABLE.get(each, each)
        for each in unicodedata.normalize("NFKD", character)
        if unicodedata.category(each) not in ("Mn", "Me", "Cf")
    )
    return plain.lower()
