"""`sluice migrate`."""

from typing import Annotated

import typer

from services.operator_cli.options import DryRun, Json


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
    from services.operator_cli.actions.keeping import shown
    from services.operator_cli.actions.migrate import migrate_here, migrate_lines

    shown(migrate_here(to, dry_run=dry_run), migrate_lines, as_json=as_json)
