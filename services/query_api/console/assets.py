"""Loads the console's files: templates with escaping, and scripts and styles whose URLs change with their content."""

import hashlib
import mimetypes
from importlib.resources import files
from typing import Any, Final, NamedTuple

from minijinja import Environment

_PACKAGE: Final = files("services.query_api.console")
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """A file in the form in which it is sent."""

    body: bytes
    media_type: str


def load_assets() -> dict[str, Asset]:
    """Return the static files by name."""
    found = sorted(_PACKAGE.joinpath("static").iterdir(), key=lambda file: file.name)
    return {file.name: Asset(file.read_bytes(), media_type(file.name)) for file in found if file.is_file()}


def media_type(name: str) -> str:
    """Return the media type of a file of that name."""
    suffix = name[name.rfind(".") :]
    return _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def fingerprint(assets: dict[str, Asset]) -> str:
    """Return 12 hex digits that change with any of the files, so that browsers may cache the files for ever."""
    digest = hashlib.sha256()
    for name, asset in sorted(assets.items()):
        digest.update(f"{name} {len(asset.body)}\n".encode())
        digest.update(asset.body)
    return digest.hexdigest()[:12]


def templates() -> Environment:
    """Return the templates; all values in HTML pages are escaped."""
    sources = {
        file.name: file.read_text("utf-8") for file in _PACKAGE.joinpath("templates").iterdir() if file.is_file()
    }
    environment = Environment(templates=sources, auto_escape_callback=_escaping)
    environment.trim_blocks = environment.lstrip_blocks = True
    return environment


def _escaping(name: str) -> Any:
    return "html" if name.endswith(".html") else None
