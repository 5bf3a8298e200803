"""Runs seeds of the cluster simulation: `python -m tests.raft.simulate --seed 7 --trace` or `--seeds 1..300`."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter

import amqp_broker  # noqa: F401  # decides which modules run
from tests.raft.simulation_checks import Violation
from tests.raft.simulation_faults import Storm


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds asked for; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed")
    parser.add_argument("--seeds", help="run a range, as 1..300")
    parser.add_argument("--size", type=int, help="members: 3 or 5; both if not given")
    parser.add_argument("--seconds", type=int, default=12, help="of virtual time, before peace is made")
    parser.add_argument("--trace", action="store_true", help="print every event")
    options = parser.parse_args(arguments)
    first, _, last = (options.seeds or f"{options.seed or 1}").partition("..")
    failures = []
    total: Counter[str] = Counter()
    for seed in range(int(first), int(last or first) + 1):
        for size in [options.size] if options.size else [3, 5]:
            storm = Storm(seed, size, (lambda line: print(line, flush=True)) if options.trace else None)
            try:
                storm.run(options.seconds)
            except (Violation, AssertionError) as error:
                failures.append((seed, size))
                print(f"size {size}: {error}", flush=True)
                if options.seed is not None:
                    traceback.print_exc()
            else:
                total.update(storm.counts)
                if options.seed is not None:
                    print(f"seed {seed}, size {size}: {dict(storm.counts)}", flush=True)
    print(f"{dict(total)}")
    if failures:
        print(f"{len(failures)} failed (seed, size): {failures}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
