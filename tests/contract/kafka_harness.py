"""A Kafka node as the contract suites use it: emptied first, and with an operator's tools."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.admin import DeleteGroupsRequest

from shared.log.kafka import KafkaAddress, KafkaLog

HANG_S = 60


@asynccontextmanager
async def _admin(address: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def empty(address: str) -> None:
    """Delete all topics and groups: a test finds the node as if it were new."""
    async with _admin(address) as admin, asyncio.timeout(HANG_S):
        while topics := [name for name in await admin.list_topics() if not name.startswith("__")]:
            await admin.delete_topics(topics)
        while groups := [name for name, _ in await admin.list_consumer_groups()]:
            # One whose members have just gone may still be closing.
            for group in groups:
                await admin._send_request(DeleteGroupsRequest([group]), await admin.find_coordinator(group))


async def create(admin: AIOKafkaAdminClient, *topics: NewTopic) -> None:
    """Make topics as others would; return when the node speaks of them, which is after it says that they are made."""
    await admin.create_topics([*topics])
    async with asyncio.timeout(HANG_S):
        while not {topic.name for topic in topics} <= {*await admin.list_topics()}:  # noqa: ASYNC110 - it tells nobody when
            await asyncio.sleep(0.01)


class KafkaHarness:
    def __init__(self, address: str) -> None:
        self._address = address
        self._joined: list[KafkaLog] = []

    async def join(self) -> KafkaLog:
        if not self._joined:
            await empty(self._address)
        log = KafkaLog(KafkaAddress(servers=(self._address,)), heartbeat_ms=100)
        await log.start()
        self._joined.append(log)
        return log

    async def compact(self, topic: str) -> int:
        log = self._joined[0]
        eager = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "cleanup.policy": "compact"}
        eager["message.timestamp.type"] = "LogAppendTime"
        async with _admin(self._address) as admin:
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, eager)])
        broker = log.broker("filler")
        await broker.start()
        ends = await log.end_offsets(topic)
        filled = 0
        async with asyncio.timeout(HANG_S):
            # The broker acknowledges the settings before its partitions have them, and a record closes a segment only
            # by the settings of that moment: there is always a next one.
            while not filled or max(Counter(await self._keys(log, topic)).values()) > 1:
                await asyncio.sleep(0.2)  # the segment's age
                for number in range(len(ends)):
                    await broker.publish(b"", topic, key=b"filler %d" % filled, partition=number)
                    filled += 1
        await broker.stop()
        return filled

    async def _keys(self, log: KafkaLog, topic: str) -> list[bytes | None]:
        consumer = log.consumer(auto_offset_reset="earliest")
        ends = await log.end_offsets(topic)
        consumer.assign([*ends])
        await consumer.start()
        try:
            keys: list[bytes | None] = []
            while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    keys += [record.key for record in records]
            return keys
        finally:
            await consumer.stop()

    async def forget(self, topic: str) -> None:
        ends = await self._joined[0].end_offsets(topic)
        async with _admin(self._address) as admin:
            await admin.delete_records({tp: RecordsToDelete(end) for tp, end in ends.items() if end})

    async def close(self) -> None:
        for log in reversed(self._joined):
            await log.stop()
