"""`GET /rag/changes`: what has ended, in order, of one's own documents alone."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import httpx
import pytest
from litestar import Litestar

from services.query_api.app import ApiParts
from services.query_api.documents.changes import ChangeFeed, FeedCursor
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import Problem
from services.query_api.ingest.submissions import StatusWaiters
from shared.log.sqlite import SqliteLog
from shared.topics import STATUS, moved_topic, pipeline_topics
from tests.builders import Counted
from tests.contract.logs import SqliteHarness
from tests.integration.api import a_client, ingested, problem

if TYPE_CHECKING:
    from shared.log import Log

SIGNER = Signer(b"secret")
ASYNC = {"Prefer": "respond-async"}
pytestmark = pytest.mark.asyncio(loop_scope="session")


async def newest(client: httpx.AsyncClient) -> str:
    page = (await client.get("/rag/changes")).json()
    assert page["items"] == []
    return str(page["cursor"])


async def test_every_end_is_told_in_order_and_to_its_tenant_alone(app: Litestar, tenants: Iterator[str]) -> None:
    async with a_client(app, next(tenants)) as mine, a_client(app, next(tenants)) as other:
        begin = await newest(mine)
        id_ = await ingested(mine)
        await ingested(other)
        await ingested(mine, "Another text.")
        await mine.delete(f"/rag/documents/{id_}")

        whole = (await mine.get("/rag/changes", params={"cursor": begin})).json()
        first = (await mine.get("/rag/changes", params={"cursor": begin, "limit": 1})).json()
        rest = (await mine.get("/rag/changes", params={"cursor": first["cursor"]})).json()

    told = [(each["documentId"], each["status"]) for each in whole["items"]]
    assert list(dict.fromkeys(told)) == [(id_, "created"), (id_, "updated"), (id_, "deleted")]
    assert first["items"] + rest["items"] == whole["items"]
    versions = [each["version"] for each in whole["items"]]
    assert versions == sorted(versions)


async def test_a_long_poll_ends_with_the_first_change(client: httpx.AsyncClient) -> None:
    begin = await newest(client)

    waiting = asyncio.create_task(client.get("/rag/changes", params={"cursor": begin, "wait": 50}))
    id_ = await ingested(client)

    assert {each["documentId"] for each in (await waiting).json()["items"]} == {id_}


async def test_a_stream_tells_changes_and_its_ids_are_cursors(parts: ApiParts, client: httpx.AsyncClient) -> None:
    begin = await newest(client)
    id_ = await ingested(client)
    tenant = client.headers["Authorization"].removeprefix("Bearer key-of-")

    feed = ChangeFeed(parts.log, parts.notices, Signer(parts.secret))
    stream = feed.follow(tenant, await feed.at(tenant, begin))
    event = dict(line.split(": ", 1) for line in (await anext(stream)).decode().splitlines() if line)
    await stream.aclose()

    assert (event["event"], id_ in event["data"]) == ("created", True)
    page = (await client.get("/rag/changes", headers={"Last-Event-ID": event["id"]})).json()
    assert all(each["documentId"] == id_ for each in page["items"])


async def test_a_follower_of_what_was_just_heard_reads_no_log(parts: ApiParts, client: httpx.AsyncClient) -> None:
    await ingested(client)
    tenant = client.headers["Authorization"].removeprefix("Bearer key-of-")
    log = Counted(parts.log)
    feed = ChangeFeed(cast("Log", log), parts.notices, Signer(parts.secret))
    stream = feed.follow(tenant, await feed.end())
    first = asyncio.create_task(anext(stream))
    sent = [await ingested(client, f"{number}.md") for number in range(3)]
    await first
    log.calls.clear()

    told = first.result()
    while told.count(b"\ndata: ") < len(sent):
        told += await anext(stream)
    await stream.aclose()

    assert sorted(sent, key=lambda id_: told.index(id_.encode())) == sent
    assert log.calls == []


async def test_changes_that_are_there_are_told_at_once_and_made_once_for_all_who_follow(
    parts: ApiParts, client: httpx.AsyncClient
) -> None:
    begin = await newest(client)
    for number in range(3):
        await ingested(client, f"{number}.md")
    tenant = client.headers["Authorization"].removeprefix("Bearer key-of-")
    feed = ChangeFeed(parts.log, parts.notices, Signer(parts.secret))
    streams = [feed.follow(tenant, await feed.at(tenant, begin)) for _ in range(2)]

    one, other = [await anext(stream) for stream in streams]
    for stream in streams:
        await stream.aclose()

    assert one.count(b"\ndata: ") == 3
    assert one == other  # a cursor that is made anew differs


async def test_a_cursor_that_is_none_is_refused(parts: ApiParts, client: httpx.AsyncClient) -> None:
    tenant = client.headers["Authorization"].removeprefix("Bearer key-of-")
    feed = ChangeFeed(parts.log, parts.notices, Signer(parts.secret))

    beyond = await client.get("/rag/changes", params={"cursor": feed.cursor(tenant, 10**9)})
    foreign = feed.cursor("another", await feed.end())
    wrong = [await client.get("/rag/changes", params={"cursor": given}) for given in ("soon", "7", "1-7", foreign)]

    assert "take a new cursor from GET /rag/changes, list GET /rag/documents" in problem(beyond, 410, "CURSOR_GONE")
    assert {problem(each, 400) for each in wrong} == {"cursor: is not one that this API issued"}


async def test_nothing_that_a_tenant_is_given_counts_what_others_send(
    parts: ApiParts, app: Litestar, tenants: Iterator[str]
) -> None:
    async with a_client(app, next(tenants)) as mine, a_client(app, next(tenants)) as other:
        begin = await newest(mine)
        reply = await mine.post("/rag/ingest", json={"source": "s", "path": "p", "text": "A."}, headers=ASYNC)
        token, id_ = reply.json()["submission"], reply.json()["documentId"]
        await mine.get(reply.headers["link"].removeprefix("<").partition(">")[0])  # to its end
        page = (await mine.get("/rag/changes", params={"cursor": begin})).json()
        await ingested(other)
        foreign = [await other.get(f"/rag/documents/{id_}{how}={token}") for how in ("?submission", "/events?since")]

    assert {each["submission"] for each in page["items"]} == {token}  # the same at every door
    assert {len(each) for each in (token, begin, page["cursor"])} == {64}  # nor do lengths tell
    assert [problem(each, 400).partition(": ")[2] for each in foreign] == ["is not one that this API issued"] * 2


async def test_a_cursor_tells_nothing_when_only_others_write(app: Litestar, tenants: Iterator[str]) -> None:
    async with a_client(app, next(tenants)) as mine, a_client(app, next(tenants)) as other:
        idle = [await newest(mine) for _ in range(2)]
        await ingested(other)
        busy = await newest(mine)

    assert len({*idle, busy}) == 3


async def test_a_cursor_of_the_log_before_is_gone_though_its_offset_exists(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    log = await moved_log(tmp_path_factory.mktemp("log") / "log.sqlite")
    feed = ChangeFeed(log, StatusWaiters(), SIGNER)

    assert await feed.at("t", feed.cursor("t", 2)) == 2
    for moves in (0, 2):
        with pytest.raises(Problem) as gone:
            await feed.at("t", SIGNER.sign(FeedCursor(2, moves=moves), tenant="t"))
        assert gone.value.status == 410
    await log.stop()


async def moved_log(path: Path) -> SqliteLog:
    """Return a log that records were moved to, with three notices."""
    new = SqliteLog(path)
    await new.start()
    await new.ensure_topics([*pipeline_topics("g"), moved_topic(1)])
    await new.stop()
    log = SqliteLog(path)
    await log.start()
    broker = log.broker("test")
    await broker.start()
    for _ in range(3):
        await broker.publish(b"{}", STATUS, key=b"k")
    await broker.stop()
    return log


async def test_a_cursor_older_than_the_topic_keeps_is_gone(tmp_path_factory: pytest.TempPathFactory) -> None:
    harness = SqliteHarness(tmp_path_factory.mktemp("log"))
    log = await harness.join()
    await log.ensure_topics(pipeline_topics("g"))
    broker = log.broker("test")
    await broker.start()
    for _ in range(3):
        await broker.publish(b"{}", STATUS, key=b"k")
    feed = ChangeFeed(log, StatusWaiters(), SIGNER)
    first, last = feed.cursor("t", 0), feed.cursor("t", 3)
    assert await feed.at("t", first) == 0
    await harness.forget(STATUS)

    with pytest.raises(Problem) as gone:
        await feed.at("t", first)
    assert await feed.at("t", last) == 3

    assert gone.value.status == 410
    await broker.stop()
    await harness.close()
