"""Runs `sluice migrate` and prints its result."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from services.operator_cli.errors import CommandError
from services.operator_cli.installation import audited, check_log_exists, opened_log, record
from services.operator_cli.moving.collections import Moved, move_store
from services.operator_cli.moving.move_log import LogMove, MovedLog, move_log
from services.operator_cli.terminal import CommandProgress
from shared.log import Log
from shared.log.groups import our_groups
from shared.log.open import log_file, open_log
from shared.log.publish import sending
from shared.runtime.data_lock import lock_data_folder
from shared.runtime.resources import wanted_topics
from shared.settings import ConfigurationError, Settings
from shared.state.generations import registry_of
from shared.state.pairing import store_address
from shared.store import Store
from shared.store.open import open_store


async def migrate(settings: Settings, to: str, watch: CommandProgress, *, dry_run: bool) -> Moved | MovedLog:
    """Return what was moved to `to`: the index if it is an address as in SLUICE_STORE, the log if as in SLUICE_LOG.

    Raises:
        CommandError: something runs.
        Rejected: the source has unread records; the target has others; or log and store don't belong together.
        ConfigurationError: `to` is no address, or that of the settings; or there is no log yet.
        Unavailable: a part is away.
    """
    part = "log" if to.partition(":")[0] in ("kafka", "sqlite") else "store"
    there = settings.model_copy(update={part: to})
    address = store_address(there)
    if there.log == settings.log and address == store_address(settings):
        raise ConfigurationError(f"--to {there.shown(part)} is the {part} of SLUICE_{part.upper()}")
    async with AsyncExitStack() as stack:
        check_log_exists(settings)
        if settings.keeps_data or there.keeps_data:  # the folder is kept to this process
            settings.data.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_data_folder(settings.data))
        log = await stack.enter_async_context(opened_log(settings))
        await _check_stopped(log)
        store = await _opened(settings, stack)
        if part == "store":
            target_store = await _opened(there, stack)
            send = await stack.enter_async_context(sending(log, "migrate"))
            if not dry_run:
                await stack.enter_async_context(audited(log, settings, "migrate"))
            return await move_store(store, target_store, log, send, watch, address=address, dry_run=dry_run)
        target = await _opened_target(there, stack, dry_run=dry_run)
        send = await stack.enter_async_context(sending(target, "migrate"))
        registry = await registry_of(store)
        if registry is None:
            raise CommandError("the store has no generation yet, so there is nothing to move")
        move = LogMove(
            source=log,
            target=target,
            store=store,
            publish=send,
            topics=wanted_topics(there, registry.current.generation),
            watch=watch,
            to=there.shown("log"),
            address=address,
        )
        if dry_run:
            return await move_log(move, dry_run=True)
        await record(log, settings, "migrate", "begun")
        done = await move_log(move, dry_run=False)
        await record(target, there, "migrate", "done")
        return done


async def _opened_target(there: Settings, stack: AsyncExitStack, *, dry_run: bool) -> Log:
    """Return the log to move to, which nothing reads; a dry run doesn't create it."""
    file = log_file(there.log, there.data)
    if dry_run and file is not None and not file.exists():  # opening it would create it
        target = open_log("sqlite:", Path(stack.enter_context(TemporaryDirectory())))
    else:
        target = open_log(there.log, there.data, there.log_password if _wants_password(there.log) else None)
    stack.push_async_callback(target.stop)
    await target.start()
    await _check_stopped(target)
    return target


async def _opened(settings: Settings, stack: AsyncExitStack) -> Store:
    store = open_store(settings)
    stack.push_async_callback(store.close)
    await store.start()
    return store


def _wants_password(to: str) -> bool:
    """Return whether the log has a user without a password: SLUICE_LOG_PASSWORD may be the source's alone."""
    user, _, password = to.removeprefix("kafka://").partition("?")[0].rpartition("@")[0].partition(":")
    return bool(user) and not password


async def _check_stopped(log: Log) -> None:
    for group in await our_groups(log):
        if members := await log.members(group):
            raise CommandError(f"group {group} has {len(members)} members: stop everything that runs on this log first")


def migrate_lines(done: Moved | MovedLog) -> Iterator[str]:
    """Yield the lines to print without `--json`."""
    counts, what = (done.topics, "records") if isinstance(done, MovedLog) else (done.collections, "points")
    for name, count in counts.items():
        yield f"{count:9}  {name}"
    total = sum(counts.values())
    if isinstance(done, MovedLog) and done.left_out:
        yield f"{done.left_out} submissions are too large for the new log, so their originals can't be downloaded there"
    if done.dry_run:
        yield f"Would copy {total} {what} to {done.to}, and embed nothing"
        return
    yield f"{total} {what} are at {done.to}, and compared; {done.written} were copied now, and nothing was embedded"
    if isinstance(done, MovedLog):
        yield f"Start Sluice with SLUICE_LOG={done.to}; the old log is refused from now on, and may be deleted"
        yield "Cursors of GET /rag/changes are invalid now (410): take a new one, list the documents, then follow it"
    else:
        yield "Start Sluice with the new SLUICE_STORE; the old store is refused from now on, and may be deleted"
