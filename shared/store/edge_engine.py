"""Serves `wire` requests with Qdrant's embedded engine: no sockets, no event loop, one thread.

A collection is a folder with a shard and a small description. It is made elsewhere and then renamed, so it exists
completely or not at all. The engine never frees the space of deleted points, so a shard that must forget them is
copied, and the description then names the copy (docs/adr/0009-erasure.md). The caller must hold the folder's lock: the
engine refuses to load a shard twice, but the attempt already breaks the first one's `flush` for good.
"""

import functools
import itertools
import os
import shutil
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints
from uuid import uuid4

import msgspec
import qdrant_edge as qdrant

from shared.store import (
    CollectionSize,
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
    owner_in,
    stored_point,
    wire,
)
from shared.store.file_prefetch import opening_files, read_ahead, searched_files
from shared.store.index_builder import IndexBuildError, VectorFormat
from shared.store.input_validation import is_id, json_path, value_at
from shared.store.payload_cache import CachedPayload, PayloadCache

DENSE, SPARSE = "", "bm25"
_HEAD_FIELDS = ("version", "deleted")
_EVERY = 2**31  # as a limit: all points
_LARGE = 250_000  # points from which a search of the graph looks further (ADR 0016)
_EF, _EF_LARGE, _EF_FILTERED = 128, 256, 512  # candidates that it keeps; filtered: by more than the tenant
_EXACT = qdrant.SearchParams(exact=True, quantization=qdrant.QuantizationSearchParams(ignore=True))
_SPARE = 16  # hits asked for beyond the limit, so that a few stale ones cost no second round
_WIDER = 4
_CHANGED = 10_000  # points that one operation names
_COPIED = 256  # points of one write to a copy
_SLOT = 8  # bytes of a segment's file of versions for each point it has ever held
_GROWING = "mutable_id_tracker.versions"  # in segments that take new points, and so have no vector index
_READS = frozenset({"collections", "retrieve", "scroll", "count", "facet", "search", "sizes"})
_WRITES = frozenset({"create_collection", "drop_collection", "upsert", "put_if", "set_payload", "delete", "flush"})
_DESCRIPTION = "collection.json"
_HEADS_KEPT = 200_000  # heads that a collection keeps in memory: 40 MB
_PAYLOADS_KEPT = 48 * 2**20  # bytes of payloads that a collection keeps in memory
_EXACT_FLOATS = 2**53  # the engine compares the bounds of ranges as floats, which are exact up to here
_FIRST_SHARD = "shard"
# With one thread, the engine searches in the calling thread. With more, it hands the segments to a pool and waits,
# twice a search, though all points are in one, save for those that are new since its index was built (ADR 0015).
_SEARCH_THREADS = 1
_update = qdrant.UpdateOperation

# The engine raises bare exceptions; these beginnings mean that a retry can't help.
_REFUSALS = ("Vector dimension error", "Not existing vector name", "No appropriate index", "No range index", "Wrong")


class NoCollection(Exception):  # noqa: N818 - names the state
    """There is no collection of that name."""


class Mismatch(Exception):  # noqa: N818 - names the state
    """A collection of that name exists with other vectors."""


class Unserved(Exception):  # noqa: N818 - names the state
    """The engine or the disk failed; a retry may help."""


class Broken(Unserved):
    """A write failed within the engine: its memory can't be trusted any more, but its write-ahead log can."""


class _Description(msgspec.Struct, frozen=True):
    """The properties of a collection, in `collection.json`."""

    size: int | None
    sparse: bool
    shard: str = _FIRST_SHARD  # the folder of the current shard; any other is a leftover
    half: bool = False  # dense vectors are in half precision


class Copy(msgspec.Struct, eq=False):
    """A copy of a shard that is to replace it."""

    name: str
    shard: Any
    touched: set[str]  # ids written to the old one since they were copied
    after: str | None = None  # the id up to which it is copied
    building: Callable[[], None] | None = None  # stops the build of its index, for which the shard is closed


class Collection:
    """An open shard and our own data about it."""

    def __init__(self, folder: Path, description: _Description) -> None:
        self.folder = folder
        self.description = description
        read_ahead(opening_files(folder / description.shard), sys.maxsize)
        self.shard = qdrant.EdgeShard.load(str(folder / description.shard))
        self.copy: Copy | None = None
        self.unflushed = False
        self.unsynced = False
        self.heads: dict[str, int | None] = {}  # versions that searches needed, by document; None: none answers
        self.payloads = PayloadCache(_PAYLOADS_KEPT)
        self.indexes: dict[str, IndexKind] = {}  # as asked for by `Create`; copies get these
        self.live = self.shard.info().points_count  # as of the last flush
        self.ranged = _ranged(self.shard)

    def write(self, operation: Any) -> None:
        """Write the points that the operation names by id.

        The engine must not evaluate a condition itself. After a crash it repeats its log and evaluates the condition
        again, on field indexes that an interrupted flush may have left newer than the points. The write would be lost.
        """
        self.unflushed = self.unsynced = True
        self.shard.update(operation)

    def refused(self, ids: list[str], only_if: Filter | None) -> set[str]:
        """Return which of the ids must not be written: their points exist, and the condition, if any, excludes them."""
        there = {id_ for id_, _ in _with_ids(ids, self.shard.retrieve(list[Any](ids), False, False))}
        if only_if is None or not there:
            return there
        return there.difference(self.ids(Filter((*only_if.must, Ids(tuple(there))), only_if.must_not)))

    @property
    def log(self) -> Path:
        """Return the folder of the shard's write-ahead log."""
        return self.folder / self.description.shard / "wal"

    def touch(self, ids: Iterable[str]) -> None:
        """Note the points that must be copied again."""
        if self.copy is not None:
            self.copy.touched.update(ids)

    def begin_copy(self) -> Copy:
        """Create and return an empty shard like this one, with its payload indexes; an unfinished copy is dropped."""
        self.drop_copy()
        schemas = {field: found.params or found.data_type for field, found in self.shard.info().payload_schema.items()}
        schemas |= {json_path(field): _schema(kind, self.description) for field, kind in self.indexes.items()}
        name = f"shard-{uuid4().hex}"
        (self.folder / name).mkdir()
        shard = qdrant.EdgeShard.create(str(self.folder / name), _config(self.description))
        for field, schema in sorted(schemas.items()):
            shard.update(_update.create_field_index(field, schema))
        self.copy = Copy(name, shard, set())
        return self.copy

    def copy_some(self, limit: int) -> bool:
        """Copy some more points, in id order; return whether there are others."""
        assert self.copy is not None
        records, following = self.shard.scroll(
            qdrant.ScrollRequest(offset=self.copy.after, limit=limit, with_payload=True, with_vector=True)
        )
        _copy_points(self.copy.shard, records, self.description)
        self.copy.after = None if following is None else str(following)
        return following is not None

    def copy_touched(self, limit: int) -> int:
        """Copy again at most `limit` of the points written since they were copied; return how many are left."""
        assert self.copy is not None
        copy = self.copy
        ids: list[Any] = sorted(itertools.islice(copy.touched, limit))
        copy.touched.difference_update(ids)
        if ids:
            records = self.shard.retrieve(ids, True, True)
            gone = set(ids) - {str(record.id) for record in records}
            if gone:
                copy.shard.update(_update.delete_points(sorted(gone)))
            _copy_points(copy.shard, records, self.description)
        return len(copy.touched)

    def finish_copy(self) -> None:
        """Replace the shard by its copy. At every moment, crashes included, exactly one of them is current."""
        assert self.copy is not None
        copy = self.copy
        while self.copy_touched(_COPIED):
            pass
        copy.shard.flush()
        sync_tree(self.folder / copy.name)
        description = msgspec.structs.replace(self.description, shard=copy.name)
        written = self.folder / f"{_DESCRIPTION}.new"
        written.write_bytes(msgspec.json.encode(description))
        _sync(written)
        written.rename(self.folder / _DESCRIPTION)
        # The disk now names the copy. Writes to the old shard would be lost, so a failure must end the process.
        try:
            _sync(self.folder)
            self.shard.close()
            self.shard, self.description, self.copy = copy.shard, description, None
            self.ranged = _ranged(self.shard)
            self.unflushed = self.unsynced = False
            self.clear()
        except BaseException as error:
            raise Broken(f"the rewritten {self.folder.name!r} can't take its place: {error}") from error

    def begin_index(self, stop: Callable[[], None]) -> Path:
        """Close the copy, so that another process can build its index, and return its folder."""
        assert self.copy is not None
        folder = self.flush_copy()
        self.copy.shard.close()
        self.copy.building = stop
        return folder

    def end_index(self) -> None:
        """Open the copy again."""
        assert self.copy is not None
        self.copy.shard = qdrant.EdgeShard.load(str(self.folder / self.copy.name))
        self.copy.building = None
        if left := _growing(self.folder / self.copy.name):
            raise IndexBuildError(f"the engine left {left} points of {self.folder.name!r} without an index")

    def flush_copy(self) -> Path:
        """Return the copy's folder, once the engine has handed all of it to the operating system."""
        assert self.copy is not None
        self.copy.shard.flush()
        return self.folder / self.copy.name

    def drop_copy(self) -> None:
        """Delete the copy, if there is one."""
        if self.copy is not None:
            if self.copy.building is not None:
                self.copy.building()
            else:
                self.copy.shard.close()
            self.copy = None
        self.clear()

    def clear(self) -> None:
        """Delete the shards that aren't current: those that a rewrite replaced or never finished."""
        with suppress(FileNotFoundError):  # the collection was dropped
            for path in self.folder.iterdir():
                if path.is_dir() and path.name != self.description.shard:
                    shutil.rmtree(path)

    def size(self) -> CollectionSize:
        """Return the collection's size as of the last flush.

        The engine reports only live points. Each point ever written to a segment keeps its slot in the segment's files
        until they are rewritten, so the dead points are the slots minus the live points. The slots are counted on disk,
        so the figure survives a restart.
        """
        segments = self.folder / self.description.shard / "segments"
        slots = sum(path.stat().st_size // _SLOT for path in segments.glob("*/*id_tracker.versions"))
        self.live = live = self.shard.info().points_count
        return CollectionSize(self.folder.name, live, max(slots - live, 0), _disk_bytes(self.folder))

    def unindexed(self) -> int:
        """Return the number of points, as of the last flush, that searches must compare one by one.

        They are in the segments that take new points; dead ones are counted, too.
        """
        return 0 if self.description.size is None else _growing(self.folder / self.description.shard)

    @property
    def vectors(self) -> VectorFormat | None:
        """Return the format of the dense vectors; None if there are none."""
        described = self.description
        return None if described.size is None else VectorFormat(described.size, described.half, described.sparse)

    def ids(self, where: Filter) -> list[str]:
        return [str(record.id) for record in self._all(self.filter(where), payload=False)]

    def filter(self, where: Filter) -> Any:
        plain = [condition for condition in where.must if not _has_flags(condition)]
        return qdrant.Filter(
            must=[self._condition(condition, plain) for condition in where.must],
            must_not=[self._condition(condition, plain) for condition in where.must_not],
        )

    def _condition(self, condition: Condition, plain: Sequence[Condition]) -> Any:
        """Return the engine's condition; it needs to be right only for points that match all of `plain`."""
        if not isinstance(condition, Match):
            return _condition(condition)
        if not _has_flags(condition):
            return _within(condition) if json_path(condition.field) in self.ranged else _condition(condition)
        # The binding turns True into 1, which matches no stored flag, so we look the points up ourselves.
        flags = {value for value in condition.any_of if isinstance(value, bool)}
        others = tuple(value for value in condition.any_of if not isinstance(value, bool))
        having: list[Any] = [qdrant.FieldCondition(json_path(condition.field), is_empty=False)]
        having += [_condition(other) for other in plain]
        records = self._all(qdrant.Filter(must=having), payload=_only([condition.field]))
        path = condition.field.split(".")
        ids = {record.id for record in records if not flags.isdisjoint(_flags(value_at(record.payload or {}, path)))}
        return qdrant.Filter(should=[_match(condition.field, others), qdrant.HasIdCondition(ids)])

    def _all(self, where: Any, *, payload: Any) -> list[Any]:
        request = qdrant.ScrollRequest(limit=_EVERY, filter=where, with_payload=payload, with_vector=False)
        return self.shard.scroll(request)[0]

    def versions(self, ids: Iterable[str]) -> dict[str, int | None]:
        """Return the version by id of heads; None where there is none, or its document is deleted.

        Only heads that searches needed are kept, so that memory and the start don't grow with the number of documents.
        """
        wanted = set(ids)
        unknown = {id_ for id_ in wanted if id_ not in self.heads}  # `wanted - keys()` would walk through all keys
        if len(self.heads) + len(unknown) > _HEADS_KEPT:
            self.heads.clear()
            unknown = wanted
        if unknown:
            found: dict[str, int | None] = dict.fromkeys(unknown)
            named: list[Any] = [identifier for identifier in unknown if is_id(identifier)]
            for identifier, record in _with_ids(named, self.shard.retrieve(named, _only(_HEAD_FIELDS), False)):
                payload = record.payload or {}
                version = payload.get("version")
                if isinstance(version, int) and payload.get("deleted") is not True:
                    found[identifier] = version
            self.heads |= found
        return self.heads

    def forget(self, ids: Sequence[str]) -> None:
        """Forget points that were written or deleted; the next search that needs them reads them again."""
        self.payloads.drop(ids)
        if self.heads:
            for identifier in ids:
                self.heads.pop(identifier, None)


class Engine:
    """All collections of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / wire.COLLECTIONS
        self._making = folder / "making"
        self._open: dict[str, Collection] = {}
        self.written = 0  # writes since the start, by which the rewriter detects idle times

    def load(self, loaded: Callable[[str, float], None]) -> None:
        """Open every collection; `loaded` is called with each one's name and the seconds it took."""
        shutil.rmtree(self._making, ignore_errors=True)
        for folder in (self._folder, self._making):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in sorted(self._folder.iterdir()):
            began = time.monotonic()
            self._load(folder.name)
            loaded(folder.name, time.monotonic() - began)

    def searched_files(self) -> list[Path]:
        """Return the files that searches read pages of, and that the start doesn't read.

        Collections without vectors come first: heads, which are small and of which nearly every search reads.
        """
        opened = sorted(self._open.values(), key=lambda each: each.description.size is not None)
        return [path for each in opened for path in searched_files(each.folder / each.description.shard)]

    def _load(self, name: str) -> None:
        folder = self._folder / name
        description = msgspec.json.decode((folder / _DESCRIPTION).read_bytes(), type=_Description)
        collection = self._open[name] = Collection(folder, description)
        collection.clear()

    def answer(self, request: wire.Request) -> Any:
        """Return what the method returns.

        Raises:
            ValueError: the request is invalid; a retry can't help.
            Mismatch, NoCollection, Unserved: see the classes.
            Broken: the engine must be opened again.
        """
        method, arguments = request
        try:
            return getattr(self, method)(*arguments)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(str(error)) from error
        except OSError as error:
            raise Unserved(f"{method} failed: {error}") from error
        except (Mismatch, NoCollection, Unserved, KeyboardInterrupt):
            raise
        except BaseException as error:  # the PanicException of a Rust panic isn't an Exception
            text = str(error)
            if text.startswith(_REFUSALS):
                raise ValueError(text) from error
            kind = Broken if method in _WRITES else Unserved
            raise kind(f"{method} failed in the engine: {text}; {wire.DAMAGED}") from error

    def unsynced(self) -> list[Collection]:
        """Return the collections with writes that may not be on disk yet."""
        return [collection for collection in self._open.values() if collection.unsynced]

    def flush(self) -> None:
        """Return when every write is in the segments on disk and the write-ahead logs are truncated.

        This blocks all other requests for tens of milliseconds or more; `sync_logs` is as safe and doesn't block.
        """
        for collection in self._open.values():
            if collection.unflushed:
                collection.shard.flush()
                collection.unflushed = False

    def flushed_sizes(self) -> list[CollectionSize]:
        """Return the size of each collection as of the last flush, in the order of their names."""
        return [self._open[name].size() for name in sorted(self._open)]

    def close(self) -> None:
        """Flush and close every shard."""
        self.flush()
        for collection in self._open.values():
            collection.drop_copy()
            collection.shard.close()
        self._open.clear()

    def at(self, name: str) -> Collection:
        """Return the collection. Raises NoCollection."""
        try:
            return self._open[name]
        except KeyError:
            raise NoCollection(f"there is no collection {name!r}") from None

    # The requests: the port's methods. What decodes their arguments reads their signatures.

    def create_collection(
        self, name: str, size: int | None, sparse: bool, indexes: dict[str, IndexKind], half: bool = False
    ) -> None:
        wanted = _Description(size, sparse, half=half)
        if name not in self._open:
            self._make(name, wanted, indexes)
            self._open[name].indexes = indexes
            return
        collection = self._open[name]
        if (collection.description.size, collection.description.sparse) != (wanted.size, wanted.sparse):
            raise Mismatch(
                f"collection {name!r} has {_vectors(collection.description)}; asked for were {_vectors(wanted)}"
            )
        there = collection.shard.info().payload_schema
        collection.indexes = indexes
        for field, kind in sorted(indexes.items()):
            if json_path(field) not in there:
                collection.drop_copy()  # the copy would lack the index
                collection.write(_index(field, kind, wanted))
        collection.ranged = _ranged(collection.shard)

    def _make(self, name: str, description: _Description, indexes: dict[str, IndexKind]) -> None:
        folder = self._making / uuid4().hex
        (folder / description.shard).mkdir(parents=True)
        shard = qdrant.EdgeShard.create(str(folder / description.shard), _config(description))
        for field, kind in sorted(indexes.items()):
            shard.update(_index(field, kind, description))
        shard.flush()
        shard.close()
        (folder / _DESCRIPTION).write_bytes(msgspec.json.encode(description))
        sync_tree(folder)
        folder.rename(self._folder / name)
        _sync(self._folder)
        self._load(name)

    def drop_collection(self, name: str) -> None:
        collection = self._open.pop(name, None)
        if collection is None:
            return
        collection.drop_copy()
        collection.shard.close()
        gone = collection.folder.rename(self._making / uuid4().hex)
        _sync(self._folder)
        shutil.rmtree(gone)

    def collections(self) -> list[str]:
        return sorted(self._open)

    def sizes(self) -> list[CollectionSize]:
        self.flush()  # only then are the last points counted
        return self.flushed_sizes()

    def retrieve(self, name: str, ids: list[str], vectors: bool, fields: list[str] | None) -> list[Point]:
        known: list[Any] = [identifier for identifier in ids if is_id(identifier)]
        records = self.at(name).shard.retrieve(known, _only(fields), vectors)
        return [stored_point(record, id_) for id_, record in _with_ids(known, records)]

    def upsert(self, name: str, points: list[Point], only_if: Filter | None = None) -> None:
        self._put(name, points, only_if, anyway=only_if is None)

    def put_if(self, name: str, points: list[Point], only_if: Filter | None, fields: list[str] | None) -> list[Point]:
        self._put(name, points, only_if)
        return self.retrieve(name, [point.id for point in points], vectors=False, fields=fields)

    def _put(self, name: str, points: list[Point], only_if: Filter | None, *, anyway: bool = False) -> None:
        collection = self.at(name)
        new = {point.id: _engine_point(point, name, collection.description) for point in points}
        refused = set() if anyway else collection.refused(list(new), only_if)
        written = [identifier for identifier in new if identifier not in refused]
        self.written += len(written)
        if written:
            collection.touch(written)
            collection.write(_update.upsert_points([new[identifier] for identifier in written]))
            collection.forget(written)

    def set_payload(self, name: str, payload: Payload, where: Filter) -> None:
        self._change(name, where, _update.set_payload, payload)

    def delete(self, name: str, where: Filter) -> None:
        self._change(name, where, _update.delete_points)

    def _change(self, name: str, where: Filter, operation: Callable[..., Any], *arguments: Any) -> None:
        """Change the matching points, by their ids: see `Collection.write`."""
        collection = self.at(name)
        matching = collection.ids(where)
        collection.touch(matching)
        for at in range(0, len(matching), _CHANGED):
            self.written += 1
            collection.write(operation(matching[at : at + _CHANGED], *arguments))
        collection.forget(matching)

    def scroll(  # noqa: PLR0917 - as it is sent
        self,
        name: str,
        where: Filter,
        limit: int,
        after: str | None,
        vectors: bool,
        fields: list[str] | None,
        order: Order | None,
    ) -> PointPage:
        collection, by = self.at(name), None
        if order is not None:
            direction = qdrant.Direction.Desc if order.descending else qdrant.Direction.Asc
            by = qdrant.OrderBy(json_path(order.by), direction, order.start)
        records, following = collection.shard.scroll(
            qdrant.ScrollRequest(
                offset=after,
                limit=limit,
                filter=collection.filter(where),
                with_payload=_only(fields),
                with_vector=vectors,
                order_by=by,
            )
        )
        return PointPage(list(map(stored_point, records)), None if following is None or by else str(following))

    def count(self, name: str, where: Filter) -> int:
        at = self.at(name)
        count: int = at.shard.count(qdrant.CountRequest(exact=True, filter=at.filter(where)))
        return count

    def facet(self, name: str, field: str, where: Filter, limit: int) -> dict[str, int]:
        collection = self.at(name)
        facet = qdrant.FacetRequest(json_path(field), limit, exact=True, filter=collection.filter(where))
        return {str(hit.value): hit.count for hit in collection.shard.facet(facet)}

    def search(self, name: str, legs: list[Leg], where: Filter, limit: int, heads: str) -> wire.SearchFound:
        collection = self.at(name)
        matching = collection.filter(where)
        queries = [_query(leg, name, collection.description) for leg in legs]
        current = _CurrentPoints(collection, self.at(heads))
        rankings: list[list[tuple[str, float]]] = [[] for _ in queries]
        short = [number for number, query in enumerate(queries) if query is not None]
        params = nearby(collection.live, filtered=len(where.must) > 1 or bool(where.must_not))
        asked = limit + _SPARE
        while short:
            batch = qdrant.QueryBatchRequest(
                [
                    qdrant.QueryRequest(
                        limit=asked, query=queries[number], filter=matching, with_payload=False, params=params
                    )
                    for number in short
                ]
            )
            found = {
                number: _ranking(scored)
                for number, scored in zip(short, collection.shard.query_batch(batch), strict=True)
            }
            current.read([id_ for scored in found.values() for id_, _ in scored[:limit]])
            for number, scored in found.items():
                rankings[number] = current.first(scored, limit)
            short = [number for number in short if len(rankings[number]) < limit and len(found[number]) == asked]
            asked *= _WIDER
        dense = next((number for number, leg in enumerate(legs) if leg.dense is not None), None)
        cosines = {} if dense is None else current.cosines(rankings, dense, queries[dense])
        return wire.SearchFound(
            rankings,
            {id_: (current.payload(id_), cosines.get(id_)) for ranking in rankings for id_, _ in ranking},
        )


@functools.cache
def arguments_of(method: str) -> "msgspec.msgpack.Decoder[Any]":
    """Return the decoder of the method's arguments. Raises ValueError if there is no such method to ask for."""
    if method not in _READS | _WRITES:
        raise ValueError(f"the store has no method {method!r}")
    *kinds, _ = get_type_hints(getattr(Engine, method)).values()
    return wire.body_decoder(tuple[tuple(kinds)])  # type: ignore[misc]  # known only now


class _CurrentPoints:
    """The points of one search that are current by their heads. Their payloads are read once, however many legs."""

    def __init__(self, chunks: Collection, heads: Collection) -> None:
        self._shard, self._cache = chunks.shard, chunks.payloads
        self._heads = heads
        self._payloads: dict[str, bytes | None] = {}  # by id; None: not current

    def payload(self, id_: str) -> msgspec.Raw:
        """Return the payload of a point that `first` has returned."""
        encoded = self._payloads[id_]
        assert encoded is not None
        return msgspec.Raw(encoded)

    def first(self, scored: Sequence[tuple[str, float]], limit: int) -> list[tuple[str, float]]:
        """Return the first `limit` of a ranking that are current.

        The engine takes longer to hand out a payload than to rank the point, so no more are read than are needed.
        """
        hits: list[tuple[str, float]] = []
        at = 0
        while at < len(scored) and len(hits) < limit:
            some = scored[at : at + max(limit - len(hits), _SPARE)]
            at += len(some)
            self.read([id_ for id_, _ in some])
            hits += [hit for hit in some if self._payloads[hit[0]] is not None]
        return hits[:limit]

    def cosines(self, rankings: Sequence[Sequence[tuple[str, float]]], dense: int, query: Any) -> dict[str, float]:
        """Return each hit's cosine by id: that of the dense ranking, or asked for by id."""
        cosines = dict(rankings[dense])
        others = {id_ for ranking in rankings for id_, _ in ranking} - cosines.keys()
        if others:
            only = qdrant.Filter(must=[qdrant.HasIdCondition(set[Any](others))])
            request = qdrant.QueryRequest(
                limit=len(others), query=query, filter=only, with_payload=False, params=_EXACT
            )
            cosines |= {str(hit.id): hit.score for hit in self._shard.query(request)}
        return cosines

    def read(self, ids: Iterable[str]) -> None:
        """Read those of the points that weren't read yet, all at once."""
        unknown = list(dict.fromkeys(id_ for id_ in ids if id_ not in self._payloads))
        kept = {id_: found for id_ in unknown if (found := self._cache.get(id_)) is not None}
        if len(kept) < len(unknown):
            kept |= self._retrieved([id_ for id_ in unknown if id_ not in kept])
        versions = self._heads.versions({found.document for found in kept.values() if found.document is not None})
        for id_ in unknown:
            found = kept.get(id_)
            self._payloads[id_] = None if found is None or not _is_current(found, versions) else found.encoded

    def _retrieved(self, ids: list[Any]) -> dict[str, CachedPayload]:
        found = {}
        for id_, record in _with_ids(ids, self._shard.retrieve(ids, True, False)):
            payload: Payload = record.payload or {}
            document, version = owner_in(payload)
            kept = CachedPayload(
                document if isinstance(document, str) else None,
                version if isinstance(version, int) else None,
                msgspec.msgpack.encode(payload),
            )
            found[id_] = kept
            self._cache.put(id_, kept)
        return found


def _ranking(scored: Sequence[Any]) -> list[tuple[str, float]]:
    """Return id and score of each hit of the engine, best first; it leaves equal ones in no order of their own."""
    return sorted(((str(hit.id), hit.score) for hit in scored), key=lambda hit: (-hit[1], hit[0]))


def _with_ids(asked: Sequence[str], records: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the id and record of each result of `retrieve`.

    The engine returns records in the order of the requested ids, each once, and leaves out ids that it doesn't have.
    Converting a record's id to text takes half as long as reading a payload, so it is avoided.
    """
    if len(records) == len(asked):
        return zip(asked, records, strict=True)
    return ((str(record.id), record) for record in records)


def _is_current(found: CachedPayload, versions: Mapping[str, int | None]) -> bool:
    return found.document is not None and found.version is not None and versions[found.document] == found.version


def _vectors(description: _Description) -> str:
    dense = "no dense vectors" if description.size is None else f"dense vectors of {description.size}"
    return f"{dense} and {'' if description.sparse else 'no '}sparse ones"


def _config(description: _Description) -> Any:
    # A shard must have a vector; where none is wanted, the sparse one stays empty.
    sparse = {SPARSE: qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)}
    datatype = qdrant.VectorStorageDatatype.Float16 if description.half else None
    dense = None
    if description.size is not None:
        dense = qdrant.EdgeVectorParams(size=description.size, distance=qdrant.Distance.Cosine, datatype=datatype)
    return qdrant.EdgeConfig(
        vectors=dense,
        sparse_vectors=sparse if description.sparse or dense is None else None,
        max_search_threads=_SEARCH_THREADS,
    )


def _index(field: str, kind: IndexKind, description: _Description) -> Any:
    return _update.create_field_index(json_path(field), _schema(kind, description))


def _schema(kind: IndexKind, description: _Description) -> Any:
    """Return the payload index of this kind.

    An index that searches filter by is read into memory. Of a large collection that takes a third of the start and half
    of the memory for ids, hashes and numbers, and mapped from their files they are found as fast. The graph of the
    vectors gets no edges for their values: few points have the same id, all have the same version and attempt, and
    edges for each value took most of the time of a build.

    Such an index isn't read at the start, and one of numbers serves only ranges: see `_within` and ADR 0016.
    """
    if kind == "tenant":
        return qdrant.KeywordIndexParams(is_tenant=True)
    if description.size is None or kind == "keyword":
        return qdrant.PayloadSchemaType.Integer if kind == "integer" else qdrant.PayloadSchemaType.Keyword
    mapped = qdrant.Memory.Cold
    if kind == "integer":
        return qdrant.IntegerIndexParams(lookup=False, range=True, memory=mapped, enable_hnsw=False)
    return qdrant.KeywordIndexParams(memory=mapped, enable_hnsw=False)


def _ranged(shard: Any) -> frozenset[str]:
    """Return the paths of the fields whose index finds numbers by ranges only."""
    schema = shard.info().payload_schema
    return frozenset(
        path
        for path, field in schema.items()
        if isinstance(field.params, qdrant.IntegerIndexParams) and field.params.lookup is False
    )


def nearby(points: int, *, filtered: bool) -> qdrant.SearchParams:
    """Return the parameters of the dense leg in a collection of so many points; without an index, they do nothing.

    `filtered`: by more than the tenant. The larger the graph and the fewer of its points pass the filter, the more
    candidates it takes to find the nearest ones.
    """
    candidates = _EF if points < _LARGE else _EF_FILTERED if filtered else _EF_LARGE
    codes = qdrant.QuantizationSearchParams(rescore=True, oversampling=2.0)
    return qdrant.SearchParams(hnsw_ef=candidates, quantization=codes)


def _only(fields: Sequence[str] | None) -> Any:
    if fields is None:
        return True
    return qdrant.PayloadSelector.Include([json_path(field) for field in fields]) if fields else False


def _engine_point(point: Point, name: str, description: _Description) -> Any:
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[DENSE] = _dense(point.dense, f"point {point.id}", name, description)
    if point.sparse is not None:
        if not description.sparse:
            raise ValueError(f"point {point.id} has a sparse vector; collection {name!r} has none")
        vectors[SPARSE] = qdrant.SparseVector(point.sparse.indices, point.sparse.values)
    return qdrant.Point(point.id, vectors, point.payload)


def _query(leg: Leg, name: str, description: _Description) -> Any | None:
    """Return the leg's query; None if it can't match anything."""
    if leg.dense is not None:
        return qdrant.Query.Nearest(_dense(leg.dense, "the leg", name, description), using=DENSE)
    assert leg.sparse is not None
    if not description.sparse:
        raise ValueError(f"the leg has a sparse vector; collection {name!r} has none")
    if not leg.sparse.indices:
        return None
    return qdrant.Query.Nearest(qdrant.SparseVector(leg.sparse.indices, leg.sparse.values), using=SPARSE)


def _dense(vector: Any, owner: str, name: str, description: _Description) -> Any:
    if description.size != len(vector):
        wants = "none" if description.size is None else f"vectors of {description.size}"
        raise ValueError(f"{owner} has a dense vector of {len(vector)}; collection {name!r} has {wants}")
    return array("f", vector.tobytes())  # the engine reads it more than twice as fast as numpy's


def _copy_points(shard: Any, records: Sequence[Any], description: _Description) -> None:
    if records:
        points = [_engine_point(point, "copied", description) for point in map(stored_point, records)]
        shard.update(_update.upsert_points(points))


def _has_flags(condition: Condition) -> bool:
    return isinstance(condition, Match) and any(isinstance(value, bool) for value in condition.any_of)


def _flags(value: Any) -> set[bool]:
    """Return the booleans of a field's value, which may be a list."""
    return {part for part in (value if isinstance(value, list) else [value]) if isinstance(part, bool)}


def _condition(condition: Condition) -> Any:
    match condition:
        case Match():
            return _match(condition.field, condition.any_of)
        case Range():
            bounds = qdrant.RangeFloat(condition.gte, condition.gt, condition.lte, condition.lt)
            return qdrant.FieldCondition(json_path(condition.field), range=bounds)
        case Period():
            times = qdrant.RangeDateTime(condition.gte, condition.gt, condition.lte, condition.lt)
            return qdrant.FieldCondition(json_path(condition.field), range=times)
        case Prefix():
            return qdrant.FieldCondition(json_path(condition.field), match=qdrant.MatchPrefix(condition.prefix))
        case Present():
            return qdrant.FieldCondition(json_path(condition.field), is_empty=False)
        case _:
            return qdrant.HasIdCondition({identifier for identifier in condition.ids if is_id(identifier)})


def _match(field: str, any_of: Sequence[Scalar]) -> Any:
    """Return one condition, or a disjunction: the engine's own `any` accepts values of one kind only."""
    texts = [value for value in any_of if isinstance(value, str)]
    numbers = [value for value in any_of if not isinstance(value, str)]
    # For a single value, the engine's `any` takes 1.5 times as long as its plain match.
    matches = [
        qdrant.MatchValue(values[0]) if len(values) == 1 else qdrant.MatchAny(values)
        for values in (texts, numbers)
        if values
    ]
    conditions: list[Any] = [qdrant.FieldCondition(json_path(field), match=match) for match in matches]
    if not conditions:
        return qdrant.HasIdCondition(set())
    return conditions[0] if len(conditions) == 1 else qdrant.Filter(should=conditions)


def _within(condition: Match) -> Any:
    """Return the condition for a field whose index finds numbers by ranges only: a range of one number for each."""
    exact = {value for value in condition.any_of if isinstance(value, int) and abs(value) <= _EXACT_FLOATS}
    path = json_path(condition.field)
    conditions: list[Any] = [qdrant.FieldCondition(path, range=qdrant.RangeFloat(gte=n, lte=n)) for n in sorted(exact)]
    others = [value for value in condition.any_of if value not in exact]
    if others or not conditions:
        conditions.append(_match(condition.field, others))
    return conditions[0] if len(conditions) == 1 else qdrant.Filter(should=conditions)


def _growing(shard: Path) -> int:
    """Return the number of slots in segments that take new points."""
    return sum(path.stat().st_size // _SLOT for path in shard.glob(f"segments/*/{_GROWING}"))


def _disk_bytes(folder: Path) -> int:
    """Return the space that the folder takes on the disk; another process may delete files in it meanwhile."""
    used = 0
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                used += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 - every ten seconds
    return used


def sync_tree(folder: Path) -> None:
    """Return when all files in the folder are on disk. Run it in a thread; it needs no lock of the engine."""
    for path in folder.rglob("*"):
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_logs(logs: Sequence[Path]) -> None:
    """Return when the write-ahead logs are on disk: then their writes survive a loss of power.

    The engine writes them through a memory map and never syncs them itself; a sync of the file takes the map's
    pages along. Run it in a thread: it needs no lock of the engine's.
    """
    for log in logs:
        while True:
            try:
                for segment in sorted(log.iterdir()):
                    _sync(segment)
                _sync(log)
            except FileNotFoundError:
                if not log.exists():  # the collection was dropped
                    break
                continue  # the engine closed a segment or truncated the log meanwhile: list the files again
            break
