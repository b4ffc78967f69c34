"""From the setting to whatever answers."""

import asyncio
import os
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from shared.answers import Answers
from shared.answers.extractive import Extractive
from shared.errors import Unavailable
from shared.settings import ConfigurationError

_LOOK_S: Final = 2.0  # for a server; the start waits no longer
_DEFAULT_HOST: Final = "127.0.0.1:11434"
_NO_KEY: Final = SecretStr("")


async def open_answers(setting: str, history: int = 5, openai_api_key: SecretStr = _NO_KEY) -> Answers:
    """Return the answers of `auto:`, `extractive:`, `ollama://host:port/model` or `openai+https://host:port/v1/model`.

    `auto:` is the first chat model of the Ollama server at OLLAMA_HOST, or on this machine, when it is there now;
    otherwise extractive answers. `history` is the number of earlier turns that a language model sees. A server that is
    away now may come later.

    Raises:
        ConfigurationError: the setting is none of them, or the server refuses the key; the sentence names SLUICE_CHAT.
    """
    if setting == "extractive:":
        return Extractive()
    if setting == "auto:":
        return await _found(history) or Extractive()
    if setting.startswith("ollama:"):
        # The Ollama client is slow to import.
        from shared.answers.ollama import OllamaAnswers  # noqa: PLC0415
        from shared.ollama_server import ollama_address  # noqa: PLC0415

        return OllamaAnswers(ollama_address("SLUICE_CHAT", setting), history)
    if setting.startswith("openai+"):
        from shared.answers.openai import OpenAiAnswers  # noqa: PLC0415
        from shared.openai_server import openai_address  # noqa: PLC0415

        answers = OpenAiAnswers(openai_address("SLUICE_CHAT", setting), openai_api_key, history)
        await answers.check(_LOOK_S)
        return answers
    raise ConfigurationError(
        f"SLUICE_CHAT={setting} must be auto:, extractive:, ollama://host:11434/model or openai+https://host/v1/model"
    )


async def _found(history: int) -> Answers | None:
    address = _server(os.environ.get("OLLAMA_HOST") or _DEFAULT_HOST)
    if address is None:
        return None
    host, port = address
    try:
        # Nobody listening is the usual case; it is told without importing the client.
        async with asyncio.timeout(_LOOK_S):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError):
        return None

    from shared.answers.ollama import OllamaAnswers  # noqa: PLC0415
    from shared.ollama_server import OllamaAddress, chat_model  # noqa: PLC0415

    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        model = await chat_model(url, _LOOK_S)
    except Unavailable:
        return None
    return OllamaAnswers(OllamaAddress(url, model), history) if model else None


def _server(value: str) -> tuple[str, int] | None:
    """Return host and port of OLLAMA_HOST, that a server reads too: it may be a wildcard, or a port alone."""
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        host, port = parts.hostname or "127.0.0.1", parts.port or (80 if "://" in value else 11434)
    except ValueError:
        return None
    if parts.scheme != "http":
        return None
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - we call it, nobody binds
