"""Made-up requests for as long as wanted: `make fuzz`, `make fuzz CASES=3000 SECONDS=3600 SEED=7`."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.run import fuzz


def main() -> int:
    """Return 0 if every reply was an honest one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=3000, help="for each operation")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fuzzed = fuzz(
            Path(folder), examples=wanted.cases, seconds=wanted.seconds, seed=wanted.seed, phases="coverage,fuzzing"
        )
    print(fuzzed.report)
    return fuzzed.exit_code


if __name__ == "__main__":
    sys.exit(main())
