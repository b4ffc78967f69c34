"""A part that hangs, as a paused process or a lost network does: every route answers in time, with the reason.

That each route has a patience, `test_callers_who_leave.py` sees; a long run (SLUICE_TEST_COUNT=1) asks all of them.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from tests.docs.examples import REQUESTS, asked, routes_of
from tests.e2e.harness import SLUICE, Server
from tests.selection import CI_ONLY, LONG, LONG_RUN_ONLY
from tests.servers.fake_openai import EMBEDDING_MODEL, FakeOpenAi, fake_openai
from tests.servers.kafka import KafkaServer

pytestmark = [CI_ONLY, pytest.mark.slow]

GUARD_S = 60.0  # a hang guard: three times what a route waits for a part
ADMIN_GUARD_S = 180.0  # likewise for what admins and operators change: they wait as long as a slow part may take
# They wait for the model's server as long as it may take to load a model.
OF_MODELS = {"openai_embeddings", "ollama_embed", "ollama_embeddings"}
NEED = {  # routes that can't do without the part
    "store": {"rag_documents", "rag_document", "rag_stats", "rag_search", "chat", "openai_vector_stores"},
    "log": {"rag_ingest", "rag_ingest_upload", "rag_document_patch", "rag_changes", "ops_lag", "ops_audit"},
    "model": {"rag_search", "chat", "openai_responses"},
}
REASONS = ("gave no answer", "doesn't answer", "didn't answer")


class Part:
    """A part of a server that can hang."""

    def __init__(self, part: str, settings: dict[str, str], of: FakeOpenAi | KafkaServer | None) -> None:
        self.name, self.settings, self._of = part, settings, of

    def hang(self, server: Server) -> None:
        self._set(server, "pause", "suspend", "hang")

    def go_on(self, server: Server) -> None:
        self._set(server, "resume", "resume", None)

    def _set(self, server: Server, of_kafka: str, of_store: str, fault: str | None) -> None:
        if isinstance(self._of, FakeOpenAi):
            self._of.fault = fault
        elif self._of is not None:
            getattr(self._of, of_kafka)()
        else:
            [store] = [each for each in server.family() if "shared.store.edge_server" in each.cmdline()]
            getattr(store, of_store)()


async def opened(name: str, request: pytest.FixtureRequest, stack: AsyncExitStack) -> Part:
    if name == "log":
        kafka: KafkaServer = request.getfixturevalue("kafka")
        return Part(name, {"LOG": f"kafka://{kafka.address}"}, kafka)
    if name == "model":
        model = await stack.enter_async_context(fake_openai())
        return Part(name, {"EMBEDDER": f"openai+{model.base}/{EMBEDDING_MODEL}"}, model)
    return Part(name, {}, None)


# Kafka and a model's server are waited for up to a minute, and so is the store by an admin's route that writes.
@pytest.mark.parametrize("name", ["store", *(pytest.param(each, marks=LONG_RUN_ONLY) for each in ("log", "model"))])
async def test_given_a_part_that_hangs_when_any_route_is_asked_then_it_answers_in_time_and_says_why(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with AsyncExitStack() as stack:
        part = await opened(name, request, stack)
        module = SLUICE if LONG else "tests.faults.impatient"
        server = await asyncio.to_thread(Server(tmp_path / "data", module=module, **part.settings).start)
        stack.callback(server.kill)
        client = httpx.AsyncClient(base_url=server.url, timeout=ADMIN_GUARD_S, verify=False)
        await stack.enter_async_context(client)
        spec = (await client.get("/openapi.json")).json()
        routes = routes_of(spec)
        written = {"source": "notes", "path": "ferry.md", "text": "The ferry leaves at nine."}
        assert (await client.post("/rag/ingest", json=written)).json()["status"] == "created"

        async def told(route: str) -> tuple[str, int, Any]:
            example = replace(REQUESTS[route], headers={**REQUESTS[route].headers, "Prefer": "wait=1"})
            method, path = routes[route]
            by_admin = method != "get" and spec["paths"][path][method].get("x-role") in {"admin", "operator"}
            guard_s = ADMIN_GUARD_S if by_admin else GUARD_S
            try:
                async with asyncio.timeout(guard_s):
                    reply = await asked(client, method, path, example, {})
            except TimeoutError:
                return route, 0, f"no answer in {guard_s:.0f} s"
            return route, reply.status_code, reply.text[:300]

        part.hang(server)
        wanted = REQUESTS.keys() - (OF_MODELS if name == "model" else ()) if LONG else NEED[name]
        replies = await asyncio.gather(*map(told, sorted(wanted)))
        part.go_on(server)
        again = await client.post("/rag/ingest", json={**written, "path": "b.md"}, headers={"Prefer": "wait=60"})

    assert wanted <= routes.keys()
    unavailable = {route: text for route, status, text in replies if status == 503}
    assert [each for each in replies if not 200 <= each[1] < 500 and each[1] != 503] == []
    assert {route: text for route, text in unavailable.items() if not any(each in text for each in REASONS)} == {}
    assert NEED[name] - unavailable.keys() == set()
    assert again.json()["status"] in {"created", "unchanged"}, "it goes on by itself"
