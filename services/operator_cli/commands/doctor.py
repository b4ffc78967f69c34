"""`sluice doctor`."""

import typer

from services.operator_cli.options import Json
from shared.version import VERSION


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
