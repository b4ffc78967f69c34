import pytest

from shared.embedder.open import open_embedder
from shared.errors import masked
from shared.model_server.ollama import ollama_address
from shared.model_server.openai import openai_address
from shared.settings import ConfigurationError


@pytest.mark.feature(116)
@pytest.mark.parametrize(
    ("value", "url", "model", "tagged"),
    [
        ("ollama://host:11434/nomic-embed-text", "http://host:11434", "nomic-embed-text", "nomic-embed-text:latest"),
        ("ollama://host/a/b:7b", "http://host:11434", "a/b:7b", "a/b:7b"),
        ("ollama://[::1]:1/m", "http://[::1]:1", "m", "m:latest"),
    ],
)
def test_an_address_is_host_port_and_model(value: str, url: str, model: str, tagged: str) -> None:
    address = ollama_address("SLUICE_CHAT", value)

    assert (address.url, address.model, address.tagged) == (url, model, tagged)


@pytest.mark.parametrize(
    ("value", "url", "model"),
    [
        ("openai+https://api.openai.com/v1/gpt-4o-mini", "https://api.openai.com/v1", "gpt-4o-mini"),
        ("openai+http://host:8000/v1/BAAI/bge-m3", "http://host:8000/v1", "BAAI/bge-m3"),
        ("openai+https://host/api/v1/openai/gpt-4o:free", "https://host/api/v1", "openai/gpt-4o:free"),
        ("openai+https://host/v1beta/openai/gemini-2.5-pro", "https://host/v1beta/openai", "gemini-2.5-pro"),
        ("openai+http://[::1]:1/v1/m", "http://[::1]:1/v1", "m"),
    ],
)
def test_an_openai_address_ends_its_base_with_the_version(value: str, url: str, model: str) -> None:
    address = openai_address("SLUICE_CHAT", value)

    assert (address.url, address.model) == (url, model)


def test_a_key_within_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_OPENAI_API_KEY") as caught:
        open_embedder("openai+https://sk-secret@host/v1/model")

    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "openai+ftp://host/v1/model",
        "openai+https://host",
        "openai+https://host/model",
        "openai+https://host/v1",
        "openai+https://host/v1/",
        "openai+https:///v1/model",
        "openai+https://host:port/v1/model",
        "openai+https://host/v1/model?x=1",
        "openai+https://host/v1/mo del",
        "minilm",
        "minilm:large",
        "openai://host",
        "ollama:",
        "ollama://host:11434",
        "ollama://host:11434/",
        "ollama:///model",
        "ollama://host:port/model",
        "ollama://host:99999/model",
        "ollama://me@host/model",
        "ollama://host/model?x=1",
        "ollama://host/mo del",
    ],
)
def test_anything_else_is_refused_by_name_and_value(value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_embedder(value)

    assert str(caught.value).startswith(f"SLUICE_EMBEDDER={masked(value)}")
