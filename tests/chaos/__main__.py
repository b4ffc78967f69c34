"""`make chaos FAULT=… N=… SEED=…`: a fault as often as asked, in slices; alone, all faults and what was tried."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.chaos.faults import FAULTS, Fault
from tests.chaos.ledger import Run, Sum, append, read, sums

ROOT = Path(__file__).resolve().parents[2]
LEDGER = ROOT / ".chaos.jsonl"


def main() -> int:
    """Return 1 when a slice failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("fault", nargs="?", choices=sorted(FAULTS))
    parser.add_argument("-n", type=int, default=1, help="how often")
    parser.add_argument("--seed", type=int, help="of the first slice; the next ones count on")
    options = parser.parse_args()
    if options.fault is None:
        show()
        return 0
    if options.n < 1:
        parser.error(f"-n {options.n} must be at least 1")
    fault, failed, done = FAULTS[options.fault], 0, 0
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    while done < options.n:
        count = min(fault.slice, options.n - done)
        run = one_slice(options.fault, fault, count, seed)
        append(LEDGER, run)
        failed += not run.passed
        done, seed = done + count, seed + 1
        print(
            f"{options.fault} × {count}, seed {run.seed}: {'well' if run.passed else 'FAILED'} in {run.seconds:.0f} s"
        )
        for line in run.said:
            print(f"  {line}")
    return min(failed, 1)


def one_slice(name: str, fault: Fault, count: int, seed: int) -> Run:
    """Return how a slice ended; what a failed one wrote, and the folders of its data, are on the error output."""
    environment = {**os.environ, "CI": "true", "SLUICE_TEST_COUNT": str(count), "SLUICE_TEST_SEED": str(seed)}
    # Of its own: what pytest keeps of a run else, other runs on the machine clear away.
    folder = tempfile.mkdtemp(prefix=f"chaos-{seed}-")
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--basetemp", folder, fault.tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        print(ran.stdout, ran.stderr, f"its data is in {folder}", sep="\n", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    said = (line.strip() for line in ran.stdout.splitlines())
    return Run(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=commit(),
        fault=name,
        count=count,
        seed=seed,
        seconds=time.monotonic() - began,
        passed=ran.returncode == 0,
        # A log's lines begin with a date, pytest's with a sign of its own.
        said=tuple(line for line in said if line[:1].isalnum() and not line[:4].isdigit() and len(line) < 200),
    )


def commit() -> str:
    """Return the checkout's commit, with a + where files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")


def show() -> None:
    """Print the faults, and what the ledger says of each."""
    table = Table("fault", "what it does", "slices", "times", "failed", "minutes")
    tried = sums(read(LEDGER))
    for name, fault in FAULTS.items():
        known = tried.get(name, Sum(0, 0, 0, 0.0))
        table.add_row(name, fault.what, *map(str, known[:3]), f"{known.minutes:.0f}")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
