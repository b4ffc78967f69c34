"""Port: the log, accessed through FastStream's KafkaBroker with one of two drivers.

The driver `sqlite` implements aiokafka's interface on an append-only file; `kafka` is aiokafka itself.
Handlers see neither: they get records and publish bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata
from faststream.kafka import KafkaBroker

from shared.errors import Unavailable
from shared.topics import Topic, TopicInspection


class LogUnavailable(Unavailable, KafkaError):  # type: ignore[misc]  # noqa: N818 - aiokafka has no types; named as its base
    """The log can't be read or written now; a write was stored completely or not at all.

    It has two bases: our callers retry an Unavailable; FastStream's loop catches a KafkaError, waits and reads again.
    """

    retriable = True


Record = ConsumerRecord  # topic, partition, offset, timestamp (ms), key, value, headers


class GroupMember(NamedTuple):
    """A consumer of a group, and the partitions that it has."""

    id: str
    client_id: str
    host: str
    partitions: frozenset[TopicPartition]


class Log(Protocol):
    """A log that brokers and tools connect to."""

    @property
    def moves(self) -> int:
        """Return how many moves from log to log have brought the records here; known after `start`. ADR 0012."""

    async def start(self) -> None:
        """Open or connect. Raises Unavailable, or ConfigurationError if retrying can't help."""

    async def stop(self) -> None:
        """Close or disconnect; stop all its brokers before."""

    def broker(self, client_id: str) -> KafkaBroker:
        """Return a new broker on this log: acks=all, idempotent, policy MANUAL. Its owner starts and stops it."""

    def consumer(self, *, group_id: str | None = None, **options: Any) -> Any:
        """Return an unstarted consumer with aiokafka's methods, for tools: assign, seek, getmany, commit,
        committed, position, beginning_offsets, end_offsets; and committed_metadata.
        """

    async def ensure_topics(self, topics: Iterable[Topic]) -> None:
        """Create missing topics. Raises ConfigurationError if an existing topic is unfit."""

    async def drop_topic(self, topic: str) -> None:
        """Delete the topic's records for good, and the topic where the log can; nothing reads it any more. Idempotent.

        A dropped topic's name must not be used again.
        """

    async def inspect_topics(self, topics: Iterable[Topic]) -> tuple[TopicInspection, ...]:
        """Return each topic as it is on this log, in the order given; nothing is created or changed."""

    async def retention_ms(self, topic: str) -> int | None:
        """Return the age in ms at which the topic's records are deleted; None: never."""

    async def committed(self, group_id: str, topic: str) -> dict[TopicPartition, int | None]:
        """Return the group's committed offset of each partition, None if it has none."""

    async def groups(self) -> tuple[str, ...]:
        """Return the names of all consumer groups, sorted."""

    async def members(self, group_id: str) -> tuple[GroupMember, ...]:
        """Return the group's living consumers, sorted by id; empty if there is no such group."""

    async def reset_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets for the group. Raises Rejected, code `group_busy`, while the group has members."""

    async def drop_group(self, group_id: str) -> None:
        """Forget what the group has read; idempotent. Raises Rejected, code `group_busy`, while it has members."""

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """Return the next offset of each partition; it never decreases."""

    async def offsets_since(self, topic: str, time: int) -> dict[TopicPartition, int]:
        """Return each partition's first existing offset not older than `time` (ms since 1970), else its end."""

    async def replaced_below(self, topic: str) -> dict[TopicPartition, int]:
        """Return an offset for each partition; compaction may have deleted records that ones below it replaced.

        A reader that stops at this offset, or at a later one, sees what the topic held when that was its end.
        """


Commits = Sequence[tuple[str, int, int, str]]  # group, id of the partition, offset, metadata


class Publish(Protocol):
    """Appends one record: `shared.log.publish.publish`, bound to a broker."""

    async def __call__(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes,
        route: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RecordMetadata:
        """Return the record's partition and offset once it is on disk. The partition depends on `route`, else on `key`.

        Raises:
            Unavailable: the log refused the record, or didn't answer in time; then the record may have been stored.
            Rejected: the record is larger than the topic allows.
        """


class Replacement(NamedTuple):
    """The new content of an overwritten record; its offset and time stay."""

    key: bytes | None
    value: bytes | None
    headers: Mapping[str, str] = MappingProxyType({})
