"""Publishes one record, with a deadline and our own errors."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache, partial

from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordTooLargeError
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.structs import RecordMetadata
from faststream.exceptions import IncorrectState
from faststream.kafka import KafkaBroker

from shared.errors import Rejected, Unavailable
from shared.log import Log, Publish
from shared.log.faststream_driver import partitions_of
from shared.log.headers import sealed
from shared.tracing import headers as traced

_partitioner = DefaultPartitioner()


async def publish(
    broker: KafkaBroker,
    topic: str,
    value: bytes | None,
    *,
    key: bytes,
    route: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> RecordMetadata:
    """Return the record's partition and offset once it is on disk. A `value` of None is a tombstone of the key.

    The partition depends on `route`, or on `key` if `route` is None. Records with the same route keep their order.

    Raises:
        Rejected: code `record_too_large`; nothing was stored.
        Unavailable: the log is away or gave no answer in `timeout_s`. The record may or may not be stored: publish
            it again.
    """
    try:
        async with asyncio.timeout(timeout_s):
            partition = None
            if route is not None:
                partition = await partition_for(broker, topic, route)
            sent = sealed(value, traced() | dict(headers or {}))
            return await broker.publish(value, topic, key=key, partition=partition, headers=sent)
    except TimeoutError:
        raise Unavailable(
            f"{topic} gave no answer in {timeout_s:g} s; it is unknown whether the record is stored", "log_timeout"
        ) from None
    except (MessageSizeTooLargeError, RecordTooLargeError) as error:
        raise Rejected(
            f"a record is too large for {topic}: {error.args[0] if error.args else topic}", "record_too_large"
        ) from error
    except Unavailable:
        raise
    except KafkaError as error:
        raise Unavailable(f"{topic} could not take a record: {error}", "log_unavailable") from error
    except IncorrectState as error:
        raise Unavailable(f"{topic} could not take a record: the broker is not started", "log_closed") from error


async def partition_for(broker: KafkaBroker, topic: str, route: bytes) -> int:
    """Return the partition of records with this key or route."""
    return partition_of(route, await partitions_of(broker, topic))


@lru_cache(4096)  # murmur2 in Python is slow, and each record needs it several times
def partition_of(route: bytes, count: int) -> int:
    """Return the partition of records with this key or route, of `count` partitions."""
    numbers = range(count)
    partition: int = _partitioner(route, numbers, numbers)
    return partition


@asynccontextmanager
async def sending(log: Log, name: str) -> AsyncIterator[Publish]:
    """Yield `publish` on a broker of this name, which is stopped in the end."""
    broker = log.broker(name)
    await broker.start()
    try:
        yield partial(publish, broker)
    finally:
        await broker.stop()
