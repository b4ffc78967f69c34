"""From the setting to the embedder."""

from shared.embedder import Embedder
from shared.embedder.cache import QueryCache
from shared.settings import ConfigurationError


def open_embedder(setting: str) -> Embedder:
    """Return the embedder of `minilm:` or `ollama://host:port/model`, not started, with a cache of queries.

    Raises:
        ConfigurationError: the setting is neither; the sentence names SLUICE_EMBEDDER and the value.
    """
    # Each adapter is imported only where it is used: onnxruntime and the Ollama client are slow to import.
    if setting == "minilm:":
        from shared.embedder.minilm import MiniLm  # noqa: PLC0415

        return QueryCache(MiniLm())
    if setting.startswith("ollama:"):
        from shared.embedder.ollama import OllamaEmbedder  # noqa: PLC0415
        from shared.ollama_server import ollama_address  # noqa: PLC0415

        return QueryCache(OllamaEmbedder(ollama_address("SLUICE_EMBEDDER", setting)))
    raise ConfigurationError(f"SLUICE_EMBEDDER={setting} must be minilm: or ollama://host:11434/model")
