"""The second stage on parts in memory: which versions it makes chunks of."""

from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import pytest
from aiokafka import ConsumerRecord

from services.ingest_worker.chunking import Chunking, rate_limit_of
from services.ingest_worker.parsers import ParserPool
from shared.contracts import DEFAULT_TENANT, ERASED, DocumentExtracted, LogPosition, encode, truth_key
from shared.errors import Rejected
from shared.ids import document_id
from shared.log import Record
from shared.runtime.body_budget import MemoryBudget
from shared.state.generations import Registered
from shared.state.index import Head, deletion_head
from shared.state.ledger import Entry, Ledger
from shared.state.statuses import Statuses
from shared.topics import EXTRACTED, chunks_topic
from tests.builders import an_entry
from tests.fakes.blobs import MemoryBlobs
from tests.fakes.state import GENERATION, ledger_and_index
from tests.fakes.store import MemoryStore
from tests.fakes.tokens import Characters
from tests.unit.services.operator_cli.verify.builders import a_version

NAME = document_id(DEFAULT_TENANT, "s", "p")
CHUNKS = chunks_topic(GENERATION.id)


def the_head(version: int) -> Head:
    return Head(document_id=NAME, version=version, tenant=DEFAULT_TENANT, source="s", path="p")


def the_entry(version: int, raw_hash: str) -> Entry:
    place = LogPosition(partition=0, offset=version, time=version)
    return an_entry(NAME, accepted=version, place=place, raw_hash=raw_hash)


FORGOTTEN = msgspec.structs.replace(the_entry(9, "ab"), published=(1, 3, 9), failed=(3,), forgotten=2)


def of_version(number: int, *, deleted: bool = False) -> Record:
    """Return a record of documents.extracted; the blob of its text is gone."""
    version = a_version(document_id=NAME, tenant=DEFAULT_TENANT, version=number, text_sha256="0" * 64, text_size=1)
    if deleted:
        version = msgspec.structs.replace(version, outcome="deleted", text_sha256=None, raw_hash=ERASED)
    value = encode(DocumentExtracted(document=version, text=None if deleted or number == 2 else "A lantern."))
    key = truth_key(NAME, number)
    return ConsumerRecord(EXTRACTED, 0, number, number, 1, key, value, None, len(key), len(value), ())


class Stage(NamedTuple):
    """The stage, and what it has sent: topic, key, and whether it is a null."""

    chunking: Chunking
    ledger: Ledger
    sent: list[tuple[str, bytes, bool]]


async def a_stage(head: int | None, entry: Entry | None) -> Stage:
    store, sent = MemoryStore(), list[tuple[str, bytes, bool]]()
    ledger, index = await ledger_and_index(store)
    if head is not None:
        await index.switch(the_head(head))
    if entry is not None:
        await ledger.update(NAME, lambda _: entry)

    async def publish(topic: str, value: bytes | None, *, key: bytes, **options: Any) -> Any:
        sent.append((topic, key, value is None))

    chunking = Chunking(
        index=index,
        blobs=MemoryBlobs(),
        parsers=ParserPool(1),
        tokens=Characters(),
        publish=publish,
        statuses=Statuses(ledger, publish),
        room=MemoryBudget(),
    )
    return Stage(chunking, ledger, sent)


@pytest.mark.parametrize(
    ("head", "entry", "version", "chunked"),
    [
        pytest.param(None, None, 3, True, id="the first"),
        pytest.param(2, None, 3, True, id="newer than what answers"),
        pytest.param(3, None, 3, True, id="what answers: its points may be gone"),
        pytest.param(3, None, 2, False, id="older than what answers, and its text is gone"),
        pytest.param(None, the_entry(4, "ab"), 3, True, id="a newer one was accepted: it may fail"),
        pytest.param(1, FORGOTTEN, 2, False, id="forgotten: too many have failed, and its text is gone"),
        pytest.param(1, the_entry(4, ERASED), 3, False, id="erased since"),
        pytest.param(None, the_entry(4, ERASED), 2, False, id="erased since, in an index that is just being built"),
        pytest.param(1, the_entry(4, ERASED), 4, True, id="the erasure itself"),
    ],
)
async def test_a_version_is_chunked_or_forgotten_from_the_truth(
    head: int | None, entry: Entry | None, version: int, *, chunked: bool
) -> None:
    stage = await a_stage(head, entry)

    await stage.chunking(of_version(version, deleted=version == 4))

    assert stage.sent == [(CHUNKS, NAME.encode(), False) if chunked else (EXTRACTED, truth_key(NAME, version), True)]


@pytest.mark.parametrize("again", [False, True], ids=["erased", "erased and sent again"])
async def test_a_version_that_is_erased_while_it_is_chunked_does_not_come_back_into_the_log(*, again: bool) -> None:
    stage = await a_stage(None, the_entry(3, "ab"))
    parsers = stage.chunking.parsers
    chunk = parsers.chunk

    async def erased_meanwhile(*args: Any) -> Any:
        chunks = await chunk(*args)
        await stage.ledger.update(NAME, lambda _: the_entry(5, "cd") if again else the_entry(4, ERASED))
        await stage.chunking.index.switch(deletion_head(NAME, 4, DEFAULT_TENANT))  # as the eraser does
        return chunks

    with mock.patch.object(parsers, "chunk", erased_meanwhile):
        await stage.chunking(of_version(3))

    assert stage.sent == [(EXTRACTED, truth_key(NAME, 3), True)]


@pytest.mark.parametrize("head", [None, 1], ids=["in an index that was lost", "while its failure is known"])
async def test_a_version_that_failed_before_a_newer_one_came_stays_in_the_truth_for_a_redrive(head: int | None) -> None:
    stage = await a_stage(head, FORGOTTEN)

    await stage.chunking(of_version(3))

    assert stage.sent == []


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(None, "failed", id="it never answered"),
        pytest.param(1, "failed", id="the one before it answers"),
        pytest.param(2, "created", id="it answers: this was a replay"),
    ],
)
async def test_a_version_whose_text_is_gone_has_failed_unless_it_answers(head: int | None, status: str) -> None:
    stage = await a_stage(head, the_entry(2, "ab"))
    with pytest.raises(Rejected) as caught:
        await stage.chunking(of_version(2))

    await stage.chunking.failed(of_version(2), caught.value.sentence, caught.value.code)

    entry = await stage.ledger.get(NAME)
    assert entry is not None
    assert (entry.last.status, entry.last.code) == (status, "blob_missing" if status == "failed" else None)


async def test_a_version_that_failed_is_tried_again_only_by_a_redrive() -> None:
    stage = await a_stage(None, the_entry(2, "ab"))
    await stage.chunking.failed(of_version(2), "its text is gone", "blob_missing")
    stage.sent.clear()

    await stage.chunking(of_version(2))

    assert stage.sent == []
    with pytest.raises(Rejected, match="missing"):
        await stage.chunking(replace(of_version(2), headers=(("sluice-redrive", b"1"),)))


def a_record(offset: int) -> ConsumerRecord:
    return ConsumerRecord("documents.extracted", 0, offset, 1, 1, b"", b"", None, -1, 0, ())


async def test_older_records_come_at_the_rate_and_newer_ones_at_once() -> None:
    now, pauses = [100.0], list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    registered = Registered(generation=GENERATION, embedder="minilm:", began=1, ends={"0": 10}, limit=4.0)
    turn = rate_limit_of(registered, pause, lambda: now[0])
    assert turn is not None

    for offset in (0, 1, 10, 2):
        await turn(a_record(offset))
    now[0] += 60
    await turn(a_record(3))

    assert pauses == [0.25, 0.5]
