"""Rewrites collections that have too many dead points, or too many vectors outside their index.

By itself, the engine never frees a deleted point and never builds an index.
docs/adr/0014-qdrant.md, docs/adr/0016-vectors.md
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

from shared.store import CollectionSize
from shared.store.edge_engine import Broken, Collection, Engine, NoCollection, Unserved, sync_tree
from shared.store.index_builder import IndexBuilder, IndexBuildError, VectorFormat

SMALL: Final = 2000  # dead points that never justify a rewrite
BURST: Final = 20.0  # points written a second: more than this is a burst
PATIENCE_S: Final = 3600.0  # a rewrite that is due waits for a burst to end, but no longer than this
ROOM: Final = 1.5  # free disk space that a rewrite needs, relative to the collection's size
ROOM_INDEXED: Final = 3.0  # the same for a rewrite that also builds the index
INDEXED_FROM: Final = 20_000  # vectors; comparing fewer one by one takes two milliseconds and is exact
_OUTGROWN: Final = 4  # the index is built again when a quarter of the points aren't in it
_SLICE: Final = 16  # points copied between two requests: about two milliseconds
_CAUGHT_UP: Final = 64  # points left to copy again: few enough for the last step, which must not be interrupted
_REST: Final = 9.0  # pause after each slice, in durations of the slice: others keep nine tenths of the thread
_LONGEST_CHASE: Final = 1000  # slices; if writers stay ahead of the copy for so long, the last step copies the rest


def is_due(size: CollectionSize, small: int = SMALL) -> bool:
    """Return whether the collection has so many dead points that it should be rewritten."""
    return size.dead > max(size.live // 2, small)


def is_index_due(size: CollectionSize, unindexed: int, least: int = INDEXED_FROM) -> bool:
    """Return whether enough vectors are outside the index to build it, or to build it again."""
    return unindexed >= least and unindexed * _OUTGROWN >= size.live


class _CopyDropped(Unserved):
    """The copy was dropped meanwhile: with its collection, for another index of a field, or for an operator."""


@dataclass
class Rewriter:
    """Rewrites one collection at a time, slice by slice, between the requests that the engine answers.

    An operator's rewrite has priority: it takes the place of one that is due, and rests for nobody.
    """

    engine: Engine
    folder: Path
    tell: Callable[..., None]  # event, **fields: logs it in the process that runs the engine
    builder: IndexBuilder
    _: KW_ONLY
    small: int = SMALL
    indexed_from: int = INDEXED_FROM
    clock: Callable[[], float] = time.monotonic
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._seen = self.engine.written, self.clock()
        self._due_since: dict[str, float] = {}
        self._not_before: dict[str, float] = {}  # after a failure
        self._told: set[str] = set()  # collections that wait for room on the disk
        self._turn = asyncio.Lock()
        self._due: Collection | None = None  # whose rewrite is under way because it is due

    async def look(self) -> None:
        """Rewrite the collections that are due. Call it after a flush: sizes are those of the last one.

        Raises:
            Broken: a write failed within the engine; it must be opened again.
        """
        now = self.clock()
        written, then = self._seen
        self._seen = self.engine.written, now
        busy = self.engine.written - written > BURST * (now - then)
        due = [
            size
            for size in self.engine.flushed_sizes()
            if is_due(size, self.small) or is_index_due(size, self.engine.at(size.name).unindexed(), self.indexed_from)
        ]
        self._due_since = {size.name: self._due_since.get(size.name, now) for size in due}
        for size in due:
            waits = busy and now - self._due_since[size.name] < PATIENCE_S
            free = not self._turn.locked()  # else an operator's is under way, and another look sees what is due
            if free and not waits and now >= self._not_before.get(size.name, now) and self._has_room(size):
                async with self._turn:
                    await self._rewrite_due(size)

    async def now(self, name: str) -> None:
        """Rewrite the collection, whether it is due or not.

        Raises:
            NoCollection: there is none.
            Unserved: it failed, or the copy was dropped; the old files stay. Broken: as `look`.
        """
        if self._due is not None and self._due.copy is not None:
            self._due.drop_copy()
        async with self._turn:
            await self._rewrite(self.engine.at(name).size(), rest=0.0)

    def _index_format(self, size: CollectionSize) -> VectorFormat | None:
        """Return the format of the vectors of which the rewritten collection gets an index; None: it gets none."""
        return self.engine.at(size.name).vectors if size.live >= self.indexed_from else None

    def _has_room(self, size: CollectionSize) -> bool:
        room = ROOM_INDEXED if self._index_format(size) else ROOM
        free, needed = self.free(self.folder), int(room * size.disk_bytes)
        if free >= needed:
            self._told.discard(size.name)
            return True
        if size.name not in self._told:
            self._told.add(size.name)
            self.tell("store_rewrite_waits_for_room", collection=size.name, free_bytes=free, needed_bytes=needed)
        return False

    async def _rewrite_due(self, size: CollectionSize) -> None:
        try:
            self._due = self.engine.at(size.name)
            await self._rewrite(size, rest=_REST)
        except (NoCollection, _CopyDropped):
            pass
        except Broken:
            raise
        except (Unserved, OSError) as error:  # the copy couldn't be deleted
            self._not_before[size.name] = self.clock() + PATIENCE_S
            self.tell("store_rewrite_failed", collection=size.name, reason=str(error))
        finally:
            self._due = None

    async def _rewrite(self, size: CollectionSize, rest: float) -> None:
        """Rewrite the collection, with pauses of `rest` durations of a slice after each."""
        name, began = size.name, self.clock()
        collection = self.engine.at(name)
        try:
            try:
                await self._copy(collection, rest, self._index_format(size))
            except IndexBuildError as error:
                if rest:  # tried again in an hour
                    raise
                # An operator's must end all the same: the old files hold what was erased.
                self.tell("store_index_not_built", collection=name, reason=str(error))
                await self._copy(collection, rest, None)
            collection.finish_copy()
        except (Broken, _CopyDropped, asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a full disk; or a Rust panic, whose PanicException is no Exception
            collection.drop_copy()
            raise Unserved(f"the rewrite of {name!r} failed: {error}") from error
        self._due_since.pop(name, None)
        seconds = round(self.clock() - began, 1)
        self.tell("store_collection_rewritten", collection=name, live=size.live, dead=size.dead, seconds=seconds)

    async def _copy(self, collection: Collection, rest: float, vectors: VectorFormat | None) -> None:
        """Copy all but a few points, and bring the copy to the disk, with an index of such vectors.

        Raises _CopyDropped, or IndexBuildError: then the copy can't be used.
        """
        copy = collection.begin_copy()

        def check() -> None:
            if collection.copy is not copy:
                raise _CopyDropped(f"the copy of {collection.folder.name!r} was dropped: try again")

        async def sliced(work: Callable[[], bool]) -> bool:
            began = time.monotonic()
            more = work()
            await self.pause(rest * (time.monotonic() - began))
            check()
            return more

        while await sliced(lambda: collection.copy_some(_SLICE)):
            pass
        folder = collection.flush_copy() if vectors is None else collection.begin_index(self.builder.stop)
        try:
            if vectors is not None:
                self.builder.begin(folder, vectors)
                await asyncio.to_thread(self.builder.wait)
            # Bring most of it to the disk beside the engine; the last step then has little left to sync.
            await asyncio.to_thread(sync_tree, folder)
        finally:
            check()  # who drops the copy stops the build, and deletes its files
        if vectors is not None:
            collection.end_index()
        for _ in range(_LONGEST_CHASE):
            if not await sliced(lambda: collection.copy_touched(_SLICE) > _CAUGHT_UP):
                break
