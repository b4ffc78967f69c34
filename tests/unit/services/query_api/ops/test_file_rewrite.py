"""Words by which a text is found again, and the search for them."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from services.query_api.ops import file_scan
from services.query_api.ops.file_rewrite import (
    ErasureReceipt,
    FileRewrites,
    KeptPart,
    PartMatch,
    canary,
    seen,
)
from shared.errors import Unavailable
from shared.log.sqlite import SqliteLog
from shared.topics import pipeline_topics


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Open from ten.\nClosed on Mondays.", "Closed on Mondays."),
        ('He said "the heron waits" and left.', "the heron waits"),  # JSON would escape the quotes
        ("short\nlines\nonly", None),
        ("", None),
    ],
)
def test_a_canary_is_the_longest_run_that_every_file_holds_as_it_is(text: str, words: str | None) -> None:
    assert canary(text) == words


def test_a_canary_of_a_long_text_is_cut_between_words() -> None:
    text = "wonderful " * 30

    words = canary(text)

    assert words is not None
    assert 12 <= len(words) <= 40
    assert set(words.split()) == {"wonderful"}


async def test_words_are_found_in_every_file_wherever_they_stand(tmp_path: Path) -> None:
    block = 1 << 20
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "across").write_bytes(b"." * (block - 5) + b"the heron waits" + b"." * block)
    (tmp_path / "deep" / "again").write_bytes(b"the heron waits")
    (tmp_path / "both").write_bytes(b"the heron waits, closed on Mondays")
    (tmp_path / "none").write_bytes(b"the heron is waiting")
    (tmp_path / "link").symlink_to("both")

    count, found = await seen(tmp_path, ["the heron waits", "closed on Mondays"])

    assert count == 4
    assert found == [PartMatch("both", 1, 2), PartMatch("deep", 2, 1)]


async def test_a_search_leaves_the_locks_of_a_log_in_the_folder(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite")
    await log.start()
    try:
        await log.ensure_topics(pipeline_topics("g", partitions=1, replication=None))
        await seen(tmp_path, ["secret"])

        # Another process comes and goes: without our locks, it takes itself for the last one, and tidies up.
        read = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM topic').fetchone()"
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", read, str(tmp_path / "log.sqlite"))
        assert await other.wait() == 0

        assert (tmp_path / "log.sqlite-wal").exists()
    finally:
        await log.stop()


async def test_a_file_whose_name_is_no_utf_8_is_shown_nevertheless(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_bytes(b"secret")

    assert await seen(tmp_path, ["secret"]) == (1, [PartMatch("caf\N{REPLACEMENT CHARACTER}", 1, 1)])


async def test_a_search_that_breaks_off_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_scan, "__file__", str(tmp_path / "gone.py"))

    with pytest.raises(Unavailable, match=r"can't be searched: .*gone\.py"):
        await seen(tmp_path, ["secret"])


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

    with pytest.raises(Unavailable):
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


async def test_calls_that_come_during_a_rewrite_share_the_next_one(files: Files, rewrites: FileRewrites) -> None:
    first = asyncio.create_task(rewrites.now())
    await files.begun.wait()
    others = [asyncio.create_task(rewrites.now()) for _ in range(8)]
    await asyncio.sleep(0)
    files.go.set()

    assert await asyncio.gather(first, *others) == [[PART]] * 9
    assert files.runs == 2, "the first one began before they came"
