"""Redrives dead letters after their cause is fixed. correctness.md, section 7.

A submission goes back to the first stage with its place. A version of a later stage goes back as its record of
documents.extracted, the truth; the fences then decide about it. Nothing is sent that a newer version has overtaken.
`plan_redrive` decides without I/O.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Literal

import msgspec
import structlog

from shared.contracts import DeadLetter, truth_key
from shared.errors import Rejected
from shared.ids import is_uuid
from shared.log import Log, Publish, Record
from shared.log.dead_letters import body_owner
from shared.log.headers import HASH_HEADER, PLACE_HEADER, REDRIVE_HEADER, SKEW_MS, header, position_header
from shared.log.open_letters import AT_ONCE, LetterFilter, OpenLetter, OpenLetters
from shared.log.read import in_batches, records, spans_of
from shared.runtime.resources import Resources
from shared.state.ledger import WELL, Entry, older
from shared.state.version_deletion import forget
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, chunks_topic

log = structlog.get_logger(__name__)

FORWARD_STAGE = "forward"  # its records have no place on documents.submitted, so an old one could win
SETTLED_HEADER = "sluice-settled"  # how a letter was settled

Done = Literal["redriven", "superseded", "dropped", "refused", "unknown"]


class NothingToRedrive(msgspec.Struct, frozen=True):
    """There is nothing to send: a newer version was accepted, or the document is gone."""

    sentence: str


class ResendRecord(msgspec.Struct, frozen=True):
    """Send the letter's own record again."""

    topic: str
    key: bytes
    route: bytes


class ResendVersion(msgspec.Struct, frozen=True):
    """Send the version's record of documents.extracted again."""

    document_id: str
    version: int
    since: int  # ms since 1970; the record isn't older than this


Remedy = ResendRecord | ResendVersion | NothingToRedrive


class SettledLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a letter was settled, or why it wasn't."""

    id: str
    outcome: Done
    sentence: str | None = None


def plan_redrive(letter: DeadLetter, entry: Entry | None) -> Remedy:
    """Return what to send for the letter. `entry` is its document's ledger entry, None if there is none."""
    if letter.topic == SUBMITTED:
        if entry is not None and older(letter.place, entry.accepted.place):
            return NothingToRedrive(f"version {entry.accepted.version} was accepted since")
        key = (letter.document_id or "").encode() or letter.key or b""
        return ResendRecord(SUBMITTED, key, key)
    name = document_of(letter)
    if name is None:
        if letter.topic == EXTRACTED:  # an unreadable record with an unreadable key goes back to its topic unchanged
            return ResendRecord(EXTRACTED, letter.key or b"", letter.key or b"")
        return NothingToRedrive("the record doesn't say which document it belongs to")
    if entry is None:
        return NothingToRedrive(f"document {name} is gone")
    version = letter.version if letter.version is not None else entry.accepted.version
    if version < entry.accepted.version:
        return NothingToRedrive(f"version {entry.accepted.version} was accepted since")
    if letter.topic == EXTRACTED:
        return ResendRecord(EXTRACTED, letter.key or truth_key(name, version), name.encode())
    return ResendVersion(name, version, since=letter.place.time if letter.version is not None else 0)


def unsendable(letter: DeadLetter) -> str | None:
    """Return why the letter's record is never sent again; None if it may be."""
    if letter.stage != FORWARD_STAGE:
        return None
    return f"records of {letter.topic} aren't sent again from here: send the document again, then drop this"


def overtaken(letter: DeadLetter, entry: Entry, *chunks: str) -> bool:
    """Return whether the letter's document ended well by a later submission, so that a redrive would change nothing.

    `chunks` are the chunk topics of the serving generation and of the lost ones before it. Letters of other
    generations are never overtaken.
    """
    if letter.topic not in (SUBMITTED, EXTRACTED, *chunks) or letter.tenant != entry.tenant:
        return False
    stands = entry.standing(entry.accepted.version)
    ended_well = stands is not None and stands.status in WELL
    return ended_well and isinstance(plan_redrive(letter, entry), NothingToRedrive)


def document_of(letter: DeadLetter) -> str | None:
    """Return the id of the letter's document, from the letter, or else from the record's key."""
    if letter.document_id is not None:
        return letter.document_id
    name = (letter.key or b"").decode(errors="replace").partition("/")[0]
    return name if letter.topic != SUBMITTED and is_uuid(name) else None


@dataclass
class DeadLetterService:
    """Shows and settles open letters. Every call may be repeated. Raises Unavailable when a part is away."""

    base: Resources
    publish: Publish

    def __post_init__(self) -> None:
        self.open = OpenLetters(self.base.log)

    async def body(self, letter: DeadLetter) -> bytes | None:
        """Return the value of the letter's record.

        Raises:
            Rejected: its blob is missing or altered.
        """
        if letter.blob is None:
            return letter.value
        return await self.base.blobs.get(*body_owner(letter), letter.blob)

    async def redrive(self, letters: Sequence[OpenLetter], *, dry_run: bool = False) -> list[SettledLetter]:
        """Redrive the letters; return how each was settled, in order. Refused ones stay open. Dry: send nothing."""
        names = [document_of(each.letter) for each in letters]
        entries = await self.base.ledger.entries([name for name in names if name is not None])
        remedies = [
            plan_redrive(each.letter, entries.get(name or "")) for each, name in zip(letters, names, strict=True)
        ]
        truth = await redrive_state(self.base.log, {each for each in remedies if isinstance(each, ResendVersion)})
        settled: dict[int, SettledLetter] = {}
        # In the order in which they came, so that the later of two submissions of a document wins again.
        came = [(place.time, place.partition, place.offset) for place in (each.letter.place for each in letters)]
        for at in sorted(range(len(letters)), key=came.__getitem__):
            settled[at] = await self._redriven(letters[at], remedies[at], truth, dry_run=dry_run)
        return [settled[at] for at in range(len(letters))]

    async def drop(self, letters: Sequence[OpenLetter], *, dry_run: bool = False) -> list[SettledLetter]:
        """Drop the letters: their records are never tried again. Return how each was settled. Dry: drop nothing.

        The record of a failed version is removed from the truth if only its letter kept it there.
        """
        for each in letters:
            if not dry_run:
                # A version that failed in another generation may answer in this one.
                if each.letter.generation in (None, *self._generations()):
                    await self._forget(each)
                await settle(self.publish, each, "dropped")
        return [SettledLetter(id=each.id, outcome="dropped") for each in letters]

    async def settle_overtaken(self) -> int:
        """Settle the letters of documents that ended well by a later submission; return how many."""
        chunks, settled = [chunks_topic(each) for each in self._generations()], 0
        for tenant in await self.open.tenants():
            letters = in_batches(self.open.every(LetterFilter(tenant=tenant)), AT_ONCE)
            async with aclosing(letters) as batches:
                async for batch in batches:
                    named = [(each, name) for each in batch if (name := document_of(each.letter)) is not None]
                    entries = await self.base.ledger.entries([name for _, name in named])
                    for each, name in named:
                        if name in entries and overtaken(each.letter, entries[name], *chunks):
                            await settle(self.publish, each, "superseded")
                            settled += 1
        return settled

    def _generations(self) -> tuple[str, ...]:
        """Return the serving generation, and the lost ones in whose place it is."""
        return self.base.index.generation.id, *self.base.watch.before()

    async def _forget(self, dropped: OpenLetter) -> None:
        name, version = document_of(dropped.letter), dropped.letter.version
        entry = None if name is None or version is None else await self.base.ledger.get(name)
        if entry is None or version is None or version not in entry.published:
            return
        wanted = LetterFilter(tenant=entry.tenant, document_id=entry.document_id)
        async for each in self.open.every(wanted):
            if each.letter.version == version and each.keys != dropped.keys:
                return  # another stage has a letter of the version, too, which can still be redriven
        # This comes first: a redrive in progress can't make a version answer that isn't in the truth any more.
        if await self.base.index.withdraw_for_good(entry.document_id, version, entry.tenant):
            await forget(self.base.ledger, self.publish, entry.document_id, (version,))

    async def _redriven(
        self, each: OpenLetter, what: Remedy, truth: Mapping[ResendVersion, Record], *, dry_run: bool
    ) -> SettledLetter:
        if (why := unsendable(each.letter)) is not None:
            return SettledLetter(id=each.id, outcome="refused", sentence=why)
        try:
            send = await self._sending(each.letter, what, truth)
            if not dry_run and not isinstance(send, NothingToRedrive):
                await send()
        except Rejected as error:
            return SettledLetter(id=each.id, outcome="refused", sentence=error.sentence)
        outcome: Done = "superseded" if isinstance(send, NothingToRedrive) else "redriven"
        if not dry_run:  # last, so that a crash in between leaves a letter too many, never one too few
            await settle(self.publish, each, outcome)
        return SettledLetter(
            id=each.id, outcome=outcome, sentence=send.sentence if isinstance(send, NothingToRedrive) else None
        )

    async def _sending(
        self, letter: DeadLetter, what: Remedy, truth: Mapping[ResendVersion, Record]
    ) -> Callable[[], Awaitable[object]] | NothingToRedrive:
        """Return what sends the letter's record, or that of its version."""
        match what:
            case NothingToRedrive():
                return what
            case ResendRecord(topic, key, route):
                value = await self.body(letter)
                return partial(self.publish, topic, value, key=key, route=route, headers=_headers(letter))
            case ResendVersion(document_id, version):
                record = truth.get(what)
                if record is None:
                    return NothingToRedrive(f"version {version} of document {document_id} is no longer kept")
                headers = _headers(letter)
                headers.pop(HASH_HEADER, None)  # it belongs to the letter's record, not to this one
                if (stated := header(record, HASH_HEADER)) is not None:
                    headers[HASH_HEADER] = stated
                route = document_id.encode()
                return partial(self.publish, EXTRACTED, record.value, key=record.key, route=route, headers=headers)


async def settle(publish: Publish, each: OpenLetter, outcome: Done | Literal["erased"]) -> None:
    """Take the letter off the open ones."""
    for key in each.keys:
        await publish(DEAD_LETTERS, None, key=key, headers={SETTLED_HEADER: outcome})
    log.info("dead_letter_settled", id=each.id, outcome=outcome, stage=each.letter.stage, code=each.letter.code)


def _headers(letter: DeadLetter) -> dict[str, str]:
    """Return the record's own text headers, with its place and the number of redrives."""
    own: dict[str, str] = {}
    for name, value in letter.headers:
        try:
            own.setdefault(name, value.decode())
        except UnicodeDecodeError:
            log.warning("header_left_out", header=name, topic=letter.topic, offset=letter.offset)
    return {**own, PLACE_HEADER: position_header(letter.place), REDRIVE_HEADER: str(letter.redrives + 1)}


async def redrive_state(log: Log, wanted: Collection[ResendVersion]) -> dict[ResendVersion, Record]:
    """Return the newest record of each of the versions that documents.extracted has.

    Each partition that has any of them is read from the oldest one on. The records found are held in memory: pass few.

    Raises:
        Unavailable: the log is away.
    """
    since = max(0, min((each.since for each in wanted), default=0) - SKEW_MS)
    found = await _newest(log, wanted, since)
    # The clock may have gone back since the submission, so a version is given up only after everything was read.
    if since and (missing := set(wanted) - found.keys()):
        found |= await _newest(log, missing, 0)
    return {each: record for each, record in found.items() if record.value is not None}


async def _newest(log: Log, wanted: Collection[ResendVersion], since: int) -> dict[ResendVersion, Record]:
    """Return the newest record, null or not, of each version that has one since a time (ms since 1970)."""
    if not wanted:
        return {}
    keys = {truth_key(each.document_id, each.version): each for each in wanted}
    spans = await spans_of(log, EXTRACTED, {each.document_id for each in wanted}, since)
    async with aclosing(records(log, spans)) as there:
        return {keys[record.key]: record async for record in there if record.key in keys}
