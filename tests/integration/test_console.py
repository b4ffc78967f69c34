"""The console over HTTP: who gets which answer at `/`, sign-in by cookie, lists and numbers. No browser needed."""

import hashlib
import hmac
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Litestar
from pydantic import SecretStr

from services.query_api.app import ApiParts
from services.query_api.http.auth import Keyring
from shared.runtime import key_file
from shared.runtime.key_file import digest_of, editing, key_id, new_key
from shared.settings import parse_api_keys
from shared.state.sessions import COLLECTION, SESSION_S, Sessions
from tests.fakes.store import MemoryStore
from tests.integration.api import HERONS, LANTERN, a_client, an_app, ingested, problem

pytestmark = pytest.mark.asyncio(loop_scope="session")

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
OWN = {"Host": "sluice.example", "Sec-Fetch-Site": "same-origin", "Origin": "https://sluice.example"}


# The page


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
async def test_a_probe_gets_the_index_as_before(app: Litestar, accept: str) -> None:
    async with a_client(app) as client:
        reply = await client.get("/", headers={"Accept": accept})
        head = await client.head("/")

    assert reply.json()["name"] == "Sluice"
    assert "POST /rag/ingest" in reply.json()["routes"]
    assert (head.status_code, head.content) == (200, b"")


async def test_a_sign_in_from_elsewhere_is_refused_before_its_body_is_read_and_has_4096_bytes(app: Litestar) -> None:
    async with a_client(app) as client:
        elsewhere = await client.post("/console/session", content=b"no JSON")
        large = await client.post("/console/session", content=b"x" * 5000, headers=OWN)

    problem(elsewhere, 403)
    problem(large, 413)


async def test_who_asks_for_text_gets_the_index_as_text(app: Litestar) -> None:
    async with a_client(app) as client:
        reply = await client.get("/", headers={"Accept": "text/plain"})

    assert reply.headers["content-type"].startswith("text/plain")
    assert re.search(r"^POST /rag/ingest +add or replace", reply.text, re.MULTILINE)


@pytest.mark.parametrize("path", ["/", "/search", "/documents", "/documents/x", "/overview", "/generations"])
async def test_a_browser_gets_the_page_at_every_address_with_nothing_inline_or_from_elsewhere(
    app: Litestar, path: str
) -> None:
    async with a_client(app) as client:
        reply = await client.get(path, headers=BROWSER)

    policy = dict(each.strip().split(" ", 1) for each in reply.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert not re.search(r"\son\w+=|style=|javascript:|https?://", reply.text)
    assert reply.headers["cache-control"] == "no-store"


async def test_an_unknown_address_is_a_page_for_people_and_a_problem_for_programs(app: Litestar) -> None:
    async with a_client(app) as client:
        page = await client.get("/nowhere/at/all", headers=BROWSER)
        told = await client.get("/nowhere/at/all")
        sent = await client.post("/nowhere", headers=BROWSER)

    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "data-session" in page.text
    assert "Not found" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert problem(told, 404) == "there is no route /nowhere/at/all"
    problem(sent, 404)


async def test_each_menu_has_one_word_for_one_thing(app: Litestar) -> None:
    async with a_client(app) as client:
        page = await client.get("/", headers=BROWSER)

    named = re.findall(r"<span>([^<]+)</span></a></li>", page.text)
    assert named == ["Ask", "Search", "Documents", "Overview", "Generations", "Dead letters"]


async def test_keys_are_listed_and_revoked_by_an_admin_of_their_tenant(parts: ApiParts, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    _, mine = new_key("house", ("query",), "2026-11-20T18:00:00Z", "kitchen")
    _, theirs = new_key("other", ("query",), "2026-11-20T18:00:00Z")
    _, above = new_key("house", ("operator",), "2026-11-20T18:00:00Z", "above")
    with editing(file) as keys:
        keys += [mine, theirs, above]
    fixed = SecretStr("a-long-key-of-the-house:house:admin,a-long-key-of-another:other:operator")
    app = an_app(parts, settings=parts.settings.model_copy(update={"api_keys": fixed, "keys_file": file}))
    async with a_client(app) as admin, a_client(app) as operator:
        admin.headers["X-API-Key"], operator.headers["X-API-Key"] = "a-long-key-of-the-house", "a-long-key-of-another"
        seen = (await admin.get("/ops/keys")).json()["items"]
        everything = (await operator.get("/ops/keys")).json()["items"]
        foreign = await admin.delete(f"/ops/keys/{theirs.id}")
        higher = await admin.delete(f"/ops/keys/{above.id}")
        set_elsewhere = await admin.delete(f"/ops/keys/{seen[-1]['id']}")
        gone = await admin.delete(f"/ops/keys/{mine.id}")
        left = (await admin.get("/ops/keys")).json()["items"]

    assert [(each["note"], each["revocable"]) for each in seen] == [
        ("kitchen", True),
        ("above", True),
        ("SLUICE_API_KEYS", False),
    ]
    assert len(everything) == 5
    assert problem(higher, 403) == "only an operator can revoke an operator's key"
    assert "sha256" not in str(everything)
    problem(foreign, 404)
    problem(set_elsewhere, 409, "NO_KEY")
    assert (gone.status_code, gone.json()["id"]) == (200, mine.id)
    assert [each["id"] for each in left] == [each["id"] for each in seen[1:]]


async def test_the_page_s_files_may_be_kept_for_ever(app: Litestar) -> None:
    async with a_client(app) as client:
        page = await client.get("/", headers=BROWSER)
        names = re.findall(r'(?:src|href)="((?:/|&#x2f;)console[^"]+)"', page.text)
        replies = [await client.get(name.replace("&#x2f;", "/")) for name in names]
        other = await client.get("/console/assets/000000000000/app.js")
        above = await client.get(names[0].replace("&#x2f;", "/").rpartition("/")[0] + "/..%2Fpages.py")

    assert len(names) > 5
    assert {reply.status_code for reply in replies} == {200}
    assert all("immutable" in reply.headers["cache-control"] for reply in replies)
    assert (other.status_code, above.status_code) == (404, 404)


# Signing in


async def a_keyring(store: MemoryStore, now: int = 1_000, *, keys: str = "a-long-key-of-t:t:query") -> Keyring:
    sessions = Sessions(store, lambda: now)
    await sessions.create()
    return Keyring(parse_api_keys(keys), None, sessions)


async def test_a_session_is_its_key_s_caller_until_it_is_too_old() -> None:
    store = MemoryStore()
    session, opener = await (await a_keyring(store)).sign_in("a-long-key-of-t")
    other, later = await a_keyring(store), await a_keyring(store, 1_000 + SESSION_S * 1000)

    caller = await other.signed_in(session)
    assert caller == opener
    assert caller.tenant == "t"
    assert await later.signed_in(session) is None


async def test_a_session_ends_with_its_key() -> None:
    store = MemoryStore()
    session, _ = await (await a_keyring(store)).sign_in("a-long-key-of-t")

    assert await (await a_keyring(store, keys="another-key-of-t:t:query")).signed_in(session) is None
    assert await (await a_keyring(store)).signed_in(session) is None, "a key that comes back brings no session"


async def test_with_the_hashes_of_keys_and_sessions_no_session_is_forged() -> None:
    store = MemoryStore()
    keyring = await a_keyring(store)
    session, caller = await keyring.sign_in("a-long-key-of-t")
    digest = digest_of(b"a-long-key-of-t")
    [stored] = (await store.scroll(COLLECTION)).points
    signature = hmac.new(digest, b"sluice console session 1", hashlib.sha256).hexdigest()

    assert session not in str(stored)
    for forged in (
        "",
        ".",
        f"1.{signature}",
        digest.hex(),
        caller.key,
        stored.id,
        stored.id * 2,
        "é" * 43,
        "\ud800" * 43,
    ):
        assert await keyring.signed_in(forged) is None, forged
        assert await keyring.signed_in(forged[:43]) is None, forged


async def signed_in(client: httpx.AsyncClient, key: str) -> dict[str, str]:
    reply = await client.post("/console/session", json={"key": key}, headers=OWN)
    assert reply.status_code == 200, reply.text
    return {"Cookie": reply.headers["set-cookie"].partition(";")[0]}


async def test_a_browser_signs_in_reads_and_signs_out(app: Litestar) -> None:
    async with a_client(app) as client:
        reply = await client.post("/console/session", json={"key": "key-reader"}, headers=OWN)
        client.cookies.clear()
        cookie = {"Cookie": reply.headers["set-cookie"].partition(";")[0]}
        listed = await client.get("/rag/documents", headers=cookie)
        page = await client.get("/", headers=BROWSER | cookie)
        stranger = await client.get("/rag/documents")
        out = await client.delete("/console/session", headers=cookie)
        client.cookies.clear()
        after = [(await client.get(path, headers=cookie)).status_code for path in ("/rag/documents", "/metrics")]
        told = (await client.get("/console/session", headers=cookie)).json()

    attributes = {part.strip().lower() for part in reply.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "secure", "path=/"} <= attributes
    assert "key-reader" not in str(reply.headers) + reply.text
    id_ = key_id(digest_of(b"key-reader"))
    assert reply.json() == {"keys": True, "signedIn": True, "tenant": "reader", "key": id_, "roles": ["query"]}
    assert listed.status_code == 200
    assert "reader" in page.text
    assert problem(stranger, 401)
    assert "max-age=0" in out.headers["set-cookie"].lower()
    assert (after, told["signedIn"]) == ([401, 401], False), "a cookie that was signed out is dead"


async def test_on_this_machine_the_cookie_needs_no_tls(app: Litestar) -> None:
    async with a_client(app) as client:
        reply = await client.post(
            "/console/session",
            json={"key": "key-reader"},
            headers={**OWN, "Host": "127.0.0.1:3000", "Origin": "http://127.0.0.1:3000"},
        )

    assert "secure" not in reply.headers["set-cookie"].lower()


@pytest.mark.parametrize("host", ["[", "[::1", "[x]"])
async def test_a_host_that_is_no_name_gets_a_cookie_for_tls_only(app: Litestar, host: str) -> None:
    async with a_client(app) as client:
        reply = await client.post(
            "/console/session", json={"key": "key-reader"}, headers={"Host": host, "Sec-Fetch-Site": "same-origin"}
        )

    assert "secure" in reply.headers["set-cookie"].lower()


async def test_an_unknown_key_signs_nobody_in(app: Litestar) -> None:
    async with a_client(app) as client:
        reply = await client.post("/console/session", json={"key": "key-of-nobody"}, headers=OWN)

    assert "unknown" in problem(reply, 401)
    assert "set-cookie" not in reply.headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "https://sluice.example", "Host": "sluice.example"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_a_write_by_cookie_from_elsewhere_is_refused(app: Litestar, headers: dict[str, str]) -> None:
    body = {"source": "s", "path": "p", "text": LANTERN}
    async with a_client(app) as client:
        cookie = await signed_in(client, "key-writer")
        client.cookies.clear()
        refused = await client.post("/rag/ingest", json=body, headers=cookie | headers)
        sign_in = await client.post("/console/session", json={"key": "key-writer"}, headers=headers)

    assert problem(refused, 403)
    assert problem(sign_in, 403)


@pytest.mark.parametrize("headers", [OWN, {name: OWN[name] for name in ("Host", "Origin")}])
async def test_a_write_by_cookie_from_here_is_taken(app: Litestar, headers: dict[str, str]) -> None:
    body = {"source": "s", "path": "p", "text": LANTERN}
    async with a_client(app) as client:
        cookie = await signed_in(client, "key-writer")
        client.cookies.clear()
        taken = await client.post("/rag/ingest", json=body, headers=cookie | headers)

    assert taken.status_code == 200


async def test_a_key_in_a_header_goes_before_the_cookie(app: Litestar) -> None:
    body = {"source": "s", "path": "p", "text": LANTERN}
    async with a_client(app) as client:
        cookie = await signed_in(client, "key-reader")
        client.cookies.clear()
        taken = await client.post(
            "/rag/ingest", json=body, headers=cookie | {"X-API-Key": "key-writer", "Sec-Fetch-Site": "none"}
        )

    assert taken.status_code == 200


async def test_where_no_keys_are_set_everybody_is_signed_in(parts: ApiParts) -> None:
    app = an_app(parts, settings=parts.settings.model_copy(update={"api_keys": SecretStr("")}))
    async with a_client(app) as client:
        told = await client.get("/console/session")
        here = {"Host": "127.0.0.1", "Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1"}
        refused = await client.post("/console/session", json={"key": "whatever-key"}, headers=here)

    assert told.json() == {
        "keys": False,
        "signedIn": True,
        "tenant": "default",
        "key": "",
        "roles": ["ingest", "query", "admin", "operator"],
    }
    assert problem(refused, 409)


async def test_keys_of_the_file_change_while_the_server_runs(
    parts: ApiParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_file, "LOOK_S", 0)
    key, record = new_key("of-the-file", ("query",), "2026-01-01T00:00:00Z")
    app = an_app(parts, settings=parts.settings.model_copy(update={"keys_file": tmp_path / "keys.json"}))
    statuses = []

    async with a_client(app) as client:
        for keys in ([record], []):
            statuses.append((await client.get("/rag/documents", headers={"X-API-Key": key})).status_code)
            with editing(tmp_path / "keys.json") as stored:
                stored[:] = keys
            statuses.append((await client.get("/rag/documents", headers={"X-API-Key": key})).status_code)
            if keys:
                cookie = await signed_in(client, key)
            client.cookies.clear()
            statuses.append((await client.get("/rag/documents", headers=cookie)).status_code)
        page = await signed_in(client, "key-reader")

    assert statuses == [401, 200, 200, 200, 401, 401]
    assert page  # keys of the environment are valid beside them


# Lists


@pytest.fixture
def listed(client: httpx.AsyncClient) -> Any:
    async def paths(**params: Any) -> list[str]:
        reply = await client.get("/rag/documents", params=params)
        assert reply.status_code == 200, reply.text
        return [item["path"] for item in reply.json()["items"]]

    return paths


async def test_a_list_finds_by_path_prefix_and_words(client: httpx.AsyncClient, listed: Any) -> None:
    await ingested(client, path="a/lantern.md", title="The Lantern")
    await ingested(client, HERONS, path="a/herons.md", title="Herons", source="other")
    await ingested(client, HERONS, path="b/herons.md", title="More of them")

    assert await listed(path="a/herons.md") == ["a/herons.md"]
    assert await listed(path="a/herons.md", source="s") == []
    assert await listed(pathPrefix="a/", sort="path") == ["a/herons.md", "a/lantern.md"]
    assert await listed(q="HERON more") == ["b/herons.md"]
    assert await listed(q="herons", sort="-title") == ["b/herons.md", "a/herons.md"]
    assert await listed(q="nowhere") == []


async def test_a_list_goes_on_in_its_order(client: httpx.AsyncClient) -> None:
    for number in range(5):
        await ingested(client, path=f"{number}.md", title=f"T{9 - number}")

    for query, expected in (
        ("sort=title", "43210"),
        ("sort=path", "01234"),
        ("sort=updatedAt", "01234"),
        ("q=md", "43210"),
    ):
        seen = ""
        cursor: str | None = ""
        while cursor is not None:
            reply = (await client.get(f"/rag/documents?{query}&limit=2&cursor={cursor}")).json()
            seen += "".join(item["path"][0] for item in reply["items"])
            cursor = reply["nextCursor"]
        assert seen == expected, query


async def test_a_list_by_state(client: httpx.AsyncClient, listed: Any) -> None:
    await ingested(client, path="here.md")
    gone = await ingested(client, path="gone.md")
    await client.delete(f"/rag/documents/{gone}")

    assert await listed() == ["here.md"]
    assert await listed(state="ready") == ["here.md"]
    assert await listed(status=["created", "updated"]) == ["here.md"]
    assert await listed(state="deleted") == ["gone.md"]
    assert await listed(state="failed") == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("state=redy", "state: 'redy' is none of accepted, ready, failed, deleted"),
        ("sort=size", "sort: 'size' is none of"),
        ("path=", "path: must not be empty"),
        ("source=", "source: must not be empty"),
        ("q=" + "x" * 201, "q: has 201 characters"),
        ("sort=path&cursor=xyz", "cursor: is not one that this API issued"),
        ("pathprefix=a", "pathprefix: this route has no such query parameter; did you mean pathPrefix?"),
        ("tag=x", "did you mean tags?"),
    ],
)
async def test_a_list_refuses_what_it_does_not_know(client: httpx.AsyncClient, query: str, said: str) -> None:
    assert said in problem(await client.get(f"/rag/documents?{query}"), 400, "INVALID")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/rag/documents/x?wait=1"),
        ("GET", "/api/rag/documents/x/chunks?limt=1"),
        ("POST", "/rag/search?topK=3"),
        ("GET", "/rag/stats?source=s"),
    ],
)
async def test_our_routes_refuse_unknown_query_parameters(client: httpx.AsyncClient, method: str, path: str) -> None:
    reply = await client.request(method, path, json={} if method == "POST" else None)

    assert "query parameter" in problem(reply, 400, "INVALID")


async def test_chat_ignores_query_parameters_it_does_not_know(client: httpx.AsyncClient) -> None:
    await ingested(client)

    reply = await client.post("/chat?session=7", json={"message": "When is the lantern lit?", "useRag": True})

    assert reply.status_code == 200


# Numbers


async def test_stats_count_the_caller_s_documents(app: Litestar, client: httpx.AsyncClient) -> None:
    await ingested(client, path="a.md")
    await ingested(client, HERONS, path="b.md", source="other")
    gone = await ingested(client, path="c.md")
    await client.delete(f"/rag/documents/{gone}")

    stats = (await client.get("/rag/stats")).json()
    async with a_client(app) as admin:
        told = (await admin.get("/rag/stats", headers={"X-API-Key": "key-operator"})).json()
        of_tenant = (await admin.get("/rag/stats", headers={"X-API-Key": "key-admin"})).json()

    assert stats["documents"] == {
        "total": 2,
        "accepted": 0,
        "created": 2,
        "updated": 0,
        "unchanged": 0,
        "deleted": 1,
        "failed": 0,
    }
    assert stats["chunks"] == 2
    assert stats["sources"] == [{"source": "other", "documents": 1}, {"source": "s", "documents": 1}]
    assert sum(bucket["documents"] for bucket in stats["recent"]) == 3
    assert stats["generation"]["dimension"] == 384
    assert "pipeline" not in stats
    assert "pipeline" not in of_tenant  # the backlog and the disk are those of all tenants
    assert told["documents"]["total"] == 0
    # Offsets are committed a moment after the effect.
    assert [(each["stage"], 0 <= each["unread"] <= 4) for each in told["pipeline"]["stages"]] == [
        (stage, True) for stage in ("Reading", "Chunking", "Embedding")
    ]
    assert told["pipeline"]["disk"]["total"] >= told["pipeline"]["disk"]["free"] > 0
