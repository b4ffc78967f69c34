"""`POST /rag/ingest/url`: submits the URL of a page, which the ingest worker fetches."""

from typing import Any

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody

from services.query_api.http.lanes import METADATA
from services.query_api.http.problems import invalid
from services.query_api.http.request import ApiRequest, name_of, tags_of
from services.query_api.http.routes import post
from services.query_api.ingest.document import (
    IngestReply,
    callback_of,
    keep_of,
    metadata_with,
    on_conflict_of,
    sizes_of,
    taken,
    title_of,
    url_of,
)
from services.query_api.ingest.submissions import Submissions
from shared.contracts import Crawl, DocumentSubmitted
from shared.inputs.names import LONGEST_SOURCE
from shared.times import now_ms

MOST_DEPTH = 10  # the worker's own limit is usually lower


class UrlBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page to fetch; its address is its path. `depth` and `sitemap` also fetch linked pages of the same host."""

    url: str
    source: str = "url"
    title: str | None = None
    tags: list[str] | str | None = None
    metadata: dict[str, Any] | str | None = None
    keep: list[str] | str | None = None
    on_conflict: str | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None
    subject_id: str | int | None = None
    callback_url: str | None = None  # called once this page has ended, not the pages it leads to
    depth: int = 0  # most links between the page and a page to fetch
    sitemap: bool = False  # whether to fetch the pages of the site's sitemap


@post(
    "/rag/ingest/url",
    role="ingest",
    lane="bring",
    line="add a web page, or a site by its sitemap",
    takes=METADATA,
    refuses=(409, 422),
    accepted=True,
)
async def rag_ingest_url(
    data: JSONBody[UrlBody], request: ApiRequest, submissions: NamedDependency[Submissions]
) -> Response[IngestReply]:
    """Add or update a web page under its address. Each linked page becomes a document of its own."""
    if not 0 <= data.depth <= MOST_DEPTH:
        raise invalid("depth", f"is {data.depth}, but must be from 0 to {MOST_DEPTH}")
    url = url_of(data.url)
    document = DocumentSubmitted(
        tenant=request.user.tenant,
        source=name_of(data.source, "source", LONGEST_SOURCE),
        path=url,
        url=url,
        crawl=Crawl(depth=data.depth, sitemap=data.sitemap) if data.depth or data.sitemap else None,
        title=title_of(data.title),
        tags=tags_of(data.tags),
        metadata=metadata_with(data.metadata, data.subject_id),
        **sizes_of(data.chunk_size, data.chunk_overlap),
        keep=keep_of(data.keep),
        on_conflict=on_conflict_of(data.on_conflict),
        callback_url=callback_of(data.callback_url),
        submitted_at=now_ms(),
    )
    return await taken(request, submissions, document, wordy=True)
