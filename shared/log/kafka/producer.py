"""aiokafka's producer, replaced when it can't continue.

After a batch is refused for good, its idempotent producer has a gap in the partition's sequence and can't write there
any more. A send to a dead broker never ends by itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, ProducerClosed
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import RecordMetadata

from shared.log import LogUnavailable

log = logging.getLogger(__name__)

Headers = Iterable[tuple[str, bytes | None]]

_START_S = 10.0
_FLUSH_S = 5.0


class Producer:
    """Appends records, with aiokafka's methods and errors.

    `limit` returns the largest record of a topic in bytes, None if unknown; it gets the topic and the size of a record.
    `delivery_s` is how long a send may take.
    """

    def __init__(
        self,
        make: Callable[[], AIOKafkaProducer],
        limit: Callable[[str, int], Awaitable[int | None]],
        delivery_s: float,
    ) -> None:
        self._make = make
        self._limit = limit
        self._delivery_s = delivery_s
        self._current: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False  # FastStream reads it

    async def start(self) -> None:
        """Connect.

        Raises:
            LogUnavailable: no broker answers.
        """
        self._closed = False
        await self._ready()

    async def stop(self) -> None:
        """Accept no more records, and send the pending ones, for some seconds at most."""
        self._closed = True
        self._replace(self._current, flush_s=_FLUSH_S)
        await asyncio.gather(*self._ending)

    async def flush(self) -> None:
        """Return when all records sent before are answered."""
        if self._current is not None:
            await self._current.flush()

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the topic's partitions."""
        known: set[int] = await (await self._ready()).partitions_for(topic)
        return known

    async def send(  # noqa: PLR0917 - aiokafka's signature
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> "asyncio.Future[RecordMetadata]":
        """Return a future that is done when every in-sync replica has the record.

        Raises:
            MessageSizeTooLargeError: the encoded record exceeds the topic's limit.
            LogUnavailable: no broker answers.
        """
        pairs = list(headers or ())
        size = DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, pairs)
        limit = await self._limit(topic, size)
        if limit is not None and size > limit:
            raise MessageSizeTooLargeError(f"a record of {size} bytes for {topic} exceeds its limit of {limit}")
        producer = await self._ready()
        accepted = await producer.send(topic, value, key, partition, timestamp_ms, pairs)
        return asyncio.create_task(self._delivered(producer, accepted, topic))

    async def _delivered(
        self, producer: AIOKafkaProducer, accepted: asyncio.Future[RecordMetadata], topic: str
    ) -> RecordMetadata:
        try:
            async with asyncio.timeout(self._delivery_s):
                metadata = await accepted
        except TimeoutError:
            # aiokafka would retry it for ever. The other records of its batch fail now, too; our callers send them
            # again.
            self._replace(producer, flush_s=0)
            raise LogUnavailable(
                f"{topic} gave no answer in {self._delivery_s:g} s; it is unknown whether the record is stored",
                "log_timeout",
            ) from None
        except KafkaError:
            self._replace(producer, flush_s=_FLUSH_S)
            raise
        if metadata.offset < 0:
            # The broker has it from an earlier attempt, but doesn't say at which offset.
            raise LogUnavailable(f"{topic} has stored a record, but doesn't say where", "log_unavailable")
        return metadata

    async def _ready(self) -> AIOKafkaProducer:
        async with self._starting:
            if self._closed:
                raise ProducerClosed
            if self._current is None:
                producer = self._make()
                try:
                    async with asyncio.timeout(_START_S):
                        await producer.start()
                except BaseException as error:
                    await producer.stop()
                    if isinstance(error, KafkaError | OSError):
                        why = str(error) or f"no broker answered in {_START_S:g} s"  # a TimeoutError says nothing
                        raise LogUnavailable(f"Kafka can't be written to: {why}", "log_unavailable") from error
                    raise
                self._current = producer
            return self._current

    def _replace(self, producer: AIOKafkaProducer | None, flush_s: float) -> None:
        if producer is None or producer is not self._current:
            return
        self._current = None
        task = asyncio.create_task(_end(producer, flush_s), name="log-producer-end")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _end(producer: AIOKafkaProducer, flush_s: float) -> None:
    with suppress(TimeoutError, KafkaError):
        async with asyncio.timeout(flush_s):
            await producer.flush()
    # aiokafka's own `stop` waits for records that can't be sent. These are its parts, in an order that doesn't wait:
    gone = LogUnavailable("Kafka didn't answer; it is unknown whether the record is stored", "log_timeout")
    producer._message_accumulator.fail_all(gone)  # noqa: SLF001 - no public way
    for part in (producer.client.close, producer._sender.close, producer.stop):  # noqa: SLF001
        try:
            await part()
        except Exception:
            # Private parts of aiokafka may raise anything; the next one must be closed all the same.
            log.exception("producer_end_failed")
