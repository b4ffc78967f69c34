"""A log in memory: partitions, compaction, consumer groups whose members lose partitions and learn of it late."""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import CommitFailedError
from aiokafka.structs import RecordMetadata

from shared.log import Record, Replacement
from shared.log.publish import partition_of
from shared.topics import DEAD_LETTERS, EXTRACTED

COMPACTED = (EXTRACTED, DEAD_LETTERS)
START = 1_790_000_000_000  # ms since 1970: when the log was made


def _headers(headers: Mapping[str, str]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, text.encode()) for name, text in headers.items())


@dataclass
class Partition:
    """Records in offset order; compaction leaves gaps."""

    records: list[Record] = field(default_factory=list)
    end: int = 0


class MemoryLog:
    """Topics, each of whose partitions stamps records by a clock of its own, which never goes back."""

    moves = 0

    def __init__(self, topics: Mapping[str, int], skews: Sequence[int]) -> None:
        """Take how many partitions each topic has, and by how many ms the clock of each partition is off."""
        self.partitions = {
            TopicPartition(topic, number): Partition() for topic, count in topics.items() for number in range(count)
        }
        self.counts = dict(topics)
        self._ever: list[Record] = []
        self._skews = skews
        self._now = START

    def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        route: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> RecordMetadata:
        """Return where the record is."""
        if partition is None:
            partition = partition_of(route or key or b"", self.counts[topic])
        tp = TopicPartition(topic, partition)
        there = self.partitions[tp]
        time = self._now + self._skews[partition % len(self._skews)]
        record: Record = ConsumerRecord(
            topic=topic,
            partition=partition,
            offset=there.end,
            timestamp=time,
            timestamp_type=1,
            key=key,
            value=value,
            checksum=None,
            serialized_key_size=-1,
            serialized_value_size=-1,
            headers=_headers(headers or {}),
        )
        there.records.append(record)
        self._ever.append(record)
        there.end += 1
        return RecordMetadata(topic, partition, tp, record.offset, time, 1, 0)

    def add(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        self.counts[topic] = partitions
        self.partitions |= {TopicPartition(topic, number): Partition() for number in range(partitions)}

    def pass_time(self, milliseconds: int) -> None:
        self._now += milliseconds

    def records(self, topic: str) -> list[Record]:
        """Return all that is left of the topic, partition by partition."""
        return [record for tp, there in self.partitions.items() if tp.topic == topic for record in there.records]

    def ever(self, topic: str) -> list[Record]:
        """Return all that was ever appended to the topic, as it was."""
        return [record for record in self._ever if record.topic == topic]

    def overwrite(self, instead: Callable[[Record], Replacement | None]) -> int:
        """Do what `shared.log.Forgetful` promises."""
        count = 0
        for tp, there in self.partitions.items():
            for number, record in enumerate(() if tp.topic in COMPACTED else there.records):
                if (new := instead(record)) is not None:
                    there.records[number] = replace(record, key=new.key, value=new.value, headers=_headers(new.headers))
                    count += 1
        return count

    def compact(self, topic: str) -> None:
        """Leave the newest record of each key."""
        for tp, there in self.partitions.items():
            if tp.topic == topic:
                newest = {record.key: record.offset for record in there.records}
                there.records = [record for record in there.records if newest[record.key] == record.offset]

    def after(self, tp: TopicPartition, position: int) -> list[Record]:
        """Return the records from `position` on."""
        return [record for record in self.partitions[tp].records if record.offset >= position]

    # What tools ask of a log

    def consumer(self, **options: Any) -> "MemoryReader":
        return MemoryReader(self)

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        return {tp: there.end for tp, there in self.partitions.items() if tp.topic == topic}

    async def offsets_since(self, topic: str, time: int) -> dict[TopicPartition, int]:
        return {
            tp: next((record.offset for record in there.records if record.timestamp >= time), there.end)
            for tp, there in self.partitions.items()
            if tp.topic == topic
        }


class MemoryReader:
    """A consumer without a group, as `shared.log.read` uses one."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._positions: dict[TopicPartition, int] = {}

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        self._positions = dict.fromkeys(tps, 0)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self._positions[tp] = offset

    async def position(self, tp: TopicPartition) -> int:
        return self._positions[tp]

    async def beginning_offsets(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 0)

    async def end_offsets(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._log.partitions[tp].end for tp in tps}

    async def getmany(self, tp: TopicPartition, *, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        records = self._log.after(tp, self._positions[tp])
        self._positions[tp] = self._log.partitions[tp].end
        return {tp: records}


Through = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]  # a call's turn: its name, what it does


class Member:
    """A consumer in a group, with the methods that `Consumption` calls. What it believes may be out of date."""

    def __init__(self, group: "Group", through: Through) -> None:
        self._group = group
        self._through = through
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self.fetching: set[TopicPartition] = set()  # its worker knows that they are assigned
        self.dispatching = False  # its worker takes over one fetch after the other

    # As aiokafka's

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def paused(self) -> set[TopicPartition]:
        return self._paused

    def pause(self, *tps: TopicPartition) -> None:
        self._paused.update(tps)

    def resume(self, *tps: TopicPartition) -> None:
        self._paused.difference_update(tps)

    async def position(self, tp: TopicPartition) -> int:
        return self._positions[tp]

    async def beginning_offsets(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 0)

    async def end_offsets(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._group.log.partitions[tp].end for tp in tps}

    async def committed_metadata(self, tp: TopicPartition) -> str:
        return self._group.metadata[tp]

    async def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        generations = {tp: self._group.generations[tp] for tp in offsets}  # as the request has them when it is made

        async def commit() -> None:
            if any(self._group.generations[tp] != generation for tp, generation in generations.items()):
                raise CommitFailedError
            self._group.commit(self, offsets)

        await self._through(f"{self._group.name}.commit", commit)

    # As the network does it

    def take(self, tp: TopicPartition, position: int) -> None:
        self._positions[tp] = position
        self._paused.discard(tp)

    def lose(self, tp: TopicPartition) -> None:
        self._positions.pop(tp, None)
        self.fetching.discard(tp)

    def readable(self) -> list[TopicPartition]:
        """Return the partitions that have something to fetch."""
        ends = self._group.log.partitions
        return [tp for tp in sorted(self.fetching - self._paused) if self._positions[tp] < ends[tp].end]

    def fetch(self, tp: TopicPartition, most: int) -> list[Record]:
        """Return the next records, and stand behind them; over a gap at the end without any."""
        records = self._group.log.after(tp, self._positions[tp])[:most]
        self._positions[tp] = records[-1].offset + 1 if records else self._group.log.partitions[tp].end
        return records


class Group:
    """A consumer group on one topic: who owns each partition, and where it is committed."""

    def __init__(self, name: str, topic: str, log: MemoryLog) -> None:
        self.name = name
        self.log = log
        self.tps = sorted(tp for tp in log.partitions if tp.topic == topic)
        self.committed = dict.fromkeys(self.tps, 0)
        self.metadata = dict.fromkeys(self.tps, "")
        self.owners: dict[TopicPartition, Member | None] = dict.fromkeys(self.tps)
        self.target: dict[TopicPartition, Member | None] = dict.fromkeys(self.tps)
        self.generations = dict.fromkeys(self.tps, 0)  # how often each partition was given to somebody
        self.members: list[Member] = []
        self.went_back: list[str] = []
        self.commits: Callable[[TopicPartition, int], None] = lambda tp, offset: None  # told of each

    @property
    def lag(self) -> int:
        """Return how many offsets aren't committed."""
        return sum(self.log.partitions[tp].end - self.committed[tp] for tp in self.tps)

    def commit(self, member: Member, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        for tp in offsets:
            if self.owners[tp] is not member:
                raise CommitFailedError
        for tp, (offset, metadata) in offsets.items():
            if offset < self.committed[tp]:
                self.went_back.append(f"{self.name}: {tp} from {self.committed[tp]} to {offset}")
            self.committed[tp], self.metadata[tp] = offset, metadata
            self.commits(tp, offset)

    def give(self, tp: TopicPartition, member: Member) -> None:
        """Make the member the partition's owner, where it is committed."""
        self.owners[tp] = member
        self.generations[tp] += 1
        member.take(tp, self.committed[tp])

    def leave(self, member: Member) -> None:
        """Take the member out, without its knowing."""
        if member in self.members:
            self.members.remove(member)
        for tp, owner in self.owners.items():
            if owner is member:
                self.owners[tp] = None

    def wanted(self, rng: random.Random) -> dict[TopicPartition, Member | None]:
        """Return who should own each partition."""
        return {tp: rng.choice(self.members) if self.members else None for tp in self.tps}

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Commit an offset by an operator's hand; nobody may own the partition."""
        assert self.owners[tp] is None
        self.committed[tp], self.metadata[tp] = offset, ""
