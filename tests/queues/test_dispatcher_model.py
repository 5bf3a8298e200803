"""The dispatcher does what one with plain lists does, and looks at nobody but those concerned."""

from __future__ import annotations

import random

import pytest

from queues.dispatcher import Dispatcher
from tests.example_counts import seeds
from tests.queues.queue_world import Client


class Lists:
    """Who is served next, as simply as it can be said; every step looks at everybody."""

    def __init__(self, is_single_active: bool) -> None:
        self.consumers: list[Client] = []
        self.active: Client | None = None
        self._is_single_active = is_single_active
        self._lines: dict[int, list[Client]] = {}

    def add(self, consumer: Client) -> None:
        self.consumers.append(consumer)
        if self._is_single_active and self.active is None:
            self.active = consumer
        self.enter(consumer)

    def remove(self, consumer: Client) -> None:
        self.consumers.remove(consumer)
        if consumer in self.in_line():
            self._lines[consumer.priority].remove(consumer)
        if self.active is consumer:
            self.active = max(self.consumers, key=lambda each: each.priority, default=None)
            if self.active is not None:
                self.enter(self.active)

    def enter(self, consumer: Client) -> None:
        if consumer not in self.in_line() and (not self._is_single_active or consumer is self.active):
            self._lines.setdefault(consumer.priority, []).append(consumer)

    def give_way(self) -> None:
        """To the first of the highest priority."""
        active = self.active
        if active is None or len(self.consumers) < 2:
            return
        self.pause()
        others = [each for each in self.consumers if each is not active]
        self.active = max(others, key=lambda each: each.priority)
        self.enter(self.active)

    def pause(self) -> None:
        if self.active is not None and self.active in self.in_line():
            self._lines[self.active.priority].remove(self.active)

    def is_outranked(self) -> bool:
        active = self.active
        return active is not None and any(each.priority > active.priority for each in self.consumers)

    def in_line(self) -> list[Client]:
        return [each for priority in sorted(self._lines, reverse=True) for each in self._lines[priority]]

    def next(self) -> Client | None:
        for consumer in self.in_line():
            line = self._lines[consumer.priority]
            line.remove(consumer)
            if consumer.has_credit():
                line.append(consumer)
                return consumer
        return None


@pytest.mark.parametrize("is_single_active", [False, True])
@pytest.mark.parametrize("seed", seeds(range(20)))
def test_it_serves_whom_lists_would_serve(seed: int, is_single_active: bool) -> None:
    chance = random.Random(seed)
    dispatcher, lists = Dispatcher(is_single_active), Lists(is_single_active)
    priorities = chance.choice([[0], [0, 5], range(-4, 5)])
    most = chance.choice([1, 2, 12])
    for step in range(1500):
        there = lists.consumers
        choice = chance.random()
        if choice < 0.15 and len(there) < most:
            consumer = Client([], chance.choice([1, 3]), priority=chance.choice(priorities))
            dispatcher.add(consumer)
            lists.add(consumer)
        elif choice < 0.25 and there:
            consumer = chance.choice(there)
            dispatcher.remove(consumer)
            lists.remove(consumer)
        elif choice < 0.55 and there:
            consumer = chance.choice(there)
            consumer.unsettled = 0
            dispatcher.credit_returned(consumer)
            lists.enter(consumer)
        elif choice < 0.6:
            restored = Dispatcher(is_single_active)
            restored.restore(list(dispatcher.consumers), dispatcher.in_line(), dispatcher.active)
            dispatcher = restored
        elif choice < 0.7 and is_single_active:
            assert dispatcher.is_outranked() is lists.is_outranked()
            if not lists.is_outranked():
                continue
            pauses = chance.random() < 0.5
            for each in (dispatcher, lists):
                each.pause() if pauses else each.give_way()
        else:
            taker = dispatcher.next()
            assert taker is lists.next(), step
            if taker is not None:
                taker.unsettled += 1
        assert list(dispatcher.consumers) == lists.consumers, step
        assert dispatcher.in_line() == lists.in_line(), step
        assert dispatcher.active is lists.active, step
        assert [each.is_waiting for each in there] == [each in lists.in_line() for each in there], step


class Compared(Client):
    """Counts how often it is compared with others."""

    looks = 0

    def __eq__(self, other: object) -> bool:
        Compared.looks += 1
        return self is other

    __hash__ = Client.__hash__


@pytest.mark.parametrize("is_single_active", [False, True])
@pytest.mark.parametrize("order", ["first", "last", "any"])
def test_who_leaves_is_not_looked_for_among_the_others(order: str, is_single_active: bool) -> None:
    dispatcher = Dispatcher(is_single_active)
    among = [Compared([], 1, priority=number % 3) for number in range(1000)]
    for consumer in among:
        dispatcher.add(consumer)
    if order == "last":
        among.reverse()
    elif order == "any":
        random.Random(1).shuffle(among)
    Compared.looks = 0
    for consumer in among:
        dispatcher.remove(consumer)
    assert not dispatcher.consumers
    assert dispatcher.next() is None
    assert Compared.looks < 2 * len(among)
