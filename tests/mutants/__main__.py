"""Runs mutants and shows which check caught each: python -m tests.mutants [--only WORDS] [--pick N] [--seeds N]."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.run import catch, turn


def main() -> int:
    """Return 1 when a mutant lived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", default="", help="mutants whose name holds these words")
    parser.add_argument("--pick", type=int, help="so many of them, other ones each day")
    parser.add_argument("--seeds", type=int, default=2000, help="how many histories to simulate at most")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name]
    chosen = chosen if options.pick is None else turn(chosen, options.pick)
    lived = 0
    for mutant in chosen:
        with tempfile.TemporaryDirectory(prefix="sluice-mutant-") as folder:
            caught = catch(mutant, Path(folder), seeds=options.seeds)
        lived += caught is None
        print(f"{mutant.name}: {caught or 'LIVES'}", flush=True)
    print(f"{len(chosen) - lived} of {len(chosen)} caught")
    return min(lived, 1)


if __name__ == "__main__":
    sys.exit(main())
