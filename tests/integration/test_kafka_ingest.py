"""What others write to `documents.submitted`, and partitions that are added to it, through the first stages."""

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.partitioner import murmur2
from aiokafka.structs import RecordMetadata
from faststream.kafka import KafkaBroker

from shared.contracts import DocumentSubmitted, LogPosition, encode
from shared.errors import Unavailable
from shared.ids import document_id
from shared.log.kafka import KafkaAddress, KafkaLog
from shared.log.publish import publish
from shared.topics import SUBMITTED
from tests.contract.kafka_harness import empty
from tests.contract.logs import until
from tests.integration.first_stages import FirstStages, first_stages
from tests.selection import CI_ONLY

pytestmark = pytest.mark.server

YEAR_2099 = 4_070_908_800_000
LIMIT = 1024 * 1024


@pytest.fixture
async def stages(kafka_address: str, tmp_path: Path, users: AsyncExitStack) -> FirstStages:
    await empty(kafka_address)
    # Both as short as they can be: a group moves, and added partitions are heard of, at once.
    log = KafkaLog(KafkaAddress(servers=(kafka_address,)), heartbeat_ms=100, metadata_age_ms=200)
    return await first_stages(log, tmp_path, users)


@pytest.fixture
async def admin(kafka_address: str, users: AsyncExitStack) -> AIOKafkaAdminClient:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_address)
    await admin.start()
    users.push_async_callback(admin.close)
    return admin


class Foreign:
    """Somebody else's producers, one for each codec. None of them knows our ids, keys or headers."""

    def __init__(self, address: str, users: AsyncExitStack) -> None:
        self._address = address
        self._users = users
        self._producers: dict[str | None, AIOKafkaProducer] = {}

    async def send(self, value: bytes | None, *, codec: str | None = None, **how: Any) -> RecordMetadata:
        if codec not in self._producers:
            made = AIOKafkaProducer(
                bootstrap_servers=self._address, compression_type=codec, max_request_size=16 * LIMIT
            )
            self._producers[codec] = await self._users.enter_async_context(made)
        return await self._producers[codec].send_and_wait(SUBMITTED, value, **how)


@pytest.fixture
def foreign(kafka_address: str, users: AsyncExitStack) -> Foreign:
    return Foreign(kafka_address, users)


def named(path: str) -> str:
    return document_id("default", "foreign", path)


def a_body(path: str, text: str = "A lantern on the pier.", **more: Any) -> bytes:
    return json.dumps({"source": "foreign", "path": path, "text": text, **more}).encode()


def place(written: RecordMetadata) -> LogPosition:
    return LogPosition(partition=written.partition, offset=written.offset, time=written.timestamp)


def a_wrong_partition(name: str) -> int:
    right: int = (murmur2(name.encode()) & 0x7FFFFFFF) % 8
    return (right + 1) % 8


async def test_whatever_others_write_becomes_the_document_that_it_names(stages: FirstStages, foreign: Foreign) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/somebody", "type": "any"}
    fits_only_without_our_headers = "x" * (LIMIT - 100 - len(a_body("full", "")))
    kinds: dict[str, tuple[bytes, dict[str, Any]]] = {
        "no-key": (a_body("no-key"), {}),
        "their-key": (a_body("their-key"), {"key": b"\xff their own"}),
        "wrong-partition": (
            a_body("wrong-partition"),
            {"key": named("wrong-partition").encode(), "partition": a_wrong_partition(named("wrong-partition"))},
        ),
        "right-key": (a_body("right-key"), {"key": named("right-key").encode()}),
        "odd-headers": (a_body("odd-headers"), {"headers": [("n", None), ("sluice-place", b"\xff"), ("n", b"")]}),
        "unknown-fields": (a_body("unknown-fields", unknown={"field": [1]}, SOURCE="x"), {}),
        "cloud-event": (json.dumps({**event, "data": json.loads(a_body("cloud-event"))}).encode(), {}),
        "1970": (a_body("1970"), {"timestamp_ms": 1}),
        "2099": (a_body("2099"), {"timestamp_ms": YEAR_2099}),
        "full": (a_body("full", fits_only_without_our_headers), {}),
        **{codec: (a_body(codec), {"codec": codec}) for codec in ("gzip", "snappy", "lz4", "zstd")},
    }
    sent = {path: await foreign.send(value, **how) for path, (value, how) in kinds.items()}

    entries = {path: await stages.accepted(named(path), place(written)) for path, written in sent.items()}

    assert {path: entry.accepted.outcome for path, entry in entries.items()} == dict.fromkeys(kinds, "created")
    assert {path: entry.path for path, entry in entries.items()} == {path: path for path in kinds}
    # Versions follow the log's clock, whatever a client says.
    assert all(abs(entry.accepted.version - sent["no-key"].timestamp) < 60_000 for entry in entries.values())
    await until(stages.idle)
    assert await stages.dead_letters() == []
    for events in (await stages.versions()).values():
        assert len(events) == 1
    # Each went on under its own key, where it belongs, unless it was there already.
    went_on = [record.key for record in await stages.records(SUBMITTED) if ("sluice-rekeyed", b"1") in record.headers]
    assert sorted(went_on) == sorted(named(path).encode() for path in kinds if path != "right-key")


@CI_ONLY
async def test_a_null_deletes_what_its_headers_or_its_key_name_and_nothing_else(
    stages: FirstStages, foreign: Foreign
) -> None:
    for path in ("by-headers", "by-key", "stays"):
        await stages.accepted(named(path), place(await foreign.send(a_body(path))))

    by_headers = await foreign.send(None, key=b"", headers=[("source", b"foreign"), ("path", b"by-headers")])
    by_key = await foreign.send(None, key=named("by-key").encode())
    nameless = [
        await foreign.send(None, key=b""),
        await foreign.send(None, key=b"stays"),
        await foreign.send(None, key=named("never-heard-of").encode()),
    ]
    deleted = [
        await stages.accepted(named("by-headers"), place(by_headers)),
        await stages.accepted(named("by-key"), place(by_key)),
    ]
    await until(stages.idle)

    assert [entry.accepted.outcome for entry in deleted] == ["deleted", "deleted"]
    letters = await stages.dead_letters()
    assert {letter.code for letter in letters} == {"tombstone"}
    assert sorted((letter.partition, letter.offset) for letter in letters) == sorted(
        (each.partition, each.offset) for each in nameless
    )
    stays = await stages.ledger.get(named("stays"))
    assert stays is not None
    assert stays.accepted.outcome == "created"


@CI_ONLY
async def test_what_is_no_submission_is_set_aside_with_the_reason(stages: FirstStages, foreign: Foreign) -> None:
    kinds = {
        b"{not json": "undecodable",
        b'{"path": "no-source", "text": "x"}': "undecodable",
        b'{"source": "foreign", "path": "no-body"}': "no_body",
        b'{"specversion": "1.0", "source": "foreign", "path": "no-data"}': "no_body",
    }
    for value in kinds:
        await foreign.send(value)
    await until(stages.idle)

    assert {letter.value: letter.code for letter in await stages.dead_letters()} == kinds


@CI_ONLY
async def test_five_megabytes_are_refused_to_their_sender_or_taken_where_the_topic_takes_them(
    stages: FirstStages, foreign: Foreign, admin: AIOKafkaAdminClient
) -> None:
    large = a_body("large", "<p>Seen.</p><!--" + "x" * 5_000_000 + "-->", mediaType="text/html")

    with pytest.raises(MessageSizeTooLargeError):
        await foreign.send(large)
    await stages.accepted(named("next"), place(await foreign.send(a_body("next"))))

    raised = {"max.message.bytes": "8000000", "message.timestamp.type": "LogAppendTime"}
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, SUBMITTED, raised)])
    sent: list[RecordMetadata] = []

    async def takes() -> bool:
        with suppress(MessageSizeTooLargeError):
            sent.append(await foreign.send(large))
        return bool(sent)

    await until(takes)  # the broker acknowledges a setting before its partitions have it
    entry = await stages.accepted(named("large"), place(sent[0]))

    await until(stages.idle)
    [version] = (await stages.versions())[entry.document_id]
    assert version.text == "Seen."
    # It went on by reference: once in the log is enough.
    assert [len(record.value) > LIMIT for record in await stages.records(SUBMITTED)].count(True) == 1
    assert await stages.dead_letters() == []


# Growth


class Edits:
    """Edits a document again and again, each time after the log has the last one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.places: list[LogPosition] = []

    async def run(self, send: Any, done: asyncio.Event) -> None:
        for number in count():
            if done.is_set():
                return
            written = await send(DocumentSubmitted(source="foreign", path=self.path, text=f"Edit {number}."))
            self.places.append(place(written))
            # Records of one document in two partitions are ordered by the log's clock: no two in a millisecond.
            await asyncio.sleep(0.05)


class Arrivals:
    """Sends one new document after the other."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def run(self, send: Any, done: asyncio.Event) -> None:
        while not done.is_set():
            path = f"new/{len(self.names)}.md"
            await send(DocumentSubmitted(source="foreign", path=path, text="A lantern on the pier."))
            self.names.append(named(path))
            await asyncio.sleep(0.01)


@CI_ONLY
async def test_partitions_are_added_under_load_and_nothing_is_lost_or_out_of_order(
    kafka_address: str, stages: FirstStages, admin: AIOKafkaAdminClient, users: AsyncExitStack
) -> None:
    # This one hears of them before the worker does, so that records are in them before they are read.
    ahead = await _a_door(users, kafka_address, metadata_age_ms=20)
    # And this one only after the test: it goes on sending to the old ones.
    behind = await _a_door(users, kafka_address, metadata_age_ms=600_000)
    edits, arrivals = [Edits(f"{number}.md") for number in range(24)], Arrivals()
    done = asyncio.Event()
    doors = cycle((partial(_submit, ahead), partial(_submit, behind)))
    writing = asyncio.gather(
        arrivals.run(partial(_submit, ahead), done),
        *(each.run(door, done) for each, door in zip(edits, doors, strict=False)),
    )

    async def all_have(more: int) -> bool:
        return all(len(each.places) >= more for each in edits)

    await until(partial(all_have, 5))
    await admin.create_partitions({SUBMITTED: NewPartitions(12)})
    heard = max(len(each.places) for each in edits)

    async def new_ones_are_written() -> bool:
        ends = await stages.log.end_offsets(SUBMITTED)
        return all(ends.get(TopicPartition(SUBMITTED, number), 0) > 10 for number in range(8, 12))

    await until(new_ones_are_written)
    await until(partial(all_have, heard + 5))
    done.set()
    await writing
    await until(stages.idle)

    assert len(await stages.log.committed("ingest", SUBMITTED)) == 12
    assert await stages.dead_letters() == []
    versions = await stages.versions()
    assert [name for name in arrivals.names if name not in versions] == []
    for each in edits:
        texts = [event.text for event in versions[named(each.path)]]
        numbers = [int(str(text).removeprefix("Edit ").removesuffix(".")) for text in texts]
        assert numbers == sorted(numbers)
        assert numbers[-1] == len(each.places) - 1
        entry = await stages.ledger.get(named(each.path))
        assert entry is not None
        assert entry.accepted.place == each.places[-1]


async def _a_door(users: AsyncExitStack, address: str, metadata_age_ms: int) -> KafkaBroker:
    log = KafkaLog(KafkaAddress(servers=(address,)), metadata_age_ms=metadata_age_ms)
    await log.start()
    users.push_async_callback(log.stop)
    broker = log.broker("door")
    await broker.start()
    users.push_async_callback(broker.stop)
    return broker


async def _submit(door: KafkaBroker, document: DocumentSubmitted) -> RecordMetadata:
    key = document_id(document.tenant, document.source, document.path).encode()
    while True:
        try:
            return await publish(door, SUBMITTED, encode(document), key=key)
        except Unavailable:
            await asyncio.sleep(0.05)
