"""Signs browsers in by an OpenID provider, with the extra `oidc`: authorization code flow with PKCE, state and nonce.

The ID token's claims name tenant and roles; who lacks one of them doesn't get in. Source: OpenID Connect Core 1.0, 3.1.
"""

import asyncio
import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
import msgspec
import structlog

from services.query_api.http.admission import COME_AGAIN_S
from services.query_api.http.problems import Problem, unavailable
from shared.runtime.key_file import digest_of, key_id
from shared.settings import ROLES, ConfigurationError, Role, Settings, checked_tenant
from shared.version import how_to_add

LONGEST_S: Final = 8 * 3600  # of a session
RETURN: Final = "/console/oidc/return"
HANDSHAKE_S: Final = 600  # from the way to the provider to the return
AT_ONCE: Final = 8  # sign-ins that talk to the provider, because anybody can begin one
_PATIENCE_S: Final = 10.0
_KEPT_S: Final = 300.0  # the provider's description and keys
_AGAIN_S: Final = 30.0  # between two looks for a key that those kept lack
_SKEW_S: Final = 60.0  # between the provider's clock and ours
# By a key that the provider alone has, and never by the client's secret or not at all.
_ALGORITHMS: Final = ("EdDSA", *(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)))
_REQUIRED: Final = ("iss", "aud", "sub", "exp", "iat", "nonce")
_LONGEST_SUB: Final = 255  # characters, which are ASCII

log = structlog.get_logger(__name__)


class Handshake(msgspec.Struct, frozen=True, array_like=True):
    """What a browser keeps while it is at the provider."""

    state: str
    nonce: str
    verifier: str
    until: int  # seconds since 1970


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who the provider says signed in."""

    user: str  # the provider's id, as the audit trail has it
    tenant: str
    roles: frozenset[Role]
    seconds: int  # for which the session may last


class Oidc:
    """The provider of SLUICE_OIDC."""

    def __init__(self, settings: Settings, client: httpx.AsyncClient, clock: Callable[[], float] = time.time) -> None:
        """Take the client; `clock` gives seconds since 1970."""
        self._issuer = settings.oidc
        self._client_id = settings.oidc_client
        self._secret = settings.oidc_secret.get_secret_value()
        self._tenant, self._roles = settings.oidc_claims.split(",")
        self._return = settings.public_url.rstrip("/") + RETURN
        self._client = client
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._known: dict[str, tuple[dict[str, Any], float]] = {}  # by address, with the time of the look
        self.close = client.aclose

    async def begin(self) -> tuple[str, Handshake]:
        """Return the provider's address that the browser goes to, and what it has to keep until it returns.

        Raises:
            Problem: 429, too many sign in at once; 503, the provider is away.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._return,
            "scope": "openid profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        async with self._turn():
            address = str((await self._description())["authorization_endpoint"])
        kept = Handshake(state, nonce, verifier, int(self._clock()) + HANDSHAKE_S)
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}", kept

    async def end(self, kept: Handshake | None, answer: Mapping[str, str]) -> Identity:
        """Return who signed in, by what the browser kept and what the provider sent it back with.

        Raises:
            Problem: 403, the answer isn't for this browser or this server, or the user lacks a tenant or a role; else
                as `begin`.
        """
        state = answer.get("state", "").encode()
        if kept is None or kept.until < self._clock() or not secrets.compare_digest(kept.state.encode(), state):
            raise Problem(403, "this sign-in was begun in another browser, or over ten minutes ago: begin it again")
        if answer.get("iss", self._issuer) != self._issuer or "code" not in answer:  # RFC 9207
            raise Problem(403, "the OpenID provider signed nobody in")
        form = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": self._return,
            "code_verifier": kept.verifier,
        }
        async with self._turn():
            description = await self._description()
            if self._secret:
                of_client = httpx.BasicAuth(quote_plus(self._client_id), quote_plus(self._secret))
                token = await self._json("POST", str(description["token_endpoint"]), data=form, auth=of_client)
            else:
                form["client_id"] = self._client_id
                token = await self._json("POST", str(description["token_endpoint"]), data=form)
            claims = await self._checked(str(token.get("id_token", "")), str(description["jwks_uri"]))
        if not secrets.compare_digest(kept.nonce.encode(), str(claims["nonce"]).encode()):
            raise Problem(403, "the OpenID provider's answer belongs to another sign-in: begin it again")
        return self._identity(claims)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._turns.locked():
            again = {"Retry-After": str(COME_AGAIN_S)}
            raise Problem(429, "too many people sign in at once: try again in a moment", headers=again)
        async with self._turns:
            yield

    async def _checked(self, token: str, address: str) -> dict[str, Any]:
        """Return the claims of an ID token that the provider signed for this client, and that is valid now."""
        import jwt

        try:
            try:
                claims = self._verified(token, await self._kept(address, _KEPT_S))
            except (jwt.InvalidSignatureError, IndexError):  # the provider may have a new key
                claims = self._verified(token, await self._kept(address, _AGAIN_S))
        except (jwt.PyJWTError, IndexError) as error:  # the latter: no key fits
            log.warning("sign_in_refused", reason=f"{type(error).__name__}: {error}")
            raise Problem(403, "the OpenID provider's answer is not valid here; the log has the reason") from error
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._client_id) != self._client_id:
            raise Problem(403, "the OpenID provider's answer is for another client")
        return claims

    def _verified(self, token: str, keys: dict[str, Any]) -> dict[str, Any]:
        """Return the claims. Raises PyJWTError, the token isn't valid; IndexError, no key fits it."""
        import jwt

        header = jwt.get_unverified_header(token)
        kid, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in _ALGORITHMS:
            raise jwt.InvalidAlgorithmError(f"the token's alg is {algorithm!a}")
        fitting = []
        for key in keys["keys"] if isinstance(keys.get("keys"), list) else ():
            if not isinstance(key, dict) or key.get("use") == "enc" or kid not in (None, key.get("kid")):
                continue
            if key.get("alg", algorithm) == algorithm:  # RFC 7517, 4.4: a key may leave it out
                with suppress(jwt.PyJWTError):  # a key of another type
                    fitting.append(jwt.PyJWK(key, algorithm))
        claims: dict[str, Any] = jwt.decode(
            token,
            fitting[0],
            algorithms=_ALGORITHMS,
            audience=self._client_id,
            issuer=self._issuer,
            leeway=_SKEW_S,
            options={"require": list(_REQUIRED)},
        )
        return claims

    def _identity(self, claims: dict[str, Any]) -> Identity:
        tenant, given = _claim(claims, self._tenant), _claim(claims, self._roles)
        named = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
        roles = frozenset(role for role in ROLES if role in named)
        user = str(claims["sub"])
        try:
            known = isinstance(tenant, str) and bool(checked_tenant(tenant))
        except ConfigurationError:
            known = False
        if not known or not roles or len(user) > _LONGEST_SUB or not user.isascii() or not user.isprintable():
            raise Problem(403, f"the account has no tenant ({self._tenant}) or no role ({self._roles}) of Sluice")
        left = int(claims["exp"] - self._clock())
        return Identity(user=f"oidc:{user}", tenant=str(tenant), roles=roles, seconds=max(min(left, LONGEST_S), 0))

    async def _description(self) -> dict[str, Any]:
        address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        found = await self._kept(address, _KEPT_S)
        wrong = "" if found.get("issuer") == self._issuer else "calls itself by another name than SLUICE_OIDC does"
        scheme = f"{urlsplit(self._issuer).scheme}://"
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not str(found.get(name)).startswith(scheme):
                wrong = wrong or f"has no {name} that begins with {scheme}"
        if wrong:
            self._known.pop(address, None)  # so that mending it helps at once
            raise unavailable(f"the OpenID provider {wrong}")
        return found

    async def _kept(self, address: str, newest_s: float) -> dict[str, Any]:
        """Return what the provider has at the address, as it was at most `newest_s` ago."""
        found, since = self._known.get(address, ({}, -newest_s))
        if not 0 <= self._clock() - since < newest_s:
            found = await self._json("GET", address)
            self._known[address] = found, self._clock()
        return found

    async def _json(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        try:
            reply = await self._client.request(method, address, **more)
            found = msgspec.json.decode(reply.raise_for_status().content, type=dict[str, Any])
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.DecodeError) as error:
            log.warning("oidc_unavailable", reason=f"{type(error).__name__}: {error}")
            raise unavailable("the OpenID provider is away, or refused this server; the log has the reason") from error
        return found


def _claim(claims: dict[str, Any], name: str) -> object:
    """Return the claim of that name, or at that path, such as `realm_access.roles`; None if there is none."""
    found: Any = claims
    for part in (name,) if name in claims else name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def provider_id(settings: Settings) -> str:
    """Return 16 hex digits that name the provider in sessions, as an id does a key; empty without one."""
    return key_id(digest_of(f"{settings.oidc} {settings.oidc_client}".encode())) if settings.oidc else ""


def open_oidc(settings: Settings) -> Oidc | None:
    """Return the provider; None if none is set. Raises ConfigurationError if the extra isn't installed."""
    if not settings.oidc:
        return None
    if find_spec("jwt") is None:
        raise ConfigurationError(f"SLUICE_OIDC needs the extra oidc: {how_to_add('oidc')}")
    return Oidc(settings, httpx.AsyncClient(timeout=_PATIENCE_S))
