import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.answers import Passage
from shared.answers.citations import cited
from shared.answers.extractive import NO_ANSWER, NO_PASSAGES, answer

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
    return "".join(answer(question, passages or PASSAGES))


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        (
            "Which port does the server listen on?",
            "The server listens on port 3000 unless `SLUICE_PORT` says otherwise. [2]",
        ),
        ("How long does a refund take?", "It takes 5 to 7 days. [1]"),
        ("What does returning something from Norway cost?", "Country: Norway; Cost of return: 9 € [1]"),
        ("Which Python do I need?", "Sluice needs Python 3.11 or newer. [2]"),
        ("返品は何日以内ですか", "返品は30日以内に受け付けます。 [3]"),
    ],
)
def test_the_sentence_that_answers_comes_first_with_its_citation(question: str, reply: str) -> None:
    assert answered(question).startswith(reply)


def test_markdown_and_a_documents_own_notes_are_gone() -> None:
    assert "You may return goods within 30 days of delivery (7). [1]" in answered("May I return goods after delivery?")


@pytest.mark.parametrize("question", ["What is the capital of France?", "Who won the world cup?", "???", ""])
def test_where_no_sentence_answers_it_says_so_and_cites_nothing(question: str) -> None:
    assert answered(question) == NO_ANSWER
    assert cited(NO_ANSWER + NO_PASSAGES, {1, 2, 3}) == ()


def test_without_passages_it_says_so() -> None:
    assert "".join(answer("Which port?", ())) == NO_PASSAGES


def test_a_text_that_two_passages_hold_is_quoted_once() -> None:
    text = "The museum opens at ten."

    assert answered("When does the museum open?", a_passage(1, text), a_passage(2, text)) == f"{text} [1]"


def test_equal_sentences_apart_the_better_passage_wins() -> None:
    better = a_passage(2, "The museum in town opens at nine.", score=0.9)
    worse = a_passage(1, "The museum in town opens at ten.", score=0.1)

    assert answered("When does the museum open?", worse, better).startswith("The museum in town opens at nine. [2]")


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

    pieces = list(answer(f"harbour light {question}", passages))

    assert 1 <= len(pieces) <= 4
    if pieces not in ([NO_ANSWER], [NO_PASSAGES]):
        for piece in pieces:
            assert len(cited(piece, range(10_000))) == 1
            assert set(cited(piece, range(10_000))) <= set(range(1, len(texts) + 1))


def test_a_thousand_passages_are_cut_to_the_best() -> None:
    passages = [a_passage(number, f"Fact {number} about harbours.") for number in range(1, 1001)]

    assert set(cited("".join(answer("harbour facts", passages)), range(2000))) <= set(range(1, 21))
