"""The audit trail: every writing route leaves an entry, and no entry says what a document says."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import httpx
import pytest
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from services.query_api.app import ApiParts
from services.query_api.http.route_decorator import role_of
from services.query_api.ingest.submissions import UNKNOWN
from shared.contracts import AuditEntry
from shared.errors import Unavailable
from shared.ids import document_id
from shared.log.audit_trail import AuditFilter, AuditTrail, audit_page
from shared.runtime.key_file import digest_of, key_id
from shared.topics import AUDIT, EXTRACTED
from tests.integration.api import a_client, an_app, ingested, problem
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

ID: Final = "{document_id:str}"
OWN_PAGE: Final = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
SAFE: Final = {"GET", "HEAD", "OPTIONS"}
BUILD: Final = {"chunkSize": 100, "dryRun": True}
# A request for each route that writes, by its function's name. A new route needs one here.
REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "rag_ingest": {"json": {"source": "s", "path": "secretpath.md", "title": "Secrettitle", "text": "Secretword one."}},
    "rag_ingest_text": {"json": {"title": "Secrettitle two", "text": "Secretword two.", "tags": "secrettag"}},
    "rag_ingest_batch": {"json": [{"source": "s", "path": "secretpath3.md", "text": "Secretword three."}]},
    "rag_ingest_upload": {"files": {"file": ("secretpath4.md", b"Secretword four.")}, "data": {"source": "s"}},
    "knowledge_base": {"files": {"file": ("secretpath5.md", b"Secretword five.")}},
    "rag_ingest_url": {"json": {"url": "http://127.0.0.1:9/secretpath6"}},
    "rag_document_reread": {},
    "rag_document_patch": {"json": {"title": "Secrettitle seven"}},
    "rag_document_delete": {},
    "rag_documents_delete": {"params": {"source": "s", "path": "target.md"}},
    "ops_dead_letters_redrive": {"json": {"all": True}},
    "ops_dead_letters_drop": {"json": {"source": "secretsource"}},
    "ops_replay": {"json": {"topic": EXTRACTED, "from": "end", "dryRun": True}},
    "ops_erase": {"json": {"documentIds": ["secretid"]}},
    "ops_forget": {"json": {"dryRun": True}},
    "ops_tenants_erase": {"json": {"tenant": "nobody", "confirm": 0}},
    "ops_key_revoke": {},
    "ops_generations_start": {"json": BUILD},
    "ops_generations_switch": {"json": {"id": "secretid"}},
    "ops_generations_rollback": {"json": {}},
    "ops_generations_cancel": {"json": {}},
    "ops_generations_compare": {"json": {}},
    "ops_generations_gc": {"json": {}},
    "console_sign_in": {"json": {"key": "key-boss"}},
    "console_sign_out": {},
}
CHANGING: Final = {name for name in REQUESTS if name.startswith("rag_ingest")} | {
    "knowledge_base",
    "rag_document_patch",
    "rag_document_delete",
    "rag_documents_delete",
}


def writing(app: Litestar) -> Iterator[tuple[str, str, str]]:
    """Yield function, method and path of each route that writes."""
    for route in app.routes:
        if not isinstance(route, HTTPRoute):
            continue
        for handler in route.route_handlers:
            assert isinstance(handler, HTTPRouteHandler)
            audited = role_of(handler) in ("ingest", "admin", "operator") or handler.opt.get("audited")
            for method in sorted(handler.http_methods - SAFE if audited and not handler.opt.get("reads") else ()):
                yield handler.fn.__name__, str(method), route.path


def numbered(sent: Any, number: int) -> Any:
    """Return the request with other bodies."""
    match sent:
        case dict():
            return {name: numbered(value, number) for name, value in sent.items()}
        case list() | tuple():
            return type(sent)(numbered(value, number) for value in sent)
        case str() if sent.startswith("Secretword"):
            return f"{sent} {number}"
        case bytes():
            return sent + b" %d" % number
        case _:
            return sent


async def trail_of(parts: ApiParts, **wanted: str) -> list[AuditEntry]:
    assert parts.trail is not None
    await parts.trail.written()
    return (await audit_page(parts.log, AuditFilter(**wanted), limit=100_000, most=1_000_000)).entries


def boss(app: Litestar, key: str = "key-boss") -> httpx.AsyncClient:
    client = a_client(app)
    client.headers["X-API-Key"] = key
    return client


@CI_ONLY
@pytest.mark.feature(256)
async def test_every_writing_route_leaves_an_entry_without_words(parts: ApiParts, app: Litestar) -> None:
    routes = sorted(writing(app), key=lambda route: route[0] == "console_sign_out")  # last: who was signed in?
    assert {name for name, _, _ in routes} == REQUESTS.keys()

    async with boss(app) as client:
        name = await ingested(client, source="s", path="target.md", text="Secretword zero.")
        for number, (function, method, path) in enumerate(routes):
            sent = numbered(REQUESTS[function], number)  # what is unchanged is no change, so it has no entry
            id_ = f"walk-{number}"
            headers = {"X-Request-Id": id_, "Prefer": "wait=5", **(OWN_PAGE if "console" in function else {})}
            reply = await client.request(method, path.replace(ID, name), headers=headers, **sent)
            entries = [each for each in await trail_of(parts, action=function) if each.request == id_]
            if function == "rag_document_reread":  # its reader is the same: nothing changes
                assert reply.json()["status"] == "unchanged"
                continue
            assert entries, f"{method} {path} left no entry: {reply.status_code} {reply.text}"
            assert {(each.tenant, each.key) for each in entries} == {("boss", key_id(digest_of(b"key-boss")))}, entries
            if function in CHANGING:
                changed = [each for each in entries if each.result == "accepted"]
                assert len(changed) == 1, (reply.status_code, reply.text, entries)
                assert len(changed[0].documents) == 1, entries
                assert changed[0].role == "ingest"
            elif function.startswith("ops_"):
                assert entries[0].result == "begun", entries
            if reply.status_code < 400 and function.startswith(("ops_", "console_")):
                assert entries[-1].status == reply.status_code, entries
                assert entries[-1].result == "done"
            if function in ("rag_document_delete", "rag_documents_delete"):
                assert entries[0].documents == (name,)
                await ingested(client, source="s", path="target.md", text="Secretword zero.")
        await client.post("/rag/search", json={"query": "secretquery"}, headers={"X-API-Key": "secretkey"})

    raw = b"".join([value async for value in _values(parts)]).lower()
    assert raw.count(b"rag_ingest")
    for word in (b"secret", b"target", b".md", b"key-boss"):
        assert word not in raw


async def _values(parts: ApiParts) -> Any:
    for entry in await trail_of(parts):
        for field in entry.__struct_fields__:
            yield str(getattr(entry, field)).encode()


async def test_an_admin_sees_its_tenant_and_an_operator_sees_all(
    parts: ApiParts, app: Litestar, client: httpx.AsyncClient
) -> None:
    async with boss(app, "key-admin") as admin, boss(app, "key-operator") as operator:
        await ingested(client, source="s", path="other-tenant.md")
        await ingested(admin, source="s", path="own.md")
        own = (await admin.get("/ops/audit", params={"limit": 1000})).json()
        foreign = await admin.get("/ops/audit", params={"tenant": "t0"})
        everything = (await operator.get("/ops/audit", params={"limit": 1000})).json()
        later = (await operator.get("/ops/audit", params={"cursor": everything["cursor"], "action": "x"})).json()
        refused = await client.get("/ops/audit")
        wrong = [await admin.get("/ops/audit", params=params) for params in ({"since": "soon"}, {"cursor": "-1"})]
        wanted = {"action": "rag_ingest", "key": key_id(digest_of(b"key-admin")), "since": "2020-01-01"}
        chosen = (await operator.get("/ops/audit", params=wanted)).json()["items"]

    assert {each.get("tenant") for each in own["items"]} == {"admin"}
    assert problem(foreign, 403) == "only an operator can see other tenants in the audit trail"
    assert {each.get("tenant") for each in everything["items"]} > {"admin"}
    assert (later["items"], later["more"]) == ([], False)
    assert refused.status_code == 403
    assert [problem(each, 400)[:6] for each in wrong] == ["since:", "cursor"]
    assert document_id("admin", "s", "own.md") in {name for each in chosen for name in each.get("documentIds", ())}
    assert {(each["action"], each["tenant"], each["role"]) for each in chosen} == {("rag_ingest", "admin", "ingest")}


async def test_what_is_refused_is_counted(parts: ApiParts) -> None:
    before = len(await trail_of(parts))
    trail = AuditTrail(parts.publish)  # the other one has counted refusals of other tests
    app = an_app(parts, trail=trail)
    async with a_client(app) as stranger, boss(app, "key-reader") as reader:
        for _ in range(3):
            await reader.post("/rag/ingest", json={"source": "s", "path": "p", "text": "t"})
        await stranger.get("/rag/stats")
        await stranger.get("/rag/stats")
    await trail.written()
    entries = await trail_of(parts)
    refused = [each for each in entries[before:] if each.result == "refused"]

    assert [(e.action, e.tenant, e.status, e.role) for e in refused if e.tenant == "reader"] == [
        ("rag_ingest", "reader", 403, "ingest")
    ]
    assert [(e.action, e.tenant, e.status) for e in refused if e.action == "rag_stats"] == [("rag_stats", "", 401)]


async def test_a_change_whose_entry_cannot_be_written_is_not_confirmed(parts: ApiParts) -> None:
    async def away(topic: str, value: bytes | None, **how: Any) -> Any:
        if topic == AUDIT:
            raise Unavailable("audit.trail could not take a record")
        return await parts.publish(topic, value, **how)

    app = an_app(parts, trail=AuditTrail(away))
    async with boss(app) as client:
        sent = await client.post("/rag/ingest", json={"source": "s", "path": "unconfirmed.md", "text": "t"})
        begun = await client.post("/ops/erase", json={"source": "s", "confirm": 1})
        read = await client.get("/rag/stats")

    assert problem(sent, 503, "OUTCOME_UNKNOWN").startswith("the change may have been made, but the audit trail")
    assert begun.status_code == 503
    assert read.status_code == 200


async def test_a_refusal_waits_for_no_entry(parts: ApiParts) -> None:
    async def frozen(topic: str, value: bytes | None, **how: Any) -> Any:
        if topic == AUDIT:
            await asyncio.Event().wait()
        raise Unavailable("documents.submitted gave no answer in 20 s", UNKNOWN)

    app = an_app(replace(parts, publish=frozen), trail=AuditTrail(frozen))
    async with boss(app) as client, asyncio.timeout(30):
        sent = await client.post("/rag/ingest", json={"source": "s", "path": "frozen.md", "text": "t"})

    assert problem(sent, 503, "OUTCOME_UNKNOWN").startswith("documents.submitted gave no answer in 20 s")


async def test_the_ids_of_letters_that_are_settled_are_entered(parts: ApiParts, app: Litestar) -> None:
    async with boss(app) as client:
        failed = await client.post("/rag/ingest", json={"source": "s", "path": "bad.pdf", "url": "http://127.0.0.1:9/"})
        assert failed.status_code == 422, failed.text
        name = document_id("boss", "s", "bad.pdf")
        order: Mapping[str, Any] = {"documentId": name}
        dry = await client.post("/ops/dead-letters/drop", json={**order, "dryRun": True})
        await client.post("/ops/dead-letters/drop", json=order, headers={"X-Request-Id": "dropping"})
    entries = [e for e in await trail_of(parts, action="ops_dead_letters_drop") if e.documents]

    assert len(dry.json()["items"]) == 1
    assert [(e.request, e.documents, e.result) for e in entries] == [("dropping", (name,), "accepted")]
