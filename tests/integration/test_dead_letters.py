"""Dead letters of every stage, seen and settled over HTTP, on the standalone adapters and the real workers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio
from pydantic import SecretStr

from services.ingest_worker.parsers import ParserPool
from services.query_api.app import ApiParts, make_api
from services.query_api.ops.redrive import SETTLED_HEADER, DeadLetterService
from services.standalone.serve import start
from shared.blobs import collect
from shared.contracts import BlobRef, DocumentChunked, DocumentExtracted, DocumentSubmitted, LogPosition, decode, encode
from shared.errors import Rejected
from shared.ids import document_id
from shared.log import Record
from shared.log.consume import BREAKER
from shared.log.headers import header
from shared.settings import Settings
from shared.state.index import Head
from shared.state.ledger import MOST_FAILED, Entry
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, chunks_topic
from tests.contract.logs import until
from tests.e2e.text import paragraphs
from tests.integration.pipeline import records_of
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

HANG_S = 120
TENANTS = [f"t{number}" for number in range(60)]  # more than there are tests
TEXT = "\n\n".join(paragraphs(1, 3))


class System:
    """The running stages and their API, as one tenant has them."""

    def __init__(self, parts: ApiParts, tenant: str) -> None:
        self.parts = parts
        self.tenant = tenant
        self.name = document_id(tenant, "s", "a.md")
        self.key = {"X-API-Key": f"key-of-{tenant}"}
        app = make_api(parts)
        transport = httpx.ASGITransport(cast("Any", app))  # Litestar's types are narrower than httpx's
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=HANG_S)

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Return a reply that must be a 200."""
        reply = await self.http.request(method, path, headers=self.key, **options)
        assert reply.status_code == 200, reply.text
        return reply

    async def page(self, **filters: Any) -> dict[str, Any]:
        """Return a page of the tenant's open letters, newest first."""
        page: dict[str, Any] = (await self.call("GET", "/ops/dead-letters", params=filters)).json()
        return page

    async def letters(self, **filters: Any) -> list[dict[str, Any]]:
        """Return the items of a page."""
        items: list[dict[str, Any]] = (await self.page(**filters))["items"]
        return items

    async def letter(self) -> dict[str, Any]:
        """Return the only open letter, once there is one."""
        await self.until_open(0)
        [letter] = await self.letters()
        return letter

    async def until_open(self, *redrives: int) -> None:
        """Return when so many letters are open, redriven so often, the newest first."""

        async def so() -> bool:
            return [each["redrives"] for each in await self.letters()] == [*redrives]

        await until(so)

    async def settle(self, how: str, **chosen: Any) -> list[dict[str, Any]]:
        """Return how the chosen letters were settled."""
        page = (await self.call("POST", f"/ops/dead-letters/{how}", json=chosen)).json()
        assert (page["nextCursor"], page["dryRun"]) == (None, chosen.get("dryRun", False))
        items: list[dict[str, Any]] = page["items"]
        return items

    async def send(self, value: bytes, key: bytes) -> LogPosition:
        """Return the place of a submission that is on the log."""
        written = await self.parts.publish(SUBMITTED, value, key=key)
        return LogPosition(partition=written.partition, offset=written.offset, time=written.timestamp)

    async def entry(self, so: Callable[[Entry], bool], name: str = "") -> Entry:
        """Return the document's entry once it is so."""
        name = name or self.name

        async def look() -> Entry | None:
            entry = await self.parts.ledger.get(name)
            return entry if entry is not None and so(entry) else None

        entry = await self.parts.notices.until(name, look, HANG_S)
        assert entry is not None, f"{name} stands as {await self.parts.ledger.get(name)}"
        return entry

    async def ended(self, text: str | None = TEXT, **fields: Any) -> Entry:
        """Return the entry when a submission of the text has ended."""
        known = {"source": "s", "path": "a.md", "text": text, "tenant": self.tenant}
        document = DocumentSubmitted(**(known | fields))
        name = document_id(document.tenant, document.source, document.path)
        place = await self.send(encode(document), name.encode())
        return await self.entry(lambda entry: entry.ended(place), name)

    async def texts(self) -> list[str]:
        """Return what the index answers for the document."""
        head = await self.parts.index.head(self.name)
        assert head is not None
        page = await self.parts.index.chunks_page(self.name, head.version, start=0, limit=100)
        return [payload["text"] for payload in page]

    async def records(self, topic: str) -> list[Record]:
        """Return all records of a topic."""
        return await records_of(self.parts.log, topic)

    async def truth(self, version: int) -> Record:
        """Return a version's record of documents.extracted."""
        key = f"{self.name}/{version}".encode()
        return next(each for each in await self.records(EXTRACTED) if each.key == key and each.value is not None)

    async def extracted_without_text(self, version: int) -> str:
        """Publish the version again, its text lost; return the text."""
        record = await self.truth(version)
        event = decode(record.value, DocumentExtracted)
        await collect(self.parts.blobs, (self.tenant, self.name), frozenset(), -60.0)
        bare = encode(DocumentExtracted(document=event.document))
        await self.parts.publish(EXTRACTED, bare, key=record.key, route=self.name.encode())
        return event.text or ""


def settings_of(folder: Path, tenants: Sequence[str]) -> Settings:
    keys = [f"key-of-{tenant}:{tenant}:admin" for tenant in tenants]
    keys.append("key-of-reader:default:ingest+query")
    return Settings(data=folder, samples="off", chat="extractive:", api_keys=SecretStr(",".join(keys)))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def parts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiParts]:
    async with AsyncExitStack() as stack:
        yield await start(settings_of(tmp_path_factory.mktemp("letters"), ["default", *TENANTS]), stack)


@pytest.fixture(scope="module")
def tenants() -> Iterator[str]:
    return iter(TENANTS)


@pytest.fixture
def system(parts: ApiParts, tenants: Iterator[str]) -> System:
    """The system as a tenant of the test's own has it."""
    return System(parts, next(tenants))


# A failure of each stage: something that the stage needs is missing, and can be put back.

Broken = Callable[[System], Awaitable[Callable[[], Awaitable[object]]]]


async def broken_ingest(system: System) -> Callable[[], Awaitable[object]]:
    """Submit a document whose body is lost; the answer brings it back."""
    body, blobs = TEXT.encode(), system.parts.blobs
    ref = await blobs.put(system.tenant, system.name, body)
    await collect(blobs, (system.tenant, system.name), frozenset(), -60.0)
    await system.ended(None, blob=ref, media_type="text/markdown")
    return lambda: blobs.put(system.tenant, system.name, body)


async def broken_chunk(system: System) -> Callable[[], Awaitable[object]]:
    """Take away the points and the text of a version, and let it be chunked again."""
    version = (await system.ended()).accepted.version
    await system.parts.index.delete_version(system.name, version)
    text = await system.extracted_without_text(version)
    await system.entry(lambda entry: entry.last.status == "failed")
    return lambda: system.parts.blobs.put(system.tenant, system.name, text.encode())


async def broken_embed(system: System) -> Callable[[], Awaitable[object]]:
    """Take away the points of a version, and let chunks that are lost be embedded."""
    version = (await system.ended()).accepted.version
    await system.parts.index.delete_version(system.name, version)
    document = decode((await system.truth(version)).value, DocumentExtracted).document
    lost = encode(DocumentChunked(document=document, blob=BlobRef(sha256="0" * 64, size=9)))
    await system.parts.publish(chunks_topic(system.parts.index.generation.id), lost, key=system.name.encode())
    await system.entry(lambda entry: entry.last.status == "failed")

    async def nothing() -> None: ...

    return nothing


STAGES = pytest.mark.parametrize(
    ("stage", "broken"), [("ingest", broken_ingest), ("chunk", broken_chunk), ("embed", broken_embed)]
)


@CI_ONLY
@STAGES
async def test_a_letter_of_each_stage_heals_by_redrive_once_its_cause_is_mended(
    system: System, stage: str, broken: Broken
) -> None:
    mend = await broken(system)
    letter = await system.letter()
    assert (letter["stage"], letter["code"], letter["documentId"]) == (stage, "BLOB_MISSING", system.name)
    assert (letter["source"], letter["path"], letter["attempts"], letter["redrives"]) == ("s", "a.md", 1, 0)
    assert letter["firstSeen"] <= letter["lastSeen"]

    await mend()
    dry = await system.settle("redrive", ids=[letter["id"]], dryRun=True)
    assert await system.letters() == [letter]
    done = await system.settle("redrive", ids=[letter["id"]])

    assert dry == done == [{"id": letter["id"], "outcome": "redriven"}]
    await system.entry(lambda entry: entry.last.status == "created")
    assert await system.texts() == paragraphs(1, 3)
    assert await system.letters() == []
    last = (await system.records(DEAD_LETTERS))[-1]
    assert (last.value, header(last, SETTLED_HEADER)) == (None, "redriven")


async def test_a_document_that_failed_twice_is_one_letter_and_is_redriven_as_it_came(system: System) -> None:
    mend = await broken_ingest(system)
    first = await system.letter()
    ref = BlobRef(sha256="0" * 64, size=4)
    await system.ended(None, blob=ref, media_type="text/markdown")

    async def again() -> bool:
        return bool((await system.letters())[0]["offset"] != first["offset"])

    await until(again)
    [letter] = await system.letters()
    await mend()
    done = await system.settle("redrive", ids=[letter["id"]])

    assert letter["id"] == first["id"]
    assert done == [{"id": letter["id"], "outcome": "redriven"}]
    await system.entry(lambda entry: entry.accepted.version > 0)


@STAGES
async def test_a_letter_that_something_newer_has_overtaken_is_superseded_and_changes_nothing(
    system: System, stage: str, broken: Broken
) -> None:
    mend = await broken(system)
    letter = await system.letter()
    await mend()
    newer = await system.ended("Something newer.")
    ends = {topic: await system.parts.log.end_offsets(topic) for topic in (SUBMITTED, EXTRACTED)}

    dry = await system.settle("redrive", stage=stage, dryRun=True)
    assert await system.letters() == [letter]
    done = await system.settle("redrive", stage=stage)

    said = f"version {newer.accepted.version} was accepted since"
    assert dry == done == [{"id": letter["id"], "outcome": "superseded", "sentence": said}]
    assert {topic: await system.parts.log.end_offsets(topic) for topic in ends} == ends
    assert await system.parts.ledger.get(system.name) == newer
    assert await system.texts() == ["Something newer."]
    assert await system.letters() == []


@STAGES
async def test_a_letter_settles_by_itself_when_its_document_ended_well_by_a_later_submission(
    system: System, stage: str, broken: Broken
) -> None:
    parts = system.parts
    service = DeadLetterService(parts, parts.publish)
    await broken(system)
    letter = await system.letter()
    assert letter["stage"] == stage
    await service.settle_overtaken()
    assert await system.letters() == [letter], "nothing answers in its stead"

    await system.ended("Something newer.")
    await service.settle_overtaken()

    await system.until_open()


@pytest.mark.parametrize("broken", [broken_ingest, broken_chunk])
async def test_what_fails_again_is_the_same_entry_with_one_redrive_more(system: System, broken: Broken) -> None:
    await broken(system)
    letter = await system.letter()

    await system.settle("redrive", ids=[letter["id"]])
    await system.until_open(1)

    [again] = await system.letters()
    assert (again["id"], again["stage"]) == (letter["id"], letter["stage"])
    assert again["lastSeen"] >= letter["lastSeen"]


async def test_chunks_that_are_made_again_and_fail_keep_the_count(system: System) -> None:
    await broken_embed(system)
    letter = await system.letter()
    await system.extracted_without_text(letter["version"])  # not tried again: the version has failed

    await system.settle("redrive", stage="embed")
    await system.until_open(1)

    [again] = await system.letters()
    assert (again["stage"], again["version"]) == ("chunk", letter["version"])


def a_large_body(system: System) -> bytes:
    return encode(DocumentSubmitted(source="s", path="a.md", tenant=system.tenant, text=" " * 300_000))


@CI_ONLY
async def test_a_large_letter_gives_its_record_back_byte_by_byte(system: System) -> None:
    body = a_large_body(system)
    await system.send(body, system.name.encode())

    letter = await system.letter()
    whole = (await system.call("GET", f"/api/ops/dead-letters/{letter['id']}")).json()
    record = await system.call("GET", f"/ops/dead-letters/{letter['id']}/record")

    assert (letter["code"], letter["size"]) == ("EMPTY", len(body))
    assert whole["record"]["blob"]["size"] == len(body)
    assert "value" not in whole["record"]
    assert record.content == body


@CI_ONLY
async def test_a_letter_whose_body_is_lost_is_refused_and_stays(system: System) -> None:
    await system.send(a_large_body(system), system.name.encode())
    letter = await system.letter()
    await collect(system.parts.blobs, (system.tenant, system.name), frozenset(), -60.0)

    [refused] = await system.settle("redrive", all=True)

    assert refused["outcome"] == "refused"
    assert "is missing" in refused["sentence"]
    assert await system.letters() == [letter]


async def test_an_unreadable_record_is_shown_as_it_came_and_goes_back_as_it_came(parts: ApiParts) -> None:
    system = System(parts, "default")  # whose it is, nobody knows
    await system.send(b"\xff{", b"foreign")

    letter = await system.letter()
    whole = (await system.call("GET", f"/ops/dead-letters/{letter['id']}")).json()
    [settled] = await system.settle("redrive", code="undecodable")
    await system.until_open(1)

    assert (letter["code"], "documentId" in letter) == ("UNDECODABLE", False)
    assert whole["record"]["key"] == {"text": "foreign"}
    assert whole["record"]["value"] == {"base64": "/3s="}
    assert settled["outcome"] == "redriven"
    assert [(each.key, each.value) for each in await system.records(SUBMITTED)].count((b"foreign", b"\xff{")) == 2


async def test_a_dropped_letter_is_gone_and_its_record_is_not_tried_again(system: System) -> None:
    await system.ended(" ")
    letter = await system.letter()
    ends = await system.parts.log.end_offsets(SUBMITTED)

    dry = await system.settle("drop", ids=[letter["id"]], dryRun=True)
    assert await system.letters() == [letter]
    done = await system.settle("drop", ids=[letter["id"]])
    again = await system.settle("drop", ids=[letter["id"]])
    shown = await system.http.get(f"/ops/dead-letters/{letter['id']}", headers=system.key)

    assert dry == done == [{"id": letter["id"], "outcome": "dropped"}]
    assert again == [{"id": letter["id"], "outcome": "unknown", "sentence": f"there is no dead letter {letter['id']}"}]
    assert await system.letters() == []
    assert await system.parts.log.end_offsets(SUBMITTED) == ends
    assert (shown.status_code, shown.json()["detail"]) == (404, "there is no such dead letter")


async def test_given_a_version_that_failed_when_its_letter_is_dropped_then_its_record_leaves_the_truth(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = (await system.ended()).accepted.version
    with monkeypatch.context() as patched:
        patched.setattr(system.parts.embedder, "embed_documents", _refuse)
        failed = await system.ended("No model takes this one.")
    letter = await system.letter()
    assert (failed.last.status, failed.published, letter["stage"]) == (
        "failed",
        (created, failed.accepted.version),
        "embed",
    )

    await system.settle("drop", ids=[letter["id"]])

    entry = await system.parts.ledger.get(system.name)
    left = {each.key: each.value for each in await system.records(EXTRACTED)}
    assert (entry.published if entry else None) == (created,)
    assert left[f"{system.name}/{failed.accepted.version}".encode()] is None
    assert left[f"{system.name}/{created}".encode()] is not None
    redriven = Head(document_id=system.name, version=failed.accepted.version, tenant=system.tenant, source="s", path="")
    standing = await system.parts.index.switch(redriven, 1)
    assert standing.version == created, "a redrive that was under way comes too late"
    again = await system.ended("No model takes this one.")
    assert (again.last.status, again.published) == ("updated", (again.accepted.version,))
    assert await system.texts() == ["No model takes this one."]


async def _refuse(texts: Sequence[str]) -> Any:
    raise Rejected("no model takes this", "model_refuses")


@pytest.mark.parametrize("stage", ["chunk", "embed"])
@CI_ONLY
async def test_given_a_document_that_fails_for_ever_then_its_entry_and_the_truth_stay_small_and_it_can_still_be_mended(
    system: System, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    first, times = (await system.ended()).accepted.version, 2 * MOST_FAILED + 3
    answered = await system.texts()

    def no_chunk(*_: Any) -> Any:
        raise Rejected("no chunk could be made", "empty")

    with monkeypatch.context() as patched:
        if stage == "embed":
            patched.setattr(system.parts.embedder, "embed_documents", _refuse)
        else:
            patched.setattr(ParserPool, "chunk", no_chunk)
        for number in range(times):
            failed = await system.ended(f"Nobody takes text {number}.")
            assert (failed.last.status, failed.last.version) == ("failed", failed.accepted.version)

    kept = (await system.entry(lambda entry: len(entry.published) <= MOST_FAILED + 2)).published
    truth = {each.key: each.value for each in await system.records(EXTRACTED)}
    mine = [key.decode().split("/")[1] for key, value in truth.items() if value and system.name.encode() in key]
    versions = tuple(sorted(map(int, mine)))
    assert kept == versions
    assert (kept[0], kept[-1], len(kept)) == (first, failed.accepted.version, MOST_FAILED + 2)
    assert [each["stage"] for each in await system.letters(limit=100)] == [stage], "one a document"
    assert await system.texts() == answered

    settled = await system.settle("redrive", all=True)

    assert [each["outcome"] for each in settled] == ["redriven"]
    mended = await system.entry(lambda entry: entry.last.status == "updated")
    assert (mended.published, mended.failed) == ((failed.accepted.version,), ())
    assert await system.texts() == [f"Nobody takes text {times - 1}."]
    assert await system.letters() == []


async def test_filters_and_pages_over_http(system: System) -> None:
    for number in range(5):
        await system.ended(" ", source="even" if number % 2 == 0 else "odd", path=f"{number}.md")

    first = await system.page(limit=3)
    rest = await system.page(limit=3, cursor=first["nextCursor"])

    assert (first["total"], rest["nextCursor"]) == (5, None)
    assert [each["path"] for each in first["items"] + rest["items"]] == ["4.md", "3.md", "2.md", "1.md", "0.md"]
    assert [each["path"] for each in await system.letters(source="odd")] == ["3.md", "1.md"]
    [second] = await system.letters(documentId=document_id(system.tenant, "even", "2.md"))
    assert second["path"] == "2.md"
    assert len(await system.letters(code="EMPTY", stage="ingest", since=first["items"][1]["lastSeen"])) >= 2
    assert await system.letters(until=rest["items"][-1]["lastSeen"]) == []


@CI_ONLY
async def test_more_letters_than_a_request_takes_are_settled_over_pages(system: System) -> None:
    for number in range(102):
        await system.send(b'{"source": "s", "path": "%d", "tenant": "%s"}' % (number, system.tenant.encode()), b"k")

    async def all_failed() -> bool:
        return bool((await system.page(limit=1))["total"] == 102)

    await until(all_failed)
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = (
            await system.call("POST", "/ops/dead-letters/redrive", json={"code": "no_body", "cursor": cursor})
        ).json()
        ids += [each["id"] for each in page["items"]]
        if (cursor := page["nextCursor"]) is None:
            break

    assert len(ids) == len(set(ids)) == 102  # none twice, though they fail again all along


@CI_ONLY
async def test_a_tenant_s_admin_sees_and_settles_its_own_letters_only(system: System, tenants: Iterator[str]) -> None:
    other = System(system.parts, next(tenants))
    await system.ended(" ")
    await other.ended(" ")
    letter, theirs = await system.letter(), await other.letter()

    tried = await other.settle("redrive", ids=[letter["id"]])
    foreign = await other.http.get(f"/ops/dead-letters/{letter['id']}/record", headers=other.key)
    dropped = await other.settle("drop", all=True)

    assert (letter["documentId"], theirs["documentId"]) == (system.name, other.name)
    assert [each["outcome"] for each in tried] == ["unknown"]
    assert foreign.status_code == 404
    assert [each["id"] for each in dropped] == [theirs["id"]]
    assert await system.letters() == [letter]
    assert await other.letters() == []


@CI_ONLY
async def test_what_is_asked_wrongly_is_refused_with_a_sentence(system: System) -> None:
    reader: dict[str, Any] = {"headers": {"X-API-Key": "key-of-reader"}}
    for method, path, options, status, said in (
        ("GET", "", reader, 403, "admin"),
        ("GET", "/x", reader, 403, "admin"),
        ("GET", "/x/record", reader, 403, "admin"),
        ("POST", "/redrive", reader | {"json": {"all": True}}, 403, "admin"),
        ("POST", "/drop", reader | {"json": {"all": True}}, 403, "admin"),
        ("GET", "", {"headers": {}}, 401, "API key"),
        ("GET", "?since=yesterday", {}, 400, "since: 'yesterday' is not a time"),
        ("GET", "?cursor=x", {}, 400, "cursor"),
        ("GET", "?limit=0", {}, 400, "limit"),
        ("POST", "/drop", {"json": {}}, 400, "all: must be true"),
        ("POST", "/drop", {"json": {"all": True, "code": "bug"}}, 400, "all: must be true"),
        ("POST", "/drop", {"json": {"cod": "bug"}}, 400, "cod"),
        ("POST", "/redrive", {"json": {"all": True, "cursor": "7"}}, 400, "cursor"),
        ("POST", "/redrive", {"json": {"ids": ["x"] * 101}}, 400, "ids"),
    ):
        asked: dict[str, Any] = {"headers": system.key} | options

        reply = await system.http.request(method, f"/ops/dead-letters{path}", **asked)

        assert (reply.status_code, said in reply.json()["detail"]) == (status, True), (path, reply.text)


@CI_ONLY
async def test_the_breaker_says_so_keeps_what_it_did_not_read_and_the_rest_is_a_letter(tmp_path: Path) -> None:
    total = BREAKER + 20
    async with AsyncExitStack() as stack:
        system = System(await start(settings_of(tmp_path, ["default"]), stack), "default")
        for number in range(total):
            await system.send(b"{%d" % number, b"%d" % number)

        async def stopped() -> bool:
            return (await system.http.get("/readyz")).status_code == 503

        await until(stopped)
        checks = (await system.http.get("/readyz", headers=system.key)).json()["checks"]
        letters = await system.letters(limit=100)
        committed = await system.parts.log.committed("ingest", SUBMITTED)

    [sentence] = [check for check in checks.values() if check]
    assert f"{BREAKER + 1} records in a row could not be read or met a bug" in sentence
    assert "sluice dlq redrive" in sentence
    assert len(letters) <= BREAKER
    assert sum(offset or 0 for offset in committed.values()) <= len(letters)
