"""Which rewrites of the files count for an erasure."""

import asyncio

import pytest

from services.query_api.ops.file_rewrites import ErasureReceipt, FileRewrites, rewrite_periodically
from services.query_api.ops.purge import KeptPart
from shared.errors import Unavailable

PART = KeptPart("log", forgotten=True, sentence="the log's file was rewritten")


class Files:
    """Files whose rewrite ends when the test says so."""

    def __init__(self) -> None:
        self.runs = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def rewrite(self) -> list[KeptPart]:
        self.runs += 1
        self.begun.set()
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return [PART]


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def rewrites(files: Files) -> FileRewrites:
    return FileRewrites(files.rewrite)


async def test_given_nobody_waits_then_upkeep_rewrites_nothing(files: Files, rewrites: FileRewrites) -> None:
    files.go.set()
    rewrites.receipt()

    await rewrites.keep_up()

    assert files.runs == 0


async def test_given_somebody_waits_then_upkeep_rewrites_once(files: Files, rewrites: FileRewrites) -> None:
    files.go.set()
    receipt = rewrites.receipt()
    assert not rewrites.covers(receipt)

    await rewrites.keep_up()
    await rewrites.keep_up()

    assert (files.runs, rewrites.covers(receipt)) == (1, True)
    assert not rewrites.covers(rewrites.receipt()), "an erasure that comes later has to wait again"


async def test_a_rewrite_that_began_before_the_erasure_does_not_count(files: Files, rewrites: FileRewrites) -> None:
    running = asyncio.create_task(rewrites.now())
    await files.begun.wait()
    receipt = rewrites.receipt()
    asked_meanwhile = rewrites.covers(receipt)
    files.go.set()
    await running

    assert (asked_meanwhile, rewrites.covers(receipt)) == (False, False)
    await rewrites.keep_up()
    assert (files.runs, rewrites.covers(receipt)) == (2, True)


async def test_a_rewrite_that_fails_is_tried_again_by_the_next_upkeep(files: Files, rewrites: FileRewrites) -> None:
    files.go.set()
    files.error = Unavailable("the disk is full")
    receipt = rewrites.receipt()
    rewrites.covers(receipt)

    await rewrites.keep_up()
    failed = rewrites.covers(receipt)
    files.error = None
    await rewrites.keep_up()

    assert (failed, files.runs, rewrites.covers(receipt)) == (False, 2, True)


async def test_any_rewrite_counts_for_a_receipt_of_an_earlier_process(files: Files, rewrites: FileRewrites) -> None:
    files.go.set()
    receipt = ErasureReceipt("an earlier one", 7)
    before = rewrites.covers(receipt)

    assert await rewrites.now() == [PART]

    assert (before, rewrites.covers(receipt)) == (False, True)


async def test_upkeep_goes_on_for_ever(files: Files, rewrites: FileRewrites) -> None:
    rewrites.covers(rewrites.receipt())
    keeping = asyncio.create_task(rewrite_periodically(rewrites, 0.001))
    async with asyncio.timeout(20):
        await files.begun.wait()
    keeping.cancel()

    assert files.runs == 1


async def test_calls_that_come_during_a_rewrite_share_the_next_one(files: Files, rewrites: FileRewrites) -> None:
    first = asyncio.create_task(rewrites.now())
    await files.begun.wait()
    others = [asyncio.create_task(rewrites.now()) for _ in range(8)]
    await asyncio.sleep(0)
    files.go.set()

    assert await asyncio.gather(first, *others) == [[PART]] * 9
    assert files.runs == 2, "the first one began before they came"
