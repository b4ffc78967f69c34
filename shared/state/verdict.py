"""What the last verification saw. It stands in the store, so every process' readiness can ask for it."""

import msgspec

from shared.contracts import Message
from shared.errors import Unavailable
from shared.store import Point, Store

COLLECTION = "verdict"
_POINT = "00000000-0000-5000-8000-000000000000"  # there is only one


class Verdict(Message, frozen=True):
    """How many differences a verification of everything found, and which is the first."""

    differences: int
    at: int  # ms since 1970
    first: str = ""


async def write(store: Store, verdict: Verdict) -> None:
    """Keep the verdict in place of the one before. Raises Unavailable when the store is away."""
    if not verdict.differences and COLLECTION not in await store.collections():
        return  # nothing was ever wrong
    await store.create_collection(COLLECTION, size=None, sparse=False, indexes={})
    await store.upsert(COLLECTION, [Point(id=_POINT, payload=msgspec.to_builtins(verdict))])
    await store.flush()


async def trouble(store: Store) -> str | None:
    """Return what readiness says of the index: None unless the last verification found it wrong.

    Raises:
        Unavailable: the store is away.
    """
    try:
        found = await store.retrieve(COLLECTION, [_POINT])
    except Unavailable as error:
        if error.code == "no_collection":  # nobody has verified yet
            return None
        raise
    if not found:
        return None
    verdict = msgspec.convert(found[0].payload, Verdict)
    if not verdict.differences:
        return None
    return f"{verdict.differences} differences from the log, first: {verdict.first}. Mend them: sluice verify --repair"
