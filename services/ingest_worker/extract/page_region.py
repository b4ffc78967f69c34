"""Finds in a page's tree what a text was taken from, so that the tree can be written with all that it shows."""

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from services.ingest_worker.extract.html_tree import HEADINGS, INLINE, NAMED, is_hidden
from services.ingest_worker.extract.safe_xml import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lxml.html import HtmlElement

_WORD: Final = re.compile(r"[\u2e80-\ua4cf]|[^\W_\u2e80-\ua4cf]+")
_RUN: Final = 4  # words that have to follow each other as in the text
_MOST: Final = 200_000  # words of a page; each costs 14 µs and 0.7 kB
_LONGEST: Final = 40  # characters of two words between which the text has no blank
_TEXTS: Final = frozenset({"blockquote", "center", "dl", "figure", "ol", "p", "pre", "table", "ul", *HEADINGS})
_WHOLE: Final = frozenset({"dl", "ol", "pre", "table", "ul"})
_ASIDE: Final = frozenset({"aside", "footer", "nav"})
_READINGS: Final = frozenset({"rp", "rt"})  # which trafilatura drops


def keep(tree: "HtmlElement", text: str, unseen: frozenset[str]) -> bool:
    """Drop from the tree what doesn't say the text's words; return whether it has been done, which takes few words.

    A block stays whole if half of its own words are the text's, in runs; lists, tables and code are blocks. So do texts
    between two that stay, and tables and code in the same article, unless they are mostly links.
    """
    pieces = [(block, _WORD.findall(piece)) for block, piece in _pieces(tree, unseen)]
    page = [word for _, piece in pieces for word in piece]
    if len(page) > _MOST:
        return False
    known = iter(_known(page, list(_parted(_WORD.findall(text), set(page)))))
    balance = Counter[Any]()  # of known and other words
    for block, piece in pieces:
        balance[block] += sum(1 if next(known) else -1 for _ in piece)
    said = {block for block, piece in pieces if piece}
    kept = {block for block in said if balance[block] >= 0}
    around = _and_around(kept)
    more = set(_beside(around))
    _drop(tree, kept.union(*(each.iter() for each in more)), around | _and_around(more))
    return True


def _pieces(tree: "HtmlElement", unseen: frozenset[str]) -> "Iterator[tuple[HtmlElement, str]]":
    """Yield the texts that are seen, in order, each with the block to which it belongs."""
    for event, each, block, walk in _walk(tree):
        if event == "end":
            if each.tail and each is not tree:
                yield block, each.tail
        elif each.tag in unseen or each.tag in _READINGS or is_hidden(each):
            walk.skip_subtree()
        elif each.text:
            yield block, each.text


def _walk(tree: "HtmlElement") -> "Iterator[tuple[str, HtmlElement, HtmlElement, Any]]":
    """Yield the starts of elements with the blocks of their texts, and the ends with those of their tails."""
    from lxml import etree  # imported here, because only parser processes should load heavy libraries

    blocks, whole = [tree], dict[Any, bool]()
    walk = etree.iterwalk(tree, events=("start", "end"))
    for event, each in walk:
        if event == "end":
            blocks.pop()
        else:
            above = blocks[-1]
            if above.tag in _WHOLE and above not in whole:  # else it arranges others
                whole[above] = next(above.iterdescendants(*HEADINGS, "table"), None) is None
            blocks.append(above if each.tag in INLINE or whole.get(above) else each)
        yield event, each, blocks[-1] if blocks else tree, walk


def _parted(said: list[str], known: set[str]) -> "Iterator[str]":
    """Yield the words, in two where only these are known: some blocks stand in a text without a blank between them."""
    for word in said:
        ends = range(1, len(word)) if word not in known and len(word) <= _LONGEST else ()
        end = next((end for end in ends if word[:end] in known and word[end:] in known), len(word))
        yield word[:end]
        if end < len(word):
            yield word[end:]


def _known(page: list[str], text: list[str]) -> list[bool]:
    """Return of each word of the page whether it is one of the text's, each of which is found once.

    First come runs that are as often in both, with what is beside them, then the first ones of others: a menu may say
    what the text does.
    """
    size = max(1, min(_RUN, len(page), len(text)))
    here, there = _runs(page, size), _runs(text, size)
    places = [-1] * len(page)  # in the text
    free = [True] * len(text)
    for sure in (True, False):
        for run, wanted in there.items():
            if not sure or len(here[run]) == len(wanted):
                for at, place in zip(here[run], wanted, strict=False):
                    if places[at] < 0 and free[place]:
                        places[at], free[place] = place, False
        _grow(places, free, page, text, 1)
        _grow(places, free, page, text, -1)
    return [place >= 0 for place in places]


def _grow(places: list[int], free: list[bool], page: list[str], text: list[str], step: int) -> None:
    """Find the words behind those that are found, or before them, as long as they are the text's."""
    for at in range(1, len(page)) if step > 0 else range(len(page) - 2, -1, -1):
        place = places[at - step] + step
        if places[at] < 0 <= places[at - step] and 0 <= place < len(text) and free[place] and page[at] == text[place]:
            places[at], free[place] = place, False


def _runs(said: list[str], size: int) -> defaultdict[int, list[int]]:
    """Return where each run of so many words begins, by its hash."""
    runs = defaultdict[int, list[int]](list)
    for at, run in enumerate(zip(*(said[first:] for first in range(size)), strict=False)):
        runs[hash(run)].append(at)
    return runs


def _and_around(found: set[Any]) -> set[Any]:
    """Return the elements, and those in which they are."""
    around = set[Any]()
    for inner in found:
        each = inner
        while each is not None and each not in around:
            around.add(each)
            each = each.getparent()
    return around


def _beside(around: set[Any]) -> "Iterator[HtmlElement]":
    """Yield texts between two that stay, and the tables and the code of their article."""
    for parent in around:
        stay = [at for at, each in enumerate(parent) if each in around]
        named = parent.get("class") == NAMED
        article = bool(stay) and any(each.tag in ("article", "main") for each in (parent, *parent.iterancestors()))
        for at, each in enumerate(parent):
            if each in around or each.tag in _ASIDE or is_hidden(each):
                continue
            between = named or (bool(stay) and stay[0] < at < stay[-1])
            texts = [each] if between and _is_text(each) else each.iter("table", "pre") if between or article else ()
            yield from (one for one in texts if not _is_list_of_links(one))


def _is_text(block: "HtmlElement") -> bool:
    """Return whether it is a block of text, and no caption of a picture."""
    before = block.getprevious() if block.tag == "p" else None
    if before is not None and before.tag in ("figure", "img", "picture"):
        return next(before.iter("table", "pre"), None) is not None
    return block.tag in _TEXTS


def _is_list_of_links(block: "HtmlElement") -> bool:
    """Return whether its words are mostly links that no text announces; a table may have them in one of its columns."""
    before = block.getprevious()
    if before is not None and words(before).endswith((":", "：")):
        return False
    linked = sum(len(words(link)) for link in block.iter("a"))
    return linked * (1.2 if block.tag == "table" else 2) >= len(words(block))


def _drop(tree: "HtmlElement", kept: set[Any], around: set[Any]) -> None:
    """Drop the blocks that neither are kept nor hold one that is, and the words of those that only hold one."""
    gone = list[Any]()
    for event, each, block, walk in _walk(tree):
        if event == "end":
            each.tail = each.tail if block in kept else None
        elif each in around or each in kept or (block is not each and block in kept):
            each.text = each.text if block in kept else None
        else:
            gone.append(each)
            walk.skip_subtree()
    for each in gone:
        each.drop_tree()
