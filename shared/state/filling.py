"""How far the stages of a generation are that is being filled, whether it serves already or not."""

from collections.abc import Mapping

import msgspec
from aiokafka import TopicPartition

from shared.log import Log
from shared.topics import EXTRACTED, chunks_topic, readers


class Barrier(msgspec.Struct):
    """What a generation must have read before it may answer: the truth below `ends`, then the chunks made from it."""

    generation: str
    ends: dict[str, int]  # of documents.extracted, by partition
    chunked: dict[TopicPartition, int] | None = None  # ends of its chunk topic; None until all its chunks are published

    async def left(self, log: Log) -> int:
        """Return how many records below the barrier the stages have yet to read. Raises Unavailable."""
        topic = chunks_topic(self.generation)
        _, chunk_group, embed_group = readers(self.generation).values()
        if self.chunked is None:
            marks = {TopicPartition(EXTRACTED, int(number)): end for number, end in self.ends.items()}
            if waiting := await unread(log, chunk_group, EXTRACTED, marks):
                return waiting
            self.chunked = await log.end_offsets(topic)
        return await unread(log, embed_group, topic, self.chunked)


async def unread(log: Log, group: str, topic: str, ends: Mapping[TopicPartition, int] | None = None) -> int:
    """Return how many records below these ends, or the topic's own, the group has yet to read. Raises Unavailable."""
    committed = await log.committed(group, topic)
    ends = await log.end_offsets(topic) if ends is None else ends
    starts = await log.offsets_since(topic, 0) if None in committed.values() else {}
    return sum(
        max(0, end - (starts.get(tp, 0) if (at := committed.get(tp)) is None else at)) for tp, end in ends.items()
    )
