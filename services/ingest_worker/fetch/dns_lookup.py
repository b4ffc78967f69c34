"""Looks up host names that callers chose, in threads of their own.

A lookup can't be stopped: with a name server that doesn't answer, it takes up to a minute. In the event loop's own
pool, a few such names would hold up everything else that runs there.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any, Final

from services.ingest_worker.fetch.hosts import Busy
from shared.fair_queue import FairTurns

Lookup = Callable[..., Iterable[tuple[Any, ...]]]  # as socket.getaddrinfo

AT_ONCE: Final = 64  # threads
AT_ONCE_PER_TENANT: Final = 8
_TURN_S: Final = 2.0  # longest wait for a thread


class Names:
    """Looks up the addresses of names, for each tenant a few at once, whether their name servers answer or not."""

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        self._lookup = lookup
        self._turns = FairTurns(AT_ONCE, AT_ONCE_PER_TENANT)
        self._asked: dict[tuple[str, int, str], Future[list[tuple[Any, ...]]]] = {}  # lookups under way

    async def addresses(self, host: str, port: int, tenant: str) -> list[str]:
        """Return the name's addresses, each once. A cancelled caller leaves its thread, which still counts, behind.

        The next try for the name waits for that thread: with another one, dead names would hold up each other for ever.

        Raises:
            Busy: the tenant's lookups have all threads that it may use.
            OSError: there is no such host. ValueError: the host is no name.
        """
        if (found := self._asked.get((host, port, tenant))) is None:
            if not await self._turns.came(tenant, _TURN_S):
                raise Busy
            if (found := self._asked.get((host, port, tenant))) is None:
                found = self._begun(host, port, tenant)
            else:
                self._turns.release(tenant)
        return list(dict.fromkeys(row[4][0] for row in await asyncio.wrap_future(found)))

    def _begun(self, host: str, port: int, tenant: str) -> Future[list[tuple[Any, ...]]]:
        """Return the rows that a thread will find; it has the tenant's turn."""
        loop, found = asyncio.get_running_loop(), Future[list[tuple[Any, ...]]]()
        found.set_running_or_notify_cancel()  # so that a caller who leaves can't cancel it

        def look() -> None:
            try:
                found.set_result(list(self._lookup(host, port, 0, socket.SOCK_STREAM)))
            except Exception as error:  # noqa: BLE001 - the caller gets it
                found.set_exception(error)
            with suppress(RuntimeError):  # the loop ended first
                loop.call_soon_threadsafe(ended)

        def ended() -> None:
            del self._asked[host, port, tenant]
            self._turns.release(tenant)

        self._asked[host, port, tenant] = found
        # A daemon, so that the process can end before its name servers answer.
        Thread(target=look, name="name-lookup", daemon=True).start()
        return found
