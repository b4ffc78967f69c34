from typing import Any, cast

import numpy as np
import pytest
from qdrant_client import models

from shared.store import Filter, Leg, Match, Point, Present, Sparse, stored_point
from shared.store.qdrant.translate import payload_selector, query_request, server_filter, server_point

ID = "0f8fad5b-d9cb-569f-a165-70867728950e"


def test_a_point_survives_the_way_there_and_back() -> None:
    point = Point(id=ID, payload={"a": 1}, dense=np.array([1, 0], np.float32), sparse=Sparse([3], [0.5]))
    sent = server_point(point)

    back = stored_point(models.Record(id=ID, payload=sent.payload, vector=cast("Any", sent.vector)))

    assert (back.id, back.payload, back.sparse) == (ID, {"a": 1}, Sparse([3], [0.5]))
    assert back.dense is not None
    assert back.dense.tolist() == [1, 0]


def test_a_match_of_mixed_kinds_is_a_disjunction_and_of_nothing_matches_nothing() -> None:
    [mixed] = server_filter(Filter(must=(Match("a", (True, "x", 1)),))).must  # type: ignore[misc]
    [nothing] = server_filter(Filter(must=(Match("a", ()),))).must  # type: ignore[misc]

    assert len(mixed.should) == 3  # type: ignore[union-attr, arg-type]
    assert nothing == models.HasIdCondition(has_id=[])


def test_a_field_is_quoted_as_a_path() -> None:
    [present] = server_filter(Filter(must=(Present("metadata.tags"),))).must  # type: ignore[misc]

    assert isinstance(present, models.FieldCondition)
    assert present.is_empty is False
    with pytest.raises(ValueError, match="field"):
        server_filter(Filter(must=(Present(""),)))


def test_fields_are_sent_for_all_none_or_some() -> None:
    assert payload_selector(None) is True
    assert payload_selector([]) is False
    assert isinstance(payload_selector(["a"]), list)


def test_a_leg_asks_the_vector_it_has() -> None:
    everything = Filter()

    assert query_request(Leg(dense=np.array([1, 0], np.float32)), everything, 5).using is None
    assert query_request(Leg(sparse=Sparse([3], [0.5])), everything, 5).using == "bm25"
