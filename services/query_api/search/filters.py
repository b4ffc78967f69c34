"""What a search may be restricted to, turned into the store's conditions. Pure.

A missing field restricts nothing, an empty list matches nothing. Values are typed and compared for
equality; nothing a caller writes is ever read as an operator.
"""

import re
from collections.abc import Mapping
from typing import Any

from services.query_api.http.problems import Problem, invalid
from shared.store import Condition, Filter, Match, Scalar

MOST_FIELDS = 64
MOST_VALUES = 10_000
LONGEST_FIELD = 256  # characters
_NO_NAME = re.compile(r'["\[\]\\\x00-\x1f]')  # what stores read as path syntax, quoted or not
_ALIASES = {"documentIds": "documentId"}
_EXACT_INTEGER = 2**53  # beyond it the store compares neighbours as equal


def filter_of(filters: Mapping[str, Any] | None, name: str = "filters") -> Filter:
    """Return the filter of chunk points for `source`, `tags` (any of), `tagsAll`, `documentIds`, and metadata.

    Raises:
        Problem: 400 names the field whose value can't be matched; 422 names an unknown operator.
    """
    if not filters:
        return Filter()
    if len(filters) > MOST_FIELDS:
        raise invalid(name, f"has {len(filters)} fields, at most {MOST_FIELDS} are possible")
    must: list[Condition] = []
    for key, value in filters.items():
        field = f"{name}.{key}"
        if key == "tenant":
            raise invalid(field, "the tenant comes from the API key")
        values = _values(field, value)
        if key == "tagsAll" and values:
            must.extend(Match("metadata.tags", (tag,)) for tag in values)
        elif key == "tagsAll":
            must.append(Match("metadata.tags", ()))
        else:
            must.append(Match(_path(field, _ALIASES.get(key, key)), values))
    return Filter(must=tuple(must))


def _values(field: str, value: Any) -> tuple[Scalar, ...]:
    given = value if isinstance(value, list) else [value]
    if len(given) > MOST_VALUES:
        raise invalid(field, f"has {len(given)} values, at most {MOST_VALUES} are possible")
    values = tuple(_scalar(field, each) for each in given)
    if len({type(each) for each in values}) > 1:
        raise invalid(field, "its values must all be strings, all integers, or all booleans")
    return values


def _scalar(field: str, value: Any) -> Scalar:
    if isinstance(value, dict):
        operator = next(iter(value), "{}")
        raise Problem(
            422,
            f"{field}: unknown filter operator {operator!r}; a value or a list of values is expected",
            code="UNKNOWN_OPERATOR",
            details={"field": field, "operator": operator},
        )
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int) or (not isinstance(value, str) and abs(value) > _EXACT_INTEGER):
        shown = "null" if value is None else repr(value)
        raise invalid(field, f"{shown[:80]} can't be matched; strings, integers up to 2^53 and booleans can")
    return value


def _path(field: str, key: str) -> str:
    if len(key) > LONGEST_FIELD or not all(key.split(".")) or _NO_NAME.search(key):
        raise invalid(field, "is no field name")
    return f"metadata.{key}"
