"""A collection's files made anew: nothing of what was deleted is left in them, and all else is as it was."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import qdrant_edge as qdrant

from shared.state.index import vector_hash
from shared.store import EVERYTHING, Filter, Match, Order, Payload, Point, Range, Sparse, wire
from shared.store.edge_engine import Engine

CANARY = b"Quetzalcoatlus"
ERASED = Filter(must=(Match("doc", ("erased",)),))
RANDOM = np.random.default_rng(7)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = opened(tmp_path)
    engine.answer(
        wire.Request("create_collection", ("c", 8, True, {"doc": "keyword", "order": "integer", "tenant": "tenant"}))
    )
    yield engine
    engine.close()


def opened(folder: Path) -> Engine:
    engine = Engine(folder)
    engine.load(lambda _name, _seconds: None)
    return engine


def a_point(number: int, doc: str = "kept", **payload: object) -> Point:
    vector = RANDOM.normal(size=8).astype("f4")
    return Point(
        id=f"00000000-0000-4000-8000-{number:012d}",
        payload={"doc": doc, "order": number, **payload},
        dense=vector / np.linalg.norm(vector),
        sparse=Sparse([number], [1.0]),
    )


def put(engine: Engine, *points: Point) -> None:
    engine.answer(wire.Request("upsert", ("c", list(points))))


def everything(engine: Engine) -> dict[str, tuple[Payload, str, Sparse | None]]:
    page = engine.answer(wire.Request("scroll", ("c", EVERYTHING, 1000, None, True, None, None)))
    return {point.id: (point.payload, vector_hash(point.dense), point.sparse) for point in page.points}


def begin(engine: Engine, limit: int) -> None:
    engine.at("c").begin_copy()
    engine.at("c").copy_some(limit)


def finish(engine: Engine, limit: int) -> None:
    while engine.at("c").copy_some(limit):
        pass
    engine.at("c").finish_copy()


def rewritten(engine: Engine, limit: int = 1000) -> None:
    engine.at("c").begin_copy()
    finish(engine, limit)


def holding(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and CANARY in path.read_bytes()]


def test_what_was_deleted_is_in_no_file_and_all_else_is_bit_equal(engine: Engine, tmp_path: Path) -> None:
    put(engine, *(a_point(number) for number in range(40)))
    put(engine, *(a_point(number, "erased", text=CANARY.decode()) for number in range(40, 50)))
    engine.answer(wire.Request("delete", ("c", ERASED)))
    engine.flush()
    before = everything(engine)
    assert holding(tmp_path)  # or this test would show nothing: neither delete nor flush takes the bytes

    rewritten(engine, limit=7)

    assert holding(tmp_path) == []
    assert everything(engine) == before
    assert engine.answer(wire.Request("facet", ("c", "doc", EVERYTHING, 10))) == {"kept": 40}
    ordered = engine.answer(
        wire.Request("scroll", ("c", EVERYTHING, 1, None, False, None, Order("order", True)))
    ).points
    assert [point.payload["order"] for point in ordered] == [39]


def test_what_is_written_while_it_is_copied_is_neither_lost_nor_old(engine: Engine) -> None:
    put(engine, *(a_point(number) for number in range(0, 40, 2)))
    begin(engine, 5)

    put(engine, a_point(1), a_point(0, "changed"), a_point(39), a_point(38, "changed"))
    engine.answer(wire.Request("set_payload", ("c", {"mark": 1}, Filter(must=(Match("order", (2, 36)),)))))
    engine.answer(wire.Request("delete", ("c", Filter(must=(Match("order", (4, 34)),)))))
    expected = everything(engine)
    finish(engine, 5)

    assert everything(engine) == expected
    assert len(expected) == 20


def test_a_rewrite_that_ends_halfway_changes_nothing_and_the_next_opening_clears_it_up(
    engine: Engine, tmp_path: Path
) -> None:
    put(engine, *(a_point(number) for number in range(20)))
    before = everything(engine)
    begin(engine, 5)

    engine.close()
    again = opened(tmp_path)

    assert everything(again) == before
    assert len([path for path in (tmp_path / "collections" / "c").iterdir() if path.is_dir()]) == 1
    again.close()


def test_a_rewritten_collection_is_itself_after_the_next_opening(engine: Engine, tmp_path: Path) -> None:
    put(engine, *(a_point(number) for number in range(20)))
    rewritten(engine)
    rewritten(engine, limit=3)
    put(engine, a_point(20))
    expected = everything(engine)

    engine.close()
    again = opened(tmp_path)
    again.answer(
        wire.Request("create_collection", ("c", 8, True, {"doc": "keyword", "order": "integer", "tenant": "tenant"}))
    )

    assert everything(again) == expected
    again.close()


def test_of_a_folder_of_an_earlier_release_a_rewrite_maps_the_indexes_that_no_search_filters_by(
    tmp_path: Path,
) -> None:
    engine = opened(tmp_path / "store")
    engine.answer(
        wire.Request("create_collection", ("c", 8, True, {"doc": "keyword", "hash": "keyword", "tenant": "tenant"}))
    )
    put(engine, *(a_point(number, hash=f"{number:032x}", tenant="a") for number in range(20)))
    engine.close()
    again = opened(tmp_path / "store")
    again.answer(
        wire.Request(
            "create_collection",
            ("c", 8, True, {"doc": "keyword", "hash": "lookup", "tenant": "tenant", "order": "integer"}),
        )
    )
    before = everything(again)

    rewritten(again)

    assert memories(again) == {"doc": None, "hash": qdrant.Memory.Cold, "order": qdrant.Memory.Cold, "tenant": None}
    assert edges_for_values(again) == {"doc": None, "hash": False, "order": False, "tenant": None}
    assert everything(again) == before
    named = Filter(must=(Match("hash", (f"{7:032x}",)), Range("order", gte=7), Match("tenant", ("a",))))
    assert again.answer(wire.Request("count", ("c", named))) == 1
    assert [point.payload["order"] for point in again.answer(last_of_all).points] == [19, 18]
    rewritten(again)
    assert again.answer(wire.Request("count", ("c", named))) == 1
    again.close()


last_of_all = wire.Request("scroll", ("c", EVERYTHING, 2, None, False, None, Order("order", True)))


def edges_for_values(engine: Engine) -> dict[str, object]:
    """Return whether the graph of the vectors gets edges for the values of the fields; None: the engine decides."""
    schemas = engine._open["c"].shard.info().payload_schema
    return {field: None if found.params is None else found.params.enable_hnsw for field, found in schemas.items()}


def memories(engine: Engine) -> dict[str, object]:
    """Return where the collection's payload indexes are, by field; None: in memory."""
    schemas = engine._open["c"].shard.info().payload_schema
    return {field: None if found.params is None else found.params.memory for field, found in schemas.items()}
