import csv

import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.html_markdown import cell_text
from services.ingest_worker.extract.rows import labelled
from tests.loop_holds import least_cpu_s


def _text(data: str, filename: str = "a.csv") -> str:
    return extract(data.encode(), Hints(filename=filename)).text


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_each_row_says_what_its_values_are(delimiter: str) -> None:
    data = "Name,Age,Town\nAnn,7,Bath\nBob,,York\n".replace(",", delimiter)

    assert _text(data) == "Name | Age | Town\n\nName: Ann; Age: 7; Town: Bath\n\nName: Bob; Town: York"


def test_quotes_hold_delimiters_and_line_ends() -> None:
    assert _text('Name,Said\nAnn,"one, two\nthree ""four"""') == 'Name | Said\n\nName: Ann; Said: one, two three "four"'


def test_ragged_and_broken_rows_are_kept() -> None:
    assert _text('a,b\n1,2,3\n\n4\n"never closed,5') == "a | b\n\na: 1; b: 2; 3\n\na: 4\n\na: never closed,5"


def test_a_value_may_be_as_long_as_the_file() -> None:
    assert _text("Name,Text\nAnn," + "x" * 200_000).endswith("Text: " + "x" * 200_000)


def test_others_in_the_process_may_read_values_as_long_as_before() -> None:
    before = csv.field_size_limit()

    _text("a,b\n1,2")

    assert csv.field_size_limit() >= before


def test_titles_above_the_header_stand_as_they_are_and_figures_are_no_header() -> None:
    assert (
        labelled([["Ducks"], ["", ""], ["Year", "Count"], ["2024", "7"]])
        == "Ducks\n\nYear | Count\n\nYear: 2024; Count: 7"
    )
    assert labelled([["1", "2"], ["3", "4"]]) == "1 | 2\n\n3 | 4"
    assert labelled([["a", "a"], ["b", "b"]]) == "a | a\n\nb | b"
    assert labelled([["lone"], ["words"]]) == "lone\n\nwords"


def test_years_are_names_and_a_second_table_has_a_header_of_its_own() -> None:
    assert (
        labelled([["Port", "2019", "2020"], ["Hull", "3", "4"]]) == "Port | 2019 | 2020\n\nPort: Hull; 2019: 3; 2020: 4"
    )
    tables = [["Name", "Age"], ["Ann", "31"], [], ["Rope", "Price"], ["Hemp", "3.5"]]
    assert labelled(tables).split("\n\n")[2:] == ["Rope | Price", "Rope: Hemp; Price: 3.5"]
    people = [["Name", "Town"], ["Ann", "Bath"], [], ["Bob", "York"], ["Cy", "Hull"]]
    assert labelled(people).split("\n\n")[2:] == ["Name: Bob; Town: York", "Name: Cy; Town: Hull"]


def test_the_names_of_hundreds_of_columns_are_told_once() -> None:
    columns = [str(number) for number in range(2, 300)]
    wide = [["c" + column for column in columns], columns]

    assert labelled(wide).split("\n\n")[1] == "; ".join(columns)


def test_names_that_come_again_are_told_apart_by_the_row_of_groups_above_them() -> None:
    read = extract(b"Port,High,,Low,\n,Plan,Seen,Plan,Seen\nBath,4,5,1,2\n", Hints(filename="a.csv"))

    assert read.text == (
        "Port | High Plan | High Seen | Low Plan | Low Seen\n\n"
        "Port: Bath; High Plan: 4; High Seen: 5; Low Plan: 1; Low Seen: 2"
    )


def test_a_row_that_names_no_groups_is_a_header_alone() -> None:
    read = extract(b"Port,High,Low\nBath,none,none\nHull,4,5\n", Hints(filename="a.csv"))

    assert read.text.split("\n\n")[1:] == ["Port: Bath; High: none; Low: none", "Port: Hull; High: 4; Low: 5"]


@pytest.mark.parametrize(
    ("data", "second"),
    [
        ('"Tool, size, grade";Price\n"Saw, small, B";9,90\n', "Tool, size, grade: Saw, small, B; Price: 9,90"),
        ("Stock, north, March\n\nItem;Pieces\nRope;41\nMast;7\n", "Item: Rope; Pieces: 41"),
        ("Size S|M|L,Price\n4|5|6,12\n7|8|9,20\n", "Size S|M|L: 4|5|6; Price: 12"),
        ("Item;Price;Width\nRope;1,50;2,5\nMast;9,90;3,5\n", "Item: Rope; Price: 1,50; Width: 2,5"),
        ("# by host, pier\n# in kN, m\nRope;Load;Span\nred;30,5;9\nblue;45,0;7\n", "Rope: red; Load: 30,5; Span: 9"),
        ("Ship,Port\r\r\nSkua,Oslo\r\r\nTern,Kiel\r\r\nGull,Hull\r\r\n", "Ship: Tern; Port: Kiel"),
        # A quote within quotes has a backslash before it, or has none because a path ends there, or two quotes do.
        (
            '"Tool","Note"\n"Saw \\"Fox\\", 30 cm","new, sharp"\n"Rasp","old"\n',
            'Tool: Saw "Fox", 30 cm; Note: new, sharp',
        ),
        ('"Path","Note"\n"C:\\in\\","new, red"\n"C:\\out\\","old, wet"\n', "Path: C:\\out\\; Note: old, wet"),
        ('"Part","Note"\n"pipe 3\\""","worn, wet"\n"pipe 5\\""","new, dry"\n', 'Part: pipe 5\\"; Note: new, dry'),
        ('Part;Note\nC:\\x;"a \\ b, c"\nD:\\y;"d ""e"" f"\n', 'Part: D:\\y; Note: d "e" f'),
        # Some rows end in a separator, which divides them unalike.
        ("Day;Sum;Who\n1.2.;5,00;Ray;\n2.2.;6,00;Ann;\n3.2.;7,00;Eve\n", "Day: 2.2.; Sum: 6,00; Who: Ann"),
        ("Day;Sum;Mail;Who\n1.2.;5,00;;\n2.2.;6,00;a;Ann\n3.2.;7,00;;Eve\n", "Day: 2.2.; Sum: 6,00; Mail: a; Who: Ann"),
        (
            "Day,Who,Note\n1,Ray,\n2,Ann,wet; cold\n3,Eve,dry; warm\n4,Kim,hot; dry\n",
            "Day: 2; Who: Ann; Note: wet; cold",
        ),
        ("Item,Note\nRope,a;\nMast,b;\nSail,c\n", "Item: Mast; Note: b;"),
        ("Item;Sum\nRope;1,5\nMast;2,5\nSail;3,5\n", "Item: Mast; Sum: 2,5"),
        # A space before quotes is no part of the value, unless the quotes are.
        ('Tool, Note\nSaw, "new, red"\nRasp, "old, wet"\nFile, "dry, b"\n', "Tool: Saw; Note: new, red"),
        ('Tool;Size\nSaw; 5" wide\nRasp; 7" wide\n', 'Tool: Saw; Size: 5" wide'),
        ('Tool,Size\nSaw, "big" one\nRasp, "old" one\n', 'Tool: Saw; Size: "big" one'),
        ('Tool,Size\nSaw, "big\nRasp,7\nFile,9\n', 'Tool: Saw; Size: "big'),
        ("Item\tNote\nRope\tred, thick; worn\nMast\tnew, tall; straight\n", "Item: Rope; Note: red, thick; worn"),
    ],
)
def test_the_separator_is_what_divides_the_rows_alike(data: str, second: str) -> None:
    assert second in _text(data).split("\n\n")


@pytest.mark.parametrize(
    ("cell", "shows"),
    [
        ('="00123"', "00123"),
        ('"=""00123"""', "00123"),
        ('="a"&"b"', '="a"&"b"'),
        ('x="1"', 'x="1"'),
        ("=A1+B1", "=A1+B1"),
        ('"<a b=""c"">"', '<a b="c">'),
        ('="', '="'),
    ],
)
def test_a_formula_that_keeps_a_value_a_text_is_the_value(cell: str, shows: str) -> None:
    assert f"Code: {shows}; Pieces: 3" in _text(f"Code,Pieces\n{cell},3\nB2,4\nC3,5\n").split("\n\n")


def test_quotes_may_be_single() -> None:
    assert _text("'Port','Of'\n'Hull, UK','1'\n'it''s','2'\n") == (
        "Port | Of\n\nPort: Hull, UK; Of: 1\n\nPort: it's; Of: 2"
    )
    assert "Note: 'ok', 5" in _text("Name,Note\n'Ann,\"'ok', 5\"\nBo,x\n")


@pytest.mark.parametrize("rows", ["Al,'tis fine\nTo,don't go\nKim,ok", "\"Smith, J\",5' tall\n'x','y'\n'z','a'"])
def test_a_header_in_single_quotes_alone_makes_them_no_quotes(rows: str) -> None:
    read = _text(f"'Name','Note'\n{rows}\n").split("\n\n")

    assert len(read) == 4
    assert read[1] in ("'Name': Al; 'Note': 'tis fine", "'Name': Smith, J; 'Note': 5' tall")


def test_parts_of_pages_in_cells_are_read_as_their_text() -> None:
    read = _text(
        'Name,About\nHat,"<p>Warm &amp; soft; <strong>hand washed</strong></p>"\n'
        'Tea,"<ul>\\n<li>Mild</li>\\n<li>Fresh</li></ul>"\nPath,"<p>C:\\new\\<i>notes</i></p>"\n'
        "Bold,<b>text</b>\nLess,a < b and c > d\nTag,the <p> and </p>"
    )

    assert read.split("\n\n")[1:] == [
        "Name: Hat; About: Warm & soft; hand washed",
        "Name: Tea; About: - Mild - Fresh",
        r"Name: Path; About: C:\new\notes",
        "Name: Bold; About: <b>text</b>",
        "Name: Less; About: a < b and c > d",
        "Name: Tag; About: the <p> and </p>",
    ]


def test_cells_of_plain_paragraphs_are_read_without_a_tree() -> None:
    plain, marked = (["<p>A &amp; <b>b</b>.</p>\n<p>C<br>d</p>" + mark for _ in range(300)] for mark in ("", "<u></u>"))

    assert [*map(cell_text, plain)] == [*map(cell_text, marked)] == ["A & b.\n\nC\nd"] * 300
    slow = least_cpu_s(lambda: [*map(cell_text, marked)], 0)
    assert least_cpu_s(lambda: [*map(cell_text, plain)], slow / 4) <= slow / 4
