"""A round of the campaign behind `make spark-chaos`, with all of Spark in one process; `-m long` has one more.

The campaign has each moment with each victim, and moments by chance (docs/spark-chaos.md).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_connector.chaos.__main__ import BAD, run
from tests.spark_connector.chaos.campaign import Campaign
from tests.spark_connector.chaos.moments import DRIVER, STOPPED_WORKER


def run_round(work: Path, moment: str, victim: str) -> Campaign:
    """Each message has come once, and nothing is left."""
    campaign, counts = run(work, nodes=1, is_local=True, named=((moment, victim),), at_random=0, seed=1)
    assert {name: counts[name] for name in BAD} == dict.fromkeys(BAD, 0)
    assert counts["out: distinct"] == counts["files: distinct"] >= counts["published"]
    assert [each.victim for each in campaign.rounds] == [victim]
    return campaign


@pytest.mark.long
def test_whoever_is_killed_each_message_comes_once(tmp_path: Path) -> None:
    run_round(tmp_path, "committed", DRIVER)


@pytest.mark.long
def test_whoever_is_stopped_each_message_comes_once(tmp_path: Path) -> None:
    campaign = run_round(tmp_path, "half", STOPPED_WORKER)
    assert campaign.rounds[-1].attempts == "0 staged"  # who was stopped has gone on: there was no other attempt
