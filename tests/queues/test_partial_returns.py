"""Deliveries that come back a few at a time, in any order, among very many that are back already."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest

from queues.message import Entry
from queues.ready import Ready, _merged
from tests.example_counts import seeds
from tests.processor_time import processor_time
from tests.queues.queue_world import World, message_named, name_of
from tests.queues.test_large_releases import PLAIN
from tests.simulation.simulated_disk import SimulatedDisk

pytestmark = pytest.mark.once


def popped(count: int) -> tuple[Ready, list[Entry]]:
    """A queue's ready messages, all of which were taken out."""
    world = World(SimulatedDisk(random.Random(7)), PLAIN, budget_bytes=100_000_000)
    for name in range(count):
        world.vhost.publish(message_named(name, 10), world.queues[:1], world.now)
    found = world.queues[0].ready
    entries = [found.pop() for _ in range(count)]
    assert None not in entries
    return found, [entry for entry in entries if entry is not None]


@pytest.mark.parametrize("seed", seeds(range(20)))
def test_they_stand_where_they_stood(seed: int) -> None:
    chance = random.Random(seed)
    found, entries = popped(300)
    chance.shuffle(entries)
    while entries:
        some, entries = entries[: chance.randint(1, 30)], entries[30:]
        found.put_back(some)
        there = [found.pop() for _ in range(chance.randint(0, 5))]
        back = [each for each in there if each is not None]
        assert [each.sequence for each in back] == sorted(each.sequence for each in back)
        found.put_back(back)
    left = []
    while (entry := found.pop()) is not None:
        left.append(name_of(entry.message))
    assert left == sorted(left)
    assert len(left) == len(set(left)) > 0


def test_a_few_are_not_put_in_order_with_all_others() -> None:
    """Two hundred times a few cost no more than ten times all of them."""
    all_at_once = few = float("inf")
    for _ in range(3):
        found, entries = popped(40_000)
        chance = random.Random(1)
        some = chance.sample(entries, 600)
        chosen = {entry.sequence for entry in some}
        with processor_time() as taken:
            found.put_back([entry for entry in entries if entry.sequence not in chosen])
        all_at_once = min(all_at_once, taken.seconds)
        some.sort(key=lambda entry: entry.sequence)
        with processor_time() as taken:
            for start in range(0, len(some), 3):
                found.put_back(some[start : start + 3])
        few = min(few, taken.seconds)
        assert [found.pop() for _ in range(40_000)] == entries
    assert few < 10 * all_at_once


class Counted:
    """Stands for an entry; counts how often somebody asks where it belongs."""

    asked = 0

    def __init__(self, sequence: int) -> None:
        self._sequence = sequence

    @property
    def sequence(self) -> int:
        Counted.asked += 1
        return self._sequence


@pytest.mark.parametrize("places", [(0.0, 1.0), (0.1, 0.5, 0.9), tuple(number / 100 for number in range(1, 100))])
def test_what_lies_far_apart_does_not_cost_what_lies_between(places: tuple[float, ...]) -> None:
    count = 50_000
    there: Any = deque(Counted(2 * number + 2) for number in range(count))
    some: Any = [Counted(2 * int(place * count) + 1) for place in places]
    Counted.asked = 0
    merged = _merged(there, some)
    assert Counted.asked < 60 * (len(some) + 2)
    assert len(merged) == count + len(some)
    sequences = [each.sequence for each in merged]
    assert sequences == sorted(sequences)


@pytest.mark.parametrize("seed", seeds(range(50)))
def test_they_are_put_between_others_wherever_they_belong(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.choice([5, 40, 400, 2000])
    some = set(chance.sample(range(size), chance.randint(1, max(1, size // chance.choice([2, 9, 30, 300])))))
    there: Any = deque(Counted(number) for number in range(size) if number not in some)
    back: Any = [Counted(number) for number in some]
    assert [each.sequence for each in _merged(there, back)] == list(range(size))
