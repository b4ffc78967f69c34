import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.html_markdown import page_text, tree_of
from services.ingest_worker.extract.html_tree import joined
from tests.loop_holds import least_cpu_s

_PROSE = "The harbour office keeps a book of all ships that lie at the quay, with their names, masters and cargo. " * 4

_TABLE = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"


def _page(body: str) -> str:
    """Return the text of the page as a whole, and check that the main text of a longer page has it, too."""
    whole = page_text(f"<html><body>{body}</body></html>").strip()
    page = f"<html><body><main><h1>Harbour</h1><p>{_PROSE}</p>{body}<p>So it says. {_PROSE}</p></main></body></html>"
    main = extract(page.encode(), Hints(filename="a.html")).text
    for line in filter(None, whole.split("\n")):
        assert _bare(line) in _bare(main)
    return whole


def _bare(text: str) -> str:
    return "".join(text.split()).replace("-", "")


def test_items_of_ordered_lists_keep_their_numbers() -> None:
    assert _page("<ol><li>Stop it.</li><li><p>Wait.</p></li></ol>") == "1. Stop it.\n2. Wait."
    assert _page('<ol start="4"><li>Stop it.</li><li value="9">Wait.</li></ol>') == "4. Stop it.\n9. Wait."


@pytest.mark.parametrize(
    ("listed", "numbers"),
    [
        ('<ol type="a">', "a b"),
        ('<ol type="A" start="27">', "AA AB"),
        ('<ol type="i" start="3">', "iii iv"),
        ('<ol style="list-style-type: upper-roman" start="1999">', "MCMXCIX MM"),
        ('<ol style="list-style:lower-latin inside" start="26">', "z aa"),
        ('<ol type="a" reversed>', "b a"),
    ],
)
def test_letters_and_roman_figures_of_lists_stay_behind_bullets(listed: str, numbers: str) -> None:
    first, second = numbers.split()

    assert _page(f"{listed}<li>Stop it.</li><li>Wait.</li></ol>") == f"- {first}. Stop it.\n- {second}. Wait."


@pytest.mark.parametrize(
    ("listed", "numbered"),
    [
        ('<ol type="1"><li>Stop it.</li>', "1. Stop it."),
        ('<ol type="a" start="0"><li>Stop it.</li>', "0. Stop it."),
        ('<ol type="disc"><li>Stop it.</li>', "1. Stop it."),
        ("<ol reversed>\n<li>Stop it.</li>\n<li>Wait.</li>\n", "2. Stop it.\n1. Wait."),
        ('<ul type="a"><li>Stop it.</li></ul>', "- Stop it."),
    ],
)
def test_other_lists_have_figures_or_none(listed: str, numbered: str) -> None:
    assert _page(f"{listed}</ol>") == numbered


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("<dt>Bollard</dt><dd>A post.</dd>", "Bollard: A post."),
        ("<dt>How much is it?</dt><dd><p>Nine euros.</p></dd>", "How much is it? Nine euros."),
        ("<div><dt>Width:</dt><dd>5 m</dd></div>", "Width: 5 m"),
        (
            '<dt><a href="https://example.org/a">Guide</a></dt><dd>To begin.</dd>',
            "Guide (https://example.org/a): To begin.",
        ),
        ("<dt>Bow</dt><dt>Prow</dt><dd>The front.</dd><dd>Of a ship.</dd>", "Bow / Prow: The front.\n\nOf a ship."),
        ("<dt>Bow</dt><dd>Front</dd><dt>Stern</dt><dd>Back</dd>", "Bow: Front\n\nStern: Back"),
        # No pair of a term and a short text: they stay as they are.
        ("<dt>Bow</dt>", "Bow"),
        ("<dt>Bow</dt><dd></dd>", "Bow"),
        ("<dd>The front.</dd>", "The front."),
        ("<dt>open(path)</dt><dd><p>Opens it.</p><ul><li>Now.</li></ul></dd>", "open(path)\n\nOpens it.\n\n- Now."),
        (
            "<dt>open(a)</dt><dt>open(b)</dt><dd><p>Opens it.</p><ul><li>Now.</li></ul></dd>",
            "open(a)\n\nopen(b)\n\nOpens it.\n\n- Now.",
        ),
        ("<dt>Bow<dt>Prow<dd>The front.<dd>Of a ship.", "Bow\n\nProw\n\nThe front.\n\nOf a ship."),
        ("<dt>Bow</dt>is<dd>The front.</dd>", "Bow\n\nis\n\nThe front."),
        ("<dt> </dt><dd>The front.</dd>", "The front."),
    ],
)
def test_a_term_stands_before_its_definition(listed: str, said: str) -> None:
    assert page_text(f"<dl>{listed}</dl>").strip() == said


def test_a_term_of_a_main_text_stands_before_its_definition() -> None:
    page = f"<p>{_PROSE}</p><dl><dt><a href='https://example.org/a'>Bow</a></dt><dd>The front.</dd></dl><p>{_PROSE}</p>"

    assert "\n[Bow](https://example.org/a): The front.\n" in extract(page.encode(), Hints(filename="a.html")).text


def test_a_page_keeps_its_own_signs() -> None:
    listed = "<ol type=a><li>One of them is here</li><li>Two</li></ol>"
    page = f"<p>{_PROSE} ⦙ and ⦙ab. c ⦚</p>{listed}<pre>⦙\n\n⦙</pre><p>{_PROSE}</p>"

    for text in (page_text(page), extract(page.encode(), Hints(filename="a.html")).text):
        assert "⦙ and ⦙ab. c ⦚" in text
        assert "- a. One of them" in text
        assert "⦙\n\n⦙" in text


@pytest.mark.parametrize(
    "source",
    [
        "make run\n  make test\n\nmake all",
        "<b>make</b> run\n  make test\n\n<i>make all</i>",
        "make run<br>  make test<br><br>make all",
        "<code>make run\n  make test\n\nmake all</code>",
    ],
)
def test_what_is_preformatted_is_code_with_all_of_its_lines(source: str) -> None:
    code = "```\nmake run\n  make test\n\nmake all\n```"
    page = f"<h1>Run</h1><p>{_PROSE}</p><pre>{source}</pre><p>{_PROSE}</p>"

    assert page_text(f"<pre>{source}</pre>").strip() == code
    assert code in extract(page.encode(), Hints(filename="a.html")).text


def test_anchors_and_spacers_cost_no_text_and_underlines_are_no_tags() -> None:
    anchor, spacer = '<span id="more"></span>', '<div class="space"></div>'

    assert _page(f"<p>{anchor}Ships may lie here.</p>") == "Ships may lie here."
    assert _page(f"<p><b>{spacer}Boats, </b><b>too.{spacer}</b></p>") == "Boats, too."
    assert _page("<p><u>Tugs</u> may not.</p>") == "Tugs may not."


def test_merged_cells_and_lists_in_cells_are_in_each_row() -> None:
    rows = (
        '<tr><th>Deck</th><th colspan="2">Price</th></tr>'
        '<tr><td rowspan="2">Low</td><td>1</td><td><ul><li>a</li><li>b</li></ul></td></tr>'
        "<tr><td>2</td><td>3</td></tr>"
    )

    text = _page(f"<table>{rows}</table>")

    assert text.split("\n")[0::2] == ["| Deck | Price | Price |", "| Low | 1 | a; b |"]
    assert text.split("\n")[3] == "| Low | 2 | 3 |"
    rest = rows.replace('rowspan="2"', 'rowspan="0"')  # down to the end of its group
    assert _page(f"<table>{rest}</table>") == text


def test_a_header_of_three_rows_becomes_one() -> None:
    rows = "<tr><th rowspan=3>Port</th><th colspan=4>2024</th></tr><tr><th colspan=2>H1</th><th colspan=2>H2</th></tr>"
    rows += f"<tr>{'<th>High</th><th>Low</th>' * 2}</tr><tr><td>Hull</td><td>1</td><td>2</td><td>3</td><td>4</td></tr>"

    assert _page(f"<table>{rows}</table>").split("\n")[::2] == [
        "| Port | 2024 H1 High | 2024 H1 Low | 2024 H2 High | 2024 H2 Low |",
        "| Hull | 1 | 2 | 3 | 4 |",
    ]


@pytest.mark.parametrize("wide", ["colspan=99999", "colspan=3"])
def test_columns_in_which_no_cell_begins_are_none(wide: str) -> None:
    rows = (
        f"<tr><th {wide}>Prices of 2023</th></tr><tr><td>Low</td><td>1</td></tr><tr><td>High</td><td {wide}>2</td></tr>"
    )

    assert _page(f"<table>{rows}</table>").split("\n")[-2:] == ["| Low | 1 |", "| High | 2 |"]


def test_a_caption_stands_above_its_table_and_is_no_header() -> None:
    rows = "<tr><th>Quay</th><th>Ships</th></tr><tr><td>North</td><td>3</td></tr>"
    page = (
        f'<main><p>{"Read. " * 60}</p><table><caption style="border: 1px">Ships in May</caption>{rows}</table></main>'
    )

    text = extract(page.encode(), Hints(filename="a.html")).text

    assert [line.strip() for line in text.split("\n") if line][1:] == [
        "Ships in May",
        "| Quay | Ships |",
        "| --- | --- |",
        "| North | 3 |",
    ]


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ('<div style="border-width: 1px"><pre>load 7\nverify 7</pre></div><p>Behind.</p>', "load 7\nverify 7"),
        ("<pre><code>load 7 <i></i><b>(1)</b>\nverify 7</code></pre><p>Behind.</p>", "load 7 (1)\nverify 7"),
        (
            f'<figure>{_TABLE}<figcaption class="caption">Ships in May</figcaption></figure><p>Behind.</p>',
            "Ships in May",
        ),
        ('<aside class="notice">Use a key of your own.</aside><p>Behind.</p>', "Use a key of your own."),
        ("<header><table><tr><th>Status</th><td>Open</td></tr></table></header><p>Behind.</p>", "| Status | Open |"),
    ],
)
def test_parts_that_trafilatura_drops_stay(part: str, shown: str) -> None:
    page = f"<article><p>{'Read this first. ' * 130}</p>{part}<p>{'Then read on. ' * 20}</p></article>"

    assert shown in extract(page.encode(), Hints(filename="a.html")).text


@pytest.mark.parametrize("part", ["<header>Print</header>", '<div style="border: 1px">Print</div>'])
def test_what_frames_no_code_or_table_is_not_kept(part: str) -> None:
    page = f"<article>{part}<p>{'Read this first. ' * 130}</p></article>"

    assert "Print" not in extract(page.encode(), Hints(filename="a.html")).text


@pytest.mark.parametrize(
    ("mark", "note"),
    [
        ('<a id="r1" href="#n1">1</a>', '<a id="n1" href="#r1">1</a><div><p>By road.</p></div>'),
        ('<sup>[<a id="r1" href="#n1">1</a>]</sup>', '<div id="n1"><a href="#r1">1</a>. By road.</div>'),
        ('<sup><a href="#n1" id="r1">[1]</a></sup>', '<p><a href="#r1" id="n1">[1]</a><span> By road.</span></p>'),
        (
            '<sup id="r1"><a href="#n1">1</a></sup>',
            '<ol><li id="n1"><p>By road. <a href="#r1">\u21a9</a></p></li></ol>',
        ),
    ],
)
def test_notes_and_their_marks_are_found_by_the_links_between_them(mark: str, note: str) -> None:
    page = f"<article><p>{'Read this first. ' * 130}</p><p>It left in 1987{mark}, late.</p>{note}</article>"

    text = extract(page.encode(), Hints(filename="a.html")).text

    assert "It left in 1987[1], late." in text
    assert "By road." in text


def test_notes_behind_the_block_of_a_text_belong_to_it() -> None:
    text = f"<p>{'Read this first. ' * 65}</p><p>It left in 1987<a href='#n1' name='r1'>[1]</a>, late.</p>"
    note = "<p><a href='#r1' name='n1'>[1]</a> By road.</p>"
    page = f"<body><div><h1>The ship</h1>{text * 2}</div><div><hr>{note}</div></body>"

    assert "[1] By road." in extract(page.encode(), Hints(filename="a.html")).text


@pytest.mark.parametrize(
    "links",
    [
        '<div id="top"><a href="#A">A</a> <a href="#B">B</a></div><h2 id="A">A <a href="#top">\u2191</a></h2>',
        '<ul><li><a id="t1" href="#tides">Tides</a></li></ul><h2 id="tides"><a href="#t1">Tides</a></h2>',
        '<p><a href="#1">1</a> <a href="#2">2</a> <a href="#3">3</a></p>',
        '<p>See <a href="#a">below</a>.</p><p id="a">Below.</p>',
        '<p>Table <a href="#t1">1</a>.</p><table id="t1"><tr><td>a</td><td>b</td></tr></table>',
    ],
)
def test_other_links_within_a_page_are_no_marks(links: str) -> None:
    tree, _ = tree_of(f"<article>{links}</article>".encode())

    assert tree is not None
    assert len(list(tree.iter("a", "span"))) == links.count("<a ")


@pytest.mark.parametrize(
    "heading",
    [
        '<div class="mw-heading"><h2>Crew</h2><span class="mw-editsection">[<a href="/w?edit">edit</a>]</span></div>',
        '<div class="markdown-heading"><h2>Crew</h2><a class="anchor" href="#crew"><svg></svg></a></div>',
        '<div><a href="#crew">#</a><h2>Crew</h2></div>',
        '<h2>Crew<a class="headerlink" href="#crew">¶</a></h2>',
        '<h2><a class="doc-anchor" href="#crew">§</a>Crew</h2>',
    ],
)
def test_links_of_a_heading_to_itself_or_an_editor_are_no_text_and_cost_none(heading: str) -> None:
    page = f"<main><article>{heading}<p>{'Read this first. ' * 130}</p></article></main>"

    assert extract(page.encode(), Hints(filename="a.html")).text.startswith("## Crew\n\nRead")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('<h2><a href="#crew">Crew</a></h2>', "## Crew"),
        ('<h2>Crew <a href="#n1">*</a></h2>', "## Crew *"),
        ('<h2>Rule <a href="/law">§</a> 5</h2>', "## Rule [§](/law) 5"),
        ('<p>See <a href="#five">§</a> 5.</p>', "See § 5."),
        ("<h2>C# [edit]</h2>", "## C# [edit]"),
    ],
)
def test_other_links_and_signs_of_headings_stay(body: str, text: str) -> None:
    assert page_text(f"<html><body>{body}</body></html>", base="").strip() == text


def test_captions_stand_beside_their_figures() -> None:
    table = "<table><tr><th>Quay</th><th>Ships</th></tr><tr><td>North</td><td>3</td></tr></table>"
    two = "<figure><figure><img><figcaption>Low</figcaption></figure><img><figcaption>High</figcaption></figure>"

    text = _page(f"<figure><figcaption>Table 1: Ships</figcaption>{table}</figure>{two}<p>Behind.</p>")

    assert [line for line in text.split("\n") if line] == [
        "Table 1: Ships",
        "| Quay | Ships |",
        "| --- | --- |",
        "| North | 3 |",
        "Low",
        "High",
        "Behind.",
    ]


@pytest.mark.parametrize(
    ("around", "kept"),
    [
        ("<h3><button aria-controls=a>Fees?</button></h3><div id=a hidden><p>Three a day.</p></div>", "### Fees?"),
        (
            "<div><button aria-controls=a>Fees?</button></div><p id=a style=display:none>Three a day.</p>",
            "Fees?",
        ),
        (
            "<a role=tab href=#a aria-controls=a>Fees?</a> <div id=a aria-hidden=true><p>Three a day.</p></div>",
            "Fees?",
        ),
        ("<h3><button aria-expanded=false>Fees?</button></h3><div hidden><p>Three a day.</p></div>", "### Fees?"),
    ],
)
def test_what_a_page_shows_on_demand_is_text_below_its_label(around: str, kept: str) -> None:
    page = f"<html><body><main><h1>Harbour</h1><p>{_PROSE}</p>{around}<p>{_PROSE}</p></main></body></html>"

    for text in (extract(page.encode(), Hints(filename="a.html")).text, page_text(page)):
        lines = [line for line in text.split("\n") if line]
        assert lines[lines.index("Three a day.") - 1] == kept


@pytest.mark.parametrize(
    "around",
    [
        "<button>Buy it</button>",
        "<button aria-controls=a>Buy it</button><ul id=a role=menu hidden><li>Buy it</li></ul>",
        "<button aria-controls=a>Buy it</button><div id=a role=dialog hidden><p>Buy it</p></div>",
        "<button aria-controls=a>Buy it</button><div id=a></div>",
        "<button aria-controls=b>Buy it</button><div id=a hidden><p>Buy it</p></div>",
        "<button aria-expanded=false>Buy it</button><div hidden><a href=/>Buy it</a> <a href=/b>Buy it</a></div>",
        "<button aria-expanded=false>Buy it</button><p>Three a day.</p>",
        "<button aria-expanded=false>Share</button><div class=panel hidden>Buy it, or it goes.</div>",
        "<header><button aria-controls=a>Buy it</button><nav id=a hidden><a href=/>Buy it</a></nav></header>",
    ],
)
def test_buttons_that_open_no_text_stay_out(around: str) -> None:
    page = f"<html><body><main><h1>Harbour</h1><p>{_PROSE}</p>{around}<p>{_PROSE}</p></main></body></html>"

    assert "Buy it" not in extract(page.encode(), Hints(filename="a.html")).text


def test_a_first_row_in_bold_letters_is_the_header_also_above_rows_with_names() -> None:
    first = "<tr><td></td><td><b>2019</b></td><td><strong>2022</strong></td></tr>"
    rows = "".join(f"<tr><th>{name}</th><td>1</td><td>2</td></tr>" for name in ("North", "South"))
    page = f"<html><body><main><p>{_PROSE}</p><table>{first}{rows}</table><p>{_PROSE}</p></main></body></html>"

    lines = extract(page.encode(), Hints(filename="a.html")).text.split("\n")

    assert lines[next(at for at, line in enumerate(lines) if "2022" in line) + 1].startswith("| --")


def test_a_link_in_the_first_cell_of_a_row_keeps_its_address() -> None:
    rows = '<tr><th>Deck</th><th>Price</th></tr><tr><td><a href="https://x.org/low">Low</a></td><td>1</td></tr>'
    page = f"<html><body><main><h1>Harbour</h1><p>{_PROSE}</p><table>{rows}</table><p>{_PROSE}</p></main></body></html>"

    assert "| [Low](https://x.org/low) | 1 |" in extract(page.encode(), Hints(filename="a.html")).text


def test_links_in_a_table_of_merged_cells_keep_their_addresses_as_text() -> None:
    link = '<a href="https://x.org/{}">PDF</a>'.format
    rows = (
        "<tr><th>Part</th><th>New</th><th>Old</th></tr>"
        f"<tr><td rowspan=2>Wheel</td><td>{link(1)}</td><td>{link(2)}</td></tr><tr><td>{link(3)}</td><td>none</td></tr>"
    )
    page = f"<html><body><main><h1>Harbour</h1><p>{_PROSE}</p><table>{rows}</table><p>{_PROSE}</p></main></body></html>"

    text = extract(page.encode(), Hints(filename="a.html")).text

    assert "| Wheel | [PDF](https://x.org/1) | [PDF](https://x.org/2) |" in text
    assert "| Wheel | [PDF](https://x.org/3) | none |" in text


def test_a_list_of_links_that_the_text_announces_stays_with_their_addresses() -> None:
    items = "".join(f'<li><a href="https://x.org/{name}">All about {name}</a></li>' for name in ("ropes", "hooks"))
    prose = f"<p>{_PROSE}</p>" * 6
    after = f"<p>So it says. {_PROSE}</p>"
    page = f"<body><main><h1>Harbour</h1>{prose}<p>See also:</p><ul>{items}</ul>{after}</main></body>"

    assert "[All about hooks](https://x.org/hooks)" in extract(page.encode(), Hints(filename="a.html")).text


def test_a_page_for_browsers_without_scripts_is_read_where_there_is_no_other() -> None:
    assert page_text(f"<body><div></div><noscript><p>{_PROSE}</p></noscript></body>").strip() == _PROSE.strip()
    assert page_text(f"<body><p>Text.</p><noscript><p>{_PROSE}</p></noscript></body>") == "\n\nText."
    for unseen in ("template", "iframe", "object"):
        assert page_text(f"<body><div></div><{unseen}>{_PROSE}</{unseen}></body>") == ""
    assert page_text("<body><noscript>Please enable JavaScript to run this app.</noscript></body>") == ""


@pytest.mark.parametrize(
    "table",
    [
        '<table><tr><td class="linenos"><pre>1\n2</pre></td><td class="code"><pre>if a:\n    b</pre></td></tr></table>',
        "<table><tr><td>1</td><td><code>if a:</code></td></tr><tr><td>2</td><td><code>    b</code></td></tr></table>",
    ],
)
def test_code_beside_line_numbers_keeps_its_lines(table: str) -> None:
    assert _page(table) == "```\nif a:\n    b\n```"


def test_a_page_within_a_form_is_read() -> None:
    page = f"<html><body><form><h1>Harbour</h1><p>{_PROSE}</p><input value='x'></form></body></html>"

    assert "keeps a book" in extract(page.encode(), Hints(filename="a.html")).text


@pytest.mark.parametrize(
    "around", ["%s", "<div>%s</div>", '<div class="WordSection1">%s</div>', '<div id="wrap"><div>%s</div></div>']
)
@pytest.mark.parametrize("long", [1, 8])
def test_a_text_that_nothing_names_keeps_its_headings_lists_and_warnings(around: str, long: int) -> None:
    text = f"<h1>Locks</h1><p>{_PROSE * long}</p><h2>Steps</h2><p>{_PROSE.upper()}</p><ol><li>Open.</li></ol>"
    text += "<aside class='warning'><p>It is wet.</p></aside><ul><li>a rope</li></ul>"
    text += "<p>See <a href='a/b'>A</a>, <a href='b/c'>B</a>.</p><dl><dt>Red</dt><dd>shut</dd></dl>"

    found = extract(f"<html><body>{around % text}</body></html>".encode(), Hints(filename="a.html")).text

    assert all(
        each in found for each in ("# Locks", "## Steps", "1. Open.", "It is wet.", "- a rope", "[B](b/c)", "Red: shut")
    )


@pytest.mark.parametrize("part", ["section", "div", "details"])
def test_the_parts_of_a_text_without_scripts_keep_their_headings_and_lists(part: str) -> None:
    text = f"<{part}><h2>Lock {{0}}</h2><p>{_PROSE}{{0}}</p><ul><li>rope {{0}}</li></ul></{part}>"
    parts = "".join(map(text.format, range(5)))

    found = extract(f"<html><body><h1>Locks</h1>{parts}</body></html>".encode(), Hints(filename="a.html")).text

    assert all(each in found for each in ("# Locks", "## Lock 3", "- rope 4"))


@pytest.mark.parametrize(
    "page",
    [
        "<article><h1>Locks</h1><p>{0}</p></article><div><p>{1}</p></div>",
        "<main><h1>Locks</h1><p>{0}</p></main><div><p>{1}</p></div>",
        "<div class='post'><h1>Locks</h1><p>{0}</p></div><div class='comments'><p>{1}</p></div>",
        "<div><h1>Locks</h1><p>{0}</p></div><aside><p>{1}</p></aside>",
        "<h1>Locks</h1><p>{0}</p><nav><p>{1}</p></nav>",
    ],
)
def test_what_is_beside_the_text_of_a_page_stays_out(page: str) -> None:
    beside = "Sign in to say something, or read what our other visitors wrote about it. " * 6

    found = extract(f"<html><body>{page.format(_PROSE * 2, beside)}</body></html>".encode(), Hints(filename="a.html"))

    assert "keeps a book" in found.text
    assert "Sign in" not in found.text


def test_a_warning_in_the_article_and_a_footnote_are_text() -> None:
    warning = '<section><aside class="warning"><p>The quay is slippery.</p></aside></section>'
    note = '<aside epub:type="footnote"><p>At low water.</p></aside>'

    assert page_text(f"<body>{warning}<p>Text.</p>{note}</body>").split("\n\n")[1:] == [
        "The quay is slippery.",
        "Text.",
        "At low water.",
    ]


@pytest.mark.parametrize("cell", ["{0}", "<div>{0}</div>", "<h3>Menu</h3></td><td>{0}"])
@pytest.mark.parametrize("long", [1, 8])
def test_a_page_within_a_table_keeps_its_headings_lists_and_tables(cell: str, long: int) -> None:
    inn = f"<h1>Linde</h1><p>{_PROSE * long}</p><h2>Rooms</h2><ul><li>Single</li><li>Double</li></ul><p>From 7.</p>"
    inn += "<table><tr><th>Room</th><th>Price</th></tr><tr><td>Single</td><td>48</td></tr></table>"

    page = f"<html><body><table><tr><td>{cell.format(inn)}</td></tr></table></body></html>"
    found = extract(page.encode(), Hints(filename="a.html")).text

    assert all(
        each in found for each in ("# Linde", "keeps a book", "## Rooms", "- Double", "From 7.", "| Single | 48 |")
    )


@pytest.mark.parametrize(
    "row",
    [
        "<td><p>Basic</p><p>old</p></td><td>5</td>",
        "<td><ul><li>Basic</li></ul></td><td>5</td>",
        "<th><h3>Basic</h3><p>old</p></th><td>5</td>",
        "<td><h3>Basic</h3></td><td>5</td>",
        "<td><h3>Basic</h3></td><td><p>5</p></td>",
    ],
)
def test_a_table_of_data_stays_one_whatever_its_cells_hold(row: str) -> None:
    table = f"<table><tr><th>Plan</th><th>Price</th></tr><tr>{row}</tr><tr><td>More</td><td>9</td></tr></table>"

    found = extract(f"<html><body><p>{_PROSE}</p>{table}</body></html>".encode(), Hints(filename="a.html")).text

    assert "| More | 9 |" in found
    assert "Plan" in found


def test_cells_that_only_arrange_a_page_leave_no_signs() -> None:
    rows = "<tr><td></td></tr><tr><td>a</td><td>b</td></tr>"
    rows += "<tr><td><h2>Seeds</h2><p>On 9 March.</p></td><td></td><td>Bea |x|<br>0117</td></tr>"

    assert page_text(f"<table>{rows}</table>").strip() == "a | b\n\n## Seeds\n\nOn 9 March.\n\nBea |x|\n0117"


def test_raised_numbers_stand_apart() -> None:
    text = _page('<p>In 1822<sup><a href="#n">1</a></sup> it had 10<sup>5</sup> tons, the 1<sup>st</sup> time.</p>')

    assert text == "In 1822[1] it had 10^5 tons, the 1st time."


def test_what_is_around_an_equation_stays_unless_it_was_hidden() -> None:
    math = "<math><mi>x</mi></math>"
    row = f"<tr><td style='text-align:right'>{math}</td><td>7</td></tr>"

    assert _page(f"<table><tr><th>Sign</th><th>Value</th></tr>{row}</table>").split("\n")[-1] == "| x | 7 |"
    assert _page(f"<p>It is <span style='display: none'>{math}</span><img aria-hidden='true'>.</p>") == "It is x."
    assert page_text(f"<div style='color: red'>a</div><div style='color: red'>{math}</div>") == "\n\na\n\nx"


@pytest.mark.parametrize(
    "shape",
    [
        "<ol>",
        "<ol><li>",
        "<table><tr><td rowspan=9999>a",
        "<td colspan=9999>ab",
        "<form>a",
        "<sup>1",
        "<aside class=note>",
        "<a></a>some text ",
        "<u>some</u> text ",
        "<figure><figcaption>a</figcaption>",
        "<div id=a><button aria-controls=a>b</button>",
        "<h3><button aria-expanded=true>b</button></h3><div hidden>a",
        "<p id=a><a id=a href=#a>1</a>",
        "<div style=border><pre>a</pre>",
        "<article><header><table>",
        "at <time>8</time> ",
        "<ul role=tablist><li role=tab>a</ul><div role=tabpanel>b</div>",
        "<div class=noprint>a",
        "<figure><div>a",
        "<svg><text>ab",
    ],
)
def test_time_grows_with_the_size_alone(shape: str) -> None:
    def spent(count: int, limit_s: float) -> float:
        return least_cpu_s(lambda: tree_of((shape * count).encode()), limit_s)

    limit = 16 * max(spent(1_000, 0), 0.02)
    assert spent(8_000, limit) <= limit


@pytest.mark.parametrize("sign", ["\0", "\x01", "\x0c", "\ufffe", "&#11;", "&#x0B", "\ud800"])
def test_signs_that_xml_has_not_end_no_reader(sign: str) -> None:
    cells = f"<tr><td rowspan='2'>lo{sign}w</td><td><ul><li>a{sign}</li></ul></td></tr><tr><td>b{sign}</td></tr>"
    body = (
        f"<ol><li>St{sign}op</li></ol><p>10<sup>5</sup> N{sign}</p><math><mi>x{sign}</mi></math><table>{cells}</table>"
    )
    page = f"<html><body>{body}</body></html>".encode("utf-8", "surrogatepass")

    assert "10^5 N" in extract(page, Hints(filename="a.html")).text


def test_code_within_code_has_its_line_numbers_taken_away_once() -> None:
    assert "1" not in page_text('<pre><pre><span class="ln">1</span>stop</pre></pre>')


def test_backslashes_that_a_page_shows_stay() -> None:
    shown = r"grep '\[error\]' a\_b \[E = m\] \[x\]"

    assert page_text(f"<p>{shown}</p>") == f"\n\n{shown}"


def test_names_and_signs_in_a_page_are_as_it_shows_them() -> None:
    shown = "Set max_depth_of_tree if x < y [sic], said <q>she</q> of <code>a\\_b</code>."
    body = f"<main><h1>Harbour</h1><p>{_PROSE * 6}</p><p>{shown.replace(' < ', ' &lt; ')}</p></main>"

    text = extract(f"<html><body>{body}</body></html>".encode(), Hints(filename="a.html")).text

    assert "Set max_depth_of_tree if x < y [sic], said she of `a\\_b`." in text


def test_a_form_in_a_page_has_no_header() -> None:
    def written(*rows: str) -> str:
        cells = (row.replace("|", "</td><td>") for row in rows)
        return _page(f"<table>{''.join(f'<tr><td>{each}</td></tr>' for each in cells)}</table>")

    form = written("In:|Mon|Out:|Tue", "Guests:|2|Rooms:|1")
    assert form.startswith("|  |  |  |  |\n| --- | --- | --- | --- |\n| In: | Mon | Out: | Tue |")
    assert written("Part:|Price:", "Rope|2").startswith("| Part: | Price: |\n| --- |")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('<dl><dt>f(x)<a class="headerlink" href="#f">¶</a></dt><dd>does it</dd></dl>', "f(x): does it"),
        ('<table><caption>Fees<a href="#t1">¶</a></caption><tr><th>a</th><th>b</th></tr></table>', "Fees\n"),
        ('<p>See <a href="#p7">§</a> 7.</p>', "§ 7"),
        ('<p>Press <a href="#k">#</a> twice.</p>', "# twice"),
        ('<p>See <a href="b.html#p7">¶</a> there.</p>', "¶"),
        ('<p>See <a href="#p7">¶ 7</a> there.</p>', "¶ 7"),
        ("<h2>The sign ¶</h2><p>It ends a paragraph.</p>", "The sign ¶"),
    ],
)
def test_links_of_terms_and_captions_to_themselves_are_dropped(body: str, text: str) -> None:
    shown = page_text(f"<html><body>{body}</body></html>")

    assert text in f"{shown}\n" or f"[{text}]" in shown


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "<dl><dt>1.</dt><dd><div>Close it,</div></dd><dt>2.</dt><dd><div>Go.</div></dd></dl>",
            "1. Close it,\n\n2. Go.",
        ),
        ("<dl><dt>aa)</dt><dd><p>Boats,</p><p>large.</p></dd></dl>", "aa) Boats,\n\nlarge."),
        ("<dl><dt>Cook</dt><dd><div>He cooks.</div></dd></dl>", "Cook\n\nHe cooks."),
        ("<dl><dt>1927</dt><dd><div>It opened.</div></dd></dl>", "1927\n\nIt opened."),
        ("<dl><dt>A.D. 1</dt><dd><div>It opened.</div></dd></dl>", "A.D. 1\n\nIt opened."),
        (
            "<dl><dt>f(x)</dt><dd><p>Does it.</p><dl><dt>x</dt><dd>a number</dd></dl></dd></dl>",
            "f(x)\n\nDoes it.\n\nx: a number",
        ),
        ("<dl><dt>No</dt><dd>is an answer</dd></dl>", "No: is an answer"),
    ],
)
def test_numbers_as_terms_stand_before_what_they_number(body: str, text: str) -> None:
    assert _page(body) == text


def test_headings_that_open_a_text_are_headings() -> None:
    page = (
        f"<main><h1>Harbour</h1><p>{_PROSE}</p><details><summary><h3>May I?</h3></summary><p>Yes.</p></details></main>"
    )
    plain = page.replace("<h3>", "").replace("</h3>", "")

    assert "\n\n### May I?\n\nYes." in extract(page.encode(), Hints(filename="a.html")).text
    assert "May I?" in extract(plain.encode(), Hints(filename="a.html")).text


def test_who_said_it_stays_below_a_quote() -> None:
    quote = "<blockquote><p>It is safe.</p>{}</blockquote><footer>All rights reserved.</footer>"

    assert "Shedd in Salt" in _page(
        quote.format("<footer class='blockquote-footer'>Shedd in <cite>Salt</cite></footer>")
    )
    assert "rights" not in _page(quote.format(""))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('<p>With <script type="math/tex">v^2</script> it goes.</p>', "With v^2 it goes."),
        ('<p>So</p><script type="math/tex; mode=display">% <![CDATA[\na < b %]]></script>', "So\n\na < b"),
        ('<p>At <span class="MathJax">v2</span><script type="math/tex">v^2</script> it.</p>', "At v2 it."),
        ("<p>At <script>track()</script>six.</p>", "At six."),
        ('<p>At <script type="application/json">{"a": 1}</script>six.</p>', "At six."),
    ],
)
def test_equations_in_tex_are_read_once(body: str, text: str) -> None:
    assert _page(body) == text


@pytest.mark.parametrize(
    ("ruby", "text"),
    [
        ("<ruby>東京<rt>とうきょう</rt></ruby>湾", "東京（とうきょう）湾"),
        ("<ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby>", "漢（かん）字（じ）"),
        ("<ruby>港<rp>(</rp><rt>みなと</rt><rp>)</rp></ruby>", "港(みなと)"),
        ("<ruby>港</ruby>", "港"),
        ("<ruby><rb>氷</rb><rt>こおり</rt></ruby>が", "氷（こおり）が"),
    ],
)
def test_readings_stand_in_brackets(ruby: str, text: str) -> None:
    assert _page(f"<p>{ruby}</p>") == text


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ('<div><span class="label">Length</span><span class="value">84 m</span></div>', "Length 84 m"),
        ("<div><b>Type:</b><span>Ferry</span></div>", "Type: Ferry"),
        ("<ul><li><b>Built</b><span>1996</span></li></ul>", "- Built 1996"),
        ('<ul><li><span class="box">☐</span><span class="text">Bread</span></li></ul>', "- ☐ Bread"),
        ('<div><span class="שדה">אורך</span><span class="ערך">מטר</span></div>', "אורך מטר"),
        ('<ul><li><a class="tag">sea</a><a class="tag">ice</a></li></ul>', "- sea ice"),
        # A word, of which one part is drawn in another way
        ('<ul><li><span class="c1">the bud</span><span class="c2">get</span></li></ul>', "- the budget"),
        ('<p><span class="SpellE">Her</span><span class="bold">on</span></p>', "Heron"),
        ('<div>in <span class="word">Ab</span><span class="more">cd</span></div>', "in Abcd"),
        ('<div><span class="sign">f</span><span class="sign">(x)</span></div>', "f(x)"),
        ('<div><span class="name">東</span><span class="name">京</span></div>', "東京"),
    ],
)
def test_parts_of_a_block_that_its_style_sets_apart_do_not_touch(parts: str, text: str) -> None:
    assert page_text(f"<html><body>{parts}</body></html>").strip() == text


def test_a_note_below_a_table_marks_numbers_and_words_but_no_powers() -> None:
    rows = (
        "<tr><th>Boats<sup>1</sup></th><th>m<sup>2</sup></th></tr>"
        "<tr><td>22.50<sup>1</sup></td><td>10<sup>1</sup></td></tr>"
    )
    note = '<tr><td colspan="2"><sup>1</sup> with water</td></tr>'

    assert "| Boats[1] | m^2 |" in _page(f"<table>{rows}{note}</table>")
    assert "| 22.50[1] | 10^1 |" in _page(f"<table>{rows}{note}</table>")
    assert "| 22.50^1 | 10^1 |" in _page(f"<table>{rows}</table>")


def test_a_table_of_one_cell_arranges_its_paragraphs_and_code() -> None:
    text = _page("<table><tr><td><p>It stops:</p><pre>a:\n  b</pre></td></tr></table>")

    assert text == "It stops:\n\n```\na:\n  b\n```"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<ul><li>a<ol><li>b<ul><li>c</li></ul></li></ol></li><li>d</li></ul>", "- a\n  1. b\n    - c\n- d"),
        ("<ul><li><p>a</p></li><li>b</li></ul>", "- a\n- b"),
        ("<ul><li>a</li></ul><p>b</p><ul><li>c</li></ul>", "- a\n\nb\n\n- c"),
        ("<blockquote><ul><li>a</li></ul></blockquote>", "- a"),
        ("<ul><li>a</li><ul><li>b</li></ul></ul>", "- a\n  - b"),
    ],
)
def test_lists_within_lists_are_indented(body: str, text: str) -> None:
    assert page_text(f"<html><body>{body}</body></html>").strip() == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<pre><ol><li><code>a = 1</code></li><li><code>b</code></li></ol></pre>", "```\na = 1\nb\n```"),
        ("<pre><div>a</div><div>b</div></pre>", "```\na\nb\n```"),
        ("<pre><code><div>a</div>\n<div>b</div>\n</code></pre>", "```\na\nb\n```"),
        ("<pre>a\n\nb</pre>", "```\na\n\nb\n```"),
        ("<pre><span>a</span> <span>b</span>\nc</pre>", "```\na b\nc\n```"),
        ("<pre>a</pre><pre>b</pre>", "```\na\n```\n\n```\nb\n```"),
        ("<figure><pre>a\nb</pre></figure>", "```\na\nb\n```"),
        (
            (
                '<figure><pre><code><table><tr><td class="gutter"><pre class="lineno">1\n2\n</pre></td>'
                '<td class="code"><pre>a\nb\n</pre></td></tr></table></code></pre></figure>'
            ),
            "```\na\nb\n```",
        ),
        (
            (
                '<table><tr><td class="gutter"><div>1</div><div>2</div></td><td class="code"><div>'
                "<div><code>a</code></div><div><code>b</code></div></div></td></tr></table>"
            ),
            "```\na\nb\n```",
        ),
        (
            (
                '<div class="fragment"><div class="line"><a id="l1"></a><span class="lineno"> 1</span>a</div>'
                '<div class="line"><span class="lineno"> 2</span>b</div></div>'
            ),
            "```\na\nb\n```",
        ),
    ],
)
def test_lines_of_code_may_be_elements(body: str, text: str) -> None:
    assert _page(body) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('<div class="fragment"><p>A vase.</p></div>', "A vase."),
        ('<div class="line"><p>The blue line.</p></div>', "The blue line."),
        ("<ol><li><code>a</code></li></ol>", "1. `a`"),
        ("<p>Type <code>a</code> and <code>b</code>.</p>", "Type `a` and `b`."),
        ("<div><div>One.</div><div>Two.</div></div>", "One.\n\nTwo."),
    ],
)
def test_what_is_no_code_has_no_fences(body: str, text: str) -> None:
    assert page_text(f"<html><body>{body}</body></html>").strip() == text


_BY_ROLE = (
    '<div role="table"><div role="rowgroup"><div role="row"><span role="columnheader">Ship</span>'
    '<span role="columnheader">Berth</span></div></div><div role="row"><div role="rowheader">Skua</div>'
    '<div role="cell">B2</div></div></div>'
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (_BY_ROLE, "| Ship | Berth |\n| --- | --- |\n| Skua | B2 |"),
        (_BY_ROLE.replace('role="table"', 'role="grid"'), "| Ship | Berth |\n| --- | --- |\n| Skua | B2 |"),
        (_BY_ROLE.replace('role="table"', 'role="list"'), "Ship Berth\n\nSkua\n\nB2"),
        ('<div role="grid"><div role="row"><div role="gridcell">Mon</div></div></div>', "Mon"),
        (_TABLE.replace("<table", '<table role="table"'), "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        (
            f'<div role="table"><span role="columnheader">All</span>{_TABLE}</div>',
            "All\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
        ),
    ],
)
def test_tables_may_be_named_by_their_roles(body: str, text: str) -> None:
    assert page_text(f"<html><body>{body}</body></html>").strip() == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            '<div role="tabpanel"><p>By boat.</p></div><div role="tabpanel" hidden><p>By bus.</p></div>',
            "By boat.\n\nBy bus.",
        ),
        ('<div role="dialog" hidden><p>Sign in.</p></div><p>By bus.</p>', "By bus."),
        ("<div hidden><p>Sign in.</p></div><p>By bus.</p>", "By bus."),
        ("<template><p>No {{name}}.</p></template><p>By bus.</p>", "By bus."),
        (
            '<x-card><template shadowrootmode="open"><p>By boat.</p></template><p>By bus.</p></x-card>',
            "By boat.\n\nBy bus.",
        ),
    ],
)
def test_panels_of_tabs_and_open_shadows_are_shown(body: str, text: str) -> None:
    assert _page(body) == text


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        ("<tr><th>Length</th><td>9 m</td></tr><tr><th>Crew</th><td>4</td></tr>", "|  |  |"),
        ("<tr><th>Skua</th><td>9 m</td><td>4</td></tr><tr><th>Tern</th><td>7 m</td><td>3</td></tr>", "|  |  |  |"),
        (
            "<tr><td>Length:</td><td>9 m</td><td>Crew:</td><td>4</td></tr><tr><td>Flag:</td><td>DK</td></tr>",
            "|  |  |  |  |",
        ),
        ("<tr><th>Ship</th><th>Berth</th></tr><tr><th>Skua</th><td>B2</td></tr>", "| Ship | Berth |"),
        ("<tr><td></td><th>Berth</th></tr><tr><th>Skua</th><td>B2</td></tr>", "|  | Berth |"),
        ("<tr><th>Ship</th><td>Berth</td></tr><tr><td>Skua</td><td>B2</td></tr>", "| Ship | Berth |"),
        ("<tr><td><b>Ship</b></td><td><b>Berth</b></td></tr><tr><td>Skua</td><td>B2</td></tr>", "| Ship | Berth |"),
        ("<tr><td>Ship</td><td>Berth</td></tr><tr><td>Skua</td><td>B2</td></tr>", "| Ship | Berth |"),
    ],
)
def test_rows_that_begin_with_their_names_have_no_header_among_them(rows: str, first: str) -> None:
    assert page_text(f"<html><body><table>{rows}</table></body></html>").strip().split("\n")[0] == first


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("<div>Stop it.</div>", "1. Stop it."),
        ("<div><p>Stop it.</p></div>", "1. Stop it."),
        ("<strong>Stop</strong> it.", "1. Stop it."),
        ("Stop it.<p>At once.</p>", "1. Stop it.\n\nAt once."),
        ("<ul><li>Stop it.</li></ul>", "1.\n  - Stop it."),
    ],
)
def test_a_number_stands_before_the_first_words_of_its_item(item: str, text: str) -> None:
    assert page_text(f"<html><body><ol><li>{item}</li></ol></body></html>").strip() == text


@pytest.mark.parametrize(
    ("body", "text", "kept"),
    [
        (
            '<h4>fn <a href="#free">free</a>(berth)</h4><div><p>Frees it.</p></div>',
            "#### fn free(berth)\n\nFrees it.",
            True,
        ),
        ('<div><code><a href="#f">free</a>()</code><p>Frees it.</p></div>', "`free()`", True),
        ('<div><p>See <a href="#n">below</a> for it.</p></div>', "See below for it.", True),
        ('<ul><li><a href="#a">Ebb</a></li><li><a href="#b">Flood</a></li></ul>', "Ebb", False),
        ('<div><a href="/a">Ebb</a> <a href="/b">Flood</a></div>', "Ebb", False),
        ('<div><p><a href="/n">Ferry runs aground</a></p></div>', "Ferry", False),
    ],
)
def test_links_among_words_cost_no_text_of_theirs(body: str, text: str, kept: bool) -> None:
    page = f"<html><body><main><h1>Harbour</h1><p>{_PROSE}</p><p>{_PROSE}</p><div>{body}</div></main></body></html>"

    assert (text in extract(page.encode(), Hints(filename="a.html")).text) is kept


def test_words_of_a_caption_stay_though_they_are_named_so() -> None:
    caption = '<caption><span class="caption-number">Table 1 </span><span class="caption-text">Berths</span></caption>'

    assert _page(_TABLE.replace("<tr>", f"{caption}<tr>", 1)).startswith("Table 1 Berths\n\n|")
    linked = '<caption>Berths of <a class="caption-link" href="/wiki/Aldo">Aldo</a></caption><tr>'
    page = f"<html><body><main><p>{_PROSE}</p>{_TABLE.replace('<tr>', linked, 1)}<p>{_PROSE}</p></main></body></html>"
    assert "Berths of [Aldo](/wiki/Aldo)" in extract(page.encode(), Hints(filename="a.html")).text


def test_a_mark_in_brackets_of_its_own_has_no_others() -> None:
    mark = '<span>[</span><a id="r" href="#n">1</a><span>]</span>'
    note = '<span>[</span><a id="n" href="#r">1</a><span>]</span> In May.'

    assert _page(f"<p>It sank.{mark}</p><p>{note}</p>") == "It sank.[1]\n\n[1] In May."


def test_indices_in_tex_stay_as_they_are() -> None:
    assert (
        "\\sum_{k=1} a_k"
        in extract(
            f"<html><body><main><p>{_PROSE}</p><p>So $$\\sum_{{k=1}} a_k$$ it is.</p></main></body></html>".encode(),
            Hints(filename="a.html"),
        ).text
    )


def _prose(said: str) -> str:
    return "".join(
        f"<p>{said} {n} tells what happened at the quay on that day, and who was there.</p>" for n in range(9)
    )


@pytest.mark.parametrize(
    "around",
    [
        '<main><div class="post-text">{}</div><h2>2 Answers</h2><div><div class="post-text">{}</div></div></main>',
        '<main><div><div class="post">{}</div></div><div><div class="post">{}</div></div></main>',
        (
            '<div><article class="message"><div class="message-body">{}</div></article>'
            '<article class="message">{}</article></div>'
        ),
        '<main><section class="entry-content">{}</section><section class="entry-content">{}</section></main>',
        "<article><h2>Ebb</h2>{}</article><article><h2>Flood</h2>{}</article>",
    ],
)
@pytest.mark.parametrize("first", [1, 4])
def test_all_posts_of_a_thread_are_text(around: str, first: int) -> None:
    page = f"<html><body>{around.format(_prose('Question') * first, _prose('Answer'))}</body></html>"

    read = extract(page.encode(), Hints(filename="a.html")).text

    assert "Question 8" in read
    assert "Answer 8" in read


@pytest.mark.parametrize(
    "beside",
    [
        '<article class="post"><h3><a href="/x">Ferry aground</a></h3><p>It hit a rock.</p></article>',
        '<article class="card"><h3>Ferry aground</h3><p>It hit a rock.</p></article>',
        '<div class="post"><p>Ferry aground</p></div>',
        '<section class="related"><article class="post"><h2><a href="/x">Ferry aground</a></h2></article></section>',
        "<aside><p>Ferry aground</p></aside>",
    ],
)
def test_what_is_announced_beside_an_article_stays_out(beside: str) -> None:
    page = (
        f"<html><body><main><article class='post'><h1>Tides</h1>{_prose('Line')}</article>{beside}</main></body></html>"
    )

    read = extract(page.encode(), Hints(filename="a.html")).text

    assert "Line 8" in read
    assert "Ferry" not in read


_BUTTONS = '<input type="radio" id="a"><input type="radio" id="b">'
_LABELS = '<label for="a">Linux</label><label for="b">Windows</label>'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            f"<div>{_BUTTONS}<div>{_LABELS}</div><div><div><p>Use a.</p></div><div><p>Use b.</p></div></div></div>",
            "LaWb",
        ),
        (
            (
                '<div><input type="radio" id="a"><label for="a">Linux</label><div><p>Use a.</p></div>'
                '<input type="radio" id="b"><label for="b">Windows</label><div><p>Use b.</p></div></div>'
            ),
            "LaWb",
        ),
        (f"<div>{_BUTTONS}{_LABELS}</div><p>Use a.</p>", "a"),
        (f"<div>{_BUTTONS}<div>{_LABELS}</div></div><p>Use a.</p>", "a"),
        ('<div><input id="a"><label for="a">Linux</label><div><p>Use a.</p></div></div>', "a"),
        ("<p>Use a.</p><label>Linux</label>", "a"),
        ('<p>Use a.</p><div><input type="checkbox" id="a"><label for="a">Linux</label></div>', "a"),
    ],
)
def test_panels_that_buttons_switch_have_their_names(body: str, text: str) -> None:
    page = f"<html><body><main><h1>Harbour</h1><p>{_PROSE}</p>{body}<p>{_PROSE}</p></main></body></html>"

    read = extract(page.encode(), Hints(filename="a.html")).text.split(_PROSE.strip())[1]

    words = {"L": "Linux", "a": "Use a.", "W": "Windows", "b": "Use b."}
    assert read.strip() == "\n\n".join(words[each] for each in text)


def test_code_in_a_cell_is_on_its_line() -> None:
    table = _TABLE.replace("<td>2", "<td><pre>2\n3</pre>")
    page = f"<html><body><main><h1>Harbour</h1><p>{_PROSE}</p>{table}<p>{_PROSE}</p></main></body></html>"

    assert "| 1 | `2 3` |" in extract(page.encode(), Hints(filename="a.html")).text


def test_a_base_that_is_longer_than_any_address_is_not_written_before_each_link() -> None:
    assert joined("https://a.test/b/", "c") == "https://a.test/b/c"
    assert joined(f"https://a.test/{'b' * 2000}/", "c") == "c"


@pytest.mark.parametrize("around", ["font face=Arial", "b", "i", "span class=x", "big"])
def test_what_is_left_open_around_blocks_joins_no_paragraphs_and_no_cells(around: str) -> None:
    table = "<table><tr><td>Year</td><td>Lamps</td></tr><tr><td>1871</td><td>41</td></tr></table>"
    page = (
        f"<body><center><b>Lamps</b></center><p><{around}>{_PROSE}<p>It went out.<hr>{table}<h2>Now</h2>{_PROSE}</body>"
    )
    text = extract(page.encode(), Hints(filename="a.html")).text
    assert "\n\nIt went out.\n\n" in text
    assert "| Year | Lamps |\n| --- | --- |\n| 1871 | 41 |\n" in text
    assert "\n## Now\n" in text


def test_a_table_that_puts_the_menu_beside_a_text_without_a_heading_is_no_table() -> None:
    table = "<table><tr><th>Year</th><th>Lamps</th></tr><tr><td>1871</td><td>41</td></tr></table>"
    page = f"<table><tr><td><a href=a>Index</a></td><td>{_PROSE}<p>It went out.</p>{table}</td></tr></table>"
    text = extract(page.encode(), Hints(filename="a.html")).text
    assert text.endswith("\n\nIt went out.\n\n| Year | Lamps |\n| --- | --- |\n| 1871 | 41 |")


@pytest.mark.parametrize("player", ["audio", "video", "canvas"])
def test_what_old_browsers_show_instead_of_a_player_is_no_text(player: str) -> None:
    page = f"<main><p>{_PROSE}</p><{player}><p>Your browser is old.</p></{player}> behind<p>Then.</p></main>"
    for text in (extract(page.encode(), Hints(filename="a.html")).text, page_text(page)):
        assert "old" not in text
        assert "behind" in text
        assert text.endswith("Then.")


@pytest.mark.parametrize(
    ("link", "text"),
    [
        ("<h3>Tern</h3>", "### [Tern](/b/1)"),
        ("<div><h3>Tern</h3><p>Built 1962.</p></div>", "### [Tern](/b/1)\n\nBuilt 1962."),
        ("<div></div><p>Tern</p>", "[Tern](/b/1)"),
    ],
)
def test_the_address_of_a_link_around_blocks_stands_in_the_first(link: str, text: str) -> None:
    assert page_text(f"<a href='/b/1'>{link}</a>", base="").strip() == text
    there = page_text(f"<a href='https://a.test/1'>{link}</a>").strip()
    assert there == text.replace("[Tern](/b/1)", "Tern (https://a.test/1)")


@pytest.mark.parametrize("block", ["<h2>Now</h2>", "<hr>", _TABLE, "<ul><li>One</li></ul>", "<p>Then.</p>"])
@pytest.mark.parametrize("around", ["body", "div"])
def test_text_behind_a_block_with_nothing_around_it_stays(block: str, around: str) -> None:
    bare = "In 1871 <b>41</b> lamps<br>were lit. <font>All</font> of them."
    page = f"<body><{around}><p>{_PROSE}</p>{block}{bare}</{around}>"
    lines = extract(page.encode(), Hints(filename="a.html")).text.split("\n")
    assert lines[-1].endswith("were lit. All of them.")
    assert "In 1871 41 lamps" in lines[-2 if lines[-2] else -3]
    assert "Now" not in block or "## Now" in lines


def test_a_list_of_sections_is_no_list() -> None:
    listed = "<ul><li><h3>read</h3><p>public double read()</p><p>Returns it.</p></li><li><h3>send</h3></li></ul>"
    assert _page(listed) == "### read\n\npublic double read()\n\nReturns it.\n\n### send"
    assert page_text("<ol><li><h3>Stop</h3></li></ol>").strip() == "### 1. Stop"


@pytest.mark.parametrize("mark", ["(a)", "•", "iv)"])
@pytest.mark.parametrize("within", ["<p>first;</p>", "first;", "<div></div><p>first;</p><p>More.</p>"])
def test_a_table_with_marks_of_items_in_its_first_column_is_text(mark: str, within: str) -> None:
    table = f"<table><tbody><tr><td><p>{mark}</p></td><td>{within}</td></tr></tbody></table>"
    assert f"{mark} first;" in _page(table)
    assert "|" not in _page(table)


def test_a_table_with_names_above_its_numbers_stays() -> None:
    assert "| 1. | Ada |" in _page("<table><tr><th>No</th><th>Name</th></tr><tr><td>1.</td><td>Ada</td></tr></table>")


@pytest.mark.parametrize("role", ["navigation", "contentinfo"])
def test_a_part_whose_role_is_around_the_text_is_left_out(role: str) -> None:
    page = f"<main><p>{_PROSE}</p><p>Then.</p></main><div role={role}><p>Made by a program on 5 May.</p></div>"
    for text in (extract(page.encode(), Hints(filename="a.html")).text, page_text(page).strip()):
        assert text.endswith("Then.")


def test_what_a_page_strikes_out_is_told_from_its_text() -> None:
    assert page_text("<p>It costs <del>12</del> <ins>9</ins> euros.</p>").strip() == "It costs ~~12~~ 9 euros."


@pytest.mark.parametrize("gap", ["\u00a0\u00a0", " \u00a0", "\u00a0 \u00a0 ", "\u00a0  "])
def test_a_gap_of_blanks_is_one_blank_but_in_code(gap: str) -> None:
    page = f"<main><p>{_PROSE}</p><p>1{gap}Attendance</p><pre>a{gap}b\nc</pre><p>{_PROSE * 3}</p></main>"
    text = extract(page.encode(), Hints(filename="a.html")).text
    assert "\n\n1 Attendance\n\n" in text
    assert f"a{gap}b" in text


def test_what_is_hidden_stays_hidden_with_blocks_in_it() -> None:
    page = f"<body><span style='display:none'><p>Secret</p></span><p>{_PROSE}</p>"
    assert "Secret" not in extract(page.encode(), Hints(filename="a.html")).text


def test_text_behind_a_paragraph_that_held_a_block_stays_last() -> None:
    page = "<p>One<span><h2>Two</h2></span>three</p>four"
    assert page_text(page).split() == ["One", "##", "Two", "three", "four"]


def test_words_of_a_bare_text_stay_together() -> None:
    assert page_text("<p>Open.</p>We sell <abbr>US</abbr> <ins>fine</ins> <q>apples</q> today").split("\n\n")[-1] == (
        "We sell US fine apples today"
    )


def test_numbers_below_a_header_are_no_marks_of_items() -> None:
    rows = "<tbody><tr><td>1.</td><td>Ada</td></tr><tr><td>2.</td><td>Bo</td></tr></tbody>"
    table = f"<table><thead><tr><th>Rank</th><th>Name</th></tr></thead>{rows}</table>"
    assert "| Rank | Name |" in page_text(table)
    assert "| Rank | Name |" in _page(table)


def test_struck_words_have_their_signs_once_and_none_in_code() -> None:
    rows = "<tr><td rowspan=2>a</td><td><s>9</s> 7</td></tr><tr><td>8</td></tr>"
    assert "| a | ~~9~~ 7 |" in page_text(f"<table><tr><th>A</th><th>B</th></tr>{rows}</table>")
    assert page_text("<pre>a <del>old</del> b</pre>").strip() == "```\na old b\n```"


@pytest.mark.parametrize("tag", ["li role=tab", "button", "div role=tab"])
def test_what_opens_a_part_of_itself_stays_where_it_is(tag: str) -> None:
    page = f"<{tag} aria-controls=pane>Tab<div id=pane>text of it</div></{tag.partition(' ')[0]}><p>{_PROSE}</p>"
    assert "text of it" in extract(page.encode(), Hints(filename="a.html")).text or tag == "button"


def test_the_mark_of_an_item_stands_before_its_first_words() -> None:
    rows = "<tr><td>1.</td><td>Intro <p>Second</p></td></tr><tfoot><tr><td>2.</td><td>Foot</td></tr></tfoot>"
    assert page_text(f"<table>{rows}</table>").split() == ["1.", "Intro", "Second", "2.", "Foot"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<s><del>12</del></s>", "~~12~~"),
        ("<p>x <del></del> y</p>", "x y"),
        ("<del><p>Old rule.</p><p>Another.</p></del>", "~~Old rule.~~\n\n~~Another.~~"),
    ],
)
def test_signs_of_struck_words_stand_once_around_words(body: str, text: str) -> None:
    assert page_text(body).strip() == text


def test_a_foot_that_stands_before_the_rows_comes_last() -> None:
    foot = "<tfoot><tr><td>Sum</td><td>3</td></tr></tfoot>"
    rows = "<thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody>"

    assert _page(f"<table>{foot}{rows}</table>") == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| Sum | 3 |"


def test_a_short_table_in_a_cell_is_its_words() -> None:
    inner = "<table><tr><td>x</td><td>y</td></tr><tr><td>z</td></tr></table>"
    head = "<tr><th>a</th><th>b</th></tr>"

    assert (
        _page(f"<table>{head}<tr><td>1</td><td>{inner}</td></tr></table>") == "| a | b |\n| --- | --- |\n| 1 | x y; z |"
    )


def test_signs_of_symbol_fonts_are_what_they_show() -> None:
    assert _page("<p>Thanks <span style=\"font-family:Wingdings\">J</span> <font face='Symbol'>a</font> J</p>") == (
        "Thanks ☺ α J"
    )
    assert _page('<p>Type <span style="font-family: Segoe UI Symbol">J</span>, no sign</p>') == "Type J, no sign"


def test_terms_that_are_not_closed_share_their_definition() -> None:
    assert _page("<dl><dt>Ebb<dt>Low<dd>It falls.</dl>") == "Ebb / Low: It falls."


def test_the_title_of_a_drawing_is_not_the_pages() -> None:
    page = f"<html><body><svg><title>Icon</title></svg><h1>Harbour</h1><p>{_PROSE}</p></body></html>"

    assert extract(page.encode(), Hints(filename="a.html")).title == "Harbour"


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        (
            "Most ships.<br>Default: <b>20</b>.<ul><li>one</li><li>two <b>more</b></li></ul>Behind it.",
            "Most ships. Default: **20**. one; two **more** Behind it.",
        ),
        (
            "<p>First words.</p><p>Second words.</p><ol><li>step</li><li>next</li></ol>",
            "First words. Second words. step; next",
        ),
    ],
)
def test_words_beside_a_list_in_a_cell_stay(cell: str, written: str) -> None:
    table = f"<table><tr><th>Name</th><th>Meaning</th></tr><tr><td>most</td><td>{cell}</td></tr></table>"

    page = f"<html><body><main><h1>Harbour</h1><p>{_PROSE}</p>{table}<p>{_PROSE}</p></main></body></html>"

    shown = " ".join(extract(page.encode(), Hints(filename="a.html")).text.replace("*", "").split())
    assert f"| most | {written.replace('*', '')} |" in shown


def test_a_table_of_two_columns_of_usual_names_keeps_its_header() -> None:
    rows = [("English", "German"), ("Name", "Namensfeld"), ("City", "Stadtname"), ("Date", "Kalenderdatum")]
    table = "".join(f"<tr><td>{one}</td><td>{other}</td></tr>" for one, other in rows)
    page = f"<html><body><main><h1>Words</h1><p>{_PROSE}</p><table>{table}</table></main></body></html>"

    assert "| English | German |" in extract(page.encode(), Hints(filename="a.html")).text.split("|---|")[0]


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ("<p>It turns at <time>twenty past six</time> daily.</p>", "It turns at twenty past six daily."),
        ("<ul><li>Test it before <time datetime='2024-05-02'>2 May</time></li></ul>", "- Test it before 2 May"),
        ("<figure class='callout'><div>!</div><div>Tide must exceed 2.1 m.</div></figure>", "Tide must exceed 2.1 m."),
        (
            "<div class='expand-content'><p>E44 is a worn drum.</p></div>",
            "E44 is a worn drum.",
        ),
        (
            "<h3><button class='accordion-button' data-bs-target='#c'>Is there Wi-Fi?</button></h3><p>On deck 5.</p>",
            "### Is there Wi-Fi?\n\nOn deck 5.",
        ),
        (
            (
                "<div><ul role='tablist'><li role='tab'>Debian</li><li role='tab'>Fedora</li></ul><div>"
                "<div role='tabpanel'><p>Apt.</p></div><div role='tabpanel' hidden><p>Dnf.</p></div></div></div>"
            ),
            "Debian\n\nApt.\n\nFedora\n\nDnf.",
        ),
        (
            (
                "<ul class='task-list'><li><input type='checkbox' disabled checked> Drain</li>"
                "<li><label><input type='checkbox'>Fill</label></li></ul>"
            ),
            "- [x] Drain\n- [ ] Fill",
        ),
        ("<ul class='inline-task-list'><li class='checked'>Drain</li><li>Fill</li></ul>", "- [x] Drain\n- [ ] Fill"),
        ("<p>By the book<a href='#r1' role='doc-backlink'>↩︎</a>.</p>", "By the book."),
        ("<ul><li><time>9:00</time>Tea</li></ul>", "- 9:00 Tea"),
        (
            "<p><time>9:00</time><time>9:30</time> Tea, then <b>at</b><time>18:00</time>.</p>",
            "9:00 9:30 Tea, then at 18",
        ),
        # what looks like these
        (
            "<p>On <time>May 1</time>, <time>2020</time>年 (<time>9:00</time>–<time>10:00</time>).</p>",
            "May 1, 2020年 (9:00–1",
        ),
        ("<ul class='my-task-list'><li>Drain</li></ul>", "- Drain"),
        ("<ul class='task-list'><li>Drain</li></ul>", "- Drain"),
        ("<p class='checkbox-outer'>Drain the tank and the pump.</p>", "\n\nDrain"),
        ("<p>Keys <a href='#up'>↵</a> and <a href='#x'>^</a>.</p>", "Keys ↵ and ^."),
        ("<h2>Tank <button class='edit-button'>Edit</button></h2><p>On.</p>", "## Tank\n"),
        ("<h2>Tank <svg><text>Link</text></svg></h2><p>On.</p>", "## Tank\n"),
        (
            (
                "<p>So.</p><div><div role='tablist'><button role='tab'>1</button><button role='tab'>2</button></div>"
                "<div role='tabpanel'><p>Top.</p></div><div role='tabpanel'><p>End.</p></div></div>"
            ),
            "So.\n\nTop.\n\nEnd.",
        ),
        ("<p>So.</p><label><input type='checkbox'> Remember me</label><p>On.</p>", "So.\n\nOn."),
        ("<ul><li class='checked'>Drain</li></ul>", "- Drain"),
        ("<p>See <a href='#up'>the top ↩</a> here.</p>", "See the top ↩ here."),
        ("<p>Take 3 bread crumbs and <a class='breadcrumb' href='/a'>share</a> them.</p>", "bread crumbs"),
        (
            "<ul><li><input type='checkbox' id='x'><label for='x'>Who opens it?</label> The warden.</li></ul>",
            "- Who opens it? The",
        ),
    ],
)
def test_what_a_page_shows_is_kept_though_trafilatura_drops_it(part: str, shown: str) -> None:
    page = f"<article><p>{'Read this first. ' * 130}</p>{part}<p>{'Then read on. ' * 20}</p></article>"

    assert shown in extract(page.encode(), Hints(filename="a.html")).text


def test_what_is_filled_into_a_form_stands_beside_its_label() -> None:
    text = page_text(
        "<form><fieldset><legend>Crew</legend><label for='n'>Name</label><input id='n' value='Mara'>"
        "<label>Born <input type='date' value='1988-04-02'></label></fieldset><p><label for='d'>Deck</label>"
        "<select id='d'><option>Low</option><option selected>Upper</option></select></p>"
        "<p><label><input type='radio' checked> Swims</label> <label><input type='radio'> Sails</label></p>"
        "<p><label for='r'>More</label><textarea id='r'>No nuts.</textarea></p><input type='hidden' value='t88'>"
        "<input value='unnamed'><label for='p'>Key</label><input id='p' type='password' value='secret'></form>"
    )

    assert " ".join(text.split()) == ("Crew Name Mara Born 1988-04-02 Deck Upper [x] Swims [ ] Sails More No nuts. Key")


def test_a_search_around_a_page_is_not_filled_in() -> None:
    search = "<label for='s'>Search</label><input id='s' value='sails'>"
    text = page_text(f"<form>{search}<h1>Sails</h1><p>{'We mend sails. ' * 9}</p></form>")

    assert "Search sails" not in " ".join(text.split())


@pytest.mark.parametrize(
    "name",
    [
        "jp-relatedposts",
        "sharedaddy sd-sharing",
        "yoast-breadcrumbs",
        "section related-products",
        "comment-respond",
    ],
)
def test_what_stands_around_a_text_is_no_part_of_it(name: str) -> None:
    page = f"<main><h1>Sails</h1><p>{'We mend sails. ' * 20}</p><div class='{name}'><p>Paint a dinghy.</p></div></main>"

    assert "dinghy" not in page_text(page)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("related-posts", f"<p>{'Paint a dinghy. ' * 30}</p>"),  # most of the page
        ("related-posts", f"<p>{'We sail. ' * 9}</p></div><div class='related-posts'>{'Paint a dinghy. ' * 6}"),
        ("no-print", "<p>Paint a dinghy.</p>"),  # it is shown
        ("x", "<h2 id='breadcrumb'>Paint a dinghy.</h2><p>On.</p>"),
        ("breadcrumb", "<h1>Paint a dinghy.</h1>"),
        ("our-breadcrumbs-recipe", "<p>Paint a dinghy.</p>"),
        ("shared", "<p>Paint a dinghy.</p>"),
    ],
)
def test_names_of_what_stands_around_a_text_may_be_the_texts_own(name: str, part: str) -> None:
    page = f"<main><p>{'We mend sails. ' * 20}</p><div class='{name}'>{part}</div></main>"

    assert "dinghy" in page_text(page)


@pytest.mark.parametrize(
    ("drawing", "shown"),
    [
        (
            "<text>Tank <tspan>T1</tspan></text><text><tspan dy='0'>Pump</tspan><tspan dy='9'>45 l</tspan></text>",
            "Tank T1; Pump 45 l",
        ),
        ("<defs><text>never drawn</text></defs><title>icon</title><path d='M0'/>", ""),
        ("<text>1</text><text>×</text>", ""),
    ],
)
def test_words_of_a_drawing_in_a_page_are_text(drawing: str, shown: str) -> None:
    page = f"<article><p>{'Read this. ' * 250}</p><div><svg>{drawing}</svg></div><p>On.</p></article>"

    for text in (extract(page.encode(), Hints(filename="a.html")).text, page_text(page)):
        assert "".join(text.replace("Read this.", "").split()) == "".join(f"{shown}On.".split())


def test_what_word_tracked_as_deleted_is_left_out_and_what_a_page_struck_is_not() -> None:
    text = page_text("<p>It <del cite='mailto:Ann' datetime='2024-01-02'>was</del><ins>is</ins> <del>8</del> 9.</p>")

    assert text.strip() == "It is ~~8~~ 9."
