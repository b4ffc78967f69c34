"""Part of `make bench ONLY=standalone`: PDFs a CPU second through the parser processes, and through pdfium alone.

CPU time is that of this process and of those it started: what else the machine does would move a wall clock's ratio.
"""

import asyncio
import multiprocessing
import os
import random
import statistics
import sys
from collections.abc import Sequence
from multiprocessing.pool import Pool
from pathlib import Path

import psutil

from services.ingest_worker.extract import Hints
from services.ingest_worker.parsers import ParserPool
from tests.bench.report import Row
from tests.e2e.text import WORDS
from tests.unit.services.ingest_worker.files import a_pdf

FILES, PAGES, LINES = 60, 12, 46
LAPS, QUICK_LAPS = 5, 1
_WAITING = 2  # files per process: the next one must be there when a process is done


def measure(row: Row, *, quick: bool) -> None:
    """Tell `row` the figures."""
    files = [pdf(number) for number in range(FILES)]
    ours, bare = asyncio.run(laps(files, QUICK_LAPS if quick else LAPS))
    pages = FILES * PAGES
    row(f"PDFs through {cores()} parsers", f"{pages * statistics.median(ours):,.0f} pages per CPU second", "")
    row("pdfium alone, as many processes", f"{pages * statistics.median(bare):,.0f} pages per CPU second", "")
    ratios = sorted(one / other for one, other in zip(ours, bare, strict=True))
    row("… parsers over pdfium", f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", "≥ 0.8")


def pdf(number: int) -> bytes:
    """Return a PDF of PAGES full pages."""
    rng, vocabulary = random.Random(f"pdf/{number}"), WORDS.split()
    return a_pdf(*("\n".join(" ".join(rng.choices(vocabulary, k=12)) for _ in range(LINES)) for _ in range(PAGES)))


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


async def laps(files: Sequence[bytes], count: int) -> tuple[list[float], list[float]]:
    """Return how often a CPU second our parsers, and pdfium alone, read all files, in laps that take turns."""
    ours: list[float] = []
    bare: list[float] = []
    pool = ParserPool(cores())
    try:
        with multiprocessing.get_context("spawn").Pool(cores()) as processes:
            await _ours(pool, files)  # starts the processes
            _bare(processes, files)
            for _ in range(count):
                ours.append(await _ours(pool, files))
                bare.append(_bare(processes, files))
    finally:
        await pool.close()
    return ours, bare


async def _ours(pool: ParserPool, files: Sequence[bytes]) -> float:
    waiting = iter(files)

    async def read() -> None:
        for data in waiting:
            await pool.extract(data, Hints(filename="report.pdf"), tenant="default")

    began = _cpu_s()
    await asyncio.gather(*(read() for _ in range(_WAITING * cores())))
    return 1 / (_cpu_s() - began)


def _bare(processes: Pool, files: Sequence[bytes]) -> float:
    began = _cpu_s()
    processes.map(_characters, files, chunksize=1)
    return 1 / (_cpu_s() - began)


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of its children."""
    own = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (own, *own.children()))


def _characters(data: bytes) -> int:
    """Return how many characters pdfium finds; the text itself stays, so that only reading is measured."""
    import pypdfium2  # only the processes load it

    document = pypdfium2.PdfDocument(data)
    try:
        return sum(len(page.get_textpage().get_text_range()) for page in document)
    finally:
        document.close()


def main() -> None:
    """Print the rates for the PDFs of a folder: `python -m tests.bench.pdfs FOLDER`."""
    files = [path.read_bytes() for path in sorted(Path(sys.argv[1]).glob("*.pdf"))]
    ours, bare = asyncio.run(laps(files, LAPS))
    for one, other in zip(ours, bare, strict=True):
        rates = f"{len(files) * one:.1f} files per CPU second through parsers, {len(files) * other:.1f} by pdfium"
        print(f"{rates}: {one / other:.2f}")


if __name__ == "__main__":
    main()
