"""Rewrites the data files, and says whether a rewrite has begun and ended since an erasure.

An operator's rewrite runs at once. An admin of one tenant can't start one, because it slows down all tenants; if an
admin waits for one, the next hourly upkeep rewrites the files. docs/adr/0009-erasure.md
"""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Final

import msgspec
import structlog

from services.query_api.ops.purge import KeptPart
from shared.errors import Unavailable

log = structlog.get_logger(__name__)

EVERY_S: Final = 3600.0


class ErasureReceipt(msgspec.Struct, frozen=True):
    """The moment of an erasure, as the number of rewrites that a process had begun by then."""

    process: str
    begun: int


class FileRewrites:
    """Rewrites the files of this process's log and store, and counts that. No other process may rewrite them."""

    def __init__(self, rewrite: Callable[[], Awaitable[list[KeptPart]]]) -> None:
        """Take the function that rewrites the files. It may raise Unavailable and may be called again."""
        self._rewrite = rewrite
        self._process = token_hex(8)
        self._begun = self._ended = 0
        self._kept: list[KeptPart] = []  # result of the last rewrite that ended
        self._wanted = False
        self._running = asyncio.Lock()

    def receipt(self) -> ErasureReceipt:
        """Return the receipt of an erasure that has just ended."""
        return ErasureReceipt(self._process, self._begun)

    def covers(self, receipt: ErasureReceipt) -> bool:
        """Return whether the files were rewritten since the erasure; if not, the next upkeep rewrites them.

        Rewrites that had begun before the erasure don't count. If an earlier process made the receipt, every rewrite of
        this process counts.
        """
        covered = self._ended > (receipt.begun if receipt.process == self._process else 0)
        self._wanted = self._wanted or not covered
        return covered

    async def now(self) -> list[KeptPart]:
        """Rewrite the files, and return what each part still keeps.

        All calls that arrive during a rewrite share the next one, so any number of calls costs two rewrites.

        Raises:
            Unavailable: a part is away, or can't write; the call can be repeated.
        """
        before = self._begun
        async with self._running:
            if self._ended > before:  # another call's rewrite, which began after this call
                return self._kept
            self._begun += 1
            number, self._wanted = self._begun, False
            try:
                parts = await self._rewrite()
            except BaseException:
                self._wanted = True
                raise
            self._ended, self._kept = number, parts
            return parts

    async def keep_up(self) -> None:
        """Rewrite the files if an admin waits for it."""
        if self._wanted:
            try:
                await self.now()
            except Unavailable as error:
                log.warning("rewrite_waits", reason=error.sentence)


async def rewrite_periodically(rewrites: FileRewrites, every_s: float = EVERY_S) -> None:
    """Call `keep_up` every `every_s` seconds, first after one interval; never return."""
    while True:
        await asyncio.sleep(every_s)
        await rewrites.keep_up()
