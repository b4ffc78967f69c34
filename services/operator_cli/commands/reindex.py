"""`sluice reindex`: build another generation of the index, switch to it, go back, and drop what is retired."""

import sys
from typing import Annotated, Any

import typer

from services.operator_cli.examples import example
from services.operator_cli.options import Json, Yes, client_of

reindex = typer.Typer(
    help="Build the index anew with another model or chunk size, while the old one answers.", no_args_is_help=True
)

_COLUMNS = (
    "id",
    "state",
    "model",
    "chunks of",
    "documents",
    "chunks",
    "unread",
    "failed",
    "embedded",
    "copied",
    "left",
)


@reindex.command("start", epilog=example("reindex_start"))
def start(
    context: typer.Context,
    *,
    embedder: Annotated[str | None, typer.Option(help="Its model, as in SLUICE_EMBEDDER.")] = None,
    chunk_size: Annotated[int | None, typer.Option(help="Its largest chunk.")] = None,
    chunk_overlap: Annotated[int | None, typer.Option(help="How much of a chunk the next one repeats.")] = None,
    chunk_unit: Annotated[str | None, typer.Option(help="characters or tokens.")] = None,
    limit_rate: Annotated[float | None, typer.Option(help="At most this many documents a second.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what it takes.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Build a generation beside the one that answers. What isn't given is as the settings say."""
    from services.operator_cli.terminal import console, print_json

    client = client_of(context)
    given = {
        "embedder": embedder,
        "chunkSize": chunk_size,
        "chunkOverlap": chunk_overlap,
        "chunkUnit": chunk_unit,
        "limitRate": limit_rate,
    }
    body = {name: value for name, value in given.items() if value is not None}
    asks = not (yes or dry_run or as_json) and sys.stdin.isatty()
    plan = client.reindex("start", {**body, "dryRun": dry_run or asks})
    if as_json:
        print_json(plan)
        return
    out = console()
    for line in _plan_lines(plan):
        out.print(line, markup=False, soft_wrap=True)
    if asks:
        typer.confirm("Build it?", abort=True)
        plan = client.reindex("start", body)
    if not dry_run:
        out.print(f"Generation {plan['id']} is being built: sluice reindex status", markup=False, soft_wrap=True)


@reindex.command("status", epilog=example("reindex_status"))
def status(context: typer.Context, *, as_json: Json = False) -> None:
    """List the generations and how far they are. In a pipe, print tab-separated lines."""
    from services.operator_cli.terminal import console, print_json, print_rows

    found = client_of(context).generations()
    if as_json:
        print_json(found)
        return
    print_rows([_row(each) for each in found["items"]], _COLUMNS)
    if "switching" in found:
        console(stderr=True).print(found["switching"], markup=False)


@reindex.command("switch", epilog=example("reindex_switch"))
def switch(
    context: typer.Context,
    generation: Annotated[str | None, typer.Argument(help="Its id. Default: the one that was built.")] = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Accept documents that it lacks or that failed in it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Let another generation answer, once it has everything and every API is ready for it."""
    _do(context, "switch", {"force": force, **({} if generation is None else {"id": generation})}, as_json=as_json)


@reindex.command("rollback", epilog=example("reindex_rollback"))
def rollback(context: typer.Context, *, as_json: Json = False) -> None:
    """Let the generation answer again that answered before."""
    _do(context, "rollback", {}, as_json=as_json)


@reindex.command("cancel", epilog=example("reindex_cancel"))
def cancel(context: typer.Context, *, yes: Yes = False, as_json: Json = False) -> None:
    """Give up the switch that is under way, else drop the generation that is being built."""
    _confirm("Give it up?", yes=yes)
    _do(context, "cancel", {}, as_json=as_json)


@reindex.command("gc", epilog=example("reindex_gc"))
def collect(context: typer.Context, *, yes: Yes = False, as_json: Json = False) -> None:
    """Drop the retired generations for good. Afterwards there is nothing to roll back to."""
    _confirm("Drop all retired generations?", yes=yes)
    _do(context, "gc", {}, as_json=as_json)


def _do(context: typer.Context, what: str, body: dict[str, Any], *, as_json: bool) -> None:
    from services.operator_cli.terminal import console, print_json

    done = client_of(context).reindex(what, body)
    if as_json:
        print_json(done)
    else:
        console().print(done["sentence"], markup=False, soft_wrap=True)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        from services.operator_cli.client import Misuse

        raise Misuse("add --yes to do it without being asked")
    typer.confirm(question, abort=True)


def _row(each: dict[str, Any]) -> dict[str, Any]:
    left = each.get("secondsLeft")
    return {
        **each,
        "chunks of": f"{each['chunkSize']} {each['chunkUnit']}",
        "documents": f"{each['documents']} of {each['ofDocuments']}",
        "left": None if left is None else f"{_duration(left)} at {each['rate']:g}/s",
    }


def _plan_lines(plan: dict[str, Any]) -> list[str]:
    free = plan["freeBytes"]
    chunks = f"about {plan['chunks']} chunks of {plan['chunkSize']} {plan['chunkUnit']}"
    texts = f"at most {plan['embed']} texts" if plan["embed"] else "no text"
    room = f"{plan['diskBytes'] / 1e6:.0f} MB"
    return [
        f"{plan['documents']} documents in {chunks}, model {plan['model']} at {plan['embedder']}",
        f"{texts} to embed, about {_duration(plan['seconds'])}",
        f"{room} of disk" if free is None else f"{room} of disk, of {free / 1e9:.1f} GB that are free",
        *plan["notes"],
    ]


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
