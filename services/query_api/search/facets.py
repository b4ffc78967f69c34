"""Counts documents by the values of their fields, for faceted search. docs/search.md.

Only versions that answer are counted (docs/correctness.md, section 4). Counts of `source` and `tags` come from the
heads' indexes; other fields are read from the first matching passage of each document. docs/adr/0022-search-options.md
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from services.query_api.http.problems import invalid
from services.query_api.search.filters import filter_of
from services.query_api.search.results import PRIVATE
from shared.state.index import Index
from shared.store import Filter, Match, Scalar

MOST_FACETS: Final = 8  # fields per request
MOST_SHOWN: Final = 100  # values of a field; rarer ones are left out
MOST_READ: Final = 50_000  # passages read for one request
_LONGEST_VALUE: Final = 256  # characters; longer texts aren't counted
_PAGE: Final = 2_000
_SOURCE: Final = "metadata.source"
_HEAD_FIELDS: Final = frozenset({"source", "tags"})  # fields of heads that have an index
# Fields that are equal in all passages of a document, so that its first passage is enough.
_DOCUMENT_FIELDS: Final = frozenset(
    f"metadata.{name}"
    for name in (
        "source",
        "path",
        "title",
        "url",
        "originalFilename",
        "documentId",
        "documentType",
        "sourceType",
        "createdAt",
        "updatedAt",
    )
)
_ALIASES: Final = {"type": "documentType"}  # by alias: the field


class FacetValue(msgspec.Struct, frozen=True):
    """A value of a field, as a filter takes it, and the number of documents that have it."""

    value: str | float | bool
    documents: int


FacetValues = dict[str, list[FacetValue]]


async def facet_values(
    index: Index, tenant: str, fields: Mapping[str, str], where: Filter
) -> tuple[FacetValues, list[str]]:
    """Return the values of each of the `fields_of` among the tenant's documents with a matching passage, and warnings.

    Raises:
        Unavailable: the store is away.
    """
    if fields.keys() <= _HEAD_FIELDS and (heads := _on_heads(where)) is not None:
        counted = await asyncio.gather(*(index.head_values(tenant, name, heads) for name in fields))
        return {
            name: _ordered(FacetValue(value, count) for value, count in counts.items())
            for name, counts in zip(fields, counted, strict=True)
        }, []
    # Types are part of the key, because True equals 1 in Python and differs in a filter.
    counts: dict[str, Counter[tuple[type, Scalar | float]]] = {name: Counter() for name in fields}
    seen = set[str]()  # documents: each counts once
    conditions = (*where.must, *where.must_not)
    firsts = all(isinstance(each, Match) and each.field in _DOCUMENT_FIELDS for each in conditions)
    paths, after = tuple(fields.values()), None
    warnings = [f"facets: only the first {MOST_READ} matching passages were counted"]
    for _ in range(0, MOST_READ, _PAGE):
        page, after = await index.metadata_page(tenant, where, fields=paths, firsts=firsts, after=after, limit=_PAGE)
        for document_id, metadata in page:
            if document_id not in seen:
                seen.add(document_id)
                for name, path in fields.items():
                    counts[name].update({(type(value), value) for value in _values(metadata, path.split("."))})
        if after is None:
            warnings = []
            break
    return {
        name: _ordered(FacetValue(value, count) for (_, value), count in found.items())
        for name, found in counts.items()
    }, warnings


def fields_of(names: Sequence[str], at: str = "facets") -> dict[str, str]:
    """Return the path in the metadata by field name. `at` is the request's field, for errors.

    Raises:
        Problem: 400, a name is not a field's name, or there are too many.
    """
    fields = {name: _ALIASES.get(name, name) for name in names}
    if len(fields) > MOST_FACETS:
        raise invalid(at, f"has {len(fields)} fields, but at most {MOST_FACETS} are allowed")
    for name, path in fields.items():
        if path in PRIVATE:
            raise invalid(at, f"{name!r} can't be counted")
        filter_of({path: ""}, at)  # checks the name
    return fields


def _on_heads(where: Filter) -> Filter | None:
    """Return the same filter on heads, None if heads lack its fields. Tags don't count: a passage may have its own."""
    must, must_not = (
        tuple(Match("source", each.any_of) for each in part if isinstance(each, Match) and each.field == _SOURCE)
        for part in (where.must, where.must_not)
    )
    whole = len(must) + len(must_not) == len(where.must) + len(where.must_not)
    return Filter(must=must, must_not=must_not) if whole else None


def _values(metadata: Mapping[str, Any], path: Sequence[str]) -> list[Scalar | float]:
    value: Any = metadata
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    found = value if isinstance(value, list) else [value]
    return [
        each
        for each in found
        if isinstance(each, int | float) or (isinstance(each, str) and 0 < len(each) <= _LONGEST_VALUE)
    ]


def _ordered(values: Iterable[FacetValue]) -> list[FacetValue]:
    return sorted(values, key=lambda each: (-each.documents, str(each.value)))[:MOST_SHOWN]
