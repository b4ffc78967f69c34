import pytest

from services.ingest_worker.fetch.robots import Robots, Sitemap, directives, sitemap
from shared.errors import Rejected


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["NoIndex, nofollow"], {"noindex", "nofollow"}),
        (["none"], {"none", "noindex", "nofollow"}),
        (["otherbot: noindex"], set()),
        (["sluice: noindex"], {"noindex"}),
        (["max-snippet: 5"], {"max-snippet: 5"}),
        ([], set()),
    ],
)
def test_directives_for_others_are_not_ours(lines: list[str], found: set[str]) -> None:
    assert directives(lines) == found


def robots_of(data: bytes | None, asked: list[str]) -> Robots:
    async def get(url: str, _: str) -> bytes | None:
        asked.append(url)
        if data == b"away":
            raise Rejected("http://a is away", "fetch_failed")
        return data

    return Robots(get, turn_s=1.0)


async def test_a_host_is_asked_once_and_its_rules_hold() -> None:
    asked: list[str] = []
    robots = robots_of(b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\nSitemap: http://a/s.xml", asked)

    rules = await robots.rules("http://a/page", "t")
    await robots.rules("http://a/other", "t")

    rules.check("http://a/page")
    with pytest.raises(Rejected, match="forbids it"):
        rules.check("http://a/private/1")
    assert (rules.delay_s, rules.sitemaps) == (2.0, ["http://a/s.xml"])
    assert asked == ["http://a/robots.txt"]


async def test_without_the_file_all_is_allowed_and_while_it_is_away_nothing_is() -> None:
    (await robots_of(None, []).rules("http://a/", "t")).check("http://a/")

    with pytest.raises(Rejected, match="http://a is away"):
        (await robots_of(b"away", []).rules("http://a/", "t")).check("http://a/")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"<urlset><url><loc> http://a/?x=1&amp;y=2 </loc></url></urlset>", Sitemap(["http://a/?x=1&y=2"], [])),
        (b"<urlset ><url><loc><![CDATA[http://a/]]></loc></url></urlset>", Sitemap(["http://a/"], [])),
        (b"<s:sitemapindex><loc>http://a/1.xml</loc></s:sitemapindex>", Sitemap([], ["http://a/1.xml"])),
        (b"<urlset></urlset>", Sitemap([], [])),
        (b"<html><loc>http://a/</loc></html>", None),
        (b" " * 5000 + b"<urlset>", None),
        (b"<urlset><loc> <loc>http://a/</loc><loc></loc></urlset>", Sitemap(["http://a/"], [])),
        (b"<urlset>" + b"<loc> " * 10_000 + b"<loc>http://a/</loc></urlset>", Sitemap([], [])),  # so many are read
    ],
)
def test_addresses_are_read_from_a_sitemap_alone(data: bytes, found: Sitemap | None) -> None:
    assert sitemap(data) == found
