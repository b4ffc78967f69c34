"""Runs `sluice upgrade` and prints its result."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from services.operator_cli.actions.keeping import quiet_settings
from services.operator_cli.moving.upgrade import Upgraded, UpgradeRequest, upgrade
from services.operator_cli.verify.command import progress


def upgrade_here(target: Path | None, *, copies: bool, dry_run: bool) -> Upgraded:
    """Return what was done. Raises as `upgrade` does."""
    settings = quiet_settings()
    with progress() as watch:
        return asyncio.run(upgrade(UpgradeRequest(settings, watch, target, copies), dry_run=dry_run))


def upgrade_lines(done: Upgraded) -> Iterator[str]:
    """Yield the lines to print without `--json`."""
    if not done.migrations and not done.verdict:
        yield f"{done.path} has format {done.format}, which is this release's format: nothing to do"
        return
    yield f"{done.path} has format {done.format}, and this release writes format {done.newest}"
    for each in done.migrations:
        yield f"{each.number:4}  {each.part:5}  {each.what}"
    size = f"{done.copy_bytes / 1e6:.1f} MB"
    if done.dry_run:
        yield f"Would copy the folder to {done.copy} first, {size}" if done.copy else "Would make no copy"
        yield "Would embed nothing"
        return
    yield f"The copy from before the upgrade is at {done.copy}, {size}" if done.copy else "No copy was made"
    count = len(done.migrations)
    yield f"Applied {count} migration{'s' * (count != 1)} in {done.seconds:.1f} s; nothing was embedded"
    yield {
        "right": "Log and index agree: start Sluice",
        "wrong": "Log and index differ: run sluice verify to see where",
        "unsettled": "Not everything could be compared yet: start Sluice, then run sluice verify",
    }[done.verdict]
