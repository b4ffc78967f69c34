"""The fetcher against a website on loopback."""

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from typing import Any

import cramjam
import pytest

from services.ingest_worker.fetch import Busy, FetchedPage, Fetcher, FetchLimits, robots
from services.ingest_worker.fetch.guard import Guard
from shared.contracts import Validators
from shared.errors import Rejected
from shared.log.failure import Backoff
from tests.servers.loopback import Connection, running
from tests.servers.ports import free_port
from tests.servers.website import Answer, Website, a_page, to

HERONS = b"<html><body><p>Herons nest in the old willow behind the boathouse.</p></body></html>"


@pytest.fixture
async def website() -> AsyncIterator[Website]:
    async with running(Website({"/": Answer(HERONS)})) as website:
        yield website


_made: list[Fetcher] = []


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    yield
    while _made:
        await _made.pop().close()


def a_fetcher(**limits: Any) -> Fetcher:
    usual = {"patience_s": 30.0, "at_once": 16, "delay_s": 0.0, "turn_s": 30.0, "robots": False}
    _made.append(Fetcher(Guard("127.0.0.0/8"), FetchLimits(**usual | limits), backoff=Backoff(0, 0)))
    return _made[-1]


async def got(fetcher: Fetcher, url: str, known: Validators | None = None) -> FetchedPage | None:
    async with fetcher.page(url, known, tenant="t") as page:
        return page


async def refusal(fetcher: Fetcher, url: str) -> Rejected:
    with pytest.raises(Rejected) as refused:
        await got(fetcher, url)
    return refused.value


async def test_a_page_comes_with_its_type_and_validators(website: Website) -> None:
    headers = (
        "content-type: text/html; charset=latin-1",
        'etag: W/"1"',
        "last-modified: Sat, 01 Nov 2025 10:00:00 GMT",
    )
    website.pages["/"] = Answer(HERONS, headers=headers)

    page = await got(a_fetcher(contact="mailto:me@example.org"), website.url)

    url = f"{website.url}/"
    validators = Validators(url=url, etag='W/"1"', last_modified="Sat, 01 Nov 2025 10:00:00 GMT")
    assert page == FetchedPage(url=url, body=HERONS, media_type="text/html; charset=latin-1", validators=validators)
    assert re.fullmatch(r"Sluice/[\d.]+ \(\+mailto:me@example\.org\)", website.headers["user-agent"])
    assert website.headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("header", ['etag: "v1"', "last-modified: Sat, 01 Nov 2025 10:00:00 GMT"])
async def test_a_page_that_has_not_changed_is_not_sent_again(website: Website, header: str) -> None:
    website.pages["/moved"] = to("/")
    website.pages["/"] = Answer(HERONS, headers=(header,))
    fetcher = a_fetcher()
    first = await got(fetcher, f"{website.url}/moved")
    assert first is not None

    assert await got(fetcher, f"{website.url}/moved", first.validators) is None
    website.pages["/"] = Answer(HERONS, headers=('etag: "v2"',))
    assert await got(fetcher, f"{website.url}/moved", first.validators) is not None


async def test_validators_are_not_sent_to_another_page(website: Website) -> None:
    website.pages["/a"] = Answer(HERONS, headers=('etag: "same"',))
    website.pages["/b"] = Answer(HERONS, headers=('etag: "same"',))
    fetcher = a_fetcher()
    first = await got(fetcher, f"{website.url}/a")
    assert first is not None

    assert await got(fetcher, f"{website.url}/b", first.validators) is not None


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("gzip", gzip.compress(HERONS)),
        ("GZip", gzip.compress(HERONS[:20]) + gzip.compress(HERONS[20:])),
        ("deflate", bytes(cramjam.zlib.compress(HERONS))),
        ("deflate", bytes(cramjam.deflate.compress(HERONS))),
        ("br", bytes(cramjam.brotli.compress(HERONS))),
        ("zstd", bytes(cramjam.zstd.compress(HERONS))),
        ("gzip, gzip", gzip.compress(gzip.compress(HERONS))),
        ("identity", HERONS),
    ],
    # The packed bytes would be the names of the tests, and they hold the time.
    ids=["gzip", "gzip-members", "deflate", "deflate-bare", "br", "zstd", "gzip-gzip", "identity"],
)
async def test_what_was_packed_for_the_way_is_unpacked(website: Website, coding: str, data: bytes) -> None:
    website.pages["/"] = Answer(data, headers=(f"content-encoding: {coding}",))

    page = await got(a_fetcher(), website.url)

    assert page is not None
    assert page.body == HERONS


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(b"gone", 404), "http_404"),
        (Answer(b"gone", 410), "http_410"),
        (Answer(b"no", 401), "http_401"),
        (Answer(b"no", 403), "http_403"),
        (Answer(b"", 204), "http_204"),
        (Answer(b"", 304), "http_304"),
        (Answer(b"", 300), "http_300"),
        (Answer(b"", 302, ()), "http_302"),
        (Answer(b"x" * 2000), "too_large"),
        (Answer(gzip.compress(b"x" * 2000), headers=("content-encoding: gzip",)), "too_large"),
        (Answer(b"x" * 50, headers=("content-encoding: gzip",)), "encoding"),
        (Answer(gzip.compress(HERONS)[:-9], headers=("content-encoding: gzip",)), "encoding"),
        (Answer(HERONS, headers=("content-encoding: gzip, gzip, gzip",)), "encoding"),
        (Answer(HERONS, headers=("content-encoding: compress",)), "encoding"),
        (to("/"), "redirects"),
        (to("http://["), "url"),
        (to("mailto:a@b"), "url"),
    ],
)
async def test_what_cannot_be_taken_says_why_and_is_not_asked_for_again(
    website: Website, answer: Answer, code: str
) -> None:
    website.pages["/"] = answer

    refused = await refusal(a_fetcher(most_bytes=1024), website.url)

    assert refused.code == code
    assert len(website.requests) == (6 if code == "redirects" else 1)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_what_may_go_away_is_asked_for_again_three_times(website: Website, status: int) -> None:
    website.pages["/"] = [Answer(b"", status), Answer(b"", status), Answer(HERONS)]

    page = await got(a_fetcher(), website.url)
    website.pages["/"] = Answer(b"", status)
    refused = await refusal(a_fetcher(), website.url)

    assert page is not None
    assert refused.code == "fetch_failed"
    assert f"answered {status}" in refused.sentence
    assert len(website.requests) == 3 + 3


async def test_a_host_that_is_down_is_left_alone_for_a_while() -> None:
    fetcher = a_fetcher()
    url = f"http://127.0.0.1:{free_port()}/"
    first = await refusal(fetcher, url)
    second = await refusal(fetcher, f"{url}other")

    assert first.code == second.code == "fetch_failed"
    assert "can't be reached" in first.sentence
    assert "requests to this host are paused for another" in second.sentence


async def test_a_host_that_asks_for_time_gets_it_within_our_patience(website: Website) -> None:
    website.pages["/"] = [Answer(b"", 429, ("retry-after: 1",)), Answer(HERONS)]
    website.pages["/long"] = Answer(b"", 503, ("retry-after: 3600",))
    fetcher = a_fetcher()
    loop = asyncio.get_running_loop()
    began = loop.time()

    assert await got(fetcher, website.url) is not None
    assert loop.time() - began >= 1
    refused = await refusal(fetcher, f"{website.url}/long")

    assert "asks for a pause of 3600 s" in refused.sentence
    assert website.asked.count("/long") == 1
    assert "requests to this host are paused for another" in (await refusal(fetcher, website.url)).sentence


async def test_a_page_that_is_broken_keeps_no_other_from_its_host(website: Website) -> None:
    website.pages["/broken"] = Answer(b"", 500)
    fetcher = a_fetcher()

    await refusal(fetcher, f"{website.url}/broken")

    assert await got(fetcher, website.url) is not None


async def test_what_takes_too_long_is_given_up(website: Website) -> None:
    async def trickle(connection: Connection) -> None:
        await connection.begin("text/html")
        for _ in range(1000):
            await connection.chunk(b"x")
            await asyncio.sleep(0.05)

    website.pages["/slow"] = trickle

    refused = await refusal(a_fetcher(patience_s=1), f"{website.url}/slow")

    assert refused.code == "fetch_failed"


async def test_robots_txt_is_asked_once_and_honoured(website: Website) -> None:
    rules = b"User-agent: *\nDisallow: /\n\nUser-agent: sluice\nDisallow: /private\nAllow: /private/open\n"
    website.pages |= {"/robots.txt": Answer(rules), "/private/open": Answer(HERONS), "/private": Answer(HERONS)}
    website.pages["/leads"] = to("/private")
    fetcher = a_fetcher(robots=True)

    pages = await asyncio.gather(*(got(fetcher, f"{website.url}{path}") for path in ("/", "/private/open")))
    refused = [await refusal(fetcher, f"{website.url}{path}") for path in ("/private", "/leads")]

    assert all(pages)
    assert [each.code for each in refused] == ["robots", "robots"]
    assert website.asked.count("/robots.txt") == 1
    assert "/private" not in website.asked
    assert await got(a_fetcher(), f"{website.url}/private"), "a setting switches it off"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(b"", 404), None),
        (Answer(b"", 403), None),
        (Answer(b"\xff\xfe nonsense \x00" * 100), None),
        (to("/elsewhere.txt"), "robots"),
        (Answer(b"", 500), "fetch_failed"),
        (to("/robots.txt"), "redirects"),
        (Answer(b"".join(b"User-agent:a%d\n" % n for n in range(2000)) + b"Allow:/b\n" * 2000), "robots"),
    ],
)
async def test_what_stands_for_robots_txt(website: Website, answer: Answer, code: str | None) -> None:
    website.pages |= {"/robots.txt": answer, "/elsewhere.txt": Answer(b"User-agent: *\nDisallow: /")}
    fetcher = a_fetcher(robots=True)

    if code is None:
        assert await got(fetcher, website.url) is not None
    else:
        assert (await refusal(fetcher, website.url)).code == code
        assert "/" not in website.asked


async def test_a_host_sees_no_more_requests_at_once_than_are_polite(website: Website) -> None:
    async def slow(connection: Connection) -> None:
        await asyncio.sleep(0.05)
        await connection.send(200, HERONS)

    website.pages["/"] = slow
    fetcher = a_fetcher(at_once=2)

    await asyncio.gather(*(got(fetcher, website.url) for _ in range(8)))

    assert website.most_at_once <= 2


async def test_who_would_wait_long_for_a_host_is_sent_away_to_come_again(website: Website) -> None:
    website.pages["/robots.txt"] = Answer(b"User-agent: *\nCrawl-delay: 3600")
    fetcher = a_fetcher(robots=True, turn_s=0.1)

    assert await got(fetcher, website.url) is not None
    with pytest.raises(Busy):
        await got(fetcher, website.url)


async def test_requests_to_a_host_keep_their_distance(website: Website) -> None:
    fetcher = a_fetcher(delay_s=0.2)
    loop = asyncio.get_running_loop()
    began = loop.time()

    await asyncio.gather(*(got(fetcher, website.url) for _ in range(4)))

    assert loop.time() - began >= 0.6


async def test_large_pages_wait_for_room_and_all_come(website: Website) -> None:
    website.pages["/"] = Answer(b"x" * 600_000)
    fetcher = a_fetcher(most_bytes=700_000)

    pages = await asyncio.gather(*(got(fetcher, website.url) for _ in range(12)))

    assert [page and len(page.body) for page in pages] == [600_000] * 12


async def listed(fetcher: Fetcher, url: str, most: int = 100) -> list[str]:
    page = await got(fetcher, url)
    assert page is not None
    return await fetcher.listed(page, most, tenant="t")


def a_sitemap(*addresses: str, kind: str = "urlset") -> Answer:
    listed = "".join(f"<x><loc> {address} </loc><lastmod>2026</lastmod></x>" for address in addresses)
    xml = f'<?xml version="1.0"?><{kind} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{listed}</{kind}>'
    return Answer(xml.encode(), headers=("content-type: application/xml",))


async def test_the_pages_of_a_site_are_those_its_sitemaps_list(website: Website) -> None:
    url = website.url
    website.pages |= {
        "/robots.txt": Answer(f"Sitemap: {url}/index.xml\nSitemap: http://elsewhere.example/map.xml".encode()),
        "/index.xml": a_sitemap(
            f"{url}/index.xml", f"{url}/one.xml", f"{url}/gone.xml", f"{url}/two.xml.gz", kind="sitemapindex"
        ),
        "/one.xml": a_sitemap(f"{url}/a?b=1&amp;c=2", f"<![CDATA[{url}/b]]>"),
        "/two.xml.gz": a_sitemap(f"{url}/c", f"{url}/a?b=1&amp;c=2"),
    }

    assert await listed(a_fetcher(), url) == [f"{url}/a?b=1&c=2", f"{url}/b", f"{url}/c"]
    assert await listed(a_fetcher(), f"{url}/one.xml") == [f"{url}/a?b=1&c=2", f"{url}/b"]
    assert await listed(a_fetcher(), url, most=2) == [f"{url}/a?b=1&c=2", f"{url}/b"]


async def test_a_site_that_says_nothing_has_its_sitemap_at_the_usual_place(website: Website) -> None:
    website.pages["/sitemap.xml"] = a_sitemap(f"{website.url}/a")

    assert await listed(a_fetcher(), website.url) == [f"{website.url}/a"]
    website.pages["/sitemap.xml"] = a_page("not a sitemap")
    assert await listed(a_fetcher(), website.url) == []


async def test_sitemaps_without_end_end(website: Website) -> None:
    async def more(connection: Connection) -> None:
        await connection.send(200, answer.body)

    names = [f"{website.url}/{n}.xml" for n in range(50)]
    answer = a_sitemap(*names, kind="sitemapindex")
    website.pages |= {"/sitemap.xml": answer} | {f"/{n}.xml": more for n in range(50)}

    assert await listed(a_fetcher(), website.url) == []
    assert len([path for path in website.asked if path.endswith(".xml")]) <= 20


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ([], set()),
        (["NoIndex , nofollow"], {"noindex", "nofollow"}),
        (["none"], {"none", "noindex", "nofollow"}),
        (["otherbot: noindex", "Sluice: nofollow"], {"nofollow"}),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST", "noarchive"], {"noarchive"}),
        (["max-snippet:-1, noindex"], {"noindex"}),
    ],
)
async def test_what_a_page_asks_of_robots_counts_where_we_are_meant(
    website: Website, said: list[str], asked: set[str]
) -> None:
    website.pages["/"] = Answer(HERONS, headers=tuple(f"x-robots-tag: {each}" for each in said))

    page = await got(a_fetcher(), website.url)

    assert page is not None
    known = {"noindex", "nofollow", "none", "noarchive"}
    assert robots.directives(page.robots) & known == asked
