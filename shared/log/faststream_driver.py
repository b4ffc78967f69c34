"""The one place that knows the internals of FastStream 0.7.8; test_faststream_driver.py fails when they change."""

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from faststream import AckPolicy
from faststream.kafka import KafkaBroker
from faststream.kafka.helpers.admin import AdminService

_logger = logging.getLogger("sluice.log.broker")


@dataclass
class Driver:
    """The clients that a broker uses instead of aiokafka's, with aiokafka's methods."""

    producer: Callable[[], Any]  # makes an unstarted one
    consumer: Callable[..., Any]  # likewise


class _Admin(AdminService):
    """Creates no topics: `Log.ensure_topics` does. It never connects."""

    async def create_topics(self, topics: list[Any]) -> list[Any]:
        del topics
        return []


class DriverBroker(KafkaBroker):
    """FastStream's KafkaBroker on a driver of ours; everything above the driver is FastStream's own code."""

    def __init__(self, driver: Driver, client_id: str) -> None:
        super().__init__(
            client_id=client_id,
            acks="all",
            enable_idempotence=True,
            allow_auto_create_topics=True,  # `_Admin` makes none; False warns at every start that there are none
            ack_policy=AckPolicy.MANUAL,
            # Handlers take raw records, so nothing needs to be injected or validated.
            apply_types=False,
            logger=_logger,
            log_level=logging.DEBUG,
            id_generator=map(str, itertools.count()).__next__,  # nobody reads it; a UUID costs a system call a record
        )
        self._driver = driver

    def consumer(self, **options: Any) -> Any:
        """Return an unstarted consumer of the same log, as `Log.consumer` does."""
        return self._driver.consumer(**options, patient=False)

    async def _connect(self) -> Callable[..., Any]:
        config = self.config.broker_config
        await config.producer.connect(
            self._driver.producer(),
            serializer=config.fd_config._serializer,  # noqa: SLF001 - as FastStream's own connect does
            codec=config.broker_codec,
        )
        config.admin = _Admin()
        config.builder = self._driver.consumer
        return config.builder


async def partitions_of(broker: KafkaBroker, topic: str) -> int:
    """Return how many partitions the topic has, as the broker's producer knows it."""
    producer = broker.config.broker_config.producer._producer.producer  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
    return len(await producer.partitions_for(topic))
