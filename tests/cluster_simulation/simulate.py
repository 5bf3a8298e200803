"""Runs seeds of a cluster: `python -m tests.simulation --cluster 3 --seed 7 --trace`, or `--seeds 1..200`.

Of a range each seed has a process of its own: what a world leaves behind goes with it (tests/apart.py).
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter

from tests.apart import apart
from tests.cluster_simulation.weather_kinds import KINDS
from tests.simulation.state import Violation


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds asked for; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", type=int, default=3, help="how many members: 3 or 5")
    parser.add_argument("--seed", type=int, help="run this seed")
    parser.add_argument("--seeds", help="run a range, as 1..200")
    parser.add_argument("--seconds", type=float, default=4, help="of virtual time, before all is calm")
    parser.add_argument("--weather", choices=list(KINDS), default="any", help="which kinds of faults")
    parser.add_argument("--trace", action="store_true", help="print every event")
    options = parser.parse_args(arguments)
    first, _, last = (options.seeds or f"{options.seed or 1}").partition("..")
    run = _run if options.seeds is None else apart(_run)
    failures = []
    total: Counter[str] = Counter()
    for seed in range(int(first), int(last or first) + 1):
        try:
            digest, counts = run(options.weather, seed, options.cluster, options.seconds, options.trace)
        except Violation as error:
            failures.append(seed)
            print(error, flush=True)
            if options.seed is not None:
                traceback.print_exc()
        else:
            total.update(counts)
            print(f"seed {seed}: {digest[:16]}", flush=True)
            if options.seed is not None:
                print(dict(sorted(counts.items())))
    print(dict(sorted(total.items())))
    if failures:
        print(f"{len(failures)} failed: {failures}")
    return 1 if failures else 0


def _run(weather: str, seed: int, size: int, seconds: float, is_traced: bool) -> tuple[str, Counter[str]]:
    """One seed: what its run comes to, and what was seen in it. Raises Violation."""
    world = KINDS[weather](seed, size, (lambda line: print(line, flush=True)) if is_traced else None)
    world.run(seconds)
    return world.digest, world.counts + world.clients.counts + world.log.counts + world.network.counts


if __name__ == "__main__":
    sys.exit(main())
