"""`python -m tests.kill.campaign --rounds 200 --workers 1`: many rounds of kill -9, a table of them, status 1 at a
violation.

Rounds come in chapters of 20 on one data folder each (see rounds.py, also for what a kill cannot show). The folder of a
chapter with a violation is kept, and named.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from random import Random

from tests.kill.ledger import Totals
from tests.kill.rounds import Chapter, Kill, Look, Round, kills

ROUNDS_PER_CHAPTER = 20


def run_campaign(
    rounds: int, seed: int, workers: int, say: Callable[[str], None]
) -> tuple[list[Round], Totals, list[str]]:
    """Run so many rounds. Returns them, what happened in all, and what was violated."""
    done: list[Round] = []
    totals = Totals()
    violations: list[str] = []
    for first in range(0, rounds, ROUNDS_PER_CHAPTER):
        chance = Random(f"{seed}/{first}")
        folder = Path(tempfile.mkdtemp(prefix="broker-kill-"))
        chapter = Chapter(folder, chance, workers=workers)
        for number in range(first + 1, min(first + ROUNDS_PER_CHAPTER, rounds) + 1):
            one = chapter.run_round(number, *choose(number, chance, workers))
            done.append(one)
            say(f"round {number}: {one.kill.name}, {one.look.name}, {len(one.violations)} violations")
            for text in one.violations[:3]:
                say(f"  in {folder}: {text}")
        chapter.finish()
        for each in fields(Totals):
            setattr(totals, each.name, getattr(totals, each.name) + getattr(chapter.ledger.totals, each.name))
        if chapter.ledger.violations:
            violations += [f"{folder}: {text}" for text in chapter.ledger.violations]
        else:
            shutil.rmtree(folder)
    return done, totals, violations


def choose(number: int, chance: Random, workers: int) -> tuple[Kill, Look, float]:
    """What a round is to be: the kinds of kills take turns, the rest is chance."""
    kinds = kills(workers)
    kill = kinds[number % len(kinds)]
    look = chance.choices(list(Look), (4, 4, 2))[0]
    return kill, look, chance.uniform(0.1, 1.5)


def table(rounds: list[Round], workers: int) -> str:
    """A row for each kind of kill, as Markdown."""
    rows = ["| killed | rounds | browsed | drained | recoveries killed | violations |", "|---|---|---|---|---|---|"]
    for kill in kills(workers):
        mine = [one for one in rounds if one.kill is kill]
        browsed = sum(one.look is Look.BROWSE for one in mine)
        drained = sum(one.look is Look.DRAIN for one in mine)
        killed = sum(one.recovery_kills for one in mine)
        found = sum(len(one.violations) for one in mine)
        rows.append(f"| {kill.value} | {len(mine)} | {browsed} | {drained} | {killed} | {found} |")
    return "\n".join(rows)


def main() -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes of the node")
    arguments = parser.parse_args()
    began = time.monotonic()
    rounds, totals, violations = run_campaign(
        arguments.rounds,
        arguments.seed,
        arguments.workers,
        lambda text: print(text, file=sys.stderr, flush=True),  # noqa: T201
    )
    took = time.monotonic() - began
    counts = ", ".join(f"{each.name} {getattr(totals, each.name)}" for each in fields(Totals))
    lines = [table(rounds, arguments.workers), ""]
    lines += [f"{len(rounds)} rounds in {took:.0f} s with seed {arguments.seed}. Messages: {counts}."]
    lines += [f"VIOLATION {text}" for text in violations]
    print("\n".join(lines))  # noqa: T201
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
