"""`sluice ask`."""

import typer

from services.operator_cli.options import Json, Source, Tags, TopK, client_of, filters_of


def ask(
    context: typer.Context,
    question: str,
    *,
    top_k: TopK = 5,
    source: Source = None,
    tags: Tags = None,
    as_json: Json = False,
) -> None:
    """Ask a question; the answer cites its sources."""
    from services.operator_cli.terminal import console, print_json, source_lines

    reply = client_of(context).ask(question, top_k=top_k, filters=filters_of(source, tags))
    if as_json:
        print_json(reply)
        return
    out = console()
    out.print(reply["response"], markup=False)
    for line in source_lines(reply):
        out.print(f"  {line}", markup=False, style="dim")
