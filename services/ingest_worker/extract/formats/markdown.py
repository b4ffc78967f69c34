"""Reads Markdown, with or without front matter."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml

from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.html_markdown import fence_after, with_tables, without_tags
from services.ingest_worker.text_blocks import first_heading
from shared.contracts import Note

_FRONT_MATTER_CHARACTERS = 32 * 1024  # more than anybody writes; parsing time grows with the length
_FRONT_MATTER_BRACKETS = 200  # PyYAML's time grows with the square of the nesting
_FRONT_MATTER_VALUES = 1_000  # PyYAML takes 40 µs for each
_TOML_CHARACTERS = 3 * 1024  # tomllib's time grows with the square of a dotted key's length
_READ = frozenset({"title", "description", "summary", "tags", "lang", "language"})
_FENCED = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?)(?<=\n)\1[ \t]*(?:\n|$)", re.DOTALL)


# A line that begins imports or exports; other lines that begin with these words are prose.
_SCRIPT = re.compile(
    r"import\s++(?:[\"'][^\"'\s]{1,500}+[\"']\s*+;?\s*+\Z"
    r"|(?:type\s++)?(?:\{|\*\s*+as\b|[\w$]++\s*+(?:,\s*+[{*]|from\s*+[\"'])))"
    r"|export\s++(?:\{|\*\s*+(?:as|from)\b|(?:const|let|var)\s++[\w$]*+\s*+[=:;{\[]"
    r"|(?:async\s++)?function\b[\s*]*+[\w$]*+\s*+[(<]|(?:class|interface|type|enum)\s++[\w$]++\s*+(?:[={<]|extends\b)"
    r"|default\s++(?:(?:async|class|function|new)\b|[\w$.]*+(?:[=({\[<;\"'`]|\s*+\Z)))"
)
_COMPONENT = re.compile(
    r"</?(?:[A-Z][\w.]{0,60}(?:\s(?:[^<>{}]|\{(?:[^{}]|\{[^{}]{0,500}\}){0,500}\}){0,2000})?/?)?>|\{/\*[^{}]{0,2000}\*/\}"
)
_LABEL = re.compile(r"\b(?:title|label|summary|heading)=[\"']([^\"'<>\n]{1,200})")


class _Refused(Exception):  # noqa: N818 - says what happens to the front matter
    """The front matter is valid, and stays text: why, for the document's note."""


class _Loader(yaml.BaseLoader):
    """Returns only strings, lists and mappings, so dates and numbers stay as they were written.

    Aliases aren't resolved: a kilobyte of them can stand for gigabytes.
    """

    values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _Refused("it has aliases, which are not resolved")
        self.values += 1
        if self.values > _FRONT_MATTER_VALUES:
            raise _Refused(f"it has more than {_FRONT_MATTER_VALUES} values")
        return super().compose_node(parent, index)


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text without its front matter; title, description, tags and language come from the front matter.

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    text = cleaned(decoded(data, hints))
    if hints.suffix == ".mdx" or "<" in text or "&" in text or "%%" in text:
        text = shown(text, components=hints.suffix == ".mdx")
    notes: tuple[Note, ...] = ()
    try:
        front, body = _front_matter(text)
    except _Refused as refused:
        front, body = {}, text
        notes = (Note(code="front_matter", place="", message=f"the front matter stays in the text: {refused}"),)
    body = with_tables(body)
    tags = front.get("tags")
    listed = tags if isinstance(tags, list) else _scalar(tags).split(",")
    return Extraction(
        text=body,
        title=_line(front, "title") or one_line(first_heading(body)),
        description=_line(front, "description") or _line(front, "summary"),
        language=_line(front, "lang") or _line(front, "language"),
        tags=tuple(dict.fromkeys(tag for tag in (one_line(_scalar(item), 100) for item in listed) if tag)),
        notes=notes,
        file={name: value for name, value in front.items() if name not in _READ},
    )


def _front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter and the rest. Text that only looks like front matter stays in the text.

    Raises:
        _Refused: it is front matter, but reading it could take long.
    """
    match = _FENCED.match(text, 0, _FRONT_MATTER_CHARACTERS)
    if match is None or sum(map(match[2].count, "[{")) > _FRONT_MATTER_BRACKETS:
        return {}, text
    if match[1] == "+++" and len(match[2]) > _TOML_CHARACTERS:
        raise _Refused(f"it has {len(match[2])} characters, more than the {_TOML_CHARACTERS} that are read as TOML")
    try:
        front = tomllib.loads(match[2]) if match[1] == "+++" else yaml.load(match[2], Loader=_Loader)  # noqa: S506 - as safe as BaseLoader
    except (yaml.YAMLError, tomllib.TOMLDecodeError, RecursionError, ValueError):
        return {}, text
    if not isinstance(front, dict):
        return {}, text
    return front, text[match.end() :].strip()


def shown(text: str, *, components: bool = False) -> str:
    """Return the text without tags of HTML and, with `components`, without imports, exports and tags of MDX.

    What the tags show stays.
    """
    return "".join(_shown(text, components=components)).removesuffix("```\n").strip()


def _shown(text: str, *, components: bool) -> Iterator[str]:
    shown: list[str] = []
    fenced, script = "", False
    for line in (*text.split("\n"), "```"):
        before, fenced = fenced, fence_after(line, fenced)
        script = components and not before and bool(line.strip()) and (script or _SCRIPT.match(line) is not None)
        if fenced and not before:
            page = without_tags("".join(shown))
            yield _COMPONENT.sub(_labels, page) if components else page
            shown = []
        if before or fenced:
            yield f"{line}\n"
        elif not script:
            shown.append(f"{line}\n")


def _labels(component: re.Match[str]) -> str:
    return "".join(f"{label}\n" for label in _LABEL.findall(component[0]))


def _scalar(value: Any) -> str:
    return "" if value is None or isinstance(value, list | dict) else str(value)


def _line(front: dict[str, Any], key: str) -> str | None:
    value = front.get(key)
    return one_line(value) if isinstance(value, str) else None


FORMAT = Format(
    document_type="md",
    media_types=frozenset({"text/markdown", "text/x-markdown"}),
    suffixes=frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx", ".rmd", ".qmd"}),
    read=read,
    light=True,
    libraries=("chardet", "lxml", "pyyaml"),
    revision=7,
)
