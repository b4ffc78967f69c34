"""What any producer may write to `documents.submitted`, on both logs, as far as the truth."""

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from faststream.kafka import KafkaBroker

from shared.contracts import LogPosition
from shared.ids import document_id
from shared.log import Log
from shared.topics import SUBMITTED
from tests.contract.logs import until
from tests.integration.first_stages import FirstStages, first_stages
from tests.selection import CI_ONLY

SOURCE = "/a/producer"


@pytest.fixture
async def stages(unstarted_log: Log, tmp_path: Path, users: AsyncExitStack) -> FirstStages:
    return await first_stages(unstarted_log, tmp_path, users)


class Producer:
    """A foreign producer: it knows the topic, and nothing else of ours."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker

    async def __call__(
        self, value: bytes | None, headers: Mapping[str, str] | None = None, key: bytes | None = None
    ) -> LogPosition:
        written = await self._broker.publish(value, SUBMITTED, key=key, headers=dict(headers or {}))
        return LogPosition(partition=written.partition, offset=written.offset, time=written.timestamp)


@pytest.fixture
async def send(stages: FirstStages, users: AsyncExitStack) -> Producer:
    broker = stages.log.broker("foreign")
    await broker.start()
    users.push_async_callback(broker.stop)
    return Producer(broker)


def named(path: str) -> str:
    return document_id("default", SOURCE, path)


def event(path: str, **more: str) -> dict[str, str]:
    return {"ce_specversion": "1.0", "ce_id": "1", "ce_type": "t", "ce_source": SOURCE, "ce_subject": path, **more}


def as_json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def body(path: str, **fields: Any) -> bytes:
    return as_json(source=SOURCE, path=path, text="A lantern.", **fields)


@CI_ONLY
async def test_every_way_to_write_a_document_names_and_reads_it(stages: FirstStages, send: Producer) -> None:
    structured = {"specversion": "1.0", "id": "1", "type": "t", "source": SOURCE}
    kinds: dict[str, tuple[bytes, Mapping[str, str], bytes | None]] = {
        # As n8n's node sends it, with its defaults and as our workflow sets it.
        "bare": (body("bare", title="T"), {}, None),
        "keyed": (body("keyed"), {"content-type": "application/json", "ce_type": "rag.document.upsert"}, b"a/keyed"),
        "structured": (as_json(**structured, data=json.loads(body("structured"))), {}, None),
        "structured, named by it": (
            as_json(**structured, subject="structured, named by it", data={"text": "A lantern."}),
            {"content-type": "application/cloudevents+json; charset=utf-8"},
            None,
        ),
        "structured, with bytes": (
            as_json(
                **structured,
                subject="structured, with bytes",
                datacontenttype="text/html",
                data_base64="PHA+QSBsYW50ZXJuLjwvcD4=",
            ),
            {},
            None,
        ),
        "binary": (body("binary"), event("elsewhere", **{"content-type": "application/json"}), b"their key"),
        "binary, named by it": (as_json(text="A lantern."), event("binary, named by it"), None),
        "binary, with a page": (
            b"<p>A lantern.</p>",
            event("binary, with a page", **{"content-type": "text/html; charset=utf-8"}),
            None,
        ),
        "a page, named by headers": (
            b"<p>A lantern.</p>",
            {"content-type": "text/html", "source": SOURCE, "path": "a page, named by headers"},
            None,
        ),
        "JSON called text": (body("JSON called text"), {"content-type": "text/plain"}, None),
    }

    places = {path: await send(*record) for path, record in kinds.items()}
    entries = {path: await stages.accepted(named(path), place) for path, place in places.items()}
    await until(stages.idle)

    assert {path: entry.path for path, entry in entries.items()} == {path: path for path in kinds}
    assert await stages.dead_letters() == []
    versions = await stages.versions()
    assert {path: versions[named(path)][-1].text for path in kinds} == dict.fromkeys(kinds, "A lantern.")
    assert all(len(each) == 1 for each in versions.values())


@CI_ONLY
async def test_a_null_deletes_what_its_headers_name_in_either_way(stages: FirstStages, send: Producer) -> None:
    for path in ("by-headers", "by-event", "by-key", "stays"):
        await stages.accepted(named(path), await send(body(path)))

    deletions = {
        "by-headers": await send(None, {"source": SOURCE, "path": "by-headers"}, b"any"),
        "by-event": await send(None, event("by-event"), b"any"),
        "by-key": await send(None, None, named("by-key").encode()),
    }
    entries = [await stages.accepted(named(path), place) for path, place in deletions.items()]
    nameless = await send(None, {"ce_subject": "stays"}, b"any")
    await until(stages.idle)

    assert [entry.accepted.outcome for entry in entries] == ["deleted"] * 3
    stays = await stages.ledger.get(named("stays"))
    assert stays is not None
    assert stays.accepted.outcome == "created"
    assert [(each.code, each.offset) for each in await stages.dead_letters()] == [("tombstone", nameless.offset)]


@CI_ONLY
async def test_a_page_that_nothing_names_is_set_aside_with_a_sentence_that_says_what_is_missing(
    stages: FirstStages, send: Producer
) -> None:
    await send(b"<p>A lantern.</p>", {"ce_specversion": "1.0", "content-type": "text/html"})
    await send(as_json(specversion="1.0", id="1", type="t", data_base64="QQ=="))
    await send(as_json(specversion="1.0", id="1", type="t", subject="a", data={"text": "no source"}))
    await until(stages.idle)

    by_headers = "its headers must name it: ce_source and ce_subject, or source and path"
    assert {letter.sentence for letter in await stages.dead_letters()} == {
        f"an event with text/html is a document, and {by_headers}",
        "an event with data_base64 is a document: source and subject must name it",
        "not a DocumentSubmitted: Object missing required field `source`",
    }
