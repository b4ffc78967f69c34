"""Reading along: every partition of a topic, from its end, without a group. Nothing is committed."""

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
    """Call `seen` with every record that comes after `broker.start()`; return what gives the consumer from then on.

    A record it raises Rejected for is logged and passed.
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
