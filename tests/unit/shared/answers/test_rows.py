import pytest

from shared.answers.quotable_units import units
from shared.answers.rows import Lookup, lookups

GOODS = """
| Article No | Name | Unit price | Ordered | Supplier |
| --- | --- | --- | --- | --- |
| P058 | Copper rope | 48.75 | 2025-05-14 | Halvorsen |
| P059 | Steel rope | | 2025-05-15 | Brandt |
| P060 | Fender | 9.10 | | Halvorsen |
| The Who | Poster | 3.00 | 2025-05-17 | open |
"""


def asked(question: str, table: str = GOODS, title: str = "") -> Lookup | None:
    """Return what is asked of the one row that is named; None if none is, or several are."""
    found = lookups(question, [unit for unit in units(table) if unit.cells], title)
    return found[0] if len(found) == 1 else None


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Unit price of P058?", "P058, Unit price: 48.75"),
        ("What is the price of the steel rope?", None),  # a blank cell
        ("When was article P059 ordered?", "P059, Ordered: 2025-05-15"),
        ("Who is the supplier of Copper Rope?", "P058, Name: Copper rope; Supplier: Halvorsen"),
        ("Price and supplier of P060?", "P060, Unit price: 9.10; Supplier: Halvorsen"),
        ("How high is the unit price of P058?", "P058, Unit price: 48.75"),
        ("Wie ist der Unit price von P058?", "P058, Unit price: 48.75"),
        ("What is the supplier number of P060?", "P060, Supplier: Halvorsen"),
    ],
)
def test_a_question_that_names_a_row_and_its_columns_is_certain(question: str, text: str | None) -> None:
    found = asked(question)

    assert found is not None
    assert found.certain
    assert (found.answer and found.answer.text) == text


@pytest.mark.parametrize(
    "question",
    [
        "What is the price of P061?",  # another row
        "What is the price of P058 and P059?",  # several
        "Which rope is cheaper?",  # what several rows have
        "Who runs the shop?",  # `The Who`
        "Is the shop open?",  # a common word in a row
        "How many articles are there?",
    ],
)
def test_a_question_that_names_no_row_or_several_looks_nothing_up(question: str) -> None:
    assert asked(question) is None


@pytest.mark.parametrize(
    "question",
    [
        "What is the price of P058 in Norway?",  # the row doesn't say where
        "What is the price per metre of P058?",
        "How much does P058 weigh?",
        "What is the warranty of P058?",
        "Who ordered P058?",  # a date is nobody
    ],
)
def test_a_question_for_something_else_is_not_certain(question: str) -> None:
    found = asked(question)

    assert found is not None
    assert not found.certain


def test_the_row_alone_is_asked_for() -> None:
    found = asked("Please tell me about P058")

    assert found is not None
    assert (found.certain, found.unclear) == (True, False)
    assert found.answer == found.row
    assert found.answer is not None
    assert found.answer.text == "P058, Name: Copper rope; Unit price: 48.75; Ordered: 2025-05-14; Supplier: Halvorsen"


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("How much does P058 cost?", ("Unit price",)),
        ("How heavy is P058?", ()),  # no column is like it: the whole row
        ("Is P058 dear?", ()),
        ("Which ship could hold P058 if its hatch were closed?", ()),  # more than a column means
    ],
)
def test_a_column_is_found_by_what_it_means(question: str, named: tuple[str, ...]) -> None:
    found = asked(question)

    assert found is not None
    assert found.unclear
    near = 0.4 if question in ("How heavy is P058?", "Is P058 dear?") else 0.53
    clear = found.by_meaning([near if name == "Unit price" else 0.1 for name in found.columns])
    assert clear.named == named
    assert clear.answer is not None
    assert ("Supplier" in clear.answer.text) == (not named)


@pytest.mark.parametrize(
    "question", ["What is the value of P058?", "Who is the maker of P058?", "What is the copper rope's age?"]
)
def test_a_noun_that_is_no_column_is_another_thing(question: str) -> None:
    found = asked(question)

    assert found is not None
    assert found.answer is None


@pytest.mark.parametrize(
    "question",
    [
        "When did P058 arrive?",
        "Where is P058 kept?",
        "Is the copper rope available?",
        "What does the copper rope cost?",
        "How expensive is the copper rope?",
        "What is the copper rope made of?",
        "Who works with P058 at Halvorsen?",
    ],
)
def test_a_row_is_whole_if_no_column_has_the_words_of_the_question(question: str) -> None:
    found = asked(question)

    assert found is not None
    assert found.answer is found.row


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("What is the price of P058 and P060?", ["P058", "P060"]),
        ("Compare the steel rope with the Fender", ["P059", "P060"]),
        ("Which is cheaper, P058 or P060?", ["P058", "P060"]),
    ],
)
def test_all_rows_that_are_named_are_found(question: str, rows: list[str]) -> None:
    found = lookups(question, [unit for unit in units(GOODS) if unit.cells])

    assert [each.row.cells[0][0] for each in found] == rows


def test_a_name_of_words_that_other_rows_share_names_its_row_and_all_that_are_called_the_same() -> None:
    table = (
        "| Thing | Stock |\n| --- | --- |\n| Desk lamp | 1 |\n| Floor lamp | 2 |\n| Standing desk | 3 |\n| Mat | 4 |"
        "\n| Mat | 5 |"
    )
    rows = [unit for unit in units(table) if unit.cells]

    def stock(question: str) -> list[str]:
        return [each.answer.text for each in lookups(question, rows) if each.answer]

    assert stock("Stock of the desk lamp?") == ["Desk lamp, Stock: 1"]
    assert stock("Stock of the desk lamp and the floor lamp?") == ["Desk lamp, Stock: 1", "Floor lamp, Stock: 2"]
    assert stock("Stock of the mat?") == ["Mat, Stock: 4", "Mat, Stock: 5"]
    assert stock("Stock of lamps?") == []


def test_a_row_with_a_name_in_its_first_column_is_meant_and_not_one_that_mentions_it() -> None:
    team = "| Name | Manager | Office |\n| --- | --- | --- |\n| Ruth Oban | | Leeds |\n| Sam Pike | Ruth Oban | York |"

    office, both = asked("Which office has Ruth Oban?", team), asked("Office of Ruth Oban and Sam Pike?", team)

    assert office is not None
    assert office.answer is not None
    assert (office.answer.text, both) == ("Ruth Oban, Office: Leeds", None)


def test_what_a_table_is_about_needs_no_column_and_names_one_if_nothing_else_does() -> None:
    table = "# Prices\n\n| Article | Price | Stock |\n| --- | --- | --- |\n| Rope | 4 | 5 |\n| Cleat | 6 | 7 |"

    price, stock = asked("What is the price of the rope?", table), asked("Stock of the article rope?", table, "prices")

    assert price is not None
    assert (price.named, price.certain) == (("Price",), True)
    assert stock is not None
    assert (stock.named, stock.certain) == (("Stock",), True)


def test_a_name_in_one_word_of_several_parts_is_read_in_parts_and_whole() -> None:
    table = "id: A1; lastChecked: 2025-01-02; pH: 7\n\nid: A2; lastChecked: 2025-01-03; pH: 8"

    for question, column in (("When was A2 last checked?", "lastChecked"), ("What is the pH of A2?", "pH")):
        found = asked(question, table)
        assert found is not None
        assert (found.named, found.certain) == ((column,), True)


TEAM = """
| Name | Role | Reports to | Room |
| --- | --- | --- | --- |
| Sam Pike | Workshop manager | Lena Ortiz | 4 |
| Tariq Aziz | Mechanic | Sam Pike | 5 |
| Ines Duarte | Apprentice | Sam Pike | 5 |
| Omar Haddad | Bookkeeper | Lena Ortiz | 6 |
"""


@pytest.mark.parametrize(
    ("question", "people"),
    [
        ("Who reports to Sam Pike?", ["Tariq Aziz", "Ines Duarte"]),
        ("Who is in room 5?", ["Tariq Aziz", "Ines Duarte"]),
        ("Who does Sam Pike report to?", ["Sam Pike"]),
        ("Which room does Sam Pike report to?", ["Sam Pike"]),
        ("Does Omar Haddad report to anybody?", ["Omar Haddad"]),
        ("Role of Sam Pike?", ["Sam Pike"]),
        ("Room of Tariq Aziz?", ["Tariq Aziz"]),
        ("Who reports to the workshop?", []),
        ("Which rooms are free?", []),
    ],
)
def test_a_column_right_before_its_value_names_the_rows_with_it(question: str, people: list[str]) -> None:
    found = lookups(question, [unit for unit in units(TEAM) if unit.cells])

    assert [each.row.cells[0][0] for each in found] == people


def test_a_date_is_nobody_in_other_words_either() -> None:
    found = asked("Who bought P058?")

    assert found is not None
    assert found.columns == ("Name", "Supplier")


def test_rows_that_share_a_name_are_all_the_answer() -> None:
    found = lookups("Which ropes does Halvorsen sell?", [unit for unit in units(GOODS) if unit.cells])

    assert [each.row.cells[0][0] for each in found] == ["P058", "P060"]


@pytest.mark.parametrize(
    ("question", "articles"),
    [
        ("What is the price of the floor lamp?", ["L-100"]),
        ("Is a wall lamp cheaper?", ["L-110"]),
        ("Price of lamps?", []),  # a word of all
        ("What is on the floor?", []),  # one word of three
        ("Which arc is bent?", []),
        ("What do the old oak benches in the hall cost?", []),  # most words of a sentence
    ],
)
def test_most_of_a_name_names_a_row_if_one_word_is_its_own(question: str, articles: list[str]) -> None:
    table = (
        "| Article | Name | Price |\n| --- | --- | --- |\n| L-100 | Floor lamp Arc | 129 |\n"
        "| L-110 | Wall lamp Nook | 59 |\n| F-2 | The bench of old oak in the big hall | 340 |"
    )

    found = lookups(question, [unit for unit in units(table) if unit.cells])

    assert [each.row.cells[0][0] for each in found] == articles
