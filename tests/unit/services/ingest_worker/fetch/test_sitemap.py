import pytest

from services.ingest_worker.fetch.sitemap import Sitemap, read


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"<urlset><url><loc> http://a/?x=1&amp;y=2 </loc></url></urlset>", Sitemap(["http://a/?x=1&y=2"], [])),
        (b"<urlset ><url><loc><![CDATA[http://a/]]></loc></url></urlset>", Sitemap(["http://a/"], [])),
        (b"<s:sitemapindex><loc>http://a/1.xml</loc></s:sitemapindex>", Sitemap([], ["http://a/1.xml"])),
        (b"<urlset></urlset>", Sitemap([], [])),
        (b"<html><loc>http://a/</loc></html>", None),
        (b" " * 5000 + b"<urlset>", None),
    ],
)
def test_addresses_are_read_from_a_sitemap_alone(data: bytes, found: Sitemap | None) -> None:
    assert read(data) == found
