"""The first passages are the same as if all features of every passage had been computed by their definition."""

from hypothesis import given
from hypothesis import strategies as st

from services.query_api.search.calibration import WORDS, scorer_of
from services.query_api.search.relevance import CandidatePassage, Comparer, features, question
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
    "Schiff",
    "héron",
]
TEXTS = st.lists(st.sampled_from(VOCABULARY), max_size=6).map(" ".join)
PASSAGES = st.lists(
    st.builds(CandidatePassage, st.floats(-0.2, 1), TEXTS, st.lists(TEXTS, max_size=2), st.none()), max_size=12
)


@given(
    query=TEXTS, passages=PASSAGES, count=st.integers(0, 14), model=st.sampled_from(["all-MiniLM-L6-v2", WORDS, "x"])
)
def test_the_first_passages_have_the_scores_of_all_their_features(
    query: str, passages: list[CandidatePassage], count: int, model: str
) -> None:
    asked, scorer = question(query), scorer_of(model)
    all_features = [features(asked, each) for each in passages]
    scores = [scorer.score(*each) for each in all_features]
    order = sorted(range(len(passages)), key=lambda at: -scores[at])[:count]

    found = best(asked, scorer, passages, count)
    known = Comparer(asked).compared(passages[::2])
    some = [each._replace(words=words) for each, words in zip(passages[::2], known, strict=True)]
    again = best(asked, scorer, [some[at // 2] if at % 2 == 0 else each for at, each in enumerate(passages)], count)

    assert again == found, "also if the words of some were compared before"
    assert [(score, index) for score, index, _ in found] == [(scores[at], at) for at in order]
    assert [each.coverage for *_, each in found] == [all_features[at].coverage for at in order]
