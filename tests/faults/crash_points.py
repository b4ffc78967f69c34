"""Where a process can die between two effects, and how a test makes one die there.

The effects are the calls of the ports that write. `guard_*` stands around each of them, on parts that are otherwise the
product's own: nothing in the product knows of it.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.blobs import Blobs
from shared.embedder import Embedder, Vector
from shared.ids import text_hash
from shared.log import Log
from shared.log.faststream_driver import DriverBroker
from shared.store import Filter, Point, Store
from tests.faults.trap import Trap

# Each in the order in which it is passed. A folder has one first start.
AT_START = (
    "ensure topics",
    "create pairing",
    "insert pairing",
    "send index.pairing",
    "create generations",
    "insert generations",
    "create ledger",
    "create heads",
    "create chunks",
    "create callbacks",
    "create sessions",
    "upsert generations",
    "delete generations",
    "delete callbacks",
)
ON_THE_WAY = (
    "upsert pairing",
    "put blob",
    "rename blob",
    "send documents.submitted",
    "send audit.trail",
    "insert ledger",
    "insert callbacks",
    "upsert ledger",
    "send documents.extracted",
    "flush",
    "commit documents.submitted",
    "send chunks",
    "commit documents.extracted",
    "upsert chunks",
    "upsert heads",
    "send null to documents.extracted",
    "delete chunks",
    "send documents.status",
    "commit chunks",
    "set payload of callbacks",
    "send dead.letters",
)
BY_AN_OPERATOR = (
    "send null to dead.letters",
    "overwrite records",
    "remove blob",
    "forget records",
    "rewrite collection",
)


def moments(effects: Sequence[str]) -> list[str]:
    """Return the two crash points of each effect."""
    return [f"{moment} {effect}" for effect in effects for moment in ("before", "after")]


Name = Callable[..., str]  # takes a call's arguments, and gives what it has an effect on


def _kind(name: str) -> str:
    """Return the collection's or topic's name without its generation."""
    return name.partition(".")[0] if name.startswith(("chunks.", "heads.")) else name


def _on(verb: str) -> Name:
    return lambda name, *_, **__: f"{verb} {_kind(name)}"


def _put(name: str, _: Sequence[Point], only_if: Filter | None, **__: Any) -> str:
    return f"{'insert' if only_if is None else 'upsert'} {_kind(name)}"


def _just(what: str) -> Name:
    return lambda *_, **__: what


def _sent(topic: str, value: bytes | None = None, *_: Any, **__: Any) -> str:
    return f"send {'null to ' if value is None else ''}{_kind(topic)}"


def _committed(offsets: Mapping[Any, Any]) -> str:
    return f"commit {','.join(sorted({_kind(tp.topic) for tp in offsets}))}"


# The methods that write, by the port that has them.
WRITES: dict[str, dict[str, Name]] = {
    "Log": {
        "ensure_topics": _just("ensure topics"),
        "drop_topic": _just("drop topic"),
        "reset_offsets": _just("reset offsets"),
        "drop_group": _just("drop group"),
    },
    "SqliteLog": {"overwrite": _just("overwrite records"), "forget": _just("forget records")},
    "Producer": {"send": _sent},
    "Consumer": {"commit": _committed},
    "Store": {
        "create_collection": _on("create"),
        "drop_collection": _on("drop"),
        "upsert": _on("upsert"),
        "put_if": _put,
        "set_payload": _on("set payload of"),
        "delete": _on("delete"),
        "flush": _just("flush"),
    },
    "EdgeStore": {"rewrite": _just("rewrite collection")},
    "Blobs": {
        "put": _just("put blob"),
        "remove": _just("remove blob"),
    },
}


def guard_log(log: Log, trap: Trap) -> Log:
    """Return the log; its writes, and those of brokers and consumers made from it, are crash points now."""
    for port in ("Log", "SqliteLog"):
        _guard(log, port, trap)
    make_broker, make_consumer = log.broker, log.consumer

    def broker(client_id: str) -> DriverBroker:
        made = make_broker(client_id)
        assert isinstance(made, DriverBroker)
        driver = made._driver
        producer, consumer = driver.producer, driver.consumer
        _replace(driver, "producer", lambda: _guard(producer(), "Producer", trap))
        _replace(driver, "consumer", lambda **options: _guard(consumer(**options), "Consumer", trap))
        return made

    _replace(log, "broker", broker)
    _replace(log, "consumer", lambda **options: _guard(make_consumer(**options), "Consumer", trap))
    return log


def guard_store(store: Store, trap: Trap) -> Store:
    """Return the store; its writes are crash points now, and the texts whose points it has taken are noted."""
    upsert = store.upsert

    async def upsert_and_note(name: str, points: Sequence[Point], **options: Any) -> None:
        await upsert(name, points, **options)
        if _kind(name) == "chunks":
            trap.note("kept", {text_hash(point.payload["text"]) for point in points})

    _replace(store, "upsert", upsert_and_note)
    for port in ("Store", "EdgeStore"):
        _guard(store, port, trap)
    return store


def guard_blobs(blobs: Blobs, trap: Trap) -> Blobs:
    """Return the blob store, in files; its writes are crash points now, and a blob's getting its name is another."""
    renamed: set[str] = set()  # folders that have a new name in them, which isn't synced yet

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and Path(arguments[0]).parent.name == ".incoming~":
            trap.passing("before rename blob")
            renamed.add(str(Path(arguments[1]).parent))
        elif event == "open" and (folder := str(arguments[0])) in renamed:
            renamed.discard(folder)
            trap.passing("after rename blob")

    sys.addaudithook(audit)
    _guard(blobs, "Blobs", trap)
    return blobs


def guard_embedder(embedder: Embedder, trap: Trap) -> Embedder:
    """Return the model; the texts that it is asked for are noted."""
    ask = embedder.embed_documents

    async def embed_documents(texts: Sequence[str], **options: Any) -> list[Vector]:
        trap.note("asked", map(text_hash, texts))
        return await ask(texts, **options)

    _replace(embedder, "embed_documents", embed_documents)
    return embedder


def _guard(part: Any, port: str, trap: Trap) -> Any:
    for method, name in WRITES[port].items():
        if hasattr(part, method):
            _replace(part, method, _between(getattr(part, method), f"{port}.{method}", name, trap))
    return part


def _between(
    write: Callable[..., Awaitable[Any]], method: str, name: Name, trap: Trap
) -> Callable[..., Awaitable[Any]]:
    async def guarded(*arguments: Any, **named: Any) -> Any:
        trap.note("called", [method])
        effect = name(*arguments, **named)
        trap.passing(f"before {effect}")
        result = await write(*arguments, **named)
        if isinstance(result, Awaitable):  # a send is done when its record is stored, not when it is taken
            await result
        trap.passing(f"after {effect}")
        return result

    return guarded


def _replace(part: Any, method: str, instead: Callable[..., Any]) -> None:
    setattr(part, method, instead)
