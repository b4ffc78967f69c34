"""Port: points in collections, as Qdrant keeps them, in the few shapes the pipeline needs.

It has two adapters: `edge` (Qdrant's engine in a child process) and `qdrant` (a server). What the points mean is
defined in `shared.state.index` and `shared.state.ledger`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from shared.errors import Unavailable

T = TypeVar("T")
NO_COLLECTION: Final = "no_collection"  # code of Unavailable
Vector = NDArray[np.float32]
Scalar = str | int | bool
# tenant: a keyword that the engine groups its data by; lookup: one whose values have few points each
IndexKind = Literal["keyword", "tenant", "lookup", "integer"]
Payload = dict[str, Any]


class Match(msgspec.Struct, frozen=True, tag=True):
    """The field (or one element of a list field) equals one of `any_of`; an empty tuple matches nothing."""

    field: str  # dotted path
    any_of: tuple[Scalar, ...]


class Range(msgspec.Struct, frozen=True, tag=True):
    """The numeric field lies within the bounds; a point without the field doesn't match."""

    field: str
    gt: float | None = None
    gte: float | None = None
    lt: float | None = None
    lte: float | None = None


class Period(msgspec.Struct, frozen=True, tag=True):
    """The field's text is a time within the bounds, all in ISO 8601; a time without a zone is UTC.

    A point without the field, or with another text, doesn't match.
    """

    field: str
    gt: str | None = None
    gte: str | None = None
    lt: str | None = None
    lte: str | None = None


class Prefix(msgspec.Struct, frozen=True, tag=True):
    """The field (or one element of a list field) is a text that begins with `prefix`."""

    field: str
    prefix: str


class Present(msgspec.Struct, frozen=True, tag=True):
    """The point has the field, and it is neither null nor an empty list."""

    field: str


class Ids(msgspec.Struct, frozen=True, tag=True):
    """The point's id is one of these; an empty tuple matches nothing."""

    ids: tuple[str, ...]


Condition = Match | Range | Period | Prefix | Present | Ids


class Filter(msgspec.Struct, frozen=True):
    """All of `must` and none of `must_not`; the empty filter matches every point."""

    must: tuple[Condition, ...] = ()
    must_not: tuple[Condition, ...] = ()

    def __and__(self, other: "Filter") -> "Filter":
        """Return the filter of the points that match both."""
        return Filter((*self.must, *other.must), (*self.must_not, *other.must_not))


EVERYTHING = Filter()


class Sparse(msgspec.Struct, frozen=True):
    """A sparse vector: parallel lists, indices unique."""

    indices: list[int]
    values: list[float]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A point. `dense` has the collection's length and is finite, or the adapter raises ValueError."""

    id: str  # UUID
    payload: Payload
    dense: Vector | None = None
    sparse: Sparse | None = None


def stored_point(record: Any, id_: str | None = None) -> Point:
    """Return the point of a record of Qdrant's client, or of its engine, with the vectors that the record includes.

    `id_` is its id, if that is known: the engine makes an object of the record's own at each look, as of its vector.
    """
    found = record.vector
    # Where the only vector is the unnamed one, it may come without its empty name.
    named = found if isinstance(found, dict) else {} if found is None else {"": found}
    dense, sparse = named.get(""), named.get("bm25")
    return Point(
        id=id_ or str(record.id),
        payload=record.payload or {},
        dense=None if dense is None else np.array(dense, dtype=np.float32),
        sparse=None if sparse is None else Sparse(sparse.indices, sparse.values),
    )


class PointPage(msgspec.Struct, frozen=True):
    """A page of a scroll; `after` is the next call's cursor, None at the end."""

    points: list[Point]
    after: str | None


class Order(msgspec.Struct, frozen=True):
    """The order of points by an integer-indexed field; those without it are left out."""

    by: str
    descending: bool = False
    start: int | None = None  # the first value, inclusive; None: the first there is


_payloads: "msgspec.msgpack.Decoder[Payload]" = msgspec.msgpack.Decoder(Payload)


class StoreHit(msgspec.Struct, frozen=True):
    """A point found, with the leg's own score (cosine, or BM25 by the collection's IDF).

    Most hits of a search are only compared, so a caller may decode a type with the few fields that this takes.
    """

    id: str
    score: float
    encoded: msgspec.Raw  # the payload as MessagePack
    cosine: float | None = None  # of its vector with the dense leg's; None without such a leg or vector

    @property
    def payload(self) -> Payload:
        """Return the payload, decoded at each call."""
        return _payloads.decode(self.encoded)


class Leg(msgspec.Struct, frozen=True):
    """One ranking to ask for: exactly one of the two is set. A search has one dense leg at most."""

    dense: Vector | None = None
    sparse: Sparse | None = None


def owner_in(payload: Payload) -> tuple[Any, Any]:
    """Return what a chunk point's payload names as its document and version; None where it names none."""
    metadata = payload.get("metadata")
    return (metadata.get("documentId"), metadata.get("version")) if isinstance(metadata, dict) else (None, None)


class Store(Protocol):
    """A vector store. Collection names match `[A-Za-z0-9._-]{1,100}`.

    Every method may raise Unavailable. Then nothing was applied; of a batch a part may have been, and applying the
    batch again is harmless.
    """

    async def start(self) -> None:
        """Connect to the store, or start it."""

    async def close(self) -> None:
        """Flush and close."""

    async def create_collection(
        self, name: str, *, size: int | None, sparse: bool, indexes: Mapping[str, IndexKind], half: bool = False
    ) -> None:
        """Create the collection with its payload indexes unless it exists. `size` None: no dense vector.

        The dense vector is unnamed, cosine; the sparse one is named `bm25`, with IDF by the store. With `half`, the
        store keeps dense vectors in half precision: one from `half_precision` comes back unchanged, others rounded.
        Raises ConfigurationError if it exists with another vector size.
        """

    async def drop_collection(self, name: str) -> None:
        """Delete the collection with its points, if it exists."""

    async def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""

    async def upsert(self, name: str, points: Sequence[Point], *, only_if: Filter | None = None) -> None:
        """Write whole points. With `only_if`, an existing point is replaced only if it matches.

        A point that doesn't exist is inserted. A refused write gives no error.
        """

    async def put_if(
        self, name: str, points: Sequence[Point], only_if: Filter | None, *, fields: Sequence[str] | None = None
    ) -> list[Point]:
        """Return the stored points of these ids, in no particular order, after the write; `fields` as in `scroll`.

        A point is written if none of its id exists, or if the stored one matches `only_if`; None: only if none exists.
        """

    async def set_payload(self, name: str, payload: Payload, where: Filter) -> None:
        """Merge the top-level keys of `payload` into every matching point."""

    async def retrieve(
        self, name: str, ids: Sequence[str], *, vectors: bool = False, fields: Sequence[str] | None = None
    ) -> list[Point]:
        """Return those of the points that exist, in no particular order; `fields` as in `scroll`."""

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
        """Return matching points by their ids, or in another `order`, which has one page only.

        `fields` keeps only these (dotted) payload keys.
        """

    async def count(self, name: str, where: Filter = EVERYTHING) -> int:
        """Return the exact number of matching points."""

    async def facet(self, name: str, field: str, where: Filter = EVERYTHING, *, limit: int = 1000) -> dict[str, int]:
        """Return exact counts of the keyword field's values among matching points."""

    async def delete(self, name: str, where: Filter) -> None:
        """Delete all matching points. The empty filter is refused with ValueError: drop the collection."""

    async def search(
        self, name: str, legs: Sequence[Leg], where: Filter, *, limit: int, heads: str
    ) -> list[list[StoreHit]]:
        """Return each leg's hits, best first, ties by id, at most `limit`, all of them current.

        A point is current if the collection `heads` has a point of its document's id and version (`owner_in`) whose
        payload `deleted` isn't true.
        Fewer than `limit` are returned only if no more exist: where stale points took places, the adapter asks for
        more. With a dense leg, the hits of every leg have their cosine.

        Raises:
            Rejected: the server is configured to refuse this filter or limit; the sentence names it.
        """

    async def flush(self) -> None:
        """Return when all that was written before survives a loss of power (as far as the store can say)."""


class CollectionSize(msgspec.Struct, frozen=True):
    """The size of a collection."""

    name: str
    live: int  # points
    dead: int  # deleted points that still take space on the disk
    disk_bytes: int


def pages(store: Store, name: str, where: Filter = EVERYTHING, **how: Any) -> AsyncGenerator[Sequence[Point]]:
    """Yield the matching points in id order, page by page; `how` is as in `Store.scroll`. Raises Unavailable."""

    async def read(after: str | None) -> tuple[Sequence[Point], str | None]:
        page = await store.scroll(name, where, after=after, **how)
        return page.points, page.after

    return each_page(read)


async def each_page(read: Callable[[str | None], Awaitable[tuple[T, str | None]]]) -> AsyncGenerator[T]:
    """Yield every page; `read` takes the position of one, None for the first, and returns it with that of the next."""
    page, after = await read(None)
    yield page
    while after is not None:
        page, after = await read(after)
        yield page


async def retrieved(store: Store, name: str, ids: Sequence[str]) -> list[Point]:
    """Return those of the points that are there; none if there is no such collection. Raises Unavailable."""
    try:
        return await store.retrieve(name, ids)
    except Unavailable as error:
        if error.code == NO_COLLECTION:
            return []
        raise
