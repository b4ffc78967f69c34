"""Port: the log, as FastStream's KafkaBroker on one of two drivers, and the pattern every worker reads it with.

`sqlite` puts an append-only file behind the broker, with aiokafka's surface; `kafka` is aiokafka
itself. Handlers see neither: they get records and publish bytes.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.structs import RecordMetadata
from faststream.kafka import KafkaBroker

from shared.topics import Topic, TopicInspection

Record = ConsumerRecord  # topic, partition, offset, timestamp (ms), key, value, headers


class Log(Protocol):
    """A log that brokers and tools join."""

    async def start(self) -> None:
        """Open or reach it. Raises Unavailable, or ConfigurationError where it can't ever work."""
        ...

    async def stop(self) -> None:
        """Let go; brokers made from it must have been stopped."""
        ...

    def broker(self, client_id: str) -> KafkaBroker:
        """Return a new broker on this log: acks=all, idempotent, policy MANUAL. Its owner starts and stops it."""
        ...

    def consumer(self, *, group_id: str | None = None, **options: Any) -> Any:
        """Return an unstarted consumer with aiokafka's methods, for tools: assign, seek, getmany, commit,
        committed, position, beginning_offsets, end_offsets, offsets_for_times.
        """
        ...

    async def ensure_topics(self, topics: Iterable[Topic]) -> None:
        """Create what is missing; raise ConfigurationError where one exists and is unfit."""
        ...

    async def inspect_topics(self, topics: Iterable[Topic]) -> tuple[TopicInspection, ...]:
        """Return each topic as it is here, in the order given; nothing is made or changed."""
        ...

    async def retention_ms(self, topic: str) -> int | None:
        """Return after how many ms records of the topic go because of their age; None: never."""
        ...

    async def committed(self, group_id: str, topic: str) -> dict[TopicPartition, int | None]:
        """Return the group's committed offset of each partition, None where there is none."""
        ...

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """Return the next offset of each partition; it never falls."""
        ...

    async def offsets_since(self, topic: str, time: int) -> dict[TopicPartition, int]:
        """Return each partition's first offset that is there and not older than `time`, ms since 1970; else its end."""
        ...


@runtime_checkable
class Stamping(Protocol):
    """A log that gives records their times by the clock of this machine."""

    async def ahead_ms(self) -> int:
        """Return by how many ms the newest record's time is ahead of the clock, 0 where none is. Raises Unavailable."""
        ...


@runtime_checkable
class Aging(Protocol):
    """A log that knows how much time has passed, whatever the clock says."""

    async def age_ms(self) -> int:
        """Return how many ms have passed since the log's first upkeep; it never falls. Raises Unavailable."""
        ...


@runtime_checkable
class Weighed(Protocol):
    """A log whose file is ours, so that it can say what each topic takes of it."""

    async def topic_bytes(self) -> dict[str, int]:
        """Return the bytes of each topic's records: keys, values and headers. Raises Unavailable."""
        ...


class Publish(Protocol):
    """Appends one record; `shared.log.publish` is it, bound to a broker."""

    async def __call__(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes,
        route: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RecordMetadata:
        """Return where the record is, once it is on disk. `route` chooses the partition where `key` doesn't.

        Raises:
            Unavailable: the log refused, or didn't answer in time (then it is unknown whether it has it).
            Rejected: the record is larger than the topic takes.
        """
        ...


class Replacement(NamedTuple):
    """What stands in a record's place; its offset and time stay."""

    key: bytes | None
    value: bytes | None
    headers: Mapping[str, str] = MappingProxyType({})


@runtime_checkable
class ErasableLog(Protocol):
    """A log whose files are ours, so that it can forget before retention does. Methods raise Unavailable."""

    async def overwrite(self, instead: Callable[[ConsumerRecord], Replacement | None]) -> int:
        """Return how many records were overwritten, headers too: those for which `instead` gave something.

        It is asked, in a thread, for each record of each topic that isn't compacted.
        """
        ...

    async def forget(self) -> None:
        """Return when no file holds a byte of what was overwritten, compacted away or deleted."""
        ...
