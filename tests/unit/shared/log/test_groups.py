"""How many records a generation's stages have yet to read: those of the truth first, then those made from them."""

from typing import TYPE_CHECKING, cast

from aiokafka import TopicPartition

from shared.log.groups import Barrier
from shared.topics import EXTRACTED, chunks_topic, readers

if TYPE_CHECKING:
    from shared.log import Log

CHUNKS = chunks_topic("g")


class Offsets:
    """A log of which nothing but ends and committed offsets is known; what is older than offset 2 is gone."""

    def __init__(self) -> None:
        self.ends = {EXTRACTED: 10, CHUNKS: 0}
        self.read: dict[str, int | None] = {EXTRACTED: None, CHUNKS: None}

    async def committed(self, group: str, topic: str) -> dict[TopicPartition, int | None]:
        assert group == readers("g")[topic]
        return {TopicPartition(topic, 0): self.read[topic]}

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, 0): self.ends[topic]}

    async def offsets_since(self, topic: str, time: int) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, 0): min(2, self.ends[topic])}


async def test_nothing_is_left_once_the_chunks_of_all_that_was_there_are_embedded() -> None:
    offsets, barrier = Offsets(), Barrier(generation="g", ends={"0": 8})
    log = cast("Log", offsets)
    left = [await barrier.left(log)]
    offsets.read[EXTRACTED], offsets.ends[CHUNKS] = 7, 5
    left.append(await barrier.left(log))
    offsets.read[EXTRACTED] = 8
    left.append(await barrier.left(log))
    offsets.read[CHUNKS], offsets.ends[CHUNKS] = 5, 9  # later ones don't count
    left.append(await barrier.left(log))

    assert left == [6, 1, 3, 0]
