"""The log on a Kafka cluster: FastStream's KafkaBroker on aiokafka's clients.

A send is answered when every in-sync replica has the record. Consumers never start, jump or commit on their own
(docs/adr/0004-kafka.md).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import (
    CommitFailedError,
    GroupIdNotFound,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, DescribeGroupsRequest_v2
from faststream.kafka import KafkaBroker

from shared.errors import Rejected
from shared.log import GroupMember, LogUnavailable
from shared.log.faststream_driver import Driver, DriverBroker
from shared.log.kafka.address import KafkaAddress, kafka_address
from shared.log.kafka.consumer import Consumer
from shared.log.kafka.producer import Producer
from shared.log.kafka.topics import MAX_BYTES, ExistingTopic, configs, inspection, least_lag_ms, retention_ms
from shared.settings import ConfigurationError
from shared.times import PATIENCE, now_ms
from shared.topics import Topic, TopicInspection, moves_of

__all__ = ["KafkaAddress", "KafkaLog", "kafka_address"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_REQUEST_MS = 30_000
_BATCH_BYTES = 256 * 1024


@dataclass
class KafkaLog:
    """`shared.log.Log` on Kafka, where its methods are described.

    `patience_s` is how long `start` and other requests wait for a broker, `delivery_s` how long a send may take. A
    group's members learn within `heartbeat_ms` that another one joined or left, and all clients learn within
    `metadata_age_ms` of added partitions. What asks the cluster raises LogUnavailable if no broker answers, if it
    refuses, or if there is no such topic.
    """

    address: KafkaAddress
    _: KW_ONLY
    patience_s: float = 30.0
    delivery_s: float = 20.0
    heartbeat_ms: int = 1000
    metadata_age_ms: int = 60_000

    def __post_init__(self) -> None:
        self._connection: dict[str, Any] = {}
        self._admin: AIOKafkaAdminClient | None = None
        self._reader: AIOKafkaConsumer | None = None  # of offsets only
        self._limits: dict[str, int] = {}
        self.moves = 0  # from log to log, which have brought the records here

    async def start(self) -> None:
        """Connect to the cluster.

        Raises:
            ConfigurationError: a certificate or a key can't be read.
            LogUnavailable: no broker answered in `patience_s`.
        """
        self._connection = {
            **self.address.connection(),
            "request_timeout_ms": _REQUEST_MS,
            "metadata_max_age_ms": self.metadata_age_ms,
        }
        admin = AIOKafkaAdminClient(client_id="sluice-admin", **self._connection)
        reader = AIOKafkaConsumer(client_id="sluice-offsets", enable_auto_commit=False, **self._connection)
        try:
            await self._persist(admin.start)
            await self._persist(reader.start)
            self.moves = moves_of(await self._persist(admin.list_topics))
        except BaseException:
            await reader.stop()
            await admin.close()
            raise
        self._admin, self._reader = admin, reader

    async def stop(self) -> None:
        if self._reader is not None and self._admin is not None:
            await self._reader.stop()
            await self._admin.close()
        self._admin = self._reader = None

    def broker(self, client_id: str) -> KafkaBroker:
        return DriverBroker(Driver(partial(self.producer, client_id), partial(self.consumer, patient=True)), client_id)

    def consumer(self, *, group_id: str | None = None, **options: Any) -> Consumer:
        """Return an unstarted consumer with aiokafka's methods; `auto_offset_reset` is "none" unless given."""
        static = self.address.group_instance_id if group_id is not None else None
        return Consumer(
            **{
                **options,
                **self._connection,
                "group_id": group_id,
                "group_instance_id": static,
                "heartbeat_interval_ms": self.heartbeat_ms,
                "moves": self.moves,
            }
        )

    def producer(self, client_id: str) -> Producer:
        """Return an unstarted producer with aiokafka's methods."""
        return Producer(
            lambda: AIOKafkaProducer(
                client_id=client_id,
                acks="all",
                enable_idempotence=True,
                compression_type=self.address.compression,
                max_batch_size=_BATCH_BYTES,
                max_request_size=2**31 - 1,  # each topic has its own limit, which we check
                **self._connection,
            ),
            self._limit,
            self.delivery_s,
        )

    # Topics

    async def ensure_topics(self, topics: Iterable[Topic]) -> None:
        """Create missing topics. An operator's other settings stay; those that may lose records are logged.

        Raises:
            ConfigurationError: existing topics are unfit; the sentence says how each differs. No topic was created.
        """
        wanted = {topic.name: topic for topic in topics}
        inspections = await self.inspect_topics(wanted.values())
        _refuse_unfit(inspections)
        for risk in (risk for each in inspections for risk in each.sentences("risk")):
            log.warning("topic_differs: %s", risk)
        if missing := [wanted[each.topic] for each in inspections if each.partitions is None]:
            await self._create(missing)
            # Another process may have created it first, with other settings.
            _refuse_unfit(self._inspections(wanted.values(), await self._all_found(wanted)))

    async def drop_topic(self, topic: str) -> None:
        answer = await self._ask(lambda admin: admin.delete_topics([topic], timeout_ms=_REQUEST_MS))
        for name, code in answer.topic_error_codes:
            if code not in (0, UnknownTopicOrPartitionError.errno):
                raise LogUnavailable(f"Kafka didn't delete the topic {name}: {for_code(code).__name__}")

    async def inspect_topics(self, topics: Iterable[Topic]) -> tuple[TopicInspection, ...]:
        wanted = tuple(topics)
        return self._inspections(wanted, await self._found([topic.name for topic in wanted]))

    def _inspections(self, wanted: Iterable[Topic], found: Mapping[str, ExistingTopic]) -> tuple[TopicInspection, ...]:
        servers = ",".join(self.address.servers)
        return tuple(
            inspection(topic, found[topic.name], servers) if topic.name in found else TopicInspection(topic=topic.name)
            for topic in wanted
        )

    async def retention_ms(self, topic: str) -> int | None:
        return retention_ms((await self._settings([topic]))[topic])

    async def _create(self, topics: Iterable[Topic]) -> None:
        new = [_new(topic) for topic in topics]
        answer = await self._ask(lambda admin: admin.create_topics(new, timeout_ms=_REQUEST_MS))
        for name, code, message in answer.topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                raise LogUnavailable(f"Kafka didn't create the topic {name}: {message or for_code(code).__name__}")

    async def _all_found(self, wanted: Collection[str]) -> dict[str, ExistingTopic]:
        """Return the topics once every broker asked knows them; brokers learn of them after the controller."""

        async def all_there(_: AIOKafkaAdminClient) -> dict[str, ExistingTopic]:
            found = await self._found(wanted)
            if missing := set(wanted) - set(found):
                raise UnknownTopicOrPartitionError(f"no topic {min(missing)} yet")
            return found

        return await self._ask(all_there)

    async def _found(self, names: Collection[str]) -> dict[str, ExistingTopic]:
        described = await self._ask(lambda admin: admin.describe_topics([*names]))
        there = {
            topic["topic"]: topic["partitions"]
            for topic in described
            if topic["error_code"] == 0 and all(partition["leader"] >= 0 for partition in topic["partitions"])
        }
        settings = await self._settings(there)
        return {
            name: ExistingTopic(
                partitions=len(partitions),
                copies=min(len(partition["replicas"]) for partition in partitions),
                configs=settings[name],
            )
            for name, partitions in there.items()
        }

    async def _settings(self, names: Iterable[str], patience_s: float | None = None) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        settings = {}
        for answer in await self._ask(lambda admin: admin.describe_configs(resources), patience_s):
            for code, message, _, name, entries in answer.resources:
                if code:
                    raise LogUnavailable(f"Kafka doesn't describe {name}: {message or for_code(code).__name__}")
                settings[name] = {entry[0]: entry[1] for entry in entries}
        return settings

    async def _limit(self, topic: str, size: int) -> int | None:
        """Return the largest size of the topic's records in bytes; None if unknown: then the broker decides.

        For a larger record the limit is read again, because an operator may have raised it.
        """
        if size > self._limits.get(topic, 0):
            try:
                self._limits[topic] = int((await self._settings([topic], patience_s=0))[topic][MAX_BYTES])
            except LogUnavailable:
                return None
        return self._limits[topic]

    # Offsets

    async def committed(self, group_id: str, topic: str) -> dict[TopicPartition, int | None]:
        tps = await self._partitions(topic)
        found = await self._ask(lambda admin: admin.list_consumer_group_offsets(group_id, partitions=tps))
        return {tp: found[tp].offset if tp in found and found[tp].offset >= 0 else None for tp in tps}

    async def groups(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, _ in await self._ask(lambda admin: admin.list_consumer_groups())))

    async def members(self, group_id: str) -> tuple[GroupMember, ...]:
        return await self._ask(lambda admin: _described(admin, group_id))

    async def reset_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        await self._check_idle(group_id)
        tool = self.consumer(group_id=group_id)
        tool.assign([*offsets])
        try:
            await tool.start()
            await tool.commit({**offsets})
        except CommitFailedError as error:  # somebody joined meanwhile
            raise Rejected(f"group {group_id} has members; stop them first", "group_busy") from error
        except KafkaError as error:
            raise LogUnavailable(f"the offsets of {group_id} can't be stored: {error!r}", "log_unavailable") from error
        finally:
            await tool.stop()

    async def drop_group(self, group_id: str) -> None:
        await self._check_idle(group_id)
        await self._ask(lambda admin: _deleted(admin, group_id))

    async def _check_idle(self, group_id: str) -> None:
        if found := await self.members(group_id):
            raise Rejected(f"group {group_id} has {len(found)} members; stop them first", "group_busy")

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        tps = await self._partitions(topic)
        reader = self._started(self._reader)
        ends: dict[TopicPartition, int] = await self._persist(lambda: reader.end_offsets(tps))
        return ends

    async def offsets_since(self, topic: str, time: int) -> dict[TopicPartition, int]:
        ends = await self.end_offsets(topic)
        reader = self._started(self._reader)
        found = await self._persist(lambda: reader.offsets_for_times(dict.fromkeys(ends, time)))
        return {tp: end if found[tp] is None else found[tp].offset for tp, end in ends.items()}

    async def replaced_below(self, topic: str) -> dict[TopicPartition, int]:
        lag = least_lag_ms((await self._settings([topic]))[topic])
        return await self.offsets_since(topic, now_ms() - lag)

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        for described in await self._ask(lambda admin: admin.describe_topics([topic])):
            if described["error_code"] == 0:
                return [TopicPartition(topic, number) for number in range(len(described["partitions"]))]
        raise LogUnavailable(f"Kafka has no topic {topic}")

    # Asking

    async def _ask(self, question: Callable[[AIOKafkaAdminClient], Awaitable[T]], patience_s: float | None = None) -> T:
        admin = self._started(self._admin)
        return await self._persist(lambda: question(admin), patience_s)

    async def _persist(self, attempt: Callable[[], Awaitable[T]], patience_s: float | None = None) -> T:
        """Return the answer; retry for `patience_s` while that may help.

        Raises:
            LogUnavailable: every try failed.
        """
        patience_s = min(self.patience_s if patience_s is None else patience_s, PATIENCE.get())
        deadline = asyncio.get_running_loop().time() + patience_s
        while True:
            try:
                async with asyncio.timeout_at(max(deadline, asyncio.get_running_loop().time() + 1)):
                    return await attempt()
            except (KafkaError, OSError) as error:  # TimeoutError is an OSError
                retriable = isinstance(error, OSError) or error.retriable
                if not retriable or asyncio.get_running_loop().time() >= deadline:
                    raise LogUnavailable(
                        f"{self.address!r} doesn't answer: {str(error) or 'it hangs'}", "log_unavailable"
                    ) from error
            await asyncio.sleep(0.2)

    @staticmethod
    def _started(client: T | None) -> T:
        if client is None:
            raise LogUnavailable("the log is not started", "log_closed")
        return client


def _new(topic: Topic) -> NewTopic:
    if topic.replication is None:
        # aiokafka accepts the cluster's default only together with an (empty) plan of the replicas.
        return NewTopic(topic.name, topic.partitions, -1, {}, configs(topic))
    return NewTopic(topic.name, topic.partitions, topic.replication, None, configs(topic))


def _refuse_unfit(inspections: Iterable[TopicInspection]) -> None:
    if unfit := [sentence for each in inspections for sentence in each.sentences("unfit")]:
        raise ConfigurationError(f"{'; '.join(unfit)}: `sluice init` says how to fix it")


class _DescribeGroups(DescribeGroupsRequest):  # type: ignore[misc]  # aiokafka has no types
    """Asks with version 2 of the request: aiokafka would ask with version 3, and misread the reply as version 2."""

    def prepare(self, versions: object) -> DescribeGroupsRequest_v2:  # noqa: ARG002 - aiokafka's signature
        """Return the request to send."""
        return DescribeGroupsRequest_v2(self._groups)


async def _described(admin: AIOKafkaAdminClient, group_id: str) -> tuple[GroupMember, ...]:
    """Return the group's members, sorted by id; none during a rebalance. Raises KafkaError."""
    coordinator = await admin.find_coordinator(group_id)
    reply = await admin._send_request(_DescribeGroups([group_id]), coordinator)  # noqa: SLF001 - the admin's own way
    return tuple(sorted(_members(reply)))


async def _deleted(admin: AIOKafkaAdminClient, group_id: str) -> None:
    """Delete the group, if there is one. Raises KafkaError, NonEmptyGroup while it has members."""
    coordinator = await admin.find_coordinator(group_id)
    reply = await admin._send_request(DeleteGroupsRequest([group_id]), coordinator)  # noqa: SLF001 - the admin's own way
    for _, error in reply.results:
        if error not in (0, GroupIdNotFound.errno):
            raise for_code(error)


def _members(reply: object) -> Iterator[GroupMember]:
    for error, _name, _state, _kind, _protocol, found, *_more in reply.groups:  # type: ignore[attr-defined]  # aiokafka has no types
        if error:
            raise for_code(error)
        for id_, client_id, host, _metadata, assignment, *_ in found:
            partitions = ConsumerProtocolMemberAssignment.decode(assignment).partitions() if assignment else ()
            yield GroupMember(id_, client_id, host, frozenset(partitions))
