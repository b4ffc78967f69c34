"""The first passages are the same as if all features of every passage had been computed by their definition."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from services.query_api.search.candidates import Candidate
from services.query_api.search.relevance import WORDS, best, compare_words, question, scorer_of
from tests.features import features

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
    "Schiff",
    "héron",
]
TEXTS = st.lists(st.sampled_from(VOCABULARY), max_size=6).map(" ".join)
PASSAGES = st.lists(st.builds(Candidate, TEXTS, st.lists(TEXTS, max_size=2), cosine=st.floats(-0.2, 1)), max_size=12)


@given(
    query=TEXTS, passages=PASSAGES, count=st.integers(0, 14), model=st.sampled_from(["all-MiniLM-L6-v2", WORDS, "x"])
)
def test_the_first_passages_have_the_scores_of_all_their_features(
    query: str, passages: list[Candidate], count: int, model: str
) -> None:
    asked, scorer = question(query), scorer_of(model)
    all_features = [features(asked, each) for each in passages]
    scores = [scorer.score(*each) for each in all_features]
    order = sorted(range(len(passages)), key=lambda at: -scores[at])[:count]

    some = copy.deepcopy(passages)
    compare_words(asked, some[::2])
    again = best(asked, scorer, some, count)
    found = best(asked, scorer, passages, count)

    assert again == found, "also if the words of some were compared before"
    assert [each.score for each in found] == [scores[at] for at in order]
    assert all(each is passages[at] for each, at in zip(found, order, strict=True))
    assert [each.features and each.features.coverage for each in found] == [all_features[at].coverage for at in order]
