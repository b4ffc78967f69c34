"""The Ollama embedder against a server that fails in every way we have seen."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.embedder.ollama import EstimatedTokens, OllamaEmbedder, longest_input
from shared.errors import Rejected, Unavailable
from shared.ollama_server import OllamaAddress
from shared.settings import ConfigurationError
from tests.servers.fake_ollama import CHAT_MODEL, DIMENSION, EMBEDDING_MODEL, FakeOllama, Fault, fake_ollama


@pytest.fixture
async def server() -> AsyncIterator[FakeOllama]:
    async with fake_ollama() as running:
        yield running


@pytest.fixture
async def embedder(server: FakeOllama) -> AsyncIterator[OllamaEmbedder]:
    started = OllamaEmbedder(OllamaAddress(server.url, EMBEDDING_MODEL), timeout_s=20)
    await started.start()
    yield started
    await started.close()


FAULTS: list[tuple[Fault, str]] = [
    ("500", "answered 500: fault 500"),
    ("503", "answered 503: fault 503"),
    ("404", "has no model 'nomic-embed-text'; run: ollama pull nomic-embed-text"),
    ("html", "answered nonsense"),
    ("list", "answered nonsense"),
    ("half", "can't be reached"),
    ("redirect", "answered 307"),
    ("few", "gave 1 vectors for 2 texts"),
    ("short", "gave a vector of 63 numbers; nomic-embed-text had 64 at start"),
    ("nan", "gave a damaged vector"),
    ("null", "answered nonsense"),
    ("zero", "gave a damaged vector"),
]


@pytest.mark.parametrize(("fault", "sentence"), FAULTS)
async def test_a_fault_of_the_server_is_unavailable_and_passes(
    server: FakeOllama, embedder: OllamaEmbedder, fault: Fault, sentence: str
) -> None:
    server.fault = fault
    with pytest.raises(Unavailable, match=sentence) as caught:
        await embedder.embed_documents(["one", "two"])
    assert server.url in caught.value.sentence

    server.fault = None
    assert len(await embedder.embed_documents(["one", "two"])) == 2


@pytest.mark.parametrize("fault", ["500", "html", "list", "half", "404"])
async def test_a_fault_at_start_is_unavailable(server: FakeOllama, fault: Fault) -> None:
    embedder = OllamaEmbedder(OllamaAddress(server.url, EMBEDDING_MODEL), timeout_s=20)
    server.fault = fault
    with pytest.raises(Unavailable):
        await embedder.start()

    server.fault = None
    await embedder.start()
    assert embedder.model.dimension == DIMENSION
    await embedder.close()


async def test_a_server_that_does_not_answer_is_unavailable(server: FakeOllama) -> None:
    embedder = OllamaEmbedder(OllamaAddress(server.url, EMBEDDING_MODEL), timeout_s=0.2)
    server.fault = "hang"

    with pytest.raises(Unavailable, match="gave no answer in time"):
        await embedder.start()
    await embedder.close()


async def test_no_server_is_unavailable() -> None:
    async with fake_ollama() as server:
        gone = server.url
    embedder = OllamaEmbedder(OllamaAddress(gone, EMBEDDING_MODEL), timeout_s=20)

    with pytest.raises(Unavailable, match=f"Ollama at {gone} can't be reached"):
        await embedder.start()
    await embedder.close()


async def test_an_unknown_model_stops_the_start_with_the_command_that_gets_it(server: FakeOllama) -> None:
    embedder = OllamaEmbedder(OllamaAddress(server.url, "bge-m3"), timeout_s=20)

    with pytest.raises(ConfigurationError, match=f"SLUICE_EMBEDDER: Ollama at {server.url} .* run: ollama pull bge-m3"):
        await embedder.start()
    await embedder.close()


async def test_a_chat_model_stops_the_start(server: FakeOllama) -> None:
    embedder = OllamaEmbedder(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)

    with pytest.raises(ConfigurationError, match=r"'llama3\.2' .* is no embedding model; it can do completion"):
        await embedder.start()
    await embedder.close()


async def test_texts_go_in_batches_of_32_with_nomics_prefixes_uncut(
    server: FakeOllama, embedder: OllamaEmbedder
) -> None:
    server.requests.clear()

    await embedder.embed_documents([f"text {number}" for number in range(70)])
    await embedder.embed_query("question")

    bodies = server.bodies("/api/embed")
    assert [len(body["input"]) for body in bodies] == [32, 32, 6, 1]
    assert bodies[0]["input"][0] == "search_document: text 0"
    assert bodies[3]["input"] == ["search_query: question"]
    assert not any(body["truncate"] for body in bodies[:3])


async def test_two_batches_are_at_the_server_and_a_query_waits_for_none(
    server: FakeOllama, embedder: OllamaEmbedder
) -> None:
    server.fault, server.arrived = "hang", asyncio.Queue()
    documents = [asyncio.create_task(embedder.embed_documents(["text"])) for _ in range(4)]
    for _ in range(2):
        await server.arrived.get()
    server.fault = None

    await embedder.embed_query("question")

    assert server.at_once == 2
    assert not any(task.done() for task in documents)
    for task in documents:
        task.cancel()


async def test_nothing_is_sent_for_no_texts_and_for_blank_ones(server: FakeOllama, embedder: OllamaEmbedder) -> None:
    server.requests.clear()

    await embedder.embed_documents([])
    with pytest.raises(Rejected):
        await embedder.embed_documents(["good", " "])

    assert server.requests == []


async def test_the_digest_tells_models_and_prefixes_apart(server: FakeOllama) -> None:
    server.models = {"nomic-embed-text:latest": "embedding", "all-minilm:latest": "embedding"}
    digests = set()
    for name in ("nomic-embed-text", "nomic-embed-text:latest", "all-minilm"):
        embedder = OllamaEmbedder(OllamaAddress(server.url, name), timeout_s=20)
        await embedder.start()
        digests.add(embedder.model.digest)
        await embedder.close()

    assert len(digests) == 2  # the tag `latest` is no other model


@pytest.mark.parametrize(
    ("info", "parameters", "longest"),
    [
        ({}, "", 496),
        ({"nomic-bert.context_length": 2048}, "num_ctx                        8192", 496),
        ({"bert.context_length": 512}, "num_ctx                        256", 240),
        ({"bert.context_length": 128, "bert.block_count": 6}, 'stop  "num_ctx 1"', 112),
    ],
)
def test_the_longest_input_is_the_smallest_of_all_limits(info: dict[str, int], parameters: str, longest: int) -> None:
    assert longest_input(info, parameters) == longest


@given(st.text(), st.text())
def test_the_estimate_never_falls_as_a_text_grows(text: str, more: str) -> None:
    tokens = EstimatedTokens(100)

    shorter, longer = tokens.count([text, text + more])

    assert shorter <= longer


@given(st.text(max_size=300), st.integers(1, 100))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, limit: int) -> None:
    tokens = EstimatedTokens(limit)

    cut = tokens.cut(text)

    assert text.startswith(cut)
    assert tokens.count([cut])[0] <= limit
    if cut != text:
        assert tokens.count([text[: len(cut) + 1]])[0] > limit
