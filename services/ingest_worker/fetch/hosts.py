"""Limits per host: how many requests at once, how far apart, and a pause for the tenant whose request it failed."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from shared.errors import Rejected

AWAY_S: Final = 15.0  # pause for a host that didn't answer
MOST_AWAY_S: Final = 60.0  # longest pause that a host can ask for
MOST_DELAY_S: Final = 10.0  # longest Crawl-delay that is obeyed
_MANY = 1000  # hosts remembered


class Busy(Exception):  # noqa: N818 - reads as what the host is
    """The host's turn doesn't come soon enough; try again after other work."""


class _Host:
    def __init__(self, at_once: int) -> None:
        self.places = asyncio.Semaphore(at_once)
        self.users = 0
        self.next = 0.0  # when the next request may begin, by the loop's clock
        self.away: dict[str, tuple[float, str]] = {}  # by tenant: until when, and why


@dataclass(kw_only=True)
class Hosts:
    """The state of each host, as this process knows it; processes don't share it."""

    at_once: int  # requests to a host
    delay_s: float  # between two requests
    turn_s: float  # longest wait for a turn
    _hosts: dict[str, _Host] = field(default_factory=dict)

    @asynccontextmanager
    async def turn(self, origin: str, tenant: str, delay_s: float | None = None) -> AsyncIterator[None]:
        """Run the block when it is the caller's turn; `delay_s` is the host's own Crawl-delay in seconds.

        Raises:
            Busy: the turn doesn't come within `turn_s`.
            Rejected: code `fetch_failed`: the tenant's requests to the host are paused because it failed recently.
        """
        host = self._known(origin)
        loop = asyncio.get_running_loop()
        patience = loop.time() + self.turn_s
        host.users += 1
        try:
            _check_here(host, tenant, loop.time())
            try:
                async with asyncio.timeout_at(patience):
                    await host.places.acquire()
            except TimeoutError:
                raise Busy from None
            try:
                now = loop.time()
                _check_here(host, tenant, now)
                start = max(now, host.next)
                if start > patience:
                    await asyncio.sleep(patience - now)  # else the caller would retry in a busy loop
                    raise Busy
                host.next = start + max(self.delay_s, min(delay_s or 0.0, MOST_DELAY_S))
                await asyncio.sleep(start - now)
                yield
            finally:
                host.places.release()
        finally:
            host.users -= 1

    def away(self, origin: str, tenant: str, reason: str, retry_after_s: float | None) -> None:
        """Pause the tenant's requests to a host that doesn't answer: until the pause ends, `turn` rejects at once.

        Only the tenant's, because the host may answer others: a tenant chooses what it asks the host for.
        """
        now = asyncio.get_running_loop().time()
        host = self._known(origin)
        host.away = {name: pause for name, pause in host.away.items() if pause[0] > now}
        host.away[tenant] = (now + min(max(AWAY_S, retry_after_s or 0.0), MOST_AWAY_S), reason)

    def _known(self, origin: str) -> _Host:
        if origin not in self._hosts:
            if len(self._hosts) >= _MANY:
                now = asyncio.get_running_loop().time()
                self._hosts = {
                    name: host
                    for name, host in self._hosts.items()
                    if host.users or host.next > now or any(until > now for until, _ in host.away.values())
                }
            self._hosts[origin] = _Host(self.at_once)
        return self._hosts[origin]


def _check_here(host: _Host, tenant: str, now: float) -> None:
    until, reason = host.away.get(tenant, (0.0, ""))
    if until > now:
        left = math.ceil(until - now)
        raise Rejected(f"{reason}; requests to this host are paused for another {left} s", "fetch_failed")
