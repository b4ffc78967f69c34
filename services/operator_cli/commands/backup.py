"""`sluice backup` and `sluice restore`."""

from pathlib import Path
from typing import Annotated

import typer

from services.operator_cli.options import DryRun, Json


def backup(
    target: Annotated[Path, typer.Argument(help="New folder; or a new file whose name ends with .tar.")],
    *,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for upkeep that is under way.")] = 300.0,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Copy log, index, blobs and API keys of this data folder, also while Sluice runs.

    Exit code 1: the target exists, or the disk is too full; 2: a part is away, or is busy for too long.
    """
    from services.operator_cli.actions.keeping import backup_here, backup_lines, shown

    shown(backup_here(target, dry_run=dry_run, patience_s=wait), backup_lines, as_json=as_json)


def restore(
    source: Annotated[Path, typer.Argument(help="What sluice backup wrote.")],
    *,
    data: Annotated[Path | None, typer.Option(help="New data folder. Default: SLUICE_DATA.")] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Make a data folder from a backup, after checking every file of the backup.

    Exit code 1: the folder isn't empty, or the disk is too full; 2: the backup is damaged, or isn't a backup.
    """
    from services.operator_cli.actions.keeping import restore_here, restore_lines, shown

    shown(restore_here(source, data, dry_run=dry_run), restore_lines, as_json=as_json)
