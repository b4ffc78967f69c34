"""Routes for operators: list the tenants, and erase a tenant with everything that it has."""

import asyncio
from typing import Annotated

import msgspec
from litestar.params import FromPath, JSONBody

from services.query_api.documents.selection import Selection
from services.query_api.http.audit import note_concerned
from services.query_api.http.auth import Keyring
from services.query_api.http.problems import Problem
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import get, post
from services.query_api.ops.erase import ErasedPage, ErasureRun, erased_page
from services.query_api.ops.eraser import Eraser
from services.query_api.ops.redrive import DeadLetterService
from shared.log.open_letters import LetterFilter
from shared.runtime.resources import Resources
from shared.state.index import Index
from shared.store import EVERYTHING, Filter, Match

TenantName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_DELETED = Match("last.status", ("deleted",))
_ERASED = Match("source", ("",))  # an erasure deletes the names


class TenantView(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant has."""

    tenant: str
    documents: int  # without deleted ones
    deleted: int  # deleted documents whose names and versions are still kept
    erased: int  # erased documents: only ids and versions are left
    letters: int  # open dead letters
    keys: int


class TenantList(msgspec.Struct, frozen=True):
    """All tenants, by name."""

    items: list[TenantView]


class TenantWhole(TenantView, frozen=True, kw_only=True, rename="camel"):
    """What a tenant has, with figures that take longer to count."""

    chunks: int
    blobs: int | None  # None: the blob store can't list
    blob_bytes: int | None


class EraseTenant(ErasureRun, frozen=True, kw_only=True):
    """Which tenant to erase."""

    tenant: TenantName


@get("/ops/tenants", role="operator", line="list the tenants and what they have; /ops/tenants/erase erases one")
async def ops_tenants(request: ApiRequest) -> TenantList:
    """List the tenants that have documents, dead letters or keys."""
    ledger, letters = request.part(Resources).ledger, request.part(DeadLetterService).open
    all_, deleted, erased, lettered = await asyncio.gather(
        ledger.tenants(EVERYTHING),
        ledger.tenants(Filter(must=(_DELETED,), must_not=(_ERASED,))),
        ledger.tenants(Filter(must=(_ERASED,))),
        letters.tenants(),
    )
    open_ = {tenant: (await letters.newest(LetterFilter(tenant=tenant), limit=1)).total for tenant in lettered}
    keys = request.part(Keyring).tenants()
    items = [
        TenantView(
            tenant=tenant,
            documents=all_.get(tenant, 0) - deleted.get(tenant, 0) - erased.get(tenant, 0),
            deleted=deleted.get(tenant, 0),
            erased=erased.get(tenant, 0),
            letters=open_.get(tenant, 0),
            keys=keys[tenant],
        )
        for tenant in sorted(all_.keys() | open_.keys() | keys.keys())
    ]
    return TenantList(items)


@get("/ops/tenants/{tenant:str}", role="operator", refuses=(404,))
async def ops_tenant(tenant: FromPath[str], request: ApiRequest) -> TenantWhole:
    """Show what a tenant has. Its blobs are counted one by one, which takes a while in a large store."""
    found = next((each for each in (await ops_tenants.fn(request)).items if each.tenant == tenant), None)
    if found is None:
        raise Problem(404, f"there is no tenant {tenant}")
    blobs = size = 0
    async for page in request.part(Resources).blobs.stored():
        own = [blob for blob in page if blob.tenant == tenant]
        blobs, size = blobs + len(own), size + sum(blob.size for blob in own)
    chunks = await request.part(Index).tenant_points(tenant)
    return TenantWhole(**msgspec.structs.asdict(found), chunks=chunks, blobs=blobs, blob_bytes=size)


@post("/ops/tenants/erase", role="operator", json_only=True, refuses=(409,))
async def ops_tenants_erase(data: JSONBody[EraseTenant], request: ApiRequest) -> ErasedPage:
    """Erase all documents of a tenant, deleted ones too, its dead letters and thumbs. One page a request.

    Without `confirm`, the documents are only counted. The reply is 409 when the count has changed. The tenant's keys
    stay valid: revoke them before, or documents may come meanwhile.
    """
    chosen = Selection(
        data.tenant, Filter(must=(Match("tenant", (data.tenant,)),), must_not=(_ERASED,)), by_chunks=False
    )
    page = await erased_page(request, chosen, data)
    if page.next_cursor is None and data.confirm is not None and not data.dry_run:
        await request.part(Eraser).erase_rest(data.tenant)
        note_concerned("tenant_erased", data.tenant)
    return page
