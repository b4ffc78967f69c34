"""Runs `sluice migrate` and prints its result."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial

from services.operator_cli.actions.audited import audited
from services.operator_cli.actions.log_tools import check_log_exists, existing_log
from services.operator_cli.client import CommandError
from services.operator_cli.moving.move_store import Moved, move_store
from services.operator_cli.verify.command import progress
from services.operator_cli.verify.verifier import VerifyProgress
from shared.errors import Rejected
from shared.log import Log
from shared.log.groups import our_groups
from shared.log.publish import publish
from shared.runtime.data_lock import lock_data_folder
from shared.runtime.logging_setup import configure_logging
from shared.settings import ConfigurationError, Settings, load_settings
from shared.state.pairing import store_address
from shared.store.open import open_store


def migrate_here(to: str, *, dry_run: bool) -> Moved:
    """Return what was moved. Raises as `migrate` does."""
    settings = load_settings()
    configure_logging(settings.log_format, "error", secrets=[key.key for key in settings.keys])
    with progress() as watch:
        return asyncio.run(migrate(settings, to, watch, dry_run=dry_run))


async def migrate(settings: Settings, to: str, watch: VerifyProgress, *, dry_run: bool) -> Moved:
    """Return what was moved from the store of the settings to `to`, an address as in SLUICE_STORE.

    Raises:
        CommandError: something runs; the target has documents; or the source isn't the log's store.
        ConfigurationError: `to` is no store's address, or the store of the settings; or there is no log yet.
        Unavailable: a part is away.
    """
    if to.partition(":")[0] in ("kafka", "sqlite"):
        raise ConfigurationError(f"--to {to} is a log: sluice migrate moves the index to another store, not the log")
    target_settings = settings.model_copy(update={"store": to})
    if store_address(target_settings) == store_address(settings):
        raise ConfigurationError(f"--to {to} is the store of SLUICE_STORE")
    check_log_exists(settings)
    async with AsyncExitStack() as stack:
        if settings.keeps_data or to == "edge:":
            settings.data.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_data_folder(settings.data))
        log = await stack.enter_async_context(existing_log(settings))
        await _check_stopped(log)
        source, target = open_store(settings), open_store(target_settings)
        for store in (source, target):
            stack.push_async_callback(store.close)
            await store.start()
        broker = log.broker("migrate")
        stack.push_async_callback(broker.stop)
        await broker.start()
        if not dry_run:
            await stack.enter_async_context(audited(log, settings, "migrate"))
        try:
            return await move_store(
                source,
                target,
                log,
                partial(publish, broker),
                watch,
                address=store_address(target_settings),
                dry_run=dry_run,
            )
        except Rejected as error:
            raise CommandError(error.sentence) from error


async def _check_stopped(log: Log) -> None:
    for group in await our_groups(log):
        if members := await log.members(group):
            raise CommandError(f"group {group} has {len(members)} members: stop everything that runs on this log first")


def migrate_lines(done: Moved) -> Iterator[str]:
    """Yield the lines to print without `--json`."""
    for name, count in done.collections.items():
        yield f"{count:9}  {name}"
    total = sum(done.collections.values())
    if done.dry_run:
        yield f"Would copy {total} points to {done.to}, and embed nothing"
        return
    yield f"{total} points are at {done.to}, compared one by one; {done.written} were copied now, and none embedded"
    yield "Start Sluice with the new SLUICE_STORE; the old store is refused from now on, and may be deleted"
