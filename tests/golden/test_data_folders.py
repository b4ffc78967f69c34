"""Opens the golden data folder: its log is read whole, and its index answers as it is, or is built again.

`make_folder.py` made the folder with the code of an earlier commit. A commit that can't read it any more needs a new
format number, and a reason.
"""

import shutil
import tarfile
from pathlib import Path

import pytest

from services.operator_cli.moving.backup import backup
from services.operator_cli.moving.restore import restore
from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from shared.contracts import DeadLetter, DocumentExtracted, decode
from shared.embedder import Vector
from shared.ids import document_id
from shared.settings import Settings
from shared.store import Payload
from shared.submission import submission_of
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED
from tests.golden.make_folder import BODIES, BRIDGE, DELETED, FILES, MILL
from tests.integration.pipeline import Pipeline, Quiet, running
from tests.integration.reindex_rig import Rig
from tests.selection import STORY

ARCHIVE = Path(__file__).with_name("folder.tar.xz")
PATIENCE_S = 60.0  # a hang guard
SAME = 0.9999  # cosine; vectors of different texts are below 0.9
SENT = [(body["source"], body["path"]) for body in BODIES] + [("upload", file[0]) for file in FILES]
NAME = {path: document_id("default", source, path) for source, path in SENT}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data"


async def verdict(pipeline: Pipeline, *, repair: bool = False) -> tuple[str, object]:
    async with opened(pipeline.settings) as parts:
        outcome = await command.verify(parts, Quiet(), repair=repair, dry_run=False, sample=None, patience_s=PATIENCE_S)
    return outcome.report.verdict, outcome.report.first


async def points(pipeline: Pipeline) -> dict[str, tuple[Payload, Vector]]:
    """Return every point by id: its payload without the hash of the vector, and the vector."""
    async with opened(pipeline.settings) as parts:
        page = await parts.store.scroll(parts.generation.chunks, limit=1000, vectors=True)
    return {point.id: (_unhashed(point.payload), point.dense) for point in page.points if point.dense is not None}


def _unhashed(payload: Payload) -> Payload:
    metadata = {name: value for name, value in payload["metadata"].items() if name != "vectorHash"}
    return {**payload, "metadata": metadata}


async def check_answers(pipeline: Pipeline) -> None:
    """Check that each document answers as it was sent, and that index and log agree."""
    assert await verdict(pipeline) == ("right", {})
    assert BRIDGE in (await pipeline.texts(NAME["bridge.md"]))[0]
    assert await pipeline.texts(NAME["mill.txt"]) == [MILL]
    assert BRIDGE in "\n".join(await pipeline.texts(NAME["both.md"]))
    assert await pipeline.texts(NAME["large.html"]) == ["A page with a long comment."]
    assert await pipeline.texts(NAME["chunks"]) == ["Made elsewhere, taken as it is."]
    assert await pipeline.texts(NAME[DELETED[1]]) == []
    [letter] = await pipeline.dead_letters()
    assert (letter.code, letter.document_id) == ("damaged", NAME["broken.pdf"])


@STORY
async def test_the_log_of_an_earlier_commit_is_read_whole_and_its_index_answers(data: Path) -> None:
    async with running(data, partitions=2) as pipeline:
        submitted = [submission_of(record) for record in await pipeline.records(SUBMITTED)]
        extracted = await pipeline.records(EXTRACTED)
        versions = [decode(record.value, DocumentExtracted) for record in extracted if record.value is not None]
        letters = [decode(record.value, DeadLetter) for record in await pipeline.records(DEAD_LETTERS)]

        assert len(submitted) == len(SENT) + 1  # a deletion
        assert {each.document_id for each in submitted} == {*NAME.values()}
        assert {each.document.document_id for each in versions} == {*NAME.values()} - {NAME["broken.pdf"]}
        assert len(letters) == 1

        if pipeline.parts.not_in_force:  # its index has another format or chunker: it answers, and a new one is built
            rig = Rig(pipeline)
            assert (await rig.found("the bridge keeper counts carts"))[0][0] == "bridge.md"
            await rig.post("/ops/generations/start", {})
            await rig.until_ready()
            await rig.post("/ops/generations/switch", {})
        else:
            assert pipeline.embedded() == 0
        await check_answers(pipeline)


async def test_an_index_that_is_lost_is_rebuilt_with_the_same_points(data: Path) -> None:
    async with running(data, partitions=2) as pipeline:
        as_it_was = not pipeline.parts.not_in_force
        before = await points(pipeline)
    shutil.rmtree(data / "store")

    async with running(data, partitions=2) as pipeline:
        assert await verdict(pipeline, repair=True) == ("right", {})
        await check_answers(pipeline)
        after = await points(pipeline)

    if as_it_was:
        assert {point: payload for point, (payload, _) in after.items()} == {
            point: payload for point, (payload, _) in before.items()
        }
        # Another kind of CPU adds in another order, so the last bits of a vector differ.
        assert all(float(vector @ before[point][1]) > SAME for point, (_, vector) in after.items())


async def test_a_backup_of_the_folder_answers_and_embeds_nothing(data: Path, tmp_path: Path) -> None:
    await backup(Settings(data=data), tmp_path / "copy", Quiet(), patience_s=PATIENCE_S)
    await restore(tmp_path / "copy", tmp_path / "new", Quiet())

    async with running(tmp_path / "new", partitions=2) as pipeline:
        assert await verdict(pipeline) == ("right", {})
        assert BRIDGE in (await pipeline.texts(NAME["bridge.md"]))[0]
        assert pipeline.embedded() == 0
