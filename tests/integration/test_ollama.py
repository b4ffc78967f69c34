"""What the test server of Ollama can do, so that tests of others may rely on it."""

import json

import numpy as np
import pytest

from tests.servers.ollama import CHAT_MODEL, EMBEDDING_MODEL, OllamaServer, call

pytestmark = pytest.mark.server


def embed(url: str, *texts: str, timeout_s: float = 60) -> list[list[float]]:
    status, body = call(url, "POST", "/api/embed", {"model": EMBEDDING_MODEL, "input": texts}, timeout_s)
    assert status == 200, body
    vectors: list[list[float]] = json.loads(body)["embeddings"]
    return vectors


def say(url: str, prompt: str) -> str:
    messages = [{"role": "user", "content": prompt}]
    asked: dict[str, object] = {"model": CHAT_MODEL, "messages": messages, "stream": False, "think": False}
    status, body = call(url, "POST", "/api/chat", asked)
    assert status == 200, body
    answer: str = json.loads(body)["message"]["content"]
    return answer


def test_its_vectors_tell_near_from_far(ollama_url: str) -> None:
    cat, kitten, invoice = embed(
        ollama_url, "A cat sleeps on the sofa.", "A kitten naps on a couch.", "The invoice is due in May."
    )

    assert len(cat) == 384
    assert np.dot(cat, kitten) > 0.5 > np.dot(cat, invoice)


def test_its_chat_model_copies_the_first_source_or_says_that_there_is_none(ollama_url: str) -> None:
    with_source = say(ollama_url, "Sources:\n[1] The sluice opens at noon. It closes at six.\n\nWhen does it open?")

    assert with_source == "According to [1]: The sluice opens at noon."
    assert say(ollama_url, "When does it open?") == "I do not know: no source was given."


def test_it_can_be_paused_and_killed(ollama_server: OllamaServer) -> None:
    (before,) = embed(ollama_server.url, "a text")

    ollama_server.pause()
    with pytest.raises(TimeoutError):
        embed(ollama_server.url, "a text", timeout_s=0.3)
    ollama_server.resume()
    ollama_server.kill()
    with pytest.raises(OSError, match="refused"):
        embed(ollama_server.url, "a text")
    ollama_server.start()

    assert embed(ollama_server.url, "a text") == [before]
