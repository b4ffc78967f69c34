"""`sluice serve`, and each part as a process of its own: `ingest-worker`, `embed-worker`, `query-api` and `store`."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.operator_cli.options import Host, Port, SidePort
from services.operator_cli.terminal import console

if TYPE_CHECKING:
    from shared.runtime.process import Start
    from shared.settings import Settings


def serve(
    host: Host = None,
    port: Port = None,
    data: Annotated[Path | None, typer.Option(help="Data folder. Default: SLUICE_DATA, else ./data.")] = None,
) -> None:
    """Run all of Sluice in this process until Ctrl-C."""
    raise typer.Exit(serve_here(host=host, port=port, data=data))


def serve_here(**overrides: object) -> int:
    """Return the exit code once the server has stopped; 0 after SIGINT or SIGTERM.

    Raises:
        ConfigurationError: a setting can't work, the port is taken, or the folder is in use.
    """
    from services.standalone.serve import serve

    # At a terminal, only the welcome and warnings are shown; events of every document only on request.
    return serve(_settings("standalone", overrides, quiet=sys.stderr.isatty()), _announce)


def ingest_worker(side_port: SidePort = None) -> None:
    """Run an ingest worker: it accepts, fetches, extracts and chunks. At most one per partition is active."""
    from services.ingest_worker.app import start

    raise typer.Exit(_run("ingest-worker", start, side_port=side_port))


def embed_worker(side_port: SidePort = None) -> None:
    """Run an embed worker: it embeds chunks and updates the index. At most one per partition is active."""
    from services.embed_worker.app import start

    raise typer.Exit(_run("embed-worker", start, side_port=side_port))


def query_api(host: Host = None, port: Port = None, side_port: SidePort = None) -> None:
    """Run the HTTP API. Any number can run."""
    from services.query_api.process import start
    from services.standalone.parser_adapter import api_reader

    started = partial(start, reader=api_reader)
    raise typer.Exit(_run("query-api", started, door=True, host=host, port=port, side_port=side_port))


def store(side_port: SidePort = None) -> None:
    """Run the embedded store of SLUICE_DATA for the workers and APIs on this machine."""
    from services.standalone.store_process import start

    raise typer.Exit(_run("store", start, side_port=side_port))


def _run(name: str, start: "Start", *, door: bool = False, **overrides: object) -> int:
    """Return the exit code once the process has stopped; 0 after SIGINT or SIGTERM.

    Raises:
        ConfigurationError: a setting can't work, or a port is taken.
    """
    from shared.runtime.process import run

    return run(name, _settings(name, overrides), start, _announce, door=door)


def _settings(name: str, overrides: Mapping[str, object], *, quiet: bool = False) -> "Settings":
    """Return the settings of a process, which logs, traces, and keeps private what it writes from now on."""
    from shared.runtime.logging_setup import configure_logging
    from shared.runtime.privacy import keep_private
    from shared.runtime.settings_report import warn_of_unknown
    from shared.settings import load_settings, read_given
    from shared.tracing import start_tracing

    settings = load_settings(**{name: value for name, value in overrides.items() if value is not None})
    level = "warning" if quiet and "log_level" not in settings.model_fields_set else settings.log_level
    configure_logging(settings.log_format, level, secrets=[key.key for key in settings.keys], service=name)
    start_tracing(name)
    warn_of_unknown(read_given())
    keep_private(settings)
    return settings


def _announce(line: str) -> None:
    out = console()
    # soft_wrap: a line that is pasted, or read from a pipe, must not be broken into two
    out.print(line, markup=False, soft_wrap=True)
    out.file.flush()
