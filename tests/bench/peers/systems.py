"""The systems under measurement: a peer's script in its own environment, and Sluice by its own commands."""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import psutil

from shared.embedder.minilm import MiniLm
from tests.bench.peers.corpus import CHUNK_SIZE, ROOT
from tests.bench.standalone import chunks_of, cpu_seconds
from tests.e2e.harness import SLUICE, Server

SOURCE = "docs"
COMMANDS = (  # what a user writes
    "sluice serve",
    "sluice ingest FOLDER --source docs --delete-missing --yes",
    'sluice search "what I look for"',
)
_QUIET = {  # no usage is reported from here
    "ANONYMIZED_TELEMETRY": "False",
    "COCOINDEX_DISABLE_USAGE_TRACKING": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "RUST_LOG": "error",
}


class Load(NamedTuple):
    """What a load took."""

    seconds: float
    cpu_s: float  # of all its processes
    embedded: int  # texts given to the model


class System(Protocol):
    """A store of its own that can be loaded from a folder, killed meanwhile, and searched."""

    def __enter__(self) -> Self:
        """Begin with an empty store."""

    def __exit__(self, *_: object) -> None:
        """Remove it."""

    @property
    def memory_mb(self) -> float:
        """Return the most memory that its processes had together."""

    def load(self, folder: Path) -> Load:
        """Make the store hold what the folder holds."""

    def killed(self, folder: Path, embedded: int) -> int:
        """Load, and kill it with -9 after so many embedded texts; return how many they were then."""

    def stored(self) -> list[str]:
        """Return the texts of all stored chunks."""

    def search(self, queries: Sequence[str]) -> tuple[list[float], list[float]]:
        """Return the milliseconds of each search, and of each query's embedding alone."""


class Watch:
    """Samples the memory of process trees in a thread, and gives all of their threads this process's priority.

    Sluice lowers the priority of its embedding threads. That is nothing on a quiet machine; on a busy one they would
    wait for other people's processes, and those of its peers would not.
    """

    def __init__(self) -> None:
        self.most_mb = 0.0
        self._pids: set[int] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def family(self, pid: int) -> None:
        self._pids |= {pid}

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        priority = os.getpriority(os.PRIO_PROCESS, 0)
        while not self._stopping.wait(0.5):
            total = 0
            for pid in list(self._pids):
                with contextlib.suppress(psutil.Error):
                    main = psutil.Process(pid)
                    for process in [main, *main.children(recursive=True)]:
                        with contextlib.suppress(psutil.Error, OSError):
                            total += process.memory_full_info().pss
                            for thread in process.threads():
                                if os.getpriority(os.PRIO_PROCESS, thread.id) != priority:
                                    os.setpriority(os.PRIO_PROCESS, thread.id, priority)
            self.most_mb = max(self.most_mb, total / 1e6)


class Peer:
    """A script beside this module, run in a peer's environment, a process for each step."""

    def __init__(self, name: str, python: Path, arrangement: str) -> None:
        self._name, self._python = name, python
        self._arrangement = arrangement

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="sluice-peers-"))
        self._count = self._folder / "count"
        self._count.touch()
        self._watch = Watch()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.stop()
        shutil.rmtree(self._folder)

    @property
    def memory_mb(self) -> float:
        return self._watch.most_mb

    def load(self, folder: Path) -> Load:
        before = self._embedded()
        took = json.loads(self._run("load", folder))
        return Load(took["seconds"], took["cpu_s"], self._embedded() - before)

    def killed(self, folder: Path, embedded: int) -> int:
        process = self._started("load", folder)
        while self._embedded() < embedded:
            assert process.poll() is None, f"{self._name} ended before it was killed: {self._errors()}"
            time.sleep(0.01)  # polling another process; there is nothing to await
        process.kill()
        process.communicate()
        return self._embedded()

    def stored(self) -> list[str]:
        stored: list[str] = json.loads(self._run("stored", self._folder))
        return stored

    def search(self, queries: Sequence[str]) -> tuple[list[float], list[float]]:
        seen = json.loads(self._run("search", self._folder, "\n".join(queries)))
        return seen["searches"], seen["queries"]

    def _embedded(self) -> int:
        return self._count.stat().st_size

    def _run(self, step: str, folder: Path, stdin: str = "") -> str:
        process = self._started(step, folder)
        written, _ = process.communicate(stdin)
        if process.returncode:
            raise RuntimeError(f"{self._name} {step} exited with {process.returncode}: {self._errors()}")
        return written.splitlines()[-1]

    def _started(self, step: str, folder: Path) -> subprocess.Popen[str]:
        with (self._folder / "stderr").open("a") as errors:
            process = subprocess.Popen(
                [*(self._python, "-m", "tests.bench.peers.runner"), self._name, step, folder, self._folder / "data"],
                cwd=ROOT,
                env={
                    **os.environ,
                    **_QUIET,
                    "SLUICE_PEERS_COUNT": str(self._count),
                    "SLUICE_PEERS_EMBEDDER": self._arrangement,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._watch.family(process.pid)
        return process

    def _errors(self) -> str:
        return (self._folder / "stderr").read_text(errors="replace")[-2000:]


class Sluice:
    """`sluice serve` on a folder, and `sluice ingest` beside it; settings as installed, but for the embedder."""

    def __init__(self, embedder: str) -> None:
        self._embedder = embedder

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="sluice-peers-"))
        self._watch = Watch()
        self._server = Server(self._folder / "data", EMBEDDER=self._embedder).start()
        self._watch.family(self._server.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.stop()
        self._server.stop()
        shutil.rmtree(self._folder)

    @property
    def memory_mb(self) -> float:
        return self._watch.most_mb

    def load(self, folder: Path) -> Load:
        before, used, begun = self._embedded(), self._cpu_s(), time.perf_counter()
        process = self._ingest(folder)
        written, _ = process.communicate()
        seconds = time.perf_counter() - begun
        assert process.returncode == 0, written
        return Load(seconds, self._cpu_s() - used, self._embedded() - before)

    def killed(self, folder: Path, embedded: int) -> int:
        process, seen = self._ingest(folder), 0
        while seen < embedded:
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.01)  # polling another process; there is nothing to await
            seen = self._embedded()
        self._server.kill()
        process.kill()
        process.communicate()
        self._server.start()
        self._watch.family(self._server.pid)
        return seen

    def stored(self) -> list[str]:
        return chunks_of(self._server, SOURCE)

    def search(self, queries: Sequence[str]) -> tuple[list[float], list[float]]:
        with self._server.client() as client:

            def ask(query: str) -> None:
                client.post("/rag/search", json={"query": query, "topK": 5}).raise_for_status()

            for query in queries[:5]:
                ask(query)
            searches = []
            for query in queries:
                begun = time.perf_counter()
                ask(query)
                searches.append(1000 * (time.perf_counter() - begun))
        return searches, asyncio.run(self._query_times(queries))

    async def _query_times(self, queries: Sequence[str]) -> list[float]:
        embedder = MiniLm(precision="int8" if self._embedder == "minilm:int8" else "float32")
        await embedder.start()
        times = []
        for query in [*queries[:5], *queries]:
            begun = time.perf_counter()
            await embedder.embed_query(query)
            times.append(1000 * (time.perf_counter() - begun))
        await embedder.close()
        return times[5:]

    def _ingest(self, folder: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", SLUICE, "--url", self._server.url, "ingest", folder, "--source", SOURCE),
                *("--chunk-size", str(CHUNK_SIZE), "--delete-missing", "--yes"),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._watch.family(process.pid)
        return process

    def _cpu_s(self) -> float:
        """Return the CPU seconds of the server with its children, and of the commands that have ended."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cpu_seconds(self._server) + ended.ru_utime + ended.ru_stime

    def _embedded(self) -> int:
        return int(self._server.metric("sluice_embedded_texts_total"))
