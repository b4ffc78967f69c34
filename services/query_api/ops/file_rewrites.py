"""The rewrites of the data files, and whether one has begun and ended since an erasure.

An operator's rewrite runs at once. An admin of one tenant can't start one, because it slows down all tenants: the next
hourly upkeep rewrites the files if somebody waits for it. docs/adr/0090-a-tenant-waits-for-the-rewrite.md
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
    """The time of an erasure, as the number of rewrites that one process had begun."""

    process: str
    begun: int  # rewrites that had begun by then


class FileRewrites:
    """Counts the rewrites of the files of this process's log and store. No other process may rewrite them."""

    def __init__(self, rewrite: Callable[[], Awaitable[list[KeptPart]]]) -> None:
        """Take what rewrites the files; it may raise Unavailable, and be repeated."""
        self._rewrite = rewrite
        self._process = token_hex(8)
        self._begun = self._ended = 0
        self._kept: list[KeptPart] = []  # by the last rewrite that ended
        self._wanted = False
        self._running = asyncio.Lock()

    def receipt(self) -> ErasureReceipt:
        """Return the receipt of an erasure that is done."""
        return ErasureReceipt(self._process, self._begun)

    def covers(self, receipt: ErasureReceipt) -> bool:
        """Return whether the files were rewritten since the erasure; if not, the next upkeep will do it.

        Rewrites that had begun before the erasure don't count. All rewrites of this process began after an erasure of
        an earlier one.
        """
        covered = self._ended > (receipt.begun if receipt.process == self._process else 0)
        self._wanted = self._wanted or not covered
        return covered

    async def now(self) -> list[KeptPart]:
        """Rewrite the files, and return what each part still keeps.

        Calls that wait for the same rewrite to end share the next one, so that ever so many calls cost two.

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
        """Rewrite the files if somebody waits for it."""
        if self._wanted:
            try:
                await self.now()
            except Unavailable as error:
                log.warning("rewrite_waits", reason=error.sentence)


async def rewrite_for_ever(rewrites: FileRewrites, every_s: float = EVERY_S) -> None:
    """Keep up every `every_s` seconds, beginning after the first interval."""
    while True:
        await asyncio.sleep(every_s)
        await rewrites.keep_up()
