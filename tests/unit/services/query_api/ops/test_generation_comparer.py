import pytest

from services.query_api.ops.generation_comparer import Judged, compared, most_changed

QUESTION = Judged(question="Where is the heron?")


def ranking(*documents: str) -> dict[str, str]:
    return {each: f"{each}.md" for each in documents}


def test_the_same_ranking_differs_in_nothing() -> None:
    same = compared(Judged(question="?", documents=("b.md",)), ranking("a", "b"), ranking("a", "b"))

    assert (same.overlap, same.moved, same.drop) == (1.0, 0.0, 0.0)
    assert (same.first, same.first_other) == ("a.md", "a.md")
    assert same.ndcg == same.ndcg_other == pytest.approx(0.6309, abs=1e-4)
    assert most_changed([same]) == []


def test_documents_that_both_find_may_have_moved() -> None:
    found = compared(QUESTION, ranking("a", "b"), ranking("b", "a"))

    assert (found.overlap, found.moved) == (1.0, 1.0)
    assert (found.ndcg, found.ndcg_other) == (None, None)


def test_what_only_one_finds_counts_against_the_longer_ranking() -> None:
    found = compared(QUESTION, ranking("a", "b"), ranking("b", "c", "d"))

    assert found.overlap == pytest.approx(1 / 3)
    assert (found.first, found.first_other) == ("a.md", "b.md")


@pytest.mark.parametrize(("ours", "theirs", "overlap"), [([], [], 1.0), (["a"], [], 0.0), ([], ["a"], 0.0)])
def test_a_generation_that_finds_nothing(ours: list[str], theirs: list[str], overlap: float) -> None:
    assert compared(QUESTION, ranking(*ours), ranking(*theirs)).overlap == overlap


def test_a_document_is_right_by_its_path_or_its_id() -> None:
    by_path, by_id = (
        compared(Judged(question="?", documents=(name,)), ranking("a", "b"), ranking("b", "a"))
        for name in ("a.md", "a")
    )

    assert by_path == by_id
    assert by_path.drop == pytest.approx(1 - 0.6309, abs=1e-4)


def test_what_got_worse_comes_first() -> None:
    judged = Judged(question="judged", documents=("a.md",))
    worse = compared(judged, ranking("a", "b"), ranking("b", "a"))
    other = compared(QUESTION, ranking("a"), ranking("b"))
    same = compared(QUESTION, ranking("a"), ranking("a"))

    assert most_changed([same, other, worse]) == [worse, other]
