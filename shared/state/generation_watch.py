"""What a process knows of the generations: the registry as it was last read, and the heartbeats of other processes.

Heartbeats say which generations a process can answer from, and which one it answers from now. They are written only
while there is more than one generation. A process is gone when its heartbeat hasn't changed for GONE_S by the watching
process' own clock, so no two clocks are compared.
"""

import asyncio
import itertools
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec
import structlog

from shared.contracts import Message
from shared.errors import Unavailable
from shared.state.batching import Batcher
from shared.state.generations import Registry, no_generation, registry_of
from shared.state.index import GENERATIONS
from shared.store import Filter, Ids, Match, Point, Store

log = structlog.get_logger(__name__)

LOOK_S: Final = 1.0
BEAT_S: Final = 3.0
GONE_S: Final = 15.0
LEASE_S: Final = 3.0  # how long a registry with one generation may be believed
SEEN_S: Final = 2 * LEASE_S  # after this time, every process knows a generation that was registered
_BEAT: Final = "alive"  # `state` of a heartbeat's point


class Heartbeat(Message, frozen=True):
    """A process that works on the index of more than one generation."""

    process: str  # a random id
    name: str  # for people: what it is, machine, and number of the process
    beat: int
    answers: bool = False  # whether it answers requests
    ready: tuple[str, ...] = ()  # generations that it can answer from
    serving: str = ""  # the one that it answers from
    feeds: tuple[str, ...] = ()  # generations whose stages it runs
    embedded: dict[str, int] = msgspec.field(default_factory=dict)  # texts embedded since its start, by generation
    copied: dict[str, int] = msgspec.field(default_factory=dict)  # vectors copied


class _Seen(NamedTuple):
    heartbeat: Heartbeat
    first: float  # seconds of our clock
    changed: float | None  # None: unchanged since our first look


class GenerationWatch:
    """The registry and the heartbeats, read every LOOK_S. Raises Unavailable when the store is away."""

    def __init__(self, store: Store, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the store, and what this process is called."""
        self.registry: Registry | None = None  # as read last
        self.own = Heartbeat(process=str(uuid4()), name=f"{name} {socket.gethostname()}/{os.getpid()}", beat=0)
        self.measure: Callable[[], Mapping[str, Any]] = dict  # fields of the own heartbeat that change
        self._store = store
        self._clock = clock
        self._looked = float("-inf")
        self._beaten = float("-inf")
        self._beats = itertools.count(1)
        self._seen: dict[str, _Seen] = {}
        self._known_since: dict[str, float] = {}
        self._listeners: list[Callable[[Registry], Awaitable[None]]] = []
        self._last_listeners: list[Callable[[Registry], Awaitable[None]]] = []
        self._nudged = asyncio.Event()
        self._nudged.set()  # the first look comes at once
        self._following: list[asyncio.Future[Registry]] = []  # calls of `followed` that wait
        self._looks: Batcher[str, Registry] = Batcher(self._shared_look)

    def listen(self, listener: Callable[[Registry], Awaitable[None]], *, last: bool = False) -> None:
        """Call `listener` after each look. A `last` one is called after all others, also those that are added later."""
        (self._last_listeners if last else self._listeners).append(listener)

    def before(self) -> tuple[str, ...]:
        """Return the lost generations in whose place the serving one is, as last seen."""
        return () if self.registry is None else self.registry.current.before

    def wrote(self, registry: Registry) -> None:
        """Take a registry that this process has just written, without reading it."""
        self.registry = registry

    def nudge(self) -> None:
        """Look now instead of at the next turn."""
        self._nudged.set()

    async def followed(self) -> Registry:
        """Look now. Return the registry once every listener has followed it, including changes that listeners made."""
        waiting: asyncio.Future[Registry] = asyncio.get_running_loop().create_future()
        self._following.append(waiting)
        self.nudge()
        return await waiting

    async def look(self) -> Registry:
        """Read and return the registry."""
        began = self._clock()
        registry = await registry_of(self._store)
        if registry is None:
            raise no_generation()
        self.registry, self._looked = registry, began
        ids = {each.id for each in registry.generations}
        self._known_since = {id_: self._known_since.get(id_, began) for id_ in ids}
        return registry

    async def certain(self) -> Registry:
        """Return the registry as it is now. One with a single generation stays as it is for LEASE_S."""
        known = self.registry
        if known is not None and len(known.generations) == 1 and self._clock() - self._looked < LEASE_S:
            return known
        # Concurrent calls share one look, which starts after them.
        registry = await self._looks.get("")
        assert registry is not None  # `_shared_look` returns one, or raises
        return registry

    async def _shared_look(self, keys: Sequence[str]) -> Mapping[str, Registry]:
        return dict.fromkeys(keys, await self.look())

    def everybody_knows(self, generation: str) -> bool:
        """Return whether every process has read the registry since the generation was added."""
        since = self._known_since.get(generation)
        return since is not None and self._clock() - since >= SEEN_S

    # -- heartbeats ----------------------------------------------------------------------------------

    async def beat(self) -> None:
        """Write this process' heartbeat."""
        self.own = msgspec.structs.replace(self.own, beat=next(self._beats), **self.measure())
        payload = msgspec.to_builtins(self.own) | {"state": _BEAT}
        await self._store.upsert(GENERATIONS, [Point(id=self.own.process, payload=payload)])
        self._beaten = self._clock()

    async def tell(self, **changed: Any) -> None:
        """Change fields of the own heartbeat; write it at once where other processes may wait for it."""
        self.own = msgspec.structs.replace(self.own, **changed)
        if self.own.beat or (self.registry is not None and len(self.registry.generations) > 1):
            await self.beat()

    async def processes(self) -> tuple[list[Heartbeat], list[Heartbeat]]:
        """Return the processes that are alive, then those that may be; delete the heartbeats of the others."""
        points = (await self._store.scroll(GENERATIONS, Filter(must=(Match("state", (_BEAT,)),)))).points
        now = self._clock()
        alive: list[Heartbeat] = []
        unsure: list[Heartbeat] = []
        gone: list[str] = []
        for point in points:
            found = msgspec.convert(point.payload, Heartbeat)
            seen = self._seen.get(point.id)
            if seen is None:
                seen = _Seen(found, now, None)
            elif seen.heartbeat.beat != found.beat:
                seen = _Seen(found, seen.first, now)
            self._seen[point.id] = seen
            if point.id == self.own.process:
                alive.append(self.own)
            elif now - (seen.changed or seen.first) > GONE_S:
                gone.append(point.id)
            else:
                (unsure if seen.changed is None else alive).append(found)
        if gone:
            await self._store.delete(GENERATIONS, Filter(must=(Ids(tuple(gone)),)))
        self._seen = {id_: seen for id_, seen in self._seen.items() if id_ not in gone}
        return alive, unsure

    async def alone(self) -> None:
        """Delete the heartbeats of earlier processes. For a process that has the store to itself."""
        with suppress(Unavailable):
            await self._store.delete(GENERATIONS, Filter(must=(Match("state", (_BEAT,)),)))

    async def leave(self) -> None:
        """Delete this process' heartbeat."""
        with suppress(Unavailable):
            await self._store.delete(GENERATIONS, Filter(must=(Ids((self.own.process,)),)))

    # -- the loop ------------------------------------------------------------------------------------

    async def turn(self) -> None:
        """Wait for the next look, then look, beat and call the listeners. `repeat` it without a pause."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._nudged.wait()
        self._nudged.clear()
        following, self._following = self._following, []
        try:
            registry = await self.look()
            for listener in (*self._listeners, *self._last_listeners):
                await listener(registry)
        except BaseException:
            self._following += following  # the next turn answers them
            raise
        for waiting in following:
            if not waiting.done():
                waiting.set_result(self.registry or registry)
        if len(registry.generations) > 1 and self._clock() - self._beaten >= BEAT_S:
            await self.beat()
            await self.processes()  # so that a switch knows at once which processes are alive
