"""A document's own properties, without the placeholders that programs write into them."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from services.ingest_worker.extract.clean import one_line

MOST_VALUES: Final = 32  # of what a file says about itself
LONGEST_VALUE: Final = 200  # characters
_LONGEST_FIELD: Final = 64
_LONGEST_OWN: Final = {"description": 2000, "language": 35, "created": 35, "modified": 35}
_LONGEST_LIST: Final = 8_000
_NO_FIELD = re.compile(r'["\[\]\\.\x00-\x1f]')  # has a meaning in a filter's path
_SEVERAL: Final = {"author": re.compile(";"), "keywords": re.compile("[,;]")}  # in one text, as programs write them
_OPENING = re.compile("#{1,6} ([^\n]+)")
_TOOL = re.compile("^Microsoft \\w+ - ")
_NO_TITLE = re.compile(
    r"(?i)\(?(?:untitled|unspecified|anonymous|unbenannt|sans titre|document|presentation|slide|folie|book|workbook"
    r"|layout|image|scan|print|stdin|page|title|blank page|full page photo"
    r"|(?:untitled|scanned|new microsoft \w+) (?:document|presentation))\)?(?:[ -]?\d+)?"
    r"|(?:\w+ (?:de |standard di )?)?powerpoint[ -]?\w*|(?:file|https?|about):\S*"
    r"|(?:.*\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|graffle|pdf|qx[dp]|pmd)|\S+\.(?:rtf|od[gpst]|html?|txt|eps|tmp))"
    r"(?: \[[^\]]*\])?"
)


def declared(says: Mapping[str, Any], text: str = "") -> dict[str, Any]:
    """Return a document's properties as fields of an `Extraction`, each on one line of limited length.

    Without a title property, the title is the heading at the start of `text`.
    """
    own = {name: one_line(says.get(name), most) for name, most in _LONGEST_OWN.items()}
    own["title"] = own_title(says.get("title")) or opening_heading(text)
    return {**own, "file": {name: value for name, value in says.items() if name not in own}}


def file_properties(says: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says about itself as texts and lists of texts, at most `MOST_VALUES` in all."""
    found: dict[str, Any] = {}
    left = MOST_VALUES
    for name, value in says.items():
        field = _NO_FIELD.sub("_", one_line(str(name), _LONGEST_FIELD) or "")
        texts = list(dict.fromkeys(islice(_texts(field, value), left)))
        if field and texts and field not in found:
            found[field] = texts[0] if len(texts) == 1 else texts
            left -= len(texts)
    return found


def _texts(field: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):  # as in `authors: [{name: …, email: …}]`
        yield from _texts(field, value.get("name") or [f"{name}: {each}" for name, each in value.items()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(field, each)
    elif isinstance(value, str):
        for each in _SEVERAL[field].split(value[:_LONGEST_LIST]) if field in _SEVERAL else (value,):
            if text := one_line(each[: 2 * LONGEST_VALUE], LONGEST_VALUE):
                yield text
    elif value is not None:
        yield str(value).lower()[:LONGEST_VALUE]


def own_title(text: str | None, limit: int = 500) -> str | None:
    """Return the title as `one_line`; None for a program's placeholder, such as "untitled" or a file name."""
    line = _TOOL.sub("", one_line(text, limit) or "")
    return None if _NO_TITLE.fullmatch(line) else line or None


def opening_heading(markdown: str) -> str | None:
    """Return the heading at the start of a cleaned text, or None; the title where no other is known."""
    heading = _OPENING.match(markdown)
    return own_title(heading[1]) if heading else None
