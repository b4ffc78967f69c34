"""aiokafka's consumer, which never starts, jumps or commits on its own."""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from shared.log import LogUnavailable
from shared.log.headers import with_position

log = logging.getLogger(__name__)

_POLL_S = 5.0
_STOP_S = 5.0
_FIRST_SHARE_S = 3.0


class Consumer(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka has no types
    """As `aiokafka.AIOKafkaConsumer`, with three differences, and `committed_metadata`.

    If its group has no committed offset, it commits where it starts (the beginning, or the end for
    `auto_offset_reset="latest"`), so that a crash before the first commit changes nothing. If records were deleted
    before they were read, it stops until a seek. It refuses a commit after its removal from the group: such a commit
    has no member id, so the broker would accept it as that of a tool.

    `patient`: `getmany` waits until there is something instead of returning nothing. FastStream sleeps after every
    empty poll, which would delay the next record. `moves` is the log's number of moves.
    """

    def __init__(
        self, *, auto_offset_reset: str = "none", patient: bool = False, moves: int = 0, **options: Any
    ) -> None:
        if auto_offset_reset not in ("none", "earliest", "latest"):
            raise ValueError(f"auto_offset_reset={auto_offset_reset!r} must be none, earliest or latest")
        if options.pop("enable_auto_commit", False):
            raise ValueError("enable_auto_commit=True would lose records at a crash: commit explicitly")
        in_group = options.get("group_id") is not None
        super().__init__(
            enable_auto_commit=False, auto_offset_reset="none" if in_group else auto_offset_reset, **options
        )
        self._start_at_end = auto_offset_reset == "latest"
        self._patient = patient
        self._moves = moves
        self._wanted: tuple[list[str], ConsumerRebalanceListener | None] | None = None
        self._stuck: set[TopicPartition] = set()  # out of range

    # Life

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: ConsumerRebalanceListener | None = None
    ) -> None:
        """Read these topics; `listener` is told about assigned and revoked partitions."""
        if pattern is not None:
            raise ValueError(f"pattern={pattern!r}: name the topics instead")
        self._wanted = [*topics], listener

    async def start(self) -> None:
        """Start; in a group, return when this member has its first partitions, or soon if the others are still busy.

        Raises:
            LogUnavailable: no broker answers, or a topic doesn't exist.
        """
        try:
            await super().start()
            if self._wanted is not None:
                topics, listener = self._wanted
                for topic in topics:
                    async with asyncio.timeout(_POLL_S):
                        await self._client._wait_on_metadata(topic)  # noqa: SLF001 - as aiokafka's start does
                await self._join(topics, listener)
        except BaseException as error:
            await self.stop()
            if isinstance(error, KafkaError | OSError):
                raise LogUnavailable(f"Kafka can't be read: {error!r}", "log_unavailable") from error
            raise

    async def _join(self, topics: list[str], listener: ConsumerRebalanceListener | None) -> None:
        super().subscribe(topics=topics, listener=listener)
        if self._group_id is None:
            await self._client.force_metadata_update()
            self._coordinator.assign_all_partitions(check_unknown=True)
            # "The end" means the end now, not at the first fetch.
            async with asyncio.timeout(_POLL_S):
                for tp in self.assignment():
                    await self.position(tp)
            return
        coordinator = self._coordinator
        send = coordinator._do_commit_offsets  # noqa: SLF001 - the last step before the request, behind every retry

        async def send_as_member(assignment: Any, offsets: Any) -> None:
            # aiokafka shields this task; its waiter may be cancelled, and then nobody would read its error.
            if (task := asyncio.current_task()) is not None:
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
            if coordinator.generation < 0:
                raise CommitFailedError
            await send(assignment, offsets)

        coordinator._do_commit_offsets = send_as_member  # noqa: SLF001
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SHARE_S):
                await asyncio.shield(self._subscription.wait_for_assignment())
        await self._begin()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, even if others read them, too."""
        super().assign([*partitions])

    async def stop(self) -> None:
        """Stop reading and leave the group, even if no broker answers."""
        if self._closed:
            return
        # aiokafka cancels its tasks and awaits them; a task that hasn't begun yet would cancel us, too.
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(_STOP_S):
                await super().stop()
        except TimeoutError:
            log.warning("left_without_a_word: group %s", self._group_id)
            tasks = [
                task
                for name in ("_coordination_task", "_heartbeat_task", "_commit_refresh_task")
                if (task := getattr(self._coordinator, name, None)) is not None
            ]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._fetcher is not None:
                await self._fetcher.close()
            await self._client.close()

    # Reading

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the records available, by partition; if there are none, wait up to `timeout_ms`.

        Raises:
            OffsetOutOfRangeError: records were deleted before they were read; the partition stops until a seek.
            NoOffsetForPartitionError: a partition that was assigned by hand has no position.
            ConsumerStoppedError: `stop` was called.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            remaining = _POLL_S if self._patient else max(0.0, deadline - time.monotonic())
            try:
                found: dict[TopicPartition, list[ConsumerRecord]] = await super().getmany(
                    *partitions, timeout_ms=round(min(remaining, _POLL_S) * 1000), max_records=max_records
                )
            except NoOffsetForPartitionError:
                if self._wanted is None or self._group_id is None:
                    raise
                await self._begin()
                continue
            except OffsetOutOfRangeError as error:
                raise await self._stand_still(error) from error
            if self._moves:
                found = {tp: [with_position(each, self._moves) for each in some] for tp, some in found.items()}
            if found or (not self._patient and time.monotonic() >= deadline):
                return found

    async def committed_metadata(self, partition: TopicPartition) -> str:
        """Return what was committed beside the group's offset of the partition; empty if nothing was."""
        found = await self._coordinator.fetch_committed_offsets([partition])
        return found[partition].metadata if partition in found else ""

    async def _begin(self) -> None:
        """Commit a start offset for each of our partitions in which the group has none."""
        try:
            for tp in self.assignment():
                if await self.committed(tp) is None:
                    ends = await (self.end_offsets if self._start_at_end else self.beginning_offsets)([tp])
                    await self.commit(ends)
                    super().seek(tp, ends[tp])
        except (CommitFailedError, IllegalStateError) as error:
            # A rebalance is in progress; the partition's next owner does it.
            log.info("start_not_committed: %s: %r", self._group_id, error)
            await asyncio.sleep(0.1)

    async def _stand_still(self, error: OffsetOutOfRangeError) -> OffsetOutOfRangeError:
        ((tp, offset),) = error.args[0].items()
        self._stuck.add(tp)
        self.pause(tp)
        start, end = (await self.beginning_offsets([tp]))[tp], (await self.end_offsets([tp]))[tp]
        return OffsetOutOfRangeError(
            f"offset {offset} of {tp.topic}/{tp.partition} is out of range, the log holds {start} to {end}"
        )

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset`."""
        super().seek(partition, offset)
        if partition in self._stuck:
            self._stuck.discard(partition)
            self.resume(partition)
