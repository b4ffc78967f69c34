"""What the files of this size hold, as /metrics shows it."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from shared.ids import document_id
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.runtime.growth import Growth
from shared.store import Filter, Ids, Point
from shared.store.edge import EdgeStore
from shared.topics import Topic


async def test_points_dead_points_and_bytes_are_shown(tmp_path: Path) -> None:
    log, store, registry = SqliteLog(tmp_path / "log.db"), EdgeStore(tmp_path / "store"), CollectorRegistry()
    await log.start()
    await log.ensure_topics([Topic(name="full", partitions=2), Topic(name="empty", partitions=1)])
    broker = log.broker("test")
    await broker.start()
    await store.start()
    try:
        written = [await publish(broker, "full", bytes(1000), key=b"k%d" % number) for number in range(3)]
        ids = [document_id("t", "s", str(number)) for number in range(5)]
        await store.create_collection("c", size=None, sparse=False, indexes={})
        await store.upsert("c", [Point(id=id_, payload={}) for id_ in ids])
        await store.delete("c", Filter(must=(Ids(tuple(ids[:2])),)))

        await Growth(registry, log, store).look()
    finally:
        await broker.stop()
        await store.close()
        await log.stop()

    def shown(name: str, **labels: str) -> float:
        value = registry.get_sample_value(f"sluice_{name}", labels)
        assert value is not None
        return value

    assert len(written) == 3
    assert shown("store_live_points", collection="c") == 3
    assert shown("store_dead_points", collection="c") in (0, 2)  # as of the last flush, which may be still to come
    assert shown("store_bytes", collection="c") > 0
    assert 3000 < shown("log_bytes", topic="full") < 4000
    assert shown("log_bytes", topic="empty") == 0
