"""Converts the port's values to the client's models, and back. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from qdrant_client import models

from shared.store import Condition, Filter, IndexKind, Leg, Match, Period, Point, Prefix, Present, Range, Scalar
from shared.store.input_validation import is_id, json_path

DENSE: Final = ""
SPARSE: Final = "bm25"


def schema(kind: IndexKind) -> models.PayloadSchemaType | models.KeywordIndexParams:
    """Return the payload index of this kind."""
    if kind == "tenant":
        return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    return models.PayloadSchemaType("keyword" if kind == "lookup" else kind)


def payload_selector(fields: Sequence[str] | None) -> bool | list[str]:
    """Return the payload keys that the server should send; all of them for None."""
    if fields is None:
        return True
    return [json_path(field) for field in fields] or False


def query_request(leg: Leg, where: Filter, limit: int, *, payload: bool = True) -> models.QueryRequest:
    """Return the query of one leg, with payloads unless told otherwise."""
    if leg.dense is not None:
        return models.QueryRequest(
            query=leg.dense.tolist(), filter=server_filter(where), limit=limit, with_payload=payload
        )
    assert leg.sparse is not None
    sparse = models.SparseVector(indices=leg.sparse.indices, values=leg.sparse.values)
    return models.QueryRequest(
        query=sparse, using=SPARSE, filter=server_filter(where), limit=limit, with_payload=payload
    )


def server_point(point: Point) -> models.PointStruct:
    """Return the point in the server's form."""
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    if point.sparse is not None:
        vectors[SPARSE] = models.SparseVector(indices=point.sparse.indices, values=point.sparse.values)
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)


def server_filter(where: Filter) -> models.Filter:
    """Return the filter, every field in Qdrant's path syntax. Raises ValueError for a field that is no path."""
    return models.Filter(
        must=[_condition(condition) for condition in where.must],
        must_not=[_condition(condition) for condition in where.must_not],
    )


def _condition(condition: Condition) -> models.Condition:
    match condition:
        case Match():
            return _match(condition.field, condition.any_of)
        case Range():
            bounds = models.Range(gt=condition.gt, gte=condition.gte, lt=condition.lt, lte=condition.lte)
            return models.FieldCondition(key=json_path(condition.field), range=bounds)
        case Period(gt=gt, gte=gte, lt=lt, lte=lte):
            times = models.DatetimeRange.model_validate({"gt": gt, "gte": gte, "lt": lt, "lte": lte})
            return models.FieldCondition(key=json_path(condition.field), range=times)
        case Prefix():
            return models.FieldCondition(
                key=json_path(condition.field), match=models.MatchPrefix(prefix=condition.prefix)
            )
        case Present():
            return models.FieldCondition(key=json_path(condition.field), is_empty=False)
        case _:
            return models.HasIdCondition(has_id=[identifier for identifier in condition.ids if is_id(identifier)])


def _match(field: str, any_of: Sequence[Scalar]) -> models.Condition:
    """Return a plain match for one value, else a disjunction: `any` accepts values of one kind only, and no bool."""
    key = json_path(field)
    if len(any_of) == 1:
        return models.FieldCondition(key=key, match=models.MatchValue(value=any_of[0]))
    flags = [value for value in any_of if isinstance(value, bool)]
    texts = [value for value in any_of if isinstance(value, str)]
    numbers = [value for value in any_of if not isinstance(value, str | bool)]
    conditions: list[models.Condition] = [
        models.FieldCondition(key=key, match=models.MatchValue(value=flag)) for flag in flags
    ]
    conditions += [
        models.FieldCondition(key=key, match=models.MatchAny(any=values)) for values in (texts, numbers) if values
    ]
    return models.Filter(should=conditions) if conditions else models.HasIdCondition(has_id=[])
