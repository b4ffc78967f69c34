"""Pages from the door to the index: fetched, left alone, brought up to date, crawled; and those that are gone."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio

from services.query_api.app import make_api
from shared.contracts import TERMINAL, Crawl, DocumentSubmitted, decode
from shared.ids import document_id
from shared.state.ledger import Entry
from shared.topics import SUBMITTED
from tests.integration.pipeline import Pipeline, running
from tests.selection import CI_ONLY
from tests.servers import loopback
from tests.servers.website import Answer, Website, a_page, to

pytestmark = pytest.mark.asyncio(loop_scope="session")

HANG_S = 100
TAGGED = 'etag: "v1"'


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pipeline]:
    data = tmp_path_factory.mktemp("pages")
    async with running(data, fetch_allow="127.0.0.1", fetch_delay=0.0, fetch_at_once=16, fetch_timeout=60) as pipeline:
        yield pipeline


@pytest_asyncio.fixture(loop_scope="session")
async def website() -> AsyncIterator[Website]:
    """Each test's own: another port is another site."""
    async with loopback.running(Website()) as website:
        yield website


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(pipeline: Pipeline) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncExitStack() as stack:
        transport = httpx.ASGITransport(cast("Any", make_api(pipeline.parts)))
        yield await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60)
        )


async def send(pipeline: Pipeline, url: str, path: str | None = None, **fields: Any) -> Entry:
    return await pipeline.send(DocumentSubmitted(source="url", path=path or url, url=url, **fields), within_s=60)


async def entry_of(pipeline: Pipeline, url: str) -> Entry | None:
    return await pipeline.parts.ledger.get(document_id("default", "url", url))


async def ended(pipeline: Pipeline, *urls: str) -> dict[str, str]:
    """Return how each page ended, once all have."""

    return {url: (await ended_as(pipeline, url, *TERMINAL)).last.status for url in urls}


async def ended_as(pipeline: Pipeline, url: str, *statuses: str) -> Entry:
    """Return the page's entry, once it has one of the statuses."""
    name = document_id("default", "url", url)

    async def look() -> Entry | None:
        entry = await entry_of(pipeline, url)
        return entry if entry is not None and entry.last.status in statuses else None

    entry = await pipeline.parts.notices.until(name, look, HANG_S)
    assert entry is not None, f"{url} never was one of {statuses}"
    return entry


async def submitted(pipeline: Pipeline, website: Website) -> list[str]:
    """Return the address of each record on the log that is about the website, in no order."""
    records = [decode(record.value, DocumentSubmitted) for record in await pipeline.records(SUBMITTED)]
    return [record.path for record in records if website.host in record.path]


@CI_ONLY
@pytest.mark.feature(5, 51)
async def test_a_page_is_created_left_alone_and_brought_up_to_date(
    client: httpx.AsyncClient, pipeline: Pipeline, website: Website
) -> None:
    website.pages["/lantern"] = a_page("Lantern")._replace(headers=("content-type: text/html", TAGGED))
    address = f" HTTP://{website.host}/x/../lantern#top "

    async def ingested() -> Any:
        return (await client.post("/rag/ingest/url", json={"url": address, "tags": "a,b"})).raise_for_status().json()

    created, unchanged = await ingested(), await ingested()
    website.pages["/lantern"] = a_page("Lantern", text="It burns whale oil now, " * 5)
    updated = await ingested()

    name = document_id("default", "url", f"{website.url}/lantern")
    assert [each["status"] for each in (created, unchanged, updated)] == ["created", "unchanged", "updated"]
    assert {each["documentId"] for each in (created, unchanged, updated)} == {name}
    assert [sent.get("if-none-match") for sent in website.sent if "if-none-match" in sent] == ['"v1"', '"v1"']
    assert "whale oil" in (await pipeline.texts(name))[0]
    document = (await client.get(f"/rag/documents/{name}")).json()
    assert (document["title"], document["path"], document["source"]) == ("Lantern", f"{website.url}/lantern", "url")


@CI_ONLY
async def test_a_page_has_the_name_it_is_given(client: httpx.AsyncClient, website: Website) -> None:
    website.pages["/"] = a_page("Named")

    body = {"source": "wiki", "path": "start", "url": website.url}
    reply = (await client.post("/rag/ingest", json=body)).raise_for_status().json()

    assert reply["status"] == "created"
    assert reply["documentId"] == document_id("default", "wiki", "start")


@pytest.mark.feature(56)
@pytest.mark.parametrize(
    ("route", "body", "words"),
    [
        ("/rag/ingest/url", {"url": "ftp://a.example/"}, "'ftp'"),
        ("/rag/ingest/url", {"url": "http://me:secret@a.example/"}, "before its host"),
        ("/rag/ingest/url", {"url": "nothing"}, "scheme ''"),
        ("/rag/ingest/url", {"url": f"http://a.example/{'x' * 2000}"}, "at most 2000"),
        ("/rag/ingest/url", {"url": "http://a.example/", "depth": 11}, "depth"),
        ("/rag/ingest/url", {"url": "http://a.example/", "depth": -1}, "depth"),
        ("/rag/ingest", {"source": "s", "path": "p"}, "is required"),
        ("/rag/ingest", {"source": "s", "path": "p", "text": "t", "url": "http://a.example/"}, "exactly one of"),
    ],
)
async def test_what_is_no_address_is_refused_at_the_door(
    client: httpx.AsyncClient, route: str, body: dict[str, Any], words: str
) -> None:
    reply = await client.post(route, json=body)

    assert reply.status_code == 400
    assert words in reply.json()["message"]


async def test_a_page_that_may_not_be_fetched_fails_with_the_reason(client: httpx.AsyncClient) -> None:
    reply = await client.post("/rag/ingest/url", json={"url": "http://169.254.169.254/latest/meta-data/"})

    assert (reply.status_code, reply.json()["code"]) == (422, "ADDRESS_REFUSED")
    assert "SLUICE_FETCH_ALLOW" in reply.json()["message"]


@CI_ONLY
async def test_a_page_that_is_gone_fails_and_its_last_version_goes_on_answering(
    pipeline: Pipeline, website: Website
) -> None:
    url = f"{website.url}/page"
    website.pages["/page"] = a_page("Page")
    name = (await send(pipeline, url)).document_id
    before = await pipeline.texts(name)
    website.pages["/page"] = Answer(b"", 410)

    gone = await send(pipeline, url)

    assert (gone.last.status, gone.last.code) == ("failed", "http_410")
    assert await pipeline.texts(name) == before
    website.pages["/page"] = a_page("Page")
    assert (await send(pipeline, url)).last.status == "unchanged"


async def test_a_page_whose_host_fails_can_be_sent_again(pipeline: Pipeline, website: Website) -> None:
    url = f"{website.url}/page"
    website.pages["/page"] = Answer(b"", 500)

    failed = await send(pipeline, url)

    assert (failed.last.status, failed.last.code) == ("failed", "fetch_failed")
    letter = next(each for each in await pipeline.dead_letters() if each.document_id == failed.document_id)
    assert (letter.stage, letter.code, letter.path) == ("ingest", "fetch_failed", url)
    assert website.asked.count("/page") == 3


async def failed_and_well_again(pipeline: Pipeline, website: Website) -> tuple[str, Entry]:
    """Return a page's address and how it failed, whose host gives it now."""
    url = f"{website.url}/page"
    website.pages["/page"] = Answer(b"", 500)
    failed = await send(pipeline, url)
    website.pages["/page"] = a_page("Page")
    return url, failed


async def redriven(client: httpx.AsyncClient, entry: Entry) -> list[str]:
    """Return what became of the document's dead letters."""
    reply = await client.post("/ops/dead-letters/redrive", json={"documentId": entry.document_id})
    assert reply.status_code == 200, reply.text
    return [item["outcome"] for item in reply.json()["items"]]


async def test_a_page_whose_host_is_up_again_is_brought_in_by_a_redrive(
    client: httpx.AsyncClient, pipeline: Pipeline, website: Website
) -> None:
    url, failed = await failed_and_well_again(pipeline, website)

    outcomes = await redriven(client, failed)
    created = await ended_as(pipeline, url, "created")

    assert outcomes == ["redriven"]
    assert created.accepted.place == failed.last.place, "it is still the submission that it was"
    assert "Page is a page" in (await pipeline.texts(created.document_id))[0]
    assert await redriven(client, failed) == []


async def test_a_page_that_came_by_a_newer_submission_is_not_fetched_for_an_older_one(
    client: httpx.AsyncClient, pipeline: Pipeline, website: Website
) -> None:
    url, failed = await failed_and_well_again(pipeline, website)
    newer = await send(pipeline, url)
    asked = len(website.asked)

    assert await redriven(client, failed) == ["superseded"]
    assert await entry_of(pipeline, url) == newer
    assert len(website.asked) == asked


async def test_what_a_body_says_follows_from_its_type_too(pipeline: Pipeline, website: Website) -> None:
    text = "Gruß vom Leuchtturm, der schöner ist als der andere. ".encode("latin-1") * 3
    website.pages["/page"] = Answer(text, headers=("content-type: text/plain; charset=iso-8859-5",))
    name = (await send(pipeline, f"{website.url}/page")).document_id
    website.pages["/page"] = Answer(text, headers=("content-type: text/plain; charset=latin-1",))

    assert (await send(pipeline, f"{website.url}/page")).last.status == "updated"
    assert "Gruß" in (await pipeline.texts(name))[0]


async def test_validators_are_believed_only_while_the_index_holds_the_version(
    pipeline: Pipeline, website: Website
) -> None:
    url = f"{website.url}/page"
    website.pages["/page"] = a_page("Page")._replace(headers=("content-type: text/html", TAGGED))
    entry = await send(pipeline, url)
    await pipeline.send(DocumentSubmitted(source="url", path=url, deleted=True))

    again = await send(pipeline, url)
    renamed = await send(pipeline, url, title="Another title")
    unchanged = await send(pipeline, url, title="Another title")

    assert entry.accepted.validators is not None
    assert [each.last.status for each in (again, renamed, unchanged)] == ["created", "updated", "unchanged"]
    assert ["if-none-match" in sent for sent in website.sent if "Sluice" in sent["user-agent"]][-3:] == [
        False,
        False,
        True,
    ]


async def test_the_same_page_under_another_etag_is_unchanged_and_asked_for_by_that_one(
    pipeline: Pipeline, website: Website
) -> None:
    url = f"{website.url}/page"

    async def sent(etag: str) -> tuple[Entry, str | None]:
        website.pages["/page"] = a_page("Page")._replace(headers=("content-type: text/html", f'etag: "{etag}"'))
        entry = await send(pipeline, url)
        return entry, website.sent[-1].get("if-none-match")

    (created, _), (unchanged, asked), (again, asked_again) = [await sent(etag) for etag in ("v1", "v2", "v2")]

    assert [each.last.status for each in (created, unchanged, again)] == ["created", "unchanged", "unchanged"]
    assert (asked, asked_again) == ('"v1"', '"v2"')
    assert unchanged.accepted.version == again.accepted.version == created.accepted.version


NOT_WANTED = '<meta name="Robots" content="NOINDEX">'


async def test_a_crawl_leaves_out_what_asks_for_it_and_says_so(pipeline: Pipeline, website: Website) -> None:
    def with_head(page: Answer, head: str) -> Answer:
        return page._replace(body=page.body.replace(b"<head>", b"<head>" + head.encode()))

    def with_header(page: Answer, said: str) -> Answer:
        return page._replace(headers=(*page.headers, f"x-robots-tag: {said}"))

    website.pages |= {
        # named by somebody, so it comes; its links are followed
        "/": with_head(a_page("Start", "/meta", "/header", "/other", "/list", "/end"), NOT_WANTED),
        "/meta": with_head(a_page("Meta"), NOT_WANTED),
        "/header": with_header(a_page("Header"), "Sluice: none"),
        "/other": with_header(a_page("Other"), "otherbot: noindex"),
        "/list": with_head(a_page("List", "/deep"), NOT_WANTED),
        "/end": with_header(a_page("End", "/hidden"), "nofollow"),
        "/deep": a_page("Deep"),
    }
    pages = {path: f"{website.url}{path}" for path in website.pages}

    await send(pipeline, pages["/"], crawl=Crawl(depth=2))
    ends = await ended(pipeline, *pages.values())

    failed = {path for path, url in pages.items() if ends[url] == "failed"}
    assert failed == {"/meta", "/header", "/list"}
    for path in failed:
        entry = await entry_of(pipeline, pages[path])
        assert entry is not None
        assert (entry.last.code, "asks robots not to index it" in (entry.last.error or "")) == ("noindex", True)
    assert "/hidden" not in website.asked
    assert (await send(pipeline, pages["/meta"])).last.status == "created", "now somebody has named it"


async def test_a_crawl_brings_each_page_of_its_host_once_and_ends(pipeline: Pipeline, website: Website) -> None:
    other = "http://127.0.0.2:9"
    website.pages |= {
        "/": a_page("Start", "/a", "b/", "#part", "/", f"{other}/x", "mailto:a@b.example", "/logo.png", "javascript:0"),
        "/a": a_page("A", "/", "/a", "/b/", "/deep", f"{website.url}/b/#again"),
        "/b/": a_page("B", "..", "/a", "/gone"),
        "/deep": a_page("Deep", "/deeper"),
        "/deeper": a_page("Deeper"),
    }
    pages = [f"{website.url}{path}" for path in ("/", "/a", "/b/", "/deep", "/gone")]

    await send(pipeline, pages[0], tags=("crawled",), crawl=Crawl(depth=2))
    ends = await ended(pipeline, *pages)

    assert ends == dict.fromkeys(pages, "created") | {pages[-1]: "failed"}
    deep = await entry_of(pipeline, pages[3])
    assert deep is not None
    assert deep.tags == ("crawled",)
    assert await entry_of(pipeline, f"{website.url}/deeper") is None
    assert set(website.asked) == {"/robots.txt", "/", "/a", "/b/", "/deep", "/gone"}
    assert set(await submitted(pipeline, website)) == set(pages)


@CI_ONLY
async def test_a_crawl_brings_no_more_pages_than_it_may(pipeline: Pipeline, website: Website) -> None:
    website.pages["/"] = a_page("Start", *(f"/p{n}" for n in range(40)))
    website.pages |= {f"/p{n}": a_page(f"P{n}", *(f"/p{n}-{m}" for m in range(40))) for n in range(40)}

    await send(pipeline, f"{website.url}/", crawl=Crawl(depth=3, pages=12))
    await ended(pipeline, *(f"{website.url}/p{n}" for n in range(12)))

    assert len(set(await submitted(pipeline, website))) == 1 + 12


async def test_an_unchanged_page_s_crawl_goes_on(pipeline: Pipeline, website: Website) -> None:
    website.pages |= {"/": a_page("Start", "/a")._replace(headers=("content-type: text/html", TAGGED))}
    await send(pipeline, f"{website.url}/", crawl=Crawl(depth=1))
    assert await ended(pipeline, f"{website.url}/a") == {f"{website.url}/a": "failed"}
    website.pages["/a"] = a_page("A")

    start = await send(pipeline, f"{website.url}/", crawl=Crawl(depth=1))

    assert start.last.status == "unchanged"
    await ended_as(pipeline, f"{website.url}/a", "created")


@CI_ONLY
async def test_a_sitemap_brings_its_pages(pipeline: Pipeline, website: Website) -> None:
    listed = "".join(f"<url><loc>{website.url}/p{n}</loc></url>" for n in range(3))
    website.pages["/map.xml"] = Answer(f"<urlset>{listed}</urlset>".encode(), headers=("content-type: text/xml",))
    website.pages["/robots.txt"] = Answer(f"Sitemap: {website.url}/map.xml".encode())
    website.pages |= {"/": a_page("Start")} | {f"/p{n}": a_page(f"P{n}", "/linked") for n in range(3)}
    pages = [f"{website.url}/p{n}" for n in range(3)]

    await send(pipeline, f"{website.url}/", crawl=Crawl(sitemap=True))
    first = await ended(pipeline, *pages)
    itself = await send(pipeline, f"{website.url}/map.xml", crawl=Crawl(sitemap=True))

    assert first == dict.fromkeys(pages, "created")
    assert (await pipeline.texts(itself.document_id))[0].endswith("lists 3 pages and 0 sitemaps.")
    assert "/linked" not in website.asked


@CI_ONLY
async def test_a_page_that_moved_crawls_where_it_went(pipeline: Pipeline, website: Website) -> None:
    async with loopback.running(Website({"/": a_page("There", "/a"), "/a": a_page("A")})) as there:
        website.pages["/"] = to(there.url)

        await send(pipeline, f"{website.url}/", crawl=Crawl(depth=1))

        assert await ended(pipeline, f"{there.url}/a") == {f"{there.url}/a": "created"}
