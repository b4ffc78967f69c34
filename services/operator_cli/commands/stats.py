"""`sluice stats`."""

from typing import Any

import typer

from services.operator_cli.options import Json, client_of


def stats(context: typer.Context, *, as_json: Json = False) -> None:
    """Count documents, chunks and sources of the key's tenant, and the texts that the model has embedded.

    The counts of texts cover the server's process since it started. Only operators see them. Reused vectors cost no
    call of the model.
    """
    from services.operator_cli.terminal import print_json, print_rows

    client = client_of(context)
    found: dict[str, Any] = client.stats()
    usage = client.embedding_usage()
    if as_json:
        print_json({**found, "usage": usage})
        return
    counts = [(f"documents {status}", count) for status, count in found["documents"].items() if count]
    sources = [(f"source {each['source']}", each["documents"]) for each in found["sources"]]
    used = [] if usage is None else [("texts embedded", usage["embedded"]), ("vectors reused", usage["reused"])]
    rows = [*counts, ("chunks", found["chunks"]), *sources, *used]
    print_rows([{"name": name, "count": count} for name, count in rows], ("name", "count"), right=("count",))
