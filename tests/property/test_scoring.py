"""The first passages are the same as if every passage had been searched for similar words."""

from hypothesis import given
from hypothesis import strategies as st

from services.query_api.search.calibration import WORDS, scorer_of
from services.query_api.search.relevance import compared, features, question
from services.query_api.search.scoring import best

VOCABULARY = [
    "cancer",
    "tumors",
    "doctor",
    "physician",
    "ship",
    "vessels",
    "heron",
    "lantern",
    "buy",
    "Purchased",
    "the",
]
TEXTS = st.lists(st.sampled_from(VOCABULARY), max_size=6).map(" ".join)
PASSAGES = st.lists(st.tuples(st.floats(-0.2, 1), TEXTS, st.lists(TEXTS, max_size=2)), max_size=12)


@given(
    query=TEXTS, passages=PASSAGES, count=st.integers(0, 14), model=st.sampled_from(["all-MiniLM-L6-v2", WORDS, "x"])
)
def test_the_first_passages_have_the_scores_of_all_their_features(
    query: str, passages: list[tuple[float, str, list[str]]], count: int, model: str
) -> None:
    asked, scorer = question(query), scorer_of(model)
    scores = [scorer.score(features(asked, *each)) for each in passages]
    order = sorted(range(len(passages)), key=lambda at: -scores[at])[:count]

    found = best(asked, scorer, [compared(asked, *each) for each in passages], count)

    assert [(score, index) for score, index, _ in found] == [(scores[at], at) for at in order]
