"""What tasks saw of themselves: which attempt at which part of which batch came how far, in which process.

A line for each thing seen, in a file of the campaign's folder. Written by `hooked_source` in the processes of Spark,
read by the campaign: so it knows, and does not guess, that two attempts read the same range.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from pyspark import TaskContext

from tests.spark_connector.chaos.moments import folder

#: How far an attempt has come.
BEGUN, HALF, READ, STAGED = "begun", "half", "read", "staged"
_FILE = "attempts.log"


@dataclass(frozen=True)
class Seen:
    """An attempt at a task has come so far."""

    batch: int
    partition: int
    attempt: int
    what: str
    process: int

    @property
    def task(self) -> tuple[int, int]:
        return self.batch, self.partition

    def is_twin_of(self, other: Seen) -> bool:
        """Whether it is another attempt at the same task."""
        return self.task == other.task and self.attempt != other.attempt


def note(what: str) -> None:
    """Called by a task, about itself."""
    context = TaskContext.get()
    if context is None:
        return
    batch = context.getLocalProperty("streaming.sql.batchId") or "-1"
    line = f"{batch} {context.partitionId()} {context.attemptNumber()} {what} {os.getpid()}\n"
    with (folder() / _FILE).open("a", encoding="ascii") as file:
        file.write(line)


def seen() -> list[Seen]:
    """All that was seen, in the order of time."""
    try:
        lines = (folder() / _FILE).read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return []
    words = [line.split() for line in lines]
    return [Seen(int(each[0]), int(each[1]), int(each[2]), each[3], int(each[4])) for each in words if len(each) == 5]


def told(task: tuple[int, int], events: list[Seen]) -> str:
    """How far each attempt at a task has come, such as `0 half, 1 staged`."""
    furthest = {each.attempt: each.what for each in events if each.task == task}
    return ", ".join(f"{attempt} {what}" for attempt, what in sorted(furthest.items()))
