"""The embedder of OpenAI-compatible servers, against one that fails in every way we know of."""

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from shared.embedder.openai import openai_embedder
from shared.embedder.served import ServedEmbedder
from shared.errors import Rejected, Unavailable
from shared.model_server.openai import OpenAiAddress
from shared.settings import ConfigurationError
from tests.servers.fake_models import DIMENSION
from tests.servers.fake_openai import EMBEDDING_MODEL, FakeOpenAi, Fault, fake_openai

KEY = SecretStr("sk-a-key")


def an_embedder(server: FakeOpenAi, model: str = EMBEDDING_MODEL, timeout_s: float = 20) -> ServedEmbedder:
    return openai_embedder(OpenAiAddress(server.base, model), KEY, timeout_s)


@pytest.fixture
async def server() -> AsyncIterator[FakeOpenAi]:
    async with fake_openai() as running:
        running.key = KEY.get_secret_value()
        yield running


@pytest.fixture
async def embedder(server: FakeOpenAi) -> AsyncIterator[ServedEmbedder]:
    started = an_embedder(server)
    await started.start()
    yield started
    await started.close()


FAULTS: list[tuple[Fault, str]] = [
    ("400", "answered 400: fault 400"),
    ("401", "answered 401: fault 401"),
    ("404", "answered 404: fault 404"),
    ("429", "answered 429: fault 429"),
    ("500", "answered 500: fault 500"),
    ("503", "answered 503: fault 503"),
    ("html", "gave an invalid answer"),
    ("list", "gave an invalid answer"),
    ("half", "can't be reached"),
    ("redirect", "answered 307"),
    ("few", "returned 1 vectors for 2 texts"),
    ("short", f"returned a vector of 63 numbers; {EMBEDDING_MODEL} had 64 at the start"),
    ("nan", "gave an invalid answer"),
    ("null", "gave an invalid answer"),
    ("zero", "returned a damaged vector"),
    ("index", r"numbered its 2 vectors \[0, 0\]"),
]


@pytest.mark.parametrize(("fault", "sentence"), FAULTS)
async def test_a_fault_of_the_server_is_unavailable_and_passes(
    server: FakeOpenAi, embedder: ServedEmbedder, fault: Fault, sentence: str
) -> None:
    server.fault = fault
    with pytest.raises(Unavailable, match=sentence) as caught:
        await embedder.embed_documents(["one", "two"])
    assert server.base in caught.value.sentence
    assert KEY.get_secret_value() not in caught.value.sentence

    server.fault = None
    assert len(await embedder.embed_documents(["one", "two"])) == 2


@pytest.mark.parametrize("fault", ["429", "500", "503", "html", "list", "half"])
async def test_a_fault_at_start_is_unavailable(server: FakeOpenAi, fault: Fault) -> None:
    embedder = an_embedder(server)
    server.fault = fault
    with pytest.raises(Unavailable):
        await embedder.start()

    server.fault = None
    await embedder.start()
    assert embedder.model.dimension == DIMENSION
    await embedder.close()


@pytest.mark.parametrize(("fault", "hint"), [("401", "SLUICE_OPENAI_API_KEY"), ("403", "SLUICE_OPENAI_API_KEY")])
async def test_a_refused_key_stops_the_start(server: FakeOpenAi, fault: Fault, hint: str) -> None:
    server.fault = fault
    embedder = an_embedder(server)

    with pytest.raises(ConfigurationError, match=f"SLUICE_EMBEDDER: .* answered {fault}: .*{hint}"):
        await embedder.start()
    await embedder.close()


async def test_an_unknown_model_stops_the_start_with_the_server_s_own_words(server: FakeOpenAi) -> None:
    embedder = an_embedder(server, "nobody/knows")

    with pytest.raises(ConfigurationError, match="The model `nobody/knows` does not exist"):
        await embedder.start()
    await embedder.close()


async def test_a_server_that_does_not_answer_is_unavailable(server: FakeOpenAi) -> None:
    embedder = an_embedder(server, timeout_s=0.2)
    server.fault = "hang"

    with pytest.raises(Unavailable, match="gave no answer in time"):
        await embedder.start()
    await embedder.close()


async def test_a_ping_tells_a_server_from_none() -> None:
    async with fake_openai() as server:
        embedder = an_embedder(server)
        await embedder.start()
        await embedder.ping()

    with pytest.raises(Unavailable, match="can't be reached"):
        await embedder.ping()
    await embedder.close()


@pytest.mark.parametrize("fault", ["401", "404", "html"])
async def test_a_server_that_answers_a_ping_with_no_list_is_there(
    server: FakeOpenAi, embedder: ServedEmbedder, fault: Fault
) -> None:
    server.fault = fault

    await embedder.ping()  # or fails


@pytest.mark.feature(71)
async def test_a_server_that_asks_for_rest_gets_it(server: FakeOpenAi, embedder: ServedEmbedder) -> None:
    server.fault, server.extra = "429", ("retry-after: 60",)
    with pytest.raises(Unavailable, match="answered 429"):
        await embedder.embed_documents(["text"])
    server.fault = None
    server.requests.clear()

    with pytest.raises(Unavailable, match="asked for a pause, another") as caught:
        await embedder.embed_documents(["text"])

    assert caught.value.code == "rate_limited"
    assert server.requests == []


@pytest.mark.feature(114)
async def test_the_request_is_what_we_mean(server: FakeOpenAi, embedder: ServedEmbedder) -> None:
    server.requests.clear()

    await embedder.embed_documents(["one", "two"])

    assert server.bodies("/v1/embeddings") == [
        {"model": EMBEDDING_MODEL, "input": ["one", "two"], "encoding_format": "float"}
    ]
    assert server.headers["authorization"] == "Bearer sk-a-key"


async def test_without_a_key_none_is_sent() -> None:
    async with fake_openai() as server:
        embedder = openai_embedder(OpenAiAddress(server.base, EMBEDDING_MODEL), SecretStr(""))
        await embedder.start()
        await embedder.close()

        assert "authorization" not in server.headers


@pytest.mark.parametrize("key", ["clé", "two\nlines", "a\x00b"])
def test_a_key_that_no_header_takes_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_OPENAI_API_KEY") as caught:
        openai_embedder(OpenAiAddress("http://127.0.0.1:1/v1", "m"), SecretStr(key))

    assert key not in str(caught.value)


async def test_too_long_a_text_is_embedded_in_parts_and_no_other_is_lost(
    server: FakeOpenAi, embedder: ServedEmbedder
) -> None:
    server.context = 5

    vectors = await embedder.embed_documents(["short", "four words stand here. and four stand there"])

    assert len(vectors) == 2


@pytest.mark.parametrize(
    ("model", "served", "least", "most"),
    [
        (EMBEDDING_MODEL, None, 8000, 8192),
        (EMBEDDING_MODEL, 1024, 1000, 1024),  # what the server says comes first
        ("gpt-4o-mini", None, 480, 512),  # a name we don't know
    ],
)
async def test_the_longest_input_is_the_server_s_or_the_model_s_or_a_small_one(
    server: FakeOpenAi, model: str, served: int | None, least: int, most: int
) -> None:
    server.max_model_len = served
    embedder = an_embedder(server, model)
    await embedder.start()

    assert least <= embedder.model.max_tokens <= most
    with pytest.raises(Rejected, match="accepts at most"):
        await embedder.embed_documents(["7" * (most + 1)])
    await embedder.close()


async def test_a_server_without_a_list_of_models_will_do(server: FakeOpenAi) -> None:
    server.lists = False
    embedder = an_embedder(server)

    await embedder.start()

    assert embedder.model.dimension == DIMENSION
    await embedder.close()


async def test_the_digest_tells_models_and_servers_apart(server: FakeOpenAi) -> None:
    async with fake_openai() as other:
        other.key = server.key
        digests = []
        for each, model in (
            (server, EMBEDDING_MODEL),
            (server, EMBEDDING_MODEL),
            (server, "gpt-4o-mini"),
            (other, EMBEDDING_MODEL),
        ):
            embedder = an_embedder(each, model)
            await embedder.start()
            digests.append(embedder.model.digest)
            await embedder.close()

    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
