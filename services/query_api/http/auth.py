"""Who calls: an API key names its tenant and roles, and nothing else in a request does."""

import hashlib
import hmac
from collections.abc import Sequence

import msgspec
from litestar.connection import ASGIConnection
from litestar.datastructures import Headers
from litestar.handlers import BaseRouteHandler
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult
from litestar.types import ASGIApp, Guard

from services.query_api.http.problems import Problem
from shared.contracts import DEFAULT_TENANT
from shared.runtime.probes import OPEN
from shared.settings import ROLES, ApiKey, Role


class Caller(msgspec.Struct, frozen=True):
    """Whose documents a request may touch, and how."""

    tenant: str
    roles: frozenset[Role]

    def may(self, role: Role) -> bool:
        """Return whether the caller has the role; admin has them all."""
        return role in self.roles or "admin" in self.roles


ANYBODY = Caller(DEFAULT_TENANT, ROLES)


class Keyring:
    """The configured keys, kept as digests; without any, everybody is `ANYBODY`."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._callers = [(_digest(key.key.encode()), Caller(key.tenant, key.roles)) for key in keys]

    def caller(self, headers: Headers) -> Caller:
        """Return who presents `Authorization: Bearer` or `X-API-Key`.

        Raises:
            Problem: 401, there is no key or an unknown one.
        """
        if not self._callers:
            return ANYBODY
        scheme, _, token = headers.get("authorization", "").partition(" ")
        presented = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if not presented:
            raise _unauthenticated("an API key is required: send Authorization: Bearer <key> or X-API-Key: <key>")
        digest = _digest(presented.encode("latin-1", "replace"))  # as header bytes are decoded
        found: Caller | None = None
        for known, caller in self._callers:  # all of them, so that time tells nothing
            if hmac.compare_digest(known, digest):
                found = caller
        if found is None:
            raise _unauthenticated("the API key is unknown")
        return found


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _unauthenticated(sentence: str) -> Problem:
    return Problem(401, sentence, headers={"WWW-Authenticate": "Bearer"})


class Authenticate(AbstractAuthenticationMiddleware):
    """Sets the connection's user to its `Caller`."""

    def __init__(self, app: ASGIApp, keyring: Keyring) -> None:
        super().__init__(app, exclude_from_auth_key=OPEN)
        self._keyring = keyring

    async def authenticate_request(self, connection: ASGIConnection) -> AuthenticationResult:  # type: ignore[type-arg]  # the framework's own signature
        """Return the caller of this connection."""
        return AuthenticationResult(user=self._keyring.caller(connection.headers), auth=None)


def needs(role: Role) -> Guard:
    """Return the guard of a route that only callers with `role` may use."""

    def guard(connection: ASGIConnection, _: BaseRouteHandler) -> None:  # type: ignore[type-arg]  # the framework's own signature
        if not connection.user.may(role):
            raise Problem(403, f"this API key lacks the role {role}", details={"role": role})

    return guard
