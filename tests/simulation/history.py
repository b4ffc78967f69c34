"""Plays a plan to its end, and says what is wrong there; makes a plan that fails small."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from services.embed_worker.embed import Embed
from services.embed_worker.sweep import sweep_points
from services.embed_worker.vectors import VectorMetrics, Vectors
from services.ingest_worker.chunking import Chunking
from shared.contracts import ERASED, LogPosition
from shared.embedder.refusals import KEPT_S
from shared.ids import document_id
from shared.log import Record
from shared.runtime.body_budget import MemoryBudget
from shared.state.index import Generation, Index, vector_hash
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Entry, Ledger
from shared.state.statuses import Statuses
from shared.store import Filter, Ids, Match, Point
from shared.store.bm25 import Bm25
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, chunks_topic
from tests.fakes.embedder import MemoryEmbedder, vector_of
from tests.fakes.log import MemoryLog
from tests.fakes.store import MemoryStore
from tests.fakes.tokens import Characters
from tests.simulation.oracle import Expected, Sent, again, expected, sent
from tests.simulation.plan import PATHS, TENANTS, Plan, Redrive, Submit, plan_of
from tests.simulation.watch import DONE, Violation
from tests.simulation.world import SOURCE, World

SHRINK_RUNS = 300
NAMING = {"source", "path", "title", "tags"}


def play(plan: Plan, tell: Callable[[str], None] | None = None) -> str | None:
    """Return what the plan breaks, None where it breaks nothing; `tell` hears every step."""
    world = World(plan, tell)
    with world.open():
        try:
            _play(world)
        except Violation as violation:
            return f"{violation}, at step {world.step}"
    return None


def _play(world: World) -> None:
    world.play(world.plan.events)
    _compare(world, "at rest", mended=False)
    world.model.mended = world.blobs.mended = True
    world.loop.now += KEPT_S + 1  # until no worker remembers what the model refused
    world.play([Redrive(0)])
    _compare(world, "mended, and all dead letters sent again", mended=True)
    match world.plan.ending:
        case "again":
            _unchanged(world, "everything sent again", lambda: _send_again(world))
        case "replay":
            _unchanged(world, "all topics replayed", world.replay_all)
        case "erased":
            _erased(world)
        case "emptied":
            _empty(world)
            _send_again(world)
            world.play()
            _compare(world, "emptied, and everything sent again", mended=True)
        case "rebuilt":
            store, generation = _rebuilt(world)
            _raise("rebuilt from the truth", _points_differ(store, generation, expected(_sent(world), mended=True)))


def _compare(world: World, when: str, *, mended: bool) -> None:
    """Sweep once, and raise the first differences between the world and the oracle."""
    if world.filling is not None:
        raise Violation(f"{when}: the gate is still shut")
    _raise(when, _truth_differs(world))
    world.ungated(sweep_points(Index(world.store, world.generation), _not_published))
    world.watch.check()
    submissions = _sent(world)
    want = expected(submissions, mended=mended)
    found = _points_differ(world.store, world.generation, want)
    found += _texts_differ(world, want)
    found += _ledger_differs(world.store, {id_: each for id_, each in want.items() if id_ not in world.watch.uncounted})
    if not world.ledger_lost:  # the log doesn't tell each end
        found += _ends_differ(world.store, submissions, mended=mended)
    found += _letters_differ(world.log, submissions, want, mended=mended)
    found += [f"I5: committed offsets went back: {each}" for group in world.groups.values() for each in group.went_back]
    found += [f"I5: {group.lag} of {group.name} are not committed" for group in world.groups.values() if group.lag]
    _raise(when, found)


def _raise(when: str, found: Sequence[str]) -> None:
    if found:
        raise Violation(f"{when}: {'; '.join(found[:3])}")


def _sent(world: World) -> dict[str, list[Sent]]:
    return sent(world.log.ever(SUBMITTED), world.blobs.ever)


def _points_differ(store: MemoryStore, generation: Generation, want: Mapping[str, Expected]) -> list[str]:
    """I1 and I2: both directions, vectors and heads too."""
    heads = {id_: point.payload for id_, point in store.points(generation.heads).items()}
    actual = {_key(point): point for point in store.points(generation.chunks).values()}
    found = []
    if len(actual) != len(store.points(generation.chunks)):
        found.append("I2: two points hold one chunk of one version")
    wanted: dict[tuple[Any, ...], str] = {}
    titled: dict[str, str] = {}  # by document: what is above each text for the model
    for id_, each in want.items():
        head, answer = heads.get(id_), each.answer
        texts = answer.texts if answer is not None else None
        if texts is None:
            if head is not None and not head.get("deleted"):
                found.append(f"I2: {id_} is deleted, and its head says {head}")
            continue
        if head is None or head.get("deleted") or head["chunkCount"] != len(texts):
            found.append(f"I1: {id_} should have {len(texts)} chunks, its head says {head}")
            continue
        if answer is not None and (tuple(head.get("tags", ())), head["tenant"]) != (answer.tags, answer.tenant):
            found.append(f"I1: {id_} should have the tags {answer.tags} of {answer.tenant}, its head says {head}")
        wanted |= {(id_, head["version"], order): text for order, text in enumerate(texts)}
        titled[id_] = f"{answer.title}\n" if answer is not None and answer.title else ""
    found += [f"I1: lost {key}: {wanted[key]!r}" for key in wanted.keys() - actual.keys()]
    found += [f"I2: stale {key}: {actual[key].payload['text']!r}" for key in actual.keys() - wanted.keys()]
    for key in wanted.keys() & actual.keys():
        point, text = actual[key], wanted[key]
        if point.payload["text"] != text:
            found.append(f"I1: {key} should be {text!r}, not {point.payload['text']!r}")
        elif point.dense is None or point.dense.tobytes() != vector_of(titled[key[0]] + text).tobytes():
            found.append(f"I1: {key} has another text's vector")
        elif point.payload["metadata"]["vectorHash"] != vector_hash(point.dense):
            found.append(f"I1: {key} has another vector's hash")
    return found


def _texts_differ(world: World, want: Mapping[str, Expected]) -> list[str]:
    """I1: the text of each document that answers can be shown."""
    heads = world.store.points(world.generation.heads)
    found = []
    for id_, each in want.items():
        if each.answer is None or each.answer.texts is None or id_ not in heads:
            continue
        # Where only a mark stands that a version was given up, no text is named, and none is found.
        text = world.blobs.text(each.answer.tenant, id_, heads[id_].payload.get("textSha256", ""))
        if text != "\n\n".join(each.answer.texts):
            found.append(f"I1: the text of {id_} is {text!r}, not {each.answer.texts}")
    return found


def _key(point: Point) -> tuple[str, int, int]:
    metadata = point.payload["metadata"]
    return metadata["documentId"], metadata["version"], metadata["chunkOrder"]


def _ledger_differs(store: MemoryStore, want: Mapping[str, Expected]) -> list[str]:
    """I3: every submission has ended, as its document's newest says."""
    found = []
    for id_, each in want.items():
        point = store.points(LEDGER).get(id_)
        if point is None:
            found.append(f"I3: nobody knows {id_}")
            continue
        last = point.payload["last"]
        place = (last["place"]["time"], last["place"]["partition"], last["place"]["offset"])
        deletes = each.newest.texts is None
        ends = {"failed"} if each.failed else {"deleted", "unchanged"} if deletes else DONE
        if last["status"] not in ends or place != each.newest.place:
            found.append(f"I3: {id_} should be {'/'.join(sorted(ends))} at {each.newest.place}, and is {last}")
        elif not (each.failed or deletes):
            title, tags = point.payload.get("title"), tuple(point.payload.get("tags", ()))
            if (each.newest.title or title, each.newest.tags) != (title, tags):  # without one, the text's own
                found.append(f"I3: {id_} should be called {each.newest.title} {each.newest.tags}, not {title} {tags}")
        if each.newest.erases and any(map(point.payload.get, NAMING)):
            found.append(f"{id_} is erased, and its entry names it: {point.payload}")
    return found


def _ends_differ(store: MemoryStore, submissions: Mapping[str, Sequence[Sent]], *, mended: bool) -> list[str]:
    """ADR 0006: each submission has an end, and it is its own."""
    found = []
    for id_, all_ in submissions.items():
        point = store.points(LEDGER).get(id_)
        entry = None if point is None else msgspec.convert(point.payload, Entry)
        answers = [each for each in all_ if not each.fails(mended=mended)][-1:]
        for each in all_ if entry is not None else ():
            time, partition, offset = each.place
            end = entry.end_of(LogPosition(partition=partition, offset=offset, time=time)) if entry else None
            if end is None:
                found.append(f"I3: the submission of {id_} at {each.place} has not ended")
            elif end.status == "failed" and not each.fails(mended=False):
                found.append(f"I3: the submission of {id_} at {each.place} is told of another's failure: {end}")
            elif end.status == "superseded" and each in (*answers, all_[-1]) and not mended:
                found.append(f"I3: the submission of {id_} at {each.place} is superseded by nothing")
            elif end.status in DONE and each.fails(mended=mended):
                found.append(f"I3: the submission of {id_} at {each.place} can't be taken, and is told: {end}")
    return found


def _letters_differ(
    log: MemoryLog, submissions: Mapping[str, list[Sent]], want: Mapping[str, Expected], *, mended: bool
) -> list[str]:
    """I4: only what can't be taken is set aside, by the stage that can't take it."""
    letters = _letters(log)
    failing = {(each.place, stage) for all_ in submissions.values() for each in all_ for stage in _stages(each)}
    found = []
    for letter in letters:
        place = (letter["place"]["time"], letter["place"]["partition"], letter["place"]["offset"])
        if (place, letter["stage"]) not in failing:
            found.append(f"I4: set aside at {place} by {letter['stage']} without a reason: {letter['sentence']}")
        elif mended and letter["code"] != "no_body":
            found.append(f"I4: still set aside at {place} by {letter['stage']} after the mending: {letter['sentence']}")
    told = {letter.get("documentId") for letter in letters}
    found += [f"I4: {id_} failed, and no letter tells" for id_, each in want.items() if each.failed and id_ not in told]
    return found


def _letters(log: MemoryLog) -> list[dict[str, Any]]:
    newest = {record.key: record.value for record in log.records(DEAD_LETTERS)}
    return [json.loads(value) for value in newest.values() if value is not None]


def _stages(each: Sent) -> list[str]:
    return ["ingest"] if each.hopeless else [each.mendable] if each.mendable else []


def _truth_differs(world: World) -> list[str]:
    """correctness.md, section 2: what is left of the truth is what answers, and what failed since."""
    world.log.compact(EXTRACTED)
    heads = world.store.points(world.generation.heads)
    found = []
    for record in world.log.records(EXTRACTED):
        if record.value is None:
            continue
        document = json.loads(record.value)["document"]
        id_ = document["documentId"]
        head, entry = heads.get(id_), world.store.points(LEDGER).get(id_)
        if head is not None and document["version"] < head.payload["version"]:
            found.append(f"the truth keeps version {document['version']} below its head: {head.payload}")
        listed = () if entry is None else entry.payload.get("published", ())
        if document["version"] not in listed and id_ not in world.watch.uncounted:
            found.append(f"the truth keeps version {document['version']} of {id_}, and the ledger lists {listed}")
    entries = world.store.points(LEDGER).values() if world.plan.calm else ()  # a crash may leave one to the sweep
    return found + [
        f"the truth keeps too many versions that failed: {entry.payload}"
        for entry in entries
        if len(entry.payload.get("failed", ())) > world.most_failed
    ]


def _unchanged(world: World, when: str, act: Callable[[], None]) -> None:
    """I7: nothing is embedded, and no point changes."""
    before, embeddings = dict(world.store.points(world.generation.chunks)), world.watch.embeddings
    act()
    world.play()
    _compare(world, when, mended=True)
    after = world.store.points(world.generation.chunks)
    if after.keys() != before.keys():
        raise Violation(f"I7: {when}: points came or went: {sorted(after.keys() ^ before.keys())[:3]}")
    if world.watch.embeddings != embeddings:
        raise Violation(f"I7: {when}: {world.watch.embeddings - embeddings} texts were embedded")


def _erased(world: World) -> None:
    """Erase some documents: nothing of them is left but ids and versions, and no replay brings it back.

    Some are sent again meanwhile, and are then as if they had never been erased, or are new.
    """
    chosen = [id_ for id_ in sorted(world.store.points(LEDGER)) if world.rng.random() < 0.7]
    meanwhile = _sent_meanwhile(world, chosen)
    said, submissions = world.erase(chosen, meanwhile), _sent(world)
    # Across partitions clocks decide, so a foreign producer's may stand above the erasure: then that is said.
    ids = [id_ for id_ in chosen if submissions[id_][-1].erases]
    _raise("erased", [f"{id_}: {said[id_]}" for id_ in ids if said.get(id_, "") is not None])
    above = [id_ for id_ in chosen if not any(each.erases for each in submissions[id_][-2:])]
    _raise("erased", [f"{id_} is said to be, and isn't" for id_ in above if said.get(id_, "") is None])
    _compare(world, "erased", mended=True)
    # What was sent after an erasure whose clock was ahead counts for older, and its record came too late to be erased.
    resent = {document_id(event.tenant, SOURCE, event.path) for event in meanwhile}
    ids = [id_ for id_ in ids if id_ not in resent]
    # Chunks made before stay until retention takes them, where the log's files aren't ours.
    before = set() if world.plan.forgetful else {_place(record) for record in world.log.ever(world.chunks)}
    _raise("erased", _left(world, ids, before))
    if world.rng.random() < 0.5:
        world.log.compact(EXTRACTED)
    _unchanged(world, "all topics replayed after an erasure", world.replay_all)
    _raise("replayed after an erasure", _left(world, ids, before))


def _sent_meanwhile(world: World, ids: Sequence[str]) -> list[Submit]:
    """Return the documents that are sent again while they are being erased."""
    rng = world.rng
    events = [
        Submit(
            at=rng.randrange(150),
            tenant=tenant,
            path=path,
            paragraphs=tuple(rng.sample(range(6), rng.randrange(1, 5))),
            enters=rng.random() < 0.5,
        )
        for tenant in TENANTS
        for path in PATHS
        if document_id(tenant, SOURCE, path) in ids and rng.random() < 0.4
    ]
    return sorted(events, key=lambda event: event.at)


def _place(record: Record) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _left(world: World, ids: Sequence[str], before: Collection[tuple[str, int, int]]) -> list[str]:
    """Return what is there of documents that were erased, but for an id and a version, and for records `before`."""
    log, generation = world.log, world.generation
    found = [f"blobs of {id_}" for id_ in world.blobs.documents() & set(ids)]
    for collection in (LEDGER, generation.heads):
        points = world.store.points(collection)
        found += [f"names of {id_}" for id_ in ids if id_ in points and any(map(points[id_].payload.get, NAMING))]
    found += [f"a dead letter of {each['documentId']}" for each in _letters(log) if each.get("documentId") in ids]
    truth = {record.key: record for record in log.records(EXTRACTED)}  # as compaction will leave it
    records = [*truth.values(), *(record for record in log.records(world.chunks) if _place(record) not in before)]
    if world.plan.forgetful:
        records += log.records(SUBMITTED)
    for record in (record for record in records if record.value is not None):
        body = json.loads(record.value)
        each = body.get("document", body)
        id_ = each.get("documentId") or document_id(each["tenant"], each["source"], each["path"])
        if id_ in ids and each.get("rawHash") != ERASED:
            found.append(f"a record of {record.topic} about {id_}")
    return found


def _at_home(world: World) -> dict[str, bytes]:
    """Return the newest record of each document, unless a foreign producer has touched it, or nothing can take it."""
    records = [record for record in world.log.ever(SUBMITTED) if not again(record)]
    places = {(record.timestamp, record.partition, record.offset): record for record in records}
    found = {}
    for id_, all_ in _sent(world).items():
        if all(places[each.place].key == id_.encode() for each in all_) and not all_[-1].hopeless:
            found[id_] = places[all_[-1].place].value
    return found


def _send_again(world: World) -> None:
    for id_, value in _at_home(world).items():
        world.log.append(SUBMITTED, value, key=id_.encode())


def _empty(world: World) -> None:
    """Take points, and every second time heads, out of the store behind everybody's back."""
    ids = tuple(_at_home(world))
    world.watch.interrupted = True
    world.ungated(world.store.delete(world.generation.chunks, Filter(must=(Match("metadata.documentId", ids),))))
    if world.plan.seed % 2:
        world.ungated(world.store.delete(world.generation.heads, Filter(must=(Ids(ids),))))
    world.watch.interrupted = False
    world.watch.power_lost()


async def _not_published(topic: str, value: bytes | None, **options: Any) -> Any:
    """Take what a sweep would strike: the log has come to rest, and is compared as it is."""


def _rebuilt(world: World) -> tuple[MemoryStore, Generation]:
    """Return a new store, filled from what compaction leaves of the truth."""
    world.log.compact(EXTRACTED)
    generation = world.generation
    store, log = MemoryStore(), MemoryLog({chunks_topic(generation.id): 1}, (0,))
    index, ledger, embedder, bm25 = Index(store, generation), Ledger(store), MemoryEmbedder(), Bm25()

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any:
        return log.append(topic, value, key=b"") if topic == chunks_topic(generation.id) else None

    statuses = Statuses(ledger, publish)
    chunking = Chunking(
        index=index,
        blobs=world.blobs,
        parsers=world.parsers,
        tokens=Characters(),
        publish=publish,
        statuses=statuses,
        room=MemoryBudget(),
    )
    vectors = Vectors(index, embedder, VectorMetrics(CollectorRegistry()))
    embed = Embed(index=index, vectors=vectors, bm25=bm25, publish=publish, statuses=statuses, blobs=world.blobs)

    async def rebuild() -> None:
        await ledger.create()
        await index.create()
        for record in world.log.records(EXTRACTED):
            await chunking(record)
        for record in log.records(chunks_topic(generation.id)):
            await embed(record)
        await sweep_points(index, publish)

    world.ungated(rebuild())
    return store, generation


def verdict(seed: int) -> str | None:
    """Return what the seed's plan breaks, when it is made small, and how to see it again; None where all is well."""
    plan = plan_of(seed)
    failure = play(plan)
    return None if failure is None else told(plan, *shrink(plan, failure))


def shrink(plan: Plan, failure: str) -> tuple[list[int], str]:
    """Return few of the plan's events that still fail, by their numbers, and how; any failure will do."""
    kept = list(range(len(plan.events)))
    runs, size = 0, max(1, len(kept) // 2)
    while runs < SHRINK_RUNS:
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            runs += 1
            if (found := play(keeping(plan, fewer))) is not None:
                kept, failure = fewer, found
                break
        else:
            if size == 1:
                break
            size //= 2
    return kept, failure


def keeping(plan: Plan, kept: Sequence[int]) -> Plan:
    """Return the plan with only these of its events."""
    return msgspec.structs.replace(plan, events=tuple(plan.events[number] for number in kept))


def told(plan: Plan, kept: Sequence[int], failure: str) -> str:
    """Return a failure as somebody wants to read it: what, when, and how to see it again."""
    events = "\n".join(f"  {plan.events[number]}" for number in kept)
    numbers = ",".join(map(str, kept)) or "-"
    return (
        f"seed {plan.seed}: {failure}\n{msgspec.structs.replace(plan, events=())}\n{events}\n"
        f"again: python -m tests.simulation {plan.seed} --keep {numbers}"
    )
