from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.answers import Conversation, Passage, Prompted, Turn
from shared.answers.extractive import (
    NO_ANSWER,
    NO_PASSAGES,
    Compare,
    Extractive,
    Weigh,
    Weigher,
    answer,
    focus,
    quotable,
)
from shared.answers.sentences import content_words
from shared.answers.word_forms import other_forms
from shared.errors import Unavailable
from tests.answering import cited
from tests.loop_holds import least_cpu_s

RETURNS = """# Returns

You may return goods within **30 days** of delivery [7]. Shoes must be unworn.

How long does a refund take? It takes 5 to 7 days. Money goes back to the card you paid with.

| Country | Cost of return |
| --- | --- |
| Germany | free |
| Norway | 9 € |
"""
INSTALL = """## Installing

Sluice needs Python 3.11 or newer. Run:

```sh
make run
```

The server listens on port 3000 unless `SLUICE_PORT` says otherwise. Capital letters matter in names of variables."""
JAPANESE = "返品は30日以内に受け付けます。送料は無料です。"


def a_passage(number: int, text: str, title: str = "", score: float = 0.8) -> Passage:
    return Passage(number=number, text=text, title=title, score=score, metadata={})


PASSAGES = (a_passage(1, RETURNS, "Shop"), a_passage(2, INSTALL, "Manual", 0.6), a_passage(3, JAPANESE, score=0.4))


def answered(question: str, *passages: Passage) -> str:
    quoted, pieces = answer(question, passages or PASSAGES)
    assert [passage.number for passage in quoted] == list(range(1, len(quoted) + 1))
    return "".join(pieces)


def english(weigh: Weigh) -> Weigher:
    """Return the weights of an English question's words."""
    return lambda _: (weigh, True)


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        (
            "Which port does the server listen on?",
            "The server listens on port 3000 unless `SLUICE_PORT` says otherwise.",
        ),
        ("How long does a refund take?", "It takes 5 to 7 days."),
        ("What does returning something from Norway cost?", "Norway, Cost of return: 9 € [1]"),
        ("Which Python do I need?", "Sluice needs Python 3.11 or newer. [1]"),
        ("返品は何日以内ですか", "返品は30日以内に受け付けます。"),
    ],
)
def test_the_sentence_that_answers_comes_first_with_its_citation(question: str, reply: str) -> None:
    assert answered(question).startswith(reply)


def test_markdown_and_a_documents_own_notes_are_gone() -> None:
    assert "You may return goods within 30 days of delivery (7)." in answered("May I return goods after delivery?")


@pytest.mark.parametrize("question", ["What is the capital of France?", "Who won the world cup?", "???", ""])
def test_where_no_sentence_answers_it_says_so_and_cites_nothing(question: str) -> None:
    assert answered(question) == NO_ANSWER
    assert cited(NO_ANSWER + NO_PASSAGES, {1, 2, 3}) == ()


def test_without_passages_it_says_so() -> None:
    assert answer("Which port?", ()) == ((), [NO_PASSAGES])


def test_a_text_that_two_passages_hold_is_quoted_once() -> None:
    text = "The museum opens at ten."

    assert answered("When does the museum open?", a_passage(1, text), a_passage(2, text)) == f"{text} [1]"


def test_equal_sentences_apart_the_better_passage_wins() -> None:
    better = a_passage(2, "The museum in town opens at nine.", score=0.9)
    worse = a_passage(1, "The museum in town opens at ten.", score=0.1)

    assert answered("When does the museum open?", better, worse).startswith("The museum in town opens at nine. [1]")


def test_a_question_in_a_document_is_not_an_answer() -> None:
    assert answered("Who built the tower?", a_passage(1, "Who built the tower? David did, in 1861.")) == (
        "David did, in 1861. [1]"
    )


def test_an_endless_sentence_is_shortened_at_a_word() -> None:
    reply = answered("What about harbours?", a_passage(1, "The harbour is " + "very long and " * 100))

    assert len(reply) < 420
    assert reply.endswith(("very … [1]", "long … [1]", "and … [1]"))


@given(
    question=st.text(max_size=60),
    texts=st.lists(
        st.lists(
            st.sampled_from(
                [
                    "harbour",
                    "light",
                    "# ",
                    "\n",
                    "\n\n",
                    "- ",
                    "| a | b |\n",
                    "|---|---|\n",
                    "```\n",
                    "[9]",
                    ". ",
                    "? ",
                    "。",
                    "**",
                ]
            ),
            max_size=30,
        ).map(" ".join)
        | st.text(max_size=200),
        max_size=5,
    ),
)
def test_whatever_the_text_the_answer_is_short_and_cites_what_was_given(question: str, texts: list[str]) -> None:
    passages = [a_passage(number, text, title=text[:20]) for number, text in enumerate(texts, start=1)]

    quoted, pieces = answer(f"harbour light {question}", passages)

    assert 1 <= len(pieces) <= 4
    if pieces not in ([NO_ANSWER], [NO_PASSAGES]):
        for piece in pieces:
            assert len(cited(piece, range(10_000))) == 1
        assert set(cited("".join(pieces), range(10_000))) == {passage.number for passage in quoted}


def test_a_thousand_passages_are_cut_to_the_best() -> None:
    passages = [a_passage(number, f"Fact {number} about harbours.") for number in range(1, 1001)]

    quoted, _ = answer("harbour facts", passages)

    assert {passage.text for passage in quoted} <= {passage.text for passage in passages[:20]}


REPORTS = (
    Passage(number=1, text="Revenue: 5 million", title="Acme 2021", score=0.9, metadata={"documentId": "a"}),
    Passage(number=2, text="Revenue: 7 million", title="Bolt 2021", score=0.8, metadata={"documentId": "b"}),
)


def test_the_figures_of_another_company_or_year_answer_nothing() -> None:
    assert answered("What was the revenue of Bolt in 2021?", *REPORTS).startswith("Revenue: 7 million [1]")
    assert answered("What was the revenue of Bolt in 2019?", *REPORTS) == NO_ANSWER
    assert answered("What was the revenue of Corex in 2021?", *REPORTS) == NO_ANSWER


def test_a_name_may_stand_in_another_passage_of_its_document() -> None:
    head = Passage(number=1, text="Report about Latrobe.", title="r", score=0.9, metadata={"documentId": "a"})
    other = Passage(number=2, text="Wind speed: 9 knots", title="s", score=0.9, metadata={"documentId": "b"})
    figures = Passage(number=3, text="Wind speed: 4 knots", title="r", score=0.5, metadata={"documentId": "a"})

    assert answered("What was the wind speed at Latrobe?", head, other, figures) == "Wind speed: 4 knots [1]"
    assert focus("What was the wind speed at Latrobe?", (head, other)) == ("a",)
    assert focus("What was the wind speed?", (head, other)) == ()


def a_part(document: str, order: int, text: str, score: float = 0.6) -> Passage:
    metadata = {"documentId": document, "chunkOrder": order}
    return Passage(number=order + 1, text=text, title=document, score=score, metadata=metadata)


def test_a_name_that_is_no_subject_of_its_document_must_stand_in_the_passage() -> None:
    head = a_part("Limits", 0, "Files of all kinds are read.")
    named = a_part("Limits", 1, "Lamps run on Windmere. Windmere has no boats.")
    other = a_part("Limits", 2, "The pumps run at night. They run for hours.")

    assert "pumps" not in answered("Where can pumps run on Windmere?", head, named, other)
    subject = a_part("Limits", 0, "All about Windmere.")
    assert "The pumps run at night." in answered("Where can pumps run on Windmere?", subject, other)


def test_the_name_that_most_documents_have_says_nothing_about_the_question() -> None:
    others = [a_part(f"Boat {number}", 1, "Sails of Skerrow are red.", score=0.5) for number in range(4)]
    told = a_part("Pumps", 1, "The pumps are oiled at night.", score=0.7)

    assert answered("When does Skerrow oil pumps?", told, *others) == "The pumps are oiled at night. [1]"


def test_a_name_within_another_is_not_that_of_most_documents() -> None:
    parts = [a_part(f"Quay {number}", 1, "The mayor of Hamburg is Peter Boom.", score=0.7) for number in range(5)]

    assert answered("Who is the mayor of Ham?", *parts) == NO_ANSWER


def test_of_little_to_choose_from_in_a_poor_passage_a_place_must_be_close_or_hold_the_words() -> None:
    def replied(question: str, score: float, near: float) -> str:
        passages = (a_passage(1, "The barge is moored at the lock.", score=score),)
        found = quotable(question, passages)
        return "".join(answer(question, passages, found, [near])[1])

    elsewhere = "Whom does the keeper of the lock pay for the barge?"
    assert replied(elsewhere, 0.15, 0.55) == NO_ANSWER
    assert NO_ANSWER not in {replied(elsewhere, 0.3, 0.55), replied(elsewhere, 0.15, 0.65)}
    assert replied("At which lock is the barge moored?", 0.15, 0.55) != NO_ANSWER


def test_a_code_that_no_passage_knows_is_not_answered() -> None:
    passage = a_passage(1, "The broker MQTT connects by TCP.")

    assert answered("How does the broker AMQP connect?", passage) == NO_ANSWER
    assert answered("How does the broker MQTT connect?", passage).startswith("The broker MQTT connects by TCP.")


def test_the_model_finds_what_shares_no_word() -> None:
    passages = (a_passage(1, "The shop shuts at six. Cats are fed at noon."),)
    found = quotable("When does it close?", passages)

    _, pieces = answer("When does it close?", passages, found, [0.7, 0.1])

    assert pieces == ["The shop shuts at six. [1]"]
    assert answer("When does it close?", passages, found, [0.2, 0.1]) == ((), [NO_ANSWER])


def test_of_a_row_the_columns_that_are_asked_for_are_quoted() -> None:
    table = "| Town | Price | Phone number |\n|---|---|---|\n| Oslo | 9 € | 555 |\n| Bonn | 7 € | 444 |"

    assert answered("What is the price for Oslo?", a_passage(1, table)).startswith("Oslo, Price: 9 € [1]")


def test_of_a_row_in_a_later_chunk_of_its_table_the_column_is_quoted() -> None:
    header = {"documentId": "d", "tableHeader": "| Dienst | Team |\n| --- | --- |"}
    passage = Passage(number=1, text="| d32 | e |\n| d33 | f |", title="Tore", score=0.9, metadata=header)

    _, pieces = answer("Which team owns d33?", [passage])

    assert "".join(pieces).startswith("d33, Team: f [1]")


def test_of_a_row_the_column_with_what_is_asked_for_is_quoted_after_the_one_that_names_the_row() -> None:
    row = "berth: B8; ship: Puffin; days: 16; owner name: Gro Gran"

    assert answered("Who owns the ship Puffin?", a_passage(1, row)) == "B8, ship: Puffin; owner name: Gro Gran [1]"
    staff = "name: Ines Vogt; role: Accountant; reports to: Lena Holt; office: A07"  # she is asked for, not her head
    assert (
        answered("Who is the accountant?", a_passage(1, staff))
        == "Ines Vogt, role: Accountant; reports to: Lena Holt; office: A07 [1]"
    )
    visits = a_passage(1, "Metric: Visitors; 2024-01-01: 120; 2024-02-01: 130; 2024-03-01: 140")
    assert answered("How many visitors on 2024-02-01?", visits) == "Visitors, 2024-02-01: 130 [1]"


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (
            "How many valves does the pump of quay 5 have?",
            ("Quay 5", "The pump of this quay has 8 valves and a lamp."),
            ("Quay 2", "The pump of this quay has 5 valves and a lamp."),
        ),
        (
            "Which team runs svc-33?",
            ("", "| Service | Team |\n| --- | --- |\n| svc-33 | team-f |"),
            ("", "| Service | Team | Note |\n| --- | --- | --- |\n| svc-11 | team-e | queue number 33 of the team |"),
        ),
        (
            "How long may a boat stay at berth 12?",
            ("Berth 12", "A boat may stay for two days."),
            ("Berth 3", "A boat may stay for 12 days."),
        ),
    ],
)
def test_what_is_said_about_another_number_answers_nothing(
    question: str, right: tuple[str, str], wrong: tuple[str, str]
) -> None:
    passages = [
        Passage(
            number=number, text=text, title="Manual", score=0.9, metadata={"documentId": "d", "sectionTitle": section}
        )
        for number, (section, text) in enumerate((wrong, right), start=1)
    ]

    quoted, _ = answer(question, passages)

    assert [each.text for each in quoted] == [right[1]]


def test_lists_and_code_are_quoted_whole_on_lines_of_their_own() -> None:
    text = "To start the server, run:\n\n```\nserver start\nserver check\n```"

    reply = answered("How do I start the server?", a_passage(1, text))

    assert reply == "To start the server, run:\n\n```\nserver start\nserver check\n```\n[1]"


async def test_at_most_32_units_are_compared_in_one_call_and_a_model_that_is_away_is_no_failure() -> None:
    calls: list[int] = []

    async def compare(question: str, texts: Sequence[str]) -> Sequence[float]:
        calls.append(len(texts))
        raise Unavailable("the model is away")

    passages = tuple(a_passage(number, "The harbour is nine fathoms deep. " * 10) for number in range(1, 30))
    conversation = Conversation(turns=(Turn(role="user", content="How deep is the harbour?"),), passages=passages)

    first, *rest = [event async for event in Extractive(compare).stream(conversation)]

    assert calls == [32]
    assert first == Prompted((passages[0],))
    assert rest[0] == "The harbour is nine fathoms deep. [1]"


def test_a_sentence_is_quoted_with_the_neighbours_that_are_about_the_question() -> None:
    text = (
        "The ferry sails from the pier. It is the old ferry. The ferry takes an hour. Cats are fed at noon.\n\n"
        "## Prices\n\nThe ferry costs two coins."
    )
    passages = (a_passage(1, text),)
    found = quotable("Where does the ferry sail?", passages)

    _, pieces = answer("Where does the ferry sail?", passages, found, [0.9, 0.5, 0.6, 0.0, 0.3])

    assert "".join(pieces) == "The ferry sails from the pier. It is the old ferry. The ferry takes an hour. [1]"


def test_another_place_that_is_nearly_as_good_is_quoted_behind_the_best() -> None:
    passages = (
        a_passage(1, "The ferry sails from the pier."),
        a_passage(2, "From November it leaves an hour later, when the ferry is empty."),
    )
    found = quotable("Where does the ferry sail?", passages)

    assert answer("Where does the ferry sail?", passages, found, [0.8, 0.8])[1] == [
        "The ferry sails from the pier. [1]",
        " From November it leaves an hour later, when the ferry is empty. [2]",
    ]
    assert answer("Where does the ferry sail?", passages, found, [0.8, 0.1])[1] == [
        "The ferry sails from the pier. [1]"
    ]


def test_words_that_tell_little_count_less() -> None:
    passages = (a_passage(1, "The accident took place in fog."), a_passage(2, "Visibility: two miles"))
    found = quotable("What was the visibility at the accident?", passages)
    weigh = {"visibility": 6.0, "accident": 1.0}

    def first(weigh_word: Callable[[str], float]) -> str:
        return answer("What was the visibility at the accident?", passages, found, [0.55, 0.5], english(weigh_word))[1][
            0
        ]

    assert first(lambda _: 1.0).startswith("The accident")
    assert first(lambda word: weigh.get(word, 0.0)).startswith("Visibility")


def test_what_is_far_from_the_question_is_not_quoted() -> None:
    passages = (a_passage(1, "The harbour has a museum of ships.", score=0.1),)
    question = "Which ships left the harbour in the great storm last autumn?"
    found = quotable(question, passages)

    assert answer(question, passages, found, [0.3]) == ((), [NO_ANSWER])
    assert answer(question, passages, found, [0.75])[0]


def test_a_sentence_with_the_number_that_is_asked_for_is_quoted_alone() -> None:
    text = "One winding lasts three hours. The winding is done by hand. The winding takes strength."

    assert answered("How many hours does a winding last?", a_passage(1, text)) == "One winding lasts three hours. [1]"


def test_the_sentence_with_the_name_that_is_asked_about_is_quoted() -> None:
    text = "From Easter to September the tower is open from 10:00 to 16:30. In October it opens at weekends only."
    passages = (a_passage(1, text),)
    found = quotable("When is the tower open in October?", passages)

    _, pieces = answer("When is the tower open in October?", passages, found, [0.7, 0.65])

    assert "In October it opens at weekends only." in "".join(pieces)


REPORT = """Location: Belen, NM
Date & Time: 11/27/2007
Certificate: Private; Age: 48, Male
Runway Used: 21
Runway Length/Width: 6601 ft / 60 ft
Date/Type of Last Inspection: 05/01/2007, Condition
"""


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("How old was the pilot?", "Certificate: Private; Age: 48, Male [1]"),
        ("How long was the runway?", "Runway Length/Width: 6601 ft / 60 ft [1]"),
        ("When was it last inspected?", "Date/Type of Last Inspection: 05/01/2007, Condition [1]"),
    ],
)
def test_an_age_answers_how_old_and_an_inspection_when_inspected(question: str, reply: str) -> None:
    assert answered(question, a_passage(1, REPORT, "Report on a pilot's accident")).startswith(reply)


def test_longer_code_is_quoted_behind_its_beginning() -> None:
    text = (
        "The option watches for changes.\n\n```\nrun app --reload\n```\n\n"
        "It is possible to give other endings\n\n```\nrun app --reload --endings .yml\n```\n"
    )
    passages = (a_passage(1, text),)
    question = "How do I watch for changes with an option?"
    found = quotable(question, passages)

    reply = "".join(answer(question, passages, found, [0.7, 0.6, 0.6, 0.6])[1])

    assert [each.unit.kind for each in found] == ["sentence", "code"] * 2
    assert reply.endswith("--endings .yml\n```\n[1]")


def test_code_of_another_sentence_is_not_quoted_before_the_answer() -> None:
    text = "```\ncontext = Context(field=1)\n```\n\nTo remove a field from the context, use `reset`."

    assert answered("How do I remove a field from the context?", a_passage(1, text)).startswith("To remove a field")


def test_without_the_questions_main_word_it_answers_only_if_the_rest_is_close() -> None:
    passage = a_passage(1, "The broker sends messages to a queue of the broker. It stores messages in a queue.")
    question = "How does the broker encrypt messages?"
    found = quotable(question, (passage,))
    alike = [0.55] * len(found)

    def replied(main: float) -> str:
        weigher = english(lambda word: main if word == "encrypt" else 1.0)
        return "".join(answer(question, (passage,), found, alike, weigher)[1])

    assert replied(1.0) != NO_ANSWER
    assert replied(2.0) == NO_ANSWER


def test_without_the_form_that_is_asked_for_there_is_no_answer() -> None:
    passages = (a_passage(1, "The keeper of the tower died in a storm. The tower has a lamp."),)
    question = "How old was the keeper of the tower who died?"
    found = quotable(question, passages)

    assert answer(question, passages, found, [0.8, 0.3]) == ((), [NO_ANSWER])
    assert answer("Who was the keeper of the tower who died?", passages, found, [0.8, 0.3])[0]


def test_shared_words_alone_answer_nothing_if_the_meaning_is_another() -> None:
    passages = (a_passage(1, "The probable cause of the fire was the light of a lamp."),)
    question = "What causes the polar light?"
    found = quotable(question, passages)

    weigher = english(lambda word: float(word != "polar"))

    assert answer(question, passages, found, [0.2], weigher) == ((), [NO_ANSWER])
    assert answer(question, passages, found, [0.5], weigher)[0]


def test_of_a_question_in_a_language_that_the_model_does_not_read_nearness_alone_is_no_answer() -> None:
    passages = (a_passage(1, "Pan de centeno con sal.", score=0.02),)
    question = "¿Cuánta mantequilla lleva el pan de centeno?"
    found = quotable(question, passages)

    assert answer(question, passages, found, [0.71], lambda _: (lambda word: float(len(word)), False))[0] == ()
    assert answer(question, passages, found, [0.71], english(lambda word: float(len(word))))[0]


def test_of_much_to_choose_from_a_place_must_be_in_a_good_passage_or_hold_all_words() -> None:
    few = "The barge is moored at the lock. The lamp of the barge is lit."
    crowd = few + "".join(f" Barge {number} was painted." for number in range(20))

    def replied(question: str, text: str, score: float) -> str:
        passages = (a_passage(1, text, score=score),)
        found = quotable(question, passages)
        return "".join(answer(question, passages, found, [0.65, *[0.3] * (len(found) - 1)])[1])

    moored = "At which lock does the keeper moor the barge?"
    assert NO_ANSWER not in {replied(moored, few, 0.4), replied(moored, crowd, 0.8)}
    assert replied(moored, crowd, 0.4) == NO_ANSWER
    assert replied("At which lock is the barge moored?", crowd, 0.4) != NO_ANSWER
    # A name only has to be in the document.
    assert replied("At which lock of Skerrow is the barge moored?", f"# Skerrow\n\n{crowd}", 0.4) != NO_ANSWER


def test_what_the_search_and_the_model_both_choose_answers_in_a_crowd_too() -> None:
    text = "The keeper moors the barge at night." + "".join(f" Barge {number} was painted." for number in range(20))
    question = "When does the keeper moor the barge here?"

    def replied(text: str, *, first: bool, near: float = 0.5) -> str:
        other = a_passage(1, "Lamps are lit.", score=0.4)
        passages = (a_passage(1, text, score=0.4), other) if first else (other, a_passage(2, text, score=0.4))
        found = quotable(question, passages)
        cosines = [near if "night" in each.unit.text else 0.45 for each in found]
        return "".join(answer(question, passages, found, cosines)[1])

    assert "at night" in replied(text, first=True)
    assert replied(text, first=False) == NO_ANSWER
    assert replied(text, first=True, near=0.44) == NO_ANSWER
    assert replied(text.replace("keeper moors", "crew leaves"), first=True) == NO_ANSWER


@pytest.mark.parametrize(
    ("text", "near", "answers"),
    [
        ("The barge Elsa lies behind the second lock.", 0.72, True),
        ("The barge Elsa lies behind the second lock.", 0.68, False),
        ("Name: Elsa; Lies: behind the lock", 0.72, False),  # alike by the names of its fields
        ("Name: Elsa\nLies: behind the lock", 0.72, False),
    ],
)
def test_what_is_alike_answers_in_a_crowd_too(text: str, near: float, answers: bool) -> None:
    crowd = " ".join(f"Boat {number} was painted." for number in range(20))
    passages = [a_passage(1, f"{text}\n\n{crowd}", score=0.4)]
    question = "Where can I find Elsa's ship?"
    found = quotable(question, passages)
    cosines = [near if "Elsa" in each.unit.text or "lock" in each.unit.text else 0.2 for each in found]

    quoted, _ = answer(question, passages, found, cosines)

    assert len(found) > 16
    assert bool(quoted) == answers


def test_an_option_is_told_by_what_has_it_as_it_is_written() -> None:
    crowd = " ".join(f"Boats of {number} days are kept." for number in range(20))
    text = (
        f"`--keep-within-days n` counts days. Boats within the lock are kept. `--keep-within` takes a time.\n\n{crowd}"
    )
    passages = (a_passage(1, text, score=0.4),)

    def told(question: str) -> str:
        found = quotable(question, passages)
        return "".join(answer(question, passages, found, [0.3] * len(found))[1])

    assert told("What does --keep-within do?") == "`--keep-within` takes a time. [1]"
    assert told("what is keep_within for") == NO_ANSWER
    assert told("What does --keep-within-hours do?") == NO_ANSWER
    assert len(quotable("Which boats does --keep-hours keep within the lock?", passages)) > 16


def test_a_temperature_answers_how_cold() -> None:
    assert answered("How cold was it?", a_passage(1, "Temperature: -13 degrees")).startswith(
        "Temperature: -13 degrees [1]"
    )


STOCK = (
    "| Article | Weight | Price |\n| --- | --- | --- |\n| Anchor | 12 kg | 310 EUR |\n| Buoy | | 45 EUR |\n"
    "| Red lamp | 1 kg | |\n| Blue lamp | 2 kg | 6 EUR |\n| 5003 | | 7 EUR |\n| Total | 15 kg | |"
)


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("What is the price of the anchor?", ["Anchor"]),
        ("What is the weight of the blue lamp?", ["Blue lamp"]),
        ("What is the total weight?", ["Total"]),
        ("What is the weight of the buoy?", []),  # its cell is blank: no other row answers for it
        ("What is the price of the red lamp?", []),
        ("What is the weight of article 5003?", []),
        ("What is the price of anchor and buoy?", ["Anchor", "Buoy"]),
        ("How expensive is the anchor?", ["Anchor"]),
        ("What is the price of anchor and red lamp?", ["Anchor"]),
        ("Which article is the heaviest?", ["Anchor", "Buoy", "Red lamp", "Blue lamp", "5003", "Total"]),
    ],
)
def test_a_question_that_names_one_row_of_a_table_is_answered_by_that_row_or_not_at_all(
    question: str, rows: list[str]
) -> None:
    found = quotable(question, [a_passage(1, STOCK, "stock")])

    assert [each.unit.cells[0][0] for each in found] == rows


RELEASES = (
    "| Version | Date | Codename |\n|---|---|---|\n| 1.0 | 2020-03-01 | Amber |\n| 2.0 | 2021-09-15 | Basil |\n\n"
    "## Needs\n\nKaro needs 2 GB of memory. The default port is 7070. It is installed with ./setup."
)


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("How much memory does Karo 2.0 need?", "Karo needs 2 GB of memory."),
        ("What is the default port of Karo 2.0?", "The default port is 7070."),
        ("Does Karo 1.0 need memory?", "Karo needs 2 GB of memory."),
        ("What is the codename of version 2.0?", "2.0, Codename: Basil"),
        ("When was Karo 1.0 published?", "1.0, Date: 2020-03-01"),
    ],
)
def test_a_number_that_names_a_row_leaves_the_text_beside_the_table(question: str, quote: str) -> None:
    assert quote in answered(question, a_passage(1, RELEASES, "Releases of Karo"))


def test_rows_of_one_table_are_quoted_together_if_the_question_names_them() -> None:
    stock = a_passage(1, STOCK, "stock")

    assert answered("What is the price of the anchor and the blue lamp?", stock) == (
        "Anchor, Price: 310 EUR [1] Blue lamp, Price: 6 EUR [1]"
    )


def test_a_row_is_compared_whole_if_something_else_is_asked_for_too() -> None:
    (moon,) = quotable("What is the price of the anchor on the moon?", [a_passage(1, STOCK, "stock")])
    (sold,) = quotable("What is the price of the anchor?", [a_passage(1, STOCK, "stock")])

    assert (moon.unit.text, sold.unit.text) == ("Anchor, Weight: 12 kg; Price: 310 EUR", "Anchor, Price: 310 EUR")


async def alike(_question: str, texts: Sequence[str]) -> Sequence[float]:
    """Compare every text with the similarity 0.6."""
    return [0.6 for _ in texts]


async def streamed(conversation: Conversation, compare: Compare = alike) -> str:
    return "".join([event async for event in Extractive(compare).stream(conversation) if isinstance(event, str)])


def asked(*questions: str) -> tuple[Turn, ...]:
    told = [(Turn(role="user", content=each), Turn(role="assistant", content="…")) for each in questions]
    return tuple(turn for both in told for turn in both)[:-1]


async def test_a_follow_up_about_what_no_row_has_is_not_answered_by_the_column_before() -> None:
    team = (
        "| Name | Phone | Start date |\n| --- | --- | --- |\n| Omar Haddad | 4420 | 2018 |\n| Nils Berg | 4430 | 2014 |"
    )

    async def told(then: str) -> str:
        turns = asked("What is the phone number of Omar Haddad?", then)
        return await streamed(Conversation(turns=turns, passages=(a_passage(1, team),)))

    assert await told("Who is his boss?") == NO_ANSWER
    assert "4430" in await told("And of Nils Berg?")
    assert "2018" in await told("When did he start?")


async def test_a_follow_up_about_the_thing_that_was_named_is_not_answered_from_another_document() -> None:
    crews = (
        a_passage(1, "The crew of the boat has five sailors and a cook.", "Auk"),
        a_passage(2, "The crew of the boat has three sailors.", "Tern"),
    )
    boats = tuple(msgspec.structs.replace(each, metadata={"documentId": each.title}) for each in crews)

    async def told(first: str, then: str) -> str:
        return await streamed(Conversation(turns=asked(first, then), passages=boats))

    assert "three" in await told("When was the Tern built?", "How many sailors does the crew of the boat have?")
    assert "three" in await told("When was the Tern built?", "How many sailors?")
    assert "five" in await told("When was the boat built?", "How many sailors does the crew of the boat have?")


@pytest.mark.parametrize(
    ("then", "told"),
    [
        ("And the rent?", "The rent of the workshop rises to 900 pounds."),
        ("What about the workshop?", "The rent of the workshop rises to 900 pounds."),
        ("And the harbour?", "Olsen Ltd repairs it in April."),  # nothing has its words
    ],
)
async def test_a_follow_up_is_answered_though_what_has_its_words_is_unlike_all_of_it(then: str, told: str) -> None:
    minutes = (
        "# Minutes\n\n## Roof of the bakery\n\nThe roof of the bakery leaks. Olsen Ltd repairs it in April.\n\n"
        "## Rent\n\nThe rent of the workshop rises to 900 pounds."
    )

    async def near(_question: str, texts: Sequence[str]) -> Sequence[float]:
        return [0.4 if "oof" in text else 0.24 for text in texts]

    turns = asked("Who repairs the roof of the bakery?", then)
    conversation = Conversation(turns=turns, passages=(a_passage(1, minutes, score=0.3),))

    assert told in await streamed(conversation, near)


PUMP = "# Pump\n\n- Power: 5 W\n- Weight: 9.4 kg\n- Warranty: 24 months\n- Pump oil: 2 l\n- Weight of the bag: 30 g"
HOURS = "# Library\n\nOpening hours:\n\n- Monday: 9 to 17\n- Tuesday: closed\n- Saturday: 10 to 13"
STEPS = "# Reset of the alarm\n\n- Step 1: Open the cover.\n- Step 2: Press the red key.\n- Step 3: Close it."


@pytest.mark.parametrize(
    ("text", "questions", "items"),
    [
        (PUMP, ["What is the warranty of the pump?"], ["Warranty: 24 months"]),
        (PUMP, ["How heavy is the pump?"], ["Weight: 9.4 kg"]),
        (PUMP, ["What is the weight of the bag of the pump?"], ["Weight of the bag: 30 g"]),
        (PUMP, ["How long is the warranty of the pump?", "And the weight?"], ["Weight: 9.4 kg"]),
        (HOURS, ["Is the library open on Tuesday?"], ["Tuesday: closed"]),
        (PUMP, ["What are the data of the pump?"], []),
        (PUMP, ["What is the weight and the power of the pump?"], []),
        (PUMP, ["How much oil does the pump need?"], ["Pump oil: 2 l"]),
        (PUMP, ["Which oil is for the pump?", "And its colour?"], []),
        (HOURS, ["What are the opening hours of the library?"], []),
        (HOURS, ["When is the library open from Monday to Saturday?"], []),
        (STEPS, ["How do I reset the alarm?"], []),
        (STEPS, ["What comes after step 1 of the reset of the alarm?"], []),
        (STEPS.replace("- Step ", "").replace(": ", ". "), ["How do I reset the alarm?"], []),
        ("# Yard\n\n- Yard: Ole Brix\n- Office: Mia Lund", ["Who works at the yard?"], []),
    ],
)
async def test_a_list_is_quoted_whole_and_in_order_unless_one_item_is_asked_for(
    text: str, questions: list[str], items: list[str]
) -> None:
    _, _, listed = text.partition("\n\n")

    told = await streamed(Conversation(turns=asked(*questions), passages=(a_passage(1, text, score=0.9),)))

    assert told == f"{items[0] if items else listed} [1]"


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Where does Anna Berg live?", "Anna Berg, Team: Sales; City: Kiel [1]"),
        ("How old is Anna Berg?", NO_ANSWER),
        ("Where does Ida Holm live?", NO_ANSWER),
    ],
)
async def test_a_row_that_is_named_answers_what_is_asked_in_other_words(question: str, found: str) -> None:
    rows = "| Name | Team | City |\n| --- | --- | --- |\n| Anna Berg | Sales | Kiel |\n| Jan Berg | Service | Kiel |"

    async def some(_question: str, texts: Sequence[str]) -> Sequence[float]:
        return [0.6 if "; " in text else 0.3 for text in texts]

    conversation = Conversation(turns=asked(question), passages=(a_passage(1, rows, score=0.3),))

    assert await streamed(conversation, some) == found


async def test_who_is_answered_by_the_sentence_with_the_name_alone() -> None:
    history = (
        "Brandt Boats was founded in 1962 by Karl Brandt in Kiel. In 1988 his daughter Greta took over. "
        "The yard built 214 boats until 1999. Today 23 people work for Brandt Boats."
    )

    told = await streamed(Conversation(turns=asked("Who founded Brandt Boats?"), passages=(a_passage(1, history),)))

    assert told == "Brandt Boats was founded in 1962 by Karl Brandt in Kiel. [1]"


@pytest.mark.parametrize(
    ("question", "text", "covered"),
    [
        ("Was kosten die Plätze?", "Der Platz kostet 22 Euro.", True),
        ("How was it resolved?", "Resolution: a new cable.", True),
        ("Who visits the museum?", "Visitors came to the museums.", True),
        ("Which contract is longest?", "The contrast is strong.", False),
        ("Is the station open?", "The statue opens.", False),
        ("What does the report say?", "The repair was short.", False),
        ("Which bands play?", "The bandage is white.", False),
    ],
)
def test_words_are_other_forms_by_an_ending_or_their_last_letter(question: str, text: str, *, covered: bool) -> None:
    asked, there = frozenset(content_words(question)), frozenset(content_words(text))

    assert bool(other_forms(asked, there)) == covered


def test_a_change_is_quoted_with_its_version() -> None:
    metadata = {"documentId": "changes", "sectionTitle": "Changes > 0.6.3 > What's new"}
    passage = Passage(
        number=1, text="- Add a spare wheel to the mill\n- Mend the barn", title="", score=0.9, metadata=metadata
    )

    assert answered("Which release added a spare wheel to the mill?", passage).startswith("0.6.3: - Add a spare wheel")
    assert answered("Who added a spare wheel to the mill?", passage).startswith("- Add a spare wheel")


@pytest.mark.parametrize(
    "question", ["Does the mill grind with Python 2.7?", "What does release 0.9.0 of the mill grind?"]
)
def test_a_version_that_stands_nowhere_is_not_answered(question: str) -> None:
    passage = a_passage(1, "The mill grinds with Python 3.11, since its release 0.6.3 of May.")

    assert answered(question, passage) == NO_ANSWER


@pytest.mark.parametrize(
    "question",
    [
        "Does the mill grind with Python 3.11?",
        "What did release 0.6.3 of the mill grind?",
        "Does the mill grind with Python 3?",
        "What did release 0.6 of the mill grind?",
        "Does the mill grind 2.5 tons with Python?",
        "Does the mill of Lee grind for 9.90 with Python?",
    ],
)
def test_other_numbers_with_points_need_not_stand_there(question: str) -> None:
    passage = a_passage(
        1, "The mill of Lee grinds 2,500 kilos with Python 3.11 for 9 pounds 90, since its release 0.6.3."
    )

    assert answered(question, passage) != NO_ANSWER


def test_a_question_of_many_names_costs_each_sentence_no_more() -> None:
    question = "Who lit the lantern of " + "Anna the " * 400
    passages = [a_passage(number, "Anna lit the lantern. " * 900) for number in range(1, 11)]

    assert least_cpu_s(lambda: quotable(question, passages), 3.0) <= 3.0
