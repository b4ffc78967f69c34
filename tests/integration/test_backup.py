"""A backup of a folder and what is restored from it are the same, and nothing else is taken for one."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.operator_cli.errors import CommandError
from services.operator_cli.moving import manifest
from services.operator_cli.moving.backup import PARTIAL, BackedUp, backup, backup_lines
from services.operator_cli.moving.restore import STAGING, Restored, restore, restore_lines
from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from shared.contracts import DocumentSubmitted
from shared.ids import document_id
from shared.settings import ConfigurationError, Settings
from tests.e2e.text import paragraphs
from tests.folder_copy import copied_folder
from tests.integration.pipeline import Pipeline, Quiet, running
from tests.selection import CI_ONLY

A, GONE = (document_id("default", "s", name) for name in ("a.md", "gone.md"))
WORDS = ["\n\n".join(paragraphs(number, 4)) for number in range(3)]


@pytest.fixture
async def pipeline(tmp_path: Path) -> AsyncIterator[Pipeline]:
    async with running(tmp_path / "data", partitions=2) as pipeline:
        for text in WORDS[:2]:
            await pipeline.send(DocumentSubmitted(tenant="default", source="s", path="a.md", text=text))
        await pipeline.send(DocumentSubmitted(tenant="default", source="s", path="gone.md", text=WORDS[2]))
        await pipeline.send(DocumentSubmitted(tenant="default", source="s", path="gone.md", deleted=True))
        yield pipeline


async def copied(pipeline: Pipeline, target: Path) -> BackedUp:
    return await backup(pipeline.settings, target, Quiet(), patience_s=30)


async def restored(source: Path, data: Path) -> Restored:
    return await restore(source, data, Quiet())


@CI_ONLY
async def test_a_restored_folder_answers_the_same_and_embeds_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    keys = b'{"keys": []}\n'
    (tmp_path / "data" / "keys.json").write_bytes(keys)
    texts = await pipeline.texts(A)

    made = await copied(pipeline, tmp_path / "copy")
    await pipeline.send(DocumentSubmitted(tenant="default", source="s", path="a.md", text="later"))
    done = await restored(tmp_path / "copy", tmp_path / "new")

    assert set(os.listdir(tmp_path)) == {"data", "copy", "new"}  # noqa: PTH208 - three names
    assert (made.documents, done.documents, done.blobs) == (2, 2, made.blobs)
    assert (tmp_path / "new" / "keys.json").read_bytes() == keys
    async with running(tmp_path / "new") as again:
        async with opened(again.settings) as parts:
            outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=None, patience_s=30)
        assert (outcome.report.verdict, outcome.report.first) == ("right", {})
        assert await again.texts(A) == texts
        assert await again.texts(GONE) == []
        assert again.embedded() == 0


@CI_ONLY
async def test_a_dry_restore_checks_the_backup_and_writes_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    made = await copied(pipeline, tmp_path / "copy")

    done = await restore(tmp_path / "copy", tmp_path / "new", Quiet(), dry_run=True)

    assert (done.points, list(restore_lines(done))[-1]) == (made.points, f"Would restore it into {tmp_path / 'new'}")
    assert not (tmp_path / "new").exists()


@CI_ONLY
async def test_a_damaged_backup_is_not_restored(pipeline: Pipeline, tmp_path: Path) -> None:
    await copied(pipeline, tmp_path / "copy")
    name = f"{manifest.STORE}/{pipeline.parts.index.generation.chunks}"
    damaged = tmp_path / "copy" / name
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)

    with pytest.raises(ConfigurationError, match=f"{name} is damaged"):
        await restored(tmp_path / "copy", tmp_path / "new")
    damaged.unlink()
    with pytest.raises(ConfigurationError, match=f"{name} can't be read"):
        await restored(tmp_path / "copy", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@CI_ONLY
async def test_nothing_is_written_over_what_is_there(pipeline: Pipeline, tmp_path: Path) -> None:
    await copied(pipeline, tmp_path / "copy")

    with pytest.raises(CommandError, match="copy exists"):
        await copied(pipeline, tmp_path / "copy")
    with pytest.raises(CommandError, match="isn't empty"):
        await restored(tmp_path / "copy", tmp_path / "data")
    (tmp_path / "mine.partial" / "mine").mkdir(parents=True)
    with pytest.raises(CommandError, match="isn't an interrupted backup"):
        await copied(pipeline, tmp_path / "mine")


@CI_ONLY
async def test_a_log_of_a_backup_beside_a_newer_store_is_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    await copied(pipeline, tmp_path / "copy")
    await pipeline.send(DocumentSubmitted(tenant="default", source="s", path="new.md", text=WORDS[0]))
    copied_folder(tmp_path / "copy", tmp_path / "kept")
    await restored(tmp_path / "copy", tmp_path / "new")
    newer = await copied(pipeline, tmp_path / "newer")
    assert newer.documents == 3
    await restored(tmp_path / "newer", tmp_path / "mixed")
    (tmp_path / "new" / "log.sqlite").replace(tmp_path / "mixed" / "log.sqlite")

    with pytest.raises(ConfigurationError, match="older backup"):
        async with running(tmp_path / "mixed"):
            pass


class Killed(BaseException):
    """The process ends here."""


@CI_ONLY
@pytest.mark.parametrize("at", ["mkdir", "sync", "unlink", "rename"])
async def test_a_backup_that_was_killed_is_made_anew_or_is_whole(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    owner: Any = {"sync": os}.get(at, Path)
    real = getattr(owner, at)

    def killed(*given: Any, **how: Any) -> Any:
        done = real(*given, **how)
        if at == "sync" or PARTIAL in str(given[0]):
            raise Killed
        return done

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)  # nothing cleans up after a kill
        patched.setattr(owner, at, killed)
        with pytest.raises(Killed):
            await copied(pipeline, tmp_path / "copy")
    if not (tmp_path / "copy").exists():
        await copied(pipeline, tmp_path / "copy")

    assert (await restored(tmp_path / "copy", tmp_path / "new")).documents == 2


async def test_a_restore_that_was_killed_is_made_anew(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in (STAGING, manifest.STORE, manifest.BLOBS):
        (data / name).mkdir(parents=True)
    (data / manifest.KEYS).touch()
    with pytest.raises(ConfigurationError, match=r"it has no manifest\.json"):
        await restored(tmp_path, data)
    assert not [path.name for path in data.iterdir() if path.name in (manifest.STORE, manifest.BLOBS, manifest.KEYS)]

    (data / STAGING).mkdir()
    (data / manifest.LOG).touch()
    with pytest.raises(CommandError, match="isn't empty"):
        await restored(tmp_path, data)


async def test_what_is_no_backup_is_refused_before_it_does_harm(tmp_path: Path) -> None:
    """A pipe has no end, and a backup may be far larger than the disk."""
    pipe, folder, huge = tmp_path / "pipe", tmp_path / "folder", tmp_path / "huge"
    os.mkfifo(pipe)
    folder.mkdir()
    os.mkfifo(folder / manifest.NAME)
    huge.mkdir()
    log = manifest.BackedUpFile(path=manifest.LOG, size=1 << 50, xxh3="0" * 32)
    manifest.write(huge, a_manifest(log))

    for source, why in ((pipe, "no folder .*pipe"), (folder, r"no manifest\.json")):
        with pytest.raises(ConfigurationError, match=why):
            await restored(source, tmp_path / "new")
    with pytest.raises(CommandError, match="MB free, and needs about"):
        await restored(huge, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@CI_ONLY
async def test_only_folders_are_backed_up(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, log="kafka://broker:9092")

    with pytest.raises(ConfigurationError, match=r"SLUICE_LOG names a server.*sluice migrate"):
        await backup(settings, tmp_path / "copy", Quiet(), patience_s=0)


def a_manifest(*files: manifest.BackedUpFile) -> manifest.Manifest:
    return manifest.Manifest(
        format=manifest.FORMAT,
        sluice="0.1.0",
        created="2026-11-22T19:00:00Z",
        log_id="",
        store_id="",
        checkpoint=0,
        documents=0,
        points=0,
        blobs=0,
        settings={},
        files=files,
    )


def a_backup() -> BackedUp:
    return BackedUp(
        path="/b",
        log_bytes=2_000_000,
        store_bytes=3_000_000,
        blob_bytes=500_000,
        documents=7,
        points=40,
        blobs=9,
        seconds=1.25,
    )


def a_restored(**fields: object) -> Restored:
    given: dict[str, object] = {
        "path": "/d",
        "dry_run": False,
        "created": "2026-11-22T19:00:00Z",
        "sluice": "0.1.0",
        "documents": 7,
        "points": 40,
        "blobs": 9,
        "settings": {},
        "seconds": 1.0,
    }
    return Restored(**(given | fields))  # type: ignore[arg-type]  # by name


def test_a_backup_says_what_it_holds() -> None:
    assert list(backup_lines(a_backup())) == [
        "Backed up 7 documents, 40 points, 9 blobs to /b in 1.2 s",
        "5.5 MB: log 2.0 MB, index 3.0 MB, blobs 0.5 MB",
    ]


def test_a_restore_says_what_is_next() -> None:
    lines = list(restore_lines(a_restored(settings={"chunk_size": "400"})))

    assert lines[-2:] == [
        "It was made with SLUICE_CHUNK_SIZE=400",
        "Start it with SLUICE_DATA=/d sluice serve, then compare it with its log: sluice verify",
    ]
