"""Runs seeds: `python -m tests.simulation.run --seed 7 --trace` or `--seeds 1..500`.

Of a range each seed has a process of its own: what a world leaves behind goes with it (tests/apart.py).
"""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.apart import apart
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
    run = _run if options.seeds is None else apart(_run)
    failures = []
    for seed in range(int(first), int(last or first) + 1):
        try:
            seen = run(seed, options.steps, options.trace)
        except Violation as error:
            failures.append(seed)
            print(error, flush=True)
            if options.seed is not None:
                traceback.print_exc()
        else:
            print(f"seed {seed}: {seen}", flush=True)
    if failures:
        print(f"{len(failures)} failed: {failures}")
    return 1 if failures else 0


def _run(seed: int, steps: int, is_traced: bool) -> str:
    """One seed: what its run comes to, and what was seen in it. Raises Violation."""
    world = World(seed, (lambda line: print(line, flush=True)) if is_traced else None)
    world.run(steps)
    return f"{world.digest[:16]} {world.counts} {world.observer.statistics}"


if __name__ == "__main__":
    sys.exit(main())
