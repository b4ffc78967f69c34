"""Follows a topic: reads all partitions from their end, without a group or commits."""

from collections.abc import Callable
from typing import Any

import structlog
from faststream import AckPolicy
from faststream.kafka import KafkaBroker

from shared.errors import Rejected
from shared.log import Record
from shared.log.consume import raw_records, readable_headers

log = structlog.get_logger(__name__)


def follow(broker: KafkaBroker, topic: str, seen: Callable[[Record], None]) -> Callable[[], Any]:
    """Call `seen` with every record written after `broker.start()`; return a getter of the consumer.

    If `seen` raises Rejected, the record is logged and skipped.
    """
    subscriber = broker.subscriber(
        topic,
        batch=True,
        max_records=500,
        batch_timeout_ms=50,
        ack_policy=AckPolicy.MANUAL,
        auto_offset_reset="latest",
        parser=readable_headers,
        decoder=raw_records,
        no_reply=True,
    )

    @subscriber
    async def batch(records: list[Record]) -> None:
        for record in records:
            try:
                seen(record)
            except Rejected as error:
                log.warning("record_passed", topic=topic, offset=record.offset, reason=error.sentence)

    return lambda: subscriber.consumer
