"""The index moves to another store and back: the same points, nothing embedded, and the old store is refused."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from services.operator_cli.errors import CommandError
from services.operator_cli.moving.collections import MARK, Moved, move_store, ours, same
from services.operator_cli.moving.migrate import migrate, migrate_lines
from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from shared.contracts import DocumentSubmitted
from shared.errors import Rejected
from shared.ids import document_id
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.settings import ConfigurationError, Settings
from shared.state.generations import registry_of
from shared.store import Point, Sparse, Store
from shared.store.edge import EdgeStore
from tests.e2e.text import paragraphs
from tests.fakes.store import MemoryStore
from tests.folder_copy import copied_folder
from tests.integration.pipeline import Quiet, running
from tests.selection import CI_ONLY
from tests.servers.qdrant import QdrantServer

A = document_id("default", "s", "0.md")
COUNT = 4


class Crash(Exception):  # noqa: N818 - names what happens
    """The process ends here."""


class CrashingWatch(Quiet):
    """Ends the run at the beginning of a step."""

    def __init__(self, at: str) -> None:
        self._at = at

    def begin(self, what: str, total: int) -> None:
        if what.startswith(self._at):
            raise Crash


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with documents, of which one is deleted; nothing runs on it."""
    folder = tmp_path_factory.mktemp("filled") / "data"

    async def fill() -> None:
        async with running(folder, partitions=2) as pipeline:
            for number in range(COUNT):
                text = "\n\n".join(paragraphs(number, 3))
                await pipeline.send(DocumentSubmitted(source="s", path=f"{number}.md", text=text))
            await pipeline.send(DocumentSubmitted(source="s", path="1.md", deleted=True))

    asyncio.run(fill())
    return folder


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    return copied_folder(filled, tmp_path / "data")


@asynccontextmanager
async def edge(folder: Path) -> AsyncIterator[EdgeStore]:
    store = EdgeStore(folder)
    await store.start()
    yield store
    await store.close()


async def moved(data: Path, source: Store, target: Store, watch: Quiet, *, dry_run: bool = False) -> Moved:
    log = SqliteLog(data / "log.sqlite")
    await log.start()
    broker = log.broker("test")
    await broker.start()
    try:
        return await move_store(source, target, log, partial(publish, broker), watch, address="edge:", dry_run=dry_run)
    finally:
        await broker.stop()
        await log.stop()


async def checked(settings: Settings) -> None:
    """Start on the store, and compare it with its log: nothing differs, and nothing is embedded."""
    async with running(settings.data, store=settings.store, qdrant_prefix=settings.qdrant_prefix) as pipeline:
        async with opened(pipeline.settings) as parts:
            outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=30)
        assert (outcome.report.verdict, outcome.report.first) == ("right", {})
        assert paragraphs(0, 3)[0] in (await pipeline.texts(A))[0]
        assert pipeline.embedded() == 0


@CI_ONLY
async def test_an_index_moves_there_and_back_and_the_old_store_is_refused(data: Path) -> None:
    elsewhere = MemoryStore()
    async with edge(data / "store") as source:
        plan = await moved(data, source, elsewhere, Quiet(), dry_run=True)
        assert await elsewhere.collections() == []
        done = await moved(data, source, elsewhere, Quiet())
    assert done.collections == plan.collections
    assert done.written == sum(done.collections.values()) - 1  # all but the pairing, which is made anew
    with pytest.raises(ConfigurationError, match="older backup"):
        async with running(data):
            pass

    shutil.rmtree(data / "store")
    async with edge(data / "store") as target:
        back = await moved(data, elsewhere, target, Quiet())
    assert back.collections == done.collections
    assert len({done.store_id, back.store_id}) == 2
    await checked(Settings(data=data))


@CI_ONLY
@pytest.mark.parametrize("at", ["copy chunks.", "copy ledger", "compare heads."])
async def test_an_interrupted_move_goes_on_and_copies_only_what_is_missing(data: Path, at: str) -> None:
    target = MemoryStore()
    async with edge(data / "store") as source:
        whole = sum((await moved(data, source, target, Quiet(), dry_run=True)).collections.values()) - 1
        with pytest.raises(Crash):
            await moved(data, source, target, CrashingWatch(at))
        assert MARK in await target.collections()
        done = await moved(data, source, target, Quiet())
        again = await moved(data, source, target, Quiet())

    assert done.written < whole
    assert MARK not in await target.collections()
    assert (again.written, again.store_id) == (0, done.store_id)


@CI_ONLY
async def test_until_it_is_finished_the_old_store_is_the_log_s_and_what_it_lost_meanwhile_goes(data: Path) -> None:
    target = MemoryStore()
    async with edge(data / "store") as source:
        with pytest.raises(Crash):
            await moved(data, source, target, CrashingWatch("compare"))
    async with running(data) as pipeline:
        await pipeline.send(DocumentSubmitted(source="s", path="2.md", deleted=True))
    async with edge(data / "store") as source:
        done = await moved(data, source, target, Quiet())
        registry = await registry_of(target)
        assert registry is not None
        chunks = registry.current.generation.chunks
        assert await target.count(chunks) == await source.count(chunks) == done.collections[chunks]


@CI_ONLY
async def test_a_store_that_has_documents_is_left_alone(data: Path, tmp_path: Path) -> None:
    other = MemoryStore()
    await other.create_collection("heads.of.somebody", size=None, sparse=False, indexes={})
    async with edge(data / "store") as source:
        with pytest.raises(Rejected, match=r"has a collection heads.* already"):
            await moved(data, source, other, Quiet())
        registry = await registry_of(source)
    assert ours(["somebody.elses", "ledger", "heads.gone", MARK], registry) == ["ledger"]
    async with edge(tmp_path / "empty") as empty:
        with pytest.raises(Rejected, match="isn't the one that the log belongs to"):
            await moved(data, empty, MemoryStore(), Quiet())


@CI_ONLY
async def test_what_can_t_be_moved_is_said_before_anything_is_opened(data: Path) -> None:
    settings = Settings(data=data)
    for to, why in (("sqlite:", "is the log of SLUICE_LOG"), ("edge:", "is the store of SLUICE_STORE")):
        with pytest.raises(ConfigurationError, match=why):
            await migrate(settings, to, Quiet(), dry_run=True)
    async with running(data):
        with pytest.raises(CommandError, match="members: stop everything"):
            await migrate(settings, "qdrant+http://127.0.0.1:1", Quiet(), dry_run=True)


def test_points_are_compared_to_the_last_bit() -> None:
    vector = np.array([0.6, 0.8], dtype=np.float32)
    point = Point(id=A, payload={"version": 1}, dense=vector, sparse=Sparse([1, 2], [0.5, 0.25]))

    assert same(point, replace(point, sparse=Sparse([2, 1], [0.25, 0.5])))
    assert not same(point, replace(point, dense=np.nextafter(vector, np.float32(1))))
    assert not same(point, replace(point, payload={"version": 2}))
    assert not same(point, replace(point, sparse=Sparse([1, 2], [0.5, 0.5])))


def test_it_says_what_was_copied_and_what_is_next() -> None:
    lines = list(migrate_lines(Moved(to="edge:", dry_run=False, collections={"ledger": 5}, written=5, store_id="x")))
    assert lines[1].startswith("5 points are at edge:")
    plan = list(migrate_lines(Moved(to="edge:", dry_run=True, collections={"ledger": 5}, written=0)))
    assert plan[-1] == "Would copy 5 points to edge:, and embed nothing"


@pytest.mark.server
async def test_an_index_moves_to_a_qdrant_server(data: Path, qdrant_server: QdrantServer) -> None:
    prefix = f"move-{data.parent.name[-12:]}."
    settings = Settings(data=data, qdrant_prefix=prefix, qdrant_api_key=SecretStr(qdrant_server.api_key or ""))
    to = f"qdrant+{qdrant_server.address.url}"

    done = await migrate(settings, to, Quiet(), dry_run=False)

    assert done.written > COUNT
    await checked(settings.model_copy(update={"store": to}))
