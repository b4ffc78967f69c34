"""How a version's end is written on a ledger in memory."""

from typing import Any

from shared.state.ledger import Entry, Ledger
from shared.state.statuses import Statuses
from tests.builders import PLACE, a_version, an_entry
from tests.fakes.store import MemoryStore

NAME = "00000000-0000-0000-0000-000000000001"
VERSION = a_version(document_id=NAME)


async def begun() -> tuple[Ledger, Statuses, list[str]]:
    told = list[str]()
    ledger = Ledger(MemoryStore())
    await ledger.create()

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any:
        told.append(topic)

    return ledger, Statuses(ledger, publish), told


def accepted(_: Entry | None) -> Entry:
    return an_entry(NAME, accepted=VERSION.version, place=PLACE, published=(3, VERSION.version))


async def test_the_end_of_a_version_is_written_and_told() -> None:
    ledger, statuses, told = await begun()
    await ledger.update(NAME, accepted)

    await statuses.applied(VERSION, 2, {3})

    entry = await ledger.get(NAME)
    assert entry is not None
    assert (entry.last.status, entry.last.chunk_count, entry.published) == ("created", 2, (VERSION.version,))
    assert told == ["documents.status"]


async def test_the_end_of_a_version_that_the_ledger_does_not_know_changes_nothing() -> None:
    ledger, statuses, told = await begun()
    newer = VERSION.version + 1
    await ledger.update(NAME, lambda _: an_entry(NAME, accepted=newer, place=PLACE, published=(newer,)))

    await statuses.applied(VERSION, 2)

    entry = await ledger.get(NAME)
    assert entry is not None
    assert (entry.accepted.version, entry.published, told) == (newer, (newer,), [])
