import io
import zipfile

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import an_opendocument


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
    '<office:automatic-styles><style:style xmlns:style="s" style:name="gone">'
    '<style:text-properties text:display="none"/></style:style>'
    '<style:style xmlns:style="s" style:name="cut"><style:text-properties '
    'style:text-line-through-style="solid"/></style:style><style:style xmlns:style="s" style:name="away">'
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
