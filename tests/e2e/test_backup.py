"""A backup that is made while documents come, change and go: what is restored from it is whole, wherever it was cut."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.operator_cli.moving.backup import PARTIAL, BackedUp, backup
from services.operator_cli.moving.restore import restore
from services.operator_cli.verify import command
from services.operator_cli.verify.command import VerifyOutcome, opened
from shared.errors import Unavailable
from shared.log.sqlite import SqliteLog
from shared.log.sqlite.copying import HELD
from shared.settings import ConfigurationError, Settings
from tests.e2e.harness import Server, served
from tests.e2e.text import paragraphs
from tests.integration.pipeline import Quiet

PATIENCE_S = 30.0


class Meddler(Quiet):
    """Does something at the beginning of each step of a backup."""

    def __init__(self, meddle: Callable[[str], None]) -> None:
        self._meddle = meddle

    def begin(self, what: str, total: int) -> None:
        self._meddle(what)


class Library:
    """Documents of a server, and what each of them says."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.texts: dict[str, str | None] = {}  # by path; None: deleted
        self._ids: dict[str, str] = {}

    def put(self, path: str, seed: int) -> None:
        text = "\n\n".join(paragraphs(seed, 3))
        reply = self._ask("POST", "/rag/ingest", json={"source": "s", "path": path, "text": text})
        assert reply["status"] in ("created", "updated"), reply
        self.texts[path], self._ids[path] = text, reply["documentId"]

    def delete(self, path: str) -> None:
        assert self._ask("DELETE", f"/rag/documents/{self._ids[path]}")["status"] == "deleted"
        self.texts[path] = None

    def erase(self, path: str) -> dict[str, Any]:
        return self._ask("POST", "/ops/erase", json={"documentIds": [self._ids[path]]})

    def found(self, server: Server) -> dict[str, str | None]:
        """Return what another server says of these documents."""
        with server.client() as client:
            replies = {path: client.get(f"/rag/documents/{name}/text") for path, name in self._ids.items()}
        return {path: reply.text if reply.status_code == 200 else None for path, reply in replies.items()}

    def _ask(self, method: str, route: str, **how: Any) -> dict[str, Any]:
        with self.server.client() as client:
            reply: dict[str, Any] = client.request(method, route, headers={"Prefer": "wait=30"}, **how).json()
        return reply


def copied(data: Path, target: Path, watch: Quiet) -> BackedUp:
    return asyncio.run(backup(Settings(data=data), target, watch, patience_s=PATIENCE_S))


def verified(data: Path) -> VerifyOutcome:
    async def verify() -> VerifyOutcome:
        async with opened(Settings(data=data)) as parts:
            return await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=None, patience_s=PATIENCE_S)

    return asyncio.run(verify())


def test_a_backup_of_a_busy_server_restores_to_what_its_log_says(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        library = Library(server)
        for number in range(6):
            library.put(f"{number}.md", number)
        steps: list[str] = []
        refused: list[dict[str, Any]] = []

        def meddle(step: str) -> None:
            if step == "blobs":  # the log is copied: what comes now is not in the backup
                return
            number = len(steps)
            steps.append(step)
            library.put(f"new-{number}.md", 100 + number)
            library.put(f"{number % 3}.md", 200 + number)
            if number in (1, 4):
                library.delete(f"{number}.md")
            if step == "log":
                refused.append(library.erase("5.md"))

        done = copied(tmp_path / "data", tmp_path / "copy", Meddler(meddle))
        assert library.erase("5.md")["items"][0]["outcome"] == "erased"  # the hold has ended
    assert {"log", "store: generations", "store: ledger", "store: pairing"} < set(steps)
    assert ["a backup of" in reply["detail"] for reply in refused] == [True]

    with_data = asyncio.run(restore(tmp_path / "copy", tmp_path / "elsewhere", Quiet()))
    assert (with_data.documents, with_data.points) == (done.documents, done.points)
    with served(tmp_path / "elsewhere") as server:
        outcome = verified(tmp_path / "elsewhere")
        found = library.found(server)

    assert (outcome.report.verdict, outcome.report.first) == ("right", {})
    assert found == library.texts


def test_what_was_killed_is_no_backup_and_holds_nothing_up(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        library = Library(server)
        library.put("a.md", 1)
        child = subprocess.Popen(
            [sys.executable, "-c", _STOPS_AT_THE_LOG, str(tmp_path / "data"), str(tmp_path / "copy")],
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"at the log\n"
        with pytest.raises(Unavailable, match="a backup of") as held:
            asyncio.run(kept_up(tmp_path / "data"))
        with pytest.raises(Unavailable, match="another backup"):
            asyncio.run(backup(Settings(data=tmp_path / "data"), tmp_path / "b", Quiet(), patience_s=0))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()

        assert held.value.code == HELD
        with pytest.raises(ConfigurationError, match="not a complete backup"):
            asyncio.run(restore(tmp_path / f"copy{PARTIAL}", tmp_path / "elsewhere", Quiet()))
        assert not (tmp_path / "elsewhere").exists()
        asyncio.run(kept_up(tmp_path / "data"))
        assert verified(tmp_path / "data").report.verdict == "right"
        copied(tmp_path / "data", tmp_path / "copy", Quiet())
    assert not (tmp_path / f"copy{PARTIAL}").exists()
    assert (tmp_path / "copy").is_dir()


async def kept_up(data: Path) -> None:
    """Do what the running server does every hour."""
    log = SqliteLog(data / "log.sqlite")
    await log.start()
    try:
        await log.keep_up()
    finally:
        await log.stop()


_STOPS_AT_THE_LOG = """
import asyncio, sys, time
from pathlib import Path
from services.operator_cli.moving.backup import backup
from shared.settings import Settings
from tests.integration.pipeline import Quiet

class Stop(Quiet):
    def begin(self, what, total):
        if what == "log":
            print("at the log", flush=True)
            time.sleep(60)  # until it is killed

data, target = map(Path, sys.argv[1:])
asyncio.run(backup(Settings(data=data), target, Stop(), patience_s=30))
"""
