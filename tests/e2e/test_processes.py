"""Separate processes: on the embedded adapters, without any server, and the demo's story on real ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import readme
from tests.e2e.cluster import Cluster, cluster, servers, status
from tests.servers.cache import CI_ONLY
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BODY = {"source": "s", "path": "a.md", "text": "A lantern on the pier."}


@CI_ONLY
def test_a_document_goes_through_four_processes(tmp_path: Path) -> None:
    with cluster(tmp_path) as running, running.client() as client:
        created = client.post("/rag/ingest", json=BODY).json()
        again = client.post("/rag/ingest", json=BODY).json()
        hits = client.post("/rag/search", json={"query": "lantern"}).json()["results"]
        [worker] = running.of("embed-worker")

        assert (created["status"], again["status"]) == ("created", "unchanged")
        assert [hit["text"] for hit in hits] == [BODY["text"]]
        assert worker.metric("sluice_embedded_texts_total") == 1
        assert worker.metric("sluice_records_handled_total") == 1


@CI_ONLY
def test_whatever_order_they_start_in_they_wait_for_each_other_and_say_for_what(tmp_path: Path) -> None:
    running = Cluster(tmp_path)
    try:
        waiting = [running.launch(role) for role in ("query-api", "embed-worker", "ingest-worker")]
        side = waiting[1].starting()
        assert status(f"{side}/livez") == 200
        assert status(f"{side}/readyz") == 503
        running.launch("store")
        running.wait()
        with running.client() as client:
            assert client.post("/rag/ingest", json=BODY).json()["status"] == "created"
    finally:
        running.kill()


@CI_ONLY
def test_what_waits_for_its_start_stops_at_once_when_asked(tmp_path: Path) -> None:
    running = Cluster(tmp_path)
    try:
        worker = running.launch("embed-worker")
        worker.starting()

        assert worker.stop() == 0
        assert "Traceback" not in worker.tail(1000)
    finally:
        running.kill()


@CI_ONLY
def test_the_demo_tells_the_same_story_on_kafka_and_ollama(kafka: KafkaServer, ollama_url: str) -> None:
    settings = {f"SLUICE_{name}": value for name, value in servers(kafka.address, ollama_url).items()}
    ran = subprocess.run(
        [sys.executable, "-m", "services.operator_cli", "demo", "--processes"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=readme.HANG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr

    told, shown = ran.stdout, readme.block("demo")

    assert "on kafka, edge, ollama" in told
    assert steps(told) == steps(shown)


def steps(transcript: str) -> list[str]:
    """Return what the demo did; how it started and which words the passages have is the size's own."""
    lines = readme.steady(transcript).splitlines()
    return [line for line in lines if line and not line.startswith((" ", "`", "$", "Start"))]
