"""Routes for operators: lag, groups and replay."""

from collections.abc import Iterator

import httpx
import pytest
from litestar import Litestar

from services.query_api.app import ApiParts
from shared.topics import EXTRACTED, SUBMITTED, readers
from tests.integration.api import a_client, ingested, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

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
    assert problem(unknown, 404) == "there is no group mine"
    for path in ("/ops/lag", "/ops/groups"):
        assert (await client.get(path)).status_code == 403


async def test_a_tenant_s_admin_replays_its_own_documents(app: Litestar, tenants: Iterator[str]) -> None:
    async with a_client(app, next(tenants)) as other:
        await ingested(other)
    async with a_client(app) as client:
        client.headers["X-API-Key"] = "key-admin"
        id_ = await ingested(client)
        order = {"topic": SUBMITTED, "from": "beginning", "dryRun": True}
        dry = (await client.post("/ops/replay", json=order)).json()
        done = (await client.post("/ops/replay", json={"topic": EXTRACTED, "from": 0, "key": id_})).json()
        after = (await client.get(f"/rag/documents/{id_}")).json()
        wrong = [
            await client.post("/ops/replay", json={"topic": "dead.letters", "from": 0}),
            await client.post("/ops/replay", json={"topic": SUBMITTED, "from": "soon"}),
        ]

    assert (dry["dryRun"], dry["sent"]) == (True, 1)
    assert dry["read"] > dry["sent"]
    assert (done["sent"], after["status"]) == (1, "created")
    assert [problem(reply, 400)[:40] for reply in wrong] == [
        "dead.letters can't be replayed; choose d",
        "from: 'soon' is neither an offset nor a ",
    ]
