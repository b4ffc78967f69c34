import io
import zipfile

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_zip, an_opendocument, parts_of


def _read(body: str, kind: str = "text", *, locked: bool = False) -> Extraction:
    return extract(an_opendocument(kind, body, locked=locked), Hints(filename="a"))


def test_headings_paragraphs_lists_and_tables_come_as_markdown() -> None:
    item = "<text:list-item><text:p>{}</text:p></text:list-item>".format
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>".format

    read = _read(
        '<text:h text:outline-level="2">Ebb</text:h>'
        '<text:p>It <text:span>falls<text:s text:c="3"/>twice</text:span>.</text:p>'
        f"<text:list>{item('One')}{item('Two')}</text:list>"
        f"<table:table><table:table-row>{cell('Port')}{cell('Tide')}</table:table-row></table:table>"
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
    )

    assert read.text == "## Ebb\n\nIt falls twice.\n\n- One\n- Two\n\n| Port | Tide |\n| --- | --- |"
    assert (read.title, read.language, read.created) == ("The tide", "en-GB", "2024-05-01T10:00:00")
    assert read.document_type == "odt"


def test_notes_and_boxes_follow_their_paragraph() -> None:
    body = "<text:note-body><text:p>Seen.</text:p></text:note-body>"
    note = f"<text:note><text:note-citation>1</text:note-citation>{body}</text:note>"
    box = "<draw:frame><draw:text-box><text:p>Box one</text:p><text:p>Box two</text:p></draw:text-box></draw:frame>"

    assert _read(f"<text:p>It rose{note} twice{box}.</text:p>").text == "It rose twice.\n\nSeen.\n\nBox one\n\nBox two"


def test_a_line_end_between_spans_is_a_space_also_in_a_flat_file() -> None:
    words = "<text:p><text:span>high</text:span>\n  <text:span>water</text:span></text:p>"
    with zipfile.ZipFile(io.BytesIO(an_opendocument("text", words))) as archive:
        content = archive.read("content.xml").decode()
    said = 'office:mimetype="application/vnd.oasis.opendocument.text"'
    flat = f"<?xml version='1.0'?>{content.replace('content xmlns', f'content {said} xmlns', 1)}".encode()

    assert extract(flat, Hints(filename="a.fodt")).text == "high water"


def test_slides_are_pages_with_titles_and_notes() -> None:
    box = "<draw:frame {}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>".format
    title = 'presentation:class="title"'
    notes = f"<presentation:notes><draw:page-thumbnail/>{box('', 'Slowly.')}</presentation:notes>"

    read = _read(
        f'<draw:page draw:name="page1">{box(title, "Ebb")}{box("", "It falls.")}{notes}</draw:page>'
        f'<draw:page draw:name="page2">{box(title, "Flow")}</draw:page>',
        "presentation",
    )

    assert read.text == "# Ebb\n\nIt falls.\n\nNotes:\n\nSlowly.\n\n# Flow"
    assert read.text[read.pages[1] :] == "# Flow"
    assert read.document_type == "odp"


def test_a_field_that_no_page_fills_shows_nothing() -> None:
    def field(shown: str) -> str:
        return f"<text:p>Berth <text:page-number>{shown}</text:page-number> of the quay</text:p>"

    assert _read(field("&lt;number&gt;") + field("4")).text == "Berth of the quay\n\nBerth 4 of the quay"


def test_a_locked_file_is_refused_as_such() -> None:
    with pytest.raises(Rejected, match=r"^a is locked by a password$") as caught:
        _read("<text:p>x</text:p>", locked=True)

    assert caught.value.code == "password"


def test_a_merged_cell_counts_for_all_that_it_covers() -> None:
    def cell(text: str, says: str = "") -> str:
        return f"<table:table-cell {says}><text:p>{text}</text:p></table:table-cell>"

    rows = (
        cell("Deck") + '<table:table-cell table:number-columns-repeated="2"/>' + cell("Price"),
        cell("Low", 'table:number-rows-spanned="2"') + cell("In", 'table:number-columns-spanned="2"') + cell("7"),
        "<table:covered-table-cell/>" + cell("Out", 'table:number-columns-repeated="2"') + cell("9"),
    )
    table = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)

    assert _read(f"<table:table>{table}</table:table>").text == (
        "| Deck |  |  | Price |\n| --- | --- | --- | --- |\n| Low | In | In | 7 |\n| Low | Out | Out | 9 |"
    )


def test_a_link_shows_its_address() -> None:
    space = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
    link = f'<text:a {space} xlink:href="https://a.test/f">the <text:span>form</text:span></text:a>'
    local = f'<text:a {space} xlink:href="#top">up</text:a>'
    data = an_opendocument("text", f"<text:p>Fill {link}, {local}.</text:p>")

    assert extract(data, Hints(filename="a.odt")).text == "Fill [the form](https://a.test/f), up."


_STYLES = (
    '<office:automatic-styles xmlns:style="s"><style:style style:name="gone" style:family="text">'
    '<style:text-properties text:display="none"/></style:style>'
    '<style:style style:name="gone" style:family="paragraph"><style:text-properties text:display="none"/></style:style>'
    '<style:style style:name="cut" style:family="text"><style:text-properties '
    'style:text-line-through-style="solid"/></style:style><style:style style:name="away" style:family="drawing-page">'
    '<style:drawing-page-properties presentation:visibility="hidden"/></style:style></office:automatic-styles>'
)


def _styled(kind: str, body: str) -> Extraction:
    return extract(an_opendocument(kind, body, styles=_STYLES), Hints(filename="a"))


def test_hidden_text_is_left_out_and_struck_text_is_marked() -> None:
    read = _styled(
        "text",
        '<text:p>It <text:span text:style-name="gone">secretly </text:span>rises '
        '<text:span text:style-name="cut">once</text:span> twice.</text:p>'
        '<text:p text:style-name="gone">Gone.</text:p>',
    )

    assert read.text == "It rises ~~once~~ twice."


def test_a_hidden_section_is_left_out_and_numbered_lists_keep_their_numbers() -> None:
    def listed(more: str, *items: str) -> str:
        within = "".join(f"<text:list-item><text:p>{item}</text:p></text:list-item>" for item in items)
        return f'<text:list text:style-name="L" {more}>{within}</text:list>'

    def levelled(kind: str) -> bytes:
        level = f'<text:list-level-style-number text:level="1" style:num-format="{kind}"/>'
        styles = f'<office:automatic-styles xmlns:style="s"><text:list-style style:name="L">{level}</text:list-style>'
        return an_opendocument("text", body, styles=f"{styles}</office:automatic-styles>")

    body = listed("", "Stop", "Wait") + '<text:section text:display="none"><text:p>Gone.</text:p></text:section>'
    body += listed('text:continue-numbering="true"', "Go") + listed("", "Anew")

    def read(kind: str) -> str:
        return extract(levelled(kind), Hints(filename="a.odt")).text

    assert read("1") == "1. Stop\n2. Wait\n\n3. Go\n\n1. Anew"
    assert read("A") == "A. Stop\nB. Wait\n\nC. Go\n\nA. Anew"
    assert read("i") == "i. Stop\nii. Wait\n\niii. Go\n\ni. Anew"
    assert read("") == "- Stop\n- Wait\n\n- Go\n\n- Anew"


def test_a_hidden_slide_is_left_out_with_a_note() -> None:
    slide = (
        "<draw:page {}><draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame></draw:page>".format
    )

    read = _styled("presentation", slide("", "Ebb") + slide('draw:style-name="away"', "Secret") + slide("", "Flow"))

    assert read.text == "Ebb\n\nFlow"
    assert len(read.pages) == 3
    assert [(note.code, note.place) for note in read.notes] == [("hidden", "slide 2")]


_NUMBERS = """<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>
 <text:list-level-style-number text:level="2" style:num-format="1" style:num-suffix="." text:display-levels="2"/>
 <text:list-level-style-number text:level="3" style:num-format="a" style:num-prefix="(" style:num-suffix=")"/>"""
_BULLETS = '<text:list-level-style-bullet text:level="1" text:bullet-char="-"/>'
_OUTLINE = """<text:outline-level-style text:level="1" style:num-format="{}"/>
 <text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/>"""


def _with_styles(body: str, styles: str) -> str:
    """Return the text of a document whose styles are a part of their own."""
    out = io.BytesIO(an_opendocument("text", body))
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("styles.xml", f'<r xmlns:style="s" xmlns:text="t">{styles}</r>')
    return extract(out.getvalue(), Hints(filename="a.odt")).text


def _listed(body: str, levels: str) -> str:
    return _with_styles(body, f'<text:list-style style:name="L">{levels}</text:list-style>')


def _list(*items: str, more: str = "") -> str:
    return f"<text:list {more}>{''.join(f'<text:list-item>{item}</text:list-item>' for item in items)}</text:list>"


def _p(text: str, *more: str) -> str:
    return f"<text:p>{text}</text:p>{''.join(more)}"


_STYLED = 'text:style-name="L"'


def test_a_number_shows_the_levels_above_it_as_a_style_of_the_document_says() -> None:
    inner = _list(_p("Area"), _p("Time", _list(_p("Start"))))
    body = _list(_p("Scope", inner), _p("Fees", _list(_p("Rent"))), more=_STYLED)

    read = _listed(body, _NUMBERS)

    assert read == "1. Scope\n  1.1. Area\n  1.2. Time\n    (a) Start\n2. Fees\n  2.1. Rent"


def test_a_list_goes_on_below_the_item_that_it_broke_off_at() -> None:
    goes_on = f'{_STYLED} text:continue-numbering="true"'
    body = _list(_p("Scope", _list(_p("Area"))), more=_STYLED) + _p("A word between.")
    body += _list(_list(_p("Time")), _p("Fees"), more=goes_on)

    assert _listed(body, _NUMBERS) == "1. Scope\n  1.1. Area\n\nA word between.\n\n  1.2. Time\n2. Fees"


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        (_BULLETS, "- One\n  - Two"),
        (_BULLETS + _NUMBERS.split("\n")[1], "- One\n  1. Two"),
        (_NUMBERS.split("\n", maxsplit=1)[0], "1. One\n  - Two"),
        (_NUMBERS.replace('num-format="1"', 'num-format=""'), "- One\n  - Two"),
        ("", "- One\n  - Two"),
    ],
)
def test_what_has_no_number_counts_for_none(levels: str, text: str) -> None:
    assert _listed(_list(_p("One", _list(_p("Two"))), more=_STYLED), levels) == text


@pytest.mark.parametrize(
    ("first", "of", "text"),
    [
        ("1", "", "# 1 Aim\n\n## 1.1 Way\n\n# 2 End"),
        ("A", "", "# A Aim\n\n## A.1 Way\n\n# B End"),
        ("", "", "# Aim\n\n## 1 Way\n\n# End"),
        ("1", 'text:style-name="Plain"', "# 1 Aim\n\n## 1.1 Way\n\n# End"),
        ("1", 'text:style-name="Below"', "# 1 Aim\n\n## 1.1 Way\n\n# End"),
        ("1", 'text:style-name="Other"', "# 1 Aim\n\n## 1.1 Way\n\n# 2 End"),
    ],
)
def test_headings_have_the_numbers_of_the_outline(first: str, of: str, text: str) -> None:
    own = '<style:style style:name="Plain" style:list-style-name=""/><style:style style:name="Other"/>'
    own += '<style:style style:name="Below" style:parent-style-name="Plain"/>'
    outline = f"<text:outline-style>{_OUTLINE.format(first)}</text:outline-style>{own}"
    heads = ((1, "Aim", ""), (2, "Way", ""), (1, "End", of))
    body = "".join(f'<text:h text:outline-level="{at}" {more}>{name}</text:h>' for at, name, more in heads)

    assert _with_styles(body, outline) == text


def test_prompts_and_readings_are_left_out_and_a_raised_number_stays_apart() -> None:
    styles = (
        '<office:automatic-styles xmlns:style="s"><style:style style:name="up" style:family="text">'
        "<style:text-properties "
        'style:text-position="super 58%"/></style:style></office:automatic-styles>'
    )
    up = '<text:span text:style-name="up">{}</text:span>'.format
    prompt = "<text:placeholder>&lt;of what&gt;</text:placeholder>"
    ruby = "<text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>kan</text:ruby-text></text:ruby>字"
    body = f"<text:p>Of the 1{up('st')} 10{up('5')} kg {prompt}left {ruby}</text:p>"

    assert extract(an_opendocument("text", body, styles=styles), Hints()).text == "Of the 1st 10^5 kg left 漢字"


def test_equations_and_charts_stand_where_they_are_embedded_and_others_are_noted() -> None:
    def frame(path: str) -> str:
        return f'<draw:frame><draw:object xmlns:x="http://www.w3.org/1999/xlink" x:href="./{path}"/></draw:frame>'

    def cells(*texts: str) -> str:
        inner = "".join(f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in texts)
        return f"<table:table-row>{inner}</table:table-row>"

    equation = "<math><msup><mi>c</mi><mn>2</mn></msup></math>"
    chart = an_opendocument("chart", f"<table:table>{cells('', 'Hull')}{cells('May', '4')}</table:table>")
    body = f"<text:p>E=m{frame('One')} holds.{frame('Two')}{frame('Three')}</text:p>"
    parts = parts_of(an_opendocument("text", body)) | {"One/content.xml": equation}

    read = extract(a_zip(parts | {"Two/content.xml": parts_of(chart)["content.xml"]}), Hints(filename="a.odt"))

    assert read.text == "E=mc^2 holds.\n\n|  | Hull |\n| --- | --- |\n| May | 4 |"
    assert [(note.code, note.place) for note in read.notes] == [("object", "Three")]


def test_text_is_hidden_and_marked_by_styles_of_the_document_and_those_based_on_them() -> None:
    def style(name: str, says: str, based: str = "", kind: str = "text") -> str:
        named = f'style:name="{name}" style:family="{kind}" style:parent-style-name="{based}"'
        return f"<style:style {named}><style:text-properties {says}/></style:style>"

    def of(name: str, kind: str, text: str) -> str:
        return f'<text:{kind} text:style-name="{name}">{text}</text:{kind}>'

    named = style("gone", 'text:display="none"') + style("up", 'style:text-position="super 58%"')
    named += style("gone", 'fo:color="red"', kind="paragraph")  # of another family
    named += style("away", 'fo:color="red"', "none", "paragraph")  # based on one that comes later
    named += style("none", 'text:display="none"', "away", "paragraph")
    named += style("back", 'text:display="true"', "none", "paragraph")
    body = f"<text:p>10{of('up', 'span', '5')} kg{of('gone', 'span', 'secret')}</text:p>"
    body += of("away", "p", "Gone.") + of("back", "p", "Seen.") + of("gone", "p", "Shown.")

    text = _with_styles(body, f'<office:styles xmlns:office="o" xmlns:fo="f">{named}</office:styles>')

    assert text == "10^5 kg\n\nSeen.\n\nShown."


def test_struck_text_within_struck_text_has_its_signs_once() -> None:
    cut = '<text:span text:style-name="cut">{}</text:span>'.format
    fell = cut(f"fell {cut('twice')} a")

    assert _styled("text", f"<text:p>It {fell} day.</text:p>").text == "It ~~fell twice a~~ day."


def test_shapes_of_a_group_come_in_reading_order_and_hidden_text_stays_hidden() -> None:
    box = (
        '<draw:frame xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" svg:x="1cm" svg:y="{}cm">'
        "<draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    ).format
    hidden = '<text:p>It rose<text:hidden-text text:is-hidden="true">, they say</text:hidden-text>.</text:p>'

    assert _read(f"<draw:page><draw:g>{box(9, 'Low')}{box(2, 'High')}</draw:g></draw:page>", "presentation").text == (
        "High\n\nLow"
    )
    assert _read(hidden).text == "It rose."


def test_signs_of_fonts_and_circles_are_shown_and_a_hidden_paragraph_is_not() -> None:
    style = '<style:style style:name="W"><style:text-properties style:font-name="Wingdings"/></style:style>'
    level = '<text:list-level-style-number text:level="1" style:num-format="①, ②, ③, ..."/>'
    listed = '<text:list text:style-name="L"><text:list-item><text:p>Go</text:p></text:list-item></text:list>'
    body = f'{listed}<text:p>x<text:hidden-paragraph text:is-hidden="true"/>y</text:p>'
    body += '<text:p>Then <text:span text:style-name="W">à</text:span> on</text:p>'
    styles = f'{style}<text:list-style style:name="L">{level}</text:list-style>'

    data = an_opendocument(
        "text", body, styles=f'<office:automatic-styles xmlns:style="s">{styles}</office:automatic-styles>'
    )

    assert extract(data, Hints(filename="a")).text == "① Go\n\nThen → on"


def test_the_boxes_of_a_form_say_whether_they_are_checked() -> None:
    def box(says: str) -> str:
        kind = 'f:type="vnd.oasis.opendocument.field.FORMCHECKBOX"'
        return f'<f:fieldmark xmlns:f="f" {kind}>{says}</f:fieldmark>'

    on = '<f:param f:name="Checkbox_Checked" f:value="true"/>'
    text = f"<text:p>{box(on)} nuts</text:p><text:p>{box('')} milk</text:p><text:p>A{box(on)}B</text:p>"

    assert extract(an_opendocument("text", text), Hints(filename="a.odt")).text == (
        "checked nuts\n\nnot checked milk\n\nA checked B"
    )
