"""What a generation that is being filled reads of the truth: no version that was replaced before."""

from typing import TYPE_CHECKING, cast

from services.ingest_worker.fill_records import PastTruth, past_truth_of
from shared.contracts import truth_key
from shared.state.generations import Registered
from shared.topics import EXTRACTED
from tests.fakes.log import MemoryLog
from tests.fakes.state import GENERATION, ledger_and_index
from tests.fakes.store import MemoryStore

if TYPE_CHECKING:
    from shared.log import Log

KEY = truth_key("d", 1)


async def shown(*values: bytes | None) -> list[bool]:
    """Return which of a version's records are shown, the last of which came after the generation had begun."""
    _, index = await ledger_and_index(MemoryStore())
    log = MemoryLog({EXTRACTED: 1}, (0,))
    for value in values[:-1]:
        log.append(EXTRACTED, value, key=KEY, partition=0)
    truth = PastTruth(None, index, cast("Log", log))
    found = [await truth.shows(log.records(EXTRACTED)[0])]
    log.append(EXTRACTED, values[-1], key=KEY, partition=0)
    return found + [await truth.shows(record) for record in log.records(EXTRACTED)[1:]]


async def test_a_version_that_was_replaced_is_left_out_unless_it_was_published_again() -> None:
    assert await shown(b"1", b"1") == [True, True]
    assert await shown(b"1", None, b"1") == [False, False, True]
    assert await shown(b"1", None, b"1", b"1") == [True, True, True, True]


async def test_what_is_replaced_later_is_shown_and_replaced() -> None:
    assert await shown(b"1", None) == [True, True]


async def test_a_full_generation_needs_everything() -> None:
    _, index = await ledger_and_index(MemoryStore())
    log = cast("Log", MemoryLog({EXTRACTED: 1}, (0,)))
    filled = [
        Registered(generation=GENERATION, served=served, built=built, before=before)
        for served, built, before in ((True, False, ()), (True, True, ("lost",)), (False, True, ()))
    ]
    filling = [
        Registered(generation=GENERATION, served=served, before=before)
        for served, before in ((True, ("lost",)), (False, ()))
    ]

    assert [past_truth_of(each, index, log) for each in filled] == [None, None, None]
    assert None not in [past_truth_of(each, index, log) for each in filling]
