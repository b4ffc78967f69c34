"""Several servers of one model: work is spread, a server that fails is passed over, and no vectors are mixed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from shared.embedder.ollama import OllamaModel, ollama_embedder
from shared.embedder.served import ServedEmbedder
from shared.embedder.servers import REST_S, Servers
from shared.errors import RetryLater, Unavailable
from shared.model_server.ollama import OllamaAddress
from shared.settings import ConfigurationError
from tests.fakes.clock import SetClock
from tests.servers.fake_ollama import EMBEDDING_MODEL, FakeOllama, Fault, fake_ollama

TEXTS = [f"Paragraph {number} says something of its own." for number in range(12)]


@pytest.fixture
async def pair() -> AsyncIterator[tuple[FakeOllama, FakeOllama]]:
    async with fake_ollama() as first, fake_ollama() as second:
        yield first, second


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@asynccontextmanager
async def servers(pair: tuple[FakeOllama, FakeOllama], clock: SetClock) -> AsyncIterator[Servers]:
    models = [OllamaModel(OllamaAddress(each.url, EMBEDDING_MODEL), timeout_s=20) for each in pair]
    spread = Servers(models, clock=clock)
    try:
        yield spread
    finally:
        await spread.close()


def calls(server: FakeOllama) -> int:
    return sum(path == "/api/embed" for path, _ in server.requests)


async def test_calls_at_a_time_are_spread(pair: tuple[FakeOllama, FakeOllama], clock: SetClock) -> None:
    async with servers(pair, clock) as spread:
        await spread.describe()
        before = [calls(each) for each in pair]

        await asyncio.gather(*(spread.embed([text]) for text in TEXTS))

    assert [calls(each) - seen for each, seen in zip(pair, before, strict=True)] == [6, 6]


@pytest.mark.parametrize("fault", ["503", "500", "half"])
async def test_a_server_that_fails_is_passed_over_and_tried_again_after_its_rest(
    pair: tuple[FakeOllama, FakeOllama], clock: SetClock, fault: Fault
) -> None:
    first, _ = pair
    async with servers(pair, clock) as spread:
        await spread.describe()
        first.fault = fault

        vectors = await spread.embed(TEXTS)
        tried = calls(first)
        await spread.embed(TEXTS)
        assert calls(first) == tried, "it rests"
        first.fault = None
        clock.now += REST_S
        await asyncio.gather(*(spread.embed([text]) for text in TEXTS[:2]))

    assert len(vectors) == len(TEXTS)
    assert calls(first) == tried + 1, "it works again"


async def test_when_all_fail_the_error_is_the_first_ones(pair: tuple[FakeOllama, FakeOllama], clock: SetClock) -> None:
    async with servers(pair, clock) as spread:
        await spread.describe()
        for each in pair:
            each.fault = "503"

        with pytest.raises(Unavailable, match="answered 503"):
            await spread.embed(TEXTS)
        with pytest.raises(Unavailable):
            await spread.ping()
        pair[1].fault = None

        assert len(await spread.embed(TEXTS)) == len(TEXTS), "a resting server is asked before nobody is"
        await spread.ping()


async def test_a_server_that_was_away_at_the_start_joins_when_it_has_the_same_model(
    pair: tuple[FakeOllama, FakeOllama], clock: SetClock
) -> None:
    _, second = pair
    async with servers(pair, clock) as spread:
        second.fault = "503"
        await spread.describe()
        second.fault = None
        clock.now += REST_S

        await asyncio.gather(*(spread.embed([text]) for text in TEXTS))

    assert calls(second) > 0


async def test_a_server_that_comes_back_with_another_model_is_not_used(
    pair: tuple[FakeOllama, FakeOllama], clock: SetClock
) -> None:
    first, second = pair
    async with servers(pair, clock) as spread:
        second.fault = "503"
        await spread.describe()
        second.fault, second.weights = None, "others"
        first.fault = "503"
        clock.now += REST_S

        with pytest.raises(Unavailable):
            await spread.embed(TEXTS)


async def test_servers_with_different_models_stop_the_start(
    pair: tuple[FakeOllama, FakeOllama], clock: SetClock
) -> None:
    pair[1].weights = "others"

    async with servers(pair, clock) as spread:
        with pytest.raises(
            ConfigurationError, match=r"SLUICE_EMBEDDER: 'nomic-embed-text' on .* is another model than"
        ):
            await spread.describe()


async def test_no_server_at_the_start_is_unavailable(pair: tuple[FakeOllama, FakeOllama], clock: SetClock) -> None:
    for each in pair:
        each.fault = "503"

    async with servers(pair, clock) as spread:
        with pytest.raises(Unavailable):
            await spread.describe()


async def test_a_text_that_one_server_refuses_and_another_takes_is_embedded(
    pair: tuple[FakeOllama, FakeOllama],
) -> None:
    pair[0].poison = "cursed"

    async with AsyncExitStack() as stack:
        embedder = await started(pair, stack)
        vectors = await embedder.embed_documents(["a cursed text", *TEXTS])

    assert len(vectors) == 1 + len(TEXTS)


async def test_a_text_that_every_server_refuses_is_the_texts_fault(pair: tuple[FakeOllama, FakeOllama]) -> None:
    for each in pair:
        each.poison = "cursed"

    async with AsyncExitStack() as stack:
        embedder = await started(pair, stack)
        with pytest.raises(RetryLater, match="it embeds other texts"):
            await embedder.embed_documents(["a cursed text", *TEXTS])


async def started(pair: tuple[FakeOllama, FakeOllama], stack: AsyncExitStack) -> ServedEmbedder:
    embedder = ollama_embedder(*(OllamaAddress(each.url, EMBEDDING_MODEL) for each in pair))
    await embedder.start()
    stack.push_async_callback(embedder.close)
    return embedder
