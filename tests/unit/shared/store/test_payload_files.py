"""Where payloads are is read from the engine's own files, so these tests compare it with what the engine wrote."""

import base64
import os
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import qdrant_edge as qdrant

from shared.store import payload_files as module
from shared.store.index_builder import VectorFormat, build
from shared.store.payload_files import PayloadFiles, payload_files, watched

COUNT = 400
pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system has no such request")


def an_id(number: int) -> UUID:
    return UUID(int=random.Random(number).getrandbits(128))


def a_text(number: int) -> str:
    """Return a text that can't be compressed, so it is in the file as it is."""
    return base64.b64encode(random.Random(number).randbytes(90)).decode()


def a_shard(folder: Path, *, ids: str = "uuid") -> Path:
    """Return the folder of a closed shard with an index, in which the first point was replaced since."""
    folder.mkdir()
    vectors = qdrant.EdgeVectorParams(size=4, distance=qdrant.Distance.Cosine)
    shard = qdrant.EdgeShard.create(str(folder), qdrant.EdgeConfig(vectors=vectors))
    points = [a_point(number, an_id(number) if ids == "uuid" else number) for number in range(COUNT)]
    shard.update(qdrant.UpdateOperation.upsert_points(points))
    shard.flush()
    shard.close()
    build(folder, VectorFormat(4, half=False, sparse=False))
    return folder


def a_point(number: int, id_: Any) -> qdrant.Point:
    return qdrant.Point(id_, {"": [1.0, number, 0.0, 1.0]}, {"text": a_text(number)})


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_shard(tmp_path_factory.mktemp("payload-files") / "a")


@pytest.fixture
def files(shard: Path) -> PayloadFiles:
    found = payload_files(shard)
    assert found is not None
    return found


def test_each_payload_is_where_the_engine_wrote_it(shard: Path, files: PayloadFiles) -> None:
    (storage,) = {path.parent for path in shard.glob("segments/*/payload_storage/page_0.dat") if files_of(path)}
    asked = list(range(COUNT))
    random.Random(2).shuffle(asked)

    places = files.places([an_id(number) for number in asked])

    assert [page for page, _, _ in places] == [0] * COUNT
    stored = (storage / "page_0.dat").read_bytes()
    for number, (_, offset, length) in zip(asked, places, strict=True):
        assert a_text(number)[:24].encode() in stored[offset : offset + length]


def files_of(page: Path) -> bool:
    """Return whether the segment of a page takes no new points."""
    return (page.parents[1] / "id_tracker.mappings").exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system doesn't list open files")
def test_no_file_stays_open(shard: Path) -> None:
    def pages() -> int:
        return sum(str(shard) in os.path.realpath(each) for each in Path("/proc/self/fd").iterdir())

    before = pages()
    found = payload_files(shard)
    assert pages() > before
    del found

    assert pages() == before


def test_points_of_other_segments_are_left_out(files: PayloadFiles) -> None:
    assert files.places([an_id(COUNT), UUID(int=0), UUID(int=2**128 - 1)]) == []
    assert files.places([]) == []


def test_without_a_segment_that_takes_no_new_points_there_are_no_places(tmp_path: Path) -> None:
    vectors = qdrant.EdgeVectorParams(size=4, distance=qdrant.Distance.Cosine)
    qdrant.EdgeShard.create(str(tmp_path), qdrant.EdgeConfig(vectors=vectors)).close()

    assert payload_files(tmp_path) is None
    assert payload_files(tmp_path / "gone") is None


def test_files_of_another_format_give_no_places(tmp_path: Path) -> None:
    assert payload_files(a_shard(tmp_path / "numbers", ids="number")) is None
    shard = a_shard(tmp_path / "a")
    (mappings,) = shard.glob("segments/*/id_tracker.mappings")
    config = mappings.parent / "payload_storage" / "config.json"
    config.write_text(config.read_text().replace('"mutable"', '"append_only"'))
    assert payload_files(shard) is None
    config.write_text("{}")
    assert payload_files(shard) is None


@pytest.mark.parametrize("waits", [True, False])
def test_payloads_are_requested_while_reads_wait(
    files: PayloadFiles, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    faults = 0
    asked: list[int] = []

    def retrieve() -> list[Any]:
        nonlocal faults
        faults += waits
        return ["found"]

    monkeypatch.setattr(module, "_waited", lambda: faults)
    monkeypatch.setattr(files, "request", lambda ids: asked.append(len(ids)))
    read = [files.read([an_id(1), an_id(2)], retrieve) for _ in range(100)]

    assert read == [["found"]] * 100
    assert len(asked) == (97 if waits else 31)  # the 32nd read is watched, and so are the following if it didn't wait


def test_a_request_asks_for_the_places(files: PayloadFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _file, offset, length, _advice: asked.append((offset, length)))

    files.request([an_id(3), an_id(4), an_id(COUNT)])

    assert asked == [(offset, length) for _, offset, length in files.places([an_id(3), an_id(4)])]


def test_whether_a_read_waits_is_told_with_what_it_returns() -> None:
    assert watched(3, lambda: [1]) == ([1], False)
