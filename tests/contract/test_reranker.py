"""What every reranker adapter promises, and how it handles a server's faults."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from shared.errors import Unavailable
from shared.model_server.http import BadAnswer
from shared.reranker import Reranker
from shared.reranker.in_process import OnnxReranker
from shared.reranker.served import BATCH, ServedReranker, open_reranker, rerank_address
from shared.settings import ConfigurationError
from tests.fakes.reranker import MemoryReranker
from tests.servers.fake_rerank import FakeReranker, Shape, fake_rerank
from tests.tiny_models import cross_encoder, mean_model

NO_KEY = SecretStr("")
FAULTS = ("few", "null", "index", "html", "list", "400", "401", "429", "500", "503", "redirect")
QUERY = "when is the lantern lit"


def a_reranker(server: FakeReranker, model: str = "", key: SecretStr = NO_KEY, timeout_s: float = 10) -> ServedReranker:
    named = f"?model={model}" if model else ""
    return ServedReranker(rerank_address("SLUICE_RERANK", f"{server.url}/rerank{named}"), key, timeout_s)


@pytest.fixture(params=["memory", "onnx", "cohere", "tei"])
async def reranker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Reranker]:
    if request.param == "memory":
        yield MemoryReranker()
        return
    if request.param == "onnx":
        found = open_reranker(f"onnx:{cross_encoder(tmp_path)}", NO_KEY, 60)
        assert found
        yield found
        await found.close()
        return
    async with fake_rerank(request.param) as server:
        opened = a_reranker(server)
        yield opened
        await opened.close()


async def test_each_text_has_its_score_in_the_order_of_the_texts(reranker: Reranker) -> None:
    texts = ["herons nest", "the lantern is lit at six", "the lantern"]

    first = await reranker.scores(QUERY, texts)
    reverse = await reranker.scores(QUERY, texts[::-1])

    assert first[1] > first[2] > first[0]
    assert list(reverse) == list(first)[::-1]
    assert await reranker.scores(QUERY, []) == []


async def test_many_texts_are_scored_as_each_alone(reranker: Reranker) -> None:
    texts = [("the lantern is lit " * (number % 3))[: 10 + number] or "x" for number in range(2 * BATCH + 1)]

    scores = await reranker.scores(QUERY, texts)

    assert list(scores) == [(await reranker.scores(QUERY, [text]))[0] for text in texts]


async def test_a_failure_of_the_runtime_is_an_outage(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path)
    reranker = open_reranker(f"onnx:{folder}", NO_KEY, 60)
    assert isinstance(reranker, OnnxReranker)
    reranker._output = "no such output"  # the runtime refuses it with an error of its own

    with pytest.raises(Unavailable, match="the cross-encoder failed"):
        await reranker.scores(QUERY, ["the lantern"])

    await reranker.close()


@pytest.mark.parametrize(("shape", "refused"), [("cohere", 0), ("tei", 1)])
async def test_the_shape_of_requests_is_found_out_once(shape: Shape, refused: int) -> None:
    async with fake_rerank(shape) as server:
        server.key, server.model = "secret", "bge"
        reranker = a_reranker(server, "bge", SecretStr("secret"))

        for _ in range(2):
            assert await reranker.scores(QUERY, ["the lantern", "x"])

        assert len(server.requests) == 2 + refused
        await reranker.close()


@pytest.mark.parametrize("shape", ["cohere", "tei"])
@pytest.mark.parametrize(
    "fault", ["few", "null", "index", "html", "list", "400", "401", "429", "500", "503", "redirect"]
)
async def test_every_fault_of_a_server_is_unavailable_and_names_it(shape: Shape, fault: str) -> None:
    async with fake_rerank(shape) as server:
        reranker = a_reranker(server)
        server.fault = fault

        with pytest.raises(Unavailable, match=f"reranker at {server.url}/rerank"):
            await reranker.scores(QUERY, ["the lantern", "x"])

        server.fault = None
        assert await reranker.scores(QUERY, ["the lantern"])
        await reranker.close()


async def test_a_silent_server_is_left_after_the_time_limit() -> None:
    async with fake_rerank() as server:
        reranker = a_reranker(server, timeout_s=0.05)
        server.fault = "hang"

        # A loaded machine may take longer than that to send the question, and then there is nobody to leave.
        while not server.left.is_set():
            with pytest.raises(Unavailable, match="no answer in time"):
                await reranker.scores(QUERY, ["the lantern"])

        await reranker.close()


async def test_a_wrong_key_is_told() -> None:
    async with fake_rerank() as server:
        server.key = "right"
        reranker = a_reranker(server, key=SecretStr("wrong"))

        with pytest.raises(BadAnswer, match="401"):
            await reranker.scores(QUERY, ["x"])

        await reranker.close()


@pytest.mark.parametrize(
    "setting",
    [
        "ftp://x/rerank",
        "http://x",
        "http://x/",
        "http:///rerank",
        "x",
        "http://x/rerank?top=3",
        "http://x:99999/rerank",
    ],
)
def test_a_setting_of_another_form_is_refused_by_name(setting: str) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_RERANK"):
        open_reranker(setting, NO_KEY, 1)


def test_a_key_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_RERANK_API_KEY") as error:
        open_reranker("http://user:secret@x/rerank", NO_KEY, 1)

    assert "secret" not in str(error.value)


def test_no_setting_is_no_reranker() -> None:
    assert open_reranker("", NO_KEY, 1) is None


async def test_a_model_in_a_folder_that_is_no_cross_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="more than a number"):
        OnnxReranker(f"onnx:{mean_model(tmp_path / 'mean')}", 1)
    with pytest.raises(ConfigurationError, match="must look like"):
        open_reranker(f"onnx:{tmp_path}?pooling=mean", NO_KEY, 1)


async def test_a_model_in_a_folder_gives_up_after_the_time_limit(tmp_path: Path) -> None:
    reranker = OnnxReranker(f"onnx:{cross_encoder(tmp_path)}", 0.000001)

    with pytest.raises(Unavailable, match="300 passages"):
        await reranker.scores(QUERY, ["the lantern"] * 300)

    await reranker.close()
