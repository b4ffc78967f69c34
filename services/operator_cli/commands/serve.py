"""`sluice serve`."""

from pathlib import Path
from typing import Annotated

import typer

from services.operator_cli.options import Host, Port


def serve(
    host: Host = None,
    port: Port = None,
    data: Annotated[Path | None, typer.Option(help="Data folder. Default: SLUICE_DATA, else ./data.")] = None,
) -> None:
    """Run all of Sluice in this process until Ctrl-C."""
    from services.operator_cli.actions.serve import serve_here

    given = {"host": host, "port": port, "data": data}
    raise typer.Exit(serve_here({name: value for name, value in given.items() if value is not None}))
