"""`sluice audit`."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.operator_cli.options import Json, client_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.operator_cli.client import Client

DAY_MS: Final = 24 * 3600 * 1000
LOOK_S: Final = 1.0  # between two looks, with --follow
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
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new entries until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Show who changed what: changes, admin calls and refusals, the oldest first. --json prints one entry a line.

    Needs the role operator; with the role admin, only your own tenant is shown.
    """
    from services.operator_cli.terminal import print_line, print_rows

    entries = _entries(client_of(context), since, {"tenant": tenant, "key": key, "action": action}, follow=follow)
    if as_json:
        for entry in entries:
            print_line(entry)
    elif follow:
        for entry in entries:
            print("\t".join(str(value) for value in _row(entry).values()), flush=True)
    else:
        print_rows([_row(entry) for entry in entries], _COLUMNS, right=("count",))


def _entries(
    client: "Client", since: str | None, wanted: dict[str, str | None], *, follow: bool
) -> "Iterator[dict[str, Any]]":
    from shared.times import iso

    if since is None:
        since = iso(int(time.time() * 1000) - DAY_MS)
    begin: dict[str, str | None] = {"since": None if since == "beginning" else since}
    while True:
        page = client.audit(limit=PAGE, **wanted, **begin)
        yield from page["items"]
        begin = {"cursor": page["cursor"]}
        if not page["more"]:
            if not follow:
                return
            time.sleep(LOOK_S)  # polling the server


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    ids = entry.get("documentIds", [])
    shown = f"{ids[0]} and {len(ids) - 1} more" if len(ids) > 1 else "".join(ids)
    row = {"door": "http", "count": 1, **entry, "documents": shown}
    return {name: row.get(name, "") for name in _COLUMNS}
