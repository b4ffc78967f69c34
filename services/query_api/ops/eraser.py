"""Erases documents from the index, the blobs, the dead letters and the log. docs/erasure.md.

An erasure is first submitted as a version through the log, which fences older versions in flight. When it answers,
everything older is deleted. What then remains in the data files goes when they are rewritten (`ops/purge`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from services.query_api.ingest.submissions import Submissions
from services.query_api.ops import feedback
from services.query_api.ops.redrive import settle
from shared.blobs import collect
from shared.contracts import LogPosition, encode, erasure
from shared.errors import Rejected
from shared.log import Publish, Record, Replacement
from shared.log.headers import PLACE_HEADER, SKEW_MS, position_header, sealed
from shared.log.open_letters import LetterFilter, OpenLetters
from shared.log.read import records, spans_of
from shared.log.sqlite import SqliteLog, deleting
from shared.runtime.resources import Resources
from shared.state.callbacks import Callbacks
from shared.state.index import Index, deletion_head
from shared.state.ledger import Entry, older
from shared.submission import DocumentMention, mention
from shared.topics import EXTRACTED, SUBMITTED, chunks_topic

log = structlog.get_logger(__name__)


def goes(found: DocumentMention | None, erased: Mapping[str, LogPosition]) -> bool:
    """Return whether the record must be deleted: its document was erased at a later place. An erasure itself stays."""
    return (
        found is not None
        and not found.erases
        and found.document_id in erased
        and older(found.place, erased[found.document_id])
    )


class _Fence(NamedTuple):
    """An erasure that took effect."""

    tenant: str
    version: int
    place: LogPosition  # older records and blobs are deleted
    at: float  # a time at which the erasure had taken effect, in seconds of the loop's clock


@dataclass
class Eraser:
    """Erases documents of one tenant at a time. Every call may be repeated. Raises Unavailable when a part is away."""

    base: Resources
    publish: Publish
    submissions: Submissions
    callbacks: Callbacks
    siblings: Callable[[], Awaitable[Sequence[Index]]]  # returns the indexes of the other generations

    def __post_init__(self) -> None:
        self._letters = OpenLetters(self.base.log)

    async def erase(self, entries: Sequence[Entry], wait_s: float) -> dict[str, str | None]:
        """Erase the documents; return by document id None if it is erased, else the reason why not.

        Raises:
            Unavailable: a part is away; or, code `held_for_copy`, a backup is being made.
        """
        with deleting(self.base.log):
            found = await asyncio.gather(*(self._fence(entry, wait_s) for entry in entries))
            outcomes = {entry.document_id: outcome for entry, outcome in zip(entries, found, strict=True)}
            fences = {name: each for name, each in outcomes.items() if isinstance(each, _Fence)}
            if fences:
                siblings = await self.siblings()
                for sibling in siblings:
                    await asyncio.gather(*(_erase_in(sibling, name, fence) for name, fence in fences.items()))
                await self._clean(fences, [chunks_topic(each.generation.id) for each in (self.base.index, *siblings)])
        return {name: each if isinstance(each, str) else None for name, each in outcomes.items()}

    async def erase_rest(self, tenant: str) -> None:
        """Settle all open letters of the tenant, and erase its thumbs: what belongs to no document, too."""
        async for each in self._letters.every(LetterFilter(tenant=tenant)):
            await settle(self.publish, each, "erased")
        await feedback.forget(self.base.log, self.publish, {tenant})

    async def _fence(self, entry: Entry, wait_s: float) -> "_Fence | str":
        try:
            receipt = await self.submissions.submit(erasure(entry.tenant, entry.document_id), of_many=True)
        except Rejected as error:
            return error.sentence
        ended = await self.submissions.end(receipt, wait_s)
        if ended is None:
            return f"the erasure is on the log, but no worker has processed it within {wait_s:g} s: erase it again"
        if ended.last.status == "failed":
            return ended.last.error or "it failed"
        # The document was sent again meanwhile, or earlier by a foreign producer to a partition whose clock is ahead.
        # Nothing is deleted then, because the answering version may be an earlier one that was only confirmed again.
        if not ended.entry.erased:
            return "a later submission was accepted: erase it again"
        # A new submission is entered in the ledger before a worker stores a blob of it.
        accepted = ended.entry.accepted
        return _Fence(entry.tenant, accepted.version, accepted.place, ended.seen)

    async def _clean(self, fences: Mapping[str, "_Fence"], chunk_topics: Sequence[str]) -> None:
        tenants = {name: fence.tenant for name, fence in fences.items()}
        erased = {name: fence.place for name, fence in fences.items()}
        kept: dict[str, set[str]] = {name: set() for name in erased}
        async with aclosing(records(self.base.log, await spans_of(self.base.log, EXTRACTED, erased))) as extracted:
            async for record in extracted:
                found = mention(record)
                if found is not None and goes(found, erased):
                    await self.publish(EXTRACTED, None, key=record.key or b"", route=found.document_id.encode())
                else:
                    _keep(kept, found, erased)
        for name, place in erased.items():
            await self.callbacks.forget_document(name, place)
            async for each in self._letters.every(LetterFilter(tenant=tenants[name], document_id=name)):
                if older(each.letter.place, place):
                    await settle(self.publish, each, "erased")
        await feedback.forget(
            self.base.log,
            self.publish,
            {*tenants.values()},
            lambda thumb: any(source.document_id in erased for source in thumb.sources),
        )
        if isinstance(self.base.log, SqliteLog):
            await self.base.log.overwrite(lambda record: self._instead(record, tenants, erased))
        # Submissions since the erasure have blobs, too, possibly stored before the records that name them. Workers
        # store such blobs only after the fence, so the blobs' age tells them from older ones.
        since = min(place.time for place in erased.values()) - SKEW_MS
        for topic in (SUBMITTED, EXTRACTED, *chunk_topics):
            async with aclosing(records(self.base.log, await spans_of(self.base.log, topic, erased, since))) as newer:
                async for record in newer:
                    _keep(kept, mention(record), erased)
        for name, fence in fences.items():
            age_s = asyncio.get_running_loop().time() - fence.at
            await collect(self.base.blobs, (fence.tenant, name), kept[name], age_s)
        log.info("documents_erased", count=len(erased))

    def _instead(
        self, record: Record, tenants: Mapping[str, str], erased: Mapping[str, LogPosition]
    ) -> Replacement | None:
        found = mention(record)
        if found is None or not goes(found, erased):
            return None
        name = found.document_id
        if record.topic != SUBMITTED:
            return Replacement(record.key, None)
        # Not a null record: read again, it would delete the document or be refused. This one keeps the old place.
        value = encode(erasure(tenants[name], name))
        return Replacement(name.encode(), value, sealed(value, {PLACE_HEADER: position_header(found.place)}))


async def _erase_in(index: Index, name: str, fence: _Fence) -> None:
    """Erase the document from a generation's index now: the stages of a build may take hours to reach the erasure."""
    await index.switch(deletion_head(name, fence.version, fence.tenant))
    await index.delete_below(name, fence.version)


def _keep(kept: Mapping[str, set[str]], found: DocumentMention | None, erased: Mapping[str, LogPosition]) -> None:
    if found is not None and found.document_id in kept and not goes(found, erased):
        kept[found.document_id] |= found.blobs
