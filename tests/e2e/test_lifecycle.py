"""Starting and stopping, as a person at a terminal or an init system does it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.harness import START_GUARD_S, Server, served
from tests.selection import STORY

pytestmark = pytest.mark.slow


def refused(data: Path, **settings: str) -> str:
    """Return what a start that can't work says: one line, exit code 2."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
    environment |= {f"SLUICE_{key}": value for key, value in {"DATA": str(data), "PORT": "0", **settings}.items()}
    ran = subprocess.run(
        [sys.executable, "-m", "services.operator_cli", "serve"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2, ran.stderr
    [line] = [line for line in ran.stderr.splitlines() if not line.startswith("{")]
    return line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_polite_signal_ends_it_and_its_children_without_a_traceback(tmp_path: Path, number: signal.Signals) -> None:
    server = Server(tmp_path / "data").start()
    family = server.family()

    code = server.stop(number)

    _, alive = psutil.wait_procs(family, timeout=10)
    assert code == 0
    assert alive == []
    assert "Traceback" not in server.log.read_text()
    assert not (server.data / "serve.json").exists()


def test_a_polite_signal_during_the_start_ends_it_without_an_error(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.launch()
    deadline = time.monotonic() + START_GUARD_S
    while not (server.data / "store").exists():
        assert time.monotonic() < deadline, f"the start has not reached the store: {server.tail()}"
        time.sleep(0.01)  # polling another process; there is nothing to await

    code = server.stop()

    assert code == 0
    assert server.log.read_text() == ""


def test_killing_the_main_process_takes_its_children_along(tmp_path: Path) -> None:
    server = Server(tmp_path / "data").start()
    assert len(server.family()) > 1

    server.kill(everything=False)  # waits until every child is gone, or fails


@pytest.mark.feature(260)
def test_a_second_start_finds_its_index_and_embeds_nothing(tmp_path: Path) -> None:
    body = {"source": "s", "path": "a.md", "text": "A lantern on the pier."}
    with served(tmp_path / "data") as server, server.client() as client:
        assert client.post("/rag/ingest", json=body).json()["status"] == "created"
    with served(tmp_path / "data") as server, server.client() as client:
        hits = client.post("/rag/search", json={"query": "lantern"}).json()["results"]
        again = client.post("/rag/ingest", json=body).json()

        assert [hit["text"] for hit in hits] == ["A lantern on the pier."]
        assert again["status"] == "unchanged"
        assert server.metric("sluice_embedded_texts_total") == 0


@pytest.mark.feature(83)
def test_samples_are_loaded_once_a_folder(tmp_path: Path) -> None:
    with served(tmp_path / "data", SAMPLES="on") as server, server.client() as client:
        client.post("/rag/ingest", json={"source": "mine", "path": "a", "text": "behind the samples"})
    first = (tmp_path / "data.log").read_text()
    with served(tmp_path / "data", SAMPLES="on"):
        pass
    both = (tmp_path / "data.log").read_text()

    assert both[len(first) :].count("sample ") == 0


@STORY
def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        line = refused(tmp_path / "data", PORT=str(port))

    assert str(port) in line
    assert "SLUICE_PORT" in line


def test_a_folder_in_use_is_one_line(tmp_path: Path) -> None:
    with served(tmp_path / "data"):
        line = refused(tmp_path / "data")

    assert "in use" in line


def test_a_store_that_is_away_is_one_line(tmp_path: Path) -> None:
    line = refused(tmp_path / "data", STORE="qdrant+http://127.0.0.1:1")

    assert "127.0.0.1:1" in line


def test_an_index_goes_on_with_the_settings_that_it_was_built_with(tmp_path: Path) -> None:
    with served(tmp_path / "data"):
        pass

    with served(tmp_path / "data", CHUNK_SIZE="400") as server, server.client() as client:
        state = client.get("/readyz").json()

    named = "SLUICE_CHUNK_SIZE=400 is not in force, the index was built with 800"
    assert named in json.dumps(state)
    assert named in server.log.read_text()


def test_a_wrong_setting_names_itself_and_its_value(tmp_path: Path) -> None:
    assert "SLUICE_CHUNK_SIZE=7" in refused(tmp_path / "data", CHUNK_SIZE="7")
    assert "SLUICE_HOST=0.0.0.0" in refused(tmp_path / "data", HOST="0.0.0.0")
