"""Starts Sluice as separate processes, as an operator of many machines would, and does them harm."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.e2e.harness import SLUICE
from tests.servers.ollama import EMBEDDING_MODEL
from tests.servers.ports import free_port

START_GUARD_S = 90.0  # a hang guard: more than ten times what a start may take
_SAID = re.compile(r"^[a-z-]+ is (?:starting|ready): .*probes and metrics on (?P<url>http://\S+)$", re.MULTILINE)
ROLES = ("store", "ingest-worker", "embed-worker", "query-api")
PROCESSES = tuple(f"{role}-1" for role in ROLES)  # their names


class Process:
    """One process of Sluice; it may be killed, stopped, continued and started again.

    Where a setting has `{process}`, it gets the process' name.
    """

    def __init__(self, role: str, name: str, folder: Path, settings: Mapping[str, str], module: str = SLUICE) -> None:
        self.role = role
        self.name = name
        self.log = folder / f"{name}.log"
        self._settings = settings
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = 0  # bytes of the log before this start
        self.launched = 0.0  # seconds of the monotonic clock

    def launch(self) -> None:
        """Start it; it isn't ready yet."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
        self._begun = self.log.stat().st_size if self.log.exists() else 0
        self.launched = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, self.role],
                env=environment
                | {f"SLUICE_{key}": value.replace("{process}", self.name) for key, value in self._settings.items()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def side(self) -> str | None:
        """Return the URL of its side port, None until it has said where it is."""
        said = self._said()
        return said[0]["url"] if said else None

    def _said(self) -> list[re.Match[str]]:
        with self.log.open("rb") as log:
            log.seek(self._begun)
            return list(_SAID.finditer(log.read().decode(errors="replace")))

    def ready(self) -> bool:
        """Return whether it says that it can work."""
        if not self.alive:
            raise AssertionError(f"{self.name} ended: {self.tail()}")
        said = self._said()
        return len(said) == 2 and status(f"{said[1]['url']}/readyz") == 200

    def starting(self) -> str:
        """Return the URL of its side port, as soon as it has one."""
        deadline = time.monotonic() + START_GUARD_S
        while (side := self.side) is None:
            assert self.alive, f"{self.name} ended: {self.tail()}"
            assert time.monotonic() < deadline, f"{self.name} has no side port: {self.tail()}"
            time.sleep(0.05)  # another process: there is nothing to await
        return side

    def kill(self) -> None:
        """SIGKILL it, and return when it and its children are gone."""
        assert self._process is not None
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.pid).children(recursive=True)
            self._process.kill()
            self._process.wait(30)
            _, left = psutil.wait_procs(children, timeout=30)
            assert not left, f"children outlived {self.name}: {left}"

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> int:
        """Return the exit code after SIGTERM."""
        assert self._process is not None
        if self._process.poll() is None:
            self.resume()
            self._process.terminate()
        return self._process.wait(60)

    def family(self) -> list[psutil.Process]:
        """Return it and its children; none when it is gone."""
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(self.pid)
            return [main, *main.children(recursive=True)]
        return []

    def memory(self) -> int:
        """Return the bytes that it and its children hold and nobody else does."""
        total = 0
        for each in self.family():
            with suppress(psutil.NoSuchProcess):  # a parser's life is short
                total += each.memory_full_info().uss
        return total

    def cpu_s(self) -> dict[int, float]:
        """Return the seconds of CPU of it and each of its children, by process id."""
        used = {}
        for each in self.family():
            with suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                used[each.pid] = times.user + times.system
        return used

    def troubles(self) -> dict[str, str]:
        """Return what its readiness names, by check; empty when it is ready."""
        assert self.side is not None
        try:
            with urllib.request.urlopen(f"{self.side}/readyz", timeout=30):
                return {}
        except urllib.error.HTTPError as error:
            checks: dict[str, str | None] = json.load(error)["checks"]
            return {name: trouble for name, trouble in checks.items() if trouble is not None}

    def metric(self, name: str) -> float:
        """Return the sum of a metric's samples, 0 where there are none."""
        assert self.side is not None
        with urllib.request.urlopen(f"{self.side}/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{| )", line))

    def tail(self, lines: int = 15) -> str:
        """Return the end of what it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


def status(url: str) -> int | None:
    """Return the status of a GET, None when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, HTTPException):
        return None


class Cluster:
    """Processes on one log, one store and one set of settings. The first `query-api` is the door."""

    def __init__(self, folder: Path, roles: Sequence[str] = ROLES, *, module: str = SLUICE, **settings: str) -> None:
        self._module = module
        self.data = folder / "data"
        self._folder = folder
        self._port = free_port()
        self._settings = {
            "DATA": str(self.data),
            "LOG_LEVEL": "warning",
            "LOG_FORMAT": "json",
            "CHAT": "extractive:",
            "PORT": str(self._port),
            **settings,
        }
        self.processes: dict[str, Process] = {}
        self._roles = roles

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> "Cluster":
        """Return self when all of it is ready."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for role in self._roles:
            self.launch(role)
        self.wait()
        return self

    def launch(self, role: str, **settings: str) -> Process:
        """Return one more process of the role, started, not yet ready; `settings` are its own."""
        number = sum(process.role == role for process in self.processes.values()) + 1
        process = Process(role, f"{role}-{number}", self._folder, {**self._settings, **settings}, self._module)
        self.processes[process.name] = process
        process.launch()
        return process

    def of(self, role: str) -> list[Process]:
        """Return the processes of a role that run."""
        return [process for process in self.processes.values() if process.role == role and process.alive]

    def wait(self, *names: str) -> None:
        """Return when these processes, or all of them, are ready."""
        deadline = time.monotonic() + START_GUARD_S
        waited = [self.processes[name] for name in names] or list(self.processes.values())
        while late := [process for process in waited if not process.ready()]:
            assert time.monotonic() < deadline, f"{late[0].name} is not ready: {late[0].tail()}"
            time.sleep(0.05)  # other processes: there is nothing to await

    def ready(self) -> bool:
        """Return whether all of them are ready."""
        return all(process.ready() for process in self.processes.values())

    def troubles(self) -> dict[str, dict[str, str]]:
        """Return what each that isn't ready names."""
        found = {process.name: process.troubles() for process in self.processes.values()}
        return {name: troubles for name, troubles in found.items() if troubles}

    def stop(self) -> None:
        """Stop all of them politely, the store last; say so where one doesn't end well."""
        order = sorted(self.processes.values(), key=lambda process: process.role == "store")
        codes = {process.name: process.stop() for process in order if process.alive}
        assert set(codes.values()) <= {0}, codes

    def kill(self) -> None:
        """End all of them at once."""
        with ThreadPoolExecutor(len(self.processes) or 1) as pool:
            list(pool.map(Process.kill, self.processes.values()))

    def client(self, **options: Any) -> httpx.Client:
        """Return a client whose base address is the door."""
        # verify: reading the machine's certificates takes longer than a request, and there is no TLS here.
        settings: dict[str, Any] = {"base_url": self.url, "timeout": 60, "verify": False}
        return httpx.Client(**(settings | options))

    def metric(self, name: str) -> float:
        """Return the sum of a metric's samples over all processes that run."""
        return sum(process.metric(name) for process in self.processes.values() if process.alive)


@contextmanager
def cluster(folder: Path, roles: Sequence[str] = ROLES, *, module: str = SLUICE, **settings: str) -> Iterator[Cluster]:
    """Give a started cluster; whatever happens, nothing of it is left. `module` stands in for the command `sluice`."""
    made = Cluster(folder, roles, module=module, **settings)
    try:
        yield made.start()
        made.stop()
    finally:
        made.kill()


def servers(kafka: str, ollama: str) -> dict[str, str]:
    """Return the settings for a Kafka at host:port and the tests' embedding model on the Ollama of a URL."""
    return {
        "LOG": f"kafka://{kafka}",
        "EMBEDDER": f"{ollama.replace('http://', 'ollama://')}/{EMBEDDING_MODEL}",
    }
