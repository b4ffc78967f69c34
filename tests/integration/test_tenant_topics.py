"""Topics of other producers, on both logs: the topic decides the tenant, and each record counts once."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from faststream.kafka import KafkaBroker

from shared.blobs.file import FileBlobs
from shared.contracts import DocumentSubmitted, LogPosition, decode, encode
from shared.ids import document_id
from shared.log import Log, Record
from shared.log.headers import FORWARDED_HEADER, header
from shared.log.publish import publish
from shared.log.read import reading
from shared.topics import SUBMITTED, forwarding_group
from tests.contract.logs import until
from tests.integration.first_stages import FirstStages, first_stages
from tests.selection import CI_ONLY

ACME, GLOBEX = "acme.documents", "globex.documents"
TOPICS = {ACME: "acme", GLOBEX: "globex"}


@pytest.fixture
async def stages(unstarted_log: Log, tmp_path: Path, users: AsyncExitStack) -> FirstStages:
    return await first_stages(unstarted_log, tmp_path, users, topics=TOPICS)


@pytest.fixture
async def broker(stages: FirstStages, users: AsyncExitStack) -> KafkaBroker:
    broker = stages.log.broker("foreign")
    await broker.start()
    users.push_async_callback(broker.stop)
    return broker


async def send(
    broker: KafkaBroker, topic: str, value: dict[str, Any] | None, key: bytes | None = None, **headers: str
) -> None:
    body = None if value is None else json.dumps(value).encode()
    await broker.publish(body, topic, key=key, headers={name.replace("_", "-"): text for name, text in headers.items()})


async def at_rest(stages: FirstStages) -> bool:
    forwarded = [
        await stages.log.committed(forwarding_group(topic), topic) == await stages.log.end_offsets(topic)
        for topic in TOPICS
    ]
    return all(forwarded) and await stages.idle()


async def records(stages: FirstStages, topic: str) -> list[Record]:
    found: list[Record] = []
    for tp in sorted(await stages.log.end_offsets(topic)):
        async with reading(stages.log, tp) as reader:
            found += [record async for record in reader.between(*await reader.bounds())]
    return found


def a_body(path: str, text: str = "A lantern.", **fields: Any) -> dict[str, Any]:
    return {"source": "s", "path": path, "text": text, **fields}


async def test_the_topic_decides_the_tenant_and_the_place_is_that_on_documents_submitted(
    stages: FirstStages, broker: KafkaBroker
) -> None:
    await send(broker, ACME, a_body("bare"))
    await send(broker, ACME, a_body("named", tenant="acme"), key=b"their key")
    await send(broker, GLOBEX, a_body("bare"), sluice_place="0/0/1")
    event = {"specversion": "1.0", "source": "s", "subject": "event", "data": {"text": "A lantern."}}
    await send(broker, GLOBEX, event)
    await until(lambda: at_rest(stages))
    entries = {
        (tenant, path): await stages.ledger.get(document_id(tenant, "s", path))
        for tenant, path in (("acme", "bare"), ("acme", "named"), ("globex", "bare"), ("globex", "event"))
    }
    places = {
        (record.key or b"").decode(): LogPosition(
            partition=record.partition, offset=record.offset, time=record.timestamp
        )
        for record in await records(stages, SUBMITTED)
    }

    assert {key: entry.tenant for key, entry in entries.items() if entry} == {key: key[0] for key in entries}
    for entry in entries.values():
        assert entry is not None
        assert entry.accepted.place == places[entry.document_id]
    assert await stages.ledger.get(document_id("default", "s", "bare")) is None
    assert await stages.dead_letters() == []


@CI_ONLY
async def test_what_a_producer_may_not_do_is_a_dead_letter_of_the_topic_s_tenant(
    stages: FirstStages, broker: KafkaBroker
) -> None:
    await send(broker, GLOBEX, a_body("theirs"))
    await until(lambda: at_rest(stages))
    theirs = document_id("globex", "s", "theirs")
    await send(broker, ACME, a_body("foreign", tenant="globex"))
    await send(broker, ACME, a_body("default", tenant="default"))
    await send(broker, ACME, a_body("by header"), tenant="globex")
    event = {"specversion": "1.0", "source": "s", "subject": "e"}
    await send(broker, ACME, {**event, "data": {"text": "t", "tenant": "x"}})
    await send(broker, ACME, None, key=theirs.encode())
    await send(broker, ACME, {"source": "", "path": "", "deleted": True, "erases": theirs})
    await send(broker, ACME, {"neither": "source nor path"})
    await until(lambda: at_rest(stages))
    letters = await stages.dead_letters()
    entry = await stages.ledger.get(theirs)

    assert sorted(letter.code for letter in letters) == [
        "erases", "foreign", "foreign", "foreign", "foreign", "no_document", "undecodable"
    ]  # fmt: skip
    assert {(letter.tenant, letter.stage, letter.topic) for letter in letters} == {("acme", "forward", ACME)}
    assert "the record names the tenant 'globex', but acme.documents belongs to 'acme'" in {
        letter.sentence for letter in letters
    }
    assert entry is not None
    assert not entry.erased
    assert entry.accepted.outcome == "created"


async def test_a_known_document_is_deleted_by_its_id_or_its_names(stages: FirstStages, broker: KafkaBroker) -> None:
    ids = [document_id("acme", "s", path) for path in ("one", "two")]
    for path in ("one", "two"):
        await send(broker, ACME, a_body(path))
    await until(lambda: at_rest(stages))
    await send(broker, ACME, None, key=ids[0].encode())
    await send(broker, ACME, None, key=b"any", source="s", path="two")
    await until(lambda: at_rest(stages))
    entries = [await stages.ledger.get(name) for name in ids]

    assert await stages.dead_letters() == []
    assert [entry.accepted.outcome for entry in entries if entry] == ["deleted", "deleted"]


@CI_ONLY
async def test_a_record_that_is_forwarded_twice_has_its_effect_once(stages: FirstStages, broker: KafkaBroker) -> None:
    await send(broker, ACME, a_body("twice", "The first text."))
    await until(lambda: at_rest(stages))
    name = document_id("acme", "s", "twice")
    (first,) = [record for record in await records(stages, SUBMITTED) if record.key == name.encode()]
    newer = encode(DocumentSubmitted(tenant="acme", source="s", path="twice", text="The second text, from elsewhere."))
    await publish(broker, SUBMITTED, newer, key=name.encode())
    # A worker that was stopped between append and commit, or wakes up late, appends the record again.
    again = {FORWARDED_HEADER: header(first, FORWARDED_HEADER) or ""}
    copy = await publish(broker, SUBMITTED, first.value, key=name.encode(), headers=again)
    await until(lambda: at_rest(stages))
    entry = await stages.ledger.get(name)
    assert entry is not None
    end = entry.end_of(LogPosition(partition=copy.partition, offset=copy.offset, time=copy.timestamp))
    texts = [event.text for event in (await stages.versions())[name]]
    await send(broker, ACME, a_body("twice", "The third text."))
    await until(lambda: at_rest(stages))
    after = [event.text for event in (await stages.versions())[name]]

    assert end is not None
    assert end.status == "unchanged"
    assert texts == ["The first text.", "The second text, from elsewhere."]
    assert after[2:] == ["The third text."]


@CI_ONLY
async def test_a_large_body_travels_as_a_blob_of_the_tenant(
    stages: FirstStages, broker: KafkaBroker, tmp_path: Path
) -> None:
    text = "A lantern is lit. " * 20_000
    await send(broker, ACME, a_body("large", text))
    await until(lambda: at_rest(stages))
    (record,) = await records(stages, SUBMITTED)
    submitted = decode(record.value, DocumentSubmitted)

    assert submitted.blob is not None
    assert (await FileBlobs(tmp_path / "blobs").get("acme", submitted.document_id, submitted.blob)).decode() == text
    assert await stages.dead_letters() == []
