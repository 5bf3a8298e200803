"""Runs seeds: `python -m tests.simulation.run --seed 7 --trace` or `--seeds 1..500`."""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.simulation.state import Violation
from tests.simulation.world import World


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds asked for; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed")
    parser.add_argument("--seeds", help="run a range, as 1..500")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--trace", action="store_true", help="print every event")
    options = parser.parse_args(arguments)
    first, _, last = (options.seeds or f"{options.seed or 1}").partition("..")
    failures = []
    for seed in range(int(first), int(last or first) + 1):
        world = World(seed, (lambda line: print(line, flush=True)) if options.trace else None)
        try:
            world.run(options.steps)
        except Violation as error:
            failures.append(seed)
            print(error, flush=True)
            if options.seed is not None:
                traceback.print_exc()
        else:
            print(f"seed {seed}: {world.digest[:16]} {world.counts} {world.observer.statistics}", flush=True)
    if failures:
        print(f"{len(failures)} failed: {failures}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
