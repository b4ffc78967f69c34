"""How a version's end is written when the entry was read before, on a ledger in memory."""

import time
from typing import Any

import msgspec

from shared.state.ledger import Entry, Ledger
from shared.state.rebuild_gate import GRACE_S
from shared.state.statuses import Seen, Statuses
from tests.builders import PLACE, a_version, an_entry
from tests.fakes.store import MemoryStore

NAME = "00000000-0000-0000-0000-000000000001"
VERSION = a_version(document_id=NAME)


class Reading(MemoryStore):
    """A store that counts the whole entries that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0

    async def retrieve(self, name: str, ids: Any, **options: Any) -> Any:
        self.entries += options.get("fields") is None
        return await super().retrieve(name, ids, **options)


async def begun() -> tuple[Reading, Ledger, Statuses, list[str]]:
    store, told = Reading(), list[str]()
    ledger = Ledger(store)
    await ledger.create()

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any:
        told.append(topic)

    return store, ledger, Statuses(ledger, publish), told


def accepted(_: Entry | None) -> Entry:
    return an_entry(NAME, accepted=VERSION.version, place=PLACE, published=(3, VERSION.version))


def tagged(entry: Entry | None) -> Entry | None:
    return None if entry is None else msgspec.structs.replace(entry, published=(4, *entry.published))


async def test_an_entry_that_was_read_before_is_not_read_again() -> None:
    store, ledger, statuses, told = await begun()
    seen = await ledger.update(NAME, accepted)
    store.entries = 0

    await statuses.applied(VERSION, 2, {3}, Seen(seen, time.monotonic()))

    assert (store.entries, told) == (0, ["documents.status"])
    entry = await ledger.get(NAME)
    assert entry is not None
    assert (entry.last.status, entry.last.chunk_count, entry.published) == ("created", 2, (VERSION.version,))


async def test_an_entry_that_has_changed_since_keeps_the_change() -> None:
    _, ledger, statuses, told = await begun()
    seen = await ledger.update(NAME, accepted)
    await ledger.update(NAME, tagged)

    await statuses.applied(VERSION, 2, {3}, Seen(seen, time.monotonic()))

    entry = await ledger.get(NAME)
    assert entry is not None
    assert (entry.last.status, entry.published, told) == ("created", (4, VERSION.version), ["documents.status"])


async def test_an_entry_that_was_not_there_before_is_looked_for_again() -> None:
    _, ledger, statuses, told = await begun()
    await ledger.update(NAME, accepted)

    await statuses.applied(VERSION, 2, (), Seen(None, time.monotonic()))

    entry = await ledger.get(NAME)
    assert entry is not None
    assert (entry.last.status, told) == ("created", ["documents.status"])


async def test_an_entry_from_before_a_rebuild_does_not_replace_a_newer_one_of_the_same_revision() -> None:
    _, ledger, statuses, told = await begun()
    seen = await ledger.update(NAME, accepted)
    _, rebuilt, statuses, told = await begun()
    newer = VERSION.version + 1
    await rebuilt.update(NAME, lambda _: an_entry(NAME, accepted=newer, place=PLACE, published=(newer,)))

    await statuses.applied(VERSION, 2, (), Seen(seen, time.monotonic() - GRACE_S))

    entry = await rebuilt.get(NAME)
    assert entry is not None
    assert (entry.accepted.version, entry.published, told) == (newer, (newer,), [])
