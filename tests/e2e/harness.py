"""Starts the product as a user would, as processes of its own, and talks HTTP to it."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

SLUICE = "services.operator_cli"
HASTY = "tests.faults.hasty_upkeep"  # the same, with upkeep each half second
ENDED_GUARD_S = 300.0  # a hang guard for all that is on its way
START_GUARD_S = 60.0  # a hang guard: ten times what a start may take


class Server:
    """One standalone Sluice on a data folder; it may be killed and started again."""

    def __init__(self, data: Path, *, module: str = SLUICE, **settings: str) -> None:
        """Take a folder, what stands in for the command `sluice`, and settings without their prefix."""
        self.data = data
        self._settings = {
            "SAMPLES": "off",
            "LOG_LEVEL": "warning",
            "PORT": "0",
            "METRICS_ALLOW": "127.0.0.0/8",  # without a key, where tests set keys
            **settings,
        }
        self._module: tuple[str, ...] = (module, "serve")  # and its arguments
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.launched = 0.0  # seconds of the monotonic clock
        self.log = data.parent / f"{data.name}.log"

    def start(self) -> Self:
        """Return self when it is ready to answer."""
        self.launch()
        deadline = time.monotonic() + START_GUARD_S
        while not self.ready():
            assert time.monotonic() < deadline, f"the server was not ready in {START_GUARD_S:.0f} s: {self.tail()}"
            time.sleep(0.05)  # polling another process; there is nothing to await
        return self

    def launch(self) -> None:
        """Start it; it isn't ready yet."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
        environment |= {"SLUICE_DATA": str(self.data), "SLUICE_CONFIG": ""}
        environment |= {f"SLUICE_{key}": value for key, value in self._settings.items()}
        self.launched = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._module],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Return whether its main process runs."""
        return self._process is not None and self._process.poll() is None

    def ready(self) -> bool:
        """Return whether it says that it can work."""
        assert self.alive, f"the server ended by itself: {self.tail()}"
        try:
            state = json.loads((self.data / "serve.json").read_text())
            if state["pid"] != self.pid:
                return False
            self.url = state["url"]
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as reply:
                return bool(reply.status == 200)
        except (OSError, ValueError, HTTPException):
            return False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def family(self) -> list[psutil.Process]:
        """Return the main process and all its descendants."""
        try:
            main = psutil.Process(self.pid)
            return [main, *main.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self, *, everything: bool = True) -> None:
        """SIGKILL the main process, and its children or not; return when all of them are gone."""
        family = self.family()
        for process in family if everything else family[:1]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        assert self._process is not None
        self._process.wait(30)
        _gone, alive = psutil.wait_procs(family[1:], timeout=30)
        assert not alive, f"children outlived their parent: {alive}"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Return the exit code after a polite signal."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(60)

    def tail(self, lines: int = 20) -> str:
        """Return the end of what it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def client(self, **options: Any) -> httpx.Client:
        """Return a client whose base address is this server."""
        # verify: reading the machine's certificates takes longer than a request, and there is no TLS here.
        settings: dict[str, Any] = {"base_url": self.url, "timeout": 60, "verify": False}
        return httpx.Client(**(settings | options))

    def metric(self, name: str) -> float:
        """Return the sum of a metric's samples."""
        with self.client() as client:
            lines = client.get("/metrics").text.splitlines()
        values = [line.rsplit(" ", 1)[1] for line in lines if line.startswith(name) and not line.startswith("#")]
        assert values, f"/metrics has no {name}"
        return sum(map(float, values))


@contextmanager
def served(data: Path, **settings: str) -> Iterator[Server]:
    """Give a started server, and stop it whatever happens."""
    server = Server(data, **settings).start()
    try:
        yield server
    finally:
        server.stop()


def everything_ended(server: Server) -> None:
    """Return when no document is on its way any more."""
    deadline = time.monotonic() + ENDED_GUARD_S
    with server.client() as client:
        while client.get("/rag/documents?status=accepted&limit=1").json()["items"]:
            assert time.monotonic() < deadline, "documents are still on their way"
            time.sleep(0.2)  # polling another process; there is nothing to await
