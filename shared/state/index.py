"""The index: heads and chunk points of one generation, and the only way to read them.

A point belongs to one version of one document and never changes; a head says which version answers.
A point counts when its version is its document's head (correctness.md, sections 3 and 4).
"""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal
from uuid import NAMESPACE_OID, uuid5

import msgspec
import structlog
import xxhash

from shared.contracts import Message, TextFormat
from shared.embedder import Model, Vector
from shared.errors import Unavailable
from shared.settings import ConfigurationError
from shared.state.batching import Batcher
from shared.state.rebuild_gate import AlwaysWhole, Gate
from shared.store import (
    Filter,
    Heads,
    Ids,
    IndexKind,
    Leg,
    Match,
    Payload,
    Point,
    PointPage,
    Present,
    Range,
    Rewritable,
    Sparse,
    Store,
    StoreHit,
)

log = structlog.get_logger(__name__)

GENERATIONS = "generations"
HEAD_INDEXES: dict[str, IndexKind] = {
    "tenant": "tenant",
    "source": "keyword",
    "tags": "keyword",
    "version": "integer",
    "withdrawn": "integer",
    "withdrawnAttempt": "integer",
}
CHUNK_INDEXES: dict[str, IndexKind] = {
    "metadata.tenant": "tenant",
    "metadata.documentId": "keyword",
    "metadata.source": "keyword",
    "metadata.tags": "keyword",
    "metadata.chunkHash": "keyword",
    "metadata.version": "integer",
    "metadata.chunkOrder": "integer",
}
HASH_BATCH = 256
_COUNTED = 32  # documents of one facet: its time grows with their square, to 0.3 s for 500
_EXTRACTOR = str(uuid5(NAMESPACE_OID, "extractor"))  # a point beside the generations
EMBEDDED = "embeddingText"  # in a payload: the text that the vector is of, where it isn't the one that is shown


class Generation(Message, frozen=True):
    """Everything that decides what the index holds. Equal ones can share points, others never do.

    A later field has a plain default, which is what older generations had: it isn't written, so their ids stay.
    """

    chunker: str  # version of the chunker's code
    chunk_size: int
    chunk_overlap: int
    model: Model
    bm25: str  # settings of the sparse vectors
    chunk_unit: Literal["characters", "tokens"] = "characters"  # of size and overlap

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


async def serving(store: Store, wanted: Generation, *, older_bm25: Collection[str] = ()) -> Generation:
    """Return the generation that answers: the one registered, or `wanted` where there is none yet.

    A newer chunker goes on with what an older one began: nobody could set that back. What is sent
    again gets new chunks. An index whose `bm25` is one of `older_bm25` goes on with it: all its points need the same.

    Raises:
        ConfigurationError: the index was built with other settings than `wanted`; the sentence names them.
    """
    registered = await registered_generation(store)
    if registered is None:
        await store.create_collection(GENERATIONS, size=None, sparse=False, indexes={"state": "keyword"})
        settings = msgspec.json.decode(msgspec.json.encode(wanted))
        point = Point(id=str(uuid5(NAMESPACE_OID, wanted.id)), payload={"state": "serving", "settings": settings})
        await store.insert(GENERATIONS, [point])
        await store.flush()
        registered = await registered_generation(store) or wanted  # another process may have been first
    if registered == wanted:
        return registered
    if registered.bm25 in older_bm25:
        wanted = msgspec.structs.replace(wanted, bm25=registered.bm25)
    if registered != msgspec.structs.replace(wanted, chunker=registered.chunker):
        raise _other(registered, wanted)
    if registered.chunker != wanted.chunker:
        log.warning("older_chunker", index=registered.chunker, ours=wanted.chunker)
    return registered


async def followed(store: Store, model: Model, bm25: Collection[str]) -> Generation:
    """Return the generation that answers, for a process that can't begin one: it has no chunker.

    `bm25` are the tokenizers that the process has.

    Raises:
        Unavailable: there is none yet.
        ConfigurationError: it was built with another model or other sparse vectors; the sentence names them.
    """
    registered = await registered_generation(store)
    if registered is None:
        raise Unavailable(
            "the index has no generation yet; an ingest-worker makes it, or: sluice init", "no_generation"
        )
    own = registered.bm25 if registered.bm25 in bm25 else next(iter(bm25))
    wanted = msgspec.structs.replace(registered, model=model, bm25=own)
    if registered != wanted:
        raise _other(registered, wanted)
    return registered


async def registered_generation(store: Store) -> Generation | None:
    """Return the generation that answers, None where the store knows none. Raises Unavailable when it is away."""
    try:
        found = (await store.scroll(GENERATIONS, Filter(must=(Match("state", ("serving",)),)))).points
    except Unavailable as error:
        if error.code == "no_collection":
            return None
        raise
    return msgspec.convert(found[0].payload["settings"], Generation) if found else None


def _other(registered: Generation, wanted: Generation) -> ConfigurationError:
    differences = ", ".join(
        f"{name} was {getattr(registered, name)!r} and is {getattr(wanted, name)!r}"
        for name in registered.__struct_fields__
        if getattr(registered, name) != getattr(wanted, name)
    )
    return ConfigurationError(
        f"the index was built with other settings: {differences}. Set them back, or choose another SLUICE_DATA"
    )


class Head(Message, frozen=True):
    """Which version of a document answers, and what lists show of it."""

    document_id: str
    version: int
    tenant: str
    source: str
    path: str
    deleted: bool = False
    chunk_count: int = 0
    title: str | None = None
    url: str | None = None
    tags: tuple[str, ...] = ()
    text_sha256: str | None = None  # the blob of the extracted text
    text_size: int = 0  # bytes
    text_format: TextFormat | None = None  # None: an older head; `text_format_of` says what it meant
    updated_at: int = 0  # ms since 1970
    withdrawn: int = 0  # a version above this one that was given up: no worker may switch to it
    withdrawn_attempt: int = 0  # how often that version had been redriven then


class KnownVector(msgspec.Struct, frozen=True):
    """A vector that some point of the same tenant and model holds."""

    text: str
    vector: Vector


def vector_hash(vector: Vector) -> str:
    """Return 32 hex digits, xxh3_128 of the little-endian float32 bytes: a damaged vector shows."""
    return xxhash.xxh3_128_hexdigest(vector.astype("<f4", copy=False).tobytes())


def of_document(document_id: str, *more: Match | Range) -> Filter:
    """Return the filter of one document's chunk points."""
    return Filter(must=(Match("metadata.documentId", (document_id,)), *more))


class Index:
    """One generation's collections. Raises Unavailable when the store is away.

    Where chunks are searched or shown, `gate` is asked whether the index was whole.
    """

    def __init__(self, store: Store, generation: Generation, gate: Gate | None = None) -> None:
        self._store = store
        self._gate = gate or AlwaysWhole()
        self.generation = generation
        self._chunks = generation.chunks
        self._heads = generation.heads
        self.extractor_noted: str | None = None  # by this process
        self._head_lookup: Batcher[str, Head] = Batcher(self._load_heads)
        self._count_lookup: Batcher[str, int] = Batcher(self.point_counts)

    async def whole(self) -> None:
        """Return where what was just read of the index can be believed. Raises Unavailable where it is rebuilt."""
        await self._gate.points()

    async def create(self) -> None:
        """Make the collections unless they are there, payload indexes included."""
        await self._store.create_collection(self._heads, size=None, sparse=False, indexes=HEAD_INDEXES)
        await self._store.create_collection(
            self._chunks, size=self.generation.model.dimension, sparse=True, indexes=CHUNK_INDEXES
        )

    # -- the extractor -------------------------------------------------------------------------------

    async def note_extractor(self, fingerprint: str) -> None:
        """Note which code and libraries files are read with from now on."""
        self.extractor_noted = fingerprint
        await self._store.upsert(GENERATIONS, [Point(id=_EXTRACTOR, payload={"extractor": fingerprint})])

    async def extractor(self) -> str | None:
        """Return the fingerprint of what files are read with, None where no worker has said."""
        found = await self._store.retrieve(GENERATIONS, [_EXTRACTOR])
        return str(found[0].payload["extractor"]) if found else None

    # -- heads ---------------------------------------------------------------------------------------

    async def head(self, document_id: str) -> Head | None:
        """Return the document's head, or None; concurrent calls share one read."""
        return await self._head_lookup.get(document_id)

    async def heads(self, document_ids: Sequence[str]) -> Mapping[str, Head]:
        """Return the heads of those documents that have one."""
        return await self._load_heads(document_ids)

    async def _load_heads(self, ids: Sequence[str]) -> Mapping[str, Head]:
        # Where a version was given up before any answered, there is only that mark.
        return {id_: head for id_, head in (await self._stored_heads(ids)).items() if head.version}

    async def _stored_heads(self, ids: Sequence[str]) -> Mapping[str, Head]:
        points = await self._store.retrieve(self._heads, ids)
        return {point.id: msgspec.convert(point.payload, Head) for point in points}

    async def switch(self, head: Head, attempt: int = 0) -> Head:
        """Return the head that stands after `head` was offered: itself, a newer one, or an older one.

        An older one: the version was withdrawn, and this `attempt`, how often it was redriven, isn't a later one.
        """
        point = Point(id=head.document_id, payload=msgspec.json.decode(msgspec.json.encode(head)))
        below = Range("version", lt=head.version)
        allowed = Filter(must=(below,), must_not=(Match("withdrawn", (head.version,)),))
        await self._store.upsert(self._heads, [point], only_if=allowed)
        standing = (await self._stored_heads([head.document_id])).get(head.document_id, head)
        if standing.version < head.version == standing.withdrawn and standing.withdrawn_attempt < attempt:
            redriven = Match("withdrawn", (head.version,)), Range("withdrawnAttempt", lt=attempt)
            await self._store.upsert(self._heads, [point], only_if=Filter(must=(below, *redriven)))
            standing = (await self._stored_heads([head.document_id])).get(head.document_id, head)
        return standing

    async def withdraw(self, head: Head, attempt: int = 0) -> Head:
        """Return the head that stands after the version of `head` was given up: no switch to it from now on.

        Where that version answers already, or a newer one does, nothing is written.
        """
        name, version = head.document_id, head.version
        mark: Payload = {"withdrawn": version, "withdrawnAttempt": attempt}
        nothing = Head(document_id=name, version=0, tenant=head.tenant, source="", path="", deleted=True)
        payload: Payload = msgspec.json.decode(msgspec.json.encode(nothing))
        await self._store.insert(self._heads, [Point(id=name, payload=payload | mark)])
        below = Ids((name,)), Range("version", lt=version)
        later = Match("withdrawn", (version,)), Range("withdrawnAttempt", lt=attempt)
        unmarked = Filter(must=below, must_not=(Match("withdrawn", (version,)),))
        await self._store.set_payload(self._heads, mark, unmarked)
        await self._store.set_payload(self._heads, mark, Filter(must=(*below, *later)))
        return (await self._stored_heads([name])).get(name, nothing)

    async def heads_page(self, *, after: str | None = None, limit: int = 256) -> tuple[list[Head], str | None]:
        """Return a piece of all heads in id order, and the cursor of the next."""
        page = await self._store.scroll(self._heads, limit=limit, after=after)
        heads = [msgspec.convert(point.payload, Head) for point in page.points]
        return [head for head in heads if head.version], page.after

    # -- points --------------------------------------------------------------------------------------

    async def put(self, points: Sequence[Point]) -> None:
        """Write chunk points; writing them again changes nothing."""
        await self._store.upsert(self._chunks, points)

    async def present(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the chunk's hash of those ids that have a point."""
        points = await self._store.retrieve(self._chunks, ids, fields=("metadata.chunkHash",))
        return {point.id: str(point.payload["metadata"]["chunkHash"]) for point in points}

    async def points(self, document_id: str) -> int:
        """Return how many points the document has, of every version; concurrent calls share one read."""
        return await self._count_lookup.get(document_id) or 0

    async def point_counts(self, ids: Sequence[str]) -> Mapping[str, int]:
        """Return how many points those documents have that have any, of every version."""
        parts = [tuple(ids[start : start + _COUNTED]) for start in range(0, len(ids), _COUNTED)]
        counts = await asyncio.gather(*map(self._counts, parts))
        return {name: count for part in counts for name, count in part.items()}

    async def _counts(self, ids: tuple[str, ...]) -> Mapping[str, int]:
        where = Filter(must=(Match("metadata.documentId", ids),))
        return await self._store.facet(self._chunks, "metadata.documentId", where, limit=len(ids))

    async def version_points(self, document_id: str, version: int) -> int:
        """Return how many points of one version are there."""
        return await self._store.count(self._chunks, of_document(document_id, Match("metadata.version", (version,))))

    async def tenant_points(self, tenant: str) -> int:
        """Return how many points the tenant has; while a version is replaced, those of both."""
        count = await self._store.count(self._chunks, Filter(must=(Match("metadata.tenant", (tenant,)),)))
        await self.whole()
        return count

    async def answering(self, document_id: str, version: int) -> Head | None:
        """Return the head of just this version where it stands, and all of its points do, else None."""
        head = (await self._load_heads([document_id])).get(document_id)
        if head is None or head.version != version:
            return None
        return head if await self.version_points(document_id, version) == head.chunk_count else None

    async def delete_below(self, document_id: str, version: int) -> None:
        """Delete the document's points of versions below `version`, never of another one."""
        await self._store.delete(self._chunks, of_document(document_id, Range("metadata.version", lt=version)))

    async def versions_below(self, document_id: str, version: int) -> set[int]:
        """Return the versions below `version` that the document still has points of."""
        found: set[int] = set()
        while True:
            # One point a version is enough: the next look leaves out what is known.
            seen = (Match("metadata.version", tuple(sorted(found))),) if found else ()
            where = of_document(document_id, Range("metadata.version", lt=version))
            page = await self._store.scroll(
                self._chunks,
                Filter(must=where.must, must_not=seen),
                limit=64,
                fields=("metadata.version",),
            )
            if not page.points:
                return found
            found |= {point.payload["metadata"]["version"] for point in page.points}

    async def delete_version(self, document_id: str, version: int) -> None:
        """Delete the document's points of just this version."""
        await self._store.delete(self._chunks, of_document(document_id, Match("metadata.version", (version,))))

    async def delete_from(self, document_id: str, version: int, order: int) -> None:
        """Delete the version's points from chunk `order` on."""
        of_version = Match("metadata.version", (version,))
        await self._store.delete(
            self._chunks, of_document(document_id, of_version, Range("metadata.chunkOrder", gte=order))
        )

    async def known(self, tenant: str, hashes: Sequence[str]) -> dict[str, KnownVector]:
        """Return for each hash a vector that some point of the tenant holds for it; damaged ones don't count."""
        found: dict[str, KnownVector] = {}
        for start in range(0, len(hashes), HASH_BATCH):
            missing = set(hashes[start : start + HASH_BATCH])
            after: str | None = None
            # A hash found leaves the filter, so text that stands in ten thousand documents costs one page. Pages are
            # short, because most texts stand in few.
            while missing:
                page = await self._store.scroll(
                    self._chunks,
                    Filter(
                        must=(
                            Match("metadata.tenant", (tenant,)),
                            Match("metadata.chunkHash", tuple(sorted(missing))),
                        )
                    ),
                    after=after,
                    vectors=True,
                    fields=("text", EMBEDDED, "metadata.chunkHash", "metadata.vectorHash"),
                    limit=2 * len(missing),
                )
                before = len(missing)
                for point in page.points:
                    metadata: dict[str, Any] = point.payload["metadata"]
                    if point.dense is None or metadata["vectorHash"] != vector_hash(point.dense):
                        continue
                    text: str = point.payload.get(EMBEDDED) or point.payload["text"]
                    found.setdefault(metadata["chunkHash"], KnownVector(text, point.dense))
                    missing.discard(metadata["chunkHash"])
                if page.after is None:
                    break
                after = page.after if len(missing) == before else None
        return found

    async def chunks_page(self, document_id: str, version: int, *, start: int, limit: int) -> list[Payload]:
        """Return payloads of one version's points in reading order, from chunk `start` on."""
        where = of_document(document_id, Match("metadata.version", (version,)))
        points = await self._store.ordered(self._chunks, where, by="metadata.chunkOrder", start=start, limit=limit)
        return [point.payload for point in points]

    async def versions_page(self, *, after: str | None = None, limit: int = 512) -> PointPage:
        """Return a piece of all points with nothing but documentId and version, in id order."""
        fields = ("metadata.documentId", "metadata.version")
        return await self._store.scroll(self._chunks, limit=limit, after=after, fields=fields)

    async def documents_page(
        self, tenant: str, where: Filter, *, after: str | None, limit: int
    ) -> tuple[list[str], str | None]:
        """Return ids of the tenant's documents whose answering chunks match, and from where to ask for the next.

        `where` must hold for a document's first chunk: fields that all its chunks have are meant.
        """
        first = (Match("metadata.tenant", (tenant,)), Match("metadata.chunkOrder", (0,)))
        scoped = Filter(must=(*first, *where.must), must_not=where.must_not)
        fields = ("metadata.documentId", "metadata.version")
        page = await self._store.scroll(self._chunks, scoped, limit=limit, after=after, fields=fields)
        await self.whole()
        found = [
            (point.payload["metadata"]["documentId"], point.payload["metadata"]["version"]) for point in page.points
        ]
        heads = await self._load_heads([name for name, _ in found])
        return [name for name, version in found if name in heads and heads[name].version == version], page.after

    async def stands_elsewhere(self, document_id: str, chunk_hash: str) -> bool:
        """Return whether another document, of whatever tenant, has a chunk of the same hash."""
        same = (Match("metadata.chunkHash", (chunk_hash,)),)
        other = Filter(must=same, must_not=(Match("metadata.documentId", (document_id,)),))
        return await self._store.count(self._chunks, other) > 0

    async def has_field(self, tenant: str, field: str) -> bool:
        """Return whether some point of the tenant has the (dotted) payload field."""
        where = Filter(must=(Match("metadata.tenant", (tenant,)), Present(field)))
        return bool((await self._store.scroll(self._chunks, where, limit=1, fields=())).points)

    async def rewrite(self) -> bool:
        """Return whether the store's files hold nothing any more of what was deleted; False: it has its own ways."""
        if not isinstance(self._store, Rewritable):
            return False
        for name in await self._store.collections():
            await self._store.rewrite(name)
        return True

    async def delete_points(self, ids: Sequence[str]) -> None:
        """Delete points by id."""
        await self._store.delete(self._chunks, Filter(must=(Ids(tuple(ids)),)))

    async def search(self, tenant: str, legs: Sequence[Leg], where: Filter, *, limit: int) -> list[list[StoreHit]]:
        """Return each leg's best current hits of this tenant: no query can be built without one."""
        scoped = Filter(must=(Match("metadata.tenant", (tenant,)), *where.must), must_not=where.must_not)
        hits = await self._store.search(self._chunks, legs, scoped, limit=limit, heads=Heads(self._heads))
        await self.whole()
        return hits

    async def warm(self) -> None:
        """Return when the store has read whatever it reads once for all searches: nobody waits for an answer yet."""
        nothing = [Leg(sparse=Sparse([], []))]
        await self._store.search(self._chunks, nothing, Filter(), limit=1, heads=Heads(self._heads))

    async def flush(self) -> None:
        """Return when all that was written survives a crash."""
        await self._store.flush()
