"""Data folders of earlier releases, opened by this one: all answers, nothing is embedded, and a rebuild gives the same.

Each archive was made by `make_folder.py`, and is named for the commit whose code made it.
"""

import shutil
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.operator_cli.moving.backup import backup
from services.operator_cli.moving.restore import restore
from services.operator_cli.verify import command
from services.operator_cli.verify.command import VerifyOutcome, opened
from shared.embedder import Vector
from shared.ids import document_id
from shared.settings import Settings
from shared.store import Payload
from tests.golden.make_folder import BODIES, BRIDGE, DELETED, FILES, MILL
from tests.integration.pipeline import Pipeline, Quiet, running

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))
PATIENCE_S = 60.0  # a hang guard
SAME = 0.9999  # cosine; vectors of different texts are below 0.9


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data"


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


async def test_a_folder_of_an_earlier_release_answers_and_embeds_nothing(data: Path) -> None:
    async with started(data) as pipeline:
        sent = [(body["source"], body["path"]) for body in BODIES] + [("upload", file[0]) for file in FILES]
        name = {path: document_id("default", source, path) for source, path in sent}

        outcome = await verified(pipeline)
        assert (outcome.report.verdict, outcome.report.first) == ("right", {})
        assert BRIDGE in (await pipeline.texts(name["bridge.md"]))[0]
        assert await pipeline.texts(name["mill.txt"]) == [MILL]
        assert len(await pipeline.texts(name["both.md"])) == 2
        assert await pipeline.texts(name["large.html"]) == ["A page with a long comment."]
        assert await pipeline.texts(name[DELETED[1]]) == []
        [letter] = await pipeline.dead_letters()
        assert (letter.code, letter.document_id) == ("damaged", name["broken.pdf"])
        head = await pipeline.parts.index.head(name["large.html"])
        assert head is not None
        assert head.title == "large"
        assert pipeline.embedded() == 0


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
    # Another kind of CPU adds in another order, so that the last bits of a vector differ.
    assert all(float(vector @ before[point][1]) > SAME for point, (_, vector) in after.items())


async def test_a_folder_of_an_earlier_release_is_backed_up_before_it_is_opened(data: Path, tmp_path: Path) -> None:
    await backup(Settings(data=data), tmp_path / "copy", Quiet(), dry_run=False, patience_s=PATIENCE_S)
    await restore(tmp_path / "copy", tmp_path / "new", Quiet(), dry_run=False)

    async with started(tmp_path / "new") as pipeline:
        outcome = await verified(pipeline)
        assert (outcome.report.verdict, outcome.report.first) == ("right", {})
        assert len(await pipeline.texts(document_id("default", "s", "both.md"))) == 2
        assert pipeline.embedded() == 0
