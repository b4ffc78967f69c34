"""Reads HTML: the main text as trafilatura finds it, or the whole page if trafilatura finds next to nothing."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from services.ingest_worker.extract import limits
from services.ingest_worker.extract.archive import ADDRESS
from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.formats.json import record
from services.ingest_worker.extract.html_markdown import (
    declared_charset,
    flat_text,
    main_text,
    part_text,
    shown_text,
    text_of,
    tree_of,
)
from services.ingest_worker.extract.html_tree import joined, present
from shared.contracts import Note
from shared.errors import Rejected
from shared.inputs.limits import LONGEST_URL

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_HEAD = 1024  # bytes in which HTML is recognised
_PAGE = re.compile(
    rb"\s*+(?:<\?xml[^>]*+>\s*+|<!--.*?-->\s*+)*+<(?:!doctype\s++html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL
)
# Trafilatura favours precision first, then recall. Both together beat either alone in both measures of the
# evaluation sets: docs/adr/0018-web-pages.md.
_ENOUGH = 2_000  # characters; with so many, the first result is taken without trying recall
_MUCH_MORE = 2.5  # times the length of the first result: it has missed the main text
_ALIKE = 1.1  # times its length at most, either way: it found the same, but drops lines that are links
_FLAT = Note(code="structure", place="", message="its elements are nested too deeply, so the text has no structure")
_ABOUT = {
    "author": "//meta[@name='author' or @name='dc.creator' or @name='DC.creator' or @name='citation_author']/@content",
    "publisher": "//meta[@property='og:site_name' or @name='dc.publisher' or @name='DC.publisher']/@content",
    "keywords": "//meta[@name='keywords']/@content",
}
_MOST_ROBOTS, _ROBOTS_CHARACTERS = 100, 500
_ROBOTS = "//meta[contains('|robots|sluice|', concat('|', translate(@name, 'ROBTSLUICE', 'robtsluice'), '|'))]/@content"
_CANONICAL = "//link[translate(@rel, 'CANOIL', 'canoil') = 'canonical']/@href"
_SHORT_PAGE = 1_000  # characters, not counting elements that are marked as navigation
_MORE = 1.3  # times the length of the main text
_SHORT = 250  # characters; a shorter main text is compared with the whole page
_OBJECT = re.compile(r"\s*+(?:[\w$.\[\]\"' ]{1,100}=\s*+)?[{\[]")
_SENTENCE = re.compile(r"[^\W\d_] ++[^\W\d_]|[\u2e80-\ua4cf]{8}")
# Kinds of JSON-LD that say nothing of what the page is about
_OF_THE_SITE = ("WebSite", "WebPage", "BreadcrumbList", "Organization", "SearchAction")


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the page's main text as Markdown, with title, description, language and canonical address.

    Raises:
        Rejected: code `unsupported`: the data is not text; `empty`: there is nothing to parse.
    """
    source = decoded(data, hints, declared=declared_charset(data)).encode("utf-8", "replace")
    tree, cut = tree_of(source)
    if tree is None:
        raise Rejected(f"{hints.name} holds no readable text", "empty")
    title = one_line(_first(tree, "//title[not(ancestor::svg)]/text()")) or one_line(_first(tree, "//h1//text()"))
    url = _first(tree, _CANONICAL)
    language = _first(tree, "/html/@lang | /html/@*[local-name() = 'xml:lang']")
    created = _first(tree, "//meta[@property='article:published_time' or @itemprop='datePublished']/@content")
    modified = _first(tree, "//meta[@property='article:modified_time' or @itemprop='dateModified']/@content")
    links = _links(tree) if hints.links else ()  # before trafilatura prunes the tree
    description = _first(tree, "//meta[@name='description' or @property='og:description']/@content")
    about = {name: list(dict.fromkeys(_all(tree, path))) for name, path in _ABOUT.items()}  # often repeated
    said = list(_said(tree))
    authors: Any = next((each["author"] for each in said if each.get("author")), [])
    about["author"] = about["author"] or (authors if isinstance(authors, list) else [authors])
    robots = [content[:_ROBOTS_CHARACTERS] for content in dict.fromkeys(_all(tree, _ROBOTS))]
    fetched = hints.filename if ADDRESS.fullmatch(hints.filename or "") else ""  # a page is named by its address
    text = _text(source, tree, _first(tree, "//base/@href") or url or fetched or "") or cleaned(
        "\n\n".join(chain.from_iterable(record(each) for each in said if each.get("@type") not in _OF_THE_SITE))
        or "\n\n".join(dict.fromkeys(_of_program(tree)))
    )
    if cut:  # the tree ends where the parser gave up; the flat text does not
        text = max(text, cleaned(flat_text(source)), key=len)
    return Extraction(
        text=text,
        title=title,
        description=one_line(description, 2000),
        language=one_line(language, 35),
        created=one_line(created, 35),
        modified=one_line(modified, 35),
        url=url.strip() if url and re.match(r"\s*https?://\S{1,2000}\s*$", url, re.IGNORECASE) else None,
        notes=(_FLAT,) if cut else (),
        file=about,
        links=links,
        robots=tuple(robots[:_MOST_ROBOTS]),
    )


def _said(tree: "HtmlElement") -> Iterator[dict[str, Any]]:
    """Yield the objects that the page has for search engines, as JSON (schema.org)."""
    ahead = [*_objects(tree, "//script[@type='application/ld+json']/text()")]
    for each in ahead:  # grows
        inner = each.get("@graph") if isinstance(each, dict) else each
        ahead += inner if isinstance(inner, list) else []
        if isinstance(each, dict) and inner is None:
            yield each


def _objects(tree: "HtmlElement", path: str) -> Iterator[Any]:
    """Yield the JSON with which scripts begin, or that they give a name."""
    for source in islice(_all(tree, path), _MOST_ROBOTS):
        if begins := _OBJECT.match(source):
            with suppress(ValueError, RecursionError):
                yield json.JSONDecoder().raw_decode(source, begins.end() - 1)[0]


def _of_program(tree: "HtmlElement") -> Iterator[str]:
    """Yield the texts of more than a word in the objects from which a page's program is to make the page."""
    ahead = [*_objects(tree, "//script/text()")][::-1]
    while ahead:
        each = ahead.pop()
        if isinstance(each, str) and _SENTENCE.search(each):
            yield part_text(each) or each
        elif isinstance(each, dict | list):
            ahead += reversed(each.values() if isinstance(each, dict) else each)


def _first(tree: "HtmlElement", path: str) -> str | None:
    return next((item for item in _all(tree, path) if item.strip()), None)


def _all(tree: "HtmlElement", path: str) -> tuple[str, ...]:
    found = tree.xpath(path)
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _links(tree: "HtmlElement") -> tuple[str, ...]:
    """Return the targets of the page's links, resolved by its `base` element; `nofollow` links are left out."""
    base = _first(tree, "//base/@href") or ""
    followed = (each for each in tree.iterfind(".//a[@href]") if "nofollow" not in (each.get("rel") or "").lower())
    found = dict.fromkeys(each.get("href") or "" for each in followed)
    targets = (joined(base, link) for link in islice(found, limits.MOST_LINKS))
    return tuple(link for link in targets if len(link) <= LONGEST_URL)


def _text(source: bytes, tree: "HtmlElement", base: str) -> str:
    main = _main_text(tree, favor_precision=True)
    if len(main) < _ENOUGH:
        # On short pages the first try may drop the main text itself: a try without that preference is compared with it.
        second = _main_text(tree_of(source)[0], favor_precision=False)
        more = len(second) / max(1, len(main))
        torn = "\n| " in main and "\n| " not in second  # all words of the page, those of tables, too
        better = more > _MUCH_MORE or (1 / _ALIKE <= more <= _ALIKE and not torn)
        first, main = main, second if better and "\n" in second else main  # else all words of the page in one line
        if len(main) < _SHORT_PAGE and (text := _of_short_page(source, base, first, main)):
            return text
    page = tree_of(source)[0] if main else None
    return "" if page is None else cleaned(text_of(page, main, base))


def _of_short_page(source: bytes, base: str, first: str, main: str) -> str:
    """Return the text of a short page if trafilatura has missed most of it, else ''."""
    page = tree_of(source)[0]
    if page is None:
        return ""
    present(page, base)
    # In the part that the page itself names as its main one, trafilatura may take one of several articles for all.
    named = cleaned(main_text(page))
    if len(named) < _SHORT_PAGE and _said_once(named) > _MORE * _said_once(main):
        return named
    if len(main) >= _SHORT:
        return ""
    text = cleaned(shown_text(page))
    if 2 * len(named) >= len(text) and _said_once(named) >= _said_once(first):
        return named
    # A short article on a page of usual size is right. A page that is short as a whole has no navigation to remove.
    return text if len(text) < _SHORT_PAGE or len(text) > 3 * len(main) or not main else ""


def _said_once(text: str) -> int:
    """Return the characters of the lines; of equal ones trafilatura keeps one."""
    return sum(map(len, set(text.splitlines())))


def _main_text(tree: "HtmlElement | None", *, favor_precision: bool) -> str:
    """Return the main text as trafilatura writes it, which changes the tree."""
    import trafilatura  # imported here, because only parser processes should load it

    try:
        text = trafilatura.extract(
            tree,
            output_format="txt",
            include_comments=False,
            with_metadata=False,
            favor_precision=favor_precision,
        )
    except Exception:  # noqa: BLE001 - RecursionError on deep pages, and others: the whole page is used instead
        text = ""
    return cleaned(text or "")


FORMAT = Format(
    document_type="html",
    media_types=frozenset({"text/html", "application/xhtml+xml"}),
    suffixes=frozenset({".html", ".htm", ".xhtml"}),
    sniff=lambda data: _PAGE.match(data.removeprefix(b"\xef\xbb\xbf"), 0, 4 * _HEAD) is not None,
    read=read,
    libraries=("chardet", "lxml", "trafilatura"),
    revision=19,
)
