"""`sluice keys`: makes, lists and revokes API keys in the key file."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from services.operator_cli.errors import Misuse
from services.operator_cli.options import Json
from services.operator_cli.terminal import console, print_found, print_json

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
    from services.operator_cli.installation import record_keys
    from shared.runtime.key_file import editing, listed_keys, new_key
    from shared.settings import ROLES, load_settings

    if unknown := sorted(set(roles).difference(ROLES)):
        raise Misuse(f"{unknown[0]} is not a role; roles are {', '.join(ROLES)}")
    settings = load_settings(host="127.0.0.1", cors_origins="")  # other values may need the key that is made here
    keyless = not settings.needs_key
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    key, record = new_key(tenant, tuple(role for role in ROLES if role in roles), created, note)
    others = listed_keys(settings)
    with editing(settings.key_file) as kept:
        kept.append(record)
    record_keys(settings, "keys new", [(record.tenant, record.id)])
    if as_json:
        print_json({"key": key, "id": record.id, "tenant": tenant, "roles": record.roles})
        return
    remarks = [f"{record.id}: a key of {tenant} for {', '.join(record.roles)}, in {settings.key_file}"]
    if keyless:
        remarks.append("This is the first key: every request needs one from now on.")
    tenants, operated = {each.tenant for each in others}, any("operator" in each.roles for each in others)
    if len(tenants) == 1 and tenant not in tenants and not (operated or "operator" in roles):
        remarks.append(
            "There is a second tenant now, so admins are no longer operators: make a key with --role operator."
        )
    for sentence in remarks:
        console(stderr=True).print(sentence, markup=False)
    print(key)


@keys.command("ls")
def ls(*, as_json: Json = False) -> None:
    """List the keys of the file and of SLUICE_API_KEYS, without the keys themselves."""
    import msgspec

    from shared.runtime.key_file import listed_keys
    from shared.settings import load_settings

    rows = [msgspec.structs.asdict(each) for each in listed_keys(load_settings())]
    joined = [{**row, "roles": "+".join(row["roles"])} for row in rows]
    print_found(rows, joined, ("id", "tenant", "roles", "created", "note"), as_json=as_json)


@keys.command("revoke")
def revoke(ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, as ls shows them.")]) -> None:
    """Revoke keys. Running servers refuse them, and the sessions of browsers that used them, at once."""
    from services.operator_cli.installation import record_keys
    from shared.errors import Rejected
    from shared.runtime.key_file import listed_keys, revoke_keys
    from shared.settings import load_settings

    settings = load_settings()
    try:
        gone = revoke_keys(settings, ids)
    except Rejected as error:  # one isn't in the file, so none was revoked
        raise Misuse(error.sentence) from None
    record_keys(settings, "keys revoke", [(key.tenant, key.id) for key in gone])
    for key in gone:
        console().print(f"revoked {key.id} of {key.tenant}", markup=False)
    if not listed_keys(settings):
        console().print("No key is left, so every request is refused; sluice keys new makes one.", markup=False)
