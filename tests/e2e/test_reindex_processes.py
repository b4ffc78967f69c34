"""Another generation on separate processes and a real Kafka: built, switched to, given back, dropped."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.cluster import Cluster, cluster
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import EMBEDDING_MODEL
from tests.servers.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

DOCUMENTS = 12
GUARD_S = 120.0


def send(client: httpx.Client, number: int) -> None:
    body = {"source": "s", "path": f"{number}.md", "text": f"Parcel {number} stands in shed {number} by the harbour."}
    reply = client.post("/rag/ingest", json=body)
    assert reply.json()["status"] == "created", reply.text


def states(client: httpx.Client) -> dict[str, Any]:
    return {each["state"]: each for each in client.get("/ops/generations").json()["items"]}


def do(client: httpx.Client, what: str) -> str:
    reply = client.post(f"/ops/generations/{what}", json={}, headers={"Prefer": "wait=60"}, timeout=90)
    assert reply.status_code == 200, reply.text
    serving: str = reply.json()["serving"]
    return serving


def until_ready(client: httpx.Client, running: Cluster) -> dict[str, Any]:
    deadline = time.monotonic() + GUARD_S
    while "ready" not in (found := states(client)):
        tails = [process.tail(5) for process in running.processes.values()]
        assert time.monotonic() < deadline, f"{found}: {tails}"
        time.sleep(0.1)  # other processes: there is nothing to await
    each: dict[str, Any] = found["ready"]
    return each


def told(running: Cluster, clients: Sequence[httpx.Client], embedder: str) -> None:
    """Build a generation with another model, switch, go back, and drop it; ask each API on the way."""
    client = clients[0]
    for number in range(DOCUMENTS):
        send(client, number)
    first = states(client)["serving"]["id"]

    assert client.post("/ops/generations/start", json={"embedder": embedder}).status_code == 200
    built = until_ready(client, running)
    send(client, DOCUMENTS)
    served, found = [do(client, "switch")], list[list[str]]()
    send(client, DOCUMENTS + 1)
    found.append([best(each, DOCUMENTS + 1) for each in clients])
    answered_by = {states(each)["serving"]["id"] for each in clients}
    served.append(do(client, "rollback"))
    send(client, DOCUMENTS + 2)
    found.append([best(each, DOCUMENTS + 2) for each in clients])
    counted = [each["documents"] for each in states(client).values()]
    do(client, "gc")
    left = states(client)

    assert (built["documents"], built["failed"]) == (DOCUMENTS, 0)
    assert (served, answered_by) == ([built["id"], first], {built["id"]})
    assert found == [[f"{DOCUMENTS + number}.md"] * len(clients) for number in (1, 2)]
    assert counted[0] == DOCUMENTS + 3
    assert list(left) == ["serving"]


def best(client: httpx.Client, number: int) -> str:
    hits = client.post("/rag/search", json={"query": f"Parcel {number}", "topK": 1}).json()["results"]
    path: str = hits[0]["metadata"]["path"]
    return path


def test_processes_on_kafka_build_a_generation_switch_to_it_and_go_back(tmp_path: Path, kafka: KafkaServer) -> None:
    with cluster(tmp_path, LOG=f"kafka://{kafka.address}") as running, running.client() as client:
        told(running, [client], "minilm:")


@pytest.mark.server
def test_two_apis_on_kafka_switch_to_a_model_of_ollama_and_go_back(
    tmp_path: Path, kafka: KafkaServer, ollama_url: str
) -> None:
    with cluster(tmp_path, LOG=f"kafka://{kafka.address}") as running, running.client() as client:
        port = str(free_port())
        running.wait(running.launch("query-api", PORT=port).name)
        with running.client(base_url=f"http://127.0.0.1:{port}") as other:
            told(running, [client, other], f"{ollama_url.replace('http://', 'ollama://')}/{EMBEDDING_MODEL}")
