"""`POST /rag/ingest/check`: tells a loader which documents it needn't send again, by the hash of each body.

A document is unchanged if the index holds exactly this content and no unread record could change it. The reply
therefore waits until every record that was on the log when the request came has been read. Then it says what a
submission would have ended with. All doors ask the same of the documents they are sent, without the wait (ADR 0008).
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import msgspec
import structlog
from aiokafka import TopicPartition
from litestar.params import JSONBody

from services.query_api.http.problems import invalid
from services.query_api.http.request import HEAVY, ApiRequest, beside, described, metadata_of, name_of, tags_of
from services.query_api.http.route_decorator import CHUNKS, post
from services.query_api.ingest.document import title_of
from services.query_api.ingest.submissions import SubmissionEnd
from shared.contracts import DocumentSubmitted
from shared.errors import Unavailable
from shared.ids import bytes_hash
from shared.inputs.limits import LONGEST_PATH, LONGEST_SOURCE
from shared.log import Log
from shared.log.publish import partition_of
from shared.state.batching import Batcher
from shared.state.index import Index
from shared.state.ledger import Entry, Last, Ledger
from shared.submission import description_hash
from shared.times import PATIENCE, LoopTurns, now_ms
from shared.topics import SUBMITTED, readers

log = structlog.get_logger(__name__)

MOST_ITEMS = 1000
PATIENCE_S = 5.0  # wait for unread records; after that, a document counts as changed
_LOOK_AGAIN_S = 0.02  # offsets are committed less often than this
ANSWER_S = 2.0  # longest comparison of a batch's documents; after that, they count as changed
_LONGEST = 1 << 20  # characters of a text, whose encoding takes 3 ms of the loop; hashing takes 0.03 ms a MB
_MOST_SENT = 1000  # records of this process that are told from others'; each comparison looks at them
DOOR_S = 0.5  # likewise of a request's; what hangs is waited for once more when the document is submitted


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


class HeldDocuments(msgspec.Struct, frozen=True):
    """The documents that the index holds unchanged."""

    ends: Mapping[str, SubmissionEnd] = {}  # by document id, as if each had been submitted
    busy: bool = False  # it was waited in vain, so waiting again is no use


@dataclass(frozen=True, eq=False)
class _Asked:
    """A document of one request: two requests may bring the same one with other content."""

    document: DocumentSubmitted


class UnchangedChecker:
    """Compares callers' documents with the index. Raises Unavailable when a part is away."""

    def __init__(self, log: Log, ledger: Ledger, index: Index, patience_s: float = PATIENCE_S) -> None:
        self._log = log
        self._kept_ms: float | None = None  # for which the log keeps what was sent; asked once
        self._ledger = ledger
        self._index = index
        self._patience_s = patience_s
        self._group = readers(index.generation.id)[SUBMITTED]
        self._together = Batcher(self._compared)
        self._sent: dict[tuple[int, int], str] = {}  # document by partition and offset, of records that may be unread

    def sent(self, document: DocumentSubmitted, partition: int, offset: int) -> None:
        """Note that this process has sent the document's record: until it is read, only this document is undecided."""
        if document.on_conflict == "new" or document.leads_on:  # it may become another document, or lead to others
            return
        self._sent[partition, offset] = document.document_id
        if len(self._sent) > _MOST_SENT:
            del self._sent[next(iter(self._sent))]

    async def unchanged(self, document: DocumentSubmitted) -> SubmissionEnd | None:
        """Return how a submission of the document ended that would change nothing; None: it is to be submitted.

        Requests that come together are compared together.
        """
        if not _comparable(document):
            return None
        outer = PATIENCE.set(min(DOOR_S, PATIENCE.get()))
        try:
            return await self._together.get(_Asked(document))
        except Unavailable:
            return None
        finally:
            PATIENCE.reset(outer)

    async def _compared(self, asked: Sequence[_Asked]) -> dict[_Asked, SubmissionEnd]:
        first: dict[str, DocumentSubmitted] = {}  # what else is sent as the same document is submitted
        for each in asked:
            first.setdefault(each.document.document_id, each.document)
        ends = (await self.held([*first.values()])).ends
        return {
            each: ends[id_]
            for each in asked
            if (id_ := each.document.document_id) in ends and each.document == first[id_]
        }

    async def check(self, documents: Sequence[tuple[DocumentSubmitted, str]]) -> list[CheckedDocument]:
        """Return a verdict for each document with its body's hash, xxh3_128 or SHA-256, in their order."""
        if not documents:
            return []
        ends = await self._log.end_offsets(SUBMITTED)
        unread = await self._unread(ends)
        entries = await self._ledger.entries([document.document_id for document, _ in documents])
        alike, turns = list[bool](), LoopTurns()
        for document, hash_ in documents:
            read = partition_of(document.document_id.encode(), len(ends)) not in unread
            alike.append(read and _alike(document, hash_, entries))
            await turns.give()
        ids = {document.document_id for (document, _), same in zip(documents, alike, strict=True) if same}
        counts = await self._whole([*ids], entries)
        return [
            CheckedDocument(document_id=id_, unchanged=True, chunk_count=counts[id_])
            if same and (id_ := document.document_id) in counts
            else CheckedDocument(document_id=document.document_id, unchanged=False)
            for (document, _), same in zip(documents, alike, strict=True)
        ]

    async def held(self, documents: Sequence[DocumentSubmitted], *, patience_s: float = 0.0) -> HeldDocuments:
        """Return those of the documents, each named once, whose submission would change nothing.

        There are none as long as a record is unread that this process didn't send, because it may belong under another
        key; where most documents look unchanged, that is waited for. There are none, either, if a part is away or slow.
        Then the documents are submitted, and the first stage decides. So are those of which a record is unread, and
        those whose body the log has half forgotten: it is kept anew.
        """
        known, turns = list[tuple[DocumentSubmitted, str]](), LoopTurns()
        for document in documents:
            if _comparable(document):
                known.append((document, bytes_hash(document.body or b"")))
                await turns.give()
        ids = [document.document_id for document, _ in known]
        try:
            async with asyncio.timeout(patience_s + ANSWER_S):
                undecided = await self._undecided()  # before the entries, which then hold all that was read
                entries = await self._ledger.entries(ids)
                alike = _those_alike(known, entries)
                if not alike or (undecided is None and (not patience_s or 2 * len(alike) < len(documents))):
                    return HeldDocuments()
                if undecided is None:
                    if (undecided := await self._decided_within(patience_s)) is None:
                        return HeldDocuments(busy=True)
                    entries = await self._ledger.entries(ids)
                    alike = _those_alike(known, entries)
                oldest = await self._half_forgotten()
                bodies = {id_: entries[id_].accepted.body for id_ in alike if id_ not in undecided}
                same = [id_ for id_, body in bodies.items() if body is not None and body.place.time >= oldest]
                counts = await self._whole(same, entries)
                return HeldDocuments({id_: _unchanged(entries[id_], count) for id_, count in counts.items()})
        except (Unavailable, TimeoutError) as error:
            log.warning("documents_not_compared", reason=str(error) or "no answer in time")
            return HeldDocuments(busy=True)

    async def _half_forgotten(self) -> float:
        """Return the time, in ms, before which half of the time is over for which the log keeps what was sent."""
        if self._kept_ms is None:
            kept_ms = await self._log.retention_ms(SUBMITTED)
            self._kept_ms = math.inf if kept_ms is None else kept_ms
        return now_ms() - self._kept_ms / 2

    async def _decided_within(self, seconds: float) -> set[str] | None:
        """Return what `_undecided` does as soon as that isn't None, or None after the wait."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while loop.time() < deadline:
            await asyncio.sleep(_LOOK_AGAIN_S)
            if (undecided := await self._undecided()) is not None:
                return undecided
        return None

    async def _undecided(self) -> set[str] | None:
        """Return the documents of the records that the first stage hasn't read, at a moment during this call.

        None: others than this process sent some of them. The offsets are read before the ends: a record that the stage
        writes again, under its right key, is on the log before the first one counts as read.
        """
        done = await self._log.committed(self._group, SUBMITTED)
        ends = await self._log.end_offsets(SUBMITTED)
        read = {tp.partition: done.get(tp) or 0 for tp in ends}
        self._sent = {at: id_ for at, id_ in self._sent.items() if at[1] >= read.get(at[0], 0)}
        left = ((tp.partition, offset) for tp, end in ends.items() for offset in range(read[tp.partition], end))
        unread = set(islice(left, _MOST_SENT + 1))
        return {self._sent[at] for at in unread} if unread <= self._sent.keys() else None

    async def _whole(self, ids: Sequence[str], entries: Mapping[str, Entry]) -> dict[str, int]:
        """Return the number of chunks of those documents whose accepted version answers with all of its points."""
        if not ids:
            return {}
        code, heads, counts = await asyncio.gather(
            self._index.code(), self._index.heads(ids), self._index.point_counts(ids)
        )
        readers_now = frozenset(code.extractor.split() if code is not None else ())
        return {
            id_: head.chunk_count
            for id_, head in heads.items()
            if head.version == entries[id_].accepted.version
            and not head.deleted
            and head.chunk_count == counts.get(id_, 0)
            and entries[id_].accepted.extractor in readers_now
        }

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


@post("/rag/ingest/check", role="ingest", lane="bring", reads=True, takes=CHUNKS)
async def rag_ingest_check(data: JSONBody[CheckBody], request: ApiRequest) -> CheckReply:
    """Report which documents are unchanged in the index and needn't be sent again. Nothing is written."""
    if len(data.items) > MOST_ITEMS:
        raise invalid("items", f"has {len(data.items)} items, but at most {MOST_ITEMS} are allowed at once")
    held = await beside(len(await request.body()) > HEAVY, _held, request.user.tenant, data.items)
    return CheckReply(await request.part(UnchangedChecker).check(held))


def _held(tenant: str, items: Sequence[HeldDocument]) -> list[tuple[DocumentSubmitted, str]]:
    return [(_document(tenant, each, f"items[{at}]."), _hash(each, at)) for at, each in enumerate(items)]


def _hash(held: HeldDocument, number: int) -> str:
    """Return the hash of the document's body. Raises a 400 unless exactly one field identifies it."""
    given = [each for each in (held.hash, held.sha256) if each is not None]
    if held.text is not None:
        given.append(bytes_hash(held.text.encode("utf-8", "surrogatepass")))
    if len(given) != 1:
        raise invalid(f"items[{number}]", f"exactly one of hash, sha256 and text is needed, not {len(given)}")
    return given[0]


def _unchanged(entry: Entry, count: int) -> SubmissionEnd:
    last = Last(version=entry.accepted.version, place=entry.last.place, status="unchanged", at=entry.last.at)
    return SubmissionEnd(entry, last, count, asyncio.get_running_loop().time())


def _alike(document: DocumentSubmitted, hash_: str, entries: Mapping[str, Entry]) -> bool:
    """Return whether the accepted version has this body and description, and ended well."""
    entry = entries.get(document.document_id)
    if entry is None or entry.last.status == "failed":  # a newer submission failed: it should be sent again
        return False
    stands = entry.standing(entry.accepted.version)
    return (
        entry.tenant == document.tenant
        and stands is not None
        and stands.status in ("created", "updated", "unchanged")
        and hash_ in (entry.accepted.raw_hash, entry.accepted.body and entry.accepted.body.sha256)
        and entry.accepted.metadata_hash == description_hash(document)
    )


def _those_alike(known: Sequence[tuple[DocumentSubmitted, str]], entries: Mapping[str, Entry]) -> list[str]:
    return [document.document_id for document, hash_ in known if _alike(document, hash_, entries)]


def _comparable(document: DocumentSubmitted) -> bool:
    """Return whether a body was sent, an unchanged one has nothing more to do, and hashing it doesn't hold the loop."""
    body = document.content if document.text is None else b""
    waited_for = document.keep or document.on_conflict is not None or document.callback_url is not None
    return body is not None and len(document.text or "") <= _LONGEST and not waited_for


def _document(tenant: str, held: HeldDocument, within: str) -> DocumentSubmitted:
    document = DocumentSubmitted(
        tenant=tenant,
        source=name_of(held.source, f"{within}source", LONGEST_SOURCE),
        path=name_of(held.path, f"{within}path", LONGEST_PATH),
        filename=held.filename,
        media_type=held.media_type,
        title=title_of(held.title, f"{within}title"),
        description=held.description,
        tags=tags_of(held.tags, f"{within}tags"),
        metadata=metadata_of(held.metadata, f"{within}metadata"),
        chunk_size=held.chunk_size,
        chunk_overlap=held.chunk_overlap,
    )
    return described(document, within)
