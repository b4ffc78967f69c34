"""What only a real broker shows: deaths, pauses, refusals, and records that others wrote."""

import asyncio
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import CommitFailedError
from faststream.kafka import KafkaBroker

from shared.errors import Rejected, Unavailable
from shared.log import Record
from shared.log.consume import Consumption, consume, follow
from shared.log.failure import Failure
from shared.log.kafka import KafkaAddress, KafkaLog, kafka_address
from shared.log.publish import publish
from shared.settings import ConfigurationError
from shared.topics import SUBMITTED, Topic
from tests.contract.kafka_harness import create, empty
from tests.contract.logs import HANG_S, all_of, member, reading, take, until
from tests.selection import CI_ONLY
from tests.servers.cache import run
from tests.servers.choice import own
from tests.servers.kafka import JVM, RECIPE, KafkaServer, missing
from tests.servers.ports import free_port

pytestmark = pytest.mark.server

EVENTS = Topic(name="events", partitions=2)


Join = Callable[..., Coroutine[Any, Any, KafkaLog]]


@pytest.fixture
def join(users: AsyncExitStack) -> Join:
    async def start(address: str, **options: Any) -> KafkaLog:
        log = KafkaLog(KafkaAddress(servers=(address,)), **{"heartbeat_ms": 100, **options})
        await log.start()
        users.push_async_callback(log.stop)
        return log

    return start


@pytest.fixture
async def shared_log(kafka_address: str, join: Join) -> KafkaLog:
    """A log that is empty, on the node that tests share."""
    await empty(kafka_address)
    log = await join(kafka_address)
    await log.ensure_topics([EVENTS])
    return log


async def a_broker(users: AsyncExitStack, log: KafkaLog, name: str = "test") -> KafkaBroker:
    broker = log.broker(name)
    await broker.start()
    users.push_async_callback(broker.stop)
    return broker


class Worker:
    """Consumes, and remembers what."""

    def __init__(self, log: KafkaLog) -> None:
        self.seen: list[bytes] = []
        self.dead: list[Failure] = []
        self.broker = log.broker("worker")
        self.consumption: Consumption = consume(
            self.broker, EVENTS.name, "g", self._handle, on_dead=self._on_dead, stage="test"
        )

    async def _handle(self, record: Record) -> None:
        self.seen.append(record.value)

    async def _on_dead(self, record: Record, failure: Failure) -> None:
        self.dead.append(failure)

    async def start(self, users: AsyncExitStack) -> None:
        users.push_async_callback(self.stop)
        await self.broker.start()

    async def stop(self) -> None:
        await self.consumption.stop()
        await self.broker.stop()


class SlowWorker(Worker):
    """Waits for its model."""

    def __init__(self, log: KafkaLog) -> None:
        self.answer = asyncio.Event()
        super().__init__(log)

    async def _handle(self, record: Record) -> None:
        await super()._handle(record)
        await self.answer.wait()


class Load:
    """Writers that never stop, and send again what was not acknowledged."""

    def __init__(self, broker: KafkaBroker, writers: int = 8) -> None:
        self.acknowledged: list[bytes] = []
        self.unsure: set[bytes] = set()  # an attempt failed, so it may be there more than once
        self._broker = broker
        self._stopping = False
        self._tasks = [asyncio.create_task(self._write(number)) for number in range(writers)]

    async def _write(self, writer: int) -> None:
        number = 0
        while not self._stopping:
            value = b"%d/%d" % (writer, number)
            try:
                await publish(self._broker, EVENTS.name, value, key=b"writer %d" % writer, timeout_s=5)
            except Unavailable:
                self.unsure.add(value)
                await asyncio.sleep(0.05)
            else:
                self.acknowledged.append(value)
                number += 1

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)


async def everything(users: AsyncExitStack, log: KafkaLog) -> list[Record]:
    ends = await log.end_offsets(EVENTS.name)
    consumer = await reading(users, log.consumer(auto_offset_reset="earliest"), ends)
    return await take(consumer, sum(ends.values()))


def assert_each_is_there_and_was_seen(records: list[Record], load: Load, worker: Worker) -> None:
    """Fail unless what was confirmed is on the log, double only where no answer came, and no record was missed."""
    stored = Counter(record.value for record in records)
    assert set(load.acknowledged) <= set(stored)
    assert {value for value, times in stored.items() if times > 1} <= load.unsure
    assert set(worker.seen) == set(stored)
    assert worker.dead == []


async def all_committed(log: KafkaLog) -> bool:
    return await log.committed("g", EVENTS.name) == await log.end_offsets(EVENTS.name)


# Deaths and pauses


@CI_ONLY
async def test_a_broker_killed_under_load_loses_nothing_it_acknowledged(
    kafka: KafkaServer, join: Join, users: AsyncExitStack
) -> None:
    log = await join(kafka.address)
    await log.ensure_topics([EVENTS])
    worker = Worker(log)
    await worker.start(users)
    load = Load(await a_broker(users, log))
    for _ in range(2):
        before = len(load.acknowledged)
        await until(lambda before=before: len(load.acknowledged) > before + 200)  # type: ignore[misc]
        kafka.kill()
        await asyncio.to_thread(kafka.start)
    before = len(load.acknowledged)
    await until(lambda: len(load.acknowledged) > before + 200)
    await load.stop()
    await until(lambda: all_committed(log))

    assert_each_is_there_and_was_seen(await everything(users, log), load, worker)


@CI_ONLY
@pytest.mark.slow
async def test_a_broker_that_hangs_longer_than_a_session_delays_and_that_is_all(
    kafka: KafkaServer, join: Join, users: AsyncExitStack
) -> None:
    log = await join(kafka.address)
    await log.ensure_topics([EVENTS])
    worker = Worker(log)
    await worker.start(users)
    load = Load(await a_broker(users, log))
    await until(lambda: len(worker.seen) > 200)

    kafka.pause()
    await asyncio.sleep(11)
    kafka.resume()
    before = len(worker.seen)
    await until(lambda: len(worker.seen) > before + 200)
    await load.stop()
    await until(lambda: all_committed(log))

    assert_each_is_there_and_was_seen(await everything(users, log), load, worker)


@CI_ONLY
async def test_a_send_to_a_broker_that_hangs_ends_and_the_next_one_works(
    kafka: KafkaServer, join: Join, users: AsyncExitStack
) -> None:
    log = await join(kafka.address, delivery_s=3)
    await log.ensure_topics([EVENTS])
    broker = await a_broker(users, log)
    await publish(broker, EVENTS.name, b"before", key=b"k")

    kafka.pause()
    with pytest.raises(Unavailable, match="unknown whether the record is stored"):
        await publish(broker, EVENTS.name, b"meanwhile", key=b"k")
    kafka.resume()
    await publish(broker, EVENTS.name, b"after", key=b"k")

    values = [record.value for record in await everything(users, log)]
    assert [value for value in values if value != b"meanwhile"] == [b"before", b"after"]
    assert values.count(b"meanwhile") <= 1


@CI_ONLY
async def test_a_log_that_is_away_is_waited_for_and_then_unavailable(
    kafka: KafkaServer, join: Join, users: AsyncExitStack
) -> None:
    log = await join(kafka.address, patience_s=0.2)
    await log.ensure_topics([EVENTS])
    started, fresh = log.broker("started"), log.broker("fresh")
    await started.start()
    users.push_async_callback(started.stop)
    kafka.kill()

    with pytest.raises(Unavailable, match=f"kafka://{kafka.address}"):
        await join(kafka.address, patience_s=0.2)
    with pytest.raises(Unavailable, match="can't be written to"):
        await fresh.start()
    await fresh.stop()
    with pytest.raises(Unavailable):
        await log.committed("g", EVENTS.name)

    waiting = asyncio.create_task(join(kafka.address))
    await asyncio.to_thread(kafka.start)
    patient = await waiting
    assert sum((await patient.end_offsets(EVENTS.name)).values()) == 0
    await publish(started, EVENTS.name, b"", key=b"k")


@CI_ONLY
async def test_a_worker_stops_in_order_where_no_broker_is_left(
    kafka: KafkaServer, join: Join, users: AsyncExitStack
) -> None:
    log = await join(kafka.address)
    await log.ensure_topics([EVENTS])
    worker = Worker(log)
    await worker.start(users)
    await publish(worker.broker, EVENTS.name, b"1", key=b"k")
    await until(lambda: worker.seen == [b"1"])

    kafka.kill()

    async with asyncio.timeout(HANG_S):
        await worker.stop()


# Groups


@CI_ONLY
async def test_a_slow_model_costs_a_member_nothing(
    shared_log: KafkaLog, users: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Far less than the handler takes: only reading on, with the record still under way, keeps the membership.
    monkeypatch.setattr("shared.log.consume._A_DAY_MS", 3000)
    worker = SlowWorker(shared_log)
    await worker.start(users)
    await publish(worker.broker, EVENTS.name, b"1", key=b"k")
    await until(lambda: worker.seen == [b"1"])
    coordinator = worker.consumption.consumer()._coordinator
    before = coordinator.generation

    # What is waited for is that something doesn't happen, for more than twice as long as it would take.
    await asyncio.sleep(7)
    worker.answer.set()
    await until(lambda: all_committed(shared_log))

    assert worker.seen == [b"1"]
    assert coordinator.generation == before > 0


async def test_a_member_s_session_is_ten_seconds_and_its_work_gets_five_to_end(
    shared_log: KafkaLog, users: AsyncExitStack
) -> None:
    worker = Worker(shared_log)
    await worker.start(users)

    assert worker.consumption.consumer()._session_timeout_ms == 10_000
    assert worker.consumption.options.drain_s == 5.0


class Child:
    """A worker process of its own, kafka_worker.py."""

    def __init__(self, folder: Path, address: str, group: str) -> None:
        self._told = folder / "told"
        self._written = folder / "written"
        self.tell("go")
        with self._written.open("w") as written:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.kafka_worker", address, EVENTS.name, group, self._told],
                stdout=written,
            )

    def tell(self, word: Literal["go", "wait"]) -> None:
        # At once: the child must not read half of it.
        part = self._told.with_suffix(".part")
        part.write_text(word, "utf-8")
        part.replace(self._told)

    def said(self, word: str) -> list[Sequence[int]]:
        lines = [line.split() for line in self._written.read_text("utf-8").splitlines()]
        return [tuple(map(int, rest)) for first, *rest in lines if first == word]


@pytest.fixture
def child_of(tmp_path: Path, kafka: KafkaServer) -> Iterator[Callable[[str], Child]]:
    with ExitStack() as children:

        def start(group: str) -> Child:
            child = Child(tmp_path, kafka.address, group)
            children.callback(child.process.wait)
            children.callback(child.process.kill)
            return child

        yield start


@CI_ONLY
@pytest.mark.slow
async def test_a_worker_stopped_beyond_its_session_commits_nothing_when_it_wakes(
    kafka: KafkaServer, join: Join, child_of: Callable[[str], Child], users: AsyncExitStack
) -> None:
    log = await join(kafka.address)
    await log.ensure_topics([EVENTS])
    child = child_of("g")
    broker = await a_broker(users, log)
    await asyncio.gather(*(publish(broker, EVENTS.name, b"", key=b"early %d" % n) for n in range(50)))
    await until(lambda: all_committed(log))
    child.tell("wait")
    await asyncio.gather(*(publish(broker, EVENTS.name, b"", key=b"k%d" % n) for n in range(100)))
    await until(lambda: len(child.said("began")) > 50 + 10)

    child.process.send_signal(signal.SIGSTOP)
    worker = Worker(log)
    await worker.start(users)
    await until(lambda: all_committed(log))
    await worker.consumption.stop()
    ends = await log.end_offsets(EVENTS.name)
    joined = len(child.said("assigned"))

    child.tell("go")
    child.process.send_signal(signal.SIGCONT)
    await until(lambda: len(child.said("ended")) > 50)
    await until(lambda: len(child.said("assigned")) > joined)

    assert len(worker.seen) == 100
    assert child.said("dead") == []
    assert await log.committed("g", EVENTS.name) == ends


async def test_a_member_that_its_group_has_put_out_commits_nothing(shared_log: KafkaLog, users: AsyncExitStack) -> None:
    tp = all_of(EVENTS.name, 2)[0]
    out = await member(users, shared_log, "g", EVENTS.name)
    # As it is between its session's end and its return: out of an empty group, and without a member id, as a tool is.
    out._coordinator._coordination_task.cancel()
    await out._coordinator._maybe_leave_group()

    with pytest.raises(CommitFailedError):
        await out.commit({tp: 1})

    assert (await shared_log.committed("g", EVENTS.name))[tp] == 0


@CI_ONLY
async def test_a_static_member_that_comes_back_in_time_moves_no_partition(
    kafka: KafkaServer, join: Join, users: AsyncExitStack
) -> None:
    await (await join(kafka.address)).ensure_topics([EVENTS])

    async def static(name: str) -> Any:
        log = KafkaLog(KafkaAddress(servers=(kafka.address,), group_instance_id=name), heartbeat_ms=100)
        await log.start()
        users.push_async_callback(log.stop)
        return await member(users, log, "g", EVENTS.name)

    one, two = await static("one"), await static("two")
    await until(lambda: len(one.assignment()) == len(two.assignment()) == 1)
    before, generation = two.assignment(), one._coordinator.generation

    await two.stop()
    again = await static("two")

    assert again.assignment() == before
    assert one._coordinator.generation == again._coordinator.generation == generation


async def test_partitions_that_are_added_are_read_from_their_beginning(
    kafka_address: str, join: Join, shared_log: KafkaLog, users: AsyncExitStack
) -> None:
    log = await join(kafka_address, metadata_age_ms=200)
    worker = Worker(log)
    await worker.start(users)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_address)
    await admin.start()
    users.push_async_callback(admin.close)

    await admin.create_partitions({EVENTS.name: NewPartitions(4)})
    # Before the worker knows of them, and when the node itself does.
    ahead = await join(kafka_address)

    async def four() -> bool:
        return len(await ahead.end_offsets(EVENTS.name)) == 4

    await until(four)
    broker = await a_broker(users, ahead)
    for number in range(4):
        await broker.publish(b"%d" % number, EVENTS.name, key=b"k", partition=number)
    await until(lambda: all_committed(log))

    assert sorted(worker.seen) == [b"0", b"1", b"2", b"3"]


async def test_a_follower_sees_all_that_comes_after_its_start_and_nothing_from_before(
    shared_log: KafkaLog, users: AsyncExitStack
) -> None:
    door = await a_broker(users, shared_log)
    await publish(door, EVENTS.name, b"before", key=b"k")
    seen: list[bytes] = []
    broker = shared_log.broker("follower")
    follow(broker, EVENTS.name, lambda record: seen.append(record.value))
    await broker.start()
    users.push_async_callback(broker.stop)

    await asyncio.gather(*(publish(door, EVENTS.name, b"%d" % n, key=b"k") for n in range(5)))

    await until(lambda: len(seen) >= 5)
    assert seen == [b"0", b"1", b"2", b"3", b"4"]


# Refusals


async def test_a_record_that_only_the_broker_refuses_is_rejected_and_the_next_sends_work(
    kafka_address: str, shared_log: KafkaLog, users: AsyncExitStack
) -> None:
    broker = await a_broker(users, shared_log)
    await publish(broker, EVENTS.name, b"1", key=b"k")
    await _configure(kafka_address, EVENTS.name, {"max.message.bytes": "2000"})

    early = b"e" * 3000

    async def refuses() -> bool:
        try:
            await publish(broker, EVENTS.name, early, key=b"k")
        except Rejected:
            return True
        return False

    # The broker acknowledges a setting before its partitions have it.
    await until(refuses)
    for _ in range(2):
        with pytest.raises(Rejected, match="too large for events") as refused:
            await publish(broker, EVENTS.name, b"x" * 3000, key=b"k")
        assert refused.value.code == "record_too_large"
        sent = await asyncio.gather(*(publish(broker, EVENTS.name, b"2", key=b"k%d" % n) for n in range(20)))
        assert all(one.offset >= 0 for one in sent)

    arrived = Counter(record.value for record in await everything(users, shared_log))
    del arrived[early]
    assert arrived == {b"1": 1, b"2": 40}


@CI_ONLY
async def test_what_we_write_is_numbered_so_that_a_repeat_is_known_and_every_replica_has_it(
    kafka: KafkaServer, join: Join, users: AsyncExitStack
) -> None:
    log = await join(kafka.address)
    await log.ensure_topics([Topic(name="safe", partitions=1)])

    await publish(await a_broker(users, log), "safe", b"", key=b"k")

    # As the broker has it on disk: the producer id is -1 where nothing tells a repeat from a new record. aiokafka
    # gives it only to a producer that waits for every replica.
    producer_id, _, sequence = struct.unpack_from(">qhi", kafka.segment("safe", 0), offset=43)
    assert producer_id >= 0
    assert sequence == 0


async def _configure(address: str, topic: str, settings: dict[str, str]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, settings)])
    await admin.close()


async def test_topics_that_others_made_are_refused_with_all_that_makes_them_unfit(
    kafka_address: str, shared_log: KafkaLog, caplog: pytest.LogCaptureFixture
) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_address)
    await admin.start()
    kept = {"retention.ms": "60000", "message.timestamp.type": "LogAppendTime", "max.message.bytes": "2000000"}
    truth = Topic(name="truth", partitions=1, cleanup="compact", retention_ms=None)
    await create(
        admin,
        NewTopic("truth", 3, 1, topic_configs={"max.message.bytes": "1000"}),
        NewTopic(SUBMITTED, 12, 1, topic_configs=kept),
    )

    with pytest.raises(ConfigurationError) as refused:
        await shared_log.ensure_topics([truth, Topic(name="new")])
    await shared_log.ensure_topics([Topic(name=SUBMITTED)])

    assert (
        "the topic truth has cleanup.policy delete, not compact; message.timestamp.type CreateTime, not LogAppendTime; "
        "max.message.bytes 1000, not 1048576 or more"
    ) in str(refused.value)
    assert "new" not in await admin.list_topics()
    assert f"the topic {SUBMITTED} has retention.ms 60000, not 604800000 or more" in caplog.text
    [seen] = await shared_log.inspect_topics([truth])
    assert (seen.partitions, seen.differences[-1].what) == (3, "partitions")
    await admin.close()


# What others write


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_records_of_every_codec_are_read(
    kafka_address: str, shared_log: KafkaLog, users: AsyncExitStack, codec: str
) -> None:
    text = b"the same again and again " * 100
    async with AIOKafkaProducer(bootstrap_servers=kafka_address, compression_type=codec) as producer:
        await asyncio.gather(*[await producer.send(EVENTS.name, text, key=b"%d" % n) for n in range(10)])
    worker = Worker(shared_log)
    await worker.start(users)
    await until(lambda: all_committed(shared_log))

    assert worker.seen == [text] * 10


async def test_a_log_that_compresses_is_read_as_any_other(
    kafka_address: str, shared_log: KafkaLog, users: AsyncExitStack
) -> None:
    log = KafkaLog(KafkaAddress(servers=(kafka_address,), compression="gzip"))
    await log.start()
    users.push_async_callback(log.stop)

    await publish(await a_broker(users, log), EVENTS.name, b"x" * 100_000, key=b"k")

    assert [record.value for record in await everything(users, shared_log)] == [b"x" * 100_000]


async def test_a_foreign_record_comes_as_it_is_and_bears_the_brokers_time(
    kafka_address: str, shared_log: KafkaLog, users: AsyncExitStack
) -> None:
    year_2099 = 4_070_908_800_000
    async with AIOKafkaProducer(bootstrap_servers=kafka_address) as producer:
        sent = [
            await producer.send_and_wait(EVENTS.name, b"no key, 1970", partition=0, timestamp_ms=1),
            await producer.send_and_wait(EVENTS.name, b"2099", key=b"\xff own", partition=0, timestamp_ms=year_2099),
            await producer.send_and_wait(EVENTS.name, None, key=b"", partition=0, headers=[("n", None)]),
        ]
    ours = await publish(await a_broker(users, shared_log), EVENTS.name, b"ours", key=b"k", route=b"k")

    records = await everything(users, shared_log)
    foreign = [record for record in records if record.value != b"ours"]
    assert [(record.key, record.value, list(record.headers)) for record in foreign] == [
        (None, b"no key, 1970", []),
        (b"\xff own", b"2099", []),
        (b"", None, [("n", None)]),
    ]
    assert [record.timestamp for record in foreign] == [one.timestamp for one in sent]
    assert {record.timestamp_type for record in records} == {1}
    # Within a minute of when the broker took ours, not decades.
    assert all(abs(record.timestamp - ours.timestamp) < 60_000 for record in records)


# Security


@CI_ONLY
async def test_tls_and_a_password_open_it_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    secure = f"127.0.0.1:{free_port()}"
    store, authority = tmp_path / "store.p12", tmp_path / "authority.pem"
    keytool = ("keytool", "-storetype", "PKCS12", "-keystore", store, "-storepass", "only-here", "-alias", "node")
    run([*keytool, "-genkeypair", "-keyalg", "EC", "-dname", "CN=node", "-ext", "SAN=ip:127.0.0.1", "-validity", "2"])
    run([*keytool, "-exportcert", "-rfc", "-file", authority])
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = {
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "listener.name.secure.ssl.keystore.type": "PKCS12",
        "listener.name.secure.ssl.keystore.location": store,
        "listener.name.secure.ssl.keystore.password": "only-here",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{login} user_worker="a secret";',
    }
    url = f"kafka://worker:%s@{secure}?security_protocol=SASL_SSL&sasl_mechanism=PLAIN&ssl_cafile={authority}"
    built = own("Kafka", RECIPE, missing())
    with KafkaServer(built, tmp_path / "kafka", properties, also=[f"SECURE://{secure}"]):
        log = KafkaLog(kafka_address(url % "a%20secret"))
        await log.start()
        await log.ensure_topics([EVENTS])
        broker = log.broker("test")
        await broker.start()
        sent = await publish(broker, EVENTS.name, b"", key=b"k")
        assert (await log.end_offsets(EVENTS.name))[sent.topic_partition] == 1
        await broker.stop()
        await log.stop()

        refused = KafkaLog(kafka_address(url % "another"), patience_s=0)
        with pytest.raises(Unavailable) as told:
            await refused.start()
        assert secure in str(told.value)
        assert "another" not in str(told.value)


@CI_ONLY
@pytest.mark.slow
async def test_a_password_opens_it_without_tls_too_by_whichever_mechanism(tmp_path: Path) -> None:
    listener = f"127.0.0.1:{free_port()}"
    login = "org.apache.kafka.common.security"
    properties = {
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": f'{login}.plain.PlainLoginModule required user_worker="secret";',
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
    }
    with KafkaServer(
        own("Kafka", RECIPE, missing()), tmp_path / "kafka", properties, also=[f"LOGIN://{listener}"]
    ) as node:
        run(
            [
                *("java", *JVM, "-cp", node.classpath, "kafka.admin.ConfigCommand", "--bootstrap-server", node.address),
                *("--alter", "--entity-type", "users", "--entity-name", "worker", "--add-config"),
                "SCRAM-SHA-512=[password=secret]",
            ]
        )
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            log = KafkaLog(kafka_address(f"kafka://worker:secret@{listener}?sasl_mechanism={mechanism}"))
            await log.start()
            await log.ensure_topics([EVENTS])
            assert len(await log.end_offsets(EVENTS.name)) == 2
            await log.stop()

            refused = KafkaLog(
                kafka_address(f"kafka://worker:guess@{listener}?sasl_mechanism={mechanism}"), patience_s=0
            )
            with pytest.raises(Unavailable, match=listener):
                await refused.start()


async def test_a_topic_without_records_and_one_that_is_not_there(shared_log: KafkaLog) -> None:
    assert await shared_log.committed("nobody", EVENTS.name) == dict.fromkeys(all_of(EVENTS.name, 2))
    assert await shared_log.end_offsets(EVENTS.name) == dict.fromkeys(all_of(EVENTS.name, 2), 0)
    with pytest.raises(Unavailable, match="no topic nowhere"):
        await shared_log.end_offsets("nowhere")
