"""`POST /rag/ingest/url`: submits the URL of a page, which the ingest worker fetches."""

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody

from services.query_api.http.problems import invalid
from services.query_api.http.request import ApiRequest, name_of
from services.query_api.http.routes import METADATA, post
from services.query_api.ingest.document import (
    DescribedBody,
    IngestReply,
    taken,
    url_of,
)
from services.query_api.ingest.submissions import Submissions
from shared.contracts import Crawl, DocumentSubmitted
from shared.inputs.limits import LONGEST_SOURCE

MOST_DEPTH = 10  # the worker's own limit is usually lower


class UrlBody(DescribedBody, frozen=True, kw_only=True, rename="camel"):
    """A page to fetch; its address is its path. `depth` and `sitemap` also fetch linked pages of the same host.

    `callbackUrl` is called once this page has ended, not the pages that it leads to.
    """

    url: str
    source: str = "url"
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
        **data.submitted(),
    )
    return await taken(request, submissions, document, wordy=True)
