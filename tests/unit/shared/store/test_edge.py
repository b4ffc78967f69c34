"""The process behind `EdgeStore`: who owns it, how it dies, what the others see."""

import asyncio
import fcntl
import os
import resource
import signal
import socket
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import psutil
import pytest
import pytest_asyncio

import shared
from shared.errors import Unavailable
from shared.fair_queue import CALLER
from shared.store import EVERYTHING, Filter, Ids, Leg, Point, PointPage, Range, wire
from shared.store.edge import EdgeStore
from shared.store.input_validation import MAX_DEPTH
from shared.times import PATIENCE
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="module")

HANG_S = 20.0  # nothing here takes this long
ROOT = Path(shared.__file__).parent.parent


def an_id(number: int) -> str:
    return str(UUID(int=number))


def a_point(number: int, **payload: Any) -> Point:
    return Point(id=an_id(number), payload=payload)


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[EdgeStore]:
    store = EdgeStore(folder, **options)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sturdy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EdgeStore]:
    async with opened(tmp_path_factory.mktemp("sturdy")) as store:
        await store.create_collection("a", size=None, sparse=False, indexes={})
        yield store


@pytest_asyncio.fixture(loop_scope="module")
async def store(sturdy: EdgeStore) -> EdgeStore:
    """Return a store for tests that do it no harm, its collection `a` empty."""
    await sturdy.delete("a", Filter(must_not=(Ids(()),)))
    return sturdy


@pytest_asyncio.fixture(loop_scope="module")
async def doomed(folder: Path) -> AsyncIterator[EdgeStore]:
    """Yield a store whose process may be killed."""
    async with opened(folder) as store:
        await store.create_collection("a", size=None, sparse=False, indexes={})
        yield store


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(HANG_S):
        while not await true():  # noqa: ASYNC110 - of another process: there is no event to wait for
            await asyncio.sleep(0.01)


async def back(store: EdgeStore) -> None:
    """Return when the store answers again."""

    async def answers() -> bool:
        with suppress(Unavailable):
            await store.collections()
            return True
        return False

    await until(answers)


async def gone(pid: int) -> None:
    async def is_gone() -> bool:
        with suppress(psutil.NoSuchProcess):
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        return True

    await until(is_gone)


@pytest.mark.skipif(sys.platform != "linux", reason="children are confined on Linux only")
async def test_the_process_is_confined_and_sees_none_of_our_secrets(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_API_KEYS", "secret-key:default:admin")

    async with opened(folder) as store:
        process = Path(f"/proc/{pid_of(store)}")
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
        environment = psutil.Process(pid_of(store)).environ()

    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert not [name for name in environment if name.startswith("SLUICE_")]


@pytest.mark.parametrize("kill", [True, False])
async def test_the_process_that_builds_indexes_ends_with_the_stores(folder: Path, kill: bool) -> None:
    async with opened(folder) as store:
        await store.collections()
        (builder,) = psutil.Process(pid_of(store)).children()
        assert "index_builder" in " ".join(builder.cmdline())
        if kill:
            os.kill(pid_of(store), signal.SIGKILL)
            await gone(builder.pid)
    await gone(builder.pid)


@pytest.mark.feature(121)
async def test_the_confined_process_has_an_index_built(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = asyncio.create_subprocess_exec

    def soon(*command: Any, **options: Any) -> Any:  # from 40 vectors on, not from 20,000
        return start(
            *(each.replace("shared.store.edge_server", "tests.faults.hasty_store") for each in command), **options
        )

    monkeypatch.setattr(asyncio, "create_subprocess_exec", soon)
    drawn = np.random.default_rng(1)
    vectors = [drawn.standard_normal(16, dtype=np.float32) for _ in range(100)]
    async with opened(folder, upkeep_every_s=0.1) as store:
        await store.create_collection("chunks", size=16, sparse=True, indexes={})
        await store.create_collection("a", size=None, sparse=False, indexes={})
        await store.upsert("a", [a_point(n, version=1) for n in range(100)])
        metadata = [{"documentId": an_id(n), "version": 1} for n in range(100)]
        points = [Point(id=an_id(n), payload={"metadata": metadata[n]}, dense=vectors[n]) for n in range(100)]
        await store.upsert("chunks", points)

        async def has_index() -> bool:
            graphs = folder.glob("collections/chunks/*/segments/*/vector_index/graph.bin")  # noqa: ASYNC240 - lazy
            return bool(await asyncio.to_thread(list, graphs))

        await until(has_index)
        for n in (0, 50, 99):
            (hits,) = await store.search("chunks", [Leg(dense=vectors[n])], EVERYTHING, limit=1, heads="a")
            assert [hit.id for hit in hits] == [an_id(n)]


def pid_of(store: EdgeStore) -> int:
    assert store.pid is not None
    return store.pid


# Another program that has the store


@asynccontextmanager
async def program(source: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `source` in an `async def` with `folder`, `EdgeStore` and `say`; kill it in the end."""
    text = f"""
import asyncio, os, sys
from pathlib import Path
from shared.store import Point
from shared.store.edge import EdgeStore
folder = Path(sys.argv[1])
def say(*words):
    print(*words, flush=True)
async def main():
{textwrap.indent(textwrap.dedent(source), "    ")}
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", text, str(folder), cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate(b"")


async def heard(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(HANG_S):
        return (await process.stdout.readline()).decode().strip()


OWNER = """
    store = EdgeStore(folder)
    await store.start()
    await store.create_collection("a", size=None, sparse=False, indexes={})
    await store.upsert("a", [Point(id="00000000-0000-0000-0000-000000000001", payload={"by": "owner"})])
    say(store.pid)
    await asyncio.Event().wait()
"""


# Trap 1: the engine never releases Python's lock


async def test_the_loop_runs_on_while_the_engine_is_at_work(store: EdgeStore) -> None:
    os.kill(pid_of(store), signal.SIGSTOP)  # as good as an operation that takes for ever
    call = asyncio.create_task(store.upsert("a", [a_point(n) for n in range(500)]))
    turns = 0
    while turns < 100:
        await asyncio.sleep(0)
        turns += 1
    pending = not call.done()
    os.kill(pid_of(store), signal.SIGCONT)
    await call

    assert pending
    assert await store.count("a") == 500


async def test_a_read_of_one_collection_does_not_wait_for_all_searches_of_another(folder: Path) -> None:
    async with opened(folder) as store:
        await store.create_collection("many", size=4, sparse=False, indexes={})
        await store.create_collection("few", size=None, sparse=False, indexes={})
        await store.upsert("few", [a_point(1)])
        legs, answered = [Leg(dense=np.ones(4, dtype=np.float32))], list[str]()

        async def search() -> None:
            await store.search("many", legs, EVERYTHING, limit=5, heads="few")
            answered.append("search")

        async def read() -> None:
            await store.retrieve("few", [an_id(1)])
            answered.append("read")

        await asyncio.gather(*(search() for _ in range(40)), read())

    assert len(answered) == 41
    assert answered.index("read") < 20


async def test_few_searches_are_sent_at_once_and_all_are_answered(folder: Path) -> None:
    path, frames = wire.socket_paths(folder)[-1], wire.Frames()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    most = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most
        while data := await reader.read(1 << 20):
            calls = [wire.CALLS.decode(frame) for frame in frames.feed(data)]
            most = max(most, len(calls))
            writer.writelines(wire.done_frame(call.number, wire.SearchFound([[]], {})) for call in calls)
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        store = EdgeStore(folder, attach=True)
        await store.start()
        legs = [Leg(dense=np.ones(4, dtype=np.float32))]
        searches = (store.search("many", legs, EVERYTHING, limit=5, heads="few") for _ in range(20))
        async with asyncio.timeout(HANG_S):
            found = await asyncio.gather(*searches)
        await store.close()
    path.unlink(missing_ok=True)

    assert found == [[[]]] * 20
    assert most == 2


async def test_reads_of_many_points_are_sent_in_turns_of_their_callers(folder: Path) -> None:
    path, frames = wire.socket_paths(folder)[-1], wire.Frames()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    most, answered = 0, list[str]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most
        while data := await reader.read(1 << 20):
            calls = [wire.CALLS.decode(frame) for frame in frames.feed(data)]
            most = max(most, len(calls))
            writer.writelines(wire.done_frame(call.number, PointPage([], None)) for call in calls)
        writer.close()

    async def read(store: EdgeStore, caller: str) -> None:
        CALLER.set(caller)
        await store.scroll("many", limit=1000)
        answered.append(caller)

    async with await asyncio.start_unix_server(serve, path):
        store = EdgeStore(folder, attach=True)
        await store.start()
        async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as tasks:
            for caller in ["crowd"] * 20 + ["other"]:
                tasks.create_task(read(store, caller))
        await store.close()
    path.unlink(missing_ok=True)

    assert most == 1
    assert len(answered) == 21
    assert answered.index("other") < 5


@pytest.mark.parametrize("method", ["scroll", "search"])
async def test_who_waits_for_a_turn_is_patient_while_the_store_answers_others(folder: Path, method: str) -> None:
    path, frames, loop = wire.socket_paths(folder)[-1], wire.Frames(), asyncio.get_running_loop()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    said: dict[str, Any] = {"scroll": PointPage([], None), "search": wire.SearchFound([], {})}
    sent, unanswered = 0, list[str]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while data := await reader.read(1 << 20):
            for frame in frames.feed(data):
                sent += 1
                if sent <= 8:  # then it hangs
                    answer = wire.done_frame(wire.CALLS.decode(frame).number, said[method])
                    loop.call_later(0.25, writer.write, answer)
        writer.close()

    async def read(store: EdgeStore) -> None:
        try:
            if method == "scroll":
                await store.scroll("many", limit=1000)
            else:
                leg = Leg(dense=np.zeros(2, dtype=np.float32))
                await store.search("many", [leg], Filter(), limit=1, heads="heads")
        except Unavailable as error:
            unanswered.append(error.sentence)

    async with await asyncio.start_unix_server(serve, path):
        store = EdgeStore(folder, attach=True)
        await store.start()
        outer = PATIENCE.set(0.75)
        async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as tasks:
            for _ in range(12):
                tasks.create_task(read(store))
        PATIENCE.reset(outer)
        await store.close()
    path.unlink(missing_ok=True)

    assert unanswered == [f"the store gave no answer to {method} within 0.75 s"] * 4
    assert sent == (9 if method == "scroll" else 10)  # the others' time was over while they waited


async def test_an_engine_that_does_not_answer_in_time_is_unavailable(folder: Path) -> None:
    async with opened(folder, timeout_s=0.3) as store:
        os.kill(pid_of(store), signal.SIGSTOP)
        with pytest.raises(Unavailable, match=r"no answer to collections within 0\.3 s"):
            await store.collections()
        os.kill(pid_of(store), signal.SIGCONT)

        await back(store)


async def test_a_rewrite_by_an_engine_that_hangs_is_waited_for_no_longer_than_any_answer(folder: Path) -> None:
    async with opened(folder) as store, opened(folder, attach=True, timeout_s=0.3) as other:
        await store.create_collection("a", size=None, sparse=False, indexes={})
        os.kill(pid_of(store), signal.SIGSTOP)
        with pytest.raises(Unavailable, match=r"no answer to collections within 0\.3 s"):
            await other.rewrite("a")
        os.kill(pid_of(store), signal.SIGCONT)

        await store.rewrite("a")


async def test_who_is_less_patient_is_answered_sooner(store: EdgeStore) -> None:
    os.kill(pid_of(store), signal.SIGSTOP)
    outer = PATIENCE.set(0.3)
    try:
        with pytest.raises(Unavailable, match=r"no answer to count within 0\.3 s"):
            await store.count("a")
    finally:
        PATIENCE.reset(outer)
        os.kill(pid_of(store), signal.SIGCONT)

    await back(store)


# Trap 2: a refused second open breaks the first


async def test_a_second_owner_is_refused_and_the_first_unharmed(store: EdgeStore) -> None:
    pid = pid_of(store)
    await store.upsert("a", [a_point(1)])
    await store.flush()
    await store.upsert("a", [a_point(2)])

    with pytest.raises(Unavailable, match=f"in use by process {pid}"):
        async with opened(store.folder, lock_wait_s=0.1):
            pass

    await store.upsert("a", [a_point(3)])
    await store.flush()
    assert await store.count("a") == 3
    assert store.pid == pid


@CI_ONLY
async def test_an_owner_that_is_not_quite_gone_keeps_the_folder(folder: Path) -> None:
    async with opened(folder) as first:
        await first.create_collection("a", size=None, sparse=False, indexes={})
    descriptor = os.open(folder / "collections" / "a" / "shard" / "wal", os.O_RDONLY)
    # The engine's lock, which a killed process may hold for a moment longer than ours.
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    with pytest.raises(Unavailable, match="in use by process"):
        async with opened(folder, lock_wait_s=0.1):
            pass

    os.close(descriptor)
    async with opened(folder) as second:
        assert await second.collections() == ["a"]


@pytest.mark.slow
@CI_ONLY
async def test_an_owner_waits_for_the_earlier_one_to_be_gone(folder: Path) -> None:
    first = EdgeStore(folder)
    await first.start()
    second = EdgeStore(folder)
    starting = asyncio.create_task(second.start())

    await first.close()
    await starting

    assert await second.collections() == []
    await second.close()


# Traps 3 to 6 are the contract suite's: NaN, a folder with something in it, bare errors, odd payloads.
# Two more: a payload nested too deep can't be read from the log, and unequal sparse lists panic; refused as well.


async def test_nothing_acknowledged_is_lost_when_the_engine_is_killed_under_load(doomed: EdgeStore) -> None:
    deep: dict[str, Any] = {"leaf": 1}
    for _ in range(MAX_DEPTH - 1):
        deep = {"k": deep}
    await doomed.upsert("a", [Point(id=an_id(10**9), payload=deep)])
    acknowledged: set[str] = {an_id(10**9)}
    refused = 0

    async def write(worker: int) -> None:
        nonlocal refused
        for number in range(worker, 10**6, 8):
            try:
                await doomed.upsert("a", [a_point(number, version=number)])
            except Unavailable:
                refused += 1
                return
            acknowledged.add(an_id(number))

    for round_ in range(2):
        writers = [asyncio.create_task(write(8 * 1000 * round_ + worker)) for worker in range(8)]
        await until(_grown(acknowledged, len(acknowledged) + 200))
        os.kill(pid_of(doomed), signal.SIGKILL)
        await asyncio.gather(*writers)
        await back(doomed)
        found = {point.id for point in await doomed.retrieve("a", sorted(acknowledged))}
        assert found == acknowledged

    assert refused == 16


def _grown(acknowledged: set[str], size: int) -> Callable[[], Awaitable[bool]]:
    async def is_grown() -> bool:
        return len(acknowledged) >= size

    return is_grown


async def test_a_restart_that_the_system_refuses_is_tried_again(
    doomed: EdgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refusals = asyncio.create_subprocess_exec, [RuntimeError("no thread"), OSError(11, "no process")]

    async def started(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        if refusals:
            raise refusals.pop()
        return await start(*arguments, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
    os.kill(pid_of(doomed), signal.SIGKILL)

    await until(lambda: _is_empty(refusals))
    await back(doomed)


async def _is_empty(items: list[Any]) -> bool:
    return not items


@CI_ONLY
async def test_a_flush_survives_and_the_heads_are_known_again_after_a_kill(doomed: EdgeStore) -> None:
    vector = np.array([1, 0], np.float32)
    await doomed.create_collection("chunks", size=2, sparse=False, indexes={})
    metadata = {"documentId": an_id(1), "version": 5}
    await doomed.upsert("chunks", [Point(id=an_id(2), payload={"metadata": metadata}, dense=vector)])
    await doomed.upsert("a", [a_point(1, version=4)])
    await doomed.search("chunks", [Leg(dense=vector)], EVERYTHING, limit=1, heads="a")
    await doomed.upsert("a", [a_point(1, version=5)], only_if=Filter(must=(Range("version", lt=5),)))
    await doomed.flush()

    os.kill(pid_of(doomed), signal.SIGKILL)
    with pytest.raises(Unavailable):
        await doomed.flush()
    await back(doomed)

    (hits,) = await doomed.search("chunks", [Leg(dense=vector)], EVERYTHING, limit=1, heads="a")
    assert [hit.id for hit in hits] == [an_id(2)]


@CI_ONLY
async def test_a_full_disk_is_unavailable_and_heals(doomed: EdgeStore) -> None:
    pid = pid_of(doomed)
    await doomed.upsert("a", [a_point(1)])
    largest = 1024 * 1024  # bytes a file may grow to, for this process alone
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, largest))

    async def fill() -> None:
        for number in range(2, 20):
            await doomed.upsert("a", [a_point(number, text="x" * 8 * 1024 * 1024)])

    with pytest.raises(Unavailable):
        await fill()

    await back(doomed)  # in a new process, which may write again
    await doomed.upsert("a", [a_point(50)])
    await doomed.flush()
    assert {an_id(1), an_id(50)} <= {point.id for point in (await doomed.scroll("a", fields=[])).points}


async def test_signals_of_a_terminal_or_a_supervisor_are_the_parents_affair(store: EdgeStore) -> None:
    pid = pid_of(store)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    await store.upsert("a", [a_point(1)])

    assert await store.count("a") == 1
    assert store.pid == pid
    assert os.getpgid(pid) != os.getpgid(0)


@CI_ONLY
async def test_closing_flushes_and_ends_the_process(folder: Path) -> None:
    async with opened(folder) as store:
        await store.create_collection("a", size=None, sparse=False, indexes={})
        await store.upsert("a", [a_point(1)])
        pid = pid_of(store)
    await store.close()

    assert not psutil.pid_exists(pid)
    assert store.pid is None
    assert not any(path.exists() for path in wire.socket_paths(folder))
    with pytest.raises(Unavailable, match="closed"):
        await store.collections()
    async with opened(folder) as again:
        assert await again.count("a") == 1


async def test_closing_while_the_process_is_down_ends_the_restarting(folder: Path) -> None:
    store = EdgeStore(folder)
    await store.start()
    os.kill(pid_of(store), signal.SIGKILL)

    await store.close()

    assert store.pid is None
    assert [child for child in psutil.Process().children() if str(folder) in child.cmdline()] == []


@CI_ONLY
async def test_the_process_ends_with_its_parent(folder: Path) -> None:
    async with program(OWNER, folder) as owner:
        pid = int(await heard(owner))
        owner.kill()

        await asyncio.wait_for(gone(pid), HANG_S)

    async with opened(folder) as store:
        (point,) = await store.retrieve("a", [an_id(1)])
        assert point.payload == {"by": "owner"}


@CI_ONLY
@pytest.mark.slow
async def test_it_ends_too_when_another_child_holds_the_pipe_open(folder: Path) -> None:
    forked = """
    store = EdgeStore(folder)
    await store.start()
    reader, writer = os.pipe()
    child = os.fork()  # inherits the end of the pipe that the store listens to
    if child == 0:
        os.close(writer)
        os.read(0, 1)  # until the test lets go
        os._exit(0)
    say(store.pid)
    await asyncio.Event().wait()
    """
    async with program(forked, folder) as owner:
        pid = int(await heard(owner))
        owner.kill()

        await gone(pid)


@CI_ONLY
async def test_another_process_can_attach(store: EdgeStore) -> None:
    await store.upsert("a", [a_point(1, by="owner")])
    guest = """
    store = EdgeStore(folder, attach=True)
    await store.start()
    (point,) = await store.retrieve("a", ["00000000-0000-0000-0000-000000000001"])
    await store.upsert("a", [Point(id="00000000-0000-0000-0000-000000000002", payload={"saw": point.payload["by"]})])
    await store.close()
    say("done", store.pid)
    """

    async with program(guest, store.folder) as process:
        assert await heard(process) == "done None"

    assert [point.payload for point in await store.retrieve("a", [an_id(2)])] == [{"saw": "owner"}]


@pytest.mark.slow
@CI_ONLY
async def test_who_is_attached_finds_the_store_again(doomed: EdgeStore, folder: Path) -> None:
    async with opened(folder, attach=True) as guest:
        os.kill(pid_of(doomed), signal.SIGKILL)
        await back(doomed)
        await back(guest)

        assert await guest.collections() == ["a"]


async def test_attaching_to_nobody_is_unavailable(folder: Path) -> None:
    store = EdgeStore(folder, attach=True)

    with pytest.raises(Unavailable, match=f"{folder} is not running"):
        await store.start()
    with pytest.raises(Unavailable, match="is not running"):
        await store.collections()
    await store.close()


async def test_a_folder_may_lie_deep(tmp_path: Path) -> None:
    async with opened(tmp_path / ("d" * 120) / ("ü" * 60) / "with blank") as store:
        assert await store.collections() == []


async def test_a_damaged_file_is_told_with_what_helps(folder: Path) -> None:
    async with opened(folder) as store:
        await store.create_collection("a", size=None, sparse=False, indexes={})
        await store.upsert(
            "a", [a_point(number, text=f"a text of some length, number {number}") for number in range(9)]
        )
    [pages] = (folder / "collections" / "a").rglob("payload_storage/page_0.dat")
    with pages.open("r+b") as file:
        file.write(os.urandom(2048))

    with pytest.raises(Unavailable, match="move the store's folder away"):
        async with opened(folder) as store:
            await store.retrieve("a", [an_id(number) for number in range(9)])


async def test_sockets_are_not_put_where_others_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("d" * 120)  # too long for a socket of its own
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # pytest's own is too deep for a socket
        monkeypatch.setenv("TMPDIR", short)
        monkeypatch.setattr(tempfile, "tempdir", None)
        place = wire.socket_paths(folder)[0].parent
        place.mkdir()
        place.chmod(0o755)

        with pytest.raises(Unavailable, match=f"{short}.* of this user alone"):
            async with opened(folder):
                pass


async def test_a_command_with_another_temporary_folder_finds_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as short,
        tempfile.TemporaryDirectory(dir="/tmp") as private,  # as systemd gives a service (PrivateTmp)
    ):
        monkeypatch.setenv("TMPDIR", private)
        async with opened(Path(short, "store")):
            monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
            async with opened(Path(short, "store"), attach=True) as attached:
                assert await attached.collections() == []
            assert (await asyncio.to_thread(Path(short, "store", "store.sock").stat)).st_mode & 0o077 == 0


async def test_the_socket_refuses_nonsense_and_lives_on(store: EdgeStore) -> None:
    def ask(frame: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(HANG_S)
            client.connect(str(next(path for path in wire.socket_paths(store.folder) if path.exists())))
            client.sendall(frame)
            return client.recv(65536)

    unknown = msgspec.msgpack.encode([7, "sing", []])
    refused = await asyncio.to_thread(ask, len(unknown).to_bytes(4, "little") + unknown)
    (body,) = wire.Frames().feed(refused)
    reply = wire.REPLIES.decode(body)

    assert isinstance(reply, wire.CallFailed)
    assert (reply.number, reply.kind) == (7, "value")
    assert "sing" in reply.sentence
    assert await asyncio.to_thread(ask, b"GET / HTTP/1.1\r\n\r\n") == b""
    assert await asyncio.to_thread(ask, b"\x03\x00\x00\x00abc") == b""
    assert await store.collections() == ["a"]


async def test_a_call_given_up_disturbs_no_other(store: EdgeStore) -> None:
    await store.upsert("a", [a_point(n, n=n) for n in range(100)])
    calls = [asyncio.create_task(store.retrieve("a", [an_id(n)])) for n in range(100)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()

    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    assert [answer[0].payload["n"] for answer in answers[1::2] if isinstance(answer, list)] == list(range(1, 100, 2))


async def test_a_batch_with_one_bad_point_writes_none(store: EdgeStore) -> None:
    bad = Point(id=an_id(500), payload={}, dense=np.array([np.nan], np.float32))

    with pytest.raises(ValueError, match=an_id(500)):
        await store.upsert("a", [*(a_point(n) for n in range(300)), bad])

    assert await store.count("a") == 0


@pytest.mark.slow
@CI_ONLY
async def test_a_collection_that_can_not_be_opened_is_named(folder: Path) -> None:
    async with opened(folder) as store:
        await store.create_collection("a", size=None, sparse=False, indexes={})
    (folder / "collections" / "a" / "collection.json").write_text("{")

    with pytest.raises(Unavailable, match=r"a collection in .* can't be opened"):
        async with opened(folder):
            pass


@CI_ONLY
async def test_dead_points_go_by_themselves(folder: Path) -> None:
    async with opened(folder, upkeep_every_s=0.1) as store:
        await store.create_collection("a", size=None, sparse=False, indexes={})
        await store.upsert("a", [a_point(number) for number in range(2_100)])
        await store.delete("a", Filter(must_not=(Ids((an_id(7),)),)))
        (before,) = await store.sizes()

        async def freed() -> bool:
            (size,) = await store.sizes()
            return size.disk_bytes < before.disk_bytes and size.dead == 0

        await until(freed)

        assert [(size.name, size.live) for size in await store.sizes()] == [("a", 1)]
        assert [point.id for point in await store.retrieve("a", [an_id(7)])] == [an_id(7)]
