"""`sluice upgrade`."""

from pathlib import Path
from typing import Annotated

import typer

from services.operator_cli.options import DryRun, Json


def upgrade(
    *,
    backup: Annotated[
        Path | None, typer.Option(help="New folder for the copy. Default: beside the data folder, NAME.before-FORMAT.")
    ] = None,
    no_backup: Annotated[bool, typer.Option("--no-backup", help="Make no copy first.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Bring the data of an earlier release to this one's format, while nothing runs. After a crash, run it again.

    The folder is copied first, and log and index are compared at the end. Nothing is embedded. Without this command,
    the next start applies the same migrations, but makes no copy.

    Exit code 1: log and index differ, something runs, the copy exists, or the disk is too full; 2: a newer release has
    written the folder, it is in use, or a part is away; or unread records kept the comparison from being complete.
    """
    from services.operator_cli.actions.keeping import shown
    from services.operator_cli.actions.upgrade import upgrade_here, upgrade_lines

    done = upgrade_here(backup, copies=not no_backup, dry_run=dry_run)
    shown(done, upgrade_lines, as_json=as_json)
    raise typer.Exit(done.exit_code)
