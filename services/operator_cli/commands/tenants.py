"""`sluice tenants`: list, show and erase tenants."""

from typing import Annotated

import typer

from services.operator_cli.examples import example
from services.operator_cli.options import DryRun, Json, Yes, client_of

tenants = typer.Typer(name="tenants", help="List, show and erase tenants.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]


@tenants.command("ls", epilog=example("tenants_ls"))
def ls(context: typer.Context, *, as_json: Json = False) -> None:
    """List the tenants that have documents, dead letters or keys. Needs the role operator."""
    from services.operator_cli.terminal import print_json, print_rows

    found = client_of(context).tenants()
    if as_json:
        print_json(found)
        return
    numbers = ("documents", "deleted", "erased", "letters", "keys")
    print_rows(found["items"], ("tenant", *numbers), right=numbers)


@tenants.command("show", epilog=example("tenants_show"))
def show(context: typer.Context, tenant: Name, *, as_json: Json = False) -> None:
    """Show what a tenant has, with chunks and blobs. Needs the role operator. Exit code 1: there is no such tenant."""
    from services.operator_cli.terminal import print_json, print_rows

    found = client_of(context).tenant(tenant)
    if as_json:
        print_json(found)
        return
    print_rows([{"field": name, "value": value} for name, value in found.items()], ("field", "value"))


@tenants.command("rm", epilog=example("tenants_rm"))
def rm(
    context: typer.Context,
    tenant: Name,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Rewrite the data files now and search them for leftovers.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Erase everything of a tenant: documents, versions, names, blobs, dead letters. Needs the role operator.

    Revoke its keys before. Exit code 1: something is left, and the command says what.
    """
    from services.operator_cli.actions.remove import erase_tenant

    code = erase_tenant(client_of(context), tenant, yes=yes, dry_run=dry_run, wait=wait, as_json=as_json)
    raise typer.Exit(code)
