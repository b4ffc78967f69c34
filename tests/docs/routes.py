"""The table of all routes in docs/http.md, from `/openapi.json`."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from services.query_api.http.openapi import ROLE

_LONGEST = 110  # characters of an example
_USUAL = {"200", "400", "401", "403", "408", "413", "415", "429", "503"}  # told above the table


def routes_table(spec: Mapping[str, Any]) -> str:
    """Return a row for each route: the role of its key, what it does, its unusual statuses, what a request has."""
    rows = ["| route | role | what it does | also replies | example |", "| --- | --- | --- | --- | --- |"]
    for path, item in sorted(spec["paths"].items()):
        for method, operation in item.items():
            told = operation["summary"].removesuffix(".").replace("|", "\\|")
            statuses = " ".join(sorted(operation["responses"].keys() - _USUAL))
            role = operation.get(ROLE, "none")
            rows.append(f"| `{method.upper()} {path}` | {role} | {told} | {statuses} | {_example(operation)} |")
    return "\n".join(rows) + "\n"


def _example(operation: Mapping[str, Any]) -> str:
    """Return the example's body or query as code; nothing if it has none."""
    content = operation.get("requestBody", {}).get("content", {})
    bodies = [each["example"] for each in content.values() if "example" in each]
    query = {
        each["name"]: each["example"]
        for each in operation.get("parameters", ())
        if each["in"] == "query" and "example" in each
    }
    if bodies:
        text = bodies[0] if isinstance(bodies[0], str) else json.dumps(bodies[0], ensure_ascii=False)
        text = " ".join(text.split())
    else:
        text = "?" + urlencode(query) if query else ""
    shown = text if len(text) <= _LONGEST else text[:_LONGEST].rsplit(" ", 1)[0] + " …"
    return f"`{shown}`".replace("|", "\\|") if shown else ""
