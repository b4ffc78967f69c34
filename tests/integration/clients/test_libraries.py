"""Libraries on top of OpenAI's API: LangChain, LlamaIndex, and the AI SDK where Node is present."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pydantic
import pytest
import pytest_asyncio

from services.query_api.app import ApiParts
from tests.integration.clients.site import Site
from tests.selection import CI_ONLY
from tests.servers.cache import Recipe, Say, run
from tests.servers.fake_ollama import CHAT_MODEL, FakeOllama

# The libraries are imported by their tests: they take two seconds, and every worker imports this module.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), CI_ONLY]

QUESTION = "When is the lantern lit?"
RAG = f"rag/{CHAT_MODEL}"


@pytest_asyncio.fixture(loop_scope="session")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """Connections that are closed at the end; the libraries leave theirs open."""
    async with httpx.AsyncClient(timeout=60) as client:
        yield client


async def test_langchain_s_model_answers_streams_and_keeps_the_sources(
    chatting: Site, model: FakeOllama, http: httpx.AsyncClient
) -> None:
    from langchain_openai import ChatOpenAI

    options: Any = {"base_url": f"{chatting.url}/v1", "api_key": chatting.key, "model": RAG, "max_retries": 0}
    chat = ChatOpenAI(**options, http_async_client=http, extra_body={"ragTopK": 1}, stream_usage=True)

    whole = await chat.ainvoke(QUESTION)
    pieces = [piece async for piece in chat.astream(QUESTION)]

    assert whole.text == model.reply
    assert whole.usage_metadata is not None
    assert "".join(piece.text for piece in pieces) == model.reply
    assert sum((piece.usage_metadata or {"total_tokens": 0})["total_tokens"] for piece in pieces) > 0


async def test_langchain_s_structured_output_is_what_the_schema_says(
    chatting: Site, model: FakeOllama, http: httpx.AsyncClient
) -> None:
    from langchain_openai import ChatOpenAI

    class Lighting(pydantic.BaseModel):
        lit: str
        hours: list[int]

    options: Any = {"base_url": f"{chatting.url}/v1", "api_key": chatting.key, "model": RAG, "max_retries": 0}
    chat = ChatOpenAI(**options, http_async_client=http)

    told = [
        await chat.with_structured_output(Lighting, method=method).ainvoke(QUESTION)
        for method in ("json_schema", "json_mode")
    ]

    assert told == [Lighting(lit="at six", hours=[9])] * 2


async def test_langchain_s_embeddings_send_texts_when_told_to(
    quoting: Site, parts: ApiParts, http: httpx.AsyncClient
) -> None:
    from langchain_openai import OpenAIEmbeddings

    options: Any = {"base_url": f"{quoting.url}/v1", "api_key": quoting.key, "model": parts.embedder.model.name}
    embeddings = OpenAIEmbeddings(**options, http_async_client=http, check_embedding_ctx_length=False)

    vector = await embeddings.aembed_query("a lantern")

    assert len(vector) == 384


async def test_llamaindex_s_model_answers_and_streams(
    chatting: Site, model: FakeOllama, http: httpx.AsyncClient
) -> None:
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    options = {"api_base": f"{chatting.url}/v1", "api_key": chatting.key, "is_chat_model": True, "max_retries": 0}
    llm = OpenAILike(model=RAG, **options, async_http_client=http)

    whole = await llm.achat([ChatMessage(role="user", content=QUESTION)])
    streamed = [part.delta async for part in await llm.astream_chat([ChatMessage(role="user", content=QUESTION)])]

    assert whole.message.content == model.reply
    assert "".join(filter(None, streamed)) == model.reply
    assert whole.raw.citations[0].startswith(chatting.url)


# The AI SDK

PACKAGES = ("ai@6.0.326", "@ai-sdk/openai@3.0.141", "@ai-sdk/openai-compatible@2.0.91")
SCRIPT = """
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embed, generateText, streamText } from 'ai';

const [url, key, model, embedding, prompt] = process.argv.slice(2);
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
const compatible = createOpenAICompatible({ name: 'sluice', baseURL: `${url}/v1`, apiKey: key, includeUsage: true });
const told = [];
for (const chat of [openai(model), openai.chat(model), compatible(model)]) {
  const whole = await generateText({ model: chat, prompt });
  const stream = streamText({ model: chat, prompt });
  let text = '';
  for await (const piece of stream.textStream) text += piece;
  const usage = await stream.usage;
  const sources = [whole.sources, await stream.sources].map((all) => all.map((source) => source.url));
  told.push({ texts: [whole.text, text], sources, tokens: usage.totalTokens });
}
const { embedding: vector } = await embed({ model: compatible.textEmbeddingModel(embedding), value: 'a lantern' });
const unknown = generateText({ model: compatible('gpt-4o'), prompt, maxRetries: 0 });
const failure = await unknown.catch((error) => error.message);
console.log(JSON.stringify({ told, dimension: vector.length, failure }));
"""


def _install(folder: Path, _: Say) -> None:
    run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, *PACKAGES], timeout=120)


@pytest.fixture(scope="module")
def ai_sdk() -> Path:
    """A folder with the AI SDK, installed once; skipped where there is no Node, or no way to install."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("no AI SDK: node and npm are not here")
    try:
        return Recipe("ai-sdk", PACKAGES, _install).made()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"no AI SDK: npm can't install it: {error}")


@pytest.mark.slow
async def test_the_ai_sdk_answers_streams_cites_and_embeds(ai_sdk: Path, quoting: Site, parts: ApiParts) -> None:
    script = ai_sdk / "ask.mjs"
    script.write_text(SCRIPT, encoding="utf-8")
    command: Sequence[str | Path] = [
        "node",
        script,
        quoting.url,
        quoting.key,
        "rag/extractive",
        parts.embedder.model.name,
        QUESTION,
    ]

    told = json.loads(await asyncio.to_thread(run, command, timeout=60))

    responses, completions, compatible = told["told"]
    for each in (responses, completions, compatible):
        assert each["texts"][0] == each["texts"][1]
        assert "six in the evening. [1]" in each["texts"][0]
        assert each["tokens"] > 0
    for cites in (responses, completions):  # the compatible provider reads no annotations
        assert cites["sources"][0] == cites["sources"][1]
        assert quoting.lantern in cites["sources"][0][0]
    assert told["dimension"] == 384
    assert "'gpt-4o' not found; this server has rag/extractive" in told["failure"]
