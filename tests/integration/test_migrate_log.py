"""The log moves to another one and back: the same index, nothing embedded, and an old record never wins."""

import asyncio
import itertools
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from pydantic import SecretStr

from services.operator_cli.errors import CommandError
from services.operator_cli.installation import replay_on
from services.operator_cli.moving.migrate import migrate, migrate_lines
from services.operator_cli.moving.move_log import MovedLog
from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from services.query_api.app import make_api
from services.query_api.documents.document_routes import DocumentViews
from services.query_api.documents.original import kept
from services.query_api.http.opaque_tokens import Signer
from shared.contracts import DocumentSubmitted, encode, erasure
from shared.errors import Rejected
from shared.ids import document_id
from shared.log.headers import PARTITIONS_PER_LOG
from shared.replay import ReplayOrder
from shared.settings import ConfigurationError, Settings
from shared.topics import AUDIT, EXTRACTED, FEEDBACK, SUBMITTED, chunks_topic, readers
from tests.e2e.faults import rounds
from tests.e2e.text import paragraphs
from tests.folder_copy import copied_folder
from tests.integration.pipeline import Pipeline, Quiet, running
from tests.selection import CI_ONLY, LONG
from tests.servers import loopback
from tests.servers.kafka import KafkaServer
from tests.servers.website import Answer, Website, a_page

COUNT = 6
EDITED, DELETED, ERASED, FAILED = (document_id("default", "s", f"{number}.md") for number in range(4))


class Crash(Exception):  # noqa: N818 - names what happens
    """The process ends here."""


def text_of(number: int) -> str:
    return "\n\n".join(paragraphs(number, 3))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose documents were created, edited, deleted, erased, and failed; nothing runs on it."""
    folder = tmp_path_factory.mktemp("filled") / "data"

    async def fill() -> None:
        async with running(folder, partitions=3) as pipeline:
            for number in range(COUNT):
                await pipeline.send(DocumentSubmitted(source="s", path=f"{number}.md", text=text_of(number)))
            await pipeline.send(DocumentSubmitted(source="s", path="0.md", text=text_of(100)))
            await pipeline.send(DocumentSubmitted(source="s", path="1.md", deleted=True))
            await pipeline.send(encode(erasure("default", ERASED)), of=DocumentSubmitted(source="s", path="2.md"))
            broken = DocumentSubmitted(
                source="s", path="3.md", content=b"%PDF-1.7 no pdf", media_type="application/pdf"
            )
            assert (await pipeline.send(broken)).last.status == "failed"

    asyncio.run(fill())
    return folder


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    return copied_folder(filled, tmp_path / "data")


class Steps(Quiet):
    """Calls a function with the name of each step that begins."""

    def __init__(self, step: Callable[[str], object]) -> None:
        self._step = step

    def begin(self, what: str, total: int) -> None:
        self._step(what)


async def moved(
    settings: Settings, to: str, *, step: Callable[[str], object] = lambda _: None, dry_run: bool = False
) -> MovedLog:
    done = await migrate(settings, to, Steps(step), dry_run=dry_run)
    assert isinstance(done, MovedLog)
    return done


@CI_ONLY
@pytest.mark.parametrize(
    "to", ["kafka://kafka?security_protocol=SSL", "kafka://me:own@kafka?security_protocol=SASL_SSL"]
)
async def test_the_password_of_the_source_is_not_that_of_a_target_that_wants_none(data: Path, to: str) -> None:
    settings = Settings(data=data, log_password=SecretStr("of the source"))

    with pytest.raises(ConfigurationError, match=r"gone\.pem can't be used for TLS"):  # the address was accepted
        await moved(settings, f"{to}&ssl_cafile=gone.pem")


async def verified(pipeline: Pipeline) -> None:
    async with opened(pipeline.settings) as parts:
        outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=30)
    assert (outcome.report.verdict, outcome.report.first) == ("right", {})


async def until_read(pipeline: Pipeline) -> None:
    for topic, group in readers(pipeline.parts.index.generation.id).items():
        while True:
            ends = await pipeline.parts.log.end_offsets(topic)
            if await pipeline.parts.log.committed(group, topic) == ends:
                break
            await asyncio.sleep(0.05)  # committed by other tasks


async def points_of(pipeline: Pipeline) -> list[int]:
    return [await pipeline.points(document_id("default", "s", f"{number}.md")) for number in range(COUNT)]


async def told(settings: Settings, number: int) -> None:
    """Use an index whose log was moved: everything that was there answers, and everything that comes is newer."""
    async with running(settings.data, log=settings.log, partitions=settings.partitions) as pipeline:
        log, library = (
            pipeline.parts.log,
            DocumentViews(pipeline.parts.ledger, pipeline.parts.index, pipeline.parts.blobs, Signer(b"")),
        )
        await verified(pipeline)
        before = {id_: await pipeline.texts(id_) for id_ in (EDITED, DELETED, ERASED, FAILED)}
        points, letters = await points_of(pipeline), await pipeline.dead_letters()
        for topic in (SUBMITTED, EXTRACTED, chunks_topic(pipeline.parts.index.generation.id)):
            await replay_on(log, ReplayOrder(topic=topic), dry_run=False)
            await until_read(pipeline)
        assert before == {id_: await pipeline.texts(id_) for id_ in before}
        assert (len(before[EDITED]), before[DELETED], before[ERASED]) == (3, [], [])
        assert points == await points_of(pipeline)
        assert letters == await pipeline.dead_letters()
        assert pipeline.embedded() == 0
        _, body = await kept(pipeline.parts, await library.entry("default", EDITED))
        assert body.decode() == text_of(99 + number)

        entry = await pipeline.send(DocumentSubmitted(source="s", path="0.md", text=text_of(100 + number)))
        assert entry.last.status == "updated"
        assert entry.accepted.place.partition >= number * PARTITIONS_PER_LOG
        again = await pipeline.send(DocumentSubmitted(source="s", path="1.md", text=text_of(1)))
        assert again.last.status == "created"
        await pipeline.send(DocumentSubmitted(source="s", path="1.md", deleted=True))
        await replay_on(log, ReplayOrder(topic=SUBMITTED), dry_run=False)
        await until_read(pipeline)
        assert paragraphs(100 + number, 3)[0] in (await pipeline.texts(EDITED))[0]
        assert await pipeline.texts(DELETED) == []
        await verified(pipeline)


async def there_and_back(data: Path, elsewhere: str, back: str) -> None:
    here, there = Settings(data=data, partitions=3), Settings(data=data, log=elsewhere, partitions=5)
    plan = await moved(here, elsewhere, dry_run=True)
    done = await moved(here, elsewhere)
    assert {**plan.topics, AUDIT: 0} == {**done.topics, AUDIT: 0}
    assert done.topics[SUBMITTED] == COUNT + 4 - 1  # what was erased isn't copied
    with pytest.raises(ConfigurationError, match="belongs to the log"):
        async with running(data):
            pass
    await told(there, 1)
    again = await moved(here, elsewhere)
    assert (again.written, again.log_id) == (0, done.log_id)

    await moved(there, back)
    await told(Settings(data=data, log=back, partitions=2), 2)


@CI_ONLY
async def test_a_log_moves_there_and_back_and_no_old_record_wins(data: Path, tmp_path: Path) -> None:
    await there_and_back(data, f"sqlite:{tmp_path}/other.sqlite", f"sqlite:{tmp_path}/third.sqlite")


@CI_ONLY
async def test_a_log_moves_to_kafka_and_back_and_no_old_record_wins(
    data: Path, tmp_path: Path, kafka: KafkaServer
) -> None:
    await there_and_back(data, f"kafka://{kafka.address}", f"sqlite:{tmp_path}/third.sqlite")


class Callee(Website):
    """A receiver of callbacks, and a website."""

    async def got(self, path: str, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.bodies(path)) < count:
                await self.arrived.get()


@asynccontextmanager
async def api(pipeline: Pipeline) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(cast("Any", make_api(pipeline.parts)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=120) as client:
        yield client


async def ingested(client: httpx.AsyncClient, bodies: list[dict[str, Any]]) -> None:
    for at in range(0, len(bodies), 100):
        reply = await client.post("/rag/ingest/batch", json=bodies[at : at + 100], headers={"Prefer": "wait=60"})
        assert {each["status"] for each in reply.json()["items"]} <= {"created", "updated", "accepted"}, reply.text


async def what_callers_hold_goes_on(data: Path, elsewhere: str, back: str) -> None:
    """Load, and move there and back; each time ask with what was got from the log before."""
    documents = rounds(ci=40, here=20)
    settings = {"callback_allow": "127.0.0.1", "fetch_allow": "127.0.0.1", "partitions": 3, "fetch_delay": 0.0}
    logs = ("sqlite:", elsewhere, back)
    async with loopback.running(Callee()) as callee:
        callee.pages["/hook"], callee.pages["/page"] = Answer(status=503), Answer(b"", 404)
        async with running(data, **settings) as pipeline, api(pipeline) as client:
            bodies = [{"source": "b", "path": f"{each}.md", "text": text_of(each)} for each in range(documents)]
            await ingested(client, bodies)
            await until_read(pipeline)
        for number, (log, other) in enumerate(itertools.pairwise(logs), 1):
            hooks = len(callee.bodies("/hook"))
            callee.pages["/hook"], callee.pages[f"/page{number}"] = Answer(status=503), Answer(b"", 404)
            async with running(data, log=log, **settings) as pipeline, api(pipeline) as client:
                hooked = {
                    "source": "b",
                    "path": f"hook{number}",
                    "text": "Herons.",
                    "callbackUrl": f"{callee.url}/hook",
                }
                slow = await client.post("/rag/ingest", json=hooked, headers={"Prefer": "respond-async"})
                location = slow.headers["location"]
                page = await client.post(
                    "/rag/ingest/url", json={"url": f"{callee.url}/page{number}"}, headers={"Prefer": "wait=60"}
                )
                assert page.status_code == 422, page.text
                cursor = (await client.get("/rag/changes")).json()["cursor"]
                [letter] = (await client.get("/ops/dead-letters")).json()["items"]
                await callee.got("/hook", hooks + 1)
                await until_read(pipeline)
            here = Settings(data=data, log=log, partitions=3)
            done = await moved(here, other)
            assert done.topics[EXTRACTED] >= documents

            callee.pages["/hook"] = Answer(b"{}")
            callee.pages[f"/page{number}"] = a_page(f"Page {number}")
            async with running(data, log=other, **settings) as pipeline, api(pipeline) as client:
                await verified(pipeline)
                assert pipeline.embedded() == 0
                assert (await client.get(location)).json()["status"] == "created"
                assert (await client.get("/rag/changes", params={"cursor": cursor})).status_code == 410
                new = (await client.get("/rag/changes")).json()["cursor"]
                await callee.got("/hook", hooks + 2)
                ids = {"ids": [letter["id"]]}
                settled = (await client.post("/ops/dead-letters/redrive", json=ids)).json()["items"]
                assert [each["outcome"] for each in settled] == ["redriven"]
                seen = (await client.get("/rag/changes", params={"cursor": new, "wait": "50"})).json()
                assert [each["documentId"] for each in seen["items"]] == [letter["documentId"]]
                assert (await client.get("/ops/dead-letters")).json()["items"] == []
                edited = [{**each, "text": f"{each['text']} Moved {number}."} for each in bodies[:5]]
                await ingested(client, edited)
                gone = (await client.get("/rag/documents", params={"limit": "1"})).json()["items"][0]["documentId"]
                assert (await client.delete(f"/rag/documents/{gone}", headers={"Prefer": "wait=60"})).status_code == 200
                await until_read(pipeline)
                await verified(pipeline)


@CI_ONLY
async def test_what_callers_got_from_the_old_log_goes_on(tmp_path: Path) -> None:
    await what_callers_hold_goes_on(
        tmp_path / "data", f"sqlite:{tmp_path}/other.sqlite", f"sqlite:{tmp_path}/third.sqlite"
    )


@CI_ONLY
@pytest.mark.timeout(900)
async def test_what_callers_got_goes_on_on_kafka_and_back(tmp_path: Path, kafka: KafkaServer) -> None:
    await what_callers_hold_goes_on(tmp_path / "data", f"kafka://{kafka.address}", f"sqlite:{tmp_path}/third.sqlite")


STEPS = (
    "topics",
    *(
        f"{what} {topic}"
        for what in ("copy", "compare")
        for topic in ("documents.extracted", "dead.letters", SUBMITTED, AUDIT, FEEDBACK)
    ),
    "offsets",
    "pairing",
    "switch",
    "originals",
)


def crash_at(at: str) -> Callable[[str], None]:
    def step(name: str) -> None:
        if name == at:
            raise Crash

    return step


def die_at(data: Path, to: str, at: str) -> None:
    """Move the log, and kill this process when it comes to a step."""

    def step(name: str) -> None:
        if name == at:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(moved(Settings(data=data, partitions=3), to, step=step))


@CI_ONLY
async def test_the_steps_are_all_that_there_are(data: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    await moved(Settings(data=data), f"sqlite:{tmp_path}/other.sqlite", step=seen.append)
    assert tuple(seen) == STEPS


# Each step takes ten seconds: all of them in a long run.
@CI_ONLY
@pytest.mark.parametrize("at", STEPS if LONG else STEPS[::3])
async def test_an_interrupted_move_goes_on_and_exactly_one_log_is_in_use(data: Path, tmp_path: Path, at: str) -> None:
    here, to = Settings(data=data, partitions=3), f"sqlite:{tmp_path}/other.sqlite"
    child = get_context("spawn").Process(target=die_at, args=(data, to, at))
    child.start()
    await asyncio.to_thread(child.join)
    assert child.exitcode == -signal.SIGKILL

    started = []
    for log in ("sqlite:", to):
        try:
            async with running(data, log=log, partitions=3) as pipeline:
                await verified(pipeline)
                started.append(log)
        except ConfigurationError:
            continue
    assert started == [to if at == "originals" else "sqlite:"]
    await moved(here, to)
    async with running(data, log=to, partitions=3) as pipeline:
        await pipeline.send(DocumentSubmitted(source="s", path="0.md", text=text_of(101)))
        await replay_on(pipeline.parts.log, ReplayOrder(topic=SUBMITTED), dry_run=False)
        await until_read(pipeline)
        assert paragraphs(101, 3)[0] in (await pipeline.texts(EDITED))[0]
        await verified(pipeline)


@CI_ONLY
async def test_what_can_t_be_moved_is_said(data: Path, tmp_path: Path) -> None:
    here, to = Settings(data=data, partitions=3), f"sqlite:{tmp_path}/other.sqlite"
    with pytest.raises(ConfigurationError, match="is the log of SLUICE_LOG"):
        await moved(here, "sqlite:")
    async with running(data, partitions=3):
        with pytest.raises(CommandError, match="members: stop everything"):
            await moved(here, to, dry_run=True)
    with pytest.raises(Crash):
        await moved(here, to, step=crash_at("compare dead.letters"))
    async with running(data, partitions=3) as pipeline:
        await pipeline.send(DocumentSubmitted(source="s", path="9.md", text=text_of(9)))
    with pytest.raises(Rejected, match="was written to since the move began"):
        await moved(here, to)
    async with running(tmp_path / "others", partitions=1) as pipeline:
        await pipeline.send(DocumentSubmitted(source="s", path="9.md", text=text_of(9)))
    with pytest.raises(Rejected, match="has records already"):
        await moved(here, f"sqlite:{tmp_path}/others/log.sqlite")


@CI_ONLY
async def test_a_copy_that_differs_is_refused(data: Path, tmp_path: Path) -> None:
    here, other = Settings(data=data, partitions=3), tmp_path / "other.sqlite"
    with pytest.raises(Crash):
        await moved(here, f"sqlite:{other}", step=crash_at("compare documents.submitted"))
    with closing(sqlite3.connect(other)) as file, file:
        text = "CAST(value AS TEXT)"
        file.execute(
            f"UPDATE record SET value = CAST(replace({text}, '0.md', '8.md') AS BLOB) WHERE {text} GLOB '*0.md*'"
        )
        assert file.execute("SELECT changes()").fetchone()[0] > 0

    with pytest.raises(Rejected, match=r"documents\..* records on the target, and should have .*, or they differ"):
        await moved(here, f"sqlite:{other}")


def test_it_says_what_was_copied_and_what_is_next() -> None:
    lines = partial(MovedLog, to="kafka://b", topics={SUBMITTED: 5}, written=5)
    assert list(migrate_lines(lines(dry_run=True)))[-1] == "Would copy 5 records to kafka://b, and embed nothing"
    assert "Start Sluice with SLUICE_LOG=kafka://b" in list(migrate_lines(lines(dry_run=False)))[2]
