"""Shared by the commands: options, the client, and the question whether to go on."""

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

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


def slices(ids: Sequence[str], size: int) -> list[list[str]]:
    """Return the ids, each once, in lists of at most `size`."""
    distinct = list(dict.fromkeys(ids))
    return [distinct[start : start + size] for start in range(0, len(distinct), size)]


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a command that changes something goes about it."""

    yes: Yes = False
    dry_run: DryRun = False
    as_json: Json = False

    def confirm(self, question: str, *, otherwise: str) -> None:
        """Ask the user. Raises Misuse with the sentence `otherwise` if nobody can be asked, and Abort after a no."""
        if self.yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise Misuse(otherwise)
        typer.confirm(question, abort=True)


def given(options: Any) -> dict[str, Any]:
    """Return the options of a dataclass that were given, in the routes' spelling."""
    named = ((name.split("_"), value) for name, value in asdict(options).items() if value is not None)
    return {first + "".join(map(str.title, more)): value for (first, *more), value in named}


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command as Typer takes it: each field of a dataclass among its parameters is an option of its own."""
    taken, parameters = dict[str, Any](), list[Parameter]()
    for parameter in signature(command, eval_str=True).parameters.values():
        if not is_dataclass(kind := parameter.annotation):
            parameters.append(parameter)
            continue
        taken[parameter.name], hints = kind, get_type_hints(kind, include_extras=True)
        for each in fields(kind):
            factory, default = each.default_factory, each.default
            value = factory() if factory is not MISSING else Parameter.empty if default is MISSING else default
            annotation = hints[each.name]
            parameters.append(Parameter(each.name, Parameter.KEYWORD_ONLY, default=value, annotation=annotation))

    @wraps(command)
    def flat(**values: Any) -> None:
        for name, kind in taken.items():
            values[name] = kind(**{each.name: values.pop(each.name) for each in fields(kind)})
        command(**values)

    flat.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # read instead of the function's own
    return flat
