import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.embedder.refusals import (
    KEPT_S,
    MOST_DOCUMENTS,
    PROBE,
    REST_S,
    TRIES,
    EstimatedTokens,
    Refusals,
    Samples,
    beginning,
    estimated,
    halves,
    name_of,
)
from shared.errors import Rejected, RetryLater


def refuse(refusals: Refusals, text: str, now: float, *beside: str, times: int = TRIES) -> float:
    """Refuse the text so many times as soon as it may be asked for; return when the last was."""
    for number in range(times):
        now += REST_S if number else 0
        refusals.refused(text, beside, "it says NaN", now)
    return now


def test_a_text_that_nobody_refused_is_asked_for() -> None:
    assert Refusals().error("a", 9, 0.0) is None


def test_a_refused_text_rests_and_is_asked_for_again() -> None:
    refusals = Refusals()
    refuse(refusals, "a", 100.0, times=1)

    error = refusals.error("a", 9, 101.0)
    assert isinstance(error, RetryLater)
    assert (error.after_s, error.sentence.startswith("it says NaN, for one text of 9 characters")) == (REST_S - 1, True)
    assert refusals.error("a", 9, 100.0 + REST_S) is None
    assert refusals.error("b", 9, 101.0) is None


def test_a_text_is_at_fault_after_three_tries_within_15_seconds_and_for_ten_minutes() -> None:
    refusals = Refusals()

    decided = refuse(refusals, "a", 0.0)

    assert decided < 15
    assert f"it says NaN, {TRIES} times for a text of 9 characters" in str(refusals.error("a", 9, decided))
    assert f"it says NaN, {TRIES} times for a text of 9 characters" in str(refusals.error("a", 9, decided + KEPT_S))
    assert refusals.error("a", 9, decided + KEPT_S + 1) is None


def test_a_text_that_is_embedded_after_all_begins_anew() -> None:
    refusals = Refusals()
    now = refuse(refusals, "a", 0.0, times=TRIES - 1)

    refusals.embedded("a")
    refuse(refusals, "a", now + REST_S, times=1)

    assert isinstance(refusals.error("a", 9, now + REST_S), RetryLater)


def test_from_the_third_document_on_it_is_the_server_until_the_first_is_ten_minutes_old() -> None:
    refusals = Refusals()
    first = refuse(refusals, "a", 0.0)
    second = refuse(refusals, "b", 100.0)

    third = refuse(refusals, "c", 200.0)

    assert f"it refused texts of {MOST_DOCUMENTS + 1} documents" in str(refusals.error("c", 9, third))
    assert isinstance(refusals.error("a", 9, third), Rejected)
    assert isinstance(refusals.error("b", 9, second), Rejected)
    later = refuse(refusals, "c", first + KEPT_S + 1, times=1)
    assert isinstance(refusals.error("c", 9, later), Rejected)


def test_texts_of_one_document_and_documents_with_one_text_count_once() -> None:
    refusals = Refusals()
    refuse(refusals, "footer", 0.0, "a", "b")
    for text in ("a", "b", "c"):
        refuse(refusals, text, 20.0, "footer")  # in other documents, too

    last = refuse(refusals, "elsewhere", 60.0)

    assert isinstance(refusals.error("elsewhere", 9, last), Rejected)
    assert isinstance(refusals.error("c", 9, last), Rejected)


@pytest.mark.parametrize(
    ("sizes", "wanted", "found"),
    [
        ([10, 100, 1000], 90, 100),
        ([10, 100, 1000], 100, 100),
        ([10, 190, 150], 90, 150),  # the nearest that is as long, of one order the latest
        ([10], 3, len(PROBE)),
    ],
)
def test_a_sample_is_as_long_and_not_twice_as_long(sizes: list[int], wanted: int, found: int) -> None:
    samples = Samples()
    for size in sizes:
        samples.embedded("x" * size)

    assert len(samples.like("y" * wanted)) == found


words = st.text(min_size=1, max_size=50).map(str.strip).filter(bool)


@given(text=st.text(min_size=4, max_size=300), known=st.lists(words, max_size=4))
def test_where_there_is_none_one_is_made_as_long_of_what_is_known(text: str, known: list[str]) -> None:
    samples = Samples()
    for each in known:
        samples.embedded(each)

    sample = samples.like(text)

    assert sample.strip()
    assert estimated(text) - 2 <= estimated(sample) <= 2 * estimated(text) + 2


def test_a_sample_that_is_refused_is_no_sample() -> None:
    samples = Samples()
    samples.embedded("x" * 40)

    samples.refused("x" * 40)

    assert "xx" not in samples.like("y" * 40)


def test_a_text_has_another_name_for_another_model() -> None:
    assert name_of("a", "1") == name_of("a", "1") != name_of("a", "2")


@given(st.text(), st.text())
def test_the_estimate_never_falls_as_a_text_grows(text: str, more: str) -> None:
    shorter, longer = EstimatedTokens(100).count([text, text + more])

    assert shorter <= longer


@given(st.text(max_size=300), st.integers(1, 100))
def test_a_beginning_is_the_longest_that_fits(text: str, limit: int) -> None:
    cut = beginning(text, limit)

    assert text.startswith(cut)
    assert estimated(cut) <= limit
    if cut != text:
        assert estimated(text[: len(cut) + 1]) > limit


@given(st.text(st.sampled_from("ab. \n。!é"), max_size=60).map(str.strip))  # as chunks are
def test_halves_are_the_whole_text_and_none_is_blank(text: str) -> None:
    parts = halves(text)

    if parts is None:
        assert len(text.split()) < 2
    else:
        assert "".join(parts) == text
        assert all(part.strip() for part in parts)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One sentence. Two of them. Three here.", "One sentence. "),
        ("No sentence ends in this", "No sentence "),
        ("これは文です。これも文です。", "これは文です。"),
        ("A. This long sentence has its only end at the start", "A. This long sentence has "),
        ("unbrokenword", "unbrok"),
    ],
)
def test_a_text_is_halved_where_it_hurts_least(text: str, first: str) -> None:
    parts = halves(text)

    assert parts is not None
    assert parts[0] == first


def test_one_character_has_no_halves() -> None:
    assert halves("x") is None
