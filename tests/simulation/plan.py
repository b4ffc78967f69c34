"""What happens to a simulated world, and when: made from a seed, and small enough to be read when it fails."""

import random
from typing import Literal, get_args

import msgspec

Process = Literal["ingest-1", "ingest-2", "embed-1", "embed-2"]
PROCESSES = ("ingest-1", "ingest-2", "embed-1", "embed-2", "api")
Flaw = Literal["", "no_body", "blob_missing", "unembeddable", "refused"]
Lost = Literal["everything", "ledger", "heads", "chunks"]
Ending = Literal["again", "replay", "emptied", "rebuilt", "erased"]

HOUR = 3_600_000  # ms
PATHS = ("a", "b", "c")
TENANTS = ("north", "south")


class Submit(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A document is sent: its text as numbers of paragraphs, None to delete it."""

    at: int  # the step before which it happens
    tenant: str
    path: str
    paragraphs: tuple[int, ...] | None
    title: str | None = None
    tags: tuple[str, ...] = ()
    flaw: Flaw = ""
    partition: int | None = None  # where a foreign producer puts it, without a key
    hint: str | None = None  # the hash that the sender claims
    enters: bool = False  # by the door, which also writes it into the ledger, if nothing stands there
    erases: bool = False  # what is deleted is to be forgotten


class Crash(msgspec.Struct, frozen=True, tag=True):
    """A process ends between two effects, and another one starts in its place."""

    at: int
    process: Process
    down: int  # steps


class Freeze(msgspec.Struct, frozen=True, tag=True):
    """A process stops, loses its partitions, and goes on with what it held; later it is told."""

    at: int
    process: Process
    steps: int
    unaware: int  # steps after its waking


class PowerLoss(msgspec.Struct, frozen=True, tag=True):
    """All processes end; the store keeps what was flushed, and any part of what came after."""

    at: int


class Rebalance(msgspec.Struct, frozen=True, tag=True):
    """Partitions change hands as they should: their owner finishes first."""

    at: int


class Replay(msgspec.Struct, frozen=True, tag=True):
    """An operator sets a stage back to its beginning."""

    at: int
    stage: Literal["ingest", "chunk", "embed"]


class Sweep(msgspec.Struct, frozen=True, tag=True):
    """An embed worker deletes stale points."""

    at: int


class Redrive(msgspec.Struct, frozen=True, tag=True):
    """An operator sends all dead letters again."""

    at: int


class Compact(msgspec.Struct, frozen=True, tag=True):
    """The log forgets what newer records of the same key stand for."""

    at: int


class Lose(msgspec.Struct, frozen=True, tag=True):
    """The store loses collections, and all processes start anew: what was lost is made again from the log."""

    at: int
    what: Lost


Event = Submit | Crash | Freeze | PowerLoss | Rebalance | Replay | Sweep | Redrive | Compact | Lose


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated history."""

    seed: int  # of the order in which things happen
    events: tuple[Event, ...]
    calm: bool  # nothing crashes, sleeps or refuses: correctness.md, section 8, I7
    partitions: int
    skews: tuple[int, ...]  # ms by which each partition's clock is off; `shared.log.headers` bears an hour between two
    clocks: tuple[int, ...]  # ms by which each process' clock is off
    speeds: tuple[float, ...]  # how often each process takes its turn when it is offered, 0..1
    claim_check: int  # bytes; a larger text or list of chunks travels by reference
    slice: int  # chunks embedded at a time
    refusals: float  # how often a call fails, 0..1
    forgetful: bool  # the log's files are ours, so that an erasure overwrites records
    ending: Ending


def plan_of(seed: int) -> Plan:
    """Return the seed's history, always the same."""
    rng = random.Random(seed)
    calm = seed % 4 == 0
    partitions = rng.choice((1, 2, 2, 3))
    claim_check = rng.choice((8, 1 << 18))
    events: list[Event] = _submissions(rng, partitions, by_reference=claim_check == 8)
    last = max(event.at for event in events) + 60
    if not calm:
        events += _faults(rng, last)
    events += [_upkeep(rng, rng.randrange(last)) for _ in range(rng.randrange(4))]
    if not calm:
        events += _losses(random.Random(f"losses {seed}"), last)
    return Plan(
        seed=seed,
        events=tuple(sorted(events, key=lambda event: event.at)),
        calm=calm,
        partitions=partitions,
        skews=tuple(rng.choice((0, 0, rng.randrange(-HOUR // 2, HOUR // 2))) for _ in range(partitions)),
        clocks=tuple(rng.randrange(-48 * HOUR, 48 * HOUR) for _ in range(5)),
        speeds=tuple(rng.choice((1.0, 1.0, 0.3, 0.05)) for _ in range(5)),
        claim_check=claim_check,
        slice=rng.choice((1, 2, 64)),
        refusals=0.0 if calm else rng.choice((0.0, 0.0, 0.02, 0.08)),
        forgetful=rng.random() < 0.5,
        ending=rng.choice(get_args(Ending)),
    )


def _submissions(rng: random.Random, partitions: int, *, by_reference: bool) -> list[Event]:
    """Return edits of few and short documents, so that they meet, made of the same paragraphs, so that they share."""
    paths = PATHS[: rng.randrange(1, len(PATHS) + 1)]
    tenants = TENANTS[: rng.randrange(1, len(TENANTS) + 1)]
    foreign = {path for path in paths if rng.random() < 0.2}
    flawed = {path for path in paths if path not in foreign and rng.random() < 0.3}
    flaws: tuple[Flaw, ...] = ("no_body", "unembeddable", "refused", *(("blob_missing",) if by_reference else ()))
    pace = rng.choice((3, 12, 40))
    events: list[Event] = []
    at = 0
    for _ in range(rng.randrange(3, 10)):
        at += rng.randrange(2 * pace)
        path = rng.choice(paths)
        flaw: Flaw = ""
        if path in flawed and rng.random() < 0.4:
            flaw = rng.choice(flaws)
        event = Submit(
            at=at,
            tenant=rng.choice(tenants),
            path=path,
            paragraphs=tuple(rng.sample(range(6), rng.randrange(1, 5))),
            title=rng.choice((None, "One", "Other")),
            tags=rng.choice(((), ("x",))),
            flaw=flaw,
            partition=rng.randrange(partitions) if path in foreign and rng.random() < 0.6 else None,
            hint=rng.choice((None, "the same", None)),
            enters=rng.random() < 0.3,
        )
        if events and rng.random() < 0.35:  # the last one of this document, again
            same = [e for e in events if isinstance(e, Submit) and (e.tenant, e.path) == (event.tenant, event.path)]
            if same:
                event = msgspec.structs.replace(same[-1], at=at, partition=event.partition)
        elif not flaw and rng.random() < 0.2:
            event = msgspec.structs.replace(event, paragraphs=None, title=None, tags=(), erases=rng.random() < 0.4)
        events.append(event)
    return events


def _faults(rng: random.Random, last: int) -> list[Event]:
    events: list[Event] = []
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(last)
        process: Process = rng.choice(("ingest-1", "ingest-2", "embed-1", "embed-2"))
        match rng.randrange(6):
            case 0 | 1:
                events.append(Crash(at, process, rng.choice((0, 20, 150))))
            case 2 | 3:
                events.append(Freeze(at, process, rng.choice((30, 150, 600)), rng.choice((5, 40, 200))))
            case 4:
                events.append(Rebalance(at))
            case _:
                events.append(PowerLoss(at))
    return events


def _losses(rng: random.Random, last: int) -> list[Event]:
    if rng.random() > 0.15:
        return []
    return [Lose(rng.randrange(last), rng.choice(get_args(Lost))) for _ in range(rng.randrange(1, 3))]


def _upkeep(rng: random.Random, at: int) -> Event:
    match rng.randrange(4):
        case 0:
            return Replay(at, rng.choice(("ingest", "chunk", "embed")))
        case 1:
            return Sweep(at)
        case 2:
            return Redrive(at)
        case _:
            return Compact(at)
