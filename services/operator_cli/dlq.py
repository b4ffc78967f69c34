"""`sluice dlq`: list, show, redrive and drop dead letters."""

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.operator_cli.errors import Misuse
from services.operator_cli.options import DryRun, Json, client_of, confirm
from services.operator_cli.terminal import console, print_json, print_rows

if TYPE_CHECKING:
    from services.operator_cli.client import Client

dlq = typer.Typer(name="dlq", help="List, show, redrive and drop dead letters.", no_args_is_help=True)

LISTED: Final = 100
BATCH: Final = 100  # ids per request
NOT_DONE: Final = frozenset({"refused", "unknown"})

Ids = Annotated[list[str] | None, typer.Argument(help="Ids of dead letters.")]
Stage = Annotated[str | None, typer.Option(help="Only from this stage: ingest, chunk or embed.")]
Code = Annotated[str | None, typer.Option(help="Only with this reason code, such as bug or timeout.")]
Source = Annotated[str | None, typer.Option("--source", "-s", help="Only of documents of this source.")]
Document = Annotated[str | None, typer.Option(help="Only of the document with this id.")]
Since = Annotated[str | None, typer.Option(help="Only failures at or after this time, such as 2026-11-20T18:00Z.")]
Until = Annotated[str | None, typer.Option(help="Only failures before this time.")]
All = Annotated[bool, typer.Option("--all", help="All dead letters.")]


@dlq.command("ls", epilog="Example: sluice dlq ls --stage embed")
def ls(
    context: typer.Context,
    *,
    stage: Stage = None,
    code: Code = None,
    source: Source = None,
    document: Document = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to list.")] = LISTED,
    as_json: Json = False,
) -> None:
    """List dead letters, newest failure first. In a pipe, print tab-separated lines."""
    filters = _filters(stage=stage, code=code, source=source, documentId=document, since=since, until=until)
    page = client_of(context).dead_letters(limit=limit, **filters)
    if as_json:
        print_json(page)
        return
    print_rows(page["items"], ("id", "stage", "code", "lastSeen", "source", "path", "error"))
    if page["nextCursor"]:
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
        sys.stdout.buffer.write(client.dead_record(letter_id))
        return
    letter = client.get("ops", "dead-letters", letter_id)
    if as_json:
        print_json(letter)
        return
    whole = letter.pop("record")
    rows = [{"field": name, "value": value} for name, value in letter.items() if value not in (None, "")]
    rows += [{"field": f"record {name}", "value": _shown(value)} for name, value in whole.items() if value]
    print_rows(rows, ("field", "value"))


@dlq.command("redrive", epilog="Example: sluice dlq redrive --code timeout")
def redrive(
    context: typer.Context,
    ids: Ids = None,
    *,
    stage: Stage = None,
    code: Code = None,
    source: Source = None,
    document: Document = None,
    since: Since = None,
    until: Until = None,
    everything: All = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Process records again after the cause is fixed. A record older than its document is `superseded`."""
    filters = _filters(stage=stage, code=code, source=source, documentId=document, since=since, until=until)
    chosen = _chosen(ids, filters, everything=everything)
    _settle(client_of(context), "redrive", chosen, dry_run=dry_run, as_json=as_json)


@dlq.command("drop", epilog="Example: sluice dlq drop --all --dry-run")
def drop(
    context: typer.Context,
    ids: Ids = None,
    *,
    stage: Stage = None,
    code: Code = None,
    source: Source = None,
    document: Document = None,
    since: Since = None,
    until: Until = None,
    everything: All = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Drop without asking.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Drop dead letters for good: their records will not be processed again."""
    filters = _filters(stage=stage, code=code, source=source, documentId=document, since=since, until=until)
    chosen = _chosen(ids, filters, everything=everything)
    client = client_of(context)
    if not (dry_run or yes):
        count = len(chosen[0]["ids"]) if ids else client.dead_letters(limit=1, **filters)["total"]
        otherwise = f"add --yes to drop {count} dead letters without being asked"
        confirm(f"Drop {count} dead letters?", yes=False, as_json=as_json, otherwise=otherwise)
    _settle(client, "drop", chosen, dry_run=dry_run, as_json=as_json)


def _filters(**given: str | None) -> dict[str, str]:
    return {name: value for name, value in given.items() if value is not None}


def _chosen(ids: list[str] | None, filters: dict[str, str], *, everything: bool) -> list[dict[str, Any]]:
    """Return the request bodies that select the letters, to be sent one after the other."""
    if [bool(ids), bool(filters), everything].count(True) != 1:
        raise Misuse("give either ids, or filters, or --all")
    if ids:
        distinct = list(dict.fromkeys(ids))
        return [{"ids": distinct[start : start + BATCH]} for start in range(0, len(distinct), BATCH)]
    return [filters or {"all": True}]


def _settle(client: "Client", how: str, chosen: list[dict[str, Any]], *, dry_run: bool, as_json: bool) -> None:

    items = [each for choice in chosen for each in client.settle_dead_letters(how, {**choice, "dryRun": dry_run})]
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
