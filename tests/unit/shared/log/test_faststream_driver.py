"""Says loudly when FastStream's insides, which `shared.log.faststream_driver` relies on, have changed."""

import inspect
from importlib.metadata import version
from pathlib import Path

from faststream.kafka import KafkaBroker
from faststream.kafka.configs import KafkaBrokerConfig
from faststream.kafka.publisher.producer import AioKafkaFastProducerImpl

from shared.log.faststream_driver import DriverBroker, partitions_of
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.log.sqlite.consumer import Consumer
from shared.log.sqlite.producer import Producer
from shared.topics import Topic


def test_the_version_is_the_one_that_was_read() -> None:
    assert version("faststream") == "0.7.8"


def test_the_broker_still_connects_through_builder_producer_and_admin() -> None:
    assert {"builder", "producer", "admin"} <= set(KafkaBrokerConfig.__dataclass_fields__)
    assert list(inspect.signature(KafkaBroker._connect).parameters) == ["self"]
    assert list(inspect.signature(AioKafkaFastProducerImpl.connect).parameters) == [
        "self",
        "producer",
        "serializer",
        "codec",
    ]
    connect = inspect.getsource(KafkaBrokerConfig.connect)
    for expected in ("self.producer.connect(", "self.admin.connect(", "self.builder = "):
        assert expected in connect


async def test_faststream_runs_on_our_clients_and_on_no_other(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    await log.ensure_topics([Topic(name="events", partitions=3)])
    broker = log.broker("test")
    subscriber = broker.subscriber("events", group_id="g", auto_offset_reset="none")

    @subscriber
    async def handle(body: bytes) -> None: ...

    await broker.start()

    assert isinstance(broker, DriverBroker)
    assert isinstance(subscriber.consumer, Consumer)
    assert isinstance(broker.config.broker_config.producer._producer.producer, Producer)  # type: ignore[attr-defined]
    assert await partitions_of(broker, "events") == 3
    assert (await publish(broker, "events", None, key=b"k")).offset == 0

    await broker.stop()
    await log.stop()
