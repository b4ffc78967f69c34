"""Converts a whole web page to Markdown, for pages whose main text can't be found."""

import re
from collections import Counter
from html import unescape
from typing import TYPE_CHECKING

from services.ingest_worker.extract import limits
from services.ingest_worker.extract.html_tree import FORM, INLINE, NUMBER, drop_tracked, is_hidden, present, reshape
from services.ingest_worker.extract.page_region import keep
from services.ingest_worker.extract.rows import table

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_HEAD = 1024  # bytes in which a page declares its encoding
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*+=\s*+[\"']?\s*+([\w.:-]++)", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
_TABLE = re.compile(r"<(/?)table\b", re.IGNORECASE)
_PART = re.compile(r"</(?:div|h[1-6]|[ou]l|p|table)\s*+>", re.IGNORECASE)
_WRITTEN = re.compile(r"(?<=>)(?:\s|\\n)++(?=<)")  # line ends between tags
_OPENS = re.compile(r" {0,3}(?:<(?!/?table\b)[^<>]*+>[ \t]*+)*+<table\b", re.IGNORECASE)  # a block of HTML
_MOST_TABLES = 2_000  # of a text that are parsed
_FENCE = re.compile(r"[ \t]*+(`{3,}+(?!.*`)|~{3,}+)")
_MORE = r"(?:\s++[a-z][\w:-]*+=[^<>$]*+|\s++open)?\s*+/?>"  # attributes: a < b and c > d has none
# Code, then what HTML writes into Markdown
_MARKUP = re.compile(
    r"(?P<code>``[^\n]*?``|`[^`\n]*+`|(?:(?<=\n\n)|\A\n?)(?: {4}|\t)[^\n]*+(?:\n(?: {4}|\t)[^\n]*+)*+)"
    r"|(?P<comment><!--.*?(?:-->|\Z))"
    r"|^%% [^\n%]*+%%[ \t]*+$|^%%[ \t]*+\n(?:(?!%%)[^\n]*+\n)*+%%[ \t]*+$"  # remarks of Obsidian
    r"|^ {0,3}<h(?P<level>[1-6])\b[^<>]*+>(?P<title>.{0,300}?)</h(?P=level)\s*+>"
    r"|<a\s[^<>]*?\bhref=[\"'](?P<address>[^\"'<>]*+)[\"'][^<>]*+>(?P<words>.{0,300}?)</a\s*+>"
    rf"|<img\s(?:[^<>]*?\s)?alt=[\"'](?P<alt>[^\"'<>]*+)[\"'][^<>]*+>"
    r"|(?P<kind>\w<(?:a|(?P<tag>b|i|u|code)(?![^\n]{0,300}</(?P=tag)>))>)"  # List<a>
    rf"|<sup>(?=-?\d)(?P<power>)|</?(?P<block>br|center|details|div|p|summary){_MORE}"
    rf"|</?(?:a|b|code|em|font|i|img|kbd|picture|small|source|span|strong|su[bp]|u){_MORE}"
    r"|&(?!lt;|gt;)(?P<character>[a-z]{2,8}|\#\d{2,6});",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_ALT = re.compile(r"<img\s(?:[^<>]*?\s)?alt=[\"']([^\"'<>]*+)[\"'][^<>]*+>", re.IGNORECASE)
_AUTOLINK = re.compile(r"<((?:https?:|[^\s<>@]*+@)[^\s<>]*+)>")
# fmt: off
_UNSEEN = frozenset({
    "audio", "button", "canvas", "form", "head", "iframe", "noscript", "object", "script", "select", "style", "svg",
    "template", "video",
})
# fmt: on
_SAYS_MORE = 200  # characters; what is for browsers without scripts mostly says that they are needed
_ITEM = re.compile(r"\s*+(?:-|\d++\.)(?: |\Z)")
# Of UTF-8; lxml parses pages with them, and then refuses to write what it has read.
_NO_XML = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]"
    rb"|&#(?:0{0,5}(?:[0-8]|1[124-9]|2[0-9]|3[01])|[xX]0{0,5}(?:[0-8b-cB-Ce-fE-F]|1[0-9a-fA-F]))(?![0-9a-fA-F]);?"
)
# Tags, and elements whose text isn't shown: of a page without a tree
_FLAT = re.compile(
    r"<(script|style|title|template|noscript)\b.*?(?:</\1\b[^<>]*+>|\Z)|<!--.*?(?:-->|\Z)"
    r"|</?[a-z!?](?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+'|[\"'])*+>?",
    re.DOTALL | re.IGNORECASE,
)
_TAG = re.compile(r"<(/?+)([a-z][\w:.-]*+)([^<>]*+)>?", re.IGNORECASE)
_BEFORE = re.compile(r"(?:<[?!][^<>]*+>\s*+)*+")  # a document
_VOID = frozenset({"br", "hr", "img", "wbr"})
_BESIDE_BLOCKS = re.compile(r"</?p\b[^<>]*+>", re.IGNORECASE)
_LINE_END = re.compile(r"</?br\b[^<>]*+>", re.IGNORECASE)
_PLAIN = frozenset({"b", "br", "em", "i", "p", "strong"})
_NOTES = frozenset({"en-media", "en-note", "en-todo", "main"})  # of Evernote, and what lxml doesn't know
_BREAK = "\v"  # an intended line break; line ends of the source are white space
_CELL = "\f"  # begins a cell of a table that only arranges what is in it
_BREAKS = {"br": _BREAK, "td": _CELL, "th": _CELL}
_LISTS = frozenset({"ul", "ol"})
_DEEPEST = 8  # levels of lists that are indented
_AROUND = frozenset({"nav", "header", "footer", "aside"})
_BLOCKS = frozenset(
    {"h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "pre", "section", "article", "blockquote", "form"}
)
_INLINE = INLINE | {"script", "style", "td", "th"}


def declared_charset(data: bytes) -> str | None:
    """Return the encoding that the page declares, or None."""
    match = _META_CHARSET.search(data, 0, 4 * _HEAD) or _XML_ENCODING.match(data, 0, _HEAD)
    return match[1].decode("ascii") if match else None


def tree_of(source: bytes) -> "tuple[HtmlElement | None, bool]":
    """Return the tree, with what the page shows on demand, and whether libxml2's limits truncated it."""
    limits.check_light()
    from lxml import etree, html  # imported here, because only parser processes should load heavy libraries

    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False, remove_comments=True, remove_pis=True)
    try:
        tree = html.document_fromstring(_NO_XML.sub(b" ", source), parser=parser)
    except (etree.LxmlError, ValueError):
        return None, False
    drop_tracked(tree)
    reshape(tree)
    return tree, any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log)


def page_text(source: str | bytes, *, whole: bool = False, base: str | None = None) -> str:
    """Return `shown_text` of the page; with `whole`, '' for a page of which only a part can be parsed."""
    data = source if isinstance(source, bytes) else source.encode("utf-8", "replace")
    tree, cut = tree_of(data)
    if tree is None or (cut and whole):
        return ""
    present(tree, next((own.get("href") for own in tree.iter("base")), None) or base)
    return shown_text(tree)


def text_of(tree: "HtmlElement", main: str, base: str) -> str:
    """Return what the page shows of its main text as Markdown, with links relative to `base`; a long page is whole."""
    skipped = _UNSEEN - {"button", "form"} if keep(tree, main, _UNSEEN) else _UNSEEN | _AROUND
    present(tree, base)
    return _blocks(tree, skipped)


def main_text(tree: "HtmlElement") -> str:
    """Return the text of the part that the page names as its main one as Markdown; '' if it names none or several.

    The tree is one that `present` has written to.
    """
    named = tree.xpath("//main | //*[@role = 'main']")
    return _blocks(named[0], _UNSEEN | _AROUND) if len(named) == 1 else ""


def shown_text(tree: "HtmlElement") -> str:
    """Return all text of the page as Markdown; navigation, headers and footers only if there is nothing else, then
    what is for browsers without scripts, if it is more than a remark. The tree is one that `present` has written to.
    """
    if text := _blocks(tree, _UNSEEN | _AROUND) or _blocks(tree, _UNSEEN):
        return text
    text = _blocks(tree, _UNSEEN - {"noscript"})
    return text if len(text) > _SAYS_MORE else ""


def part_text(source: str, *, within: bool = False) -> str:
    """Return the text of a part of a page that is written as text; '' for a text in which tags are only named.

    A part begins and ends with a tag, unless its tags are `within`, closes each that it opens, and has HTML's only.
    """
    source = source.strip()
    if not within and not (source.startswith("<") and source.endswith(">")):
        return ""
    source = _BEFORE.sub("", source, count=1)
    tags = list(_TAG.finditer(source))
    ends = bool(tags) and (within or (not tags[0].start() and tags[-1].end() == len(source)))
    if not ends or not (within or tags[-1][1] or tags[-1][2].lower() in _VOID):
        return ""
    from lxml.html import defs  # as above

    names = {each[2].lower() for each in tags}
    opened = Counter[str]()
    for each in tags:
        if not each[3].endswith("/"):
            opened[each[2].lower()] += -1 if each[1] else 1
    if names <= _VOID or not names <= defs.tags | _NOTES or any(opened[name] for name in names - _VOID):
        return ""
    if names <= _PLAIN and source.count("<") == len(tags) and not any(each[3].strip(" /") for each in tags):
        return _plain(source)  # a tree takes most of a millisecond, and a table has many cells
    return page_text(source).strip()


def _plain(source: str) -> str:
    """Return what `page_text` does of paragraphs without attributes and lists."""
    blocks: list[str] = []
    for block in _BESIDE_BLOCKS.split(source):
        lines = (" ".join(unescape(_TAG.sub("", line)).split()) for line in _LINE_END.split(block))
        blocks.append("\n".join(filter(None, lines)))
    return "\n\n".join(filter(None, blocks))


def cell_text(text: str) -> str:
    """Return what a cell says that holds a part of a page, as in what shops export; any other text as it is."""
    return (part_text(_WRITTEN.sub(" ", text)) if _PART.search(text) else "") or text


def with_tables(markdown: str) -> str:
    """Return Markdown with each table that is written in HTML as one of Markdown's; those in code stay."""
    if not _TABLE.search(markdown):
        return markdown
    found: list[str] = []
    held: list[str] = []  # lines of a table, until its end
    depth, fence, left = 0, "", _MOST_TABLES
    for line in markdown.split("\n"):
        fence = fence_after(line, fence)
        if held or (not fence and left and _OPENS.match(line)):
            held.append(line)
            depth += sum(1 - 2 * bool(tag[1]) for tag in _TABLE.finditer(line))
            if depth <= 0:
                found.append(_as_table("\n".join(held)))
                held, depth, left = [], 0, left - 1
        else:
            found.append(line)
    return "\n".join([*found, *held]).strip()


def without_tags(text: str) -> str:
    """Return Markdown without comments and tags of HTML, but for tables, code, and a comment without an end."""
    return _MARKUP.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    if found["code"] is not None or found["kind"] or (found["comment"] and not found[0].endswith("-->")):
        return found[0]
    shown = _ALT.sub(r"\1", found["title"] or found["words"] or "")
    said = " ".join((without_tags(shown) or found["alt"] or "").split())
    if found["level"]:
        return f"\n{'#' * int(found['level'])} {said}\n" if said else ""
    if said and found["address"]:
        return f"[{said}]({found['address']})"
    if found["character"]:
        return unescape(found[0])
    return said or ("^" if found["power"] is not None else " " if found["block"] else "")


def fence_after(line: str, fence: str) -> str:
    """Return the fence of the code that goes on behind the line, or ''; `fence` is that before the line."""
    found = _FENCE.match(line)
    if found is None or (fence and not (found[1].startswith(fence) and found.end() == len(line.rstrip()))):
        return fence
    return "" if fence else found[1]


def _as_table(source: str) -> str:
    if "``" in source or any("<" in code for code in source.split("`")[1::2]):
        return source
    text = page_text(_AUTOLINK.sub(r"\1", source), whole=True)
    return f"\n{text.strip()}\n" if "| --- |" in text else source  # else it only arranges what is in it


def flat_text(source: bytes) -> str:
    """Return the text between the tags, for a page that can't be parsed into a tree."""
    flat = _FLAT.sub(" ", source.decode("utf-8", "replace"))
    return " ".join(unescape(flat).split())


def _blocks(tree: "HtmlElement", skipped: frozenset[str]) -> str:
    from lxml import etree

    page = _Page()
    walk = etree.iterwalk(tree, events=("start", "end"))
    for event, element in walk:
        tag = element.tag
        if event == "end":
            if tag not in _INLINE:
                page.close()
            page.depth -= tag in _LISTS
            page.add(element.tail)
        elif tag in skipped or is_hidden(element):
            walk.skip_subtree()
        elif tag == "pre":
            code = "".join(element.itertext())
            page.add_block("```\n" + code.strip("\n") + "\n```" if code.strip() else "")
            walk.skip_subtree()
        elif tag == "table" and (rows := _rows(element)):
            page.add_block(table(rows, form=element.get(FORM) is not None))
            walk.skip_subtree()
        else:
            if tag not in _INLINE:
                page.open(tag, element.get(NUMBER))
            page.depth += tag in _LISTS
            page.add(_BREAKS.get(tag))
            page.add(element.text)
    return page.text()


class _Page:
    """Builds a page's Markdown while its elements open and close."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._words: list[str] = []  # of the current block
        self._mark = ""
        self._item = ""  # the mark of the list's item that begins here
        self.depth = 0  # of lists

    def add(self, words: str | None) -> None:
        if words:
            self._words.append(words)

    def add_block(self, block: str) -> None:
        self.close()
        if block:
            self._blocks.append("\n\n" + block)

    def open(self, tag: str, number: str | None = None) -> None:
        # A paragraph at the start of a list item continues the item.
        item = (number or "-") if tag == "li" else "" if "".join(self._words).strip() else self._item
        self.close(bare=tag == "li" and self._item > "-")
        self._mark, self._item = f"{'  ' * min(self.depth - 1, _DEEPEST)}{item} " if item else "", item
        if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            self._mark = f"{'#' * int(tag[1])} {item.lstrip('- ')}{' ' * (item > '-')}"

    def close(self, *, bare: bool = False) -> None:  # a number that another list follows
        lines = map(_beside, "".join(self._words).split(_BREAK))
        line = ("\n" if not self._mark else " ").join(filter(None, lines))
        if line or bare:
            tight = bool(self._item and self._blocks) and _ITEM.match(self._blocks[-1]) is not None
            self._blocks.append(("\n" if tight else "\n\n") + (self._mark + line).rstrip())
        self._words.clear()
        self._mark = self._item = ""

    def text(self) -> str:
        self.close()
        return "".join(self._blocks)


def _beside(line: str) -> str:
    """Return a line's cells with signs between them."""
    return " | ".join(filter(None, (" ".join(cell.split()) for cell in line.split(_CELL))))


def _rows(element: "HtmlElement") -> list[list[str]]:
    """Return a table's cells; [] for a layout table, which has blocks or tables in its cells, or one cell per row."""
    named = any(sum(cell.tag == "th" for cell in row) > 1 for row in element.iter("tr"))
    arranges = not named and any(each.tag in _BLOCKS for each in element.iter())
    if arranges or next(element.iterfind(".//table"), None) is not None:
        return []
    for each in list(element.iterdescendants()):
        if each.tag in _UNSEEN or is_hidden(each):
            each.clear(keep_tail=True)
        elif each.tag == "br" or each.tag not in _INLINE:  # its words don't touch those beside it
            each.text, each.tail = f" {each.text or ''}", f" {each.tail or ''}"
    rows = [
        [" ".join("".join(cell.itertext()).split()) for cell in row if cell.tag in ("td", "th")]
        for row in element.iter("tr")
    ]
    return rows if max(map(len, rows), default=0) > 1 else []
