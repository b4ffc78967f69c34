"""What a page brings besides itself."""

import pytest

from services.ingest_worker import crawl_rules
from services.ingest_worker.crawl_rules import Bounds
from shared.contracts import Crawl, DocumentSubmitted, LogPosition

START = "https://example.org/"
PLACE = LogPosition(partition=1, offset=2, time=3)
BOUNDS = Bounds(depth=3, pages=100)


@pytest.mark.parametrize(
    ("asked", "begun"),
    [
        (Crawl(depth=2), Crawl(depth=2, host="example.org", since=3, pages=100)),
        (Crawl(depth=9, pages=7), Crawl(depth=3, host="example.org", since=3, pages=7)),
        (Crawl(sitemap=True, pages=999), Crawl(sitemap=True, host="example.org", since=3, pages=100)),
        (Crawl(depth=1, host="a.example", since=1, pages=5), Crawl(depth=1, host="a.example", since=1, pages=5)),
    ],
)
def test_a_crawl_begins_within_bounds_and_remembers_where_and_when(asked: Crawl, begun: Crawl) -> None:
    assert crawl_rules.begun(asked, PLACE, START, BOUNDS) == begun


def test_only_pages_of_the_host_are_followed_each_once() -> None:
    links = [
        "a", "/a", "./b/../a#part", "HTTPS://EXAMPLE.org:443/a", "http://example.org/a", "?page=2", "https://other.example/",
        "https://example.org:8443/", "https://www.example.org/", "mailto:me@example.org", "javascript:void(0)", "#top",
        "picture.PNG", "/files/all.zip?x=1", "/files.zip/readme", "https://me@example.org/", "http://[", "", "data:,x",
    ]  # fmt: skip

    found = crawl_rules.addresses(links, START, Crawl(host="example.org"))

    same_page = [START]  # of "#top" and "": whoever asks leaves it out
    assert sorted(found) == sorted(
        [START + "a", "http://example.org/a", START + "?page=2", START + "files.zip/readme", *same_page]
    )


def test_what_is_found_inherits_what_is_said_of_the_whole_and_shares_what_is_left() -> None:
    parent = DocumentSubmitted(
        source="web", path="start", tenant="t", url=START, title="Start", tags=("a",), metadata={"k": 1}, hash="h"
    )
    begun = Crawl(depth=2, host="example.org", since=3, pages=10)

    found = crawl_rules.submissions(parent, begun, {f"{START}{n}": 1 for n in range(3)} | {f"{START}leaf": 0})

    assert [each.path for each in found] == [each.url for each in found] == [f"{START}{n}" for n in (0, 1, 2, "leaf")]
    goes_on = Crawl(depth=1, host="example.org", since=3, pages=1)  # (10 - 4) // 4
    leaf = Crawl(depth=0, host="example.org", since=3, pages=1)
    assert [each.crawl for each in found] == [goes_on, goes_on, goes_on, leaf]
    assert [each.leads_on for each in found] == [True, True, True, False]
    assert all(each.found for each in found)
    assert not parent.found
    assert {(each.source, each.tenant, each.title, each.tags, each.hash) for each in found} == {
        ("web", "t", None, ("a",), None)
    }


@pytest.mark.parametrize("links", [1, 2, 5, 50])
def test_a_crawl_brings_no_more_pages_than_it_may_whatever_each_page_links_to(links: int) -> None:
    def brought(begun: Crawl, level: int) -> int:
        parent = DocumentSubmitted(source="web", path="p", url=START)
        found = crawl_rules.submissions(parent, begun, {f"{START}{level}-{n}": begun.depth - 1 for n in range(links)})
        return len(found) + sum(brought(each.crawl, level + 1) for each in found if each.crawl and each.leads_on)

    assert 1 <= brought(Crawl(depth=6, host="example.org", pages=100), 0) <= 100
