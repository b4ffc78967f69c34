"""Collects the comparisons of other protocols into the filters of a search. Pure."""

from typing import Any, Final

from services.query_api.http.problems import invalid

OPERATORS: Final = frozenset({"eq", "in", "ne", "nin", "gt", "gte", "lt", "lte", "prefix"})


class FilterConditions:
    """Conditions joined by "and"."""

    def __init__(self, field: str) -> None:
        """Take the name of the request's field, for error messages."""
        self._field = field
        self._equal: dict[str, Any] = {}
        self._bounds: dict[str, dict[str, Any]] = {}
        self._unequal: dict[str, list[Any]] = {}

    def add(self, key: str, operator: str, value: Any) -> None:
        """Add a condition; `operator` is one of OPERATORS.

        Raises:
            Problem: 400, the value doesn't fit the operator, or the field is restricted twice.
        """
        if isinstance(value, list) != (operator in ("in", "nin")):
            raise invalid(self._field, f"{operator} takes {'a list' if operator in ('in', 'nin') else 'one value'}")
        if operator in ("ne", "nin"):
            self._unequal.setdefault(key, []).extend(value if isinstance(value, list) else [value])
        elif operator in ("eq", "in"):
            if key in self._equal or key in self._bounds:
                raise invalid(self._field, f"restricts {key} twice; send one list of values")
            self._equal[key] = value
        else:
            bounds = self._bounds.setdefault(key, {})
            if key in self._equal or operator in bounds:
                raise invalid(self._field, f"restricts {key} twice")
            bounds[operator] = value

    @property
    def filters(self) -> dict[str, Any]:
        """Return the filters."""
        unequal: dict[str, Any] = {"not": dict(self._unequal)} if self._unequal else {}
        return {**self._equal, **self._bounds, **unequal}
