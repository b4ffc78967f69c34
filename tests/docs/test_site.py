"""The site (`make site`) has every page, in one place each; a link in it leads to a page or is only words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.docs import site


def places(nav: Any) -> Iterator[str]:
    """Yield the pages of a part of the navigation."""
    for each in nav:
        if isinstance(each, str):
            yield each
        else:
            [below] = each.values()
            yield from places([below] if isinstance(below, str) else below)


def test_every_page_has_one_place_two_clicks_from_the_start() -> None:
    nav = site.configuration()["nav"]

    assert sorted(places(nav)) == sorted(map(str, site.pages()))
    assert [name for tab in nav for name in tab] == ["Try it", "n8n", "Connect a client", "Operate it", "Change it"]


def test_a_link_to_code_is_its_words_and_one_to_a_page_stays() -> None:
    page = Path("docs/operations.md")
    text = site.as_page(page, {Path("deploy/monitoring/README.md")})

    assert "[alerts](../deploy/monitoring/README.md)" in text
    assert "](reindex.md)" not in text
    assert "](../" not in site.as_page(Path("docs/architecture.md"), {*site.pages()})
