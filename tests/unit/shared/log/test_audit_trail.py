"""Entries are batched, kept until the log has them, and counted where nothing is changed."""

import asyncio
import gc
from collections.abc import Mapping
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import RecordMetadata

from shared.contracts import AuditEntry, AuditRecord, AuditResult, decode
from shared.errors import Unavailable
from shared.ids import document_id
from shared.log import audit_trail
from shared.log.audit_trail import MOST_IDS, AuditTrail
from shared.topics import AUDIT
from tests.selection import CI_ONLY


class Topic:
    """Takes records while `open` is set; refuses them while `away`."""

    def __init__(self) -> None:
        self.records: list[tuple[AuditEntry, ...]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.away = False
        self.asked = 0

    @property
    def entries(self) -> list[AuditEntry]:
        return [entry for record in self.records for entry in record]

    async def publish(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes,
        route: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RecordMetadata:
        assert (topic, bool(key), route, headers) == (AUDIT, True, None, None)
        self.asked += 1
        await self.open.wait()
        if self.away:
            raise Unavailable("the log is away")
        self.records.append(decode(value, AuditRecord).entries)
        return RecordMetadata(topic, 0, TopicPartition(topic, 0), len(self.records), 1, 1, 0)


def an_entry(action: str = "rag_ingest", **fields: object) -> AuditEntry:
    return AuditEntry(time=1, action=action, **{"result": "done", **fields})  # type: ignore[arg-type]  # as the caller says


def call(result: AuditResult, status: int | None, documents: tuple[str, ...]) -> AuditEntry:
    return an_entry(result=result, status=status, documents=documents)


async def test_entries_that_come_while_one_is_written_share_the_next_record() -> None:
    topic = Topic()
    trail = AuditTrail(topic.publish)
    topic.open.clear()
    trail.add(an_entry("first"))
    await asyncio.sleep(0)
    writers = []
    for number in range(50):
        trail.add(an_entry(f"later{number}"))
        writers.append(asyncio.create_task(trail.written()))
    await asyncio.sleep(0)
    topic.open.set()
    await asyncio.gather(*writers)

    assert len(topic.entries) == 51
    assert len(topic.records) <= 2


async def test_whoever_waits_has_an_end_while_others_go_on_adding() -> None:
    topic = Topic()
    publish = topic.publish

    async def added_meanwhile(*given: Any, **options: Any) -> RecordMetadata:
        done = await publish(*given, **options)
        trail.add(an_entry("more"))
        return done

    trail = AuditTrail(added_meanwhile)
    trail.add(an_entry("first"))
    async with asyncio.timeout(10):
        await trail.written()

    assert topic.entries[0].action == "first"
    topic.away = True
    await trail.end()


async def test_a_change_is_written_before_its_call_ends_and_its_ids_share_an_entry() -> None:
    topic = Topic()
    trail = AuditTrail(topic.publish)
    ids = [document_id("t", "s", str(number)) for number in range(MOST_IDS + 1)]
    for name in ids:
        trail.change(call, name, "accepted")
    trail.change(call, ids[0], "unknown")
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})

    assert [(len(entry.documents), entry.result) for entry in topic.entries] == [
        (MOST_IDS, "accepted"),
        (1, "accepted"),
        (1, "unknown"),
    ]
    assert [name for entry in topic.entries[:2] for name in entry.documents] == ids


async def test_what_the_log_refuses_is_kept_and_told() -> None:
    topic = Topic()
    trail = AuditTrail(topic.publish)
    topic.away = True
    trail.add(an_entry("kept"))
    with pytest.raises(Unavailable, match="the log is away"):
        await trail.written()
    topic.away = False
    trail.add(an_entry("next"))
    await trail.written()

    assert [entry.action for entry in topic.entries] == ["kept", "next"]


async def test_whoever_waits_while_the_log_hangs_waits_for_one_attempt_and_not_for_each_other_s() -> None:
    topic = Topic()
    trail = AuditTrail(topic.publish)
    topic.open.clear()
    topic.away = True
    for number in range(10):
        trail.add(an_entry(f"action{number}"))
    writers = [asyncio.create_task(trail.written()) for _ in range(10)]
    await asyncio.sleep(0.01)
    topic.open.set()

    ends = await asyncio.gather(*writers, return_exceptions=True)

    assert [str(end) for end in ends] == ["the log is away"] * 10
    assert topic.asked == 1
    topic.away = False
    await trail.written()
    assert len(topic.entries) == 10


async def test_a_writer_that_is_cancelled_loses_nothing() -> None:
    topic = Topic()
    trail = AuditTrail(topic.publish)
    topic.open.clear()
    trail.add(an_entry("kept"))
    writer = asyncio.create_task(trail.written())
    await asyncio.sleep(0)
    writer.cancel()
    await asyncio.wait([writer])
    topic.open.set()
    await trail.written()

    assert [entry.action for entry in topic.entries] == ["kept"]


async def others_ended() -> None:
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


@CI_ONLY
async def test_an_attempt_that_fails_after_all_who_waited_have_left_leaves_no_traceback() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    topic = Topic()
    trail = AuditTrail(topic.publish)
    topic.away = True
    trail.add(an_entry())
    await others_ended()
    topic.open.clear()
    writer = asyncio.create_task(trail.written())
    await asyncio.sleep(0)
    writer.cancel()
    await asyncio.wait([writer])
    topic.open.set()
    await others_ended()
    del trail, writer
    gc.collect()

    assert topic.asked == 2
    assert complaints == []


async def test_no_attempt_outlives_the_end_of_the_trail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_trail, "_END_S", 0.01)
    topic = Topic()
    trail = AuditTrail(topic.publish)
    topic.open.clear()
    trail.add(an_entry())

    await trail.end()

    assert topic.asked == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_equal_calls_that_change_nothing_are_counted() -> None:
    topic = Topic()
    trail = AuditTrail(topic.publish)
    for number in range(500):
        trail.count(an_entry("rag_search", result="refused", status=401, request=f"r{number}"))
    trail.count(an_entry("ops_audit", request="other"))
    await trail.end()

    assert [(entry.action, entry.count, entry.request) for entry in topic.entries] == [
        ("rag_search", 1, "r0"),
        ("ops_audit", 1, "other"),
        ("rag_search", 499, ""),
    ]


async def test_callers_with_many_keys_cannot_fill_the_log() -> None:
    topic = Topic()
    trail = AuditTrail(topic.publish)
    for number in range(5000):
        trail.count(an_entry("rag_search", result="refused", status=429, key=f"{number:016x}"))
    await trail.end()

    assert len(topic.entries) <= 1002
    assert sum(entry.count for entry in topic.entries) == 5000


async def test_a_log_that_is_away_for_long_bounds_what_waits() -> None:
    topic = Topic()
    trail = AuditTrail(topic.publish)
    topic.away = True
    for _ in range(10_050):
        trail.add(an_entry())
    topic.away = False
    await trail.end()

    assert len(topic.entries) == 10_000
