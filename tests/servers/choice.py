"""Which server a test gets: given by an address, built, in a container, or none."""

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tests.selection import IN_CI
from tests.servers.cache import Recipe


def own(server: str, recipe: Recipe, missing: str | None) -> Path:
    """Return what a server of the test's own starts from, or skip; in CI, build it or fail.

    Outside CI nothing is built while tests run: it takes minutes, and nobody asked for it.
    """
    if not recipe.ready and not (IN_CI and missing is None):
        _none(server, missing or "python -m tests.servers builds it")
    return recipe.made()


def chosen(server: str, recipe: Recipe, missing: str | None, variable: str) -> Path | None:
    """Return what to start from, None for a container, or skip; in CI, fail."""
    if not recipe.ready and not (IN_CI and missing is None) and docker_answers():
        return None
    return own(server, recipe, missing and f"{missing}, {variable} is not set, and no Docker answers")


def _none(server: str, why: str) -> NoReturn:
    sentence = f"no {server}: {why}"
    if IN_CI:
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def docker_answers() -> bool:
    """Return whether a daemon answers a ping."""
    # Docker's own client leaks a socket where no daemon listens, and warnings are errors here.
    scheme, _, where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    family = socket.AF_UNIX if scheme == "unix" else socket.AF_INET
    host, _, port = where.rpartition(":")
    with suppress(OSError, ValueError), socket.socket(family) as connection:
        connection.settimeout(5)
        connection.connect(where if scheme == "unix" else (host, int(port)))
        connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return b" 200 " in connection.recv(64)
    return False
