import string
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.query_api.search.candidates import NO_WEIGHTS, Candidate, LegRank, fuse, fused_scores

Leg = list[tuple[str, float]]
APART: Mapping[str, tuple[str, int]] = {}

scores = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
ids = st.text(string.ascii_lowercase, min_size=1, max_size=2)


@st.composite
def legs(draw: st.DrawFn) -> Leg:
    hits = draw(st.dictionaries(ids, scores, max_size=30))
    return sorted(hits.items(), key=lambda hit: -hit[1])


def candidates(legs: Mapping[str, Leg], chunks: Mapping[str, tuple[str, int]] = APART) -> list[Candidate]:
    """Return the hits of the legs; `chunks` are their documents and positions, by id."""
    found: dict[str, Candidate] = {}
    for name, hits in legs.items():
        for rank, (id_, score) in enumerate(hits, 1):
            document, order = chunks.get(id_, (id_, 0))
            candidate = found.setdefault(id_, Candidate("", (), id_, document, order))
            candidate.ranks[name] = LegRank(rank, score)
    return list(found.values())


def order(
    legs: Mapping[str, Leg],
    weights: Mapping[str, float] = NO_WEIGHTS,
    chunks: Mapping[str, tuple[str, int]] = APART,
) -> list[str]:
    return [each.id for each in fuse(candidates(legs, chunks), weights)]


def score(legs: Mapping[str, Leg]) -> dict[str, float]:
    found = candidates(legs)
    return dict(zip((each.id for each in found), fused_scores(found), strict=True))


@given(dense=legs(), sparse=legs())
def test_every_hit_comes_once_the_highest_score_first(dense: Leg, sparse: Leg) -> None:
    both = {"dense": dense, "sparse": sparse}
    scores = score(both)

    assert scores.keys() == dict(dense).keys() | dict(sparse).keys()
    assert order(both) == sorted(scores, key=lambda id_: (-scores[id_], id_))


@given(leg=legs())
def test_one_leg_alone_keeps_its_order(leg: Leg) -> None:
    own = dict(leg)

    scores = [own[id_] for id_ in order({"dense": leg, "sparse": []})]

    # Scores closer together than a float of their sum can tell apart may change places.
    spread = max(1e-9, max(map(abs, scores), default=0.0) * 1e-8)
    assert all(a >= b - spread for a, b in pairwise(scores))


@given(dense=legs(), sparse=legs(), data=st.data())
def test_the_order_of_the_legs_and_of_equal_hits_decides_nothing(dense: Leg, sparse: Leg, data: st.DataObject) -> None:
    shuffled = sorted(data.draw(st.permutations(dense)), key=lambda hit: -hit[1])

    once = {"dense": dense, "sparse": sparse}
    again = {"sparse": sparse, "dense": shuffled}

    assert order(once) == order(again)
    assert score(once) == pytest.approx(score(again))


def test_both_legs_count() -> None:
    dense = [("a", 0.9), ("b", 0.89), ("c", 0.1), ("d", 0.1)]
    sparse = [("b", 12.0), ("e", 11.9), ("c", 1.0), ("d", 1.0)]

    both = {"dense": dense, "sparse": sparse}

    assert order(both)[0] == "b"
    assert score(both)["e"] > 0.3


def test_scores_are_the_formulas() -> None:
    # mean 2, deviation 1: 3 is (3 - 2 + 3) / 6 of the way, 1 is (1 - 2 + 3) / 6.
    fused = score({"dense": [("a", 3.0), ("b", 1.0)], "sparse": [("b", 7.0)]})

    assert fused == pytest.approx({"a": 4 / 6 / 2, "b": (2 / 6 + 0.5) / 2})


def test_hits_that_are_both_far_ahead_keep_their_order() -> None:
    crowd = [(f"x{n:02}", 0.0) for n in range(60)]

    leg = {"sparse": [("far", 9.0), ("near", 8.0), *crowd]}

    assert order(leg)[:2] == ["far", "near"]
    assert score(leg)["far"] > 1


def test_equal_hits_go_by_their_id() -> None:
    assert order({"sparse": [("b", 1.0), ("a", 1.0)]}) == ["a", "b"]


def test_nothing_gives_nothing() -> None:
    assert order({}) == []
    assert order({"dense": [], "sparse": []}) == []


@given(dense=legs(), sparse=legs(), data=st.data())
def test_neighbours_change_the_order_only(dense: Leg, sparse: Leg, data: st.DataObject) -> None:
    both = {"dense": dense, "sparse": sparse}
    fused = order(both)
    numbers = data.draw(st.permutations(range(len(fused))))
    chunks = {id_: ("document", number) for id_, number in zip(fused, numbers, strict=True)}

    assert sorted(order(both, chunks=chunks)) == sorted(fused)
    assert order(both, chunks={id_: (id_, 0) for id_ in fused}) == fused  # each in a document of its own


def test_a_passage_goes_before_a_slightly_better_one_if_the_passages_beside_it_are_good_too() -> None:
    leg = [("lone", 0.60), ("one", 0.58), ("two", 0.56), ("far", 0.30)]
    chunks = {"lone": ("a", 7), "one": ("b", 3), "two": ("b", 5), "far": ("b", 8)}

    assert order({"dense": leg}, chunks=chunks) == ["one", "two", "lone", "far"]


def test_a_leg_counts_by_its_weight() -> None:
    legs = {"dense": [("a", 0.9), ("b", 0.1)], "sparse": [("b", 9.0), ("a", 7.0)]}

    assert order(legs, {"dense": 0.25}) == ["b", "a"]
    assert order(legs, {"sparse": 0.25}) == ["a", "b"]


@given(dense=legs(), sparse=legs())
def test_without_neighbours_the_order_is_that_of_chunks_apart(dense: Leg, sparse: Leg) -> None:
    both = {"dense": dense, "sparse": sparse}
    beside = candidates(both, {id_: ("document", at) for at, id_ in enumerate({**dict(dense), **dict(sparse)})})

    assert [each.id for each in fuse(beside, neighbours=False)] == order(both)
