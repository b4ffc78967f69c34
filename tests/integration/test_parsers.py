"""The parser pool on real processes, with files that hang, swell and crash."""

import asyncio
import gc
import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import structlog

from services.ingest_worker import parser_child
from services.ingest_worker.extract import Extraction, Hints
from services.ingest_worker.parser_child import MOST_FRAME, ParserPart, ParserRead, Reply
from services.ingest_worker.parsers import ParserPool, alone
from shared.contracts import Chunk, DocumentExtracted, PreparedChunk
from shared.embedder import TokenCounter
from shared.embedder.refusals import EstimatedTokens
from shared.errors import Rejected, RetryLater, Unavailable
from shared.log import Record
from shared.log.consume import Handle
from shared.runtime.logging_setup import configure_logging
from tests.builders import an_event
from tests.fakes.consumer import consume_all
from tests.fakes.state import GENERATION
from tests.fakes.tokens import Words
from tests.integration.rough_parser import RoughWords
from tests.loop_holds import least_cpu_s
from tests.selection import CI_ONLY
from tests.unit.services.ingest_worker.files import a_pdf
from tests.unit.services.operator_cli.verify.builders import a_version

_PROJECT = Path(__file__).resolve().parents[2]
_HANG_GUARD_S = 120
_PACKAGE = b'<p:package xmlns:p="http://schemas.microsoft.com/office/2006/xmlPackage"></p:package>'
_ROUGH = "tests.integration.rough_parser"


def _pool(
    size: int = 1,
    *,
    cpu_s: float = 20.0,
    wall_factor: float = 1.0,
    patience_s: float = 20.0,
    memory_mb: int = 512,
    image_memory_mb: int = 1200,
    kept: int = 6,
    most_text: int = 1_000_000,
    confined: bool = False,  # rough files write to tell how far they are
    program: str = _ROUGH,
) -> ParserPool:
    return ParserPool(
        size,
        cpu_s=cpu_s,
        wall_factor=wall_factor,
        patience_s=patience_s,
        memory_mb=memory_mb,
        image_memory_mb=image_memory_mb,
        kept=kept,
        most_text=most_text,
        confined=confined,
        program=program,
    )


def _rough(command: str, argument: object = "-", pages: int = 0) -> bytes:
    # Long enough not to be read in this process.
    return f"ROUGH {command} {argument} {pages} ".encode() + b"." * (65 * 1024)


@pytest.fixture
async def make_pool() -> AsyncIterator[Callable[..., ParserPool]]:
    pools: list[ParserPool] = []

    def make(*args: Any, **limits: Any) -> ParserPool:
        pools.append(_pool(*args, **limits))
        return pools[-1]

    yield make
    for pool in pools:
        await pool.close()


@pytest.fixture
def pool(make_pool: Callable[..., ParserPool]) -> ParserPool:
    return make_pool()


async def _until(path: Path) -> None:
    gone_by = time.monotonic() + _HANG_GUARD_S
    while not path.exists():  # noqa: ASYNC240 - another process makes it
        assert time.monotonic() < gone_by
        await asyncio.sleep(0.01)


async def _read(
    pool: ParserPool, command: str, argument: object = "-", pages: int = 0, tenant: str = "default"
) -> Extraction:
    return await pool.extract(_rough(command, argument, pages), Hints(filename="x.rough"), tenant=tenant)


async def test_records_that_wait_for_a_parser_hold_up_none_that_needs_none(pool: ParserPool, tmp_path: Path) -> None:
    hanging = asyncio.create_task(_read(pool, "hang", tmp_path / "hangs"))
    await _until(tmp_path / "hangs")
    ended = list[int]()

    async def handle(record: Record) -> None:
        if record.offset < 5:
            await _read(pool, "pid")
        else:
            hanging.cancel()
        ended.append(record.offset)

    await consume_all(handle, [an_event(offset, b"k%d" % offset) for offset in range(6)], key_concurrency=2)

    assert ended[0] == 5


async def test_long_texts_leave_threads_and_turns_to_others(pool: ParserPool) -> None:
    go = threading.Event()

    class Held(Words):
        def count(self, texts: Sequence[str]) -> list[int]:
            go.wait(_HANG_GUARD_S)
            return super().count(texts)

    async def chunked(text: str, tenant: str, tokens: TokenCounter) -> tuple[Chunk, ...]:
        event = DocumentExtracted(document=msgspec.structs.replace(a_version(), tenant=tenant), text=text)
        return await pool.chunk(event, text, GENERATION, tokens)

    long = "Some words of a long text. " * 50_000
    many = [asyncio.create_task(chunked(long, "many", Held())) for _ in range(40)]
    try:
        async with asyncio.timeout(20):
            await asyncio.to_thread(lambda: None)
            assert await chunked("Some words of a text. " * 1000, "many", Words())
            assert await chunked(long[: 2 << 19], "other", Words())
    finally:
        go.set()
        for each in many:
            each.cancel()
        await asyncio.gather(*many, return_exceptions=True)


async def _process(pool: ParserPool, tenant: str = "default") -> int:
    return int((await _read(pool, "pid", tenant=tenant)).text)


async def test_pages_and_pdfs_are_read_by_the_real_program(make_pool: Callable[..., ParserPool]) -> None:
    pool = make_pool(program=parser_child.__name__, confined=True)
    page = "<html><title>Tea</title><p>" + "Boil the water first. " * 4000

    read = await pool.extract(page.encode(), Hints(filename="tea.html", media_type="text/html"), tenant="default")
    report = await pool.extract(a_pdf("Figures.", "More."), Hints(filename="report.pdf"), tenant="default")

    assert (read.title, read.document_type) == ("Tea", "html")
    assert (report.text, len(report.pages)) == ("Figures.\n\nMore.", 2)


@pytest.mark.parametrize(
    ("name", "data"), [("a.md", "<table><tr><td>a<td>b</table>".encode("utf-16")), ("a.txt", _PACKAGE)]
)
async def test_markup_is_never_parsed_in_the_calling_process(pool: ParserPool, name: str, data: bytes) -> None:
    await pool.close()

    with pytest.raises(Unavailable):
        await pool.extract(data, Hints(filename=name), tenant="default")
    assert (await pool.extract(b"# Tea", Hints(filename=name), tenant="default")).text == "# Tea"


@pytest.mark.feature(75)
async def test_one_process_reads_one_document_after_the_other(pool: ParserPool) -> None:
    assert await _process(pool) == await _process(pool)


@CI_ONLY
async def test_more_text_than_the_setting_allows_is_refused(make_pool: Callable[..., ParserPool]) -> None:
    pool = make_pool(program=parser_child.__name__, confined=True, most_text=2000)
    small, large = ("".join(f"<p>Line {n} says so.</p>" for n in range(count)) for count in (50, 5000))
    said = r"^large\.html holds [\d,]+ characters of text, more than the 2,000 of SLUICE_MAX_TEXT$"

    with pytest.raises(Rejected, match=said) as refused:
        await pool.extract(large.encode(), Hints(filename="large.html"), tenant="default")

    assert refused.value.code == "too_large"
    assert (await pool.extract(small.encode(), Hints(filename="small.html"), tenant="default")).text


@CI_ONLY
async def test_tenants_do_not_share_a_process(make_pool: Callable[..., ParserPool]) -> None:
    pool = make_pool(1, kept=2)

    one, two = await _process(pool, "one"), await _process(pool, "two")
    again = [await _process(pool, "one"), await _process(pool, "two")]
    three = await _process(pool, "three")

    assert again == [one, two]
    assert len({one, two, three}) == 3
    assert await _process(pool, "two") == two  # "one" was unused for longest and made room
    assert await _process(pool, "one") not in (one, two, three)


@pytest.mark.feature(253)
@CI_ONLY
async def test_a_tenants_many_files_delay_another_ones_by_one(make_pool: Callable[..., ParserPool]) -> None:
    pool, read = make_pool(1), list[str]()

    async def reading(tenant: str) -> None:
        await _process(pool, tenant)
        read.append(tenant)

    await asyncio.gather(*map(reading, ["crowd"] * 4 + ["other"]))

    assert read == ["crowd", "crowd", "other", "crowd", "crowd"]


async def test_a_small_text_needs_no_process(make_pool: Callable[..., ParserPool]) -> None:
    pool = make_pool(program="no.such.module")

    assert (await pool.extract(b"# Tea\n\nBoil.", Hints(filename="tea.md"), tenant="default")).title == "Tea"


async def test_a_refusal_comes_back_with_its_code_and_spares_the_process(pool: ParserPool) -> None:
    process = await _process(pool)

    with pytest.raises(Rejected, match=r"^scan\.pdf holds no text, only 1 page image$") as caught:
        await pool.extract(a_pdf(""), Hints(filename="scan.pdf"), tenant="default")

    assert caught.value.code == "empty"
    assert await _process(pool) == process


@pytest.mark.parametrize(
    ("command", "factor", "limit", "error"),
    [
        ("hang", 2.0, r"1\.6 s", RetryLater),
        pytest.param("spin", 20.0, r"0\.8 s of CPU time", Rejected, marks=CI_ONLY),
    ],
)
async def test_a_document_that_takes_too_long_is_stopped_and_the_next_one_is_read(
    make_pool: Callable[..., ParserPool],
    command: str,
    factor: float,
    limit: str,
    error: type[Rejected | RetryLater],
    tmp_path: Path,
) -> None:
    pool = make_pool(cpu_s=0.3, wall_factor=factor)
    process = await _process(pool)

    with pytest.raises(error, match=rf"^x\.rough took longer than {limit} to read$") as caught:
        await _read(pool, command, tmp_path / "begun", pages=5)

    assert (caught.value.code, getattr(caught.value, "tries", 1)) == ("timeout", 3 if error is RetryLater else 1)
    assert not psutil.pid_exists(process)
    assert await _process(pool) != process


async def test_time_that_the_machine_has_for_others_does_not_count(make_pool: Callable[..., ParserPool]) -> None:
    pool = make_pool(cpu_s=0.3, wall_factor=1000.0)

    assert int((await _read(pool, "wait", 0.6)).text) > 0


@CI_ONLY
async def test_page_images_earn_time_and_memory_for_their_document_alone(make_pool: Callable[..., ParserPool]) -> None:
    pool = make_pool(cpu_s=1.0, memory_mb=150)
    process = await _process(pool)

    assert (await _read(pool, "image")).text == str(200 << 20)
    assert await _process(pool) != process  # what it left behind would be held against the next

    with pytest.raises(Rejected, match=r"^x\.rough needs more than 170 MB of memory to read$"):
        await _read(make_pool(memory_mb=150, image_memory_mb=170), "image")


@CI_ONLY
@pytest.mark.parametrize("command", ["balloon", "grab"])
async def test_a_document_that_takes_too_much_memory_is_stopped(
    make_pool: Callable[..., ParserPool], command: str
) -> None:
    pool = make_pool(memory_mb=150)

    with pytest.raises(Rejected, match=r"^x\.rough needs more than 150 MB of memory to read$") as caught:
        await _read(pool, command)

    assert caught.value.code == "too_large"
    assert await _process(pool)


@CI_ONLY
async def test_a_crash_is_tried_once_more_in_a_new_process(pool: ParserPool, tmp_path: Path) -> None:
    process = await _process(pool)

    assert int((await _read(pool, "crash-once", tmp_path / "crashed")).text) != process


@CI_ONLY
async def test_a_document_that_crashes_twice_is_damaged(pool: ParserPool) -> None:
    with pytest.raises(Rejected, match=r"^x\.rough is damaged: it crashed the parser \(signal 6\)$") as caught:
        await _read(pool, "crash")

    assert caught.value.code == "damaged"
    assert await _process(pool)


@CI_ONLY
async def test_processes_that_died_idle_are_no_documents_fault(make_pool: Callable[..., ParserPool]) -> None:
    pool = make_pool(2)
    idle = await asyncio.gather(*(_read(pool, "wait", 0.5) for _ in range(2)))
    dead = {int(each.text) for each in idle}
    assert len(dead) == 2

    for each in dead:  # as by the system, short of memory
        os.kill(each, signal.SIGKILL)
    while any(map(psutil.pid_exists, dead)):  # noqa: ASYNC110 - other processes
        await asyncio.sleep(0.01)

    assert await _process(pool) not in dead


async def test_a_bug_of_ours_is_loud_and_brings_its_traceback(pool: ParserPool) -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    with pytest.raises(RuntimeError) as raised:
        await _read(pool, "bug")
    structlog.get_logger().error("bug", exc_info=raised.value)

    assert "KeyError: 'a bug of ours'" in json.loads(stream.getvalue().splitlines()[-1])["exception"]


async def test_what_a_library_prints_is_no_answer(pool: ParserPool) -> None:
    assert (await _read(pool, "print")).text.isdigit()


async def test_a_large_document_comes_whole(pool: ParserPool) -> None:
    number = 100_000

    read = await _read(pool, "large", number)

    assert read.text == "😀x" * number
    assert read.links == tuple(f"https://example.org/{at}" for at in range(number // 10))
    assert [chunk.text for chunk in read.chunks] == [str(at) for at in range(number // 200)]
    assert read.pages == tuple(range(number // 50))


@CI_ONLY
@pytest.mark.parametrize(
    "shape",
    ["bytes", "rubbish", "text", "links", "long-links", "chunks", "long-chunks", "pages", "nothing", "time"],
)
async def test_a_process_that_sends_more_than_a_document_holds_is_ended(pool: ParserPool, shape: str) -> None:
    async with asyncio.timeout(_HANG_GUARD_S):
        with pytest.raises(Rejected) as refused:
            await _read(pool, "flood", shape)

    assert refused.value.code == "damaged"
    assert await _process(pool)


@pytest.mark.parametrize(
    "worst",
    [
        ParserPart(text="😀" * (MOST_FRAME // 4 - 20)),
        ParserPart(links=("é",) * (MOST_FRAME // 3 - 30)),
        ParserPart(chunks=(PreparedChunk(text=""),) * (MOST_FRAME // 7 - 20)),
        ParserPart(chunks=(PreparedChunk(text="", metadata={"a": [[]] * (MOST_FRAME - 200)}),)),
        ParserRead(Extraction(text="", document_type="x", pages=(1,) * (MOST_FRAME - 300))),
    ],
    ids=["text", "links", "chunks", "metadata", "pages"],
)
def test_a_frame_is_decoded_in_a_moment_whatever_it_holds(worst: Reply) -> None:
    decoder, frame = msgspec.msgpack.Decoder(Reply), msgspec.msgpack.encode(worst)
    assert 0.9 * MOST_FRAME < len(frame) <= MOST_FRAME

    took = least_cpu_s(lambda: decoder.decode(frame), 0.25)  # 5 times what a callback of the loop may take

    assert took <= 0.25


@CI_ONLY
async def test_others_go_on_beside_a_document_that_hangs(make_pool: Callable[..., ParserPool], tmp_path: Path) -> None:
    pool = make_pool(2)
    hanging = asyncio.create_task(_read(pool, "hang", tmp_path / "begun"))
    await _until(tmp_path / "begun")

    others = await asyncio.gather(*(_process(pool) for _ in range(5)))

    assert len(set(others)) == 1
    assert not hanging.done()
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)


async def test_a_file_that_may_wait_only_so_long_is_told_that_the_parsers_are_busy(
    make_pool: Callable[..., ParserPool], tmp_path: Path
) -> None:
    pool = make_pool(1)
    hanging = asyncio.create_task(_read(pool, "hang", tmp_path / "begun"))
    await _until(tmp_path / "begun")

    with pytest.raises(Unavailable, match=r"^all parsers are busy with other files$"):
        await pool.extract(_rough("pid"), Hints(filename="x.rough"), tenant="default", wait_s=0.05)

    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    assert await _process(pool)  # the turn that nobody took is free


async def _slow_turns_taken(pool: ParserPool) -> None:
    async with asyncio.timeout(_HANG_GUARD_S):
        while not pool._slow_turns.locked("default"):  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)


@CI_ONLY
async def test_documents_that_hang_get_half_of_the_processes_and_the_others_the_rest(
    make_pool: Callable[..., ParserPool], tmp_path: Path
) -> None:
    pool = make_pool(2, cpu_s=300.0, patience_s=1.0)
    hanging = [asyncio.create_task(_read(pool, "hang", tmp_path / f"begun{number}")) for number in range(3)]
    for number in range(3):  # each has had its chance
        await _until(tmp_path / f"begun{number}")

    async with asyncio.timeout(_HANG_GUARD_S):
        others = [await _process(pool) for _ in range(3)]

    assert len(set(others)) == 1
    assert not any(each.done() for each in hanging)
    assert len(pool._busy) == 1
    for each in hanging:
        each.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


@CI_ONLY
async def test_a_document_that_was_stopped_to_make_room_has_all_its_time_later(
    make_pool: Callable[..., ParserPool], tmp_path: Path
) -> None:
    pool = make_pool(2, cpu_s=3.0, patience_s=0.1)
    hanging = asyncio.create_task(_read(pool, "hang", tmp_path / "begun"))
    await _slow_turns_taken(pool)

    late = await _read(pool, "hang-once", tmp_path / "begun-late")

    assert int(late.text) > 0
    assert (tmp_path / "begun-late").exists()
    with pytest.raises(RetryLater, match="took longer than 3 s"):
        await hanging


@CI_ONLY
async def test_a_document_that_crashed_is_tried_again_beside_the_slow_ones_only(
    make_pool: Callable[..., ParserPool], tmp_path: Path
) -> None:
    pool = make_pool(2, cpu_s=300.0, patience_s=1.0)
    hanging = asyncio.create_task(_read(pool, "hang", tmp_path / "begun"))
    await _slow_turns_taken(pool)
    crashed = asyncio.create_task(_read(pool, "crash-once", tmp_path / "crashed"))
    await _until(tmp_path / "crashed")

    async with asyncio.timeout(_HANG_GUARD_S):
        assert await _process(pool)
    assert not crashed.done()

    hanging.cancel()
    assert int((await crashed).text) > 0


@CI_ONLY
async def test_closing_tells_those_who_wait_for_room_as_well(
    make_pool: Callable[..., ParserPool], tmp_path: Path
) -> None:
    pool = make_pool(2, cpu_s=300.0, patience_s=0.1)
    hanging = [asyncio.create_task(_read(pool, "hang", tmp_path / f"begun{number}")) for number in range(4)]
    for number in range(4):
        await _until(tmp_path / f"begun{number}")

    await pool.close()

    async with asyncio.timeout(_HANG_GUARD_S):
        outcomes = await asyncio.gather(*hanging, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Unavailable}


@CI_ONLY
async def test_a_cancelled_document_leaves_no_process_behind(pool: ParserPool, tmp_path: Path) -> None:
    process = await _process(pool)
    hanging = asyncio.create_task(_read(pool, "hang", tmp_path / "begun"))
    await _until(tmp_path / "begun")

    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)

    assert not psutil.pid_exists(process)
    assert await _process(pool) != process


async def test_closing_ends_every_process_and_tells_who_waits(
    make_pool: Callable[..., ParserPool], tmp_path: Path
) -> None:
    pool = make_pool(1)
    process = await _process(pool)
    hanging = asyncio.create_task(_read(pool, "hang", tmp_path / "begun"))
    await _until(tmp_path / "begun")
    waiting = asyncio.create_task(_process(pool))
    await asyncio.sleep(0)

    await pool.close()
    await pool.close()

    for outcome in await asyncio.gather(hanging, waiting, return_exceptions=True):
        assert isinstance(outcome, Unavailable)
        assert outcome.sentence == "the parser pool is closed"
    assert not psutil.pid_exists(process)
    with pytest.raises(Unavailable):
        await _process(pool)


async def test_closing_does_not_wait_for_a_document_whose_process_is_only_starting(
    pool: ParserPool, tmp_path: Path
) -> None:
    before = psutil.Process().children()  # servers of other tests, perhaps
    hanging = asyncio.create_task(_read(pool, "hang", tmp_path / "begun"))
    while psutil.Process().children() == before:  # noqa: ASYNC110 - the moment is what is tested
        await asyncio.sleep(0)

    await pool.close()

    with pytest.raises(Unavailable):
        await hanging
    assert not (tmp_path / "begun").exists()


async def test_a_process_that_cannot_start_is_our_fault_not_the_documents(make_pool: Callable[..., ParserPool]) -> None:
    pool = make_pool(program="no.such.module")

    with pytest.raises(Unavailable, match=r"ended before it was ready: .*exit status 1"):
        await pool.extract(a_pdf("Text."), Hints(filename="a.pdf"), tenant="default")


async def test_ctrl_c_is_not_for_parsers(pool: ParserPool) -> None:
    process = await _process(pool)

    os.kill(process, signal.SIGINT)

    assert await _process(pool) == process
    assert os.getpgid(process) != os.getpgid(0)


async def test_a_parser_sees_none_of_our_settings(pool: ParserPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_API_KEYS", "secret-key:default:admin")
    monkeypatch.setenv("SOME_TOKEN", "secret")

    names = (await _read(pool, "environment")).text.split()

    assert "PATH" in names
    assert not [name for name in names if name.startswith("SLUICE_") or "TOKEN" in name]


_PARENT = """
import asyncio, structlog, sys
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
from tests.integration.test_parsers import _pool, _process, _read
async def main():
    pool = _pool()
    print(await _process(pool), flush=True)
    await _read(pool, sys.argv[1], sys.argv[2])
asyncio.run(main())
"""


@CI_ONLY
@pytest.mark.parametrize("command", ["hang", "spin"])
async def test_a_parser_ends_with_a_parent_that_is_killed_in_the_middle(command: str, tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PARENT, command, tmp_path / "begun", stdout=asyncio.subprocess.PIPE, cwd=_PROJECT
    )
    assert parent.stdout is not None
    child = psutil.Process(int(await parent.stdout.readline()))
    await _until(tmp_path / "begun")

    parent.kill()
    await parent.communicate()

    gone_by = time.monotonic() + _HANG_GUARD_S
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < gone_by
        await asyncio.sleep(0.01)


@CI_ONLY
async def test_nothing_is_left_open(tmp_path: Path) -> None:
    before, children = psutil.Process().num_fds(), psutil.Process().children()
    for _ in range(2):
        pool = _pool()
        await _process(pool)
        with pytest.raises(Rejected):
            await _read(pool, "crash")
        await pool.close()
    gc.collect()

    assert psutil.Process().num_fds() <= before + 2  # the loop's own, made on first use
    assert set(psutil.Process().children()) <= set(children)


def _extracted(**fields: object) -> DocumentExtracted:
    return DocumentExtracted(document=a_version(document_type="txt", **fields))


async def test_chunks_are_made_beside_the_loop(pool: ParserPool) -> None:
    text = "\n\n".join(f"Paragraph {number} says little, but says it well." for number in range(100))

    chunks = await pool.chunk(_extracted(chunk_size=400), text, GENERATION, Words())

    assert [text[chunk.start : chunk.end] for chunk in chunks] == [chunk.text for chunk in chunks]
    assert max(len(chunk.text) for chunk in chunks) <= 400


# Records that may have killed the worker


class Work:
    """What handling a record reads or chunks: a small text, which is ROUGH to a parser and plain text to the worker."""

    def __init__(self, pool: ParserPool, text: str, tokens: TokenCounter = RoughWords()) -> None:  # noqa: B008 - frozen
        self._pool = pool
        self._text = text
        self._tokens = tokens
        self.done: list[Extraction | tuple[Chunk, ...]] = []

    async def read(self, _: Record) -> None:
        self.done.append(await self._pool.extract(self._text.encode(), Hints(filename="x.txt"), tenant="default"))

    async def chunk(self, _: Record) -> None:
        made = await self._pool.chunk(_extracted(), self._text, GENERATION, self._tokens)
        self.done.append(made)

    async def chunk_prepared(self, _: Record) -> None:
        prepared = [PreparedChunk(text=text) for text in self._text.split("\n\n")]
        self.done.append(await self._pool.from_prepared(a_version(), prepared, self._tokens))


async def in_a_task_of_its_own(handle: Handle) -> None:
    async def handling() -> None:  # as `consume` does it
        await handle(an_event(0, b"k"))

    await asyncio.create_task(handling())


@CI_ONLY
@pytest.mark.parametrize("step", ["read", "chunk", "chunk_prepared"])
@pytest.mark.parametrize("word", ["crash", "balloon", "spin"])
async def test_a_record_that_kills_its_child_twice_is_rejected_and_the_worker_lives(
    make_pool: Callable[..., ParserPool], tmp_path: Path, step: str, word: str
) -> None:
    work = Work(make_pool(cpu_s=1.0, memory_mb=250), f"ROUGH {word} {tmp_path / 'touched'} 0 ")

    with pytest.raises(Rejected) as caught:
        await in_a_task_of_its_own(alone(getattr(work, step)))

    assert caught.value.code == "killed_the_worker"
    assert ("x.txt" if step == "read" else a_version().path) in caught.value.sentence


@CI_ONLY
async def test_a_record_that_kills_its_child_once_goes_its_way(pool: ParserPool, tmp_path: Path) -> None:
    work = Work(pool, f"ROUGH crash-once {tmp_path / 'touched'} 0 ")

    await in_a_task_of_its_own(alone(work.read))

    [extraction] = work.done
    assert isinstance(extraction, Extraction)
    assert extraction.document_type == "rough", "a child has read it"


@CI_ONLY
async def test_a_child_makes_what_the_worker_makes_itself(
    make_pool: Callable[..., ParserPool],
) -> None:
    pool = make_pool(program=parser_child.__name__, confined=True)
    text = "\n\n".join(f"Paragraph {number} says little, but says it well." for number in range(100))
    work = Work(pool, text, EstimatedTokens(256))
    steps = (work.read, work.chunk, work.chunk_prepared)
    before = set(psutil.Process().children())  # servers of other tests, perhaps

    for step in steps:
        await in_a_task_of_its_own(step)
    assert set(psutil.Process().children()) <= before
    for step in steps:
        await in_a_task_of_its_own(alone(step))

    assert work.done[3:] == work.done[:3]
    assert not set(psutil.Process().children()) <= before


@CI_ONLY
async def test_what_is_handled_alone_is_read_one_at_a_time(
    make_pool: Callable[..., ParserPool], tmp_path: Path
) -> None:
    pool, meanwhile = make_pool(3), tmp_path / "meanwhile"
    first = Work(pool, f"ROUGH hang {tmp_path / 'begun'} 0 ")
    hanging = asyncio.create_task(in_a_task_of_its_own(alone(first.read)))
    await _until(tmp_path / "begun")
    second = asyncio.create_task(in_a_task_of_its_own(alone(Work(pool, f"ROUGH hang {meanwhile} 0 ").read)))
    for _ in range(5):  # in which time the second one would have begun
        await _process(pool)  # an ordinary file isn't kept waiting

    assert not meanwhile.exists()
    hanging.cancel()
    await _until(meanwhile)
    second.cancel()
    await asyncio.gather(hanging, second, return_exceptions=True)


def test_a_pool_of_no_processes_is_refused() -> None:
    with pytest.raises(ValueError, match="parsers 0 must be at least 1"):
        ParserPool(0)
