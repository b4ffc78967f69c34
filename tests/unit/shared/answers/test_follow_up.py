import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.answers import Turn
from shared.answers.follow_up import LONGEST_QUESTION, as_asked, spelled_out


def asked(*questions: str) -> tuple[Turn, ...]:
    """Return a conversation in which each question but the last was answered."""
    said = [(Turn(role="user", content=each), Turn(role="assistant", content="x")) for each in questions]
    return tuple(turn for pair in said for turn in pair)[:-1]


@pytest.mark.parametrize(
    ("questions", "searched"),
    [
        (("How does RPC work over RabbitMQ?", "And over NATS?"), "RPC work And over NATS?"),
        (("How do I publish to a Redis list?", "And to pub/sub?"), "publish Redis And to pub/sub?"),
        (("How do lifespan hooks work?", "How do I test them?"), "lifespan hooks work How do I test them?"),
        (("Wann öffnet der Turm?", "Und im Winter?"), "Wann öffnet der Und im Winter?"),
        (("Who sails the Tern?", "And the Auk?", "What about its fare there?"), "Auk What about its fare there?"),
        (("When does the Tern sail?", "Who steers it?", "And the Auk?"), "sail steers And the Auk?"),
        (("who sails the tern?", "and the auk?", "and its fare?"), "sails auk and its fare?"),
        (("How tall is the North Mole?", "What about the South Mole?"), "tall What about the South Mole?"),
        (("Who built the tower?", "Why?"), "Who built the tower? Why?"),
        (("How tall is it?", "How does the lamp burn in winter nights?"), "How does the lamp burn in winter nights?"),
        (("Where is the tower?",), "Where is the tower?"),
        (("Who mends the roof?", "How long is the probation?", "And the notice?"), "long And the notice?"),
        (("Who steers the Tern?", "What is the fare?", "And for dogs?"), "Tern And for dogs?"),
        (("Who mends the roof?", "How old is it?", "And the wall?"), "mends roof And the wall?"),
        (("Who mends the roof?", "And in winter?", "And the wall?"), "mends And the wall?"),
        (("What does the Tern do?", "And the Auk?"), "And the Auk?"),
        (("what is a tern", "and an auk"), "and an auk"),
        (("What does the Tern do?", "And who owns it?"), "What does the Tern do? And who owns it?"),
        (("What does the Tern do?", "and its fare?"), "Tern and its fare?"),
        (("How do I publish?", "And over NATS?"), "publish And over NATS?"),
        (("who mends the roof?", "the wall?", "Why?"), "mends roof the wall? Why?"),
    ],
)
def test_a_follow_up_carries_the_terms_that_it_leaves_out(questions: tuple[str, ...], searched: str) -> None:
    assert spelled_out(asked(*questions)) == searched


@pytest.mark.feature(159)
def test_terms_are_carried_through_several_turns() -> None:
    searched = spelled_out(asked("How does RPC work over RabbitMQ?", "And over NATS?", "And over Redis?"))

    assert searched == "RPC work And over Redis?"


@given(st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=6))
def test_whatever_was_said_the_question_stands_last(questions: list[str]) -> None:
    assert spelled_out(asked(*questions)).strip().endswith(questions[-1].strip())


def test_nobody_asked_anything() -> None:
    assert spelled_out(()) == ""


@pytest.mark.parametrize(
    "questions", [("é" * 9_000,), ("How do herons nest?", "é" * 9_000 + " it"), ("a " * 9_000, "it")]
)
def test_only_the_beginning_of_a_long_question_is_read(questions: tuple[str, ...]) -> None:
    cut = [each[:LONGEST_QUESTION] for each in questions]

    assert spelled_out(asked(*questions)) == spelled_out(asked(*cut))
    assert len(spelled_out(asked(*questions))) == LONGEST_QUESTION


@pytest.mark.parametrize(
    ("before", "question", "alone"),
    [
        ("Who is the harbour master?", "And who is the miller?", True),
        ("What does mooring cost?", "And for boats longer than twelve metres?", True),
        ("Wann öffnet der Turm?", "Und wie im Winter?", False),
        ("When does the Tern sail?", "And what is the fare?", False),
        ("How does RPC work over RabbitMQ?", "And over NATS?", False),
        ("Where do the herons nest?", "And when may nobody disturb them?", False),
        ("Who built the tower?", "Why?", False),
        ("How tall is the harbour?", "And in winter?", False),
    ],
)
def test_a_question_that_is_whole_may_be_tried_alone_unless_a_name_is_carried(
    before: str, question: str, alone: bool
) -> None:
    assert as_asked(asked(before, question)) == (question if alone else None)
