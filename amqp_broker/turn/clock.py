"""TurnClock: the time of the turn. The node sets it, in its inputs and at the end of the turn; everybody else reads it.

There is one of a node, so that what one part does at a time, another does not do before it.
"""

from __future__ import annotations


class TurnClock:
    """now: milliseconds since the epoch."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def set(self, now: int) -> None:
        """For the node: another input, or the end of the turn, is at this time."""
        self.now = now
