"""Routes about the log: lag and members of the consumer groups, and replays of the caller's documents."""

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, JSONBody

from services.query_api.http.auth import needs
from services.query_api.http.lanes import in_lane
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.replies import replies
from services.query_api.http.request import ApiRequest
from services.query_api.ops.replay import ReplayBound, Replayed, ReplayOrder, replay
from shared.errors import Rejected
from shared.log import Log, Publish
from shared.log.groups import GroupLag, PartitionLag, described, lag_of, our_groups
from shared.times import parse_iso


class LogOperations:
    """The log and the function that appends to it, for these routes."""

    def __init__(self, log: Log, publish: Publish) -> None:
        self.log = log
        self.publish = publish


class ReplayBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which records to replay. `from` and `until`: an offset, a time, or beginning and end."""

    topic: str
    from_: int | str = msgspec.field(name="from")
    until: int | str = "end"
    partition: int | None = None
    key: str | None = None
    source: str | None = None
    dry_run: bool = False


@get(
    "/ops/lag",
    operation_id="ops_lag",
    guards=[needs("operator")],
    opt=in_lane("ask", "show how far the stages are"),
)
async def ops_lag(operations: NamedDependency[LogOperations]) -> list[GroupLag]:
    """Show how many records each consumer group has yet to read, and since when. Records of all tenants count."""
    log = operations.log
    return [await lag_of(log, group, topic) for group, topic in (await our_groups(log)).items()]


@get("/ops/groups", operation_id="ops_groups", guards=[needs("operator")], opt=in_lane("ask") | replies(404))
async def ops_groups(
    operations: NamedDependency[LogOperations], group: FromQuery[str | None] = None
) -> list[PartitionLag]:
    """Show offsets, lag and members of each partition of the consumer groups."""
    known = await our_groups(operations.log)
    if group is not None and group not in known:
        raise Problem(404, f"there is no group {group}")
    chosen = known if group is None else {group: known[group]}
    return [row for name, topic in chosen.items() for row in await described(operations.log, name, topic)]


@post(
    "/ops/replay",
    operation_id="ops_replay",
    guards=[needs("admin")],
    opt=in_lane("ask", json_only=True),
    status_code=200,
)
async def ops_replay(
    data: JSONBody[ReplayBody], request: ApiRequest, operations: NamedDependency[LogOperations]
) -> Replayed:
    """Process records of the caller's documents again. Ended submissions are passed over; missing parts are made."""
    order = ReplayOrder(
        topic=data.topic,
        since=_bound(data.from_, "from"),
        until=_bound(data.until, "until"),
        partition=data.partition,
        key=data.key,
        source=data.source,
        tenant=request.user.tenant,
    )
    try:
        return await replay(operations.log, operations.publish, order, dry_run=data.dry_run)
    except Rejected as error:
        raise Problem(400, error.sentence) from error


def _bound(given: int | str, field: str) -> ReplayBound:
    if isinstance(given, int):
        return ReplayBound(offset=given)
    if given in ("beginning", "end"):
        return ReplayBound()
    try:
        return ReplayBound(time=parse_iso(given))
    except ValueError:
        raise invalid(field, f"{given!r} is neither an offset nor a time such as 2026-11-20T18:00:00Z") from None
