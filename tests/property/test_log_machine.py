"""The SQLite log against a list for each partition: written, read, committed, rewound, compacted, retained, crashed."""

import asyncio
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError
from aiokafka.structs import RecordMetadata
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from shared.log.sqlite import SqliteLog, compaction, upkeep
from shared.log.sqlite.compaction import FULL_PASS_MS, TOMBSTONE_MS
from shared.log.sqlite.consumer import Consumer
from shared.log.sqlite.producer import Producer
from shared.topics import Topic
from tests.e2e.faults import rounds
from tests.property.machines import AsyncMachine, play
from tests.selection import CI_ONLY

PARTITIONS = 2
EVENTS = Topic(name="events", partitions=PARTITIONS, retention_ms=10_000, max_record_bytes=1000)
TRUTH = Topic(name="truth", partitions=PARTITIONS, cleanup="compact", retention_ms=None)
GROUP = "g"
TPS = [TopicPartition(topic.name, number) for topic in (EVENTS, TRUTH) for number in range(PARTITIONS)]
IN_FILE = ("committed", "acknowledged")  # a process that dies at one of these has written it
HOUR_MS = 3_600_000

keys = st.sampled_from([b"a", b"b", b"c", None])
values = st.none() | st.binary(max_size=4)
sends = st.tuples(st.sampled_from(TPS), keys, values)
jumps = st.sampled_from([0, 1, 3_000, 20_000, 5 * HOUR_MS, 3 * 24 * HOUR_MS]).flatmap(
    lambda ms: st.sampled_from([ms, -ms])
)
passing = st.sampled_from([1_000, 20_000, TOMBSTONE_MS + 1000, FULL_PASS_MS + 1000])


def _nothing(step: str, /) -> None: ...


@dataclass(frozen=True)
class Kept:
    """A record as it was written."""

    offset: int
    time: int
    key: bytes | None
    value: bytes | None


@dataclass
class Partition:
    """What should be there."""

    records: list[Kept] = field(default_factory=list)
    start: int = 0
    next: int = 0
    time: int = 0
    position: int = 0
    committed: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)  # by each upkeep: the log's age, and `next`

    def end_at(self, age: int) -> int:
        return max((end for then, end in self.ends if then <= age), default=0)

    def append(self, now: int, key: bytes | None, value: bytes | None) -> Kept:
        self.time = max(self.time, now)
        self.records.append(Kept(self.next, self.time, key, value))
        self.next += 1
        return self.records[-1]

    def compact(self, age: int) -> int:
        before = len(self.records)
        newest = {record.key: record.offset for record in self.records}
        self.records = [
            record
            for record in self.records
            if record.key is None
            or (
                newest[record.key] == record.offset
                and (
                    record.value is not None
                    or record.offset >= self.end_at(age - TOMBSTONE_MS)
                    or record.offset == self.next - 1
                )
            )
        ]
        return before - len(self.records)

    def retain(self, old: int) -> int:
        before = len(self.records)
        self.start = max(self.start, min(self.end_at(old), self.committed))
        self.records = [record for record in self.records if record.offset >= self.start]
        return before - len(self.records)


class LogMachine(AsyncMachine):
    """One process on a file; when it dies, the next one opens the file as it was at that moment."""

    log: SqliteLog
    producer: Producer
    consumer: Consumer

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="sluice-log-")
        self.now = 1_700_000_000_000
        self.boot_ms = 0
        self.kept_up_first: int | None = None  # `boot_ms` then
        self.partitions = {tp: Partition() for tp in TPS}
        self.lives = 0
        self.at_step = _nothing
        self.idle = True  # whether nothing has changed since the last upkeep
        self.stamped = False  # whether a record was given its time

    @initialize()
    def begin(self) -> None:
        self.wait(self._open())

    async def _open(self) -> None:
        self.log = SqliteLog(self._path(), now=self._stamp, boot=lambda: self.boot_ms / 1000, step=self._step)
        await self.log.start()
        await self.log.ensure_topics([EVENTS, TRUTH])
        self.producer = Producer(self.log._storage)
        self.consumer = self.log.consumer(group_id=GROUP)
        self.consumer.subscribe([EVENTS.name, TRUTH.name])
        await self.consumer.start()
        assert self.consumer.assignment() == set(TPS)
        for partition in self.partitions.values():
            partition.position = partition.committed

    def _step(self, name: str) -> None:
        self.at_step(name)

    def _stamp(self) -> int:
        self.stamped = True
        return self.now

    def _path(self) -> Path:
        return Path(self.folder.name) / str(self.lives) / "log.db"

    async def _close(self) -> None:
        await self.consumer.stop()
        await self.log.stop()

    def teardown(self) -> None:
        if self.lives or hasattr(self, "consumer"):
            self.wait(self._close())
        super().teardown()
        self.folder.cleanup()

    async def _send(self, several: list[tuple[TopicPartition, bytes | None, bytes | None]]) -> list[RecordMetadata]:
        sent = [await self.producer.send(tp.topic, value, key, tp.partition) for tp, key, value in several]
        return list(await asyncio.gather(*sent))

    # What writers do

    @rule(several=st.lists(sends, min_size=1, max_size=5))
    def produce(self, several: list[tuple[TopicPartition, bytes | None, bytes | None]]) -> None:
        written = self.wait(self._send(several))

        self.idle = False
        kept = [self.partitions[tp].append(self.now, key, value) for tp, key, value in several]
        assert [(one.offset, one.timestamp) for one in written] == [(one.offset, one.time) for one in kept]

    @rule(tp=st.sampled_from(TPS[:PARTITIONS]))
    def produce_too_much(self, tp: TopicPartition) -> None:
        with pytest.raises(MessageSizeTooLargeError):
            self.wait(self._send([(tp, b"k", bytes(EVENTS.max_record_bytes))]))

    @rule(by=jumps)
    def jump(self, by: int) -> None:
        self.now += by
        self.idle = False

    @rule(by=passing)
    def time_passes(self, by: int) -> None:
        self.now += by
        self.boot_ms += by
        self.idle = False

    # What readers do

    @precondition(lambda self: any(p.position < p.next for p in self.partitions.values()))
    @rule(most=st.integers(1, 6))
    def consume(self, most: int) -> None:
        before = {tp: partition.position for tp, partition in self.partitions.items()}
        lost = {tp for tp, at in before.items() if at < self.partitions[tp].start}
        try:
            found = self.wait(self.consumer.getmany(max_records=most))
        except OffsetOutOfRangeError:
            assert lost
            found = {}
        for tp, records in found.items():
            partition = self.partitions[tp]
            waiting = [record for record in partition.records if record.offset >= partition.position]
            read = [Kept(r.offset, r.timestamp, r.key, r.value) for r in records]
            assert tp not in lost
            assert read == waiting[: len(read)]
        for tp, partition in self.partitions.items():
            if tp in lost:  # it stands still until somebody chooses where to go on
                partition.position = partition.start
                self.consumer.seek(tp, partition.start)
                continue
            partition.position = self.wait(self.consumer.position(tp))
            passed = [r.offset for r in partition.records if before[tp] <= r.offset < partition.position]
            assert passed == [record.offset for record in found.get(tp, [])]
        if not lost and not found:
            assert all(p.position > r.offset for p in self.partitions.values() for r in p.records)

    @precondition(lambda self: any(p.position != p.committed for p in self.partitions.values()))
    @rule(tps=st.sets(st.sampled_from(TPS), min_size=1))
    def commit(self, tps: set[TopicPartition]) -> None:
        self.wait(self.consumer.commit({tp: self.partitions[tp].position for tp in tps}))

        for tp in tps:
            self.partitions[tp].committed = self.partitions[tp].position

    @precondition(lambda self: any(p.position > p.start for p in self.partitions.values()))
    @rule(tp=st.sampled_from(TPS), share=st.floats(0, 1))
    def rewind(self, tp: TopicPartition, share: float) -> None:
        partition = self.partitions[tp]
        partition.position = partition.start + int(share * (partition.position - partition.start))
        self.consumer.seek(tp, partition.position)

    # Upkeep

    @precondition(lambda self: not self.idle)
    @rule(how=st.sampled_from(("compact", "retain")))
    def keep_up(self, how: str) -> None:
        self.idle = True
        if self.kept_up_first is None:
            self.kept_up_first = self.boot_ms
        age = self.boot_ms - self.kept_up_first
        for partition in self.partitions.values():
            partition.ends.append((age, partition.next))
        if how == "compact":
            gone = self.wait(compaction.compact(self.log._storage, TRUTH.name))
            assert gone == sum(p.compact(age) for tp, p in self.partitions.items() if tp.topic == TRUTH.name)
        else:
            assert EVENTS.retention_ms is not None
            gone = self.wait(upkeep.retain(self.log._storage, EVENTS.name))
            old = age - EVENTS.retention_ms
            assert gone == sum(p.retain(old) for tp, p in self.partitions.items() if tp.topic == EVENTS.name)

    # Ends

    @precondition(lambda self: any(p.records for p in self.partitions.values()))
    @rule()
    def reopen(self) -> None:
        self.wait(self._close())
        self.wait(self._open())

    @rule(several=st.lists(sends, min_size=1, max_size=3), at=st.sampled_from(("begun", "applied", "tails", *IN_FILE)))
    def crash(self, several: list[tuple[TopicPartition, bytes | None, bytes | None]], at: str) -> None:
        """Go on with the file as it was at a step of a write; nobody was told how that ended."""
        here = self._path()
        self.lives += 1
        there, files = self._path(), {here.name, f"{here.name}-wal"}

        def copy(step: str, /) -> None:
            if step == at and (self.stamped or at == "begun"):  # not in a transaction of the group's own
                self.at_step = _nothing
                shutil.copytree(here.parent, there.parent, ignore=lambda _, names: {*names} - files)

        self.stamped, self.at_step = False, copy
        self.wait(self._send(several))
        self.wait(self._close())
        if at in IN_FILE:
            for tp, key, value in several:
                self.partitions[tp].append(self.now, key, value)
        self.wait(self._open())

    # What always holds

    @invariant()
    @precondition(lambda self: hasattr(self, "consumer"))
    def offsets_are_kept(self) -> None:
        for topic in (EVENTS.name, TRUTH.name):
            ends = self.wait(self.log.end_offsets(topic))
            committed = self.wait(self.log.committed(GROUP, topic))
            assert ends == {tp: p.next for tp, p in self.partitions.items() if tp.topic == topic}
            assert committed == {tp: p.committed for tp, p in self.partitions.items() if tp.topic == topic}


@CI_ONLY
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_log_does_what_a_list_would() -> None:
    play(LogMachine, histories=rounds(ci=40, here=4), steps=30)
