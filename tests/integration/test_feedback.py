"""Thumbs under answers: who keeps and reads them, what is kept, and with what they go."""

from typing import Any

import httpx
import pytest
from litestar import Litestar
from pydantic import SecretStr

from services.query_api.app import ApiParts
from services.query_api.ops.feedback import PER_HOUR, FeedbackBody, Thumbs
from shared.ids import document_id
from shared.topics import DAY, FEEDBACK
from tests.integration.api import LANTERN, a_client, an_app, ingested, problem
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = "When is the lantern lit?"


def of(app: Litestar, key: str) -> httpx.AsyncClient:
    client = a_client(app)
    client.headers["X-API-Key"] = key
    return client


async def thumbs(client: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    reply = await client.get("/ops/feedback", params=query)
    assert reply.status_code == 200, reply.text
    items: list[dict[str, Any]] = reply.json()["items"]
    return items


async def given(client: httpx.AsyncClient, thumb: str = "down", **fields: Any) -> dict[str, Any]:
    """Ask about the lantern, give the answer a thumb, and return what was sent."""
    asked = await client.post("/chat", json={"message": QUESTION, "useRag": True})
    sources = [{name: each[name] for name in ("documentId", "chunkId")} for each in asked.json()["ragSources"]]
    model, request = asked.json()["data"]["model"], asked.headers["x-request-id"]
    sent = {"request": request, "thumb": thumb, "model": model, "sources": sources, "question": QUESTION, **fields}
    reply = await client.post("/rag/feedback", json=sent)
    assert reply.status_code == 200, reply.text
    return sent


@pytest.mark.feature(266)
async def test_a_thumb_is_for_its_tenant_s_admins_and_a_later_one_replaces_it(parts: ApiParts, app: Litestar) -> None:
    allowed = an_app(parts, settings=parts.settings.model_copy(update={"feedback_questions": "boss, head"}))
    async with of(app, "key-head") as client, of(allowed, "key-head") as open_, of(app, "key-admin") as other:
        await ingested(client)
        first = await given(client)
        await client.post("/rag/feedback", json={**first, "reason": "  It quotes the wrong place. "})
        foreign = document_id("admin", "s", "p")
        second = await given(open_, "up", sources=[{"documentId": foreign, "chunkId": foreign}])
        found, theirs = await thumbs(client), await thumbs(other)
        newest, none = await thumbs(client, limit=1), await thumbs(client, since="2100-01-01T00:00:00Z")
        async with of(app, "key-reader") as reader:
            refused = await reader.get("/ops/feedback")

    assert [each.pop("time")[:2] for each in found] == ["20", "20"]
    assert found == [
        {"request": second["request"], "thumb": "up", "model": "extractive", "question": QUESTION},
        {name: first[name] for name in ("request", "thumb", "model", "sources")}
        | {"reason": "It quotes the wrong place."},
    ]
    assert first["sources"]
    assert (theirs, none, [each["request"] for each in newest]) == ([], [], [second["request"]])
    problem(refused, 403)
    assert await parts.log.retention_ms(FEEDBACK) == 90 * DAY


@CI_ONLY
async def test_a_thumb_goes_with_a_document_that_the_answer_was_given_even_while_it_is_kept(parts: ApiParts) -> None:
    name, done = document_id("thumbs", "s", "lantern.md"), list[httpx.Response]()

    async with of(an_app(parts), "key-thumbs") as client:

        async def publish(topic: str, value: bytes | None, **how: Any) -> Any:
            if topic == FEEDBACK and value is not None:
                done.append(await client.post("/ops/erase", json={"documentIds": [name]}))
            return await parts.publish(topic, value, **how)

        async with of(an_app(parts, publish=publish), "key-thumbs") as late:
            await ingested(client)
            await given(client, request="no passage", sources=[])
            await given(client)
            before = await thumbs(client)
            done.append(await client.post("/ops/erase", json={"documentIds": [name]}))
            erased = await thumbs(client, limit=1)  # not none, though the newest is erased
            await ingested(client, LANTERN + " Again.")
            await given(late)
            meanwhile = await thumbs(client, limit=1)
            done.append(await client.post("/ops/tenants/erase", json={"tenant": "thumbs", "confirm": 0}))
            none = await thumbs(client)

    assert [
        (reply.status_code, reply.json()) for reply in done if reply.status_code != 200 or "error" in reply.text
    ] == []
    assert [len(each) for each in (before, erased, meanwhile, none)] == [2, 1, 1, 0]
    assert {each["request"] for each in (*erased, *meanwhile)} == {"no passage"}


async def test_only_the_last_records_of_all_tenants_are_read(parts: ApiParts) -> None:
    kept = Thumbs(parts.log, parts.publish, parts.ledger, "")
    for request, tenant in (("1", "a"), ("2", "a"), ("3", "b"), ("2", "a"), ("4", "b")):
        await kept.keep(tenant, FeedbackBody(request=request, thumb="up"))
    found = [await kept.newest("a", 10, most=most) for most in (5, 4, 1)]

    assert [[each.request for each in of] for of in found] == [["2", "1"], ["2"], []]


@CI_ONLY
async def test_nobody_fills_the_log_with_thumbs(parts: ApiParts, app: Litestar) -> None:
    body = {"request": "a", "thumb": "up"}
    keyless = parts.settings.model_copy(update={"api_keys": SecretStr("")})
    async with a_client(an_app(parts, settings=keyless)) as anybody:
        shared = [await anybody.post("/rag/feedback", json=body) for _ in range(PER_HOUR + 1)][-1]
    async with of(app, "key-reader") as client:
        replies = [await client.post("/rag/feedback", json=body) for _ in range(PER_HOUR + 1)]
        wordy = await client.post("/rag/feedback", json={**body, "reason": "x" * 1001})

    assert {reply.status_code for reply in replies[:-1]} == {200}
    problem(replies[-1], 429)
    assert int(replies[-1].headers["retry-after"]) in range(1, 61)
    assert "of all callers without an API key" in problem(shared, 429)
    problem(wordy, 400)
