import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.answers.quotable_units import fields, units

FORM = """Page 1 of 5
Aviation Accident Report
Location: Anytown, XX Accident Number: A-51
Date & Time: 2007-12-28, 0830 Registration: N1
Pilot Information
Restraint Used: Seatbelt, Shoulder
harness
Flight Time: 110 hours (Total, all aircraft), 45 hours (Total, this make and model), 70 hours (In
Command, all aircraft)
Analysis
The pilot flew several
patterns. Winds were light.
"""


def quoted(text: str) -> list[tuple[str, str]]:
    return [(unit.kind, unit.text) for unit in units(text)]


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        (
            "One. Two! Three… Four",
            [("sentence", "One."), ("sentence", "Two!"), ("sentence", "Three…"), ("sentence", "Four")],
        ),
        ("A line\nthat goes on.\n\nAnother.", [("sentence", "A line that goes on."), ("sentence", "Another.")]),
        ("# Title\n\nText.", [("sentence", "Text.")]),
        ("Title\n=====\nText.", [("sentence", "Text.")]),
        ("> quoted\n> text.", [("sentence", "quoted text.")]),
        ("- one\n- two\n  goes on\n3. three", [("list", "- one\n- two goes on\n3. three")]),
        ("Do this:\n\n1. Cut.\n2. Paste.", [("list", "Do this:\n\n1. Cut.\n2. Paste.")]),
        (
            "Run:\n```sh\nmake run\n  now\n```\nDone.",
            [("code", "Run:\n\n```\nmake run\n  now\n```"), ("sentence", "Done.")],
        ),
        ("~~~\nprint(a[9]) # *all*\n~~~", [("code", "```\nprint(a(9)) # *all*\n```")]),
        ("| town | price |\n|---|:-:|\n| Oslo | 9 |\n| Bonn | |", [("row", "Oslo, price: 9"), ("row", "Bonn")]),
        ("| | |\n|---|---|\n| In: | Mon | Out: | Tue |", [("row", "In: Mon; Out: Tue")]),
        ("| | |\n|---|---|\n| In: | 8:30 |", [("row", "In: 8:30")]),
        ("| 1 | 2 |\n| 3 | 4 |", [("row", "1; 2"), ("row", "3; 4")]),
        ('!!! note\n    It is so.\n=== "Redis"\n{! file.py !}', [("sentence", "It is so.")]),
        ("::: sidenote\nIt is so.\n:::", [("sentence", "It is so.")]),
        (":::note[Mind]\nIt is so.\n:::\n::::{warning}\nIt is so.\n::::", [("sentence", "It is so.")] * 2),
        (
            "The path a:::b is so.\n:::a word: it is so.",
            [("sentence", "The path a:::b is so."), ("sentence", ":::a word: it is so.")],
        ),
        ("---\nsearch: on\n---\nText.", [("sentence", "Text.")]),
        ("---\n***\n...\n", []),
    ],
)
def test_every_unit_can_be_quoted_alone(markdown: str, expected: list[tuple[str, str]]) -> None:
    assert quoted(markdown) == [(kind, text) for kind, text in expected]


def test_a_long_list_is_quoted_by_items_that_say_what_they_are_about() -> None:
    found = units(
        "Towns with a harbour:\n\n" + "\n".join(f"- Town {number} has a deep harbour." for number in range(40))
    )

    assert {unit.kind for unit in found} == {"sentence"}
    assert found[7].text == "Town 7 has a deep harbour."
    assert found[7].about == "Towns with a harbour:"


def test_a_sentence_keeps_the_opening_that_it_completes() -> None:
    [unit] = units("The cause of it was found to be:\nThe pilot looked away.")

    assert unit.text == "The cause of it was found to be: The pilot looked away."


def test_a_form_in_a_page_of_plain_text_is_read_line_by_line() -> None:
    assert quoted(FORM) == [
        ("field", "Location: Anytown, XX Accident Number: A-51"),
        ("field", "Date & Time: 2007-12-28, 0830 Registration: N1"),
        ("field", "Restraint Used: Seatbelt, Shoulder harness"),
        ("field", FORM[FORM.index("Flight Time") : FORM.index("Analysis")].strip().replace("\n", " ")),
        ("sentence", "The pilot flew several patterns."),
        ("sentence", "Winds were light."),
    ]
    assert [unit.about for unit in units(FORM)][2:5] == ["Pilot Information", "Pilot Information", "Analysis"]


def test_page_numbers_are_never_quoted() -> None:
    assert units("Page 3 of 9 A-51\n\n- 12 -\n\nSeite 4 von 7") == []


def test_a_line_that_many_passages_share_is_quoted() -> None:
    assert [unit.text for unit in units("(In millions) 2023 2022\nNet income $ 5 $ 4")] == [
        "(In millions) 2023 2022 Net income $ 5 $ 4"
    ]


def test_headings_and_questions_say_what_follows_is_about() -> None:
    found = units("Alone.\n# Refunds\nHow long? Five days.\n\n## Cost\nFree.", section="Shop")

    assert [(unit.text, unit.about) for unit in found] == [
        ("Alone.", "Shop"),
        ("Five days.", "Refunds How long?"),
        ("Free.", "Cost"),
    ]


@given(st.text(max_size=400))
@example("|")  # a row without text
@example("| A | B |\n| --- | --- |\n| | |")
def test_any_text_gives_units_that_say_something(text: str) -> None:
    for unit in units(text):
        assert unit.text.strip()
        assert unit.kind in ("list", "code") or "\n" not in unit.text


def test_a_row_as_our_readers_write_it_is_a_row() -> None:
    assert quoted("Kai: B1; Schiff: Skua; Tage: 9\n\nKai: B2; Schiff: Möwe; Tage: 4") == [
        ("row", "B1, Schiff: Skua; Tage: 9"),
        ("row", "B2, Schiff: Möwe; Tage: 4"),
    ]
    assert quoted("Fall: F-7; Verlauf: …\nDas Rohr war dicht.; Lösung: Dichtung 9") == [
        ("row", "F-7, Verlauf: … Das Rohr war dicht.; Lösung: Dichtung 9")
    ]


def test_the_sentences_of_a_long_cell_are_quoted_alone_under_their_row() -> None:
    [row, *sentences] = units(f"Fall: F-7; Verlauf: {'Das Rohr war dicht. ' * 20}; Lösung: Dichtung 9")

    assert row.text == "F-7, Lösung: Dichtung 9"
    assert {unit.text for unit in sentences} == {"Das Rohr war dicht."}
    assert {unit.about for unit in sentences} == {"Fall Verlauf"}


def test_the_names_of_columns_above_rows_are_no_unit() -> None:
    rows = "Kai | Schiff | Tage\n\nKai: B1; Schiff: Skua; Tage: 9"

    assert quoted(rows) == [("row", "B1, Schiff: Skua; Tage: 9")]
    assert quoted("Kai | Schiff | Tage\n\nKai: B1; Schiff: Skua") == [("row", "B1, Schiff: Skua")]
    assert quoted("Kai | Schiff | Tage") == [("sentence", "Kai | Schiff | Tage")]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Kai: B2; Schiff: Möwe", [("Kai", "B2"), ("Schiff", "Möwe")]),
        ("B2; Schiff: Möwe; Tage: 9", [("", "B2"), ("Schiff", "Möwe"), ("Tage", "9")]),
        ("Kai: B2; alt; Zeit: 9:30; 10:00", [("Kai", "B2; alt"), ("Zeit", "9:30; 10:00")]),
        ("Fähre: Petrel; 08:00: 12; 09:00: 31", [("Fähre", "Petrel"), ("08:00", "12"), ("09:00", "31")]),
        ("Note: nothing else", []),
        ("The tide turns; so does the wind.", []),
        ("a: 1;\nb: 2", []),
        ("", []),
    ],
)
def test_a_row_has_its_names_and_values(line: str, found: list[tuple[str, str]]) -> None:
    assert fields(line) == found


@pytest.mark.parametrize("item", ["{}: 9 kg", "{}: it is grey", "{} it", "`{}`: what shines"])
def test_a_short_list_is_one_unit_whatever_its_items(item: str) -> None:
    text = "\n".join(f"- {item.format(name)}" for name in ("Power", "Tank", "Lamp"))

    [unit] = units(f"# Data\n\n{text}")

    assert (unit.kind, unit.text) == ("list", text)


def test_a_line_that_was_full_is_no_heading() -> None:
    narrow = (
        "The mill on the quay of Norwick got a\nWheel of oak in May, and the barns that\nstand beside it were mended.\n"
        "It turns."
    )

    assert quoted(narrow) == [
        ("sentence", " ".join(narrow.split("\n")[:3])),
        ("sentence", "It turns."),
    ]


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("Opening hours\nThe mill is open on Sundays, and on request.", "Opening hours"),
        ("The mill is open.\nAdmission\nGrown-ups pay three pounds, children nothing.", "Admission"),
        ("How to come\nTake the bus.\nGet off at the quay.", "How to come"),
        ("Opening hours\nMonday to Friday.", ""),  # where all lines are short, nothing shows
        ("Contact\nCall the miller, or write.\nHe answers.", "Contact"),
        ("The Mill\nIt was built of oak.\nIt turns.", "The Mill"),
    ],
)
def test_a_short_line_with_room_for_the_next_word_is_a_heading(text: str, heading: str) -> None:
    assert units(text)[-1].about == heading


def test_a_row_of_values_alone_is_called_by_the_line_above() -> None:
    table = "FY 2019 Result | FY 2020 Result\n\nFY 2019 Result: 7%; FY 2020 Result: 9%"

    assert quoted(f"Table 4\n\nMeasure: Share of mills that turn\n\n{table}")[1:] == [
        ("row", "Measure: Share of mills that turn, FY 2019 Result: 7%; FY 2020 Result: 9%")
    ]
    assert quoted(f"The mills turned.\n\n{table}")[0] == ("sentence", "The mills turned.")


@pytest.mark.parametrize(
    "row",
    [
        "Item: Bench; Price: 10",
        "Year: 2019; Sales: 14",
        "First name: Ann; Last name: Lee",
        "Code: P58; Price code: 7",
        "Month: 5; Rain: 40 mm",
    ],
)
def test_a_row_with_a_name_keeps_it(row: str) -> None:
    value = row.partition("; ")[0].partition(": ")[2]

    assert quoted(f"Prices of this year\n\n{row}")[0] == ("sentence", "Prices of this year")
    assert quoted(f"Prices of this year\n\n{row}")[1][1].startswith(f"{value}, ")


def test_a_label_on_a_line_of_its_own_has_the_next_line_as_its_value() -> None:
    form = "Harbour master:\nAnn Lee, Quay 4\nWater: 3 m\nBerths: 12"

    assert quoted(form)[0] == ("field", "Harbour master: Ann Lee, Quay 4")
    assert quoted("Water: 3 m\nBerths: 12\nThe quay is old.")[-1] == ("sentence", "The quay is old.")
