"""NumberedConsumer: a consumer whose deliveries are settled by their numbers, because its client is on another node."""

from __future__ import annotations

from typing import Any

from queues.consumer import Consumer
from queues.message import Entry


class NumberedConsumer(Consumer):
    """held: by delivery id, in order, the entry and when it was delivered, milliseconds since the epoch."""

    def __init__(self, no_ack: bool, priority: int) -> None:
        super().__init__(no_ack, priority)
        self.next_delivery = 1
        self.held: dict[int, tuple[Entry, int]] = {}

    def keep(self, entry: Entry, now: int) -> int:
        """Take an entry. Returns the delivery's number, which it never gives again."""
        delivery_id = self.next_delivery
        self.next_delivery = delivery_id + 1
        self.held[delivery_id] = (entry, now)
        return delivery_id

    def take(self, ranges: tuple[tuple[int, int], ...]) -> tuple[list[Entry], int]:
        """The entries of deliveries first..last that it holds, and how many of these it does not hold."""
        held = self.held
        entries: list[Entry] = []
        missed: Any = 0  # of any size: the ranges are the client's
        for first, last in ranges:
            count = last - first + 1
            before = len(entries)
            if count <= len(held):
                for offset in range(count):
                    found = held.pop(first + offset, None)
                    if found is not None:
                        entries.append(found[0])
            else:
                for delivery_id in [each for each in held if first <= each <= last]:
                    entries.append(held.pop(delivery_id)[0])
            if count != len(entries) - before:
                missed += count - (len(entries) - before)
        return entries, missed

    def take_all(self) -> list[Entry]:
        """Everything that it holds."""
        entries = [entry for entry, _ in self.held.values()]
        self.held.clear()
        return entries
