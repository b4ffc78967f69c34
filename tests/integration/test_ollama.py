"""What the test server of Ollama can do, so that tests of others may rely on it; and our adapters on it."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from pydantic import SecretStr

from shared.answers import Answers, Conversation, Finished, Passage, Role, Turn
from shared.answers.ollama import OllamaAnswers
from shared.answers.openai import OpenAiAnswers
from shared.embedder.ollama import ollama_embedder
from shared.embedder.served import ServedEmbedder
from shared.errors import Rejected, Unavailable
from shared.model_server.ollama import OllamaAddress
from shared.model_server.openai import OpenAiAddress
from tests.answering import said
from tests.selection import CI_ONLY
from tests.servers.choice import own
from tests.servers.ollama import CHAT_MODEL, EMBEDDING_MODEL, RECIPE, OllamaServer, call, missing

pytestmark = pytest.mark.server


def embed(url: str, *texts: str, timeout_s: float = 60) -> list[list[float]]:
    status, body = call(url, "POST", "/api/embed", {"model": EMBEDDING_MODEL, "input": texts}, timeout_s)
    assert status == 200, body
    vectors: list[list[float]] = json.loads(body)["embeddings"]
    return vectors


def say(url: str, prompt: str, timeout_s: float = 120) -> str:
    messages = [{"role": "user", "content": prompt}]
    asked: dict[str, object] = {"model": CHAT_MODEL, "messages": messages, "stream": False, "think": False}
    status, body = call(url, "POST", "/api/chat", asked, timeout_s)
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


@pytest.fixture
async def embedder(ollama_url: str) -> AsyncIterator[ServedEmbedder]:
    started = ollama_embedder(OllamaAddress(ollama_url, EMBEDDING_MODEL))
    await started.start()
    yield started
    await started.close()


@CI_ONLY
async def test_a_text_that_the_estimate_lets_pass_and_the_server_does_not_is_embedded_whole(
    ollama_url: str, embedder: ServedEmbedder
) -> None:
    # No words: BERT makes two tokens of three letters, and the estimate is one for two.
    dense = " ".join(f"{n * 7919 % 26**6:06d}".translate(str.maketrans("0123456789", "xqzvkjwhfb")) for n in range(140))
    direct = {"model": EMBEDDING_MODEL, "input": [dense], "truncate": False}
    assert embedder.tokens.count([dense])[0] <= embedder.model.max_tokens
    assert call(ollama_url, "POST", "/api/embed", direct)[0] == 400

    short, whole = await embedder.embed_documents(["a text", dense])
    other_end, *_ = await embedder.embed_documents([dense[:-6] + "wholly"])

    [alone] = embed(ollama_url, "a text")
    assert np.allclose(short, alone, atol=1e-6)
    assert abs(float(np.linalg.norm(whole)) - 1) < 1e-6
    assert not np.allclose(whole, other_end, atol=1e-4)  # its end counts


async def test_an_outage_is_unavailable_and_the_same_vectors_come_afterwards(ollama_server: OllamaServer) -> None:
    embedder = ollama_embedder(OllamaAddress(ollama_server.url, EMBEDDING_MODEL))
    await embedder.start()
    [before] = await embedder.embed_documents(["a text"])

    ollama_server.kill()
    for asked in (embedder.embed_documents(["a text"]), embedder.embed_query("a text")):
        with pytest.raises(Unavailable, match="can't be reached"):
            await asked
    ollama_server.start()

    [after] = await embedder.embed_documents(["a text"])
    assert np.array_equal(before, after)
    await embedder.close()


async def test_a_server_killed_within_a_call_is_unavailable(ollama_server: OllamaServer) -> None:
    embedder = ollama_embedder(OllamaAddress(ollama_server.url, EMBEDDING_MODEL))
    await embedder.start()
    began = cpu_seconds(ollama_server)
    asked = asyncio.create_task(embedder.embed_documents(["a long way and " * 50] * 64))
    while seconds_since(began, ollama_server) < 0.1:
        assert not asked.done()
        await asyncio.sleep(0.01)

    ollama_server.kill()

    with pytest.raises(Unavailable):
        await asked
    await embedder.close()


@CI_ONLY
async def test_a_model_created_anew_under_its_name_is_noticed(tmp_path: Path) -> None:
    built = own("Ollama", RECIPE, missing())
    shutil.copytree(built / "models", tmp_path / "models")  # the shared ones stay as they are
    with OllamaServer(built, tmp_path / "server", OLLAMA_MODELS=str(tmp_path / "models")) as server:
        embedder = ollama_embedder(OllamaAddress(server.url, EMBEDDING_MODEL))
        await embedder.start()
        await embedder.embed_documents(["a text"])
        before = embedder.model.digest

        anew = {"model": EMBEDDING_MODEL, "from": EMBEDDING_MODEL, "parameters": {"num_ctx": 128}, "stream": False}
        assert b"success" in call(server.url, "POST", "/api/create", anew)[1]

        with pytest.raises(Unavailable, match="has replaced 'minilm'"):
            await embedder.embed_documents(["a text"])
        await embedder.start()
        assert embedder.model.digest != before
        assert embedder.model.max_tokens < 128
        await embedder.close()


def an_endless_answer() -> Conversation:
    """Return what the chat model answers with 600 tokens, its limit."""
    passage = Passage(number=1, text="a long way and " * 60, title="Road", score=0.9, metadata={})
    return Conversation(turns=(Turn(role="user", content="How far is it?"),), passages=(passage,))


def cpu_seconds(server: OllamaServer) -> dict[int, float]:
    """Return the CPU seconds of each runner of the server so far, by process id."""
    used: dict[int, float] = {}
    for child in psutil.Process(server.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # one that looked for graphics cards, and has ended
            used[child.pid] = sum(child.cpu_times()[:2])
    return used


def seconds_since(before: dict[int, float], server: OllamaServer) -> float:
    """Return the CPU seconds of the runners since `before`. What one that ended since had used doesn't count."""
    return sum(now - before.get(pid, 0) for pid, now in cpu_seconds(server).items())


@CI_ONLY
@pytest.mark.parametrize("protocol", ["ollama", "openai"])
async def test_who_leaves_an_answer_stops_the_model(ollama_server: OllamaServer, protocol: str) -> None:
    answers: Answers = OllamaAnswers(OllamaAddress(ollama_server.url, CHAT_MODEL))
    if protocol == "openai":
        answers = OpenAiAnswers(OpenAiAddress(f"{ollama_server.url}/v1", CHAT_MODEL), SecretStr(""))
    say(ollama_server.url, "When does it open?")  # loads the model
    began = cpu_seconds(ollama_server)
    whole = await said(answers, an_endless_answer())
    cost = seconds_since(began, ollama_server)

    pieces = answers.stream(an_endless_answer())
    await anext(pieces)
    await pieces.aclose()  # type: ignore[attr-defined]  # every adapter is a generator
    left = cpu_seconds(ollama_server)
    # It has one place: whoever comes next waits until the answer before has ended, or was given up. Ollama may keep
    # that place for ever (https://github.com/ollama/ollama/issues/17131); the model is quiet all the same.
    with suppress(TimeoutError):
        say(ollama_server.url, "When does it open?", timeout_s=30)

    assert whole.endswith(" …")
    assert seconds_since(left, ollama_server) < cost / 2


@CI_ONLY
@pytest.mark.parametrize(("messages", "size"), [(2, 200), (21, 6_000), (100, 4_000)])
async def test_a_conversation_reaches_the_model_whole(ollama_url: str, messages: int, size: int) -> None:
    roles: tuple[Role, Role] = ("user", "assistant") if messages % 2 else ("assistant", "user")
    turns = tuple(
        Turn(role=roles[number % 2], content=f"{number}: {'It is said. ' * (size // messages // 12)}")
        for number in range(messages)
    )
    options = {"num_ctx": 8192, "num_predict": 1}
    said_to_it = [{"role": turn.role, "content": turn.content} for turn in turns]
    body: dict[str, object] = {"model": CHAT_MODEL, "messages": said_to_it, "stream": False, "options": options}
    direct = json.loads(call(ollama_url, "POST", "/api/chat", body)[1])["prompt_eval_count"]

    answers = OllamaAnswers(OllamaAddress(ollama_url, CHAT_MODEL))
    *_, last = [event async for event in answers.stream(Conversation(turns=turns, sampling={"max_tokens": 1}))]

    assert isinstance(last, Finished)
    assert last.usage.prompt_tokens == direct > size / 6  # no message lacks, and none was cut


async def test_a_conversation_too_long_for_the_model_is_said_and_never_cut(ollama_url: str) -> None:
    answers = OllamaAnswers(OllamaAddress(ollama_url, CHAT_MODEL))
    question = Turn(role="user", content="why " * 9000)

    with pytest.raises(
        Rejected, match=r"longer than the model accepts: .* the input length exceeds the context length"
    ):
        await anext(answers.stream(Conversation(turns=(question,))))
