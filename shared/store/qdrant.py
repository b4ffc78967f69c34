"""`Store` on a Qdrant server. Pin server and client to one minor version: we don't let the client ask."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]  # it publishes no types
import numpy as np
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from shared.errors import Unavailable
from shared.settings import ConfigurationError
from shared.store import (
    EVERYTHING,
    Condition,
    Filter,
    Heads,
    Hit,
    IndexKind,
    Leg,
    Match,
    Page,
    Payload,
    Point,
    Range,
    Scalar,
    Sparse,
)
from shared.store.checks import (
    check_legs,
    check_limit,
    check_name,
    check_narrow,
    check_payload,
    check_points,
    is_id,
    json_path,
    value_at,
)

T = TypeVar("T")
DENSE, SPARSE = "", "bm25"
_SLICE = 64  # points in one request
_READ_SLICE = 256
_SPARE = 16  # hits asked for beyond the limit, so that a few stale ones cost no second round
_WIDER = 4
_REFUSED = frozenset({400, 409, 413, 422})


class QdrantStore:
    """The store of a server, its collections told apart by `prefix`. See `shared.store.Store` for the methods."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        prefix: str = "",
        *,
        timeout_s: int = 60,
        client: AsyncQdrantClient | None = None,
    ) -> None:
        """Prepare; nothing is reached yet. `client` stands in for the one made from the other arguments."""
        self._url = url
        self._prefix = prefix
        self._client = client or AsyncQdrantClient(
            url=url, api_key=api_key, timeout=timeout_s, check_compatibility=False
        )
        self._sizes: dict[str, int | None] = {}

    async def start(self) -> None:
        await self.collections()

    async def close(self) -> None:
        await self._client.close()

    async def create_collection(
        self, name: str, *, size: int | None, sparse: bool, indexes: Mapping[str, IndexKind]
    ) -> None:
        full = self._full(name)
        if not await self._ask(self._client.collection_exists(full)):
            try:
                await self._client.create_collection(
                    full,
                    vectors_config={}
                    if size is None
                    else models.VectorParams(size=size, distance=models.Distance.COSINE),
                    sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)}
                    if sparse
                    else None,
                )
            except Exception as error:
                if _status(error) != 409:  # somebody else made it just now
                    raise self._mapped(error) from error
        self._sizes.pop(name, None)
        found = await self._size(name)
        if found != size:
            raise ConfigurationError(f"SLUICE_STORE: collection {name!r} has dense vectors of {found}, not {size}")
        there = (await self._ask(self._client.get_collection(full))).payload_schema
        for field, kind in indexes.items():
            if json_path(field) not in there:
                await self._ask(self._client.create_payload_index(full, json_path(field), _schema(kind), wait=True))

    async def drop_collection(self, name: str) -> None:
        await self._ask(self._client.delete_collection(self._full(name)))
        self._sizes.pop(name, None)

    async def collections(self) -> list[str]:
        found = await self._ask(self._client.get_collections())
        names = (collection.name for collection in found.collections)
        return sorted(name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix))

    async def upsert(self, name: str, points: Sequence[Point], *, only_if: Filter | None = None) -> None:
        await self._write(name, points, update_filter=None if only_if is None else _filter(only_if))

    async def insert(self, name: str, points: Sequence[Point]) -> None:
        await self._write(name, points, update_mode=models.UpdateMode.INSERT_ONLY)

    async def _write(self, name: str, points: Sequence[Point], **options: Any) -> None:
        full = self._full(name)
        check_points(points)
        size = await self._size(name)
        for point in points:
            if point.dense is not None and len(point.dense) != size:
                raise ValueError(
                    f"point {point.id} has a dense vector of {len(point.dense)}; collection {name!r} has {size}"
                )
        for at in range(0, len(points), _SLICE):
            some = [_server_point(point) for point in points[at : at + _SLICE]]
            await self._ask(self._client.upsert(full, some, wait=True, **options))

    async def set_payload(self, name: str, payload: Payload, where: Filter) -> None:
        check_payload(payload, f"payload for {name}")
        await self._ask(self._client.set_payload(self._full(name), payload, _filter(where), wait=True))

    async def retrieve(self, name: str, ids: Sequence[str], *, vectors: bool = False) -> list[Point]:
        return await self._retrieve(name, ids, payload=True, vectors=vectors)

    async def _retrieve(
        self, name: str, ids: Sequence[str], *, payload: bool | list[str], vectors: bool = False
    ) -> list[Point]:
        full = self._full(name)
        wanted = list(dict.fromkeys(identifier for identifier in ids if is_id(identifier)))
        found: list[Point] = []
        for at in range(0, len(wanted), _READ_SLICE):
            some = wanted[at : at + _READ_SLICE]
            records = await self._ask(self._client.retrieve(full, some, with_payload=payload, with_vectors=vectors))
            found += [_point(record) for record in records]
        return found

    async def scroll(
        self,
        name: str,
        where: Filter = EVERYTHING,
        *,
        limit: int = 256,
        after: str | None = None,
        vectors: bool = False,
        fields: Sequence[str] | None = None,
    ) -> Page:
        if after is not None and not is_id(after):
            raise ValueError(f"after={after!r} is not what an earlier page gave")
        records, following = await self._ask(
            self._client.scroll(
                self._full(name),
                _filter(where),
                limit=check_limit(limit),
                offset=after,
                with_payload=_only(fields),
                with_vectors=vectors,
            )
        )
        return Page([_point(record) for record in records], None if following is None else str(following))

    async def ordered(
        self,
        name: str,
        where: Filter,
        *,
        by: str,
        descending: bool = False,
        limit: int = 256,
        start: int | None = None,
    ) -> list[Point]:
        direction = models.Direction.DESC if descending else models.Direction.ASC
        records, _ = await self._ask(
            self._client.scroll(
                self._full(name),
                _filter(where),
                limit=check_limit(limit),
                order_by=models.OrderBy(key=json_path(by), direction=direction, start_from=start),
            )
        )
        return [_point(record) for record in records]

    async def count(self, name: str, where: Filter = EVERYTHING) -> int:
        result = await self._ask(self._client.count(self._full(name), _filter(where), exact=True))
        return result.count

    async def facet(self, name: str, field: str, where: Filter = EVERYTHING, *, limit: int = 1000) -> dict[str, int]:
        result = await self._ask(
            self._client.facet(self._full(name), json_path(field), _filter(where), limit=check_limit(limit), exact=True)
        )
        return {str(hit.value): hit.count for hit in result.hits}

    async def delete(self, name: str, where: Filter) -> None:
        selector = models.FilterSelector(filter=_filter(check_narrow(where)))
        await self._ask(self._client.delete(self._full(name), selector, wait=True))

    async def search(
        self, name: str, legs: Sequence[Leg], where: Filter, *, limit: int, heads: Heads
    ) -> list[list[Hit]]:
        check_legs(legs)
        full, asked = self._full(name), check_limit(limit) + _SPARE
        size = await self._size(name)
        for leg in legs:
            if leg.dense is not None and len(leg.dense) != size:
                raise ValueError(f"the leg has a dense vector of {len(leg.dense)}; collection {name!r} has {size}")
        hits: list[list[Hit]] = [[] for _ in legs]
        short = [number for number, leg in enumerate(legs) if leg.sparse is None or leg.sparse.indices]
        while short:
            requests = [_query(legs[number], where, asked) for number in short]
            answers = await self._ask(self._client.query_batch_points(full, requests))
            found = {number: answer.points for number, answer in zip(short, answers, strict=True)}
            current = await self._current(heads, {_document(point, heads) for some in found.values() for point in some})
            for number, points in found.items():
                kept = [p for p in points if current.get(_document(p, heads), -1) == _version(p, heads)]
                hits[number] = [Hit(str(p.id), p.score, p.payload or {}) for p in kept[:limit]]
            short = [number for number in short if len(hits[number]) < limit and len(found[number]) == asked]
            asked *= _WIDER
        return hits

    async def flush(self) -> None:
        """Nothing is left to do: every write waited for the server."""

    async def _current(self, heads: Heads, documents: set[str]) -> dict[str, int]:
        """Return the current version of each document that has one, read now: heads move while we search."""
        points = await self._retrieve(heads.collection, sorted(documents), payload=["version", "deleted"])
        return {
            point.id: point.payload["version"]
            for point in points
            if isinstance(point.payload.get("version"), int) and point.payload.get("deleted") is not True
        }

    async def _size(self, name: str) -> int | None:
        if name not in self._sizes:
            info = await self._ask(self._client.get_collection(self._full(name)))
            vectors = info.config.params.vectors
            self._sizes[name] = vectors.size if isinstance(vectors, models.VectorParams) else None
        return self._sizes[name]

    def _full(self, name: str) -> str:
        return self._prefix + check_name(name)

    async def _ask(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except (ApiException, QdrantException, grpc.aio.AioRpcError) as error:
            raise self._mapped(error) from error

    def _mapped(self, error: Exception) -> Exception:
        """Return our error for one of the client's two families, REST and gRPC; another one is left as it is."""
        status, text = _status(error), _text(error)
        if status == 404:
            return Unavailable(f"the store at {self._url} has no such collection: {text}", "no_collection")
        if status in _REFUSED:
            return ValueError(f"the store at {self._url} refused the request: {text}")
        if isinstance(error, (ApiException, QdrantException, grpc.aio.AioRpcError)):
            return Unavailable(f"the store at {self._url} can't answer: {text}")
        return error


def _status(error: Exception) -> int | None:
    """Return the HTTP status, or the one that gRPC's code stands for."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code
    if isinstance(error, grpc.aio.AioRpcError):
        codes = {
            grpc.StatusCode.INVALID_ARGUMENT: 400,
            grpc.StatusCode.NOT_FOUND: 404,
            grpc.StatusCode.ALREADY_EXISTS: 409,
        }
        return codes.get(error.code())
    return None


def _text(error: Exception) -> str:
    if isinstance(error, UnexpectedResponse):
        return f"{error.status_code} {error.content.decode(errors='replace')[:500]}"
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name} {error.details()}"
    return str(error) or type(error).__name__


def _document(point: models.ScoredPoint, heads: Heads) -> str:
    return str(value_at(point.payload or {}, heads.document.split(".")))


def _version(point: models.ScoredPoint, heads: Heads) -> Any:
    return value_at(point.payload or {}, heads.version.split("."))


def _schema(kind: IndexKind) -> models.PayloadSchemaType | models.KeywordIndexParams:
    if kind == "tenant":
        return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    return models.PayloadSchemaType(kind)


def _only(fields: Sequence[str] | None) -> bool | list[str]:
    if fields is None:
        return True
    return [json_path(field) for field in fields] or False


def _query(leg: Leg, where: Filter, limit: int) -> models.QueryRequest:
    if leg.dense is not None:
        return models.QueryRequest(query=leg.dense.tolist(), filter=_filter(where), limit=limit, with_payload=True)
    assert leg.sparse is not None
    sparse = models.SparseVector(indices=leg.sparse.indices, values=leg.sparse.values)
    return models.QueryRequest(query=sparse, using=SPARSE, filter=_filter(where), limit=limit, with_payload=True)


def _server_point(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    if point.sparse is not None:
        vectors[SPARSE] = models.SparseVector(indices=point.sparse.indices, values=point.sparse.values)
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)


def _point(record: models.Record) -> Point:
    stored = record.vector
    named: dict[str, Any] = stored if isinstance(stored, dict) else {} if stored is None else {DENSE: stored}
    dense, sparse = named.get(DENSE), named.get(SPARSE)
    return Point(
        id=str(record.id),
        payload=record.payload or {},
        dense=None if dense is None else np.array(dense, dtype=np.float32),
        sparse=None if sparse is None else Sparse(sparse.indices, sparse.values),
    )


def _filter(where: Filter) -> models.Filter:
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
        case _:
            return models.HasIdCondition(has_id=[identifier for identifier in condition.ids if is_id(identifier)])


def _match(field: str, any_of: Sequence[Scalar]) -> models.Condition:
    """Return a disjunction: the server's own `any` takes values of one kind only, and no bool."""
    key = json_path(field)
    texts = [value for value in any_of if isinstance(value, str)]
    others = [value for value in any_of if not isinstance(value, str)]
    conditions: list[models.Condition] = [
        models.FieldCondition(key=key, match=models.MatchValue(value=value)) for value in others
    ]
    if texts:
        conditions.append(models.FieldCondition(key=key, match=models.MatchAny(any=texts)))
    return models.Filter(should=conditions) if conditions else models.HasIdCondition(has_id=[])
