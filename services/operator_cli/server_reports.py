"""`sluice stats`, `audit` and `tenants`: what operators ask a running server."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.operator_cli.documents import Wait, erase_tenant
from services.operator_cli.options import Json, Manner, client_of, with_options
from services.operator_cli.terminal import print_found, print_line, print_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.operator_cli.client import Client

DAY_MS: Final = 24 * 3600 * 1000
PAGE: Final = 1000
_COLUMNS: Final = ("time", "door", "tenant", "key", "action", "result", "status", "count", "documents", "request")


def audit(
    context: typer.Context,
    *,
    since: Annotated[
        str | None, typer.Option(help="A time such as 2026-11-20T18:00Z, or beginning. Default: 24 hours ago.")
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="Only of this tenant.")] = None,
    key: Annotated[str | None, typer.Option(help="Only of the key with this id, as keys ls shows it.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action, such as rag_document_delete.")] = None,
    as_json: Json = False,
) -> None:
    """Show who changed what: changes, admin calls and refusals, the oldest first. --json prints one entry a line.

    Needs the role operator; with the role admin, only your own tenant is shown.
    """
    entries = _entries(client_of(context), since, {"tenant": tenant, "key": key, "action": action})
    if as_json:
        for entry in entries:
            print_line(entry)
    else:
        print_rows([_row(entry) for entry in entries], _COLUMNS, right=("count",))


def _entries(client: "Client", since: str | None, wanted: dict[str, str | None]) -> "Iterator[dict[str, Any]]":
    from shared.times import iso

    if since is None:
        since = iso(int(time.time() * 1000) - DAY_MS)
    begin: dict[str, str | None] = {"since": None if since == "beginning" else since}
    while True:
        page = client.get("ops", "audit", **wanted, **begin, limit=str(PAGE))
        yield from page["items"]
        begin = {"cursor": page["cursor"]}
        if not page["more"]:
            return


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    ids = entry.get("documentIds", [])
    shown = f"{ids[0]} and {len(ids) - 1} more" if len(ids) > 1 else "".join(ids)
    row = {"door": "http", "count": 1, **entry, "documents": shown}
    return {name: row.get(name, "") for name in _COLUMNS}


def stats(context: typer.Context, *, as_json: Json = False) -> None:
    """Count documents, chunks and bytes of text by source, and the embedding model's work.

    Operators see all tenants, and the model's work since the server's process started: texts embedded, vectors copied
    instead, calls, tokens, and their cost at SLUICE_EMBEDDING_PRICE.
    """
    found = client_of(context).get("rag", "stats", sizes="true")
    rows: list[dict[str, Any]] = [
        {"name": f"documents {status}", "count": count} for status, count in found["documents"].items() if count
    ]
    rows.append({"name": "chunks", "count": found["chunks"]})
    tenants = found.get("tenants") or []
    for tenant in tenants:
        if len(tenants) > 1:
            rows.append(_size(f"tenant {tenant['tenant']}", tenant))
        prefix = f"{tenant['tenant']}/" if len(tenants) > 1 else ""
        rows += [_size(f"source {prefix}{each['source']}", each) for each in tenant["sources"]]
    rows += _work((found.get("pipeline") or {}).get("usage"))
    columns = ("name", "count", "chunks", "bytes")
    print_found(found, rows, columns, right=columns[1:], as_json=as_json)


def _size(name: str, size: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "count": size["documents"], "chunks": size["chunks"], "bytes": size["bytes"]}


def _work(usage: dict[str, Any] | None) -> list[dict[str, Any]]:
    if usage is None:
        return []
    names = {
        "embedded": "texts embedded",
        "copied": "vectors copied",
        "calls": "calls of the model",
        "tokens": "tokens embedded",
    }
    rows = [{"name": text, "count": usage[name]} for name, text in names.items()]
    cost = usage.get("cost")
    return rows if cost is None else [*rows, {"name": "cost", "count": f"{cost:.6f}"}]


tenants = typer.Typer(name="tenants", help="List, show and erase tenants.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]


@tenants.command("ls", epilog="Example: sluice tenants ls")
def ls(context: typer.Context, *, as_json: Json = False) -> None:
    """List the tenants that have documents, dead letters or keys. Needs the role operator."""
    found = client_of(context).get("ops", "tenants")
    numbers = ("documents", "deleted", "erased", "letters", "keys")
    print_found(found, found["items"], ("tenant", *numbers), right=numbers, as_json=as_json)


@tenants.command("show", epilog="Example: sluice tenants show acme")
def show(context: typer.Context, tenant: Name, *, as_json: Json = False) -> None:
    """Show what a tenant has, with chunks and blobs. Needs the role operator. Exit code 1: there is no such tenant."""
    found = client_of(context).get("ops", "tenants", tenant)
    rows = [{"field": name, "value": value} for name, value in found.items()]
    print_found(found, rows, ("field", "value"), as_json=as_json)


@tenants.command("rm", epilog="Example: sluice tenants rm acme --dry-run")
@with_options
def rm(context: typer.Context, tenant: Name, *, wait: Wait = False, manner: Manner) -> None:
    """Erase everything of a tenant: documents, versions, names, blobs, dead letters. Needs the role operator.

    Revoke its keys before. Exit code 1: something is left, and the command says what.
    """
    raise typer.Exit(erase_tenant(client_of(context), tenant, manner, wait=wait))
