"""A backup of a folder and what is restored from it are the same, and nothing else is taken for one."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.operator_cli.client import CommandError
from services.operator_cli.moving import manifest
from services.operator_cli.moving.backup import BackedUp, backup
from services.operator_cli.moving.restore import Restored, restore
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


async def copied(pipeline: Pipeline, target: Path, *, dry_run: bool = False) -> BackedUp:
    return await backup(pipeline.settings, target, Quiet(), dry_run=dry_run, patience_s=30)


async def restored(source: Path, data: Path, *, dry_run: bool = False) -> Restored:
    return await restore(source, data, Quiet(), dry_run=dry_run)


@pytest.mark.parametrize("name", ["copy", pytest.param("copy.tar", marks=CI_ONLY)])
@CI_ONLY
async def test_a_restored_folder_answers_the_same_and_embeds_nothing(
    pipeline: Pipeline, tmp_path: Path, name: str
) -> None:
    keys = b'{"keys": []}\n'
    (tmp_path / "data" / "keys.json").write_bytes(keys)
    texts = await pipeline.texts(A)

    made = await copied(pipeline, tmp_path / name)
    await pipeline.send(DocumentSubmitted(tenant="default", source="s", path="a.md", text="later"))
    done = await restored(tmp_path / name, tmp_path / "new")

    assert set(os.listdir(tmp_path)) == {"data", name, "new"}  # noqa: PTH208 - three names
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
async def test_a_dry_run_writes_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    plan = await copied(pipeline, tmp_path / "copy", dry_run=True)
    assert (plan.documents, plan.dry_run) == (2, True)
    assert plan.log_bytes > 0
    assert not (tmp_path / "copy").exists()

    made = await copied(pipeline, tmp_path / "copy")
    assert (await restored(tmp_path / "copy", tmp_path / "new", dry_run=True)).points == made.points
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
    (tmp_path / "mine.partial").mkdir()
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


@CI_ONLY
async def test_only_folders_are_backed_up(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, log="kafka://broker:9092")

    with pytest.raises(ConfigurationError, match=r"SLUICE_LOG names a server.*sluice migrate"):
        await backup(settings, tmp_path / "copy", Quiet(), dry_run=True, patience_s=0)
