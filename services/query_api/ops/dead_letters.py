"""Routes that list, redrive and drop the dead letters of the caller's tenant."""

import base64
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from services.query_api.http.audit import note_change
from services.query_api.http.opaque_tokens import OffsetCursor, Signer
from services.query_api.http.problems import Problem, invalid, time_of
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import get, post
from services.query_api.ops.redrive import DeadLetterService, SettledLetter, document_of
from shared.contracts import BlobRef, DeadLetter, like
from shared.log.open_letters import LetterFilter, OpenLetter
from shared.times import iso

MOST = 100  # letters per request: each may be 256 kB
Limit = Annotated[int, QueryParameter(ge=1, le=MOST, description=f"How many items, 1 to {MOST}.")]
Ids = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST)]


class DeadLetterView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A record that a stage could not process, with the reason."""

    id: str
    stage: str
    code: str
    error: str
    topic: str
    partition: int
    offset: int
    attempts: int
    redrives: int
    first_seen: str
    last_seen: str
    size: int  # bytes of the record's value
    document_id: str | None = None
    source: str | None = None
    path: str | None = None
    version: int | None = None
    traceback_digest: str | None = None
    generation: str | None = None  # the generation that the stage belongs to


V = TypeVar("V", bound=DeadLetterView)


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Dead letters, the newest first, and the number that match the filters."""

    items: list[DeadLetterView]
    total: int
    next_cursor: str | None


class RecordBytes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes in JSON: as text if they are UTF-8, else as base64."""

    text: str | None = None
    base64: str | None = None


class RecordView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record as it was on its topic. A large value is left out; `/record` downloads it."""

    time: str
    headers: list[tuple[str, RecordBytes]]
    key: RecordBytes | None = None
    value: RecordBytes | None = None
    blob: BlobRef | None = None


class DeadLetterWhole(DeadLetterView, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A dead letter with its record."""

    record: RecordView


class _Below(OffsetCursor, frozen=True, array_like=True):
    """Where the next page of the list begins."""


class _Above(OffsetCursor, frozen=True, array_like=True):
    """Where a run that settles letters goes on."""

    upto: int = 0  # letters of later failures have at least this offset


class LetterSelection(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which letters to settle: those with the ids, or those that match the filters, or `all` if neither is given."""

    ids: Ids | None = None
    stage: str | None = None
    code: str | None = None
    source: str | None = None
    document_id: str | None = None
    since: str | None = None
    until: str | None = None
    all: bool = False
    dry_run: bool = False
    cursor: str | None = None

    def wanted(self, tenant: str) -> LetterFilter:
        """Return the selection in the form in which the log's letters are searched.

        Raises:
            Problem: 400, nothing is selected, or a time is invalid.
        """
        filters = (self.ids, self.stage, self.code, self.source, self.document_id, self.since, self.until)
        if self.all != (filters == (None,) * len(filters)):
            raise invalid("all", "must be true when neither ids nor filters are given, and left out otherwise")
        return _filter(self, tenant, self.ids)


class SettledPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How each letter was settled, oldest first. With `dryRun`, how each would be settled."""

    items: list[SettledLetter]
    dry_run: bool
    next_cursor: str | None


@dataclass(frozen=True, kw_only=True)
class LetterQuery:
    """Which letters to list, and how many."""

    stage: FromQuery[str | None] = None
    code: FromQuery[str | None] = None
    source: FromQuery[str | None] = None
    document_id: Annotated[str | None, QueryParameter(name="documentId")] = None
    since: FromQuery[str | None] = None
    until: FromQuery[str | None] = None
    limit: Limit = 50
    cursor: FromQuery[str | None] = None


def _filter(given: LetterSelection | LetterQuery, tenant: str, ids: Iterable[str] | None = None) -> LetterFilter:
    """Return the filter in the form in which the log's letters are searched. Raises a 400 for an invalid time."""
    return like(
        LetterFilter,
        given,
        tenant=tenant,
        ids=None if ids is None else frozenset(ids),
        code=None if given.code is None else given.code.lower(),
        since=time_of(given.since, "since"),
        until=time_of(given.until, "until"),
    )


@get(
    "/ops/dead-letters",
    role="admin",
    line="list records that could not be processed; /redrive and /drop settle them",
    query=LetterQuery,
)
async def ops_dead_letters(request: ApiRequest, wanted: NamedDependency[LetterQuery]) -> DeadLetterPage:
    """List dead letters, the newest failure first; `since` and `until` are ISO 8601 times."""
    signer, tenant, after = request.part(Signer), request.user.tenant, wanted.cursor
    below = None if after is None else signer.opened(after, _Below, tenant=tenant).offset
    found = await request.part(DeadLetterService).open.newest(_filter(wanted, tenant), limit=wanted.limit, below=below)
    return DeadLetterPage(
        items=[_view(DeadLetterView, each) for each in found.letters],
        total=found.total,
        next_cursor=None if found.after is None else signer.sign(_Below(found.after), tenant=tenant),
    )


@get("/ops/dead-letters/{letter_id:str}", role="admin")
async def ops_dead_letter(letter_id: FromPath[str], request: ApiRequest) -> DeadLetterWhole:
    """Show a dead letter with its record."""
    each = await _one(request, letter_id)
    return _view(DeadLetterWhole, each, record=_record(each.letter))


@get(
    "/ops/dead-letters/{letter_id:str}/record",
    role="admin",
    ok={"application/octet-stream": bytes},
    headers=("Content-Disposition",),
)
async def ops_dead_letter_record(letter_id: FromPath[str], request: ApiRequest) -> Response[bytes]:
    """Download the value of the dead letter's record, unchanged."""
    each = await _one(request, letter_id)
    value = await request.part(DeadLetterService).body(each.letter) or b""
    # The value may contain anything; a browser must not run it.
    headers = {"Content-Disposition": f'attachment; filename="{each.id}"', "X-Content-Type-Options": "nosniff"}
    return Response(value, media_type="application/octet-stream", headers=headers)


@post("/ops/dead-letters/redrive", role="admin", json_only=True)
async def ops_dead_letters_redrive(data: JSONBody[LetterSelection], request: ApiRequest) -> SettledPage:
    """Redrive dead letters, the oldest first. One that a newer version has replaced is `superseded` and not sent."""
    return await _settled(data, request, request.part(DeadLetterService).redrive)


@post("/ops/dead-letters/drop", role="admin", json_only=True)
async def ops_dead_letters_drop(data: JSONBody[LetterSelection], request: ApiRequest) -> SettledPage:
    """Drop dead letters: their records will never be processed."""
    return await _settled(data, request, request.part(DeadLetterService).drop)


async def _settled(
    chosen: LetterSelection, request: ApiRequest, settle: Callable[..., Awaitable[list[SettledLetter]]]
) -> SettledPage:
    signer, tenant, above, upto = request.part(Signer), request.user.tenant, -1, None
    if chosen.cursor is not None:
        cursor = signer.opened(chosen.cursor, _Above, tenant=tenant)
        above, upto = cursor.offset, cursor.upto
    found = await request.part(DeadLetterService).open.oldest(chosen.wanted(tenant), limit=MOST, above=above, upto=upto)
    items = await settle(found.letters, dry_run=chosen.dry_run)
    for each, item in zip(found.letters, items, strict=True):
        if not chosen.dry_run and item.outcome != "refused" and (name := document_of(each.letter)) is not None:
            note_change(name)
    # A document that failed several times is one letter: the newest failure speaks for it, unless one was refused.
    told = {each.id: each for each in sorted(items, key=lambda each: each.outcome == "refused")}
    unknown = [id_ for id_ in dict.fromkeys(chosen.ids or ()) if id_ not in told]
    items = [*told.values()]
    items += [SettledLetter(id=id_, outcome="unknown", sentence=f"there is no dead letter {id_}") for id_ in unknown]
    # Letters that fail again during the run are left out, or the run might never end.
    rest = None if found.after is None else _Above(found.after, upto=found.end if upto is None else upto)
    next_cursor = None if rest is None else signer.sign(rest, tenant=tenant)
    return SettledPage(items=items, dry_run=chosen.dry_run, next_cursor=next_cursor)


async def _one(request: ApiRequest, letter_id: str) -> OpenLetter:
    wanted = LetterFilter(tenant=request.user.tenant, ids=frozenset((letter_id,)))
    found = await request.part(DeadLetterService).open.newest(wanted, limit=1)
    if not found.letters:
        raise Problem(404, "there is no such dead letter")
    return found.letters[0]


def _view(kind: type[V], each: OpenLetter, **more: Any) -> V:
    letter = each.letter
    size = letter.blob.size if letter.blob is not None else len(letter.value or b"")
    code, times = letter.code.upper(), {"first_seen": iso(letter.first_seen), "last_seen": iso(letter.last_seen)}
    return like(kind, letter, id=each.id, code=code, error=letter.sentence, **times, size=size, **more)


def _record(letter: DeadLetter) -> RecordView:
    return RecordView(
        time=iso(letter.time),
        headers=[(name, _bytes(value)) for name, value in letter.headers],
        key=None if letter.key is None else _bytes(letter.key),
        value=None if letter.value is None else _bytes(letter.value),
        blob=letter.blob,
    )


def _bytes(value: bytes) -> RecordBytes:
    try:
        return RecordBytes(text=value.decode())
    except UnicodeDecodeError:
        return RecordBytes(base64=base64.b64encode(value).decode())
