"""Versions leave the truth by a tombstone first, and the ledger's list afterwards."""

from collections.abc import Mapping
from uuid import UUID

import msgspec
import pytest

from shared.contracts import truth_key
from shared.state import truth
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

    await truth.forget(ledger, publish, DOCUMENT, [8, 3])

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
        await truth.forget(ledger, publish, DOCUMENT, [3])

    entry = await ledger.get(DOCUMENT)
    assert entry is not None
    assert entry.published == (3,), "the sweep tries again"
