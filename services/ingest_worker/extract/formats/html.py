"""HTML: the main text as Markdown by trafilatura, or the whole page where that finds next to nothing."""

import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports
from services.ingest_worker.extract.page import declared_charset, flat_text, page_text, tree_of
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_HEAD = 1024  # bytes in which a page says what it is
_PAGE = re.compile(
    rb"\s*+(?:<\?xml[^>]*+>\s*+|<!--.*?-->\s*+)*+<(?:!doctype\s++html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL
)
# By both measures of the evaluation sets better than either way alone: docs/adr/0031.
_ENOUGH = 2_000  # characters that precision finds, which are taken without a second look
_SHARE = 0.4  # of what the bolder look finds; precision that finds less has missed the text
_MOST_LINKS = 10_000
_ROBOTS = "//meta[contains('|robots|sluice|', concat('|', translate(@name, 'ROBTSLUICE', 'robtsluice'), '|'))]/@content"
_SHORT_PAGE = 1_000  # characters, without what says itself that it is navigation
_SHORT = 250  # characters; a main text below is held against the page


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the page's main text as Markdown, with title, description, language and canonical address.

    Raises:
        Rejected: code `unsupported` when it is no text, `empty` when there is nothing to parse.
    """
    source = decoded(data, hints, declared=declared_charset(data)).encode("utf-8", "replace")
    tree, cut = tree_of(source)
    if tree is None:
        raise Rejected(f"{hints.name} holds no readable text", "empty")
    title = one_line(tree.findtext(".//title")) or one_line(_first(tree, "//h1//text()"))
    url = _first(tree, "//link[translate(@rel, 'CANOIL', 'canoil') = 'canonical']/@href")
    language = _first(tree, "/html/@lang | /html/@*[local-name() = 'xml:lang']")
    created = _first(tree, "//meta[@property='article:published_time' or @itemprop='datePublished']/@content")
    modified = _first(tree, "//meta[@property='article:modified_time' or @itemprop='dateModified']/@content")
    links = _links(tree) if hints.links else ()  # before trafilatura prunes the tree
    description = _first(tree, "//meta[@name='description' or @property='og:description']/@content")
    robots = _all(tree, _ROBOTS)
    text = _text(source, tree)
    if cut:  # it ends where the parser gave up; without structure there is no depth
        text = max(text, cleaned(flat_text(source)), key=len)
    return Extraction(
        text=text,
        document_type="html",
        title=title,
        description=one_line(description, 2000),
        language=one_line(language, 35),
        created=one_line(created, 35),
        modified=one_line(modified, 35),
        url=url.strip() if url and re.match(r"\s*https?://\S{1,2000}\s*$", url, re.IGNORECASE) else None,
        note="its elements are nested too deeply, so the text has no structure" if cut else None,
        links=links,
        robots=robots,
    )


def _first(tree: "HtmlElement", path: str) -> str | None:
    return next((item for item in _all(tree, path) if item.strip()), None)


def _all(tree: "HtmlElement", path: str) -> tuple[str, ...]:
    found = tree.xpath(path)
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _links(tree: "HtmlElement") -> tuple[str, ...]:
    """Return where the page's links lead, relative to its own base; those it doesn't vouch for are left out."""
    base = _first(tree, "//base/@href") or ""
    found: dict[str, None] = {}
    for element in tree.iterfind(".//a[@href]"):
        if "nofollow" not in (element.get("rel") or "").lower():
            found[element.get("href") or ""] = None
            if len(found) == _MOST_LINKS:
                break
    return tuple(_joined(base, link) for link in found)


def _joined(base: str, link: str) -> str:
    try:
        return urljoin(base, link)
    except ValueError:
        return link  # no address at all, as its reader will find


def _text(source: bytes, tree: "HtmlElement") -> str:
    main = _main_text(tree, favor_precision=True)
    if len(main) >= _ENOUGH:
        return main
    # On short pages precision may take the text for an ornament: what a bolder look finds is held against it.
    bolder = _main_text(tree_of(source)[0], favor_precision=False)
    main = main if len(main) >= _SHARE * len(bolder) else bolder
    if len(main) >= _SHORT:
        return main
    page = cleaned(page_text(tree_of(source)[0]))
    # A short article in a small frame is what it is; of a page that is short itself nothing is a frame.
    return page if len(page) < _SHORT_PAGE or len(page) > 3 * len(main) or not main else main


def _main_text(tree: "HtmlElement | None", *, favor_precision: bool) -> str:
    """Return the main text as Markdown; trafilatura prunes the tree it is given."""
    import trafilatura  # for the parser processes alone

    try:
        text = trafilatura.extract(
            tree,
            output_format="markdown",
            include_comments=False,
            with_metadata=False,
            favor_precision=favor_precision,
        )
    except Exception:  # noqa: BLE001 - RecursionError on deep pages and whatever else: the whole page stands in
        return ""
    return cleaned(text or "")


FORMAT = Format(
    document_type="html",
    text_format="markdown",
    media_types=frozenset({"text/html", "application/xhtml+xml"}),
    suffixes=frozenset({".html", ".htm", ".xhtml"}),
    sniff=lambda data: _PAGE.match(data.removeprefix(b"\xef\xbb\xbf"), 0, 4 * _HEAD) is not None,
    read=read,
    warm=imports("trafilatura"),
    libraries=("chardet", "lxml", "trafilatura"),
)
