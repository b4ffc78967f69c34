"""Nothing that Sluice writes can be read by another user, even if it is started with an open umask."""

import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.background import Background
from tests.e2e.harness import HASTY, SLUICE, Server
from tests.e2e.text import paragraphs
from tests.integration.hostile_files import SOUND

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_NOBODY = 65534
_LARGE = 3 << 20  # bytes; larger than what an upload keeps in memory
_READING = """
import os, sys
for path in sys.stdin.read().split("\\0"):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
    except PermissionError:
        continue
    except OSError:  # a socket
        continue
    print(path)
"""


class Walker(Background):
    """Walks folders in a loop, and collects what another user could read or enter."""

    def __init__(self, *folders: Path) -> None:
        super().__init__(self._walk)
        self._folders = folders
        self.seen: set[Path] = set()
        self.open: dict[str, str] = {}

    def _walk(self) -> None:
        while not self.stopping.wait(0.05):
            self.look()

    def look(self) -> None:
        for folder in self._folders:
            for parent, folders, files in os.walk(folder, onerror=lambda _: None):
                for name in (*folders, *files):
                    path = Path(parent, name)
                    try:
                        mode = path.lstat().st_mode
                    except FileNotFoundError:
                        continue
                    self.seen.add(path)
                    if mode & 0o077:
                        self.open[str(path)] = stat.filemode(mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _ran(data: Path, *arguments: str) -> str:
    """Return what the command printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    environment |= {"SLUICE_DATA": str(data), "SLUICE_CONFIG": "", "SLUICE_SAMPLES": "off"}
    command = [sys.executable, "-m", SLUICE, *arguments]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == 0, (arguments, ran.stdout, ran.stderr)
    return ran.stdout


def _used(server: Server) -> None:
    """Make the server write whatever it writes: texts, files, blobs, letters, an erasure."""
    with server.client(headers={"Prefer": "wait=300"}, timeout=400) as client:
        for number in range(45):  # enough for an index of vectors
            body = {"source": "s", "path": f"{number}.md", "text": "\n\n".join(paragraphs(number, 2))}
            client.post("/rag/ingest", json=body).raise_for_status()
        for suffix, made in SOUND.items():
            client.post("/rag/ingest/upload", files={"file": (f"f.{suffix}", made(random.Random(1)))})
        large = {"file": ("large.txt", paragraphs(7, 1)[0].encode() + b"\n" * _LARGE)}
        client.post("/rag/ingest/upload", files=large).raise_for_status()
        client.post("/rag/ingest/upload", files={"file": ("broken.pdf", b"%PDF-1.7 -")})
        client.post("/rag/search", json={"query": paragraphs(1, 1)[0]}).raise_for_status()
        one = client.get("/rag/documents", params={"limit": 1}).json()["items"][0]["documentId"]
        client.post("/ops/erase", json={"documentIds": [one]}).raise_for_status()


def test_another_user_reads_nothing_that_a_running_install_makes(tmp_path: Path, open_umask: None) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)  # pytest's own are private, too
    temporary, out, data = tmp_path / "tmp", tmp_path / "out", tmp_path / "data"
    for each in (temporary, out):
        each.mkdir(mode=0o777)
    os.environ["TMPDIR"], before = str(temporary), os.environ.get("TMPDIR")
    try:
        _ran(data, "init")
        with Walker(tmp_path) as walker:
            server = Server(data, module=HASTY).start()
            try:
                _used(server)
                _ran(data, "--url", server.url, "keys", "new", "--tenant", "default", "--role", "query")
            finally:
                server.stop()
            _ran(data, "backup", str(out / "copy"))
            _ran(data, "migrate", "--to", f"sqlite:{out / 'other.sqlite'}")
            _ran(tmp_path / "restored", "restore", str(out / "copy"))
            walker.look()
            made_by_us = (temporary, out, server.log)
            assert {path: mode for path, mode in walker.open.items() if Path(path) not in made_by_us} == {}
            files = sorted(walker.seen)
            read = _read_by_another(files)
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before

    ours = {str(temporary), str(out), str(tmp_path / "data.log")}
    print(f"{len(files)} files and folders; {len(read)} readable: {read[:20]}")
    assert len(files) > 100
    assert {path: mode for path, mode in walker.open.items() if path not in ours} == {}
    assert sorted(set(read) - ours) == []


def _read_by_another(paths: list[Path]) -> list[str]:
    """Return which of these another user can read or list. Only root can try that."""
    if os.geteuid() != 0:
        return []
    # Not this test's own interpreter, which another user may be unable to reach.
    command = [shutil.which("python3", path="/usr/bin") or sys.executable, "-c", _READING]
    ran = subprocess.run(
        command,
        input="\0".join(map(str, paths)),
        capture_output=True,
        text=True,
        check=True,
        user=_NOBODY,
        group=_NOBODY,
        extra_groups=[],
    )
    return ran.stdout.split("\n")[:-1]
