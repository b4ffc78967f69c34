from typing import NamedTuple

import pytest

from services.query_api.search.gate import RelevanceGate, usable


class Hit(NamedTuple):
    score: float


HITS = [Hit(0.8), Hit(0.5), Hit(0.1)]


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
