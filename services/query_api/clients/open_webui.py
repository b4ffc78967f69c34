"""Routes for Open WebUI: its external web search, its external document loader, and its tools."""

from typing import Annotated, Any, Final
from urllib.parse import unquote

import msgspec
from litestar.params import JSONBody

from services.query_api.clients.links import links_of
from services.query_api.http.openapi import described
from services.query_api.http.problems import Problem
from services.query_api.http.request import ApiRequest, beside, not_blank
from services.query_api.http.route_decorator import WHOLE, get, post, put
from services.query_api.ingest.upload import reader_of
from services.query_api.search.retrieval import Retriever

TOOLS: Final = frozenset({"rag_search", "rag_query", "chat", "rag_documents", "rag_document_text"})
_SNIPPET: Final = 1000  # characters


class WebSearchBody(msgspec.Struct, frozen=True, kw_only=True):
    """A query of Open WebUI's external web search."""

    query: str
    count: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5


class WebResult(msgspec.Struct, frozen=True):
    """A result of Open WebUI's web search."""

    link: str
    title: str
    snippet: str


class ProcessedFile(msgspec.Struct, frozen=True):
    """A file's text, as Open WebUI's document loader reads it."""

    page_content: str
    metadata: dict[str, Any]


@post("/web-search", role="query")
async def web_search(data: JSONBody[WebSearchBody], request: ApiRequest) -> list[WebResult]:
    """Find passages as results of a web search, at most one for each link."""
    links = links_of(request)
    found = await request.part(Retriever).search(request.user.tenant, not_blank(data.query, "query"), top_k=data.count)
    results: dict[str, WebResult] = {}
    for hit in found.hits:
        link = links.passage(hit.metadata, hit.text)
        title = hit.metadata.get("title") or hit.metadata["path"]
        results.setdefault(link, WebResult(link, title, hit.shown[:_SNIPPET]))
    return list(results.values())


@put(
    "/process",
    role="ingest",
    lane="bring",
    reads=True,
    takes=WHOLE,
    refuses=(422,),
    body={"application/octet-stream": bytes},
)
async def process_file(request: ApiRequest) -> ProcessedFile:
    """Extract the text of a file without storing it: Open WebUI's external document loader.

    If no parser is free within a minute, the reply is a 503.
    """
    body = await request.body()
    if not body:
        raise Problem(400, "the body is missing", details={"field": "body"})
    name = unquote(request.headers.get("x-filename", "")) or None
    read = await reader_of(request)(
        body, tenant=request.user.tenant, name=name, media_type=request.content_type[0] or None
    )
    return ProcessedFile(read.text, read.metadata)


@get("/tools/openapi.json", role=None, in_schema=False)
async def tools(request: ApiRequest) -> dict[str, Any]:
    """Return the OpenAPI description of the read-only routes, which an assistant can use as tools."""
    schema = await beside(True, described, request.app)
    paths: dict[str, dict[str, Any]] = {}
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            if operation["operationId"] in TOOLS:  # its 200 only: a language model reads it, refusals tell it nothing
                of_path = paths.setdefault(path, {})
                of_path[method] = {**operation, "responses": {"200": operation["responses"]["200"]}}
    return {**schema, "paths": paths}
