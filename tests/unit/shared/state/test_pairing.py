"""Which log and which store belong together: what a start finds decides, and each refusal has its own sentence."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from shared.contracts import encode
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.settings import ConfigurationError, Settings
from shared.state import pairing
from shared.state.generations import (
    FORMAT,
    begun,
    change,
    first_registry,
    marked_built,
    serving,
    switch_begun,
    switched,
)
from shared.state.pairing import (
    BothSides,
    Pairing,
    by_hand,
    decide,
    keep_copy,
    registered,
    registry_on_log,
    store_address,
)
from shared.topics import PAIRING, pipeline_topics
from tests.fakes.state import GENERATION
from tests.fakes.store import MemoryStore

ALL = ("ledger", "heads.g", "chunks.g")
HERE, ELSEWHERE = "qdrant+http://a:6333", "qdrant+http://b:6333"
KNOWN = Pairing(log_id="l1", store_id="s1", checkpoint=5, address=HERE)


def seen(
    on_log: Pairing | None = KNOWN,
    in_store: Pairing | None = KNOWN,
    *,
    address: str = HERE,
    ends: int = 7,
    missing: tuple[str, ...] = (),
    emptied: bool = False,
    beside: bool = False,
    moves: int = 0,
) -> BothSides:
    return BothSides(
        on_log=on_log,
        in_store=in_store,
        address=address,
        ends={"0": ends},
        missing=missing,
        emptied=emptied,
        beside=beside,
        moves=moves,
    )


def like(**changes: object) -> Pairing:
    fields = {"log_id": "l1", "store_id": "s1", "checkpoint": 5, "address": HERE} | changes
    return Pairing(**fields)  # type: ignore[arg-type]  # each test gives what the field takes


FITS = {
    "both agree": (seen(), ()),
    "a checkpoint was cut off before the log": (seen(in_store=like(checkpoint=6)), ()),
    "a full store has moved": (seen(address=ELSEWHERE), ()),
    "one collection is lost": (seen(missing=("ledger",)), ("ledger",)),
    "a start that was cut off before the pairing": (seen(None, None), ()),
    "an unpaired pair that lost a collection": (seen(None, None, missing=("ledger",)), ("ledger",)),
    "an unpaired folder without its store": (seen(None, None, missing=ALL, emptied=True, beside=True), ALL),
    "both are new": (seen(None, None, ends=0, missing=ALL, emptied=True), ()),
    "the first start was cut off before the log": (seen(None, like(checkpoint=0), ends=0), ()),
    "the store was lost": (seen(in_store=None, missing=ALL, emptied=True), ALL),
    "the store of a log without documents was lost": (seen(in_store=None, missing=ALL, emptied=True, ends=0), ()),
    "a rebuild was cut off before the log": (seen(in_store=like(store_id="s2", checkpoint=6), missing=ALL), ALL),
}


@pytest.mark.parametrize("what", FITS)
def test_what_fits_is_paired_and_what_is_lost_is_named(what: str) -> None:
    found, lost = FITS[what]

    decision = decide(found)

    assert decision.lost == lost
    assert decision.pairing.address == found.address
    if found.on_log is not None:
        assert decision.pairing.log_id == found.on_log.log_id


MISFITS = {
    "another store's folder": (seen(in_store=like(log_id="l2")), "belongs to the log l2, and this is the log l1"),
    "another log's file": (seen(like(log_id="l2")), "belongs to the log l1, and this is the log l2"),
    "an older store": (seen(like(checkpoint=9)), "is an older backup: its checkpoint is 5, the log's 9"),
    "an older log": (
        seen(in_store=like(ends={"0": 8})),
        "the log is an older backup: documents.extracted/0 ends at 7, and the store has seen it end at 8",
    ),
    "another store of the same log": (seen(in_store=like(store_id="s2")), "is s2, and the log belongs to the store s1"),
    "an empty store elsewhere": (
        seen(in_store=None, address=ELSEWHERE, missing=ALL, emptied=True),
        re.escape(f"the store at {ELSEWHERE} is empty, and the log's store was at {HERE}"),
    ),
    "a full store without an id": (seen(in_store=None), "holds documents and no id"),
    "an empty log beside a full store": (
        seen(None, ends=0),
        "the log is empty, and the store at .* belongs to the log",
    ),
    "a log without an id": (
        seen(None),
        "the log holds documents, and no id, and the store at .* belongs to the log l1",
    ),
    "an empty log beside a store without an id": (seen(None, None, ends=0), "the log is empty, and the store"),
    "a log without an id beside an empty server": (
        seen(None, None, missing=ALL, emptied=True),
        "the log holds documents, and the store at .* is empty",
    ),
}


@pytest.mark.parametrize("what", MISFITS)
def test_what_does_not_fit_is_refused_by_its_sentence_and_can_be_paired_by_hand(what: str) -> None:
    found, sentence = MISFITS[what]

    with pytest.raises(ConfigurationError, match=f"{sentence}.*sluice init --pair"):
        decide(found)
    decision = by_hand(found)

    both = seen(decision.pairing, decision.pairing, address=found.address, ends=found.ends["0"])
    assert decide(both).lost == ()
    assert decision.lost == (found.missing if found.documents else ())


def test_an_address_names_the_place_without_secrets_and_options(tmp_path: Path) -> None:
    def address(**settings: str) -> str:
        return store_address(Settings(data=tmp_path, **settings))  # type: ignore[arg-type]  # all are texts

    assert address() == "edge:"
    assert address(log="kafka://k:9092") == f"edge:{tmp_path / 'store'}"
    assert address(store="qdrant+http://me:pw@q:6333?replicas=3", qdrant_prefix="x.") == "qdrant+http://q:6333 x."


async def test_a_checkpoint_stands_on_both_sides_and_never_goes_back(tmp_path: Path) -> None:
    log, store = SqliteLog(tmp_path / "log"), MemoryStore()
    await log.start()
    await log.ensure_topics(pipeline_topics("g", partitions=1))
    broker = log.broker("test")
    await broker.start()

    async def send(topic: str, value: bytes | None, *, key: bytes, **how: object) -> object:
        return await publish(broker, topic, value, key=key)

    async def keep() -> None:
        await pairing.keep_checkpoint(log, store, send, HERE)

    await keep()  # of a store that knows no log, none is written
    nothing = await pairing.on_log(log)
    await pairing.create(store)
    first = await pairing.tell_store(store, like(checkpoint=0), known=None)
    await send("documents.extracted", b"{}", key=b"d/1")
    await asyncio.gather(keep(), keep())
    await keep()
    late = await pairing.tell_store(store, first, known=first)
    sides = await pairing.on_log(log), await pairing.in_store(store)
    await broker.stop()
    await log.stop()

    assert nothing is None
    assert sides[0] is not None
    assert sides[1] == late
    assert (sides[0].checkpoint, late.checkpoint) == (1, 1)
    assert late.ends == {"0": 1}


def test_a_log_that_was_moved_to_is_refused_where_its_topic_is_not_seen() -> None:
    moved = like(moves=2)

    with pytest.raises(ConfigurationError, match=r"can't see its topic log\.moved\.2"):
        decide(seen(on_log=moved, in_store=moved))
    assert decide(seen(on_log=moved, in_store=moved, moves=2)).pairing.moves == 2
    assert decide(seen(on_log=moved, in_store=None, moves=2, emptied=True, missing=ALL)).pairing.moves == 2
    assert by_hand(seen(on_log=None, in_store=None, moves=2)).pairing.moves == 2


OTHER = msgspec.structs.replace(GENERATION, chunk_size=400)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log")
    await log.start()
    yield log
    await log.stop()


async def test_a_log_without_topics_remembers_nothing(log: SqliteLog) -> None:
    assert await registry_on_log(log) is None
    assert await registered(MemoryStore(), log) is None


async def test_after_a_switch_a_lost_store_gets_what_served_last_and_no_number_twice(log: SqliteLog) -> None:
    await log.ensure_topics(pipeline_topics("g"))
    store, broker = MemoryStore(), log.broker("worker")
    await broker.start()
    await serving(store, first_registry(GENERATION, "minilm:"))
    written = await keep_copy(store, partial(publish, broker))
    later = await change(store, lambda known: begun(known, OTHER, embedder="ollama://h/m", ends={}, now=1))
    [shadow] = later.others
    await change(store, lambda known: switched(switch_begun(marked_built(known, shadow.id, now=2), shadow.id)))
    written = await keep_copy(store, partial(publish, broker), written)
    written = await keep_copy(store, partial(publish, broker), written)
    await broker.stop()

    remembered = await registered(MemoryStore(), log)

    assert remembered is not None
    assert (remembered.serving, remembered.current.embedder) == (shadow.id, "ollama://h/m")
    assert (remembered.others, remembered.switching) == ((), None)
    assert (remembered.builds, remembered.rev) == (1, later.rev + 1)
    assert (await log.end_offsets(PAIRING)).popitem()[1] == 2  # what is there already isn't written again
    assert await registered(store, log) == await change(store, lambda known: known)


async def test_an_older_copy_that_was_written_last_is_not_believed(log: SqliteLog) -> None:
    await log.ensure_topics(pipeline_topics("g"))
    old = first_registry(GENERATION)
    new = msgspec.structs.replace(old, rev=2, builds=1)
    broker = log.broker("worker")
    await broker.start()
    for each in (new, old):
        await publish(broker, PAIRING, encode(each), key=b"generations")
    await broker.stop()

    assert await registry_on_log(log) == new


async def test_a_copy_that_cant_be_read_is_refused_with_both_formats(log: SqliteLog) -> None:
    await log.ensure_topics(pipeline_topics("g"))
    broker = log.broker("worker")
    await broker.start()
    other = msgspec.structs.replace(first_registry(GENERATION), format=FORMAT + 1, serving="unknown here")
    await publish(broker, PAIRING, encode(other), key=b"generations")
    await broker.stop()

    with pytest.raises(ConfigurationError, match=f"its format is {FORMAT + 1}, this release has {FORMAT}"):
        await registered(MemoryStore(), log)
