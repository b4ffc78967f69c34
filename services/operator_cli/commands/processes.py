"""`sluice serve`, and each part as a process of its own: `ingest-worker`, `embed-worker`, `query-api` and `store`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from services.operator_cli.options import Host, Port, SidePort


def serve(
    host: Host = None,
    port: Port = None,
    data: Annotated[Path | None, typer.Option(help="Data folder. Default: SLUICE_DATA, else ./data.")] = None,
) -> None:
    """Run all of Sluice in this process until Ctrl-C."""
    from services.operator_cli.actions.serve import serve_here

    given = {"host": host, "port": port, "data": data}
    raise typer.Exit(serve_here({name: value for name, value in given.items() if value is not None}))


def ingest_worker(side_port: SidePort = None) -> None:
    """Run an ingest worker: it accepts, fetches, extracts and chunks. At most one per partition is active."""
    from services.ingest_worker.app import start
    from services.operator_cli.actions.worker import run_here

    raise typer.Exit(run_here("ingest-worker", start, side_port=side_port))


def embed_worker(side_port: SidePort = None) -> None:
    """Run an embed worker: it embeds chunks and updates the index. At most one per partition is active."""
    from services.embed_worker.app import start
    from services.operator_cli.actions.worker import run_here

    raise typer.Exit(run_here("embed-worker", start, side_port=side_port))


def query_api(host: Host = None, port: Port = None, side_port: SidePort = None) -> None:
    """Run the HTTP API. Any number can run."""
    from services.operator_cli.actions.worker import run_here
    from services.query_api.process import start
    from services.standalone.file_reader import api_reader

    started = partial(start, reader=api_reader)
    raise typer.Exit(run_here("query-api", started, door=True, host=host, port=port, side_port=side_port))


def store(side_port: SidePort = None) -> None:
    """Run the embedded store of SLUICE_DATA for the workers and APIs on this machine."""
    from services.operator_cli.actions.worker import run_here
    from services.standalone.store_process import start

    raise typer.Exit(run_here("store", start, side_port=side_port))
