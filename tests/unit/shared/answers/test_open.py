import pytest

from shared.answers.open import open_models
from shared.settings import ConfigurationError
from tests.servers.fake_ollama import CHAT_MODEL, Fault, fake_ollama


async def test_auto_takes_the_first_chat_model_of_a_running_ollama(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_ollama() as server:
        for value in (server.host, server.url, server.host.replace("127.0.0.1", "0.0.0.0")):
            monkeypatch.setenv("OLLAMA_HOST", value)
            answers = (await open_models("auto:")).default.answers
            assert (answers.name, answers.needs_passages) == (f"{CHAT_MODEL}:latest", False)


async def test_auto_is_extractive_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_ollama() as server:
        gone = server.host
    for value in (gone, "host:port", "https://127.0.0.1:1"):
        monkeypatch.setenv("OLLAMA_HOST", value)
        assert (await open_models("auto:")).default.name == "extractive"


@pytest.mark.parametrize("fault", ["500", "html", "half"])
async def test_auto_is_extractive_where_the_server_fails(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    async with fake_ollama() as server:
        server.fault = fault
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        assert (await open_models("auto:")).default.name == "extractive"


async def test_auto_is_extractive_without_a_chat_model(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_ollama() as server:
        del server.models[f"{CHAT_MODEL}:latest"]
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        assert (await open_models("auto:")).default.name == "extractive"


async def test_a_setting_chooses_by_name() -> None:
    assert (await open_models("extractive:")).names == ("extractive",)
    assert (await open_models("ollama://127.0.0.1:1/llama3.2")).names == ("llama3.2", "extractive")


async def test_a_list_names_the_default_and_what_stands_in_by_aliases() -> None:
    setting = "fast=ollama://127.0.0.1:1/llama3.2, ollama://127.0.0.1:1/llama3.2, quotes=extractive:"

    models = await open_models(setting)

    assert models.names == ("fast", "llama3.2", "quotes")
    assert [model.name for model in models.chosen()] == ["fast", "llama3.2", "quotes"]


async def test_a_name_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"names 'llama3\.2' twice"):
        await open_models("ollama://a/llama3.2,ollama://b/llama3.2")


@pytest.mark.parametrize(
    "setting", ["", "auto", "gpt", "ollama://host", "ollama://host:port/m", "openai+https://host/m", "extractive:x"]
)
async def test_another_setting_is_refused_by_name_and_value(setting: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await open_models(setting)

    assert str(caught.value).startswith(f"SLUICE_CHAT={setting}")
