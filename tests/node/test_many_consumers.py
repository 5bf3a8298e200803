"""Very many consumers that leave together."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise

import pytest

from amqp_broker.channel.settlement import FEW
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import Client, NodeDriver, consume, declare, handshake_octets, publish_octets, small_config
from tests.node.one_slice import OneSlice
from tests.processor_time import processor_time

pytestmark = pytest.mark.once

CONSUMERS = 500
NOTIFIED = ("consumer_cancel_notify",)


@pytest.fixture
def driver() -> NodeDriver:
    driver = NodeDriver()
    driver.client(1).send(1, declare("q", durable=False))
    driver.settle()
    return driver


def crowd(driver: NodeDriver) -> Client:
    client = driver.client(1, 2, capabilities=NOTIFIED)
    for number in range(CONSUMERS):
        client.send(1, methods.BasicConsume(0, "q", f"c{number}", False, False, False, True, Table({})))
    driver.turn()
    assert driver.queue("q").consumer_count() == CONSUMERS
    client.take()
    return client


def cancelled(client: Client) -> list[str]:
    return [event.method.consumer_tag for event in client.take() if event.method.name == "basic.cancel"]


def test_that_their_queue_is_gone_they_hear_a_few_at_a_time(driver: NodeDriver) -> None:
    client = crowd(driver)
    other = driver.client(1)
    driver.node.background.set_pace(OneSlice())
    other.send(1, methods.QueueDelete(0, "q", False, False, False))
    heard = [cancelled(client)]
    while driver.node.background.jobs:
        other.send(1, methods.BasicQos(0, 1, False))
        driver.turn()
        heard.append(cancelled(client))
    assert max(map(len, heard)) < 100
    assert [tag for tags in heard for tag in tags] == [f"c{number}" for number in range(CONSUMERS)]
    assert not client.connection.channels[1].consumers


def test_who_deletes_the_queue_hears_of_that_first(driver: NodeDriver) -> None:
    client = crowd(driver)
    driver.node.background.set_pace(OneSlice())
    client.send(2, methods.QueueDelete(0, "q", False, False, False))
    driver.settle()
    names = client.names()
    while driver.node.background.jobs:
        driver.turn()
    assert names[0] == "queue.delete-ok"
    assert names.count("basic.cancel") + client.names().count("basic.cancel") == CONSUMERS


def test_a_tag_that_is_used_again_meanwhile_is_not_cancelled(driver: NodeDriver) -> None:
    client = crowd(driver)
    other = driver.client(1)
    other.send(1, declare("new", durable=False))
    driver.node.background.set_pace(OneSlice())
    other.send(1, methods.QueueDelete(0, "q", False, False, False))
    last = f"c{CONSUMERS - 1}"
    client.send(1, methods.BasicCancel(last, False), consume("new", last))
    heard: list[str] = []
    while driver.node.background.jobs:
        driver.turn()
        heard += cancelled(client)
    assert heard == [f"c{number}" for number in range(CONSUMERS - 1)]
    assert driver.queue("new").consumer_count() == 1


def test_they_leave_a_queue_that_is_gone_a_few_at_a_time(driver: NodeDriver) -> None:
    client = crowd(driver)
    other = driver.client(1)
    consumers = client.connection.channels[1].consumers
    driver.node.background.set_pace(OneSlice())
    other.send(1, methods.QueueDelete(0, "q", False, False, False))
    left = [CONSUMERS, len(consumers)]
    while driver.node.background.jobs:
        driver.turn()
        left.append(len(consumers))
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= 128


@pytest.mark.parametrize("auto_delete", [False, True])
def test_a_tag_is_free_as_soon_as_its_queue_is_gone(driver: NodeDriver, auto_delete: bool) -> None:
    other = driver.client(1)
    gone = methods.QueueDeclare(0, "gone", False, False, False, auto_delete, False, Table({}))
    other.send(1, gone, declare("new", durable=False))
    client = driver.client(1, capabilities=NOTIFIED)
    for number in range(CONSUMERS):
        client.send(1, methods.BasicConsume(0, "gone", f"c{number}", False, False, False, True, Table({})))
    driver.turn()
    driver.node.background.set_pace(OneSlice())
    other.send(1, methods.QueueDelete(0, "gone", False, False, False), gone)
    client.take()
    for number in range(CONSUMERS):
        client.send(1, consume("new", f"c{number}"))
    while driver.node.background.jobs:
        driver.turn()
    assert client.names().count("basic.consume-ok") == CONSUMERS
    assert driver.queue("new").consumer_count() == CONSUMERS
    assert driver.queue("gone").consumer_count() == 0, "and what has its name now stays"


@pytest.mark.parametrize("channel_closes", [False, True])
def test_who_goes_meanwhile_hears_nothing(driver: NodeDriver, channel_closes: bool) -> None:
    client = crowd(driver)
    other = driver.client(1)
    driver.node.background.set_pace(OneSlice())
    other.send(1, methods.QueueDelete(0, "q", False, False, False))
    driver.turn()
    assert cancelled(client)
    if channel_closes:
        client.send(1, methods.ChannelClose(200, "", 0, 0), methods.ChannelOpen())
    else:
        driver.lose(client)
    while driver.node.background.jobs:
        driver.turn()
    assert cancelled(client) == []


def test_what_thousands_of_channels_hold_returns_at_the_cost_of_what_one_holds() -> None:
    """Each of them holds some from everywhere in the queue."""
    assert _cost_of_a_loss(1000) < 10 * _cost_of_a_loss(10)


def _cost_of_a_loss(channels: int, messages: int = 10_000) -> float:
    """Processor seconds, the least of three."""
    costs = []
    for _ in range(3):
        driver = NodeDriver(small_config(output_limit_bytes=1 << 30))
        client = driver.raw_client()
        client.send_octets(handshake_octets(channel_max=channels))
        for number in range(1, channels + 1):
            client.send(number, methods.ChannelOpen())
        client.send(1, declare("q", durable=False))
        driver.settle()
        for number in range(1, channels + 1):
            client.send(number, consume("q"))
        driver.client(1).send_octets(publish_octets(1, "q", b"x", persistent=False) * messages)
        driver.turn()
        assert driver.queue("q").unacked_count() == messages
        with processor_time() as taken:
            driver.node.connection_lost(client.connection, driver.now)
            while driver.node.background.jobs:
                driver.turn()
        costs.append(taken.seconds)
        assert driver.queue("q").message_count() == messages
    return min(costs)


def calls_of_acks(driver: NodeDriver, client: Client, tags: range) -> int:
    """How many calls some acknowledgements take; of compiled modules none is seen."""
    seen: Counter[str] = Counter()
    for tag in tags:
        octets = encode_method_frame(1, methods.BasicAck(tag, False))
        sys.setprofile(lambda frame, event, argument: seen.update([event]))
        try:
            client.send_octets(octets)
        finally:
            sys.setprofile(None)
        driver.turn()
    return seen["call"]


def test_an_ack_at_the_limit_of_a_channel_costs_the_same_however_many_share_it() -> None:
    """Each of the consumers has a queue of its own with messages in it; the limit is for all of them together."""
    calls = []
    for count in (20, 80):
        driver = NodeDriver()
        client = driver.client(1)
        names = [f"q{number}" for number in range(count)]
        client.send(1, methods.BasicQos(0, 1, True), *[declare(name, durable=False) for name in names])
        driver.wait(50)
        client.send_octets(b"".join(publish_octets(1, name, b"x", persistent=False) * 3 for name in names))
        client.send(1, *[consume(name, name) for name in names])
        driver.wait(50)
        client.take()
        calls.append(calls_of_acks(driver, client, range(1, 11)))
        delivered = [event.method.consumer_tag for event in client.take()]
        assert delivered == names[1:11], "they take turns"
    assert calls[0] == calls[1]


def test_those_of_a_quorum_queue_tell_its_log_a_few_in_a_turn() -> None:
    """Also where they hold nothing."""
    driver = NodeDriver(small_config(max_turn_copies=10**9))
    client = driver.client(1)
    client.send(1, declare("q", x_queue_type="quorum"))
    driver.settle()
    for number in range(FEW + 1):
        client.send(1, methods.BasicConsume(0, "q", f"c{number}", False, False, False, True, Table({})))
        if number % 20 == 0:
            driver.settle()
    driver.settle()
    owners = driver.queue("q").sink.delivery_owners
    left = len(owners)
    assert left == FEW + 1
    driver.node.background.set_pace(OneSlice())
    driver.node.connection_lost(client.connection, driver.now)
    while left:
        if driver.turn().wants_sync and (job := driver.node.take_sync()) is not None:
            driver.synced(job)
        assert len(owners) >= left - 20
        left = len(owners)
