"""The process that builds vector indexes: what it builds, what it refuses, and how it ends."""

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import qdrant_edge as qdrant

from shared.store.index_builder import IndexBuilder, IndexBuildError, VectorFormat
from tests.selection import CI_ONLY

SIZE = 16
FORMAT = VectorFormat(SIZE, half=False, sparse=True)


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[IndexBuilder]:
    made = IndexBuilder(tmp_path)
    yield made
    made._process.communicate()


def a_shard(folder: Path, count: int = 500, *, half: bool = False, sparse: bool = True) -> Path:
    """Return the folder of a closed shard with points 1 to `count`."""
    folder.mkdir()
    words = {"bm25": qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)} if sparse else None
    datatype = qdrant.VectorStorageDatatype.Float16 if half else None
    vectors = qdrant.EdgeVectorParams(size=SIZE, distance=qdrant.Distance.Cosine, datatype=datatype)
    shard = qdrant.EdgeShard.create(str(folder), qdrant.EdgeConfig(vectors=vectors, sparse_vectors=words))
    points = [
        qdrant.Point(n, {"": a_vector(n), **({"bm25": qdrant.SparseVector([n], [1 / n])} if sparse else {})})
        for n in range(1, count + 1)
    ]
    shard.update(qdrant.UpdateOperation.upsert_points(points))
    shard.flush()
    shard.close()
    return folder


def a_vector(number: int) -> list[float]:
    """Return the vector of a point."""
    drawn = random.Random(number)
    return [drawn.gauss(0, 1) for _ in range(SIZE)]


def nearest(shard: Path, number: int) -> int:
    """Return the id of the point whose vector is nearest to that of point `number`."""
    opened = qdrant.EdgeShard.load(str(shard))
    query = qdrant.Query.Nearest(a_vector(number), using="")
    (found,) = opened.query(qdrant.QueryRequest(limit=1, query=query))
    opened.close()
    return int(found.id)


def weight(shard: Path, number: int) -> float:
    """Return the weight of the only word of a point."""
    opened = qdrant.EdgeShard.load(str(shard))
    (found,) = opened.retrieve([number], False, True)
    opened.close()
    assert isinstance(found.vector, dict)
    words = found.vector["bm25"]
    assert isinstance(words, qdrant.SparseVector)
    return float(words.values[0])


def growing(shard: Path) -> int:
    """Return the number of points in segments without an index."""
    return sum(path.stat().st_size // 8 for path in shard.glob("segments/*/mutable_id_tracker.versions"))


@CI_ONLY
@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_shard_gets_its_index_and_keeps_its_points(
    builder: IndexBuilder, tmp_path: Path, half: bool, sparse: bool
) -> None:
    shard = a_shard(tmp_path / "a", half=half, sparse=sparse)
    assert growing(shard) == 500

    builder.begin(shard, VectorFormat(SIZE, half=half, sparse=sparse))
    builder.wait()

    assert growing(shard) == 0
    assert list(shard.glob("segments/*/vector_index/*"))
    assert half or list(shard.glob("segments/*/*/quantized.*"))
    assert [nearest(shard, n) for n in (1, 250, 500)] == [1, 250, 500]
    assert not sparse or [weight(shard, n) for n in (1, 250, 499)] == [float(np.float32(1 / n)) for n in (1, 250, 499)]


def test_records_come_in_the_order_of_the_ids_whichever_segment_they_are_in(
    builder: IndexBuilder, tmp_path: Path
) -> None:
    """`engine._with_ids` relies on this."""
    shard = a_shard(tmp_path / "a")
    builder.begin(shard, FORMAT)
    builder.wait()
    opened = qdrant.EdgeShard.load(str(shard))
    newer = [qdrant.Point(n, {"": a_vector(n)}) for n in (7, 300, 501, 502)]
    opened.update(qdrant.UpdateOperation.upsert_points(newer))
    opened.update(qdrant.UpdateOperation.delete_points([9]))
    opened.flush()
    asked = [*range(1, 503)]
    random.Random(5).shuffle(asked)

    found = [int(record.id) for record in opened.retrieve([999, *asked], True, False)]

    assert growing(shard) > 0
    assert found == [number for number in asked if number != 9]
    opened.close()


def test_a_folder_that_holds_no_shard_is_told_and_the_next_request_is_served(
    builder: IndexBuilder, tmp_path: Path
) -> None:
    builder.begin(tmp_path / "none", FORMAT)
    with pytest.raises(IndexBuildError, match="the build ended with code 1"):
        builder.wait()

    builder.begin(a_shard(tmp_path / "a"), FORMAT)
    builder.wait()


@pytest.mark.parametrize("path", ["/elsewhere/shard", "{}/../shard"])
def test_a_folder_outside_of_the_store_is_refused(builder: IndexBuilder, tmp_path: Path, path: str) -> None:
    builder.begin(Path(path.format(tmp_path)), FORMAT)
    with pytest.raises(IndexBuildError, match="is not in"):
        builder.wait()


def test_a_link_that_leads_outside_of_the_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    elsewhere = a_shard(tmp_path / "elsewhere")
    (tmp_path / "store" / "link").symlink_to(elsewhere)
    builder = IndexBuilder(tmp_path / "store")
    try:
        builder.begin(tmp_path / "store" / "link", FORMAT)
        with pytest.raises(IndexBuildError, match="is not in"):
            builder.wait()
    finally:
        builder._process.communicate()
    assert growing(elsewhere) == 500


@CI_ONLY
def test_a_build_that_is_stopped_has_ended_and_the_next_is_served(builder: IndexBuilder, tmp_path: Path) -> None:
    builder.begin(a_shard(tmp_path / "a", 5_000), FORMAT)
    builder.stop()
    # Which of the two it was depends on the machine; either way nobody has the shard open any more.
    qdrant.EdgeShard.load(str(tmp_path / "a")).close()

    builder.stop()
    builder.begin(a_shard(tmp_path / "b"), FORMAT)
    builder.wait()


def test_without_its_process_each_request_fails(builder: IndexBuilder, tmp_path: Path) -> None:
    os.kill(builder._process.pid, signal.SIGKILL)

    def ask() -> None:
        builder.begin(tmp_path / "a", FORMAT)
        builder.wait()

    for _ in range(2):  # the first may still be written
        with pytest.raises(IndexBuildError, match="the process that builds indexes has ended"):
            ask()
    builder.stop()
