"""`make spark-chaos`: Spark and brokers killed or stopped, at every moment that matters and at any time.

    python -m tests.spark_connector.chaos --random 20 --report docs/spark-chaos.md     one node, standalone Spark
    python -m tests.spark_connector.chaos --nodes 3 --random 5                         quorum queues: a leader dies

Status 1 where a message is missing or came twice, or anything is left.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

from benchmarks.machine import header, table
from tests.spark_connector.chaos.brokers import Brokers
from tests.spark_connector.chaos.campaign import LOCAL, NAMED, VICTIMS, Campaign, Round
from tests.spark_connector.chaos.moments import BROKER, DRIVER, VARIABLE
from tests.spark_connector.chaos.spark_cluster import SparkCluster

NOTE = """\
Each round publishes 400 messages to two queues, kills somebody with SIGKILL, or stops somebody with SIGSTOP who goes on
later, and waits until all have come out of the transactional sink; `files` are those of Spark's own Parquet sink.
`unconfirmed` are messages whose publisher lost the broker before the confirm: each of them may or may not be there.
`missing` and `twice` have to be 0, and nothing may be left ready, leased or staged. `attempts` is what the tasks at the
stopped range saw: the number of each attempt at it, and how far that came; where there are two, Spark's speculation has
run a twin of the one that was stopped."""
BAD = ("out: missing", "out: twice", "files: missing", "files: twice", "ready", "leased", "staged")


def run(
    work: Path, *, nodes: int, is_local: bool, named: Sequence[tuple[str, str]], at_random: int, seed: int,
    minutes: float = 1e9,
) -> tuple[Campaign, dict[str, int]]:
    """A campaign in a folder; its rounds and its counts. No round is begun after so many minutes. Raises TimeoutError
    where something does not end."""
    last = time.monotonic() + 60 * minutes
    moments = work / "moments"
    moments.mkdir()
    os.environ[VARIABLE] = str(moments)
    brokers = Brokers(moments, nodes, {"log_level": "warning"})
    with brokers, SparkCluster(work, moments, brokers.url, is_local) as spark:
        campaign = Campaign(brokers, spark, work, moments, seed)
        for moment, victim in named:
            if time.monotonic() < last:
                tell(len(campaign.rounds), campaign.run_named(moment, victim))
        for _ in range(at_random):
            if time.monotonic() < last:
                tell(len(campaign.rounds), campaign.run_random((DRIVER, BROKER) if is_local else VICTIMS))
        return campaign, campaign.finish()


def tell(number: int, found: Round) -> None:
    sys.stdout.write(
        f"round {number + 1:3}  {found.victim:17}  {found.what:52}  {found.seconds:6.1f} s  "
        f"missing {found.missing}  twice {found.twice}  {found.attempts}\n"
    )
    sys.stdout.flush()


def page(title: str, campaign: Campaign, counts: dict[str, int], facts: dict[str, str]) -> str:
    rows = [
        [str(number), each.what, each.victim, f"{each.seconds:.1f}", str(each.missing), str(each.twice),
         each.attempts]
        for number, each in enumerate(campaign.rounds, 1)
    ]
    totals = [[name, f"{count:,}"] for name, count in counts.items()]
    return "\n".join([
        *header(title, facts), NOTE, "", "In the end:", "", *table(["what", "count"], totals), "",
        "Round by round:", "", *table(["round", "moment", "victim", "seconds", "missing", "twice", "attempts"], rows),
    ]) + "\n"  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3))
    parser.add_argument("--random", type=int, default=20, help="rounds in which somebody dies at any time")
    parser.add_argument("--no-named", action="store_true", help="leave the named moments out")
    parser.add_argument("--moments", help="only these of the named ones, with commas")
    parser.add_argument("--local", action="store_true", help="all of Spark in one process")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no round after so many")
    parser.add_argument("--report", type=Path, help="a page to write")
    parser.add_argument("--append", action="store_true", help="put it behind what the page has")
    asked = parser.parse_args()
    named = [] if asked.no_named else LOCAL if asked.local else NAMED
    if asked.moments:
        named = [(moment, victim) for moment, victim in named if moment in asked.moments.split(",")]
    work = Path(tempfile.mkdtemp(prefix="spark-chaos-"))
    try:
        campaign, counts = run(
            work, nodes=asked.nodes, is_local=asked.local, named=named, at_random=asked.random, seed=asked.seed,
            minutes=asked.minutes,
        )
    except TimeoutError as error:
        sys.stdout.write(f"{error}; everything is kept in {work}\n")
        return 1
    facts = {
        "Spark": f"{pyspark.__version__}, "
        + ("one process" if asked.local else "a master and two workers on two addresses, speculation on"),
        "broker": "one node, classic queues" if asked.nodes == 1
        else "three nodes, quorum queues; the leader of the busiest dies",
        "seed": str(asked.seed), "system": platform.platform(),
    }  # fmt: skip
    text = page("Spark and the broker, killed", campaign, counts, facts)
    sys.stdout.write(text)
    if asked.report is not None:
        before = asked.report.read_text(encoding="utf-8") + "\n#" if asked.append else ""
        asked.report.write_text(before + text, encoding="utf-8")
    return 1 if any(counts[name] for name in BAD) else 0


if __name__ == "__main__":
    sys.exit(main())
