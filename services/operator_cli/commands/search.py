"""`sluice search`."""

from typing import Annotated

import typer

from services.operator_cli.options import Json, Source, Tags, TopK, client_of, filters_of


def search(
    context: typer.Context,
    query: str,
    *,
    top_k: TopK = 5,
    source: Source = None,
    tags: Tags = None,
    explain: Annotated[bool, typer.Option(help="With --json: include each hit's scores and ranks.")] = False,
    as_json: Json = False,
) -> None:
    """Search for passages."""
    from services.operator_cli.terminal import console, hit_lines, print_json

    reply = client_of(context).search(query, top_k=top_k, filters=filters_of(source, tags), explain=explain)
    if as_json:
        print_json(reply)
        return
    out = console()
    if not reply["results"]:
        out.print("nothing found")
    for line in hit_lines(reply["results"]):
        out.print(line)
