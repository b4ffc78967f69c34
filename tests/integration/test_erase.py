"""Documents deleted by filter and erased over HTTP, on the standalone adapters and the real workers."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio
from pydantic import SecretStr

from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from services.query_api.app import ApiParts, make_api
from services.standalone.serve import start
from shared.contracts import DocumentSubmitted, LogPosition, decode, encode, erasure
from shared.ids import document_id
from shared.log import Record
from shared.log.headers import PLACE_HEADER, check_intact, position_header, position_of
from shared.log.sqlite import SqliteLog
from shared.settings import Settings
from shared.state.ledger import Entry
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, chunks_topic
from tests.integration.api import problem
from tests.integration.pipeline import Quiet, records_of
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

HANG_S = 120
OPERATOR = {"X-API-Key": "key-of-operator"}
NO_ID = "00000000-0000-4000-8000-000000000000"
TENANTS = [f"t{number:02}" for number in range(40)]  # more than there are tests


class System:
    """The running stages and their API, as one tenant has them."""

    def __init__(self, parts: ApiParts, tenant: str) -> None:
        self.parts = parts
        self.tenant = tenant
        # Words of this test alone: all share the files. A name may be what has to be forgotten.
        self.secret = f"Quetzalcoatlus {tenant} sleeps in Coyoacan"
        self.path = f"Xochitl-{tenant}.md"
        app = make_api(parts)
        transport = httpx.ASGITransport(cast("Any", app))  # Litestar's types are narrower than httpx's
        key = {"X-API-Key": f"key-of-{tenant}"}
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=HANG_S, headers=key)

    def name(self, path: str | None = None, source: str = "s") -> str:
        """Return the document's id."""
        return document_id(self.tenant, source, path or self.path)

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Return the body of a reply that must be a 200."""
        reply = await self.http.request(method, path, **options)
        assert reply.status_code == 200, reply.text
        body: dict[str, Any] = reply.json()
        return body

    async def put(self, text: str, path: str | None = None, **fields: Any) -> str:
        """Return how a document ended that came through the door."""
        body = {"source": "s", "path": path or self.path, "text": text, **fields}
        return str((await self.call("POST", "/rag/ingest", json=body))["status"])

    async def fail(self, path: str | None = None) -> None:
        """Leave a dead letter of a document without words, which no door would take."""
        value = encode(self.submission(" ", path))
        entry = await self.ended(await self.send(value, self.name(path).encode()), self.name(path))
        assert entry.last.status == "failed"

    def submission(self, text: str, path: str | None = None) -> DocumentSubmitted:
        """Return what a foreign producer sends."""
        return DocumentSubmitted(tenant=self.tenant, source="s", path=path or self.path, text=text)

    async def erase(self, *names: str) -> list[tuple[str, str]]:
        """Return each document's id and outcome."""
        page = await self.call("POST", "/ops/erase", json={"documentIds": [*names]})
        return [(each["documentId"], each["outcome"]) for each in page["items"]]

    async def forget(self, *proofs: str) -> list[str]:
        """Return the parts in which some of the words are left when all is made anew."""
        reply = await self.call("POST", "/ops/forget", json={"proofs": proofs}, headers=OPERATOR)
        assert [(part["name"], part["forgotten"]) for part in reply["parts"]] == [("log", True), ("store", True)]
        return [each["part"] for each in reply["found"]]

    async def found(self, query: str | None = None) -> list[str]:
        """Return the ids of the documents that a search finds."""
        reply = await self.call("POST", "/rag/search", json={"query": query or self.secret, "topK": 10})
        return [each["metadata"]["documentId"] for each in reply["results"]]

    async def ended(self, place: LogPosition, name: str) -> Entry:
        """Return the entry when what was submitted at the place has ended."""

        async def look() -> Entry | None:
            entry = await self.parts.ledger.get(name)
            return entry if entry is not None and entry.ended(place) else None

        entry = await self.parts.notices.until(name, look, HANG_S)
        assert entry is not None, f"{name} stands as {await self.parts.ledger.get(name)}"
        return entry

    async def send(self, value: bytes | None, key: bytes, **headers: str) -> LogPosition:
        """Return the place of a submission that is on the log."""
        written = await self.parts.publish(SUBMITTED, value, key=key, headers=headers)
        return LogPosition(partition=written.partition, offset=written.offset, time=written.timestamp)

    async def records(self, topic: str) -> list[Record]:
        """Return all records of a topic."""
        return await records_of(self.parts.log, topic)


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def parts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiParts]:
    keys = ",".join(f"key-of-{tenant}:{tenant}:ingest+query+admin" for tenant in TENANTS)
    settings = Settings(
        data=tmp_path_factory.mktemp("erase") / "data",
        api_keys=SecretStr(f"{keys},key-of-writer:t00:ingest,key-of-operator:ops:operator"),
        chat="extractive:",
        samples="off",
        partitions=2,
    )
    async with AsyncExitStack() as stack:
        yield await start(settings, stack)


@pytest.fixture(scope="module")
def tenants() -> Iterator[str]:
    return iter(TENANTS)


@pytest.fixture
def system(parts: ApiParts, tenants: Iterator[str]) -> System:
    return System(parts, next(tenants))


def a_long_text(text: str) -> str:
    """Return so many paragraphs that they travel as a blob at every stage, and only two different ones to embed."""
    return "\n\n".join([text, *["filler words of no weight. " * 28] * 360])


def holding(parts: ApiParts, *words: str) -> list[str]:
    """Return the files that hold one of the words, found without the product's own scan."""
    files = [path for path in parts.settings.data.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(word.encode() in path.read_bytes() for word in words)]


@CI_ONLY
async def test_after_an_erasure_no_byte_of_text_or_name_is_in_any_file(system: System) -> None:
    path = system.path
    await system.put(system.secret, title=f"title {path}", tags=[f"tag {path}"], metadata={"note": f"note {path}"})
    await system.put(f"{system.secret}, amended.")
    await system.put(a_long_text(system.secret), f"long-{path}")
    await system.fail(f"blank-{path}")
    dry = await system.call("POST", "/ops/erase", json={"source": "s", "dryRun": True})
    canaries = [word for each in dry["items"] for word in each.get("canaries", [])]
    asked = {"proofs": [dry["proof"]], "dryRun": True}
    before = await system.call("POST", "/ops/forget", json=asked, headers=OPERATOR)

    names = [system.name(each) for each in (path, f"long-{path}", f"blank-{path}")]
    erased = await system.erase(*names)
    left = await system.forget(dry["proof"])

    assert (before["parts"], len(canaries) >= 2) == ([], True)
    kinds = {each["part"].split(".")[0] for each in before["found"]}
    assert {"log", "store", "blobs"} <= kinds, "what is erased stood in all of them, or this test would show nothing"
    assert erased == [(name, "erased") for name in names]
    assert left == []
    assert holding(system.parts, f"Quetzalcoatlus {system.tenant}", path.removesuffix(".md")) == []
    assert await system.found() == []


@CI_ONLY
async def test_an_erasure_names_the_producers_topics_that_keep_the_words(
    parts: ApiParts, tenants: Iterator[str]
) -> None:
    tenant = next(tenants)
    topics = {"tenant_topics": f"theirs:{tenant},of-others:somebody"}
    system = System(replace(parts, settings=parts.settings.model_copy(update=topics)), tenant)
    await system.put(system.secret)
    page = await system.call("POST", "/ops/erase", json={"documentIds": [system.name()]})

    own = await system.call("GET", "/ops/erase/forgotten", params={"receipt": page["receipt"]})
    all_ = await system.call("POST", "/ops/forget", json={}, headers=OPERATOR)

    assert [part["name"] for part in own["parts"] if not part["forgotten"]][-1] == "theirs"
    assert "of-others" not in str(own)
    assert [part["name"] for part in all_["parts"] if not part["forgotten"]] == ["theirs", "of-others"]


@CI_ONLY
async def test_a_tenant_s_admin_waits_until_the_upkeep_has_rewritten_the_files(
    system: System, parts: ApiParts, tenants: Iterator[str]
) -> None:
    other = System(parts, next(tenants))
    words = f"Nezahualcoyotl {system.tenant} rows on Texcoco"
    await system.put(words)
    await other.put(words)  # equal text elsewhere stays, and the reply doesn't tell of it
    page = await system.call("POST", "/ops/erase", json={"documentIds": [system.name()]})
    asked = {"params": {"receipt": page["receipt"]}}

    before = await system.call("GET", "/ops/erase/forgotten", **asked)
    await parts.rewrites.keep_up()
    after = await system.call("GET", "/ops/erase/forgotten", **asked)

    assert [(part["name"], part["forgotten"]) for part in before["parts"]] == [("log", False), ("store", False)]
    assert [(part["name"], part["forgotten"]) for part in after["parts"]] == [("log", True), ("store", True)]
    assert (before["done"], after["done"]) == (False, True)
    assert await other.found(words) == [other.name()]
    assert (await other.http.get("/ops/erase/forgotten", **asked)).status_code == 400  # type: ignore[arg-type]
    nothing = await other.call("POST", "/ops/erase", json={"documentIds": [system.name()]})
    assert nothing["receipt"] is None
    await other.erase(other.name())
    again = await other.call("POST", "/ops/erase", json={"documentIds": [other.name()]})
    await other.call("GET", "/ops/erase/forgotten", params={"receipt": again["receipt"]})
    await parts.rewrites.keep_up()
    assert holding(parts, words) == []


async def test_what_is_left_of_an_erased_document_is_an_id_and_a_version(system: System) -> None:
    chunks = [{"text": system.secret}, {"id": "of a person", "text": ""}]
    await system.call(
        "POST",
        "/rag/ingest",
        json={"source": "s", "path": system.path, "chunks": chunks, "title": "A title", "tags": ["tag"]},
    )
    name = system.name()
    noted = await system.call("GET", f"/rag/documents/{name}")

    await system.erase(name)

    assert "of a person" in noted["notes"][0]["place"]
    assert "notes" not in await system.call("GET", f"/rag/documents/{name}")
    entry = await system.parts.ledger.get(name)
    head = await system.parts.index.head(name)
    assert entry is not None
    assert head is not None
    assert "of a person" not in str(entry)
    assert (entry.source, entry.path, entry.title, entry.tags, entry.erased) == ("", "", None, (), True)
    assert (head.source, head.path, head.title, head.tags, head.deleted) == ("", "", None, (), True)
    assert head.version == entry.accepted.version
    truth = {record.key: record.value for record in await system.records(EXTRACTED) if name.encode() in record.key}
    assert [key for key, value in truth.items() if value is not None] == [f"{name}/{head.version}".encode()]
    assert (await system.call("GET", f"/rag/documents/{name}"))["status"] == "deleted"
    assert (await system.call("DELETE", f"/rag/documents/{name}"))["status"] == "deleted"


@CI_ONLY
async def test_a_replay_after_it_doesn_t_bring_it_back(system: System) -> None:
    name = system.name()
    await system.put(system.secret)
    await system.put(a_long_text(system.secret))  # its body is a blob, which will be gone
    then = [each for each in await system.records(SUBMITTED) if each.key == name.encode()]
    await system.erase(name)
    erased = await system.parts.ledger.get(name)
    assert erased is not None

    # As it was, which is what a cluster still has, and as it is now; each at its own place.
    now = [each for each in await system.records(SUBMITTED) if each.key == name.encode()]
    for record in (*then, *now):
        await system.send(record.value, name.encode(), **{PLACE_HEADER: position_header(position_of(record))})
    for record in await system.records(chunks_topic(system.parts.index.generation.id)):
        if record.key == name.encode():
            await system.parts.publish(record.topic, record.value, key=record.key)
    await system.ended(await system.send(encode(erasure(system.tenant, name)), name.encode()), name)

    after = await system.parts.ledger.get(name)
    assert after is not None
    assert (after.accepted.version, after.source) == (erased.accepted.version, "")
    assert await system.found() == []
    letters = await system.call("GET", "/ops/dead-letters")
    assert letters["total"] == 0


async def test_a_document_in_flight_is_erased_and_one_sent_later_is_a_new_version(system: System) -> None:
    name = system.name()
    places = [
        await system.send(
            encode(system.submission(f"{system.secret} {number}")),
            name.encode(),
        )
        for number in range(5)
    ]
    await system.ended(places[0], name)

    assert await system.erase(name) == [(name, "erased")]
    assert await system.found() == []
    assert await system.put("Something else altogether stands here.") == "created"

    assert await system.found("something else") == [name]
    shown = await system.call("GET", f"/rag/documents/{name}")
    assert (shown["source"], shown["path"]) == ("s", system.path)
    text = await system.http.get(f"/rag/documents/{name}/text")
    assert text.text == "Something else altogether stands here."
    assert await system.erase(name) == [(name, "erased")]


@CI_ONLY
async def test_dead_letters_and_blobs_of_it_go_and_others_stay(system: System) -> None:
    name, other = system.name(), system.name("other.md")
    await system.put(a_long_text(system.secret))
    await system.fail()
    await system.fail("other.md")
    folder = system.parts.settings.data / "blobs" / system.tenant / name
    assert folder.exists()

    await system.erase(name)

    letters = await system.call("GET", "/ops/dead-letters")
    assert [each["documentId"] for each in letters["items"]] == [other]
    assert not folder.exists()
    open_ = {record.key: record.value for record in await system.records(DEAD_LETTERS)}
    assert not any(value is not None and name.encode() in value for value in open_.values())


@CI_ONLY
async def test_equal_text_of_another_document_and_of_another_tenant_stays_bit_by_bit(
    system: System, tenants: Iterator[str]
) -> None:
    other = System(system.parts, next(tenants))
    for whose, path in ((system, system.path), (system, "twin.md"), (other, other.path)):
        await whose.put(system.secret, path)

    async def all_of(whose: System, path: str) -> Any:
        head = await whose.parts.index.head(whose.name(path))
        assert head is not None
        payloads = await whose.parts.index.chunks_page(head.document_id, head.version, start=0, limit=10)
        known = await whose.parts.index.known(
            whose.tenant, [payload["metadata"]["embeddedHash"] for payload in payloads]
        )
        return payloads, {name: each.vector.tobytes() for name, each in known.items()}

    before = await all_of(system, "twin.md"), await all_of(other, other.path)
    assert await other.erase(system.name()) == [(system.name(), "unknown")]
    dry = await system.call("POST", "/ops/erase", json={"documentIds": [system.name()], "dryRun": True})
    await system.erase(system.name())
    await system.forget()

    assert "canaries" not in dry["items"][0]  # they would be found for ever, and rightly
    alone = await other.call("POST", "/ops/erase", json={"documentIds": [other.name()], "dryRun": True})
    assert "canaries" in alone["items"][0]  # what another tenant has must not be told
    assert (await all_of(system, "twin.md"), await all_of(other, other.path)) == before
    assert await system.found() == [system.name("twin.md")]
    assert await other.found(system.secret) == [other.name()]


async def test_an_erasure_in_another_tenant_s_name_touches_nothing(system: System, tenants: Iterator[str]) -> None:
    thief = System(system.parts, next(tenants))
    await system.put(system.secret)
    name = system.name()
    before = await system.parts.ledger.get(name)

    await system.send(encode(erasure(thief.tenant, name)), name.encode())

    assert await system.put(system.secret) == "unchanged"  # of the same key: what came before it has been read
    after = await system.parts.ledger.get(name)
    assert (after and after.accepted.version) == (before and before.accepted.version)
    assert await system.found() == [name]
    letters = await thief.call("GET", "/ops/dead-letters")
    assert [each["code"] for each in letters["items"]] == ["FOREIGN"]


async def test_a_foreign_record_that_stood_elsewhere_is_overwritten_too(system: System) -> None:
    name = system.name()
    value = encode(system.submission(system.secret))
    place = await system.send(value, b"some key of its own", hint=system.secret)
    await system.ended(place, name)
    assert isinstance(system.parts.log, SqliteLog)

    await system.erase(name)

    mine = [each for each in await system.records(SUBMITTED) if each.key == name.encode()]
    assert len(mine) == 3  # where it came in, under its right key, and the erasure
    mine.sort(key=lambda each: each.timestamp)
    assert [decode(each.value, DocumentSubmitted) for each in mine] == [erasure(system.tenant, name)] * len(mine)
    assert [position_of(each) for each in mine[:-1]] == [place, place]
    assert system.secret not in repr(mine)  # nor in their headers
    for record in mine:
        check_intact(record)


@pytest.mark.feature(129)
async def test_many_are_deleted_by_filter_when_their_count_is_confirmed(system: System) -> None:
    for number in range(4):
        await system.put(f"Paragraph {number}.", f"{number}.md", tags=["even" if number % 2 == 0 else "odd"])
    await system.put("Another source.", "4.md", source="other", metadata={"year": 2020})

    counted = await system.call("DELETE", "/rag/documents", params={"tags": "even"})
    unconfirmed = await system.call("DELETE", "/rag/documents", params={"tags": "even", "cursor": system.name("0.md")})
    changed = await system.http.request("DELETE", "/rag/documents", params={"tags": "even", "confirm": 3})
    deleted = await system.call("DELETE", "/rag/documents", params={"tags": "even", "confirm": 2})
    by_year = {"filters": {"year": 2020}}
    found = await system.call("DELETE", "/rag/documents", json=by_year)
    gone = await system.call("DELETE", "/rag/documents", json={**by_year, "confirm": 1})
    rest = await system.call("DELETE", "/rag/documents", json={"all": True})

    assert (counted["matched"], counted["items"]) == (unconfirmed["matched"], unconfirmed["items"]) == (2, [])
    assert (changed.status_code, changed.json()["code"], changed.json()["details"]) == (
        409,
        "COUNT_CHANGED",
        {"matched": 2},
    )
    assert [each["status"] for each in deleted["items"]] == ["deleted", "deleted"]
    assert found["matched"] == 1
    assert [each["documentId"] for each in gone["items"]] == [system.name("4.md", "other")]
    assert rest["matched"] == 2


async def test_what_a_file_says_of_itself_counts_in_lists_and_deletions_as_it_does_in_searches(system: System) -> None:
    name = system.name()
    await system.put("---\ntitle: Herons\ntags: [birds]\n---\n\nHerons wade in the shallows.")

    found = await system.call("POST", "/rag/search", json={"query": "herons", "filters": {"tags": ["birds"]}})
    listed = await system.call("GET", "/rag/documents", params={"tags": "birds"})
    counted = await system.call("DELETE", "/rag/documents", params={"tags": "birds"})

    assert [each["metadata"]["documentId"] for each in found["results"]] == [name]
    assert [(each["documentId"], each["title"], each["tags"]) for each in listed["items"]] == [
        (name, "Herons", ["birds"])
    ]
    assert counted["matched"] == 1
    assert await system.put("---\ntitle: Herons\ntags: [birds]\n---\n\nHerons wade in the shallows.") == "unchanged"


@CI_ONLY
async def test_a_deletion_of_more_than_a_page_goes_on_where_it_stopped(system: System) -> None:
    for number in range(257):
        blank = DocumentSubmitted(tenant=system.tenant, source="s", path=f"{number}.md", text=" ")
        last = await system.send(encode(blank), system.name(f"{number}.md").encode())
    await system.ended(last, system.name("256.md"))

    async def known() -> bool | None:
        return (await system.call("DELETE", "/rag/documents", json={"all": True}))["matched"] == 257 or None

    assert await system.parts.notices.until(system.name("256.md"), known, HANG_S)
    first = await system.call("DELETE", "/rag/documents", json={"all": True, "confirm": 257})
    rest = await system.call(
        "DELETE", "/rag/documents", json={"all": True, "confirm": 257, "cursor": first["nextCursor"]}
    )

    assert (len(first["items"]), len(rest["items"]), rest["nextCursor"]) == (256, 1, None)
    assert {each["status"] for each in first["items"] + rest["items"]} == {"deleted"}


@CI_ONLY
async def test_a_source_is_erased_by_its_count_and_with_what_was_only_deleted_of_it(system: System) -> None:
    for path in ("1.md", "2.md"):
        await system.put(system.secret, path)
    await system.put(system.secret, "3.md", source="other")
    await system.call("DELETE", f"/rag/documents/{system.name('2.md')}")

    counted = await system.call("POST", "/ops/erase", json={"source": "s"})
    changed = await system.http.post("/ops/erase", json={"source": "s", "confirm": 1})
    done = await system.call("POST", "/ops/erase", json={"source": "s", "confirm": 2})

    assert (counted["matched"], counted["items"]) == (2, [])
    assert (changed.status_code, changed.json()["code"]) == (409, "COUNT_CHANGED")
    assert {(each["documentId"], each["outcome"]) for each in done["items"]} == {
        (system.name("1.md"), "erased"),
        (system.name("2.md"), "erased"),
    }
    assert (await system.call("POST", "/ops/erase", json={"source": "s"}))["matched"] == 0
    assert await system.found() == [system.name("3.md", "other")]


async def test_what_is_asked_wrongly_is_refused_with_a_sentence(system: System) -> None:
    writer = {"X-API-Key": "key-of-writer"}
    for method, path, options, status, said in (
        ("POST", "/ops/erase", {"headers": writer, "json": {"source": "s"}}, 403, "admin"),
        ("POST", "/ops/forget", {"json": {}}, 403, "operator"),
        ("POST", "/ops/erase", {"json": {}}, 400, "send either these or a source"),
        ("POST", "/ops/erase", {"json": {"source": "s", "confirm": 0, "cursor": "x"}}, 400, "cursor"),
        ("POST", "/ops/erase", {"json": {"source": "s", "confirm": 0, "cursor": NO_ID}}, 400, "cursor"),
        ("POST", "/ops/forget", {"headers": OPERATOR, "json": {"canaries": ["abcd"]}}, 400, "canaries"),
        ("POST", "/ops/forget", {"headers": OPERATOR, "json": {"proofs": ["abcd"]}}, 400, "proofs"),
        ("GET", "/ops/erase/forgotten", {"params": {"receipt": "abcd"}}, 400, "receipt"),
        ("GET", "/ops/erase/forgotten", {"headers": writer, "params": {"receipt": "abcd"}}, 403, "admin"),
        ("DELETE", "/rag/documents", {}, 400, "all: must be true"),
        ("DELETE", "/rag/documents", {"json": {"all": True, "filters": {"source": "s"}}}, 400, "all: must be true"),
        ("DELETE", "/rag/documents", {"json": {"filters": {"tenant": "t01"}}}, 400, "tenant"),
        ("DELETE", "/rag/documents", {"params": {"year": "2020"}}, 400, "year"),
        ("DELETE", "/rag/documents", {"json": {"all": True, "confirm": 0, "cursor": "x"}}, 400, "cursor"),
        ("DELETE", "/rag/documents", {"json": {"all": True, "confirm": 0, "cursor": NO_ID}}, 400, "cursor"),
    ):
        asked: dict[str, Any] = options

        reply = await system.http.request(method, path, **asked)

        assert (reply.status_code, said in reply.text) == (status, True), (path, reply.text)


@CI_ONLY
async def test_an_unknown_id_is_said_and_the_rest_is_done(system: System) -> None:
    await system.put(system.secret)
    unknown = document_id(system.tenant, "s", "never.md")

    outcome = await system.erase(unknown, "no id", system.name())

    assert sorted(outcome) == sorted([(unknown, "unknown"), ("no id", "unknown"), (system.name(), "erased")])


@CI_ONLY
async def test_the_verifier_finds_nothing_amiss_with_what_was_erased(system: System) -> None:
    for path in ("gone.md", "again.md", "failed.md"):
        await system.put(system.secret, path)
    await system.fail("never.md")
    await system.erase(*(system.name(path) for path in ("gone.md", "again.md", "failed.md", "never.md")))
    await system.put(system.secret, "again.md")
    await system.fail("failed.md")
    await system.forget()

    async with opened(system.parts.settings) as parts:
        outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=HANG_S)

    mine = {system.name(path) for path in ("gone.md", "again.md", "failed.md", "never.md")}
    assert [each for found in outcome.report.first.values() for each in found if each.document_id in mine] == []
    assert outcome.report.verdict == "right", outcome.report.first


@CI_ONLY
async def test_a_tenant_goes_with_all_that_it_has_and_no_other_tenant_loses_anything(
    system: System, parts: ApiParts, tenants: Iterator[str]
) -> None:
    other = System(parts, next(tenants))
    await other.put(other.secret)
    await system.put(a_long_text(f"{system.secret} long ago."))
    await system.put(a_long_text(f"{system.secret} today."))  # a second version
    await system.put(f"{system.secret}, deleted.", path="dropped.md")
    await system.call("DELETE", f"/rag/documents/{system.name('dropped.md')}")
    await system.fail("rotten.md")
    operator = OPERATOR
    show = f"/ops/tenants/{system.tenant}"
    before = await system.call("GET", show, headers=operator)
    listed = await system.call("GET", "/ops/tenants", headers=operator)
    order = {"tenant": system.tenant}
    refused = [
        await system.http.get("/ops/tenants"),
        await system.http.get(show),
        await system.http.post("/ops/tenants/erase", json=order),
    ]
    counted = await system.call("POST", "/ops/tenants/erase", headers=operator, json=order)
    changed = await system.http.post("/ops/tenants/erase", headers=operator, json={**order, "confirm": 1})
    dry = await system.call("POST", "/ops/tenants/erase", headers=operator, json={**order, "dryRun": True})
    standing = await system.call("GET", show, headers=operator)
    done = await system.call("POST", "/ops/tenants/erase", headers=operator, json={**order, "confirm": 3})
    left = await system.forget(dry["proof"])
    after = await system.call("GET", show, headers=operator)

    assert [reply.status_code for reply in refused] == [403, 403, 403]
    assert {name: before[name] for name in ("documents", "deleted", "erased", "letters")} == {
        "documents": 2, "deleted": 1, "erased": 0, "letters": 1
    }  # fmt: skip
    assert before["keys"] >= 1
    assert before["chunks"] > 300
    assert before["blobs"] >= 2
    assert before["blobBytes"] > 256 * 1024
    assert {each["tenant"] for each in listed["items"]} >= {system.tenant, other.tenant, "ops"}
    assert (counted["matched"], counted["items"], changed.status_code) == (3, [], 409)
    assert standing == before
    assert sorted(each["outcome"] for each in done["items"]) == ["erased"] * 3
    assert (done["nextCursor"], left) == (None, [])
    assert after | {"tenant": "", "keys": 0} == {
        "tenant": "", "documents": 0, "deleted": 0, "erased": 3, "letters": 0, "keys": 0, "chunks": 0, "blobs": 0,
        "blobBytes": 0,
    }  # fmt: skip
    assert holding(parts, system.secret, system.path, "dropped.md", "rotten.md") == []
    assert await other.found() == [other.name()]


@CI_ONLY
async def test_a_tenant_that_is_erased_may_come_back_and_an_unknown_one_is_told(system: System) -> None:
    operator = OPERATOR
    await system.put(system.secret)
    erase = {"tenant": system.tenant, "confirm": 1}
    await system.call("POST", "/ops/tenants/erase", headers=operator, json=erase)
    unknown = await system.http.get("/ops/tenants/nobody", headers=operator)
    again = await system.put(system.secret)
    trail = await system.call("GET", "/ops/audit?action=tenant_erased", headers=operator)

    assert [each["tenant"] for each in trail["items"]][-1:] == [system.tenant]
    assert problem(unknown, 404) == "there is no tenant nobody"
    assert again == "created"
    assert await system.found() == [system.name()]
