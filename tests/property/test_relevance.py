"""A score must not depend on anything but query and passage, and must grow with what they share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.query_api.search.candidates import Candidate, Features
from services.query_api.search.relevance import WORDS, calibrations, question, scorer_of
from services.query_api.search.word_frequencies import weight
from shared.state.generations import CosineScale
from shared.text.words import STOP_WORDS, stem
from tests.features import features

texts = st.text(max_size=200)
shares = st.floats(0, 1)
NARROW = CosineScale(mean=0.78, spread=0.02, built_in_mean=0.1, built_in_spread=0.1)
SCORERS = [scorer_of("all-MiniLM-L6-v2"), scorer_of(WORDS), scorer_of("a model nobody has judged", NARROW)]


@given(query=texts, text=texts, headings=st.lists(texts, max_size=2), cosine=st.floats(-1, 1))
def test_every_query_and_passage_has_a_score_between_0_and_1(
    query: str, text: str, headings: list[str], cosine: float
) -> None:
    compared = features(question(query), Candidate(text, headings, cosine=cosine))

    assert 0 <= compared.coverage <= 1.000001
    assert 0 <= compared.phrases <= 1
    assert all(0 <= scorer.score(*compared) <= 1 for scorer in SCORERS)


@given(values=st.tuples(shares, shares, shares), feature=st.sampled_from(Features._fields), high=shares)
def test_a_closer_passage_never_scores_less(values: tuple[float, float, float], feature: str, high: float) -> None:
    one = Features(*values)
    low, high = sorted((getattr(one, feature), high))

    for scorer in SCORERS:
        below, above = (one._replace(**{feature: value}) for value in (low, high))
        assert scorer.score(*below) <= scorer.score(*above)


def test_a_passage_that_has_the_query_covers_all_of_it() -> None:
    asked = question("Which ferries leave the harbour at nine?")

    whole = features(asked, Candidate("The ferry leaves: which ferries leave the harbour at nine?"))
    titled = features(asked, Candidate("They leave at nine.", ["Ferries", "Harbour"]))
    none = features(asked, Candidate("Herons nest in the willow."))

    assert whole.coverage == pytest.approx(1.0)
    assert whole.phrases == pytest.approx(1.0)
    assert titled.coverage == pytest.approx(1.0)
    assert (none.coverage, none.phrases) == (0.0, 0.0)


def test_rare_words_weigh_more_and_stop_words_nothing() -> None:
    assert weight("the") == 0
    assert all(weight(word) == 0 for word in STOP_WORDS)
    assert weight("people") < weight("ferry") < weight("kubernetes") < weight("mqttinvalidtopicerror")


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("ferries", "ferry"),
        ("leaves", "leav"),
        ("leave", "leav"),
        ("running", "run"),
        ("stopped", "stop"),
        ("café", "café"),
    ],
)
def test_endings_do_not_tell_words_apart(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


def test_each_calibration_says_where_it_comes_from() -> None:
    assert calibrations().keys() == {"all-MiniLM-L6-v2", WORDS}
    for each in calibrations().values():
        assert each.fitted_on
        assert each.queries > 100
        assert each.pairs > each.queries


def test_a_model_without_a_calibration_is_scored_by_words_until_the_scale_of_its_cosines_is_known() -> None:
    built_in, words, other = scorer_of("all-MiniLM-L6-v2"), scorer_of(WORDS), scorer_of("x", NARROW)

    assert scorer_of("x").score(0.9, 0.4, 0.0) == words.score(0.0, 0.4, 0.0)
    for spreads in (-1, 0, 3, 5):
        cosines = 0.78 + 0.02 * spreads, 0.1 + 0.1 * spreads
        assert other.score(cosines[0], 0.4, 0.0) == built_in.score(cosines[1], 0.4, 0.0)
    assert scorer_of("all-MiniLM-L6-v2", NARROW) == built_in
