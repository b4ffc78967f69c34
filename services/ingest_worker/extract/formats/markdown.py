"""Reads Markdown, with or without front matter."""

import re
import tomllib
from typing import Any

import yaml

from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.format import Extraction, Format, Hints
from services.ingest_worker.text_blocks import first_heading

_FRONT_MATTER_CHARACTERS = 32 * 1024  # more than anybody writes; parsing time grows with the length
_FRONT_MATTER_BRACKETS = 200  # PyYAML's time grows with the square of the nesting
_FENCED = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?)(?<=\n)\1[ \t]*(?:\n|$)", re.DOTALL)


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text without its front matter; title, description, tags and language come from the front matter.

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    text = cleaned(decoded(data, hints))
    front, body = _front_matter(text)
    tags = front.get("tags")
    listed = tags if isinstance(tags, list) else str(tags or "").split(",")
    return Extraction(
        text=body,
        document_type="md",
        title=_line(front, "title") or one_line(first_heading(body)),
        description=_line(front, "description") or _line(front, "summary"),
        language=_line(front, "lang") or _line(front, "language"),
        tags=tuple(dict.fromkeys(tag for tag in (one_line(str(item), 100) for item in listed) if tag)),
    )


def _front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter and the rest. Text that only looks like front matter stays in the text."""
    match = _FENCED.match(text, 0, _FRONT_MATTER_CHARACTERS)
    if match is None or sum(map(match[2].count, "[{")) > _FRONT_MATTER_BRACKETS:
        return {}, text
    try:
        # BaseLoader returns only strings, lists and mappings, so dates and numbers stay as they were written.
        front = tomllib.loads(match[2]) if match[1] == "+++" else yaml.load(match[2], Loader=yaml.BaseLoader)  # noqa: S506 - the safest of the loaders
    except (yaml.YAMLError, tomllib.TOMLDecodeError, RecursionError, ValueError):
        return {}, text
    if not isinstance(front, dict):
        return {}, text
    return front, text[match.end() :].strip()


def _line(front: dict[str, Any], key: str) -> str | None:
    value = front.get(key)
    return one_line(value) if isinstance(value, str) else None


FORMAT = Format(
    document_type="md",
    text_format="markdown",
    media_types=frozenset({"text/markdown", "text/x-markdown"}),
    suffixes=frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx"}),
    sniff=lambda _: False,  # any text is Markdown
    read=read,
    light=True,
    libraries=("chardet", "pyyaml"),
)
