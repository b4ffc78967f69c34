"""Blocks of a text that was walked paragraph by paragraph, and what stands above and below its pages."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from services.ingest_worker.extract.clean import cleaned

NUMBER = "\0"  # in a header or footer: here stands the page's number, or its heading again
CHANGES = re.compile(r"\s*(?:PAGE|NUMPAGES|SECTIONPAGES|STYLEREF)\b", re.IGNORECASE)  # a field that gives those
_BARE = 6  # characters: a number that was typed, or drawn
_WORD = re.compile(r"[^\W\d_]+")
# fmt: off
_ABOUT_PAGES = frozenset({
    "page", "pages", "p", "pg", "of", "seite", "seiten", "von", "página", "páginas", "pagina", "pag", "pág", "de", "do",
    "da", "di", "van", "sida", "side", "av", "af", "sivu", "strona", "strana", "z", "ze", "oldal", "sayfa", "trang",
    "стр", "страница", "сторінка", "из", "з", "第", "页", "頁", "共", "页共", "頁共", "ページ", "쪽", "페이지",
})
# fmt: on


class MarkdownBlock(NamedTuple):
    """A paragraph, a heading, a point, a table."""

    text: str
    kind: str = ""  # blocks of one kind that follow each other are one: list, code


def joined(blocks: Iterable[MarkdownBlock]) -> str:
    """Return the blocks' text as Markdown."""
    parts: list[str] = []
    before = ""
    for text, kind in blocks:
        if kind == "code":
            if before == "code":
                parts[-1] = parts[-1].removesuffix("\n```")
            parts.append(("\n" if before == "code" else "\n\n```\n") + text + "\n```")
        else:
            parts.append(("\n" if kind == before == "list" else "\n\n") + text)
        before = kind
    return "".join(parts)


def framed(heads: Iterable[str], text: str, feet: Iterable[str]) -> str:
    """Return the cleaned text with what stands above its pages before it, and what stands below after it.

    Each line comes once, and not where the text has it; lines that only number pages are left out.
    """
    seen = {line.strip("#-*| ") for line in text.split("\n")}
    above, below = list(_distinct(heads, seen)), list(_distinct(feet, seen))
    return "\n\n".join([*above, *([text] if text else []), *below])


def _distinct(frames: Iterable[str], seen: set[str]) -> Iterator[str]:
    for frame in frames:
        lines: list[str] = []
        for raw in frame.split("\n"):
            line = cleaned(" ".join(raw.replace(NUMBER, " ").split()))
            numbers_pages = (NUMBER in raw or len(line) <= _BARE) and _ABOUT_PAGES.issuperset(
                _WORD.findall(line.casefold())
            )
            if line and not numbers_pages and line not in seen:
                seen.add(line)
                lines.append(line)
        if lines:
            yield "\n".join(lines)
