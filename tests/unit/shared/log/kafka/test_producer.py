from typing import Any

import pytest

from shared.errors import Unavailable
from shared.log.kafka.producer import Producer


class HangingClient:
    """aiokafka's producer, as it ends a start that nobody answered."""

    async def start(self) -> None:
        raise TimeoutError

    async def stop(self) -> None:
        """Do nothing: it hasn't started."""


async def test_a_broker_that_hangs_at_the_start_is_said_to() -> None:
    async def limit(_topic: str, _size: int) -> None:
        return None

    made: Any = HangingClient
    with pytest.raises(Unavailable, match=r"Kafka can't be written to: no broker answered in 10 s"):
        await Producer(made, limit, 1.0).start()
