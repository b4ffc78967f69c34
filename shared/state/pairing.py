"""The pairing of a log with its store: each keeps the other's id. ADR 0011.

The log's copy is on a compacted topic, the store's in a collection. The store is always written first, so its copy
is never behind the log's: a store whose checkpoint is behind is an older backup.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from uuid import uuid4

import msgspec

from shared.contracts import Message, decode, encode
from shared.errors import Rejected, Unavailable
from shared.log import Log, Publish, Record
from shared.log.read import records_now
from shared.settings import ConfigurationError, Settings
from shared.state.generations import FORMAT, Registry, only_serving, registry_in, registry_of
from shared.state.rebuild_gate import COLLECTION, PAIRING_POINT
from shared.store import Filter, IndexKind, Match, Point, Range, Store, retrieved
from shared.topics import EXTRACTED, PAIRING, Topic, moved_topic

T = TypeVar("T")

_INDEXES: Final[dict[str, IndexKind]] = {"storeId": "keyword", "checkpoint": "integer", "rev": "integer"}
KEY: Final = b"store"  # of the log's copy
_REGISTRY_KEY: Final = b"generations"
_PAIR_BY_HAND: Final = "If this log and this store do belong together, run: sluice init --pair"


class Pairing(Message, frozen=True):
    """A log and its store, as either of them has recorded it."""

    log_id: str
    store_id: str
    checkpoint: int = 0  # counts how often both copies were written
    address: str = ""  # of the store; only in the log's copy
    moves: int = 0  # of the log, as `Log.moves`
    # Of documents.extracted by partition, when the store's copy was written.
    ends: dict[str, int] = msgspec.field(default_factory=dict)


class BothSides(msgspec.Struct, frozen=True, kw_only=True):
    """What a start finds on the log and in the store."""

    on_log: Pairing | None
    in_store: Pairing | None
    address: str  # of the store, by the settings
    ends: Mapping[str, int]  # of documents.extracted by partition
    missing: tuple[str, ...]  # collections of ledger, heads and chunks that don't exist
    emptied: bool  # whether none of these collections exists or has a document
    beside: bool = False  # whether log and store are in the same folder, so that they belong together
    moves: int = 0  # as the log's topics say

    @property
    def documents(self) -> bool:
        """Return whether the log ever had a version of a document."""
        return any(self.ends.values())


class PairingDecision(msgspec.Struct, frozen=True):
    """What to do at a start."""

    pairing: Pairing  # to be recorded on both sides
    lost: tuple[str, ...]  # collections to rebuild from the log


def decide(seen: BothSides) -> PairingDecision:
    """Return the valid pairing, at the address where the store is now, and the lost collections of the index.

    Raises:
        ConfigurationError: log and store don't belong together, or one of them is an older backup; or the topic that
            says how often the log was moved can't be seen.
    """
    if seen.on_log is not None and seen.on_log.moves != seen.moves:
        raise ConfigurationError(
            "the records were moved to this log, but this process can't see its topic "
            f"{moved_topic(seen.on_log.moves).name}: let it describe the topic, or create it again with one partition"
        )
    match seen.on_log, seen.in_store:
        case None, None:
            pairing = _unpaired(seen)
        case None, Pairing() as in_store:
            pairing = _without_log(seen, in_store)
        case Pairing() as on_log, None:
            pairing = _without_store(seen, on_log)
        case Pairing() as on_log, Pairing() as in_store:
            pairing = _both(seen, on_log, in_store)
    return _decision(seen, pairing)


def by_hand(seen: BothSides) -> PairingDecision:
    """Return the pairing of a log and a store that an operator pairs, whatever their records say."""
    known = [each for each in (seen.on_log, seen.in_store) if each is not None]
    pairing = Pairing(
        log_id=known[0].log_id if known else _id(),
        store_id=seen.in_store.store_id if seen.in_store is not None else _id(),
        checkpoint=max((each.checkpoint for each in known), default=0) + 1,
        moves=seen.moves,
        ends=dict(seen.ends),
    )
    return _decision(seen, pairing)


def _decision(seen: BothSides, pairing: Pairing) -> PairingDecision:
    at_address = msgspec.structs.replace(pairing, address=seen.address)
    return PairingDecision(at_address, seen.missing if seen.documents else ())


def _unpaired(seen: BothSides) -> Pairing:
    if not seen.documents and not seen.emptied:
        raise _misfit(
            f"the log is empty, and the store at {seen.address} holds documents: the log was lost, or this is another "
            "log"
        )
    if seen.documents and seen.emptied and not seen.beside:
        raise _misfit(
            f"the log holds documents, and the store at {seen.address} is empty: an empty wrong store looks like a "
            "lost one, and a rebuild may cost money"
        )
    return Pairing(log_id=_id(), store_id=_id(), moves=seen.moves)


def _without_log(seen: BothSides, in_store: Pairing) -> Pairing:
    if in_store.checkpoint == 0:  # the first start was interrupted before it wrote the log's copy
        return in_store
    state = "holds documents, and no id" if seen.documents else "is empty"
    raise _misfit(
        f"the log {state}, and the store at {seen.address} belongs to the log {in_store.log_id}: "
        "the log was lost, or this is another log or an older backup"
    )


def _without_store(seen: BothSides, on_log: Pairing) -> Pairing:
    """Return the pairing of the log with a new store that replaces the lost one."""
    if not seen.emptied:
        raise _misfit(
            f"the log belongs to the store {on_log.store_id}, and the store at {seen.address} holds documents and no "
            "id: it is another store, or an older backup"
        )
    if seen.documents and on_log.address != seen.address:
        raise _misfit(
            f"the store at {seen.address} is empty, and the log's store was at {on_log.address}: an empty wrong store "
            "looks like a lost one, and a rebuild may cost money"
        )
    return msgspec.structs.replace(on_log, store_id=_id(), checkpoint=on_log.checkpoint + 1, ends={})


def _both(seen: BothSides, on_log: Pairing, in_store: Pairing) -> Pairing:
    if on_log.log_id != in_store.log_id:
        raise _misfit(
            f"the store at {seen.address} belongs to the log {in_store.log_id}, and this is the log {on_log.log_id}"
        )
    if in_store.checkpoint < on_log.checkpoint:
        raise _misfit(
            f"the store at {seen.address} is an older backup: its checkpoint is {in_store.checkpoint}, the log's "
            f"{on_log.checkpoint}. Use the newer store; or empty this one, and it is rebuilt from the log"
        )
    if behind := sorted(int(number) for number, end in in_store.ends.items() if seen.ends.get(number, 0) < end):
        raise _misfit(
            f"the log is an older backup: {EXTRACTED}/{behind[0]} ends at {seen.ends.get(str(behind[0]), 0)}, and the "
            f"store has seen it end at {in_store.ends[str(behind[0])]}. Use the newer log"
        )
    if on_log.store_id != in_store.store_id and in_store.checkpoint != on_log.checkpoint + 1:
        raise _misfit(
            f"the store at {seen.address} is {in_store.store_id}, and the log belongs to the store {on_log.store_id}"
        )
    return in_store


def _id() -> str:
    return uuid4().hex


def _misfit(sentence: str) -> ConfigurationError:
    return ConfigurationError(f"{sentence}. {_PAIR_BY_HAND}")


def store_address(settings: Settings) -> str:
    """Return where the store is: without credentials and options, with the prefix of its collections."""
    if not settings.embeds_store:
        place = settings.store.partition("?")[0]
        scheme, _, rest = place.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]} {settings.qdrant_prefix}".rstrip()
    # The log is in the same folder, and the folder may be moved or mounted elsewhere as a whole.
    return "edge:" if beside(settings) else f"edge:{(settings.data / 'store').resolve()}"


def beside(settings: Settings) -> bool:
    """Return whether log and store are kept in one folder."""
    return settings.embeds_store and settings.log == "sqlite:"


# On the log


async def on_log(log: Log) -> Pairing | None:
    """Return the log's copy, None where it has none. Raises Unavailable when the log is away."""

    def read(record: Record) -> Pairing:
        try:
            return decode(record.value, Pairing)
        except Rejected as error:
            raise ConfigurationError(f"{PAIRING}@{record.offset} can't be read: {error}") from None

    return await _newest_copy(log, KEY, read, lambda pairing: pairing.checkpoint)


async def _newest_copy(log: Log, key: bytes, read: Callable[[Record], T], number: Callable[[T], int]) -> T | None:
    """Return what is under this key on index.pairing, that with the highest number; None where nothing is.

    Raises Unavailable when the log is away.
    """
    [found] = await log.inspect_topics([Topic(name=PAIRING)])
    if found.partitions is None:  # nothing has ever started on the log
        return None
    copies = [read(each) async for each in records_now(log, PAIRING) if each.key == key and each.value is not None]
    return max(reversed(copies), key=number, default=None)  # processes write side by side, so they may be out of order


async def tell_log(publish: Publish, pairing: Pairing) -> None:
    """Write the log's copy. Raises Unavailable when the log is away."""
    await publish(PAIRING, encode(msgspec.structs.replace(pairing, ends={})), key=KEY)


# In the store


async def in_store(store: Store) -> Pairing | None:
    """Return the store's copy, None if it has none. Raises Unavailable when the store is away."""
    found = await retrieved(store, COLLECTION, [PAIRING_POINT])
    return msgspec.convert(found[0].payload, Pairing) if found else None


async def tell_store(store: Store, pairing: Pairing, *, known: Pairing | None) -> Pairing:
    """Write `pairing` if the store's copy is still `known`; return the store's copy: `pairing`, or a newer one.

    Raises Unavailable when the store is away, or has lost its collections.
    """
    payload = msgspec.to_builtins(pairing) | {"checkpoint": pairing.checkpoint}
    point = Point(id=PAIRING_POINT, payload=payload)
    older = Range("checkpoint", lt=pairing.checkpoint)
    only_if = None if known is None else Filter(must=(Match("storeId", (known.store_id,)), older))
    stored = await store.put_if(COLLECTION, [point], only_if)
    await store.flush()
    if not stored:
        raise Unavailable("the store lost its pairing with the log while it was written")
    return msgspec.convert(stored[0].payload, Pairing)


async def create(store: Store) -> None:
    """Create the collection unless it exists. Raises Unavailable when the store is away."""
    await store.create_collection(COLLECTION, size=None, sparse=False, indexes=_INDEXES)


async def extracted_ends(log: Log) -> dict[str, int]:
    """Return where each partition of documents.extracted ends. Raises Unavailable when the log is away."""
    return {str(tp.partition): end for tp, end in (await log.end_offsets(EXTRACTED)).items()}


async def keep_checkpoint(log: Log, store: Store, publish: Publish, address: str) -> None:
    """Write a checkpoint with the log's ends to both sides, if they changed. Raises Unavailable when one is away."""
    known, ends = await in_store(store), await extracted_ends(log)
    if known is None or known.ends == ends:
        return
    wanted = msgspec.structs.replace(known, checkpoint=known.checkpoint + 1, ends=ends, address=address)
    standing = await tell_store(store, wanted, known=known)
    if standing.store_id == wanted.store_id:
        await tell_log(publish, msgspec.structs.replace(standing, address=address))


# The registry of generations: the log has a copy of the store's, so that a lost store is rebuilt as it was. The store's
# is the truth while there is one; the copy follows it within seconds.


async def keep_copy(store: Store, publish: Publish, written: Registry | None = None) -> Registry | None:
    """Write the store's registry to the log unless it is what this process has `written`; return what it has now.

    Raises Unavailable when either is away.
    """
    known = await registry_of(store)
    if known is None or known.format != FORMAT or known == written:
        return written
    await tell_registry(publish, known)
    return known


async def tell_registry(publish: Publish, registry: Registry) -> None:
    """Write the log's copy. Raises Unavailable when the log is away."""
    await publish(PAIRING, encode(registry), key=_REGISTRY_KEY)


async def registered(store: Store, log: Log) -> Registry | None:
    """Return the registry of the store; of a store without one, what the log remembers; None for a new index.

    What the log remembers has the serving generation alone: all others went with the store.

    Raises:
        Unavailable: the store or the log is away. ConfigurationError: another release's can't be read.
    """
    known = await registry_of(store)
    if known is None and (remembered := await registry_on_log(log)) is not None:
        return only_serving(remembered)
    return known


async def registry_on_log(log: Log) -> Registry | None:
    """Return the log's copy, None if it has none.

    Raises:
        Unavailable: the log is away. ConfigurationError: another release's can't be read.
    """
    return await _newest_copy(
        log, _REGISTRY_KEY, lambda record: registry_in(msgspec.json.decode(record.value)), lambda registry: registry.rev
    )
