"""HTML: the main text as Markdown by trafilatura, or the whole page where that finds next to nothing."""

import importlib
import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.format import Extraction, Format, Hints
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_HEAD = 1024  # bytes in which a page says what it is
_PAGE = re.compile(
    rb"\s*+(?:<\?xml[^>]*+>\s*+|<!--.*?-->\s*+)*+<(?:!doctype\s++html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL
)
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)

_MOST_LINKS = 10_000
_SHORT = 250  # characters; a main text below is held against the page
_UNSEEN = frozenset(
    {"script", "style", "noscript", "template", "head", "svg", "math", "iframe", "object", "select", "button", "form"}
)
_AROUND = frozenset({"nav", "header", "footer", "aside"})
# fmt: off
_INLINE = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img", "ins",
    "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup",
    "td", "th", "time", "tt", "u", "var", "wbr",
})
# fmt: on
_PREFIXES = {"td": " | ", "th": " | ", "br": " "}


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the page's main text as Markdown, with title, description, language and canonical address.

    Raises:
        Rejected: code `unsupported` when it is no text, `empty` when there is nothing to parse.
    """
    source = decoded(data, hints, declared=_declared(data)).encode("utf-8", "replace")
    tree, cut = _tree(source)
    if tree is None:
        raise Rejected(f"{hints.name} holds no readable text", "empty")
    title = one_line(tree.findtext(".//title")) or one_line(_first(tree, "//h1//text()"))
    url = _first(tree, "//link[translate(@rel, 'CANOIL', 'canoil') = 'canonical']/@href")
    language = _first(tree, "/html/@lang")
    links = _links(tree) if hints.links else ()  # before trafilatura prunes the tree
    description = _first(tree, "//meta[@name='description' or @property='og:description']/@content")
    text = _text(source, tree)
    if cut and not text:
        raise Rejected(f"{hints.name} is damaged: its elements are nested too deeply", "damaged")
    return Extraction(
        text=text,
        document_type="html",
        title=title,
        description=one_line(description, 2000),
        language=one_line(language, 35),
        url=url.strip() if url and re.match(r"\s*https?://\S{1,2000}\s*$", url, re.IGNORECASE) else None,
        note="the page is nested too deeply; what comes after could not be read" if cut else None,
        links=links,
    )


def _declared(data: bytes) -> str | None:
    match = _META_CHARSET.search(data, 0, 4 * _HEAD) or _XML_ENCODING.match(data, 0, _HEAD)
    return match[1].decode("ascii") if match else None


def _tree(source: bytes) -> "tuple[HtmlElement | None, bool]":
    """Return the tree, and whether libxml2's own limits cut it off."""
    from lxml import etree, html  # noqa: PLC0415 - heavy libraries are for the parser processes alone

    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False, remove_comments=True, remove_pis=True)
    try:
        tree = html.document_fromstring(source, parser=parser)
    except (etree.LxmlError, ValueError):
        return None, False
    return tree, any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log)


def _first(tree: "HtmlElement", path: str) -> str | None:
    found = tree.xpath(path)
    return next((str(item) for item in found if str(item).strip()), None) if isinstance(found, list) else None


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
    main = cleaned(_main_text(tree))
    if len(main) >= _SHORT:
        return main
    fresh, _ = _tree(source)  # trafilatura prunes the tree it is given
    page = cleaned(_page_text(fresh)) if fresh is not None else ""
    # A short article in a small frame is what it is; a few words of a long page are a miss.
    return page if len(page) > max(3 * len(main), _SHORT) or not main else main


def _main_text(tree: "HtmlElement") -> str:
    import trafilatura  # noqa: PLC0415 - as above

    try:
        return trafilatura.extract(tree, output_format="markdown", include_comments=False, with_metadata=False) or ""
    except Exception:  # noqa: BLE001 - RecursionError on deep pages and whatever else: the whole page stands in
        return ""


def _page_text(tree: "HtmlElement") -> str:
    """Return all text of the page in blocks, as Markdown; what wraps the content only if nothing else is there."""
    return _blocks(tree, _UNSEEN | _AROUND) or _blocks(tree, _UNSEEN)


def _blocks(tree: "HtmlElement", skipped: frozenset[str]) -> str:
    from lxml import etree  # noqa: PLC0415 - as above

    page = _Page()
    walk = etree.iterwalk(tree, events=("start", "end"))
    for event, element in walk:
        tag = element.tag
        if event == "end":
            if tag not in _INLINE:
                page.close()
            page.add(element.tail)
        elif tag in skipped or _hidden(element):
            walk.skip_subtree()
        elif tag == "pre":
            page.add_code("".join(element.itertext()))
            walk.skip_subtree()
        else:
            if tag not in _INLINE:
                page.open(tag)
            page.add(_PREFIXES.get(tag))
            page.add(element.text)
    return page.text()


class _Page:
    """A page's blocks in Markdown, as its elements open and close."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._words: list[str] = []  # of the block at hand
        self._mark = ""

    def add(self, words: str | None) -> None:
        if words:
            self._words.append(words)

    def add_code(self, code: str) -> None:
        self.close()
        if code.strip():
            self._blocks.append("\n\n```\n" + code.strip("\n") + "\n```")

    def open(self, tag: str) -> None:
        # A paragraph that begins a list item is that item.
        item = tag == "li" or (self._mark == "- " and not "".join(self._words).strip())
        self.close()
        heading = len(tag) == 2 and tag[0] == "h" and tag[1] in "123456"
        self._mark = "#" * int(tag[1]) + " " if heading else "- " if item else ""

    def close(self) -> None:
        line = " ".join("".join(self._words).split())
        if line:
            tight = self._mark == "- " and bool(self._blocks) and self._blocks[-1].lstrip("\n").startswith("- ")
            self._blocks.append(("\n" if tight else "\n\n") + self._mark + line)
        self._words.clear()
        self._mark = ""

    def text(self) -> str:
        self.close()
        return "".join(self._blocks)


def _hidden(element: "HtmlElement") -> bool:
    style = "".join((element.get("style") or "").lower().split())
    return element.get("hidden") is not None or "display:none" in style or "visibility:hidden" in style


def _warm() -> None:
    importlib.import_module("trafilatura")


FORMAT = Format(
    document_type="html",
    media_types=frozenset({"text/html", "application/xhtml+xml"}),
    suffixes=frozenset({".html", ".htm", ".xhtml"}),
    sniff=lambda data: _PAGE.match(data.removeprefix(b"\xef\xbb\xbf"), 0, 4 * _HEAD) is not None,
    read=read,
    warm=_warm,
    libraries=("charset-normalizer", "lxml", "trafilatura"),
)
