"""`sluice erase`."""

from typing import Annotated

import typer

from services.operator_cli.options import Json, client_of


def erase(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Document ids.")] = None,
    *,
    source: Annotated[str | None, typer.Option("--source", "-s", help="All documents of this source.")] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Rewrite the data files now and search them for leftovers. Needs the role operator."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be erased.")] = False,
    as_json: Json = False,
) -> None:
    """Erase documents for good: text, names, vectors, dead letters. Needs the role admin."""
    from services.operator_cli.actions.remove import erase as erased

    code = erased(client_of(context), ids or (), source, yes=yes, dry_run=dry_run, wait=wait, as_json=as_json)
    raise typer.Exit(code)
