"""The numbered migrations of an installation: each changes data of an earlier release to a newer format.

A migration takes milliseconds, however large the data is, and can be repeated. A start applies those that are due.
`sluice upgrade` lists them, copies the data folder, and then applies them one by one. docs/adr/0003-sqlite-log.md
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec

from shared.log import Log
from shared.log.publish import publish
from shared.log.sqlite import migrations as log_file
from shared.runtime.resources import make_missing
from shared.settings import ConfigurationError, Settings
from shared.state import pairing, registry_copy
from shared.state.generations import registry_of, write_registry
from shared.state.pairing import BothSides, PairingDecision, decide
from shared.state.registry_copy import RegistryCopy
from shared.store import Store
from shared.topics import PAIRING, Topic

Part = Literal["log", "index"]
IndexFormat = Literal[
    "none",  # no generation yet: a new index, or one that is lost
    "unregistered",  # one generation, without a registry
    "registered",
]


class DataFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an installation's data that say which migrations are due."""

    log: int  # number of the last migration applied to the log's file; the newest number for a cluster
    keys: frozenset[bytes]  # of the records on the log's pairing topic
    index: IndexFormat


class MigratedParts(NamedTuple):
    """The started parts that a migration works on."""

    settings: Settings
    log: Log
    store: Store


class Migration(NamedTuple):
    """A migration. `needed` says whether it is due."""

    number: int
    part: Part
    what: str  # shown to operators
    needed: Callable[[DataFormat], bool]
    apply: Callable[[MigratedParts], Awaitable[None]] | None = None  # None: opening the log's file applies it


async def _pair(parts: MigratedParts) -> None:
    registry = await registry_of(parts.store)
    assert registry is not None, "an index without a generation needs no migration"
    await make_missing(parts.settings, parts.log, parts.store, registry, grace_s=0.0, judge=_unless_lost)


def _unless_lost(seen: BothSides) -> PairingDecision:
    decision = decide(seen)
    if decision.lost:
        raise ConfigurationError(
            f"the index has lost {', '.join(decision.lost)}: start Sluice, which rebuilds it from the log"
        )
    return decision


async def _register(parts: MigratedParts) -> None:
    await write_registry(parts.store)


async def _copy_registry(parts: MigratedParts) -> None:
    broker = parts.log.broker("upgrade")
    await broker.start()
    try:
        await RegistryCopy().keep(parts.store, partial(publish, broker))
    finally:
        await broker.stop()


def _of_log(step: log_file.LogMigration) -> Migration:
    return Migration(step.number, "log", step.what, lambda found: found.log < step.number)


MIGRATIONS: Final = (
    *(_of_log(step) for step in log_file.MIGRATIONS),
    Migration(
        5,
        "index",
        "ids by which log and index know each other",
        lambda found: found.index != "none" and pairing.KEY not in found.keys,
        _pair,
    ),
    Migration(6, "index", "a registry of the generations", lambda found: found.index == "unregistered", _register),
    Migration(
        7,
        "log",
        "a copy of the registry, for a lost index",
        lambda found: found.index != "none" and registry_copy.KEY not in found.keys,
        _copy_registry,
    ),
)
NEWEST: Final = MIGRATIONS[-1].number


def due(found: DataFormat) -> tuple[Migration, ...]:
    """Return the migrations that must still be applied, in their order."""
    return tuple(each for each in MIGRATIONS if each.needed(found))


def format_of(found: DataFormat) -> int:
    """Return the number of the format: one less than the first migration that is due; the newest if none is."""
    return next((each.number - 1 for each in due(found)), NEWEST)


async def index_format(store: Store) -> IndexFormat:
    """Return the index's format.

    Raises:
        Unavailable: the store is away. ConfigurationError: a newer release has written it.
    """
    registry = await registry_of(store)
    if registry is None:
        return "none"
    return "registered" if registry.rev else "unregistered"


async def pairing_keys(log: Log) -> frozenset[bytes]:
    """Return the keys on the log's pairing topic; none if it has no such topic yet. Raises Unavailable."""
    [topic] = await log.inspect_topics([Topic(name=PAIRING)])
    if topic.partitions is None:
        return frozenset()
    paired, registry = await pairing.on_log(log), await registry_copy.on_log(log)
    kept = {pairing.KEY: paired, registry_copy.KEY: registry}
    return frozenset(key for key, record in kept.items() if record is not None)
