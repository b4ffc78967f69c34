"""Authentication: only the API key of a request determines its tenant and roles.

A browser that has signed in sends a session cookie instead of the key. See `shared.state.sessions`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar, cast

import msgspec
from litestar.connection import ASGIConnection
from litestar.datastructures import Headers
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from services.query_api.http.browsers import SAFE, sending_site
from services.query_api.http.problems import Problem
from services.query_api.http.route_decorator import ROUTE_ROLES
from shared.contracts import DEFAULT_TENANT
from shared.fair_queue import CALLER
from shared.runtime.key_file import KeyFile, digest_of, key_id
from shared.runtime.probes import OPEN
from shared.settings import ROLES, ApiKey, Role
from shared.state.sessions import SESSION_S, OpenSession, Sessions

SESSION_COOKIE: Final = "sluice_session"
WRONG_KEY_S: Final = 0.5
_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}
T = TypeVar("T")
_OF_ADMIN: Final = frozenset({"ingest", "query"})


class Caller(msgspec.Struct, frozen=True):
    """The tenant whose documents a request may use, and the request's roles.

    `admin` includes `ingest` and `query`. `operator` is for routes that concern all tenants; it includes no other role.
    """

    tenant: str
    roles: frozenset[Role]
    key: str = ""  # a digest that identifies the key, or a provider's user; empty if no keys are configured

    def may(self, role: Role) -> bool:
        """Return whether the caller has the role, or one that includes it."""
        return role in self.roles or (role in _OF_ADMIN and "admin" in self.roles)


ANYBODY = Caller(DEFAULT_TENANT, frozenset(ROLES))


class UnknownKey(Problem):
    """The 401 for an unknown key. `slowed` delays it."""

    def __init__(self) -> None:
        super().__init__(401, "the API key is unknown", headers=_CHALLENGE)


class Keyring:
    """The keys of the settings and of the key file, kept as digests. Without any, every caller is `ANYBODY`.

    If all keys belong to one tenant, its admins are operators, too, because no other tenant is affected; unless an
    OpenID provider, with the id `provider`, signs users of any tenant in.
    """

    def __init__(
        self,
        keys: Sequence[ApiKey],
        file: KeyFile | None = None,
        sessions: Sessions | None = None,
        provider: str = "",
    ) -> None:
        self._provider = provider
        self._fixed = [(digest_of(key.key.encode()), key.tenant, key.roles) for key in keys]
        self._file = file
        self._sessions = sessions
        self._read = None if file is None else file.keys()
        self._known = self._merged()

    @property
    def needed(self) -> bool:
        """Return whether callers need a key."""
        return bool(self._callers) or self._read is not None

    def tenants(self) -> Counter[str]:
        """Return how many keys each tenant has; without keys, there is one tenant."""
        return Counter(caller.tenant for caller in self._callers.values()) if self.needed else Counter()

    def caller(self, headers: Headers) -> Caller:
        """Return the caller whose key is in `Authorization: Bearer` or `X-API-Key`.

        Raises:
            Problem: 401, there is no key or an unknown one.
        """
        if not self.needed:
            return ANYBODY
        presented = _presented(headers)
        if not presented:
            raise _unauthenticated("an API key is required: send Authorization: Bearer <key> or X-API-Key: <key>")
        return self._caller(digest_of(presented.encode("latin-1", "replace")))  # as header bytes are decoded

    async def caller_of(self, connection: ASGIConnection) -> Caller:  # type: ignore[type-arg]  # the framework's own signature
        """Return the caller, by the key in a header, or else by the session cookie.

        Through the data folder's socket none is needed: it has all roles in the only tenant, or is an operator of all.

        Raises:
            Problem: 401, there is neither, or it is invalid; 403, a write by cookie comes from another site.
        """
        at, _ = connection.scope["server"] or ("", None)
        if at.startswith("/") and not _presented(connection.headers):  # a socket's path instead of an IP address
            tenant = next(iter(self.tenants()), DEFAULT_TENANT)
            several = Caller(DEFAULT_TENANT, frozenset({"operator"}))
            return several if self.several_tenants else Caller(tenant, ANYBODY.roles)
        session = connection.cookies.get(SESSION_COOKIE)
        if session is None or not self.needed or _presented(connection.headers):
            return self.caller(connection.headers)
        caller = await self.signed_in(session)
        if caller is None:
            raise _unauthenticated("the session has ended: sign in again")
        if connection.scope["method"] not in SAFE and sending_site(connection.headers) != "own":  # type: ignore[typeddict-item]  # there are no sockets here
            raise Problem(403, "a browser session can change data only from this server's own pages")
        return caller

    async def sign_in(self, key: str) -> tuple[str, Caller]:
        """Return the name of a new session, for the cookie, and its caller. It ends with its key.

        Raises:
            UnknownKey: there is no such key.
        """
        caller = self._caller(digest_of(key.encode()))
        return await self._opened(OpenSession(caller.key)), caller

    async def admit(self, caller: Caller, seconds: int) -> str:
        """Return the name of a new session of the provider's user; it ends after `seconds`, or with the provider."""
        return await self._opened(OpenSession(self._provider, caller.key, caller.tenant, (*caller.roles,)), seconds)

    async def _opened(self, session: OpenSession, seconds: int = SESSION_S) -> str:
        assert self._sessions is not None
        known = [*(each.key for each in self._callers.values()), self._provider]
        return await self._sessions.open(session, known, seconds)

    async def sign_out(self, session: str) -> None:
        """End the session, in all processes."""
        if self._sessions is not None:
            await self._sessions.close(session)

    async def signed_in(self, session: str) -> Caller | None:
        """Return the session's caller; None if the session has ended or its key was revoked, which ends it, too."""
        found = None if self._sessions is None else await self._sessions.find(session)
        if found is None:
            return None
        if found.user and found.key == self._provider:
            return Caller(found.tenant, frozenset(role for role in ROLES if role in found.roles), key=found.user)
        caller = next((each for each in self._callers.values() if each.key == found.key), None)
        if caller is None:
            await self.sign_out(session)
        return caller

    @property
    def _callers(self) -> Mapping[bytes, Caller]:
        """Return the callers by the digest of their key, with the key file's present content."""
        read = None if self._file is None else self._file.keys()
        if read is not self._read:
            self._read = read
            self._known = self._merged()
        return self._known

    def _merged(self) -> dict[bytes, Caller]:
        read = [(bytes.fromhex(key.sha256), key.tenant, frozenset(key.roles)) for key in self._read or ()]
        found = [*read, *self._fixed]
        single = len({tenant for _, tenant, _ in found}) == 1 and not self._provider
        self.several_tenants = bool(found or self._provider) and not single  # as last seen
        return {
            digest: Caller(tenant, roles | {"operator"} if single and "admin" in roles else roles, key_id(digest))
            for digest, tenant, roles in found
        }

    def _caller(self, digest: bytes) -> Caller:
        # The time of a look-up depends only on the digest, and nobody can construct a key for a digest.
        caller = self._callers.get(digest)
        if caller is None:
            raise UnknownKey
        return caller


def _presented(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _unauthenticated(sentence: str) -> Problem:
    return Problem(401, sentence, headers=_CHALLENGE)


async def slowed(look: Awaitable[T]) -> T:
    """Return the result of `look`. An unknown key gets its 401 only after `WRONG_KEY_S`, which slows down guessing.

    Only this request waits; valid keys from the same address are answered at once.
    """
    try:
        return await look
    except UnknownKey:
        await asyncio.sleep(WRONG_KEY_S)
        raise


class Authenticate(ASGIMiddleware):
    """Middleware that sets the connection's user to its `Caller`, who needs a role of the route's.

    As a guard, the roles would cost each request a copy of the route's handler.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Serve the request. Raises a 401 without a known key, and a 403 without the role."""
        handler = scope["route_handler"]
        if not handler.opt.get(OPEN) and cast("HTTPScope", scope)["method"] != "OPTIONS":
            scope["user"] = caller = await slowed(self._keyring.caller_of(ASGIConnection(scope)))
            CALLER.set(caller.tenant)  # a request has a task, and so a context, of its own
            roles: tuple[Role, ...] = handler.opt.get(ROUTE_ROLES, ())
            if roles and not any(map(caller.may, roles)):
                raise Problem(403, f"this API key lacks the role {roles[0]}", details={"role": roles[0]})
        await next_app(scope, receive, send)
