"""A world in one thread: the real stages on parts in memory, and a scheduler that decides, by a seed, what comes next.

Every call of a part waits for its turn, so a process can be stopped, ended or outrun between any two of them.
"""

import asyncio
import heapq
import logging
import random
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from inspect import iscoroutinefunction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from unittest import mock

import msgspec
import structlog
from aiokafka import TopicPartition
from aiokafka.structs import RecordMetadata
from faststream.kafka import KafkaBroker
from prometheus_client import CollectorRegistry

from services.embed_worker import app as embed_app
from services.embed_worker import embed as embed_module
from services.embed_worker.sweep import sweep
from services.embed_worker.vectors import VectorMetrics, Vectors
from services.ingest_worker import app as ingest_app
from services.ingest_worker import chunking as chunking_module
from services.ingest_worker import ingest as ingest_module
from services.ingest_worker import version_publisher as version_publisher_module
from services.ingest_worker.chunk import CHUNKER
from services.ingest_worker.fetch import Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.fill_records import PastTruth
from services.ingest_worker.ingest import Ingest
from services.ingest_worker.parsers import ParserPool
from services.ingest_worker.store_recovery import LedgerFold
from services.query_api.documents.document_routes import DocumentViews
from services.query_api.http.monitoring import Metrics
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import Problem
from services.query_api.ingest.submissions import StatusWaiters, Submissions
from services.query_api.ops import eraser as eraser_module
from services.query_api.ops.eraser import Eraser
from services.query_api.ops.redrive import DeadLetterService
from shared import claim_check as claim_check_module
from shared.blobs import Document, StoredBlob
from shared.contracts import DEFAULT_TENANT, DocumentSubmitted, encode, erasure
from shared.embedder import Vector
from shared.embedder.served import ServedEmbedder
from shared.errors import PipelineError, Rejected, Unavailable
from shared.ids import document_id
from shared.log import Log, Publish, Record, Replacement
from shared.log import publish as publish_module
from shared.log.consume import ConsumeOptions, Consumption, Handle, OnDead
from shared.log.failure import Backoff
from shared.log.groups import Barrier
from shared.log.open_letters import LetterFilter
from shared.log.publish import partition_for, publish
from shared.log.retention_risk import Backlog
from shared.model_server.http import BadAnswer
from shared.settings import Settings
from shared.state import ledger as ledger_module
from shared.state.batching import Batcher, WaitingCaller
from shared.state.callbacks import Callbacks
from shared.state.generations import Registered
from shared.state.index import Generation, Index
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Ledger
from shared.state.rebuild_gate import CODE, Gate
from shared.state.statuses import Statuses
from shared.store import Filter, Leg, Point, Store
from shared.store.bm25 import Bm25
from shared.topics import DEAD_LETTERS, EXTRACTED, FEEDBACK, STATUS, SUBMITTED, chunks_topic
from tests.fakes.blobs import UNKEPT, MemoryBlobs
from tests.fakes.embedder import REFUSED, UNEMBEDDABLE, MemoryEmbedder, MemoryModel, vector_of
from tests.fakes.log import START, Group, Member, MemoryLog, MemoryReader, Through
from tests.fakes.store import MemoryStore
from tests.fakes.tokens import Characters
from tests.simulation.loop import OWNER, SimulatedLoop
from tests.simulation.plan import (
    PROCESSES,
    TENANTS,
    Compact,
    Crash,
    Event,
    Freeze,
    Lose,
    Lost,
    Plan,
    PowerLoss,
    Rebalance,
    Redrive,
    Replay,
    Submit,
    Sweep,
)
from tests.simulation.watch import Violation, Watch

if TYPE_CHECKING:
    from shared.blobs import Blobs
    from shared.embedder import Embedder
    from shared.embedder.served import EmbeddingServer

SOURCE = "wiki"
HORIZON_S = 1000.0  # nothing waits for longer
TICK_S = 1e-6  # of a step, so that whatever is done later is younger
NEAR_S = 5.0  # of which a timer may fire although others have something to do
PATIENCE = 30_000  # steps; the longest of 20,000 histories took a tenth
WRITES = frozenset(f"store.{name}" for name in ("upsert", "put_if", "set_payload", "delete"))
RECORDS: ContextVar[tuple[Record, ...]] = ContextVar("RECORDS", default=())  # that the running code works on
TENANT: ContextVar[str] = ContextVar("TENANT")  # whose document the running code works on

_bm25 = Bm25()
_COMMITTED = {SUBMITTED: "ingest", EXTRACTED: "chunk"}


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine gives that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def paragraph(number: int) -> str:
    """Return a text that is one chunk of the size here: 100 characters or more, and two do not fit."""
    return (
        f"Paragraph {number} tells a fact of its own, and no other has such words for it, "
        "near or far, in whatever year."
    )


class _Steady(Backoff, frozen=True):
    """A backoff that leaves chance to the scheduler."""

    def delay(self, attempt: int) -> float:
        return self.base_s


def _runs(owner: object) -> bool:
    return isinstance(owner, Process) and owner.runs


class Turn(NamedTuple):
    """A call that waits to be let through."""

    process: "Process"
    name: str
    verdict: "asyncio.Future[str]"


class Process:
    """One process' life; after a crash, another one has its name."""

    def __init__(self, name: str, clock: int, speed: float) -> None:
        self.name = name
        self.clock = clock  # ms by which its clock is off
        self.speed = speed
        self.alive = True
        self.frozen = False
        self.zombie = False  # others have its partitions, and it doesn't know
        self.stages: list[tuple[Group, Member, Consumption]] = []
        self.index: Index
        self.publish: Publish
        self.ledger: Ledger
        self.submissions: Submissions
        self.eraser: Eraser
        self.service: DeadLetterService
        self.library: DocumentViews

    @property
    def runs(self) -> bool:
        return self.alive and not self.frozen


class _Going:
    """A partition on its way from its owner."""

    def __init__(self, owner: Member, rewind: bool) -> None:
        self.owner = owner
        self.rewind = rewind  # its next owner begins at 0


class _Gated:
    """Any part, each call of which waits for its turn."""

    def __init__(self, part: object, name: str, through: Through) -> None:
        self._part, self._name, self._through = part, name, through

    def __getattr__(self, method: str) -> Any:
        effect, name, through = getattr(self._part, method), f"{self._name}.{method}", self._through
        if not iscoroutinefunction(effect):
            return effect

        async def call(*args: Any, **options: Any) -> Any:
            return await through(name, lambda: effect(*args, **options))

        self.__dict__[method] = call
        return call


class _Store(_Gated):
    """A store that is asked twice for what a write left, as a server is: others come between."""

    _part: MemoryStore

    async def put_if(
        self, name: str, points: Sequence[Point], only_if: Filter | None, *, fields: Sequence[str] | None = None
    ) -> list[Point]:
        await self._through("store.put_if", lambda: self._part.put_if(name, points, only_if, fields=()))
        found: list[Point] = await self.retrieve(name, [point.id for point in points], fields=fields)
        return found


class _Blobs(_Gated):
    """Blobs whose ages count from the call on, as the real ones' do, and not from its turn."""

    _part: MemoryBlobs

    async def stored(self, document: Document | None = None) -> AsyncIterator[Sequence[StoredBlob]]:
        now = asyncio.get_running_loop().time
        began = now()

        async def listed() -> list[Sequence[StoredBlob]]:
            late = now() - began
            every = [some async for some in self._part.stored(document)]
            return [[blob._replace(age_s=blob.age_s - late) for blob in some] for some in every]

        for some in await self._through("blobs.stored", listed):
            yield some


class _Model(_Gated):
    """A model's server; some of its passing faults look as if it refused a text."""

    _part: MemoryModel

    def __init__(self, part: MemoryModel, rng: random.Random, through: Through) -> None:
        super().__init__(part, "embedder", through)
        self._rng = rng

    async def describe(self) -> Any:
        return await self._part.describe()

    async def embed(self, texts: Sequence[str]) -> Any:
        try:
            return await self._through("embedder.embed", lambda: self._part.embed(texts))
        except BadAnswer:
            raise
        except Unavailable as error:
            if self._rng.random() < 0.5 and self._part.may_stumble(texts):
                raise BadAnswer(f"{self._part.server} answered 500: {error.sentence}", 500) from error
            raise


class _Embedder(ServedEmbedder):
    """The real one, on a simulated server; it tells what is asked of it, and has texts that it can't take."""

    def __init__(self, server: "EmbeddingServer", model: MemoryModel, asked: Callable[[Sequence[str]], None]) -> None:
        super().__init__(server)
        self._simulated, self._asked = model, asked

    async def embed_documents(self, texts: Sequence[str], *, flow: Hashable = None) -> list[Vector]:
        if not self._simulated.mended and any(UNEMBEDDABLE in text for text in texts):
            raise Rejected("the model takes no such text", "unembeddable")
        self._asked(texts)
        return await super().embed_documents(texts, flow=flow)


class _Log(_Gated):
    """A log as tools see it."""

    _part: MemoryLog

    def consumer(self, **options: Any) -> Any:
        return _Gated(MemoryReader(self._part), "log", self._through)


class _CommittedLog(MemoryLog):
    """A log that also tells what the groups have read."""

    def __init__(self, world: "World") -> None:
        self.__dict__ = world.log.__dict__
        self._world = world

    async def committed(self, group: str, topic: str) -> dict[TopicPartition, int | None]:
        return {**self._world.groups[_COMMITTED.get(topic, "embed")].committed}


class _Shut(Gate):
    """The gate of a world."""

    def __init__(self, world: "World") -> None:
        self._world = world

    async def points(self, *names: str) -> None:
        if self._world.filling is not None:
            raise Unavailable("the index is being rebuilt", CODE)


class _ForgetfulLog(_Log):
    """One whose files are ours, as the SQLite log's."""

    async def overwrite(self, instead: Callable[[Record], Replacement | None]) -> int:
        async def overwrite() -> int:
            return self._part.overwrite(instead)

        count: int = await self._through("log.overwrite", overwrite)
        return count

    async def forget(self) -> None: ...


class _Broker:
    """As much of a broker as is published with."""

    def __init__(self, world: "World", process: Process) -> None:
        self.process = process
        self._log, self._through = world.log, world.through(process)

    async def publish(self, value: bytes | None, topic: str, *, key: bytes, **options: Any) -> RecordMetadata:
        async def append() -> RecordMetadata:
            return self._log.append(topic, value, key=key, **options)

        metadata: RecordMetadata = await self._through(f"publish {topic}", append)
        return metadata


async def _siblings(indexes: Sequence[Index]) -> Sequence[Index]:
    return indexes


_answer_of_batcher = Batcher._answer


async def _answer(batcher: Batcher[Any, Any], keys: Sequence[Any], callers: Sequence[WaitingCaller[Any, Any]]) -> None:
    """Stand in for `Batcher._answer`: what a shared call writes is of all its callers' records."""
    RECORDS.set(tuple(record for caller in callers for record in caller.context.get(RECORDS, ())))
    await _answer_of_batcher(batcher, keys, callers)


class World:
    """One history; `run` in `tests.simulation.history` plays it."""

    def __init__(self, plan: Plan, tell: Callable[[str], None] | None = None) -> None:
        self.tell = tell  # told each step, for whoever looks for a reason
        self.plan = plan
        self.rng = random.Random(f"schedule {plan.seed}")
        self.most_failed = plan.seed % 3
        self.loop = SimulatedLoop()
        self.step = 0
        self.generation = Generation(
            chunker=CHUNKER, chunk_size=150, chunk_overlap=0, model=MemoryEmbedder.model, bm25=_bm25.fingerprint
        )
        self.lost: list[Generation] = []  # what is left of them gives vectors
        self.before: list[str] = []  # all that were ever lost
        self.filling: Barrier | None = None
        self.ledger_lost = False
        self.chunks = chunks_topic(self.generation.id)
        counts = dict.fromkeys((SUBMITTED, EXTRACTED, self.chunks), plan.partitions)
        self.log = MemoryLog({**counts, STATUS: 1, DEAD_LETTERS: 1, FEEDBACK: 1}, plan.skews)
        self.store = MemoryStore()
        self.blobs = MemoryBlobs()
        self.model = MemoryModel()
        self.parsers = ParserPool(1)
        self.groups = {
            "ingest": Group("ingest", SUBMITTED, self.log),
            "chunk": Group("chunk", EXTRACTED, self.log),
            "embed": Group("embed", self.chunks, self.log),
        }
        self.watch = Watch(self.store, self.generation, lambda: self.step, calm=plan.calm)
        for group in self.groups.values():
            group.commits = lambda tp, offset: self.watch.committed(OWNER.get(), tp, offset)
        self.names = ("ingest-1", "embed-1") if plan.calm else ("ingest-1", "ingest-2", "embed-1", "embed-2")
        self.processes: dict[str, Process] = {}
        self.refusing = plan.refusals
        self.readers = 0
        self._turns: list[Turn] = []
        self._going: dict[TopicPartition, _Going] = {}
        self._later: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Run the world's loop, clocks and settings while the block lasts."""
        logging_was, structlog_was = logging.root.manager.disable, structlog.get_config()
        logging.disable(logging.CRITICAL)
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        try:
            with (
                mock.patch.object(time, "time", self._time),
                mock.patch.object(ingest_module, "CLAIM_CHECK_BYTES", self.plan.claim_check),
                mock.patch.object(version_publisher_module, "CLAIM_CHECK_BYTES", self.plan.claim_check),
                mock.patch.object(chunking_module, "CLAIM_CHECK_BYTES", self.plan.claim_check),
                mock.patch.object(embed_module, "SLICE", self.plan.slice),
                mock.patch.object(ledger_module, "MOST_FAILED", self.most_failed),
                mock.patch.object(claim_check_module, "CLAIM_CHECK_BYTES", self.plan.claim_check),
                mock.patch.object(publish_module, "partitions_of", self._partitions_of),
                mock.patch.object(eraser_module, "SqliteLog", _ForgetfulLog),
                mock.patch.object(Batcher, "_answer", _answer),
                mock.patch.object(ingest_app, "consume", self._consume),
                mock.patch.object(embed_app, "consume", self._consume),
                self.loop.running(),
            ):
                self._begin()
                yield
                for process in self.processes.values():
                    process.alive = False
        finally:
            logging.disable(logging_was)
            structlog.configure(**structlog_was)

    def _begin(self) -> None:
        base = (Ledger(self.store), Index(self.store, self.generation), Callbacks(self.store))
        for part in base:
            self.ungated(part.create())
        self.ungated(self.store.flush())
        self.store.written = self.watch.written
        for name in (*self.names, "api"):
            self._start(name)

    def _time(self) -> float:
        process = OWNER.get()
        off = process.clock if isinstance(process, Process) else 0
        return START / 1000 + self.loop.now + off / 1000

    def ungated(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return what the coroutine gives; it may wait for nothing but what is ready."""
        task = self.loop.create_task(coroutine)
        self.loop.settle()
        return task.result()

    # Processes

    def _start(self, name: str) -> None:
        number = PROCESSES.index(name)
        process = Process(name, self.plan.clocks[number], self.plan.speeds[number])
        self.processes[name] = process
        through = self.through(process)
        store = cast("Store", _Store(self.store, "store", through))
        blobs = cast("Blobs", _Blobs(self.blobs, "blobs", through))
        ledger = process.ledger = Ledger(store)
        process.index = Index(store, self.generation, _Shut(self))
        siblings = [Index(store, each) for each in self.lost]
        broker = cast("KafkaBroker", _Broker(self, process))
        process.publish = partial(publish, broker)
        statuses = Statuses(ledger, process.publish)
        match name.partition("-")[0]:
            case "ingest":
                ingest = Ingest(
                    ledger=ledger,
                    index=process.index,
                    blobs=blobs,
                    parsers=self.parsers,
                    publish=process.publish,
                    statuses=statuses,
                    partition_of=partial(partition_for, broker, SUBMITTED),
                    fetch=Fetcher(Guard(), FetchLimits()),
                )
                ingest_app.join_ingest(broker, ingest)
                log = cast("Log", _Log(self.log, "log", through))
                past = None if self.filling is None else PastTruth(None, process.index, log)
                chunking = chunking_module.Chunking(
                    index=process.index,
                    blobs=blobs,
                    parsers=self.parsers,
                    tokens=Characters(),
                    publish=process.publish,
                    statuses=statuses,
                    past=past,
                )
                ingest_app.join_chunking(broker, ingest, chunking)
            case "embed":
                embed = embed_module.Embed(
                    index=process.index,
                    vectors=Vectors(
                        process.index,
                        self._embedder(through),
                        VectorMetrics(CollectorRegistry()),
                        siblings=lambda: siblings if self.lost else (),
                        fills=lambda: self.filling is not None,
                    ),
                    bm25=_bm25,
                    blobs=blobs,
                    statuses=statuses,
                    publish=process.publish,
                )
                embed_app.join(broker, embed)
            case _:
                log = cast("Log", (_ForgetfulLog if self.plan.forgetful else _Log)(self.log, "log", through))
                index, send = process.index, process.publish
                base: Any = SimpleNamespace(
                    settings=Settings(),
                    log=log,
                    ledger=ledger,
                    index=index,
                    blobs=blobs,
                    backlog=Backlog(log, {}),  # nothing gets old here
                    watch=SimpleNamespace(before=lambda: self.before),
                )
                process.service = DeadLetterService(base, send)
                process.library = DocumentViews(ledger, index, blobs, Signer(b"secret"))
                process.submissions = Submissions(
                    base=base,
                    publish=send,
                    notices=StatusWaiters(),
                    metrics=Metrics(CollectorRegistry()),
                    signer=Signer(b"secret"),
                )
                process.eraser = Eraser(
                    base, send, process.submissions, Callbacks(store), lambda: _siblings(siblings if self.lost else ())
                )
        for group, member, _ in process.stages:
            group.members.append(member)
            self._rebalance(group)

    def _embedder(self, through: Through) -> "Embedder":
        server = cast("EmbeddingServer", _Model(self.model, self.rng, through))
        embedder = _Embedder(server, self.model, lambda texts: self.watch.embedded(TENANT.get(), texts))
        self.ungated(embedder.start())
        return embedder

    def _consume(
        self,
        broker: KafkaBroker,
        topic: str,
        group: str,
        handle: Handle,
        *,
        on_dead: OnDead,
        stage: str,
        handle_alone: Handle | None = None,
        options: ConsumeOptions = ConsumeOptions(),  # noqa: B008 - frozen
    ) -> Consumption:
        """Stand in for `shared.log.consume.consume`: its Consumption, on a group in memory."""
        process = cast("_Broker", broker).process

        async def watched(record: Record) -> None:
            owner = handle.owner(record)  # type: ignore[attr-defined]  # every stage's handler has it
            RECORDS.set((record,))
            TENANT.set(owner.tenant if owner is not None else DEFAULT_TENANT)
            try:
                await handle(record)
            except PipelineError:
                raise
            except Exception:
                self.watch.bugs.append(f"{process.name}, {stage}: {traceback.format_exc()}")
                raise

        consumption = Consumption(
            watched,
            topic=topic,
            group=group,
            on_dead=on_dead,
            stage=stage,
            handle_alone=watched if handle_alone is not None else None,  # no process of a parser is simulated
            options=msgspec.structs.replace(
                options,
                key_concurrency=8,
                max_in_flight=8,
                max_in_flight_bytes=1 << 20,
                backoff=_Steady(1.0),
                bug_backoff=_Steady(1.0),
                measure_every_s=1e9,
            ),
        )
        member = Member(self.groups[stage], self.through(process))
        consumption.consumer = lambda: member
        process.stages.append((self.groups[stage], member, consumption))
        return consumption

    async def _partitions_of(self, broker: KafkaBroker, topic: str) -> int:
        """Stand in for `shared.log.faststream_driver.partitions_of`, which asks FastStream's producer."""
        return self.log.counts[topic]

    def through(self, process: Process) -> Through:
        """Return what makes each call of the process wait for its turn."""

        async def through(name: str, effect: Callable[[], Awaitable[Any]]) -> Any:
            if not process.alive:
                raise asyncio.CancelledError
            turn = Turn(process, name, self.loop.create_future())
            self._turns.append(turn)
            verdict = await turn.verdict
            if verdict == "refused":
                raise Unavailable(f"{name} is away")
            effects = self.store.effects
            result = await effect()
            if name in WRITES and self.store.effects > effects:
                for record in RECORDS.get():
                    committed = self.groups[_COMMITTED.get(record.topic, "embed")].committed
                    # What is committed was flushed. A worker that wakes up after it has lost its partition, and writes
                    # for a record that its successor has ended, adds nothing that a loss of power could take.
                    if record.offset >= (committed.get(TopicPartition(record.topic, record.partition)) or 0):
                        self.watch.wrote(process, record)
            elif name == "store.flush":
                self.watch.flushed()
            if verdict == "unheard":
                raise Unavailable(f"{name} gave no answer")
            return result

        return through

    def spawn(self, process: Process, work: Callable[[], Awaitable[object]]) -> None:
        """Let the process do something beside its stages."""
        context = copy_context()
        context.run(OWNER.set, process)

        async def doing() -> None:
            try:
                await work()
            except (Unavailable, Problem):
                pass  # it is tried another time
            except Violation as violation:
                self.watch.violations.append(str(violation))

        self.loop.create_task(doing(), context=context)

    # The groups

    def _rebalance(self, group: Group) -> None:
        group.target = group.wanted(self.rng)
        for tp in group.tps:
            owner = group.owners[tp]
            if owner is None:
                self._hand_over(group, tp)
            elif owner is not group.target[tp]:
                self._release(group, owner, tp, rewind=False)

    def _stage_of(self, member: Member) -> tuple[Process, Consumption]:
        return next(
            (process, consumption)
            for process in self.processes.values()
            for _, other, consumption in process.stages
            if other is member
        )

    def _hand_over(self, group: Group, tp: TopicPartition) -> None:
        member = group.target[tp]
        if member is None or member not in group.members:
            return
        group.give(tp, member)
        process, consumption = self._stage_of(member)

        async def begin() -> None:
            await consumption.on_partitions_assigned([tp])
            if tp in member.assignment():
                member.fetching.add(tp)

        self.spawn(process, begin)

    def _release(self, group: Group, owner: Member, tp: TopicPartition, *, rewind: bool) -> None:
        # A client is told of one rebalance after the other, never of a second one within the first.
        going = self._going.get(tp)
        if going is not None and going.owner is owner:
            going.rewind |= rewind
            return
        going = self._going[tp] = _Going(owner, rewind)
        process, consumption = self._stage_of(owner)

        async def release() -> None:
            owner.fetching.discard(tp)
            await consumption.on_partitions_revoked([tp])
            if self._going.get(tp) is going:
                del self._going[tp]
            if group.owners[tp] is not owner:
                return
            owner.lose(tp)
            group.owners[tp] = None
            if going.rewind:
                group.seek(tp, 0)
            self._hand_over(group, tp)

        self.spawn(process, release)

    def _end(self, process: Process) -> None:
        process.alive = False
        self.loop.drop(process)
        self._turns = [turn for turn in self._turns if turn.process is not process]
        if process.name == "api":
            self.readers = 0
        for group, member, _ in process.stages:
            group.leave(member)
            self._rebalance(group)

    def _freeze(self, process: Process, event: Freeze) -> None:
        process.frozen = process.zombie = True
        for group, member, _ in process.stages:
            group.leave(member)
            self._rebalance(group)

        def wake() -> None:
            process.frozen = False
            self.after(event.unaware, tell)

        def tell() -> None:
            process.zombie = False
            if process.alive:
                for stage in process.stages:
                    self.spawn(process, partial(self._rejoin, *stage))

        self.after(event.steps, wake)

    async def _rejoin(self, group: Group, member: Member, consumption: Consumption) -> None:
        if member in group.members:
            return  # frozen again before it was back, it wakes twice
        tps = member.assignment()
        member.fetching.clear()
        await consumption.on_partitions_revoked(tps)
        if member in group.members:
            return  # the other waking was faster
        for tp in tps:
            member.lose(tp)
        group.members.append(member)
        self._rebalance(group)

    # What happens

    def after(self, steps: int, do: Callable[[], None]) -> None:
        """Do something so many steps from now, or when nothing else is left to do."""
        self._count += 1
        heapq.heappush(self._later, (self.step + steps, self._count, do))

    def happen(self, event: Event) -> None:
        """Let an event of the plan come about."""
        if self.tell is not None:
            self.tell(f"{self.step}: {event}")
        match event:
            case Submit():
                self.submit(event)
            case Crash(_, name, down):
                process = self.processes[name]
                if process.alive:
                    self._end(process)
                    self.after(down, lambda: self._start(name))
            case Freeze(_, name):
                if self.processes[name].alive and not self.processes[name].zombie:
                    self._freeze(self.processes[name], event)
            case PowerLoss():
                self._lose_power()
            case Rebalance():
                for group in self.groups.values():
                    self._rebalance(group)
            case Replay(_, stage):
                self.replay(self.groups[stage])
            case Sweep():
                if (process := self.processes["embed-1"]).alive:
                    self.spawn(process, partial(self._sweep, process))
            case Redrive():
                self.spawn(self.processes["api"], partial(self._redrive, self.processes["api"]))
            case Lose(_, what):
                self._lose(what)
            case Compact():
                self.log.compact(EXTRACTED)
                self.log.compact(DEAD_LETTERS)

    def submit(self, event: Submit) -> None:
        """Append a submission, as a door or a foreign producer does."""
        text: str | None = None
        if event.paragraphs is not None and event.flaw != "no_body":
            flaw = {"unembeddable": f" {UNEMBEDDABLE}", "blob_missing": f" {UNKEPT}"}.get(event.flaw, "")
            paragraphs = [paragraph(number) + flaw for number in event.paragraphs]
            if event.flaw == "refused":  # one text, in whatever document
                paragraphs.append(f"{paragraph(9)} {REFUSED}")
            text = "\n\n".join(paragraphs)
        document = DocumentSubmitted(
            tenant=event.tenant,
            source=SOURCE,
            path=event.path,
            text=text,
            title=event.title,
            tags=event.tags,
            hash=event.hint,
            deleted=event.paragraphs is None,
        )
        id_ = document_id(event.tenant, SOURCE, event.path)
        if event.erases:
            document = erasure(event.tenant, id_)
        self.watch.sent(id_, event.tenant, text)
        self.log.pass_time(self.rng.choice((0, 0, 1, 1000)))
        if event.enters and event.partition is None:
            self.spawn(self.processes["api"], partial(self.processes["api"].submissions.submit, document))
        else:
            key = id_.encode() if event.partition is None else None
            self.log.append(SUBMITTED, encode(document), key=key, partition=event.partition)

    def replay(self, group: Group) -> None:
        """Set a group back to the beginning of its topic."""
        for tp in group.tps:
            owner = group.owners[tp]
            if owner is None:
                group.seek(tp, 0)
            else:
                self._release(group, owner, tp, rewind=True)

    def replay_all(self) -> None:
        """Set every group back."""
        for group in self.groups.values():
            self.replay(group)

    def _lose_power(self) -> None:
        for process in self.processes.values():
            if process.alive:
                self._end(process)
        self.watch.interrupted = True
        self.store.lose_power(lambda most: self.rng.randint(0, most))
        self.watch.interrupted = self.filling is not None
        self.watch.power_lost()
        self.watch.forgot(self.log.records(EXTRACTED))
        self._later = []  # whoever was to wake or start again starts now
        for name in (*self.names, "api"):
            self._start(name)

    def _lose(self, what: Lost) -> None:
        for process in self.processes.values():
            if process.alive:
                self._end(process)
        self._later = []
        self.watch.interrupted = True
        gone = {"ledger": (LEDGER,), "heads": (self.generation.heads,), "chunks": (self.generation.chunks,)}
        for name in gone.get(what, (LEDGER, self.generation.heads, self.generation.chunks)):
            self.ungated(self.store.drop_collection(name))
        if what != "ledger":
            self._succeed()
        if what in ("ledger", "everything"):
            self.ledger_lost = True
            self.ungated(Ledger(self.store).create())
            registered = Registered(generation=self.generation, before=tuple(self.before))
            log, store = cast("Log", _CommittedLog(self)), cast("Store", self.store)
            self.ungated(LedgerFold(log, store, registered).run())
        self.ungated(self.store.flush())
        for name in (*self.names, "api"):
            self._start(name)
        if self.filling is None:
            self.watch.interrupted = False

    def _succeed(self) -> None:
        """Let a new generation serve in the lost one's place, with the gate shut."""
        self.lost.append(self.generation)
        self.before.insert(0, self.generation.id)
        self.generation = msgspec.structs.replace(self.generation, build=self.generation.build + 1)
        for each in (*self.lost, self.generation):
            self.ungated(Index(self.store, each).create())
        self.watch.succeeded(self.generation)
        self.chunks = chunks_topic(self.generation.id)
        self.log.add(self.chunks, self.plan.partitions)
        for name, topic in (("chunk", EXTRACTED), ("embed", self.chunks)):
            group = self.groups[name] = Group(name, topic, self.log)
            group.commits = lambda tp, offset: self.watch.committed(OWNER.get(), tp, offset)
        ends = {str(tp.partition): there.end for tp, there in self.log.partitions.items() if tp.topic == EXTRACTED}
        self.filling = Barrier(generation=self.generation.id, ends=ends)

    def _open_gate(self) -> None:
        """Open the gate if the index is full: then nothing may be missing."""
        if self.filling is None or _at_once(self.filling.left(cast("Log", _CommittedLog(self)))):
            return
        self.filling = None
        for each in self.lost:
            for name in (each.heads, each.chunks):
                self.ungated(self.store.drop_collection(name))
        self.lost.clear()
        self.watch.filled()

    async def _sweep(self, process: Process) -> None:
        await sweep(process.index, process.ledger, process.publish)

    async def _redrive(self, process: Process) -> None:
        for tenant in (*TENANTS, DEFAULT_TENANT):
            wanted = LetterFilter(tenant=tenant)
            letters = await process.service.open.oldest(wanted, limit=1000)
            await process.service.redrive(letters.letters)

    def erase(self, ids: Sequence[str], meanwhile: Sequence[Event] = ()) -> dict[str, str | None]:
        """Return by id None for each document that an operator has erased now, or why it isn't."""
        process, said = self.processes["api"], dict[str, str | None]()

        async def erasing() -> None:
            for tenant in TENANTS:
                entries = [entry for id_ in ids if (entry := await process.ledger.get(id_)) and entry.tenant == tenant]
                said.update(await process.eraser.erase(entries, HORIZON_S))

        self.spawn(process, erasing)
        self.play(meanwhile)
        return said

    async def _read(self, process: Process) -> None:
        """Read a document's chunks, and search, as a user does."""
        self.readers += 1
        try:
            tenant, path = self.rng.choice(TENANTS), self.rng.choice(("a", "b", "c"))
            id_, began = document_id(tenant, SOURCE, path), self.step
            self.watch.look(id_)
            try:
                page = await process.library.chunks(tenant, id_, limit=1000, cursor=None)
            except Problem:
                pass  # nobody has heard of it
            else:
                self.watch.read(id_, tuple(item.text for item in page.items), since=began)
            leg = Leg(dense=vector_of(paragraph(self.rng.randrange(6))))
            for hit in (await process.index.search(tenant, [leg], Filter(), limit=20))[0]:
                self.watch.found(tenant, hit)
        finally:
            self.readers -= 1

    # The scheduler

    def play(self, events: Sequence[Event] = ()) -> None:
        """Let the events happen, and everything that follows from them, until all is at rest."""
        waiting = list(reversed(events))
        began = self.step
        while True:
            while self._later and self._later[0][0] <= self.step:
                heapq.heappop(self._later)[2]()
            while waiting and waiting[-1].at <= self.step - began:
                self.happen(waiting.pop())
            self.loop.settle()
            if not self._next():
                if waiting:
                    self.happen(waiting.pop())
                elif self._later:
                    heapq.heappop(self._later)[2]()
                elif self.refusing:
                    self.refusing = 0.0
                else:
                    return
            self._open_gate()
            self.step += 1
            self.loop.now += TICK_S
            if self.loop.complaints:
                raise Violation(self.loop.complaints[0])
            self.watch.check()
            if self.step - began > PATIENCE:
                raise Violation(f"no rest after {PATIENCE} steps; {[turn.name for turn in self._turns][:10]} wait")

    def _next(self) -> bool:
        """Do one thing, and return whether there was any."""
        rng, roll = self.rng, self.rng.random()
        if roll < 0.03 and self.readers < 3:
            self.spawn(self.processes["api"], partial(self._read, self.processes["api"]))
            return True
        turns = [turn for turn in self._turns if turn.process.runs and not turn.verdict.done()]
        fetches = self._fetches() if roll < 0.2 or not turns else ()
        if fetches:
            process, member, consumption, tp = rng.choice(fetches)
            if records := member.fetch(tp, rng.randrange(1, 5)):
                member.dispatching = True
                self.spawn(process, partial(self._dispatch, member, consumption, records))
        elif turns and roll < 0.95:
            self._let_through(turns)
        elif timer := self.loop.timer(_runs, NEAR_S if turns else HORIZON_S):
            self.loop.fire(timer)
        elif turns:
            self._let_through(turns)
        else:
            return False
        return True

    async def _dispatch(self, member: Member, consumption: Consumption, records: list[Record]) -> None:
        await consumption.dispatch(member, records)
        member.dispatching = False

    def _fetches(self) -> list[tuple[Process, Member, Consumption, TopicPartition]]:
        return [
            (process, member, consumption, tp)
            for process in self.processes.values()
            if process.runs
            for _, member, consumption in process.stages
            if not member.dispatching
            for tp in member.readable()
        ]

    def _let_through(self, turns: Sequence[Turn]) -> None:
        turn = self.rng.choice(turns)
        while self.rng.random() > turn.process.speed:
            turn = self.rng.choice(turns)
        self._turns = [other for other in self._turns if other is not turn and not other.verdict.done()]
        verdict = "done"
        if self.refusing and turn.process.name != "api" and self.rng.random() < self.refusing:
            verdict = self.rng.choice(("refused", "unheard"))
        if self.tell is not None:
            self.tell(f"{self.step}: {turn.process.name} {turn.name} {verdict}")
        turn.verdict.set_result(verdict)
        self.loop.settle()
