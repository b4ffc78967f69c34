"""Which server a test gets: given by an address, built, in a container, or none."""

from pathlib import Path
from typing import NoReturn

import pytest

from tests.servers.cache import IN_CI, Recipe


def own(server: str, recipe: Recipe, missing: str | None) -> Path:
    """Return what a server of the test's own starts from, or skip; in CI, build it or fail.

    Outside CI nothing is built while tests run: it takes minutes, and nobody asked for it.
    """
    if recipe.ready:
        return recipe.folder
    if IN_CI and missing is None:
        return recipe.made()
    _none(server, missing or "python -m tests.servers builds it")


def chosen(server: str, recipe: Recipe, missing: str | None, variable: str) -> Path | None:
    """Return what to start from, None for a container, or skip; in CI, fail."""
    if not recipe.ready and not (IN_CI and missing is None) and _docker_answers():
        return None
    return own(server, recipe, missing and f"{missing}, {variable} is not set, and no Docker answers")


def _none(server: str, why: str) -> NoReturn:
    sentence = f"no {server}: {why}"
    if IN_CI:
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def _docker_answers() -> bool:
    import docker  # noqa: PLC0415 - only where nothing else is at hand

    try:
        return bool(docker.from_env(timeout=5).ping())
    except docker.errors.DockerException:
        return False
