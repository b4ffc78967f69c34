"""Documents that needn't be sent: the verdict is what sending them would have ended with."""

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest
import pytest_asyncio
from aiokafka import TopicPartition

from services.query_api.app import make_api
from services.query_api.ingest import unchanged_check
from services.query_api.ingest.submissions import UNKNOWN
from services.query_api.ingest.unchanged_check import MOST_ITEMS, CheckedDocument, UnchangedChecker
from shared.contracts import Crawl, DocumentSubmitted
from shared.errors import Unavailable
from shared.ids import bytes_hash
from shared.log import Log
from shared.log.publish import partition_of
from shared.state.ledger import Entry, Ledger
from shared.store.edge import EdgeStore
from shared.topics import SUBMITTED
from tests.contract.logs import HANG_S
from tests.integration.api import an_app
from tests.integration.pipeline import Pipeline, running
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pipeline]:
    async with running(tmp_path_factory.mktemp("check")) as pipeline:
        yield pipeline


URL = "http://127.0.0.1"


def a_document(path: str, text: str = "A lantern on the pier.", **more: Any) -> DocumentSubmitted:
    return DocumentSubmitted(source="check", path=path, text=text, **more)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOOR_S", "ANSWER_S"):
        monkeypatch.setattr(unchanged_check, name, HANG_S)


async def check(
    pipeline: Pipeline, *documents: DocumentSubmitted, log: Log | None = None, patience_s: float = HANG_S
) -> list[CheckedDocument]:
    parts = pipeline.parts
    checker = UnchangedChecker(log or parts.log, parts.ledger, parts.index, patience_s=patience_s)
    return await checker.check([(each, bytes_hash((each.text or "").encode())) for each in documents])


@CI_ONLY
async def test_only_what_the_index_holds_just_so_is_unchanged(pipeline: Pipeline) -> None:
    held = a_document("held", tags=("a",))
    await pipeline.send(held)

    verdicts = await check(
        pipeline,
        held,
        a_document("held", "Another text.", tags=("a",)),
        a_document("held", tags=("b",)),
        a_document("held", tags=("a",), filename="held.md"),
        a_document("held", tags=("a",), tenant="other"),
        a_document("never sent"),
    )

    assert verdicts[0] == CheckedDocument(document_id=held.document_id, unchanged=True, chunk_count=1)
    assert [each.unchanged for each in verdicts[1:]] == [False] * 5


async def test_what_was_deleted_failed_or_lost_its_points_is_to_be_sent(pipeline: Pipeline) -> None:
    deleted, failed, lost = (a_document(path, f"The {path} one.") for path in ("deleted", "failed", "lost"))
    for each in (deleted, failed, lost):
        await pipeline.send(each)
    await pipeline.send(DocumentSubmitted(source="check", path="deleted", deleted=True))
    await pipeline.send(a_document("failed", "   "))
    await pipeline.parts.index.delete_version(
        lost.document_id, (await pipeline.parts.index.heads([lost.document_id]))[lost.document_id].version
    )

    assert [each.unchanged for each in await check(pipeline, deleted, failed, lost)] == [False] * 3


async def test_what_another_extractor_read_is_to_be_sent(pipeline: Pipeline) -> None:
    held = a_document("extractor")
    await pipeline.send(held)
    now = await pipeline.parts.index.code()
    assert now is not None

    newer = " ".join(f"{name}0" for name in now.extractor.split())
    await pipeline.parts.index.note_code(msgspec.structs.replace(now, extractor=newer))
    then = await check(pipeline, held)
    await pipeline.parts.index.note_code(now)

    assert [each.unchanged for each in then] == [False]
    assert [each.unchanged for each in await check(pipeline, held)] == [True]


class Behind:
    """A log whose first stage is seen to be behind for so many looks, except in the partition `read`."""

    def __init__(self, log: Log, looks: int, read: int | None = None) -> None:
        self._log = log
        self.looks = looks
        self._read = read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def committed(self, group_id: str, topic: str) -> dict[TopicPartition, int | None]:
        self.looks -= 1
        seen = await self._log.committed(group_id, topic)
        return seen if self.looks < 0 else {tp: at if tp.partition == self._read else 0 for tp, at in seen.items()}


class Forgetful(Behind):
    """A log that keeps nothing of what was sent."""

    async def committed(self, group_id: str, topic: str) -> dict[TopicPartition, int | None]:
        return await self._log.committed(group_id, topic)

    async def retention_ms(self, topic: str) -> int | None:
        return 0


async def test_what_is_on_its_way_is_waited_for_and_doubted_after_a_while(pipeline: Pipeline) -> None:
    held = a_document("behind")
    await pipeline.send(held)
    soon, never = Behind(pipeline.parts.log, 3), Behind(pipeline.parts.log, 2**30)

    [caught_up] = await check(pipeline, held, log=soon)
    [doubted] = await check(pipeline, held, log=never, patience_s=0.1)

    assert caught_up.unchanged
    assert soon.looks < 0  # a slow machine looks once more
    assert not doubted.unchanged


async def test_the_route_takes_what_the_doors_take_and_says_what_it_can_not(pipeline: Pipeline) -> None:
    held = a_document("route", tags=("a", "b"), metadata={"k": [1]})
    await pipeline.send(held)
    item = {"source": "check", "path": "route", "hash": bytes_hash(b"A lantern on the pier."), "metadata": {"k": [1]}}
    too_long = [{name: "x" * 20_000} for name in ("source", "path", "title", "description", "filename", "mediaType")]
    transport = httpx.ASGITransport(cast("Any", make_api(pipeline.parts)))

    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

        async def asked(*items: dict[str, Any]) -> httpx.Response:
            return await client.post("/rag/ingest/check", json={"items": items})

        most = [{**item, "tags": "a, b"}, {**item, "tags": ["b"]}] * (MOST_ITEMS // 2)
        verdicts = (await asked(*most)).json()["items"]
        nothing = await asked()
        refused = {
            (await asked(*most, item)).json()["detail"],
            (await asked({**item, "hash": "sha256:abc"})).json()["detail"],
            (await asked({**item, "metadata": "k=1"})).json()["detail"],
            *[(await asked(item, {**item, **long})).json()["detail"] for long in too_long],
        }

    assert verdicts[0] == {"documentId": held.document_id, "unchanged": True, "chunkCount": 1}
    assert [each["unchanged"] for each in verdicts] == [True, False] * (MOST_ITEMS // 2)
    assert (nothing.status_code, nothing.json()) == (200, {"items": []})
    assert len(refused) == 3 + len(too_long)
    assert f"items: has {MOST_ITEMS + 1} items, but at most {MOST_ITEMS} are allowed at once" in refused
    assert {sentence.partition(":")[0] for sentence in refused} == {
        "items",
        "items[0].hash",
        "items[0].metadata",
        *(f"items[1].{name}" for each in too_long for name in each),
    }


async def test_a_body_is_told_by_its_text_its_sha256_or_its_hash(pipeline: Pipeline) -> None:
    text = "A lantern of another colour."
    await pipeline.send(a_document("told", text))
    named = {"source": "check", "path": "told"}
    digest = hashlib.sha256(text.encode()).hexdigest()
    items = [
        {**named, "text": text},
        {**named, "sha256": digest},
        {**named, "hash": bytes_hash(text.encode())},
        {**named, "text": "another"},
        {**named, "sha256": "0" * 64},
    ]
    transport = httpx.ASGITransport(cast("Any", an_app(pipeline.parts)))

    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        verdicts = (await client.post("/rag/ingest/check", json={"items": items})).json()["items"]
        nothing, twice = [
            (await client.post("/rag/ingest/check", json={"items": [item]})).json()["detail"]
            for item in (named, {**named, "text": text, "sha256": digest})
        ]

    assert [verdict["unchanged"] for verdict in verdicts] == [True, True, True, False, False]
    assert nothing == "items[0]: exactly one of hash, sha256 and text is needed, not 0"
    assert twice == "items[0]: exactly one of hash, sha256 and text is needed, not 2"


@pytest.mark.parametrize("title", ["  A lantern ", " ", "A cafe\u0301"], ids=["blanks", "blank", "composed"])
async def test_a_title_is_compared_as_it_is_kept(pipeline: Pipeline, title: str) -> None:
    document = {"source": "check", "path": f"titled {title!r}", "text": "A lantern with a name.", "title": title}
    transport = httpx.ASGITransport(cast("Any", an_app(pipeline.parts)))

    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=HANG_S) as client:
        sent = await client.post("/rag/ingest", json=document)
        verdict = (await client.post("/rag/ingest/check", json={"items": [document]})).json()["items"][0]

    assert sent.json()["status"] == "created"
    assert verdict["unchanged"]


async def test_an_entry_of_an_earlier_release_counts_as_changed_by_its_sha256(pipeline: Pipeline) -> None:
    text = "A lantern of long ago."
    held = a_document("old", text)
    await pipeline.send(held)
    ledger = pipeline.parts.ledger

    def without_body(entry: Entry | None) -> Entry | None:
        assert entry is not None
        return msgspec.structs.replace(entry, accepted=msgspec.structs.replace(entry.accepted, body=None))

    await ledger.update(held.document_id, without_body)
    checker = UnchangedChecker(pipeline.parts.log, ledger, pipeline.parts.index, patience_s=HANG_S)
    [by_sha256] = await checker.check([(held, hashlib.sha256(text.encode()).hexdigest())])
    [by_hash] = await checker.check([(held, bytes_hash(text.encode()))])

    assert (by_sha256.unchanged, by_hash.unchanged) == (False, True)


# Batches are compared as well (ADR 0008)


def a_batch(pipeline: Pipeline) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(cast("Any", an_app(pipeline.parts)))
    return httpx.AsyncClient(transport=transport, base_url=URL)


async def records(pipeline: Pipeline) -> int:
    return sum((await pipeline.parts.log.end_offsets(SUBMITTED)).values())


async def caught_up(pipeline: Pipeline) -> None:
    """Return when the first stage has read everything, as the route's own wait for it shows."""
    await check(pipeline, a_document("never sent"))


@CI_ONLY
async def test_unchanged_items_of_a_batch_are_answered_without_a_record(pipeline: Pipeline) -> None:
    items = [{"source": "batch", "path": str(n), "text": f"Lantern {n}."} for n in range(150)]
    wait = {"Prefer": "wait=200"}

    async with a_batch(pipeline) as client:
        first = (await client.post("/rag/ingest/batch", json=items, headers=wait)).json()["items"]
        await caught_up(pipeline)
        before = await records(pipeline)
        again = await client.post("/rag/ingest/batch", json=items)
        unchanged = await records(pipeline)
        items[70]["text"] = "Another lantern."
        edited = (await client.post("/rag/ingest/batch", json=items, headers=wait)).json()["items"]
        after = await records(pipeline)

    assert {each["status"] for each in first} == {"created"}
    assert again.status_code == 200
    assert [(each["status"], each["chunkCount"]) for each in again.json()["items"]] == [("unchanged", 1)] * 150
    assert [each["documentId"] for each in again.json()["items"]] == [each["documentId"] for each in first]
    assert unchanged == before
    assert after > before
    assert [each["index"] for each in edited if each["status"] != "unchanged"] == [70]
    assert edited[70]["status"] == "updated"


@pytest.mark.parametrize("route", ["/rag/ingest/batch", "/rag/ingest"])
async def test_what_asks_for_more_than_its_content_is_submitted(pipeline: Pipeline, route: str) -> None:
    def body(document: dict[str, Any]) -> Any:
        return [document] if route.endswith("batch") else document

    item = {"source": "batch", "path": "more", "text": "A lantern with a bell."}
    asked: list[dict[str, Any]] = [
        {"keep": ["title"]},
        {"onConflict": "error"},
        {"callbackUrl": "http://127.0.0.1:9/ended"},
    ]
    written = []

    async with a_batch(pipeline) as client:
        await client.post(route, json=body(item), headers={"Prefer": "wait=200"})
        for more in asked:
            await caught_up(pipeline)
            before = await records(pipeline)
            await client.post(route, json=body({**item, **more}), headers={"Prefer": "wait=200"})
            written.append(await records(pipeline) - before)

    assert written == [1, 1, 1]


SENT: dict[str, dict[str, Any]] = {
    "/rag/ingest": {"json": {"source": "door", "path": "a", "text": "A lantern."}},
    "/rag/ingest/text": {"json": {"title": "Lantern", "text": "A lantern."}},
    "/rag/ingest/upload": {"files": {"file": ("a.md", b"# Lantern\n\nA lantern."), "b": ("b.txt", b"A bell.")}},
    "/knowledge-base": {"files": {"file": ("c.md", b"# Bell\n\nA bell.")}, "data": {"title": "The bell"}},
}


@CI_ONLY
@pytest.mark.parametrize("route", SENT)
async def test_what_is_there_unchanged_comes_into_the_log_by_no_door(pipeline: Pipeline, route: str) -> None:
    async with a_batch(pipeline) as client:
        first = await client.post(route, **SENT[route], headers={"Prefer": "wait=200"})
        await caught_up(pipeline)
        before = await records(pipeline)
        again = await client.post(route, **SENT[route], headers={"Prefer": "wait=0"})
        after = await records(pipeline)

    assert (first.status_code, again.status_code, after) == (200, 200, before)
    created, unchanged = (each.json().get("items", [each.json()]) for each in (first, again))
    assert {each["status"] for each in unchanged} <= {"unchanged", "completed"}
    assert [(each["documentId"], each["chunkCount"]) for each in unchanged] == [
        (each["documentId"], each["chunkCount"]) for each in created
    ]


async def test_of_two_texts_of_a_document_that_come_together_the_other_one_is_submitted(pipeline: Pipeline) -> None:
    held = a_document("together")
    await pipeline.send(held)
    await caught_up(pipeline)
    parts = pipeline.parts
    checker = UnchangedChecker(parts.log, parts.ledger, parts.index)
    other = msgspec.structs.replace(held, text="The lantern is out.")

    for sent in ((held, other, held), (other, held)):
        ends = await asyncio.gather(*map(checker.unchanged, sent))
        spared = [document for document, end in zip(sent, ends, strict=True) if end is not None]
        assert spared == ([held, held] if sent[0] is held else [])


async def test_the_same_document_twice_in_a_batch_ends_as_the_later_item_says(pipeline: Pipeline) -> None:
    old, new = ({"source": "batch", "path": "twice", "text": text} for text in ("The old lamp.", "The new lamp."))
    wait = {"Prefer": "wait=200"}

    async with a_batch(pipeline) as client:
        await client.post("/rag/ingest/batch", json=[old], headers=wait)
        await caught_up(pipeline)
        there = (await client.post("/rag/ingest/batch", json=[old, new], headers=wait)).json()["items"]
        await caught_up(pipeline)
        back = (await client.post("/rag/ingest/batch", json=[old, new, old], headers=wait)).json()["items"]
        text = (await client.get(f"/rag/documents/{there[0]['documentId']}/text")).text

    assert [each["status"] for each in there] == ["superseded", "updated"]
    assert [each["supersededBy"] for each in back if "supersededBy" in each] == [2, 2]
    assert "The old lamp." in text


async def test_nothing_is_spared_while_any_record_is_unread(pipeline: Pipeline) -> None:
    held = a_document("spared")
    log, ledger, index = pipeline.parts.log, pipeline.parts.ledger, pipeline.parts.index
    ends = await log.end_offsets(SUBMITTED)
    own = partition_of(held.document_id.encode(), len(ends))
    others = (a_document(f"other {number}") for number in itertools.count())
    elsewhere = next(each for each in others if partition_of(each.document_id.encode(), len(ends)) != own)
    for each in (held, elsewhere):
        await pipeline.send(each)
    await caught_up(pipeline)
    # A record under a wrong key is of any partition.
    busy, soon = Behind(log, 2**30, read=own), Behind(log, 2, read=own)

    read = await UnchangedChecker(log, ledger, index).held([held])
    unread = await UnchangedChecker(busy, ledger, index).held([held])
    waited = await UnchangedChecker(busy, ledger, index).held([held], patience_s=0.1)
    caught = await UnchangedChecker(soon, ledger, index).held([held], patience_s=HANG_S)

    for spared in (read, caught):
        assert [(id_, end.last.status, end.chunk_count) for id_, end in spared.ends.items()] == [
            (held.document_id, "unchanged", 1)
        ]
    assert (unread.ends, unread.busy, waited.ends, waited.busy) == ({}, False, {}, True)


class LastUnread(Behind):
    """A log whose first stage hasn't read the last record of the partition `read`."""

    async def committed(self, group_id: str, topic: str) -> dict[TopicPartition, int | None]:
        seen = await self._log.committed(group_id, topic)
        return {tp: at - 1 if at and tp.partition == self._read else at for tp, at in seen.items()}


async def test_a_record_that_this_process_sent_leaves_only_its_own_document_undecided(pipeline: Pipeline) -> None:
    held, other = a_document("beside it"), a_document("sent last")
    await pipeline.send(held)
    await pipeline.send(other)
    await caught_up(pipeline)
    ends = await pipeline.parts.log.end_offsets(SUBMITTED)
    partition = partition_of(other.document_id.encode(), len(ends))
    last = next(end for tp, end in ends.items() if tp.partition == partition) - 1
    leads_on = msgspec.structs.replace(other, text=None, url="https://a.example", crawl=Crawl(depth=1))

    found = []
    for sent in (other, None, msgspec.structs.replace(other, on_conflict="new"), leads_on):
        log = cast("Log", LastUnread(pipeline.parts.log, 0, read=partition))
        checker = UnchangedChecker(log, pipeline.parts.ledger, pipeline.parts.index)
        if sent is not None:
            checker.sent(sent, partition, last)
        found.append({*(await checker.held([held, other])).ends})

    assert found == [{held.document_id}, set(), set(), set()]


async def test_a_body_that_the_log_has_half_forgotten_is_submitted_and_kept_anew(pipeline: Pipeline) -> None:
    held = a_document("kept")
    await pipeline.send(held)
    await caught_up(pipeline)
    parts = pipeline.parts

    found = [
        await UnchangedChecker(log, parts.ledger, parts.index).unchanged(held)
        for log in (parts.log, Forgetful(parts.log, 2**30))
    ]

    assert [end is None for end in found] == [False, True]


@CI_ONLY
@pytest.mark.parametrize("route", ["/rag/ingest/batch", "/rag/ingest"])
async def test_while_a_record_may_still_come_the_old_text_is_sent_after_it(pipeline: Pipeline, route: str) -> None:
    old, new = ({"source": "doubt", "path": "lamp", "text": text} for text in ("The old lamp.", "The new lamp."))
    lost = [True]

    async def unsure(*sent: Any, **more: Any) -> Any:
        if lost:
            lost.clear()
            raise Unavailable("it is unknown whether the record is stored", UNKNOWN)
        return await pipeline.parts.publish(*sent, **more)

    async with a_batch(pipeline) as client:
        await client.post("/rag/ingest", json=old, headers={"Prefer": "wait=200"})
        await caught_up(pipeline)
    before = await records(pipeline)
    parts = replace(pipeline.parts, publish=unsure)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(cast("Any", an_app(parts))), base_url=URL) as client:
        refused = await client.post("/rag/ingest", json=new)
        again = await client.post(route, json=[old] if route.endswith("batch") else old, headers={"Prefer": "wait=200"})

    assert refused.json()["code"] == "OUTCOME_UNKNOWN"
    assert "unchanged" in again.text
    assert await records(pipeline) == before + 1


async def test_what_can_not_be_compared_is_submitted(pipeline: Pipeline, tmp_path: Path) -> None:
    held = a_document("away")
    await pipeline.send(held)
    await caught_up(pipeline)
    away = Ledger(EdgeStore(tmp_path / "nobody", attach=True))

    found = await UnchangedChecker(pipeline.parts.log, away, pipeline.parts.index).held([held])

    assert (found.ends, found.busy) == ({}, True)
