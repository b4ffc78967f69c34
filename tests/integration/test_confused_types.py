"""Values of another type at every field of every route: none is answered by a 500, and none costs a batch."""

import asyncio
import gc
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import pytest

from services.query_api.app import make_api
from services.query_api.http.openapi import described
from services.standalone.serve import start
from shared.runtime.connections import ON_CLOSE
from shared.settings import Settings
from tests.e2e.faults import CHOSEN
from tests.integration.api import a_client, publish_nothing
from tests.request_shapes import JSON, example_of, fields_of
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

COUNT = int(CHOSEN or 0)
PER_FOLDER = 4_000
Sent = tuple[str, str, dict[str, Any]]
WRONG: tuple[Any, ...] = (
    None,
    [],
    [[]],
    ["x"],
    [{"type": []}],
    {},
    {"type": []},
    {"type": {}, "filters": 1, "key": [], "value": {}},
    -1,
    1.5,
    True,
    2**63,
    10**30,
    "",
    "\x00",
    "x" * 3000,
    "[]",
    "[[",
)
COMPARISON = {"type": "eq", "key": "source", "value": "s"}
MESSAGES = [
    {"role": "user", "content": [{"type": "text", "text": "why"}]},
    {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]},
    {"role": "tool", "content": "so", "tool_call_id": "c", "name": "f"},
    {"role": "user", "content": "lantern"},
]
CHUNK = {
    "id": "c",
    "text": "lantern",
    "embeddingText": "light",
    "embeddingStrings": {"semantic": "s"},
    "languageVariants": {"en": {"text": "lamp"}},
    "is_active": True,
    "sectionTitle": "s",
    "pageNumber": 1,
    "chunkType": "semantic",
    "metadata": {"a": 1},
    "tags": {"kind": "x"},
}
FILTERS = {"source": ["s"], "year": {"gte": 2020}, "path": {"prefix": "p"}, "not": {"tags": ["t"]}, "tagsAll": ["a"]}
TOOLS = [
    {"type": "file_search", "vector_store_ids": ["documents"], "filters": {"type": "and", "filters": [COMPARISON]}},
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}, "name": "f"},
]
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}
# What examples lack.
FULL: Mapping[str, dict[str, Any]] = {
    "rag_ingest": {"source": "s", "path": "p", "chunks": [CHUNK], "metadata": {"a": [1]}, "tags": ["t"]},
    "rag_search": {"query": "q", "filters": FILTERS, "conversationHistory": [{"role": "user", "content": "q"}]},
    "rag_search_batch": {"queries": [{"query": "q", "filters": FILTERS}]},
    "rag_documents_delete": {"filters": FILTERS},
    "rag_context": {"query": "q", "filters": FILTERS},
    "chat": {"messages": MESSAGES, "useRag": True, "ragFilters": FILTERS, "preferences": {"persona": "p"}},
    "openai_chat_completions": {
        "model": "rag/extractive",
        "messages": MESSAGES,
        "tools": TOOLS,
        "response_format": FORMAT,
        "ragFilters": FILTERS,
        "stop": ["."],
    },
    "openai_responses": {
        "model": "rag/extractive",
        "input": [*MESSAGES, {"type": "function_call_output", "call_id": "c", "output": "x"}],
        "tools": TOOLS,
        "text": {"format": FORMAT},
        "include": ["file_search_call.results"],
    },
    "openai_vector_store_search": {"query": ["q"], "filters": {"type": "and", "filters": [COMPARISON]}},
    "api_chat": {"model": "rag/extractive", "messages": MESSAGES, "options": {"stop": ["."]}, "format": FORMAT},
    "ollama_generate": {"model": "rag/extractive", "prompt": "lantern", "options": {"seed": 1}, "stream": False},
    "dify_retrieval": {
        "query": "q",
        "retrieval_setting": {"top_k": 1, "score_threshold": 0.1},
        "metadata_condition": {"conditions": [{"name": ["a"], "comparison_operator": "is", "value": "x"}]},
    },
}


def confused(value: Any, depth: int = 7) -> Iterator[Any]:
    """Yield wrong values, and the value with each of its parts replaced by each of them."""
    yield from WRONG
    if depth and isinstance(value, dict):
        for name, each in value.items():
            yield from ({**value, name: wrong} for wrong in confused(each, depth - 1))
    elif depth and isinstance(value, list):
        for number, each in enumerate(value):
            yield from ([*value[:number], wrong, *value[number + 1 :]] for wrong in confused(each, depth - 1))


def bodies(spec: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the operation's bodies with one value confused."""
    body = FULL.get(operation["operationId"], example_of(operation))
    yield from confused(body)
    for field in fields_of(spec, operation):
        if field not in body:
            yield from ({**body, field: wrong} for wrong in WRONG)


def addresses(path: str, operation: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a path and a query with each parameter confused, alone and sent twice."""
    for parameter in operation.get("parameters", ()):
        for wrong in WRONG:
            text = wrong if isinstance(wrong, str) else json.dumps(wrong)
            if parameter["in"] == "path":
                yield path.replace(f"{{{parameter['name']}}}", quote(text, safe="") or "%20"), {}
            else:
                yield from ((path, {parameter["name"]: sent}) for sent in (text, [text, "x"]))


def known(path: str) -> str:
    """Return the path with a parameter for each name."""
    return re.sub(
        r"{(\w+)}", lambda name: {"document_id": str(UUID(int=1)), "id_": "documents"}.get(name[1], "x"), path
    )


def mixed(made: Sequence[Any], count: int) -> Iterator[Any]:
    """Yield so many bodies, each with its fields from two others."""
    rng, objects = random.Random(COUNT), [each for each in made if isinstance(each, dict)]
    for _ in range(count if objects else 0):
        one, two = rng.choice(objects), rng.choice(objects)
        yield {name: rng.choice((one, two)).get(name) for name in {**one, **two}}


def requests(spec: Mapping[str, Any]) -> list[Sent]:
    """Return the requests, in an order by chance: method, path, and what httpx sends."""
    sent: list[Sent] = []
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            asked = [*addresses(path, operation)]
            sent += ((method, known(each), {"params": query}) for each, query in asked)
            queries = mixed([query for _, query in asked], COUNT // len(spec["paths"]) // 4)
            sent += ((method, known(path), {"params": query}) for query in queries)
            if JSON in operation.get("requestBody", {}).get("content", {}):
                made = [*bodies(spec, operation)]
                both = itertools.chain(made, mixed(made, COUNT // len(spec["paths"])))
                sent += ((method, known(path), {"json": body}) for body in both)
    random.Random(COUNT).shuffle(sent)
    return sent


@CI_ONLY
@pytest.mark.timeout(3600 if COUNT else 900)
async def test_no_value_of_another_type_is_answered_by_a_500(tmp_path: Path) -> None:
    """With SLUICE_TEST_COUNT, about so many bodies are made of two, too."""
    faults, statuses, sent = [], Counter[int](), list[Sent]()
    for number in itertools.count():
        async with AsyncExitStack() as stack:
            # A folder of its own for so many: to erase takes longer the more a log holds.
            parts = await start(Settings(data=tmp_path / str(number), samples="off", chat="extractive:"), stack)
            # What a long run sends to a folder of its own happens: documents are erased and generations switched.
            app = make_api(parts if COUNT else replace(parts, publish=publish_nothing))
            sent = sent or requests(described(app))
            client = await stack.enter_async_context(a_client(app))
            for method, path, request in sent[number * PER_FOLDER : (number + 1) * PER_FOLDER]:
                reply = await client.request(method.upper(), path, headers={"Prefer": "wait=0"}, **request)
                statuses[reply.status_code] += 1
                if reply.status_code == 500:
                    faults.append((path, request))
        if (number + 1) * PER_FOLDER >= len(sent):
            break

    print(f"{statuses.total()} requests: {statuses}")
    assert not faults, (len(faults), faults[:5])


@CI_ONLY
async def test_no_refusal_keeps_what_was_sent_until_the_next_full_collection(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        parts = await start(Settings(data=tmp_path, samples="off", chat="extractive:"), stack)
        app = make_api(replace(parts, publish=publish_nothing))
        client, spec = await stack.enter_async_context(a_client(app)), described(app)
        sent = [
            (method, known(path), body)
            for path, methods in spec["paths"].items()
            for method, operation in methods.items()
            if JSON in operation.get("requestBody", {}).get("content", {})
            for body in ({}, [], *itertools.islice(bodies(spec, operation), 30, 400, 37))
        ]
        with all_garbage() as garbage:
            for method, path, body in sent:
                await client.request(method.upper(), path, json=body, headers={"Prefer": "wait=0"})

    kept = [repr(each)[:100] for each in garbage if isinstance(each, BaseException) and each.__traceback__ is not None]
    assert not kept, (len(kept), sorted(set(kept))[:9])


@CI_ONLY
async def test_no_request_is_kept_until_a_collection_once_it_is_answered(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        app = make_api(await start(Settings(data=tmp_path, samples="off", chat="extractive:"), stack))

        async def in_a_connection(scope: Any, receive: Any, send: Any) -> None:
            scope[ON_CLOSE] = []
            await app(scope, receive, send)

        transport = httpx.ASGITransport(in_a_connection)
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1"))
        sent = {"/rag/search": {"query": "lantern"}, "/rag/ingest": {"source": "s", "path": "p", "text": "lantern"}}
        with all_garbage() as garbage:
            for path, body in [*sent.items(), *sent.items()]:
                await asyncio.create_task(client.post(path, json=body))

    ours = [type(each).__qualname__ for each in garbage if type(each).__module__.startswith(("services.", "shared."))]
    assert not ours


@contextmanager
def all_garbage() -> Iterator[list[Any]]:
    """Give a list that has, at the end, what was of no use any more and only a full collection could find."""
    found: list[Any] = []
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()


@CI_ONLY
async def test_no_value_of_another_type_costs_a_batch(client: httpx.AsyncClient) -> None:
    good = {"source": "s", "path": "good", "text": "lantern"}
    wrong = list(itertools.chain(confused(FULL["rag_ingest"]), confused({**good, "title": "t", "keep": ["tags"]})))

    reply = await client.post("/rag/ingest/batch", json=[good, *wrong, {**good, "path": "last"}])

    items = reply.json()["items"]
    assert (reply.status_code, len(items)) == (202, len(wrong) + 2)
    assert {items[0]["status"], items[-1]["status"]} <= {"accepted", "superseded"}  # another one has its name
    assert {item["status"] for item in items} <= {"accepted", "failed", "superseded"}
    assert all(len(str(item)) <= 600 for item in items if item["status"] == "failed")


@pytest.mark.parametrize("field", ["chunkType", "pageNumber", "is_active", "metadata", "tags"])
@pytest.mark.parametrize("value", [[], {"a": []}, [[1]]])
async def test_a_chunk_is_left_out_for_a_field_of_another_type_and_the_reply_names_it(
    client: httpx.AsyncClient, field: str, value: Any
) -> None:
    chunks = ["first", {"text": "second", field: value}]

    reply = await client.post("/rag/ingest", json={"source": "s", "path": field, "chunks": chunks})

    assert reply.status_code == 200, reply.text
    assert all(field in skipped["error"] for skipped in reply.json().get("skipped", []))


@pytest.mark.parametrize("kind", [[], {}, ["eq"], {"type": "eq"}, 1, None])
async def test_a_filter_whose_type_is_none_is_named(client: httpx.AsyncClient, kind: Any) -> None:
    filters = {"type": "and", "filters": [{"type": kind, "key": "a", "value": 1}]}
    tool = {"type": "file_search", "filters": filters}

    searched = await client.post("/v1/vector_stores/documents/search", json={"query": "q", "filters": filters})
    answered = await client.post("/v1/responses", json={"model": "rag/extractive", "input": "q", "tools": [tool]})

    assert [searched.status_code, answered.status_code] == [400, 400]
    assert searched.json()["error"]["param"] == "filters.filters[0].type"
    assert answered.json()["error"]["param"] == "tools[0].filters.filters[0].type"
