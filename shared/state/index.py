"""The index: heads and chunk points of one generation, and the only way to read them.

A point belongs to one version of one document and never changes; a head names the version that answers.
A point is current if its version is its document's head (correctness.md, sections 3 and 4).
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal
from uuid import NAMESPACE_OID, uuid5

import msgspec
import xxhash

from shared.contracts import Message, TextFormat, embedded_of, prefixed
from shared.embedder import Model, Vector
from shared.embedder.half_precision import Precision
from shared.state.batching import Batcher, grouped
from shared.state.rebuild_gate import Gate
from shared.store import (
    Filter,
    Ids,
    IndexKind,
    Leg,
    Match,
    Order,
    Payload,
    Point,
    Present,
    Range,
    Sparse,
    Store,
    StoreHit,
    pages,
)
from shared.store.edge import EdgeStore

GENERATIONS = "generations"
HEAD_INDEXES: dict[str, IndexKind] = {
    "tenant": "tenant",
    "source": "keyword",
    "tags": "keyword",
    "version": "integer",
    "withdrawalRev": "integer",
}
CHUNK_INDEXES: dict[str, IndexKind] = {
    "metadata.tenant": "tenant",
    "metadata.documentId": "lookup",
    "metadata.source": "keyword",
    "metadata.tags": "keyword",
    "metadata.chunkHash": "lookup",
    "metadata.embeddedHash": "lookup",
    "metadata.version": "integer",
    "metadata.chunkOrder": "integer",
    "attempt": "integer",
}
HASH_BATCH = 64
_PUT_TOGETHER = 64  # points of several documents in a write; more in one frame would keep searches waiting
MOST_VALUES = 10_000  # values of a field of heads
_COUNTED = 32  # documents per facet: its time grows quadratically, to 0.3 s for 500
_CODE = str(uuid5(NAMESPACE_OID, "extractor"))  # a point beside the generations
EMBEDDED = "embeddingText"  # payload field: the embedded text of a ready-made chunk, if it differs from the one shown
PREFIX = "prefix"  # payload field: title and section above the text that is embedded; absent: none
TABLE_HEADER = "tableHeader"  # metadata field: of the table, or row, that a chunk continues
ATTEMPT = "attempt"  # payload field: number of redrives of the version that wrote the point; absent: none
FOR_GOOD = 2**31  # the attempt of a version that no redrive may bring back
MOST_WITHDRAWN = 32  # withdrawn versions remembered of a document; the oldest are forgotten


class Generation(Message, frozen=True):
    """Everything that determines the index's content. Only equal generations share points.

    A field that is added needs a default that says what generations had before. Defaults aren't encoded, so ids stay
    the same.
    """

    chunker: str  # version of the chunker's code
    chunk_size: int
    chunk_overlap: int
    model: Model
    bm25: str  # settings of the sparse vectors
    chunk_unit: Literal["characters", "tokens"] = "characters"  # of size and overlap
    vectors: Precision = "full"  # precision of the stored vectors: ADR 0016
    build: int = 0  # number in the registry, so that one that is built again has other collections, topics and groups

    @property
    def id(self) -> str:
        """Return 12 hex digits: the generation's fingerprint."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]

    @property
    def chunks(self) -> str:
        """Return the name of the collection of chunk points."""
        return f"chunks.{self.id}"

    @property
    def heads(self) -> str:
        """Return the name of the collection of heads."""
        return f"heads.{self.id}"


class IngestCode(Message, frozen=True):
    """The code and libraries of the ingest workers."""

    extractor: str  # fingerprints of the readers of formats, separated by blanks
    chunker: str  # version of the chunker


class Withdrawal(Message, frozen=True):
    """A version that failed: no worker may switch to it, unless it has been redriven more often since."""

    version: int
    attempt: int = 0  # number of redrives of the version when it was withdrawn


class Head(Message, frozen=True):
    """The version of a document that answers, with the fields that lists show."""

    document_id: str
    version: int
    tenant: str
    source: str = ""
    path: str = ""
    deleted: bool = False
    chunk_count: int = 0
    title: str | None = None
    url: str | None = None
    tags: tuple[str, ...] = ()
    text_sha256: str | None = None  # the blob of the extracted text
    text_size: int = 0  # bytes
    text_format: TextFormat = "plain"
    updated_at: int = 0  # ms since 1970
    withdrawals: tuple[Withdrawal, ...] = ()  # of versions above this one, oldest version first
    withdrawal_rev: int = 0  # number of changes to `withdrawals`; the next one is conditional on it

    def withdrawn(self, version: int) -> int | None:
        """Return the attempt of the version that was withdrawn; None if it wasn't."""
        return next((each.attempt for each in self.withdrawals if each.version == version), None)


class KnownVector(msgspec.Struct, frozen=True):
    """A vector of a stored point of the same tenant and model."""

    text: str
    vector: Vector


def vector_hash(vector: Vector) -> str:
    """Return 32 hex digits, xxh3_128 of the little-endian float32 bytes, to detect damaged vectors."""
    return xxhash.xxh3_128_hexdigest(vector.astype("<f4", copy=False).tobytes())


def embedded_text(payload: Payload) -> str:
    """Return the text that a point's vector is of."""
    text: str = payload.get(EMBEDDED) or embedded_of(payload["text"], payload["metadata"].get(TABLE_HEADER))
    return prefixed(payload.get(PREFIX, ""), text)


def of_document(document_id: str, *more: Match | Range) -> Filter:
    """Return the filter of one document's chunk points."""
    return Filter(must=(Match("metadata.documentId", (document_id,)), *more))


def _of_tenant(tenant: str, where: Filter) -> Filter:
    """Return the filter of the tenant's chunk points that match."""
    return Filter(must=(Match("metadata.tenant", (tenant,)), *where.must), must_not=where.must_not)


def _after(attempt: int) -> Range:
    return Range(ATTEMPT, gt=attempt)


def _head_point(head: Head) -> Point:
    return Point(id=head.document_id, payload=msgspec.json.decode(msgspec.json.encode(head)))


def _head(point: Point) -> Head:
    return msgspec.convert(point.payload, Head)


def deletion_head(document_id: str, version: int, tenant: str) -> Head:
    """Return a deleted document's head, which keeps older versions from answering."""
    return Head(document_id=document_id, version=version, tenant=tenant, deleted=True)


class _HeadWrite(msgspec.Struct, frozen=True, eq=False):
    """A head to write unless one of a version from `below` on is stored, or one with withdrawals."""

    below: int
    head: Head


class _PointWrite(msgspec.Struct, frozen=True, eq=False):
    """A point to write, except over one of a later attempt."""

    point: Point
    attempt: int


def _unchanged(head: Head) -> Filter:
    """Return the filter that matches the stored head as long as nobody has changed it."""
    version = Match("version", (head.version,))
    if head.withdrawal_rev == 0:
        return Filter(must=(version,), must_not=(Present("withdrawalRev"),))
    return Filter(must=(version, Match("withdrawalRev", (head.withdrawal_rev,))))


class Index:
    """One generation's collections. Raises Unavailable when the store is away.

    After chunks are read for a caller, `gate` checks that the index was complete.
    """

    def __init__(self, store: Store, generation: Generation, gate: Gate | None = None) -> None:
        self._store = store
        self._gate = gate or Gate()
        self.generation = generation
        self._chunks = generation.chunks
        self._heads = generation.heads
        self.code_noted: IngestCode | None = None  # by this process
        self._fence_lookup: Batcher[str, Head] = Batcher(self.fences)
        self._count_lookup: Batcher[str, int] = Batcher(self.point_counts)
        self._head_writing: Batcher[_HeadWrite, Head] = Batcher(self._write_heads)
        self._point_lookup: Batcher[str, Payload] = Batcher(self._stored_points)
        self._point_writing: Batcher[_PointWrite, None] = Batcher(self._write_points, most=_PUT_TOGETHER)
        self._vector_lookup: Batcher[tuple[str, str], KnownVector] = Batcher(self._known, most=HASH_BATCH)

    async def whole(self) -> None:
        """Check that the index was complete when the caller read it. Raises Unavailable while it is rebuilt."""
        await self._gate.points(self._heads, self._chunks)

    async def create(self) -> None:
        """Create the collections and payload indexes that don't exist."""
        await self._store.create_collection(self._heads, size=None, sparse=False, indexes=HEAD_INDEXES)
        await self._store.create_collection(
            self._chunks,
            size=self.generation.model.dimension,
            sparse=True,
            indexes=CHUNK_INDEXES,
            half=self.generation.vectors == "half",
        )

    # -- the code of the first stages ----------------------------------------------------------------

    async def note_code(self, code: IngestCode) -> None:
        """Store which code now reads and chunks files."""
        self.code_noted = code
        await self._store.upsert(GENERATIONS, [Point(id=_CODE, payload=msgspec.to_builtins(code))])

    async def code(self) -> IngestCode | None:
        """Return which code reads and chunks files; None if no worker has stored it."""
        found = await self._store.retrieve(GENERATIONS, [_CODE])
        return msgspec.convert(found[0].payload, IngestCode) if found else None

    # -- heads ---------------------------------------------------------------------------------------

    async def head(self, document_id: str) -> Head | None:
        """Return the document's head, or None; concurrent calls share one read."""
        head = await self.fence(document_id)
        return head if head is not None and head.version else None

    async def heads(self, document_ids: Sequence[str]) -> Mapping[str, Head]:
        """Return the heads of the documents that have one."""
        return {id_: head for id_, head in (await self.fences(document_ids)).items() if head.version}

    async def fences(self, document_ids: Sequence[str]) -> Mapping[str, Head]:
        """Return the stored heads; one of version 0 only says which versions were withdrawn before any answered."""
        return {point.id: _head(point) for point in await self._store.retrieve(self._heads, document_ids)}

    async def fence(self, document_id: str) -> Head | None:
        """Return the document's stored head, even one of version 0; concurrent calls share one read."""
        return await self._fence_lookup.get(document_id)

    async def switch(self, head: Head, attempt: int = 0, *, first: bool = False) -> Head:
        """Write `head` unless a newer one exists or its version was withdrawn; return the stored head.

        A withdrawn version can be switched to after a redrive: if `attempt`, its number of redrives, has grown since.
        `first` says that the document probably has no head yet; then concurrent calls share one write.
        """
        # Nearly always nothing was withdrawn, and this write is enough. For a first head any stored one is in the way.
        standing = await self._head_writing.get(_HeadWrite(1 if first else head.version, head)) or head
        while True:
            withdrawn = standing.withdrawn(head.version)
            if standing.version >= head.version or (withdrawn is not None and withdrawn >= attempt):
                return standing
            later = tuple(each for each in standing.withdrawals if each.version > head.version)
            wanted = msgspec.structs.replace(
                head, withdrawals=later, withdrawal_rev=standing.withdrawal_rev + 1 if later else 0
            )
            stored = await self._store.put_if(self._heads, [_head_point(wanted)], _unchanged(standing))
            standing = _head(stored[0]) if stored else head

    async def _write_heads(self, writes: Sequence[_HeadWrite]) -> Mapping[_HeadWrite, Head]:
        """Write each head unless the stored one is in its way, and return the stored one.

        Those with the same condition share a call.
        """
        standing: dict[_HeadWrite, Head] = {}

        async def written(below: int, some: Sequence[_HeadWrite]) -> None:
            # Of two writes of one document under the same condition only one may succeed.
            points = {write.head.document_id: _head_point(write.head) for write in reversed(some)}
            condition = Filter(must=(Range("version", lt=below),), must_not=(Present("withdrawalRev"),))
            stored = await self._store.put_if(self._heads, [*points.values()], condition)
            found = {point.id: _head(point) for point in stored}
            standing.update({write: found[id_] for write in some if (id_ := write.head.document_id) in found})

        by_condition = grouped(writes, lambda write: write.below)
        await asyncio.gather(*(written(below, some) for below, some in by_condition.items()))
        return standing

    async def withdraw(self, head: Head, attempt: int = 0) -> Head:
        """Mark the version of `head` as withdrawn, so that no switch to it succeeds; return the stored head.

        Nothing is written if that version or a newer one answers already, or if MOST_WITHDRAWN newer ones are marked.
        """
        name, version = head.document_id, head.version
        mark = Withdrawal(version=version, attempt=attempt)
        bare = msgspec.structs.replace(deletion_head(name, 0, head.tenant), withdrawals=(mark,), withdrawal_rev=1)
        stored = await self._store.put_if(self._heads, [_head_point(bare)], None)
        while True:
            standing = _head(stored[0]) if stored else bare
            withdrawn = standing.withdrawn(version)
            if standing.version >= version or (withdrawn is not None and withdrawn >= attempt):
                return standing
            others = (each for each in standing.withdrawals if each.version != version)
            marks = sorted((*others, mark), key=lambda each: each.version)[-MOST_WITHDRAWN:]
            if mark not in marks:  # a replay, or a letter that is dropped long afterwards
                return standing
            changes: Payload = {
                "withdrawals": msgspec.json.decode(msgspec.json.encode(marks)),
                "withdrawalRev": standing.withdrawal_rev + 1,
            }
            same = _unchanged(standing)
            where = Filter(must=(Ids((name,)), *same.must), must_not=same.must_not)
            await self._store.set_payload(self._heads, changes, where)
            stored = await self._store.retrieve(self._heads, [name])
            if not stored:  # it was dropped meanwhile
                stored = await self._store.put_if(self._heads, [_head_point(bare)], None)

    async def withdraw_for_good(self, document_id: str, version: int, tenant: str) -> bool:
        """Return whether the version is withdrawn, and no redrive can bring it back; False if it answers."""
        return (await self.withdraw(deletion_head(document_id, version, tenant), FOR_GOOD)).version != version

    async def heads_page(
        self, tenant: str | None = None, *, after: str | None = None, limit: int = 256
    ) -> tuple[list[Head], str | None]:
        """Return a page of the heads of a tenant, or of all, in id order, and the cursor of the next page."""
        where = Filter() if tenant is None else Filter(must=(Match("tenant", (tenant,)),))
        page = await self._store.scroll(self._heads, where, limit=limit, after=after)
        heads = list(map(_head, page.points))
        return [head for head in heads if head.version], page.after

    # -- points --------------------------------------------------------------------------------------

    async def put(self, points: Sequence[Point], attempt: int = 0) -> None:
        """Write chunk points, except over those that a later attempt has written. Idempotent.

        Concurrent calls share a write.
        """
        if attempt:
            points = [msgspec.structs.replace(point, payload={**point.payload, ATTEMPT: attempt}) for point in points]
        await self._point_writing.get_all([_PointWrite(point, attempt) for point in points])

    async def _write_points(self, writes: Sequence[_PointWrite]) -> Mapping[_PointWrite, None]:
        """Write all points, those of one attempt in one call."""
        for attempt, some in grouped(writes, lambda write: write.attempt).items():
            # Of two writes of one point the later one counts, as if they had been called one after the other.
            points = {write.point.id: write.point for write in some}
            await self._store.upsert(self._chunks, [*points.values()], only_if=Filter(must_not=(_after(attempt),)))
        return {}

    async def present(self, ids: Sequence[str], attempt: int = 0) -> dict[str, str]:
        """Return the chunk hash of each id that has a point, written by this attempt or a later one.

        Concurrent calls share one read.
        """
        found = await self._point_lookup.get_all(ids)
        return {
            id_: str(found[id_]["metadata"]["chunkHash"])
            for id_ in ids
            if id_ in found and found[id_].get(ATTEMPT, 0) >= attempt
        }

    async def _stored_points(self, ids: Sequence[str]) -> Mapping[str, Payload]:
        points = await self._store.retrieve(self._chunks, ids, fields=("metadata.chunkHash", ATTEMPT))
        return {point.id: point.payload for point in points}

    async def points(self, document_id: str) -> int:
        """Return how many points the document has in all versions; concurrent calls share one read."""
        return await self._count_lookup.get(document_id) or 0

    async def point_counts(self, ids: Sequence[str]) -> Mapping[str, int]:
        """Return the number of points, in all versions, of each document that has any."""
        parts = [tuple(ids[start : start + _COUNTED]) for start in range(0, len(ids), _COUNTED)]
        counts = await asyncio.gather(*map(self._counts, parts))
        return {name: count for part in counts for name, count in part.items()}

    async def _counts(self, ids: tuple[str, ...]) -> Mapping[str, int]:
        where = Filter(must=(Match("metadata.documentId", ids),))
        return await self._store.facet(self._chunks, "metadata.documentId", where, limit=len(ids))

    async def version_points(self, document_id: str, version: int) -> int:
        """Return how many points one version has."""
        return await self._store.count(self._chunks, of_document(document_id, Match("metadata.version", (version,))))

    async def tenant_points(self, tenant: str) -> int:
        """Return how many points the tenant has; while a version is replaced, both versions count."""
        count = await self._store.count(self._chunks, _of_tenant(tenant, Filter()))
        await self.whole()
        return count

    async def answering(self, document_id: str, version: int) -> Head | None:
        """Return the head if this version answers and has all its points, else None."""
        head = (await self.heads([document_id])).get(document_id)
        if head is None or head.version != version:
            return None
        return head if await self.version_points(document_id, version) == head.chunk_count else None

    async def delete_below(self, document_id: str, version: int) -> None:
        """Delete the document's points of versions below `version`, and no others."""
        await self._store.delete(self._chunks, of_document(document_id, Range("metadata.version", lt=version)))

    async def delete_version(self, document_id: str, version: int) -> None:
        """Delete the document's points of this version only."""
        await self._store.delete(self._chunks, of_document(document_id, Match("metadata.version", (version,))))

    async def delete_attempts(self, document_id: str, version: int, attempt: int) -> None:
        """Delete the version's points, except those that were written after `attempt` redrives."""
        where = of_document(document_id, Match("metadata.version", (version,)))
        await self._store.delete(self._chunks, Filter(must=where.must, must_not=(_after(attempt),)))

    async def delete_from(self, document_id: str, version: int, order: int) -> None:
        """Delete the version's points from chunk `order` on."""
        of_version = Match("metadata.version", (version,))
        await self._store.delete(
            self._chunks, of_document(document_id, of_version, Range("metadata.chunkOrder", gte=order))
        )

    async def known(self, tenant: str, hashes: Sequence[str]) -> dict[str, KnownVector]:
        """Return for each hash of an embedded text the text and vector of some point of the tenant, if undamaged.

        Concurrent calls share a read.
        """
        found: dict[str, KnownVector] = {}
        for start in range(0, len(hashes), HASH_BATCH):
            keys = [(tenant, hash_) for hash_ in hashes[start : start + HASH_BATCH]]
            known = await self._vector_lookup.get_all(keys)
            found |= {key[1]: known[key] for key in keys if key in known}
        return found

    async def _known(self, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], KnownVector]:
        """Return the known vector of each tenant and hash that has one."""
        found: dict[tuple[str, str], KnownVector] = {}
        for tenant in {tenant for tenant, _ in keys}:
            missing = {hash_ for of, hash_ in keys if of == tenant}
            after: str | None = None
            # Found hashes leave the filter, so a text in ten thousand documents costs one page. A page has one point
            # for each: most texts are in few documents, and a point with its vector costs more than another page.
            while missing:
                page = await self._store.scroll(
                    self._chunks,
                    _of_tenant(tenant, Filter(must=(Match("metadata.embeddedHash", tuple(sorted(missing))),))),
                    after=after,
                    vectors=True,
                    fields=(
                        "text",
                        PREFIX,
                        EMBEDDED,
                        *(f"metadata.{name}" for name in ("embeddedHash", "vectorHash", TABLE_HEADER)),
                    ),
                    limit=len(missing),
                )
                before = len(missing)
                for point in page.points:
                    metadata: dict[str, Any] = point.payload["metadata"]
                    if point.dense is None or metadata["vectorHash"] != vector_hash(point.dense):
                        continue
                    known = KnownVector(embedded_text(point.payload), point.dense)
                    found.setdefault((tenant, metadata["embeddedHash"]), known)
                    missing.discard(metadata["embeddedHash"])
                if page.after is None:
                    break
                after = page.after if len(missing) == before else None
        return found

    async def chunks_page(self, document_id: str, version: int, *, start: int, limit: int) -> list[Payload]:
        """Return the payloads of one version's points in reading order, from chunk `start` on."""
        where = of_document(document_id, Match("metadata.version", (version,)))
        order = Order("metadata.chunkOrder", start=start)
        points = (await self._store.scroll(self._chunks, where, limit=limit, order=order)).points
        return [point.payload for point in points]

    def versions(self, limit: int = 512) -> AsyncGenerator[Sequence[Point]]:
        """Yield all points in id order, page by page, with only documentId, version and attempt."""
        fields = ("metadata.documentId", "metadata.version", ATTEMPT)
        return pages(self._store, self._chunks, limit=limit, fields=fields)

    async def sample(self, count: int) -> list[Point]:
        """Return so many points, if there are, with their vectors; ids are hashes, so they are of all documents."""
        return list((await self._store.scroll(self._chunks, limit=count, vectors=True)).points)

    async def head_values(self, tenant: str, field: str, where: Filter) -> dict[str, int]:
        """Return the number of the tenant's documents for each value of `source` or `tags`; `where` is on heads."""
        own = Filter((Match("tenant", (tenant,)), Range("version", gte=1)), (Match("deleted", (True,)),))
        counts = await self._store.facet(self._heads, field, own & where, limit=MOST_VALUES)
        await self.whole()
        return counts

    async def metadata_page(
        self, tenant: str, where: Filter, *, fields: Sequence[str] = (), firsts: bool, after: str | None, limit: int
    ) -> tuple[list[tuple[str, Payload]], str | None]:
        """Return document id and these fields of the tenant's current chunks that match, and the next page's cursor.

        With `firsts`, only the first chunk of each document is read: `where` should only use fields that are equal in
        all chunks of a document.
        """
        if firsts:
            where &= Filter((Match("metadata.chunkOrder", (0,)),))
        wanted = tuple(f"metadata.{name}" for name in dict.fromkeys(("documentId", "version", *fields)))
        page = await self._store.scroll(
            self._chunks, _of_tenant(tenant, where), limit=limit, after=after, fields=wanted
        )
        await self.whole()
        found: list[Payload] = [point.payload["metadata"] for point in page.points]
        versions = await self._versions(list({each["documentId"] for each in found}))
        current = [each for each in found if versions.get(each["documentId"]) == each["version"]]
        return [(each["documentId"], each) for each in current], page.after

    async def _versions(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the answering version of each document that has one."""
        points = await self._store.retrieve(self._heads, ids, fields=("version", "deleted"))
        return {point.id: point.payload["version"] for point in points if not point.payload.get("deleted")}

    async def stands_elsewhere(self, tenant: str, document_id: str, chunk_hash: str) -> bool:
        """Return whether another document of the tenant has a chunk with this hash."""
        same, own = Match("metadata.chunkHash", (chunk_hash,)), Match("metadata.documentId", (document_id,))
        return await self._store.count(self._chunks, _of_tenant(tenant, Filter(must=(same,), must_not=(own,)))) > 0

    async def has_field(self, tenant: str, field: str) -> bool:
        """Return whether some point of the tenant has the (dotted) payload field."""
        where = _of_tenant(tenant, Filter(must=(Present(field),)))
        return bool((await self._store.scroll(self._chunks, where, limit=1, fields=())).points)

    @property
    def rewritable(self) -> bool:
        """Return whether `rewrite` can do anything."""
        return isinstance(self._store, EdgeStore)

    async def rewrite(self) -> None:
        """Rewrite the store's files without deleted data, if they are ours: a server does so itself."""
        if isinstance(self._store, EdgeStore):
            for name in await self._store.collections():
                await self._store.rewrite(name)

    async def delete_points(self, ids: Sequence[str]) -> None:
        """Delete points by id."""
        await self._store.delete(self._chunks, Filter(must=(Ids(tuple(ids)),)))

    async def search(self, tenant: str, legs: Sequence[Leg], where: Filter, *, limit: int) -> list[list[StoreHit]]:
        """Return each leg's best current hits of this tenant; a search without a tenant is impossible."""
        scoped = _of_tenant(tenant, where)
        hits = await self._store.search(self._chunks, legs, scoped, limit=limit, heads=self._heads)
        await self.whole()
        return hits

    async def warm(self) -> None:
        """Run an empty search, so that the store loads what it needs before the first caller waits for it."""
        nothing = [Leg(sparse=Sparse([], []))]
        await self._store.search(self._chunks, nothing, Filter(), limit=1, heads=self._heads)

    async def flush(self) -> None:
        """Return once all writes survive a crash."""
        await self._store.flush()


class ServingIndex(Index):
    """The index of the generation that serves now, for parts of a process that outlive a switch."""

    def serve(self, generation: Generation) -> None:
        """Use another generation from now on; calls under way may still use the previous one."""
        self.generation = generation
        self._chunks = generation.chunks
        self._heads = generation.heads
