"""compose.yaml and deploy/Dockerfile, read as far as the tests need."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "compose.yaml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
IGNORED = ROOT / ".dockerignore"
EXAMPLE = ROOT / "deploy" / "env.example"

_VARIABLE = re.compile(r"\$\$|\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")


class Unset(Exception):  # noqa: N818 - as Compose says it
    """A variable that must be set isn't."""


def interpolated(value: Any, environ: Mapping[str, str]) -> Any:
    """Return what Compose makes of `${NAME}`, `${NAME:-default}`, `${NAME:?sentence}` and `$$`."""
    if isinstance(value, dict):
        return {key: interpolated(each, environ) for key, each in value.items()}
    if isinstance(value, list):
        return [interpolated(each, environ) for each in value]
    if not isinstance(value, str):
        return value

    def replaced(found: re.Match[str]) -> str:
        if found["name"] is None:
            return "$"
        given = environ.get(found["name"], "")
        if not given and found["kind"] == "?":
            raise Unset(found["rest"])
        return given or found["rest"] or ""

    return _VARIABLE.sub(replaced, value)


def raw_compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return read


def services(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the services as Compose would start them."""
    found: dict[str, dict[str, Any]] = interpolated(raw_compose()["services"], environ)
    return found


def environment(service: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return a service's environment: one without a value is passed through, if it is set."""
    given = {name: environ.get(name) if value is None else value for name, value in service["environment"].items()}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Step:
    """One instruction of the Dockerfile."""

    name: str  # in capitals
    rest: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.rest)


def stages() -> list[list[Step]]:
    """Return the Dockerfile's stages, each beginning with its FROM."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: list[list[Step]] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            found.append([])
        if name:
            found[-1].append(Step(name.upper(), rest))
    return found
