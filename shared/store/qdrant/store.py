"""`Store` on a Qdrant server or cluster.

Collections without a dense vector (heads, ledger, generations) are bookkeeping: conditional writes decide there
who was first, and what was written is read back. Their writes are ordered `strong`, and where they have replicas
they are read from a quorum, and a new collection's writes wait for one. Chunk points belong to one version and
never change, so they are written in any order and read from the nearest replica. A quorum is more than half: with
two replicas both must be up, with three one may be away (docs/adr/0014-qdrant.md).
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, TypeVar

import httpx
import msgspec
import structlog
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.common.version_check import is_compatible

from shared.errors import PipelineError, Rejected, Unavailable
from shared.settings import ConfigurationError
from shared.store import (
    EVERYTHING,
    Filter,
    Ids,
    IndexKind,
    Leg,
    Order,
    Payload,
    Point,
    PointPage,
    StoreHit,
    owner_in,
    stored_point,
)
from shared.store.input_validation import (
    check_after,
    check_legs,
    check_limit,
    check_name,
    check_narrow,
    check_payload,
    check_points,
    is_id,
    json_path,
)
from shared.store.qdrant.address import QdrantAddress
from shared.store.qdrant.errors import NO_ACCESS, VENDOR, ours, status, too_large
from shared.store.qdrant.translate import SPARSE, payload_selector, query_request, schema, server_filter, server_point
from shared.times import PATIENCE

# Batches of points aren't listed: they are halved until they fit. Our own filters use indexed fields only.
LEAST: Final[Mapping[str, int]] = {
    "max_query_limit": 1016,  # 1000 hits, and a few more because some may be stale
    "search_max_batchsize": 2,  # dense and sparse
    "condition_max_size": 512,  # ids of one page
    "filter_max_conditions": 20,
}


def shortfalls(strict: models.StrictModeConfigOutput | None) -> list[str]:
    """Return the limits that are too low, as `limit 10, at least 20 is needed`; empty if there are none."""
    if strict is None or not strict.enabled:
        return []
    found = [
        f"{name} {given}, at least {least} is needed"
        for name, least in LEAST.items()
        if (given := getattr(strict, name)) is not None and given < least
    ]
    if strict.search_allow_exact is False:
        found.append("search_allow_exact false, but counts must be exact")
    return found


OLDEST: Final = (1, 19)  # the first that knows filters by the beginning of a text
# Qdrant closes an idle connection after 5 s, and a request sent at that moment is lost. On loopback, a reply of some kB
# takes 40 ms longer on a reused connection (Nagle's algorithm, delayed acknowledgement).
_REST: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2.0)
_REST_ON_LOOPBACK: Final = httpx.Limits(max_connections=100, max_keepalive_connections=0)
log = structlog.get_logger(__name__)
T = TypeVar("T")
_SLICE: Final = 64  # points in one request
_READ_SLICE: Final = 256
_SPARE: Final = 16  # hits asked for beyond the limit, so that a few stale ones cost no second round
_WIDER: Final = 4
_REPEATS: Final = 2  # of a search, because versions switched meanwhile
_PATIENCE_S: Final = 30  # longest total wait for a server that limits the rate of writes


def make_client(address: QdrantAddress, api_key: str | None, *, timeout_s: int) -> AsyncQdrantClient:
    """Return a client, not connected.

    Raises:
        ConfigurationError: the file of authorities can't be used.
    """
    try:
        trusted = True if address.ca is None else ssl.create_default_context(cafile=address.ca)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(f"SLUICE_STORE: ca={address.ca} can't be used: {error}") from error
    return AsyncQdrantClient(
        url=address.url,
        # Sent as a header: the client's parameter warns where there is no TLS, which is usual in a private network.
        headers={"api-key": api_key} if api_key else None,
        timeout=timeout_s,
        check_compatibility=False,
        limits=_REST_ON_LOOPBACK if address.loopback else _REST,
        verify=trusted,
    )


def check_version(server: str) -> None:
    """Log a warning if the versions of client and server differ by more than Qdrant supports.

    Raises:
        ConfigurationError: the server is too old for our filters.
    """
    numbers = server.split(".")[:2]
    if all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigurationError(f"SLUICE_STORE: the Qdrant server is {server}, but {oldest} or newer is needed")
    own = version("qdrant-client")
    if not is_compatible(own, server):
        log.warning(
            "store_version",
            server=server,
            client=own,
            reason=f"Qdrant {server} and its client {own} are more than one minor version apart; update the server",
        )


class _Shape(msgspec.Struct, frozen=True):
    """The vectors of a collection."""

    size: int | None
    replicated: bool

    @property
    def ordering(self) -> models.WriteOrdering | None:
        return models.WriteOrdering.STRONG if self.size is None else None

    @property
    def consistency(self) -> models.ReadConsistencyType | None:
        return models.ReadConsistencyType.QUORUM if self.size is None and self.replicated else None


class QdrantStore:
    """The store on a server; `prefix` begins the names of its collections. See `shared.store.Store` for the methods.

    In strict mode a search by a field without an index is Rejected; `strict` has what else must be allowed.
    """

    def __init__(
        self,
        address: QdrantAddress,
        api_key: str | None = None,
        prefix: str = "",
        *,
        timeout_s: int = 30,
        client: AsyncQdrantClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take the settings; nothing is connected yet. `client` replaces the one made from the other arguments.

        Raises:
            ConfigurationError: the address names a file of authorities that can't be used.
        """
        self._address = address
        self._api_key = api_key
        self._prefix = prefix
        self._client = client or make_client(address, api_key, timeout_s=timeout_s)
        self._sleep = sleep
        self._shapes: dict[str, _Shape] = {}
        self._closed = False

    async def start(self) -> None:
        """Connect.

        Raises:
            Unavailable: nobody answers.
            ConfigurationError: the server refuses the API key, or wants one, or is too old.
        """
        try:
            server = (await self._ask(self._client.info())).version
            await self.collections()
        except Unavailable as error:
            if error.code != NO_ACCESS:
                raise
            key = "SLUICE_QDRANT_API_KEY isn't the server's" if self._api_key else "SLUICE_QDRANT_API_KEY isn't set"
            raise ConfigurationError(f"{key}: {error.sentence}") from error
        check_version(server)
        log.info("store_reached", url=self._address.url, version=server)

    async def close(self) -> None:
        """Disconnect. Later calls raise Unavailable."""
        self._closed = True
        await self._client.close()

    async def create_collection(
        self, name: str, *, size: int | None, sparse: bool, indexes: Mapping[str, IndexKind], half: bool = False
    ) -> None:
        full = self._full(name)
        if not await self._ask(self._client.collection_exists(full)):
            await self._create(full, size=size, sparse=sparse, half=half)
        self._shapes.pop(name, None)
        found = (await self._shape(name)).size
        if found != size:
            raise ConfigurationError(f"SLUICE_STORE: collection {name!r} has dense vectors of {found}, not {size}")
        info = await self._ask(self._client.get_collection(full))
        if short := shortfalls(info.config.strict_mode_config):
            raise ConfigurationError(f"SLUICE_STORE: collection {full!r} is in strict mode with {'; '.join(short)}")
        for field, kind in indexes.items():
            if json_path(field) not in info.payload_schema:
                await self._ask(self._client.create_payload_index(full, json_path(field), schema(kind), wait=True))

    async def _create(self, full: str, *, size: int | None, sparse: bool, half: bool) -> None:
        replicas = self._address.replicas
        datatype = models.Datatype.FLOAT16 if half else None
        dense: Any = (
            {} if size is None else models.VectorParams(size=size, distance=models.Distance.COSINE, datatype=datatype)
        )
        words = {SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)} if sparse else None
        try:
            await self._client.create_collection(
                full,
                vectors_config=dense,
                sparse_vectors_config=words,
                shard_number=self._address.shards,
                replication_factor=replicas,
                write_consistency_factor=None if replicas is None else replicas // 2 + 1,
            )
        except VENDOR as error:
            if status(error) != 409:  # another process created it just now
                raise ours(error, self._address.url) from error

    async def drop_collection(self, name: str) -> None:
        await self._ask(self._client.delete_collection(self._full(name)))
        self._shapes.pop(name, None)

    async def collections(self) -> list[str]:
        names = (collection.name for collection in (await self._ask(self._client.get_collections())).collections)
        return sorted(name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix))

    async def upsert(self, name: str, points: Sequence[Point], *, only_if: Filter | None = None) -> None:
        await self._write(name, points, update_filter=None if only_if is None else server_filter(only_if))

    async def put_if(
        self, name: str, points: Sequence[Point], only_if: Filter | None, *, fields: Sequence[str] | None = None
    ) -> list[Point]:
        if only_if is None:
            await self._write(name, points, update_mode=models.UpdateMode.INSERT_ONLY)
        else:
            await self.upsert(name, points, only_if=only_if)
        return await self.retrieve(name, [point.id for point in points], fields=fields)

    async def _write(self, name: str, points: Sequence[Point], **options: Any) -> None:
        full = self._full(name)
        check_points(points)
        shape = await self._shape(name)
        for point in points:
            if point.dense is not None and len(point.dense) != shape.size:
                raise ValueError(
                    f"point {point.id} has a dense vector of {len(point.dense)}; collection {name!r} has {shape.size}"
                )

        async def put(some: Sequence[models.PointStruct]) -> None:
            def write() -> Awaitable[object]:
                return self._client.upsert(full, some, wait=True, ordering=shape.ordering, **options)

            try:
                await self._ask(self._patiently(write))
            except (Unavailable, ValueError) as error:
                if len(some) == 1 or not too_large(error.__cause__):
                    raise
                await put(some[: len(some) // 2])
                await put(some[len(some) // 2 :])

        for at in range(0, len(points), _SLICE):
            await put([server_point(point) for point in points[at : at + _SLICE]])

    async def set_payload(self, name: str, payload: Payload, where: Filter) -> None:
        check_payload(payload, f"payload for {name}")
        full, matching, ordering = self._full(name), server_filter(where), (await self._shape(name)).ordering
        await self._ask(
            self._patiently(lambda: self._client.set_payload(full, payload, matching, wait=True, ordering=ordering))
        )

    async def retrieve(
        self, name: str, ids: Sequence[str], *, vectors: bool = False, fields: Sequence[str] | None = None
    ) -> list[Point]:
        full, consistency = self._full(name), (await self._shape(name)).consistency
        payload = payload_selector(fields)
        wanted = list(dict.fromkeys(identifier for identifier in ids if is_id(identifier)))
        found: list[Point] = []
        for at in range(0, len(wanted), _READ_SLICE):
            some = wanted[at : at + _READ_SLICE]
            records = await self._ask(self._client.retrieve(full, some, payload, vectors, consistency=consistency))
            found += [stored_point(record) for record in records]
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
        order: Order | None = None,
    ) -> PointPage:
        by = None
        if order is not None:
            direction = models.Direction.DESC if order.descending else models.Direction.ASC
            by = models.OrderBy(key=json_path(order.by), direction=direction, start_from=order.start)
        records, following = await self._ask(
            self._client.scroll(
                self._full(name),
                server_filter(where),
                limit=check_limit(limit),
                order_by=by,
                offset=check_after(after),
                with_payload=payload_selector(fields),
                with_vectors=vectors,
                consistency=(await self._shape(name)).consistency,
            )
        )
        found = [stored_point(record) for record in records]
        return PointPage(found, None if following is None or by else str(following))

    async def count(self, name: str, where: Filter = EVERYTHING) -> int:
        return (await self._ask(self._client.count(self._full(name), server_filter(where), exact=True))).count

    async def facet(self, name: str, field: str, where: Filter = EVERYTHING, *, limit: int = 1000) -> dict[str, int]:
        matching, most = server_filter(where), check_limit(limit)
        result = await self._ask(
            self._client.facet(self._full(name), json_path(field), matching, limit=most, exact=True)
        )
        return {str(hit.value): hit.count for hit in result.hits}

    async def delete(self, name: str, where: Filter) -> None:
        selector = models.FilterSelector(filter=server_filter(check_narrow(where)))
        full, ordering = self._full(name), (await self._shape(name)).ordering
        await self._ask(self._patiently(lambda: self._client.delete(full, selector, wait=True, ordering=ordering)))

    async def search(
        self, name: str, legs: Sequence[Leg], where: Filter, *, limit: int, heads: str
    ) -> list[list[StoreHit]]:
        check_legs(legs)
        full, asked = self._full(name), check_limit(limit) + _SPARE
        size = (await self._shape(name)).size
        for leg in legs:
            if leg.dense is not None and len(leg.dense) != size:
                raise ValueError(f"the leg has a dense vector of {len(leg.dense)}; collection {name!r} has {size}")
        hits: list[list[StoreHit]] = [[] for _ in legs]
        numbers = [number for number, leg in enumerate(legs) if leg.sparse is None or leg.sparse.indices]
        before: dict[str, int] = {}  # heads as read before the search
        repeats = 0
        while numbers:
            # All legs in one round: with heads read at two moments, they could show two versions.
            requests = [query_request(legs[number], where, asked) for number in numbers]
            answers = await self._ask(self._client.query_batch_points(full, requests), limited=Rejected)
            found = [sorted(answer.points, key=lambda point: (-point.score, str(point.id))) for answer in answers]
            current = await self._current(heads, {_owner(point)[0] for some in found for point in some})
            for number, points in zip(numbers, found, strict=True):
                kept = [p for p in points if _owner(p) in current.items()]
                hits[number] = [
                    StoreHit(str(p.id), p.score, msgspec.Raw(msgspec.msgpack.encode(p.payload or {})))
                    for p in kept[:limit]
                ]
            narrow = any(
                len(hits[number]) < limit and len(points) == asked
                for number, points in zip(numbers, found, strict=True)
            )
            moved = repeats < _REPEATS and any(_outrun(points, before, current) for points in found)
            if not narrow and not moved:
                break
            asked *= _WIDER if narrow else 1
            repeats += moved
            before |= current
        return await self._with_cosines(full, legs, hits)

    async def _with_cosines(
        self, full: str, legs: Sequence[Leg], rankings: list[list[StoreHit]]
    ) -> list[list[StoreHit]]:
        """Return the rankings with each hit's cosine with the dense leg; a hit that is deleted by now has none."""
        dense = next((number for number, leg in enumerate(legs) if leg.dense is not None), None)
        if dense is None:
            return rankings
        cosines = {hit.id: hit.score for hit in rankings[dense]}
        others = {hit.id for hits in rankings for hit in hits} - cosines.keys()
        if others:
            only = Filter(must=(Ids(tuple(sorted(others))),))
            request = query_request(legs[dense], only, len(others), payload=False)
            [answer] = await self._ask(self._client.query_batch_points(full, [request]), limited=Rejected)
            cosines |= {str(point.id): point.score for point in answer.points}
        return [[msgspec.structs.replace(hit, cosine=cosines.get(hit.id)) for hit in hits] for hits in rankings]

    async def flush(self) -> None:
        """Do nothing: every write has waited for the server."""

    async def _current(self, heads: str, documents: set[str]) -> dict[str, int]:
        """Return each document's current version, read anew: heads move during a search."""
        points = await self.retrieve(heads, sorted(documents), fields=("version", "deleted"))
        return {
            point.id: point.payload["version"]
            for point in points
            if isinstance(point.payload.get("version"), int) and point.payload.get("deleted") is not True
        }

    async def _shape(self, name: str) -> _Shape:
        if name not in self._shapes:
            params = (await self._ask(self._client.get_collection(self._full(name)))).config.params
            dense = params.vectors
            self._shapes[name] = _Shape(
                size=dense.size if isinstance(dense, models.VectorParams) else None,
                replicated=(params.replication_factor or 1) > 1,
            )
        return self._shapes[name]

    def _full(self, name: str) -> str:
        return self._prefix + check_name(name)

    async def _ask(self, answer: Awaitable[T], *, limited: type[PipelineError] = Unavailable) -> T:
        try:
            async with asyncio.timeout(PATIENCE.get()):  # the client has the longer one
                return await answer
        except TimeoutError:
            raise Unavailable(f"the store at {self._address.url} gave no answer in time") from None
        except VENDOR as error:
            raise ours(error, self._address.url, limited=limited) from error
        except RuntimeError as error:
            if not self._closed:
                raise
            raise Unavailable(f"the store at {self._address.url} is closed") from error

    async def _patiently(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write, and retry when a rate limit says to: starting over would never complete a large document."""
        patience = _PATIENCE_S
        while True:
            try:
                await write()
            except ResourceExhaustedResponse as error:
                wait_s = max(1, error.retry_after_s)
                if wait_s > patience:
                    raise
                patience -= wait_s
                await self._sleep(wait_s)
            else:
                return


def _outrun(points: Sequence[models.ScoredPoint], before: Mapping[str, int], current: Mapping[str, int]) -> bool:
    """Return whether a document may have switched versions during the search, so that it must be repeated.

    That is so if only older versions of a document were found and its head is newer than `before` the search. If the
    head is as before, the old points are leftovers, and the document just isn't among the hits.
    """
    found = {_owner(point) for point in points}
    return any(
        name in current
        and version < current[name]
        and current[name] != before.get(name)
        and (name, current[name]) not in found
        for name, version in found
    )


def _owner(point: models.ScoredPoint) -> tuple[str, Any]:
    document, version = owner_in(point.payload or {})
    return str(document), version
