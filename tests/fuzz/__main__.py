"""Made-up requests to a server, for as long as wanted: `make fuzz`, `make fuzz CASES=20000 SECONDS=3600 SEED=7`."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.run import fuzz
from tests.fuzz.target import over_http


def main() -> int:
    """Return 0 if no reply was at fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=3000, help="in all")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, over_http(Path(folder) / "data") as target:
        fuzzed = fuzz(target, cases=wanted.cases, seconds=wanted.seconds, seed=wanted.seed, at_limits=wanted.cases)
    print(fuzzed.report())
    return 1 if fuzzed.failed else 0


if __name__ == "__main__":
    sys.exit(main())
