"""What a fetched page brings besides itself: documents of its own host, as submissions of their own. Pure.

Every step can be repeated, and ends: each page found has one level less to go and a share of what the crawl may still
bring, and one that was submitted since the crawl began isn't submitted again.
"""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from shared.contracts import Crawl, DocumentSubmitted, LogPosition
from shared.errors import Rejected
from shared.inputs.urls import authority, canonical

# Links to what nobody reads; what is left out here would end as 'unsupported'.
_MEDIA = re.compile(
    r".*\.(7z|avi|bmp|bz2|css|dmg|eot|exe|gif|gz|ico|iso|jpe?g|js|m4a|map|mov|mp[34]|ogg|png|rar|rss|svg|tar|tgz|tiff?|ttf"
    r"|wav|web[mp]|woff2?|xz|zip)",
    re.IGNORECASE,
)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker allows, whatever is asked for."""

    depth: int = 3
    pages: int = 1000
    robots: bool = True  # False: also what a page asks robots not to do


def begun(asked: Crawl, place: LogPosition, final_url: str, bounds: Bounds) -> Crawl:
    """Return the page's crawl within bounds.

    The first page says which host: where it was in the end, because sites redirect to their own names.
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
    """Return the links in `base` that stay on the crawl's host, in one spelling, each once, in their order."""
    found: dict[str, None] = {}
    for link in links:
        try:
            address = canonical(link, base)
        except Rejected:
            continue  # mailto:, javascript: and what is no address
        if authority(address) == crawl.host and not _MEDIA.fullmatch(urlsplit(address).path):
            found[address] = None
    return list(found)


def submissions(parent: DocumentSubmitted, crawl: Crawl, depths: Mapping[str, int]) -> list[DocumentSubmitted]:
    """Return a submission for each address, as many as the crawl may bring; `depths` says how far each goes on."""
    most = crawl.pages or 0
    taken = list(depths.items())[:most]
    share = (most - len(taken)) // len(taken) if taken else 0
    return [
        msgspec.structs.replace(
            parent,
            path=address,
            url=address,
            crawl=_further(crawl, depth, share),
            media_type=None,
            filename=None,
            title=None,
            description=None,
            hash=None,
        )
        for address, depth in taken
    ]


def _further(crawl: Crawl, depth: int, pages: int) -> Crawl:
    return Crawl(depth=depth if pages else 0, host=crawl.host, since=crawl.since, pages=pages)
