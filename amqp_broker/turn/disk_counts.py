"""DiskCounts: what a node has written to its journal, and how long that took; counted once for each sync."""

from __future__ import annotations

from amqp_broker.turn.histogram import SYNCS_S, Histogram


class DiskCounts:
    """syncs, of seconds together; written_bytes: to the journal. journal_times: of those that wrote to it."""

    def __init__(self) -> None:
        self.syncs = 0
        self.seconds = 0.0
        self.written_bytes = 0
        self.journal_times = Histogram(SYNCS_S)

    def add(self, written_bytes: int, seconds: float) -> None:
        """One more sync."""
        self.syncs += 1
        self.seconds += seconds
        self.written_bytes += written_bytes
        if written_bytes:
            self.journal_times.add(seconds)
