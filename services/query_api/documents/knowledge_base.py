"""`GET /knowledge-base` and `/knowledge-base/{id}`: documents in the contract of Tu2tor's knowledge base."""

import msgspec
from litestar.params import FromPath

from services.query_api.documents.detail import DocumentDetail, detail_of
from services.query_api.documents.document_routes import Cursor, DocumentView, DocumentViews, Limit
from services.query_api.documents.listing import Listing, of_tenant
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import get
from services.query_api.ingest.upload import KnowledgeReply, Processing
from shared.contracts import like

_STANDING = {"accepted": "pending", "failed": "failed"}  # by status; all other statuses are "completed"


class KnowledgePage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Documents of the knowledge base, last changed first."""

    success: bool
    items: list[KnowledgeReply]
    next_cursor: str | None


@get("/knowledge-base", role="query")
async def knowledge_base_list(request: ApiRequest, limit: Limit = 100, cursor: Cursor = None) -> KnowledgePage:
    """List the documents of the knowledge base, which are those of `/rag/documents`."""
    listing = Listing(where=of_tenant(request.user.tenant))
    page = await request.part(DocumentViews).page(listing, limit=limit, cursor=cursor)
    return KnowledgePage(success=True, items=[_knowledge(each) for each in page.items], next_cursor=page.next_cursor)


@get("/knowledge-base/{document_id:str}", role="query")
async def knowledge_base_document(document_id: FromPath[str], request: ApiRequest) -> KnowledgeReply:
    """Show a document of the knowledge base, with its progress."""
    return _knowledge(await detail_of(request, document_id))


def _knowledge(document: DocumentView) -> KnowledgeReply:
    ended = document.status != "accepted"
    progress = document.progress if isinstance(document, DocumentDetail) else 100 if ended else 0
    return like(
        KnowledgeReply,
        document,
        success=True,
        id=document.document_id,
        status=_STANDING.get(document.status, "completed"),
        processing_status=Processing(progress),
        chunk_count=document.chunk_count if ended else None,
    )
