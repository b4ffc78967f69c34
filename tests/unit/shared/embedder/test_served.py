"""A text that a model's server refuses, by the three ways of refusing that were seen, and servers that refuse more."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import numpy as np
import pytest
from pydantic import SecretStr

from shared.embedder import unit
from shared.embedder.ollama import OllamaModel
from shared.embedder.openai import OpenAiModel
from shared.embedder.refusals import KEPT_S, MOST_DOCUMENTS, REST_S, TRIES
from shared.embedder.served import Prefixes, ServedEmbedder, prefixes_of
from shared.errors import Rejected, RetryLater, Unavailable
from shared.model_server.ollama import OllamaAddress
from shared.model_server.openai import OpenAiAddress, OpenAiServer
from tests.fakes.clock import SetClock
from tests.servers import fake_ollama, fake_openai
from tests.servers.fake_models import vector
from tests.servers.fake_ollama import FakeOllama
from tests.servers.fake_openai import FakeOpenAi

PREFIX = "search_document: "
GOOD = [f"Paragraph {number} says something of its own." for number in range(30)]
CURSED = "Paragraph 31 is cursed, and no model takes it."


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def server() -> AsyncIterator[FakeOllama]:
    async with fake_ollama.fake_ollama() as running:
        running.poison = "cursed"
        yield running


async def started(server: FakeOllama | FakeOpenAi, clock: SetClock, stack: AsyncExitStack) -> ServedEmbedder:
    if isinstance(server, FakeOllama):
        model = OllamaModel(OllamaAddress(server.url, fake_ollama.EMBEDDING_MODEL), timeout_s=20)
        embedder = ServedEmbedder(model, clock=clock)
    else:
        http = OpenAiServer(OpenAiAddress(server.base, fake_openai.EMBEDDING_MODEL), SecretStr(""), timeout_s=20)
        embedder = ServedEmbedder(OpenAiModel(http), clock=clock)
    await embedder.start()
    stack.push_async_callback(embedder.close)
    return embedder


@pytest.fixture
async def embedder(server: FakeOllama, clock: SetClock) -> AsyncIterator[ServedEmbedder]:
    async with AsyncExitStack() as stack:
        yield await started(server, clock, stack)


async def outcome(embedder: ServedEmbedder, clock: SetClock, texts: Sequence[str]) -> tuple[Exception | None, int]:
    """Return what the last of as many tries as it takes raised, and how many rests there were before."""
    rests = 0
    while True:
        try:
            await embedder.embed_documents(texts)
        except RetryLater as error:
            rests += 1
            clock.now += error.after_s
        except (Rejected, Unavailable) as error:
            return error, rests
        else:
            return None, rests


def asked(server: FakeOllama | FakeOpenAi) -> list[list[str]]:
    return [body["input"] for path, body in server.requests if path in {"/api/embed", "/v1/embeddings"}]


WAYS = [
    pytest.param("ollama", 500, "answered 500: failed to encode response: json: unsupported value: NaN", id="500"),
    pytest.param("openai", 400, "answered 400: the input can't be processed", id="400"),
    pytest.param("openai", 422, "answered 422: the input can't be processed", id="422"),
    pytest.param("openai", 200, "returned a damaged vector", id="a vector of zeros"),
]


@pytest.mark.parametrize(("kind", "status", "words"), WAYS)
async def test_a_refused_text_is_rejected_with_the_servers_words_within_15_seconds(
    clock: SetClock, kind: str, status: int, words: str
) -> None:
    async with AsyncExitStack() as stack:
        server: FakeOllama | FakeOpenAi
        if kind == "ollama":
            server = await stack.enter_async_context(fake_ollama.fake_ollama())
        else:
            server = await stack.enter_async_context(fake_openai.fake_openai())
            server.poison_status = status
        server.poison = "cursed"
        embedder = await started(server, clock, stack)
        began = clock.now

        error, rests = await outcome(embedder, clock, [*GOOD[:15], CURSED, *GOOD[15:]])

    assert isinstance(error, Rejected)
    assert (error.code, rests) == ("model_refuses", TRIES - 1)
    assert words in error.sentence
    assert "3 times for a text of 46 characters alone, while it embeds others as long" in error.sentence
    assert clock.now - began < 15


async def test_the_good_texts_are_embedded_once_and_come_with_the_next_try(
    server: FakeOllama, embedder: ServedEmbedder, clock: SetClock
) -> None:
    server.requests.clear()
    with pytest.raises(RetryLater):
        await embedder.embed_documents([*GOOD, CURSED])
    server.poison, before = None, len(server.requests)
    clock.now += REST_S

    vectors = await embedder.embed_documents([*GOOD, CURSED])

    assert asked(server)[-1] == [PREFIX + CURSED]
    assert len(server.requests) == before + 2  # with the question for the model's digest
    assert all(np.array_equal(found, unit(vector(PREFIX + text))) for found, text in zip(vectors, GOOD, strict=False))


async def test_others_texts_in_the_same_call_are_given_their_vectors(
    server: FakeOllama, embedder: ServedEmbedder
) -> None:
    results = await asyncio.gather(
        *(embedder.embed_documents([text]) for text in (*GOOD[:3], CURSED, *GOOD[3:6])), return_exceptions=True
    )

    assert [type(result).__name__ for result in results] == ["list"] * 3 + ["RetryLater"] + ["list"] * 3


async def test_three_hundred_documents_with_one_bad_footer_wait_once(
    server: FakeOllama, embedder: ServedEmbedder, clock: SetClock
) -> None:
    ends = [await outcome(embedder, clock, [GOOD[0], CURSED])]
    server.requests.clear()

    ends += [await outcome(embedder, clock, [f"Document {number}.", CURSED]) for number in range(300)]

    assert all(isinstance(error, Rejected) for error, _ in ends)
    assert sum(rests for _, rests in ends) == TRIES - 1
    assert server.requests == []


async def test_a_remembered_refusal_is_forgotten_after_ten_minutes(
    server: FakeOllama, embedder: ServedEmbedder, clock: SetClock
) -> None:
    await outcome(embedder, clock, [CURSED])
    server.poison = None

    assert isinstance((await outcome(embedder, clock, [CURSED]))[0], Rejected)
    clock.now += KEPT_S + 1
    assert await outcome(embedder, clock, [CURSED]) == (None, 0)


async def test_from_the_third_document_on_it_is_the_server_that_is_unavailable(
    server: FakeOllama, embedder: ServedEmbedder, clock: SetClock
) -> None:
    ends = [(await outcome(embedder, clock, [f"Another cursed text, number {n}."]))[0] for n in range(4)]

    assert [type(end) for end in ends] == [Rejected] * MOST_DOCUMENTS + [Unavailable] * 2
    assert "it refused texts of 3 documents within 10 minutes" in str(ends[-1])


async def test_a_server_that_refuses_every_long_text_rejects_none(
    server: FakeOllama, embedder: ServedEmbedder, clock: SetClock
) -> None:
    server.poison, server.stumbles_from = None, 40
    short, long = GOOD, [f"Text {number}. " + "One word more. " * 12 for number in range(5)]

    ends = []
    for _ in range(10):
        ends += [(await outcome(embedder, clock, [text, short[0]]))[0] for text in long]
        clock.now += REST_S
    fine, _ = await outcome(embedder, clock, short)

    assert all(isinstance(end, Unavailable) for end in ends)
    assert fine is None


async def test_a_server_that_refuses_everything_is_asked_little(
    server: FakeOllama, embedder: ServedEmbedder, clock: SetClock
) -> None:
    server.fault = "500"
    server.requests.clear()

    with pytest.raises(Unavailable) as caught:
        await embedder.embed_documents(GOOD[:8])

    assert not isinstance(caught.value, RetryLater)
    assert len(asked(server)) == 2  # the batch, and a word that it has embedded before


@pytest.mark.parametrize("status", [401, 403, 404, 405])
async def test_what_a_server_says_of_key_model_and_route_is_never_a_texts_fault(clock: SetClock, status: int) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(fake_openai.fake_openai())
        embedder = await started(server, clock, stack)
        server.poison, server.poison_status = "cursed", status

        for _ in range(2 * TRIES):
            with pytest.raises(Unavailable) as caught:
                await embedder.embed_documents([CURSED])
            assert not isinstance(caught.value, RetryLater)
            clock.now += REST_S


async def test_what_another_model_refuses_is_not_the_texts_fault(
    server: FakeOllama, embedder: ServedEmbedder, clock: SetClock
) -> None:
    server.weights = "second"

    for _ in range(2 * TRIES):
        error, rests = await outcome(embedder, clock, [CURSED])
        assert isinstance(error, Unavailable)
        assert (error.code, rests) == ("model_changed", 0)
        clock.now += REST_S


async def test_a_text_too_long_for_the_server_whose_part_it_refuses_is_rejected(
    server: FakeOllama, embedder: ServedEmbedder, clock: SetClock
) -> None:
    server.context = 12

    error, rests = await outcome(embedder, clock, ["These are five plain words. A cursed part stands behind them."])

    assert isinstance(error, Rejected)
    assert (error.code, rests) == ("model_refuses", TRIES - 1)


SEARCH = "Represent this sentence for searching relevant passages: "
INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@pytest.mark.feature(112)
@pytest.mark.parametrize(
    ("model", "document", "query"),
    [
        ("nomic-embed-text:v1.5", "search_document: ", "search_query: "),
        ("nomic-ai/nomic-embed-text-v2-moe", "search_document: ", "search_query: "),
        ("mxbai-embed-large", "", SEARCH),
        ("snowflake-arctic-embed:137m", "", SEARCH),
        ("snowflake-arctic-embed2", "", "query: "),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "", "query: "),
        ("bge-large", "", SEARCH),
        ("BAAI/bge-small-en-v1.5", "", SEARCH),
        ("BAAI/bge-base-zh-v1.5", "", "为这个句子生成表示以用于检索相关文章："),
        ("bge-m3", "", ""),
        ("intfloat/multilingual-e5-large", "passage: ", "query: "),
        ("intfloat/multilingual-e5-large-instruct", "", INSTRUCT),
        ("qwen3-embedding:0.6b", "", INSTRUCT),
        ("embeddinggemma", "title: none | text: ", "task: search result | query: "),
        ("all-minilm", "", ""),
        ("text-embedding-3-small", "", ""),
        ("some-made5-model", "", ""),
    ],
)
def test_a_family_has_the_prefixes_that_it_was_trained_with(model: str, document: str, query: str) -> None:
    assert prefixes_of(model) == Prefixes(document, query)
