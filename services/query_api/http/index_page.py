"""What is here, in a line for each route, and the description of all of it. The console shows it at `/`."""

from typing import Any

from litestar import get

from services.query_api.http.problems import AnyRequest
from shared.runtime.probes import OPEN

ROUTES = {
    "POST /rag/ingest": "add or replace a document: source, path, text",
    "POST /rag/ingest/text": "add a text",
    "POST /rag/ingest/upload": "add files",
    "GET /rag/documents": "list documents: source, path, pathPrefix, q, state, tags, sort",
    "GET /rag/stats": "documents by state and source, chunks, and how fast they come",
    "GET /rag/documents/{id}": "how a document stands; /chunks and /text show what it holds",
    "DELETE /rag/documents/{id}": "delete a document",
    "DELETE /rag/documents": "delete all that fit filters, once their count is confirmed",
    "POST /rag/search": "find passages: query, topK, filters",
    "POST /rag/query": "ask chosen documents: question, documentIds",
    "POST /chat": "chat: message, useRag",
    "GET /ops/dead-letters": "what no stage could take; /redrive and /drop settle it",
    "POST /ops/erase": "erase documents for good; /ops/forget has the files forget them now",
    "GET /openapi.json": "all of it in detail",
    "GET /readyz": "whether everything it needs is there",
}


@get("/openapi.json", include_in_schema=False, opt={OPEN: True})
async def openapi(request: AnyRequest) -> dict[str, Any]:
    """Describe every route."""
    return request.app.openapi_schema.to_schema()
