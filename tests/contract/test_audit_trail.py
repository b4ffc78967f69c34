"""The audit trail is written and read alike on every log."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from shared.contracts import AuditEntry
from shared.log import Log
from shared.log.audit_trail import AuditFilter, AuditTrail, audit_page
from shared.log.publish import publish
from shared.topics import AUDIT, DAY, audit_topic
from tests.contract.logs import Harness

ALL = AuditFilter()


@pytest.fixture
async def log(harness: Harness) -> Log:
    log = await harness.join()
    await log.ensure_topics([audit_topic(90 * DAY)])
    return log


@pytest.fixture
async def trail(log: Log) -> AsyncIterator[AuditTrail]:
    broker = log.broker("test")
    await broker.start()
    yield AuditTrail(partial(publish, broker))
    await broker.stop()


def an_entry(number: int, tenant: str = "t", key: str = "k", action: str = "rag_ingest") -> AuditEntry:
    return AuditEntry(time=number, action=action, result="done", tenant=tenant, key=key)


@pytest.mark.feature(256)
async def test_entries_are_read_in_order_by_page_and_filter(log: Log, trail: AuditTrail) -> None:
    for number in range(6):
        trail.add(an_entry(number, tenant=f"t{number % 2}", key=f"k{number % 3}"))
        await trail.written()
    first = await audit_page(log, ALL, limit=4)
    second = await audit_page(log, ALL, limit=4, after=first.after)
    of_tenant = await audit_page(log, AuditFilter(tenant="t1"), limit=10)
    of_both = await audit_page(log, AuditFilter(tenant="t1", key="k1", action="rag_ingest"), limit=10)
    none = await audit_page(log, AuditFilter(action="ops_erase"), limit=10)

    assert [entry.time for entry in (*first.entries, *second.entries)] == [0, 1, 2, 3, 4, 5]
    assert (first.end, second.end) == (False, True)
    assert [entry.time for entry in of_tenant.entries] == [1, 3, 5]
    assert [entry.time for entry in of_both.entries] == [1]
    assert (none.entries, none.after, none.end) == ([], second.after, True)


async def test_a_page_reads_a_bounded_number_of_records(log: Log, trail: AuditTrail) -> None:
    for number in range(5):
        trail.add(an_entry(number))
        await trail.written()
    page = await audit_page(log, AuditFilter(tenant="other"), limit=1, most=2)

    assert (page.entries, page.end) == ([], False)


async def test_what_came_before_a_time_is_left_out(log: Log, trail: AuditTrail) -> None:
    trail.add(an_entry(1))
    await trail.written()
    broker = log.broker("time")
    await broker.start()
    began = now = (await publish(broker, AUDIT, b"{}", key=b"audit")).timestamp  # unreadable, and passed over
    while now == began:
        now = (await publish(broker, AUDIT, b"{}", key=b"audit")).timestamp
    await broker.stop()
    trail.add(an_entry(2))
    await trail.written()
    page = await audit_page(log, ALL, since=now, limit=10)

    assert [entry.time for entry in page.entries] == [2]
    assert await log.retention_ms(AUDIT) == 90 * DAY
