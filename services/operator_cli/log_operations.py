"""The work of `sluice lag`, `groups` and `replay`. They use the log directly, so no server needs to run."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import TypeVar

from aiokafka import TopicPartition

from services.operator_cli.errors import CommandError, Misuse
from services.operator_cli.installation import audited, opened_log, run
from services.operator_cli.terminal import CommandProgress
from shared.errors import Rejected
from shared.log import Log
from shared.log.groups import NewOffset, ResetTo, new_offsets, our_groups
from shared.log.publish import sending
from shared.replay import Replayed, ReplayOrder, replay
from shared.settings import Settings, load_settings
from shared.topics import topic_of

T = TypeVar("T")


def on_log(work: Callable[[Log], Awaitable[T]]) -> T:
    """Return the result of `work` on the log that the settings name.

    Raises:
        CommandError: the log refused the request.
        ConfigurationError: the settings can't work, or there is no log yet. Unavailable: the log is away.
    """

    async def working(settings: Settings, _: CommandProgress) -> T:
        async with opened_log(settings) as log:
            return await work(log)

    try:
        return run(working)
    except Rejected as error:
        raise CommandError(error.sentence) from error


async def planned_reset(log: Log, group: str, to: ResetTo, partitions: Sequence[int]) -> list[NewOffset]:
    """Return the offsets to which the reset would move the group.

    Raises:
        Rejected: the group doesn't belong to the pipeline, or has live members.
    """
    topic = topic_of(group)
    if topic is None:
        known = ", ".join(await our_groups(log)) or "none"
        raise Rejected(f"{group} is not a group of the pipeline; there are {known}", "no_group")
    if members := await log.members(group):
        raise Rejected(
            f"group {group} has {len(members)} members: stop `sluice serve` or the workers first", "group_busy"
        )
    return await new_offsets(log, group, topic, to, frozenset(partitions) or None)


async def reset(log: Log, plan: Sequence[NewOffset]) -> None:
    """Commit the planned offsets. Raises Rejected if the group has members by now."""
    offsets = {TopicPartition(each.topic, each.partition): each.new_offset for each in plan}
    async with audited(log, load_settings(), "groups reset"):
        await log.reset_offsets(plan[0].group, offsets)


async def replay_on(log: Log, order: ReplayOrder, *, dry_run: bool) -> Replayed:
    """Replay the records; return what was sent. Raises as `replay` does."""
    recorded = nullcontext() if dry_run else audited(log, load_settings(), "replay")
    async with sending(log, "replay") as send, recorded:
        return await replay(log, send, order, dry_run=dry_run)


def parsed(parse: Callable[[str], T], text: str, option: str) -> T:
    """Return what `parse` makes of an option's offset or time. Raises Misuse if it refuses the text."""
    try:
        return parse(text)
    except ValueError:
        raise Misuse(f"{option} {text} must be an offset or a time such as 2026-11-20T18:00:00Z") from None
