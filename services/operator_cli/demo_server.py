"""Starts Sluice for the demo, as one process or as separate ones, and stops it in any case."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from services.operator_cli.client import Client
from services.operator_cli.errors import CommandError
from shared.settings import load_settings

T = TypeVar("T")

START_S: Final = 120.0  # seconds; usually 2, but a slow disk may take long to read the model
STOP_S: Final = 15.0
POLL_S: Final = 0.05

_LISTENS: Final = re.compile(r"^Sluice \S+ listens on (\S+)", re.MULTILINE)
_READY: Final = re.compile(r"^[a-z-]+ is ready: (?:listens on (\S+), )?probes and metrics on (\S+)$", re.MULTILINE)
# Settings that name servers are passed on; everything else is the demo's own.
_PARTS: Final = tuple(f"SLUICE_{part}" for part in ("LOG", "STORE", "QDRANT_", "EMBEDDER", "CHAT", "OPENAI_", "BLOBS"))


class DemoServer(msgspec.Struct, frozen=True):
    """A running Sluice."""

    url: str
    metrics: tuple[str, ...]  # base addresses of all processes' /metrics
    what: str  # a description for the transcript

    def metric(self, name: str) -> float:
        """Return the sum of a metric's samples over all processes. Raises ServerAway or RequestRefused."""
        total = 0.0
        for url in self.metrics:
            with Client(url) as client:
                total += client.metric(name)
        return total


@contextmanager
def one_process(folder: Path) -> Iterator[DemoServer]:
    """Run a standalone server on a free port for the block; its logs are `*.log` in `folder`. Raises CommandError."""
    with _process("serve", folder, {"SLUICE_CHAT": "extractive:", "SLUICE_CONFIG": ""}) as ended:
        url = _first(partial(_printed, _LISTENS, folder / "serve.log"), ended, "the server")[1]
        yield DemoServer(url, (url,), "one process, one folder, one port")


@contextmanager
def separate_processes(folder: Path) -> Iterator[DemoServer]:
    """Run workers and an API as separate processes for the block, on the environment's servers. Raises CommandError."""
    named = {name: value for name, value in os.environ.items() if name.startswith(_PARTS)}
    roles = ["store"] if load_settings().embeds_store else []
    roles += ["ingest-worker", "embed-worker", "query-api"]
    with ExitStack() as stack:
        ended = [stack.enter_context(_process(role, folder, {"SLUICE_CHAT": "extractive:"} | named)) for role in roles]
        sides = [
            _first(partial(_printed, _READY, folder / f"{role}.log"), code, role)
            for role, code in zip(roles, ended, strict=True)
        ]
        yield DemoServer(sides[-1][1], tuple(side[2] for side in sides), _words(roles))


def _words(roles: Sequence[str]) -> str:
    settings = load_settings()
    parts = (settings.log, settings.store, settings.embedder)
    return f"{len(roles)} processes ({', '.join(roles)}) on {', '.join(part.partition(':')[0] for part in parts)}"


@contextmanager
def _process(role: str, folder: Path, settings: Mapping[str, str]) -> Iterator[Callable[[], int | None]]:
    """Yield a function that returns the process's exit code, None while it runs; stop the process after the block."""
    own = {"SLUICE_DATA": str(folder / "data"), "SLUICE_PORT": "0", "SLUICE_SAMPLES": "off"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    with (folder / f"{role}.log").open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, a role of ours
            [sys.executable, "-m", str(__package__), role],
            env={**kept, **own, **settings},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        yield process.poll
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _first(look: Callable[[], T | None], ended: Callable[[], int | None], name: str) -> T:
    """Return the first result of `look` that isn't None. Raises CommandError if the process ends or takes too long."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if (found := look()) is not None:
            return found
        if (code := ended()) is not None:
            raise CommandError(f"{name} ended with code {code} before it was ready")
        time.sleep(POLL_S)  # polling, because another process gives no signal
    raise CommandError(f"{name} was not ready in {START_S:.0f} s")


def _printed(line: re.Pattern[str], log: Path) -> re.Match[str] | None:
    return line.search(log.read_text(errors="replace"))
