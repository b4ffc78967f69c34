"""The installation of the settings, for commands that work on it instead of through the API.

They open its log and its store, and leave an entry in the audit trail.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any, Final, Literal, TypeVar

from aiokafka import TopicPartition

from services.operator_cli.errors import Misuse, remark
from services.operator_cli.terminal import CommandProgress, progress
from shared.contracts import AuditEntry, AuditResult
from shared.errors import PipelineError, Rejected, Unavailable
from shared.log import Log
from shared.log.audit_trail import AuditTrail
from shared.log.groups import NewOffset, ResetTo, new_offsets, our_groups
from shared.log.open import open_log
from shared.log.publish import sending
from shared.replay import Replayed, ReplayOrder, replay
from shared.runtime.data_lock import lock_data_folder
from shared.runtime.logging_setup import configure_logging
from shared.settings import ConfigurationError, Settings, load_settings
from shared.store import Store
from shared.store.open import open_store
from shared.times import now_ms
from shared.topics import audit_topic, topic_of

T = TypeVar("T")

PATIENCE_S: Final = 20.0


def run(
    work: Callable[[Settings, CommandProgress], Coroutine[Any, Any, T]], *, level: Literal["warning", "error"] = "error"
) -> T:
    """Return the result of `work` on the environment's settings; meanwhile only events of this level are logged.

    Raises:
        ConfigurationError: a setting can't work. Also whatever `work` raises.
    """
    settings = load_settings()
    configure_logging(settings.log_format, level, secrets=[key.key for key in settings.keys])
    with progress() as watch:
        return asyncio.run(work(settings, watch))


def check_log_exists(settings: Settings) -> None:
    """Check that opening the log won't create it.

    Raises:
        ConfigurationError: the data folder has no log.
    """
    if settings.log == "sqlite:" and not (settings.data / "log.sqlite").exists():
        raise ConfigurationError(f"SLUICE_DATA={settings.data} has no log.sqlite: no document was ever sent to it")


@asynccontextmanager
async def opened_log(settings: Settings, *, create: bool = False) -> AsyncIterator[Log]:
    """Yield the log, started.

    Raises:
        ConfigurationError: there is no log yet, unless it may be created. Unavailable: it is away.
    """
    if not create:
        check_log_exists(settings)
    log = open_log(settings.log, settings.data, settings.log_password)
    try:
        await log.start()
        yield log
    finally:
        await log.stop()


async def opened_store(settings: Settings, stack: AsyncExitStack) -> Store:
    """Return the running server's store, or our own embedded one if no server runs; `stack` closes it.

    Raises:
        ConfigurationError: the data folder is in use, and its store doesn't answer. Unavailable: the store is away.
    """
    store = open_store(settings, attach=True)
    try:
        await store.start()
    except Unavailable:
        await store.close()
        if not settings.embeds_store:
            raise
        stack.enter_context(lock_data_folder(settings.data))
        store = open_store(settings)
        await store.start()
    stack.push_async_callback(store.close)
    return store


# The audit trail


async def record(
    log: Log, settings: Settings, action: str, result: AuditResult, *, of: Sequence[tuple[str, str]] = (("", ""),)
) -> None:
    """Add an entry for each tenant and key id that the command concerns; return when the log has them.

    Raises:
        Unavailable: the log is away.
    """
    await log.ensure_topics([audit_topic(settings.audit_retention_ms, replication=settings.replication or None)])
    async with sending(log, "audit") as send:
        trail = AuditTrail(send)
        for tenant, key in of:
            trail.add(AuditEntry(time=now_ms(), action=action, result=result, tenant=tenant, key=key, door="command"))
        await trail.written()


@asynccontextmanager
async def audited(log: Log, settings: Settings, action: str) -> AsyncIterator[None]:
    """Record the command before and after the block.

    Raises:
        Unavailable: the log is away. If it was away before the block, nothing was done.
    """
    await record(log, settings, action, "begun")
    try:
        yield
    except PipelineError:
        await record(log, settings, action, "failed")
        raise
    await record(log, settings, action, "done")


def record_keys(settings: Settings, action: str, of: Sequence[tuple[str, str]]) -> None:
    """Record the tenants and ids of keys that were made or revoked. If the log is away, print a warning instead.

    Revoking a key must work while the log is away.
    """

    async def run() -> None:
        settings.data.mkdir(parents=True, exist_ok=True)
        async with asyncio.timeout(PATIENCE_S), opened_log(settings, create=True) as log:
            await record(log, settings, action, "done", of=of)

    try:
        asyncio.run(run())
    except (TimeoutError, Unavailable, ConfigurationError) as error:
        sentence = str(error) or f"the log gave no answer in {PATIENCE_S:g} s"
        remark(f"this command is not in the audit trail: {sentence}")


# The log: `sluice lag`, `groups` and `replay` need no server


def on_log(work: Callable[[Log], Awaitable[T]]) -> T:
    """Return the result of `work` on the log that the settings name.

    Raises:
        Rejected: the log refused the request.
        ConfigurationError: the settings can't work, or there is no log yet. Unavailable: the log is away.
    """

    async def working(settings: Settings, _: CommandProgress) -> T:
        async with opened_log(settings) as log:
            return await work(log)

    return run(working)


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
