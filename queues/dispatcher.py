"""Dispatcher: which consumer of a queue gets the next message.

Consumers with credit stand in line, one line for each priority, and are served round robin; a lower line is served only
while every higher one is out of credit. A consumer that is found without credit leaves its line and comes back with
`credit_returned`. With a single active consumer, only that one may stand in line.

Invariants:
1. `is_waiting` is true exactly for the consumers that stand in a line.
2. With `is_single_active`, `active` is the only consumer that is ever in a line.
"""

from __future__ import annotations

from collections import deque

from queues.consumer import Consumer


class Dispatcher:
    """The consumers of one queue."""

    def __init__(self, is_single_active: bool = False) -> None:
        self.consumers: list[Consumer] = []
        self.is_single_active = is_single_active
        self.active: Consumer | None = None
        self._first: Consumer | None = None
        self._lines: dict[int, deque[Consumer]] | None = None

    def add(self, consumer: Consumer) -> None:
        """A new consumer joins, at the end of its line."""
        self.consumers.append(consumer)
        if self.is_single_active:
            if self.active is None:
                self.active = consumer
            else:
                return
        self._enter(consumer)

    def remove(self, consumer: Consumer) -> None:
        """A consumer leaves. With a single active consumer the next one in turn takes over."""
        self.consumers.remove(consumer)
        self._leave(consumer)
        if self.is_single_active and self.active is consumer:
            self.active = self._successor()
            if self.active is not None:
                self._enter(self.active)

    def only(self) -> Consumer | None:
        """The only consumer that there is, or None."""
        return self.consumers[0] if len(self.consumers) == 1 else None

    def next(self) -> Consumer | None:
        """The consumer that gets the next message, or None when nobody has credit."""
        consumer = self._first
        if consumer is not None:
            # The common case: one consumer in all.
            if consumer.has_credit():
                return consumer
            consumer.is_waiting = False
            self._first = None
            return None
        if self._lines is None:
            return None
        for line in self._lines.values():
            while line:
                consumer = line[0]
                if consumer.has_credit():
                    if len(line) > 1:
                        line.rotate(-1)
                    return consumer
                line.popleft()
                consumer.is_waiting = False
        return None

    def credit_returned(self, consumer: Consumer) -> bool:
        """The consumer may have credit again. Returns whether it stands in line now and did not before."""
        if consumer.is_waiting:
            return False
        if self.is_single_active and self.active is not consumer:
            return False
        self._enter(consumer)
        return True

    def in_line(self) -> list[Consumer]:
        """Who stands in line: the higher priority first, and who is served next within it."""
        if self._first is not None:
            return [self._first]
        lines = self._lines or {}
        return [consumer for line in lines.values() for consumer in line]

    def restore(self, consumers: list[Consumer], in_line: list[Consumer], active: Consumer | None) -> None:
        """Become as another dispatcher was: its `consumers`, who stood in its line, and its active one."""
        self.consumers = consumers
        self.active = active
        for consumer in in_line:
            self._enter(consumer)

    def _enter(self, consumer: Consumer) -> None:
        consumer.is_waiting = True
        if self._lines is None:
            if self._first is None and len(self.consumers) == 1:
                self._first = consumer
                return
            first = self._first
            self._first = None
            if first is not None:
                self._line(first.priority).append(first)
        self._line(consumer.priority).append(consumer)

    def _line(self, priority: int) -> deque[Consumer]:
        """The line of this priority; the lines are kept in falling order of priority."""
        if self._lines is None:
            self._lines = {}
        line = self._lines.get(priority)
        if line is None:
            self._lines[priority] = line = deque()
            self._lines = dict(sorted(self._lines.items(), reverse=True))
        return line

    def _leave(self, consumer: Consumer) -> None:
        if consumer.is_waiting:
            if self._first is consumer:
                self._first = None
            elif self._lines is not None:
                self._lines[consumer.priority].remove(consumer)
            consumer.is_waiting = False
        if self._lines is not None and len(self.consumers) <= 1:
            # Back to the common case.
            self._lines = None
            if self.consumers and self.consumers[0].is_waiting:
                self._first = self.consumers[0]

    def _successor(self) -> Consumer | None:
        """The first of the highest priority, in order of subscription."""
        best = None
        for consumer in self.consumers:
            if best is None or consumer.priority > best.priority:
                best = consumer
        return best
