"""Joins paragraphs into Markdown, and adds the text of page headers and footers."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from services.ingest_worker.extract.clean import cleaned
from shared.text.links import REST

NUMBER = "\0"  # placeholder in a header or footer for the page number or the repeated heading
CHANGES = re.compile(r"\s*(?:PAGE|NUMPAGES|SECTIONPAGES|STYLEREF)\b", re.IGNORECASE)  # fields with those values
LINK = re.compile(rf'\s{{0,9}}HYPERLINK\s{{1,9}}"((?:https?|mailto):{REST})"', re.IGNORECASE)
_BARE = 6  # characters: at most a page number that was typed as text
_ROMAN = {1000: "m", 900: "cm", 500: "d", 400: "cd", 100: "c", 90: "xc", 50: "l", 40: "xl", 10: "x"}
_ROMAN |= {9: "ix", 5: "v", 4: "iv", 1: "i"}
_LETTERS = {"a": "abcdefghijklmnopqrstuvwxyz", "а": "абвгдежзиклмнопрстуфхцчшщыэюя"}
RAISED = re.compile(r"[-−+]?\d{1,4}")
_WORD = re.compile(r"[^\W\d_]+")
_SPACED = re.compile(r"(?<=\b[^\W\d_]) (?=[^\W\d_]\b)")  # P a g e
# fmt: off
_ABOUT_PAGES = frozenset({
    "page", "pages", "p", "pg", "of", "seite", "seiten", "von", "página", "páginas", "pagina", "pag", "pág", "de", "do",
    "da", "di", "van", "sida", "side", "av", "af", "sivu", "strona", "strana", "z", "ze", "oldal", "sayfa", "trang",
    "стр", "страница", "сторінка", "из", "з", "第", "页", "頁", "共", "页共", "頁共", "ページ", "쪽", "페이지",
})
# fmt: on


class MarkdownBlock(NamedTuple):
    """A paragraph, heading, list item or table."""

    text: str
    kind: str = ""  # "list" or "code": adjacent blocks of the same kind are joined


def joined(blocks: Iterable[MarkdownBlock]) -> str:
    """Return the blocks' text as Markdown."""
    parts: list[str] = []
    before, margin = "", 0  # a list that begins deeper would be code
    for text, kind in blocks:
        if kind == "code":
            if before == "code":
                parts[-1] = parts[-1].removesuffix("\n```")
            parts.append(("\n" if before == "code" else "\n\n```\n") + text + "\n```")
        else:
            indent = len(text) - len(text.lstrip(" ")) if kind == "list" else 0
            margin = indent if before != "list" else min(margin, indent)
            parts.append(("\n" if kind == before == "list" else "\n\n") + text[margin:])
        before = kind
    return "".join(parts)


def fenced(code: str, language: str = "") -> str:
    """Return code between fences; '' if it is blank."""
    mark = "````" if "```" in code else "```"
    return f"{mark}{language}\n{code.strip(chr(10))}\n{mark}" if code.strip() else ""


def raised(text: str, before: str) -> str:
    """Return a raised number so that it stays apart from what is before it: 10^5. Other raised text stays as it is."""
    number = text.strip()
    return f"^{number}" if RAISED.fullmatch(number) and before[-1:].isalnum() else text


def framed(heads: Iterable[str], text: str, feet: Iterable[str]) -> str:
    """Return the cleaned text with the page headers before it and the page footers after it.

    Each line occurs once, and only if the text doesn't contain it; lines that only number pages are left out.
    """
    seen = {line.strip("#-*| ") for line in text.split("\n")}
    above, below = list(_distinct(heads, seen)), list(_distinct(feet, seen))
    return "\n\n".join([*above, *([text] if text else []), *below])


def numbers_pages(line: str) -> bool:
    """Return whether the line has no words but those that stand beside page numbers."""
    return _ABOUT_PAGES.issuperset(_WORD.findall(_SPACED.sub("", line.casefold())))


def counted(number: int, kind: str) -> str:
    """Return the number of a list's item as letters (`kind` a or A, or Cyrillic ones), in Roman figures (i, I), in
    Chinese ones (一), in a circle (①) or with its English ending (st); else in digits.
    """
    said, left = "", number % 10_000
    if letters := _LETTERS.get(kind.lower(), ""):
        said = letters[(number - 1) % len(letters)] * min((number - 1) // len(letters) + 1, 9)
    elif kind == "一" and 0 < number < 100:
        tens, ones = divmod(number, 10)
        said = "一二三四五六七八九"[tens - 1 : tens] * (tens > 1) + "十" * (tens > 0) + " 一二三四五六七八九"[ones]
        said = said.strip()
    elif kind == "①" and 0 < number <= 20:
        said = chr(ord("①") + number - 1)
    elif kind == "st":
        ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number // 10 % 10 != 1 else "th"
        said = f"{number}{ending}"
    for value, figures in _ROMAN.items() if kind in ("i", "I") else ():
        said += figures * (left // value)
        left %= value
    return (said.upper() if kind.isupper() else said) or str(number)


def _distinct(frames: Iterable[str], seen: set[str]) -> Iterator[str]:
    for frame in frames:
        lines: list[str] = []
        for raw in frame.split("\n"):
            line = cleaned(" ".join(raw.replace(NUMBER, " ").split()))
            numbers = (NUMBER in raw or len(line) <= _BARE) and numbers_pages(line)
            if line and not numbers and line not in seen:
                seen.add(line)
                lines.append(line)
        if lines:
            yield "\n".join(lines)
