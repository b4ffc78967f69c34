"""The browser sessions of the console: one point each. Nothing that the store has makes a cookie or a key.

A session's name is random, and only its browser knows it; the store has its hash, for `SESSION_S`. Backups and moves
leave the collection out. All APIs on one store share it.
"""

import hashlib
import secrets
from collections.abc import Callable, Collection
from typing import Final, NamedTuple
from uuid import UUID

from shared.store import Filter, Ids, IndexKind, Match, Point, Range, Store
from shared.times import now_ms

COLLECTION: Final = "sessions"
INDEXES: Final[dict[str, IndexKind]] = {"key": "keyword", "over": "integer"}
SESSION_S: Final = 7 * 24 * 3600  # after that, a browser has to sign in again
_APART_S: Final = 600  # between the clocks of two machines, at most


class OpenSession(NamedTuple):
    """Who signed in: a key, or a user of the provider with that id."""

    key: str  # id of the key or the provider
    user: str = ""
    tenant: str = ""
    roles: tuple[str, ...] = ()


class Sessions:
    """Opens, finds and closes sessions. Raises Unavailable when the store is away."""

    def __init__(self, store: Store, clock: Callable[[], int] = now_ms) -> None:
        """Take the store; `clock` gives ms since 1970."""
        self._store = store
        self._clock = clock

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
        found = await self._store.retrieve(COLLECTION, [_point(name)])
        if not found or found[0].payload["over"] <= self._clock():
            return None
        if found[0].payload["over"] - self._clock() > (SESSION_S + _APART_S) * 1000:  # its clock was far ahead
            await self.close(name)  # else it would be valid again later
            return None
        payload = found[0].payload
        return OpenSession(
            payload["key"], payload.get("user", ""), payload.get("tenant", ""), tuple(payload.get("roles", ()))
        )

    async def close(self, name: str) -> None:
        """Delete the session."""
        await self._store.delete(COLLECTION, Filter(must=(Ids((_point(name),)),)))
        await self._store.flush()


def _point(name: str) -> str:
    return str(UUID(bytes=hashlib.sha256(name.encode(errors="replace")).digest()[:16]))
