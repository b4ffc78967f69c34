"""What every embedder promises, on every adapter."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr

from shared.embedder import Embedder
from shared.embedder.in_process import onnx_embedder
from shared.embedder.minilm import MiniLm, Precision
from shared.embedder.ollama import ollama_embedder
from shared.embedder.openai import openai_embedder
from shared.errors import Rejected
from shared.model_server.ollama import OllamaAddress
from shared.model_server.openai import OpenAiAddress
from tests.fakes.embedder import MemoryEmbedder
from tests.servers import fake_ollama, fake_openai
from tests.servers.ollama import EMBEDDING_MODEL
from tests.tiny_models import cls_model, mean_model

TEXTS = ["The cat sleeps on the warm mat.", "A cat slept on a mat.", "Interest rates rose by a quarter point."]
KEY = SecretStr("sk-a-key")


@pytest.fixture(scope="module")
def minilm() -> Iterator[MiniLm]:
    yield from running("float32")


@pytest.fixture(scope="module")
def minilm_int8() -> Iterator[MiniLm]:
    yield from running("int8")


def running(precision: Precision) -> Iterator[MiniLm]:
    embedder = MiniLm(threads=2, precision=precision)
    asyncio.run(embedder.start())
    yield embedder
    asyncio.run(embedder.close())


@pytest.fixture(
    params=[
        "minilm",
        "minilm:int8",
        "onnx of BERT's kind",
        "onnx of sentence pieces",
        "memory",
        "fake ollama",
        pytest.param("ollama", marks=pytest.mark.server),
        "fake openai",
        pytest.param("openai", marks=pytest.mark.server),
    ]
)
async def embedder(
    request: pytest.FixtureRequest, minilm: MiniLm, minilm_int8: MiniLm, tmp_path: Path
) -> AsyncIterator[Embedder]:
    if request.param == "minilm":
        yield minilm
    elif request.param == "minilm:int8":
        yield minilm_int8
    elif request.param == "onnx of BERT's kind":
        async with started(onnx_embedder(f"onnx:{mean_model(tmp_path)}?pooling=mean", threads=2)) as found:
            yield found
    elif request.param == "onnx of sentence pieces":
        async with started(onnx_embedder(f"onnx:{cls_model(tmp_path)}", threads=2)) as found:
            yield found
    elif request.param == "memory":
        yield MemoryEmbedder()
    elif request.param == "ollama":
        url = request.getfixturevalue("ollama_url")
        async with started(ollama_embedder(OllamaAddress(url, EMBEDDING_MODEL))) as ollama:
            yield ollama
    elif request.param == "openai":  # Ollama speaks it too
        url = request.getfixturevalue("ollama_url")
        async with started(openai_embedder(OpenAiAddress(f"{url}/v1", EMBEDDING_MODEL), KEY)) as openai:
            yield openai
    else:
        async with faked(request.param) as served:
            yield served


@asynccontextmanager
async def started(embedder: Embedder) -> AsyncIterator[Embedder]:
    await embedder.start()
    try:
        yield embedder
    finally:
        await embedder.close()


@asynccontextmanager
async def faked(name: str) -> AsyncIterator[Embedder]:
    async with AsyncExitStack() as stack:
        if name == "fake ollama":
            server = await stack.enter_async_context(fake_ollama.fake_ollama())
            embedder = ollama_embedder(OllamaAddress(server.url, fake_ollama.EMBEDDING_MODEL))
        else:
            paid = await stack.enter_async_context(fake_openai.fake_openai())
            paid.key = KEY.get_secret_value()
            embedder = openai_embedder(OpenAiAddress(paid.base, fake_openai.EMBEDDING_MODEL), KEY)
        yield await stack.enter_async_context(started(embedder))


async def test_a_ping_is_answered_while_it_runs(embedder: Embedder) -> None:
    await embedder.ping()  # or raises Unavailable


@pytest.mark.feature(215)
async def test_vectors_are_of_unit_length_and_of_the_models_dimension(embedder: Embedder) -> None:
    vectors = [*await embedder.embed_documents(TEXTS), await embedder.embed_query("a cat")]

    for vector in vectors:
        assert vector.shape == (embedder.model.dimension,)
        assert vector.dtype == np.float32
        assert abs(float(np.sum(vector.astype(np.float64) ** 2)) - 1) < 1e-6


@pytest.mark.feature(115)
async def test_vectors_come_in_the_order_of_the_texts(embedder: Embedder) -> None:
    texts = [f"Passage number {number} of many." for number in range(40)]  # more than one batch

    together = await embedder.embed_documents(texts)

    assert len(together) == 40
    for number in (0, 17, 39):
        [alone] = await embedder.embed_documents([texts[number]])
        assert np.array_equal(alone, together[number])


async def test_what_means_the_same_is_nearer(embedder: Embedder) -> None:
    cat, same, other = await embedder.embed_documents(TEXTS)

    assert float(cat @ same) > float(cat @ other)


async def test_a_query_is_nearest_to_the_text_that_answers_it(embedder: Embedder) -> None:
    query = await embedder.embed_query("interest rates")

    scores = [float(query @ vector) for vector in await embedder.embed_documents(TEXTS)]

    assert scores.index(max(scores)) == 2


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert await embedder.embed_documents([]) == []


@pytest.mark.parametrize("text", ["", " \n\t", "\u3000"])
async def test_a_blank_text_is_rejected_by_its_position(embedder: Embedder, text: str) -> None:
    with pytest.raises(Rejected, match="text 1 of 2 is blank"):
        await embedder.embed_documents(["not blank", text])
    with pytest.raises(Rejected, match="blank"):
        await embedder.embed_query(text)


async def test_half_a_surrogate_pair_is_rejected(embedder: Embedder) -> None:
    with pytest.raises(Rejected, match=r"lone surrogate '\\ud83d' at character 3"):
        await embedder.embed_documents(["bad\ud83d"])


async def test_a_longer_document_is_rejected_and_never_cut(embedder: Embedder) -> None:
    with pytest.raises(Rejected, match=r"accepts at most \d+") as caught:
        await embedder.embed_documents(["short", "word " * 10_000])

    assert caught.value.code == "text_too_long"


async def test_a_longer_query_is_cut_at_its_end(embedder: Embedder) -> None:
    vector = await embedder.embed_query("interest rates " + "and so on " * 1000)

    assert vector.shape == (embedder.model.dimension,)


async def test_what_fits_by_the_count_is_embedded(embedder: Embedder) -> None:
    tokens = embedder.tokens
    fitting = "word"
    while tokens.count([fitting + " word"])[0] <= tokens.max_tokens:
        fitting += " word"

    [vector] = await embedder.embed_documents([fitting])

    assert vector.shape == (embedder.model.dimension,)
    assert tokens.max_tokens == embedder.model.max_tokens


async def test_counts_come_in_order_from_any_thread(embedder: Embedder) -> None:
    texts = ["", "one", "one two three four five", "返品は30日以内です", "\ud800"]

    counts = await asyncio.gather(*(asyncio.to_thread(embedder.tokens.count, texts) for _ in range(4)))

    assert all(count == counts[0] for count in counts)
    assert counts[0][0] == 0
    assert 0 < counts[0][1] < counts[0][2]


async def test_two_starts_give_one_model(embedder: Embedder) -> None:
    before = embedder.model

    await embedder.start()

    assert embedder.model == before
    assert len(before.digest) == 64
