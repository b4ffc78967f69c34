"""Signing in by an OpenID provider, which is a small one of the test's own: who gets in, as whom, and for how long."""

import asyncio
import base64
import hashlib
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import jwt
import msgspec
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from litestar import Litestar
from pydantic import SecretStr

from services.query_api.app import ApiParts
from services.query_api.console.oidc import AT_ONCE, HANDSHAKE_S, LONGEST_S, Handshake, Oidc, open_oidc, provider_id
from services.query_api.http.auth import Caller, Keyring
from services.query_api.http.opaque_tokens import Signer
from shared.errors import Unavailable
from shared.log.audit_trail import AuditTrail
from shared.settings import ConfigurationError, Settings, parse_api_keys
from shared.state.sessions import Sessions
from tests.fakes.store import MemoryStore
from tests.integration.api import a_client, an_app, problem
from tests.selection import sampled

pytestmark = pytest.mark.asyncio(loop_scope="session")

ISSUER: Final = "https://login.example.org/realm"
CLIENT: Final = "sluice:1"
RETURN: Final = "https://sluice.example/console/oidc/return"
SECRET: Final = "a secret/of the client"
SETTINGS: Final[dict[str, Any]] = {
    "oidc": ISSUER,
    "oidc_client": CLIENT,
    "oidc_secret": SecretStr(SECRET),
    "oidc_claims": "tenant,access.roles",
    "public_url": "https://sluice.example",
}
KEYS = {kid: ec.generate_private_key(ec.SECP256R1()) for kid in ("published", "unknown")}


def published(key: Any, **more: str) -> dict[str, Any]:
    """Return the key as the provider publishes it."""
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return kind.to_jwk(key.public_key(), as_dict=True) | {"kid": "published", "use": "sig"} | more


class Provider:
    """Knows its users, and signs in whoever comes with what OpenID Connect asks for."""

    def __init__(self) -> None:
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []  # the paths
        self.now = time.time()  # by the server's clock
        self.answers = asyncio.Event()
        self.answers.set()
        self.full = asyncio.Event()
        self.client = "sluice%3A1:a+secret%2Fof+the+client"
        self.keys = [published(KEYS["published"], alg="ES256")]
        self.token = partial(jwt.encode, key=KEYS["published"], algorithm="ES256", headers={"kid": "published"})
        self.claims: dict[str, Any] = {"sub": "u1", "tenant": "reader", "access": {"roles": ["query", "other"]}}
        self.description = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize?ui=1",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
        }

    def visited(self, address: str) -> dict[str, str]:
        """Return with what the browser comes back that was sent to this address."""
        assert address.startswith(f"{ISSUER}/authorize?ui=1&")
        asked = dict(parse_qsl(urlsplit(address).query))
        assert (asked["response_type"], asked["client_id"], asked["redirect_uri"]) == ("code", CLIENT, RETURN)
        assert (asked["code_challenge_method"], "openid" in asked["scope"].split()) == ("S256", True)
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": ISSUER}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"].removeprefix("/realm")
        self.asked.append(path)
        if len(self.asked) == AT_ONCE:
            self.full.set()
        await self.answers.wait()
        status, reply = 200, self.description
        if path == "/keys":
            reply = {"keys": self.keys}  # type: ignore[dict-item]
        elif path == "/token":
            sent = {name: value for name, [value] in parse_qs((await receive())["body"].decode()).items()}
            status, reply = self._exchanged(sent, dict(scope["headers"]).get(b"authorization", b"").decode())
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": msgspec.json.encode(reply)})

    def _exchanged(self, sent: dict[str, str], authorization: str) -> tuple[int, dict[str, str]]:
        asked = self.codes.pop(sent["code"], None)
        challenge = (
            base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).decode().strip("=")
        )
        client = base64.b64decode(authorization.removeprefix("Basic ")).decode() or sent["client_id"]
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != sent["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        if client != self.client:
            return 401, {"error": "invalid_client"}
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": CLIENT, "iat": now, "exp": now + 3600, "nonce": asked["nonce"]} | self.claims
        return 200, {"id_token": self.token({name: value for name, value in claims.items() if value is not None})}


class Door(NamedTuple):
    """A console and its provider."""

    client: httpx.AsyncClient
    provider: Provider

    async def begun(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return with what the browser comes back from the provider, and its cookie."""
        reply = await self.client.get("/console/oidc")
        assert reply.status_code == 303
        [cookie] = reply.headers.get_list("set-cookie")
        attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert {"httponly", "samesite=lax", "secure", f"path={urlsplit(RETURN).path}", "max-age=600"} <= attributes
        self.client.cookies.clear()
        return self.provider.visited(reply.headers["location"]), {"Cookie": cookie.partition(";")[0]}

    async def returned(self, answer: dict[str, str], cookie: dict[str, str]) -> httpx.Response:
        """Return the reply to a browser that the provider sends back."""
        from_there = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
        reply = await self.client.get("/console/oidc/return", params=answer, headers=cookie | from_there)
        self.client.cookies.clear()
        return reply


@asynccontextmanager
async def a_door(parts: ApiParts, changed: dict[str, Any] | None = None, **other: Any) -> AsyncIterator[Door]:
    provider = Provider()
    settings = parts.settings.model_copy(update=SETTINGS | (changed or {}))
    calls = httpx.AsyncClient(transport=httpx.ASGITransport(provider))
    oidc = Oidc(settings, calls, lambda: provider.now)
    async with a_client(an_app(parts, settings=settings, oidc=oidc, **other)) as client:
        client.headers["Host"] = "sluice.example"
        yield Door(client, provider)
    await oidc.close()


@pytest_asyncio.fixture(loop_scope="session")
async def door(parts: ApiParts) -> AsyncIterator[Door]:
    async with a_door(parts) as found:
        yield found


async def test_a_user_signs_in_with_the_tenant_and_the_roles_of_the_claims_and_the_audit_names_the_user(
    door: Door, parts: ApiParts
) -> None:
    reply = await door.returned(*await door.begun())

    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    session, handshake = reply.headers.get_list("set-cookie")
    attributes = {part.strip().lower() for part in session.split(";")[1:]}
    assert {"httponly", "samesite=strict", "secure", "path=/"} <= attributes
    assert handshake.startswith('sluice_oidc="";')
    cookie = {"Cookie": session.partition(";")[0]}
    told = (await door.client.get("/console/session", headers=cookie)).json()
    assert told == {
        "keys": True,
        "signedIn": True,
        "tenant": "reader",
        "key": "oidc:u1",
        "roles": ["query"],
        "provider": True,
    }
    assert (await door.client.get("/rag/documents", headers=cookie)).status_code == 200
    refused = await door.client.get("/ops/keys", headers=cookie)
    problem(refused, 403)
    await parts.trail.written()
    trail = (await door.client.get("/ops/audit?key=oidc:u1", headers={"X-API-Key": "key-operator"})).json()["items"]
    assert "console_oidc_sign_in" in {each["action"] for each in trail if each["tenant"] == "reader"}

    await door.client.delete("/console/session", headers=cookie)
    assert (await door.client.get("/rag/documents", headers=cookie)).status_code == 401


async def test_a_client_without_a_secret_signs_in_too(parts: ApiParts) -> None:
    async with a_door(parts, {"oidc_secret": SecretStr("")}) as door:
        door.provider.client = CLIENT
        assert (await door.returned(*await door.begun())).status_code == 303


async def test_a_sign_in_that_the_audit_trail_lacks_is_not_confirmed(parts: ApiParts) -> None:
    async def away(*_: Any, **how: Any) -> Any:
        raise Unavailable("audit.trail could not take a record")

    async with a_door(parts, trail=AuditTrail(away)) as door:
        reply = await door.returned(*await door.begun())

    problem(reply, 503, "OUTCOME_UNKNOWN")
    assert "set-cookie" not in reply.headers


NOBODY: Final[list[dict[str, Any]]] = [
    {"tenant": None},
    {"tenant": ""},
    {"tenant": "a b"},
    {"tenant": ["reader"]},
    {"access": None},
    {"access": {"roles": []}},
    {"access": {"roles": ["root", "queries"]}},
    {"access": {"roles": {"query": True}}},
    {"sub": None},
    {"sub": "x" * 256},
    {"sub": "é"},
    {"nonce": "another"},
    {"nonce": None},
    {"aud": "another"},
    {"aud": [CLIENT, "another"]},
    {"aud": [CLIENT, "another"], "azp": "another"},
    {"azp": "another"},
    {"iss": f"{ISSUER}/"},
    {"exp": 1_700_000_000},
    {"exp": None},
    {"iat": 4_000_000_000},
]


@pytest.mark.parametrize("claims", sampled(NOBODY), ids=str)
async def test_nobody_gets_in_without_tenant_and_role_or_by_a_token_for_something_else(
    door: Door, claims: dict[str, Any]
) -> None:
    door.provider.claims |= claims

    reply = await door.returned(*await door.begun())

    problem(reply, 403)
    assert "set-cookie" not in reply.headers


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [
        (KEYS["unknown"], "ES256", "published"),
        (KEYS["unknown"], "ES256", "unknown"),
        (SECRET.ljust(32), "HS256", "published"),
        (None, "none", "published"),
    ],
    ids=["signed otherwise", "unknown key", "by a secret", "not signed"],
)
async def test_a_token_that_the_provider_did_not_sign_is_refused(
    door: Door, key: Any, algorithm: str, kid: str
) -> None:
    door.provider.token = partial(jwt.encode, key=key, algorithm=algorithm, headers={"kid": kid})

    problem(await door.returned(*await door.begun()), 403)


async def test_what_another_browser_began_or_somebody_made_up_signs_nobody_in(door: Door) -> None:
    answer, cookie = await door.begun()
    other, foreign = await door.begun()
    made_up = Handshake(answer["state"], "n", "v", int(time.time()) + HANDSHAKE_S)
    before = len(door.provider.asked)

    for wrong, kept in (
        (answer, {"Cookie": f"sluice_oidc={answer['state']}.n.v"}),
        (answer, {"Cookie": f"sluice_oidc={Signer(b'another').sign(made_up)}"}),
        (answer, {}),
        (answer, {"Cookie": "sluice_oidc=.."}),
        (answer, foreign),
        ({**answer, "state": ""}, cookie),
        ({**answer, "state": "é"}, cookie),
        ({**answer, "iss": "https://elsewhere.example"}, cookie),
        ({"state": answer["state"], "error": "access_denied"}, cookie),
    ):
        problem(await door.returned(wrong, kept), 403)
    assert door.provider.asked[before:] == [], "anybody could make the server call the provider"
    problem(await door.returned(other | {"code": answer["code"]}, foreign), 503)  # its verifier is another
    assert (await door.returned(other, foreign)).status_code == 303
    problem(await door.returned(other, foreign), 503)  # a code is good once


@pytest.mark.parametrize(
    "wrong", [{"issuer": f"{ISSUER}/other"}, {"jwks_uri": None}, {"token_endpoint": "no address"}, {"issuer": None}]
)
async def test_a_provider_that_is_not_what_it_should_be_is_away(door: Door, wrong: dict[str, Any]) -> None:
    right = dict(door.provider.description)
    door.provider.description |= wrong
    if wrong.get("jwks_uri", "") is None:
        del door.provider.description["jwks_uri"]

    problem(await door.client.get("/console/oidc"), 503)
    door.provider.description = right
    assert (await door.returned(*await door.begun())).status_code == 303


async def test_description_and_keys_are_kept_for_minutes_and_a_new_key_is_found(door: Door) -> None:
    async def signed_in() -> tuple[int, int]:
        door.provider.asked.clear()
        return (await door.returned(*await door.begun())).status_code, len(door.provider.asked)

    assert [await signed_in() for _ in range(2)] == [(303, 3), (303, 1)]
    new = KEYS["unknown"]
    door.provider.keys = [published(new, kid="new")]
    door.provider.token = partial(jwt.encode, key=new, algorithm="ES256", headers={"kid": "new"})
    assert await signed_in() == (403, 1), "keys were looked for a moment ago"
    door.provider.now += 31
    assert [await signed_in() for _ in range(2)] == [(303, 2), (303, 1)]
    door.provider.now += 301
    assert await signed_in() == (303, 3)


async def test_a_sign_in_ends_after_ten_minutes_whatever_the_browser_keeps(door: Door) -> None:
    begun = await door.begun()
    door.provider.now += HANDSHAKE_S + 1

    problem(await door.returned(*begun), 403)


async def test_few_sign_ins_talk_to_the_provider_at_once(door: Door) -> None:
    begun = await door.begun()
    door.provider.asked.clear()
    door.provider.answers.clear()
    waiting = [asyncio.create_task(door.returned(*begun)) for _ in range(AT_ONCE)]
    await door.provider.full.wait()

    refused = await door.returned(*begun)
    door.provider.answers.set()
    replies = await asyncio.gather(*waiting)

    problem(refused, 429)
    assert refused.headers["retry-after"]
    assert sorted(each.status_code for each in replies) == [303] + [503] * (AT_ONCE - 1)  # a code is good once


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
async def test_a_key_may_leave_its_algorithm_out(door: Door, algorithm: str) -> None:
    key = rsa.generate_private_key(65537, 2048)
    door.provider.keys = [published(KEYS["published"]), published(key)]
    door.provider.token = partial(jwt.encode, key=key, algorithm=algorithm, headers={"kid": "published"})

    assert (await door.returned(*await door.begun())).status_code == 303
    door.provider.keys[1]["alg"] = "RS384"
    door.provider.now += 301
    problem(await door.returned(*await door.begun()), 403)


@pytest.mark.parametrize(("exp_s", "session_s"), [(100, 100), (24 * 3600, LONGEST_S)])
async def test_a_session_ends_with_the_token_or_after_eight_hours(door: Door, exp_s: int, session_s: int) -> None:
    door.provider.claims["exp"] = int(door.provider.now) + exp_s

    reply = await door.returned(*await door.begun())

    session = reply.headers.get_list("set-cookie")[0]
    age = next(int(part.split("=")[1]) for part in session.split("; ") if part.lower().startswith("max-age="))
    assert session_s - 1 <= age <= session_s  # whole seconds


async def a_keyring(store: MemoryStore, provider: str = "p", keys: str = "", now: int = 0) -> Keyring:
    sessions = Sessions(store, lambda: now)
    await sessions.create()
    return Keyring(parse_api_keys(keys), None, sessions, provider)


async def test_a_user_s_session_is_the_user_s_until_its_end_and_ends_with_the_provider() -> None:
    store, user = MemoryStore(), Caller("t", frozenset({"admin"}), key="oidc:u1")
    session = await (await a_keyring(store)).admit(user, 100)

    await (await a_keyring(store, keys="a-long-key-of-t:t:query")).sign_in("a-long-key-of-t")
    assert await (await a_keyring(store)).signed_in(session) == user
    assert await (await a_keyring(store, now=99_999)).signed_in(session) == user
    assert await (await a_keyring(store, now=100_000)).signed_in(session) is None
    assert await (await a_keyring(store, "another")).signed_in(session) is None
    assert await (await a_keyring(store)).signed_in(session) is None, "a provider that comes back brings no session"


async def test_with_a_provider_there_are_other_tenants_and_everybody_has_to_sign_in(
    parts: ApiParts, app: Litestar
) -> None:
    keyring = await a_keyring(MemoryStore(), keys="a-long-key-of-t:t:admin")
    _, caller = await keyring.sign_in("a-long-key-of-t")
    without_keys = {"api_keys": SecretStr(""), "keys_file": None, "data": parts.settings.data / "none"}
    settings = parts.settings.model_copy(update=SETTINGS | without_keys)

    assert (caller.roles, keyring.several_tenants) == (frozenset({"admin"}), True)
    async with a_client(an_app(parts, settings=settings)) as client, a_client(app) as plain:
        problem(await client.get("/rag/documents"), 401)
        problem(await plain.get("/console/oidc"), 404)
        problem(await plain.get("/console/oidc/return?code=c&state=s"), 404)


async def test_a_provider_needs_its_settings_and_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_oidc(Settings()) is None
    assert provider_id(Settings()) == ""
    for wrong in (
        {"oidc_client": ""},
        {"public_url": ""},
        {"oidc": "http://login.example.org"},
    ):
        with pytest.raises(ConfigurationError, match="SLUICE_OIDC"):
            Settings(**SETTINGS | wrong).checked()
    assert Settings(**SETTINGS | {"oidc": "http://localhost:8080"}).checked().needs_key
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigurationError, match="extra oidc"):
        open_oidc(Settings(**SETTINGS))
