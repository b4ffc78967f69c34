from html import escape

import pytest

from services.ingest_worker.extract import Extraction, Hints, detect, extract, limits
from shared.contracts import Note
from shared.errors import Rejected
from tests.loop_holds import least_cpu_s
from tests.unit.services.ingest_worker.files import a_docx, a_docx_of, a_zip, parts_of


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="report.docx"))


@pytest.mark.feature(90)
def test_paragraphs_and_tables_come_as_markdown_with_what_the_file_says_of_itself() -> None:
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    rows = "".join(f"<w:tr>{cell.format(a)}{cell.format(b)}</w:tr>" for a, b in (("Port", "Tide"), ("Bath", "12_m")))

    read = _read(a_docx(f"<w:p><w:r><w:t>The sea rose.</w:t></w:r></w:p><w:tbl>{rows}</w:tbl>"))

    assert read.text == "The sea rose.\n\n| Port | Tide |\n| --- | --- |\n| Bath | 12_m |"
    assert (read.title, read.description, read.document_type) == ("The tide", "Of the harbour.", "docx")
    assert (read.created, read.modified) == ("2024-05-01T10:00:00Z", "2024-06-01T10:00:00Z")


def test_it_is_known_by_its_content() -> None:
    assert detect(a_docx_of("x"), Hints(filename="a.txt", media_type="text/plain")).document_type == "docx"


def test_entities_are_not_opened(tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("secret") / "canary"
    secret.write_text("canary")
    prolog = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'

    read = _read(a_docx("<w:p><w:r><w:t>amber &x; lantern</w:t></w:r></w:p>", prolog=prolog))

    assert "amber" in read.text
    assert "canary" not in read.text


@pytest.mark.parametrize(
    "data", [b"PK, no container", a_zip({"a.txt": "x"}), a_docx_of("x" * 999)[:-30], a_zip({"word/document.xml": "<a"})]
)
def test_a_broken_file_is_damaged(data: bytes) -> None:
    with pytest.raises(Rejected, match=r"^report\.docx is damaged: ") as caught:
        _read(data)

    assert caught.value.code == "damaged"


_STYLES = """<w:style w:type="paragraph" w:default="1" w:styleId="N"><w:name w:val="Normal"/></w:style>
 <w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style>
 <w:style w:type="paragraph" w:styleId="H"><w:name w:val="heading 2"/></w:style>
 <w:style w:type="paragraph" w:styleId="Own"><w:name w:val="Ours"/><w:basedOn w:val="H"/></w:style>
 <w:style w:type="paragraph" w:styleId="Code"><w:name w:val="Source Code"/></w:style>"""
_LISTS = """<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
 <w:abstractNum w:abstractNumId="1">
  <w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%1."/></w:lvl>
  <w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl></w:abstractNum>
 <w:num w:numId="7"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="8"><w:abstractNumId w:val="1"/></w:num>"""


def _p(text: str, style: str = "", *, of: int = 0, level: int = 0) -> str:
    numbering = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{of}"/></w:numPr>' if of else ""
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/>{numbering}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'


def test_headings_lists_and_code_are_marked_as_their_styles_say() -> None:
    body = [
        _p("The ebb", "T"),
        _p("Of water", "Own"),
        _p("One", of=7),
        _p("Two", of=7),
        _p("Three", of=8),
        _p("Inner", of=8, level=1),
        _p("Inner too", of=8, level=1),
        _p("Four", of=8),
        _p("a = 1", "Code"),
        _p("b = 2", "Code"),
        _p("The end.", "Unknown"),
    ]

    read = _read(a_docx("".join(body), styles=_STYLES, numbering=_LISTS))

    assert read.text == (
        "# The ebb\n\n## Of water\n\n- One\n- Two\nIII. Three\n  III.a) Inner\n  III.b) Inner too\nIV. Four"
        "\n\n```\na = 1\nb = 2\n```\n\nThe end."
    )


def test_a_legal_number_counts_in_figures_what_the_levels_above_count_in_letters() -> None:
    lists = _LISTS.replace('"%1.%2)"/>', '"%1.%2)"/>{}')

    body = _p("Three", of=8) + _p("Inner", of=8, level=1) + _p("Inner too", of=8, level=1)

    assert (
        _read(a_docx(body, numbering=lists.format("<w:isLgl/>"))).text == "III. Three\n  3.1) Inner\n  3.2) Inner too"
    )
    off = lists.format('<w:isLgl w:val="0"/>')
    assert _read(a_docx(body, numbering=off)).text == "III. Three\n  III.a) Inner\n  III.b) Inner too"


def test_what_is_deleted_hidden_or_told_twice_is_left_out_and_words_stay_apart() -> None:
    run = "<w:r>{}</w:r>".format
    body = (
        "<w:p>"
        + run("<w:t>Name:</w:t><w:tab/><w:t>Ann</w:t><w:br/><w:t>Port: </w:t>")
        + f"<w:ins>{run('<w:t>Hull</w:t>')}</w:ins><w:del>{run('<w:delText>Dover</w:delText>')}</w:del>"
        + run("<w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t>")
        + run("<w:rPr><w:vanish w:val='0'/></w:rPr><w:t> &lt;b&gt; 2*3</w:t>")
        + "<w:x><w:AlternateContent><w:Choice><w:txbxContent><w:p><w:r><w:t>Box</w:t></w:r></w:p></w:txbxContent>"
        + "</w:Choice><w:Fallback><w:r><w:t>Old</w:t></w:r></w:Fallback></w:AlternateContent></w:x></w:p>"
    )

    assert _read(a_docx(body)).text == "Name: Ann\nPort: Hull <b> 2*3\n\nBox"


def test_a_note_follows_its_paragraph() -> None:
    notes = '<w:footnote w:id="2"><w:p><w:r><w:t>At Hull.</w:t></w:r></w:p></w:footnote>'
    body = '<w:p><w:r><w:t>It rose</w:t><w:footnoteReference w:id="2"/><w:t>.</w:t></w:r></w:p><w:p/>'

    assert _read(a_docx(body, footnotes=notes)).text == "It rose.\n\nAt Hull."


def test_a_frame_is_no_table_and_a_table_in_a_cell_is_its_words() -> None:
    def rows(*cells: str) -> str:
        return f"<w:tbl><w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr></w:tbl>"

    assert _read(a_docx(rows(_p("Alone") + _p("framed")))).text == "Alone\n\nframed"
    beside = rows("".join(map(_p, ["Orr Ltd", "1 Pier", "Hull"])), _p("Invoice"))  # a letter's head
    assert _read(a_docx(beside)).text == "Orr Ltd\n\n1 Pier\n\nHull\n\nInvoice"
    named = rows(_p("Deadline"), "".join(map(_p, ["May", "June", "July"])))
    assert "| Deadline | May June July |" in _read(a_docx(named)).text
    deleted = rows(_p("Gone"), _p("7")).replace("<w:tr>", "<w:tr><w:trPr><w:del/></w:trPr>")
    assert _read(a_docx(f"{rows(_p('A'), _p('B'))[:-8]}{deleted[7:]}")).text == "| A | B |\n| --- | --- |"
    assert _read(a_docx(rows(_p("Port"), rows(_p("a|b"), _p("c"))))).text == "| Port | a\\|b c |\n| --- | --- |"


def test_a_merged_cell_counts_for_all_that_it_covers_and_wrapped_rows_are_read() -> None:
    def cell(text: str, says: str = "") -> str:
        return f"<w:tc><w:tcPr>{says}</w:tcPr>{_p(text)}</w:tc>"

    across, begins = '<w:gridSpan w:val="2"/>', '<w:vMerge w:val="restart"/>'
    head = f"<w:tr>{cell('Deck')}{cell('Cabin')}{cell('Price', across)}</w:tr>"
    first = f"<w:tr>{cell('Upper', begins)}{cell('In')}{cell('7')}{cell('8')}</w:tr>"
    rest = f"<w:tr>{cell('', '<w:vMerge/>')}{cell('Out')}{cell('9')}{cell('10')}</w:tr>"
    table = f"<w:tbl>{head}{first}<w:customXml>{rest}</w:customXml></w:tbl>"

    assert _read(a_docx(table)).text == (
        "| Deck | Cabin | Price | Price |\n| --- | --- | --- | --- |\n| Upper | In | 7 | 8 |\n| Upper | Out | 9 | 10 |"
    )


def test_form_fields_struck_text_and_links_say_what_the_page_shows() -> None:
    def field(of: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{of}</w:ffData></w:fldChar></w:r>'

    listed = '<w:ddList><w:result w:val="1"/><w:listEntry w:val="A"/><w:listEntry w:val="B"/></w:ddList>'
    boxes = field("<w:checkBox><w:checked/></w:checkBox>") + field('<w:checkBox><w:default w:val="0"/></w:checkBox>')
    struck = "<w:r><w:rPr><w:strike/></w:rPr><w:t>90</w:t></w:r><w:r><w:t> 80 </w:t></w:r>"
    link = '<w:hyperlink r:id="a"><w:r><w:t>the form</w:t></w:r></w:hyperlink>'
    data = a_docx(f"<w:p>{field(listed)}</w:p><w:p>{boxes}</w:p><w:p>{struck}{link}</w:p>")
    target = '<Relationship Id="a" Type="x/hyperlink" Target="https://a.test/f" TargetMode="External"/>'
    with_link = a_zip(parts_of(data) | {"word/_rels/document.xml.rels": f"<Relationships>{target}</Relationships>"})

    assert _read(with_link).text == "B\n\ncheckednot checked\n\n~~90~~ 80 [the form](https://a.test/f)"


def test_a_field_that_is_a_link_shows_its_address() -> None:
    def field(kind: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    asks = "".join(
        f"<w:r><w:instrText>{piece}</w:instrText></w:r>" for piece in (" HYPER", 'LINK "https://a', '.test/f"')
    )
    shown = "<w:r><w:t>the form</w:t></w:r>"
    data = a_docx(f"<w:p>{field('begin')}{asks}{field('separate')}{shown}{field('end')}<w:r><w:t>!</w:t></w:r></w:p>")

    assert _read(data).text == "the form (https://a.test/f)!"


def test_when_time_is_up_the_paragraphs_so_far_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter((False, False, True))
    monkeypatch.setattr(limits, "spent", lambda: next(looks))

    read = _read(a_docx_of(*["x"] * 2_500))

    assert read.text.count("x") == 2_000
    message = f"only the first 2000 paragraphs were read in {limits.seconds()}"
    assert read.notes == (Note(code="timeout", place="", message=message),)


def test_without_a_title_the_heading_it_begins_with_is_one() -> None:
    untitled = a_docx(_p("Of tides", "T") + _p("Text."), styles=_STYLES, title="")

    assert _read(untitled).title == "Of tides"
    assert _read(a_docx(_p("Text."), title="Document1")).title == "report"


def _run(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_what_stands_above_and_below_pages_comes_once_without_their_numbers() -> None:
    page = "<w:r><w:fldChar w:fldCharType='begin'/><w:instrText> PAGE </w:instrText></w:r><w:r><w:t>7</w:t></w:r>"
    page += "<w:r><w:fldChar w:fldCharType='end'/></w:r>"
    cells = "".join(f"<w:tc>{_run(text)}</w:tc>" for text in ("Harbour Office", "Tides"))
    footer = f"<w:p><w:r><w:t>Page </w:t></w:r>{page}<w:fldSimple w:instr='NUMPAGES'/></w:p>" + _run("It rose.")
    footer += f"<w:p><w:r><w:t>No. 12, page </w:t></w:r>{page}</w:p>"
    section = "".join(
        f"<w:sectPr><w:headerReference w:type='{kind}' r:id='header'/><w:footerReference r:id='footer'/></w:sectPr>"
        for kind in ("default", "default", "even")
    )

    read = _read(a_docx(_p("Of tides", "T") + _run("It rose.") + section, styles=_STYLES, title="", footer=footer,
        header=f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"))  # fmt: skip

    assert read.text == "Harbour Office\nTides\n\n# Of tides\n\nIt rose.\n\nNo. 12, page"
    assert read.title == "Of tides"


@pytest.mark.parametrize(("kind", "switch"), [("first", "<w:titlePg/>"), ("even", "")])
def test_headers_that_no_page_shows_are_left_out(kind: str, switch: str) -> None:
    even = "<w:evenAndOddHeaders/>" if kind == "even" else ""
    reference = f"<w:headerReference w:type='{kind}' r:id='header'/>"

    shown = a_docx(_run("It rose.") + f"<w:sectPr>{reference}{switch}</w:sectPr>", header=_run("Seen"), settings=even)
    unseen = a_docx(_run("It rose.") + f"<w:sectPr>{reference}</w:sectPr>", header=_run("Seen"))

    assert _read(shown).text == "Seen\n\nIt rose."
    assert _read(unseen).text == "It rose."


def test_charts_and_diagrams_are_told_where_they_stand() -> None:
    def points(kind: str, *values: str) -> str:
        listed = "".join(f"<w:pt idx='{at}'><w:v>{value}</w:v></w:pt>" for at, value in enumerate(values))
        return f"<w:{kind}><w:strCache>{listed}</w:strCache></w:{kind}>"

    line = "<w:p><w:t>{}</w:t></w:p>".format
    series = "<w:ser><w:tx><w:v>{}</w:v></w:tx>{}{}</w:ser>".format
    ports = points("cat", "Bath", "Hull")
    drawn = series("High", ports, points("val", "4.2999999999999998", "7"))
    chart = f"<w:title>{line('Tides')}</w:title>{drawn}{series('Low', ports, points('val', '1'))}"
    diagram = f"<w:t>{line('First')}{line('Then')}</w:t>"

    read = _read(
        a_docx(
            "<w:p><w:r><w:t>Before</w:t><w:chart r:id='chart'/><w:relIds r:dm='diagram'/></w:r></w:p>" + _run("After"),
            chart=chart,
            diagram=diagram,
        )
    )

    table = "|  | High | Low |\n| --- | --- | --- |\n| Bath | 4.3 | 1 |\n| Hull | 7 |  |"
    assert read.text == f"Before\n\nTides\n\n{table}\n\nFirst\nThen\n\nAfter"


@pytest.mark.parametrize(
    ("code", "stored", "shows"),
    [
        ("0.0%", "0.125", "12.5%"),
        ('"$"#,##0.00', "4.5", "$4.50"),
        ("mmm-yy", "45292", "2024-01-01"),
        ("d.m.yyyy h:mm", "45292.5", "2024-01-01 12:00"),
        ("[$-409]mmmm;@", "45323", "2024-02-01"),
        # What isn't a date or has no format stays the number it is.
        ("General", "45292", "45292"),
        ("", "2024", "2024"),
        ("#,##0", "45292", "45292"),
        ('0.0" days"', "1.5", "1.5 days"),
        ("[Red]0", "7", "7"),
        ("h:mm", "0.5", "0.5"),
        ("mm-dd", "about 7", "about 7"),
        ("", "007", "007"),
        ("", "1.50", "1.50"),
    ],
)
def test_a_number_in_a_chart_is_shown_as_its_format_says(code: str, stored: str, shows: str) -> None:
    cache = (
        f"<w:numCache><w:formatCode>{escape(code)}</w:formatCode><w:pt idx='0'><w:v>{stored}</w:v></w:pt></w:numCache>"
    )
    series = f"<w:ser><w:cat><w:numRef>{cache}</w:numRef></w:cat></w:ser>"
    body = "<w:p><w:r><w:chart r:id='chart'/></w:r></w:p>"

    assert f"| {shows} |" in _read(a_docx(body, chart=series)).text
    later = "2028-01-02" if shows == "2024-01-01" else shows
    if later != shows:
        assert later in _read(a_docx(body, chart=f"<w:date1904 w:val='1'/>{series}")).text


def test_each_category_of_a_chart_has_the_names_of_its_groups() -> None:
    def level(points: dict[int, str]) -> str:
        listed = (f"<w:pt idx='{at}'><w:v>{name}</w:v></w:pt>" for at, name in points.items())
        return f"<w:lvl>{''.join(listed)}</w:lvl>"

    levels = level({0: "Q1", 1: "Q2", 2: "Q1", 4: "Q3"}) + level({0: "2023", 2: "2024"}) + level({2: "North"})
    cache = f"<w:multiLvlStrRef><w:multiLvlStrCache>{levels}</w:multiLvlStrCache></w:multiLvlStrRef>"
    series = f"<w:ser><w:tx><w:v>Low</w:v></w:tx><w:cat>{cache}</w:cat></w:ser>"

    text = _read(a_docx("<w:p><w:r><w:chart r:id='chart'/></w:r></w:p>", chart=series)).text

    rows = ["2023 Q1", "2023 Q2", "North 2024 Q1", "North 2024", "North 2024 Q3"]
    assert [line.strip("| ") for line in text.split("\n")[2:]] == rows


def test_a_document_within_is_read_and_signs_are_what_their_font_shows() -> None:
    signs = "".join(
        f"<w:sym w:font='{font}' w:char='{char}'/>"
        for font, char in (
            ("Symbol", "F061"),
            ("Wingdings", "F0FE"),
            ("Webdings", "F041"),
            ("Arial", "00E9"),
            ("", "x"),
        )
    )
    within = "<html><body><p>Of the ebb.</p></body></html>"

    read = _read(a_docx(f"<w:altChunk r:id='aFChunk'/><w:p><w:r>{signs}</w:r></w:p>", aFChunk=within))

    assert read.text == "Of the ebb.\n\nα☑é"


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("<w:p><w:r><w:chart r:id='chart'/></w:r></w:p>", {"chart": "<w:title><w:p><w:t>Tides</w:t></w:p></w:title>"}),
        ('<w:altChunk r:id="aFChunk"/>', {"aFChunk": "<html><body><p>Herons nest.</p></body></html>"}),
    ],
    ids=["chart", "other document"],
)
def test_a_part_is_read_once_whatever_refers_to_it(reference: str, parts: dict[str, str]) -> None:
    once, often = (_read(a_docx(_run("Before") + reference * count, **parts)).text for count in (1, 100))

    assert len(once) > len("Before")
    assert often == once


def _cell(text: str, **merges: str) -> str:
    says = "".join(f'<w:{name} w:val="{value}"/>' for name, value in merges.items())
    return f"<w:tc><w:tcPr>{says}</w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"


_BELOW, _BESIDE = {"vMerge": "continue"}, {"hMerge": "continue"}
_BOTH = {"vMerge": "restart", "hMerge": "restart"}


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        (['<w:trPr><w:gridBefore w:val="1"/></w:trPr>' + _cell("Night") + _cell("Ina")], "|  | Night | Ina |"),
        (['<w:trPr><w:gridBefore w:val="0"/></w:trPr>' + _cell("East") + _cell("Night")], "| East | Night |  |"),
        ([_cell("East", hMerge="restart") + _cell("", **_BESIDE) + _cell("Ina")], "| East | East | Ina |"),
        ([_cell("", **_BESIDE) + _cell("Night") + _cell("Ina")], "|  | Night | Ina |"),
        ([_cell("", **_BELOW) + _cell("Night") + _cell("Ina")], "| West | Night | Ina |"),
        (
            [
                _cell("East", **_BOTH) + _cell("", **_BESIDE, vMerge="restart") + _cell("Ina"),
                _cell("", vMerge="continue", hMerge="restart") + _cell("", **_BELOW, **_BESIDE) + _cell("Ute"),
            ],
            "| East | East | Ute |",
        ),
    ],
)
def test_a_row_stands_below_its_columns(rows: list[str], shown: str) -> None:
    first = _cell("West", vMerge="restart") + _cell("Day") + _cell("Ole")
    every = (_cell("Hall") + _cell("Shift") + _cell("Head"), first, *rows)

    read = _read(a_docx(f"<w:tbl>{''.join(f'<w:tr>{each}</w:tr>' for each in every)}</w:tbl>"))

    assert read.text.split("\n")[-1] == shown


def test_what_a_style_hides_is_left_out_but_for_what_shows_itself() -> None:
    hiding = '<w:style w:type="{}" w:styleId="{}"><w:basedOn w:val="{}"/><w:rPr><w:vanish{}/></w:rPr></w:style>'
    kinds = (("paragraph", "Gone", "", ""), ("paragraph", "Back", "Gone", ' w:val="0"'), ("character", "Lost", "", ""))
    styles = "".join(hiding.format(*each) for each in kinds)
    styles += '<w:style w:type="paragraph" w:styleId="On"><w:basedOn w:val="Gone"/></w:style>'
    seen = _p("seen", "Gone").replace("<w:t>", '<w:rPr><w:vanish w:val="0"/></w:rPr><w:t>')
    lost = '<w:p><w:r><w:rPr><w:rStyle w:val="Lost"/></w:rPr><w:t>lost</w:t></w:r><w:r><w:t>kept</w:t></w:r></w:p>'
    mark = "<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr><w:r><w:t>marked</w:t></w:r></w:p>"

    read = _read(a_docx(_p("gone", "Gone") + _p("gone", "On") + _p("back", "Back") + seen + lost + mark, styles=styles))

    assert read.text.split("\n\n") == ["back", "seen", "kept", "marked"]


def test_a_deleted_end_of_a_paragraph_joins_it_to_the_next_unless_there_is_none() -> None:
    def paragraph(text: str) -> str:
        return f"<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"

    notes = '<w:footnote w:id="2"><w:p><w:r><w:t>At Hull.</w:t></w:r></w:p></w:footnote>'
    body = paragraph('The buyer </w:t><w:footnoteReference w:id="2"/><w:t>') + _p("pays.") + paragraph("The end.")

    assert _read(a_docx(body, footnotes=notes)).text == "The buyer pays.\n\nAt Hull.\n\nThe end."


def test_the_prompt_of_a_control_that_is_not_filled_in_is_left_out() -> None:
    def control(says: str, content: str) -> str:
        return f"<w:sdt><w:sdtPr>{says}</w:sdtPr><w:sdtContent>{content}</w:sdtContent></w:sdt>"

    prompt = "<w:showingPlcHdr/>"
    cell = (
        f"<w:tc>{_p('Phone')}</w:tc>" + control(prompt, f"<w:tc>{_p('Enter text')}</w:tc>") + f"<w:tc>{_p('x')}</w:tc>"
    )
    entered = '<w:showingPlcHdr w:val="0"/>'  # not any more
    body = control(prompt, _p("Choose a date")) + control(entered, _p("1 May")) + f"<w:tbl><w:tr>{cell}</w:tr></w:tbl>"

    assert _read(a_docx(body)).text == "1 May\n\n| Phone |  | x |\n| --- | --- | --- |"


def test_a_raised_number_stays_apart_from_what_is_before_it() -> None:
    def run(text: str, place: str = "superscript") -> str:
        return f'<w:r><w:rPr><w:vertAlign w:val="{place}"/></w:rPr><w:t>{text}</w:t></w:r>'

    body = f"<w:p><w:r><w:t>On the 1</w:t></w:r>{run('st')}<w:r><w:t> of May 10</w:t></w:r>{run('5')}"
    body += f"<w:r><w:t> kg of CO</w:t></w:r>{run('2', 'subscript')}</w:p>"

    assert _read(a_docx(body)).text == "On the 1st of May 10^5 kg of CO2"


def test_many_signs_of_a_prompt_in_one_control_take_no_more_time_than_one() -> None:
    signs, content = "<w:showingPlcHdr/>" * 4_000, _p("x") * 4_000
    body = f"<w:sdt><w:sdtPr>{signs}</w:sdtPr><w:sdtContent>{content}</w:sdtContent></w:sdt>"

    assert least_cpu_s(lambda: _read(a_docx(f"{body}{_p('Seen.')}")), 2.0) < 2.0  # it took 5 s


def test_marks_of_ranges_do_not_end_a_paragraph_whose_end_is_deleted() -> None:
    cut = "<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:r><w:t>one </w:t></w:r></w:p>"

    assert _read(a_docx(f'{cut}<w:bookmarkEnd w:id="1"/><w:proofErr/>{_p("two")}')).text == "one two"


@pytest.mark.parametrize(
    ("kind", "pattern", "start", "shows"),
    [
        ("ordinal", "%1", 22, "22nd"),
        ("ordinal", "%1", 12, "12th"),
        ("none", "Note", 1, "Note"),
        ("russianLower", "%1)", 2, "б)"),
        ("decimalEnclosedCircle", "%1", 3, "③"),
        ("chineseCountingThousand", "第%1章", 21, "第二十一章"),
        ("japaneseCounting", "%1", 10, "十"),
    ],
)
def test_a_lists_number_is_written_as_the_list_says(kind: str, pattern: str, start: int, shows: str) -> None:
    level = f'<w:start w:val="{start}"/><w:numFmt w:val="{kind}"/><w:lvlText w:val="{pattern}"/>'
    lists = (
        f'<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0">{level}</w:lvl></w:abstractNum>'
        '<w:num w:numId="7"><w:abstractNumId w:val="0"/></w:num>'
    )

    assert _read(a_docx(_p("Tide", of=7), numbering=lists)).text == f"{shows} Tide"


def test_a_level_that_never_restarts_counts_on() -> None:
    levels = "".join(
        f'<w:lvl w:ilvl="{at}"><w:numFmt w:val="decimal"/>{more}<w:lvlText w:val="%{at + 1}."/></w:lvl>'
        for at, more in enumerate(("", '<w:lvlRestart w:val="0"/>'))
    )
    lists = (
        f'<w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>'
        '<w:num w:numId="7"><w:abstractNumId w:val="0"/></w:num>'
    )
    items = "".join(_p("Do", of=7, level=level) for level in (0, 1, 0, 1))

    assert _read(a_docx(items, numbering=lists)).text == "1. Do\n  1. Do\n2. Do\n  2. Do"


def test_what_a_condition_chooses_from_is_left_out() -> None:
    def field(asks: str, result: str, more: str = "") -> str:
        kind = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
        asked = f"<w:r><w:instrText>{asks}</w:instrText></w:r>"
        return kind("begin") + asked + more + kind("separate") + _run(result) + kind("end")

    chosen = field("IF ", "high", field("MERGEFIELD Depth", "9") + _run("high") + _run("low"))

    assert _read(a_docx(f"<w:p>{_run('It is ')}{chosen}{_run(' today.')}</w:p>")).text == "It is high today."


def test_drawn_letters_and_signs_of_symbol_fonts_are_read() -> None:
    drawn = '<w:r><w:pict><v:shape xmlns:v="urn:v"><v:textpath string="Spring Fair"/></v:shape></w:pict></w:r>'
    signs = "".join(
        f'<w:r><w:rPr><w:rFonts w:ascii="{font}"/></w:rPr><w:t xml:space="preserve">{sign}</w:t></w:r>'
        for font, sign in (("Symbol", "\uf061 = b"), ("Wingdings", " \uf0e0\uf001"), ("Arial", " J"))
    )

    assert _read(a_docx(f"<w:p>{drawn}</w:p><w:p>{signs}</w:p>")).text == "Spring Fair\n\nα = β → J"


def test_a_link_in_a_note_leads_where_the_notes_say() -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    link = f'<w:hyperlink xmlns:r="{kind}" r:id="rId1">{_run("the survey")}</w:hyperlink>'
    notes = f'<w:footnote w:id="2"><w:p>{link}</w:p></w:footnote>'
    target = f'<Relationship Id="rId1" Type="{kind}/hyperlink" Target="https://e.org/s" TargetMode="External"/>'
    rels = (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{target}</Relationships>'
    )
    docx = a_docx(f'<w:p>{_run("Tide")}<w:r><w:footnoteReference w:id="2"/></w:r></w:p>', footnotes=notes)

    read = _read(a_zip(parts_of(docx) | {"word/_rels/footnotes.xml.rels": rels}))

    assert read.text == "Tide\n\n[the survey](https://e.org/s)"


def test_a_link_above_pages_leads_where_the_header_says() -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    target = f'<Relationship Id="rId1" Type="{kind}/hyperlink" Target="https://e.org/s" TargetMode="External"/>'
    rels = (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{target}</Relationships>'
    )
    header = f'<w:p><w:hyperlink r:id="rId1">{_run("our shop")}</w:hyperlink></w:p>'
    docx = a_docx(_p("Tide") + '<w:sectPr><w:headerReference r:id="header"/></w:sectPr>', header=header)

    read = _read(a_zip(parts_of(docx) | {"word/_rels/header.xml.rels": rels}))

    assert read.text == "[our shop](https://e.org/s)\n\nTide"


def test_a_sign_with_a_font_of_its_own_is_no_code_of_the_runs_font() -> None:
    fonts = "<w:rPr><w:rFonts w:ascii='Symbol' w:hAnsi='Symbol'/></w:rPr>"
    body = f"<w:p><w:r>{fonts}<w:sym w:font='Symbol' w:char='F0D3'/></w:r><w:r>{fonts}<w:t>a</w:t></w:r></w:p>"

    assert _read(a_docx(body)).text == "©α"


def test_a_condition_without_an_end_hides_nothing_below_it() -> None:
    begun = "<w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText> IF 1=1 </w:instrText></w:r>"

    assert _read(a_docx(f"<w:p>{begun}</w:p>{_run('Below.').join(('<w:p>', '</w:p>'))}")).text == "Below."
