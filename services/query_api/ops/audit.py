"""`GET /ops/audit`: the audit trail, of all tenants for operators, of the caller's own for its admins."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter

from services.query_api.http.opaque_tokens import OffsetCursor, Signer
from services.query_api.http.problems import Problem, time_of
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import get
from shared.contracts import like
from shared.log.audit_trail import AuditFilter, audit_page
from shared.runtime.resources import Resources
from shared.times import iso

MOST: Final = 1000
Limit = Annotated[
    int,
    QueryParameter(
        ge=1, le=MOST, description=f"The minimum number of entries, 1 to {MOST}; a page may have some more."
    ),
]


class AuditView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Who did what. `count` equal calls that changed nothing share an entry."""

    time: str
    action: str
    result: str
    tenant: str = ""
    key: str = ""
    role: str = ""
    request: str = ""
    status: int | None = None
    document_ids: tuple[str, ...] = ()
    count: int = 1
    door: str = "http"


class AuditViewPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Entries, the oldest first; the cursor follows them. `more`: there are more already."""

    items: list[AuditView]
    cursor: str
    more: bool


class _AuditCursor(OffsetCursor, frozen=True, array_like=True):
    pass


@dataclass(frozen=True, kw_only=True)
class AuditQuery:
    """Which entries are asked for."""

    since: FromQuery[str | None] = None
    tenant: FromQuery[str | None] = None
    key: FromQuery[str | None] = None
    action: FromQuery[str | None] = None
    cursor: FromQuery[str | None] = None
    limit: Limit = 100


@get("/ops/audit", role=("admin", "operator"), line="show who changed what", query=AuditQuery)
async def ops_audit(request: ApiRequest, wanted: NamedDependency[AuditQuery]) -> AuditViewPage:
    """Show changes, admin calls and refusals, the oldest first: all for operators, those of its tenant for an admin.

    `since` is an ISO 8601 time, `key` an id as `sluice keys ls` shows it. An empty page may still move the cursor.
    """
    signer = request.part(Signer)
    own, tenant, after = request.user.tenant, wanted.tenant, wanted.cursor
    if not request.user.may("operator"):
        if tenant not in (None, own):
            raise Problem(
                403, "only an operator can see other tenants in the audit trail", details={"role": "operator"}
            )
        tenant = own
    page = await audit_page(
        request.part(Resources).log,
        AuditFilter(tenant=tenant, key=wanted.key, action=wanted.action),
        since=time_of(wanted.since, "since"),
        after=None if after is None else signer.opened(after, _AuditCursor, tenant=own).offset,
        limit=wanted.limit,
    )
    cursor = signer.sign(_AuditCursor(page.after), tenant=own)
    items = [like(AuditView, each, time=iso(each.time), document_ids=each.documents) for each in page.entries]
    return AuditViewPage(items=items, cursor=cursor, more=not page.end)
