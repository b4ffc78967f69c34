"""Shared by the commands: options, the client, and the question whether to go on."""

import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.operator_cli.errors import Misuse

if TYPE_CHECKING:
    from services.operator_cli.client import Client

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")]
TopK = Annotated[int, typer.Option("--top-k", "-k", min=1, max=1000, help="Number of passages.")]
Source = Annotated[str | None, typer.Option("--source", "-s", help="Only documents of this source.")]
Tags = Annotated[
    list[str] | None, typer.Option("--tags", "-t", help="Only documents with one of these tags; repeatable.")
]
Host = Annotated[str | None, typer.Option(help="Address to listen on. Default: SLUICE_HOST, then 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(help="Port; 0 is any free one. Default: SLUICE_PORT, then 3000.")]
SidePort = Annotated[
    int | None,
    typer.Option(help="Port of probes and metrics; 0 is any free one. Default: SLUICE_SIDE_PORT, then 0."),
]
Url = Annotated[
    str | None,
    typer.Option("--url", help="The server's address. Default: SLUICE_URL, then SLUICE_HOST and SLUICE_PORT."),
]

HEADER: Final[ContextVar[bool]] = ContextVar("header", default=True)  # whether tables have one


def client_of(context: typer.Context) -> "Client":
    """Return a client of the command's server; it is closed when the command ends."""
    from services.operator_cli.client import Client

    return context.with_resource(Client(context.obj))


def filters_of(source: str | None, tags: Sequence[str] | None) -> dict[str, Any]:
    """Return the given options as filters of a search."""
    given = {"source": source, "tags": list(tags) if tags else None}
    return {name: value for name, value in given.items() if value is not None}


def confirm(question: str, *, yes: bool, as_json: bool = False, otherwise: str) -> None:
    """Ask the user. Raises Misuse with the sentence `otherwise` if nobody can be asked, and Abort after a no."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise Misuse(otherwise)
    typer.confirm(question, abort=True)
