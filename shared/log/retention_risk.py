"""Detects whether retention may delete records before they are read.

A Kafka cluster deletes records by age, read or not; the SQLite log keeps unread records. If the oldest unread record
is older than half of the retention, new submissions are refused and readiness fails (correctness.md, section 7).
"""

from collections.abc import Callable, Iterable, Mapping

import structlog
from aiokafka import TopicPartition

from shared.errors import Unavailable
from shared.log import Log
from shared.log.groups import unread_spans
from shared.times import now_ms
from shared.topics import DAY

log = structlog.get_logger(__name__)


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
    unread = await unread_spans(log_, group, topic)
    young = await log_.offsets_since(topic, now - retention_ms // 2)
    late = overdue({tp: start for tp, (start, _) in unread.items()}, young)
    if not late:
        return None
    worst = max(late, key=lambda tp: late[tp])
    kept = f"{retention_ms / DAY:g} days" if retention_ms >= DAY else f"{24 * retention_ms / DAY:g} hours"
    return (
        f"{group} has not read {sum(late.values())} of {topic}'s records for longer than half of the "
        f"{kept} that they are kept, most of them in partition {worst.partition}; then they may be lost"
    )


def overdue(unread: Mapping[TopicPartition, int], young: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return how many unread records are before the first young one, for each partition that has any.

    A partition that only one of the answers knows was added between them; the next look sees it.
    """
    return {tp: young[tp] - start for tp, start in unread.items() if start < young.get(tp, 0)}
