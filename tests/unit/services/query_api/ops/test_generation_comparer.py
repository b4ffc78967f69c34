import pytest

from services.query_api.ops.generation_comparer import Judged, PassageSpan, compared, most_changed, summary

QUESTION = Judged(question="Where is the heron?")


def span(document: str, start: int = 0, end: int = 100) -> PassageSpan:
    return PassageSpan(document=document, path=f"{document}.md", start=start, end=end)


def test_the_same_ranking_differs_in_nothing() -> None:
    ranking = [span("a"), span("b"), span("a", 100, 200)]

    same = compared(Judged(question="?", documents=("b.md",)), ranking, ranking)

    assert (same.overlap, same.passages, same.moved, same.drop) == (1.0, 1.0, 0.0, 0.0)
    assert (same.first, same.first_other) == ("a.md", "a.md")
    assert same.ndcg == same.ndcg_other == pytest.approx(0.6309, abs=1e-4)
    assert most_changed([same]) == []


def test_documents_are_compared_whatever_their_chunks_are() -> None:
    whole = [span("a", 0, 800), span("b", 0, 800)]
    cut = [span("b", 0, 200), span("a", 600, 800), span("a", 0, 200)]

    found = compared(QUESTION, whole, cut)

    assert (found.overlap, found.passages, found.moved) == (1.0, 1.0, 1.0)
    assert (found.ndcg, found.ndcg_other) == (None, None)


def test_what_only_one_finds_counts_against_the_longer_ranking() -> None:
    found = compared(QUESTION, [span("a"), span("b", 0, 50)], [span("b", 50, 100), span("c"), span("d")])

    assert found.overlap == pytest.approx(1 / 3)
    assert found.passages == 0.0  # neither a nor the first half of b
    assert (found.first, found.first_other) == ("a.md", "b.md")


@pytest.mark.parametrize(("ours", "theirs", "overlap"), [([], [], 1.0), (["a"], [], 0.0), ([], ["a"], 0.0)])
def test_a_generation_that_finds_nothing(ours: list[str], theirs: list[str], overlap: float) -> None:
    found = compared(QUESTION, [span(name) for name in ours], [span(name) for name in theirs])

    assert (found.overlap, found.passages) == (overlap, overlap)


def test_a_document_is_right_by_its_path_or_its_id() -> None:
    ranking = [span("a"), span("b")]

    by_path = compared(Judged(question="?", documents=("a.md",)), ranking, ranking[::-1])
    by_id = compared(Judged(question="?", documents=("a",)), ranking, ranking[::-1])

    assert by_path == by_id
    assert by_path.drop == pytest.approx(1 - 0.6309, abs=1e-4)


def test_the_mean_of_ndcg_is_over_judged_questions_and_what_got_worse_comes_first() -> None:
    judged = Judged(question="judged", documents=("a.md",))
    worse = compared(judged, [span("a"), span("b")], [span("b"), span("a")])
    other = compared(QUESTION, [span("a")], [span("b")])
    same = compared(QUESTION, [span("a")], [span("a")])

    means = summary([same, other, worse])

    assert means.ndcg == 1.0
    assert means.ndcg_other == pytest.approx(0.6309, abs=1e-4)
    assert means.same_first == pytest.approx(1 / 3, abs=1e-3)
    assert most_changed([same, other, worse]) == [worse, other]
