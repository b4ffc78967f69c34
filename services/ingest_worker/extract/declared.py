"""What a document says of itself, where programs leave words of their own as well."""

import re
from collections.abc import Mapping
from typing import TypedDict

from services.ingest_worker.extract.clean import one_line

_OPENING = re.compile("#{1,6} ([^\n]+)")
_TOOL = re.compile("^Microsoft \\w+ - ")
_NO_TITLE = re.compile(
    r"(?i)\(?(?:untitled|unspecified|anonymous|unbenannt|sans titre|document|presentation|slide|folie|book|workbook)\)?"
    r"(?: ?\d+)?|(?:\w+ (?:de )?)?powerpoint[ -]?\w*|.*\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|graffle|pdf|qxd|pmd)"
)


class Declared(TypedDict):
    """What a document says of itself, as fields of an `Extraction`."""

    title: str | None
    description: str | None
    language: str | None
    created: str | None
    modified: str | None


def declared(says: Mapping[str, str | None], text: str = "") -> Declared:
    """Return a document's properties, each in one line of bounded length.

    Without a title of its own it is the heading with which `text` begins.
    """
    return Declared(
        title=own_title(says.get("title")) or opening_heading(text),
        description=one_line(says.get("description"), 2000),
        language=one_line(says.get("language"), 35),
        created=one_line(says.get("created"), 35),
        modified=one_line(says.get("modified"), 35),
    )


def own_title(text: str | None, limit: int = 500) -> str | None:
    """Return a title as `one_line`, None where a program wrote its own there: "untitled", a file's name."""
    line = _TOOL.sub("", one_line(text, limit) or "")
    return None if _NO_TITLE.fullmatch(line) else line or None


def opening_heading(markdown: str) -> str | None:
    """Return the heading with which a cleaned text begins: where nothing else is one, it is the title."""
    heading = _OPENING.match(markdown)
    return own_title(heading[1]) if heading else None
