"""Related questions: how a model's lines are read, and how their hits join those of the query."""

from services.query_api.search.query_expansion import merged, related_questions
from services.query_api.search.results import Explanation, Found, Ranks


def a_hit(document: str, score: float, order: int = 0) -> Found:
    explanation = Explanation(cosine=0.5, ranks=Ranks(), fused=1, coverage=0.0)
    return Found(
        text=document, score=score, metadata={"documentId": document, "chunkOrder": order}, explanation=explanation
    )


def test_the_lines_of_a_model_are_read_without_marks_repetitions_and_the_question() -> None:
    text = '1. When does it burn?\n\n- "Who lights it?"\n* who lights it?\nWHEN IS IT LIT?\n(3) Why at six?\nA fifth?\n'

    found = related_questions(text, "When is it lit?")

    assert found == ["When does it burn?", "Who lights it?", "Why at six?"]
    assert related_questions("x" * 301, "y") == []


def test_each_passage_is_there_once_with_its_best_score() -> None:
    own = [a_hit("a", 0.9), a_hit("b", 0.2)]
    others = [("other", [a_hit("b", 0.5), a_hit("a", 0.3)]), ("third", [a_hit("c", 0.4), a_hit("b", 0.5)])]

    hits = merged(own, others)

    assert [(hit.text, hit.score, hit.explanation.query) for hit in hits] == [
        ("a", 0.9, None),
        ("b", 0.5, "other"),
        ("c", 0.4, "third"),
    ]
