from services.query_api.search.arranging import by_document, diverse, of_each_document
from services.query_api.search.results import Explanation, Found, Ranks

EXPLANATION = Explanation(ranks=Ranks(), fused=1, coverage=1.0)


def a_hit(number: int, text: str = "", document: str = "d", score: float = 0.5) -> Found:
    metadata = {"documentId": document, "number": number}
    return Found(score=score, text=text, metadata=metadata, explanation=EXPLANATION)


def numbers(hits: list[Found]) -> list[int]:
    return [hit.metadata["number"] for hit in hits]


def test_a_hit_that_repeats_a_better_one_comes_after_others() -> None:
    hits = [
        a_hit(1, "herons nest in trees", score=0.9),
        a_hit(2, "herons nest in trees", score=0.8),
        a_hit(3, "lanterns burn oil", score=0.7),
    ]

    assert numbers(diverse(hits, 0.5, 3)) == [1, 3, 2]
    assert numbers(diverse(hits, 0.0, 2)) == [1, 2]


def test_a_document_has_at_most_so_many_hits_and_groups_keep_the_order() -> None:
    hits = [a_hit(1, document="a"), a_hit(2, document="b"), a_hit(3, document="a")]

    assert numbers(of_each_document(hits, 1)) == [1, 2]
    assert [numbers(group) for group in by_document(hits)] == [[1, 3], [2]]
