"""`python -m tests.chaos --rounds 60 --seed 7 --report docs/chaos.md`: three nodes, real clients, faults, and a table.
With `--workers 2` each node is several processes, and there are faults of single ones.

Each round is one fault; the kinds take turns, the rest is chance, as far as the machine's timing is not. Rounds come in
chapters of ROUNDS_PER_CHAPTER on the same data folders; the folder of a chapter with a violation is kept, and named.
Status 1 at a violation.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import uvloop

from tests.chaos.checker import Counts
from tests.chaos.faults import FaultKind, Scene, kinds_for
from tests.chaos.nodes import NAMES, Cluster, StartError
from tests.chaos.report import page
from tests.chaos.rounds import OUTAGE_LIMIT_S, Campaign, Limits, Round
from tests.chaos.sessions import CLIENT_ERRORS

ROUNDS_PER_CHAPTER = 15
INTERRUPTED = 128 + signal.SIGTERM
#: A cluster that does not start, or on which nothing can be declared.
CHAPTER_ERRORS: tuple[type[Exception], ...] = (StartError, *CLIENT_ERRORS)


async def run_chapter(
    folder: Path, kinds: Sequence[FaultKind], chance: Random, limits: Limits, say: Callable[[str], None]
) -> tuple[list[Round], list[str]]:
    """Rounds on one cluster in this folder, each of one of these kinds. Returns them, and what was violated."""
    settings = {"spread-groups": "true"} if limits.has_spread_groups else {}
    cluster = Cluster(
        folder, Random(chance.random()), settings, small_disk=chance.choice(NAMES), workers=limits.workers
    )
    violations: list[str] = []
    done: list[Round] = []
    try:
        await cluster.start()
        scene = Scene(cluster, Random(chance.random()), say)
        campaign = Campaign(cluster, scene, Random(chance.random()), limits.outage_s)
        await campaign.prepare()
        for kind in kinds:
            one = await campaign.run([kind])
            done.append(one)
            found, fault = one.findings, one.faults[0] if one.faults else None
            both = Counts()
            for counts in found.counts.values():
                both.add(counts)
            say(
                f"  {both.operations} operations, {both.confirmed} confirmed, {both.duplicated} duplicated, "
                f"{one.holds} holds of locks, {campaign.streams.confirmed} confirmed in streams so far and "
                f"{campaign.streams.delivered} read, {campaign.streams.taken} compacted, "
                f"{len(found.violations)} violations; {one.errors}"
            )
            if fault is not None:
                say(f"  {fault.outage_s:.2f} s without writes, {fault.recovered - fault.healed:.2f} s to recover")
            for text in found.violations:
                say(f"  VIOLATION {text}")
            violations += [f"{kind.value}, in {folder}: {text}" for text in found.violations]
            if not one.is_over:
                break
    except CHAPTER_ERRORS as error:
        violations.append(f"in {folder}, the chapter ended early: {type(error).__name__}: {error}")
        say(f"  VIOLATION {violations[-1]}")
    finally:
        statuses = await cluster.stop()
    if any(statuses.values()):
        violations.append(f"in {folder}: SIGTERM ended the nodes with {statuses}")
    return done, violations


async def run_campaign(
    kinds: Sequence[FaultKind], seed: int, limits: Limits, say: Callable[[str], None]
) -> tuple[list[Round], list[str]]:
    """A round of each of these. Returns them, and what was violated."""
    done: list[Round] = []
    violations: list[str] = []
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # so that all nodes and mounts go too
    for first in range(0, len(kinds), ROUNDS_PER_CHAPTER):
        chance = Random(f"{seed}/{first}")
        folder = Path(tempfile.mkdtemp(prefix="broker-chaos-"))
        try:
            chapter, wrong = await run_chapter(folder, kinds[first : first + ROUNDS_PER_CHAPTER], chance, limits, say)
        except asyncio.CancelledError:
            # The nodes and mounts are gone. The clients' robust connections would not let themselves be cancelled.
            os._exit(INTERRUPTED)
        done += chapter
        violations += wrong
        if not wrong:
            shutil.rmtree(folder)
    return done, violations


def _flags(arguments: argparse.Namespace) -> str:
    """What makes this campaign again, as far as chance allows."""
    flags = f"--rounds {arguments.rounds} --leader-kills {arguments.leader_kills} --seed {arguments.seed}"
    if arguments.workers > 1:
        flags += f" --workers {arguments.workers}"
    if arguments.spread_groups:
        flags += " --spread-groups"
    if arguments.outage_limit != OUTAGE_LIMIT_S:
        flags += f" --outage-limit {arguments.outage_limit:g}"
    return f"{flags} --only {' '.join(arguments.only)}" if arguments.only else flags


def main() -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="write the table to this file too")
    parser.add_argument("--append", action="store_true", help="write it to the end of that file")
    parser.add_argument(
        "--outage-limit", type=float, default=OUTAGE_LIMIT_S, help="seconds; more where others use the machine too"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes of each node")
    parser.add_argument("--spread-groups", action="store_true", help="their groups are at all of them")
    parser.add_argument("--only", nargs="+", choices=[kind.name for kind in FaultKind], help="these faults only")
    parser.add_argument("--leader-kills", type=int, default=0, help="so many rounds of KILL_LEADER besides")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # the client library tells of each connection that a fault has ended
    possible = kinds_for(arguments.workers)
    only = [FaultKind[name] for name in arguments.only] if arguments.only else possible
    if strange := [kind.name for kind in only if kind not in possible]:
        parser.error(f"--only {' '.join(strange)}: only with --workers 2 or more")
    if arguments.spread_groups and arguments.workers == 1:
        parser.error("--spread-groups: only with --workers 2 or more")
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} {text}", file=sys.stderr, flush=True)  # noqa: T201

    kinds = [only[number % len(only)] for number in range(arguments.rounds)]
    kinds += [FaultKind.KILL_LEADER] * arguments.leader_kills
    limits = Limits(arguments.workers, arguments.outage_limit, arguments.spread_groups)
    done, violations = uvloop.run(run_campaign(kinds, arguments.seed, limits, say))
    level = 2 if arguments.append else 1
    text = page(done, violations, _flags(arguments), time.monotonic() - began, limits, level)
    print(text)  # noqa: T201
    if arguments.report is not None:
        before = f"{arguments.report.read_text()}\n" if arguments.append else ""
        arguments.report.write_text(before + text)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
