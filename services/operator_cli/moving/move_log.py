"""Moves the log to another one, record by record. docs/adr/0012-backups-and-moves.md

Each copy has a header with the log position that the record has in the ledger, so nothing in the store changes but the
pairing, which is written last: until then the old log is in use, afterwards it is refused.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
import xxhash
from aiokafka import TopicPartition

from services.operator_cli.moving import collections
from services.operator_cli.terminal import CommandProgress
from shared.contracts import DeadLetter, LogPosition, Message, decode, encode
from shared.errors import Rejected, Unavailable
from shared.log import Log, Publish, Record
from shared.log.groups import our_groups, unread
from shared.log.headers import (
    HASH_HEADER,
    MOVED_HEADER,
    PLACE_HEADER,
    header,
    partition_number,
    position_from,
    position_header,
    position_of,
    sent_position,
    text_headers,
)
from shared.log.publish import partition_of
from shared.log.read import in_batches, records, records_now
from shared.state import pairing
from shared.state.generations import Registry, change, on_another_log
from shared.state.ledger import Entry, Ledger, older
from shared.state.pairing import keep_copy
from shared.store import Store
from shared.submission import document_id_of
from shared.topics import (
    AUDIT,
    DEAD_LETTERS,
    EXTRACTED,
    FEEDBACK,
    PAIRING,
    STATUS,
    SUBMITTED,
    Topic,
    chunks_topic,
    forwarding_group,
    moved_topic,
    readers,
)

# In this order: letters name records of the first topic.
COPIED: Final = (EXTRACTED, DEAD_LETTERS, SUBMITTED, AUDIT, FEEDBACK)
CODE: Final = "move"  # of errors that refuse a move
_COMPACTED: Final = (EXTRACTED, DEAD_LETTERS, FEEDBACK)
_PLACED: Final = (EXTRACTED, SUBMITTED)  # topics whose log positions are also stored elsewhere
_WINDOW: Final = 256  # records being written at once
_BATCH: Final = 200  # ledger entries per read
_SPARE: Final = 1024  # bytes that the headers of a copy may add to a record
_MARK_KEY: Final = b"move"
_LOST: Final = -1  # stands for partition and offset of a letter's record that isn't on the new log


class MovedLog(Message, frozen=True, kw_only=True):
    """What was moved, or would be."""

    to: str
    dry_run: bool
    topics: dict[str, int]  # records by topic
    written: int  # records written; fewer than all after an interrupted run
    # Submissions too large for the new log: their documents have no original there, and can't be replayed.
    left_out: int = 0
    log_id: str = ""  # of the new log


class MoveMark(Message, frozen=True, kw_only=True):
    """Says which move an incomplete target belongs to. It is stored on the topic `log.moved.<number of moves>`."""

    source: str  # id of the log that is copied
    log_id: str  # of the new log
    store_id: str  # new id of the store
    ends: dict[str, dict[str, int]]  # of the source by topic and partition, when the move began


async def move_log(move: "LogMove", *, dry_run: bool) -> MovedLog:
    """Return what was copied. The target is the store's log afterwards. After a crash, call it again.

    Nothing else may use either log or the store meanwhile.

    Raises:
        Rejected: the source isn't the store's log, or isn't read to its end; or the target has records.
        Unavailable: a part is away, or the index is being rebuilt, built or switched.
    """
    on_source, in_store = await pairing.on_log(move.source), await pairing.in_store(move.store)
    on_target = await pairing.on_log(move.target)
    if on_target is not None and in_store is not None and on_target.log_id == in_store.log_id:
        if not dry_run:
            await move.finish()
        return MovedLog(to=move.to, dry_run=dry_run, topics={}, written=0, log_id=in_store.log_id)
    if on_source is None or in_store is None or on_source.log_id != in_store.log_id:
        raise Rejected("log and store of the settings don't belong together yet: start Sluice with them once", CODE)
    registry = await collections.settled(move.store)
    assert registry is not None, "the caller has looked: its topics are the target's"
    if building := [each.id for each in registry.others if not each.built and not each.served]:
        raise Rejected(f"generation {building[0]} is being built: let it finish, or cancel it, first", CODE)
    known, names = await our_groups(move.source), {topic.name for topic in move.topics}
    foreign = {topic for group, topic in known.items() if group == forwarding_group(topic)} & names
    await _check_read(move.source, registry, foreign)
    mark = await _check_target(move.target, move.moves, on_source)
    if dry_run:
        return await move.planned()
    return await move.run(registry, mark, on_source, in_store)


async def _check_read(log: Log, registry: Registry, foreign: Iterable[str]) -> None:
    """Check that every stage has read its topic to the end; the caller has checked that no reader is running.

    The new log gets no chunk topics and no unread records, so unread records would be lost.
    """
    pairs = {(group, topic) for each in registry.generations for topic, group in readers(each.id).items()}
    pairs |= {(forwarding_group(topic), topic) for topic in foreign}
    for group, topic in sorted(pairs):
        if left := await unread(log, group, topic):
            raise Rejected(
                f"group {group} has {left} records of {topic} unread: start Sluice on this log until `sluice lag` "
                "shows 0, then stop it. If the group's generation is retired, `sluice reindex gc` drops it",
                CODE,
            )


async def _check_target(target: Log, moves: int, on_source: pairing.Pairing) -> MoveMark | None:
    """Return what an interrupted run left on the target, None if it is empty.

    Raises:
        Rejected: it has other records.
    """
    wanted = moved_topic(moves)
    [marked] = await target.inspect_topics([wanted])
    mark = None if marked.partitions is None else await _mark(target, moves)
    if mark is not None:
        if mark.source != on_source.log_id:
            raise Rejected("the target has an unfinished copy of another log: empty it first", CODE)
        return mark
    if target.moves:
        raise Rejected(
            f"the target has the topic {moved_topic(target.moves).name} of an earlier move: empty the target first",
            CODE,
        )
    found = await target.inspect_topics([Topic(name=name) for name in (*COPIED, STATUS, PAIRING)])
    for each in found:
        if each.partitions is not None and (count := sum((await target.end_offsets(each.topic)).values())):
            raise Rejected(
                f"the target has records already, {count} of them were on {each.topic}: empty it (move the file away, "
                "or delete the topics), or choose another one",
                CODE,
            )
    return None


async def _mark(target: Log, moves: int) -> MoveMark | None:
    async with aclosing(records_now(target, moved_topic(moves).name)) as found:
        marks = [decode(record.value, MoveMark) async for record in found if record.key == _MARK_KEY]
    return marks[0] if marks else None


class _Copy(NamedTuple):
    """A record as the target gets it."""

    key: bytes
    route: bytes
    value: bytes | None
    headers: dict[str, str]
    origin: tuple[int, int]  # partition and offset on the source


@dataclass(kw_only=True)
class LogMove:
    """A move between two logs; all parts of it are started."""

    source: Log
    target: Log
    store: Store
    publish: Publish  # on the target
    topics: Sequence[Topic]  # of the target, with the tenants' own
    watch: CommandProgress
    to: str  # address of the target, as shown to operators
    address: str  # of the store, as the target's pairing will have it

    def __post_init__(self) -> None:
        self.moves = self.source.moves + 1  # of the target
        self._ledger = Ledger(self.store)
        self._letters: dict[tuple[int, int], tuple[int, int]] = {}  # records that letters name: old and new position
        self._limits = {topic.name: topic.max_record_bytes for topic in self.topics}
        self._newest = 0  # ms since 1970: time of the source's newest record
        self._left_out = set[tuple[int, int]]()

    # The steps

    async def planned(self) -> MovedLog:
        """Return what would be copied."""
        topics = {topic: len([None async for _ in self._chosen(topic)]) for topic in COPIED}
        return MovedLog(to=self.to, dry_run=True, topics=topics, written=0, left_out=len(self._left_out))

    async def run(
        self, registry: Registry, mark: MoveMark | None, on_source: pairing.Pairing, in_store: pairing.Pairing
    ) -> MovedLog:
        """Copy, compare, and let the target be the store's log. Raises as `move_log`."""
        self.watch.begin("topics", 0)
        template = next(topic for topic in self.topics if topic.name == SUBMITTED)
        chunks = [msgspec.structs.replace(template, name=chunks_topic(each.id)) for each in registry.generations]
        await self.target.ensure_topics([moved_topic(self.moves)])
        mark = mark or await self._marked(on_source)
        await self.target.ensure_topics(
            [*{topic.name: topic for topic in (*chunks, *self.topics, moved_topic(self.moves))}.values()]
        )
        await self._check_unchanged(mark)
        counts, written = dict[str, int](), 0
        for topic in COPIED:
            written += await self._copy(topic)
        await self._check_clock()
        for topic in COPIED:
            counts[topic] = await self._compare(topic)
        self.watch.begin("offsets", 0)
        for each in registry.generations:
            for topic, group in readers(each.id).items():
                await self.target.reset_offsets(group, await self.target.end_offsets(topic))
        await self._check_unchanged(mark)
        self.watch.begin("pairing", 0)
        newer = max(on_source, in_store, key=lambda each: each.checkpoint)
        wanted = msgspec.structs.replace(
            newer,
            log_id=mark.log_id,
            store_id=mark.store_id,
            checkpoint=newer.checkpoint + 1,
            ends=await pairing.extracted_ends(self.target),
            address=self.address,
            moves=self.moves,
        )
        await pairing.tell_log(self.publish, wanted)
        await change(self.store, on_another_log)
        await keep_copy(self.store, self.publish)
        self.watch.begin("switch", 0)
        standing = await pairing.tell_store(self.store, wanted, known=in_store)
        if standing.log_id != mark.log_id:
            raise Unavailable("another process wrote the store's pairing meanwhile: stop everything that uses it", CODE)
        await self.finish()
        return MovedLog(
            to=self.to, dry_run=False, topics=counts, written=written, left_out=len(self._left_out), log_id=mark.log_id
        )

    async def _marked(self, on_source: pairing.Pairing) -> MoveMark:
        mark = MoveMark(source=on_source.log_id, log_id=uuid4().hex, store_id=uuid4().hex, ends=await self._ends())
        await self.publish(moved_topic(self.moves).name, encode(mark), key=_MARK_KEY)
        found = await _mark(self.target, self.moves)
        assert found is not None
        return found

    async def _ends(self) -> dict[str, dict[str, int]]:
        """Return the ends of the source's topics, without the audit trail, to which this command itself writes."""
        source = self.source
        return {
            topic: {str(tp.partition): end for tp, end in (await source.end_offsets(topic)).items()}
            for topic in COPIED
            if topic != AUDIT
        }

    async def _check_unchanged(self, mark: MoveMark) -> None:
        if await self._ends() != mark.ends:
            raise Rejected(
                "the old log was written to since the move began: stop everything that uses it, empty the target, and "
                "run the command again",
                CODE,
            )

    async def _check_clock(self) -> None:
        """Check that the target's clock isn't behind the newest record of the source."""
        written = await self.publish(moved_topic(self.moves).name, b"{}", key=b"clock")
        if written.timestamp <= self._newest:
            raise Rejected(
                f"the clock of the new log is {self._newest - written.timestamp} ms behind the newest record of the "
                "old one, so later submissions would count as older: correct the clock, or wait",
                CODE,
            )

    async def finish(self) -> None:
        """Point the ledger at the copies of the submitted bodies. Only originals need this (ADR 0008)."""
        self.watch.begin("originals", 0)
        async with aclosing(in_batches(records_now(self.target, SUBMITTED), _BATCH)) as batches:
            async for batch in batches:
                copies = defaultdict[str, dict[tuple[int, int], LogPosition]](dict)
                for record in batch:
                    name = None if header(record, MOVED_HEADER) is None else document_id_of(record)
                    if name is None:
                        continue
                    partition, offset = self._origin(record)
                    copies[name][partition_number(partition, self.moves - 1), offset] = sent_position(
                        record, self.moves
                    )
                for name, entry in (await self._ledger.entries([*copies])).items():
                    found = partial(_with_body, copies=copies[name])
                    if found(entry) is not None:
                        await self._ledger.update(name, found)
        await self.store.flush()

    # A topic

    async def _copy(self, topic: str) -> int:
        """Copy the records that the target lacks; return how many."""
        self.watch.begin(f"copy {topic}", sum((await self.source.end_offsets(topic)).values()))
        if topic == DEAD_LETTERS:
            await self._locate_letters()
        there = await self._there(topic)
        partitions = len(await self.target.end_offsets(topic))
        written = 0
        async with aclosing(in_batches(self._chosen(topic), _WINDOW)) as windows:
            async for window in windows:
                self.watch.step(len(window))
                routed = [(copy, partition_of(copy.route, partitions)) for copy in window]
                lacking = [(copy, to) for copy, to in routed if copy.origin[1] > there.get((copy.origin[0], to), -1)]
                await self._send(topic, lacking)
                written += len(lacking)
        return written

    async def _there(self, topic: str) -> dict[tuple[int, int], int]:
        """Return the offset of the last record that was copied, by partition of the source and of the target.

        From one partition into another, records are sent one after the other.
        """
        there: dict[tuple[int, int], int] = {}
        async for record in records_now(self.target, topic):
            number, offset = self._origin(record)
            there[number, record.partition] = max(offset, there.get((number, record.partition), -1))
        return there

    def _origin(self, record: Record) -> tuple[int, int]:
        """Return partition and offset of the source's record that this one copies. Raises Rejected if it is no copy."""
        origin = position_from(header(record, MOVED_HEADER) or "")  # moves/partition/offset
        if origin is None or origin.partition != self.moves:
            raise Rejected(
                f"the target has a record that isn't a copy, {record.topic}/{record.partition}@{record.offset}: stop "
                "what writes there, empty the target, and run the command again",
                CODE,
            )
        return origin.offset, origin.time

    async def _send(self, topic: str, window: Iterable[tuple[_Copy, int]]) -> None:
        """Publish the records, those to one partition one after the other; return when all are stored."""
        lanes = defaultdict[int, list[_Copy]](list)
        for copy, partition in window:
            lanes[partition].append(copy)

        async def send(lane: Sequence[_Copy]) -> None:
            for copy in lane:
                await self.publish(topic, copy.value, key=copy.key, route=copy.route, headers=copy.headers)

        async with asyncio.TaskGroup() as tasks:
            for lane in lanes.values():
                tasks.create_task(send(lane))

    async def _compare(self, topic: str) -> int:
        """Check that the target has every record once, with its position, key and value; return how many."""
        wanted = found = wanted_sum = found_sum = 0
        self.watch.begin(f"compare {topic}", 0)
        # Records that the source's retention has deleted meanwhile needn't be on the target.
        starts = await self.source.offsets_since(topic, 0)
        async for copy in self._chosen(topic):
            wanted += 1
            wanted_sum += _digest(copy.origin, copy.headers.get(PLACE_HEADER, ""), copy.key, copy.value)
        last: dict[tuple[int, int], int] = {}
        async for record in records_now(self.target, topic):
            origin = self._origin(record)
            if origin[1] < starts.get(TopicPartition(topic, origin[0]), 0):
                continue
            if last.get((origin[0], record.partition), -1) >= origin[1]:
                raise Rejected(f"{topic}/{record.partition}@{record.offset} of the target is out of order", CODE)
            last[origin[0], record.partition] = origin[1]
            place = header(record, PLACE_HEADER) or "" if topic in _PLACED else ""
            found += 1
            found_sum += _digest(origin, place, record.key or b"", record.value)
        if (wanted, wanted_sum) != (found, found_sum):
            raise Rejected(
                f"{topic} has {found} records on the target, and should have {wanted}, or they differ: "
                "empty the target, and run the command again",
                CODE,
            )
        return found

    def _copy_of(self, record: Record) -> _Copy:
        key, value, headers = record.key or b"", record.value, text_headers(record)
        headers.pop(PLACE_HEADER, None)
        headers[MOVED_HEADER] = f"{self.moves}/{record.partition}/{record.offset}"
        if record.topic in _PLACED:
            headers[PLACE_HEADER] = position_header(position_of(record))
        if record.topic == DEAD_LETTERS and (moved := self._letter(value)) is not None:
            value = moved
            headers.pop(HASH_HEADER, None)
        route = key.partition(b"/")[0] if record.topic == EXTRACTED else key
        return _Copy(key, route, value, headers, (record.partition, record.offset))

    async def _chosen(self, topic: str) -> AsyncGenerator[_Copy]:
        """Yield what to copy, one partition after the other.

        Of a compacted topic, that is the newest record of each key, without tombstones. Submissions of erased documents
        are left out, because the new log would keep them longer than the old one.
        """
        source = self.source
        for tp, end in sorted((await source.end_offsets(topic)).items()):
            chosen = await self._newest_of_keys(tp, end) if topic in _COMPACTED else None
            async with aclosing(in_batches(records(source, {tp: (0, end)}), _BATCH)) as batches:
                async for batch in batches:
                    self._newest = max(self._newest, *(record.timestamp for record in batch))
                    some = [record for record in batch if chosen is None or record.offset in chosen]
                    for each in await self._kept(some):
                        yield self._copy_of(each)

    async def _newest_of_keys(self, tp: TopicPartition, end: int) -> frozenset[int]:
        """Return the offsets of the newest record of each key, without tombstones."""
        newest: dict[bytes, int] = {}
        async for record in records(self.source, {tp: (0, end)}):
            if record.value is None:
                newest.pop(record.key or b"", None)
            else:
                newest[record.key or b""] = record.offset
        return frozenset(newest.values())

    async def _kept(self, batch: Sequence[Record]) -> Sequence[Record]:
        """Return the records without submissions of erased documents, and without those that are too large."""
        if not batch or batch[0].topic != SUBMITTED:
            return batch
        names = [document_id_of(record) for record in batch]
        entries = await self._ledger.entries([*{name for name in names if name is not None}])
        kept = []
        limit = self._limits[SUBMITTED] - _SPARE
        for name, record in zip(names, batch, strict=True):
            entry = None if name is None else entries.get(name)
            if entry is not None and entry.erased and older(position_of(record), entry.accepted.place):
                continue
            headers = sum(len(label) + len(text or b"") for label, text in record.headers)
            if len(record.key or b"") + len(record.value or b"") + headers > limit:
                self._left_out.add((record.partition, record.offset))
                continue
            kept.append(record)
        return kept

    # Letters

    async def _locate_letters(self) -> None:
        """Find the copies of those records of documents.extracted that open letters name."""
        named = set[tuple[int, int]]()
        async for record in records_now(self.source, DEAD_LETTERS):
            letter = _letter_of(record.value)
            if letter is not None and letter.topic == EXTRACTED:
                named.add((letter.partition, letter.offset))
        if not named:
            return
        async for record in records_now(self.target, EXTRACTED):
            if (origin := self._origin(record)) in named:
                self._letters[origin] = record.partition, record.offset

    def _letter(self, value: bytes | None) -> bytes | None:
        """Return the letter with the new position of its record, None if the letter doesn't change."""
        letter = _letter_of(value)
        if letter is None or letter.topic != EXTRACTED:
            return None
        partition, offset = self._letters.get((letter.partition, letter.offset), (_LOST, _LOST))
        return encode(msgspec.structs.replace(letter, partition=partition, offset=offset))


def _digest(origin: tuple[int, int], place: str, key: bytes, value: bytes | None) -> int:
    """Return a number; its sums over two sets of records are equal only if these are, in any order."""
    head = f"{origin[0]}/{origin[1]} {place} {len(key)} {value is None} ".encode()
    return xxhash.xxh3_128_intdigest(head + key + (value or b""))


def _with_body(seen: Entry | None, copies: Mapping[tuple[int, int], LogPosition]) -> Entry | None:
    """Return the entry with its body's new position; None if the body's record isn't among these."""
    body = None if seen is None else seen.accepted.body
    here = None if body is None else copies.get((body.place.partition, body.place.offset))
    if seen is None or body is None or here is None:
        return None
    accepted = msgspec.structs.replace(seen.accepted, body=msgspec.structs.replace(body, place=here))
    return msgspec.structs.replace(seen, accepted=accepted)


def _letter_of(value: bytes | None) -> DeadLetter | None:
    try:
        return decode(value, DeadLetter)
    except Rejected:
        return None
