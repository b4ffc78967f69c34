"""Routes by which admins erase documents of their own tenant, and operators rewrite the data files."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from litestar.params import FromQuery, JSONBody

from services.query_api.documents.selection import Selection, count_of, next_page, selection
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import invalid
from services.query_api.http.request import ApiRequest, wait_of
from services.query_api.http.route_decorator import WHOLE, get, post
from services.query_api.ops import file_rewrite
from services.query_api.ops.dead_letters import Ids
from services.query_api.ops.eraser import Eraser
from services.query_api.ops.file_rewrite import ErasureReceipt, FileRewrites, KeptPart, PartMatch, canaries
from shared.log.sqlite import SqliteLog
from shared.runtime.resources import Resources
from shared.settings import Settings
from shared.state.index import Index
from shared.state.ledger import Entry

MOST_PROOFS = 1000
Proofs = Annotated[list[str], msgspec.Meta(max_length=MOST_PROOFS)]


class ErasureRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which page of a selection to erase."""

    confirm: int | None = None  # the count that the caller saw; without it, documents are only counted
    dry_run: bool = False  # only count the documents and choose canaries
    cursor: str | None = None


class Erase(ErasureRun, frozen=True, kw_only=True):
    """Which documents to erase: by id, or all of a source, including deleted ones."""

    document_ids: Ids | None = None
    source: str | None = None


class Erased(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The outcome for one document: `erased`, `unknown` or `failed`; in a dry run `standing`."""

    document_id: str
    outcome: str
    error: str | None = None
    canaries: list[str] = []


class ErasedPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome for each document of this page."""

    matched: int  # how many there were before this page
    items: list[Erased]
    next_cursor: str | None
    proof: str | None = None  # in a dry run: the page's canaries, signed, for /ops/forget
    receipt: str | None = None  # else, if documents were erased: for /ops/erase/forgotten


class Canaries(msgspec.Struct, frozen=True):
    """Words of documents to erase, chosen by a dry run."""

    words: tuple[str, ...]


class Forget(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The proofs of an erasure's dry run, whose words are searched for. With `dryRun`, no file is rewritten first.

    Callers can't choose the words: a search for any word in all files would reveal other tenants' text.
    """

    proofs: Proofs = []
    dry_run: bool = False


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What was rewritten, and how many files of each part still contain the words."""

    parts: list[KeptPart]
    files: int  # number of files searched
    found: list[PartMatch]


class ErasureForgotten(msgspec.Struct, frozen=True, kw_only=True):
    """Whether our files were rewritten since the erasure, and what each part still keeps."""

    done: bool  # nothing more will change by waiting
    parts: list[KeptPart]


async def erased_page(request: ApiRequest, chosen: Selection, run: ErasureRun) -> ErasedPage:
    """Return the outcome for the next page of the selection.

    Raises:
        Problem: 400, the cursor is of another run; 409, another number of documents matches by now.
    """
    matched = await count_of(request.part(Resources), chosen)
    if run.confirm is None and not run.dry_run:
        return ErasedPage(matched=matched, items=[], next_cursor=None)
    does = "look" if run.dry_run else "erase"
    entries, following = await next_page(request, does, chosen, confirm=run.confirm, cursor=run.cursor)
    page = await _erased(request, chosen.tenant, entries, dry_run=run.dry_run)
    return msgspec.structs.replace(page, matched=matched, next_cursor=following)


async def _erased(request: ApiRequest, tenant: str, entries: Sequence[Entry], *, dry_run: bool) -> ErasedPage:
    """Return what became of each document, and a receipt; in a dry run its canaries, and their proof."""
    index, signer = request.part(Index), request.part(Signer)
    if dry_run:
        words = {entry.document_id: await canaries(index, entry.tenant, entry.document_id) for entry in entries}
        items = [Erased(document_id=name, outcome="standing", canaries=found) for name, found in words.items()]
        proof = signer.sign(Canaries(tuple(word for found in words.values() for word in found)))
        return ErasedPage(matched=len(entries), items=items, next_cursor=None, proof=proof)
    outcome = await request.part(Eraser).erase(entries, wait_of(request)[0])
    items = [
        Erased(document_id=name, outcome="failed" if error else "erased", error=error)
        for name, error in outcome.items()
    ]
    any_erased = any(error is None for error in outcome.values())
    receipt = signer.sign(request.part(FileRewrites).receipt(), tenant=tenant) if any_erased else None
    return ErasedPage(matched=len(entries), items=items, next_cursor=None, receipt=receipt)


@post(
    "/ops/erase",
    role="admin",
    line="erase documents for good; /ops/forget also rewrites the data files now",
    json_only=True,
    refuses=(409,),
)
async def ops_erase(data: JSONBody[Erase], request: ApiRequest) -> ErasedPage:
    """Erase documents; only an id and a version remain in the index, blobs, dead letters and log. One page per request.

    With `source` but without `confirm`, the documents are only counted. The reply is 409 when the count has changed.
    """
    if (data.document_ids is None) == (data.source is None):
        raise invalid("documentIds", "send either these or a source")
    tenant, ledger = request.user.tenant, request.part(Resources).ledger
    if data.source is not None:
        return await erased_page(request, selection(tenant, {"source": [data.source]}, gone=True), data)
    names = list(dict.fromkeys(data.document_ids or ()))
    known = [await ledger.of_tenant(tenant, name) for name in names]
    entries = [entry for entry in known if entry is not None]
    missing = set(names) - {entry.document_id for entry in entries}
    unknown = [
        Erased(document_id=name, outcome="unknown", error="there is no such document") for name in sorted(missing)
    ]
    page = await _erased(request, tenant, entries, dry_run=data.dry_run)
    return msgspec.structs.replace(page, items=[*page.items, *unknown])


@get("/ops/erase/forgotten", role="admin")
async def ops_erase_forgotten(receipt: FromQuery[str], request: ApiRequest) -> ErasureForgotten:
    """Say whether the data files were rewritten since an erasure, by the `receipt` that its reply contained.

    Asking has the next hourly upkeep rewrite them. Nothing is searched for, so the reply tells of no other documents.
    """
    base, index = request.part(Resources), request.part(Index)
    since = request.part(Signer).opened(receipt, ErasureReceipt, field="receipt", tenant=request.user.tenant)
    ours = isinstance(base.log, SqliteLog) or index.rewritable  # some of the files, to rewrite
    rewritten = ours and request.part(FileRewrites).covers(since)
    parts = await file_rewrite.kept_parts(base.log, index, rewritten=rewritten)
    producers = [topic for topic, tenant in base.settings.topics_of_tenants.items() if tenant == request.user.tenant]
    return ErasureForgotten(done=rewritten or not ours, parts=[*parts, *file_rewrite.kept_by_producers(producers)])


@post("/ops/forget", role="operator", json_only=True, takes=WHOLE)
async def ops_forget(data: JSONBody[Forget], request: ApiRequest) -> Forgotten:
    """Rewrite the log's and the store's files without deleted data, and say which parts still contain the words."""
    rewrites, settings = request.part(FileRewrites), request.part(Settings)
    proved = [request.part(Signer).opened(proof, Canaries, field="proofs") for proof in data.proofs]
    words = list(dict.fromkeys(word for each in proved for word in each.words))
    parts = [] if data.dry_run else [*await rewrites.now(), *file_rewrite.kept_by_producers(settings.topics_of_tenants)]
    count, found = await file_rewrite.seen(settings.data, words) if settings.keeps_data else (0, [])
    return Forgotten(parts=parts, files=count, found=found)
