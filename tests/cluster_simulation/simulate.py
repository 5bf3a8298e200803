"""Runs seeds of a cluster: `python -m tests.simulation --cluster 3 --seed 7 --trace`, or `--seeds 1..200`."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter

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
    failures = []
    total: Counter[str] = Counter()
    for seed in range(int(first), int(last or first) + 1):
        world = KINDS[options.weather](
            seed, options.cluster, (lambda line: print(line, flush=True)) if options.trace else None
        )
        try:
            world.run(options.seconds)
        except Violation as error:
            failures.append(seed)
            print(error, flush=True)
            if options.seed is not None:
                traceback.print_exc()
        else:
            counts = world.counts + world.clients.counts + world.log.counts + world.network.counts
            total.update(counts)
            print(f"seed {seed}: {world.digest[:16]}", flush=True)
            if options.seed is not None:
                print(dict(sorted(counts.items())))
    print(dict(sorted(total.items())))
    if failures:
        print(f"{len(failures)} failed: {failures}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
