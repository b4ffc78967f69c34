"""`sluice demo`."""

from typing import Annotated

import typer


def demo(
    processes: Annotated[
        bool,
        typer.Option("--processes", help="Run separate processes on the configured servers."),
    ] = False,
) -> None:
    """Load, search, ask, edit and delete sample documents in a temporary folder."""
    from services.operator_cli.actions.demo import run

    run(processes=processes)
