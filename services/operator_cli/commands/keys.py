"""`sluice keys new`, `ls` and `revoke`: API keys in a file, of which only hashes are stored."""

from typing import Annotated

import typer

from services.operator_cli.options import Json

keys = typer.Typer(name="keys", help="Make, list and revoke API keys.", no_args_is_help=True)


@keys.command("new")
def new(
    *,
    tenant: Annotated[str, typer.Option("--tenant", "-t", help="The tenant whose documents the key may use.")],
    roles: Annotated[list[str], typer.Option("--role", "-r", help="ingest, query, admin or operator; repeatable.")],
    note: Annotated[str, typer.Option(help="What the key is for, shown by ls.")] = "",
    as_json: Json = False,
) -> None:
    """Make a key and print it. It is not stored, so it can't be shown again. Running servers accept it at once."""
    from services.operator_cli.actions.keys import make
    from services.operator_cli.terminal import console, print_json

    made = make(tenant, roles, note)
    if as_json:
        print_json({"key": made.key, "id": made.record.id, "tenant": tenant, "roles": made.record.roles})
        return
    for sentence in made.remarks:
        console(stderr=True).print(sentence, markup=False)
    print(made.key)


@keys.command("ls")
def ls(*, as_json: Json = False) -> None:
    """List the keys of the file and of SLUICE_API_KEYS, without the keys themselves."""
    from services.operator_cli.actions.keys import listed
    from services.operator_cli.terminal import print_json, print_rows

    rows = listed()
    if as_json:
        print_json(rows)
    else:
        shown = [{**row, "roles": "+".join(row["roles"])} for row in rows]
        print_rows(shown, ("id", "tenant", "roles", "created", "note"))


@keys.command("revoke")
def revoke(ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, as ls shows them.")]) -> None:
    """Revoke keys. Running servers refuse them, and the sessions of browsers that used them, at once."""
    from services.operator_cli.actions.keys import revoked
    from services.operator_cli.terminal import console

    for sentence in revoked(ids):
        console().print(sentence, markup=False)
