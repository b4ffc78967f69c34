"""Kept results, on two APIs of one index: one hears what happens, the other hears nothing."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio

from services.query_api.app import ApiParts
from services.query_api.ingest.submissions import StatusWaiters
from tests.integration.api import HERONS, a_client, an_app, ingested
from tests.selection import CI_ONLY

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.feature(160), CI_ONLY]

QUERY = "When is the lantern lit?"


class Apis(NamedTuple):
    hearing: httpx.AsyncClient
    deaf: httpx.AsyncClient
    tenant: str


@pytest_asyncio.fixture(loop_scope="session")
async def apis(parts: ApiParts, tenants: Iterator[str]) -> AsyncIterator[Apis]:
    keeping = parts.settings.model_copy(update={"result_cache": 600.0})
    tenant = next(tenants)
    hearing, deaf = an_app(parts, settings=keeping), an_app(parts, settings=keeping, notices=StatusWaiters())
    async with a_client(hearing, tenant) as one, a_client(deaf, tenant) as other:
        yield Apis(one, other, tenant)


async def searched(client: httpx.AsyncClient, **how: Any) -> tuple[list[str], bool]:
    """Return the texts found, and whether they were kept: nothing was asked then."""
    reply = await client.post("/rag/search", json={"query": QUERY, "explain": True, **how})
    assert reply.status_code == 200, reply.text
    found = reply.json()
    return [hit["text"] for hit in found["results"]], found["timings"]["storeMs"] == 0


async def test_the_same_search_is_answered_from_what_was_kept(apis: Apis) -> None:
    await ingested(apis.hearing)

    first, kept_first = await searched(apis.deaf)
    again, kept_again = await searched(apis.deaf)

    assert (kept_first, kept_again) == (False, True)
    assert again == first != []


async def test_a_deleted_document_is_not_found_by_an_api_that_heard_nothing(apis: Apis) -> None:
    id_ = await ingested(apis.hearing)
    for client in (apis.hearing, apis.deaf):
        await searched(client)

    assert (await apis.hearing.delete(f"/rag/documents/{id_}")).status_code == 200

    assert [await searched(client) for client in (apis.hearing, apis.deaf)] == [([], False), ([], False)]


async def test_an_updated_document_is_found_as_it_is_now_by_an_api_that_heard_nothing(apis: Apis) -> None:
    await ingested(apis.hearing)
    for client in (apis.hearing, apis.deaf):
        await searched(client)

    await ingested(apis.hearing, "The lantern is lit at noon.")

    for client in (apis.hearing, apis.deaf):
        assert await searched(client) == (["The lantern is lit at noon."], False)


async def test_a_new_document_is_found_at_once_by_the_api_that_heard_of_it(apis: Apis) -> None:
    await ingested(apis.hearing)
    await searched(apis.hearing)

    await ingested(apis.hearing, HERONS, path="herons.md")

    texts, kept = await searched(apis.hearing)
    assert HERONS in texts
    assert not kept


async def test_filters_that_are_equal_in_python_only_and_other_tenants_share_nothing(
    apis: Apis, parts: ApiParts, tenants: Iterator[str]
) -> None:
    await ingested(apis.hearing, metadata={"seen": True})
    stranger = an_app(parts, settings=parts.settings.model_copy(update={"result_cache": 600.0}))

    assert len((await searched(apis.hearing, filters={"seen": True}))[0]) == 1
    assert (await searched(apis.hearing, filters={"seen": 1}))[0] == []
    async with a_client(stranger, next(tenants)) as client:
        assert (await searched(client))[0] == []
