"""Routes for Open WebUI: its external web search, its external document loader, and its tools."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import unquote

import msgspec
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIFormat, OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema
from litestar.params import JSONBody

from services.query_api.clients.links import Links
from services.query_api.clients.reply_types import ProcessedFile, WebResult
from services.query_api.http.lanes import WHOLE
from services.query_api.http.openapi import described
from services.query_api.http.problems import Problem
from services.query_api.http.request import ApiRequest, beside
from services.query_api.http.routes import JSON, get, post, put
from services.query_api.ingest.upload import FileText, ReadFile
from services.query_api.search.retrieval import Retriever
from services.query_api.search.search import question_of

TOOLS: Final = frozenset({"rag_search", "rag_query", "chat", "rag_documents", "rag_document_text"})
_SNIPPET: Final = 1000  # characters


class WebSearchBody(msgspec.Struct, frozen=True, kw_only=True):
    """A query of Open WebUI's external web search."""

    query: str
    count: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5


@post("/web-search", role="query", ok={JSON: list[WebResult]})
async def web_search(
    data: JSONBody[WebSearchBody],
    request: ApiRequest,
    retriever: NamedDependency[Retriever],
    links: NamedDependency[Links],
) -> list[dict[str, str]]:
    """Find passages as results of a web search, at most one for each link."""
    found = await retriever.search(request.user.tenant, question_of(data.query, "query"), top_k=data.count)
    results: dict[str, dict[str, str]] = {}
    for hit in found.hits:
        link = links.passage(hit.metadata, hit.text)
        title = hit.metadata.get("title") or hit.metadata["path"]
        results.setdefault(link, {"link": link, "title": title, "snippet": hit.shown[:_SNIPPET]})
    return list(results.values())


@dataclass
class FileOperation(Operation):
    """Describes the request body for OpenAPI: a file as it is."""

    def __post_init__(self) -> None:
        """Fill in the request's content type."""
        raw = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
        self.request_body = RequestBody(content={"application/octet-stream": OpenAPIMediaType(raw)}, required=True)


@put(
    "/process",
    role="ingest",
    lane="bring",
    reads=True,
    takes=WHOLE,
    refuses=(422, 501),
    ok={JSON: ProcessedFile},
    operation_class=FileOperation,
)
async def process_file(request: ApiRequest, file_reader: NamedDependency[ReadFile]) -> dict[str, Any]:
    """Extract the text of a file without storing it: Open WebUI's external document loader.

    If no parser is free within a minute, the reply is a 503.
    """
    body = await request.body()
    if not body:
        raise Problem(400, "the body is missing", details={"field": "body"})
    name = unquote(request.headers.get("x-filename", "")) or None
    read = await file_reader(body, tenant=request.user.tenant, name=name, media_type=request.content_type[0] or None)
    return {"page_content": read.text, "metadata": read.metadata}


class NoReader:
    """The 501 of an API without parsers."""

    async def __call__(self, body: bytes, *, tenant: str, name: str | None, media_type: str | None) -> FileText:  # noqa: ARG002 - the port's
        """Raise it."""
        raise _no_parsers()

    async def unlocked(self, body: bytes, *, tenant: str, name: str | None, password: str) -> bytes:  # noqa: ARG002
        """Raise it."""
        raise _no_parsers()


def _no_parsers() -> Problem:
    return Problem(501, "this API reads no files; `sluice serve` and `sluice query-api` do", code="NO_PARSERS")


@get("/tools/openapi.json", role=None, in_schema=False)
async def tools(request: ApiRequest) -> dict[str, Any]:
    """Return the OpenAPI description of the read-only routes, which an assistant can use as tools."""
    schema = await beside(True, described, request.app)
    paths = {
        path: {method: _tool(operation) for method, operation in item.items() if operation["operationId"] in TOOLS}
        for path, item in schema["paths"].items()
    }
    return {**schema, "paths": {path: item for path, item in paths.items() if item}}


def _tool(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the operation with its 200 only: a language model reads it, and refusals tell it nothing."""
    return {**operation, "responses": {"200": operation["responses"]["200"]}}
