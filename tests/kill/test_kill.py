"""kill -9 under load: a round for each moment, and a drain, on one data folder.

The campaign is `python -m tests.kill.campaign --rounds 200` (docs/kill-campaign.md).
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.kill.rounds import Chapter, Kill, Look

#: Kill, what is looked at after the start, seconds of load before the kill.
ROUNDS = (
    (Kill.LOAD, Look.NOTHING, 0.8),
    (Kill.RETIREMENT, Look.BROWSE, 0.4),
    (Kill.RECOVERY, Look.NOTHING, 0.5),
    (Kill.PAGE_OUT, Look.BROWSE, 0.4),
    (Kill.LOAD, Look.DRAIN, 0.2),
)


#: Of a node of two processes: each start is one of three.
ROUNDS_OF_WORKERS = (
    (Kill.LOAD, Look.NOTHING, 0.8),
    (Kill.SUPERVISOR, Look.BROWSE, 0.5),
    (Kill.RECOVERY, Look.NOTHING, 0.3),
)


def kill_and_look(folder: Path, workers: int, rounds: tuple[tuple[Kill, Look, float], ...]) -> None:
    chapter = Chapter(folder, Random(20), publishers=1, workers=workers)
    for number, (kill, look, load_s) in enumerate(rounds, start=1):
        done = chapter.run_round(number, kill, look, load_s)
        assert done.violations == [], f"round {number}, {kill.name}"
    assert chapter.finish() == []
    totals = chapter.ledger.totals
    # It was a test at all: there was load, the broker confirmed and delivered, and restarts found messages.
    assert min(totals.confirmed, totals.delivered, totals.settled, totals.recovered) > 100
    assert chapter.streams.confirmed > 100
    assert chapter.streams.delivered > chapter.streams.confirmed


def test_nothing_confirmed_is_lost_and_nothing_settled_comes_back(tmp_path: Path) -> None:
    kill_and_look(tmp_path, 1, ROUNDS)


def test_nothing_confirmed_is_lost_by_a_node_of_two_workers(tmp_path: Path) -> None:
    kill_and_look(tmp_path, 2, ROUNDS_OF_WORKERS)
