import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.answers import Turn
from shared.answers.follow_up import LONGEST_QUESTION, readings, spelled_out


def asked(*questions: str) -> tuple[Turn, ...]:
    """Return a conversation in which each question but the last was answered."""
    said = [(Turn(role="user", content=each), Turn(role="assistant", content="x")) for each in questions]
    return tuple(turn for pair in said for turn in pair)[:-1]


@pytest.mark.parametrize(
    ("questions", "searched"),
    [
        (("How does RPC work over RabbitMQ?", "And over NATS?"), "RPC work. And over NATS?"),
        (("How do I publish to a Redis list?", "And to pub/sub?"), "publish Redis. And to pub/sub?"),
        (("How do lifespan hooks work?", "How do I test them?"), "lifespan hooks work. How do I test them?"),
        (("Wann öffnet der Turm?", "Und im Winter?"), "Wann öffnet der. Und im Winter?"),
        (
            ("Who sails the Tern?", "And the Auk?", "What about its fare there?"),
            "about Auk. What about its fare there?",
        ),
        (("When does the Tern sail?", "Who steers it?", "And the Auk?"), "sail steers. And the Auk?"),
        (("who sails the tern?", "and the auk?", "and its fare?"), "sails auk. and its fare?"),
        (("How tall is the North Mole?", "What about the South Mole?"), "tall. What about the South Mole?"),
        (("Who built the tower?", "Why?"), "Who built the tower? Why?"),
        (("How tall is it?", "How does the lamp burn in winter nights?"), "How does the lamp burn in winter nights?"),
        (("Where is the tower?",), "Where is the tower?"),
        (("Where do the herons nest?", "What is the key that opens the door?"), "What is the key that opens the door?"),
        (("Where do the herons nest?", "How long does one winding last?"), "How long does one winding last?"),
        (("Where do the herons nest?", "Who winds the tower clock?"), "Who winds the tower clock?"),
        (("Where do the herons nest?", "Who says they're rare?"), "herons nest. Who says they're rare?"),
        (("Where is the tower?", "Combien coûte-t-il?"), "tower. Combien coûte-t-il?"),
        (("Who mends the roof?", "How long is the probation?", "And the notice?"), "long. And the notice?"),
        (("Who steers the Tern?", "What is the fare?", "And for dogs?"), "about Tern. And for dogs?"),
        (("Who mends the roof?", "How old is it?", "And the wall?"), "mends roof. And the wall?"),
        (("Who mends the roof?", "And in winter?", "And the wall?"), "mends. And the wall?"),
        (("What does the Tern do?", "And the Auk?"), "And the Auk?"),
        (("what is a tern", "and an auk"), "and an auk"),
        (("What does the Tern do?", "And who owns it?"), "What does the Tern do? And who owns it?"),
        (("What does the Tern do?", "and its fare?"), "about Tern. and its fare?"),
        (("How do I publish?", "And over NATS?"), "publish. And over NATS?"),
        (
            ("When does the Tern sail?", "How many sailors does the crew of the boat have?"),
            "about Tern. How many sailors does the crew of the boat have?",
        ),
        (
            ("When does the Tern sail?", "How many sailors does the crew of the Auk have?"),
            "How many sailors does the crew of the Auk have?",
        ),
        (("When does the Tern sail?", "How many stairs do old towers have?"), "How many stairs do old towers have?"),
        (("who mends the roof?", "the wall?", "Why?"), "mends roof. the wall? Why?"),
    ],
)
def test_a_follow_up_carries_the_terms_that_it_leaves_out(questions: tuple[str, ...], searched: str) -> None:
    assert spelled_out(asked(*questions)) == searched


@pytest.mark.feature(159)
def test_terms_are_carried_through_several_turns() -> None:
    searched = spelled_out(asked("How does RPC work over RabbitMQ?", "And over NATS?", "And over Redis?"))

    assert searched == "RPC work. And over Redis?"


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
        ("Who is the harbour master?", "And who is the miller?", "first"),
        ("What does mooring cost?", "And for boats longer than twelve metres?", "first"),
        ("Where do the herons nest?", "Is there a lift in the tower?", "first"),
        ("Where do the herons nest?", "How many steps are there in the tower?", "first"),
        ("Where do the herons nest?", "Which is the key that opens it?", ""),
        ("Where do the herons nest?", "Which key is it that opens the door?", ""),
        ("Where do the herons nest?", "Which key opens that door?", ""),
        ("Is there a museum?", "How many rooms are there?", ""),
        ("Is there a museum?", "Which one is open?", ""),
        ("Wann öffnet der Turm?", "Who winds the clock?", "first"),
        ("Where do the herons nest?", "Who winds the clock?", "first"),
        ("When does the Tern sail?", "Who winds the clock?", "last"),
        ("When does the Tern sail?", "How many sailors does the crew of the boat have?", "last"),
        ("When does the Tern sail?", "And who winds the clock?", ""),
        ("When does the Tern sail?", "And what is the fare?", ""),
        ("When does the Tern sail?", "What is the fare?", ""),
        ("Wann öffnet der Turm?", "Und wie im Winter?", ""),
        ("How does RPC work over RabbitMQ?", "And over NATS?", ""),
        ("Where do the herons nest?", "And when may nobody disturb them?", ""),
        ("Where do the herons nest?", "Tell me about the miller", "first"),
        ("Where do the herons nest?", "Explain the clock", "first"),
        ("When does the Tern sail?", "Tell me about moorings", "last"),
        ("Where do the herons nest?", "Tell me more about it", ""),
        ("Where do the herons nest?", "Tell me more", ""),
        ("Where do the herons nest?", "Explain", ""),
        ("Who built the tower?", "Why?", ""),
        ("How tall is the harbour?", "And in winter?", ""),
    ],
)
def test_a_question_that_is_whole_is_also_read_alone(before: str, question: str, alone: str) -> None:
    turns = asked(before, question)
    by_itself = asked(question)

    expected = {"first": [by_itself, turns], "last": [turns, by_itself], "": [turns]}[alone]
    assert readings(turns, quotes=True) == expected
    assert readings(turns, quotes=False) == ([turns, by_itself] if alone else [turns])
