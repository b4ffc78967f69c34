"""Routes about the log: lag and members of the consumer groups, and replays of the caller's documents."""

from typing import Final

import msgspec
from litestar.params import FromQuery, JSONBody

from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import get, post
from services.query_api.ingest.submissions import Submissions
from shared.contracts import like
from shared.errors import Rejected
from shared.ids import bytes_hash
from shared.log.groups import GroupLag, PartitionLag, descriptions, lags
from shared.log.read import Span
from shared.replay import ReplayBound, ReplayedPartition, ReplayOrder, replay, replay_budget
from shared.runtime.resources import Resources

MOST_RECORDS: Final = 10_000  # read by one request
_LONGEST_S: Final = 10.0  # per request; a slow disk may write fewer records in this time


class ReplayBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which records to replay. `from` and `until`: an offset, a time, or beginning and end."""

    topic: str
    from_: int | str = msgspec.field(name="from")
    until: int | str = "end"
    partition: int | None = None
    key: str | None = None
    source: str | None = None
    dry_run: bool = False
    cursor: str | None = None  # from the previous reply; continues where that request stopped


class ReplayPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one request sent, or would send. Send the same order with `nextCursor` for the rest.

    Only operators see the counts of records, because those of all tenants are among them.
    """

    topic: str
    dry_run: bool
    sent: int
    next_cursor: str | None
    read: int | None
    unreadable: int | None
    partitions: list[ReplayedPartition] | None


class _ReplayCursor(msgspec.Struct, frozen=True):
    order: str  # hash of the order and of `dryRun`
    rest: dict[int, Span]


@get("/ops/lag", role="operator", line="show how far the stages are")
async def ops_lag(request: ApiRequest) -> list[GroupLag]:
    """Show how many records each consumer group has yet to read, and since when. Records of all tenants count."""
    return await lags(request.part(Resources).log)


@get("/ops/groups", role="operator", refuses=(404,))
async def ops_groups(request: ApiRequest, group: FromQuery[str | None] = None) -> list[PartitionLag]:
    """Show offsets, lag and members of each partition of the consumer groups."""
    try:
        return await descriptions(request.part(Resources).log, group)
    except Rejected as error:
        raise Problem(404, error.sentence) from None


@post("/ops/replay", role="admin", json_only=True)
async def ops_replay(data: JSONBody[ReplayBody], request: ApiRequest) -> ReplayPage:
    """Process records of the caller's documents again. Ended submissions are skipped; missing parts are made again.

    One request reads at most 10,000 records and takes about ten seconds. What the first request found at the end of
    the topic is the end for all pages, so the records of the replay itself are not replayed.
    """
    signer, tenant = request.part(Signer), request.user.tenant
    since, until = _bound(data.from_, "from"), _bound(data.until, "until")
    order = like(ReplayOrder, data, since=since, until=until, tenant=tenant)
    run = bytes_hash(repr((order, data.dry_run)).encode("utf-8", "surrogatepass"))
    spans = None
    if data.cursor is not None:
        found = signer.opened(data.cursor, _ReplayCursor, tenant=tenant)
        if found.order != run:
            raise invalid("cursor", "belongs to another replay")
        spans = found.rest
    try:
        done = await replay(
            request.part(Resources).log,
            request.part(Submissions).publish,
            order,
            dry_run=data.dry_run,
            spans=spans,
            budget=replay_budget(MOST_RECORDS, _LONGEST_S),
        )
    except Rejected as error:
        raise Problem(400, error.sentence) from error
    following = signer.sign(_ReplayCursor(run, done.rest), tenant=tenant) if done.rest else None
    hidden = {} if request.user.may("operator") else dict.fromkeys(("read", "unreadable", "partitions"))
    return like(ReplayPage, done, next_cursor=following, **hidden)


def _bound(given: int | str, field: str) -> ReplayBound:
    try:
        return ReplayBound.of(given)
    except ValueError:
        raise invalid(field, f"{given!r} is neither an offset nor a time such as 2026-11-20T18:00:00Z") from None
