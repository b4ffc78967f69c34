"""Fetches pages by HTTP. Follows redirects itself, limits the tries, and spends one time budget per page."""

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from io import BytesIO
from typing import Final, NamedTuple

import httpx
import msgspec
import structlog

from services.ingest_worker.fetch import robots
from services.ingest_worker.fetch.body import codings_of, decoded
from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.fetch.hosts import Busy, Hosts
from services.ingest_worker.fetch.robots import Robots
from shared.contracts import Validators
from shared.errors import Rejected
from shared.fair_queue import FairTurns
from shared.inputs.urls import authority, canonical, origin
from shared.log.consume import stepped_aside
from shared.log.failure import Backoff
from shared.runtime.body_budget import MemoryBudget
from shared.settings import Settings
from shared.times import http_date, seconds_of
from shared.version import VERSION

log = structlog.get_logger(__name__)

MOST_REDIRECTS: Final = 5
TRIES: Final = 3
AT_ONCE: Final = 32  # pages of one process, with their sites' robots.txt and sitemaps
AT_ONCE_PER_TENANT: Final = 12  # of these, so that pages of others are fetched meanwhile
_TURN_S: Final = 15.0  # longest wait for the tenant's turn, where others have to wait, too
MOST_SITEMAPS: Final = 20  # files read per site
_FREE_BYTES: Final = 256 * 1024  # of a body, before it must take from the memory budget
_CRUMB_BYTES: Final = 1024  # smaller pieces cost more to read than they are worth, so they earn no time
_CRUMBS_AT_ONCE: Final = 64
_BYTES_A_SECOND: Final = 200_000  # a server that sends this fast is given more time
_MOST_PATIENCE: Final = 6  # times the usual time budget
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_LATER: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_LIMITING: Final = frozenset({429, 503})
_ACCEPT: Final = "text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, application/pdf;q=0.9, */*;q=0.5"


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page as its server sent it, decompressed."""

    url: str  # after redirects
    body: bytes
    media_type: str | None
    validators: Validators | None
    robots: tuple[str, ...] = ()  # its X-Robots-Tag headers


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for one page and for the requests to one host."""

    most_bytes: int = 25 * 1024 * 1024  # both as sent and decompressed
    patience_s: float = 10.0  # for all tries and redirects of one page
    at_once: int = 2  # requests to one host
    delay_s: float = 0.2  # between two requests to one host
    turn_s: float = 2.0  # longest wait for a host's turn: the caller occupies a place that others could use
    robots: bool = True
    contact: str = ""  # in the User-Agent


class _Asking(NamedTuple):
    """The context of one try to get a page or file."""

    held: AsyncExitStack  # resources held for as long as the page is used
    room: MemoryBudget
    patience: "_Patience"
    known: Validators | None
    obeys: bool
    tenant: str


class _Retryable(Exception):  # noqa: N818 - says what to do
    """The try failed, but another one may succeed."""

    def __init__(self, sentence: str, *, away: str | None, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.away = away  # the origin, if the whole host is at fault and not only this page
        self.retry_after_s = retry_after_s


class _Patience:
    """The time left for one page. Waiting for our own limits, such as a turn or memory, doesn't count."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._extra = seconds * (_MOST_PATIENCE - 1)
        self._scope: asyncio.Timeout | None = None

    @asynccontextmanager
    async def spent(self) -> AsyncIterator[None]:
        """Run the block against the clock. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self.left) as self._scope:
                yield
        finally:
            self.left -= loop.time() - began
            self._scope = None

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Stop the clock for the block, which must be inside `spent`."""
        assert self._scope is not None
        loop = asyncio.get_running_loop()
        began, until = loop.time(), self._scope.when()
        assert until is not None
        self._scope.reschedule(None)
        yield
        paused = loop.time() - began
        self.left += paused
        self._scope.reschedule(until + paused)

    def earn(self, seconds: float) -> None:
        """Add time, up to `_MOST_PATIENCE` times the usual budget in total."""
        seconds = min(seconds, self._extra)
        self._extra -= seconds
        self.left += seconds
        if self._scope is not None and (until := self._scope.when()) is not None:
            self._scope.reschedule(until + seconds)


class Fetcher:
    """Fetches pages. Opens no connection before the first request."""

    def __init__(self, guard: Guard, limits: FetchLimits, *, backoff: Backoff = Backoff(0.5, 4.0)) -> None:  # noqa: B008 - frozen
        """Take the guard that decides which addresses may be fetched, and the limits."""
        self._guard = guard
        self._limits = limits
        self._backoff = backoff
        self._hosts = Hosts(at_once=limits.at_once, delay_s=limits.delay_s, turn_s=limits.turn_s)
        self._robots = Robots(self._robots_txt, limits.turn_s)
        self._turns = FairTurns(AT_ONCE, AT_ONCE_PER_TENANT)
        # A page may have to wait for robots.txt or a sitemap. These have a budget of their own, so they never wait
        # for another page; otherwise the two could deadlock.
        self._pages = MemoryBudget(2 * limits.most_bytes)
        self._files = MemoryBudget(2 * limits.most_bytes)
        self._unpacked = MemoryBudget(limits.most_bytes)  # of what is held as it was sent, too, for that moment
        contact = f" (+{limits.contact})" if limits.contact else ""
        self._agent = f"{robots.PRODUCT}/{VERSION}{contact}"

    async def close(self) -> None:
        """Close all connections."""
        await self._guard.close()

    @asynccontextmanager
    async def page(
        self, url: str, known: Validators | None = None, *, tenant: str
    ) -> AsyncIterator[FetchedPage | None]:
        """Yield the page, or None when it is unchanged since `known`. Its memory is counted until the block ends.

        Raises:
            Rejected: code `url`, `address_refused`, `robots`, `redirects`, `too_large`, `encoding`, `http_404` or
                another status, or `fetch_failed`, which may be temporary.
            Busy: the host's turn, or the tenant's, doesn't come soon enough.
        """
        async with AsyncExitStack() as held:
            async with self._turn(tenant):
                page = await self._tried(canonical(url), held, self._pages, tenant, known=known)
            yield page

    async def listed(self, page: FetchedPage, most: int, *, tenant: str) -> list[str]:
        """Return at most `most` page addresses from the site's sitemaps, or from `page` where it is a sitemap itself.

        Raises what `page` raises; a sitemap that can't be fetched counts as empty.
        """
        async with self._turn(tenant):
            site = authority(page.url)
            found = await asyncio.to_thread(robots.sitemap, page.body)
            if found is None:
                waiting = (await self._robots.rules(page.url, tenant)).sitemaps or [f"{origin(page.url)}/sitemap.xml"]
                pages: dict[str, None] = {}
            else:
                waiting, pages = found.sitemaps, dict.fromkeys(found.pages)
            files = dict.fromkeys(waiting[:MOST_SITEMAPS])
            seen = {page.url}  # sitemaps that list themselves, or that are on another host, are skipped
            while files and len(pages) < most and len(seen) <= MOST_SITEMAPS:
                address = next(iter(files))
                del files[address]
                try:
                    file = canonical(address)
                    if file in seen or authority(file) != site:
                        continue
                    seen.add(file)
                    found = await self._sitemap(file, tenant)
                except Rejected as error:
                    log.warning("sitemap_not_read", reason=error.sentence, code=error.code)
                    continue
                if found is not None:
                    files |= dict.fromkeys(found.sitemaps[:MOST_SITEMAPS])
                    pages |= dict.fromkeys(found.pages)
            return list(pages)[:most]

    @asynccontextmanager
    async def _turn(self, tenant: str) -> AsyncIterator[None]:
        """Run the block, aside, when the tenant has a turn. Raises Busy."""
        with stepped_aside("other pages are fetched first") if self._turns.locked(tenant) else nullcontext() as crowded:
            while not await self._turns.came(tenant, _TURN_S):
                # Each postponed page is written to the log anew: a thousand of them, every 15 s, would be felt.
                if crowded is not None and crowded():
                    raise Busy
        try:
            with stepped_aside(""):
                yield
        finally:
            self._turns.release(tenant)

    async def _sitemap(self, url: str, tenant: str) -> robots.Sitemap | None:
        async with AsyncExitStack() as held:
            got = await self._tried(url, held, self._files, tenant)
            return await asyncio.to_thread(robots.sitemap, got.body) if got is not None else None

    async def _robots_txt(self, url: str, tenant: str) -> bytes | None:
        try:
            async with AsyncExitStack() as held:
                page = await self._tried(url, held, self._files, tenant, obeys=False)
        except Rejected as error:
            if re.fullmatch("http_4..", error.code):
                return None
            raise
        return page.body[: robots.MOST_BYTES] if page is not None else None  # the memory of more isn't counted

    async def _tried(
        self,
        url: str,
        held: AsyncExitStack,
        room: MemoryBudget,
        tenant: str,
        *,
        known: Validators | None = None,
        obeys: bool = True,
    ) -> FetchedPage | None:
        patience = _Patience(self._limits.patience_s)
        for attempt in itertools.count(1):
            try:
                async with AsyncExitStack() as own:
                    page = await self._followed(url, _Asking(own, room, patience, known, obeys, tenant))
                    await held.enter_async_context(own.pop_all())
                    return page
            except _Retryable as fault:
                pause = max(self._backoff.delay(attempt - 1), fault.retry_after_s or 0.0)
                if attempt < TRIES and pause < patience.left:
                    await asyncio.sleep(pause)
                    patience.left -= pause
                    continue
                if fault.away is not None:
                    self._hosts.away(fault.away, tenant, fault.sentence, fault.retry_after_s)
                raise Rejected(f"{fault.sentence} (try {attempt} of {TRIES})", "fetch_failed") from fault
        raise AssertionError  # the loop has no other end

    async def _followed(self, url: str, asking: _Asking) -> FetchedPage | None:
        began = url
        for _ in range(MOST_REDIRECTS + 1):
            delay_s = None
            if asking.obeys and self._limits.robots:
                rules = await self._robots.rules(url, asking.tenant)
                await asyncio.to_thread(rules.check, url)  # 20,000 patterns take 0.3 s
                delay_s = rules.delay_s
            async with self._hosts.turn(origin(url), asking.tenant, delay_s):
                answer = await self._asked(url, asking)
            if not isinstance(answer, str):
                return answer
            url = answer
        raise Rejected(f"{began} redirects more than {MOST_REDIRECTS} times", "redirects")

    async def _asked(self, url: str, asking: _Asking) -> FetchedPage | str | None:
        """Return the page, the address it redirects to, or None when it is unchanged."""
        known = asking.known if asking.known is not None and asking.known.url == url else None
        began = asyncio.get_running_loop().time()
        answered = False
        try:
            async with asking.patience.spent():
                response = await self._guard.send(self._request(url, known), asking.tenant)
                answered = True
                async with contextlib.aclosing(response):
                    answer = await self._read(url, response, asking, unchanged=known is not None)
        except TimeoutError:
            taken = asyncio.get_running_loop().time() - began
            away = None if answered else origin(url)
            raise _Retryable(f"{url} was not fetched within {taken:.0f} s", away=away) from None
        except httpx.TransportError as error:
            words = " ".join(str(error).split())[:200] or type(error).__name__
            away = None if answered else origin(url)
            raise _Retryable(f"{authority(url)} can't be reached: {words}", away=away) from error
        log.info("page_answered", host=authority(url), status=response.status_code)
        return answer

    async def _read(
        self, url: str, response: httpx.Response, asking: _Asking, *, unchanged: bool
    ) -> FetchedPage | str | None:
        status, headers = response.status_code, response.headers
        if status in _REDIRECTS and "location" in headers:
            return canonical(headers["location"], base=url)
        if status == 304 and unchanged:
            return None
        words = f"{url} answered {status} {response.reason_phrase}".rstrip()
        if status in _LATER:
            retry_after_s = seconds_of(headers.get("retry-after", ""))
            asks = f" and asks for a pause of {retry_after_s:.0f} s" if retry_after_s else ""
            away = origin(url) if status in _LIMITING else None
            raise _Retryable(words + asks, away=away, retry_after_s=retry_after_s)
        if status not in (200, 203):
            raise Rejected(words, f"http_{status}")
        body = await self._body(url, response, asking)
        media_type = headers.get("content-type")
        return FetchedPage(
            url=url,
            body=body,
            media_type=media_type,
            validators=_validators(url, headers),
            robots=tuple(headers.get_list("x-robots-tag")),
        )

    async def _body(self, url: str, response: httpx.Response, asking: _Asking) -> bytes:
        """Return the decompressed body. The memory budget covers all that is held of it. Raises Rejected."""
        most = self._limits.most_bytes
        codings = codings_of(response.headers.get("content-encoding", ""))
        length = response.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            raise _too_large(url, most)
        body, roomy, crumbs = BytesIO(), False, 0
        async for part in response.aiter_raw():
            if len(part) >= _CRUMB_BYTES:
                asking.patience.earn(len(part) / _BYTES_A_SECOND)
            else:
                crumbs += 1
                if crumbs % _CRUMBS_AT_ONCE == 0:
                    # One read may hold ten thousand of them, and would block the event loop for a second.
                    await asyncio.sleep(0)
            if body.tell() + len(part) > most:
                raise _too_large(url, most)
            body.write(part)
            if not roomy and body.tell() > (0 if codings else _FREE_BYTES):
                async with asking.patience.paused():
                    await asking.held.enter_async_context(asking.room.taken(most, asking.tenant))
                roomy = True
        if not codings or not body.tell():
            return body.getvalue()  # without a copy
        async with asking.patience.paused(), self._unpacked.taken(most, asking.tenant):
            return await asyncio.to_thread(decoded, body, codings, most)

    def _request(self, url: str, known: Validators | None) -> httpx.Request:
        headers = {"User-Agent": self._agent, "Accept": _ACCEPT, "Accept-Encoding": "gzip, deflate"}
        if known is not None and known.etag is not None:
            headers["If-None-Match"] = known.etag
        if known is not None and known.last_modified is not None:
            headers["If-Modified-Since"] = known.last_modified
        # A timeout for the connect phase alone: a host that doesn't answer must leave time for another try.
        phase_s = max(self._limits.patience_s / 2, 0.1)
        timeouts = httpx.Timeout(self._limits.patience_s, connect=phase_s).as_dict()
        return httpx.Request("GET", url, headers=headers, extensions={"timeout": timeouts})


def fetcher_of(settings: Settings) -> Fetcher:
    """Return the fetcher that the settings describe. Raises ConfigurationError."""
    limits = FetchLimits(
        most_bytes=settings.fetch_max_bytes,
        patience_s=settings.fetch_timeout,
        at_once=settings.fetch_at_once,
        delay_s=settings.fetch_delay,
        robots=settings.fetch_robots == "on",
        contact=settings.fetch_contact,
    )
    return Fetcher(Guard(settings.fetch_allow, connections=AT_ONCE), limits)


def _too_large(url: str, most: int) -> Rejected:
    # Built where it is raised: a local variable beside the body would keep both alive until the next collection.
    return Rejected(f"{url} is larger than {most} bytes", "too_large")


def _validators(url: str, headers: httpx.Headers) -> Validators | None:
    etag, last_modified = headers.get("etag"), headers.get("last-modified")
    # They are sent back as headers, so they must be valid header values.
    etag = etag if etag and len(etag) <= 500 and etag.isascii() and etag.isprintable() else None
    last_modified = last_modified if last_modified and http_date(last_modified) is not None else None
    return Validators(url=url, etag=etag, last_modified=last_modified) if etag or last_modified else None
