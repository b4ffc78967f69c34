"""`sluice stats`."""

from typing import Any

import typer

from services.operator_cli.options import Json, client_of


def stats(context: typer.Context, *, as_json: Json = False) -> None:
    """Count documents, chunks and bytes of text by source, and the embedding model's work.

    Operators see all tenants, and the model's work since the server's process started: texts embedded, vectors copied
    instead, calls, tokens, and their cost at SLUICE_EMBEDDING_PRICE.
    """
    from services.operator_cli.terminal import print_json, print_rows

    found = client_of(context).stats()
    if as_json:
        print_json(found)
        return
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
    print_rows(rows, ("name", "count", "chunks", "bytes"), right=("count", "chunks", "bytes"))


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
