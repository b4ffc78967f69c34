"""Versions leave the truth by a tombstone first, and the ledger's list afterwards."""

from collections.abc import Mapping
from uuid import UUID

import msgspec
import pytest

from shared.contracts import DEFAULT_TENANT, truth_key
from shared.state import version_deletion
from shared.state.index import Head
from shared.state.ledger import MOST_FAILED
from shared.topics import EXTRACTED
from tests.builders import an_entry
from tests.fakes.state import ledger_and_index
from tests.fakes.store import MemoryStore

DOCUMENT = str(UUID(int=1))


async def test_forgotten_versions_are_tombstoned_and_leave_the_list() -> None:
    ledger, _ = await ledger_and_index(MemoryStore())
    listed = msgspec.structs.replace(an_entry(DOCUMENT), published=(3, 5, 8))
    await ledger.update(DOCUMENT, lambda _: listed)
    published: list[tuple[str, bytes | None, bytes, bytes | None]] = []

    async def publish(
        topic: str,
        value: bytes | None,
        *,
        key: bytes,
        route: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        published.append((topic, value, key, route))

    await version_deletion.forget(ledger, publish, DOCUMENT, [8, 3])

    entry = await ledger.get(DOCUMENT)
    assert published == [(EXTRACTED, None, truth_key(DOCUMENT, version), DOCUMENT.encode()) for version in (3, 8)]
    assert entry is not None
    assert entry.published == (5,)


async def test_where_a_tombstone_is_not_published_the_version_stays_listed() -> None:
    ledger, _ = await ledger_and_index(MemoryStore())
    listed = msgspec.structs.replace(an_entry(DOCUMENT), published=(3,))
    await ledger.update(DOCUMENT, lambda _: listed)

    async def publish(
        topic: str,
        value: bytes | None,
        *,
        key: bytes,
        route: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        raise ConnectionError("the log is away")

    with pytest.raises(ConnectionError):
        await version_deletion.forget(ledger, publish, DOCUMENT, [3])

    entry = await ledger.get(DOCUMENT)
    assert entry is not None
    assert entry.published == (3,), "the sweep tries again"


FIRST_FAILURES = (2, 3)
FAILED = (*FIRST_FAILURES, *range(4, 4 + MOST_FAILED))


def head_of(version: int) -> Head:
    return Head(document_id=DOCUMENT, version=version, tenant=DEFAULT_TENANT, source="s", path="p")


@pytest.mark.parametrize("answers", [1, 2])
async def test_a_surplus_of_failed_versions_leaves_the_truth_and_can_not_answer_any_more(answers: int) -> None:
    ledger, index = await ledger_and_index(MemoryStore())
    await index.switch(head_of(answers))
    newest = FAILED[-1] + 1
    listed = an_entry(DOCUMENT, accepted=newest, published=(1, *FAILED, newest), failed=FAILED)
    await ledger.update(DOCUMENT, lambda _: listed)
    gone = list[int]()

    async def publish(topic: str, value: bytes | None, *, key: bytes, **_: object) -> None:
        version = int(key.split(b"/")[1])
        assert (topic, value, key) == (EXTRACTED, None, truth_key(DOCUMENT, version))
        assert (await index.switch(head_of(version), 1)).version == answers, "a redrive that was under way"
        gone.append(version)

    removed = await version_deletion.forget_surplus(index, ledger, publish, DOCUMENT)
    again = await version_deletion.forget_surplus(index, ledger, publish, DOCUMENT)

    wanted = [version for version in FIRST_FAILURES if version != answers]
    entry = await ledger.get(DOCUMENT)
    assert (removed, again, gone) == (len(wanted), 0, wanted)
    assert entry is not None
    assert entry.published == tuple(each for each in listed.published if each not in wanted)
    assert entry.failed == tuple(each for each in FAILED if each not in wanted)
    assert [each for each in (1, *FAILED, newest) if entry.was_forgotten(each)] == wanted


async def test_where_the_tombstone_of_a_surplus_version_is_not_published_it_stays_listed() -> None:
    ledger, index = await ledger_and_index(MemoryStore())
    listed = an_entry(DOCUMENT, accepted=99, published=(*FAILED, 99), failed=FAILED)
    await ledger.update(DOCUMENT, lambda _: listed)

    async def publish(*_: object, **__: object) -> None:
        raise ConnectionError("the log is away")

    with pytest.raises(ConnectionError):
        await version_deletion.forget_surplus(index, ledger, publish, DOCUMENT)

    entry = await ledger.get(DOCUMENT)
    assert entry is not None
    # The next failure tries again.
    assert (entry.published, entry.failed, entry.forgotten) == ((*FAILED, 99), FAILED, 0)
