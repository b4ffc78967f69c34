import re

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_pptx, a_shape, a_zip, parts_of


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="talk.pptx"))


@pytest.mark.feature(89)
def test_slides_come_in_their_order_with_titles_and_notes() -> None:
    read = _read(
        a_pptx(
            a_shape("Tides", place="title") + a_shape("They rise.", "They fall.") + a_shape("3", place="sldNum"),
            a_shape("The end"),
            notes={0: "Speak slowly."},
        )
    )

    assert read.text == "# Tides\n\nThey rise.\nThey fall.\n\nNotes:\n\nSpeak slowly.\n\nThe end"
    assert [read.text[start:][:7] for start in read.pages] == ["# Tides", "The end"]
    assert (read.title, read.created, read.notes) == ("The tide", "2024-05-01T10:00:00Z", ())


def test_tables_are_tables_and_points_are_points() -> None:
    cell = "<a:tc><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    table = f"<p:graphicFrame><a:tbl><a:tr>{cell.format('Port')}{cell.format('Tide')}</a:tr></a:tbl></p:graphicFrame>"
    points = '<p:sp><p:txBody><a:p><a:t>One</a:t></a:p><a:p><a:pPr lvl="1"/><a:t>Inner</a:t></a:p></p:txBody></p:sp>'

    assert _read(a_pptx(table + points)).text == "| Port | Tide |\n| --- | --- |\n\nOne\n  - Inner"


def test_numbered_points_keep_their_numbers() -> None:
    def point(level: int, kind: str) -> str:
        return f'<a:p><a:pPr lvl="{level}"><a:buAutoNum type="{kind}"/></a:pPr><a:t>Do</a:t></a:p>'

    points = "".join(
        point(level, kind) for level, kind in ((0, "arabicPeriod"), (1, "arabicParenR"), (0, "arabicPeriod"))
    )
    plain = "<a:p><a:t>Note</a:t></a:p>" + point(0, "arabicPeriod") + point(1, "alphaLcPeriod")

    assert _read(a_pptx(f"<p:sp><p:txBody>{points}{plain}</p:txBody></p:sp>")).text == (
        "1. Do\n  1) Do\n2. Do\nNote\n1. Do\n  a. Do"
    )


def test_a_merged_cell_counts_for_all_that_it_covers() -> None:
    def row(*cells: tuple[str, str]) -> str:
        tag = "<a:tc {}><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>".format
        return f"<a:tr>{''.join(tag(says, text) for says, text in cells)}</a:tr>"

    rows = (
        row(("", "Deck"), ("", "Cabin"))
        + row(('rowSpan="2"', "Low"), ("", "In"))
        + row(('vMerge="1"', ""), ("", "Out"))
    )
    read = _read(a_pptx(f"<p:graphicFrame><a:tbl>{rows}</a:tbl></p:graphicFrame>"))

    assert read.text == "| Deck | Cabin |\n| --- | --- |\n| Low | In |\n| Low | Out |"


def test_shapes_are_read_from_top_to_bottom_and_from_left_to_right() -> None:
    def at(x: int, y: int, text: str) -> str:
        frame = f'<p:spPr><a:xfrm><a:off x="{x}" y="{y}"/><a:ext cx="9" cy="100"/></a:xfrm></p:spPr>'
        return a_shape(text).replace("<p:txBody>", frame + "<p:txBody>")

    read = _read(a_pptx(at(0, 500, "fourth") + at(90, 10, "third") + at(0, 0, "second") + a_shape("first")))

    assert read.text == "first\n\nsecond\n\nthird\n\nfourth"


def test_a_hidden_slide_is_left_out_with_a_note() -> None:
    data = a_pptx(a_shape("One"), a_shape("Two"))
    parts = parts_of(data)
    name = "ppt/slides/slide2.xml"

    read = _read(a_zip(parts | {name: parts[name].replace(b"<p:sld ", b'<p:sld show="0" ')}))

    assert read.text == "Two"
    assert [(each.code, each.place) for each in read.notes] == [("hidden", "slide 1")]


def test_of_alternatives_one_is_read() -> None:
    both = f"<p:x><p:Choice>{a_shape('new')}</p:Choice><p:Fallback>{a_shape('old')}</p:Fallback></p:x>"

    assert _read(a_pptx(both)).text == "new"


def test_a_file_without_its_list_of_slides_is_damaged() -> None:
    with pytest.raises(Rejected, match=r"^talk\.pptx is damaged: its part ppt/presentation\.xml is missing") as caught:
        _read(a_zip({"a": "b"}))

    assert caught.value.code == "damaged"


def test_a_slide_that_is_missing_is_said() -> None:
    whole = a_pptx(a_shape("One"), a_shape("Two"))
    read = _read(whole.replace(b"ppt/slides/slide2.xml", b"ppt/slides/slideX.xml"))

    assert read.text == "Two"
    assert [(each.code, each.place) for each in read.notes] == [("damaged", "slide 1")]


def test_a_title_comes_first_and_what_stands_below_the_slides_once_at_the_end() -> None:
    below = a_shape("Harbour Office", place="ftr")
    read = _read(a_pptx(a_shape("Text") + below + a_shape("Tides", place="title"), a_shape("More") + below))

    assert read.text == "# Tides\n\nText\n\nMore\n\nHarbour Office"
    assert read.pages == (0, 15)


def test_a_chart_stands_where_it_is_drawn() -> None:
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    place = f"<c:chart xmlns:c='c' xmlns:r='{relations}' r:id='{{}}'/>".format
    title = "<c:title><c:p><c:t>High water</c:t></c:p></c:title>"

    read = _read(
        a_pptx(
            a_shape("One") + place("chart") + place("lost") + a_shape("Two"),
            chart=f"<c:chartSpace xmlns:c='c'>{title}</c:chartSpace>",
        )
    )

    assert read.text == "One\n\nHigh water\n\nTwo"


def test_a_link_shows_its_address() -> None:
    space = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    data = a_pptx(a_shape("The form"))
    parts = parts_of(data)
    name = "ppt/slides/slide1.xml"
    linked = re.sub(rb"<a:r>", f'<a:r><a:rPr><a:hlinkClick {space} r:id="l"/></a:rPr>'.encode(), parts[name])
    target = '<Relationship Id="l" Type="x/hyperlink" Target="https://a.test/f" TargetMode="External"/>'
    relations = {"ppt/slides/_rels/slide1.xml.rels": f"<Relationships>{target}</Relationships>"}

    assert "[The form](https://a.test/f)" in _read(a_zip(parts | {name: linked, **relations})).text


def test_numbers_and_signs_are_what_the_slide_shows() -> None:
    def point(kind: str) -> str:
        return f'<a:p><a:pPr><a:buAutoNum type="{kind}"/></a:pPr><a:r><a:t>Do</a:t></a:r></a:p>'

    kinds = ("circleNumDbPlain", "alphaUcParenBoth", "ea1ChsPeriod")
    sign = '<a:p><a:r><a:rPr><a:latin typeface="Wingdings"/></a:rPr><a:t>à</a:t></a:r></a:p>'

    assert _read(a_pptx(f"<p:sp><p:txBody>{''.join(map(point, kinds))}{sign}</p:txBody></p:sp>")).text == (
        "① Do\n(A) Do\n一. Do\n→"
    )


def test_words_behind_an_arrow_that_keep_the_font_of_signs_stay_words() -> None:
    run = '<a:r><a:rPr><a:latin typeface="Calibri"/><a:sym typeface="Wingdings"/></a:rPr><a:t>{}</a:t></a:r>'.format

    shown = _read(a_pptx(f"<p:sp><p:txBody><a:p>{run('à')}{run(' lower demand')}</a:p></p:txBody></p:sp>")).text

    assert shown == "→ lower demand"
