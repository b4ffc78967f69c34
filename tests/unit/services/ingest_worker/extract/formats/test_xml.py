from html import escape, unescape

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from services.ingest_worker.extract.html_markdown import page_text, part_text
from shared.errors import Rejected


def _read(data: str | bytes) -> Extraction:
    return extract(data if isinstance(data, bytes) else data.encode(), Hints(filename="a.xml"))


def test_text_comes_in_blocks_and_titles_as_headings() -> None:
    read = _read(
        """<?xml version="1.0"?><article xml:lang="en"><front><article-title>On <i>tides</i></article-title></front>
        <body><sec><title>Ebb</title><p>It <b>falls</b> twice.</p><p>Each day.</p></sec></body><!-- no --></article>"""
    )

    assert read.text == "## On tides\n\n### Ebb\n\nIt falls twice.\n\nEach day."
    assert (read.title, read.language, read.document_type) == ("On tides", "en", "xml")


def test_the_declared_encoding_is_used_and_a_lie_is_seen() -> None:
    page = '<?xml version="1.0" encoding="windows-1251"?><p>мягких булок</p>'

    assert _read(page.encode("cp1251")).text == "мягких булок"
    assert _read(page).text == "мягких булок"


def test_entities_are_not_opened() -> None:
    bombs = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))

    read = _read(f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e0 "ha">{bombs}]><a>amber &e9; lantern &amp; co</a>')

    assert read.text == "amber lantern & co"


def test_a_broken_file_gives_what_can_be_read() -> None:
    assert _read("<?xml version='1.0'?><a><p>one</p><p>two").text == "one\n\ntwo"


def test_what_has_no_element_is_damaged() -> None:
    with pytest.raises(Rejected, match=r"^a\.xml is damaged: not readable XML$") as caught:
        _read("<?xml version='1.0'?>")

    assert caught.value.code == "damaged"


def test_attributes_and_field_names_stand_with_their_values() -> None:
    ships = '<fleet year="2024"><ship name="Wren" flag="NO">Ferry</ship><ship name="Rook" flag="DK"/></fleet>'
    people = "<list><row><name>Ann</name><town>Bath</town></row><row><name>Bo</name><town/></row></list>"

    assert _read(ships).text == "year: 2024\n\nname: Wren; flag: NO; ship: Ferry\n\nname: Rook; flag: DK"
    assert _read(people).text == "name: Ann; town: Bath\n\nname: Bo"
    assert _read('<a><b key="timeout" value="30"/></a>').text == "key: timeout; value: 30"


def test_the_rows_of_a_table_stay_together_and_pictures_are_left_out() -> None:
    rows = "<tr><th>Rope</th><th>Load</th></tr><tr><td>red</td><td>30 kN</td></tr>"
    picture = "<data>" + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA\n" * 4 + "</data>"

    text = _read(f"<doc><title>Ropes</title><p>Tested.</p>{picture}<table>{rows}</table></doc>").text

    assert text.endswith("Tested.\n\n| Rope | Load |\n| --- | --- |\n| red | 30 kN |")


def test_a_picture_in_base64_on_one_line_is_left_out() -> None:
    picture = "iVBORw0KGgoAAAANSUhEUgAA" * 20
    ships = f"<ship name='Skua' logo='{picture}'/><ship name='Tern'><photo>{picture}</photo></ship>"
    data = f"<?xml version='1.0'?><fleet>{ships}</fleet>"

    assert extract(data.encode(), Hints(filename="a.xml")).text == "name: Skua\n\nname: Tern"
    assert (
        _read("<n><title>Ropes</title><p>Red.</p><data encoding='base64'>iVBORw0K</data></n>").text == "# Ropes\n\nRed."
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<?xml version='1.0'?><ship name='Skua' draught='4.2'/>", "name: Skua; draught: 4.2"),
        ("<?xml version='1.0'?><a><p name='Skua'/><p name='Tern'/></a>", "name: Skua\n\nname: Tern"),
    ],
)
def test_a_file_with_nothing_but_attributes_has_their_values(data: str, text: str) -> None:
    assert _read(data).text == text


def _row(*cells: str, more: str = "") -> str:
    return f"<Row {more}>{''.join(cells)}</Row>"


def _cell(value: str, more: str = "", kind: str = "String") -> str:
    return f'<Cell {more}><Data ss:Type="{kind}">{value}</Data></Cell>'


def _book(rows: str, more: str = "") -> Extraction:
    book = f"""<?xml version="1.0"?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet"
        xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet">
        <Worksheet ss:Name="Harbour"><Table>{rows}</Table></Worksheet>{more}</Workbook>"""
    return extract(book.encode(), Hints(filename="old.xls"))


def test_a_workbook_of_excel_2003_has_a_section_per_sheet_and_rows_with_headers() -> None:
    index = 'ss:Index="3"'
    merged = _row(_cell("Skua", 'ss:MergeDown="2"'), _cell("4.2", index))
    hidden, next_ = _row(_cell("x"), more='ss:Hidden="1"'), _row(_cell("5", index))
    rows = [_row(_cell("Port"), _cell("Depth", index)), merged, hidden, next_, _row(_cell("Tern"), _cell("6", index))]

    read = _book(
        "".join(rows),
        f"""<Worksheet ss:Name="Secret"><Table>{_row(_cell("x"))}</Table>
        <WorksheetOptions><Visible>SheetHidden</Visible></WorksheetOptions></Worksheet>
        <DocumentProperties><Title>Tides</Title><Author>A. Tern</Author></DocumentProperties>""",
    )

    skua = "Port: Skua; Depth: 4.2\n\nPort: Skua; Depth: 5"
    assert read.text == f"# Harbour\n\nPort | Depth\n\n{skua}\n\nPort: Tern; Depth: 6"
    assert [(note.code, note.place) for note in read.notes] == [("hidden", "Harbour"), ("hidden", "Secret")]
    assert (read.title, read.file) == ("Tides", {"author": "A. Tern"})


def test_values_of_excel_2003_are_written_as_in_other_workbooks_without_hidden_columns() -> None:
    kinds = {"Number": "0.30000000000000004", "Boolean": "1", "DateTime": "2024-05-01T00:00:00.000", "Error": "#REF!"}
    cells = [_cell(value, kind=kind) for kind, value in kinds.items()]

    read = _book('<Column/><Column ss:Hidden="1" ss:Span="1"/>' + _row(_cell("a"), _cell("b"), _cell("c"), *cells))

    assert read.text == "# Harbour\n\na | 0.3 | TRUE | 2024-05-01 | #REF!"
    assert [note.message for note in read.notes] == ["2 hidden columns of the sheet Harbour were left out"]


@pytest.mark.parametrize("more", ['ss:Hidden="1" ss:Span="1"', 'ss:Height="30" ss:Span="1"'])
def test_a_row_of_excel_2003_may_stand_for_several(more: str) -> None:
    merged = _row(_cell("Skua", 'ss:MergeDown="2"'), _cell("4"))
    rows = [_row(_cell("Port"), _cell("Depth")), merged, _row(more=more), _row(_cell("Tern"), _cell("6"))]

    assert "Port: Tern; Depth: 6" in _book("".join(rows)).text


def test_rows_that_a_sheet_of_excel_2003_leaves_out_end_a_table() -> None:
    first = _row(_cell("Port"), _cell("Depth")) + _row(_cell("Skua"), _cell("4")) + _row(_cell("Tern"), _cell("5"))
    second = first.replace("Port", "Ship").replace("Depth", "Draught").replace("<Row ", '<Row ss:Index="9"', 1)

    assert "Ship: Skua; Draught: 4" in _book(first + second).text


def test_fields_with_attributes_stay_in_their_record_under_their_names() -> None:
    ships = (
        '<ship id="s1"><name>Skua</name><draught unit="m">4.2</draught></ship><ship id="s2"><name>Tern</name></ship>'
    )

    text = extract(f"<fleet>{ships}</fleet>".encode(), Hints(filename="fleet.xml")).text

    assert text == "id: s1; name: Skua; draught: 4.2 (unit: m)\n\nid: s2; name: Tern"


def test_a_page_within_a_text_is_read_as_its_text_unless_it_is_an_example() -> None:
    item = (
        "<item><title>Roof</title><description>&lt;p&gt;It costs &lt;b&gt;900&lt;/b&gt;.&lt;/p&gt;</description></item>"
    )
    feed = f"<?xml version='1.0'?><rss>{item}<code>&lt;p&gt;a&lt;/p&gt;</code></rss>"
    notes = (
        "<?xml version='1.0'?><a><note><made>9</made><text><![CDATA[<div>Red<br/>rope</div>]]></text></note><b/></a>"
    )

    assert _read("<rss><item><title>Oak &amp;#8211; ash</title><p>a &amp;amp;</p></item></rss>").text == (
        "## Oak – ash\n\np: a &amp;"
    )
    assert _read(feed).text == "## Roof\n\nIt costs 900.\n\n<p>a</p>"
    assert _read(notes).text == "made: 9; text: Red rope"


@pytest.mark.parametrize(
    "text",
    [
        "Use <b> and </b> for bold, and List<string> if a < b",
        "Close it with </p> or write <br>, never <script>.",
        "Set <div hidden>secret words</div> to hide.",
        "Map<String, List<A>> m; // <p>doc</p>",
        "<p>Map<String, A></p>",
        "<p> or <br>",
        "<br>",
    ],
)
def test_a_text_that_names_tags_stays_as_it_is(text: str) -> None:
    assert _read(f"<?xml version='1.0'?><doc><p>{escape(text)}</p></doc>").text == text


def test_plain_parts_of_pages_are_read_as_a_parser_reads_them() -> None:
    link = (
        '<p>One <b>&amp;</b> <a href="https://a.test/?x=1&amp;y">two</a><br>x</p><ul><li>a</li><li><p>b</p></li></ul>'
    )
    assert part_text(link) == page_text(link).strip() == "One & two (https://a.test/?x=1&y)\nx\n\n- a\n- b"
    assert _read("<?xml version='1.0'?><doc><title>&lt;p>a&lt;/p></title><p>b</p></doc>").title == "<p>a</p>"


def test_lines_and_items_within_a_text_stay_apart() -> None:
    body = "<p>It can<br/>lift</p><p>Do:<list><item>stop</item><item>wait</item></list> or har<lb break='no'/>bour</p>"

    body += "<p>He read <title>Hamlet</title>, then (<title>Lear</title>); 港<lb/>口, <item>x</item>-ray.</p>"
    body += "<p>Items: <list><item>A</item>, <item>B</item></list>.</p>"

    assert _read(f"<?xml version='1.0'?><tt>{body}</tt>").text.split("\n\n") == [
        "It can lift",
        "Do: stop wait or harbour",
        "He read Hamlet, then (Lear); 港口, x-ray.",
        "Items: A, B.",
    ]


def test_an_outline_has_what_its_attributes_say() -> None:
    lines = "<outline text='Pier'><outline text='Crane' xmlUrl='https://a.test/c'/></outline>"
    data = f"<?xml version='1.0'?><opml><head><title>Feeds</title></head><body>{lines}</body></opml>"

    assert _read(data).text == "title: Feeds\n\ntext: Pier\n\ntext: Crane; xmlUrl: https://a.test/c"


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ("<pos>1</pos><item><name>Bolt</name></item><amount>5</amount>", "pos: 1; item name: Bolt; amount: 5"),
        ('<item id="4"><name>Bolt</name></item><n>5</n>', "item id: 4; item name: Bolt; n: 5"),
        ('<pos>1</pos><price amount="5" unit="EUR"/>', "pos: 1; price amount: 5; price unit: EUR"),
        ("<ship><size><w>3</w><h>4</h></size></ship><n>2</n>", "ship size w: 3; ship size h: 4; n: 2"),
        ("<Name>Kai</Name><Point><at>10,54</at></Point>", "Name: Kai; Point at: 10,54"),
    ],
)
def test_fields_within_a_field_stay_in_their_record(record: str, text: str) -> None:
    assert _read(f"<rows><row>{record}</row><row>{record}</row></rows>").text == f"{text}\n\n{text}"


def test_a_record_with_one_field_has_its_attributes() -> None:
    part = '<part sku="A"><dim><w>3</w><h>4</h></dim></part>'

    assert _read(f"<parts>{part}{part.replace('A', 'B')}</parts>").text == (
        "sku: A; dim w: 3; dim h: 4\n\nsku: B; dim w: 3; dim h: 4"
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            "<n>1</n><row><sku>A</sku><q>1</q></row><row><sku>B</sku><q>2</q></row>",
            "n: 1\n\nsku: A; q: 1\n\nsku: B; q: 2",
        ),
        ("<n>1</n><rows><row><a>1</a></row><row><a>2</a></row></rows>", "n: 1\n\na: 1\n\na: 2"),
        ("<server><host>a</host></server><db><host>b</host></db>", "server host: a\n\ndb host: b"),
        ("<rows><row><sku>A</sku><q>1</q></row></rows>", "sku: A; q: 1"),
        ('<ship name="Skua"><mast h="3"/><mast h="4"/></ship>', "name: Skua\n\nh: 3\n\nh: 4"),
        ("<a><b><c><d><e><f>1</f><g>2</g></e></d></c></b><h>3</h></a>", "f: 1; g: 2\n\nh: 3"),
    ],
)
def test_a_list_of_records_and_what_leads_to_them_are_no_record(data: str, text: str) -> None:
    assert _read(f"<root>{data}</root>").text == text


def test_the_pages_of_a_wikis_dump_keep_their_headings_and_tables() -> None:
    text = "Ships.\n\n== Fleet ==\n{|\n! Ship !! Draught\n|-\n| Skua || 4.2\n|}"

    read = _read(f"<mediawiki><page><title>Kai</title><revision><text>{text}</text></revision></page></mediawiki>")

    assert read.text.endswith("Ships.\n\n== Fleet ==\n\n| Ship | Draught |\n| --- | --- |\n| Skua | 4.2 |")


def test_signs_of_a_wikis_table_in_other_xml_are_text() -> None:
    read = _read("<notes><text>== Code ==\n{|\nlet a = 1\n|}</text></notes>")

    assert "let a = 1" in read.text


def test_a_title_among_fields_is_a_field() -> None:
    books = [
        f'<book id="{at}"><author>Lund</author><title>{name}</title><price unit="EUR">{at}.5</price>'
        "<about>All of them.</about></book>"
        for at, name in enumerate(("Tides", "Ropes"), 1)
    ]

    read = _read(f"<catalog>{''.join(books)}</catalog>")

    assert read.title == "a"  # as the file is called
    assert read.text == (
        "id: 1; author: Lund; title: Tides; price: 1.5 (unit: EUR); about: All of them.\n\n"
        "id: 2; author: Lund; title: Ropes; price: 2.5 (unit: EUR); about: All of them."
    )


def test_a_title_is_a_field_also_beside_fields_that_have_fields() -> None:
    books = [
        f"<book><title>{name}</title><by><name>Lund</name></by><price unit='EUR'>{at}.5</price></book>"
        for at, name in enumerate(("Tides", "Ropes"), 1)
    ]

    assert _read(f"<catalog>{''.join(books)}</catalog>").text == (
        "title: Tides; by name: Lund; price: 1.5 (unit: EUR)\n\ntitle: Ropes; by name: Lund; price: 2.5 (unit: EUR)"
    )


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        ("at 10<sup>5</sup> Pa", "at 10^5 Pa"),
        ("10<superscript>-3</superscript> mol m<superscript>-2</superscript>", "10^-3 mol m^-2"),
        ("Gauges<xref rid='b1'><sup>1</sup></xref> are", "Gauges[1] are"),
        ("Gauges<sup><xref rid='b1'>1</xref>,<xref rid='b2'>2</xref></sup> are", "Gauges[1,2] are"),
        # Not apart from what they belong to
        ("the 1<sup>st</sup> of May", "the 1st of May"),
        ("H<sub>2</sub>O", "H2O"),
        ("<sup>1</sup>By the office.", "1By the office."),
        ("SCOAP<sup>3</sup> pays", "SCOAP3 pays"),  # a search for the word finds it
        ("12 m<superscript>2</superscript>", "12 m2"),
        ("M<sup>lle</sup> Lund", "Mlle Lund"),
        ("see [<xref rid='b1'>1</xref>]", "see [1]"),
    ],
)
def test_raised_numbers_stay_apart(raised: str, text: str) -> None:
    assert _read(f"<article><p>{raised}</p></article>").text == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            (
                "<task id='t'><title>Fuse</title><shortdesc>It protects.</shortdesc><taskbody><steps>"
                "<step><cmd>Stop.</cmd></step><step><cmd>Pull it.</cmd></step></steps></taskbody></task>"
            ),
            "# Fuse\n\nIt protects.\n\n1. Stop.\n\n2. Pull it.",
        ),
        (
            (
                "<act><title>Harbours</title><part><heading>1</heading><text>Open.</text></part>"
                "<part><heading>2</heading><text>Free.</text></part></act>"
            ),
            "# Harbours\n\n## 1\n\nOpen.\n\n## 2\n\nFree.",
        ),
        (
            (
                "<book><chapter><title>Ebb</title><step>Wait.</step><step>Go.</step></chapter>"
                "<chapter><title>Flow</title><step>Stay.</step></chapter></book>"
            ),
            "## Ebb\n\nWait.\n\nGo.\n\n## Flow\n\nStay.",
        ),
        (
            (
                "<dita><task><title>On</title><a>x</a><steps><cmd>Open.</cmd></steps></task>"
                "<task><title>Off</title><a>y</a><steps><cmd>Shut.</cmd></steps></task></dita>"
            ),
            "## On\n\nx\n\nOpen.\n\n## Off\n\ny\n\nShut.",
        ),
        (
            (
                "<guide><part><title>Ebb</title><warning>Wait.</warning><step>Go on foot.</step></part>"
                "<part><title>Flow</title><warning>Be quick!</warning><step>Go by boat.</step></part></guide>"
            ),
            "## Ebb\n\nWait.\n\nGo on foot.\n\n## Flow\n\nBe quick!\n\nGo by boat.",
        ),
        ("<poem><title>Tide</title><l>It goes</l><l>and comes</l></poem>", "# Tide\n\nIt goes\n\nand comes"),
    ],
)
def test_a_title_above_other_text_is_a_heading(data: str, text: str) -> None:
    read = _read(data)

    assert read.text == text
    assert read.title == text.partition("\n")[0].lstrip("# ")


def test_runs_of_a_paragraph_touch_and_tables_of_word_stay_together() -> None:
    def cell(text: str, more: str = "") -> str:
        return f"<w:tc>{more}<w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"

    def row(*cells: str) -> str:
        return f"<w:tr><w:trPr><w:cantSplit/></w:trPr>{''.join(cells)}</w:tr>"

    runs = "<w:p><w:pPr><w:pStyle/></w:pPr><w:r><w:t>We pa</w:t></w:r><w:r><w:t>int the </w:t></w:r>"
    runs += "<w:hlink><w:r><w:t>hull</w:t></w:r></w:hlink></w:p>"
    rows = row(*map(cell, ("Task", "Cost", "Who"))) + row(*map(cell, ("Paint", "90", "Ann")))
    rows += row(cell("In May", "<w:tcPr><w:gridSpan w:val='2'/></w:tcPr>"), cell("Bo"))
    body = f"<w:body>{runs}{runs}<w:tbl><w:tblPr/>{rows}</w:tbl></w:body>"

    text = _read(f"<w:wordDocument xmlns:w='http://word/2003/wordml'>{body}</w:wordDocument>").text

    assert text.split("\n\n") == [
        "We paint the hull",
        "We paint the hull",
        "| Task | Cost | Who |\n| --- | --- | --- |\n| Paint | 90 | Ann |\n| In May | In May | Bo |",
    ]


def test_code_keeps_its_lines_within_an_article() -> None:
    text = "<para>Type <code>go</code> now.</para>"

    read = _read(f"<section><title>Run</title>{text}<screen>load 7\n  verify 7</screen></section>").text

    assert read.endswith("Type go now.\n\n```\nload 7\n  verify 7\n```")
    for element in ("<code>\n AB-12\n</code>", "<example>\n<para>AB-12</para>\n</example>", "<para>AB\n-12</para>"):
        assert "```" not in _read(f"<section><title>Run</title>{text}{element}</section>").text
    assert "```" not in _read("<rows><row><code>A\nB</code></row><row><code>C</code></row></rows>").text


@pytest.mark.parametrize(
    "rows",
    [
        (
            "<simpletable><sthead><stentry>Lamp</stentry><stentry>Means</stentry></sthead>"
            "<strow><stentry>red</stentry><stentry>stop</stentry></strow></simpletable>"
        ),
        (
            "<choicetable><chhead><choptionhd>Lamp</choptionhd><chdeschd>Means</chdeschd></chhead>"
            "<chrow><choption>red</choption><chdesc>stop</chdesc></chrow></choicetable>"
        ),
    ],
)
def test_tables_of_dita_have_their_rows(rows: str) -> None:
    read = _read(f"<topic><title>Lamps</title><body><p>Look.</p>{rows}</body></topic>")

    assert read.text.endswith("| Lamp | Means |\n| --- | --- |\n| red | stop |")


def test_a_note_does_not_touch_the_word_before_it_and_styles_of_pictures_are_no_text() -> None:
    assert _read("<div><p>In 1881<note>At Delff.</note> and later.</p></div>").text == "In 1881 At Delff. and later."
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><style>.a {{}}</style><text>Pump</text></svg>'
    assert _read(svg).text == "Pump"
    assert "Casual" in _read("<rows><row><style>Casual</style></row><row><style>Chic</style></row></rows>").text


def test_addresses_of_a_site_and_places_of_a_map_are_records() -> None:
    image = "<image><loc>https://a.b/1.jpg</loc><title>The pier</title></image>"
    site = f"<urlset><url><loc>https://a.b/</loc><lastmod>2024-02-01</lastmod>{image}</url><url><loc>c</loc></url></urlset>"
    assert "loc: https://a.b/; lastmod: 2024-02-01" in _read(site).text
    data = '<Data name="Height"><value>12</value></Data><Data name="Beds"><value>4</value></Data>'
    place = f"<Placemark><name>Hut</name><ExtendedData>{data}</ExtendedData></Placemark>"
    hut = "name: Hut; ExtendedData Height: 12; ExtendedData Beds: 4"
    assert _read(f"<kml><Document>{place}{place}</Document></kml>").text.count(hut) == 2


@pytest.mark.parametrize(("root", "entry"), [("rss", "item"), ("feed", "entry")])
def test_fields_of_a_feeds_entries_have_their_names(root: str, entry: str) -> None:
    fields = "<title>Gate</title><updated>2024-05-02</updated><category>locks</category><category>dikes</category>"
    text = "<content>&lt;p&gt;The gate broke.&lt;/p&gt;&lt;p&gt;It is shut.&lt;/p&gt;</content>"

    read = _read(f"<{root}><title>News</title><{entry}>{fields}{text}</{entry}></{root}>").text

    fields = "updated: 2024-05-02\n\ncategory: locks\n\ncategory: dikes"
    assert read == f"# News\n\n## Gate\n\n{fields}\n\nThe gate broke.\n\nIt is shut."
    assert "ref" not in _read(f"<book><title>News</title><{entry}><p>A gate.</p><ref>12</ref></{entry}></book>").text


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ('<title type="html">Lock &amp;amp; key</title>', "Lock & key"),
        ('<title type="html"><![CDATA[It&#8217;s here]]></title>', "It’s here"),
        ('<title type="html">Lock &amp; key</title>', "Lock & key"),
        ('<title type="text">The sign &amp;amp;</title>', "The sign &amp;"),
        ("<title>The sign &amp;amp;</title>", "The sign &amp;"),
        ('<title type="html">R&amp;D</title>', "R&D"),
    ],
)
def test_titles_in_html_are_read_as_such(title: str, text: str) -> None:
    read = _read(f"<feed>{title}<entry>{title}<summary>It opens.</summary></entry></feed>")

    assert (read.title, read.text) == (text, f"# {text}\n\n## {text}\n\nIt opens.")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It took &lt;em&gt;two&lt;/em&gt; days.", "It took two days."),
        ("It rains.&lt;br&gt;It &lt;b&gt;pours&lt;/b&gt;.", "It rains.\nIt pours."),
        ("Use the &lt;b&gt; tag.", "Use the <b> tag."),
        ("A list&lt;int&gt; of &lt;/int&gt; it.", "A list<int> of </int> it."),
        ("It is 3 &lt; 4.", "It is 3 < 4."),
        ("It rains.", "It rains."),
    ],
)
def test_words_of_a_feed_may_have_tags_within(text: str, shown: str) -> None:
    feed = (
        f"<rss><channel><title>N</title><item><title>T</title><description>{text}</description></item></channel></rss>"
    )

    assert _read(feed).text.endswith(shown)
    assert _read(f"<a><p>{text}</p></a>").text == unescape(text)


def test_a_value_alone_has_the_name_of_its_element() -> None:
    assert _read('<Patient><id value="p7"/><name><given value="Ada"/></name></Patient>').text == "id: p7\n\ngiven: Ada"
    assert _read('<a><set name="port" value="80"/></a>').text == "name: port; value: 80"
    assert _read('<a><option value="de">German</option><b>c</b></a>').text == "option: German (value: de); b: c"


def test_a_property_list_has_its_names_also_beside_lists_and_switches() -> None:
    plist = "<dict><key>Name</key><string>Sieve</string><key>Debug</key><false/><key>Hosts</key><array>"
    plist += "<string>a</string><string>b</string></array><key>Retries</key><integer>4</integer></dict>"

    read = _read(f'<plist version="1.0">{plist}</plist>').text

    assert read.endswith("Name: Sieve; Debug: false; Hosts string: a; Hosts string: b; Retries: 4")


def test_units_of_a_translation_keep_source_and_target_together() -> None:
    unit = "<trans-unit id='{0}'><source>{0} it</source><target>{0} es</target></trans-unit>"
    file = f"<xliff><file original='app'><body>{unit.format('Open')}{unit.format('Close')}</body></file></xliff>"

    assert "id: Close; source: Close it; target: Close es" in _read(file).text.split("\n\n")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            '<p>We saw eels<xref ref-type="bibr">1,2</xref> in <xref ref-type="fig">3</xref>.</p>',
            "We saw eels[1,2] in 3.",
        ),
        ("<p>A <choice><orig>harbr</orig><reg>harbour</reg></choice> here.</p>", "A harbr harbour here."),
        ("<p><b>High</b> <i>water</i></p>", "High water"),
        (
            '<p>See <ext-link xmlns:x="urn:x" x:href="https://e.org/k">this</ext-link>.</p>',
            "See this (https://e.org/k).",
        ),
        (
            '<p>So <math xmlns="http://www.w3.org/1998/Math/MathML"><mfrac><mi>a</mi><mi>b</mi></mfrac></math></p>',
            "So a/b",
        ),
        ("<orderedlist><listitem><para>Stop.</para></listitem></orderedlist><p>x</p>", "1. Stop.\n\nx"),
        ('<list list-type="alpha-upper"><list-item><p>Stop.</p></list-item></list><p>x</p>', "A. Stop.\n\nx"),
        ('<list list-type="order"><list-item><label>3</label><p>Go.</p></list-item></list><p>x</p>', "3 Go.\n\nx"),
        ('<list list-type="bullet"><list-item><p>Stop.</p></list-item></list><p>x</p>', "Stop.\n\nx"),
    ],
)
def test_lists_links_marks_and_equations_are_as_a_reader_sees_them(body: str, text: str) -> None:
    assert _read(f"<?xml version='1.0'?><article><sec>{body}</sec></article>").text == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<sec><label>2</label><title>Ropes</title><p>Old.</p></sec>", "### 2 Ropes\n\nOld."),
        ("<fig><label>Fig. 1</label><caption><p>A rig.</p></caption></fig>", "Fig. 1 A rig."),
        ("<def-item><term>MBL</term><def><p>load</p></def></def-item>", "MBL: load"),
        (
            "<varlistentry><term>-f</term><term>--fast</term><listitem><para>Go.</para></listitem></varlistentry>",
            "-f / --fast: Go.",
        ),
        ("<name><surname>Petry</surname><given-names>Ines</given-names></name>", "Petry Ines"),
        ("<element-citation><source>Mat</source><year>1999</year></element-citation>", "Mat, 1999"),
        ("<p>Ropes<indexterm><primary>rope</primary></indexterm> wear.</p>", "Ropes wear."),
        (
            "<p><menuchoice><guimenu>File</guimenu><guimenuitem>Save</guimenuitem></menuchoice>.</p>",
            "File > Save.",
        ),
        (
            "<p>Press <keycombo><keycap>Ctrl</keycap><keycap>S</keycap></keycombo>.</p>",
            "Press Ctrl+S.",
        ),
        (
            "<menuchoice>\n<shortcut><keycombo><k>Ctrl</k><k>S</k></keycombo></shortcut><gui>File</gui><gui>Save</gui></menuchoice>",
            "File > Save (Ctrl+S)",
        ),
        (
            "<p>A<indexterm>rope<indexterm>old</indexterm></indexterm> b<indexterm>knot</indexterm>.</p>",
            "A b.",
        ),
        (
            "<contrib><name><surname>Petry</surname></name><aff><institution>Pier</institution><city>Rome</city></aff></contrib>",
            "Petry Pier Rome",
        ),
        (
            "<contrib><aff><w><id>r.org/1</id><name>Pier</name></w>, <city>Rome</city></aff><e>a@b.c</e></contrib>",
            "r.org/1 Pier, Rome a@b.c",
        ),
        ("<author><who><first>Ines</first><last>Petry</last></who></author>", "Ines Petry"),
        # what looks like these
        ("<p>The <name><hi>P</hi><hi>etry</hi></name> rig.</p>", "The Petry rig."),
        (
            "<contrib><name><surname>Petry</surname></name><bio><p>Sails.</p><p>Rows.</p></bio></contrib>",
            "Petry\n\nSails.\n\nRows.",
        ),
        ("<kwd-group><title>Keys</title><kwd>rope</kwd><kwd>knot</kwd></kwd-group>", "### Keys\n\nrope\n\nknot"),
        ("<list><item><term>rope</term><term>knot</term></item></list>", "rope\n\nknot"),
        ("<fig><label>Rope</label><label>Seil</label><p>x</p></fig>", "Rope\n\nSeil x"),
        ("<p>See <term>rope</term> <term>knot</term>.</p>", "See rope knot."),
        (
            "<fig><label>Table 1</label><table><tr><td>1</td><td>2</td></tr></table></fig>",
            "Table 1\n\n| 1 | 2 |\n| --- | --- |",
        ),
        (
            "<def-item><term>Knots</term><def><list><list-item><p>Bowline</p></list-item></list></def></def-item>",
            "Knots\n\nBowline",
        ),
        ("<p>The <term>bight</term> <b>here</b> is a bend.</p>", "The bight here is a bend."),
        (
            "<dlentry><dt>EGT</dt><dd><table><tr><td>1</td><td>2</td></tr></table></dd></dlentry>",
            "EGT\n\n| 1 | 2 |\n| --- | --- |",
        ),
        ("<mixed-citation><name>Brandt</name>, <year>1999</year>.</mixed-citation>", "Brandt, 1999."),
    ],
)
def test_parts_that_belong_together_are_one_text(source: str, text: str) -> None:
    assert _read(f"<?xml version='1.0'?><article><body>{source}</body><p>End</p></article>").text == f"{text}\n\nEnd"


def test_texts_of_translations_stand_with_their_names_whatever_tags_are_within() -> None:
    android = (
        '<resources><string name="hi">Hello <xliff:g xmlns:xliff="urn:x">%s</xliff:g>!</string>'
        '<plurals name="boats"><item quantity="one">a boat</item><item quantity="other">boats</item></plurals>'
        "</resources>"
    )
    xliff = (
        '<xliff><file><trans-unit id="a"><source>Depth <x id="1" equiv-text="{d}"/> m</source>'
        "<target>Tiefe <x id='1' equiv-text='{d}'/> m</target><context-group><context t='f'>a.ts</context>"
        "<context t='n'>3</context></context-group></trans-unit><trans-unit id='b'><source>x</source></trans-unit>"
        "</file></xliff>"
    )

    assert _read(f"<?xml version='1.0'?>{android}").text == (
        "name: hi; string: Hello %s!\n\nname: boats; item: a boat (quantity: one); item: boats (quantity: other)"
    )
    assert "source: Depth {d} m; target: Tiefe {d} m; " in _read(f"<?xml version='1.0'?>{xliff}").text
    for mark in ('equiv-text="&lt;br/&gt;"', 'equiv="br" disp="&lt;br/&gt;"', 'equiv="INTERPOLATION"'):
        text = _read(f"<?xml version='1.0'?>{xliff}".replace('equiv-text="{d}"', mark)).text
        assert "source: Depth m; target: Tiefe {d} m; " in text


def test_what_only_leads_to_a_record_gives_it_its_name_and_fields_of_the_whole_are_one() -> None:
    bill = (
        "<bill><id>7</id><day>2 May</day><seller><party><who><name>Ann</name></who></party></seller>"
        "<buyer><party><who><name>Bo</name></who></party></buyer></bill>"
    )

    assert _read(f"<?xml version='1.0'?>{bill}").text == "id: 7; day: 2 May\n\nseller name: Ann\n\nbuyer name: Bo"


def test_words_of_a_drawing_stay_together_and_html_in_a_feeds_title_has_no_tags() -> None:
    drawing = '<svg xmlns="http://www.w3.org/2000/svg"><text><tspan>Pier </tspan><tspan>four</tspan></text></svg>'
    feed = '<feed><title>Log</title><entry><title type="html">A &lt;i>big&lt;/i> ship</title></entry></feed>'

    assert _read(f"<?xml version='1.0'?>{drawing}").text == "Pier four"
    assert "A big ship" in _read(f"<?xml version='1.0'?>{feed}").text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('<list list-type="unordered"><list-item><p>Nuts</p></list-item></list>', "Nuts"),
        ('<ol start="5"><li>Five</li><li>Six</li></ol>', "5. Five\n\n6. Six"),
        ("<procedure><step><para><anchor id='a'/>Do it</para></step></procedure>", "1. Do it"),
        ("<p><b>Note</b><i>this</i></p>", "Note\n\nthis"),
        ("<p>fo<corr>u</corr>r</p>", "four"),
        ("<p>et al.,<xref ref-type='bibr'>2019</xref></p>", "et al.,2019"),
        (
            "<p>Area <math xmlns='http://www.w3.org/1998/Math/MathML'><apply><ci>alpha</ci></apply></math> end</p>",
            "Area alpha end",
        ),
    ],
)
def test_what_only_resembles_a_list_line_or_reading_stays_as_it_is(source: str, text: str) -> None:
    assert _read(f"<doc><p>Begin.</p>{source}</doc>".encode()).text == f"Begin.\n\n{text}"


def test_a_place_of_a_map_has_its_description_as_text() -> None:
    place = "<Placemark><name>Pier</name><description><![CDATA[<b>Deep</b> water<br>8 m]]></description></Placemark>"

    assert "description: Deep water 8 m" in _read(f"<kml><Document>{place * 2}</Document></kml>").text
    assert "note: a < b & c" in _read("<r><i><note>a &lt; b &amp; c</note><n>1</n></i></r>").text
