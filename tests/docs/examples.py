"""The examples of `/openapi.json`: requests that work in this order on a new installation, and the replies they get.

python -m tests.docs.examples sends them, and writes the replies whose shape has changed.
"""

import asyncio
import json
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from services.query_api.app import make_api
from services.query_api.http.openapi import RouteExample, described, examples
from services.standalone.serve import start
from shared.contracts import DEFAULT_TENANT
from shared.ids import document_id
from shared.settings import Settings
from tests.integration.api import a_client

FILE: Final = Path(__file__).resolve().parents[2] / "services/query_api/http/examples.json"
FERRY: Final = document_id(DEFAULT_TENANT, "notes", "ferry.md")
_TIDES: Final = document_id(DEFAULT_TENANT, "text", "Tides")
_BOAT: Final = document_id(DEFAULT_TENANT, "notes", "1")
_LETTER: Final = "{letter}"  # stands for the one dead letter
_RECEIPT: Final = "{receipt}"  # stands for the receipt of the erasure
_ASKED: Final = {"query": "When does the ferry leave?"}
_NOTES: Final = {"filters": {"source": ["notes"]}}
_MODEL: Final = "rag/extractive"
_EMBEDDER: Final = "all-MiniLM-L6-v2"

REQUESTS: Final[Mapping[str, RouteExample]] = {
    "livez": RouteExample(),
    "readyz": RouteExample(),
    "rag_ingest": RouteExample(
        body={"source": "notes", "path": "ferry.md", "text": "The ferry leaves at nine.", "tags": ["boats"]}
    ),
    "rag_ingest_text": RouteExample(body={"text": "High water is at noon.", "title": "Tides"}),
    "rag_ingest_batch": RouteExample(
        headers={"Prefer": "wait=60"},
        body=[{"source": "notes", "path": "1", "text": "One boat."}, {"source": "notes", "path": "2"}],
    ),
    "rag_ingest_upload": RouteExample(
        type="multipart/form-data", body={"file": "# Piers\n\nThe pier is lit at six.", "path": ["piers.md"]}
    ),
    "knowledge_base": RouteExample(
        headers={"Prefer": "wait=60"},
        type="multipart/form-data",
        body={"file": "# Harbour\n\nThe harbour has two piers.", "title": "Harbour"},
    ),
    "rag_ingest_check": RouteExample(
        body={"items": [{"source": "notes", "path": "ferry.md", "text": "The ferry leaves at nine.", "tags": "boats"}]}
    ),
    "rag_documents": RouteExample(query={"source": "notes", "limit": "1"}),
    "knowledge_base_list": RouteExample(query={"limit": "1"}),
    "knowledge_base_document": RouteExample(path={"document_id": FERRY}),
    "rag_stats": RouteExample(),
    "rag_document": RouteExample(path={"document_id": FERRY}),
    "rag_document_chunks": RouteExample(path={"document_id": FERRY}),
    "rag_document_text": RouteExample(path={"document_id": FERRY}),
    "rag_document_original": RouteExample(path={"document_id": FERRY}),
    "rag_document_events": RouteExample(path={"document_id": FERRY}),
    "rag_changes": RouteExample(query={"limit": "10"}),
    "rag_callback_key": RouteExample(),
    "rag_search": RouteExample(body={**_ASKED, "topK": 1, "filters": {"tags": ["boats"]}}),
    "rag_search_batch": RouteExample(body={"queries": [{**_ASKED, "topK": 1}]}),
    "rag_context": RouteExample(body={**_ASKED, "topK": 1}),
    "rag_query": RouteExample(body={"question": "When does the ferry leave?", "documentIds": [FERRY]}),
    "chat": RouteExample(body={"message": "When does the ferry leave?", "useRag": True, "ragTopK": 1}),
    "rag_feedback": RouteExample(
        body={
            "request": "answer-1",
            "thumb": "down",
            "reason": "It leaves at ten.",
            "sources": [{"documentId": FERRY, "chunkId": FERRY}],
        }
    ),
    "rag_document_reread": RouteExample(path={"document_id": FERRY}),
    "rag_document_patch": RouteExample(path={"document_id": FERRY}, body={"tags": ["boats", "2026"]}),
    "openai_models": RouteExample(),
    "openai_model": RouteExample(path={"name": _MODEL}),
    "openai_chat_completions": RouteExample(
        body={"model": _MODEL, "messages": [{"role": "user", "content": "When does the ferry leave?"}]}
    ),
    "openai_completions": RouteExample(body={"model": _MODEL, "prompt": "When does the ferry leave?"}),
    "openai_responses": RouteExample(body={"model": _MODEL, "input": "When does the ferry leave?"}),
    "openai_embeddings": RouteExample(body={"model": _EMBEDDER, "input": "ferries"}),
    "openai_vector_stores": RouteExample(),
    "openai_vector_store": RouteExample(path={"id_": "documents"}),
    "openai_vector_store_search": RouteExample(path={"id_": "documents"}, body={**_ASKED, "max_num_results": 1}),
    "dify_retrieval": RouteExample(body={**_ASKED, "knowledge_id": "notes", "retrieval_setting": {"top_k": 1}}),
    "web_search": RouteExample(body={**_ASKED, "count": 1}),
    "process_file": RouteExample(type="application/octet-stream", body="# Piers\n\nThe pier is lit at six."),
    "ollama_version": RouteExample(),
    "ollama_tags": RouteExample(),
    "ollama_ps": RouteExample(),
    "ollama_show": RouteExample(body={"model": _MODEL}),
    "ollama_pull": RouteExample(body={"model": _MODEL}),
    "api_chat": RouteExample(
        body={
            "model": _MODEL,
            "messages": [{"role": "user", "content": "When does the ferry leave?"}],
            "stream": False,
        }
    ),
    "ollama_generate": RouteExample(body={"model": _MODEL, "prompt": "When does the ferry leave?", "stream": False}),
    "ollama_embed": RouteExample(body={"model": _EMBEDDER, "input": ["ferries"]}),
    "ollama_embeddings": RouteExample(body={"model": _EMBEDDER, "prompt": "ferries"}),
    "metrics": RouteExample(),
    "ops_audit": RouteExample(query={"limit": "1"}),
    "ops_feedback": RouteExample(query={"limit": "1"}),
    "ops_tenants": RouteExample(),
    "ops_tenant": RouteExample(path={"tenant": "default"}),
    "ops_tenants_erase": RouteExample(body={"tenant": "default"}),
    "ops_keys": RouteExample(),
    "ops_key_revoke": RouteExample(path={"key_id": "5f0c1d2e3a4b5c6d"}),
    "ops_config": RouteExample(),
    "ops_lag": RouteExample(),
    "ops_groups": RouteExample(),
    "ops_replay": RouteExample(body={"topic": "documents.submitted", "from": "beginning", "dryRun": True}),
    "ops_dead_letters": RouteExample(query={"source": "upload"}),
    "ops_dead_letter": RouteExample(path={"letter_id": _LETTER}),
    "ops_dead_letter_record": RouteExample(path={"letter_id": _LETTER}),
    "ops_dead_letters_redrive": RouteExample(body={"source": "upload", "dryRun": True}),
    "ops_dead_letters_drop": RouteExample(body={"ids": [_LETTER]}),
    "ops_generations": RouteExample(),
    "ops_generations_start": RouteExample(body={"chunkSize": 800, "dryRun": True}),
    "ops_generations_compare": RouteExample(body={"sample": 10}),
    "ops_generations_switch": RouteExample(body={"id": "c6f68d426dfb"}),
    "ops_generations_rollback": RouteExample(),
    "ops_generations_cancel": RouteExample(),
    "ops_generations_gc": RouteExample(),
    "rag_documents_delete": RouteExample(body=_NOTES),
    "rag_document_delete": RouteExample(path={"document_id": _TIDES}),
    "ops_erase": RouteExample(body={"documentIds": [_BOAT]}),
    "ops_erase_forgotten": RouteExample(query={"receipt": _RECEIPT}),
    "ops_forget": RouteExample(body={"proofs": [], "dryRun": True}),
    "rag_ingest_url": RouteExample(
        headers={"Prefer": "wait=0"}, body={"url": "https://timetables.example/ferries", "depth": 1}
    ),
}
SHOWN_LETTER: Final = "c25e4bbc673bf0f6"
SHOWN_GENERATION: Final = "c6f68d426dfb"  # another one with each change of the chunker
SHOWN_RECEIPT: Final = "8yXkGd1vVWm3Yw2q6cJb0nsicHJvY2VzcyI6IjVkMGYiLCJiZWd1biI6MH0"
_SHOWN_FOLDER: Final = "/var/lib/sluice"
_SHOWN_KEY: Final = "whsec_…"
_BROKEN: Final = b"%PDF-1.7\nnothing of a PDF"
_LONGEST: Final = 300  # characters of a shown text
_FEW: Final = 3  # shown items of a list


async def sent() -> dict[str, RouteExample]:
    """Return the examples with the replies of a new installation."""
    found: dict[str, RouteExample] = {}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        settings = Settings(data=Path(folder), samples="off", chat="extractive:")
        app = make_api(await start(settings, stack))
        client = await stack.enter_async_context(a_client(app))
        routes = routes_of(described(app))
        assert REQUESTS.keys() == routes.keys(), f"routes with and without example: {REQUESTS.keys() ^ routes.keys()}"
        await client.post("/rag/ingest/upload", content=_BROKEN, headers={"Content-Type": "application/pdf"})
        generation = (await client.get("/ops/generations")).json()["serving"]
        letter = receipt = ""
        for name, example in REQUESTS.items():
            if name == "ops_dead_letter":
                letter = (await client.get("/ops/dead-letters?source=upload")).json()["items"][0]["id"]
            reply = await asked(client, *routes[name], example, {_LETTER: letter, _RECEIPT: receipt})
            if name == "ops_erase":
                receipt = reply.json()["receipt"]
            instead = {_LETTER: SHOWN_LETTER, letter: SHOWN_LETTER, folder: _SHOWN_FOLDER, generation: SHOWN_GENERATION}
            instead |= {_RECEIPT: SHOWN_RECEIPT, receipt: SHOWN_RECEIPT}
            if name == "rag_callback_key":
                instead[reply.json()["key"]] = _SHOWN_KEY
            found[name] = _shown(example, reply, instead)
    return found


def routes_of(spec: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return method and path of each route, by its operation id."""
    return {
        operation["operationId"]: (method, path)
        for path, item in spec["paths"].items()
        for method, operation in item.items()
    }


async def asked(
    client: httpx.AsyncClient, method: str, path: str, example: RouteExample, values: Mapping[str, str]
) -> httpx.Response:
    """Return the reply to an example's request, in which `values` say what stands for its placeholders."""
    given = {name: values.get(value, value) for name, value in example.path.items()}
    query = {name: values.get(value, value) for name, value in example.query.items()}
    body: dict[str, Any] = {}
    if example.type == "multipart/form-data":
        fields = {name: value for name, value in example.body.items() if name != "file"}
        body = {"files": {"file": ("notes.md", example.body["file"].encode())}, "data": fields}
    elif example.type == "application/octet-stream":
        body = {"content": example.body.encode(), "headers": {"X-Filename": "piers.md"}}
    elif example.body is not None:
        text = json.dumps(example.body)
        for name, value in values.items():
            text = text.replace(name, value)
        body = {"json": json.loads(text)}
    headers = {**example.headers, **body.pop("headers", {})}
    return await client.request(method, path.format(**given), params=query, headers=headers, **body)


def _shown(example: RouteExample, reply: httpx.Response, instead: Mapping[str, str]) -> RouteExample:
    """Return the example with its reply, in which `instead` says what stands for something that differs each time."""
    essence = reply.headers["content-type"].partition(";")[0]
    shown = None  # of a refusal
    if reply.status_code < 300:
        shown = _short(reply.json() if essence == "application/json" else reply.text)
    found = msgspec.structs.replace(example, status=reply.status_code, replied=essence, reply=shown)
    text = msgspec.json.encode(found).decode()
    for varying, standing in instead.items():
        text = text.replace(varying, standing) if varying else text
    return msgspec.json.decode(text, type=RouteExample)


def _short(value: Any) -> Any:
    """Return the value with long lists and texts cut."""
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_short(each) for each in value[:_FEW]]
    if isinstance(value, str) and len(value) > _LONGEST:
        return value[:_LONGEST].rsplit(None, 1)[0] + " …"
    return value


def alike(one: Any, other: Any) -> bool:
    """Return whether two replies have the same fields with the same kinds of values; null is any kind."""
    if one is None or other is None:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return not one or not other or alike(one[0], other[0])
    return type(one) is type(other) or {type(one), type(other)} == {int, float}


def fits(written: RouteExample, got: RouteExample) -> bool:
    """Return whether the written example is still what the API replies."""
    request, again = (msgspec.structs.replace(each, reply=None) for each in (written, got))
    return request == again and alike(written.reply, got.reply)


def main() -> None:
    """Write the examples; those that have kept their shape stay as they are."""
    old = examples()
    new = asyncio.run(sent())
    kept = {name: old[name] if name in old and fits(old[name], example) else example for name, example in new.items()}
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


if __name__ == "__main__":
    main()
