import pytest

from shared.embedder.open import open_embedder
from shared.ollama_server import ollama_address
from shared.settings import ConfigurationError


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
    "value",
    [
        "",
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

    assert str(caught.value).startswith(f"SLUICE_EMBEDDER={value}")
