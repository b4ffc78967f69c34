"""`sluice init`, `doctor` and `demo`."""

from typing import Annotated

import typer

from services.operator_cli.options import Json
from shared.version import VERSION


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


def doctor(as_json: Json = False) -> None:
    """Check everything that Sluice needs here, and say how to fix what is missing."""
    from services.operator_cli.actions.doctor import Check, examine
    from services.operator_cli.terminal import console, print_json

    out, checks, colour = console(), list[Check](), {"ok": "green", "warning": "yellow", "failed": "red"}
    for check in examine():
        checks.append(check)
        if as_json:
            continue
        out.print(f"{check.verdict:8}", style=colour[check.verdict], end="")
        out.print(f"{check.name:10}{check.found}", markup=False)
        if check.fix:
            out.print(f"{'':18}fix: {check.fix}", markup=False)
    if as_json:
        print_json({"version": VERSION, "checks": checks})
    raise typer.Exit(1 if any(check.verdict == "failed" for check in checks) else 0)


def demo(
    processes: Annotated[
        bool,
        typer.Option("--processes", help="Run separate processes on the configured servers."),
    ] = False,
) -> None:
    """Load, search, ask, edit and delete sample documents in a temporary folder."""
    from services.operator_cli.actions.demo import run

    run(processes=processes)
