"""The browser sessions of the console: one point each. Nothing that the store has makes a cookie or a key.

A session's name is random, and only its browser knows it; the store has its hash, for `SESSION_S`. Backups and moves
leave the collection out. All APIs on one store share it.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Collection
from typing import Final, NamedTuple
from uuid import UUID

from shared.store import Filter, Ids, IndexKind, Match, Point, Range, Store
from shared.times import now_ms

COLLECTION: Final = "sessions"
INDEXES: Final[dict[str, IndexKind]] = {"key": "keyword", "over": "integer"}
SESSION_S: Final = 7 * 24 * 3600  # after that, a browser has to sign in again
KNOWN_S: Final = 3.0  # how long an API may take a session for open that another API has closed
_MOST_KNOWN: Final = 1000
_LENGTH: Final = 43  # of a name: 32 bytes in base64


class OpenSession(NamedTuple):
    """Who signed in: a key, or a user of the provider with that id."""

    key: str  # id of the key or the provider
    user: str = ""
    tenant: str = ""
    roles: tuple[str, ...] = ()


class Sessions:
    """Opens, finds and closes sessions. Raises Unavailable when the store is away."""

    def __init__(
        self, store: Store, clock: Callable[[], int] = now_ms, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the store; `clock` gives ms since 1970."""
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._known: dict[str, tuple[OpenSession, int, float]] = {}  # with its end and the time of the look, by point

    async def create(self) -> None:
        """Create the collection unless it exists."""
        await self._store.create_collection(COLLECTION, size=None, sparse=False, indexes=INDEXES)

    async def open(self, session: OpenSession, keys: Collection[str], seconds: int = SESSION_S) -> str:
        """Return the name of a new session; delete those that are too old, or of none of the keys and providers."""
        await self._store.delete(COLLECTION, Filter(must=(Range("over", lte=self._clock()),)))
        await self._store.delete(COLLECTION, Filter(must_not=(Match("key", tuple(keys)),)))
        name = secrets.token_urlsafe(32)
        payload = session._asdict() | {"over": self._clock() + seconds * 1000}
        await self._store.upsert(COLLECTION, [Point(id=_point(name), payload=payload)])
        await self._store.flush()
        return name

    async def find(self, name: str) -> OpenSession | None:
        """Return who opened the session; None if it was closed, or is too old."""
        if len(name) != _LENGTH:
            return None
        point, now = _point(name), self._monotonic()
        session, over, since = self._known.pop(point, (None, 0, 0.0))
        if session is not None and now - since < KNOWN_S and over > self._clock():
            self._known[point] = (session, over, since)
            return session
        found = await self._store.retrieve(COLLECTION, [point])
        if not found or found[0].payload["over"] <= self._clock():
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        payload = found[0].payload
        session = OpenSession(
            payload["key"], payload.get("user", ""), payload.get("tenant", ""), tuple(payload.get("roles", ()))
        )
        self._known[point] = (session, payload["over"], now)
        return session

    async def close(self, name: str) -> None:
        """Delete the session."""
        point = _point(name)
        await self._store.delete(COLLECTION, Filter(must=(Ids((point,)),)))
        await self._store.flush()
        self._known.pop(point, None)


def _point(name: str) -> str:
    return str(UUID(bytes=hashlib.sha256(name.encode(errors="replace")).digest()[:16]))
