"""Makes the archive of a data folder, through HTTP alone: python make_folder.py CODE ARCHIVE.

CODE is a folder with the code that runs. Every later commit opens a copy of the archive in `test_data_folders.py`.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BRIDGE = "The bridge keeper counts every cart that crosses before noon."
MILL = "The mill grinds rye on Mondays, and wheat on every other day."
# What is sent, in this order: the same names twice, a document that is deleted, a large body, a broken file.
BODIES: tuple[dict[str, Any], ...] = (
    {"source": "s", "path": "bridge.md", "text": "An older text, which nobody may find any more."},
    {"source": "s", "path": "bridge.md", "title": "Bridge", "tags": ["toll"], "text": f"# Toll\n\n{BRIDGE}\n"},
    {"source": "s", "path": "mill.txt", "metadata": {"year": 1712, "open": True}, "text": MILL},
    {"source": "s", "path": "both.md", "text": f"# Both\n\n{BRIDGE}\n\n## More\n\n{MILL}\n", "chunkSize": 100},
    {"source": "s", "path": "gone.md", "text": "This one is deleted again."},
    {"source": "ready", "path": "chunks", "chunks": [{"text": "Made elsewhere, taken as it is."}]},
)
FILES: tuple[tuple[str, str, bytes], ...] = (  # name, media type, body
    ("large.html", "text/html", b"<p>A page with a long comment.</p><!--" + b"x" * 300_000 + b"-->"),
    ("broken.pdf", "application/pdf", b"%PDF-1.7 nonsense"),
)
DELETED = ("s", "gone.md")
START_GUARD_S = 120.0


def make(code: Path, archive: Path) -> None:
    """Start the code on a new folder, send everything, stop it, and pack the folder."""
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary) / "data"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
        environment |= {"PYTHONPATH": str(code), "SLUICE_DATA": str(data), "SLUICE_PORT": "0"}
        environment |= {
            "SLUICE_SAMPLES": "off",
            "SLUICE_PARTITIONS": "2",
            "SLUICE_CHAT": "extractive:",
            "SLUICE_LOG_LEVEL": "warning",
        }
        process = subprocess.Popen([sys.executable, "-m", "services.operator_cli", "serve"], env=environment, cwd=code)
        try:
            fill(address(data / "serve.json"))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        for path in data.glob("*.groups/*"):
            path.unlink()
        tar = ["tar", "--create", "--sparse", "--format=gnu", "--xz", "--owner=0", "--group=0", "--sort=name"]
        to = ["--file", str(archive.resolve()), "-C", temporary, "data"]
        subprocess.run([*tar, *to], check=True, env=environment | {"XZ_OPT": "-9e"})


def address(state: Path) -> str:
    """Return where the server listens, once it says so."""
    deadline = time.monotonic() + START_GUARD_S
    while not state.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    netloc: str = urlsplit(json.loads(state.read_text())["url"]).netloc
    return netloc


def fill(netloc: str) -> None:
    """Send everything, one after the other, and delete what is to be deleted."""
    ids: dict[tuple[str, str], str] = {}
    for body in BODIES:
        answer = asked(netloc, "POST", "/rag/ingest", json.dumps(body).encode(), {"Content-Type": "application/json"})
        ids[body["source"], body["path"]] = answer.get("documentId", "")
        print(body["path"], answer)
    for name, media_type, content in FILES:
        headers = {"Content-Type": media_type, "X-Filename": name}
        print(name, asked(netloc, "POST", "/rag/ingest/upload", content, headers))
    print("deleted", asked(netloc, "DELETE", f"/rag/documents/{ids[DELETED]}", None, {}))


def asked(netloc: str, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
    """Return the answer's JSON."""
    connection = http.client.HTTPConnection(netloc, timeout=120)
    connection.request(method, path, body, {"Prefer": "wait=100", **headers})
    answer: dict[str, Any] = json.loads(connection.getresponse().read() or b"{}")
    connection.close()
    return answer


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
