"""Separate processes on the embedded adapters: all of it on one machine, without any server."""

from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, cluster, status

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BODY = {"source": "s", "path": "a.md", "text": "A lantern on the pier."}


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


def test_what_waits_for_its_start_stops_at_once_when_asked(tmp_path: Path) -> None:
    running = Cluster(tmp_path)
    try:
        worker = running.launch("embed-worker")
        worker.starting()

        assert worker.stop() == 0
        assert "Traceback" not in worker.tail(1000)
    finally:
        running.kill()
