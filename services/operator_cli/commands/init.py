"""`sluice init`."""

from typing import Annotated

import typer

from services.operator_cli.options import Json


def init(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be created.")] = False,
    pair: Annotated[
        bool, typer.Option("--pair", help="Pair this log with this store, even if either was paired with another.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create missing topics and collections; report how existing ones differ. Exit code 1: one can't be used."""
    from services.operator_cli.actions.init import initialise_here, lines
    from services.operator_cli.terminal import console, print_json

    parts = initialise_here(dry_run=dry_run, pair=pair)
    if as_json:
        print_json({"dryRun": dry_run, "parts": parts})
    else:
        for line in lines(parts, dry_run=dry_run):
            console().print(line, markup=False, soft_wrap=True)  # a command to paste must not be broken into two lines
    raise typer.Exit(1 if any(part.state == "unfit" for part in parts) else 0)
