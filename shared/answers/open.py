"""Opens the chat models that the setting names."""

import asyncio
import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec
from pydantic import SecretStr

from shared.answers.extractive import Extractive
from shared.answers.model_pool import ChatModel, ChatModels
from shared.answers.prompt import USUAL, Prompting
from shared.errors import Unavailable
from shared.settings import ConfigurationError

if TYPE_CHECKING:
    from shared.answers.ollama import OllamaAnswers

_LOOK_S: Final = 2.0  # longest wait for a server during the start
_DEFAULT_HOST: Final = "127.0.0.1:11434"
_NO_KEY: Final = SecretStr("")
_ALIASED: Final = re.compile(r"([A-Za-z0-9._/-]+)=((?:auto|extractive|ollama|openai\+https?):.*)")
_SHAPES: Final = "must be auto:, extractive:, ollama://host:11434/model or openai+https://host/v1/model"


async def open_models(
    setting: str,
    how: Prompting = USUAL,
    openai_api_key: SecretStr = _NO_KEY,
    extractive: Extractive | None = None,
) -> ChatModels:
    """Return the models of a comma-separated list, the default first; each may have an alias, as in `fast=ollama://…`.

    A model is `auto:`, `extractive:`, `ollama://host:port/model` or `openai+https://host:port/v1/model`. `auto:` is the
    first chat model of the Ollama server at OLLAMA_HOST, or on this machine, if it is running now; otherwise extractive
    answers. Those can always be chosen by name. A server that is down now may be started later.

    Raises:
        ConfigurationError: an entry has another form, a name occurs twice, or a server refuses the key; the sentence
            names SLUICE_CHAT.
    """
    models: list[ChatModel] = []
    extractive = extractive or Extractive()
    for alias, url in entries(setting):
        model = await _opened(url, openai_api_key, extractive, how)
        if alias:
            model = msgspec.structs.replace(model, name=alias)
        if any(model.name == other.name for other in models):
            raise ConfigurationError(
                f"SLUICE_CHAT={setting} names {model.name!r} twice; give one of them an alias, as in other={url}"
            )
        models.append(model)
    if not models:
        raise ConfigurationError(f"SLUICE_CHAT={setting} {_SHAPES}")
    if all(model.server != "extractive" for model in models):
        models.append(ChatModel(name=extractive.name, server="extractive", answers=extractive, stands_in=False))
    return ChatModels(models)


def entries(setting: str) -> list[tuple[str, str]]:
    """Return alias (or an empty string) and address of every model in the setting, in order."""
    parts = (part.strip() for part in setting.split(","))
    aliased = ((_ALIASED.fullmatch(part), part) for part in parts if part)
    return [(match[1], match[2]) if match else ("", part) for match, part in aliased]


async def _opened(url: str, openai_api_key: SecretStr, extractive: Extractive, how: Prompting) -> ChatModel:
    if url == "auto:" and (found := await _found(how)):
        return ChatModel(name=found.name, server="ollama", answers=found)
    if url in ("auto:", "extractive:"):
        return ChatModel(name=extractive.name, server="extractive", answers=extractive)
    if url.startswith("ollama:"):
        # The Ollama client is slow to import.
        from shared.answers.ollama import OllamaAnswers
        from shared.model_server.ollama import ollama_address

        ollama = OllamaAnswers(ollama_address("SLUICE_CHAT", url), how)
        return ChatModel(name=ollama.name, server="ollama", answers=ollama)
    if url.startswith("openai+"):
        from shared.answers.openai import OpenAiAnswers
        from shared.model_server.openai import openai_address

        openai = OpenAiAnswers(openai_address("SLUICE_CHAT", url), openai_api_key, how)
        await openai.check(_LOOK_S)
        return ChatModel(name=openai.name, server="openai", answers=openai)
    raise ConfigurationError(f"SLUICE_CHAT={url} {_SHAPES}")


async def _found(how: Prompting) -> "OllamaAnswers | None":
    address = _server(os.environ.get("OLLAMA_HOST") or _DEFAULT_HOST)
    if address is None:
        return None
    host, port = address
    try:
        # Usually no server is listening. A plain connection finds that out without importing the client.
        async with asyncio.timeout(_LOOK_S):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError):
        return None

    from shared.answers.ollama import OllamaAnswers
    from shared.model_server.ollama import OllamaAddress, chat_model

    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        model = await chat_model(url, _LOOK_S)
    except Unavailable:
        return None
    return OllamaAnswers(OllamaAddress(url, model), how) if model else None


def _server(value: str) -> tuple[str, int] | None:
    """Return host and port of OLLAMA_HOST. The server uses it, too, so it may be a wildcard address."""
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        host, port = parts.hostname or "127.0.0.1", parts.port or (80 if "://" in value else 11434)
    except ValueError:
        return None
    if parts.scheme != "http":
        return None
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - we call it, nobody binds
