"""`sluice verify`, `backup`, `restore`, `migrate` and `optimize`: the commands on an installation's data."""

from pathlib import Path
from typing import Annotated

import typer

from services.operator_cli.errors import Misuse
from services.operator_cli.options import DryRun, Json
from services.operator_cli.terminal import shown


def verify(
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Repair the differences that were found.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --repair: only report what would be done.")] = False,
    embed: Annotated[str, typer.Option(help="Number of random chunks to embed again and compare, or all.")] = "32",
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for documents in progress.")] = 30.0,
    generation: Annotated[str | None, typer.Option(help="Compare this generation instead of the serving one.")] = None,
    as_json: Json = False,
) -> None:
    """Compare the whole index with the log. Exit code 1: something differs; 2: not everything could be checked."""
    from services.operator_cli.verify.command import as_dict, lines, verify_here

    if dry_run and not repair:
        raise Misuse("--dry-run reports what --repair would do: give both")
    if generation is not None and repair:
        raise Misuse("--repair repairs the serving generation: leave --generation out")
    if embed != "all" and not (embed.isascii() and embed.isdigit()):
        raise Misuse(f"--embed {embed} must be a number, or all")
    sample = None if embed == "all" else int(embed)
    outcome = verify_here(repair=repair, dry_run=dry_run, sample=sample, patience_s=patience, generation=generation)
    shown(as_dict(outcome), lines(outcome), as_json=as_json)
    raise typer.Exit(outcome.exit_code)


def backup(
    target: Annotated[Path, typer.Argument(help="New folder.")],
    *,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for upkeep that is under way.")] = 300.0,
    as_json: Json = False,
) -> None:
    """Copy log, index, blobs and API keys of this data folder, also while Sluice runs.

    Exit code 1: the target exists, or the disk is too full; 2: a part is away, or is busy for too long.
    """
    from services.operator_cli.installation import run
    from services.operator_cli.moving.backup import backup as backed_up
    from services.operator_cli.moving.backup import backup_lines

    done = run(lambda settings, watch: backed_up(settings, target, watch, patience_s=wait))
    shown(done, backup_lines(done), as_json=as_json)


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
    from services.operator_cli.installation import run
    from services.operator_cli.moving.restore import restore as restored
    from services.operator_cli.moving.restore import restore_lines

    done = run(lambda settings, watch: restored(source, data or settings.data, watch, dry_run=dry_run))
    shown(done, restore_lines(done), as_json=as_json)


def migrate(
    *,
    to: Annotated[
        str,
        typer.Option(
            help="The new store, as in SLUICE_STORE (edge:, qdrant+http://host:6333), or the new log, as in SLUICE_LOG "
            "(sqlite:, kafka://host:9092)."
        ),
    ],
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Move the index to another store, or the records to another log. Stop everything first; repeat it after a crash.

    Nothing is embedded. Exit code 1: workers run, records are unread, or the target isn't empty; 2: the folder is in
    use, a part is away, or a setting is wrong.
    """
    from services.operator_cli.installation import run
    from services.operator_cli.moving.migrate import migrate as moved
    from services.operator_cli.moving.migrate import migrate_lines

    done = run(lambda settings, watch: moved(settings, to, watch, dry_run=dry_run))
    shown(done, migrate_lines(done), as_json=as_json)


def optimize(*, as_json: Json = False) -> None:
    """Free disk space now: compact the log, rewrite the index without deleted points, and collect blobs.

    The same happens by itself, at intervals.

    Exit code 2: a part is away, or a backup is being made.
    """
    from services.operator_cli.installation import run
    from services.operator_cli.optimize import optimize as optimized
    from services.operator_cli.optimize import optimized_lines

    done = run(optimized)
    shown(done, optimized_lines(done), as_json=as_json)
