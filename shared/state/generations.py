"""The registry of generations: which exist, and which one serves. correctness.md, section 6; ADR 0013.

All of it is one point, so a switch is one conditional write: at every moment exactly one generation serves. The
transitions are pure functions; `change` writes their result if nobody wrote in between.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal
from uuid import NAMESPACE_OID, uuid5

import msgspec

from shared.contracts import Message
from shared.errors import Rejected, Unavailable
from shared.settings import ConfigurationError
from shared.state.index import GENERATIONS, Generation
from shared.store import Filter, IndexKind, Match, Point, Store, retrieved
from shared.times import iso
from shared.topics import forwarding_group, readers

FORMAT: Final = 1  # of an index: raise it when its points, heads or registry mean something else
CODE: Final = "generation"  # of refused transitions
REGISTRY_POINT: Final = str(uuid5(NAMESPACE_OID, "registry"))
_INDEXES: Final[dict[str, IndexKind]] = {"rev": "integer"}

State = Literal["building", "serving", "retired", "past"]


class AsOf(Message, frozen=True):
    """A moment of documents.extracted: a time, or an offset of every partition."""

    until: dict[str, int]  # by partition, the first offset that is left out; empty if the log was moved since
    time: int | None = None  # ms since 1970
    offset: int | None = None

    @property
    def label(self) -> str:
        """Return the moment as `--as-of` takes it."""
        return str(self.offset) if self.time is None else iso(self.time)

    def covers(self, partition: int, offset: int) -> bool:
        """Return whether the record was there at that moment."""
        return offset < self.until.get(str(partition), 0)


class CosineScale(Message, frozen=True):
    """The cosines of unrelated texts, by a model without a calibration and by the built-in one: ADR 0020."""

    mean: float  # by the generation's model
    spread: float  # standard deviation
    built_in_mean: float
    built_in_spread: float


class Registered(Message, frozen=True):
    """A generation in the registry."""

    generation: Generation
    embedder: str = ""  # address of its model, as in SLUICE_EMBEDDER
    served: bool = False  # whether it has ever served
    built: bool = False  # whether it has had every document that existed when it was begun
    began: int = 0  # ms since 1970, for display
    built_at: int = 0  # ms since 1970; 0: it isn't built
    # Of documents.extracted by partition, when it was registered: it is built once it has passed them.
    ends: dict[str, int] = msgspec.field(default_factory=dict)
    limit: float | None = None  # documents a second until it is built; None: no limit
    as_of: AsOf | None = None  # past moment whose documents it shows; it never serves. None: the present
    cosines: CosineScale | None = None  # measured once; None: not yet, or its model has a calibration
    before: tuple[str, ...] = ()  # lost generations in whose place it serves, newest first
    lost: bool = False  # whether it was lost while it served: what is left only gives vectors, and goes

    @property
    def id(self) -> str:
        """Return the generation's fingerprint."""
        return self.generation.id

    @property
    def fills(self) -> bool:
        """Return whether it isn't full yet: it is built beside the serving one, or serves in a lost one's place."""
        return not self.built and (not self.served or bool(self.before))


class Switching(Message, frozen=True):
    """A switch that is under way, before and after the moment at which the target starts to serve."""

    target: str
    origin: str
    since: int = 0  # the registry's revision with which it began: no two switches are equal

    def other(self, generation: str) -> str | None:
        """Return the other generation of the switch; None if this one has no part in it."""
        return {self.target: self.origin, self.origin: self.target}.get(generation)


class Registry(Message, frozen=True):
    """All generations. A change is only written if `rev` is still as it was read."""

    serving: str
    generations: tuple[Registered, ...]
    rev: int = 1  # number of writes; the next write is conditional on it
    builds: int = 0  # number of generations begun after the first
    switching: Switching | None = None
    format: int = FORMAT

    def find(self, id_: str) -> Registered | None:
        """Return the generation with this id."""
        return next((each for each in self.generations if each.generation.id == id_), None)

    @property
    def current(self) -> Registered:
        """Return the generation that serves."""
        found = self.find(self.serving)
        assert found is not None, "the registry names a generation that it doesn't have"
        return found

    @property
    def others(self) -> tuple[Registered, ...]:
        """Return the generations that don't serve."""
        return tuple(each for each in self.generations if each.id != self.serving)

    @property
    def fed(self) -> tuple[Registered, ...]:
        """Return the generations that stages feed: all but what is left of lost ones."""
        return tuple(each for each in self.generations if not each.lost)

    def groups(self, foreign: Iterable[str]) -> dict[str, str]:
        """Return the topic that each consumer group reads; `foreign` are tenants' own topics."""
        own = {group: topic for each in self.fed for topic, group in readers(each.id).items()}
        return own | {forwarding_group(topic): topic for topic in foreign}

    def state(self, each: Registered) -> State:
        """Return the generation's state. If it doesn't serve, it is retired if it ever did, else being built."""
        if each.id == self.serving:
            return "serving"
        if each.as_of is not None and each.built:
            return "past"
        return "retired" if each.served else "building"


# Transitions


def begun(
    registry: Registry,
    generation: Generation,
    *,
    embedder: str,
    ends: Mapping[str, int],
    now: int,
    limit: float | None = None,
    as_of: AsOf | None = None,
) -> Registry:
    """Return the registry with another generation. Its number is new, so its names were never used before.

    Raises:
        Rejected: another generation is being built, or one of the same moment is there.
    """
    if building := [each for each in registry.others if registry.state(each) == "building"]:
        raise Rejected(f"generation {building[0].id} is being built: switch to it, or cancel it first", CODE)
    if as_of is not None and (same := [each for each in registry.others if each.as_of == as_of]):
        raise Rejected(f"generation {same[0].id} already shows that moment; `sluice reindex gc` drops it", CODE)
    numbered = msgspec.structs.replace(generation, build=registry.builds + 1)
    new = Registered(generation=numbered, embedder=embedder, began=now, ends=dict(ends), limit=limit, as_of=as_of)
    return msgspec.structs.replace(
        registry, generations=(*registry.generations, new), builds=registry.builds + 1, format=FORMAT
    )


def succeeded(registry: Registry, lost: str, now: int) -> Registry:
    """Return the registry in which a new generation serves in place of `lost`; unchanged if that doesn't serve.

    It has the lost one's settings, and serves at once, with the gate shut. A switch under way is cancelled.
    """
    if registry.serving != lost:
        return registry
    old = registry.current
    new = msgspec.structs.replace(
        old,
        generation=msgspec.structs.replace(old.generation, build=registry.builds + 1),
        served=True,
        built=False,
        built_at=0,
        began=now,
        ends={},
        limit=None,
        before=(old.id, *old.before),
    )
    left = _replaced(registry, lost, lost=True)
    return msgspec.structs.replace(
        left, serving=new.id, generations=(*left.generations, new), builds=registry.builds + 1, switching=None
    )


def marked_built(registry: Registry, id_: str, now: int) -> Registry:
    """Return the registry with the generation marked as built; unchanged if it is so already."""
    found = registry.find(id_)
    return registry if found is None or found.built else _replaced(registry, id_, built=True, built_at=now)


def scaled(registry: Registry, id_: str, cosines: CosineScale) -> Registry:
    """Return the registry with the scale of the generation's cosines; unchanged if it has one, for scores to stay."""
    found = registry.find(id_)
    return registry if found is None or found.cosines is not None else _replaced(registry, id_, cosines=cosines)


def scale_of(registry: Registry | None, id_: str) -> CosineScale | None:
    """Return the scale of the generation's cosines; None: it isn't known yet."""
    found = registry and registry.find(id_)
    return found.cosines if found else None


def switch_begun(registry: Registry, target: str) -> Registry:
    """Return the registry with a switch to `target` under way.

    Raises:
        Rejected: there is no such generation, it can't serve or does already, or another switch is under way.
    """
    found = registry.find(target)
    if found is None:
        raise Rejected(f"there is no generation {target}", CODE)
    if found.as_of is not None:
        raise Rejected(f"generation {target} shows the documents as of {found.as_of.label}: it can't serve", CODE)
    if found.lost:
        raise Rejected(f"generation {target} was lost: it can't serve", CODE)
    if registry.switching is not None:
        if registry.switching.target == target:
            return registry
        raise Rejected(f"a switch to generation {registry.switching.target} is under way", CODE)
    if registry.serving == target:
        raise Rejected(f"generation {target} serves already", CODE)
    switching = Switching(target=target, origin=registry.serving, since=registry.rev + 1)
    return msgspec.structs.replace(registry, switching=switching)


def switched(registry: Registry) -> Registry:
    """Return the registry after the target of the switch has started to serve; unchanged if no switch is under way."""
    switching = registry.switching
    if switching is None or registry.serving == switching.target:
        return registry
    both = {switching.target, switching.origin}
    marked = tuple(
        msgspec.structs.replace(each, served=True) if each.id in both else each for each in registry.generations
    )
    return msgspec.structs.replace(registry, serving=switching.target, generations=marked)


def switch_ended(registry: Registry) -> Registry:
    """Return the registry with no switch under way. A switch whose target doesn't serve yet is cancelled by that."""
    return msgspec.structs.replace(registry, switching=None)


def dropped(registry: Registry, id_: str) -> Registry:
    """Return the registry without the generation.

    Raises:
        Rejected: it serves, or is part of a switch, or there is none.
    """
    if registry.find(id_) is None:
        raise Rejected(f"there is no generation {id_}", CODE)
    if id_ == registry.serving:
        raise Rejected(f"generation {id_} serves: it can't be dropped", CODE)
    if registry.switching is not None and registry.switching.other(id_) is not None:
        raise Rejected(f"generation {id_} is part of a switch that is under way", CODE)
    left = tuple(each for each in registry.generations if each.id != id_)
    return msgspec.structs.replace(registry, generations=left)


def only_serving(registry: Registry) -> Registry:
    """Return the registry with the serving generation alone, and no switch under way.

    Numbers of generations aren't used again, because topics and groups of lost generations may still exist.
    """
    alone = (msgspec.structs.replace(registry.current, served=True),)
    return msgspec.structs.replace(registry, generations=alone, switching=None)


def on_another_log(registry: Registry) -> Registry:
    """Return the registry after a move of the log, without the old log's offsets."""
    generations = tuple(
        msgspec.structs.replace(each, ends={}, as_of=each.as_of and msgspec.structs.replace(each.as_of, until={}))
        for each in registry.generations
    )
    return msgspec.structs.replace(registry, generations=generations)


def moved(registry: Registry, id_: str, embedder: str) -> Registry:
    """Return the registry with another address of the generation's model.

    One of another format stays as it is, because writing it would drop the fields that this release doesn't know.
    """
    return registry if registry.format != FORMAT else _replaced(registry, id_, embedder=embedder)


def _replaced(registry: Registry, id_: str, **fields: Any) -> Registry:
    changed = (msgspec.structs.replace(each, **fields) if each.id == id_ else each for each in registry.generations)
    return msgspec.structs.replace(registry, generations=tuple(changed))


# In the store


async def registry_of(store: Store) -> Registry | None:
    """Return the registry, None if the store has no generation yet.

    Raises:
        Unavailable: the store is away. ConfigurationError: another release has written it, and it can't be read.
    """
    found = await retrieved(store, GENERATIONS, [REGISTRY_POINT])
    return registry_in(found[0].payload) if found else None


def registry_in(payload: Mapping[str, Any]) -> Registry:
    """Return the registry of the stored payload, also one of another format that can be read.

    Raises:
        ConfigurationError: another release has written it, and it can't be read.
    """
    with suppress(msgspec.ValidationError):
        registry = msgspec.convert(payload, Registry)
        if registry.find(registry.serving) is not None:  # a field that is unknown here is part of its id
            return registry
    raise ConfigurationError(
        f"another release of Sluice has written this index (its format is {payload.get('format')}, this release has "
        f"{FORMAT}), and its registry can't be read: start that release, or choose another SLUICE_DATA"
    )


async def change(store: Store, transition: Callable[[Registry], Registry], *, seen: Registry | None = None) -> Registry:
    """Write and return what `transition` makes of the registry. If another process wrote meanwhile, it is called again.

    `seen` is the registry as the caller has just read it, which saves a read.

    Raises:
        Unavailable: the store is away, or has no generation yet. Rejected: `transition` refuses.
    """
    known = seen if seen is not None else await registry_of(store)
    while True:
        if known is None:
            raise no_generation()
        wanted = transition(known)
        if wanted == known:
            return known
        wanted = msgspec.structs.replace(wanted, rev=known.rev + 1)
        standing = await _written(store, wanted, known.rev)
        if standing == wanted:
            return wanted
        known = standing


def first_registry(generation: Generation, embedder: str = "") -> Registry:
    """Return the registry of a new index with this generation; `embedder` is the address of its model."""
    first = Registered(generation=generation, embedder=embedder, served=True)
    return Registry(serving=generation.id, generations=(first,), rev=1)


async def serving(store: Store, wanted: Registry) -> Registry:
    """Return the store's registry, which becomes `wanted` if there is none.

    An existing index keeps the settings that it was built with, even if `wanted` differs.
    """
    registry = await registry_of(store)
    if registry is None:
        registry = await _written(store, wanted, 0)
        assert registry is not None
    return registry


def no_generation() -> Unavailable:
    """Return the error of a process that finds no generation."""
    return Unavailable("the index has no generation yet; start an ingest-worker, or run: sluice init", "no_generation")


async def _written(store: Store, wanted: Registry, rev: int) -> Registry | None:
    """Write `wanted` unless somebody has changed the registry since revision `rev`; return the stored one."""
    # The defaults are encoded, because a condition on an absent field doesn't match.
    payload = msgspec.to_builtins(wanted) | {"rev": wanted.rev, "format": wanted.format}
    point = Point(id=REGISTRY_POINT, payload=payload)
    if rev == 0:
        await store.create_collection(GENERATIONS, size=None, sparse=False, indexes=_INDEXES)
    stored = await store.put_if(GENERATIONS, [point], Filter(must=(Match("rev", (rev,)),)) if rev else None)
    await store.flush()
    return registry_in(stored[0].payload) if stored else None
