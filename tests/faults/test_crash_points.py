"""A server that dies at every crash point in turn, and an index that is right every time it is back."""

import asyncio
import importlib
import inspect
import os
import pkgutil
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path

import pytest

import services
import shared
from services.operator_cli.terminal import progress
from services.operator_cli.verify.command import opened
from services.operator_cli.verify.verifier import Verifier
from shared.contracts import DEFAULT_TENANT
from shared.log import Log
from shared.log.headers import redrives_of
from shared.log.open_letters import LetterFilter, OpenLetters
from shared.log.read import reading
from shared.log.sqlite import SqliteLog
from shared.log.sqlite.consumer import Consumer
from shared.log.sqlite.producer import Producer
from shared.settings import Settings
from shared.store import Store
from shared.store.edge import EdgeStore
from shared.topics import SUBMITTED
from tests.e2e.load import new_seed
from tests.e2e.oracle import differences
from tests.faults.crash_points import AT_START, BY_AN_OPERATOR, ON_THE_WAY, WRITES, moments
from tests.faults.server import CrashingServer, crashing
from tests.faults.story import Step, Story
from tests.faults.trap import Event, Setting
from tests.selection import STORY

FIRST_STARTS = moments(AT_START)
POINTS = FIRST_STARTS + moments(ON_THE_WAY) + moments(BY_AN_OPERATOR)
# Parts of about the same length, so that workers can share them: points, and the story in which they are passed.
PARTS: dict[str, tuple[list[str], Callable[[Story], Iterator[Step]]]] = {
    "documents, one": (moments(AT_START[::2] + ON_THE_WAY[::2]), Story.documents),
    "documents, two": (moments(AT_START[1::2] + ON_THE_WAY[1::2]), Story.documents),
    "operator": (moments(BY_AN_OPERATOR), Story.operator),
}
STEPS = 24  # of the story, some laps: a point that isn't passed in so many is passed nowhere
QUIET_S = 30.0

READS = {
    "Log": {
        "start", "stop", "broker", "consumer", "inspect_topics", "retention_ms", "committed", "end_offsets",
        "offsets_since", "groups", "members", "replaced_below",
    },
    "Producer": {"start", "stop", "flush", "partitions_for"},
    "Consumer": {
        "subscribe", "assign", "start", "stop", "getmany", "assignment", "pause",
        "resume", "paused", "position", "seek", "committed", "committed_metadata",
        "beginning_offsets", "end_offsets",
    },
    "Store": {"start", "close", "collections", "retrieve", "scroll", "count", "facet", "search"},
    # Those of any log, and what writes only the files of this one, where tests/unit/shared/log/sqlite and
    # tests/e2e/test_backup.py kill at every step.
    "SqliteLog": {name for name, _ in inspect.getmembers(Log, inspect.isfunction) if name[0] != "_"} | {
        "ahead_ms", "age_ms", "keep_up", "disk_bytes", "topic_bytes", "deleting",
        "copying", "commits", "copy_to",
    },
    "EdgeStore": {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if name[0] != "_"} | {"sizes"},
    "Blobs": {"get", "stored"},
}  # fmt: skip
# Protocols that write nothing, or only through one of the ports above.
HARMLESS = {
    "Answers", "Embedder", "EmbeddingServer",
    "Publish", "ReadFile", "Reranker",
    "TokenCounter",
}  # fmt: skip
# A server calls them nowhere so far, once a day, or for a generation that is dropped.
UNUSED = {
    "Store.drop_collection", "Log.drop_topic",
    "Log.reset_offsets", "Log.drop_group",
}  # fmt: skip


def _protocols() -> dict[str, type]:
    names = (
        module.name
        for package in (services, shared)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not module.name.endswith("__main__")
    )
    return {
        name: each
        for module in map(importlib.import_module, names)
        for name, each in inspect.getmembers(module, inspect.isclass)
        if each.__module__ == module.__name__ and getattr(each, "_is_protocol", False)
    }


def _methods(port: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(port, inspect.isfunction) if not name.startswith("_")}


@STORY
def test_every_method_of_every_port_either_is_a_crash_point_or_writes_nothing() -> None:
    ports = _protocols() | {"Producer": Producer, "Consumer": Consumer, "SqliteLog": SqliteLog, "EdgeStore": EdgeStore}

    assert ports.keys() == WRITES.keys() | HARMLESS
    for port, writes in WRITES.items():
        reads = READS.get(port, set())
        assert _methods(ports[port]) == writes.keys() | reads, port
        assert not writes.keys() & reads, port


@pytest.mark.slow
def test_given_both_stories_when_nobody_dies_then_every_crash_point_is_passed_and_no_other(tmp_path: Path) -> None:
    with crashing(tmp_path) as server:
        story = Story(server.start(), random.Random(0))
        for step in (*story.documents(), *story.operator()):
            story.tell(step)
        deadline = time.monotonic() + QUIET_S
        while not set(POINTS) <= _noted(server, "passed") and time.monotonic() < deadline:
            time.sleep(0.05)  # another process: there is nothing to await
        assert server.stop() == 0

    assert _noted(server, "passed") == set(POINTS)
    methods = {f"{port}.{method}" for port, writes in WRITES.items() for method in writes}
    assert _noted(server, "called") == methods - UNUSED


def _noted(server: CrashingServer, kind: str) -> set[str]:
    return {event.what for event in server.trap.events() if event.kind == kind}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "part",
    [
        "documents, one",
        "documents, two",
        "operator",
    ],
)
async def test_given_a_story_when_the_server_dies_at_each_crash_point_then_the_index_is_right_again(
    tmp_path: Path, part: str
) -> None:
    seed = new_seed()
    rounds = os.environ.get("SLUICE_TEST_COUNT")
    points, lap = PARTS[part]
    restarts: list[float] = []
    for round_ in range(int(rounds or 1)):
        rng = random.Random(f"{seed}/{part}/{round_}")
        # Each point takes two seconds and more: a fifth of them by the seed, all of them in `make chaos`.
        some = points if rounds else rng.sample(points, max(1, len(points) // 5))
        chosen = [point for point in points if point in some]
        with crashing(tmp_path / str(round_)) as server:
            restarts += await _die_at_each(server, chosen, lap, rng)

    print(f"{part}: {len(restarts)} restarts, to the first commit: {_figures(restarts)}")


def _figures(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return ", ".join(f"{each:.1f} s" for each in seconds)
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    return f"median {statistics.median(seconds):.1f} s, p95 {p95:.1f} s"


async def _die_at_each(
    server: CrashingServer, points: Sequence[str], lap: Callable[[Story], Iterator[Step]], rng: random.Random
) -> list[float]:
    """Return the seconds from each restart to its first commit, where it had something to commit."""
    for point in points:
        if point in FIRST_STARTS:
            setting = _armed(server, point, rng)
            server.launch()
            server.died(setting)
    server.trap.clear()
    story = Story(server.start(), rng)
    steps = chain.from_iterable(lap(story) for _ in count())
    restarts = []
    for point in points:
        if point in FIRST_STARTS:
            continue
        begun = time.monotonic()
        setting = _armed(server, point, rng, most=2)
        for step in islice(steps, STEPS):
            story.tell(step)
            if not server.alive:
                break
        server.died(setting)
        server.trap.clear()
        server.start()
        story.resume()
        await _judge(server, story)
        restart = server.first_commit_s()
        restarts += [] if restart is None else [restart]
        print(f"{setting}: right again after {time.monotonic() - begun:.1f} s")
    return restarts


def _armed(server: CrashingServer, point: str, rng: random.Random, most: int = 1) -> Setting:
    setting = Setting(point, passing=rng.randint(1, most), everything=rng.random() < 0.5)
    server.trap.set(setting)
    return setting


async def _judge(server: CrashingServer, story: Story) -> None:
    """Fail unless all that was told is in the index and in the dead letters once, and was embedded once."""
    async with opened(Settings(data=server.data)) as parts:
        with progress() as watch:
            report = await Verifier(parts, watch, sample=0, patience_s=QUIET_S).verify()
        wrong = await differences(server.data / "store", story.expected, parts.embedder, quiet_s=QUIET_S)
        submitted = await _submitted(parts.log)
    assert report.verdict == "right", report
    assert wrong == []
    story.settled()
    wanted = Counter({name: times for name, times in submitted.items() if name in story.damaged})
    deadline = time.monotonic() + QUIET_S
    async with opened(Settings(data=server.data)) as parts:
        letters = await _letters(parts.log)
        while letters != wanted and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            letters = await _letters(parts.log)
    assert letters == wanted
    assert Counter(story.letters()) == Counter(list(wanted)), "lists show one for each document"
    assert _embedded_again(server.trap.events()) == set()


async def _letters(log: Log) -> Counter[str]:
    """Return how many open dead letters each document has, one for each submission that failed."""
    page = await OpenLetters(log).oldest(LetterFilter(tenant=DEFAULT_TENANT), limit=1000)
    return Counter(each.letter.document_id or "" for each in page.letters)


async def _submitted(log: Log) -> Counter[str]:
    """Return how often each document was submitted, by its id; what was redriven doesn't count."""
    found: Counter[str] = Counter()
    for tp in await log.end_offsets(SUBMITTED):
        async with reading(log, tp) as reader:
            async for record in reader.between(*await reader.bounds()):
                found[(record.key or b"").decode()] += not redrives_of(record)
    return found


def _embedded_again(events: Iterable[Event]) -> set[str]:
    """Return the texts that the model was asked for by a process that had asked, or though a point held them."""
    kept, asked, again = set[str](), set[tuple[int, str]](), set[str]()
    for event in events:
        if event.kind == "kept":
            kept.add(event.what)
        elif event.kind == "asked":
            if event.what in kept or (event.pid, event.what) in asked:
                again.add(event.what)
            asked.add((event.pid, event.what))
    return again
