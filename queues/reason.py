"""Reason: why a message became a dead letter."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """The numbers are in checkpoints of quorum queues, and the order is that of LETTERS (queues/last_letters.py)."""

    REJECTED = 1
    EXPIRED = 2
    MAXLEN = 3
    DELIVERY_LIMIT = 4

    #: As x-death names it.
    word: str

    def __init__(self, number: int) -> None:
        self.word = self._name_.lower()
