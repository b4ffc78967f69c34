import string
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.query_api.search.fusion import fuse, fused_scores

Leg = list[tuple[str, float]]

scores = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
ids = st.text(string.ascii_lowercase, min_size=1, max_size=2)


@st.composite
def legs(draw: st.DrawFn) -> Leg:
    hits = draw(st.dictionaries(ids, scores, max_size=30))
    return sorted(hits.items(), key=lambda hit: -hit[1])


@given(dense=legs(), sparse=legs())
def test_every_hit_comes_once_the_highest_score_first(dense: Leg, sparse: Leg) -> None:
    both = {"dense": dense, "sparse": sparse}
    scores = fused_scores(both)

    assert scores.keys() == dict(dense).keys() | dict(sparse).keys()
    assert fuse(both) == sorted(scores, key=lambda id_: (-scores[id_], id_))


@given(leg=legs())
def test_one_leg_alone_keeps_its_order(leg: Leg) -> None:
    own = dict(leg)

    order = [own[id_] for id_ in fuse({"dense": leg, "sparse": []})]

    # Scores closer together than a float of their sum can tell apart may change places.
    spread = max(1e-9, max(map(abs, order), default=0.0) * 1e-8)
    assert all(a >= b - spread for a, b in pairwise(order))


@given(dense=legs(), sparse=legs(), data=st.data())
def test_the_order_of_the_legs_and_of_equal_hits_decides_nothing(dense: Leg, sparse: Leg, data: st.DataObject) -> None:
    shuffled = sorted(data.draw(st.permutations(dense)), key=lambda hit: -hit[1])

    once = {"dense": dense, "sparse": sparse}
    again = {"sparse": sparse, "dense": shuffled}

    assert fuse(once) == fuse(again)
    assert fused_scores(once) == pytest.approx(fused_scores(again))


def test_both_legs_count() -> None:
    dense = [("a", 0.9), ("b", 0.89), ("c", 0.1), ("d", 0.1)]
    sparse = [("b", 12.0), ("e", 11.9), ("c", 1.0), ("d", 1.0)]

    both = {"dense": dense, "sparse": sparse}

    assert fuse(both)[0] == "b"
    assert fused_scores(both)["e"] > 0.3


def test_scores_are_the_formulas() -> None:
    # mean 2, deviation 1: 3 is (3 - 2 + 3) / 6 of the way, 1 is (1 - 2 + 3) / 6.
    fused = fused_scores({"dense": [("a", 3.0), ("b", 1.0)], "sparse": [("b", 7.0)]})

    assert fused == pytest.approx({"a": 4 / 6 / 2, "b": (2 / 6 + 0.5) / 2})


def test_hits_that_are_both_far_ahead_keep_their_order() -> None:
    crowd = [(f"x{n:02}", 0.0) for n in range(60)]

    leg = {"sparse": [("far", 9.0), ("near", 8.0), *crowd]}

    assert fuse(leg)[:2] == ["far", "near"]
    assert fused_scores(leg)["far"] > 1


def test_equal_hits_go_by_their_id() -> None:
    assert fuse({"sparse": [("b", 1.0), ("a", 1.0)]}) == ["a", "b"]


def test_nothing_gives_nothing() -> None:
    assert fuse({}) == []
    assert fuse({"dense": [], "sparse": []}) == []


@given(dense=legs(), sparse=legs(), data=st.data())
def test_neighbours_change_the_order_only(dense: Leg, sparse: Leg, data: st.DataObject) -> None:
    both = {"dense": dense, "sparse": sparse}
    fused = fuse(both)
    numbers = data.draw(st.permutations(range(len(fused))))
    chunk_keys = {id_: ("document", number) for id_, number in zip(fused, numbers, strict=True)}

    assert sorted(fuse(both, chunk_keys=chunk_keys)) == sorted(fused)
    assert fuse(both, chunk_keys={id_: (id_, 0) for id_ in fused}) == fused  # each in a document of its own


def test_a_passage_goes_before_a_slightly_better_one_if_the_passages_beside_it_are_good_too() -> None:
    leg = [("lone", 0.60), ("one", 0.58), ("two", 0.50), ("far", 0.30)]
    chunk_keys = {"lone": ("a", 7), "one": ("b", 3), "two": ("b", 5), "far": ("b", 8)}

    assert fuse({"dense": leg}, chunk_keys=chunk_keys) == ["one", "two", "lone", "far"]
