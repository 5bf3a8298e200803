"""Where a new classic queue comes to live: with who has less to do, and no burst of them with one."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from amqp_broker.resources.load_page import FRESH_MS, LoadPage
from amqp_broker.settings.config import Config
from amqp_broker.settings.kinds import MIB
from amqp_broker.settings.workers import worker_name
from amqp_broker.vhosts.placement import Placement


class World:
    """A node's worker 0, which places. counts: queues by home, as the metadata have it. linked: the other workers."""

    def __init__(self, count: int = 2, has_page: bool = True) -> None:
        self.now = 100.0
        self.counts: Counter[str] = Counter()
        self.names = [worker_name("n1", number) for number in range(count)]
        self.linked = {*self.names[1:]}
        chance = random.Random(3)
        config = Config(workers=count, worker_processes=count, node_name="n1")
        replication = SimpleNamespace(
            own_node="n1", has_workers=True, is_clustered=False, is_connected=lambda name: name in self.linked,
            workers=lambda: tuple(self.linked),
        )  # fmt: skip
        metadata = SimpleNamespace(count_at=lambda home: self.counts[home], level=9)
        self.placement = Placement(config, cast("Any", replication), cast("Any", metadata), chance.randbytes)
        self.page = LoadPage(count, lambda: self.now)
        if has_page:
            self.placement.look_at(self.page)

    def say(self, worker: int, busy: int = 0, held_bytes: int = 0) -> None:
        self.page.write(worker, busy, held_bytes, held_bytes, 1 << 30, self.counts[self.names[worker]])

    def declare(self, count: int, is_applied: bool = True, **how: bool) -> Counter[str]:
        """By home, so many queues that are declared now."""
        found: Counter[str] = Counter()
        for _ in range(count):
            home = self.placement.home_of_new(is_own=False, **how)
            found[home] += 1
            if is_applied:
                self.counts[home] += 1
        return found


def test_a_queue_goes_to_the_worker_that_has_used_less_of_its_core() -> None:
    world = World()
    world.counts["n1/1"] = 50
    world.say(0, busy=400)
    world.say(1, busy=100)
    assert world.declare(10) == {"n1/1": 10}


def test_where_both_are_as_busy_to_the_one_that_holds_less() -> None:
    world = World()
    world.counts["n1/1"] = 50
    world.say(0, busy=130, held_bytes=200 * MIB)
    world.say(1, busy=200, held_bytes=100 * MIB)
    assert world.declare(1) == {"n1/1": 1}


def test_where_both_hold_as_much_to_the_one_with_fewer_queues() -> None:
    world = World()
    world.counts["n1/1"] = 50
    world.say(0, busy=130, held_bytes=5 * MIB)
    world.say(1, busy=120, held_bytes=1 * MIB)
    assert world.declare(20) == {"n1": 20}


@pytest.mark.parametrize("is_applied", [True, False], ids=["one after the other", "none waited for"])
@pytest.mark.parametrize("busy", [0, 900])
def test_a_thousand_in_a_burst_are_spread(is_applied: bool, busy: int) -> None:
    """Over one connection, within what the workers have said once: what was placed since counts."""
    world = World(4)
    world.say(0, busy=busy)
    for worker in (1, 2, 3):
        world.say(worker)
    found = world.declare(1000, is_applied)
    assert min(found.values()) > 100
    assert max(found.values()) < 400


def test_what_was_placed_since_counts_until_the_worker_has_said_more() -> None:
    world = World()
    for worker in (0, 1):
        world.say(worker, busy=500 * worker)
    assert world.declare(40) == {"n1": 40}
    assert world.declare(40)["n1/1"] > 0, "by now it may be as busy"
    for worker in (0, 1):
        world.say(worker, busy=500 * worker)
    assert world.declare(40) == {"n1": 40}, "and it is not"


@pytest.mark.parametrize("how", ["dead", "hanging"])
def test_one_that_says_nothing_is_not_taken_for_idle(how: str) -> None:
    """It is linked still."""
    world = World()
    world.say(1, busy=0)
    if how == "dead":
        world.page.forget(1)
    else:
        world.now += FRESH_MS / 1000 + 1
    world.counts["n1"] = 100
    world.say(0, busy=900)
    assert world.declare(100) == {"n1": 100}
    world.linked.clear()
    assert world.declare(1) == {"n1": 1}


def test_who_starts_with_the_node_has_its_part_of_what_definitions_bring() -> None:
    world = World()
    world.linked.clear()
    world.say(0, busy=300)
    found = world.declare(100, may_start=True, is_applied=False)
    assert found == {"n1": 50, "n1/1": 50}


def test_where_nobody_says_anything_the_number_of_queues_decides() -> None:
    for world in (World(), World(has_page=False)):
        world.counts["n1"] = 10
        assert world.declare(10) == {"n1/1": 10}
        assert world.placement.busy_workers() == {}


def test_how_busy_workers_are_is_of_the_present() -> None:
    world = World(3)
    world.say(0, busy=100)
    world.now += FRESH_MS / 1000 + 1
    world.say(2, busy=300)
    assert world.placement.busy_workers() == {"n1/2": 300}
