"""Checkpoint: what a streaming job writes down outside of the broker, as Spark does: nothing of it is ever lost.

    claim -> log: batch N is these ranges -> read, staged, committed -> done: batch N is finished

A driver that finds its batch logged by somebody else is not the only one, and has to stop.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """[start, end) of the group of a queue."""

    queue: str
    incarnation: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One range of each queue. logger: the driver that has written it down."""

    number: int
    ranges: tuple[Range, ...]
    logger: str


class Checkpoint:
    """batches: those that were logged; done: how many of them are finished."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.done = 0

    def batch(self, number: int) -> Batch | None:
        """A batch, if it was logged."""
        return self.batches[number] if 0 <= number < len(self.batches) else None

    def log(self, batch: Batch) -> bool:
        """Write a batch down; False if somebody else has, with whatever in it."""
        if batch.number != len(self.batches):
            return False
        self.batches.append(batch)
        return True

    def finish(self, number: int) -> bool:
        """Write down that it is finished; False if somebody else has."""
        if number != self.done:
            return False
        self.done += 1
        return True
