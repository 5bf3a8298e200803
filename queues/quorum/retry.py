"""Retry: which messages that come back rest before they come again, and how long (x-delayed-retry-type, -min and -max,
as RabbitMQ 4.3 has them for quorum queues).

A message rests `least` milliseconds for each time that it came back, and `most` at most; but no longer than it lives.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from queues.message import Entry

#: Nothing rests longer: milliseconds since the epoch, in the year 2109.
LATEST = (1 << 42) - 1


class RetryType(IntEnum):
    """Which messages rest. Those that failed: basic.reject, or their channel was closed before they were settled.
    Those that were returned: basic.nack, basic.recover, a consumer that the broker cancels, a node that is gone."""

    DISABLED = 0
    ALL = 1
    FAILED = 2
    RETURNED = 3


class Retry(NamedTuple):
    """What is in force for a queue. least, most: milliseconds; most: None for no limit."""

    type: RetryType
    least: int
    most: int | None = None

    def rests(self, has_failed: bool) -> bool:
        """Whether a message rests that comes back so."""
        return self.type is RetryType.ALL or self.type is (RetryType.FAILED if has_failed else RetryType.RETURNED)

    def until(self, entry: Entry, now: int) -> int:
        """When a message that has come back is ready again."""
        delay = self.least * max(1, entry.returns)
        if self.most is not None:
            delay = min(delay, self.most)
        until = min(now + delay, LATEST)
        return min(until, entry.expires_at) if entry.expires_at else until
