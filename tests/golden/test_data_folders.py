"""Opens data folders of earlier releases: everything answers, nothing is embedded, and a rebuild gives the same points.

A start applies the migrations that are due, `sluice upgrade` applies them after a copy; both must survive a kill.
"""

import asyncio
import fcntl
import hashlib
import os
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from services.operator_cli.client import CommandError
from services.operator_cli.moving.backup import backup
from services.operator_cli.moving.restore import restore
from services.operator_cli.moving.upgrade import LOG_ELSEWHERE, MARK, Upgraded, UpgradeRequest, upgrade
from services.operator_cli.verify import command
from services.operator_cli.verify.command import VerifyOutcome, opened
from shared.embedder import Vector
from shared.ids import document_id
from shared.log.sqlite.file import Presence
from shared.log.sqlite.migrations import VERSION
from shared.runtime.data_lock import lock_data_folder
from shared.runtime.migrations import MIGRATIONS, NEWEST
from shared.settings import ConfigurationError, Settings
from shared.state.generations import FORMAT, REGISTRY_POINT
from shared.state.index import GENERATIONS
from shared.store import EVERYTHING, Payload
from shared.store.edge import EdgeStore
from tests.golden.folders import FOLDERS, OLDEST, GoldenFolder, unpacked
from tests.golden.make_folder import BODIES, BRIDGE, DELETED, FILES, MILL
from tests.integration.pipeline import Pipeline, Quiet, running
from tests.selection import STORY

PATIENCE_S = 60.0  # a hang guard
SAME = 0.9999  # cosine; vectors of different texts are below 0.9


EACH_FOLDER = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.commit)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return unpacked(OLDEST, tmp_path)


@asynccontextmanager
async def started(data: Path) -> AsyncIterator[Pipeline]:
    async with running(data, partitions=2) as pipeline:
        yield pipeline


async def verified(pipeline: Pipeline, *, repair: bool = False) -> VerifyOutcome:
    async with opened(pipeline.settings) as parts:
        return await command.verify(parts, Quiet(), repair=repair, dry_run=False, sample=None, patience_s=PATIENCE_S)


async def points(pipeline: Pipeline) -> dict[str, tuple[Payload, Vector]]:
    """Return every point by id: its payload without the hash of the vector, and the vector."""
    async with opened(pipeline.settings) as parts:
        page = await parts.store.scroll(parts.generation.chunks, limit=1000, vectors=True)
    return {point.id: (_unhashed(point.payload), point.dense) for point in page.points if point.dense is not None}


def _unhashed(payload: Payload) -> Payload:
    metadata = {name: value for name, value in payload["metadata"].items() if name != "vectorHash"}
    return {**payload, "metadata": metadata}


async def check_answers(data: Path, folder: GoldenFolder) -> None:
    """Check that the folder answers as its release left it, and that nothing is embedded for that."""
    async with started(data) as pipeline:
        sent = [(body["source"], body["path"]) for body in BODIES] + [("upload", file[0]) for file in FILES]
        name = {path: document_id("default", source, path) for source, path in sent}

        outcome = await verified(pipeline)
        assert (outcome.report.verdict, outcome.report.first) == ("right", {})
        assert BRIDGE in (await pipeline.texts(name["bridge.md"]))[0]
        assert await pipeline.texts(name["mill.txt"]) == [MILL]
        assert len(await pipeline.texts(name["both.md"])) == folder.chunks
        assert await pipeline.texts(name["large.html"]) == ["A page with a long comment."]
        assert await pipeline.texts(name[DELETED[1]]) == []
        [letter] = await pipeline.dead_letters()
        assert (letter.code, letter.document_id) == ("damaged", name["broken.pdf"])
        head = await pipeline.parts.index.head(name["large.html"])
        assert head is not None
        assert head.title == "large"
        assert len(await points(pipeline)) == folder.points
        assert pipeline.embedded() == 0


@pytest.mark.parametrize(
    "folder", [pytest.param(folder, id=folder.commit, marks=[STORY] * (folder is OLDEST)) for folder in FOLDERS]
)
async def test_a_folder_of_an_earlier_release_answers_and_embeds_nothing(folder: GoldenFolder, tmp_path: Path) -> None:
    await check_answers(unpacked(folder, tmp_path), folder)


async def test_a_rebuild_of_an_earlier_release_s_index_gives_the_same_points(data: Path) -> None:
    async with started(data) as pipeline:
        before = await points(pipeline)
    shutil.rmtree(data / "store")

    async with started(data) as pipeline:
        outcome = await verified(pipeline, repair=True)
        after = await points(pipeline)

    assert outcome.report.verdict == "right"
    assert len(before) == 6
    assert {point: payload for point, (payload, _) in after.items()} == {
        point: payload for point, (payload, _) in before.items()
    }
    # Another kind of CPU adds in another order, so the last bits of a vector differ.
    assert all(float(vector @ before[point][1]) > SAME for point, (_, vector) in after.items())


async def test_a_folder_of_an_earlier_release_is_backed_up_before_it_is_opened(data: Path, tmp_path: Path) -> None:
    await backup(Settings(data=data), tmp_path / "copy", Quiet(), dry_run=False, patience_s=PATIENCE_S)
    await restore(tmp_path / "copy", tmp_path / "new", Quiet(), dry_run=False)

    async with started(tmp_path / "new") as pipeline:
        outcome = await verified(pipeline)
        assert (outcome.report.verdict, outcome.report.first) == ("right", {})
        assert len(await pipeline.texts(document_id("default", "s", "both.md"))) == 2
        assert pipeline.embedded() == 0


def hashes(folder: Path) -> dict[str, str]:
    """Return a hash per file, of its size and its non-zero bytes: the store's files have 1 GB of zeros."""
    return {path.relative_to(folder).as_posix(): _hash(path) for path in folder.rglob("*") if path.is_file()}


def _hash(path: Path) -> str:
    size, at = path.stat().st_size, 0
    found = hashlib.sha256(b"%d" % size)
    with path.open("rb", buffering=0) as file:
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:  # only a hole is left
                break
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            for start in range(at, end, 4096):
                if (block := os.pread(file.fileno(), 4096, start)).strip(b"\0"):
                    found.update(b"%d" % start + block)
            at = end
    return found.hexdigest()


async def upgraded(data: Path, *, dry_run: bool = False, **how: object) -> Upgraded:
    return await upgrade(UpgradeRequest(Settings(data=data), Quiet(), **how), dry_run=dry_run)  # type: ignore[arg-type]


@EACH_FOLDER
async def test_an_upgrade_copies_the_folder_first_and_takes_what_is_due(folder: GoldenFolder, tmp_path: Path) -> None:
    data = unpacked(folder, tmp_path)
    before = hashes(data)

    plan = await upgraded(data, dry_run=True)
    assert hashes(data) == before
    assert [each.number for each in plan.migrations] == list(folder.due)
    assert (plan.format, plan.newest, plan.copy) == (folder.due[0] - 1, NEWEST, str(tmp_path / f"data.before-{NEWEST}"))

    done = await upgraded(data)

    assert (done.migrations, done.verdict, done.exit_code) == (plan.migrations, "right", 0)
    assert hashes(Path(done.copy)) == before
    assert done.copy_bytes < 10_000_000  # holes are left out
    again = await upgraded(data)
    assert (again.format, again.migrations, again.copy, again.verdict) == (NEWEST, (), "", "")
    await check_answers(data, folder)


@STORY
def test_each_migration_has_a_folder_that_needs_it_and_one_that_has_it_or_is_counted_by_the_file() -> None:
    for each in MIGRATIONS:
        assert any(each.number in folder.due for folder in FOLDERS)
        assert each.number <= VERSION or any(each.number not in folder.due for folder in FOLDERS)


async def test_an_upgrade_copies_nothing_while_a_killed_stores_process_is_still_writing(data: Path) -> None:
    before = hashes(data)
    with (data / "store/lock").open("a") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)

        with pytest.raises(CommandError, match=r"is in use by process .*: stop it first"):
            await upgraded(data, patience_s=0.05)

    assert hashes(data) == before
    assert not (data.parent / f"data.before-{NEWEST}").exists()


STEPS = ("mark", "copy", "settle", *(str(each.number) for each in MIGRATIONS), "verify", "unmark")


_children = get_context("forkserver")
_children.set_forkserver_preload([__name__])  # so that not every child imports everything


async def killed_at(data: Path, at: str) -> None:
    """Upgrade in a process that is killed when it comes to the step."""
    child = _children.Process(target=die_at, args=(data, at))
    child.start()
    await asyncio.to_thread(child.join)
    assert child.exitcode == -signal.SIGKILL, at


def die_at(data: Path, at: str) -> None:
    """UpgradeRequest, and kill this process when it comes to a step."""

    def step(name: str) -> None:
        if name == at:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(upgraded(data, step=step))


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_an_upgrade_that_is_killed_at_each_step_goes_on(data: Path) -> None:
    before = hashes(data)
    for at in STEPS:
        await killed_at(data, at)

    done = await upgraded(data)

    assert (done.verdict, done.migrations) == ("right", ())
    assert hashes(Path(done.copy)) == before
    assert sorted(path.name for path in data.parent.iterdir()) == ["data", f"data.before-{NEWEST}"]
    assert not (data / MARK).exists()
    await check_answers(data, OLDEST)


async def test_a_start_after_a_killed_upgrade_takes_what_is_left(data: Path) -> None:
    await killed_at(data, "6")

    await check_answers(data, OLDEST)

    done = await upgraded(data)  # compares, and forgets that it was begun
    assert (done.verdict, done.migrations) == ("right", ())
    assert (await upgraded(data)).verdict == ""


async def test_a_folder_of_a_newer_release_is_refused_with_both_numbers(data: Path) -> None:
    await upgraded(data, copies=False)
    store = EdgeStore(data / "store")
    await store.start()
    await store.set_payload(GENERATIONS, {"format": FORMAT + 1}, EVERYTHING)
    assert [point.id for point in (await store.scroll(GENERATIONS)).points if point.id == REGISTRY_POINT]
    await store.close()
    with pytest.raises(
        ConfigurationError, match=f"registry has format {FORMAT + 1}, but this release reads only up to {FORMAT}"
    ):
        await upgraded(data, dry_run=True)
    with closing(sqlite3.connect(data / "log.sqlite")) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    shutil.rmtree(data / "store")
    with pytest.raises(ConfigurationError, match=f"version {NEWEST + 1} of the file, this one knows up to {VERSION}"):
        await upgraded(data)


async def test_what_stands_in_the_way_of_an_upgrade_is_said_and_nothing_is_changed(data: Path) -> None:
    before = hashes(data)
    presence = Presence(data / "log.sqlite")
    with pytest.raises(CommandError, match=r"log\.sqlite is in use by 1 other processes"):
        await upgraded(data)
    presence.close()
    (data / "log.sqlite.members").rmdir()
    with pytest.raises(ConfigurationError, match="is inside SLUICE_DATA"):
        await upgraded(data, target=data / "copy")
    taken = data.with_name(f"data.before-{NEWEST}")
    taken.mkdir()
    with pytest.raises(CommandError, match="exists: choose another folder with --backup"):
        await upgraded(data)
    (data / "store/collections/extra").symlink_to("nowhere")  # can't be copied
    with pytest.raises(CommandError, match="can't be copied: "):
        await upgraded(data, target=data.with_name("other"))
    (data / "store/collections/extra").unlink()
    assert hashes(data) == before
    assert list(taken.iterdir()) == []

    with lock_data_folder(data), pytest.raises(ConfigurationError, match="in use by another Sluice"):
        await upgraded(data)


async def test_a_log_outside_of_the_folder_is_copied_too(data: Path, tmp_path: Path) -> None:
    log = tmp_path / "elsewhere.sqlite"
    (data / "log.sqlite").rename(log)
    was = log.read_bytes()
    settings = Settings(data=data, log=f"sqlite:{log}")

    done = await upgrade(UpgradeRequest(settings, Quiet(), tmp_path / "copy"), dry_run=False)

    assert done.verdict == "right"
    assert (tmp_path / "copy" / LOG_ELSEWHERE / log.name).read_bytes() == was
    assert log.read_bytes() != was
