"""What a queue group made of recorded logs it makes of them for ever: members of different versions have to agree.

Compared are the state's digest after each entry, the effects on each node in their order, and when something is due.
"""

from __future__ import annotations

import pytest

from tests.queues.quorum.recorded_log import RECORDS, read, replay

LOGS = read()


@pytest.mark.parametrize("name", LOGS)
def test_a_recorded_log_means_what_it_meant(name: str) -> None:
    steps = LOGS[name]
    for number, (now, then) in enumerate(zip(replay(steps), steps, strict=True)):
        assert now == then, f"step {number} of {len(steps)}"


def test_the_records_are_those_that_the_recorder_knows() -> None:
    assert set(LOGS) == set(RECORDS)
    entries = [step for steps in LOGS.values() for step in steps if step[0] == "entry"]
    assert {effect[0] for entry in entries for effect in _all(entry[2])} >= {
        "Delivered", "GetAnswered", "Confirmed", "DeadLettered", "Discarded", "SessionClosed", "ConsumerCancelled",
        "AttachRefused", "SettleMissed", "Counted", "QueueOpened",
    }  # fmt: skip


def _all(effects: dict[str, list[list[object]]]) -> list[list[object]]:
    return [effect for each in effects.values() for effect in each]
