"""What a host asks of robots: RFC 9309, read by protego; and what a page does."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from protego import Protego

from services.ingest_worker.fetch.hosts import Busy
from shared.errors import Rejected
from shared.inputs.urls import origin

PRODUCT: Final = "Sluice"  # the token that robots.txt knows us by
MOST_BYTES: Final = 500 * 1024  # as the RFC asks
_MOST_RULES: Final = 500_000  # lines times groups: what the parser may have to keep
_FRESH_S: Final = 3600.0
_FAILED_S: Final = 15.0
_MANY: Final = 1000
_OF_AGENT: Final = re.compile(r"\s*+([\w-]++)\s*+:(.*)", re.DOTALL)
_WITH_VALUE: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


def directives(said: Iterable[str]) -> frozenset[str]:
    """Return what is asked of us in X-Robots-Tag headers and robots meta tags, such as `noindex`, in lower case.

    A header may be for one robot: `otherbot: noindex`. `none` is noindex and nofollow.
    """
    found: set[str] = set()
    for line in said:
        named = _OF_AGENT.fullmatch(line)
        if named is not None and named[1].lower() not in _WITH_VALUE:
            if named[1].lower() != PRODUCT.lower():
                continue
            line = named[2]  # noqa: PLW2901 - the rest of it
        found.update(word.strip().lower() for word in line.split(","))
    return frozenset(found | {"noindex", "nofollow"} if "none" in found else found)


class Rules(msgspec.Struct, frozen=True):
    """A host's robots.txt, read."""

    parsed: Protego | None = None  # None: it asks for nothing
    refused: Rejected | None = None  # it can't be had now, so nothing of the host can

    def check(self, url: str) -> None:
        """Raise Rejected, code `robots`, where the page must not be fetched, or what keeps us from knowing."""
        if self.refused is not None:
            raise Rejected(self.refused.sentence, self.refused.code)
        if self.parsed is not None and not self.parsed.can_fetch(url, PRODUCT):
            raise Rejected(f"{url} must not be fetched: the host's robots.txt forbids it", "robots")

    @property
    def delay_s(self) -> float | None:
        """Return the seconds between two requests that the host asks for."""
        return self.parsed.crawl_delay(PRODUCT) if self.parsed is not None else None

    @property
    def sitemaps(self) -> list[str]:
        """Return the addresses of its sitemaps, as they stand there."""
        return list(self.parsed.sitemaps) if self.parsed is not None else []


class Robots:
    """Reads each host's robots.txt once an hour, however many ask for it."""

    def __init__(self, get: Callable[[str], Awaitable[bytes | None]], turn_s: float) -> None:
        """Take what gets a page's bytes, or None where the host has none (4xx), and how long anybody waits for it."""
        self._get = get
        self._turn_s = turn_s
        self._known: OrderedDict[str, tuple[float, Rules]] = OrderedDict()
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # while somebody asks

    async def rules(self, url: str) -> Rules:
        """Return the rules of the page's host.

        Raises:
            Busy: they aren't known, and the host's turn doesn't come soon.
        """
        host = origin(url)
        if (rules := self._fresh(host)) is not None:
            return rules
        lock = self._asking.setdefault(host, asyncio.Lock())
        try:
            async with asyncio.timeout(self._turn_s):
                await lock.acquire()
        except TimeoutError:
            raise Busy from None
        try:
            return self._fresh(host) or await self._ask(host)
        finally:
            lock.release()

    async def _ask(self, host: str) -> Rules:
        kept_s = _FRESH_S
        try:
            data = await self._get(f"{host}/robots.txt")
            rules = Rules() if data is None else Rules(await asyncio.to_thread(_parsed, data))
        except Rejected as error:
            # Where it can't be had for a fault of the host, everything counts as forbidden (RFC 9309, 2.3.1.4).
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
    text = data[:MOST_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.splitlines()
    groups = sum("agent" in line.lstrip()[:12].lower() for line in lines)
    if groups * len(lines) > _MOST_RULES:  # each rule counts for each agent of its group
        raise Rejected(f"robots.txt has {groups} groups and {len(lines)} lines, too many to be read", "robots")
    return Protego.parse(text)
