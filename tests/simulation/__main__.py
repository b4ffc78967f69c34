"""Plays one seed again, or many: python -m tests.simulation SEED [--keep 0,3,5] [--until SEED [--first]] [--trace]."""

import argparse
import sys
import time

from tests.simulation.history import keeping, play, shrink, told
from tests.simulation.plan import plan_of


def main() -> int:
    """Return how many seeds failed, 1 at most."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seed", type=int)
    parser.add_argument("--keep", help="numbers of the plan's events, with commas; - for none")
    parser.add_argument("--until", type=int, help="play all seeds up to this one, itself excluded")
    parser.add_argument("--first", action="store_true", help="stop at the first that fails, and show it as it is")
    parser.add_argument("--trace", action="store_true", help="print every step")
    options = parser.parse_args()
    failed, began = 0, time.process_time()
    seeds = range(options.seed, options.until or options.seed + 1)
    for seed in seeds:
        plan = plan_of(seed)
        kept = list(range(len(plan.events)))
        if options.keep:
            kept = [int(number) for number in options.keep.split(",") if number != "-"]
        failure = play(keeping(plan, kept), print if options.trace else None)
        if failure is None:
            continue
        failed += 1
        if not (options.keep or options.first):
            kept, failure = shrink(plan, failure)
        print(told(plan, kept, failure), end="\n\n")
        if options.first:
            break
    print(
        f"{failed} of {len(seeds)} seeds failed, {1e3 * (time.process_time() - began) / len(seeds):.0f} ms of CPU each"
    )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
