"""A store in memory that keeps to the port's contract (tests/contract/test_store.py), and can lose its power."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any

import msgspec

from shared.errors import Unavailable
from shared.settings import ConfigurationError
from shared.store import (
    EVERYTHING,
    Condition,
    Filter,
    Ids,
    IndexKind,
    Leg,
    Match,
    Order,
    Payload,
    Period,
    Point,
    PointPage,
    Prefix,
    Present,
    Range,
    Scalar,
    StoreHit,
    owner_in,
)
from shared.store.input_validation import (
    check_after,
    check_legs,
    check_limit,
    check_name,
    check_narrow,
    check_payload,
    check_points,
    json_path,
    value_at,
)


@dataclass
class _Collection:
    size: int | None
    points: dict[str, Point] = field(default_factory=dict)
    durable: dict[str, Point] = field(default_factory=dict)
    journal: list[dict[str, Point]] = field(default_factory=list)  # the points after each write since the flush


class MemoryStore:
    """Points in dictionaries. What it gives must not be changed: it gives what it holds."""

    def __init__(self) -> None:
        self.written: Callable[[str], None] = lambda _: None  # told the collection after each write
        self.effects = 0  # points that a write was for; those that a condition kept it from don't count
        self._collections: dict[str, _Collection] = {}

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def points(self, name: str) -> dict[str, Point]:
        """Return all points of a collection that is there, by id."""
        return self._collections[name].points

    def lose_power(self, pick: Callable[[int], int]) -> None:
        """Forget writes since the last flush: `pick(n)` of 0 to n are kept, for each collection by itself."""
        for name, collection in self._collections.items():
            states = [collection.durable, *collection.journal]
            self._set(name, states[pick(len(states) - 1)])
            collection.durable, collection.journal = collection.points, []

    # Collections

    async def create_collection(
        self, name: str, *, size: int | None, sparse: bool, indexes: Mapping[str, IndexKind], half: bool = False
    ) -> None:
        there = self._collections.setdefault(check_name(name), _Collection(size))
        if there.size != size:
            raise ConfigurationError(f"SLUICE_STORE: collection {name} has vectors of {there.size}, not of {size}")

    async def drop_collection(self, name: str) -> None:
        self._collections.pop(check_name(name), None)

    async def collections(self) -> list[str]:
        return sorted(self._collections)

    # Writes

    async def upsert(self, name: str, points: Sequence[Point], *, only_if: Filter | None = None) -> None:
        collection = self._checked(name, points)
        fits = _matcher(only_if or EVERYTHING)
        after, written = dict(collection.points), 0
        for point in points:
            old = after.get(point.id)
            if old is None or fits(old):
                after[point.id] = _kept(point)
                written += 1
        self._write(name, after, written)

    async def put_if(
        self, name: str, points: Sequence[Point], only_if: Filter | None, *, fields: Sequence[str] | None = None
    ) -> list[Point]:
        if only_if is not None:
            await self.upsert(name, points, only_if=only_if)
        else:
            collection = self._checked(name, points)
            new = {point.id: _kept(point) for point in reversed(points) if point.id not in collection.points}
            self._write(name, {**new, **collection.points}, len(new))
        return await self.retrieve(name, [point.id for point in points], fields=fields)

    async def set_payload(self, name: str, payload: Payload, where: Filter) -> None:
        check_payload(payload, name)
        change, points = _copied(payload), self._collection(name).points
        changed = {
            point.id: msgspec.structs.replace(point, payload={**point.payload, **change})
            for point in self._matching(name, where)
        }
        self._write(name, {**points, **changed}, len(changed))

    async def delete(self, name: str, where: Filter) -> None:
        gone = {point.id for point in self._matching(name, check_narrow(where))}
        left = {id_: point for id_, point in self._collection(name).points.items() if id_ not in gone}
        self._write(name, left, len(gone))

    async def flush(self) -> None:
        for collection in self._collections.values():
            collection.durable, collection.journal = collection.points, []

    # Reads

    async def retrieve(
        self, name: str, ids: Sequence[str], *, vectors: bool = False, fields: Sequence[str] | None = None
    ) -> list[Point]:
        points = self._collection(name).points
        return [_shown(points[id_], vectors=vectors, fields=fields) for id_ in dict.fromkeys(ids) if id_ in points]

    async def scroll(
        self,
        name: str,
        where: Filter = EVERYTHING,
        *,
        limit: int = 256,
        after: str | None = None,
        vectors: bool = False,
        fields: Sequence[str] | None = None,
        order: Order | None = None,
    ) -> PointPage:
        check_limit(limit)
        check_after(after)
        if order is not None:
            found = self._ordered(self._matching(name, where), order)[:limit]
            return PointPage([_shown(point, vectors=vectors, fields=fields) for point in found], None)
        found = sorted(self._matching(name, where), key=lambda point: point.id)
        found = [point for point in found if after is None or point.id > after]
        page = [_shown(point, vectors=vectors, fields=fields) for point in found[:limit]]
        return PointPage(page, page[-1].id if len(found) > limit else None)

    @staticmethod
    def _ordered(points: Sequence[Point], order: Order) -> list[Point]:
        path, start = _path(order.by), order.start
        valued = [(value_at(point.payload, path), point) for point in points]
        found = [(value, point) for value, point in valued if _is_number(value)]
        if start is not None:
            found = [(value, p) for value, p in found if (value <= start if order.descending else value >= start)]
        found.sort(key=lambda each: (each[0], each[1].id), reverse=order.descending)
        return [point for _, point in found]

    async def count(self, name: str, where: Filter = EVERYTHING) -> int:
        return len(self._matching(name, where))

    async def facet(self, name: str, field: str, where: Filter = EVERYTHING, *, limit: int = 1000) -> dict[str, int]:
        path = _path(field)
        counts: Counter[str] = Counter()
        for point in self._matching(name, where):
            counts.update({value for value in _values(point.payload, path) if isinstance(value, str)})
        return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:limit])

    async def search(
        self, name: str, legs: Sequence[Leg], where: Filter, *, limit: int, heads: str
    ) -> list[list[StoreHit]]:
        check_legs(legs)
        size, standing = self._collection(name).size, self._collection(heads).points
        current = []
        for point in self._matching(name, where):
            document, version = owner_in(point.payload)
            head = standing.get(str(document))
            if head is None or head.payload.get("deleted") is True:
                continue
            if head.payload.get("version") == version:
                current.append(point)
        rankings = []
        cosines: dict[str, float] = {}
        for number, leg in enumerate(legs):
            if leg.dense is not None and len(leg.dense) != size:
                raise ValueError(f"leg {number}: the dense vector has {len(leg.dense)} numbers, {name} has {size}")
            scores = self._dense(current, leg) if leg.dense is not None else self._sparse(name, current, leg)
            ranked = sorted(scores, key=lambda each: (-each[0], each[1].id))[:limit]
            rankings.append(
                [StoreHit(p.id, score, msgspec.Raw(msgspec.msgpack.encode(p.payload))) for score, p in ranked]
            )
            if leg.dense is not None:
                cosines = {point.id: score for score, point in scores}
        return [[msgspec.structs.replace(hit, cosine=cosines.get(hit.id)) for hit in hits] for hits in rankings]

    def _dense(self, points: Sequence[Point], leg: Leg) -> list[tuple[float, Point]]:
        assert leg.dense is not None
        return [(float(point.dense @ leg.dense), point) for point in points if point.dense is not None]

    def _sparse(self, name: str, points: Sequence[Point], leg: Leg) -> list[tuple[float, Point]]:
        assert leg.sparse is not None
        every = [point.sparse for point in self._collection(name).points.values() if point.sparse is not None]
        seen = Counter(index for sparse in every for index in sparse.indices)
        weights = {
            index: value * math.log(1 + (len(every) - seen[index] + 0.5) / (seen[index] + 0.5))
            for index, value in zip(leg.sparse.indices, leg.sparse.values, strict=True)
        }
        scored = []
        for point in points:
            if point.sparse is None or not weights.keys() & set(point.sparse.indices):
                continue
            terms = zip(point.sparse.indices, point.sparse.values, strict=True)
            scored.append((sum(weights.get(index, 0.0) * value for index, value in terms), point))
        return scored

    # Inside

    def _collection(self, name: str) -> _Collection:
        try:
            return self._collections[check_name(name)]
        except KeyError:
            raise Unavailable(f"collection {name} is not there", "no_collection") from None

    def _checked(self, name: str, points: Sequence[Point]) -> _Collection:
        collection = self._collection(name)
        check_points(points)
        for point in points:
            if point.dense is not None and len(point.dense) != collection.size:
                numbers = f"{len(point.dense)} numbers, {name} takes {collection.size}"
                raise ValueError(f"point {point.id}: the dense vector has {numbers}")
        return collection

    def _matching(self, name: str, where: Filter) -> list[Point]:
        fits = _matcher(where)
        return [point for point in self._collection(name).points.values() if fits(point)]

    def _write(self, name: str, after: dict[str, Point], points: int) -> None:
        self.effects += points
        self._collections[name].journal.append(after)
        self._set(name, after)

    def _set(self, name: str, after: dict[str, Point]) -> None:
        self._collections[name].points = after
        self.written(name)


def _kept(point: Point) -> Point:
    dense = None if point.dense is None else point.dense.copy()
    return msgspec.structs.replace(point, payload=_copied(point.payload), dense=dense)


def _copied(payload: Payload) -> Payload:
    # Through JSON, as in every real store: a tuple becomes a list. The standard library's keeps integers whole.
    copy: Payload = json.loads(json.dumps(payload))
    return copy


def _shown(point: Point, *, vectors: bool, fields: Sequence[str] | None = None) -> Point:
    payload = point.payload
    if fields is not None:
        payload = {}
        for path in map(_path, fields):
            _put(payload, path, point.payload)
    if vectors:
        return point if fields is None else msgspec.structs.replace(point, payload=payload)
    return Point(id=point.id, payload=payload)


def _put(into: Payload, path: Sequence[str], source: Any) -> None:
    for key in path[:-1]:
        source = source.get(key) if isinstance(source, dict) else None
        if not isinstance(source, dict):
            return
        into = into.setdefault(key, {})
    if isinstance(source, dict) and path[-1] in source:
        into[path[-1]] = source[path[-1]]


@lru_cache(maxsize=256)
def _path(field: str) -> tuple[str, ...]:
    json_path(field)
    return tuple(field.split("."))


def _values(payload: Payload, path: Sequence[str]) -> list[Any]:
    value = value_at(payload, path)
    return value if isinstance(value, list) else [value]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _typed(value: Scalar) -> tuple[type, Scalar]:
    return type(value), value  # 1 is not True, and not "1"


Test = Callable[[Point], bool]


def _matcher(where: Filter) -> Test:
    must, must_not = [_test(each) for each in where.must], [_test(each) for each in where.must_not]

    def fits(point: Point) -> bool:
        return all(test(point) for test in must) and not any(test(point) for test in must_not)

    return fits


def _test(condition: Condition) -> Test:
    match condition:
        case Ids(ids):
            wanted = frozenset(ids)
            return lambda point: point.id in wanted
        case Match(field, any_of):
            path, allowed = _path(field), {_typed(value) for value in any_of}
            return lambda point: any(
                (type(value), value) in allowed
                for value in _values(point.payload, path)
                if isinstance(value, str | int)
            )
        case Range(field):
            return _within(_path(field), condition)
        case Period(field):
            return _during(_path(field), condition)
        case Prefix(field, prefix):
            path = _path(field)
            return lambda point: any(
                isinstance(value, str) and value.startswith(prefix) for value in _values(point.payload, path)
            )
        case Present(field):
            path = _path(field)
            return lambda point: value_at(point.payload, path) not in (None, [])


def _during(path: Sequence[str], bounds: Period) -> Test:
    limits = {name: _time(value) for name in ("gt", "gte", "lt", "lte") if (value := getattr(bounds, name)) is not None}
    tests = {"gt": gt, "gte": ge, "lt": lt, "lte": le}

    def fits(point: Point) -> bool:
        value = value_at(point.payload, path)
        try:
            time = _time(value)
        except (TypeError, ValueError):
            return False
        return all(tests[name](time, limit) for name, limit in limits.items())

    return fits


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _within(path: Sequence[str], bounds: Range) -> Test:
    def fits(point: Point) -> bool:
        value = value_at(point.payload, path)
        return (
            _is_number(value)
            and (bounds.gt is None or value > bounds.gt)
            and (bounds.gte is None or value >= bounds.gte)
            and (bounds.lt is None or value < bounds.lt)
            and (bounds.lte is None or value <= bounds.lte)
        )

    return fits
