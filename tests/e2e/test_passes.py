"""The five passes: what is embedded is what changed, and nothing else."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, cluster, servers
from tests.e2e.harness import Server, served
from tests.e2e.text import paragraph, paragraphs
from tests.servers.kafka import KafkaServer

FEW = 14, 12  # documents, and paragraphs of each
MANY = (50, 20)  # a thousand embeddings take half a minute, and by Ollama three


def ingest(server: Server | Cluster, documents: dict[int, list[str]]) -> list[dict[str, object]]:
    with server.client(timeout=330) as client, ThreadPoolExecutor(16) as pool:
        bodies = [
            {"source": "passes", "path": f"{number}.md", "text": "\n\n".join(texts)}
            for number, texts in documents.items()
        ]
        replies = list(
            pool.map(lambda body: client.post("/rag/ingest", json=body, headers={"Prefer": "wait=300"}), bodies)
        )
    assert [reply.status_code for reply in replies] == [200] * len(bodies), replies[0].text
    return [reply.json() for reply in replies]


def total_points(server: Server | Cluster) -> int:
    with server.client() as client:
        return sum(item["chunkCount"] for item in client.get("/rag/documents?limit=1000").json()["items"])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_given_fifty_documents_when_they_change_then_only_what_changed_is_embedded(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        five_passes(server, *MANY)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_through_kafka_ollama_and_separate_processes(
    tmp_path: Path, kafka: KafkaServer, ollama_url: str
) -> None:
    with cluster(tmp_path, **servers(kafka.address, ollama_url)) as server:
        five_passes(server, *FEW)


def five_passes(server: Server | Cluster, count: int, length: int) -> None:
    library = {number: paragraphs(number, length) for number in range(count)}
    embedded = []

    def measured(documents: dict[int, list[str]]) -> set[object]:
        before = server.metric("sluice_embedded_texts_total")
        statuses = {reply["status"] for reply in ingest(server, documents)}
        embedded.append(server.metric("sluice_embedded_texts_total") - before)
        return statuses

    assert measured(library) == {"created"}
    assert measured(library) == {"unchanged"}
    library[7][11] = paragraph(7, 1, 11, of=length)
    assert measured({7: library[7]}) == {"updated"}
    library[9] = library[9][:5]
    assert measured({9: library[9]}) == {"updated"}
    before = server.metric("sluice_embedded_texts_total")
    with server.client() as client:
        items = client.get("/rag/documents", params={"limit": 1000}).json()["items"]
        [name] = [item["documentId"] for item in items if item["path"] == "13.md"]
        reply = client.delete(f"/rag/documents/{name}").json()
    embedded.append(server.metric("sluice_embedded_texts_total") - before)

    assert reply["status"] == "deleted"
    assert embedded == [count * length, 0, 1, 0, 0]
    assert total_points(server) == (count - 1) * length - (length - 5)
