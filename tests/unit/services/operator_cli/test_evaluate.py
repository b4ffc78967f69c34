from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from services.operator_cli.client import Client
from services.operator_cli.errors import CommandError
from services.operator_cli.evaluate import (
    EvalQuestion,
    evaluated,
    means,
    questions,
    verdict,
)


class TwoDocuments(Client):
    """A server that finds the same two documents for every question, and cites the second."""

    def __init__(self, *, used: bool = True) -> None:
        self.used = used

    def search(self, query: str, *, top_k: int, filters: Mapping[str, Any], explain: bool = False) -> dict[str, Any]:
        return {"results": [{"metadata": {"documentId": name, "path": f"{name}.md"}} for name in ("a", "a", "b")]}

    def ask(self, question: str, *, top_k: int, filters: Mapping[str, Any]) -> dict[str, Any]:
        sources = [{"documentId": name, "metadata": {"path": f"{name}.md"}} for name in ("a", "b")]
        return {"response": "So [1].", "ragUsed": self.used, "ragSources": sources, "citations": [{"documentId": "b"}]}

    def send(self, path: str, body: Mapping[str, Any], method: str = "POST") -> dict[str, Any]:
        assert "Expected answer: So." in body["message"]
        return {"response": 'Well: {"relevance": 1, "accuracy": 0.5, "completeness": 7}'}


@pytest.mark.feature(265)
def test_a_question_is_scored_on_what_is_found_cited_and_answered() -> None:
    asked = [EvalQuestion(question="Why?", documents=("b.md",), answer="So.")]

    [scores] = evaluated(TwoDocuments(), asked, judged=True)

    assert scores == {
        "question": "Why?",
        "hit": 1.0,
        "mrr": 0.5,
        "ndcg": pytest.approx(0.6309, abs=1e-4),
        "citations": 1.0,
        "relevance": 1.0,
        "accuracy": 0.5,
        "completeness": 1.0,
    }


def test_a_question_that_no_document_answers_should_be_refused() -> None:
    asked = [EvalQuestion(question="Why?")]

    scores = [
        *evaluated(TwoDocuments(), asked, judged=False),
        *evaluated(TwoDocuments(used=False), asked, judged=False),
    ]

    assert means(scores) == {"refused": 0.5}


@pytest.mark.parametrize("reply", ["no idea", "{broken", '{"relevance": "high"}', '{"relevance": true}'])
def test_a_judge_that_gives_no_numbers_gives_no_scores(reply: str) -> None:
    assert verdict(reply) == {}


@pytest.mark.parametrize(("text", "said"), [("", "has no question"), ('{"question": 5}', "line 1")])
def test_a_file_that_can_not_be_read_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(text)

    with pytest.raises(CommandError, match=said):
        questions(file)
