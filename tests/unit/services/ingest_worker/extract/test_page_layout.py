import itertools
import re
import textwrap
from collections.abc import Iterable, Sequence

import pytest

from services.ingest_worker.extract.page_layout import TABLE, Columns, Edge, Page, Word, headline, text_of
from tests.loop_holds import least_cpu_s

_WIDE, _HIGH = 6, 12  # points of a character and of a line


def _page(text: str, across: Iterable[Edge] = (), upright: Iterable[Edge] = (), bold: Sequence[int] = ()) -> Page:
    """Return a page with the words as they stand; `bold` are lines."""
    words: list[Word] = []
    lines = text.strip("\n").split("\n")
    for row, line in enumerate(lines):
        for word in re.finditer(r"\S+", line):
            left, top = _WIDE * word.start(), _HIGH * row
            words.append(Word(word[0], left, top, left + _WIDE * len(word[0]), top + _HIGH - 2, row))
    return Page(words, list(across), list(upright), lambda at: at in bold)


def _grid(columns: Sequence[float], rows: Sequence[float]) -> tuple[list[Edge], list[Edge]]:
    """Return the lines at the columns and rows given in characters and lines."""
    xs, ys = [_WIDE * x - 2 for x in columns], [_HIGH * y - 1 for y in rows]
    return [Edge(y, xs[0], xs[-1]) for y in ys], [Edge(x, ys[0], ys[-1]) for x in xs]


def _rows(text: str | None) -> list[str]:
    return (text or "").replace(TABLE, "").split("\n\n")


_IN_HEBREW = str.maketrans({chr(ord("a") + at): chr(0x5D0 + at) for at in range(26)})  # letters without upper case

PROSE = """
The harbour of Skerrow was      Tickets for the ferry cost
built by the brothers Holm      nine euros, and children up
in eighteen sixty, and its      to five travel free, but
piers are made of oak from      dogs pay two euros and must
the north of the island.        wear a lead on all decks.
"""


def test_columns_of_prose_are_read_one_after_the_other() -> None:
    text, _ = text_of(_page(PROSE))

    left, right = zip(*(re.split(r" {3,}", line) for line in PROSE.strip().split("\n")), strict=True)
    assert (text or "").split("\n") == [*left, *right]


_LISTS = """
Two cups of flour     Mix the flour with the salt in a bowl
A spoon of salt       Add the water and stir for ten minutes
Water                 Leave it in a cold place for a night
Sourdough             Bake it for fifty minutes in the oven
"""


@pytest.mark.parametrize(
    ("lower", "by_rows", "columns"),
    [(5, False, True), (5, True, False), (0, False, False)],
    ids=["drawn by columns", "drawn by rows", "at one height, as a form's values, which are drawn last"],
)
def test_a_short_list_drawn_before_the_prose_beside_it_is_a_column(lower: float, by_rows: bool, columns: bool) -> None:
    page, at = _page(_LISTS), 22 * _WIDE
    words = [
        word._replace(top=word.top + lower, bottom=word.bottom + lower) if word.left >= at else word
        for word in page.words
    ]
    drawn = words if by_rows else sorted(words, key=lambda word: (word.left >= at, word.top))
    # What is drawn last stands above all, so that nothing is read as it is drawn.
    title = Word("Bread", 0, -20, 30, -10, len(drawn))
    text, _ = text_of(page._replace(words=[*(word._replace(at=at) for at, word in enumerate(drawn)), title]))

    both = zip(*(re.split(r" {3,}", line) for line in _LISTS.strip().split("\n")), strict=True)
    assert ((text or "").split()[1:] == " ".join(" ".join(column) for column in both).split()) is columns


def test_a_column_that_goes_on_alone_is_read_before_the_shorter_one_beside_it() -> None:
    below = "Its light is lit at six in the\nevening, and the keeper of it\nrows home when it is out.\n"

    text, _ = text_of(_page(f"{PROSE.rstrip()}\n\n{below}"))

    left, right = zip(*(re.split(r" {3,}", line) for line in PROSE.strip().split("\n")), strict=True)
    assert (text or "").split("\n") == [*left, *below.strip().split("\n"), *right]


def test_a_table_in_a_column_stays_in_it() -> None:
    across, upright = _grid((0, 12, 24), (5, 6, 7, 8))
    table = """
Pier        Depth               but children under two pay
North       4.5 m               nothing, as on all ferries
South       12 m                of the brothers Holm, from
The keeper of the harbour       spring to late in autumn,
lives at the quay.              when the sea is too rough.
"""

    text, _ = text_of(_page(PROSE + table.strip("\n"), across, upright))

    left = [*(line[:32].strip() for line in PROSE.strip().split("\n")), "", f"{TABLE}Pier | Depth", ""]
    left += [f"{TABLE}Pier: North; Depth: 4.5 m", "", f"{TABLE}Pier: South; Depth: 12 m", ""]
    left += ["The keeper of the harbour", "lives at the quay."]
    right = [line[32:].strip() for line in (PROSE + table.strip("\n")).strip().split("\n")]
    assert (text or "").split("\n") == [*left, *right]


def test_a_table_over_all_columns_divides_them() -> None:
    across, upright = _grid((0, 32, 58), (5, 6, 7))
    table = """
Pier                            Depth
North                           4.5 m
"""

    text, _ = text_of(_page(PROSE + table.strip("\n") + PROSE, across, upright))

    found = (text or "").split("\n")
    assert found.count("dogs pay two euros and must") == 2
    assert found.index("wear a lead on all decks.") < found.index(f"{TABLE}Pier: North; Depth: 4.5 m")


@pytest.mark.parametrize(
    ("large", "expected"), [((), None), ((0,), None), ((2, 3), "On locks"), ((1, 2, 3), "I On locks")]
)
def test_no_headline_is_a_letter_alone_or_runs_up_the_margin(large: tuple[int, ...], expected: str | None) -> None:
    texts = ["T", "I", "On", "locks", *("word" for _ in range(20))]
    words = [Word("arXiv:2301", 0, 100, 16, 300), Word("[cs]", 0, 310, 16, 330)]
    for at, text in enumerate(texts):
        row, high = (at if at < 1 else 1 if at < 4 else at), 24 if at in large else 10
        words.append(Word(text, 50 + 60 * at * (at < 4), 30 * row, 90 + 60 * at * (at < 4), 30 * row + high))

    assert headline(Page(words)) == expected


def test_a_page_of_prose_keeps_the_order_it_was_drawn_in() -> None:
    assert text_of(_page("One line of prose,\nand another one that is longer.")) == (None, None)


def test_a_table_with_lines_keeps_empty_cells_and_wrapped_ones() -> None:
    lines = _grid((0, 10, 20, 34, 44), (0, 1, 2, 4, 5))
    page = _page(
        """
Pier      Depth     Warden        Crane
North     4.5 m                   9 t
South     12 m      Holm, and at
                    night Brandt
West      6 m                     3 t
""",
        *lines,
        bold=(0,),
    )

    assert _rows(text_of(page)[0]) == [
        "Pier | Depth | Warden | Crane",
        "Pier: North; Depth: 4.5 m; Crane: 9 t",
        "Pier: South; Depth: 12 m; Warden: Holm, and at night Brandt",
        "Pier: West; Depth: 6 m; Crane: 3 t",
    ]


def test_a_row_that_looks_as_others_below_it_is_no_second_row_of_the_header() -> None:
    page = _page(
        """
Name      Description
Program   Ferries
Source    Logs of all
Reach     All piers
Rate      Each week
Owner     Harbour
""",
        *_grid((0, 10, 24), (0, 1, 2, 3, 4, 5, 6)),
        bold=(0, 1, 5),
    )

    assert _rows(text_of(page)[0])[:3] == [
        "Name | Description",
        "Name: Program; Description: Ferries",
        "Name: Source; Description: Logs of all",
    ]


def test_a_cell_over_several_rows_or_columns_stands_in_each() -> None:
    across, upright = _grid((0, 10, 20, 30), (0, 1, 2, 3, 4))
    across[1] = Edge(across[1].place, upright[1].place, upright[3].place)  # under the group, not under Deck
    across[3] = Edge(across[3].place, upright[1].place, upright[3].place)  # Lower has two rows
    upright[2] = Edge(upright[2].place, across[1].place, across[4].place)  # the group has two columns
    page = _page(
        """
Deck        Price in euros
          2023      2024
Lower     55        65
          60        70
""",
        across,
        upright,
        bold=(0, 1),
    )

    assert _rows(text_of(page)[0])[1:] == [
        "Deck: Lower; Price in euros 2023: 55; Price in euros 2024: 65",
        "Deck: Lower; Price in euros 2023: 60; Price in euros 2024: 70",
    ]


def test_a_table_needs_no_frame() -> None:
    across, upright = _grid((0, 10, 20, 30), (0, 1, 2, 3))
    page = _page(
        """
Pier      Depth     Crane
North     4.5 m     9 t
South     12 m      4 t
""",
        across[1:3],
        upright[1:3],
        bold=(0,),
    )

    assert _rows(text_of(page)[0])[1:] == [
        "Pier: North; Depth: 4.5 m; Crane: 9 t",
        "Pier: South; Depth: 12 m; Crane: 4 t",
    ]


def test_lines_between_rows_alone_make_a_table_and_its_last_row_needs_none() -> None:
    across, _ = _grid((0, 60), (0, 1, 3, 4, 8, 9, 10))
    page = _page(
        """
Measure        Depth of the quay
Source         Soundings, from the ice-
               free spring on
Frequency      Yearly
Limits         None
               at all
Table 2

Measure        Cranes
Source         Their owners
Frequency      Monthly

Other text is not in any of both tables, whatever stands above.
""",
        across,
        bold=(0, 8),
    )
    page = page._replace(
        words=[word._replace(top=word.top + 9, bottom=word.bottom + 9) if word.at == 6 else word for word in page.words]
    )

    assert _rows(text_of(page)[0]) == [
        "Measure | Depth of the quay",
        "Measure: Source; Depth of the quay: Soundings, from the ice-\ufffefree spring on",
        "Measure: Frequency; Depth of the quay: Yearly",
        "Measure: Limits; Depth of the quay: None at all",
        "Table 2",
        "Measure | Cranes",
        "Measure: Source; Cranes: Their owners",
        "Measure: Frequency; Cranes: Monthly",
        "Other text is not in any of both tables, whatever stands above.",
    ]


def test_a_cell_that_reaches_to_the_next_column_is_in_its_own() -> None:
    across, _ = _grid((0, 60), (0, 1, 2, 3, 5))
    page = _page(
        """
Part    Name                 Fits
P-1     Gasket               Pump 4
P-2     Ring                 Pump 2
P-3     Washer of brass, for Pump 3,
        old pipes            Pump 4
""",
        across,
        bold=(0,),
    )

    assert _rows(text_of(page)[0])[1:] == [
        "Part: P-1; Name: Gasket; Fits: Pump 4",
        "Part: P-2; Name: Ring; Fits: Pump 2",
        "Part: P-3; Name: Washer of brass, for old pipes; Fits: Pump 3, Pump 4",
    ]


def test_lines_between_paragraphs_make_no_table() -> None:
    across, _ = _grid((0, 60), (0, 2, 4, 6, 8))
    page = _page("\n".join(["One paragraph of a text that is about the harbour,", "and goes on."] * 4), across)

    assert text_of(page) == (None, None)


def test_one_line_between_columns_goes_on_below_a_framed_header() -> None:
    across, upright = _grid((0, 20, 40), (0, 1))
    upright[1] = upright[1]._replace(end=_HIGH * 2.0)
    page = _page(
        """
Milestone           Met or not
Harbour deepened    Not met
""",
        across,
        upright,
        bold=(0,),
    )

    assert _rows(text_of(page)[0])[1:] == ["Milestone: Harbour deepened; Met or not: Not met"]


def test_a_long_first_cell_over_several_rows_is_repeated_by_its_beginning() -> None:
    goal = "Deepen each harbour of the island."
    across, upright = _grid((0, 40, 50), (0, 1, 5, 10))
    across[2] = Edge(across[2].place, upright[1].place, upright[2].place)
    lines = [
        "Goal".ljust(40) + "Year",
        *(goal.ljust(40) + year for year in ("2023", "", "", "", "2024", "", "", "", "")),
    ]

    _, first, second = _rows(text_of(_page("\n".join(lines), across, upright, bold=(0,)))[0])

    assert first == f"Goal: {' '.join([goal] * 9)}; Year: 2023"
    assert second.startswith(f"Goal: {goal} {goal}")
    assert second.endswith(" …; Year: 2024")
    assert len(second) < len(first)


def test_rows_between_upright_lines_are_divided_by_the_space_between_them() -> None:
    page = _page(
        """
Pier      Warden        Crane
North     Petry, and    9 t
          Holm in May

South     Brandt        4 t
""",
        *_grid((0, 10, 24, 30), (0, 1, 5)),
        bold=(0,),
    )

    assert _rows(text_of(page)[0])[1:] == [
        "Pier: North; Warden: Petry, and Holm in May; Crane: 9 t",
        "Pier: South; Warden: Brandt; Crane: 4 t",
    ]


def test_the_lines_of_a_cell_in_chinese_or_japanese_are_joined_without_blanks() -> None:
    rows = [("項目", "内容", "担当"), ("点検", "消火器を六", "田中"), ("", "月末までに", ""), ("清掃", "毎朝", "森")]
    lines = "\n".join(a.ljust(10) + b.ljust(14) + c for a, b, c in rows)

    page = _page(lines, *_grid((0, 10, 24, 30), (0, 1, 3, 4)), bold=(0,))

    assert _rows(text_of(page)[0])[1] == "項目: 点検; 内容: 消火器を六月末までに; 担当: 田中"


ACCOUNTS = """
                               Three months ended
                               March       June
Net income                     $ 120       $ 95
Cash from all operating
activities                     1,200       (310)
Debts                                      40
"""


def test_a_table_without_lines_has_its_headers_and_wrapped_labels() -> None:
    text, _ = text_of(_page(ACCOUNTS))

    assert _rows(text)[-3:] == [
        "Net income; Three months ended March: $ 120; Three months ended June: $ 95",
        "Cash from all operating activities; Three months ended March: 1,200; Three months ended June: (310)",
        "Debts; Three months ended June: 40",
    ]


def test_years_are_a_header_and_other_figures_are_not() -> None:
    with_years, _ = text_of(_page("            2023   2022\nOil         5      4\nGas         7      6"))
    without, _ = text_of(_page("Tar         71     24\nOil         5      4\nGas         7      6"))

    assert _rows(with_years)[-2:] == ["Oil; 2023: 5; 2022: 4", "Gas; 2023: 7; 2022: 6"]
    assert _rows(without) == ["Tar; 71; 24", "Oil; 5; 4", "Gas; 7; 6"]


@pytest.mark.parametrize("header", ["Pier     Depth     Crane\n", ""])
def test_a_table_goes_on_on_the_next_page_below_its_header(header: str) -> None:
    _, columns = text_of(_page("Pier     Depth     Crane\nNorth    4.5       9\nSouth    12        4"))

    text, _ = text_of(_page(f"{header}East     3.5       8\nWest     11        2\nQuay     10        2"), columns)

    assert columns is not None
    assert columns.names == ["Pier", "Depth", "Crane"]
    assert _rows(text) == [
        "Pier: East; Depth: 3.5; Crane: 8",
        "Pier: West; Depth: 11; Crane: 2",
        "Pier: Quay; Depth: 10; Crane: 2",
    ]


@pytest.mark.parametrize("label", [0, 1, 2], ids=["above", "in the middle", "below"])
def test_rows_with_space_between_them_have_their_wrapped_cells(label: int) -> None:
    cells = [("BIO-1", "Lakes and", "rivers in", "the north"), ("BIO-2", "Fungi of", "woods, with", "Dr. Dahl")]
    cells += [("CHE-1", "Water and its", "chemistry in", "all seasons"), ("CHE-2", "Salts", "and", "acids")]
    lines = ["Code     Course            Room"]
    for code, *parts in cells:
        lines += [
            "",
            *(f"{code if at == label else '':9}{word:18}{'A' if at == label else ''}" for at, word in enumerate(parts)),
        ]
    page = _page("\n".join(lines))
    page = page._replace(words=[word._replace(bottom=word.bottom + 1.5) for word in page.words])

    assert _rows(text_of(page)[0]) == [
        "Code | Course | Room",
        *(f"Code: {code}; Course: {' '.join(parts)}; Room: A" for code, *parts in cells),
    ]


def test_names_with_their_values_above_a_table_are_no_header() -> None:
    text = """
Patient: J. Doe    Sampled: 2026-04-02
Test               Result      Unit
Sodium             141         mmol
Potassium          5.4         mmol
"""

    assert _rows(text_of(_page(text))[0]) == [
        "Patient: J. Doe Sampled: 2026-04-02",
        "Test | Result | Unit",
        "Test: Sodium; Result: 141; Unit: mmol",
        "Test: Potassium; Result: 5.4; Unit: mmol",
    ]


def test_figures_of_a_statement_stand_under_their_columns() -> None:
    text, _ = text_of(
        _page(
            """
                          Three months ended         Nine months ended
                          July 1,      June 25,      July 1,      June 25,
                          2023         2022          2023         2022
Products                  $   60,584   $  63,355     $ 230,901    $ 245,241
Other income, net               (265)       (10)          (594)         (97)
Services                                 19,604        62,886       58,941
"""
        )
    )

    assert _rows(text)[1:] == [
        (
            "Products; Three months ended July 1, 2023: $ 60,584; Three months ended June 25, 2022: $ 63,355; "
            "Nine months ended July 1, 2023: $ 230,901; Nine months ended June 25, 2022: $ 245,241"
        ),
        (
            "Other income, net; Three months ended July 1, 2023: (265); Three months ended June 25, 2022: (10); "
            "Nine months ended July 1, 2023: (594); Nine months ended June 25, 2022: (97)"
        ),
        (
            "Services; Three months ended June 25, 2022: 19,604; Nine months ended July 1, 2023: 62,886; "
            "Nine months ended June 25, 2022: 58,941"
        ),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Piers . . . . . . .    2\nBoats . . . . . . .    7\nMasts . . . . . . .    9",
        "Rooms       In the north  In the south\n• Of law    • Of pay      • Of t\n• Of sea    • Of war      • Of i",
        "1.1   Piers ........  2\n1.2   Boats ........  7\n1.3   Masts ........  9",
        "Limits       of the data\nof samples   and of polls\nReport       of Skerrow    130",
    ],
)
def test_contents_lists_and_footers_are_no_tables(text: str) -> None:
    assert ": " not in (text_of(_page(text))[0] or "")


def test_another_table_takes_no_names_from_the_page_before() -> None:
    before = Columns(((0.0, 30.0), (120.0, 150.0), (240.0, 270.0)), ["Pier", "Depth", "Crane"])

    text, _ = text_of(_page("East     3.5       8\nWest     11        2\nQuay     10        2"), before)

    assert _rows(text) == ["East; 3.5; 8", "West; 11; 2", "Quay; 10; 2"]


def test_text_around_a_table_keeps_its_place() -> None:
    page = _page(f"Above.\n\n\n\n{ACCOUNTS.strip(chr(10))}\n\n\n\nBelow.")

    parts = _rows(text_of(page)[0])

    assert (parts[0].split("\n")[0], parts[-1]) == ("Above.", "Below.")


def test_a_long_text_over_all_columns_gets_no_name() -> None:
    analysis = "The harbour was calm. " * 40
    page = _page(
        f"Pier      Depth     Crane\nNorth     4.5       9\n{analysis}",
        *_grid((0, 10, 20, 900), (0, 1, 2, 3)),
        bold=(0,),
    )
    upright = [
        Edge(edge.place, edge.start, page.across[2].place) if 0 < at < 3 else edge
        for at, edge in enumerate(page.upright)
    ]

    text, _ = text_of(page._replace(upright=upright))

    assert _rows(text)[-1] == analysis.strip()


_PIERS = """
Pier      Warden        Crane
North     Petry         heavy
South     Holm          light
West      Brandt        heavy
"""


def test_rows_of_the_next_page_are_no_header() -> None:
    lines = _grid((0, 10, 24, 34), (0, 1, 2, 3, 4))
    _, columns = text_of(_page(_PIERS, *lines))

    text, _ = text_of(_page(_PIERS.replace("Pier   ", "East   "), *lines), columns)

    assert _rows(text)[0] == "Pier: East; Warden: Warden; Crane: Crane"


def test_labels_of_a_form_are_no_column() -> None:
    form = "Name:       Olaf Holm      4\nDeck:       Upper          5\nCabin:      Inside         6"

    assert text_of(_page(form)) == (None, None)


@pytest.mark.parametrize(
    "columns",
    [
        ("Fares were raised|in March by two|euros for adults.", "New benches were|put on the pier|by the council."),
        (
            "港は兄弟によって千八百|六十年に建てられ、桟橋|れている。",
            "渡し船の切符は九ユーロ|で、五歳までの子どもは|である。",
        ),
    ],
)
def test_narrow_columns_are_read_one_after_the_other(columns: tuple[str, str]) -> None:
    left, right = (each.split("|") for each in columns)
    page = _page("\n".join(f"{one:24}{other}" for one, other in zip(left, right, strict=True)))

    assert (text_of(page)[0] or "").split("\n") == [*left, *right]


def test_what_stands_in_other_columns_behind_a_gap_is_another_table() -> None:
    page = _page(
        """
Number      2026-118
Date        3 November 2026
Customer    K-771

 Pos  Article           Pieces    Amount
 1    Ring of rubber    2         118.00
 2    Cap               1          12.50
"""
    )

    assert _rows(text_of(page)[0]) == [
        "Number 2026-118\nDate 3 November 2026\nCustomer K-771",
        "Pos | Article | Pieces | Amount",
        "Pos: 1; Article: Ring of rubber; Pieces: 2; Amount: 118.00",
        "Pos: 2; Article: Cap; Pieces: 1; Amount: 12.50",
    ]


def test_addresses_above_a_table_in_the_same_places_are_none_of_its_names() -> None:
    addresses = "Bill to      Ship to\nPort Kiel    Yard 4\nPier 3       Mole 9\n\n"
    rows = "Item         Pieces     Price\nRope         40         88.00\nShackle      6          31.50"

    assert _rows(text_of(_page(addresses + rows))[0])[1:] == [
        "Item | Pieces | Price",
        "Item: Rope; Pieces: 40; Price: 88.00",
        "Item: Shackle; Pieces: 6; Price: 31.50",
    ]


@pytest.mark.parametrize(
    ("lines", "blocks"),
    [
        (
            (
                "Sold to          Ship to\nHolm & Son       North Store KG\n"
                "Quay 12          Pier 88\n20457 Hamburg    27568 Kiel"
            ),
            ["Sold to\nHolm & Son\nQuay 12\n20457 Hamburg", "Ship to\nNorth Store KG\nPier 88\n27568 Kiel"],
        ),
        (
            "Mr              Sign:     LH-33\nJonas Petry     Clerk:    Ann Roe\nQuay 9          Date:     14.02.2024",
            ["Mr\nJonas Petry\nQuay 9", "Sign: LH-33\nClerk: Ann Roe\nDate: 14.02.2024"],
        ),
        (
            "Build           Repair\n• In 2027       • In spring\n• By us         • By others\n  alone",
            ["Build\n• In 2027\n• By us\nalone", "Repair\n• In spring\n• By others"],
        ),
        ("Room            Key\nname            code\nA 12            X 33\nB 14            X 35", None),
        ("Pier            Warden\nNorth           Ann Roe\nSouth           Ben Holm", None),
    ],
    ids=["addresses", "labels", "lists", "codes", "names"],
)
def test_short_blocks_beside_each_other_are_read_one_after_the_other(lines: str, blocks: list[str] | None) -> None:
    text, _ = text_of(_page(f"{lines}\n\n\nWe thank you for all that."))

    assert _rows(text)[:-1] == blocks if blocks else (text or lines).split("\n")[0] not in ("Room", "Pier")


def test_a_column_of_figures_that_end_below_its_name_goes_on_on_the_next_page() -> None:
    names = "Ship         Registered tonnage      Built\n"
    ships = enumerate(("Aurora", "Selkie", "Tern  "))
    rows = "\n".join(f"{ship}                      {at + 837}      {at + 1960}" for at, ship in ships)

    _, columns = text_of(_page(names + rows))
    text, _ = text_of(_page(rows), columns)

    assert _rows(text)[0] == "Ship: Aurora; Registered tonnage: 837; Built: 1960"


def test_a_line_in_two_places_far_above_a_table_is_none_of_its_names() -> None:
    account = "Account 0049 1500                          Page 1 of 2\n\n"
    rows = (
        "Date      Text                Paid         Balance\n"
        "02/04     RENT OLMO 3         74.10         825.90\n"
        "05/04     BAKERY MORA         23.08         802.82"
    )

    assert _rows(text_of(_page(account + rows, bold=[2]))[0])[1:] == [
        "Date | Text | Paid | Balance",
        "Date: 02/04; Text: RENT OLMO 3; Paid: 74.10; Balance: 825.90",
        "Date: 05/04; Text: BAKERY MORA; Paid: 23.08; Balance: 802.82",
    ]


def test_names_of_groups_above_a_gap_are_of_the_table() -> None:
    groups = "(In millions)\n              Ferry                 Boats\n\n"
    years = "              2026       2025       2026       2025\n"
    rows = "North         12.5       11.0       4.5        3.1\nSouth         9.5        8.0        2.5        1.1"

    assert "Ferry 2026" in _rows(text_of(_page(groups + years + rows))[0])[-1]


def test_names_of_groups_first_and_far_above_their_columns_are_of_the_table() -> None:
    groups = "                  Ferry                 Boats\n\n"
    years = "Pier          2026       2025       2026       2025\n"
    rows = "North         12.5       11.0       4.5        3.1\nSouth         9.5        8.0        2.5        1.1"

    assert "Ferry 2026" in _rows(text_of(_page(groups + years + rows))[0])[-1]


@pytest.mark.parametrize(
    "rows",
    [
        "Pier      Depth     Cranes\nNorth     4.5       2\n\nSouth     12        1\nWest      6         3",  # groups
        "Pier      Depth     Cranes\n\nNorth     4.5       2\nSouth     12        1\nWest      6         3",
        "Pier      Depth     Cranes\nNorth       4.5         2\n\nSouth        12         1\nWest          6         3",
        "Pier      Depth    Cranes\nNorth      4.5        2\n\nSouth      12         1\nWest        6         3",
        "Pier      Depth     Cranes\nNorth     4.5       2\nSouth     12        1\n\nWest                3",  # a sum
    ],
)
def test_a_gap_within_the_columns_of_a_table_does_not_end_it(rows: str) -> None:
    text, _ = text_of(_page(rows))

    assert _rows(text)[0] == "Pier | Depth | Cranes"
    assert "Pier: West" in _rows(text)[-1]
    assert "Cranes: 3" in _rows(text)[-1]


@pytest.mark.parametrize(
    "below",
    [
        "South     12        1         in summer\nWest      6         3         in winter",  # one piece more
        "South     12        1         in all\n",  # a sum
        "South         (closed from June on)\nWest          (closed from May on)",  # other edges
    ],
)
def test_a_group_below_a_gap_stays_in_its_table_if_no_header_begins_it(below: str) -> None:
    above = "Pier      Depth     Cranes\nNorth     4.5       2\nEast      5         3\nUp        6         1\n\n"

    rows = _rows(text_of(_page(above + below))[0])

    assert rows[0] == "Pier | Depth | Cranes"
    assert all(row.startswith("Pier: ") for row in rows[1:])
    assert len(rows) == 4 + len(below.splitlines())


def test_boxes_of_words_beside_each_other_in_three_lines_make_no_table() -> None:
    lines = ("Human          Small          Office of", "Resources      Business       the Chief")
    boxes = "\n".join((*lines, "Office         Line           Inspector"))

    assert TABLE not in (text_of(_page(boxes))[0] or "")


@pytest.mark.parametrize("hebrew", [False, True])
def test_prose_whose_words_stand_apart_as_in_a_scan_makes_no_table(hebrew: bool) -> None:
    prose = """
the   harbour   of   the   northern   island   was
built   by   two   brothers   from   oslo,   and   its
piers   are   made   of   oak   that   came   from   the
forests   behind   the   town,   where   it   grows
in   the   wind   of   the   sea   all   year   long
"""

    assert TABLE not in (text_of(_page(prose.translate(_IN_HEBREW) if hebrew else prose))[0] or "")


SMALL_TABLES = (
    """
Berth     water     power     crane
North     yes       no        no
South     yes       yes       no
West      no        yes       yes
East      no        no        yes
""",
    """
            fares in summer
boat        adults    children
skua        9         4
tern        12        6
puffin      11        5
""",
    """
boat        seats     price in
                      euros
skua        9         4
tern        12        6
puffin      11        5
""",
    """
dish              small     large
soup of the day   4.00      6.00
fish and chips    9.00      12.00
tea               2.00      3.00
""",
)


@pytest.mark.parametrize("table", SMALL_TABLES)
def test_tables_of_words_in_lower_case_stay_tables(table: str) -> None:
    assert (text_of(_page(table))[0] or "").count(TABLE) >= 4


def _beside(initial: str, rest: str, below: str = "the sea, only a river", size: int = 26) -> list[str]:
    """Return the lines of a page of two lines beside an initial, and one below."""
    first = Word(initial, 0, 0, 14, size)
    lines = [(16, 0, rest), (16, _HIGH, below), (0, 2 * _HIGH, "It led to the gates and to all the other ports.")]
    words = [first]
    for left, top, line in lines:
        for word in re.finditer(r"\S+", line):
            at = left + _WIDE * word.start()
            words.append(Word(word[0], at, top, at + _WIDE * len(word[0]), top + _HIGH - 2))
    return (text_of(Page(words))[0] or " ".join(word.text for word in words)).split()


@pytest.mark.parametrize(
    ("initial", "rest", "size", "first"),
    [
        ("T", "he keeper had not seen", 26, "The"),
        ("É", "tienne had not seen it", 26, "Étienne"),
        # What stands beside one letter alone, but is no rest of a word.
        ("M", "Marta Vik of the quay", 26, None),
        ("A", "keeper had not seen it", 12, None),
        ("3", "boats that had not seen", 26, None),
        ("AB", "boats that had not seen", 26, None),
    ],
)
def test_an_initial_as_high_as_lines_begins_its_word(initial: str, rest: str, size: int, first: str | None) -> None:
    words = _beside(initial, rest, size=size)

    assert (first in words) is (first is not None)
    assert (initial in words) is (first is None)


@pytest.mark.parametrize(
    ("above", "names"),
    [
        ("Pier      Warden       Boat", "Pier: South; Warden: Brandt; Boat: Tern"),
        ("The wardens of May and of June", None),
        ("Pier Warden       of the whole harbour", None),
    ],
)
def test_names_right_above_coloured_rows_are_theirs(above: str, names: str | None) -> None:
    rows = [
        "North     Petry        Skua",
        "South     Brandt       Tern",
        "West      Holm         Gull",
        "East      Otto         Auk",
    ]
    page = _page("\n".join([above, *rows]), bold=[0])
    across = [Edge(_HIGH * y - 1, -2, 240) for y in (1, 2, 3, 4)]

    text, _ = text_of(page._replace(across=across))

    assert (names in _rows(text)) if names else not any("Warden:" in row for row in _rows(text))


@pytest.mark.parametrize(
    ("above", "apart"),
    [
        ("Skerrow Ltd         Invoice 17\nQuay 3              Due in June\nInvoice", True),
        (
            (
                "Skerrow Ltd         Customer   17\nQuay 3              Meter      9\n"
                "                    New        8.50\nInvoice"
            ),
            True,
        ),
        # Names over several columns stand further right, and a title within a table is above values.
        ("            North               South\n(in millions)", False),
        ("Pier        Depth     Crane     Boats\nNorth       4.5       3         8\nAll others", False),
    ],
)
def test_what_is_beside_each_other_above_a_title_is_no_part_of_the_table_below(above: str, apart: bool) -> None:
    table = (
        "Pier        Depth     Crane     Length\nEast        7.5       2         12\nWest        12        9         30"
    )

    rows = _rows(text_of(_page(f"{above}\n{table}"))[0])

    assert ("Pier: East; Depth: 7.5; Crane: 2; Length: 12" in rows) is apart


_CARDS = """
Three of our services:

Gauging             Forecast
We read gauges      A forecast of the
and tell you        levels comes each
when one fails.     morning by post.

Ask at the office.
"""


def _box(left: int, top: float, right: int, bottom: float) -> tuple[list[Edge], list[Edge]]:
    """Return the sides of a box at the characters and lines."""
    return _grid([left, right], [top, bottom])


def test_boxes_beside_each_other_are_read_one_after_the_other() -> None:
    boxes = [_box(-1, 1.8, 18, 6.2), _box(19, 1.8, 38, 6.2)]
    across, upright = ([edge for box in boxes for edge in box[side]] for side in (0, 1))

    text, _ = text_of(_page(_CARDS, across, upright))

    cards = [re.split(r" {3,}", line) for line in _CARDS.strip().split("\n")[2:6]]
    first, second = ("\n".join(card) for card in zip(*cards, strict=True))
    assert (text or "").split("\n\n") == ["Three of our services:", first, second, "Ask at the office."]


def test_a_table_in_a_box_stays_in_it() -> None:
    text = """
Berths                   Lock
Length     Fee           Open from six in the
8 m        120           morning until eight in
12 m       210           the evening.
"""
    boxes = [_box(-1, -0.6, 20, 4.6), _box(23, -0.6, 50, 4.6)]
    table = _grid([0, 10, 18], [1, 2, 3, 4])
    across, upright = ([*table[side], *(edge for box in boxes for edge in box[side])] for side in (0, 1))

    read, _ = text_of(_page(text, across, upright, bold=[1]))

    lines = [line for line in (read or "").replace(TABLE, "").split("\n") if line]
    assert lines[:4] == ["Berths", "Length | Fee", "Length: 8 m; Fee: 120", "Length: 12 m; Fee: 210"]
    assert lines[4:] == ["Lock", "Open from six in the", "morning until eight in", "the evening."]


def test_what_is_around_a_box_in_a_corner_is_no_box() -> None:
    notice = ["Flood in the valley", "Leave the meadow", "when the horn", "sounds, and go", "up to the mill."]
    outer, inner = _box(-1, -0.6, 30, 6), _box(19, 2.8, 30, 6)
    lines = [*notice[:3], f"{notice[3]:19}Call", f"{notice[4]:19}55 01"]
    page = _page("\n".join(lines), [*outer[0], *inner[0]], [*outer[1], *inner[1]])
    words = [
        word._replace(top=word.top + 5, bottom=word.bottom + 5) if word.left >= 19 * _WIDE else word
        for word in page.words
    ]

    read, _ = text_of(page._replace(words=words))

    assert [line for line in (read or "").split("\n") if line] == [*notice, "Call", "55 01"]


def test_a_column_of_rows_that_is_filled_is_no_box_of_its_own() -> None:
    rows = "Berths of the north        12\nBerths of the harbour      30\nPlaces on land             11"
    across, upright = _box(26, -0.5, 30, 3.5)

    title = Word("Berths", 0, -20, 36, -10, 9)  # is drawn last, so that nothing is read as it is drawn
    page = _page(rows, across, upright)
    text, _ = text_of(page._replace(words=[*page.words, title]))

    for line in rows.split("\n"):
        assert any(all(word in each for word in line.split()) for each in (text or "").split("\n"))


def test_what_is_around_a_box_is_read_whole() -> None:
    lines = PROSE.strip("\n").split("\n")
    left, right = zip(*(re.split(r" {3,}", line) for line in lines), strict=True)
    at = max(map(len, lines)) + 4
    page = _page(
        "\n".join(f"{line:{at}}{note}" for line, note in zip(lines, ["", "Open", "until", "six", ""], strict=True))
    )
    lower = [
        word._replace(top=word.top + 5, bottom=word.bottom + 5) if word.left >= _WIDE * at else word
        for word in page.words
    ]
    across, upright = _box(at - 1, 0.6, at + 8, 4.8)

    text, _ = text_of(page._replace(words=lower, across=across, upright=upright))

    assert (text or "").split("\n") == [*left, *right, "", "Open", "until", "six"]


def test_rows_without_a_fill_between_filled_ones_are_of_their_table() -> None:
    rows = [("Code", "Place"), ("G1", "Weir"), ("G2", "Mill"), ("G3", "Lock"), ("G4", "Pier")]
    cells = [_grid([0, 10, 20], [at, at + 1]) for at in (0, 1, 3)]  # the header, the first row and the third
    across, upright = ([edge for cell in cells for edge in cell[side]] for side in (0, 1))

    page = _page("\n".join(f"{code:10}{place}" for code, place in rows), across, upright, bold=[0])

    assert _rows(text_of(page)[0]) == ["Code | Place", *(f"Code: {code}; Place: {place}" for code, place in rows[1:])]


def test_boxes_around_words_of_lines_make_no_table() -> None:
    lines = "Run board start on the first, then board join\non the others; without it board clean takes all."
    boxes = [_box(4, 0, 15, 1), _box(35, 0, 45, 1), _box(26, 1, 37, 2), _box(0, 1, 14, 2)]
    across, upright = ([edge for box in boxes for edge in box[side]] for side in (0, 1))

    assert text_of(_page(lines, across, upright))[0] in (None, lines)


_LEFT = [
    "Fog is a frequent phenomenon",
    "that offices of harbours have",
    "filed reports on since 1911.",
    "Earlier work treats only the",
    "rivers of the south, and the",
    "coast remains unexplored, as",
    "far as we could find out. We",
    "hope that this will change,",
    "and offer the first figures.",
    "They may serve others, too.",
]
_RIGHT = [
    "We counted vessels in ports.",
    "Port     Ships   Delay",
    "Gdynia   1,204   18.2",
    "Rostock    987   15.9",
    "Esbjerg    455   31.4",
    "Delays grow with the deficit,",
    "and a third of them is due to",
    "pilots. The others are due to",
    "weather alone, as the records",
    "of six years and of all ports",
    "show without a single doubt.",
]


def _drawn_by_columns(left: Sequence[str], right: Sequence[str], gap: int = 0, lower: int = 0) -> Page:
    """Return a page with two columns, the left one drawn first, and the right one so much lower."""
    words: list[Word] = []
    for at, (row, line, start) in enumerate(
        [*((row, line, 0) for row, line in enumerate(left)), *((row, line, 34) for row, line in enumerate(right))]
    ):
        for word in re.finditer(r"\S+", line):
            x, y = _WIDE * (start + word.start()), (_HIGH + 2) * row + (gap if row > 2 else 0) + (lower if start else 0)
            words.append(Word(word[0], x, y, x + _WIDE * len(word[0]), y + _HIGH - 2, 10 * at))
    return Page(words)


@pytest.mark.parametrize("gap", [0, 14], ids=["even", "with a gap"])
def test_a_table_with_figures_in_a_column_of_prose_does_not_join_the_columns(gap: int) -> None:
    text, _ = text_of(_drawn_by_columns(_LEFT, _RIGHT, gap))

    assert _rows(text)[0].split("\n") == [*_LEFT, _RIGHT[0]]
    assert "Port: Gdynia; Ships: 1,204; Delay: 18.2" in _rows(text)


def test_a_short_column_of_words_beside_sentences_is_one_if_it_was_drawn_after_them() -> None:
    right = ["Fish    Price", "Cod     14.20", "Sole    31.00", "", "Letters", "The gates are of Bruges"]

    text, _ = text_of(_drawn_by_columns(_LEFT, right, lower=5))

    assert (text or "").replace("\n\n", "\n").startswith("\n".join(_LEFT))


def test_a_row_of_boxes_below_others_makes_no_table() -> None:
    """The boxes of a slide: a title, what it says, and three at its foot."""
    page = """
    Agenda
    Sensors
    Storage
    Author     Title     Page
    """
    across = [Edge(y, 0, 400) for y in (-1, 11, 35, 47)]
    upright = [Edge(0, -1, 47), Edge(400, -1, 47), Edge(84, 35, 47), Edge(144, 35, 47)]

    text, _ = text_of(_page(page, across, upright))

    assert text is None  # the lines are read as they were drawn


@pytest.mark.parametrize("above", [[], [Word("Sizes", 0, -8, 30, 2, 30)]], ids=["first", "below a line"])
def test_exponents_and_indices_stay_with_what_they_belong_to(above: list[Word]) -> None:
    words = [*above, Word("area", 0, 10, 24, 20, 0), Word("x", 30, 10, 36, 20, 5), Word("2", 36, 8, 40, 14, 7)]
    words += [Word("and", 46, 10, 64, 20, 9), Word("v", 70, 10, 76, 20, 13), Word("0", 76, 16, 80, 22, 15)]
    words += [Word("gates", 0, 40, 30, 50, 17), Word("below", 200, 40, 230, 50, 23)]

    text, _ = text_of(Page(sorted(words, key=lambda word: word.top - word.bottom)))  # small ones last

    assert (text or "").split("\n")[len(above)] == "area x 2 and v 0"


def test_a_title_behind_a_table_is_no_row_of_it() -> None:
    page = _page("Pier      Depth     Crane\nNorth     4.5       12\nSouth     6.1       9\nWest      3.2       4")
    below = [Word("2.2", 0, 58, 20, 74, 90), Word("Costs", 36, 58, 80, 74, 94)]

    text, _ = text_of(page._replace(words=[*page.words, *below]))

    assert _rows(text)[-1] == "2.2 Costs"


def test_labels_with_their_values_beside_each_other_are_no_columns() -> None:
    text, columns = text_of(
        _page(
            """
            Conditions:     Visual      Light:          Day
            Station:        KADM        Distance:       9 miles
            Wind direction: 90          Turbulence:     None
            """,
            *_grid([12, 28, 40, 56, 66], [0, 1, 2, 3]),
        )
    )

    assert _rows(text) == [
        "Conditions: Visual; Light: Day",
        "Station: KADM; Distance: 9 miles",
        "Wind direction: 90; Turbulence: None",
    ]
    assert columns is None


def test_a_sign_larger_than_all_letters_makes_no_headline() -> None:
    words = [Word("P", 0, 0, 10, 40, 0), Word("sums", 12, 15, 40, 25, 2), Word("squares", 44, 15, 80, 25, 7)]
    words += [Word("Some", 0, 60, 30, 70, 15), Word("words", 34, 60, 64, 70, 20)]

    assert headline(Page(words)) is None


_ROLES = """
Role      Key     May do
Reader    R       Search   and  read documents, but
                  nothing else in the system
Writer    W       Upload
Guest     none    Nothing
"""


def _rules(*rows: int) -> list[Edge]:
    return [Edge(_HIGH * row - 1, 0, 300) for row in rows]


def test_a_table_of_words_with_lines_around_its_header_and_at_its_end() -> None:
    text, _ = text_of(_page(_ROLES, _rules(0, 1, 5)))

    assert _rows(text) == [
        "Role | Key | May do",
        "Role: Reader; Key: R; May do: Search and read documents, but nothing else in the system",
        "Role: Writer; Key: W; May do: Upload",
        "Role: Guest; Key: none; May do: Nothing",
    ]


def test_rows_with_figures_need_no_label() -> None:
    page = """
Training  Model   Score
          BM25    32.6
Single    DPR     41.5
          Both    39.0
"""
    text, _ = text_of(_page(page, _rules(0, 1, 4)))

    assert [row.rpartition("Model")[2] for row in _rows(text)[1:]] == [
        ": BM25; Score: 32.6",
        ": DPR; Score: 41.5",
        ": Both; Score: 39.0",
    ]


@pytest.mark.parametrize(
    "page",
    [
        """
        Skills                         Languages
        Sails and ropes of all kinds, and      none
        knots
        Ferry pilot in Bergen          none
        """,
        """
        Pilot           2016 to 2024
        Bergen          Norway
        Officer         Stavanger
        """,
    ],
    ids=["what is below reaches over what is above", "a date is no name"],
)
def test_lines_between_parts_of_a_text_make_no_table(page: str) -> None:
    text, _ = text_of(_page(page, _rules(0, 1, 4)))

    assert TABLE not in (text or "")


def test_figures_on_the_right_of_their_columns_are_below_the_names_on_the_left() -> None:
    """As sheets are printed."""
    page = """
Fish        Kilo        Price       Note
Cod               4          2.5    fresh
Eel               5            9
Sole             12         31.0    few
"""

    text, _ = text_of(_page(page))

    assert _rows(text)[1:] == [
        "Fish: Cod; Kilo: 4; Price: 2.5; Note: fresh",
        "Fish: Eel; Kilo: 5; Price: 9",
        "Fish: Sole; Kilo: 12; Price: 31.0; Note: few",
    ]


def test_a_line_below_the_first_row_makes_it_the_header() -> None:
    below = [Edge(_HIGH - 1.0, 0.0, 40.0 * _WIDE)]

    assert _rows(text_of(_page(_PIERS, below))[0])[1:2] == ["Pier: North; Warden: Petry; Crane: heavy"]
    assert _rows(text_of(_page(_PIERS))[0])[0] == "Pier; Warden; Crane"


def test_a_year_centred_over_several_columns_belongs_to_each() -> None:
    text, _ = text_of(
        _page(
            """
                  2022                    2023
Region      Revenue     Staff      Revenue     Staff
North        41.2        12         44.0        13
South        38.9        10         37.5         9
Total        80.1        22         81.5        22
"""
        )
    )

    assert _rows(text)[-2] == ("Region: South; 2022 Revenue: 38.9; 2022 Staff: 10; 2023 Revenue: 37.5; 2023 Staff: 9")


@pytest.mark.parametrize(
    "table",
    [
        "Region       2022         2023\nNorth        41.2         44.0\nSouth        38.9         37.5",
        (
            "             2022                    2023\nNorth        41.2        12         44.0        13\n"
            "South        38.9        10         37.5         9"
        ),
    ],
)
def test_years_that_stand_over_one_column_name_only_that(table: str) -> None:
    text, _ = text_of(_page(table))

    assert "2022: 41.2" in (text or "")
    assert "2022: 12" not in (text or "")


def _printed(size: int, head: int, foot: int) -> list[str]:
    """Return the rows of a page as browsers print it; `head` and `foot` tell when its margins are drawn."""
    rows = "Pier        Depth     Crane\nNorth       4.5       2\nSouth       12        9"
    page = _page(f"3/5/26, 10:15        Boats\n\n{rows}\nskerrow.example      1/1")
    drawn, high = {0: head, 5: foot}, {0: size}
    words = [
        word._replace(bottom=word.top + high.get(word.at, 10), at=drawn.get(word.at, word.at)) for word in page.words
    ]
    return _rows(text_of(page._replace(words=words))[0])


def test_margins_that_are_drawn_last_are_no_rows() -> None:
    rows = ["Pier | Depth | Crane", "Pier: North; Depth: 4.5; Crane: 2", "Pier: South; Depth: 12; Crane: 9"]

    assert _printed(8, head=10, foot=11) == ["3/5/26, 10:15 Boats", *rows, "skerrow.example 1/1"]
    for size, head in ((10, 10), (8, 0)):  # names of columns have the size of their values, or are drawn before them
        assert _printed(size, head=head, foot=11) != ["3/5/26, 10:15 Boats", *rows, "skerrow.example 1/1"]


def test_a_table_with_names_in_smaller_letters_keeps_them() -> None:
    page = _page(
        "Item      Count     Price\nSteel     40        312.00\nRope      12        14.50\nSail      3         88.00"
    )
    words = [word._replace(top=word.top + 3) if word.at == 0 else word for word in page.words]

    assert "Item: Steel; Count: 40; Price: 312.00" in _rows(text_of(page._replace(words=words))[0])


def test_two_tables_of_one_width_between_rules_are_two() -> None:
    page = """
Animal    Food    Home
Owl       mice    tree
Fox       hens    den
Table 2: the crafts of the village and their tools
Craft     Tool    Product
Smith     hammer  shoe
Tailor    needle  coat
"""

    rows = _rows(text_of(_page(page, _rules(0, 1, 3, 4, 5, 7)))[0])

    assert "Animal: Owl; Food: mice; Home: tree" in rows
    assert "Craft: Smith; Tool: hammer; Product: shoe" in rows


def test_a_header_above_labels_that_end_with_a_colon_stays() -> None:
    page = "Item      2022   2023   Change\nRevenue:  100    120    20\nCosts:    80     85     5"

    rows = _rows(text_of(_page(page, *_grid([0, 10, 17, 24, 31], [0, 1, 2, 3])))[0])

    assert "Item: Revenue:; 2022: 100; 2023: 120; Change: 20" in rows


def test_words_of_many_lines_are_looked_at_once() -> None:
    """Exponents were looked for among all words of the lines around."""

    count = 2_000
    words = [
        Word("word", 30.0 * at, 12.0 * row, 30.0 * at + 24, 12.0 * row + 10) for row in (0, 1) for at in range(count)
    ]
    words += [Word("2", 30.0 * at + 24, -2, 30.0 * at + 28, 4) for at in range(count)]

    assert least_cpu_s(lambda: text_of(Page(words)), 1.0) < 1.0  # 0.1 s; was 2 s


def test_lines_that_each_cell_has_of_its_own_tell_the_columns() -> None:
    """As pages of the web are printed: a cell of two lines stands beside the middle of the others."""
    page = _page("""
To Ann Roe                    Skerrow Boats Ltd
Quay 4                        Pier Road 9
Hull                          Skerrow

Number                        1047
Due                           31 May
By                            transfer

No     Article                Price
1      Oar                    40.00
       Rudder of oak
2                             65.00
       painted grey
                      Sum     105.00
Payable at once.
""")
    parts = [
        Edge(_HIGH * row - 1, _WIDE * left - 2, _WIDE * right - 2)
        for rows, cuts in (((5, 6, 7), (0, 29, 45)), ((9, 10, 13, 14), (0, 6, 29, 45)))
        for row in rows
        for left, right in itertools.pairwise(cuts)
    ]

    rows = _rows(text_of(page._replace(across=parts))[0])

    assert rows == [
        "To Ann Roe\nQuay 4\nHull",
        "Skerrow Boats Ltd\nPier Road 9\nSkerrow",
        "Number; 1047",
        "Due; 31 May",
        "By; transfer",
        "No | Article | Price",
        "No: 1; Article: Oar; Price: 40.00",
        "No: 2; Article: Rudder of oak painted grey; Price: 65.00",
        "Article: Sum; Price: 105.00",
        "Payable at once.",
    ]


def _justified_page(*columns: str, out: float) -> Page:
    """Return columns of 26 characters of text beside each other, justified; letters may reach `out` of their boxes."""
    words: list[Word] = []
    for number, text in enumerate(columns):
        for row, line in enumerate(textwrap.wrap(text, 26)):
            some = line.split()
            free = 26 * _WIDE - sum(_WIDE * len(word) for word in some)
            gap, left = free / max(1, len(some) - 1), 29.0 * _WIDE * number
            for word in some:
                right = left + _WIDE * len(word) + out * (len(words) % 2)
                words.append(Word(word, left, row * _HIGH, right, row * _HIGH + 10, len(words)))
                left += _WIDE * len(word) + gap
    return Page(words)


@pytest.mark.parametrize("hebrew", [False, True])
def test_narrow_columns_that_are_justified_are_read_one_after_the_other(hebrew: bool) -> None:
    texts = [
        "The harbour of Skerrow was built by the brothers Holm in eighteen sixty, and its piers are made of oak.",
        "Tickets for the ferry cost nine euros, and children travel free, but dogs must wear a lead on all decks.",
        "Whoever moors at the northern pier pays by the night, and asks the keeper for the key to the washing rooms.",
    ]

    texts = [text.casefold().translate(_IN_HEBREW) for text in texts] if hebrew else texts

    page = _justified_page(*texts, out=1.5 * hebrew)

    assert " ".join((text_of(page)[0] or "\n".join(texts)).split()) == " ".join(texts)


def test_lines_in_hebrew_that_end_below_each_other_are_a_column() -> None:
    english = ["The harbour of Skerrow is", "open in all months of the", "year, and its piers stay", "free of all ice."]
    hebrew = ["the harbour of skerrow is", "open in the year", "of our lord and", "is free of all its ice."]
    lines = [f"{left:<30}{right.translate(_IN_HEBREW):>30}" for left, right in zip(english, hebrew, strict=True)]

    text = text_of(_page("\n".join(lines)))[0]

    assert (text or "").split("\n") == [*english, *(line.translate(_IN_HEBREW) for line in hebrew)]


def test_labels_of_a_form_in_two_languages_stay_beside_each_other() -> None:
    english = ["Name of the applicant", "Country of the permit", "Number of the passport", "Signature of the clerk"]
    hebrew = ["name of the applicants", "country of the permits", "numbers of the passport", "signs of the old clerks"]
    lines = [f"{left:<30}{right.translate(_IN_HEBREW):>30}" for left, right in zip(english, hebrew, strict=True)]

    text = text_of(_page("\n".join(lines)))[0] or "\n".join(lines)

    assert all(
        any(left in line and right.translate(_IN_HEBREW) in line for line in text.split("\n"))
        for left, right in zip(english, hebrew, strict=True)
    )


def test_a_shekel_sign_behind_its_figure_is_no_column() -> None:
    prices = "petrel    120.50 ₪    north\nskua       45.50 ₪    south\ntern       75.50 ₪    east"

    assert "berth: ₪" not in (text_of(_page(f"boat      price       berth\n{prices}"))[0] or "")


_TRAINS = """
Stop        701      703
Harbour     6:05     6:35
Market      6:11     6:41
Station     6:19     6:54
"""


def test_numbers_in_bold_letters_above_other_values_are_names_of_columns() -> None:
    assert _rows(text_of(_page(_TRAINS, bold=[0]))[0])[:2] == [
        "Stop | 701 | 703",
        "Stop: Harbour; 701: 6:05; 703: 6:35",
    ]
    for other in (_TRAINS.replace(":", ""), _TRAINS.replace("701", "903")):  # a sum, and the first of a ranking
        assert _rows(text_of(_page(other, bold=[0]))[0])[0].count(";") == 2


def test_a_row_of_words_below_a_bold_header_is_none() -> None:
    rows = _rows(
        text_of(
            _page(
                """
Day         Opens      Closes
Monday      closed
Tuesday     10:00      19:00
Saturday    9:00       20:00
""",
                *_grid((0, 12, 23, 32), (0, 1, 2, 3, 4)),
                bold=[0],
            )
        )[0]
    )

    assert rows[:2] == ["Day | Opens | Closes", "Day: Monday; Opens: closed"]


def test_units_below_a_bold_header_are_part_of_it() -> None:
    rows = _rows(
        text_of(
            _page(
                """
Item        Weight     Length
            kg         cm
Oar         5          200
Rudder      12         90
""",
                *_grid((0, 12, 23, 32), (0, 1, 2, 3, 4)),
                bold=[0],
            )
        )[0]
    )

    assert rows[0] == "Item | Weight kg | Length cm"


def test_lines_in_parts_that_are_not_those_of_the_columns_tell_none() -> None:
    page = _page("""
Name     Age      City     Zip
Ann      30       Rome     11
Bert     40       Paris    12
Cora     50       Oslo     13
""")
    parts = [
        Edge(_HIGH * row - 1, _WIDE * left - 2, _WIDE * right - 2)
        for row in range(1, 5)
        for left, right in ((0, 18), (18, 31))
    ]

    assert _rows(text_of(page._replace(across=parts))[0])[1] == "Name: Ann; Age: 30; City: Rome; Zip: 11"


def test_times_near_each_other_are_in_columns_of_their_own() -> None:
    page = _page("""
Stop          1      3      5
Harbour       06.10  07.10  08.10
Quay          -      07.18  08.18
Inn           06.35  07.36  08.36
""")
    shift = {14: -24, 21: -29, 28: -34}  # 7 points between figures, letters being 10 high
    moved = [(word, shift.get(int(word.left / _WIDE), 0)) for word in page.words]
    words = [word._replace(left=word.left + by, right=word.right + by) for word, by in moved]

    assert _rows(text_of(page._replace(words=words))[0])[1:] == [
        "Stop: Harbour; 1: 06.10; 3: 07.10; 5: 08.10",
        "Stop: Quay; 1: -; 3: 07.18; 5: 08.18",
        "Stop: Inn; 1: 06.35; 3: 07.36; 5: 08.36",
    ]


def test_a_name_alone_is_that_of_the_columns_around_whose_middle_it_stands() -> None:
    header = "               {}\n               2023     2022     2021\n"
    rows = "Revenue        48210    44907    39118\nCost           31404    29870    26011\n"

    all_, two = (
        _rows(text_of(_page(header.format(name) + rows))[0])[0] for name in ("   To the end of May", "  Year ended")
    )

    assert all_ == "To the end of May 2023 | To the end of May 2022 | To the end of May 2021"
    assert two == "Year ended 2023 | Year ended 2022 | 2021"


def test_a_name_between_two_columns_is_that_of_all_around_it() -> None:
    page = """
                     Tonnes a month
Port      Salted    Dried     Fresh     Frozen
Gdynia     1204       182       331        90
Rostock     987       159       402        77
"""

    rows = _rows(text_of(_page(page))[0])

    assert (
        rows[0] == f"Port | {' | '.join(f'Tonnes a month {each}' for each in ('Salted', 'Dried', 'Fresh', 'Frozen'))}"
    )


def test_names_between_two_lines_are_a_header_whatever_they_look_like() -> None:
    page = """
Alder      Birch      Cedar
Pump       Winch      Crane
Lamp       Radar      Sonar
Rope       Chain      Anchor
"""

    assert _rows(text_of(_page(page, _rules(0, 1, 4)))[0])[1] == "Alder: Pump; Birch: Winch; Cedar: Crane"


def test_the_last_row_of_a_page_whose_head_is_drawn_last_stays_in_its_table() -> None:
    page = _page("3/5/26, 10:15    Boats\n\nPier     Depth     Crane\nNorth    4.5       2\nSouth    12        9")
    words = [word._replace(at=99, bottom=word.bottom - 3) if word.at == 0 else word for word in page.words]

    rows = _rows(text_of(page._replace(words=sorted(words, key=lambda word: word.at)))[0])

    assert rows[-1] == "Pier: South; Depth: 12; Crane: 9"


def test_a_column_of_figures_beside_long_remarks_is_no_column_of_prose() -> None:
    page = """
The northern quay of the old harbour    4.5    Is dredged before each winter by a boat from Lund
The southern quay of the old harbour    6.0    Has a crane that lifts nine tonnes on a calm day
The outer mole with the green lights    8.2    Is closed in storms from the west, and in all ice
The landing stage of the small ferry    2.1    Was made longer for the boats of the fire brigade
"""

    text = text_of(_page(page))[0]

    assert [row.split("; ")[1] for row in _rows(text)] == ["4.5", "6.0", "8.2", "2.1"]


def test_a_text_beside_a_name_is_not_repeated_in_the_rows_below() -> None:
    told = "What was landed in the year before the storm, " * 3

    assert _rows(text_of(_page(f"{told}   Tonnes\nCod{' ' * 140}4.5\nSole{' ' * 139}12\nEel{' ' * 140}7.5"))[0])[
        1:
    ] == [
        "Cod; 4.5",
        "Sole; 12",
        "Eel; 7.5",
    ]


@pytest.mark.parametrize("leader", ["......", ". . . ."])
def test_dots_between_names_and_figures_are_no_part_of_them(leader: str) -> None:
    page = f"""
                              2024       2023
Oil {leader:<25} 1,204      1,150
Paint {leader:<23} 880        912
"""

    assert _rows(text_of(_page(page))[0])[1:] == ["Oil; 2024: 1,204; 2023: 1,150", "Paint; 2024: 880; 2023: 912"]


def test_names_of_two_rows_are_those_of_the_columns_that_they_are_centred_over() -> None:
    page = """
              Three Months Ended             Nine Months Ended
                September 30,                  September 30,
           2024      2023      Change     2024      2023      Change
Oil        1,204     1,150     54         3,511     3,390     121
Paint      880       912       32         2,640     2,701     61
"""

    rows = _rows(text_of(_page(page))[0])

    assert rows[1].startswith(
        "Oil; Three Months Ended September 30, 2024: 1,204; Three Months Ended September 30, 2023"
    )
    assert rows[2].endswith("2,701; Nine Months Ended September 30, Change: 61")


def test_names_centred_over_two_and_three_columns_are_those_of_all() -> None:
    page = """
                Spring                   Autumn
Gauge      Linear    Kernel    Linear    Kernel    Joint
Aveiro     8.1       6.4       9.9       7.2       5.8
Viana      9.4       7.0       10.2      7.7       6.6
"""

    assert _rows(text_of(_page(page))[0])[0] == (
        "Gauge | Spring Linear | Spring Kernel | Autumn Linear | Autumn Kernel | Autumn Joint"
    )


@pytest.mark.parametrize(("larger", "columns"), [(4, "Feature | Basic | Plus"), (0, None)])
def test_a_title_in_larger_letters_ends_a_table(larger: float, columns: str | None) -> None:
    page = _page(
        "Club       P     W     Pts\nAuk        22    15    49\nTern       22    13    44\n\n"
        "Plans\nFeature         Basic    Plus\nBoats           1        3\nBerths          2        4"
    )
    words = [word._replace(top=word.top - larger) if word.text == "Plans" else word for word in page.words]

    rows = _rows(text_of(page._replace(words=words))[0])

    assert (columns in rows) is (columns is not None)


def test_a_row_of_groups_below_the_names_is_no_part_of_them() -> None:
    page = """
Code     Piece    Price      Code     Piece    Price
Bolts                        Hooks
B-104    Short    0.34       H-300    Forged   6.80
B-105    Long     0.41       H-301    Bent     9.15
"""

    page_ = _page(page, [Edge(_HIGH - 1.0, 0, 60 * _WIDE)])
    looks = {0: "bold", 1: "slanted"}

    assert _rows(text_of(page_._replace(style=looks.get))[0])[0] == "Code | Piece | Price | Code | Piece | Price"


def test_a_last_row_whose_label_is_over_several_lines_stays_in_its_table() -> None:
    """As a bank's sheet ends."""
    rows = [
        (0, "Date    Details               Out         In       Balance"),
        *(
            line
            for at in range(1, 9)
            for line in (
                (30 * at, f"0{at} Sep  Cash withdrawal"),
                (30 * at + 12, f"        MACHINE {at}77{at:14}0.00{1000 + at:21}.25"),
            )
        ),
        (270, "30 Sep  Credit interest                   2.41     1231.66"),
    ]
    words = [
        Word(word[0], _WIDE * word.start(), top, _WIDE * word.end(), top + _HIGH - 2, top)
        for top, line in rows
        for word in re.finditer(r"\S+(?: Sep)?", line)
    ]

    assert _rows(text_of(Page(words))[0])[-1] == ("Date: 30 Sep; Details: Credit interest; In: 2.41; Balance: 1231.66")


def test_names_beside_their_values_in_pairs_are_no_header() -> None:
    page = """
Employee       J. Okonkwo       Tax code      1257L
Payroll no.    00412            NI number     QQ 12 34
Pay date       28/02/2025       Department    Yard
"""

    assert _rows(text_of(_page(page))[0])[1] == "Payroll no.; 00412; NI number; QQ 12 34"


def test_a_label_in_smaller_letters_in_the_box_of_its_value_names_it() -> None:
    """As in forms of tax offices."""
    across, upright = _grid((0, 20, 40), (0, 3, 6))
    page = _page(
        "Wages               Tax withheld\n48,210.55           5,113.20\n\n"
        "Tips                Pension\n1,204.00            2,989.05",
        across,
        upright,
    )
    words = [word._replace(bottom=word.bottom - 4) if word.at in (0, 3) else word for word in page.words]

    assert _rows(text_of(page._replace(words=words))[0]) == [
        "Wages: 48,210.55; Tax withheld: 5,113.20",
        "Tips: 1,204.00; Pension: 2,989.05",
    ]


def test_a_remark_that_runs_on_over_the_next_columns_is_no_value_of_them() -> None:
    page = """
Test            Result    Flag    Units     Interval
Sodium          141               mmol/L    135 to 145
Potassium       5.6       H       mmol/L    3.5 to 5.1
Remark          The sample may have been too warm.
Creatinine      71                umol/L    45 to 90
"""

    assert _rows(text_of(_page(page))[0])[3] == "Test: Remark; Result: The sample may have been too warm."


def test_a_line_that_runs_up_the_margin_is_read_in_its_order() -> None:
    page = _page(PROSE)
    stamp = [
        Word("arXiv:2410", -30, 60, -20, 90, -1),
        Word("3", -30, 50, -20, 55, -1),
        Word("Oct", -30, 20, -20, 45, -1),
    ]

    assert "arXiv:2410 3 Oct" in (text_of(page._replace(words=[*stamp, *page.words]))[0] or "")
