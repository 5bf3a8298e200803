"""Dispatcher: which consumer of a queue gets the next message.

Consumers with credit stand in line, one line for each priority, and are served round robin; a lower line is served only
while every higher one is out of credit. A consumer that is found without credit leaves its line and comes back with
`credit_returned`. With a single active consumer, only that one may stand in line; the others stand by in lines of
their own.

Whoever comes, leaves or is served, it costs the same however many the others are.

Invariants:
1. `is_waiting` is true exactly for the consumers that stand in a line to be served.
2. With `is_single_active`, `active` is the only consumer that is ever in such a line, and all others stand by. Who is
   active stays so until it leaves, or whoever knows what it holds says that it gives way.
3. Lines are in falling order of priority. One that is empty is not kept, unless it is the only one.
"""

from __future__ import annotations

from bisect import bisect_left

from queues.consumer import Consumer


class Line:
    """Consumers of one priority: a ring through the consumers themselves, who are in one at most."""

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.first: Consumer | None = None

    def append(self, consumer: Consumer) -> None:
        """One more, at the end."""
        first = self.first
        if first is None:
            self.first = consumer.line_before = consumer.line_after = consumer
            return
        last = first.line_before
        assert last is not None
        consumer.line_before, consumer.line_after = last, first
        last.line_after = first.line_before = consumer

    def remove(self, consumer: Consumer) -> None:
        """One of them leaves, wherever in it."""
        before, after = consumer.line_before, consumer.line_after
        assert before is not None
        assert after is not None
        consumer.line_before = consumer.line_after = None
        if after is consumer:
            self.first = None
            return
        before.line_after, after.line_before = after, before
        if self.first is consumer:
            self.first = after


def _rank(line: Line) -> int:
    return -line.priority


def _join(lines: list[Line], consumer: Consumer) -> None:
    """To the end of the line of its priority."""
    if len(lines) == 1:  # as a rule
        line = lines[0]
        if line.first is None:
            line.priority = consumer.priority
        if line.priority == consumer.priority:
            line.append(consumer)
            return
    at = bisect_left(lines, -consumer.priority, key=_rank)
    if at < len(lines):
        line = lines[at]
        if line.priority == consumer.priority:
            line.append(consumer)
            return
    line = Line(consumer.priority)
    line.append(consumer)
    lines.insert(at, line)


def _part(lines: list[Line], consumer: Consumer) -> None:
    """Out of the line of its priority."""
    if len(lines) == 1:
        line = lines[0]
        line.remove(consumer)
        return
    at = bisect_left(lines, -consumer.priority, key=_rank)
    line = lines[at]
    line.remove(consumer)
    if line.first is None:
        del lines[at]


def _join_first(lines: list[Line], consumer: Consumer) -> None:
    """To the beginning of the line of its priority."""
    _join(lines, consumer)
    line = lines[bisect_left(lines, -consumer.priority, key=_rank)]
    line.first = consumer  # the last one of a ring is before the first


class Dispatcher:
    """The consumers of one queue. consumers: in order of subscription."""

    def __init__(self, is_single_active: bool = False) -> None:
        self.consumers: dict[Consumer, None] = {}
        self.is_single_active = is_single_active
        self.active: Consumer | None = None
        self._first: Consumer | None = None
        self._lines: list[Line] = []
        self._standing_by: list[Line] = []

    def add(self, consumer: Consumer) -> None:
        """A new consumer joins, at the end of its line."""
        self.consumers[consumer] = None
        if self.is_single_active:
            if self.active is not None:
                _join(self._standing_by, consumer)
                return
            self.active = consumer
        self._enter(consumer)

    def remove(self, consumer: Consumer) -> None:
        """A consumer leaves. With a single active consumer the next one in turn takes over."""
        del self.consumers[consumer]
        if self.is_single_active and self.active is not consumer:
            _part(self._standing_by, consumer)
        self._leave(consumer)
        if self.is_single_active and self.active is consumer:
            self.active = self._successor()
            if self.active is not None:
                self._enter(self.active)

    def first(self) -> Consumer | None:
        """Who has been there longest, or None."""
        return next(iter(self.consumers), None)

    def only(self) -> Consumer | None:
        """The only consumer that there is, or None."""
        return self.first() if len(self.consumers) == 1 else None

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
        lines = self._lines
        while lines:
            line = lines[0]
            consumer = line.first
            while consumer is not None:
                if consumer.has_credit():
                    line.first = consumer.line_after
                    return consumer
                line.remove(consumer)
                consumer.is_waiting = False
                consumer = line.first
            if len(lines) == 1:
                return None
            del lines[0]
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
        found: list[Consumer] = []
        for line in self._lines:
            consumer = line.first
            while consumer is not None:
                found.append(consumer)
                consumer = consumer.line_after if consumer.line_after is not line.first else None
        return found

    def restore(self, consumers: list[Consumer], in_line: list[Consumer], active: Consumer | None) -> None:
        """Become as another dispatcher was: its `consumers`, who stood in its line, and its active one."""
        self.consumers = dict.fromkeys(consumers)
        self.active = active
        for consumer in in_line:
            self._enter(consumer)
        if self.is_single_active:
            for consumer in consumers:
                if consumer is not active:
                    _join(self._standing_by, consumer)

    def is_outranked(self) -> bool:
        """Whether somebody stands by who has a higher priority than the active consumer."""
        active = self.active
        if active is None or not self._standing_by:
            return False
        line = self._standing_by[0]
        return line.first is not None and line.priority > active.priority

    def pause(self) -> None:
        """The active consumer gets nothing more until `credit_returned`, whatever its credit."""
        if self.active is not None:
            self._leave(self.active)

    def give_way(self) -> None:
        """One stands by who outranks the active consumer (`is_outranked`), and takes over. The active one stands by: it
        has been there longer than all of its priority, so it stands first in its line, and lines are in order of
        subscription still (`restore`)."""
        active = self.active
        successor = self._successor()
        assert active is not None
        assert successor is not None
        self._leave(active)
        self.active = successor
        _join_first(self._standing_by, active)
        self._enter(successor)

    def _enter(self, consumer: Consumer) -> None:
        consumer.is_waiting = True
        if not self._lines:
            if self._first is None and len(self.consumers) == 1:
                self._first = consumer
                return
            first = self._first
            self._first = None
            if first is not None:
                _join(self._lines, first)
        _join(self._lines, consumer)

    def _leave(self, consumer: Consumer) -> None:
        if consumer.is_waiting:
            if self._first is consumer:
                self._first = None
            else:
                _part(self._lines, consumer)
            consumer.is_waiting = False
        if self._lines and len(self.consumers) <= 1:
            # Back to the common case.
            last = self.first()
            if last is not None and last.is_waiting:
                _part(self._lines, last)
                self._first = last
            self._lines.clear()

    def _successor(self) -> Consumer | None:
        """The first of the highest priority, in order of subscription: it stands by no more."""
        consumer = self._standing_by[0].first if self._standing_by else None
        if consumer is not None:
            _part(self._standing_by, consumer)
        return consumer
