"""A command in the folder of a running server asks that server, without an address and without a key."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.e2e.harness import Server

pytestmark = pytest.mark.slow
KEYS = "a-key-of-the-admin-of-acme:acme:admin"


def sluice(*arguments: str, **settings: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of a command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    ran = subprocess.run(
        [sys.executable, "-m", "services.operator_cli", *arguments],
        env=kept | {f"SLUICE_{name}": value for name, value in {"CONFIG": "", **settings}.items()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_who_may_read_the_folder_needs_no_key_and_no_address(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", API_KEYS=KEYS).start()
    data = str(server.data)
    try:
        assert httpx.get(f"{server.url}/rag/stats").status_code == 401
        assert sluice("stats", DATA=data)[0] == 0
        assert sluice("tenants", "ls", DATA=data)[1].splitlines()[1].startswith("acme\t")
        refused = sluice("--url", server.url, "stats", DATA=data)
        assert (refused[0], "API key" in refused[2]) == (1, True)
        assert "the API key is unknown" in sluice("stats", DATA=data, API_KEY="another")[2]
        elsewhere = sluice("stats", DATA=str(tmp_path), PORT="1")
        assert (elsewhere[0], "no Sluice answers at http://127.0.0.1:1" in elsewhere[2]) == (2, True)
    finally:
        server.kill()
    left = sluice("stats", DATA=data, PORT="1")
    assert (left[0], "no Sluice answers" in left[2]) == (2, True), "its socket is still there, and nobody listens"
    server.start()
    assert sluice("stats", DATA=data)[0] == 0
    server.stop()
    assert not (server.data / "serve.sock").exists()
