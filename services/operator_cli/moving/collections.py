"""Reads, fills and copies whole collections of a store, whatever the store is. docs/adr/0012-backups-and-moves.md

The index moves to another store point by point, vectors included. The log names the store that belongs to it. That
pairing is written last: until then the old store counts, afterwards the new one, and the old one is refused.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import uuid4

import msgspec

from services.operator_cli.terminal import CommandProgress
from services.operator_cli.verify.compare import alike
from shared.contracts import Message
from shared.errors import Rejected, Unavailable
from shared.log import Log, Publish
from shared.state import pairing
from shared.state.generations import Registry, registry_of
from shared.state.index import GENERATIONS, Index
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Ledger
from shared.state.rebuild_gate import CODE as REBUILDING
from shared.state.rebuild_gate import COLLECTION as PAIRING
from shared.state.rebuild_gate import PAIRING_POINT, last_rebuild
from shared.state.sessions import COLLECTION as SESSIONS
from shared.store import Filter, Ids, Point, Store, pages


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
        raise Unavailable(rebuild.sentence, REBUILDING)
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


MARK: Final = "moving"  # collection that marks a target as incomplete
_MARK_POINT: Final = "00000000-0000-5000-8000-000000000003"
_KINDS: Final = ("heads.", "chunks.")
CODE: Final = "move"  # of refusals


class Moved(Message, frozen=True, kw_only=True):
    """What was moved, or would be."""

    to: str
    dry_run: bool
    collections: dict[str, int]  # points by name
    written: int  # points written; fewer than all after an interrupted run
    store_id: str = ""  # of the new store


async def move_store(
    source: Store, target: Store, log: Log, publish: Publish, watch: CommandProgress, *, address: str, dry_run: bool
) -> Moved:
    """Return what was copied from `source` to `target`, which is the log's store afterwards.

    Nothing else may use the log or either store meanwhile. After a crash, call it again.

    Raises:
        Rejected: the source isn't the log's store, or the target isn't empty.
        Unavailable: a part is away, or the index is being rebuilt or switched.
    """
    on_log, in_source, in_target = (
        await pairing.on_log(log),
        await pairing.in_store(source),
        await pairing.in_store(target),
    )
    if on_log is not None and in_target is not None and in_target.store_id == on_log.store_id:
        if not dry_run:
            await target.drop_collection(MARK)
        return Moved(to=address, dry_run=dry_run, collections={}, written=0, store_id=on_log.store_id)
    if on_log is None or in_source is None or in_source.store_id != on_log.store_id:
        raise Rejected("the store of the settings isn't the one that the log belongs to: start Sluice on it once", CODE)
    registry = await settled(source)
    names = ours(await source.collections(), registry)
    await _check_target(target, in_source)
    counts = {name: await source.count(name) for name in names}
    if dry_run:
        return Moved(to=address, dry_run=True, collections=counts, written=0)
    await target.create_collection(MARK, size=None, sparse=False, indexes={})
    await target.upsert(MARK, [Point(id=_MARK_POINT, payload={"storeId": in_source.store_id})])
    written = 0
    for name in names:
        await create(target, name, registry if name == GENERATIONS else await registry_of(target))
        watch.begin(f"copy {name}", counts[name])
        written += await _copied(source, target, name, watch)
        await _delete_surplus(source, target, name)
        await target.flush()
    for name in names:
        watch.begin(f"compare {name}", counts[name])
        if await _copied(source, target, name, watch) or await _surplus(source, target, name):
            raise Rejected(
                f"{name} changed while it was copied: stop everything that uses the store, and run it again", CODE
            )
    newer = max(on_log, in_source, key=lambda each: each.checkpoint)
    store_id = await _paired(log, target, publish, newer, in_target, address)
    await target.drop_collection(MARK)
    return Moved(to=address, dry_run=False, collections=counts, written=written, store_id=store_id)


def ours(names: Sequence[str], registry: Registry | None) -> list[str]:
    """Return the collections to move, in reading order, without those of other programs on a shared server."""
    generations = [] if registry is None else [each.generation for each in registry.generations]
    of_generations = {name for each in generations for name in (each.heads, each.chunks)}
    chosen = (
        name
        for name in names
        if name in of_generations or (name != MARK and "." not in name) or name == "unowned.blobs"
    )
    return in_reading_order(chosen)


async def _check_target(target: Store, in_source: pairing.Pairing) -> None:
    """Check that the target is empty, or an unfinished copy of this source."""
    there = await target.collections()
    if MARK in there:
        mark = await target.retrieve(MARK, [_MARK_POINT])
        if mark and mark[0].payload["storeId"] != in_source.store_id:
            raise Rejected("the target has an unfinished copy of another store: empty it first", CODE)
        return
    if found := [name for name in there if name in (LEDGER, PAIRING, GENERATIONS) or name.startswith(_KINDS)]:
        raise Rejected(f"the target has a collection {found[0]} already: empty it, or choose another prefix", CODE)


async def _copied(source: Store, target: Store, name: str, watch: CommandProgress) -> int:
    """Copy the points that the target lacks or has with other content; return how many."""
    count = 0
    async for page in pages(source, name, vectors=True):
        points = [point for point in page if (name, point.id) != (PAIRING, PAIRING_POINT)]
        there = {each.id: each for each in await target.retrieve(name, [point.id for point in points], vectors=True)}
        lacking = [point for point in points if point.id not in there or not same(point, there[point.id])]
        if lacking:
            await target.upsert(name, lacking)
        count += len(lacking)
        watch.step(len(page))
    return count


async def _delete_surplus(source: Store, target: Store, name: str) -> None:
    """Delete the target's points that the source no longer has: it may have been used since an interrupted run."""
    if await _surplus(source, target, name) == 0:
        return
    async for page in pages(target, name, fields=()):
        ids = [point.id for point in page]
        known = {point.id for point in await source.retrieve(name, ids, fields=())}
        if gone := tuple(id_ for id_ in ids if id_ not in known):
            await target.delete(name, Filter(must=(Ids(gone),)))


async def _surplus(source: Store, target: Store, name: str) -> int:
    """Return how many points the target has that the source lacks."""
    expected = await source.count(name) - (1 if name == PAIRING else 0)
    found = await target.count(name)
    if name == PAIRING and await pairing.in_store(target) is not None:
        found -= 1
    return found - expected


def same(one: Point, other: Point) -> bool:
    """Return whether the points are equal to the last bit; a sparse vector's order doesn't matter."""
    return one.payload == other.payload and _dense(one) == _dense(other) and alike(one.sparse, other.sparse)


def _dense(point: Point) -> bytes:
    return b"" if point.dense is None else point.dense.astype("<f4", copy=False).tobytes()


async def _paired(  # noqa: PLR0917 - two sides and what is between them
    log: Log, target: Store, publish: Publish, old: pairing.Pairing, known: pairing.Pairing | None, address: str
) -> str:
    """Pair the log with the new store; return the store's id. `known` is the target's pairing from an earlier run."""
    wanted = msgspec.structs.replace(
        old,
        store_id=known.store_id if known is not None else uuid4().hex,
        checkpoint=old.checkpoint + 1,
        ends=await pairing.extracted_ends(log),
        address=address,
    )
    standing = await pairing.tell_store(target, wanted, known=known)
    await pairing.tell_log(publish, msgspec.structs.replace(standing, address=address))
    return standing.store_id
