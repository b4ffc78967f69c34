"""Servers that unmodified clients talk to: one that only quotes, and one with a chat model."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest_asyncio

from services.query_api.app import ApiParts
from shared.answers.ollama import OllamaAnswers
from shared.model_server.ollama import OllamaAddress
from tests.answering import models_of
from tests.integration.api import HERONS, an_app, ingested, listening
from tests.integration.clients.site import Site
from tests.servers.fake_ollama import CHAT_MODEL, FakeOllama, fake_ollama


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chat_server() -> AsyncIterator[FakeOllama]:
    """The model's server behind ours."""
    async with fake_ollama() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def model(chat_server: FakeOllama) -> FakeOllama:
    """The model's server, as no test has touched it."""
    chat_server.fault, chat_server.reply = None, "It is lit at six [1], and burns whale oil [1]."
    chat_server.json_reply = '{"lit": "at six", "hours": [9]}'
    chat_server.calls = []
    chat_server.requests.clear()
    chat_server.left.clear()
    return chat_server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def quoting_url(parts: ApiParts) -> AsyncIterator[str]:
    async with listening(an_app(parts)) as (host, port):
        yield f"http://{host}:{port}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chatting_url(parts: ApiParts, chat_server: FakeOllama) -> AsyncIterator[str]:
    answers = OllamaAnswers(OllamaAddress(chat_server.url, CHAT_MODEL), timeout_s=5)
    async with listening(an_app(parts, models=models_of(answers))) as (host, port):
        yield f"http://{host}:{port}"


async def _site(url: str, tenant: str) -> AsyncIterator[Site]:
    headers = {"Authorization": f"Bearer key-of-{tenant}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=False) as http:
        lantern, herons = await asyncio.gather(
            ingested(http, title="Lantern", tags=["light"]),
            ingested(http, HERONS, path="herons.md", title="Herons", tags=["birds"]),
        )
        yield Site(url=url, key=f"key-of-{tenant}", lantern=lantern, herons=herons, http=http)


@pytest_asyncio.fixture(loop_scope="session")
async def quoting(quoting_url: str, tenants: Iterator[str]) -> AsyncIterator[Site]:
    """A server without a language model, and two documents of a new tenant."""
    async for site in _site(quoting_url, next(tenants)):
        yield site


@pytest_asyncio.fixture(loop_scope="session")
async def chatting(chatting_url: str, tenants: Iterator[str], model: FakeOllama) -> AsyncIterator[Site]:
    """A server with a language model, and two documents of a new tenant."""
    async for site in _site(chatting_url, next(tenants)):
        yield site
