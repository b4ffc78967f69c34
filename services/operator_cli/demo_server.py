"""Starts Sluice for the demo, and stops it in any case."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from services.operator_cli.client import Client
from services.operator_cli.errors import CommandError

START_S: Final = 120.0  # seconds; usually 2, but a slow disk may take long to read the model
STOP_S: Final = 15.0
POLL_S: Final = 0.05

_LISTENS: Final = re.compile(r"^Sluice \S+ listens on (\S+)", re.MULTILINE)


class DemoServer(msgspec.Struct, frozen=True):
    """A running Sluice."""

    url: str
    what: str  # a description for the transcript
    metric: Callable[[str], float]  # returns the sum of a metric's samples, by the metric's name


@contextmanager
def one_process(folder: Path) -> Iterator[DemoServer]:
    """Run a standalone server on a free port for the block; its log is in `folder`. Raises CommandError."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    own = {"DATA": str(folder / "data"), "PORT": "0", "SAMPLES": "off", "CHAT": "extractive:", "CONFIG": ""}
    log = folder / "serve.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, a role of ours
            [sys.executable, "-m", str(__package__), "serve"],
            env=kept | {f"SLUICE_{name}": value for name, value in own.items()},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        with Client(_address(process, log)) as client:
            yield DemoServer(client.url, "one process, one folder, one port", client.metric)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Return the server's address once its log has it. Raises CommandError if the process ends or takes too long."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if found := _LISTENS.search(log.read_text(errors="replace")):
            return found[1]
        if (code := process.poll()) is not None:
            raise CommandError(f"the server ended with code {code} before it was ready")
        time.sleep(POLL_S)  # polling, because another process gives no signal
    raise CommandError(f"the server was not ready in {START_S:.0f} s")
