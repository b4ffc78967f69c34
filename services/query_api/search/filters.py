"""Translates the filters of a search into conditions of the store. Pure. See docs/search.md.

A missing field restricts nothing; an empty list matches nothing. A value or a list of values is compared for equality,
by type. An object contains operators: `gt`, `gte`, `lt`, `lte` for numbers and times, `prefix` for texts. None of the
filters in `not` may match.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from services.query_api.http.problems import Problem, invalid
from shared.ids import composed
from shared.store import Condition, Filter, Match, Period, Prefix, Range, Scalar

MOST_FIELDS = 64
MOST_VALUES = 10_000
LONGEST_FIELD = 256  # characters
LONGEST_PREFIX = 4_096  # characters
_NO_NAME = re.compile(r'["\[\]\\\x00-\x1f]')  # characters that stores parse as path syntax, even within quotes
_NAMES = frozenset({"source", "path", "pathPrefix", "tags", "tagsAll", "title", "originalFilename"})  # stored in NFC
# Those that everybody has; any other name is of the caller's own metadata.
FIELDS: Final = _NAMES | {
    "documentIds",
    "documentType",
    "sourceType",
    "chunkType",
    "language",
    "createdAt",
    "updatedAt",
    "url",
}
_ALIASES = {"documentIds": "documentId", "pathPrefix": "path"}
_BOUNDS = frozenset({"gt", "gte", "lt", "lte"})
_OPERATORS = "gt, gte, lt, lte and prefix"
_EXACT_INTEGER = 2**53  # above it, the store treats neighbouring integers as equal


def filter_of(filters: Mapping[str, Any] | None, name: str = "filters") -> Filter:
    """Return the filter on chunk points.

    Fields are `source`, `path`, `pathPrefix`, `tags` (any of), `tagsAll`, `documentIds`, `not`, any other field of a
    hit's metadata, and the caller's own metadata.

    Raises:
        Problem: 400 names a field whose value can't be matched; 422 names an unknown operator.
    """
    if not filters:
        return Filter()
    if len(filters) > MOST_FIELDS:
        raise invalid(name, f"has {len(filters)} fields, but at most {MOST_FIELDS} are allowed")
    must: list[Condition] = []
    must_not: tuple[Condition, ...] = ()
    for key, value in filters.items():
        field = f"{name}.{key}"
        if key == "not":
            must_not = _excluded(field, value)
        else:
            must += _conditions(field, key, value)
    return Filter(must=tuple(must), must_not=must_not)


def unknown_operator(field: str, operator: str, what: str) -> Problem:
    """Return the 422 that names the field and its operator."""
    details = {"field": field, "operator": operator}
    return Problem(422, f"{field}: {what}", code="UNKNOWN_OPERATOR", details=details)


def _excluded(field: str, value: Any) -> tuple[Condition, ...]:
    if not isinstance(value, dict):
        raise invalid(field, "must be an object of filters")
    if inner := sorted(value.keys() & {"not", "tagsAll"}):
        raise invalid(f"{field}.{inner[0]}", "is not allowed within not")
    return filter_of(value, field).must


def _conditions(field: str, key: str, value: Any) -> list[Condition]:
    if key == "tenant":
        raise invalid(field, "the tenant comes from the API key")
    path = _path(field, _ALIASES.get(key, key))
    if key in _NAMES:
        value = _composed(value)
    if key == "pathPrefix":
        return [_prefix(field, path, value)]
    if isinstance(value, dict):
        return _operated(field, path, value)
    values = _values(field, value)
    if key == "tagsAll":
        return [Match("metadata.tags", (tag,)) for tag in values] or [Match("metadata.tags", ())]
    return [Match(path, values)]


def _composed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _composed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_composed(each) for each in value]
    return composed(value) if isinstance(value, str) else value


def _operated(field: str, path: str, operators: Mapping[str, Any]) -> list[Condition]:
    """Return the conditions of an object such as `{"gte": 2020}`."""
    unknown = next(
        (name for name in operators if name not in _BOUNDS and name != "prefix"), None if operators else "{}"
    )
    if unknown is not None:
        possible = f"; a value, a list of values, or the operators {_OPERATORS} are possible"
        raise unknown_operator(field, unknown, f"unknown filter operator {unknown!r}{possible}")
    found: list[Condition] = []
    if "prefix" in operators:
        found.append(_prefix(f"{field}.prefix", path, operators["prefix"]))
    bounds = {name: value for name, value in operators.items() if name in _BOUNDS}
    if bounds and all(isinstance(value, str) for value in bounds.values()):
        found.append(Period(path, **{name: _time(f"{field}.{name}", value) for name, value in bounds.items()}))
    elif bounds:
        found.append(Range(path, **{name: _number(f"{field}.{name}", value) for name, value in bounds.items()}))
    return found


def _prefix(field: str, path: str, value: Any) -> Prefix:
    if not isinstance(value, str) or not value or len(value) > LONGEST_PREFIX:
        raise invalid(field, f"must be a text of 1 to {LONGEST_PREFIX} characters")
    return Prefix(path, value)


def _time(field: str, value: str) -> str:
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise invalid(field, f"{value[:80]!r} is not a time; write 2026-05-01 or 2026-05-01T10:00:00Z") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()


def _number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _EXACT_INTEGER:
        raise invalid(field, f"{_shown(value)} is not a bound; bounds must be all numbers up to 2^53, or all times")
    return value


def _values(field: str, value: Any) -> tuple[Scalar, ...]:
    given = value if isinstance(value, list) else [value]
    if len(given) > MOST_VALUES:
        raise invalid(field, f"has {len(given)} values, but at most {MOST_VALUES} are allowed")
    values = tuple(_scalar(field, each) for each in given)
    if len({type(each) for each in values}) > 1:
        raise invalid(field, "its values must all be strings, all integers, or all booleans")
    return values


def _scalar(field: str, value: Any) -> Scalar:
    if isinstance(value, dict):
        operator = next(iter(value), "{}")
        raise unknown_operator(field, operator, f"unknown filter operator {operator!r} within a list of values")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int) or (not isinstance(value, str) and abs(value) > _EXACT_INTEGER):
        raise invalid(field, f"{_shown(value)} can't be matched; strings, integers up to 2^53 and booleans can")
    return value


def _shown(value: Any) -> str:
    return "null" if value is None else repr(value)[:80]


def _path(field: str, key: str) -> str:
    if len(key) > LONGEST_FIELD or not all(key.split(".")) or _NO_NAME.search(key):
        raise invalid(field, "is not a field name")
    return f"metadata.{key}"


OPERATORS: Final = frozenset({"eq", "in", "ne", "nin", "gt", "gte", "lt", "lte", "prefix"})


def filters_joined(conditions: Iterable[tuple[str, str, Any]], field: str) -> dict[str, Any]:
    """Return conditions joined by "and" as filters. Each is a key, one of OPERATORS, and a value; `field` is theirs.

    Raises:
        Problem: 400, a value doesn't fit its operator, or a key is restricted twice.
    """
    found: dict[str, Any] = {}
    ranges: dict[str, dict[str, Any]] = {}
    unequal: dict[str, list[Any]] = {}
    for key, operator, value in conditions:
        several = operator in ("in", "nin")
        if isinstance(value, list) != several:
            raise invalid(field, f"{operator} takes {'a list' if several else 'one value'}")
        if operator in ("ne", "nin"):
            unequal.setdefault(key, []).extend(value if several else [value])
        elif operator in ("eq", "in"):
            if key in found or key in ranges:
                raise invalid(field, f"restricts {key} twice; send one list of values")
            found[key] = value
        else:
            bounds = ranges.setdefault(key, {})
            if key in found or operator in bounds:
                raise invalid(field, f"restricts {key} twice")
            bounds[operator] = value
    return found | ranges | ({"not": unequal} if unequal else {})
