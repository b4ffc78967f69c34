"""Whether the index is complete, or is being rebuilt (docs/adr/0011-lost-index.md).

A rebuild is recorded in the store at least GRACE_S before any lost collection is created again. A reader calls the
gate after reading; the gate's view of the store is at most LEASE_S old, so no reader trusts a collection that is empty
because of a rebuild.
"""

import time
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from shared.contracts import Message
from shared.errors import Unavailable
from shared.store import Filter, Match, Point, Store, retrieved

COLLECTION: Final = "pairing"  # beside the store's copy of the pairing
PAIRING_POINT: Final = "00000000-0000-5000-8000-000000000001"
_POINT: Final = "00000000-0000-5000-8000-000000000002"
CODE: Final = "index_rebuilding"
LEASE_S: Final = 3.0  # how long a look at the store is valid
GRACE_S: Final = 2 * LEASE_S  # between recording a rebuild and creating the first collection

LOST: Final = "the index is lost; an ingest worker rebuilds it from the log"
_ASK_AGAIN: Final = "the index was rebuilt just now; send the request again"

Phase = Literal["ledger", "points", "done"]


class Rebuild(Message, frozen=True):
    """The last rebuild of the index. A change is only written if `rev` is still as it was read."""

    number: int  # consecutive number of the rebuild in this store
    rev: int
    lost: tuple[str, ...]  # names of the lost collections
    phase: Phase
    left: int = 0  # records that stages have yet to read, once they are counted

    def takes(self, *names: str) -> bool:
        """Return whether one of these collections was lost, and the rebuild isn't done."""
        return self.phase != "done" and not set(names).isdisjoint(self.lost)

    @property
    def sentence(self) -> str:
        """Return the progress as a sentence."""
        made = "its points are made again" + (f", {self.left} records are left" if self.left > 0 else "")
        doing = "its ledger is read from the log" if self.phase == "ledger" else made
        return f"the index was lost ({', '.join(self.lost)}) and is being rebuilt: {doing}"


class Gate:
    """Whether the index was complete when a caller read it. Always open: for tools that check it by themselves."""

    @property
    def ledger_waits(self) -> bool:
        """Return whether the ledger is known to be incomplete."""
        return False

    async def ledger(self) -> None:
        """Check that the ledger was complete when the caller read it. Raises Unavailable if it wasn't."""

    async def points(self, *names: str) -> None:
        """Check that heads and points, in these collections, were complete when the caller read them.

        Raises:
            Unavailable: they weren't, or they were lost, and this process has yet to turn to what replaces them.
        """


class RebuildGate(Gate):
    """The gate of a real store; its view of the last rebuild is at most LEASE_S old."""

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
        """Return the index's trouble for readiness as last seen; None if it is complete."""
        if self.lost is not None:
            return self.lost
        if self.rebuild is None or self.rebuild.phase == "done":
            return None
        return self.rebuild.sentence

    @property
    def ledger_waits(self) -> bool:
        return self.lost is not None or (self.rebuild is not None and self.rebuild.phase == "ledger")

    async def ledger(self) -> None:
        changed = await self._changed_since()
        if self.ledger_waits:
            raise Unavailable(self.trouble or "", CODE)
        if changed:
            raise Unavailable(_ASK_AGAIN, CODE)

    async def points(self, *names: str) -> None:
        changed = await self._changed_since()
        if self.trouble is not None:
            raise Unavailable(self.trouble, CODE)
        if changed or (self.rebuild is not None and not set(names).isdisjoint(self.rebuild.lost)):
            raise Unavailable(_ASK_AGAIN, CODE)

    async def _changed_since(self) -> bool:
        """Return whether a rebuild began since the last look, so that the caller may have read during it."""
        if self._clock() - self._looked < LEASE_S:
            return False
        before = self._known
        await self.look()
        return before is not None and before != self._known

    async def look(self) -> None:
        """Read the rebuild from the store. Raises Unavailable when it is away; the last view is then kept."""
        began = self._clock()
        points = await retrieved(self._store, COLLECTION, [PAIRING_POINT, _POINT])
        found = {point.id: point.payload for point in points}
        self._looked = began
        self.rebuild = msgspec.convert(found[_POINT], Rebuild) if _POINT in found else None
        pairing = found.get(PAIRING_POINT)
        if pairing is None:
            self.lost = LOST
        elif self.log_id not in (None, pairing["logId"]):
            self.lost = f"the store belongs to the log {pairing['logId']} now, and this is the log {self.log_id}"
        else:
            self.lost = None
            self._known = str(pairing["storeId"]), self.rebuild.number if self.rebuild is not None else 0


async def last_rebuild(store: Store) -> Rebuild | None:
    """Return the last rebuild, None if there was none. Raises Unavailable when the store is away."""
    found = await retrieved(store, COLLECTION, [_POINT])
    return msgspec.convert(found[0].payload, Rebuild) if found else None


async def write_rebuild(store: Store, wanted: Rebuild, *, known: Rebuild | None) -> Rebuild | None:
    """Write `wanted` if the stored rebuild is still `known`; return the stored one: `wanted` or another process'.

    Raises Unavailable when the store is away.
    """
    wanted = msgspec.structs.replace(wanted, rev=known.rev + 1 if known is not None else 1)
    point = Point(id=_POINT, payload=msgspec.to_builtins(wanted))
    stored = await store.put_if(COLLECTION, [point], Filter(must=(Match("rev", (known.rev,)),)) if known else None)
    await store.flush()
    return msgspec.convert(stored[0].payload, Rebuild) if stored else None
