"""A pace of one slice of background work a turn: what a test does between two turns happens between two slices."""

from __future__ import annotations


class OneSlice:
    """queues/background.py, Pace."""

    def start(self) -> None:
        """The turn's first slice begins."""

    def goes_on(self) -> bool:
        """It was the last."""
        return False
