"""Five tenants with the same names and words, and requests that try to read what isn't theirs.

Each document has a word that no request ever sends. A reply with another tenant's word, or with an id that the caller
didn't send, is a leak; so is a count of other documents than the caller's.
"""

import os
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from litestar import Litestar

from shared.embedder import Vector
from shared.embedder.minilm import MiniLm
from shared.ids import document_id
from tests.integration.api import a_client
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

COUNT = int(os.environ.get("SLUICE_TEST_COUNT") or 300)  # requests of each tenant
PATHS = ("plan.md", "price.md", "people.md")
WORDS = "The plan of the harbour: prices, people and boats."


@dataclass
class Tenant:
    name: str
    http: httpx.AsyncClient
    word: str  # stands in its documents, and in no request

    @property
    def ids(self) -> list[str]:
        return [document_id(self.name, "s", path) for path in PATHS]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def five(app: Litestar, tenants: Iterator[str]) -> AsyncIterator[list[Tenant]]:
    async with AsyncExitStack() as stack:
        found = []
        for number in range(5):
            name = next(tenants)
            tenant = Tenant(name, await stack.enter_async_context(a_client(app, name)), f"zanzibar{number}quokka")
            for path in PATHS:
                body = {"source": "s", "path": path, "title": path, "tags": ["t"], "metadata": {"year": 2020}}
                reply = await tenant.http.post("/rag/ingest", json=body | {"text": f"{WORDS} {path} {tenant.word}"})
                assert reply.status_code == 200, reply.text
            found.append(tenant)
        yield found


def filters(other: Tenant, rng: random.Random) -> dict[str, Any]:
    """Return filters that name the other tenant in some way, half of them well-formed."""
    if rng.random() < 0.5:
        proper: list[dict[str, Any]] = [
            {"documentIds": other.ids},
            {"documentIds": other.ids, "source": "s"},
            {"not": {"source": "x"}},
            {"not": {"documentIds": other.ids[:1]}, "tags": ["t"]},
            {"metadata.tenant": other.name, "year": 2020},
            {"source": ["s", "x"], "path": list(PATHS)},
        ]
        return rng.choice(proper)
    value: Any = rng.choice(
        [other.name, [other.name], {"in": [other.name]}, {"not": "x"}, {"$ne": "x"}, {"gte": ""}, {"prefix": ""}, True]
    )
    field = rng.choice(
        ["tenant", "metadata.tenant", '"tenant"', "tenant ", "TENANT", "metadata", "source", "path", "tags", "year"]
    )
    more: dict[str, Any] = rng.choice(
        [{}, {"documentIds": other.ids}, {"not": {"tenant": "x"}}, {"not": {"documentIds": [other.ids[0]]}}, {"or": []}]
    )
    return {field: value, **more}


def attempt(other: Tenant, cursors: list[str], rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    """Return a hostile request: method, path, options."""
    id_ = rng.choice([*other.ids, f"{other.ids[0]}/../{other.ids[1]}", other.ids[0].upper(), f" {other.ids[0]}"])
    cursor = rng.choice([*cursors, other.ids[0], str(uuid4()), "", "0", "-1"])
    if rng.random() < 0.3 and cursor:
        place = rng.randrange(len(cursor))
        cursor = cursor[:place] + rng.choice("aZ09_-=") + cursor[place + 1 :]
    chosen = {"filters": filters(other, rng)}
    body = {"query": WORDS, "topK": 20}
    requests: list[Callable[[], tuple[str, str, dict[str, Any]]]] = [
        lambda: ("POST", "/rag/search", {"json": body | chosen}),
        lambda: ("POST", "/rag/search", {"json": body | {"groupBy": "tenant", "expand": 2}}),
        lambda: ("POST", "/rag/context", {"json": body | chosen}),
        lambda: ("POST", "/rag/query", {"json": {"question": WORDS, "ragFilters": chosen["filters"]}}),
        lambda: ("POST", "/rag/query", {"json": {"question": WORDS} | chosen}),
        lambda: ("GET", "/rag/documents", {"params": {"cursor": cursor, "limit": 2}}),
        lambda: ("GET", "/rag/documents", {"params": {"tenant": other.name}}),
        lambda: ("GET", "/rag/documents", {"params": {"q": "plan", "cursor": cursor}}),
        lambda: ("GET", f"/rag/documents/{id_}", {}),
        lambda: ("GET", f"/rag/documents/{id_}/text", {}),
        lambda: ("GET", f"/rag/documents/{id_}/original", {}),
        lambda: ("GET", f"/rag/documents/{id_}/chunks", {}),
        lambda: ("GET", f"/rag/documents/{id_}/events", {}),
        lambda: ("PATCH", f"/rag/documents/{id_}", {"json": {"title": "mine"}, "headers": {"If-Match": "*"}}),
        lambda: ("DELETE", f"/rag/documents/{id_}", {}),
        lambda: ("DELETE", "/rag/documents", {"json": {"filters": {"documentIds": other.ids}}}),
        lambda: ("DELETE", "/rag/documents", {"json": {"all": True, "confirm": 3, "cursor": cursor}}),
        lambda: ("POST", "/rag/ingest/check", {"json": [{"source": "s", "path": PATHS[0], "hash": "0" * 64}]}),
        lambda: ("POST", "/v1/vector_stores/s/search", {"json": {"query": WORDS, "filters": filters(other, rng)}}),
        lambda: ("GET", "/rag/stats", {"params": {"tenant": other.name}}),
        lambda: ("GET", "/rag/stats", {"headers": {"X-Tenant": other.name}}),
        lambda: ("GET", f"/rag/documents/{id_}", {"headers": {"X-Tenant": other.name, "X-Forwarded-User": other.name}}),
    ]
    return rng.choice(requests)()


@CI_ONLY
async def test_nobody_sees_anything_of_another_tenant(five: list[Tenant]) -> None:
    cursors = []
    for tenant in five:
        page = (await tenant.http.get("/rag/documents", params={"limit": 1})).json()
        cursors.append(page["nextCursor"])
    leaks: list[str] = []
    answered = 0
    for number, tenant in enumerate(five):
        rng = random.Random(number)
        others = [each for each in five if each is not tenant]
        for _ in range(COUNT):
            method, path, options = attempt(rng.choice(others), cursors, rng)
            reply = await tenant.http.request(method, path, **options)
            answered += reply.status_code == 200
            sent = f"{path} {options}"
            if reply.status_code >= 500:
                leaks.append(f"{reply.status_code} for {method} {sent}")
            for other in others:
                shown = [id_ for id_ in other.ids if id_ in reply.text and id_ not in sent]
                if other.word in reply.text or shown:
                    leaks.append(f"{method} {sent} of {tenant.name}: {reply.text[:300]}")

    assert leaks == []
    assert answered > COUNT / 2, "of five times as many; the rest is refused"
    for tenant in five:
        stats = (await tenant.http.get("/rag/stats")).json()
        found = (await tenant.http.post("/rag/search", json={"query": WORDS, "topK": 20})).json()["results"]
        assert stats["documents"]["total"] == len(PATHS)
        assert {each["metadata"]["documentId"] for each in found} == {*tenant.ids}


@CI_ONLY
async def test_a_foreign_id_is_answered_as_an_unknown_one(five: list[Tenant]) -> None:
    one, other = five[:2]
    rng = random.Random(15)
    ids = {"foreign": other.ids[0], "unknown": str(uuid4()), "another unknown": str(uuid4())}
    times: dict[str, list[float]] = {kind: [] for kind in ids}
    replies: dict[str, httpx.Response] = {}
    for _ in range(min(COUNT, 1000)):
        for kind, id_ in rng.sample([*ids.items()], len(ids)):
            began = time.perf_counter()
            replies[kind] = await one.http.get(f"/rag/documents/{id_}")
            times[kind].append(time.perf_counter() - began)

    foreign, unknown = (replies[kind].json() for kind in ("foreign", "unknown"))
    assert foreign | {"instance": ""} == unknown | {"instance": ""}
    medians = {kind: statistics.median(each) for kind, each in times.items()}
    print(f"medians in us: { {kind: round(each * 1e6) for kind, each in medians.items()} }")


async def test_a_query_is_embedded_for_each_tenant_that_asks_it(
    five: list[Tenant], monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = MiniLm.embed_query
    asked: list[str] = []

    async def noted(model: MiniLm, text: str) -> Vector:
        asked.append(text)
        return await embed(model, text)

    monkeypatch.setattr(MiniLm, "embed_query", noted)
    for tenant in (five[0], five[1], five[0]):
        assert (await tenant.http.post("/rag/search", json={"query": "Who asked this before?"})).status_code == 200

    assert asked == ["Who asked this before?"] * 2  # a fast reply would tell that another tenant has asked it
