import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from services.ingest_worker.extract.html_markdown import page_text
from shared.errors import Rejected
from tests.loop_holds import least_cpu_s
from tests.selection import CI_ONLY

_PARAGRAPHS = "".join(
    f"<p>Paragraph {number} of the article tells how the river rose, how the bridge held, and who was there.</p>"
    for number in range(8)
)
_PAGE = f"""<!DOCTYPE html><html lang="en-GB"><head><title>The  Flood —
 Daily</title><link rel="Canonical" href="https://example.org/flood"><meta name="description" content="A river rose.">
<style>.secretstyle{{}}</style><script>secretscript()</script></head><body><nav>Home <a href="/x">Sport</a>
</nav><main><article><h1>The flood</h1>{_PARAGRAPHS}<h2>After</h2><ul><li>Water</li><li>Mud</li></ul></article></main>
<!-- a hidden comment --><footer>Imprint and cookies</footer></body></html>"""


def _read(page: str | bytes, media_type: str = "text/html") -> Extraction:
    data = page.encode() if isinstance(page, str) else page
    return extract(data, Hints(filename="page.html", media_type=media_type))


@pytest.mark.feature(87)
def test_the_main_text_is_markdown_and_what_surrounds_it_is_gone() -> None:
    read = _read(_PAGE)

    assert "Paragraph 0 of the article" in read.text
    assert "## After" in read.text
    assert "- Water\n- Mud" in read.text
    for noise in ("Sport", "Imprint", "secretscript", "secretstyle", "hidden comment", "<p>"):
        assert noise not in read.text


def test_a_line_of_the_text_that_is_a_link_stays() -> None:
    lines = _PAGE.replace(
        "<h2>After", '<p><a href="/e">Where the ferry company announces the event</a></p><p>Until then:</p><h2>After'
    )

    assert "Where the ferry company announces the event" in _read(lines).text


@pytest.mark.parametrize(
    ("beside", "kept"), [("February 13, 2009", True), ("<a href=/b>Related</a>", False), ("", False)]
)
def test_a_table_of_links_stays_where_other_cells_say_more(beside: str, kept: bool) -> None:
    prose = "<p>The harbour office keeps a book of all ships that lie at the quay, with their names and cargo.</p>" * 5
    figures = "".join(f"<tr><td><p>North {n}</p></td><td><p>{n}</p></td></tr>" for n in range(30))
    cell = "<td><p><a href=/{}>Agreement number {} with the owner of the ship</a></p></td>"
    links = "".join(f"<tr>{cell.format(n, n)}<td><p>{beside}</p></td></tr>" for n in range(60))
    page = f"<html><body>{f'{prose}<table>{figures}</table>' * 8}<table>{links}</table>{prose}</body></html>"

    assert ("Agreement number 7" in _read(page).text) is kept


@pytest.mark.feature(92)
def test_the_head_gives_title_language_description_and_address() -> None:
    read = _read(_PAGE)

    assert read.title == "The Flood — Daily"
    assert (read.language, read.description, read.url) == ("en-GB", "A river rose.", "https://example.org/flood")


@pytest.mark.parametrize("address", ["/relative", "javascript:alert(1)", "file:///etc/passwd", "https://a b"])
def test_only_a_whole_web_address_is_canonical(address: str) -> None:
    assert _read(f"<html><link rel=canonical href='{address}'><p>Some text.").url is None


@pytest.mark.feature(88)
def test_a_page_without_a_main_text_is_read_whole_in_blocks() -> None:
    cells = "".join(f"<tr><td>part {n}</td><td>{n} pieces in the store<br>room</td></tr>" for n in range(40))
    page = f"<html><body><h2>Stock</h2><div hidden>unseen</div><table>{cells}</table><ul><li><p>One</p><li>Two</ul>"

    text = _read(page + "<pre>  a\n    b</pre><div style='display: none'>unseen</div>tail").text

    assert "part 39" in text
    assert "39 pieces in the store" in text
    assert "unseen" not in text


def test_whole_page_blocks_keep_their_marks() -> None:
    page = (
        "<html><body><nav>Menu</nav><h3>Stock</h3>lone<ul><li><p>One</p></li><li>Two</li></ul><pre>  a\n    b</pre>tail"
    )

    assert page_text(page) == "\n\n### Stock\n\nlone\n\n- One\n- Two\n\n```\n  a\n    b\n```\n\ntail"


@pytest.mark.parametrize(
    "page",
    [
        "<html><meta charset=windows-1251><p>мягких булок</p>".encode("cp1251"),
        "<html><meta http-equiv=Content-Type content='text/html; charset=Shift_JIS'><p>琥珀の灯</p>".encode("cp932"),
        "<html><meta charset=latin-1><p>naïve café</p>".encode(),
        "<?xml version='1.0' encoding='iso-8859-2'?><html><p>źródło</p></html>".encode("iso-8859-2"),
    ],
)
def test_the_page_says_its_encoding_unless_it_is_utf8(page: bytes) -> None:
    assert any(words in _read(page).text for words in ("мягких булок", "琥珀の灯", "naïve café", "źródło"))


def test_entities_and_external_references_read_nothing() -> None:
    page = (
        "<!DOCTYPE html [<!ENTITY x SYSTEM 'file:///etc/hostname'>]><html><body><p>before &x; after</p>"
        "<iframe src='file:///etc/hostname'></iframe><p>&lt;tag&gt; &amp; &eacute;</p></body></html>"
    )

    assert "before &x; after" in _read(page).text
    assert "<tag> & é" in _read(page).text


def test_a_page_nested_too_deeply_for_a_tree_keeps_its_words_and_says_so() -> None:
    read = _read("<html><body><p>Shallow &amp; wide.</p><script>x()</script>" + "<div>" * 5000 + "deep <b>down</b>")

    assert read.text == "Shallow & wide. deep down"
    assert [each.code for each in read.notes] == ["structure"]


@pytest.mark.feature(93)
@pytest.mark.parametrize("page", ["<html></html>", "<html><body><script>x()</script></body></html>", "<!-- -->"])
def test_a_page_without_text_is_empty(page: str) -> None:
    with pytest.raises(Rejected) as caught:
        _read(page)

    assert caught.value.code == "empty"


@pytest.mark.parametrize(
    "page", ["<html><p>unclosed <b>bold", "<html><a " + "x" * 200_000 + ">text", "<html><!-- text"]
)
def test_broken_pages_do_not_crash(page: str) -> None:
    try:
        assert _read(page).text
    except Rejected as error:
        assert error.code == "empty"  # noqa: PT017 - either end is right, a crash isn't


@CI_ONLY
@pytest.mark.parametrize(
    ("before", "link"),
    [("{}", "<a href=https://a.example/b>x</a>"), ("<div>{}:</div><ul>", "<li><a href=https://a.example/b>x</a></li>")],
)
def test_many_links_in_a_long_text_take_time_that_grows_with_the_page(before: str, link: str) -> None:
    def spent(links: int, limit_s: float) -> float:
        text = "The quay is long. "
        beside = f"<nav>{before.format(text * 100_000)}{link * links}</nav>"  # trafilatura drops it
        page = f"<html><body>{beside}<main><p>{text * 200}</p></main>"
        return least_cpu_s(lambda: _read(page), limit_s)

    limit = 20 * spent(1, 0)  # quadratic time took fifty times as long, a loaded machine five
    assert spent(2_000, limit) <= limit


def test_a_short_page_is_read_whole() -> None:
    cards = "".join(f"<div><h3>{name}</h3><p>{value}</p></div>" for name, value in (("Ebb", "4 m"), ("Flow", "6 m")))
    points = "<h2>News</h2><ul><li>The new quay is open for all ships</li><li>The old quay is closed</li></ul>"

    read = extract(
        f"<html><body><h1>Port</h1>{cards}<div>{points}</div></body></html>".encode(), Hints(filename="a.html")
    )

    assert all(
        words in read.text for words in ("# Port", "Ebb", "4 m", "Flow", "6 m", "# News", "- The old quay is closed")
    )


def test_a_page_that_speaks_to_search_engines_alone_has_what_it_tells_them() -> None:
    site = '{"@context": "https://schema.org", "@type": "WebSite", "name": "Kitchen"}'
    told = (
        f'{{"@graph": [{site}, {{"@type": "Recipe", "name": "Cake", "recipeIngredient": ["rye"]}}, {{"name": "Eva"}}]}}'
    )
    page = f'<title>T</title><script type="application/ld+json">{told}</script><body></body>'

    assert _read(page).text == "@type: Recipe; name: Cake; recipeIngredient: rye\n\nname: Eva"
    assert _read(page.replace("<body>", "<body><p>A cake.</p>")).text == "A cake."


@pytest.mark.parametrize(
    "script",
    ['<script id="data" type="application/json">{}</script>', "<script>window.__STATE__ = {};\nrun()</script>"],
)
def test_a_page_that_a_program_makes_has_the_texts_that_it_is_made_of(script: str) -> None:
    state = '{"build": "x9", "page": {"title": "Grey seals", "parts": ["<p>They rest <b>here</b>.</p>", 7]}}'
    page = f"<title>T</title><body><div id='app'></div>{script.replace('{}', state)}</body>"

    assert _read(page).text == "Grey seals\n\nThey rest here."
    assert _read(page.replace("<body>", "<body><p>Seals.</p>")).text == "Seals."


@pytest.mark.parametrize(
    ("head", "name", "target"),
    [
        ("", "a.html", "setup/index.html"),
        ('<base href="https://example.org/d/">', "a.html", "https://example.org/d/setup/index.html"),
        ('<link rel="canonical" href="https://example.org/d/">', "a.html", "https://example.org/d/setup/index.html"),
        ("", "https://example.org/d/a.html", "https://example.org/d/setup/index.html"),
    ],
)
@pytest.mark.parametrize("prose", [1, 40])
def test_a_relative_link_has_its_address_where_that_is_known(head: str, name: str, target: str, prose: int) -> None:
    others = '<a href="#top">top</a>, <a href="javascript:go()">go</a>, <a href="b.png"><img src="b.png"></a>'
    text = "<p>The harbour office keeps a book of all ships, says page {} of it, the one with the rules.</p>"
    said = f'{"".join(map(text.format, range(prose)))}<p>Read <a href="setup/index.html">the page</a>, {others}.</p>'
    page = f"<head>{head}</head><h1>Book</h1>{said}"

    read = extract(f"<!doctype html><html>{page}</html>".encode(), Hints(filename=name)).text

    assert f"[the page]({target})" in read
    assert (read.count("]("), "#top" in read, "go()" in read) == (1, False, False)


def test_a_short_part_that_the_page_names_as_its_main_one_is_read_whole() -> None:
    review = "I used it for two weeks in the north and never charged it. " * 5
    page = f"""
        <body><nav><a href="/">Home</a></nav><main><h1>Trail lamp</h1><div>39.90 euros</div>
        <p>A head torch for cold nights with a battery that lasts for two days of walking in winter.</p>
        <h2>In the box</h2><ul><li>Lamp</li><li>USB cable</li></ul>
        <section><h2>Reviews</h2><article><h3>Great</h3><p>{review}</p></article></section></main>
        <footer>Terms of the shop</footer></body>"""

    assert _read(page).text.split("\n\n") == [
        "# Trail lamp",
        "39.90 euros",
        "A head torch for cold nights with a battery that lasts for two days of walking in winter.",
        "## In the box",
        "- Lamp\n- USB cable",
        "## Reviews",
        "### Great",
        review.strip(),
    ]


_AROUND = """
    <body><div role="dialog" class="cookie-banner"><p>Cookies help us.</p></div>
    <header><a href="/">Logo</a><nav><ul><li><a href="/1">Club</a></li><li><a href="/2">Join us</a></li></ul></nav>
    </header>
    {}
    <div class="sidebar"><h3>Dates</h3><ul><li>Summer feast</li></ul></div><footer><p>Imprint</p></footer></body>"""


def test_the_rows_of_a_header_are_one_and_the_table_of_a_short_page_stays() -> None:
    table = """
        <table><thead><tr><th rowspan="2">Time</th><th colspan="2">Monday</th><th>Tuesday</th></tr>
        <tr><th>Hall</th><th>Room 2</th><th>Hall</th></tr></thead>
        <tr><td>17:00</td><td rowspan="2">Gym (Vogt)</td><td>Yoga (Kern)</td><td>-</td></tr>
        <tr><td>18:00</td><td>Pilates (Moos)</td><td>Judo (Blum)</td></tr></table>"""
    page = f"<main><h1>Summer courses</h1><p>Valid from 6 May. See the board in the hall.</p>{table}</main>"

    text = _read(_AROUND.format(page)).text

    assert "| Time | Monday Hall | Monday Room 2 | Tuesday Hall |" in text
    assert "| 18:00 | Gym (Vogt) | Pilates (Moos) | Judo (Blum) |" in text
    assert "Join us" not in text


def test_a_row_of_sums_is_no_part_of_the_names_above_it() -> None:
    names, sums = "<tr><th>Region</th><th>Units</th></tr>", "<tr><th>Total</th><th>1200</th></tr>"
    row = "<tr><td>North</td><td>500</td></tr>"
    page = f"<p>These are all sales of the year, in units.</p><table>{names}{sums}{row}</table>"

    assert "| Region | Units |" in _read(f"<html><body>{page}</body></html>").text


def test_rows_that_are_all_marked_as_names_stay_rows() -> None:
    rows = "".join(f"<tr><th>{name}</th><th>{port}</th></tr>" for name, port in zip("ABCDE", "VWXYZ", strict=True))
    table = f"<table>{rows}<tr><td>F</td><td>U</td></tr></table>"
    page = f"<p>These are all ships and the ports that they come from.</p>{table}"

    assert "| C | X |" in _read(f"<html><body>{page}</body></html>").text


@pytest.mark.parametrize("last", ["<td>Ulm</td><td>Blum</td>", "<td colspan='2'>nobody else</td>"])
def test_a_row_that_is_marked_as_names_and_has_cells_like_others_stays_one(last: str) -> None:
    rows = f"<tr><th>Port</th><th>Guest</th></tr><tr><th>Kiel</th><th>Vogt</th></tr><tr>{last}</tr>"
    page = f"<p>These are all guests and the ports that they come from.</p><table>{rows}</table>"

    assert "| Kiel | Vogt |" in _read(f"<html><body>{page}</body></html>").text


@pytest.mark.parametrize("title", ["<tr><th colspan='2'>Prices</th></tr>", ""])
def test_a_title_in_a_table_is_no_part_of_its_names(title: str) -> None:
    names, rows = (
        "<tr><th>Cut</th><th>Euros</th></tr>",
        "<tr><td>Hair</td><td>28</td></tr><tr><td>Beard</td><td>15</td></tr>",
    )
    page = f"<p>We are open from nine to six on all days but Monday.</p><table>{title}{names}{rows}</table>"

    assert "| Cut | Euros |" in _read(f"<html><body>{page}</body></html>").text


@pytest.mark.parametrize(
    ("main", "kept", "gone"),
    [
        (
            "<main><h1>The pump</h1><p>It does not stop.</p><p>Clean the float.</p></main>",
            "Clean the float.",
            "Cookies",
        ),
        (
            "<main><h1>The pump</h1></main><p>It does not stop, so clean the float and the switch.</p>",
            "clean the float",
            "",
        ),
    ],
)
def test_of_a_short_page_the_part_that_it_names_is_read_if_it_is_most_of_it(main: str, kept: str, gone: str) -> None:
    text = _read(_AROUND.format(main)).text

    assert kept in text
    assert not gone or gone not in text


def test_a_table_in_a_table_in_a_table_comes_once() -> None:
    inner = "<table><tr><td>Thread</td><td>M6</td></tr></table>"
    middle = f"<table><tr><td>Bolt</td><td>{inner}</td></tr></table>"
    page = f"<table><tr><th>Part</th><th>Data</th></tr><tr><td>Boat</td><td>{middle}</td></tr></table>"

    assert _read(f"<html><body><p>Below is a table of parts.</p>{page}</body></html>").text.count("M6") == 1
