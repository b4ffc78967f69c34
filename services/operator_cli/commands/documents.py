"""`sluice documents ls`, `show` and `rm`."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.operator_cli.examples import example
from services.operator_cli.options import Json, Source, Tags, client_of, fail, filters_of

if TYPE_CHECKING:
    from services.operator_cli.client import Client


documents = typer.Typer(name="documents", help="List, show and remove documents.", no_args_is_help=True)

LISTED: Final = 100


@documents.command("ls", epilog=example("documents_ls"))
def documents_ls(
    context: typer.Context,
    *,
    source: Source = None,
    status: Annotated[str | None, typer.Option(help="Only documents with this status, such as failed.")] = None,
    tags: Tags = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to list.")] = LISTED,
    as_json: Json = False,
) -> None:
    """List documents, most recently changed first. In a pipe, print tab-separated lines."""
    from services.operator_cli.terminal import console, print_json, print_rows

    page = client_of(context).documents(source=source, status=status, tags=tags or (), limit=limit)
    if as_json:
        print_json(page)
        return
    columns = (
        "documentId",
        "status",
        "chunkCount",
        "source",
        "path",
        "state",
        "noteCount",
    )  # new columns are added at the end
    print_rows(page["items"], columns, right=("chunkCount", "noteCount"))
    if page["nextCursor"]:
        console(stderr=True).print(f"there are more than {limit}: raise --limit")


@documents.command("show", epilog=example("documents_show"))
def documents_show(
    context: typer.Context,
    named: Annotated[str, typer.Argument(metavar="DOCUMENT", help="A document's id, path or address.")],
    text: Annotated[bool, typer.Option("--text", help="Print the extracted text instead.")] = False,
    as_json: Json = False,
) -> None:
    """Show a document's state, or its extracted text."""
    from services.operator_cli.terminal import note_line, print_json, print_rows

    client = client_of(context)
    document = client.found(named)
    if text:
        shown = client.text(document["documentId"])
        if as_json:
            print_json({"documentId": document["documentId"], "text": shown})
        else:
            print(shown)
        return
    if as_json:
        print_json(document)
        return
    stages, notes = document.pop("stages", ()), document.pop("notes", ())
    rows = [{"field": name, "value": value} for name, value in document.items() if value not in (None, [], {}, "")]
    rows += [{"field": each["stage"], "value": _passed(each)} for each in stages]
    rows += [{"field": "note", "value": note_line(each)} for each in notes]
    print_rows(rows, ("field", "value"))


def _passed(stage: Mapping[str, Any]) -> str:
    seconds = stage.get("seconds")
    return str(stage.get("at", "passed")) + ("" if seconds is None else f"  (after {seconds:g} s)")


@documents.command("rm", epilog=example("documents_rm"))
def documents_rm(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[DOCUMENT]...", help="Ids, paths or addresses.")] = None,
    *,
    source: Annotated[str | None, typer.Option("--source", "-s", help="All documents of this source.")] = None,
    tags: Tags = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="Only documents with this metadata, as name=value; repeatable.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All documents.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be deleted.")] = False,
    as_json: Json = False,
) -> None:
    """Delete documents by id, by filters, or all of them."""
    from services.operator_cli.actions.remove import metadata_filters, remove

    wanted = {**filters_of(source, tags), **metadata_filters(filters or ())}
    if [bool(ids), bool(wanted), everything].count(True) != 1:
        fail("give either document ids, or filters (--source, --tags, --filter), or --all", 2)
    client = client_of(context)
    if not ids:
        chosen_by: dict[str, Any] = {"all": True} if everything else {"filters": wanted}
        raise typer.Exit(remove(client, chosen_by, yes=yes, dry_run=dry_run, as_json=as_json))
    raise typer.Exit(_remove(client, ids, yes=yes, dry_run=dry_run, as_json=as_json))


def _remove(client: "Client", ids: Sequence[str], *, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Delete the documents and return the exit code: 1 if one was not deleted."""
    from services.operator_cli.terminal import console, print_json, print_rows

    chosen = [client.found(each) for each in dict.fromkeys(ids)]
    if as_json and dry_run:
        print_json({"dryRun": True, "items": chosen})
    elif not as_json:
        print_rows(chosen, ("documentId", "source", "path"))
    if dry_run:
        if not as_json:
            console(stderr=True).print(f"would remove {len(chosen)}")
        return 0
    if not yes:
        if as_json or not sys.stdin.isatty():
            fail(f"add --yes to delete {len(chosen)} documents without being asked", 2)
        typer.confirm(f"Remove {len(chosen)}?", abort=True)

    removed = [_removed(client, each) for each in chosen]
    failed = [each for each in removed if each["status"] == "failed"]
    if as_json:
        print_json({"items": removed})
    else:
        for each in failed:
            console(stderr=True).print(f"{each['documentId']}: {each['error']}", markup=False)
        console().print(f"{len(removed) - len(failed)} of {len(removed)} removed")
    return 1 if failed else 0


def _removed(client: "Client", document: Mapping[str, Any]) -> dict[str, Any]:
    from services.operator_cli.client import RequestRefused

    try:
        return client.delete(document["documentId"])
    except RequestRefused as error:
        return {"status": "failed", "documentId": document["documentId"], "error": str(error)}


def erase(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Document ids.")] = None,
    *,
    source: Annotated[str | None, typer.Option("--source", "-s", help="All documents of this source.")] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Rewrite the data files now and search them for leftovers. Needs the role operator."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be erased.")] = False,
    as_json: Json = False,
) -> None:
    """Erase documents for good: text, names, vectors, dead letters. Needs the role admin."""
    from services.operator_cli.actions.remove import erase as erased

    code = erased(client_of(context), ids or (), source, yes=yes, dry_run=dry_run, wait=wait, as_json=as_json)
    raise typer.Exit(code)
