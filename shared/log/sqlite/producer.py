"""aiokafka's producer interface on the file."""

import asyncio
from collections.abc import Iterable

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import MessageSizeTooLargeError, ProducerClosed
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.structs import RecordMetadata

from shared.log.sqlite.storage import Storage, Transaction

Headers = Iterable[tuple[str, bytes | None]]

_LOG_APPEND_TIME = 1  # Kafka's number for "the log stamped it"
_partitioner = DefaultPartitioner()


class Producer:
    """Appends records, with the part of aiokafka's producer that the pipeline uses."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._closed = False  # FastStream reads it

    async def start(self) -> None:
        """Start; the log itself is started by its owner."""
        self._closed = False

    async def stop(self) -> None:
        """Accept no more records; those already sent are still written."""
        self._closed = True

    async def flush(self) -> None:
        """Return when all records sent before are on disk."""
        await self._storage.submit(lambda _: None)

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the topic's partitions."""
        return set(range(len((await self._storage.topic(topic)).ids)))

    async def send(  # noqa: PLR0917 - aiokafka's signature
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Return a future that is done when the record is on disk. `timestamp_ms` is ignored: the log stamps the time.

        Raises:
            MessageSizeTooLargeError: key, value and headers together exceed the topic's limit.
            UnknownTopicOrPartitionError: there is no such topic.
        """
        del timestamp_ms
        if self._closed:
            raise ProducerClosed
        known = await self._storage.topic(topic)
        pairs = list(headers or ())
        size = len(key or b"") + len(value or b"") + sum(len(name) + len(text or b"") for name, text in pairs)
        if size > known.spec.max_record_bytes:
            raise MessageSizeTooLargeError(
                f"a record of {size} bytes for {topic} exceeds its limit of {known.spec.max_record_bytes}"
            )

        def append(transaction: Transaction) -> RecordMetadata:
            # On the writer's thread, because hashing and packing in Python would block the event loop.
            numbers = range(len(known.ids))
            number = _partitioner(key, numbers, numbers) if partition is None else partition
            offset, time = transaction.append(known.ids[number], key, msgspec.msgpack.encode(pairs), value)
            return RecordMetadata(topic, number, TopicPartition(topic, number), offset, time, _LOG_APPEND_TIME, None)

        return self._storage.submit(append, size)
