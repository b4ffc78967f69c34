import msgspec
import pytest

from services.query_api.search.arranging import RelevanceGate, by_document, diverse, of_each_document, usable, weighted
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


WHOLE = "The lantern burns oil. " * 6


@pytest.mark.feature(151, 152, 153, 154)
def test_weights_prefer_meaning_words_whole_thoughts_and_passages_of_a_usual_length() -> None:
    def a_passage(number: int, text: str = WHOLE, cosine: float = 0.5, chunk_type: str = "paragraph") -> Found:
        hit = a_hit(number, text)
        figures = msgspec.structs.replace(EXPLANATION, cosine=cosine, coverage=0.5)
        return msgspec.structs.replace(hit, metadata=hit.metadata | {"chunkType": chunk_type}, explanation=figures)

    usual = a_passage(1)

    assert numbers(weighted("lantern", [usual, a_passage(2, cosine=0.6)])) == [2, 1]
    assert numbers(weighted("the harbour lantern", [usual, a_passage(2, WHOLE + "harbour")])) == [2, 1]
    assert numbers(weighted("lantern", [usual, a_passage(2, chunk_type="semantic")])) == [2, 1]
    assert numbers(weighted("lantern", [a_passage(2, "A lantern."), usual])) == [1, 2]
    assert numbers(weighted("lantern", [a_passage(2, WHOLE * 20), usual])) == [1, 2]
    assert numbers(weighted("lantern", [a_passage(2), usual])) == [2, 1]


HITS = [a_hit(number, score=score) for number, score in enumerate((0.8, 0.5, 0.1))]


@pytest.mark.feature(143)
@pytest.mark.parametrize(("least", "passed"), [(0.0, 3), (0.75, 3), (0.8, 3), (0.81, 0)])
def test_the_best_hit_lets_all_pass_or_none(least: float, passed: int) -> None:
    assert usable(HITS, RelevanceGate(least, "best")) == HITS[:passed]


@pytest.mark.feature(144, 145)
@pytest.mark.parametrize(("least", "passed"), [(0.0, 3), (0.5, 2), (0.7, 1), (0.9, 0)])
def test_each_hit_passes_by_its_own_score(least: float, passed: int) -> None:
    assert usable(HITS, RelevanceGate(least, "each")) == HITS[:passed]


def test_nothing_passes_where_nothing_was_found() -> None:
    assert usable([], RelevanceGate(0.0, "best")) == usable([], RelevanceGate(0.0, "each")) == []
