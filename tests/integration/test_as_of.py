"""An index of a past moment: it has what was there then, without what was erased since, and never serves.

On both logs. `tests/e2e/test_reindex_kill.py` kills processes while one is built.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio

from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from shared.contracts import DocumentSubmitted
from shared.ids import document_id
from shared.log.sqlite import SqliteLog
from shared.settings import ConfigurationError
from shared.state.index import Index
from shared.times import iso
from shared.topics import DAY, EXTRACTED, SUBMITTED, chunks_topic
from tests.contract.kafka_harness import empty
from tests.e2e.text import paragraphs
from tests.integration.api import a_client
from tests.integration.pipeline import Pipeline, Points, Quiet, points_of, running
from tests.integration.reindex_rig import Rig
from tests.selection import CI_ONLY

SECRET = "The smuggler hid the chest under the third plank."
OLD, NEW = "A heron stands on the pier.", "An otter swims in the harbour."
LARGE = "\n\n".join(["The crane lifts one crate after the other. " * 9] * 720)  # over 256 kB, of equal chunks


def doc(path: str, text: str | None, tenant: str = "default") -> DocumentSubmitted:
    return DocumentSubmitted(tenant=tenant, source="s", path=path, text=text, deleted=text is None)


async def points(pipeline: Pipeline, generation: str | None = None) -> Points:
    return await points_of(pipeline.settings, generation)


def move_to_yesterday(folder: Path) -> None:
    """Move the append time of all records back by a day. The folder's server must be stopped."""
    with closing(sqlite3.connect(folder / "log.sqlite")) as connection, connection:
        connection.execute("UPDATE record SET time = time - ?", (DAY,))
        connection.execute("UPDATE partition SET time = time - ?", (DAY,))


async def built(rig: Rig, moment: int | str) -> str:
    """Build an index of the moment, and return its id."""
    plan = await rig.post("/ops/generations/start", {"asOf": moment})
    await rig.until_state(plan["id"], "past")
    await rig.until_loaded(plan["id"])
    id_: str = plan["id"]
    return id_


async def found(rig: Rig, query: str, moment: int | str, status: int = 200) -> list[str]:
    reply = await rig.post("/rag/search", {"query": query, "asOf": moment, "topK": 50}, status)
    return [hit["text"] for hit in reply["results"]] if status == 200 else [reply["detail"]]


async def verified(rig: Rig, generation: str) -> str:
    async with opened(rig.pipeline.settings, generation) as parts:
        outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=None, patience_s=20)
    assert outcome.report.first == {}
    return outcome.report.verdict


@CI_ONLY
async def test_the_index_of_yesterday_is_what_the_index_was_yesterday(tmp_path: Path) -> None:
    await a_past_moment_is_shown(tmp_path, "sqlite:", wait=lambda: move_to_yesterday(tmp_path), gap=DAY // 2)


@CI_ONLY
async def test_on_kafka_the_index_of_a_moment_is_what_the_index_was_then(tmp_path: Path, kafka_address: str) -> None:
    await empty(kafka_address)
    await a_past_moment_is_shown(tmp_path, f"kafka://{kafka_address}", wait=lambda: None, gap=1)


async def a_past_moment_is_shown(data: Path, log: str, *, wait: Callable[[], None], gap: int) -> None:
    """Load, `wait`, change everything, then build an index of the moment `gap` ms after the load."""
    async with running(data, log=log, chunk_size=400) as pipeline:
        for number in range(6):
            await pipeline.send(doc(f"{number}.md", "\n\n".join(paragraphs(number, 4))))
        await pipeline.send(doc("large.md", LARGE))
        await pipeline.send(doc("bird.md", "An older text."))
        await pipeline.send(doc("bird.md", OLD))
        await pipeline.send(doc("gone.md", "This is deleted before."))
        await pipeline.send(doc("gone.md", None))
        oracle = await points(pipeline)
    wait()

    async with running(data, log=log, chunk_size=400) as pipeline:
        rig = Rig(pipeline)
        moment = iso((await newest(pipeline)) + gap)  # between the load and the changes
        await pipeline.send(doc("bird.md", NEW))
        await pipeline.send(doc("large.md", "It is small now."))
        await pipeline.send(doc("0.md", None))
        await pipeline.send(doc("new.md", "This one is new."))
        if isinstance(pipeline.parts.log, SqliteLog):
            await pipeline.parts.log.keep_up()
        today, before = await points(pipeline), pipeline.embedded()

        id_ = await built(rig, moment)

        assert await points(pipeline, id_) == oracle
        assert await points(pipeline) == today
        assert pipeline.embedded() - before <= len(oracle)
        assert (await found(rig, "heron on the pier", moment))[0] == OLD
        assert (await found(rig, "This one is new", moment)) != ["This one is new."]
        assert "This one is new." not in await found(rig, "This one is new", moment)
        assert (await rig.found("otter in the harbour"))[0][1] == NEW
        assert await verified(rig, id_) == "right"
        assert await rig.verified() == "right"

        # It gets nothing new, isn't compared or switched to by default, and goes with the retired ones.
        await pipeline.send(doc("later.md", "Sent after it was built."))
        assert await points(pipeline, id_) == oracle
        for path, body in (("switch", {}), ("switch", {"id": id_, "force": True}), ("rollback", {}), ("compare", {})):
            assert (await rig.post(f"/ops/generations/{path}", body, 409))["code"] == "GENERATION"
        assert (await rig.post("/ops/generations/cancel", {}, 409))["code"] == "GENERATION"
        again = await rig.post("/ops/generations/start", {"asOf": moment}, 409)
        assert "already shows that moment" in again["detail"]
        [status] = [each for each in (await rig.status())["items"] if each["state"] == "past"]
        assert (status["id"], status["asOf"]) == (id_, moment)

    async with running(data, log=log, chunk_size=400) as pipeline:  # a restart leaves all as it was
        rig = Rig(pipeline)
        await pipeline.send(doc("even_later.md", "Sent after the restart."))
        assert await points(pipeline, id_) == oracle
        assert "dropped" in (await rig.post("/ops/generations/gc", {}))["sentence"]
        assert await rig.states() == ["serving"]
        assert "no index as of" in (await found(rig, "heron", moment, 409))[0]


async def newest(pipeline: Pipeline) -> int:
    times: list[int] = [record.timestamp for record in await pipeline.records(EXTRACTED)]
    return max(times)


@pytest_asyncio.fixture(params=["sqlite", "kafka"])
async def rig(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    log = "sqlite:"
    if request.param == "kafka":
        address: str = request.getfixturevalue("kafka_address")
        await empty(address)
        log = f"kafka://{address}"
    async with running(tmp_path, log=log) as pipeline:
        yield Rig(pipeline)


@CI_ONLY
async def test_what_was_erased_since_is_in_no_past_index(rig: Rig) -> None:
    pipeline = rig.pipeline
    for path in ("before.md", "while.md", "after.md", "again.md", "deleted.md"):
        await pipeline.send(doc(path, f"{SECRET} It stands in {path}."))
    await pipeline.send(doc("kept.md", OLD))
    moment = iso(await newest(pipeline) + 1)
    await pipeline.send(doc("deleted.md", None))

    async def erase(path: str) -> None:
        erased = await rig.post("/ops/erase", {"documentIds": [document_id("default", "s", path)]})
        assert [each["outcome"] for each in erased["items"]] == ["erased"]

    await erase("before.md")
    await erase("again.md")
    await erase("deleted.md")
    await pipeline.send(doc("again.md", "It was created again, with other words."))
    just_now = iso(await newest(pipeline) + 1)
    assert (await rig.post("/ops/generations/start", {"asOf": just_now, "dryRun": True}))["embed"] == 0
    plan = await rig.post("/ops/generations/start", {"asOf": moment})
    assert plan["embed"] > 0
    await erase("while.md")
    await rig.until_state(plan["id"], "past")
    await erase("after.md")
    await rig.until_loaded(plan["id"])

    assert await found(rig, "smuggler hid the chest under the third plank", moment) == [OLD]
    async with opened(pipeline.settings, plan["id"]) as parts:
        page = await parts.store.scroll(parts.generation.chunks, limit=100)
        assert [point.payload["text"] for point in page.points] == [OLD]
        index = Index(parts.store, parts.generation)
        heads = await index.heads([document_id("default", "s", "again.md")])
        assert [head.deleted for head in heads.values()] == [True]
    topics = [SUBMITTED, EXTRACTED, *(chunks_topic(each["id"]) for each in (await rig.status())["items"])]
    # A cluster deletes by its own compaction and retention.
    for topic in topics if isinstance(pipeline.parts.log, SqliteLog) else ():
        assert [record for record in await pipeline.records(topic) if b"smuggler" in (record.value or b"")] == []
    assert await verified(rig, plan["id"]) == "right"


@CI_ONLY
async def test_an_offset_is_a_moment_too_and_wrong_ones_are_refused(rig: Rig) -> None:
    pipeline = rig.pipeline
    await pipeline.send(doc("bird.md", OLD))
    end = max((await pipeline.parts.log.end_offsets(EXTRACTED)).values())
    await pipeline.send(doc("bird.md", NEW))
    refused = (await found(rig, "heron", end, 409))[0]
    assert f"no index as of {end} was built: `sluice reindex start --as-of {end}` builds it, and costs about" in refused
    assert "texts to embed" in refused

    await built(rig, end)

    assert await found(rig, "heron", end) == [OLD]
    batch = await rig.post("/rag/search/batch", {"queries": [{"query": "heron", "asOf": end}, {"query": "otter"}]})
    assert [each["results"][0]["text"] for each in batch["replies"]] == [OLD, NEW]
    for wrong in ("yesterday", -1, "2026-13-01"):
        assert (await rig.post("/rag/search", {"query": "x", "asOf": wrong}, 400))["details"] == {"field": "asOf"}
        assert (await rig.post("/ops/generations/start", {"asOf": wrong}, 400))["details"] == {"field": "asOf"}
    later = await rig.post("/ops/generations/start", {"asOf": "2999-01-01T00:00:00Z"}, 409)
    assert "is in the future" in later["detail"]
    assert "has no offset 1000000 yet" in (await rig.post("/ops/generations/start", {"asOf": 1_000_000}, 409))["detail"]
    # It is no build that another one would have to wait for.
    await rig.post("/ops/generations/start", {})
    await rig.until_ready()
    await rig.post("/ops/generations/switch", {})
    assert await rig.states() == ["serving", "retired", "past"]
    await rig.post("/ops/generations/gc", {})
    assert await rig.states() == ["serving"]


@CI_ONLY
async def test_a_moment_that_compaction_has_passed_is_refused_and_the_earliest_one_is_named(tmp_path: Path) -> None:
    async with running(tmp_path, compaction_lag=0) as pipeline:
        rig = Rig(pipeline)
        await pipeline.send(doc("bird.md", OLD))
        moment = iso(await newest(pipeline) + 1)
        id_ = await built(rig, moment)
        assert await verified(rig, id_) == "right"
        await pipeline.send(doc("bird.md", NEW))
        assert isinstance(pipeline.parts.log, SqliteLog)
        await pipeline.parts.log.keep_up()

        assert await found(rig, "heron", moment) == [OLD]
        with pytest.raises(ConfigurationError, match="it can't be verified"):
            await verified(rig, id_)
        await rig.post("/ops/generations/gc", {})
        refused = (await rig.post("/ops/generations/start", {"asOf": moment}, 409))["detail"]
        assert f"{moment} is too far back" in refused
        earliest = refused.partition("The earliest moment is ")[2].partition(",")[0]
        assert f"and none can be built: {moment} is too far back" in (await found(rig, "heron", moment, 409))[0]

        await built(rig, earliest)

        assert await found(rig, "otter", earliest) == [NEW]


@pytest.mark.parametrize("keys", ["key-of-a:a:query,key-of-b:b:query+admin"])
@CI_ONLY
async def test_a_past_index_shows_a_tenant_its_own_documents_and_no_counts_of_others(tmp_path: Path, keys: str) -> None:
    async with running(tmp_path, api_keys=keys) as pipeline:
        rig = Rig(pipeline)
        await pipeline.send(doc("a.md", "A heron of a.", tenant="a"))
        await pipeline.send(doc("b.md", "A heron of b.", tenant="b"))
        async with a_client(rig.api, "a") as client:
            reply = await client.post("/rag/search", json={"query": "heron", "asOf": 0})
    assert reply.status_code == 409
    assert "`--dry-run` shows the cost" in reply.json()["detail"]
    assert "texts" not in reply.json()["detail"]
