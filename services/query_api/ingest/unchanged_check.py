"""`POST /rag/ingest/check`: tells a loader which documents it needn't send again, by the hash of each body.

A document is unchanged if the index holds exactly this content and no unread record could change it. The reply
therefore waits until every record that was on the log when the request came has been read. Then it says what a
submission would have ended with.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from aiokafka import TopicPartition
from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from services.query_api.http.auth import needs
from services.query_api.http.lanes import READS, in_lane
from services.query_api.http.problems import invalid
from services.query_api.http.request import ApiRequest, metadata_of, tags_of
from shared.contracts import DocumentSubmitted
from shared.ids import bytes_hash
from shared.log import Log
from shared.log.publish import partition_of
from shared.state.index import Index
from shared.state.ledger import Accepted, Entry, Ledger
from shared.submission import description_hash
from shared.topics import SUBMITTED, readers

MOST_ITEMS = 1000
PATIENCE_S = 5.0  # wait for unread records; after that, a document counts as changed
_SHA256_DIGITS = 64
_LOOK_AGAIN_S = 0.02  # offsets are committed less often than this


# The patterns stand in /openapi.json, whose dialect lacks \A and \Z; the length refuses the newline that `$` lets pass.
Xxh3 = Annotated[
    str, msgspec.Meta(pattern="^[0-9a-f]{32}$", max_length=32, description="xxh3_128 of the body, in hex.")
]
Sha256 = Annotated[
    str, msgspec.Meta(pattern="^[0-9a-f]{64}$", max_length=64, description="SHA-256 of the body, in hex.")
]


class HeldDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A document that the caller could send. Exactly one of `hash`, `sha256` and `text` identifies its body."""

    source: str
    path: str
    hash: Xxh3 | None = None
    sha256: Sha256 | None = None
    text: str | None = None
    filename: str | None = None
    media_type: str | None = None
    title: str | None = None
    description: str | None = None
    tags: list[str] | str | None = None
    metadata: dict[str, Any] | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None


class CheckBody(msgspec.Struct, frozen=True):
    """The documents, at most 1000."""

    items: list[HeldDocument]


class CheckedDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Whether the index already holds this document unchanged."""

    document_id: str
    unchanged: bool
    chunk_count: int | None = None


class CheckReply(msgspec.Struct, frozen=True):
    """A verdict for each item, in their order."""

    items: list[CheckedDocument]


class UnchangedChecker:
    """Compares callers' documents with the index. Raises Unavailable when a part is away."""

    def __init__(self, log: Log, ledger: Ledger, index: Index, patience_s: float = PATIENCE_S) -> None:
        self._log = log
        self._ledger = ledger
        self._index = index
        self._patience_s = patience_s
        self._group = readers(index.generation.id)[SUBMITTED]

    async def check(self, documents: Sequence[tuple[DocumentSubmitted, str]]) -> list[CheckedDocument]:
        """Return a verdict for each document with its body's hash, xxh3_128 or SHA-256, in their order."""
        if not documents:
            return []
        ends = await self._log.end_offsets(SUBMITTED)
        unread = await self._unread(ends)
        code = await self._index.code()
        known = frozenset(code.extractor.split() if code is not None else ())
        ids = [document.document_id for document, _ in documents]
        entries, heads, counts = await asyncio.gather(
            self._ledger.entries(ids), self._index.heads(ids), self._index.point_counts(ids)
        )

        def verdict(id_: str, document: DocumentSubmitted, hash_: str) -> CheckedDocument:
            entry, head = entries.get(id_), heads.get(id_)
            same = (
                entry is not None
                and head is not None
                and entry.tenant == document.tenant
                and _ended_well(entry)
                and _has_body(entry.accepted, hash_)
                and entry.accepted.extractor in known
                and entry.accepted.metadata_hash == description_hash(document)
                and head.version == entry.accepted.version
                and not head.deleted
                and head.chunk_count == counts.get(id_, 0)
                and partition_of(id_.encode(), len(ends)) not in unread
            )
            return CheckedDocument(
                document_id=id_, unchanged=same, chunk_count=head.chunk_count if same and head else None
            )

        return [verdict(id_, document, hash_) for id_, (document, hash_) in zip(ids, documents, strict=True)]

    async def _unread(self, ends: Mapping[TopicPartition, int]) -> set[int]:
        """Return the partitions in which the first stage hasn't committed all records below `ends` after the wait."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        while True:
            done = await self._log.committed(self._group, SUBMITTED)
            unread = {tp.partition for tp, end in ends.items() if (done.get(tp) or 0) < end}
            if not unread or loop.time() >= deadline:
                return unread
            await asyncio.sleep(_LOOK_AGAIN_S)


@post(
    "/rag/ingest/check",
    operation_id="rag_ingest_check",
    guards=[needs("ingest")],
    opt={**in_lane("bring"), READS: True},
    status_code=200,
)
async def rag_ingest_check(
    data: JSONBody[CheckBody], request: ApiRequest, checker: NamedDependency[UnchangedChecker]
) -> CheckReply:
    """Report which documents are unchanged in the index and needn't be sent again. Nothing is written."""
    if len(data.items) > MOST_ITEMS:
        raise invalid("items", f"has {len(data.items)} items, but at most {MOST_ITEMS} are allowed at once")
    tenant = request.user.tenant
    held = [(_document(tenant, item), _hash(item, number)) for number, item in enumerate(data.items)]
    return CheckReply(await checker.check(held))


def _hash(held: HeldDocument, number: int) -> str:
    """Return the hash of the document's body. Raises a 400 unless exactly one field identifies it."""
    given = [each for each in (held.hash, held.sha256) if each is not None]
    if held.text is not None:
        given.append(bytes_hash(held.text.encode("utf-8", "surrogatepass")))
    if len(given) != 1:
        raise invalid(f"items[{number}]", f"exactly one of hash, sha256 and text is needed, not {len(given)}")
    return given[0]


def _has_body(accepted: Accepted, hash_: str) -> bool:
    """Return whether the version's body has the hash; a hash of 64 digits is a SHA-256."""
    if len(hash_) == _SHA256_DIGITS:
        return accepted.body is not None and accepted.body.sha256 == hash_  # None if an earlier release accepted it
    return accepted.raw_hash == hash_


def _document(tenant: str, held: HeldDocument) -> DocumentSubmitted:
    return DocumentSubmitted(
        tenant=tenant,
        source=held.source,
        path=held.path,
        filename=held.filename,
        media_type=held.media_type,
        title=held.title,
        description=held.description,
        tags=tags_of(held.tags),
        metadata=metadata_of(held.metadata),
        chunk_size=held.chunk_size,
        chunk_overlap=held.chunk_overlap,
    )


def _ended_well(entry: Entry) -> bool:
    """Return whether the accepted version ended well and no newer submission failed; else it should be sent again."""
    if entry.last.status == "failed":
        return False
    stands = entry.standing(entry.accepted.version)
    return stands is not None and stands.status in ("created", "updated", "unchanged")
