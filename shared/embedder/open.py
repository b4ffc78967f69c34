"""Builds the embedder that the setting names."""

from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from shared.embedder import Embedder
from shared.settings import ConfigurationError

if TYPE_CHECKING:  # numpy is slow to import
    from shared.embedder.minilm import Precision

_NO_KEY = SecretStr("")
BUILT_IN: Final[dict[str, "Precision"]] = {"minilm:": "float32", "minilm:int8": "int8"}  # models that need no server


def open_embedder(setting: str, openai_api_key: SecretStr = _NO_KEY) -> Embedder:
    """Return the embedder that `setting` names, not started.

    The setting is `minilm:`, `minilm:int8`, `ollama://host:port/model` (or several servers: `ollama://a:11434,b/model`),
    or `openai+https://host:port/v1/model`; only the last sends the key.

    Raises:
        ConfigurationError: the setting has another form; the sentence names SLUICE_EMBEDDER and the value.
    """
    # Each adapter is imported only where it is used: onnxruntime and the clients are slow to import.
    if setting in BUILT_IN:
        from shared.embedder.minilm import MiniLm

        return MiniLm(precision=BUILT_IN[setting])
    if setting.startswith("ollama:"):
        from shared.embedder.ollama import ollama_embedder
        from shared.model_server.ollama import ollama_addresses

        return ollama_embedder(*ollama_addresses("SLUICE_EMBEDDER", setting))
    if setting.startswith("openai+"):
        from shared.embedder.openai import openai_embedder
        from shared.model_server.openai import openai_address

        return openai_embedder(openai_address("SLUICE_EMBEDDER", setting), openai_api_key)
    raise ConfigurationError(
        f"SLUICE_EMBEDDER={setting} must be minilm:, minilm:int8, ollama://host:11434/model or openai+https://host/v1/model"
    )
