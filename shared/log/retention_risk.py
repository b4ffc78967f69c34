"""Detects whether retention may delete records before they are read.

A Kafka cluster deletes records by age, read or not; the SQLite log keeps unread records. If the oldest unread record
is older than half of the retention, new submissions are refused and readiness fails (correctness.md, section 7).
"""

from collections.abc import Callable, Iterable, Mapping

import structlog
from aiokafka import TopicPartition

from shared.errors import Unavailable
from shared.log import Log
from shared.times import now_ms

log = structlog.get_logger(__name__)

_HOUR_MS = 3600 * 1000


class Backlog:
    """Whether any of these readers (topic to group) is late, as last measured; reading it does no I/O."""

    def __init__(self, log: Log, readers: Mapping[str, str], *, now: Callable[[], int] = now_ms) -> None:
        self.trouble: str | None = None  # shown by readiness and in refusals
        self.elsewhere: str | None = None  # the same for generations that don't serve; refuses no submission
        self._log = log
        self._readers = readers
        self._others: tuple[Mapping[str, str], ...] = ()
        self._now = now

    def follow(self, readers: Mapping[str, str], others: Iterable[Mapping[str, str]] = ()) -> None:
        """Watch these readers from now on; `others` are the readers of generations that don't serve."""
        self._readers = readers
        self._others = tuple(others)

    async def measure(self) -> None:
        """Measure now. While the log is away, the last result is kept."""
        before = self.trouble, self.elsewhere
        try:
            self.trouble = await self._late(self._readers)
            self.elsewhere = next(filter(None, [await self._late(each) for each in self._others]), None)
        except Unavailable as error:  # of other generations: perhaps their topic is still being created
            log.warning("backlog_unknown", reason=error.sentence)
        for was, found in zip(before, (self.trouble, self.elsewhere), strict=True):
            if was is None and found is not None:
                log.error("backlog_in_danger", reason=found)

    async def _late(self, readers: Mapping[str, str]) -> str | None:
        troubles = [await endangered(self._log, group, topic, self._now()) for topic, group in readers.items()]
        return next(filter(None, troubles), None)


async def endangered(log_: Log, group: str, topic: str, now: int) -> str | None:
    """Return a sentence if the group's oldest unread record is older than half of the topic's retention, else None.

    `now` is in ms since 1970, roughly by the log's clock. For a group without commits every record is unread.

    Raises:
        Unavailable: the log is away, or there is no such topic.
    """
    retention_ms = await log_.retention_ms(topic)
    if retention_ms is None:
        return None
    committed = await log_.committed(group, topic)
    young = await log_.offsets_since(topic, now - retention_ms // 2)
    if None in committed.values():
        starts = await log_.offsets_since(topic, 0)
        committed = {tp: starts[tp] if offset is None else offset for tp, offset in committed.items()}
    late = overdue(committed, young)
    if not late:
        return None
    worst = max(late, key=lambda tp: late[tp])
    return (
        f"{group} has not read {sum(late.values())} of {topic}'s records for longer than half of the "
        f"{shown(retention_ms)} that they are kept, most of them in partition {worst.partition}; then they may be lost"
    )


def overdue(
    committed: Mapping[TopicPartition, int | None], young: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return how many unread records are before the first young one, for each partition that has any."""
    return {
        tp: young[tp] - offset
        for tp, offset in committed.items()
        if offset is not None and tp in young and offset < young[tp]
    }


def shown(ms: int) -> str:
    """Return a duration in the largest unit that divides it, such as "7 days"."""
    for unit, length in (("days", 24 * _HOUR_MS), ("hours", _HOUR_MS), ("minutes", 60_000), ("s", 1000)):
        if ms >= length and ms % length == 0:
            return f"{ms // length} {unit}"
    return f"{ms} ms"
