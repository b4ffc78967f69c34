import string
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.query_api.search.fusion import fuse

Leg = list[tuple[str, float]]

scores = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
ids = st.text(string.ascii_lowercase, min_size=1, max_size=2)


@st.composite
def legs(draw: st.DrawFn) -> Leg:
    hits = draw(st.dictionaries(ids, scores, max_size=30))
    return sorted(hits.items(), key=lambda hit: -hit[1])


@given(dense=legs(), sparse=legs())
def test_every_hit_comes_once_with_a_score_between_0_and_1_best_first(dense: Leg, sparse: Leg) -> None:
    fused = fuse({"dense": dense, "sparse": sparse})

    assert sorted(each.id for each in fused) == sorted({id_ for id_, _ in dense} | {id_ for id_, _ in sparse})
    assert all(0.0 <= each.score <= 1.0 for each in fused)
    assert [each.score for each in fused] == sorted((each.score for each in fused), reverse=True)


@given(leg=legs())
def test_one_leg_alone_keeps_its_order(leg: Leg) -> None:
    own = dict(leg)

    order = [own[each.id] for each in fuse({"dense": leg, "sparse": []})]

    # Scores closer together than a float of their sum can tell apart may change places.
    spread = max(1e-9, max(map(abs, order), default=0.0) * 1e-8)
    assert all(a >= b - spread for a, b in pairwise(order))


@given(dense=legs(), sparse=legs(), data=st.data())
def test_the_order_of_the_legs_and_of_equal_hits_decides_nothing(dense: Leg, sparse: Leg, data: st.DataObject) -> None:
    shuffled = sorted(data.draw(st.permutations(dense)), key=lambda hit: -hit[1])

    once = fuse({"dense": dense, "sparse": sparse})
    again = fuse({"sparse": sparse, "dense": shuffled})

    assert [each.id for each in once] == [each.id for each in again]
    assert [each.score for each in once] == pytest.approx([each.score for each in again])


def test_both_legs_count() -> None:
    dense = [("a", 0.9), ("b", 0.89), ("c", 0.1), ("d", 0.1)]
    sparse = [("b", 12.0), ("e", 11.9), ("c", 1.0), ("d", 1.0)]

    fused = {each.id: each.score for each in fuse({"dense": dense, "sparse": sparse})}

    assert max(fused, key=lambda id_: fused[id_]) == "b"
    assert fused["a"] > {each.id: each.score for each in fuse({"dense": dense[1:], "sparse": sparse})}.get("a", 0.0)
    assert fused["e"] > 0.3


def test_scores_are_the_formulas() -> None:
    # mean 2, deviation 1: 3 is (3 - 2 + 3) / 6 of the way, 1 is (1 - 2 + 3) / 6.
    fused = fuse({"dense": [("a", 3.0), ("b", 1.0)], "sparse": [("b", 7.0)]})

    assert {each.id: each.score for each in fused} == pytest.approx({"a": 4 / 6 / 2, "b": (2 / 6 + 0.5) / 2})


def test_hits_that_are_both_far_ahead_keep_their_order() -> None:
    crowd = [(f"x{n:02}", 0.0) for n in range(60)]

    far, near = fuse({"sparse": [("far", 9.0), ("near", 8.0), *crowd]})[:2]

    assert (far.id, near.id) == ("far", "near")
    assert far.score == 1.0


def test_equal_hits_go_by_their_id() -> None:
    assert [each.id for each in fuse({"sparse": [("b", 1.0), ("a", 1.0)]})] == ["a", "b"]


def test_nothing_gives_nothing() -> None:
    assert fuse({}) == []
    assert fuse({"dense": [], "sparse": []}) == []


@given(dense=legs(), sparse=legs(), data=st.data())
def test_neighbours_change_the_order_only(dense: Leg, sparse: Leg, data: st.DataObject) -> None:
    both = {"dense": dense, "sparse": sparse}
    fused = fuse(both)
    numbers = data.draw(st.permutations(range(len(fused))))
    chunk_keys = {hit.id: ("document", number) for hit, number in zip(fused, numbers, strict=True)}

    assert sorted(fuse(both, chunk_keys=chunk_keys), key=fused.index) == fused
    assert fuse(both, chunk_keys={hit.id: (hit.id, 0) for hit in fused}) == fused  # each in a document of its own


def test_a_passage_goes_before_a_slightly_better_one_if_the_passages_beside_it_are_good_too() -> None:
    leg = [("lone", 0.60), ("one", 0.58), ("two", 0.50), ("far", 0.30)]
    chunk_keys = {"lone": ("a", 7), "one": ("b", 3), "two": ("b", 5), "far": ("b", 8)}

    assert [hit.id for hit in fuse({"dense": leg}, chunk_keys=chunk_keys)] == ["one", "two", "lone", "far"]
