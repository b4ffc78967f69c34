"""`make bench`: figures of the chunker and of both sizes, each beside what it is compared with in the same run.

Prints; judges nothing: two shared cores are no laboratory.
"""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import (
    answers,
    chunking,
    cluster,
    console,
    crowds,
    gaps,
    generations,
    growth,
    pdfs,
    rates,
    search,
    senders,
    standalone,
    tenants,
)

PARTS = ("chunks", "search", "answers", "standalone", "distributed", "generations", "console")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few documents: whether it runs, not how fast")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument(
        "--only", choices=(*PARTS, "crowds", "gaps", "growth"), help="one part; crowds, gaps, growth only on request"
    )
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000, 10_000], help="of growth")
    parser.add_argument("--keep", type=Path, help="growth, search: fill the folders here once, and keep them")
    parser.add_argument("--chunks", type=int, default=search.Size().chunks, help="of search")
    chosen = parser.parse_args()
    rows: list[tuple[str, str, str]] = []
    terminal = Console(stderr=True)

    def row(what: str, seen: str, bar: str) -> None:
        rows.append((what, seen, bar))
        terminal.print(f"[dim]{what}: {seen}")

    if chosen.only in (None, "chunks"):
        chunking.measure(row, quick=chosen.quick)
    if chosen.only in (None, "search"):
        search.measure(row, search.QUICK if chosen.quick else search.Size(chunks=chosen.chunks), chosen.keep)
    if chosen.only in (None, "answers"):
        answers.measure(row, answers.QUICK if chosen.quick else answers.Size())
    if chosen.only in (None, "standalone"):
        standalone.measure(row, quick=chosen.quick)
        rates.measure(row, quick=chosen.quick)
        pdfs.measure(row, quick=chosen.quick)
    if chosen.only in (None, "distributed"):
        cluster.measure(row, cluster.QUICK if chosen.quick else cluster.Size())
    if chosen.only in (None, "generations"):
        generations.measure(row, generations.QUICK if chosen.quick else generations.Size())
    if chosen.only in (None, "console"):
        console.measure(row, quick=chosen.quick)

    if chosen.only == "crowds":
        crowds.measure(row)
        tenants.measure(row)
        senders.measure(row)

    if chosen.only == "gaps":
        gaps.measure(row, quick=chosen.quick)

    if chosen.only == "growth":
        growth.measure(row, chosen.documents, chosen.keep)

    if chosen.json:
        print(json.dumps([{"what": what, "seen": seen, "bar": bar} for what, seen, bar in rows], ensure_ascii=False))
        return 0
    table = Table("what", "seen", "bar")
    for cells in rows:
        table.add_row(*cells)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
