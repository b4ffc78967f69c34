"""Texts that a tenant has embedded for itself wait for each other, and hold up no other tenant."""

import asyncio
from collections.abc import Iterator

import pytest

from services.query_api.app import ApiParts
from tests.fakes.embedder import MemoryEmbedder
from tests.integration.api import a_client, an_app

ROUTES = {"/v1/embeddings": "input", "/api/embed": "input", "/api/embeddings": "prompt"}


@pytest.mark.parametrize("route", ROUTES)
async def test_a_tenant_has_eight_lists_embedded_at_once(parts: ApiParts, tenants: Iterator[str], route: str) -> None:
    embedder = MemoryEmbedder()
    embedder.answers.clear()
    app = an_app(parts, embedder=embedder)
    async with a_client(app, next(tenants)) as many, a_client(app, next(tenants)) as other:
        body = {"model": "memory", ROUTES[route]: "many"}
        asked = [asyncio.create_task(many.post(route, json=body)) for _ in range(20)]
        while len(embedder.asked) < 8:
            embedder.was_asked.clear()
            await embedder.was_asked.wait()
        asked.append(asyncio.create_task(other.post(route, json=body | {ROUTES[route]: "other"})))
        while "other" not in embedder.asked:
            embedder.was_asked.clear()
            await embedder.was_asked.wait()
        assert embedder.asked == ["many"] * 8 + ["other"]

        embedder.answers.set()
        assert {reply.status_code for reply in await asyncio.gather(*asked)} == {200}
