"""Rewrites data files without erased data, and searches them for words of erased documents.

An operator's rewrite runs at once. An admin of one tenant can't start one, because it slows down all tenants; if an
admin waits for one, the next hourly upkeep rewrites the files. docs/adr/0009-erasure.md
"""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec
import structlog

from services.query_api.ops import file_scan
from shared.errors import Unavailable
from shared.ids import text_hash
from shared.log import Log
from shared.log.sqlite import SqliteLog
from shared.state.index import Index
from shared.topics import SUBMITTED

_SHORTEST, _LONGEST = 12, 40  # characters of a canary
_CANARIES = 4  # canaries per document
# Characters that JSON never escapes, so the text looks the same in every file.
_PLAIN = re.compile(rf"[\w,.;:()\- ]{{{_SHORTEST},{_LONGEST}}}(?=\W|$)")


class KeptPart(msgspec.Struct, frozen=True):
    """Whether one part still keeps erased data, and for how long."""

    name: str
    forgotten: bool
    sentence: str


_KEPT_BY_SERVER = KeptPart(
    "store",
    forgotten=False,
    sentence="the Qdrant server forgets when its optimizer rewrites a segment, or when its collection is rebuilt",
)


class PartMatch(msgspec.Struct, frozen=True):
    """A part of the data folder that still contains erased words. Full paths would reveal other tenants' documents."""

    part: str  # the folder or file directly within the data folder
    files: int  # files that contain any canary
    canaries: int  # most canaries in one file


def canary(text: str) -> str | None:
    """Return the longest run of plain characters in the text, 12 to 40 long; None if there is none."""
    return max((found.strip() for found in _PLAIN.findall(text)), key=len, default=None)


async def canaries(index: Index, tenant: str, document_id: str) -> list[str]:
    """Return words of the answering version, from passages that no other document of the tenant contains.

    Words that another document contains would rightly be found for ever. Documents of other tenants are ignored, or
    the choice of words would reveal their content.
    """
    head = await index.head(document_id)
    chosen: list[str] = []
    step = max(1, (head.chunk_count if head else 0) // (2 * _CANARIES))
    start = 0
    while head is not None and not head.deleted and start < head.chunk_count and len(chosen) < _CANARIES:
        page = await index.chunks_page(document_id, head.version, start=start, limit=1)
        for payload in page:
            words = canary(payload["text"])
            if words is not None and not await index.stands_elsewhere(tenant, document_id, text_hash(payload["text"])):
                chosen.append(words)
        start += step
    return list(dict.fromkeys(chosen))


async def kept_parts(log: Log, index: Index, *, rewritten: bool) -> list[KeptPart]:
    """Return what each part keeps of an erasure's text, before or after our files are rewritten.

    Raises:
        Unavailable: the log is away.
    """
    when = "was rewritten after the erasure" if rewritten else "will be rewritten by the next upkeep, within an hour"
    return [
        KeptPart("log", rewritten, when) if isinstance(log, SqliteLog) else await _kept_by_cluster(log),
        KeptPart("store", rewritten, when) if index.rewritable else _KEPT_BY_SERVER,
    ]


def kept_by_producers(topics: Iterable[str]) -> list[KeptPart]:
    """Return what topics of producers keep: Sluice only reads these."""
    sentence = "its producer's; what was sent stays until it is deleted there, or by the topic's retention"
    return [KeptPart(topic, forgotten=False, sentence=sentence) for topic in topics]


async def forgotten(log: Log, index: Index) -> list[KeptPart]:
    """Rewrite the files of the log and the store, if they are ours; return what each part still keeps.

    Raises:
        Unavailable: a part is away, or can't write; the call can be repeated.
    """
    if isinstance(log, SqliteLog):
        await log.forget()
    await index.rewrite()
    return await kept_parts(log, index, rewritten=True)


async def _kept_by_cluster(log: Log) -> KeptPart:
    kept = await log.retention_ms(SUBMITTED)
    days = "no retention: for ever" if kept is None else f"{kept / 86_400_000:g} days, and a segment's age"
    return KeptPart("log", forgotten=False, sentence=f"the cluster forgets by compaction and retention ({days})")


async def seen(folder: Path, words: Sequence[str]) -> tuple[int, list[PartMatch]]:
    """Return how many files of the folder were read, and which of its parts contain some of the words.

    Raises:
        Unavailable: the files can't be read.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",  # isolated from the environment: only this file and Python's library
        file_scan.__file__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    order = msgspec.json.encode({"folder": str(folder), "words": words})
    try:
        answer, complaint = await process.communicate(order)
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unavailable(f"the files in {folder} can't be searched: {last or process.returncode}")
    count, found = msgspec.json.decode(answer, type=tuple[int, list[tuple[str, int]]])
    parts: dict[str, list[int]] = {}
    for name, hits in found:
        parts.setdefault(Path(name).parts[0], []).append(hits)
    return count, [PartMatch(part, len(hits), max(hits)) for part, hits in parts.items()]


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
        """Rewrite the files if an admin waits for it. Raises Unavailable as `now`."""
        if self._wanted:
            await self.now()
