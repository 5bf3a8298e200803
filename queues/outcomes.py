"""PublishOutcome: what becomes of a published message. Compiled modules keep these numbers as C integers."""

from __future__ import annotations

from enum import IntEnum


class PublishOutcome(IntEnum):
    """Of several queues: the highest of theirs."""

    #: There is nothing to wait for, or a receipt is told.
    TAKEN = 0
    #: To be confirmed once the journal is synced.
    STORED = 1
    #: A full queue does not take it.
    REFUSED = 2
