"""Builds, compares, switches and drops generations. correctness.md, section 6; ADR 0013.

Every step is a conditional write to the registry, and every API drives a switch. An interrupted switch therefore
continues where it stopped, whichever API began it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal

import msgspec
import structlog

from services.query_api.documents.stats import GenerationView, generation_view
from services.query_api.ops import generation_plan
from services.query_api.ops.generation_plan import BuildRequest, Plan
from shared.errors import Rejected, Unavailable
from shared.log.groups import Barrier, our_groups, unread
from shared.log.open_letters import OpenLetters
from shared.runtime.resources import Resources, wanted_topics
from shared.state import generations
from shared.state.as_of import moment_of, overtaken, reachable
from shared.state.generation_watch import Heartbeat
from shared.state.generations import CODE, Registered, Registry, Switching, change
from shared.state.index import Generation, Head, Index
from shared.state.pairing import extracted_ends
from shared.store import Filter, Match, Range, each_page
from shared.topics import EXTRACTED, SUBMITTED, chunks_topic, readers

log_ = structlog.get_logger(__name__)

State = Literal["building", "ready", "serving", "retired", "past"]
RATE_S: Final = 30.0  # period over which a rate is measured
SETTLE_S: Final = 20.0  # longest time that documents in flight may differ before a switch is refused
STOPPED_S: Final = 30.0  # longest wait for the stages to end before a drop
INCOMPLETE: Final = "incomplete"  # code of a refused switch that `force` allows
_STEP_S: Final = 0.05
_SHOWN: Final = 3  # documents named in a refusal
_PAGE: Final = 256


class GenerationStatus(GenerationView, frozen=True, kw_only=True, omit_defaults=True):
    """A generation and its progress."""

    state: State
    embedder: str
    documents: int  # documents whose newest version it has, without deleted ones
    of_documents: int  # documents of the serving generation
    chunks: int
    unread: int  # records that its stages have yet to read
    failed: int  # open dead letters of its stages
    embedded: int  # texts embedded by the processes running now
    copied: int  # vectors copied by the same processes
    as_of: str | None = None  # the moment that it shows; None: the present
    rate: float | None = None  # documents per second, while it is built
    seconds_left: int | None = None


class GenerationList(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """All generations. `switching` says what a switch in progress waits for."""

    serving: str
    items: list[GenerationStatus]
    switching: str | None = None
    processes: list[str] = []


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command on generations."""

    serving: str
    sentence: str


class GenerationService:
    """Operators' commands on generations. Raises Unavailable if a part is away, Rejected if a command is impossible."""

    def __init__(self, base: Resources) -> None:
        self._base, self._log, self._store, self._watch = base, base.log, base.store, base.watch
        self._letters = OpenLetters(base.log)
        self._progress: dict[str, deque[tuple[float, int]]] = {}
        self._builds: dict[str, Barrier] = {}
        # Of the switch in progress.
        self._barrier: tuple[Switching, Barrier] | None = None
        self._waits_for = ""

    def groups(self) -> dict[str, str]:
        """Return the topic that each consumer group reads, for the generations last seen."""
        registry = self._watch.registry
        return registry.groups(self._base.settings.topics_of_tenants) if registry else {}

    async def siblings(self, index: Index) -> list[Index]:
        """Return the indexes of the other generations."""
        registry = await self._watch.look()
        return [Index(self._store, each.generation) for each in registry.generations if each.id != index.generation.id]

    async def start(self, wanted: BuildRequest) -> Plan:
        """Begin to build a generation, unless it is a dry run; return the plan."""
        registry = await self._watch.look()
        serving = registry.current
        as_of = None if wanted.as_of is None else await reachable(moment_of(wanted.as_of), self._log)
        ends = await extracted_ends(self._log)
        address = generation_plan.chosen("embedder", wanted, self._base.settings, serving)
        embedder = await self._base.embedders.get(address)
        code = await Index(self._store, serving.generation).code()
        generation = generation_plan.generation_of(
            wanted,
            self._base.settings,
            serving.generation,
            chunker=serving.generation.chunker if code is None else code.chunker,
            embedder=embedder,
        )
        replaced = 0 if as_of is None else sum(ends.values()) - sum(as_of.until.values())
        plan = await generation_plan.planned(
            generation,
            registry,
            self._base,
            embedder=embedder,
            address=address,
            documents=await self._documents(serving),
            as_of=as_of,
            replaced=replaced,
        )
        generation_plan.refuse_full_disk(plan)
        begin = partial(
            generations.begun,
            generation=generation,
            embedder=address,
            ends=ends if as_of is None else as_of.until,
            as_of=as_of,
            now=int(time.time() * 1000),
            limit=wanted.limit_rate,
        )
        if wanted.dry_run:
            begin(registry)  # raises whatever the start would raise
            return plan
        registry = await change(self._store, begin)
        built = registry.generations[-1].generation
        await self._log.ensure_topics(wanted_topics(self._base.settings, built))
        await Index(self._store, built).create()
        self._watch.nudge()
        log_.info("generation_begun", generation=built.id, chunks=plan.chunks, embed=plan.embed)
        return msgspec.structs.replace(plan, id=built.id)

    async def cost(self, moment: str) -> str:
        """Return what an index of the past moment costs. Raises as `start` does."""
        plan = await self.start(BuildRequest(as_of=moment, dry_run=True))
        return f"about {plan.embed} texts to embed, {plan.seconds} s and {plan.disk_bytes / 1e6:.0f} MB of disk"

    async def cancel(self) -> Outcome:
        """Cancel the switch in progress, or else drop the generation that is being built."""
        registry = await self._watch.look()
        if registry.switching is not None:
            await change(self._store, _switch_cancelled)
            return await self._told("the switch was cancelled")
        # Also one that waits to be switched to for the first time.
        new = (each for each in registry.others if not each.served and registry.state(each) != "past")
        building = next(new, None)
        if building is None:
            raise Rejected("no generation is being built, and no switch is under way", CODE)
        await self._drop(building)
        await self._drop_groups()
        return await self._told(f"generation {building.id} was dropped")

    async def collect(self) -> Outcome:
        """Drop the retired and the past generations, and remains of earlier ones that crashes left behind."""
        registry = await self._watch.look()
        retired = [each for each in registry.others if registry.state(each) in ("retired", "past")]
        for each in retired:
            await self._drop(each)
        left = await self._drop_unregistered()
        await self._drop_groups()
        names = [each.id for each in retired] + left
        return await self._told(f"dropped: {', '.join(names)}" if names else "no generation is retired or past")

    async def _drop(self, each: Registered) -> None:
        await change(self._store, partial(generations.dropped, id_=each.id))
        self._watch.nudge()
        deadline = time.monotonic() + STOPPED_S
        while time.monotonic() < deadline:
            alive, unsure = await self._watch.processes()
            if not any(each.id in (*found.feeds, *found.ready) for found in (*alive, *unsure)):
                break
            self._watch.nudge()
            await asyncio.sleep(_STEP_S)
        await self._drop_data(each.generation)
        self._progress.pop(each.id, None)

    async def _drop_data(self, generation: Generation) -> None:
        for name in (generation.chunks, generation.heads):
            await self._store.drop_collection(name)
        await self._log.drop_topic(chunks_topic(generation.id))
        log_.info("generation_dropped", generation=generation.id)

    async def _drop_unregistered(self) -> list[str]:
        there = await self._store.collections()
        registry = await self._watch.look()  # read after the names, so that it includes generations begun meanwhile
        kept = {name for each in registry.generations for name in (each.generation.chunks, each.generation.heads)}
        left = [name for name in there if name.startswith(("chunks.", "heads.")) and name not in kept]
        for name in left:
            await self._store.drop_collection(name)
        return sorted({name.partition(".")[2] for name in left})

    async def _drop_groups(self) -> None:
        """Forget what generations that are gone have read; a stage that isn't gone yet is left for next time."""
        registry = await self._watch.look()
        kept = {group for each in registry.generations for group in readers(each.id).values()}
        for group, topic in (await our_groups(self._log)).items():
            if group not in kept and (topic == EXTRACTED or topic.startswith(chunks_topic(""))):
                with suppress(Rejected):
                    await self._log.drop_group(group)

    async def switch(self, target: str | None, *, force: bool, wait_s: float, dry_run: bool = False) -> Outcome:
        """Make another generation serve: `target`, by default the one that was built.

        `force` ignores documents that it lacks. It never ignores unread records or processes that aren't ready.
        """
        registry = await self._watch.look()
        chosen = self._target(registry, target, served=False)
        if registry.switching is None and not chosen.served and chosen.as_of is None:
            if not chosen.built:
                raise Rejected(f"generation {chosen.id} is still being built: see `sluice reindex status`", CODE)
            if not force:
                await self._verified(registry.current, chosen)
        return await self._switched(registry, chosen.id, wait_s, dry_run=dry_run)

    async def rollback(self, *, wait_s: float, dry_run: bool = False) -> Outcome:
        """Make the previously serving generation serve again."""
        registry = await self._watch.look()
        before = registry.serving
        done = await self._switched(registry, self._target(registry, None, served=True).id, wait_s, dry_run=dry_run)
        again = f"{done.sentence}; `sluice reindex switch {before}` lets generation {before} answer again"
        return done if before == done.serving else Outcome(serving=done.serving, sentence=again)

    def _target(self, registry: Registry, target: str | None, *, served: bool) -> Registered:
        if target is not None:
            found = registry.find(target)
        elif registry.switching is not None:
            found = registry.find(registry.switching.target)
        else:
            able = (each for each in reversed(registry.fed) if each.id != registry.serving and each.as_of is None)
            found = next((each for each in able if each.served == served), None)
        if found is None:
            which = target or ("that served before" if served else "that was built and has never served")
            raise Rejected(f"there is no generation {which}: see `sluice reindex status`, and give its id", CODE)
        return found

    async def _switched(self, registry: Registry, target: str, wait_s: float, *, dry_run: bool) -> Outcome:
        """Begin the switch, unless it is under way, and wait for its end; `registry` was read just now."""
        if dry_run:
            return Outcome(serving=registry.serving, sentence=f"generation {target} would serve")
        deadline = asyncio.get_running_loop().time() + wait_s
        registry = await change(self._store, partial(generations.switch_begun, target=target), seen=registry)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    registry = await self._watch.followed()
            if registry.switching is None:
                done = registry.serving == target
                sentence = f"generation {target} serves" if done else "the switch was cancelled"
                return Outcome(serving=registry.serving, sentence=sentence)
            if asyncio.get_running_loop().time() > deadline:
                waits = self._waits_for or "its turn"
                return await self._told(f"the switch to generation {target} is under way, and waits for {waits}")
            if registry.serving != target or self._waits_for:
                await asyncio.sleep(_STEP_S)  # stages and other processes work meanwhile

    async def drive(self, registry: Registry) -> None:
        """Drive the switch in progress by one step; call it after each look at the registry."""
        for each in registry.others:
            if each.lost and not registry.current.fills:  # its vectors were of use until now
                await self._drop_data(each.generation)  # first: a kill leaves an entry, and the next look goes on
                with suppress(Rejected):  # another API has dropped it
                    await change(self._store, partial(generations.dropped, id_=each.id))
                await self._drop_groups()
            elif each.fills and not each.lost:
                await self._follow_build(each)
        switching = registry.switching
        if switching is None:
            self._barrier, self._waits_for = None, ""
        elif registry.serving != switching.target:
            self._waits_for = await self._holdup(registry, switching)
            if not self._waits_for:
                self._watch.wrote(await change(self._store, partial(_switched_to, switching=switching), seen=registry))
                log_.info("generation_switched", serving=switching.target, before=switching.origin)
                self._watch.nudge()
        else:
            behind = [each.name for each in await self._answering() if each.serving != switching.target]
            self._waits_for = f"{', '.join(behind)} to follow" if behind else ""
            if not behind:
                self._watch.wrote(await change(self._store, partial(_ended_to, switching=switching), seen=registry))

    async def _holdup(self, registry: Registry, switching: Switching) -> str:
        """Return what the switch waits for; '' if the target may serve."""
        target = registry.find(switching.target)
        assert target is not None  # `dropped` raises for None
        if not self._watch.everybody_knows(target.id):
            return "every process to learn of the generation"
        if self._barrier is None or self._barrier[0] != switching:
            # Versions that ended before now are below these offsets; later ones end once both generations have them.
            self._barrier = switching, Barrier(generation=target.id, ends=await extracted_ends(self._log))
        missing, answering = await asyncio.gather(self._barrier[1].left(self._log), self._answering())
        if missing:
            return f"the stages of generation {target.id}, which have yet to read {missing} records"
        unready = [each.name for each in answering if target.id not in each.ready]
        return f"{', '.join(unready)} to load generation {target.id}" if unready else ""

    async def _answering(self) -> list[Heartbeat]:
        alive, unsure = await self._watch.processes()
        return [each for each in (*alive, *unsure) if each.answers]

    async def _verified(self, serving: Registered, target: Registered) -> None:
        """Check that the target has every document that the serving generation has.

        Documents that failed in both don't count: a switch changes nothing about them.

        Raises:
            Rejected: it lacks some.
        """
        old, new = Index(self._store, serving.generation), Index(self._store, target.generation)
        differing = await _differing(old, new, None)
        deadline = time.monotonic() + SETTLE_S
        while differing and time.monotonic() < deadline:  # some documents may be in flight
            await asyncio.sleep(10 * _STEP_S)  # other processes apply them
            differing = await _differing(old, new, [*differing])
        if differing:
            raise Rejected(
                f"generation {target.id} lacks the newest version of {len(differing)} documents, such as "
                f"{', '.join([*differing.values()][:_SHOWN])}: see `sluice verify --generation {target.id}` and "
                "`sluice dlq ls`, or use --force",
                INCOMPLETE,
            )

    async def status(self) -> GenerationList:
        """Return all generations, the serving one first."""
        registry = await self._watch.look()
        alive, unsure = await self._watch.processes()
        of = await self._documents(registry.current)
        ordered = (registry.current, *registry.others)
        items = await asyncio.gather(*(self._status(registry, each, of, alive) for each in ordered))
        switching = registry.switching
        return GenerationList(
            serving=registry.serving,
            items=list(items),
            switching=None
            if switching is None
            else f"the switch to generation {switching.target} waits for {self._waits_for or 'its turn'}",
            processes=[each.name for each in (*alive, *unsure)],
        )

    async def _status(
        self, registry: Registry, each: Registered, of: int, alive: Sequence[Heartbeat]
    ) -> GenerationStatus:
        state: State = registry.state(each)
        if state == "building" and each.built:
            state = "ready"
        documents = await self._documents(each)
        stages = [(group, topic) for topic, group in readers(each.id).items() if topic != SUBMITTED]
        rate = self._rate(each.id) if state == "building" else None
        return GenerationStatus(
            **msgspec.structs.asdict(generation_view(each.generation)),
            state=state,
            embedder=each.embedder,
            documents=documents,
            of_documents=of,
            chunks=await self._store.count(each.generation.chunks),
            unread=sum([await unread(self._log, group, topic) for group, topic in stages]),
            failed=await self._letters.failed_in(each.id, *each.before),
            as_of=None if each.as_of is None else each.as_of.label,
            embedded=sum(found.embedded.get(each.id, 0) for found in alive),
            copied=sum(found.copied.get(each.id, 0) for found in alive),
            rate=None if rate is None else round(rate, 1),
            seconds_left=round(max(0, of - documents) / rate) if rate else None,
        )

    async def _documents(self, each: Registered) -> int:
        there = Filter(must=(Range("version", gte=1),), must_not=(Match("deleted", (True,)),))
        try:
            return await self._store.count(each.generation.heads, there)
        except Unavailable as error:
            if error.code == "no_collection":  # the generation was begun just now
                return 0
            raise

    async def _follow_build(self, each: Registered) -> None:
        samples = self._progress.setdefault(each.id, deque())
        samples.append((time.monotonic(), await self._documents(each)))
        while samples[-1][0] - samples[0][0] > RATE_S:
            samples.popleft()
        barrier = self._builds.setdefault(each.id, Barrier(generation=each.id, ends=each.ends))
        if not await barrier.left(self._log):
            if each.as_of is not None and await overtaken(each.as_of, self._log):
                log_.error("past_generation_overtaken", generation=each.id, as_of=each.as_of.label)
                await self._drop(each)
                return
            await change(self._store, partial(generations.marked_built, id_=each.id, now=int(time.time() * 1000)))
            log_.info("generation_built", generation=each.id)

    def _rate(self, id_: str) -> float | None:
        samples = self._progress.get(id_, deque())
        if len(samples) < 2 or samples[-1][1] == samples[0][1]:
            return None
        return (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0])

    async def _told(self, sentence: str) -> Outcome:
        return Outcome(serving=(await self._watch.look()).serving, sentence=sentence)


async def _differing(old: Index, new: Index, ids: Sequence[str] | None) -> dict[str, str]:
    """Return the documents, of `ids` or of all, whose answering version is incomplete in `new`, with names."""
    differing: dict[str, str] = {}
    if ids is None:
        async for heads in each_page(lambda after: old.heads_page(after=after, limit=_PAGE)):
            differing |= await _lacking(heads, new)
    for start in range(0, len(ids or ()), _PAGE):
        some = await old.heads((ids or ())[start : start + _PAGE])
        differing |= await _lacking([*some.values()], new)
    return differing


async def _lacking(heads: Sequence[Head], new: Index) -> dict[str, str]:
    there = await new.heads([head.document_id for head in heads])
    counts = await new.point_counts([head.document_id for head in heads if not head.deleted])

    def whole(head: Head) -> bool:
        found = there.get(head.document_id)
        if found is None or found.version < head.version:
            return False
        return found.deleted or counts.get(head.document_id, 0) >= found.chunk_count

    lacking = (head for head in heads if not whole(head))
    return {head.document_id: f"{head.source}/{head.path} ({head.document_id})" for head in lacking}


# Several processes drive a switch. If another one has taken or cancelled this step, nothing changes.


def _switched_to(registry: Registry, switching: Switching) -> Registry:
    return generations.switched(registry) if registry.switching == switching else registry


def _ended_to(registry: Registry, switching: Switching) -> Registry:
    same = registry.switching == switching and registry.serving == switching.target
    return generations.switch_ended(registry) if same else registry


def _switch_cancelled(registry: Registry) -> Registry:
    if registry.switching is None or registry.serving == registry.switching.target:
        raise Rejected("the target serves already, so the switch can't be cancelled any more", CODE)
    return generations.switch_ended(registry)
