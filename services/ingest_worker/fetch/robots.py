"""What a site tells robots: robots.txt (RFC 9309, parsed by protego), directives of pages, sitemaps (sitemaps.org)."""

import asyncio
import html
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from protego import Protego

from services.ingest_worker.fetch.hosts import Busy
from shared.errors import Rejected
from shared.inputs.urls import origin

PRODUCT: Final = "Sluice"  # our product token in robots.txt
MOST_BYTES: Final = 500 * 1024  # as the RFC asks
_MOST_RULES: Final = 500_000  # lines times groups: an upper bound of the rules that the parser keeps
_FRESH_S: Final = 3600.0
_FAILED_S: Final = 15.0
_MANY: Final = 1000
_OF_AGENT: Final = re.compile(r"\s*+([\w-]++)\s*+:(.*)", re.DOTALL)
_WITH_VALUE: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


def directives(lines: Iterable[str]) -> frozenset[str]:
    """Return the directives for us in X-Robots-Tag headers and robots meta tags, such as `noindex`, in lower case.

    A header may address one robot: `otherbot: noindex`. `none` means noindex and nofollow.
    """
    found: set[str] = set()
    for line in lines:
        named = _OF_AGENT.fullmatch(line)
        if named is not None and named[1].lower() not in _WITH_VALUE:
            if named[1].lower() != PRODUCT.lower():
                continue
            line = named[2]  # noqa: PLW2901 - the directives after the robot's name
        found.update(word.strip().lower() for word in line.split(","))
    return frozenset(found | {"noindex", "nofollow"} if "none" in found else found)


class Rules(msgspec.Struct, frozen=True):
    """A host's robots.txt, parsed."""

    parsed: Protego | None = None  # None: the host has no robots.txt, so everything is allowed
    refused: Rejected | None = None  # why robots.txt can't be fetched now, so that no page may be

    def check(self, url: str) -> None:
        """Raise Rejected with code `robots` if the page must not be fetched, or the error that hid robots.txt."""
        if self.refused is not None:
            raise Rejected(self.refused.sentence, self.refused.code)
        if self.parsed is not None and not self.parsed.can_fetch(url, PRODUCT):
            raise Rejected(f"{url} is not fetched: the host's robots.txt forbids it", "robots")

    @property
    def delay_s(self) -> float | None:
        """Return the Crawl-delay for us, in seconds; None where there is none."""
        return self.parsed.crawl_delay(PRODUCT) if self.parsed is not None else None

    @property
    def sitemaps(self) -> list[str]:
        """Return the addresses of the host's sitemaps, exactly as robots.txt lists them."""
        return list(self.parsed.sitemaps) if self.parsed is not None else []


@dataclass
class Robots:
    """Fetches each host's robots.txt at most once an hour."""

    get: Callable[[str, str], Awaitable[bytes | None]]  # fetches a tenant's file, its first `MOST_BYTES`; None: 4xx
    turn_s: float  # longest wait for it

    def __post_init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, Rules]] = OrderedDict()
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # hosts being asked now

    async def rules(self, url: str, tenant: str) -> Rules:
        """Return the rules of the page's host; the tenant's share pays for fetching them.

        Raises:
            Busy: the rules aren't cached, and the host's turn doesn't come soon enough.
        """
        host = origin(url)
        if (rules := self._fresh(host)) is not None:
            return rules
        lock = self._asking.setdefault(host, asyncio.Lock())
        try:
            async with asyncio.timeout(self.turn_s):
                await lock.acquire()
        except TimeoutError:
            raise Busy from None
        try:
            return self._fresh(host) or await self._ask(host, tenant)
        finally:
            lock.release()

    async def _ask(self, host: str, tenant: str) -> Rules:
        kept_s = _FRESH_S
        try:
            data = await self.get(f"{host}/robots.txt", tenant)
            rules = Rules() if data is None else Rules(await asyncio.to_thread(_parsed, data))
        except Rejected as error:
            # While the host can't deliver robots.txt, everything counts as forbidden (RFC 9309, 2.3.1.4).
            rules, kept_s = Rules(refused=error), _FAILED_S
        self._known[host] = (asyncio.get_running_loop().time() + kept_s, rules)
        self._known.move_to_end(host)
        while len(self._known) > _MANY:
            self._known.popitem(last=False)
        return rules

    def _fresh(self, host: str) -> Rules | None:
        until, rules = self._known.get(host, (0.0, None))
        return rules if until > asyncio.get_running_loop().time() else None


def _parsed(data: bytes) -> Protego:
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.splitlines()
    groups = sum("agent" in line.lstrip()[:12].lower() for line in lines)
    if groups * len(lines) > _MOST_RULES:  # the parser stores a rule once for each agent of its group
        raise Rejected(f"robots.txt has {groups} groups and {len(lines)} lines, which is too much to parse", "robots")
    return Protego.parse(text)


# Sitemaps

_ROOT_WITHIN: Final = 4096  # bytes in which the root element must begin
_ROOT: Final = re.compile(rb"<(?:[\w-]{1,32}:)?(urlset|sitemapindex)[\s>]")
_LOCATION: Final = re.compile(rb"<loc>\s{0,100}(?:<!\[CDATA\[\s{0,100})?([^<>\s]{1,2000})(?=[<>\s])")
_MOST_LISTED: Final = 10_000  # addresses of one file, with those that are none


class Sitemap(msgspec.Struct, frozen=True):
    """The addresses in a sitemap, in the file's order."""

    pages: list[str]
    sitemaps: list[str]  # of a sitemap index


def sitemap(data: bytes) -> Sitemap | None:
    """Return the addresses that the file lists, or None when it is no sitemap.

    It is read without an XML parser: no entities, no nesting, no bombs. The largest take 0.3 s, so call it in a thread.
    """
    root = _ROOT.search(data, 0, _ROOT_WITHIN)
    if root is None:
        return None
    listed, at = list[str](), 0
    for _ in range(_MOST_LISTED):  # one by one: a search for the next address would hold Python's lock for seconds
        if (at := data.find(b"<loc>", at)) < 0:
            break
        if (found := _LOCATION.match(data, at)) is not None:
            listed.append(html.unescape(found[1].removesuffix(b"]]").decode("utf-8", "replace")))
        at += 1
    return Sitemap(listed, []) if root[1] == b"urlset" else Sitemap([], listed)
