import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.answers.asked_form import has_asked_form


@pytest.mark.parametrize(
    ("question", "with_it", "without_it"),
    [
        ("How many boats are there?", "Three boats lie in the harbour.", "The boats lie in the harbour."),
        (
            "What share of boats sails?",
            "In 2019, 70% of the boats sail.",
            "Boats sail as of 2022, says the report of 2023.",
        ),
        ("What proportion of boats sails?", "A third of the boats sails.", "Boats sail since 2015."),
        ("How much is a ticket?", "A ticket is free.", "A ticket is sold at the gate."),
        ("How old was the keeper?", "The keeper, age 61, was asleep.", "The keeper had 30 lamps."),
        ("How old is the tower?", "It was built in 1861.", "It was struck in 2007."),
        ("How old must a guest be?", "Guests must be at least 18.", "Guests come at 9."),
        ("How old is Anna?", "Anna is 42.", "Anna has 42 boats."),
        ("How much is a ticket?", "A ticket costs Rs500.", "A ticket is sold at gate B500."),
        ("What is the height of the tower?", "The tower has 40 metres.", "The tower is high."),
        ("What is the salary of the keeper?", "The keeper gets 40 crowns.", "The keeper is paid by the port."),
        ("What is the maximum size of a boat?", "Boats of up to 12 m fit.", "The boat must fit the lock."),
        ("How long is the pier?", "The pier has 40 metres.", "The pier is of oak."),
        ("How long does a refund take?", "It takes until Friday.", "It shall take less time."),
        ("How long does delivery take?", "Delivery takes a week.", "Delivery takes time."),
        ("How long are logs kept?", "They are kept indefinitely.", "They are kept by the port."),
        ("How long does the lease run?", "It runs until 2027.", "It was signed by the port."),
        ("How long has it been open?", "It has been open since 2015.", "It is open."),
        ("How heavy is the bell?", "It weighs a ton.", "It is a heavy bell."),
        ("How often does it sail?", "It sails twice a day.", "It sails with the tide."),
        ("When was it built?", "It was built in the Middle Ages.", "It was built in the middle."),
        ("When did the pier close?", "It closed at Easter.", "It is closed by the keeper."),
        ("When was the mill built?", "It was built after the flood.", "It was built of oak."),
        ("What is the capacity of the tank?", "The tank has a capacity of 1800 litres.", "It was full."),
        ("What is the timeout?", "It stops after 2000 ms.", "It stops after a while."),
        ("What was the longest interval?", "It was paused for 5 minutes.", "It is paused by the keeper."),
    ],
)
def test_a_figure_or_an_age_is_needed_where_it_is_asked_for(question: str, with_it: str, without_it: str) -> None:
    assert has_asked_form(question, with_it)
    assert not has_asked_form(question, without_it)


@pytest.mark.parametrize(
    "question",
    [
        "Who opened the hatch?",
        "Why is the tower high?",
        "When is it open?",
        "How do I open it?",
        "What is the price list?",
        "How is it?",
    ],
)
def test_other_questions_ask_for_no_form(question: str) -> None:
    assert has_asked_form(question, "The tower is made of granite.")


def test_figures_of_the_question_answer_nothing() -> None:
    question = "How many lamps had tower K2 in 1861?"

    assert not has_asked_form(question, "In 1861, tower K2 had lamps.")
    assert has_asked_form(question, "In 1861, tower K2 had 3 lamps.")
    assert has_asked_form("How much do 2 tickets cost?", "The 2 tickets cost 2 pounds.")


@pytest.mark.parametrize("question", ["What percent of the mills turn?", "What share of mills did turn in 2019?"])
def test_a_share_is_asked_for_by_its_name(question: str) -> None:
    assert not has_asked_form(question, "Share of mills that turn")
    assert has_asked_form(question, "Half of the mills turn.")
    assert has_asked_form(question, "The share of mills that turn is 7%.")


def test_words_of_another_language_cannot_be_judged() -> None:
    assert has_asked_form("How many levers are there?", "Der Hebel und das Rad.")
    assert has_asked_form("How many boats are there?", "У причала стоят лодки.")


@given(question=st.text(max_size=80), text=st.text(max_size=200))
def test_every_question_and_text_can_be_judged(question: str, text: str) -> None:
    assert has_asked_form(question, text) in {True, False}
