"""Whether the index is whole, for everybody who finds nothing in it (docs/adr/0051-a-lost-index-is-rebuilt.md).

A rebuild is written down in the store before any lost collection is made anew. Whoever then reads an empty collection
asks the gate afterwards, and the gate answers from a look at the store that is younger than the rebuild's patience.
"""

import time
from collections.abc import Callable
from typing import Final, Literal, Protocol

import msgspec

from shared.contracts import Message
from shared.errors import Unavailable
from shared.store import Filter, Match, Point, Store

COLLECTION: Final = "pairing"  # beside the store's copy of the pairing
PAIRING_POINT: Final = "00000000-0000-5000-8000-000000000001"
_POINT: Final = "00000000-0000-5000-8000-000000000002"
CODE: Final = "index_rebuilding"
LEASE_S: Final = 3.0  # a look that is younger still holds
GRACE_S: Final = 2 * LEASE_S  # between the rebuild's note and the first empty collection

_ASK_AGAIN: Final = "the index was rebuilt just now; ask again"

Phase = Literal["ledger", "points", "done"]


class Rebuild(Message, frozen=True):
    """The last rebuild of the index. Every change is written under the condition that `rev` is as it was read."""

    number: int  # counts the rebuilds of this store
    rev: int
    lost: tuple[str, ...]  # collections
    phase: Phase
    began: int  # ms since 1970
    owner: str = ""  # the process that works on it
    documents: int = 0  # how many are to be brought back in this phase
    done: int = 0  # of these
    rate: float = 0.0  # documents a second
    cursor: dict[str, int] = msgspec.field(
        default_factory=dict
    )  # by partition of documents.extracted: what lies before it was published again
    ends: dict[str, int] = msgspec.field(default_factory=dict)  # by partition: where the pass that publishes ends

    @property
    def sentence(self) -> str:
        """Return how far it is, for people."""
        doing = "its ledger is read from the log" if self.phase == "ledger" else "its points are made again"
        return (
            f"the index was lost ({', '.join(self.lost)}) and is being rebuilt: {doing}, "
            f"{self.done} of {self.documents} documents, {self.rate:.0f} a second"
        )


class Gate(Protocol):
    """Tells whoever has read the index whether it was whole."""

    @property
    def ledger_waits(self) -> bool:
        """Return whether the ledger isn't whole, as far as is known."""
        ...

    async def ledger(self) -> None:
        """Return where the ledger, as just read, was whole. Raises Unavailable where it wasn't."""
        ...

    async def points(self) -> None:
        """Return where heads and points, as just read, were whole. Raises Unavailable where they weren't."""
        ...


class AlwaysWhole:
    """The gate of a store that nobody can lose, and of a tool that looks for itself."""

    ledger_waits = False

    async def ledger(self) -> None: ...

    async def points(self) -> None: ...


class RebuildGate:
    """Knows how the last rebuild stands, from a look at the store that is at most LEASE_S old."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.log_id: str | None = None  # of the log that the store must belong to
        self._store = store
        self._clock = clock
        self._looked = float("-inf")
        self._known: tuple[str, int] | None = None  # store id and number of the rebuild, as seen last
        self.rebuild: Rebuild | None = None  # as seen last
        self.lost: str | None = None  # why the store can't be used, as seen last

    @property
    def trouble(self) -> str | None:
        """Return what readiness says: None where the index is whole, as far as was seen last."""
        if self.lost is not None:
            return self.lost
        if self.rebuild is None or self.rebuild.phase == "done":
            return None
        return self.rebuild.sentence

    @property
    def ledger_waits(self) -> bool:
        """Return whether the ledger isn't whole, as far as was seen last."""
        return self.lost is not None or (self.rebuild is not None and self.rebuild.phase == "ledger")

    async def ledger(self) -> None:
        """Return where the ledger, as the caller has just read it, was whole. Raises Unavailable where it wasn't."""
        changed = await self._changed_since()
        if self.ledger_waits:
            raise Unavailable(self.trouble or "", CODE)
        if changed:
            raise Unavailable(_ASK_AGAIN, CODE)

    async def points(self) -> None:
        """Return where heads and points, as just read, were whole. Raises Unavailable where they weren't."""
        changed = await self._changed_since()
        if self.trouble is not None:
            raise Unavailable(self.trouble, CODE)
        if changed:
            raise Unavailable(_ASK_AGAIN, CODE)

    async def _changed_since(self) -> bool:
        """Return whether a rebuild began since the last look: what was read then may have been read in its midst."""
        if self._clock() - self._looked < LEASE_S:
            return False
        before = self._known
        await self.look()
        return before is not None and before != self._known

    async def look(self) -> None:
        """Look at the store now. Raises Unavailable when it is away; what was seen last then stands."""
        began = self._clock()
        try:
            found = {
                point.id: point.payload for point in await self._store.retrieve(COLLECTION, [PAIRING_POINT, _POINT])
            }
        except Unavailable as error:
            if error.code != "no_collection":
                raise
            found = {}
        self._looked = began
        self.rebuild = msgspec.convert(found[_POINT], Rebuild) if _POINT in found else None
        pairing = found.get(PAIRING_POINT)
        if pairing is None:
            self.lost = "the index is lost; an ingest worker rebuilds it from the log"
        elif self.log_id not in (None, pairing["logId"]):
            self.lost = f"the store belongs to the log {pairing['logId']} now, and this is the log {self.log_id}"
        else:
            self.lost = None
            self._known = str(pairing["storeId"]), self.rebuild.number if self.rebuild is not None else 0


async def last_rebuild(store: Store) -> Rebuild | None:
    """Return the last rebuild, None where there was none. Raises Unavailable when the store is away."""
    try:
        found = await store.retrieve(COLLECTION, [_POINT])
    except Unavailable as error:
        if error.code == "no_collection":
            return None
        raise
    return msgspec.convert(found[0].payload, Rebuild) if found else None


async def write_rebuild(store: Store, wanted: Rebuild, *, known: Rebuild | None) -> Rebuild | None:
    """Return the rebuild that stands after `wanted` was offered in place of `known`: it, or another process'.

    Raises Unavailable when the store is away.
    """
    wanted = msgspec.structs.replace(wanted, rev=known.rev + 1 if known is not None else 1)
    point = Point(id=_POINT, payload=msgspec.to_builtins(wanted))
    if known is None:
        await store.insert(COLLECTION, [point])
    else:
        await store.upsert(COLLECTION, [point], only_if=Filter(must=(Match("rev", (known.rev,)),)))
    await store.flush()
    return await last_rebuild(store)
