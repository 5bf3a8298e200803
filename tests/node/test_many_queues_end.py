"""Queues that end with their connection or their last consumer: very many go in slices, and are gone for everybody."""

from __future__ import annotations

from itertools import pairwise

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from exchanges.bindings import Destination
from tests.node.node_driver import Client, NodeDriver, consume, declare, small_config
from tests.node.one_slice import OneSlice

pytestmark = pytest.mark.once

COUNT = 200
EXPIRES_MS = 60_000
BINDINGS = 400
AT_ONCE = 16


class CountedSlices(OneSlice):
    """How many slices there have been."""

    slices = 0

    def start(self) -> None:
        """A turn's only slice begins."""
        self.slices += 1


def owner(driver: NodeDriver, is_exclusive: bool) -> Client:
    """Who has so many queues, all of which end when it does."""
    client = driver.client(1)
    for n in range(COUNT):
        name = f"q{n}"
        client.send(1, methods.QueueDeclare(0, name, False, False, is_exclusive, not is_exclusive, False, Table({})))
        if not is_exclusive:
            client.send(1, consume(name, name))
    driver.settle()
    assert len(queues(driver)) == COUNT
    driver.node.background.set_pace(OneSlice())
    return client


def queues(driver: NodeDriver) -> dict[str, object]:
    found: dict[str, object] = driver.node.broker.vhosts["/"].queues
    return found


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "transient"])
def test_exchanges_that_are_deleted_with_their_last_binding_go_a_few_in_a_turn(is_durable: bool) -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("q", durable=is_durable))
    for n in range(COUNT):
        name = f"x{n}"
        client.send(1, methods.ExchangeDeclare(0, name, "fanout", False, is_durable, True, False, False, Table({})))
        client.send(1, methods.QueueBind(0, "q", name, "", False, Table({})))
        driver.settle()
    router, metadata = driver.node.broker.vhosts["/"].router, driver.node.broker.metadata
    predeclared = len(router.entries()) - COUNT
    driver.node.background.set_pace(OneSlice())
    client.send(1, methods.QueueDelete(0, "q", False, False, False))
    left = [COUNT, len(router.entries()) - predeclared]
    while driver.node.background.jobs:
        driver.turn()
        left.append(len(router.entries()) - predeclared)
    driver.settle()
    assert 0 < max(before - after for before, after in pairwise(left)) <= 64
    assert left[-1] == 0
    assert "queue.delete-ok" in client.names()
    assert not [n for n in range(COUNT) if metadata.exchange("/", f"x{n}")]


@pytest.mark.parametrize("is_exclusive", [True, False], ids=["exclusive", "auto-delete"])
def test_they_go_a_few_in_a_turn(is_exclusive: bool) -> None:
    driver = NodeDriver(small_config(max_turn_copies=10**9))
    driver.lose(owner(driver, is_exclusive))
    left = len(queues(driver))
    assert left >= COUNT - AT_ONCE
    while left:
        driver.turn()
        assert left - AT_ONCE <= len(queues(driver)) < left
        left = len(queues(driver))


def idle_queues(driver: NodeDriver) -> Client:
    """So many queues that nobody uses, and that expire at the same time; it has come."""
    client = driver.client(1)
    client.send(1, *[declare(f"q{n}", durable=False, x_expires=EXPIRES_MS) for n in range(COUNT)])
    driver.settle()
    client.take()
    driver.node.background.set_pace(OneSlice())
    driver.now += EXPIRES_MS
    driver.node.tick(driver.now)
    return client


def test_those_that_expire_at_the_same_time_go_a_few_in_a_turn() -> None:
    driver = NodeDriver(small_config(max_turn_copies=10**9))
    idle_queues(driver)
    left = len(queues(driver))
    assert left == COUNT
    while left:
        driver.turn()
        assert left - AT_ONCE <= len(queues(driver)) < left
        left = len(queues(driver))
    assert not driver.node.background.jobs


def test_who_uses_one_that_is_about_to_go_keeps_it() -> None:
    driver = NodeDriver(small_config(max_turn_copies=10**9))
    client = idle_queues(driver)
    client.send(1, consume(f"q{COUNT - 1}"), methods.QueueDelete(0, f"q{COUNT - 2}", False, False, False))
    client.send(1, declare(f"q{COUNT - 2}", durable=False))
    while driver.node.background.jobs:
        driver.turn()
    assert client.names() == ["basic.consume-ok", "queue.delete-ok", "queue.declare-ok"]
    driver.wait(EXPIRES_MS)
    assert list(queues(driver)) == [f"q{COUNT - 1}", f"q{COUNT - 2}"]


@pytest.mark.parametrize("is_exclusive", [True, False], ids=["exclusive", "auto-delete"])
def test_what_is_left_of_them_is_gone_for_who_looks(is_exclusive: bool) -> None:
    """A queue that is declared anew under such a name is another one, and stays."""
    driver = NodeDriver(small_config(max_turn_copies=10**9))
    driver.lose(owner(driver, is_exclusive))
    other = driver.client(1)
    last, before_last = f"q{COUNT - 1}", f"q{COUNT - 2}"
    other.send(1, declare(last, durable=False), methods.QueueDelete(0, before_last, False, False, False))
    driver.turn()
    assert other.names() == ["queue.declare-ok", "queue.delete-ok"]
    other.send(1, consume(f"q{COUNT - 3}"))
    driver.turn()
    assert other.names() == ["channel.close"]
    assert len(queues(driver)) > COUNT // 2
    while driver.node.background.jobs:
        driver.turn()
    assert list(queues(driver)) == [last]
    assert driver.queue(last).declaration.owner is None


def test_a_virtual_host_that_goes_meanwhile_takes_them_along() -> None:
    driver = NodeDriver(small_config(max_turn_copies=10**9))
    driver.lose(owner(driver, True))
    driver.node.broker.propose(commands.delete_vhost("/"))
    driver.settle()
    while driver.node.background.jobs:
        driver.turn()
    assert driver.node.broker.queue_count == 0


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "transient"])
@pytest.mark.parametrize("what", ["queue", "exchange"])
def test_very_many_bindings_are_forgotten_in_slices(what: str, is_durable: bool) -> None:
    """What is deleted is deleted when the answer comes; what can be seen of its bindings has gone with it."""
    driver = NodeDriver(small_config(max_turn_copies=10**9))
    client = driver.client(1)
    client.send(1, methods.ExchangeDeclare(0, "x", "topic", False, is_durable, False, False, False, Table({})))
    client.send(1, declare("q", durable=is_durable), declare("other", durable=is_durable))
    for n in range(BINDINGS):
        client.send(1, methods.QueueBind(0, "q", "x", f"k.{n}", True, Table({})))
        if n % 20 == 0:
            driver.settle()
    client.send(1, methods.QueueBind(0, "other", "x", "k.*", False, Table({})))
    driver.settle()
    pace = CountedSlices()
    driver.node.background.set_pace(pace)
    client.names()
    if what == "queue":
        client.send(1, methods.QueueDelete(0, "q", False, False, False))
    else:
        client.send(1, methods.ExchangeDelete(0, "x", False, False))
    driver.settle()
    assert client.names() == [f"{what}.delete-ok"]
    assert driver.node.broker.vhosts["/"].router.binding_count == (1 if what == "queue" else 0)
    assert len(driver.node.broker.metadata.bindings("/")) == (is_durable and what == "queue")
    while driver.node.background.jobs:
        driver.turn()
    assert pace.slices >= (BINDINGS - 128) // 128


def test_a_long_chain_of_auto_delete_exchanges_goes() -> None:
    driver = NodeDriver(small_config())
    broker = driver.node.broker
    vhost = broker.vhosts["/"]
    for n in range(700):
        broker.add_exchange(vhost, f"x{n}", "fanout", False, True, False, {})
        if n:
            vhost.router.bind(f"x{n - 1}", Destination("exchange", f"x{n}"), "", {})
    broker.declarations.remove_exchange(vhost, "x699")
    while driver.node.background.jobs:
        driver.turn()
    assert vhost.router.declared_count == 0
