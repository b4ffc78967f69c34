"""The log's copy of the registry of generations, so that a lost store is rebuilt as it was. ADR 0011.

It is on the compacted topic of the pairing, under a key of its own. The store's registry is the truth while there is
one; this copy follows it within seconds.
"""

from typing import Final

import msgspec

from shared.contracts import encode
from shared.log import Log, Publish
from shared.state.generations import FORMAT, Registry, only_serving, registry_in, registry_of
from shared.state.pairing import newest_copy
from shared.store import Store
from shared.topics import PAIRING

KEY: Final = b"generations"


async def keep_copy(store: Store, publish: Publish, written: Registry | None = None) -> Registry | None:
    """Write the store's registry to the log unless it is what this process has `written`; return what it has now.

    Raises Unavailable when either is away.
    """
    known = await registry_of(store)
    if known is None or known.format != FORMAT or known == written:
        return written
    await tell_log(publish, known)
    return known


async def tell_log(publish: Publish, registry: Registry) -> None:
    """Write the log's copy. Raises Unavailable when the log is away."""
    await publish(PAIRING, encode(registry), key=KEY)


async def registered(store: Store, log: Log) -> Registry | None:
    """Return the registry of the store; of a store without one, what the log remembers; None for a new index.

    What the log remembers has the serving generation alone: all others went with the store.

    Raises:
        Unavailable: the store or the log is away. ConfigurationError: another release's can't be read.
    """
    known = await registry_of(store)
    if known is None and (remembered := await on_log(log)) is not None:
        return only_serving(remembered)
    return known


async def on_log(log: Log) -> Registry | None:
    """Return the log's copy, None if it has none.

    Raises:
        Unavailable: the log is away. ConfigurationError: another release's can't be read.
    """
    return await newest_copy(
        log, KEY, lambda record: registry_in(msgspec.json.decode(record.value)), lambda registry: registry.rev
    )
