"""A policy changes where there are very many queues: they look a few at a time, and no list of all is made."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

from amqp_broker.metadata import commands
from tests.node.node_driver import NodeDriver
from tests.node.one_slice import OneSlice

COUNT = 6_000
#: Octets that a turn takes at a time: less than a list of all has.
MOST_TAKEN = 4 * COUNT
#: In so many turns it is looked at.
COUNTED = 10


def taken_by(work: Callable[[], object]) -> int:
    """Octets, at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_turn_takes_much_and_all_have_looked_at_the_end() -> None:
    driver = NodeDriver()
    propose = driver.node.broker.propose
    for number in range(COUNT):
        propose(commands.declare_queue("/", f"q{number:04}", 1))
        if number % 500 == 0:
            driver.settle()
    driver.settle()
    broker = driver.node.broker
    propose(commands.set_policy("/", "p", pattern="^q", definition={"max-length": 5}))
    driver.settle()
    while driver.node.background.jobs:
        driver.turn()
    driver.node.background.set_pace(OneSlice())
    look = broker.apply_policies(broker.vhosts["/"])
    turns = 0
    while not look.is_done:
        if turns < COUNTED:
            assert taken_by(driver.turn) < MOST_TAKEN
        else:
            driver.turn()
        turns += 1
    assert turns >= COUNT
    assert all(queue.settings.max_length == 5 for queue in broker.vhosts["/"].queues.all_made())
