"""`sluice dlq`: list, show, redrive and drop dead letters."""

import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.operator_cli.errors import Misuse
from services.operator_cli.options import DryRun, Json, Manner, Source, client_of, given, slices, with_options
from services.operator_cli.terminal import console, print_found, print_json, print_rows

if TYPE_CHECKING:
    from services.operator_cli.client import Client

dlq = typer.Typer(name="dlq", help="List, show, redrive and drop dead letters.", no_args_is_help=True)

LISTED: Final = 100
BATCH: Final = 100  # ids per request
NOT_DONE: Final = frozenset({"refused", "unknown"})

Ids = Annotated[list[str] | None, typer.Argument(help="Ids of dead letters.")]
All = Annotated[bool, typer.Option("--all", help="All dead letters.")]


@dataclass(frozen=True, kw_only=True)
class LetterFilters:
    """Which dead letters are meant."""

    stage: Annotated[str | None, typer.Option(help="Only from this stage: ingest, chunk or embed.")] = None
    code: Annotated[str | None, typer.Option(help="Only with this reason code, such as bug or timeout.")] = None
    source: Source = None
    document_id: Annotated[str | None, typer.Option("--document", help="Only of the document with this id.")] = None
    since: Annotated[
        str | None, typer.Option(help="Only failures at or after this time, such as 2026-11-20T18:00Z.")
    ] = None
    until: Annotated[str | None, typer.Option(help="Only failures before this time.")] = None


@dlq.command("ls", epilog="Example: sluice dlq ls --stage embed")
@with_options
def ls(
    context: typer.Context,
    *,
    filters: LetterFilters,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to list.")] = LISTED,
    as_json: Json = False,
) -> None:
    """List dead letters, newest failure first. In a pipe, print tab-separated lines."""
    page = client_of(context).listed("/ops/dead-letters", limit, **given(filters))
    columns = ("id", "stage", "code", "lastSeen", "source", "path", "error")
    print_found(page, page["items"], columns, as_json=as_json)
    if page["nextCursor"] and not as_json:
        console(stderr=True).print(f"{limit} of {page['total']} dead letters are listed: raise --limit")


@dlq.command("show", epilog="Example: sluice dlq show ID --record")
def show(
    context: typer.Context,
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter.")],
    *,
    record: Annotated[bool, typer.Option("--record", help="Print only the record's value, as its bytes.")] = False,
    as_json: Json = False,
) -> None:
    """Show a dead letter: the reason and the record."""
    client = client_of(context)
    if record:
        sys.stdout.buffer.write(client.content("ops", "dead-letters", letter_id, "record"))
        return
    letter = client.get("ops", "dead-letters", letter_id)
    own = {name: value for name, value in letter.items() if name != "record" and value not in (None, "")}
    rows = [{"field": name, "value": value} for name, value in own.items()]
    rows += [{"field": f"record {name}", "value": _shown(value)} for name, value in letter["record"].items() if value]
    print_found(letter, rows, ("field", "value"), as_json=as_json)


@dlq.command("redrive", epilog="Example: sluice dlq redrive --code timeout")
@with_options
def redrive(
    context: typer.Context,
    ids: Ids = None,
    *,
    filters: LetterFilters,
    everything: All = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Process records again after the cause is fixed. A record older than its document is `superseded`."""
    chosen = _chosen(ids, given(filters), everything=everything)
    _settle(client_of(context), "redrive", chosen, dry_run=dry_run, as_json=as_json)


@dlq.command("drop", epilog="Example: sluice dlq drop --all --dry-run")
@with_options
def drop(
    context: typer.Context, ids: Ids = None, *, filters: LetterFilters, everything: All = False, manner: Manner
) -> None:
    """Drop dead letters for good: their records will not be processed again."""
    chosen = _chosen(ids, given(filters), everything=everything)
    client = client_of(context)
    if not manner.dry_run and not manner.yes:
        count = len(chosen[0]["ids"]) if ids else client.listed("/ops/dead-letters", 1, **given(filters))["total"]
        otherwise = f"add --yes to drop {count} dead letters without being asked"
        manner.confirm(f"Drop {count} dead letters?", otherwise=otherwise)
    _settle(client, "drop", chosen, dry_run=manner.dry_run, as_json=manner.as_json)


def _chosen(ids: list[str] | None, filters: dict[str, str], *, everything: bool) -> list[dict[str, Any]]:
    """Return the request bodies that select the letters, to be sent one after the other."""
    if [bool(ids), bool(filters), everything].count(True) != 1:
        raise Misuse("give either ids, or filters, or --all")
    if ids:
        return [{"ids": some} for some in slices(ids, BATCH)]
    return [filters or {"all": True}]


def _settle(client: "Client", how: str, chosen: list[dict[str, Any]], *, dry_run: bool, as_json: bool) -> None:
    bodies = ({**each, "dryRun": dry_run} for each in chosen)
    pages = (page for body in bodies for page in client.pages("POST", f"/ops/dead-letters/{how}", body))
    items = [item for page in pages for item in page["items"]]
    counts = dict(sorted(Counter(each["outcome"] for each in items).items()))
    if as_json:
        print_json({"dryRun": dry_run, "counts": counts, "items": items})
    else:
        if items:
            print_rows(items, ("id", "outcome", "sentence"))
        done = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "no dead letter matches"
        console(stderr=True).print(f"{done}{' (dry run)' if dry_run else ''}", markup=False)
    raise typer.Exit(1 if NOT_DONE & counts.keys() else 0)


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return value.get("text") or value.get("base64") or value
    return value
