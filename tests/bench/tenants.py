"""Part of `make bench ONLY=crowds`: files a second through the parser processes, of one tenant and of five mixed."""

import asyncio
import statistics
import time

from services.ingest_worker.extract import Hints
from services.ingest_worker.parsers import ParserPool
from tests.bench.report import Row

TENANTS, PARSERS, READERS, FILES, LAPS = 5, 2, 8, 40, 5
# Smaller files are read without a process.
PAGE = ("<title>Tea</title>" + "<p>Boil the water first, then wait for three minutes.</p>" * 1250).encode()


def measure(row: Row) -> None:
    """Tell `row` the figures."""
    one, mixed = asyncio.run(_laps())
    rates = [f"{statistics.median(each):.1f} files/s ({min(each):.1f} to {max(each):.1f})" for each in (one, mixed)]
    row("one tenant's files through the parsers", rates[0], "")
    row(f"{TENANTS} tenants' files, mixed", rates[1], "")
    row("… mixed over one tenant", f"{statistics.median(mixed) / statistics.median(one):.2f}", "≥ 0.8")


async def _laps() -> tuple[list[float], list[float]]:
    """Return the rates of one tenant's laps and of mixed laps, taken in turn."""
    rates: dict[int, list[float]] = {1: [], TENANTS: []}
    pool = ParserPool(PARSERS, kept=TENANTS + 1)
    try:
        for tenants in rates:
            await _lap(pool, tenants)  # starts the processes
        for _ in range(LAPS):
            for tenants, seen in rates.items():
                seen.append(await _lap(pool, tenants))
    finally:
        await pool.close()
    return rates[1], rates[TENANTS]


async def _lap(pool: ParserPool, tenants: int) -> float:
    """Return the files a second."""
    files = iter(range(FILES))

    async def read() -> None:
        for number in files:
            await pool.extract(PAGE, Hints(filename="tea.html"), tenant=f"tenant-{number % tenants}")

    began = time.perf_counter()
    await asyncio.gather(*(read() for _ in range(READERS)))
    return FILES / (time.perf_counter() - began)
