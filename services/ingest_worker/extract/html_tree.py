"""Rewrites a page's tree so that its text says what the page shows: numbers of lists, merged cells, code, notes."""

import re
from collections import Counter
from itertools import islice, pairwise, takewhile
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from services.ingest_worker.extract.archive import ADDRESS
from services.ingest_worker.extract.equations import equation
from services.ingest_worker.extract.markdown_writer import RAISED, counted
from services.ingest_worker.extract.rows import Cell, spread
from services.ingest_worker.extract.safe_xml import enclose, set_lines_apart, text_before, texts, whole, words
from services.ingest_worker.extract.symbols import in_font
from services.ingest_worker.extract.table_header import Covered, is_form
from shared.inputs.limits import LONGEST_URL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lxml.html import HtmlElement

_MOST: Final = 5_000  # list items, cells or forms of one page that are rewritten
_FEW: Final = 20
_MARK_OF_NOTE: Final = re.compile(r"[\[(]?+(?:\d{1,4}|[^\W\d_]{1,2}|[^\w\s]{1,2})[\])]?+")
_AROUND_MARK: Final = 3  # elements up to the note in which a link back stands
_NOTE: Final = re.compile(
    r"\b(?:note|warning|tip|caution|danger|important|admonition|callout|info|hint|notice|success)\b", re.IGNORECASE
)
_GUTTER: Final = re.compile(r"\b(?:linenos?|line-?numbers?|gutter|blob-num|rouge-gutter|ln)\b", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"\b(?:noteref|doc-noteref|footnote-?ref|fnref)\b", re.IGNORECASE)
_FOOTNOTES: Final = re.compile(r"\b(?:footnotes?|endnotes?|rearnotes?|doc-(?:foot|end)notes?)\b", re.IGNORECASE)
_POST: Final = re.compile(  # classes of which trafilatura takes the first
    r"\A(?:post|entry)\Z|(?:post|article)[-_]{0,2}(?:text|body|content|entry)|(?:entry|page|text|art)-content"
)
_OPENED: Final = (None, "region", "tabpanel")  # roles of texts that are shown on demand; others are menus and dialogs
HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_ANCHORS: Final = ("", "\u200b", "#", "¶", "§", "🔗")  # what links say that lead to their own heading
_PERMALINKS: Final = ("¶", "🔗")  # those that stand for nothing else, so also beside terms and captions
_BASE: Final = re.compile(r"\b(?:10|[^\W\d_]{1,3})\Z")  # what has powers: ten, units and variables
_RETURNS: Final = re.compile(r"back|reverse")  # in roles and classes of such links
_BACK: Final = ("↩", "↵", "⏎", "^")  # what links from a note say that lead back to its mark
_SHOWN_LATER: Final = re.compile(r"\bexpand(?:er|able)?-(?:content|container|body)\b")  # classes
_TICKED: Final = "//input[@type = 'checkbox' or @type = 'radio'][@disabled or ancestor::label]"
_TASKS: Final = (
    "//ul[contains(concat(' ', @class, ' '), ' inline-task-list ')]/li | //*[@class]"
    "[contains(concat(' ', @class, ' '), ' checkbox-on ') or contains(concat(' ', @class, ' '), ' checkbox-off ')]"
)
_FILLED: Final = ("date", "datetime-local", "email", "month", "number", "tel", "text", "time", "url", "week")
# Classes and ids of what stands around a text: ways to share it, and to others
_BESIDE: Final = re.compile(
    r"(?:\A|\s)(?:printfooter|catlinks|siteNotice|mw-jump-link|sharedaddy|jp-relatedposts|a2a_kit"
    r"|(?:[\w-]*-)?(?:bread-?crumbs?|share-(?:buttons|links)|social-(?:share|sharing)|comment-respond)"
    r"|(?:[\w-]*-)?(?:related-(?:posts|products|articles)|newsletter-(?:popup|modal|signup)|cookie-(?:notice|banner)))"
    r"(?:\Z|\s)"
)
_WORD: Final = re.compile(r"[^\W\d_]{2}")
_DRAWINGS: Final = (
    "//svg[not(parent::li)][not(ancestor::*"
    "[contains('|a|button|nav|svg|p|td|th|span|label|summary|h1|h2|h3|h4|h5|h6|', concat('|', name(), '|'))])]"
)
_GLUED: Final = re.compile(r"(?![\u2e80-\ua4cf])[^\W_]")  # a letter or digit that would touch a time
_PART: Final = 3  # of a page's words that such an element has at most
_MAIN: Final = frozenset({"html", "body", "main", "article"})
# fmt: off
INLINE: Final = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img",
    "input", "ins", "kbd", "label", "mark", "q", "rb", "rp", "rt", "rtc", "ruby", "s", "samp", "small", "span",
    "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
})
_WITHIN: Final = frozenset({
    "p", "a", "abbr", "b", "br", "cite", "code", "em", "i", "kbd", "mark", "samp", "small", "span", "strong",
    "sub", "sup", "time", "u", "var",
})
# fmt: on
_HOLDERS: Final = ("body", "div", "section", "article", "main", "center")
_APART: Final = ("hr", "p", "table", "ul", "ol", "pre", *HEADINGS)
_STARTS: Final = frozenset({"p", "div", "section", "article", *HEADINGS})  # with which an item may start
_LINES: Final = ("div", "li", "p", "tr")  # of code
_ROLES: Final = {"row": "tr", "cell": "td", "gridcell": "td", "columnheader": "th", "rowheader": "th"}
_MARK_OF_ITEM: Final = re.compile(r"\(?(?:\d{1,3}|[^\W\d_]{1,2}|[ivx]{1,4})[.)]|[•–-]")  # which is no term
_STYLE: Final = re.compile(r"list-style(?:-type)?\s*+:\s*+(lower|upper)-(alpha|latin|roman)", re.IGNORECASE)
NUMBER: Final = "sluice-number"  # the attribute with what an item of a list begins with
FORM: Final = "sluice-form"  # the attribute of a table without a header
_SIGNS: Final = re.compile(
    r"(?:font-family\s*+:|\Aface:)\s*+[\"']?(symbol|wingdings(?: 2)?)[\"']?\s*+(?:[,;]|\Z)", re.IGNORECASE
)
_WORD_OF_CLASS: Final = re.compile(r"[^\W\d_]{3}")  # else a program made it
_ENDS_PART: Final = re.compile(r"(?![\u2e80-\ua4cf])[^\W_]|[:☐☑☒]")
NAMED: Final = "named"  # the class of a text that nothing else names
RELATIVE: Final = re.compile(r"(?:[/.]|[\w%-]{1,100}[./])[^\s()<>\[\]]{0,2000}")
_CDATA: Final = re.compile(r"% <!\[CDATA\[|%? ?\]\]>")  # around TeX in a script
_NUMBERS: Final = re.compile(r"(?=\s*+\d)[\d\s]++")


def reshape(tree: "HtmlElement") -> None:
    """Show in the tree what a page shows of its own accord or on demand, in time linear to its size."""
    _link_panels(tree)
    _keep_opened(tree)
    _drop_beside(tree)
    for around in islice(tree.xpath("//div[@role = 'navigation' or @role = 'contentinfo']"), _MOST):
        around.tag = "nav"
    _drop_anchors(tree)
    for hidden in list(islice(tree.iterfind(".//*[@hidden]"), _MOST)):
        if hidden.get("hidden") != "until-found" and hidden.tag not in _MAIN:
            hidden.drop_tree()
    _move_captions(tree)
    _wrap_bare(tree)
    _name_panels(tree)
    _write_tables(tree)
    _write_drawings(tree)
    _write_equations(tree)
    _show_ticks(tree)
    _keep_framed(tree)
    _find_code(tree)
    _unwrap_forms(tree)
    _unwrap_layout(tree)
    _unwrap_items(tree)
    _join_posts(tree)
    notes = _links_of_notes(tree)
    _name_text(tree, notes)
    _keep_asides(tree)
    _mark_raised(tree, notes)
    for link in islice(tree.xpath("//a[starts-with(@href, '#')][../text()[normalize-space()]]"), _MOST):
        link.tag = "span"


def _keep_framed(tree: "HtmlElement") -> None:
    """Keep tables in an article's head, and who said a quote: trafilatura drops heads and feet."""
    for head in list(islice(tree.iterfind(".//article//header"), _MOST)):
        if next(head.iter("table"), None) is not None:
            head.tag = "div"
    for foot in list(islice(tree.iterfind(".//blockquote//footer"), _MOST)):
        foot.tag = _block(foot)
        foot.attrib.clear()


def _find_code(tree: "HtmlElement") -> None:
    """Make code of what only its class names so, without the numbers of lines."""
    for shown in islice(tree.xpath("//div[@class = 'fragment'][.//div[@class = 'line']]"), _MOST):  # of Doxygen
        shown.tag = "pre"
    for span in list(islice(tree.iterfind(".//pre//span[@class]"), _MOST)):
        if span.getparent() is not None and _GUTTER.search(span.get("class") or ""):
            span.drop_tree()


def present(tree: "HtmlElement", base: str | None) -> None:
    """Write into the tree's text what only its tags say, in time linear to its size: addresses, numbers, merged cells.

    With a `base`, which may be '', links are joined with it and written as Markdown's.
    """
    _write_addresses(tree, base)
    _show_signs(tree)
    _bracket_readings(tree)
    _part_fields(tree)
    _part_times(tree)
    _lift_captions(tree)
    _drop_groups(tree)
    _shape_tables(tree)
    _number_items(tree)
    _join_terms(tree)
    _mark_code(tree)


def _show_signs(tree: "HtmlElement") -> None:
    """Write what symbol fonts show for letters, and drop the numbers of pages of print."""
    for drawn in islice(tree.xpath("//*[@style or @face]"), _MOST):
        if font := _SIGNS.search(drawn.get("style") or f"face:{drawn.get('face')}"):
            drawn.text = in_font(drawn.text or "", font[1])
    for page in list(
        islice(tree.xpath("//*[@role = 'doc-pagebreak' or @*[name() = 'epub:type'] = 'pagebreak']"), _MOST)
    ):
        page.drop_tree()


def _drop_beside(tree: "HtmlElement") -> None:
    """Drop parts whose names say that they are no part of the text, if they are few of the page's words; none is a
    heading, or has the page's.
    """
    found: list[HtmlElement] = []
    for each in islice(tree.xpath("//*[@class or @id]"), _MOST):
        named = any(_BESIDE.search(each.get(name) or "") for name in ("class", "id"))
        if named and each.tag not in (*_MAIN, *HEADINGS) and next(each.iter("h1"), None) is None:
            found.append(each)
    inner = set[Any](found)
    outer = [each for each in found if inner.isdisjoint(each.iterancestors())]
    if _PART * sum(len(words(each)) for each in outer) <= len(words(tree)):
        for each in outer:
            each.drop_tree()


def _write_tables(tree: "HtmlElement") -> None:
    """Make tables of what only its roles name so."""
    found = tree.xpath("//*[@role = 'table' or @role = 'grid'][.//*[@role = 'columnheader']]")
    for table in islice(found, _MOST):
        if table.find(".//tr") is not None or table.tag in ("table", "body"):
            continue
        table.tag = "table"
        for each in list(table.iterdescendants()):
            each.tag = _ROLES.get(each.get("role") or "", each.tag)
        for row in list(table.iter("tr")):
            around = list(row.iterancestors())
            for each in around[: around.index(table)]:
                each.drop_tag()


def _wrap_bare(tree: "HtmlElement") -> None:
    """Make a paragraph of a text that stands between blocks with nothing around it: trafilatura drops it."""
    for block in list(islice(tree.iter(*_APART), _MOST)):
        around = block.getparent()
        if not (block.tail or "").strip() or around is None or around.tag not in _HOLDERS:
            continue
        text = around.makeelement("p")
        text.text, block.tail = block.tail, None
        text.extend([*takewhile(lambda each: each.tag in INLINE, block.itersiblings())])
        block.addnext(text)


def _drop_groups(tree: "HtmlElement") -> None:
    """Put a table's rows right into it, those of its foot at its end."""
    for cell in list(islice(tree.iterfind(".//tr/*[@rowspan='0']"), _FEW)):  # down to the end of its group
        cell.set("rowspan", str(1 + sum(1 for _ in islice(next(cell.iterancestors()).itersiblings("tr"), _MOST))))
    for group in list(islice(tree.iter("thead", "tbody", "tfoot"), _MOST)):
        if group.tag == "tfoot" and (around := group.getparent()) is not None and around.tag == "table":
            around.append(group)  # it may stand before the rows
        group.drop_tag()


def _shape_tables(tree: "HtmlElement") -> None:
    """Write merged cells and lists in cells into each row, and mark forms, which have no header."""
    for table in list(islice(tree.iter("table"), _MOST)):
        _flatten_tables(table)
        if not _become_code(table) and next(table.iterdescendants("table"), None) is None:
            _flatten_lists(table)
            rows = [[*row.iterchildren("td", "th")] for row in islice(table.iter("tr"), _MOST)]
            beside = all(len(row) > 1 and row[0].tag == "th" and row[1].tag == "td" for row in rows)
            unnamed = bool(rows) and any(cell.tag == "td" for cell in rows[0])
            said = [list(map(words, row)) for row in (rows if max(map(len, rows), default=0) > 3 else rows[:2])]
            if len(rows) > 1 and (beside or (unnamed and is_form(said))):
                table.set(FORM, "")
            _spread(table)


def _drop_anchors(tree: "HtmlElement") -> None:
    """Drop links of headings to themselves and to a wiki's editor, with which trafilatura drops the headings."""
    for link in list(islice(tree.iter("a"), _MOST)):
        if (link.get("href") or "").startswith("#") and words(link) in _ANCHORS:
            near = (link.getparent(), link.getprevious(), link.getnext())
            if words(link) in _PERMALINKS or any(each is not None and each.tag in HEADINGS for each in near):
                link.drop_tree()
    for editor in list(islice(tree.iterfind(".//span[@class='mw-editsection']"), _MOST)):
        editor.drop_tree()


def _part_times(tree: "HtmlElement") -> None:
    """Put blanks around times within a text that only their style sets apart."""
    for time in list(islice(tree.iter("time"), _MOST)):
        before, ahead, tail = time.getprevious(), text_before(time), time.tail or ""
        if _GLUED.match(ahead[-1:]) or (not ahead and before is not None and before.tag != "br"):
            time.text = f" {time.text or ''}"
        if _GLUED.match(tail) or (not tail and time.getnext() is not None):
            time.tail = f" {tail}"


def _write_drawings(tree: "HtmlElement") -> None:
    """Make a paragraph of the words of a drawing that are letters to be seen, unless it is in a link or a button."""
    for drawing in list(islice(tree.xpath(_DRAWINGS), _MOST)):
        unseen = {each for around in drawing.iter("defs", "symbol", "mask") for each in around.iter("text")}
        set_lines_apart(drawing)
        said = [words(each) for each in drawing.iter("text") if each not in unseen]
        if any(map(_WORD.search, said)):
            drawing[:], drawing.tag, drawing.text = [], "p", "; ".join(filter(None, said))


def _show_ticks(tree: "HtmlElement") -> None:
    """Write what is ticked in lists of tasks and in forms, as in Markdown."""
    for box in list(islice(tree.xpath(f"{_TICKED} | {_TASKS}"), _MOST)):
        kind = box.get("class") or ""
        done = (
            box.get("checked") is not None or "checkbox-on" in kind or (box.tag == "li" and "checked" in kind.split())
        )
        if box.tag == "input":
            label = next(box.iterancestors("label"), None)
            listed = [] if label is None else label.xpath("self::label[not(@*)]/parent::li/parent::ul/@class")
            if label is not None and listed and "task-list" in listed[0].split():  # as Pandoc does
                label.tag = "span"
            elif label is not None and next(label.iterancestors("form"), None) is None:
                continue  # a filter or a switch of the page
        if box.tag != "li":
            box.tag = "span"
        elif box.find(".//input") is not None:
            continue
        _begin_with(box, f" [{'x' if done else ' '}]")


def _lift_captions(tree: "HtmlElement") -> None:
    """Put the captions of tables above them."""
    for caption in list(islice(tree.iter("caption"), _MOST)):
        if (table := caption.getparent()) is not None and table.tag == "table":
            caption.drop_tree()
            caption.tag, caption.tail = "p", None
            table.addprevious(caption)


def _move_captions(tree: "HtmlElement") -> None:
    """Make captions of figures paragraphs beside them: trafilatura drops them."""
    for caption in reversed(list(islice(tree.iter("figcaption"), _MOST))):  # each goes right behind its figure
        figure = next(reversed([*caption.iterancestors("figure")]), None)
        if figure is None:
            continue
        begins = caption is figure[0]
        caption.drop_tree()
        caption.tag, caption.tail = "p", None
        if begins:
            figure.addprevious(caption)
        else:
            figure.addnext(caption)


def _link_panels(tree: "HtmlElement") -> None:
    """Give tabs the ids of what they show where only their order says it, and let what is shown later be kept."""
    found = [*islice(tree.xpath("//*[@role = 'tablist'][not(.//@aria-controls)]"), _MOST)]
    beside = Counter(listed.getparent() for listed in found)
    for listed in found:
        around = listed.getparent()
        tabs = listed.xpath(".//*[@role = 'tab']")
        # Else it is unknown whose panels they are; those of slides have numbers.
        alone = around is not None and beside[around] == 1 and any(map(str.isalpha, words(listed)))
        panels = around.xpath(".//*[@role = 'tabpanel'][not(@id)]") if alone else []
        for number, (tab, panel) in enumerate(zip(tabs, panels, strict=True) if len(tabs) == len(panels) else ()):
            panel.set("id", f"{NUMBER}-{id(listed)}-{number}")
            tab.set("aria-controls", panel.get("id") or "")
    for later in islice(tree.iterfind(".//div[@class]"), _MOST):
        if _SHOWN_LATER.search(later.get("class") or ""):  # trafilatura drops what has this name
            later.attrib.pop("class")


def _keep_opened(tree: "HtmlElement") -> None:
    """Show what a button or a tab of the page opens, with its label before it (trafilatura drops buttons), and what
    stands in the shadow of an element; other templates show nothing.
    """
    for template in list(islice(tree.iter("template"), _MOST)):
        template.tag = "div"
        if template.get("shadowrootmode") is None:  # else it is shown
            template.drop_tree()
    opened = {each.get("id"): each for each in tree.iterfind(".//*[@id]")}
    for button in list(islice(tree.xpath("//button | //*[@role = 'tab']"), _MOST)):
        parent, below = button.getparent(), _opened(button, opened.pop(button.get("aria-controls"), None))
        if parent is not None and parent.tag in HEADINGS:
            if len(parent) <= _FEW and 2 * len(words(button)) < len(words(parent)):
                button.drop_tree()  # it does something with the part
            else:
                button.tag = "span"
        elif below is not None and any(text.strip() for text in islice(below.itertext(), _FEW)):
            button.drop_tree()
            button.tag, button.tail = "p", None
            below.addprevious(button)
    for panel in list(islice(tree.iterfind(".//*[@role='tabpanel'][@hidden]"), _MOST)):
        panel.attrib.pop("hidden")


def _opened(button: "HtmlElement", named: "HtmlElement | None") -> "HtmlElement | None":
    """Show and return what the button opens: what it names, or the answer below its heading."""
    parent, below = button.getparent(), named
    if below is None and parent is not None and parent.tag in HEADINGS and button.get("aria-expanded"):
        beside = parent.getnext()  # of an accordion
        below = beside if beside is not None and beside.tag == "div" and _is_answer(beside) else None
    shown = below is not None and below.tag not in ("nav", *_MAIN) and below.get("role") in _OPENED
    if below is None or not shown or button in below.iterancestors():
        return None
    for name in ("hidden", "aria-hidden", *(["style"] if is_hidden(below) else ())):
        below.attrib.pop(name, None)
    below.tag = _block(below) if below.tag == "div" else below.tag
    return below


def _is_answer(panel: "HtmlElement") -> bool:
    """Return whether the element is a text that isn't shown at first, not a menu of links."""
    hidden = is_hidden(panel) or panel.get("aria-hidden") == "true"
    near = list(islice(panel.iter(), _FEW))
    links = sum(len((each.text or "").strip()) for each in near if each.tag in ("a", "button"))
    return hidden and sum(len(f"{each.text or ''}{each.tail or ''}".strip()) for each in near) > 2 * links


def _name_panels(tree: "HtmlElement") -> None:
    """Write the names of tabs that are labels of radio buttons above what each shows; trafilatura drops labels."""
    buttons = {each.get("id") for each in tree.iterfind(".//input[@type='radio'][@id]")}
    for label in [each for each in islice(tree.iter("label"), _MOST) if each.get("for") in buttons]:
        around, beside = label.getparent(), label.getnext()
        if beside is not None and beside.tag == "div":
            label.tag = "p"
        elif around is not None and label is around[0] and all(each.tag == "label" for each in around):
            panels = around.getnext()
            for name, panel in zip(list(around), [] if panels is None else list(panels), strict=False):
                panel.insert(0, name)
                name.tag, name.tail, panel.text = "p", panel.text, None


def _write_equations(tree: "HtmlElement") -> None:
    """Write MathML and TeX as text, without the pictures of it that stand beside it."""
    for script in list(islice(tree.iter("script"), _MOST)):
        drawn = script.getprevious()
        shown = drawn is not None and "MathJax" in (drawn.get("class") or "") and not (drawn.tail or "").strip()
        if (script.get("type") or "").startswith("math/tex") and not shown:
            script.tag = "span" if "display" not in script.get("type", "") else "p"
            script.text = _CDATA.sub("", script.text or "").strip()
    for math in list(islice(tree.iter("math"), _MOST)):
        tail, text = math.tail, equation(math)
        math.clear()
        math.tag, math.text, math.tail = "span", text, tail
        parent = math.getparent()
        if parent is None or parent.tag not in ("span", "div"):
            continue
        if is_hidden(parent):  # beside a picture
            parent.tag = "span"
            parent.attrib.pop("style", None)
        for drawn in list(islice(parent.itersiblings(), 2)):
            if drawn.get("aria-hidden") == "true":
                drawn.drop_tree()


def _bracket_readings(tree: "HtmlElement") -> None:
    """Put readings beside East Asian words into brackets where the page has none for browsers without ruby."""
    for reading in list(islice(tree.iterfind(".//ruby//rt"), _MOST)):
        before = reading.getprevious()
        if before is None or before.tag != "rp":
            enclose(reading, "（", "）")


def _part_fields(tree: "HtmlElement") -> None:
    """Put blanks between the parts of a block that only its style sets apart: a name and its value, several tags.

    In a block with a text of its own, and in paragraphs, a word may be in two of them.
    """
    for block in tree.iter("td", "th", "dd", "li", "div"):
        if (block.text or "").strip() or any((part.tail or "").strip() for part in block):
            continue
        for part, below in pairwise(islice(block, _MOST)):
            if part.tail or part.tag not in ("span", "b", "strong", "a") or below.tag not in ("span", "a"):
                continue
            last, first = words(part)[-1:], words(below)[:1]
            named = _WORD_OF_CLASS.search(part.get("class") or "") and _WORD_OF_CLASS.search(below.get("class") or "")
            differ = (first.isupper() and not last.isupper()) or first.isdigit() != last.isdigit()
            if _ENDS_PART.match(last) and _GLUED.match(first) and (named or differ):
                part.tail = " "


def is_hidden(element: "HtmlElement") -> bool:
    """Return whether the element itself says that it isn't shown."""
    style = "".join((element.get("style") or "").lower().split())
    return element.get("hidden") is not None or "display:none" in style or "visibility:hidden" in style


def _unwrap_forms(tree: "HtmlElement") -> None:
    """Make a form that holds most of the page a plain block: some systems put each page into one."""
    forms = list(islice(tree.iter("form"), _FEW))
    whole = len(words(tree)) if forms else 0
    for form in forms:
        if 2 * len(words(form)) > whole:
            form.tag = "div"
            _show_values(form)


def _show_values(form: "HtmlElement") -> None:
    """Write what is filled in beside the labels of a form's fields, if most of its words are their labels: else it is
    a page with a search.
    """
    unsaid = sum(len(words(field)) for field in form.iter("select", "textarea"))
    labels = [*form.iter("label", "legend")]
    if 2 * sum(len(words(label)) for label in labels) < len(words(form)) - unsaid:
        return
    named = {each.get("for") for each in form.iter("label") if each.get("for")}
    for field in list(islice(form.iter("input", "select", "textarea"), _MOST)):
        said = field.get("value") if field.tag == "input" and field.get("type", "text") in _FILLED else None
        if field.tag != "input":
            said = (
                words(field) if field.tag == "textarea" else "; ".join(map(words, field.xpath(".//option[@selected]")))
            )
        if said and (field.get("id") in named or next(field.iterancestors("label"), None) is not None):
            field[:], field.tag, field.text = [], "span", f" {said} "
            field.attrib.clear()
    for label in [*labels, *form.iter("fieldset")]:
        enclose(label, " ", " ")
        label.tag = "div" if label.tag == "fieldset" else "span" if label.tag == "label" else "p"


def _unwrap_layout(tree: "HtmlElement") -> None:
    """Make tables plain blocks that only arrange a page.

    One of their cells has a heading or a table, and text beside it, and no row without such a cell has two cells; or
    each row is one cell, with code or more than one paragraph in any of them.
    """
    for table in list(islice(tree.iter("table"), _MOST)):
        groups, rows = _rows(table)
        full = [[cell for cell in row.iterchildren("td", "th") if words(cell)] for row in rows]
        arranged = [any(cell.tag == "td" and _is_section(cell) for cell in cells) for cells in full]
        beside = any(len(row.xpath("td | th")) > 1 for row in rows)
        alone = not beside and any(row.xpath("td[pre or count(p | ul | ol | div) > 1]") for row in rows)
        if alone or (
            any(arranged) and all(found or len(cells) < 2 for found, cells in zip(arranged, full, strict=True))
        ):
            for each in (*groups, *rows, *(cell for row in rows for cell in row.iterchildren("td", "th"))):
                each.tag = "div"


def _unwrap_items(tree: "HtmlElement") -> None:
    """Make lists of sections plain blocks, and tables of two columns with a bullet or number in the first, too."""
    for listed in list(islice(tree.iter("ul"), _MOST)):
        items = list(listed.iterchildren("li"))
        if any(next(item.iterdescendants(*HEADINGS), None) is not None for item in items):
            for each in (listed, *items):
                each.tag = "div"
    for table in list(islice(tree.iter("table"), _MOST)):
        groups, rows = _rows(table)
        cells = [[*row.iterchildren("td", "th")] for row in rows]
        if not rows or any(len(row) != 2 or _MARK_OF_ITEM.fullmatch(words(row[0])) is None for row in cells):
            continue
        for mark, text in cells:
            _begin_with(text, words(mark))
            mark.drop_tree()
            text.tag = _block(text)
        for each in (*groups, *rows):
            each.tag = "div"


def _rows(table: "HtmlElement") -> "tuple[list[HtmlElement], list[HtmlElement]]":
    """Return the table and its groups of rows, and its own rows."""
    groups = [table, *table.iterchildren("thead", "tbody", "tfoot")]
    return groups, [row for group in groups for row in group.iterchildren("tr")]


def _is_section(cell: "HtmlElement") -> bool:
    named = cell.iterdescendants(*HEADINGS, "table", "p", "ul", "ol")
    within = {each.tag for each in named if any(not text.isspace() for text in each.itertext())}
    return not within.isdisjoint((*HEADINGS, "table")) and not within.isdisjoint(("p", "ul", "ol"))


def _join_posts(tree: "HtmlElement") -> None:
    """Make one article of posts that follow each other, of which trafilatura takes the first.

    One below a heading that is a link only announces another page.
    """
    named = [each for each in tree.iter("div", "section", "article") if _POST.search(each.get("class") or "")]
    found = named or list(tree.iter("article"))
    posts = [each for each in found if (each.tag, each.get("class")) == (found[0].tag, found[0].get("class"))][:_MOST]
    heads = (next(post.iter(*HEADINGS), None) for post in posts[1:])
    posts[1:] = [post for post, head in zip(posts[1:], heads, strict=True) if head is None or head.find(".//a") is None]
    around = [set(post.iterancestors()) for post in posts]
    if len(posts) < 2 or posts[0] in around[1]:
        return
    common = set.intersection(*around)
    _become_article(next(each for each in posts[0].iterancestors() if each in common))
    for post in posts:
        post.tag = "div"
        post.attrib.clear()
        for each in post.iterfind(".//*[@class]"):
            if "message" in each.get("class", ""):  # as forums name posts, and trafilatura what it drops
                each.attrib.pop("class")


def _name_text(tree: "HtmlElement", notes: set[Any]) -> None:
    """Make what holds most paragraphs an article: trafilatura drops headings and lists of a text that nothing names.

    A page with scripts is one of a site: there, most paragraphs stand right in what is its text. The page's heading
    and its notes belong to its text.
    """
    if any(next(tree.iter(name), None) is not None for name in ("article", "main")):
        return
    said = Counter[Any]()
    for each in islice(tree.iter("p"), _MOST):
        said.update(dict.fromkeys(each.iterancestors(), len(words(each))))
    title = next(tree.iter("h1"), None)
    around = set(said if title is None else title.iterancestors())
    for note in notes:
        around.intersection_update(note.iterancestors())
    text, inner = None, next(tree.iter("body"), None)
    while inner is not None and said[inner]:
        text = inner
        inner = next((each for each in text if each in around and 2 * said[each] > said[text]), None)
    beside = next(tree.iter("script"), None) is not None
    if text is None or (beside and 2 * sum(map(len, map(words, text.iterchildren("p")))) < max(said.values())):
        return
    _become_article(text)


def _become_article(text: "HtmlElement") -> None:
    """Make the element what trafilatura takes for a page's text."""
    if text.tag == "body":
        article = text.makeelement("article", {"class": NAMED})
        article.text, text.text = text.text, None
        article.extend(list(text))
        text.append(article)
    elif text.tag in ("div", "section", "main"):
        text.tag = "article"
        text.set("class", NAMED)


def _keep_asides(tree: "HtmlElement") -> None:
    """Make asides that belong to the text plain blocks: warnings, remarks within the article, footnotes."""
    for aside in list(islice(tree.iter("aside"), _MOST)):
        said = " ".join(filter(None, (aside.get(name) for name in ("class", "role", "epub:type"))))
        if _FOOTNOTES.search(said) or (
            _NOTE.search(said) and any(each.tag in ("main", "article", "section") for each in aside.iterancestors())
        ):
            aside.tag = _block(aside)


def _block(element: "HtmlElement") -> str:
    """Return `p` for an element of words alone, as which trafilatura keeps them, else `div`."""
    return "p" if all(each.tag in _WITHIN for each in islice(element.iterdescendants(), _MOST)) else "div"


def _become_code(table: "HtmlElement") -> bool:
    """Replace a table of code beside its line numbers by the code; return whether it was one."""
    rows = [[*row.iterchildren("td", "th")] for row in islice(table.iter("tr"), _MOST)]
    if not rows or any(len(row) != 2 for row in rows) or table.find(".//table") is not None:
        return False
    beside = [row[0] for row in rows]
    numbered = all(_NUMBERS.fullmatch(words(cell) or cell.get("data-line-number") or "") for cell in beside)
    code = all(
        cell.find(".//pre") is not None or cell.find(".//code") is not None or "code" in (cell.get("class") or "")
        for _, cell in rows
    )
    if not numbered or not (code or any(_GUTTER.search(cell.get("class") or "") for cell in beside)):
        return False
    lines = [_lines(cell).strip("\n") for _, cell in rows]
    tail = table.tail
    table.clear()
    table.tag, table.text, table.tail = "pre", "\n".join(lines), tail
    return True


def _flatten_tables(table: "HtmlElement") -> None:
    """Put the rows of short tables in the cells of one with a header on one line."""
    inner, first = list(table.iterdescendants("table")), next(table.iter("tr"), None)
    if not inner or first is None or first.getparent() is not table or sum(each.tag == "th" for each in first) < 2:
        return
    for each in reversed(inner) if all(len(words(each)) <= 1_000 for each in inner) else ():
        rows = (" ".join(filter(None, map(words, row))) for row in each.iter("tr"))
        each.text, each.tag, each[:] = f" {'; '.join(filter(None, rows))} ", "span", []


def _flatten_lists(table: "HtmlElement") -> None:
    """Put the items of lists and the lines of code in a table's cells on one line."""
    for cell in list(islice(table.iter("td"), _MOST)):
        for code in list(cell.iter("pre")):
            code.tag, code.text, code[:] = "code", words(code), []
        lists = list(cell.iter("ul", "ol"))
        for each in reversed(lists) if len(words(cell)) <= 1_000 else ():
            each.text = f" {'; '.join(filter(None, map(words, each.iterchildren('li'))))} "
            each.tag, each[:], each.tail = "span", [], f" {each.tail or ''}"


def _spread(table: "HtmlElement") -> None:
    """Repeat merged cells in the columns and rows that they cover, so that each row can be read on its own."""
    from lxml import etree  # as above

    rows = list(islice(table.iter("tr"), _MOST))
    cells = [[*row.iterchildren("td", "th")] for row in rows]
    across = [any(cell.get(name) for cell in row for name in ("rowspan", "colspan")) for row in cells]
    if not any(across):
        return
    heads = sum(1 for _ in takewhile(lambda row: row and all(cell.tag == "th" for cell in row), cells))
    merged = [
        [Cell(words(cell), whole(cell.get("colspan"), 1), whole(cell.get("rowspan"), 1)) for cell in row]
        for row in cells
    ]
    # Names of people may be marked like those of columns.
    texts = spread(merged, heads=heads if any(across[:heads]) else 0)
    joined = len(rows) - len(texts)  # rows of the header that are part of its first
    for _ in range(joined):
        rows.pop(1).drop_tree()
        cells.pop(1)
    for row, own, shown in zip(rows, cells, texts, strict=True):
        told = iter([] if joined and row is rows[0] else list(map(words, own)))
        kind = "th" if own and all(cell.tag == "th" for cell in own) else "td"
        for cell in own:
            cell.tag = "gone"
        etree.strip_elements(row, "gone", with_tail=False)
        for text in shown:
            row.append(row.makeelement(kind))
            row[-1].text = text if isinstance(text, Covered) else next(told, text)


def drop_tracked(tree: "HtmlElement") -> None:
    """Drop what Word tracked as deleted, which has its author's address; a page's own struck text stays."""
    for deleted in list(islice(tree.iter("del"), _MOST)):
        if (deleted.get("cite") or "").startswith("mailto:"):
            deleted.drop_tree()


def _write_addresses(root: "HtmlElement", base: str | None) -> None:
    """Write the addresses of links in brackets behind their words, and signs around struck ones, as in Markdown.

    With a `base`, which may be '', relative ones are joined with it, or are written as Markdown's links.
    """
    for struck in list(root.iter("del", "s", "strike")):
        if words(struck) and next(struck.iterancestors("pre", "del", "s", "strike"), None) is None:
            for each in list(_innermost(struck)) or [struck]:
                enclose(each, "~~", "~~")
    for link in root.iter("a"):
        address, said = (link.get("href") or "").strip(), "".join(map(str, link.itertext()))
        address = joined(base, address) if base and not address.startswith("#") else address
        code = next(link.iterancestors("code", "pre"), None)
        if not said.strip() or address in said or (code is not None and (code.tag == "code" or base is not None)):
            continue
        named = next(_innermost(link), link)  # a link around a heading and a text
        known = ADDRESS.fullmatch(address)
        if base is not None and (known or RELATIVE.fullmatch(address)) and not {"[", "]"} & set(said):
            enclose(named, "[", f"]({address})")
        elif known:
            enclose(named, "", f" ({address})")


def _innermost(element: "HtmlElement") -> "Iterator[HtmlElement]":
    """Yield the blocks in the element that hold words and no other block."""
    blocks = element.iterdescendants(*_STARTS)
    return (each for each in blocks if next(each.iterdescendants(*_STARTS), None) is None and words(each))


def joined(base: str, link: str) -> str:
    """Return the address of a link of a page that is at `base`."""
    try:
        return urljoin(base, link) if len(base) <= LONGEST_URL else link
    except ValueError:
        return link  # not a URL; the crawler rejects it with a reason


def _number_items(tree: "HtmlElement") -> None:
    """Give the items of ordered lists their numbers, in the list's own kind of them; Markdown has digits only."""
    for listed in list(islice(tree.iter("ol"), _MOST)):
        if next(listed.iterancestors("pre"), None) is not None:  # lines of code
            continue
        step = -1 if listed.get("reversed") is not None else 1
        number = whole(listed.get("start"), len(listed.findall("li")) if step < 0 else 1)
        styled = _STYLE.search(listed.get("style") or "")
        kind = listed.get("type") or "1"
        if styled:
            kind = "i" if styled[2].lower() == "roman" else "a"
            kind = kind.upper() if styled[1].lower() == "upper" else kind
        for item in islice(listed.iterchildren("li"), _MOST):
            number = whole(item.get("value"), number)
            item.set(NUMBER, f"{_numeral(number, kind)}.")
            number += step


def _begin_with(item: "HtmlElement", mark: str) -> None:
    """Write the mark before the item's text, which may begin in a block within it."""
    while not (item.text or "").strip():
        first = next((each for each in item if words(each) or (each.tail or "").strip()), None)
        if first is None or first.tag not in _STARTS or not words(first):
            break
        item = first
    item.text = f"{mark} {(item.text or '').lstrip()}"


def _numeral(number: int, kind: str) -> str:
    """Return the number as letters (a, A) or in Roman figures (i, I) behind a bullet, else as it is."""
    left = number if 0 < number < _MOST else 0
    said = counted(left, "i") if left and kind in ("i", "I") else ""
    while left and kind in ("a", "A"):  # aa, ab, …; other programs than browsers write aa, bb, …
        left, digit = divmod(left - 1, 26)
        said = chr(ord("a") + digit) + said
    return f"- {said.upper() if kind.isupper() else said}" if said else str(number)


def _join_terms(tree: "HtmlElement") -> None:
    """Write terms into the definitions right below them; those of whole sections stay above them."""
    for inner in list(islice(tree.iterfind(".//dt/dt"), _MOST)):  # of a term that isn't closed
        around = inner.getparent()
        if around is not None:
            around.addnext(inner)
    for term in list(islice(tree.iter("dt"), _MOST)):
        told, said = term.getnext(), words(term)
        if told is None or told.tag != "dd" or not said or not words(told) or (term.tail or "").strip():
            continue
        is_mark = _MARK_OF_ITEM.fullmatch(said) is not None
        if not is_mark and any(each.tag not in _WITHIN for each in told.iterdescendants()):
            continue
        within = told[0] if not (told.text or "").strip() and len(told) and told[0].tag in ("p", "div") else told
        term.tail, within.text = f"{'' if is_mark or said[-1] in ':?!.' else ':'} {(within.text or '').lstrip()}", None
        terms = [term]
        while (
            (above := terms[0].getprevious()) is not None
            and above.tag == "dt"
            and words(above)
            and not (above.tail or "").strip()
        ):
            above.tail = " / "
            terms.insert(0, above)
        within[:0] = terms
        for each in terms:
            each.tag = "span"
            each.drop_tag()


def _lines(code: "HtmlElement") -> str:
    """Return the text of code with its lines, each of which may be an element."""
    for line in code.iter("br"):
        line.tail = f"\n{line.tail or ''}"
    says: list[str] = []
    for apart, text in texts(code, _LINES):
        says += ["\n"] if apart and says and not (says[-1].endswith("\n") or text.startswith("\n")) else []
        says.append(text)
    return "".join(says)


def _mark_code(tree: "HtmlElement") -> None:
    """Write preformatted text line by line, and the signs of Markdown around code within a text."""
    for pre in list(islice(tree.iter("pre"), _MOST)):
        text = _lines(pre)
        pre[:], pre.text = [], text
    for code in list(islice(tree.iter("code", "kbd", "samp", "tt"), _MOST)):
        said = words(code)
        if said and "`" not in said and next(code.iterancestors("pre", "code", "kbd"), None) is None:
            code[:], code.text = [], f"`{said}`"


def _mark_raised(tree: "HtmlElement", notes: set[Any]) -> None:
    """Keep raised numbers apart from what stands before them: 10^5, and [1] for a note.

    The number with which a block begins is a note's, and so is the same one behind a word or a price.
    """
    begin = {words(each) for each in islice(tree.iter("sup"), _MOST) if _begins(each) and (each.tail or "").strip()}
    for raised in list(islice(tree.iter("sup", "sub", "a"), _MOST)):
        before, parent, number, ahead = raised.getprevious(), raised.getparent(), words(raised), text_before(raised)
        of_note = raised in notes or raised.tag != "a" or _REFERENCE.search(" ".join(map(str, raised.values())))
        back = raised in notes or _RETURNS.search(f"{raised.get('role')} {raised.get('class')}")
        if raised.tag == "a" and number.strip("\ufe0e\ufe0f") in _BACK and back:
            raised.drop_tree()
            continue
        if parent is None or not of_note:
            continue  # it was within a raised number, or is an ordinary link
        if raised in notes and parent.tag == "div":
            parent.tag = _block(parent)
        refers = raised.tag == "a" or parent.tag == "a" or next(raised.iterdescendants("a"), None) is not None
        is_note = (
            refers
            or (not ahead[-1:].isalnum() and number.isdigit())
            or (not ahead.strip() and before is None)
            or (number in begin and not _BASE.search(ahead))
        )
        in_brackets = raised.tag == "a" and (ahead or ("" if before is None else words(before))).endswith("[")
        if (
            raised.tag == "sub"
            or in_brackets
            or not (RAISED.fullmatch(number) or (is_note and number.isalnum() and len(number) < 3))
        ):
            raised.drop_tag()
            continue
        raised[:], raised.text = [], f"[{number}]" if is_note else f"^{number}"
        raised.text += " " * (is_note and (raised.tail or "")[:1].isalnum())
        raised.drop_tag()


def _begins(element: "HtmlElement") -> bool:
    parent = element.getparent()
    return parent is not None and parent[0] is element and not (parent.text or "").strip() and parent.tag not in INLINE


def _links_of_notes(tree: "HtmlElement") -> set[Any]:
    """Return the short links that lead to a note, and those that lead from it back to them."""
    found: list[tuple[HtmlElement, str, set[str], set[str]]] = []  # with its target, its own names, and those around it
    for link in islice(tree.iterfind(".//a[@href]"), _MOST):
        target = (link.get("href") or "").strip()
        if not target.startswith("#") or not _MARK_OF_NOTE.fullmatch(words(link)):
            continue
        near = [link, *islice(link.iterancestors(), _AROUND_MARK)]
        inline = list(takewhile(lambda each: each.tag in _WITHIN - {"p"}, near))
        own, around = ({each.get(name) or "" for each in some for name in ("id", "name")} for some in (inline, near))
        found.append((link, target[1:], own, around))
    leads: dict[str, list[int]] = {}
    for at, (_, _, _, around) in enumerate(found):
        for name in around:
            leads.setdefault(name, []).append(at)
    notes = set[Any]()
    for link, target, own, _ in found:
        for back in islice(leads.get(target, []), _FEW):
            if found[back][1] in own:
                notes |= {link, found[back][0]}
    return notes
