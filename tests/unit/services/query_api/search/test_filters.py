import pytest

from services.query_api.http.problems import Problem
from services.query_api.search.filters import MOST_FIELDS, filter_of, filters_joined
from shared.store import Filter, Match


@pytest.mark.parametrize("nothing", [None, {}])
def test_no_filter_restricts_nothing(nothing: dict[str, object] | None) -> None:
    assert filter_of(nothing) == Filter()


@pytest.mark.parametrize(
    ("filters", "must"),
    [
        ({"source": "a"}, [Match("metadata.source", ("a",))]),
        ({"source": ["a", "b"]}, [Match("metadata.source", ("a", "b"))]),
        ({"tags": ["x", "y"]}, [Match("metadata.tags", ("x", "y"))]),
        ({"tagsAll": ["x", "y"]}, [Match("metadata.tags", ("x",)), Match("metadata.tags", ("y",))]),
        ({"documentIds": ["1"]}, [Match("metadata.documentId", ("1",))]),
        ({"author.name": "Ada"}, [Match("metadata.author.name", ("Ada",))]),
        ({"year": 2024, "draft": False}, [Match("metadata.year", (2024,)), Match("metadata.draft", (False,))]),
        ({"year": 2024.0}, [Match("metadata.year", (2024,))]),
        ({"größe": "L"}, [Match("metadata.größe", ("L",))]),
    ],
)
def test_every_field_is_one_condition_and_all_must_hold(filters: dict[str, object], must: list[Match]) -> None:
    assert filter_of(filters) == Filter(must=tuple(must))


@pytest.mark.parametrize("field", ["source", "tags", "tagsAll", "documentIds", "year"])
def test_an_empty_list_matches_nothing(field: str) -> None:
    (condition,) = filter_of({field: []}).must

    assert isinstance(condition, Match)
    assert condition.any_of == ()


@pytest.mark.parametrize("value", [{"$ne": "a"}, [{"$ne": "a"}], ["a", {"$ne": "b"}]])
def test_an_unknown_operator_is_refused_by_name(value: object) -> None:
    with pytest.raises(Problem, match=r"filters\.source: unknown filter operator '\$ne'") as refused:
        filter_of({"source": value})

    assert refused.value.status == 422


@pytest.mark.parametrize("value", [None, 1.5, [["a"]], 2**60, [None]])
def test_a_value_that_cannot_be_matched_is_refused_by_field(value: object) -> None:
    with pytest.raises(Problem, match=r"filters\.year") as refused:
        filter_of({"year": value})

    assert refused.value.status == 400


@pytest.mark.parametrize("key", ["", "a..b", 'a"b', "a[]", "a\\b", "x" * 300])
def test_a_key_the_store_would_read_as_syntax_is_refused(key: str) -> None:
    with pytest.raises(Problem, match="is not a field name"):
        filter_of({key: "v"})


def test_values_of_several_types_are_refused_because_true_and_1_are_alike() -> None:
    with pytest.raises(Problem, match="must all be strings"):
        filter_of({"year": [1, True]})


def test_the_tenant_is_no_filter() -> None:
    with pytest.raises(Problem, match="the tenant comes from the API key"):
        filter_of({"tenant": "other"})


def test_too_many_fields_are_refused() -> None:
    with pytest.raises(Problem, match=f"at most {MOST_FIELDS}"):
        filter_of({f"f{n}": "v" for n in range(MOST_FIELDS + 1)})


@pytest.mark.parametrize(
    "conditions", [[("year", "eq", {"gte": 1}), ("year", "lt", 9)], [("year", "lt", 9), ("year", "eq", 4)]]
)
def test_a_value_and_a_range_of_one_key_are_refused(conditions: list[tuple[str, str, object]]) -> None:
    with pytest.raises(Problem, match="restricts year twice"):
        filters_joined(conditions, "filters")
