import pytest

from shared.answers.open import open_answers
from shared.settings import ConfigurationError
from tests.servers.fake_ollama import CHAT_MODEL, Fault, fake_ollama


async def test_auto_takes_the_first_chat_model_of_a_running_ollama(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_ollama() as server:
        for value in (server.host, server.url, server.host.replace("127.0.0.1", "0.0.0.0")):
            monkeypatch.setenv("OLLAMA_HOST", value)
            answers = await open_answers("auto:")
            assert (answers.name, answers.needs_passages) == (f"{CHAT_MODEL}:latest", False)


async def test_auto_is_extractive_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_ollama() as server:
        gone = server.host
    for value in (gone, "host:port", "https://127.0.0.1:1"):
        monkeypatch.setenv("OLLAMA_HOST", value)
        assert (await open_answers("auto:")).name == "extractive"


@pytest.mark.parametrize("fault", ["500", "html", "half"])
async def test_auto_is_extractive_where_the_server_fails(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    async with fake_ollama() as server:
        server.fault = fault
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        assert (await open_answers("auto:")).name == "extractive"


async def test_auto_is_extractive_without_a_chat_model(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_ollama() as server:
        del server.models[f"{CHAT_MODEL}:latest"]
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        assert (await open_answers("auto:")).name == "extractive"


async def test_a_setting_chooses_by_name() -> None:
    assert (await open_answers("extractive:")).name == "extractive"
    assert (await open_answers("ollama://127.0.0.1:1/llama3.2")).name == "llama3.2"


@pytest.mark.parametrize(
    "setting", ["", "auto", "gpt", "ollama://host", "ollama://host:port/m", "openai+https://host/m", "extractive:x"]
)
async def test_another_setting_is_refused_by_name_and_value(setting: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await open_answers(setting)

    assert str(caught.value).startswith(f"SLUICE_CHAT={setting}")
