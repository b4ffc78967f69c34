"""Routes for operators: lag, groups and replay."""

from collections.abc import Iterator

import httpx
import pytest
from litestar import Litestar
from pydantic import SecretStr

from services.query_api.app import ApiParts
from services.query_api.ops import log_state
from shared.topics import EXTRACTED, SUBMITTED, readers
from tests.integration.api import a_client, an_app, ingested, problem
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPERATOR = {"Authorization": "Bearer key-operator"}


async def test_lag_and_members_are_shown_to_operators_alone(
    parts: ApiParts, app: Litestar, client: httpx.AsyncClient
) -> None:
    await ingested(client)
    groups = {group: topic for topic, group in readers(parts.index.generation.id).items()}

    lag = (await client.get("/ops/lag", headers=OPERATOR)).json()
    rows = (await client.get("/ops/groups", headers=OPERATOR, params={"group": "ingest"})).json()
    unknown = await client.get("/ops/groups", headers=OPERATOR, params={"group": "mine"})

    assert {each["group"]: (each["topic"], each["members"]) for each in lag} == {
        group: (topic, 1) for group, topic in groups.items()
    }
    assert {row["topic"] for row in rows} == {SUBMITTED}
    assert all(row["consumerId"] and row["logEndOffset"] >= 0 for row in rows)
    assert problem(unknown, 404).startswith("there is no group mine; there are ")
    for path in ("/ops/lag", "/ops/groups"):
        assert (await client.get(path)).status_code == 403


async def test_a_tenant_s_admin_replays_its_own_documents(app: Litestar, tenants: Iterator[str]) -> None:
    async with a_client(app, next(tenants)) as other:
        await ingested(other)
    async with a_client(app) as client:
        client.headers["X-API-Key"] = "key-head"
        id_ = await ingested(client)
        order = {"topic": SUBMITTED, "from": "beginning", "dryRun": True}
        dry = (await client.post("/ops/replay", json=order)).json()
        done = (await client.post("/ops/replay", json={"topic": EXTRACTED, "from": 0, "key": id_})).json()
        after = (await client.get(f"/rag/documents/{id_}")).json()
        wrong = [
            await client.post("/ops/replay", json={"topic": "dead.letters", "from": 0}),
            await client.post("/ops/replay", json={"topic": SUBMITTED, "from": "soon"}),
            await client.post("/ops/replay", json={"topic": "chunks.../x", "from": 0}),
        ]

    assert (dry["dryRun"], dry["sent"], dry["nextCursor"]) == (True, 1, None)
    assert {dry[name] for name in ("read", "unreadable")} | {dry["partitions"]} == {None}, "it tells of other tenants"
    assert (done["sent"], after["status"]) == (1, "created")
    assert [problem(reply, 400)[:40] for reply in wrong] == [
        "dead.letters can't be replayed; choose d",
        "from: 'soon' is neither an offset nor a ",
        "no stage reads 'chunks.../x'; topics of ",
    ]


@CI_ONLY
async def test_a_long_replay_is_answered_in_pages(app: Litestar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_state, "MOST_RECORDS", 2)
    async with a_client(app) as admin:
        admin.headers["X-API-Key"] = "key-admin"
        for number in range(5):
            await ingested(admin, path=f"{number}.md", text=f"Page {number} of a replay.")
        order = {"topic": SUBMITTED, "from": "beginning"}
        found = [(await admin.post("/ops/replay", json=order)).json()]
        while cursor := found[-1]["nextCursor"]:
            found.append((await admin.post("/ops/replay", json=order | {"cursor": cursor})).json())
        first = {"cursor": found[0]["nextCursor"]}
        wrong = [
            await admin.post("/ops/replay", json=order | first | {"dryRun": True}),
            await admin.post("/ops/replay", json=order | {"cursor": "AAAA"}),
            await admin.post("/ops/replay", json=order | first | {"topic": EXTRACTED}),
        ]

    assert len(found) > 2
    assert sum(page["sent"] for page in found) >= 5
    assert all(page["sent"] <= 2 for page in found)
    assert [problem(reply, 400) for reply in wrong] == [
        "cursor: belongs to another replay",
        "cursor: is not one that this API issued",
        "cursor: belongs to another replay",
    ]


async def test_statistics_are_for_operators_too(parts: ApiParts) -> None:
    keys = SecretStr("key-keeper:keeper:operator,key-other:other:admin")
    app = an_app(parts, settings=parts.settings.model_copy(update={"api_keys": keys}))
    async with a_client(app) as keeper:
        keeper.headers["X-API-Key"] = "key-keeper"
        stats = await keeper.get("/rag/stats", params={"sizes": "true"})

    assert stats.status_code == 200, stats.text
    assert [each["stage"] for each in stats.json()["pipeline"]["stages"]] == ["Reading", "Chunking", "Embedding"]
