"""Turns the links of a fetched page into submissions of further pages on the same host. Pure.

Every step can be repeated, and a crawl ends: each page found has one level less to go and a share of the pages left,
and a page that was submitted since the crawl began isn't submitted again.
"""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from shared.contracts import Crawl, DocumentSubmitted, LogPosition
from shared.errors import Rejected
from shared.inputs.urls import authority, canonical

# Links to files without text; they would be fetched only to be rejected as 'unsupported'.
_MEDIA = re.compile(
    r"(7z|avi|bmp|bz2|css|dmg|eot|exe|gif|gz|ico|iso|jpe?g|js|m4a|map|mov|mp[34]|ogg|png|rar|rss|svg|tar|tgz|tiff?|ttf"
    r"|wav|web[mp]|woff2?|xz|zip)",
    re.IGNORECASE,
)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's limits, whatever a crawl asks for."""

    depth: int = 3
    pages: int = 1000
    robots: bool = True  # False: ignore the robots directives of pages


def begun(asked: Crawl, place: LogPosition, final_url: str, bounds: Bounds) -> Crawl:
    """Return the page's crawl, limited by `bounds`.

    The first page decides the host: the one after redirects, because sites redirect to their canonical name.
    """
    first = asked.host is None
    return Crawl(
        depth=min(asked.depth, bounds.depth),
        sitemap=asked.sitemap,
        host=authority(final_url) if first else asked.host,
        since=place.time if first else asked.since,
        pages=bounds.pages if asked.pages is None else min(asked.pages, bounds.pages),
    )


def addresses(links: Iterable[str], base: str, crawl: Crawl) -> list[str]:
    """Return the links of the page `base` that stay on the crawl's host: canonical, each once, in their order."""
    found: dict[str, None] = {}
    for link in links:
        try:
            address = canonical(link, base)
        except Rejected:
            continue  # mailto:, javascript: or not a valid address
        if authority(address) == crawl.host and not _MEDIA.fullmatch(urlsplit(address).path.rpartition(".")[2]):
            found[address] = None
    return list(found)


def submissions(parent: DocumentSubmitted, crawl: Crawl, depths: Mapping[str, int]) -> list[DocumentSubmitted]:
    """Return a submission for each address, up to the crawl's limit; `depths` maps an address to its levels left."""
    most = crawl.pages or 0
    taken = list(depths.items())[:most]
    share = (most - len(taken)) // len(taken) if taken else 0
    return [
        msgspec.structs.replace(
            parent,
            path=address,
            url=address,
            crawl=msgspec.structs.replace(crawl, depth=depth if share else 0, sitemap=False, pages=share),
            media_type=None,
            filename=None,
            title=None,
            description=None,
            hash=None,
            callback_url=None,  # it is for the document that was asked for
        )
        for address, depth in taken
    ]
