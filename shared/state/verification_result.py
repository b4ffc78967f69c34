"""The result of the last verification, kept in the store so that every process can show it in its readiness."""

import msgspec

from shared.contracts import Message
from shared.store import Point, Store, retrieved

COLLECTION = "verdict"
_POINT = "00000000-0000-5000-8000-000000000000"  # there is only one


class Verdict(Message, frozen=True):
    """The number of differences that a full verification found, and the first of them."""

    differences: int
    at: int  # ms since 1970
    first: str = ""


async def write(store: Store, verdict: Verdict) -> None:
    """Replace the stored verdict. Raises Unavailable when the store is away."""
    if not verdict.differences and COLLECTION not in await store.collections():
        return  # no verification ever found a difference
    await store.create_collection(COLLECTION, size=None, sparse=False, indexes={})
    await store.upsert(COLLECTION, [Point(id=_POINT, payload=msgspec.to_builtins(verdict))])
    await store.flush()


async def trouble(store: Store) -> str | None:
    """Return the index's trouble for readiness; None unless the last verification found differences.

    Raises:
        Unavailable: the store is away.
    """
    found = await retrieved(store, COLLECTION, [_POINT])
    if not found:  # nobody has run a verification yet
        return None
    verdict = msgspec.convert(found[0].payload, Verdict)
    if not verdict.differences:
        return None
    return (
        f"{verdict.differences} differences from the log, first: {verdict.first}. Repair them: sluice verify --repair"
    )
