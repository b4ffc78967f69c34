"""Runs `sluice backup`, `restore` and `optimize`, and prints their results."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from services.operator_cli.actions.optimize import Optimized, optimize
from services.operator_cli.moving.backup import BackedUp, backup
from services.operator_cli.moving.restore import Restored, restore
from services.operator_cli.terminal import console, print_json
from services.operator_cli.verify.command import progress
from shared.runtime.logging_setup import configure_logging
from shared.settings import Settings, load_settings

T = TypeVar("T")


def backup_here(target: Path, *, dry_run: bool, patience_s: float) -> BackedUp:
    """Return what was backed up. Raises as `backup` does."""
    settings = quiet_settings()
    with progress() as watch:
        return asyncio.run(backup(settings, target, watch, dry_run=dry_run, patience_s=patience_s))


def restore_here(source: Path, data: Path | None, *, dry_run: bool) -> Restored:
    """Return what was restored. Raises as `restore` does."""
    settings = quiet_settings()
    with progress() as watch:
        return asyncio.run(restore(source, data or settings.data, watch, dry_run=dry_run))


def optimize_here(*, dry_run: bool) -> Optimized:
    """Return what was freed. Raises as `optimize` does."""
    settings = quiet_settings()
    with progress() as watch:
        return asyncio.run(optimize(settings, watch, dry_run=dry_run))


def quiet_settings() -> Settings:
    """Return the settings; from now on only errors are logged. Raises ConfigurationError."""
    settings = load_settings()
    configure_logging(settings.log_format, "error", secrets=[key.key for key in settings.keys])
    return settings


def shown(done: T, lines: Callable[[T], Iterator[str]], *, as_json: bool) -> None:
    """Print the result as JSON, or as lines."""
    if as_json:
        print_json(done)
        return
    for line in lines(done):
        console().print(line, markup=False, soft_wrap=True)


def backup_lines(done: BackedUp) -> Iterator[str]:
    """Yield the lines to print without `--json`."""
    what = f"{done.documents} documents, {done.points} points, {done.blobs} blobs"
    parts = f"log {_mb(done.log_bytes)}, index {_mb(done.store_bytes)}, blobs {_mb(done.blob_bytes)}"
    if done.dry_run:
        yield f"Would back up {what} to {done.path}"
        yield f"At most {_mb(done.size)}: {parts}"
    else:
        yield f"Backed up {what} to {done.path} in {done.seconds:.1f} s"
        yield f"{_mb(done.size)}: {parts}"


def restore_lines(done: Restored) -> Iterator[str]:
    """Yield the lines to print without `--json`."""
    what = f"{done.documents} documents, {done.points} points, {done.blobs} blobs"
    yield f"The backup of {done.created}, made by Sluice {done.sluice}, is whole: {what}"
    if done.dry_run:
        yield f"Would restore it into {done.path}"
        return
    yield f"Restored into {done.path} in {done.seconds:.1f} s"
    if done.settings:
        yield "It was made with " + ", ".join(f"SLUICE_{name.upper()}={value}" for name, value in done.settings.items())
    yield f"Start it with SLUICE_DATA={done.path} sluice serve, then compare it with its log: sluice verify"


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
