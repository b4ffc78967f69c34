"""The engine in this process, for what the socket doesn't matter to. What a call answers is in the contract suite."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest

from shared.store import EVERYTHING, Filter, Ids, IndexKind, Leg, Match, Order, Point, Range, Sparse, wire
from shared.store.edge_engine import Engine, Mismatch, NoCollection, nearby
from tests.selection import CI_ONLY

UNIT = np.array([1, 0], np.float32)


def an_id(number: int) -> str:
    return str(UUID(int=number))


def opened(folder: Path) -> Engine:
    engine = Engine(folder)
    engine.load(lambda _name, _seconds: None)
    return engine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    engine = opened(folder)
    yield engine
    engine.close()


def make(engine: Engine, name: str, size: int | None = None, indexes: dict[str, IndexKind] | None = None) -> None:
    engine.answer(wire.Request("create_collection", (name, size, False, indexes or {})))


def count(engine: Engine, name: str, *must: Any) -> int:
    answer = engine.answer(wire.Request("count", (name, Filter(must=must))))
    assert isinstance(answer, int)
    return answer


@pytest.mark.feature(131)
def test_everything_is_there_again_after_a_restart(folder: Path) -> None:
    first = opened(folder)
    make(first, "b", 2, {"version": "integer"})
    make(first, "a")
    point = Point(id=an_id(1), payload={"version": 7}, dense=np.array([0.6, 0.8], np.float32))
    first.answer(wire.Request("upsert", ("b", [point])))
    first.close()

    again = opened(folder)

    assert again.answer(wire.Request("collections", ())) == ["a", "b"]
    ordered = again.answer(
        wire.Request("scroll", ("b", EVERYTHING, 5, None, False, None, Order("version", False)))
    ).points
    assert [found.payload for found in ordered] == [point.payload]
    with pytest.raises(Mismatch, match=r"'b' has dense vectors of 2 and no sparse ones; asked for were .* 3"):
        make(again, "b", 3)
    again.close()


def engine_configs(folder: Path) -> dict[str, Path]:
    """Return the engine's own descriptions of the shards, by collection."""
    return {path.parents[1].name: path for path in folder.glob("collections/*/*/edge_config.json")}


def test_searches_run_in_the_calling_thread(folder: Path) -> None:
    """Otherwise each step of a search waits twice for another thread to be scheduled."""
    first = opened(folder)
    first.answer(wire.Request("create_collection", ("chunks", 2, True, {})))
    make(first, "heads")
    first.close()
    opened(folder).close()

    written = {name: msgspec.json.decode(path.read_bytes()) for name, path in engine_configs(folder).items()}

    assert {name: each["max_search_threads"] for name, each in written.items()} == {"chunks": 1, "heads": 1}


def test_a_large_graph_is_searched_further_and_most_of_all_with_a_filter() -> None:
    assert [nearby(points, filtered=False).hnsw_ef for points in (0, 249_999, 250_000)] == [128, 128, 256]
    assert [nearby(points, filtered=True).hnsw_ef for points in (0, 249_999, 250_000)] == [128, 128, 512]


@pytest.mark.parametrize(
    ("conditions", "candidates"), [([Match("n", (0,))], 256), ([Match("n", (0,)), Match("id", ("x",))], 512)]
)
def test_a_search_looks_as_far_as_the_size_of_its_collection_asks(
    folder: Path, monkeypatch: pytest.MonkeyPatch, conditions: list[Match], candidates: int
) -> None:
    monkeypatch.setattr("shared.store.edge_engine._LARGE", 0)
    asked: list[int | None] = []

    def noted(points: int, *, filtered: bool) -> Any:
        params = nearby(points, filtered=filtered)
        asked.append(params.hnsw_ef)
        return params

    monkeypatch.setattr("shared.store.edge_engine.nearby", noted)
    engine = opened(folder)
    make(engine, "chunks", 2)
    make(engine, "heads")

    engine.answer(wire.Request("search", ("chunks", [Leg(dense=UNIT)], Filter(tuple(conditions)), 3, "heads")))
    engine.close()

    assert asked == [candidates]


def test_only_heads_that_searches_need_are_read_and_few_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.store.edge_engine._HEADS_KEPT", 3)
    engine = opened(folder)
    make(engine, "heads")
    make(engine, "chunks", 2)
    engine.answer(wire.Request("upsert", ("heads", [Point(id=an_id(n), payload={"version": 7}) for n in range(10)])))
    chunk = {"metadata": {"documentId": an_id(0), "version": 7}}
    for n in range(10):
        current = {"metadata": {"documentId": an_id(n), "version": 7}}
        vector = np.array([1, n], np.float32)
        engine.answer(wire.Request("upsert", ("chunks", [Point(id=an_id(100 + n), payload=current, dense=vector)])))
    engine.answer(wire.Request("delete", ("chunks", Filter(must=(Ids(tuple(an_id(100 + n) for n in range(2, 10))),)))))
    heads = engine._open["heads"]
    search = wire.Request("search", ("chunks", [Leg(dense=np.array([1, 0], np.float32))], EVERYTHING, 20, "heads"))

    assert [hit.payload for hit in engine.answer(search).hits()[0]][:1] == [chunk]
    assert heads.heads == {an_id(0): 7, an_id(1): 7}

    engine.answer(wire.Request("upsert", ("heads", [Point(id=an_id(0), payload={"version": 8})])))
    assert [hit.id for hit in engine.answer(search).hits()[0]] == [an_id(101)], "a head that was kept is stale"
    for n in range(2, 8):
        newer = {"metadata": {"documentId": an_id(n), "version": 7}}
        engine.answer(
            wire.Request(
                "upsert", ("chunks", [Point(id=an_id(100), payload=newer, dense=np.array([1, 0], np.float32))])
            )
        )
        assert len(engine.answer(search).hits()[0]) == 2
        assert len(heads.heads) <= 3
    engine.close()


def test_payloads_that_searches_read_are_read_again_once_they_change(engine: Engine) -> None:
    make(engine, "heads")
    make(engine, "chunks", 2)
    heads = [Point(id=an_id(n), payload={"version": 7}) for n in range(3)]
    engine.answer(wire.Request("upsert", ("heads", heads)))
    points = [
        Point(id=an_id(10 + n), payload={"text": "old", "metadata": {"documentId": an_id(n), "version": 7}}, dense=UNIT)
        for n in range(3)
    ]
    engine.answer(wire.Request("upsert", ("chunks", points)))
    search = wire.Request("search", ("chunks", [Leg(dense=UNIT)], EVERYTHING, 5, "heads"))

    def texts() -> dict[str, str]:
        return {hit.id: hit.payload["text"] for hit in engine.answer(search).hits()[0]}

    assert texts() == {an_id(10): "old", an_id(11): "old", an_id(12): "old"}

    newer = Point(id=an_id(10), payload={**points[0].payload, "text": "written"}, dense=UNIT)
    engine.answer(wire.Request("upsert", ("chunks", [newer])))
    engine.answer(wire.Request("set_payload", ("chunks", {"text": "merged"}, Filter(must=(Ids((an_id(11),)),)))))
    engine.answer(wire.Request("delete", ("chunks", Filter(must=(Ids((an_id(12),)),)))))

    assert texts() == {an_id(10): "written", an_id(11): "merged"}
    engine.answer(wire.Request("upsert", ("chunks", [points[2]])))
    assert texts() == {an_id(10): "written", an_id(11): "merged", an_id(12): "old"}
    assert len(texts()) == 3


def test_a_collection_that_was_being_made_or_dropped_is_gone(folder: Path) -> None:
    first = opened(folder)
    make(first, "whole")
    make(first, "half")
    first.close()
    # What a crash leaves in the middle of either: a folder under `making`, with files missing or not.
    (folder / "collections" / "half").rename(folder / "making" / "x")
    (folder / "making" / "y" / "shard").mkdir(parents=True)

    again = opened(folder)

    assert again.answer(wire.Request("collections", ())) == ["whole"]
    assert list((folder / "making").iterdir()) == []
    make(again, "half")
    again.close()


def test_indexes_are_added_to_a_collection_that_lacks_them(engine: Engine) -> None:
    make(engine, "a")
    engine.answer(wire.Request("upsert", ("a", [Point(id=an_id(1), payload={"n": 1, "mit leer": "x"})])))

    make(engine, "a", indexes={"n": "integer", "mit leer": "keyword"})
    make(engine, "a", indexes={"n": "integer", "mit leer": "keyword"})

    ordered = engine.answer(wire.Request("scroll", ("a", EVERYTHING, 5, None, False, None, Order("n", True)))).points
    assert [point.id for point in ordered] == [an_id(1)]
    assert engine.answer(wire.Request("facet", ("a", "mit leer", EVERYTHING, 5))) == {"x": 1}


def test_booleans_are_found_though_the_binding_takes_them_for_numbers(engine: Engine) -> None:
    make(engine, "a", indexes={"group": "keyword"})
    payloads: list[dict[str, Any]] = [
        {"group": "g", "flag": True},
        {"group": "g", "flag": False},
        {"group": "h", "flag": [True, "x"]},
        {"group": "h", "flag": 1},
        {"group": "h", "flag": {"flag": True}},
        {"group": "h"},
    ]
    engine.answer(
        wire.Request("upsert", ("a", [Point(id=an_id(n), payload=payload) for n, payload in enumerate(payloads)]))
    )

    true = Match("flag", (True,))
    assert count(engine, "a", true) == 2
    assert count(engine, "a", true, Match("group", ("h",))) == 1
    assert count(engine, "a", Match("flag", (False, 1, "x"))) == 3
    assert count(engine, "a", Match("flag.flag", (True,))) == 1
    assert engine.answer(wire.Request("count", ("a", Filter(must_not=(true,))))) == 4
    engine.answer(wire.Request("delete", ("a", Filter(must=(true,)))))
    assert count(engine, "a") == 4


def test_numbers_are_found_though_their_index_finds_only_ranges(folder: Path) -> None:
    engine = opened(folder)
    make(engine, "a", 2, {"n": "integer"})
    values: list[Any] = [1, 2, [1, 3], "1", 2**53, 2**53 + 1, True, 1.5, None]
    engine.answer(wire.Request("upsert", ("a", [Point(id=an_id(at), payload={"n": n}) for at, n in enumerate(values)])))
    for _ in range(2):
        assert engine._open["a"].ranged == {"n"}

        assert count(engine, "a", Match("n", (1,))) == 2
        assert count(engine, "a", Match("n", (2, 3))) == 2
        assert count(engine, "a", Match("n", (1, "1"))) == 3
        assert count(engine, "a", Match("n", (True,))) == 1
        assert count(engine, "a", Match("n", (True, 2))) == 2
        assert count(engine, "a", Match("n", (2**53 + 1,))) == 1
        assert count(engine, "a", Match("n", (2**53,))) == 1
        assert count(engine, "a", Match("n", ())) == 0
        assert count(engine, "a", Range("n", gt=2, lt=9)) == 1
        assert engine.answer(wire.Request("count", ("a", Filter(must_not=(Match("n", (1,)),))))) == len(values) - 2
        engine.close()
        engine = opened(folder)
    engine.close()


def test_any_number_of_stale_points_may_stand_in_front(engine: Engine) -> None:
    make(engine, "heads")
    make(engine, "chunks", 2)
    engine.answer(wire.Request("upsert", ("heads", [Point(id=an_id(9), payload={"version": 2})])))
    front, behind = np.array([1, 0], np.float32), np.array([0.6, 0.8], np.float32)
    stale = {"metadata": {"documentId": an_id(9), "version": 1}}
    current = {"metadata": {"documentId": an_id(9), "version": 2}}
    engine.answer(
        wire.Request("upsert", ("chunks", [Point(id=an_id(n), payload=stale, dense=front) for n in range(3000)]))
    )
    engine.answer(
        wire.Request(
            "upsert", ("chunks", [Point(id=an_id(n), payload=current, dense=behind) for n in range(4000, 4007)])
        )
    )

    ((*hits,),) = engine.answer(wire.Request("search", ("chunks", [Leg(dense=front)], EVERYTHING, 5, "heads"))).hits()

    assert len(hits) == 5
    assert {hit.payload["metadata"]["version"] for hit in hits} == {2}


def test_a_dropped_collection_of_heads_is_forgotten(engine: Engine) -> None:
    make(engine, "heads")
    make(engine, "chunks", 2)
    vector = np.array([1, 0], np.float32)
    payload = {"metadata": {"documentId": an_id(9), "version": 2}}
    engine.answer(wire.Request("upsert", ("chunks", [Point(id=an_id(1), payload=payload, dense=vector)])))
    engine.answer(wire.Request("upsert", ("heads", [Point(id=an_id(9), payload={"version": 2})])))
    search = wire.Request("search", ("chunks", [Leg(dense=vector)], EVERYTHING, 5, "heads"))
    before = engine.answer(search).hits()

    engine.answer(wire.Request("drop_collection", ("heads",)))
    with pytest.raises(NoCollection, match="heads"):
        engine.answer(search).hits()
    make(engine, "heads")

    assert [hit.id for hit in before[0]] == [an_id(1)]
    assert engine.answer(search).hits() == [[]]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (wire.Request("scroll", ("a", EVERYTHING, 5, None, False, None, Order("n", False))), "No range index"),
        (wire.Request("facet", ("a", "n", EVERYTHING, 5)), "No appropriate index"),
        (wire.Request("count", ("a", Filter(must=(Match("x", (2**63,)),)))), "int"),
        (wire.Request("count", ("a", Filter(must=(Range("x..y", gt=1),)))), r"x\.\.y"),
        (
            wire.Request("upsert", ("a", [Point(id=an_id(1), payload={}, dense=np.ones(3, np.float32))])),
            "dense vector of 3",
        ),
        (wire.Request("upsert", ("a", [Point(id="not a uuid", payload={})])), "UUID"),
        (wire.Request("upsert", ("a", [Point(id=an_id(1), payload={}, sparse=Sparse([1], [1.0]))])), "'a' has none"),
    ],
)
def test_a_request_that_can_never_be_served_is_a_value_error(
    engine: Engine, request_: wire.Request, message: str
) -> None:
    make(engine, "a", 2)

    with pytest.raises(ValueError, match=message):
        engine.answer(request_)

    assert count(engine, "a") == 0


# What a flush of the engine writes, in its order; the write-ahead log is truncated last.
FLUSHED = ("*mappings", "vector_storage*", "payload_index", "payload_storage", "*versions")


@CI_ONLY
@pytest.mark.parametrize("parts", range(len(FLUSHED) + 1))
def test_a_kill_between_the_parts_of_a_flush_loses_no_write(folder: Path, tmp_path: Path, parts: int) -> None:
    engine = opened(folder)
    make(engine, "heads", None, {"version": "integer", "name": "keyword"})
    heads = [Point(id=an_id(n), payload={"version": 1, "name": "a"}) for n in range(1, 5)]
    engine.answer(wire.Request("upsert", ("heads", heads)))
    engine.flush()
    for version in (2, 3):
        newer = [Point(id=an_id(n), payload={"version": version, "name": "a"}) for n in (1, 2, 3)]
        engine.answer(wire.Request("upsert", ("heads", newer, Filter(must=(Range("version", lt=version),)))))
    for version in (1, 9):
        engine.answer(
            wire.Request("put_if", ("heads", [Point(id=an_id(5), payload={"version": version, "name": "a"})], None, []))
        )
    third = Filter(must=(Match("version", (3,)), Ids((an_id(3),))))
    engine.answer(wire.Request("set_payload", ("heads", {"version": 4, "name": "b"}, third)))
    engine.answer(
        wire.Request("set_payload", ("heads", {"version": 5, "name": "c"}, Filter(must=(Match("name", ("b",)),))))
    )
    engine.answer(wire.Request("delete", ("heads", Filter(must=(Match("version", (1,)), Ids((an_id(4),)))))))
    before = tmp_path / "before"
    shutil.copytree(folder, before)

    engine.flush()
    flushed = folder / "collections" / "heads" / "shard"
    for part in FLUSHED[:parts]:
        found = list(flushed.glob(f"segments/*/{part}"))
        assert found, part
        for each in found:
            there = before / each.relative_to(folder)
            if each.is_dir():
                shutil.copytree(each, there, dirs_exist_ok=True)
            else:
                shutil.copy2(each, there)
    engine.close()

    again = opened(before)
    left = again.answer(wire.Request("scroll", ("heads", EVERYTHING, 10, None, False, None, None))).points
    assert {UUID(point.id).int: point.payload for point in left} == {
        1: {"version": 3, "name": "a"},
        2: {"version": 3, "name": "a"},
        3: {"version": 5, "name": "c"},
        5: {"version": 1, "name": "a"},
    }
    assert count(again, "heads", Match("version", (3,))) == 2
    again.close()


def test_collections_without_vectors_are_read_ahead_before_others(folder: Path) -> None:
    first = opened(folder)
    make(first, "heads")
    make(first, "chunks", 2)
    first.close()

    again = opened(folder)

    read = [path.relative_to(folder / "collections").parts for path in again.searched_files()]
    assert [*dict.fromkeys(name for name, *inside in read if "payload_storage" in inside)] == ["heads", "chunks"]
    again.close()
