"""Signs browsers in by an OpenID provider, with the extra `oidc`: authorization code flow with PKCE, state and nonce.

The ID token's claims name tenant and roles; who lacks one of them doesn't get in. Source: OpenID Connect Core 1.0, 3.1.
"""

import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
import msgspec
import structlog

from services.query_api.http.problems import Problem, unavailable
from shared.runtime.key_file import digest_of, key_id
from shared.settings import ROLES, ConfigurationError, Role, Settings, checked_tenant
from shared.version import how_to_add

LONGEST_S: Final = 8 * 3600  # of a session
RETURN: Final = "/console/oidc/return"
_PATIENCE_S: Final = 10.0
_SKEW_S: Final = 60.0  # between the provider's clock and ours
# By a key that the provider alone has, and never by the client's secret or not at all.
_ALGORITHMS: Final = ("EdDSA", *(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)))
_REQUIRED: Final = ("iss", "aud", "sub", "exp", "iat", "nonce")
_LONGEST_SUB: Final = 255  # characters, which are ASCII

log = structlog.get_logger(__name__)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who the provider says signed in."""

    user: str  # the provider's id, as the audit trail has it
    tenant: str
    roles: frozenset[Role]
    seconds: int  # for which the session may last


class Oidc:
    """The provider of SLUICE_OIDC."""

    def __init__(self, settings: Settings, client: httpx.AsyncClient) -> None:
        self._issuer = settings.oidc
        self._client_id = settings.oidc_client
        self._secret = settings.oidc_secret.get_secret_value()
        self._tenant, self._roles = settings.oidc_claims.split(",")
        self._return = settings.public_url.rstrip("/") + RETURN
        self._client = client
        self.close = client.aclose

    async def begin(self) -> tuple[str, str]:
        """Return the provider's address that the browser goes to, and what it has to keep until it returns.

        Raises:
            Problem: 503, the provider is away.
        """
        kept = state, nonce, verifier = tuple(secrets.token_urlsafe(32) for _ in range(3))
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
        address = str((await self._description())["authorization_endpoint"])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}", ".".join(kept)

    async def end(self, kept: str, answer: Mapping[str, str]) -> Identity:
        """Return who signed in, by what the browser kept and what the provider sent it back with.

        Raises:
            Problem: 403, the answer isn't for this browser or this server, or the user lacks a tenant or a role; 503.
        """
        state, nonce, verifier = kept.split(".") if kept.count(".") == 2 else ("", "", "")
        if not state or not secrets.compare_digest(state.encode(), answer.get("state", "").encode()):
            raise Problem(403, "this sign-in was begun in another browser, or over ten minutes ago: begin it again")
        if answer.get("iss", self._issuer) != self._issuer or "code" not in answer:  # RFC 9207
            raise Problem(403, "the OpenID provider signed nobody in")
        description = await self._description()
        form = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": self._return,
            "code_verifier": verifier,
        }
        if self._secret:
            of_client = httpx.BasicAuth(quote_plus(self._client_id), quote_plus(self._secret))
            token = await self._json("POST", str(description["token_endpoint"]), data=form, auth=of_client)
        else:
            form["client_id"] = self._client_id
            token = await self._json("POST", str(description["token_endpoint"]), data=form)
        keys = await self._json("GET", str(description["jwks_uri"]))
        claims = self._checked(str(token.get("id_token", "")), keys)
        if not secrets.compare_digest(nonce.encode(), str(claims["nonce"]).encode()):
            raise Problem(403, "the OpenID provider's answer belongs to another sign-in: begin it again")
        return self._identity(claims)

    def _checked(self, token: str, keys: dict[str, Any]) -> dict[str, Any]:
        """Return the claims of an ID token that the provider signed for this client, and that is valid now."""
        import jwt

        try:
            kid = jwt.get_unverified_header(token).get("kid")
            usable = [key for key in jwt.PyJWKSet.from_dict(keys).keys if key.public_key_use != "enc"]
            found = [key for key in usable if kid in (None, key.key_id)]
            claims: dict[str, Any] = jwt.decode(
                token,
                found[0],
                algorithms=_ALGORITHMS,
                audience=self._client_id,
                issuer=self._issuer,
                leeway=_SKEW_S,
                options={"require": list(_REQUIRED)},
            )
        except (jwt.PyJWTError, IndexError) as error:  # the latter: no key has that id
            log.warning("sign_in_refused", reason=f"{type(error).__name__}: {error}")
            raise Problem(403, "the OpenID provider's answer is not valid here; the log has the reason") from error
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._client_id) != self._client_id:
            raise Problem(403, "the OpenID provider's answer is for another client")
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
        left = int(claims["exp"] - time.time())
        return Identity(user=f"oidc:{user}", tenant=str(tenant), roles=roles, seconds=max(min(left, LONGEST_S), 0))

    async def _description(self) -> dict[str, Any]:
        found = await self._json("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != self._issuer:
            raise unavailable("the OpenID provider calls itself by another name than SLUICE_OIDC does")
        scheme = f"{urlsplit(self._issuer).scheme}://"
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not str(found.get(name)).startswith(scheme):
                raise unavailable(f"the OpenID provider's {name} is no address that begins with {scheme}")
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
