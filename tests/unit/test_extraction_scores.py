from typing import Any

import pytest

from tests.bench.extraction import documents, passages, shingles

_TIDE = "It rose at noon and fell at night"


def test_phrases_and_outcomes_are_shares_of_files_and_what_falls_short_is_named() -> None:
    rows: list[dict[str, Any]] = [
        {"file": "a", "outcome": "text", "must_contain": ["the  *Ebb*", "the flow"]},
        {"file": "b", "outcome": "password"},
        {"file": "c", "outcome": "damaged"},
    ]
    found = {"a": ("ok", "The ebb | is low."), "b": ("damaged", ""), "c": ("timeout", "")}

    assert list(documents(rows, found)) == [
        "phrases 0.5000 of 1 files",
        "outcomes 0.3333 of 3 files",
        "a: without 'the flow'",
        "b: damaged, where password was meant",
        "c: timeout, where damaged was meant",
    ]


def test_main_text_is_scored_by_what_is_missing_and_what_is_too_much() -> None:
    rows = [{"file": "a", "text": _TIDE}]

    assert shingles(rows, {"a": ("ok", _TIDE)}) == 1.0
    assert shingles(rows, {"a": ("empty", "")}) == 0.0
    assert shingles(rows, {"a": ("ok", f"{_TIDE} of the day it is")}) == pytest.approx(2 / 3)


def test_passages_count_where_they_belong_and_where_they_do_not() -> None:
    rows = [{"file": "a", "with": ["It rose", "no such"], "without": ["at  night"]}]

    assert passages(rows, {"a": ("ok", _TIDE)}) == pytest.approx(2 / 4)
