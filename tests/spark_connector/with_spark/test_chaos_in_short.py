"""Two rounds of the campaign behind `make spark-chaos`, with all of Spark in one process."""

from __future__ import annotations

from pathlib import Path

from tests.spark_connector.chaos.__main__ import BAD, run
from tests.spark_connector.chaos.moments import DRIVER, STOPPED_WORKER

ROUNDS = (("committed", DRIVER), ("half", STOPPED_WORKER))


def test_whoever_is_killed_or_stopped_each_message_comes_once(tmp_path: Path) -> None:
    campaign, counts = run(tmp_path, nodes=1, is_local=True, named=ROUNDS, at_random=0, seed=1)
    assert {name: counts[name] for name in BAD} == dict.fromkeys(BAD, 0)
    assert counts["out: distinct"] == counts["files: distinct"] >= counts["published"]
    assert [each.victim for each in campaign.rounds] == [DRIVER, STOPPED_WORKER]
    assert campaign.rounds[-1].attempts == "0 staged"  # who was stopped has gone on: there was no other attempt
