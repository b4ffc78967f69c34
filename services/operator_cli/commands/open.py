"""`sluice open`."""

from typing import Annotated

import typer

from services.operator_cli.options import client_of


def open_page(
    context: typer.Context,
    named: Annotated[
        str | None, typer.Argument(metavar="[DOCUMENT]", help="Open this document: its id, path or address.")
    ] = None,
) -> None:
    """Open the console in a browser, and print its address."""
    import webbrowser

    client = client_of(context)
    if named is None:
        client.landing()  # raises with a reason if no Sluice answers
        address = f"{client.url}/"
    else:
        address = f"{client.url}/documents/{client.found(named)['documentId']}"
    print(address)
    webbrowser.open(address)
