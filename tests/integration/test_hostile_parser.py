"""A parser that a document has taken over gets nothing of the system around it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
import structlog

from services.ingest_worker.extract import Hints
from services.ingest_worker.parsers import ParserPool
from shared import sandbox
from shared.errors import Rejected
from tests.integration import hostile_parser, unscoped_parser
from tests.integration.hostile_parser import Prey
from tests.selection import CI_ONLY

_NEEDED = {"seccomp", "no new privileges", "not dumpable", "no capabilities", "limits"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are confined on Linux only")


@pytest.fixture
def prey(tmp_path: Path) -> Iterator[Prey]:
    secret = tmp_path / "secret"
    secret.write_text("a text of another tenant")
    unix = tmp_path / "listener.sock"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(unix))
        local.listen()
        yield Prey(os.getpid(), str(secret), str(tmp_path), tcp.getsockname()[1], str(unix))


def _file(prey: Prey) -> bytes:
    return hostile_parser.MARK + b" " + msgspec.json.encode(prey) + b"." * (65 * 1024)  # too long to be read in here


def _left(prey: Prey) -> dict[str, str]:
    """Return what is in the data folder afterwards."""
    return {path.name: path.read_text() if path.is_file() else "" for path in Path(prey.folder).iterdir()}


async def _outcomes(prey: Prey, program: str) -> dict[str, str]:
    pool = ParserPool(1, program=program)
    try:
        extraction = await pool.extract(_file(prey), Hints(filename="x.hostile"), tenant="default")
        return msgspec.json.decode(extraction.text, type=dict[str, str])
    finally:
        await pool.close()


@pytest.fixture
async def signals() -> AsyncIterator[list[int]]:
    """Return the signals that come, which would end this process."""
    came: list[int] = []
    numbers = (signal.SIGUSR1, signal.SIGIO)
    before = [signal.signal(number, lambda number, _: came.append(number)) for number in numbers]
    yield came
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("program", [hostile_parser.__name__, unscoped_parser.__name__])
async def test_a_parser_that_was_taken_over_gets_nothing(
    program: str, prey: Prey, signals: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    with structlog.testing.capture_logs() as logs:
        outcomes = await _outcomes(prey, program)

    means = next(line["confined_by"] for line in logs if line["event"] == "parser_started")
    with capsys.disabled():
        print(f"\n{len(outcomes)} attacks; active: {', '.join(means)}")
    assert set(means) >= _NEEDED
    assert len(outcomes) >= 45
    files = {name for name in outcomes if name.startswith(("read a", "read the", "list the", "open a raw disk"))}
    spared = files if "landlock" not in means else set()  # reading is open without it, as `sluice doctor` says
    assert {name for name, said in outcomes.items() if said == "succeeded"} <= spared
    assert _left(prey) == {"listener.sock": "", "secret": "a text of another tenant"}
    assert signals == []


async def test_the_attacks_are_real(prey: Prey, signals: list[int]) -> None:
    """Without confinement the harmless ones succeed; those that would harm this machine aren't tried."""
    attacks = hostile_parser.attempts(prey)

    for name in (
        "read a file of the data folder",
        "list the data folder",
        "connect by TCP",
        "connect by a Unix socket",
        "signal the parent by a descriptor's owner",
        "the same by F_SETOWN_EX",
        "the same by FIOSETOWN",
        "the same by SIOCSPGRP",
        "choose the signal",
        "be asynchronous",
        "be asynchronous by FIOASYNC",
        "bind an abstract socket",
        "move the parent to a processor",
        "schedule the parent",
        "learn where the parent's locks are",
        "read the parent's limits",
    ):
        attacks[name]()
    assert signals == []
    attacks["signal the parent by data"]()
    assert set(signals) == {signal.SIGUSR1}  # as data come, and as the pair is closed
    for name in ("fork", "run a program", "write into the data folder", "hold the parent by a descriptor"):
        attacks[name]()

    assert _left(prey)["mine"] == "x"


@CI_ONLY
async def test_a_parser_with_too_many_threads_is_ended() -> None:
    pool = ParserPool(1, program=hostile_parser.__name__)
    try:
        with pytest.raises(Rejected, match="threads") as refused:
            await pool.extract(
                hostile_parser.THREADS + b"." * (65 * 1024), Hints(filename="x.hostile"), tenant="default"
            )
    finally:
        await pool.close()

    assert refused.value.code == "damaged"


def test_threads_still_start_in_a_confined_process() -> None:
    program = (
        "import threading\nfrom shared import sandbox\n"
        "sandbox.confine(sandbox.PARSER, read=sandbox.libraries())\n"
        "thread = threading.Thread(target=print, args=('from a thread',))\nthread.start()\nthread.join()"
    )

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert said.stdout == "from a thread\n"


def test_the_means_are_printed_for_people() -> None:
    said = subprocess.run(
        [sys.executable, "-m", sandbox.__name__], capture_output=True, text=True, check=True, timeout=60
    )

    assert set(said.stdout.strip().split(", ")) >= _NEEDED
