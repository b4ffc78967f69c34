"""Reads and fills whole collections of a store, whatever the store is."""

from collections.abc import Iterable

from shared.errors import Unavailable
from shared.state.generations import Registry, registry_of
from shared.state.index import GENERATIONS, Index
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Ledger
from shared.state.rebuild_gate import CODE, last_rebuild
from shared.state.rebuild_gate import COLLECTION as PAIRING
from shared.state.sessions import COLLECTION as SESSIONS
from shared.store import Store


def in_reading_order(names: Iterable[str]) -> list[str]:
    """Return the names in the order in which a running store is copied, without the sessions of browsers.

    The registry comes first, because it names the collections. The pairing comes before the log, because it must not
    have seen more of it than is copied. Heads come before points and the ledger last: a head without points, or a newer
    version in the ledger, is mended by reading the log again. In another order, the ledger could lack a version that
    answers.
    """
    stages = (GENERATIONS, PAIRING, "heads.", "chunks.", "", LEDGER)

    def stage(name: str) -> int:
        if name in stages:
            return stages.index(name)
        return next((number for number in (2, 3) if name.startswith(stages[number])), 4)

    return sorted(set(names) - {SESSIONS}, key=lambda name: (stage(name), name))


async def settled(store: Store) -> Registry | None:
    """Return the registry of generations.

    Raises:
        Unavailable: the store is away, or the index is being rebuilt or switched.
    """
    rebuild = await last_rebuild(store)
    if rebuild is not None and rebuild.phase != "done":
        raise Unavailable(rebuild.sentence, CODE)
    registry = await registry_of(store)
    if registry is not None and registry.switching is not None:
        raise Unavailable(f"a switch to generation {registry.switching.target} is under way", "generation")
    return registry


async def create(store: Store, name: str, registry: Registry | None) -> None:
    """Create the collection with its indexes unless it exists; `registry` names the generations.

    Raises:
        ConfigurationError: it exists with other vectors. Unavailable: the store is away.
    """
    for each in registry.generations if registry is not None else ():
        if name in (each.generation.chunks, each.generation.heads):
            await Index(store, each.generation).create()
            return
    if name == LEDGER:
        await Ledger(store).create()
        return
    # The other collections get the indexes that they lack when a process opens them.
    await store.create_collection(name, size=None, sparse=False, indexes={})
