"""The callbacks that callers asked for: one point for each submission with a `callbackUrl`. docs/callbacks.md.

The first stage registers a callback before it decides on the submission, so that no crash loses it. A point is
written only if its stored revision is still the one that was read. The writer then reads it back, as in the ledger.
"""

import base64
import hashlib
import hmac
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, Literal
from uuid import UUID, uuid5

import msgspec
import structlog

from shared.contracts import LogPosition, Message, Status
from shared.log.headers import position_header
from shared.state.ledger import new_writer, older
from shared.store import Filter, Ids, IndexKind, Match, Order, Payload, Point, Range, Store, pages
from shared.times import now_ms

log = structlog.get_logger(__name__)

COLLECTION: Final = "callbacks"
INDEXES: Final[dict[str, IndexKind]] = {
    "documentId": "keyword",
    "tenant": "keyword",
    "rev": "integer",
    "next": "integer",
    "over": "integer",
}
KEPT_MS: Final = 7 * 24 * 3600 * 1000  # how long a callback is shown after its last try
FIRST_LOOK_MS: Final = 5000  # after this long, a worker checks unprompted whether the submission has ended
LONGEST_MS: Final = {"waiting": 300_000, "sending": 7_200_000}  # until the next look or try, by state
MOST_SHOWN: Final = 64  # callbacks of one document that are shown

_NAMES: Final = UUID("6f0b5a52-9a0d-5c52-8d3c-6a4f3f0f8f11")

CallbackState = Literal["waiting", "sending", "delivered", "failed"]


class CallbackEnd(Message, frozen=True):
    """How the submission ended, as it was when a worker first saw it."""

    status: Status
    at: int  # ms since 1970
    source: str = ""
    path: str = ""
    version: int = 0
    chunk_count: int | None = None
    error: str | None = None
    code: str | None = None


class Callback(Message, frozen=True):
    """A request that is made to `url` once the submission at `place` has ended."""

    document_id: str
    tenant: str
    place: LogPosition
    url: str
    rev: int = 1  # number of writes
    writer: str = ""  # unique name of the last write
    state: CallbackState = "waiting"
    next: int | None = None  # ms since 1970 of the next look or try; None: none follows
    over: int | None = None  # ms since 1970 at which it was delivered or given up
    looks: int = 0  # number of looks that found the submission under way
    tries: int = 0  # number of requests made
    error: str | None = None  # why the last try failed
    end: CallbackEnd | None = None  # None: the submission isn't known to have ended

    @property
    def id(self) -> str:
        """Return the id of its point."""
        return str(uuid5(_NAMES, f"{self.document_id}/{position_header(self.place)}"))


class Callbacks:
    """Reads and changes callbacks. Raises Unavailable when the store is away."""

    def __init__(self, store: Store, clock: Callable[[], int] = now_ms) -> None:
        """Take the store; `clock` gives ms since 1970."""
        self._store = store
        self._clock = clock
        self.registered: Callable[[Callback], None] = lambda _: None  # called in the process that registers one

    async def create(self) -> None:
        """Create the collection unless it exists."""
        await self._store.create_collection(COLLECTION, size=None, sparse=False, indexes=INDEXES)

    async def register(
        self, document_id: str, tenant: str, place: LogPosition, url: str, *, refused: str | None = None
    ) -> None:
        """Register the callback of a submission, unless it is registered; `refused` says why it can't be made."""
        now = self._clock()
        wanted = Callback(
            document_id=document_id, tenant=tenant, place=place, url=url, writer=new_writer(), next=now + FIRST_LOOK_MS
        )
        if refused is not None:
            wanted = msgspec.structs.replace(wanted, state="failed", next=None, over=now, error=refused)
        await self._store.put_if(COLLECTION, [Point(id=wanted.id, payload=_payload(wanted))], None, fields=())
        if refused is None:
            self.registered(wanted)

    async def get(self, ids: list[str]) -> list[Callback]:
        """Return those of the callbacks that exist."""
        return await self._readable(await self._store.retrieve(COLLECTION, ids)) if ids else []

    async def due(self, limit: int, besides: tuple[str, ...] = ()) -> list[Callback]:
        """Return the callbacks whose next look or try is due, the longest due first, without these tenants'."""
        others = (Match("tenant", besides),) if besides else ()
        where = Filter(must=(Range("next", lte=self._clock()),), must_not=others)
        page = await self._store.scroll(COLLECTION, where, limit=limit, order=Order("next"))
        return await self._readable(page.points)

    async def waiting(self) -> AsyncGenerator[Callback]:
        """Yield the callbacks whose submission was under way."""
        async for page in pages(self._store, COLLECTION, Filter(must=(Match("state", ("waiting",)),))):
            for each in await self._readable(page):
                yield each

    async def change(self, seen: Callback, **changes: Any) -> Callback | None:
        """Write and return the changed callback; None if another worker changed or deleted it since it was `seen`."""
        wanted = msgspec.structs.replace(seen, **changes, rev=seen.rev + 1, writer=new_writer())
        where = Filter(must=(Ids((seen.id,)), Match("rev", (seen.rev,))))
        # Unlike `upsert`, this never brings back a point that an erasure has deleted meanwhile.
        await self._store.set_payload(COLLECTION, _payload(wanted), where)
        standing = await self.get([seen.id])
        return wanted if standing and standing[0].writer == wanted.writer else None

    async def forget(self, callback: Callback) -> None:
        """Delete the callback."""
        await self._store.delete(COLLECTION, Filter(must=(Ids((callback.id,)),)))

    async def forget_document(self, document_id: str, before: LogPosition) -> None:
        """Delete the callbacks of the document's submissions before the position at which it was erased."""
        found = [each for each in await self.of_document(document_id) if older(each.place, before)]
        if found:
            await self._store.delete(COLLECTION, Filter(must=(Ids(tuple(each.id for each in found)),)))

    async def keep_up(self) -> None:
        """Delete the callbacks that were over KEPT_MS ago; bring to this moment what a clock ahead has put off."""
        now = self._clock()
        await self._store.delete(COLLECTION, Filter(must=(Range("over", lt=now - KEPT_MS),)))
        await self._store.set_payload(COLLECTION, {"over": now}, Filter(must=(Range("over", gt=now),)))
        for state, longest_ms in LONGEST_MS.items():
            far = Match("state", (state,)), Range("next", gt=now + longest_ms)
            await self._store.set_payload(COLLECTION, {"next": now}, Filter(must=far))

    async def of_document(self, document_id: str) -> list[Callback]:
        """Return the callbacks of a document, the newest submission first."""
        where = Filter(must=(Match("documentId", (document_id,)),))
        found = [each async for page in pages(self._store, COLLECTION, where) for each in await self._readable(page)]
        return sorted(found, key=lambda each: (each.place.time, each.place.offset), reverse=True)

    async def _readable(self, points: Sequence[Point]) -> list[Callback]:
        """Return the callbacks of the points. Damaged ones are told and given up, so that they hold up no others."""
        found = []
        for point in points:
            try:
                found.append(_read(point))
            except msgspec.ValidationError as error:
                if point.payload.get("state") != "failed" or point.payload.get("next") is not None:
                    log.error("callback_damaged", callback=point.id, reason=str(error))  # noqa: TRY400 - it says it all
                    given_up = {"state": "failed", "next": None, "over": self._clock()}
                    await self._store.set_payload(COLLECTION, given_up, Filter(must=(Ids((point.id,)),)))
        return found


def _payload(callback: Callback) -> Payload:
    # Every field, even with its default: `set_payload` keeps fields that aren't named, and filters need values.
    names = zip(Callback.__struct_fields__, Callback.__struct_encode_fields__, strict=True)
    return {encoded: msgspec.to_builtins(getattr(callback, name)) for name, encoded in names}


def _read(point: Point) -> Callback:
    known = {name: value for name, value in point.payload.items() if value is not None}
    callback = msgspec.convert(known, Callback)
    if callback.id != point.id:
        raise msgspec.ValidationError("its document and place have another id")
    return callback


_PREFIX: Final = "whsec_"


def callback_key(secret: bytes, tenant: str) -> bytes:
    """Return the key that signs a tenant's callbacks.

    It is derived, so that a receiver who knows it can sign neither cursors nor another tenant's callbacks.
    """
    return hmac.new(secret, b"sluice callbacks\0" + tenant.encode(), hashlib.sha256).digest()


def shown_key(key: bytes) -> str:
    """Return the key as receivers configure it."""
    return _PREFIX + base64.b64encode(key).decode()


def signed_headers(key: bytes, id_: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request; `at` is its time in seconds since 1970."""
    digest = hmac.new(key, f"{id_}.{at}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": id_, "webhook-timestamp": str(at), "webhook-signature": signature}
