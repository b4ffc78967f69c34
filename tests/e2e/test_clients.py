"""OpenAI's and Ollama's own clients against running servers of both sizes."""

from pathlib import Path
from typing import Any

import httpx
import ollama
import openai
import pytest

from tests.e2e.cluster import cluster, servers
from tests.e2e.harness import served
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import CHAT_MODEL, OllamaServer

LANTERN = "The lantern on the pier is lit at six in the evening."
QUESTION: Any = [{"role": "user", "content": "When is the lantern on the pier lit?"}]


def asked_by_openai(url: str, rag: str, embedding: str) -> str:
    """Return the answer, once all of OpenAI's API has been used."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        listed = [each.id for each in client.models.list()]
        whole = client.chat.completions.create(model=rag, messages=QUESTION)
        usage: Any = {"include_usage": True}
        stream = client.chat.completions.create(model=rag, messages=QUESTION, stream=True, stream_options=usage)
        *pieces, last, counted = list(stream)
        [vector] = client.embeddings.create(model=embedding, input=LANTERN).data
        [hit] = client.vector_stores.search("documents", query="lantern")

    text = whole.choices[0].message.content or ""
    annotations = whole.choices[0].message.annotations or []
    assert {rag, f"{rag}:inline", embedding} <= set(listed)
    assert "".join(each.choices[0].delta.content or "" for each in pieces) == text
    assert last.choices[0].finish_reason == "stop"
    assert counted.usage is not None
    assert counted.usage.completion_tokens > 0
    assert (len(vector.embedding), hit.filename) == (384, "lantern.md")
    with httpx.Client(verify=False) as reader:
        cited = httpx.URL(annotations[0].url_citation.url)
        assert reader.get(cited).headers["content-type"].startswith("text/html")
        assert LANTERN in reader.get(f"{url}/rag{cited.path}/text").text
    return text


def asked_by_ollama(url: str, rag: str, embedding: str) -> str:
    """Return the answer, once all of Ollama's API has been used."""
    with ollama.Client(url, timeout=60, verify=False) as client:
        listed = [each.model or "" for each in client.list().models]
        shown = client.show(rag)
        whole = client.chat(rag, QUESTION)
        *pieces, last = list(client.chat(rag, QUESTION, stream=True))
        generated = client.generate(rag, QUESTION[0]["content"])
        [vector] = client.embed(embedding, LANTERN).embeddings

    text = whole.message.content or ""
    assert {f"{rag}:latest", f"{embedding}:latest"} <= set(listed)
    assert "completion" in (shown.capabilities or [])
    assert "".join(each.message.content or "" for each in pieces) == text == generated.response
    assert (last.done, (last.eval_count or 0) > 0, (last.total_duration or 0) > 0) == (True, True, True)
    assert len(vector) == 384
    return text


def answers_of_both(url: str, rag: str, embedding: str) -> set[str]:
    """Return what the two clients are answered, after one document was put in."""
    with httpx.Client(base_url=url, timeout=60, verify=False) as client:
        body = {"source": "s", "path": "lantern.md", "text": LANTERN}
        client.post("/rag/ingest", json=body).raise_for_status()
    return {asked_by_openai(url, rag, embedding), asked_by_ollama(url, rag, embedding)}


def test_one_process_answers_openai_s_and_ollama_s_clients(tmp_path: Path) -> None:
    with served(tmp_path / "data", CHAT="extractive:") as server:
        [answer] = answers_of_both(server.url, "rag/extractive", "all-MiniLM-L6-v2")

    assert answer == f"{LANTERN} [1]"


@pytest.mark.slow
def test_processes_on_kafka_and_ollama_answer_openai_s_and_ollama_s_clients(
    tmp_path: Path, kafka: KafkaServer, ollama_server: OllamaServer
) -> None:
    settings = servers(kafka.address, ollama_server.url)
    chat = f"{ollama_server.url.replace('http://', 'ollama://')}/{CHAT_MODEL}"
    with cluster(tmp_path, **(settings | {"CHAT": chat})) as running:
        [answer] = answers_of_both(running.url, f"rag/{CHAT_MODEL}", "minilm")

    assert "[1]" in answer
