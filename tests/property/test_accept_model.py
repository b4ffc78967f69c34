"""All interleavings of workers that take in one document's submissions, crashes anywhere.

They run the real decision, `accept.decide`, in the order that the first stage uses: read, decide, write
under a condition, publish, commit. N owns the partition and may crash back to what it has committed; Z is
a zombie that wakes with one record of it; M holds a late copy of a record that was re-keyed. E applies
versions and writes their end, whenever it likes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import pytest

from services.ingest_worker import accept
from services.ingest_worker.accept import (
    Conflict,
    Decision,
    IndexedVersion,
    Joined,
    Published,
    Submission,
    Superseded,
    Unchanged,
)
from shared.contracts import ERASED, LogPosition
from shared.state.ledger import End, Entry, finished
from tests.selection import CI_ONLY

Decide = Callable[[Entry | None, Submission, IndexedVersion | None], Decision]


DELETIONS = {"-": accept.DELETION, "!": ERASED}
FAILS = "?"


def submission(offset: int, time: int, content: str, partition: int = 1) -> Submission:
    """Return a submission of a text, of `-` that deletes, of `!` that erases, or of `?` that can't be taken."""
    return Submission(
        document_id="d",
        tenant="t",
        source="" if content == "!" else "s",
        path="" if content == "!" else "p",
        place=LogPosition(partition=partition, offset=offset, time=time),
        raw_hash=DELETIONS.get(content, content),
        metadata_hash="" if content in DELETIONS else "m",
        extractor="" if content in DELETIONS else "x",
    )


class Worker(NamedTuple):
    record: Submission
    step: str = "look"  # look at the index, read and decide, write, publish
    answering: IndexedVersion | None = None
    seen: Entry | None = None
    decision: Decision | None = None


class World(NamedTuple):
    entry: Entry | None
    truth: tuple[tuple[int, str], ...]  # (version, content) in log order
    head: tuple[int, str] | None
    read: int  # N's next record
    committed: int
    n: Worker | None
    z: Worker | None
    m: Worker | None
    crashes: int


def same_revision(a: Entry | None, b: Entry | None) -> bool:
    return (a.rev if a else 0) == (b.rev if b else 0)


def move(world: World, worker: Worker, decide: Decide) -> tuple[World, Worker | None]:
    """One step of one worker; None when its record is done."""
    match worker.step:
        case "look":
            answering = None
            if world.head:
                deleted = world.head[1] in DELETIONS.values()
                answering = IndexedVersion(
                    document_id="d", tenant="t", version=world.head[0], deleted=deleted, whole=True
                )
            return world, worker._replace(step="decide", answering=answering)
        case "decide":
            decision = decide(world.entry, worker.record, worker.answering)
            if worker.record.raw_hash == FAILS:
                failed = accept.fail(world.entry, worker.record, "blank", "empty")
                decision = Superseded() if failed is None else Unchanged(failed)
            if isinstance(decision, Superseded):
                return world, None
            return world, worker._replace(step="write", seen=world.entry, decision=decision)
        case "write":
            assert worker.decision is not None
            assert not isinstance(worker.decision, Superseded | Conflict)
            if not same_revision(world.entry, worker.seen):
                return world, worker._replace(step="decide", seen=None, decision=None)
            rev = (world.entry.rev if world.entry else 0) + 1
            world = world._replace(entry=msgspec.structs.replace(worker.decision.entry, rev=rev))
            if isinstance(worker.decision, Published):
                return world, worker._replace(step="publish", seen=None, answering=None)
            return world, None
        case _:
            assert isinstance(worker.decision, Published)
            event = (worker.decision.entry.accepted.version, worker.record.raw_hash)
            return world._replace(truth=(*world.truth, event)), None


def apply(world: World) -> World | None:
    """The other stages: the newest event of the truth answers, and its end is written."""
    if not world.truth or world.entry is None:
        return None
    newest = max(world.truth)
    ended = finished(world.entry, newest[0], End(world.entry.accepted.outcome, 0))
    if world.head == newest and ended is None:
        return None
    if ended is not None:
        ended = msgspec.structs.replace(ended, rev=world.entry.rev + 1)
    return world._replace(head=newest, entry=ended or world.entry)


def successors(world: World, records: Sequence[Submission], decide: Decide, *, late: bool) -> Iterator[World]:
    if world.read < len(records):
        after, n = move(world, world.n or Worker(records[world.read]), decide)
        yield after._replace(n=n, read=world.read + (n is None))
    if world.n is None and world.committed < world.read:
        yield world._replace(committed=world.read)
    if world.crashes and (world.n is not None or world.read > world.committed):
        yield world._replace(n=None, read=world.committed, crashes=world.crashes - 1)
    if world.z is not None:
        yield world._replace(z=None)
        after, z = move(world, world.z, decide)
        yield after._replace(z=z)
    if world.m is not None:
        after, m = move(world, world.m, decide)
        yield after._replace(m=m)
    done = world.committed == len(records) and world.n is None and world.m is None
    if (not late or done) and (applied := apply(world)) is not None:
        yield applied


def explore(
    records: Sequence[Submission],
    decide: Decide = accept.decide,
    *,
    zombie: Submission | None = None,
    moved: Submission | None = None,
    late: bool = False,
) -> tuple[int, set[str]]:
    """Return how many states there are, and the names of what went wrong in any final one.

    `late`: versions are applied only when all records are done, so each is in flight for long.
    """
    first = World(
        None, (), None, 0, 0, None, Worker(zombie) if zombie else None, Worker(moved) if moved else None, crashes=2
    )
    seen, stack, wrong = {first}, [first], set[str]()
    places = sorted((*records, *([moved] if moved else [])), key=lambda s: (s.place.time, s.place.offset))
    newest = places[-1]
    while stack:
        world = stack.pop()
        after = list(successors(world, records, decide, late=late))
        if not after:
            wrong |= faults(world, places, newest, [record for record in places if record.raw_hash != FAILS][-1])
        for state in after:
            if state not in seen and len(state.truth) < 9:
                seen.add(state)
                stack.append(state)
    return len(seen), wrong


def faults(world: World, records: Sequence[Submission], newest: Submission, good: Submission) -> set[str]:
    """Return what is wrong at the end; `good` is the newest of the records that could be taken."""
    found = set[str]()
    contents: dict[int, str] = {}
    for version, content in world.truth:
        if contents.setdefault(version, content) != content:
            found.add("one version with two contents")
    if not world.truth:
        found.add("nothing in the truth")
    elif max(world.truth)[1] != good.raw_hash:
        found.add("the newest version is not the newest submission")
    if world.entry is None or not world.entry.ended(newest.place):
        found.add("the newest submission never ended")
    if world.entry is not None:
        for record in records:
            end = world.entry.end_of(record.place)
            if end is None:
                found.add("a submission never ended")
            elif end.status != "superseded" and (end.status == "failed") != (record.raw_hash == FAILS):
                found.add("a submission is told another one's end")
    if newest.erases and world.entry is not None and (world.entry.source or world.entry.path):
        found.add("an erased document has a name")
    return found


A, B, A2 = submission(1, 10, "a"), submission(2, 20, "b"), submission(3, 30, "a")
AGAIN = submission(2, 20, "a")
GONE = submission(2, 20, "-")
ERASED_2, BLANK_3, ERASED_4 = submission(2, 20, "!"), submission(3, 30, FAILS), submission(4, 40, "!")
B_ELSEWHERE = submission(7, 20, "b", partition=2)
A_ELSEWHERE = submission(7, 20, "a", partition=2)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("records", "zombie", "moved"),
    [
        pytest.param((A,), None, None, id="one record"),
        pytest.param((A, AGAIN), None, None, id="the same twice"),
        pytest.param((A, B, A2), None, None, id="there and back"),
        pytest.param((A, B), None, A, id="a re-keyed copy comes late"),
        pytest.param((A, B, A2), B, None, id="a zombie holds the middle one", marks=CI_ONLY),
        pytest.param((A, GONE, A2), GONE, None, id="a zombie deletes", marks=CI_ONLY),
        pytest.param((A, GONE), A, None, id="a zombie brings back what was deleted"),
        pytest.param((A, ERASED_2), A, None, id="a zombie brings back what was erased", marks=CI_ONLY),
        pytest.param((A, ERASED_2), None, A, id="a re-keyed copy comes late to an erasure"),
        pytest.param((A, ERASED_2, BLANK_3, ERASED_4), None, None, id="a failure between two erasures"),
        pytest.param((A, BLANK_3), A, None, id="a failure after all"),
        pytest.param((A,), None, B_ELSEWHERE, id="a newer one in another partition"),
        pytest.param((A,), None, A_ELSEWHERE, id="the same in another partition"),
    ],
)
def test_every_interleaving_ends_with_the_newest_submission(
    records: tuple[Submission, ...], zombie: Submission | None, moved: Submission | None, late: bool
) -> None:
    states, wrong = explore(records, zombie=zombie, moved=moved, late=late)

    assert wrong == set()
    assert states > 20


def known_is_done(entry: Entry | None, record: Submission, answering: IndexedVersion | None) -> Decision:
    """The rule that comes to mind first: content that the ledger has needs no event."""
    right = accept.decide(entry, record, answering)
    if isinstance(right, Published) and entry and entry.accepted.raw_hash == record.raw_hash:
        return Joined(right.entry)
    return right


def no_place(entry: Entry | None, record: Submission, answering: IndexedVersion | None) -> Decision:
    if entry is not None:
        entry = msgspec.structs.replace(
            entry, accepted=msgspec.structs.replace(entry.accepted, place=LogPosition(partition=-1, offset=-1, time=-1))
        )
    return accept.decide(entry, record, answering)


def join_anywhere(entry: Entry | None, record: Submission, answering: IndexedVersion | None) -> Decision:
    right = accept.decide(entry, record, answering)
    if isinstance(right, Published) and entry and right.entry.accepted.version == entry.accepted.version:
        same_partition = record.place.partition == entry.accepted.place.partition
        return right if same_partition else Joined(right.entry)
    return right


@pytest.mark.parametrize(
    ("rule", "records", "zombie", "moved", "fault"),
    [
        pytest.param(known_is_done, (A,), None, None, "nothing in the truth", id="known is done"),
        pytest.param(no_place, (A, B), None, A, "the newest version is not the newest submission", id="no place"),
        pytest.param(
            join_anywhere, (A,), None, A_ELSEWHERE, "nothing in the truth", id="join a version of another partition"
        ),
    ],
)
def test_the_rules_that_come_to_mind_first_are_caught(
    rule: Decide,
    records: tuple[Submission, ...],
    zombie: Submission | None,
    moved: Submission | None,
    fault: str,
) -> None:
    assert fault in explore(records, rule, zombie=zombie, moved=moved, late=True)[1]
