from collections.abc import Callable

import pytest

from services.ingest_worker.extract.markdown_writer import NUMBER
from services.ingest_worker.extract.page_furniture import (
    FOOTNOTE,
    letters,
    with_whole_sentences,
    without_furniture,
    without_line_numbers,
)
from services.ingest_worker.extract.page_layout import TABLE
from tests.loop_holds import least_cpu_s

_ROMAN = ("i", "ii", "iii", "iv", "v", "vi")
_NO = ("Petrel", "Skua", "Tern", "Gull", "Auk", "Rook")


def _body(name: str) -> str:
    return f"The {name} is of wood.\nThe {name} has two masts.\nThe {name} is sold."


def test_running_lines_and_page_numbers_are_told() -> None:
    pages = [f"Harbour of Skerrow\n{_body(name)}\nFY 2014 report | {9 + at}\n{9 + at}" for at, name in enumerate(_NO)]

    shown, furniture = without_furniture(pages, {})

    assert shown == list(map(_body, _NO))
    assert furniture == (["Harbour of Skerrow"], [f"FY 2014 report | {NUMBER}", NUMBER])


@pytest.mark.parametrize(
    ("top", "bottom", "count", "gone"),
    [
        ("", "Page {0} of {1}", 2, 1),
        ("", "- Seite {0} -", 2, 1),
        ("", "{0} / {1}", 3, 1),
        ("", "Skerrow Ltd, deed 4471 {0} / {1}", 2, 1),
        ("", "Blatt {0} von {1}", 2, 1),
        ("", "Sheet {0} of {1}", 5, 1),
        ("", "Skerrow Ltd | Board of 12 May {0}", 3, 1),
        ("Skerrow Ltd | Board of 12 May {0}", "", 3, 0),
        ("", "Skerrow Ltd | Board of 12 May {0}", 2, 0),
        ("", "– {0} –", 3, 1),
        ("", "[{0}]", 3, 1),
        ("", "https://skerrow.example/boats {0}/{1}", 2, 1),
        ("", "Skerrow Ltd\n{0}", 3, 2),
        ("Harbour of Skerrow\nPage {0}", "", 2, 2),
        # Lines that may say something on each page.
        ("Results", "", 3, 0),
        ("Harbour of Skerrow", "", 3, 0),
        ("Boat Load", "Total 9", 3, 0),
        ("", "Total: 9\nPage {0} of {1}", 2, 1),
        ("Harbour of Skerrow", "Total: 9\nPage {0} of {1}", 4, 2),
        ("", "Total: 9\n{0}", 5, 1),
        ("", "Total EUR 1,045.00", 4, 0),
        ("", "Summe 45,00 €", 4, 0),
        ("", "(c) 2026 Brandt Boats GmbH", 4, 1),
        ("Edition 2026", "Harbour Ltd, Quay 3, 24103 Kiel, Tel. 0431 5550101", 4, 2),
        ("11/28/26, 9:54 PM Boats of Skerrow", "", 2, 0),
        ("2026-11-28 21:54 Shift of Skerrow", "Page {0} of {1}", 4, 2),
        ("11/28/26, 9:54 PM Boats of Skerrow", "file:///home/ida/boats.html {0}/{1}", 2, 2),
        ("28.11.2026, 21:54 Boats of Skerrow", "https://skerrow.example/boats {0}/{1}", 2, 2),
        ("28.11.2026, 21:54 Boats of Skerrow", "about:blank {0}/{1}", 2, 2),
        ("Version 1.2", "Report 17/2026\nPage {0} of {1}", 4, 3),
        ("Table of boats {0}", "", 2, 0),
        ("Chapter {0}", "", 3, 0),
        ("", "{0}", 2, 0),
        ("", "In week {0} it was painted.", 3, 0),
        ("", "Page 7", 3, 0),
        ("", "– 7 –", 3, 0),
        ("", "[7]", 3, 0),
        ("", "Boat {0}/9", 3, 0),
        ("", "Part 1/2", 2, 0),
        ("", "{0}/{1} of the oak is sold", 2, 0),
        ("", "Pier – {0} – north", 3, 0),
        ("", "{0} – {0}.5 m", 3, 0),
    ],
)
def test_of_a_few_pages_only_their_numbers_and_words_beside_them_go(
    top: str, bottom: str, count: int, gone: int
) -> None:
    bodies = [f"{_body(name)}\nIt lies at the {name} quay." for name in _NO[:count]]
    pages = [
        "\n".join(filter(None, [top.format(at), body, bottom.format(at, count)])) for at, body in enumerate(bodies, 1)
    ]

    shown, furniture = without_furniture(pages, {})

    assert [page.count("\n") - left.count("\n") for page, left in zip(pages, shown, strict=True)] == [gone] * count
    assert (shown == bodies) is (gone == (f"{top}\n{bottom}".strip().count("\n") + 1))
    # Nobody looks for when a browser printed, or from which file.
    printed = (top[:1].isdigit() and ":" in bottom) + bottom.startswith("file:")
    assert len([*furniture.heads, *furniture.feet]) == gone - printed


@pytest.mark.parametrize(
    ("last", "first", "foot", "gone"),
    [
        ("It lies at the quay of Skerrow, is mended, and on", "the pier is oak.", "Skerrow Ltd", True),
        ("It lies at the quay of Skerrow, is mended, and on.", "The pier is oak.", "Skerrow Ltd", False),
        ("It lies at the quay of Skerrow, is mended, and on", "the pier is oak.", "Total: 9", False),
        ("two ropes", "oil", "Skerrow Ltd", False),
        (
            f"It lies at the quay of Skerrow, is mended, and on\n{FOOTNOTE}^1 Since May.",
            "the pier.",
            "Skerrow Ltd",
            True,
        ),
    ],
)
def test_lines_within_a_sentence_that_goes_on_on_the_next_page_are_no_part_of_it(
    last: str, first: str, foot: str, gone: bool
) -> None:
    head = "Lease no. 7/2024"
    pages = [
        f"{head}\n{_body('Petrel')}\n{last}\n{foot}",
        f"{head}\n{first}\n{_body('Skua')}\n{foot}",
    ]

    shown, furniture = without_furniture(pages, {})

    assert (head not in "".join(shown)) is gone
    assert (foot not in shown[0]) is gone
    assert (head in furniture.heads) is gone


_SECTIONS = {0: {letters("Chapter 1"), letters("The boats")}, 2: {letters("1.1 Sails of cloth")}}


@pytest.mark.parametrize(
    ("heads", "gone"),
    [
        (["1", "2 CHAPTER 1. THE BOATS", "3", "1.1. SAILS OF CLOTH\n4", "5 1.1 Sails of cloth"], {1, 2, 3, 4, 5}),
        (["- 1 -", "- 2 -\nThe boats", "- 3 -", "- 4 -\nSails of cloth", "- 5 -"], {1, 2, 3, 4, 5}),
        # A title alone may be that of a part of the page, and so may one with a year.
        (["1", "The boats", "3", "4", "5 Masts of the boats"], {1, 3, 4}),
        (["1", "2 Masts of the boats", "3", "The boats 2024\n4 Masts of the boats", "5"], {1, 3, 5}),
        (["1", "2 Masts of the boats", "3", "The boats Sails of cloth\n4 Masts of the boats", "5"], {1, 3, 5}),
    ],
)
def test_titles_of_sections_beside_the_numbers_of_pages_are_no_text(heads: list[str], gone: set[int]) -> None:
    bodies = [f"{_body(name)}\nIt lies at the {name} quay." for name in _NO[:5]]
    pages = [f"{head}\n{body}" for head, body in zip(heads, bodies, strict=True)]

    shown, _ = without_furniture(pages, {}, _SECTIONS)

    assert {at for at, (page, body) in enumerate(zip(shown, bodies, strict=True), 1) if page == body} == gone


def test_a_title_at_the_head_of_its_page_stays() -> None:
    bodies = [f"{_body(name)}\nIt lies at the {name} quay.\n{at}" for at, name in enumerate(_NO[:5], 1)]
    pages = [*bodies[:2], f"1.1 Sails of cloth\n{bodies[2]}", *bodies[3:]]

    shown, _ = without_furniture(pages, {}, _SECTIONS)

    assert shown[2].startswith("1.1 Sails of cloth\n")


def test_the_titles_of_a_long_book_take_little_time() -> None:
    pages = [f"{_body('Petrel')}\nIt lies at the quay.\nOf boat {at}\n{at}" for at in range(1, 601)]
    sections = {page: {letters(f"boats of {page} in {at}") for at in range(20)} for page in range(len(pages))}

    # 0.1 s; was 2.3 s
    assert least_cpu_s(lambda: without_furniture(pages, {}, sections), 1.0) < 1.0


def test_two_titles_of_sections_in_a_line_are_no_text() -> None:
    head = "1.1. SAILS OF CLOTH CHAPTER 1. THE BOATS"
    bodies = [f"{_body(name)}\nIt lies at the {name} quay." for name in _NO[:5]]
    pages = [f"{head if at == 4 else ''}\n{body}\n{at}" for at, body in enumerate(bodies, 1)]

    shown, _ = without_furniture(pages, {}, _SECTIONS)

    assert head not in shown[3]


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("{}", 1),
        ("– {} –", 1),
        ("page {}", 1),
        ("{} | P a g e", 1),
        ("{} Of boats and quays", 1),
        ("({})", 0),
        ("part {}", 0),
        ("{} boats", 0),
    ],
)
def test_small_roman_figures_count_pages(line: str, gone: int) -> None:
    pages = [f"{_body(name)}\n{line.format(roman)}" for name, roman in zip(_NO, _ROMAN, strict=True)]

    shown, _ = without_furniture(pages, {})

    assert shown == (list(map(_body, _NO)) if gone else pages)


@pytest.mark.parametrize("heading", [str.upper, lambda _: "mix", lambda roman: f"{roman}. The boats"])
def test_other_roman_figures_stay(heading: Callable[[str], str]) -> None:
    pages = [f"{heading(roman)}\n{_body(name)}" for name, roman in zip(_NO, _ROMAN, strict=True)]

    shown, _ = without_furniture(pages, {})

    assert shown == (list(map(_body, _NO)) if heading("i") == "mix" else pages)


_DRAFT = """
The harbour master opened the lower gate at dawn, and the first barges
went through without waiting for the tide. The upper gate stays closed.
No ship may
pass it at night, and none by day that has more than twelve tonnes aboard,
even where the keeper is asked for it by those whose cargo perishes: fish,
flowers and fruit. It was put off twice because the crane of the port could

not be insured for loads like these, and the bridge had just been painted.
Visitors who arrive by rail should follow the footsteps from platform four,
since the signposts were taken down in March by the men of the museum.
"""


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        (lambda at, text: f"{at} {text}".strip(), True),
        (lambda at, text: f"{at + 1040} {text}".strip(), True),
        # Numbers that say something.
        (lambda at, text: f"{at}. {text}".strip(), False),
        (lambda at, text: f"{at} {text.capitalize()}".strip(), False),
        (lambda at, text: f"{at} {text[4:20]}".strip(), False),
        (lambda at, text: f"{2 * at} {text}".strip(), False),
        (lambda at, text: f"{TABLE}{at} {text}", False),
    ],
)
def test_the_numbers_of_a_drafts_lines_go(line: Callable[[int, str], str], gone: bool) -> None:
    lines = [f"It is {_NO[0]}'s.", *_DRAFT.strip("\n").split("\n")]
    page = "\n".join(line(at, text) for at, text in enumerate(lines, 1))

    assert without_line_numbers(page) == ("\n".join(lines) if gone else page)


def test_the_numbers_below_the_last_line_of_a_draft_go() -> None:
    lines = [f"It is {_NO[0]}'s, and he is the", *_DRAFT.strip("\n").split("\n"), *[""] * 12]
    page = "\n".join(f"{at} {text}".strip() for at, text in enumerate(lines, 1))

    assert without_line_numbers(page) == "\n".join(lines)


def test_a_page_alone_has_no_running_lines() -> None:
    assert without_furniture(["It is of wood.\nPage 1 of 1"], {})[0] == ["It is of wood.\nPage 1 of 1"]


def test_numbers_that_every_page_has_do_not_hide_those_of_the_pages() -> None:
    """Before, which of them counted as pages hung on the seed of Python's hashes."""
    lines = [[f"Line {number} of chapter {name}" for number in range(6)] for name in "abcd"]
    pages = ["\n".join([*some, f"Report 17/2026, page {page} of 4"]) for page, some in enumerate(lines, 1)]

    _, furniture = without_furniture(pages, {})

    assert furniture.feet == [f"Report 17/2026, page {2 * NUMBER}"]


def test_lines_of_odd_and_of_even_pages_are_told() -> None:
    pages = [f"The {name} is of wood.\n{'Left' if at % 2 else 'Right'} side" for at, name in enumerate(_NO * 2)]

    assert [page.count("side") for page in without_furniture(pages, {})[0]] == [0] * 12


def test_lines_of_odd_and_of_even_pages_with_their_numbers_are_told_in_six_pages() -> None:
    heads = ("Rules of the harbour {}", "{} A book for its masters")
    pages = [f"{heads[at % 2].format(at)}\n{_body(name)}" for at, name in enumerate(_NO)]

    assert without_furniture(pages, {})[0] == list(map(_body, _NO))


@pytest.mark.parametrize("shared", ["Table {}", "Chapter 1.{}", "{}5 boats"])
def test_other_numbers_than_those_of_pages_make_lines_different(shared: str) -> None:
    numbers = (3, 1, 4, 2, 7, 5)
    pages = [f"{shared.format(number)}\nThe {name} is of wood." for number, name in zip(numbers, _NO, strict=True)]

    assert without_furniture(pages, {}) == (pages, ([], []))


def test_chapters_and_sentences_that_count_as_pages_do_stay() -> None:
    pages = [f"Chapter {at}\nThe {name} is of wood.\nIn week {at} it was painted.\n{at}" for at, name in enumerate(_NO)]

    assert without_furniture(pages, {})[0] == [page.rpartition("\n")[0] for page in pages]


def test_a_line_that_also_stands_in_the_middle_of_pages_stays() -> None:
    pages = [f"Progress\n{_body(name)}\nProgress\n{_body(name.lower())}\nThe end of {name}." for name in _NO]

    assert without_furniture(pages, {})[0] == pages


def test_pages_that_are_alike_stay() -> None:
    pages = [f"Invoice\nTo: {name}\nTotal: 9 euros" for name in _NO]

    assert without_furniture(pages, {})[0] == pages


def test_a_line_of_a_table_and_the_title_above_it_stay() -> None:
    prose = [f"The {name}{at} is of wood." for at, name in enumerate(_NO * 4)]
    table = [f"Cargo in tons\n\n{TABLE}Boat | Load\n\n{TABLE}Boat: {name}; Load: 4\n\n{TABLE}Total: 9" for name in _NO]

    assert without_furniture(prose + table, {})[0] == prose + table


def test_a_heading_stays() -> None:
    pages = [f"Of boats\nThe {name} is of wood." for name in _NO]

    shown, _ = without_furniture(pages, {3: {letters("Of Boats")}})

    assert [page.startswith("Of boats") for page in shown] == [False, False, False, True, False, False]


def test_a_sentence_over_a_page_break_is_in_one_piece() -> None:
    assert with_whole_sentences(["The boat with the", "number 55. It is of wood."]) == [
        "The boat with the\nnumber 55.",
        "It is of wood.",
    ]
    assert with_whole_sentences(["The boat was com-", "pared. It is of wood."]) == [
        "The boat was com\ufffepared.",
        "It is of wood.",
    ]
    for apart in (
        ["The boat of 2019-", "old or not. Yes."],
        ["Boats -", "of wood. Yes."],
        ["The boat was com-", "Wood. Yes."],
        ["The boat was com-", "– of wood. Yes."],
        ["It is of wood.-", "of wood. Yes."],
        ["It is of wood.", "number 55. Yes."],
        ["It is of", "Wood. Yes."],
        [f"{TABLE}a", "b. c"],
        ["It is of", ""],
    ):
        assert with_whole_sentences(apart) == apart
