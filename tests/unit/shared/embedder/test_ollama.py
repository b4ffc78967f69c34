"""The Ollama embedder against a server that fails in every way we have seen."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from shared.embedder import unit
from shared.embedder.gather import MOST
from shared.embedder.ollama import KEEP_ALIVE, longest_input, ollama_embedder
from shared.embedder.served import ServedEmbedder
from shared.errors import Rejected, Unavailable
from shared.model_server.ollama import OllamaAddress
from shared.settings import ConfigurationError
from tests.servers.fake_models import DIMENSION, vector
from tests.servers.fake_ollama import CHAT_MODEL, EMBEDDING_MODEL, FakeOllama, Fault, fake_ollama


@pytest.fixture
async def server() -> AsyncIterator[FakeOllama]:
    async with fake_ollama() as running:
        yield running


@pytest.fixture
async def embedder(server: FakeOllama) -> AsyncIterator[ServedEmbedder]:
    started = ollama_embedder(OllamaAddress(server.url, EMBEDDING_MODEL), timeout_s=20)
    await started.start()
    yield started
    await started.close()


FAULTS: list[tuple[Fault, str]] = [
    ("500", "answered 500: fault 500"),
    ("503", "answered 503: fault 503"),
    ("400", "answered 400: fault 400"),
    ("404", "has no model 'nomic-embed-text'; run: ollama pull nomic-embed-text"),
    ("html", "gave an invalid answer"),
    ("list", "gave an invalid answer"),
    ("half", "can't be reached"),
    ("redirect", "answered 307"),
    ("few", "returned 1 vectors for 2 texts"),
    ("short", "returned a vector of 63 numbers; nomic-embed-text had 64 at the start"),
    ("nan", "returned a damaged vector"),
    ("null", "gave an invalid answer"),
    ("zero", "returned a damaged vector"),
]


@pytest.mark.feature(71)
@pytest.mark.parametrize(("fault", "sentence"), FAULTS)
async def test_a_fault_of_the_server_is_unavailable_and_passes(
    server: FakeOllama, embedder: ServedEmbedder, fault: Fault, sentence: str
) -> None:
    server.fault = fault
    with pytest.raises(Unavailable, match=sentence) as caught:
        await embedder.embed_documents(["one", "two"])
    assert server.url in caught.value.sentence

    server.fault = None
    assert len(await embedder.embed_documents(["one", "two"])) == 2


@pytest.mark.parametrize("fault", ["500", "html", "list", "half", "404"])
async def test_a_fault_at_start_is_unavailable(server: FakeOllama, fault: Fault) -> None:
    embedder = ollama_embedder(OllamaAddress(server.url, EMBEDDING_MODEL), timeout_s=20)
    server.fault = fault
    with pytest.raises(Unavailable):
        await embedder.start()

    server.fault = None
    await embedder.start()
    assert embedder.model.dimension == DIMENSION
    await embedder.close()


async def test_a_server_that_does_not_answer_is_unavailable(server: FakeOllama) -> None:
    embedder = ollama_embedder(OllamaAddress(server.url, EMBEDDING_MODEL), timeout_s=0.2)
    server.fault = "hang"

    with pytest.raises(Unavailable, match="gave no answer in time"):
        await embedder.start()
    await embedder.close()


async def test_no_server_is_unavailable() -> None:
    async with fake_ollama() as server:
        gone = server.url
    embedder = ollama_embedder(OllamaAddress(gone, EMBEDDING_MODEL), timeout_s=20)

    with pytest.raises(Unavailable, match=f"Ollama at {gone} can't be reached"):
        await embedder.start()
    await embedder.close()


async def test_a_ping_tells_a_server_from_none() -> None:
    async with fake_ollama() as server:
        embedder = ollama_embedder(OllamaAddress(server.url, EMBEDDING_MODEL), timeout_s=20)
        await embedder.start()
        await embedder.ping()

    with pytest.raises(Unavailable, match=f"Ollama at {server.url} can't be reached"):
        await embedder.ping()
    await embedder.close()


async def test_an_unknown_model_stops_the_start_with_the_command_that_gets_it(server: FakeOllama) -> None:
    embedder = ollama_embedder(OllamaAddress(server.url, "bge-m3"), timeout_s=20)

    with pytest.raises(ConfigurationError, match=f"SLUICE_EMBEDDER: Ollama at {server.url} .* run: ollama pull bge-m3"):
        await embedder.start()
    await embedder.close()


async def test_a_chat_model_stops_the_start(server: FakeOllama) -> None:
    embedder = ollama_embedder(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)

    with pytest.raises(ConfigurationError, match=r"'llama3\.2' .* is not an embedding model; it can do completion"):
        await embedder.start()
    await embedder.close()


@pytest.mark.feature(72, 113)
async def test_texts_go_in_batches_uncut_with_nomics_prefixes_and_keep_the_model_loaded(
    server: FakeOllama, embedder: ServedEmbedder
) -> None:
    server.requests.clear()

    await embedder.embed_documents([f"text {number}" for number in range(200)])
    await embedder.embed_query("question")

    *documents, query = server.bodies("/api/embed")
    assert sorted(text for body in documents for text in body["input"]) == sorted(
        f"search_document: text {number}" for number in range(200)
    )
    assert max(len(body["input"]) for body in documents) <= MOST
    assert query["input"] == ["search_query: question"]
    assert {(body["truncate"], body["keep_alive"]) for body in (*documents, query)} == {(False, KEEP_ALIVE)}


async def test_two_batches_are_at_the_server_and_a_query_waits_for_none(
    server: FakeOllama, embedder: ServedEmbedder
) -> None:
    server.fault, server.arrived = "hang", asyncio.Queue()
    documents = [asyncio.create_task(embedder.embed_documents([f"text {n}"] * 10)) for n in range(4)]
    for _ in range(2):
        await server.arrived.get()
    server.fault = None

    await embedder.embed_query("question")

    assert server.at_once == 2
    assert not any(task.done() for task in documents)
    for task in documents:
        task.cancel()


async def test_a_text_too_long_for_the_server_is_embedded_in_parts_and_the_others_as_they_are(
    server: FakeOllama, embedder: ServedEmbedder
) -> None:
    server.context = 10  # words and signs; a prefix is three of them
    texts = ["short one", "Here are five words. There stand as many.", "short two"]

    vectors = await embedder.embed_documents(texts)

    prefix = "search_document: "
    first, second = "Here are five words. ", "There stand as many."
    parts = [unit(vector(prefix + first)), unit(vector(prefix + second))]
    mean = np.average(parts, axis=0, weights=[len(first), len(second)])
    assert [np.array_equal(vectors[n], unit(vector(prefix + texts[n]))) for n in (0, 2)] == [True, True]
    assert np.array_equal(vectors[1], unit(mean))
    assert np.array_equal((await embedder.embed_documents(texts))[1], vectors[1])


async def test_a_text_that_no_halving_makes_short_enough_is_rejected_alone(
    server: FakeOllama, embedder: ServedEmbedder
) -> None:
    server.context = 4

    long, short = await asyncio.gather(
        embedder.embed_documents(["word " * 20]), embedder.embed_documents(["short"]), return_exceptions=True
    )

    assert isinstance(long, Rejected)
    assert long.code == "text_too_long"
    assert "a text of 100 characters can't be embedded" in long.sentence
    assert not isinstance(short, BaseException)


async def test_a_query_too_long_for_the_server_is_cut_until_it_fits(
    server: FakeOllama, embedder: ServedEmbedder
) -> None:
    server.context = 5

    found = await embedder.embed_query("apple pear plum fig")

    assert np.array_equal(found, unit(vector("search_query: apple pea")))
    server.context = 1
    with pytest.raises(Rejected, match="refuses even the first"):
        await embedder.embed_query("apple pear plum fig")


async def test_a_text_that_makes_the_model_fail_holds_up_its_own_document_alone(
    server: FakeOllama, embedder: ServedEmbedder
) -> None:
    server.poison = "cursed"

    results = await asyncio.gather(
        *(embedder.embed_documents([text]) for text in ("one", "cursed", "two")), return_exceptions=True
    )

    assert [isinstance(result, Unavailable) for result in results] == [False, True, False]


async def test_a_model_replaced_while_we_run_gives_no_vectors_until_it_is_back(
    server: FakeOllama, embedder: ServedEmbedder
) -> None:
    server.weights = "second"
    for asked in (embedder.embed_documents(["text"]), embedder.embed_query("text")):
        with pytest.raises(Unavailable, match=r"has replaced 'nomic-embed-text': .* restart Sluice") as caught:
            await asked
        assert caught.value.code == "model_changed"

    server.weights = "first"
    assert len(await embedder.embed_documents(["text"])) == 1


async def test_a_model_removed_while_we_run_is_awaited(server: FakeOllama, embedder: ServedEmbedder) -> None:
    server.models.clear()

    with pytest.raises(Unavailable, match="run: ollama pull nomic-embed-text"):
        await embedder.embed_documents(["text"])


async def test_nothing_is_sent_for_no_texts_and_for_blank_ones(server: FakeOllama, embedder: ServedEmbedder) -> None:
    server.requests.clear()

    await embedder.embed_documents([])
    with pytest.raises(Rejected):
        await embedder.embed_documents(["good", " "])

    assert server.requests == []


async def test_the_digest_tells_models_and_prefixes_apart(server: FakeOllama) -> None:
    server.models = {"nomic-embed-text:latest": "embedding", "all-minilm:latest": "embedding"}
    digests = set()
    for name in ("nomic-embed-text", "nomic-embed-text:latest", "all-minilm"):
        embedder = ollama_embedder(OllamaAddress(server.url, name), timeout_s=20)
        await embedder.start()
        digests.add(embedder.model.digest)
        await embedder.close()

    assert len(digests) == 2  # the tag `latest` is no other model


@pytest.mark.parametrize(
    ("info", "parameters", "longest"),
    [
        ({}, "", 512),
        ({"nomic-bert.context_length": 2048}, "num_ctx                        8192", 512),
        ({"bert.context_length": 512}, "num_ctx                        256", 256),
        ({"bert.context_length": 128, "bert.block_count": 6}, 'stop  "num_ctx 1"', 128),
    ],
)
def test_the_longest_input_is_the_smallest_of_all_limits(info: dict[str, int], parameters: str, longest: int) -> None:
    assert longest_input(info, parameters) == longest


async def test_special_tokens_and_the_prefix_take_their_part_of_the_longest_input(
    server: FakeOllama, embedder: ServedEmbedder
) -> None:
    bare = {"all-minilm:latest": "embedding"}
    server.models |= bare
    other = ollama_embedder(OllamaAddress(server.url, "all-minilm"), timeout_s=20)
    await other.start()

    assert embedder.model.max_tokens < other.model.max_tokens < 256
    assert other.model.max_tokens - embedder.model.max_tokens >= 5  # BERT's tokens of "search_document: "
    await other.close()
