"""The workflows of deploy/n8n, read as n8n reads them."""

import json
import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.unit.deploy.files import ROOT

FOLDER = ROOT / "deploy" / "n8n"
WORKFLOWS = sorted(FOLDER.glob("*-*.json"))
README = FOLDER / "README.md"
CREDENTIALS = FOLDER / "credentials.example.json"

Node = dict[str, Any]


def workflow(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return content


def behind(content: dict[str, Any], name: str, output: int = 0) -> list[str]:
    """Return the names of the nodes at one of a node's outputs."""
    outputs = content["connections"].get(name, {}).get("main", [])
    return [each["node"] for each in outputs[output]] if output < len(outputs) else []


class Call(Struct, frozen=True):
    """A request to Sluice that a node makes."""

    file: str
    node: str
    method: str
    path: str
    kind: str  # none, json, multipart-form-data
    fields: tuple[str, ...]  # of its body
    query: tuple[str, ...]


def calls() -> list[Call]:
    """Return what all workflows ask of Sluice."""
    found: list[Call] = []
    for file in WORKFLOWS:
        for node in workflow(file)["nodes"]:
            parameters = node["parameters"]
            at = re.fullmatch(r"=\{\{ \$\('Settings'\)\.first\(\)\.json\.sluice \}\}(/.*)", parameters.get("url", ""))
            if node["type"] == "n8n-nodes-base.httpRequest" and at:
                names = [each["name"] for each in parameters.get("bodyParameters", {}).get("parameters", [])]
                query = [each["name"] for each in parameters.get("queryParameters", {}).get("parameters", [])]
                kind = parameters["contentType"] if parameters.get("sendBody") else "none"
                method, path = parameters["method"], at[1]
                found.append(Call(file.name, node["name"], method, path, kind, tuple(names), tuple(query)))
    return found
