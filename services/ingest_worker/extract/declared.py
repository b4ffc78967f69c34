"""A document's own properties, without the placeholders that programs write into them."""

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
    """A document's own properties, as fields of an `Extraction`."""

    title: str | None
    description: str | None
    language: str | None
    created: str | None
    modified: str | None


def declared(says: Mapping[str, str | None], text: str = "") -> Declared:
    """Return a document's properties, each on one line of limited length.

    Without a title property, the title is the heading at the start of `text`.
    """
    return Declared(
        title=own_title(says.get("title")) or opening_heading(text),
        description=one_line(says.get("description"), 2000),
        language=one_line(says.get("language"), 35),
        created=one_line(says.get("created"), 35),
        modified=one_line(says.get("modified"), 35),
    )


def own_title(text: str | None, limit: int = 500) -> str | None:
    """Return the title as `one_line`; None for a program's placeholder, such as "untitled" or a file name."""
    line = _TOOL.sub("", one_line(text, limit) or "")
    return None if _NO_TITLE.fullmatch(line) else line or None


def opening_heading(markdown: str) -> str | None:
    """Return the heading at the start of a cleaned text, or None; the title where no other is known."""
    heading = _OPENING.match(markdown)
    return own_title(heading[1]) if heading else None
