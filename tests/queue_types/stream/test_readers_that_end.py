"""Consumers of a stream that end (`x-stream-until`), on a node in the test's hand, and on one without a copy."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from amqp_broker.protocol import methods
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, NodeDriver
from tests.queue_types.stream.test_streams_of_a_node import MINUTE, a_stream, consume, declare, fill, qos
from tests.queue_types.test_guests import guest_of, settle


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()


def numbers(first: int, behind: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, behind)]


def reader(driver: NodeDriver, prefetch: int = 100, **arguments: object) -> Client:
    client = driver.client(1, capabilities=("consumer_cancel_notify",))
    client.send(1, qos(prefetch), consume(**arguments))
    driver.settle()
    return client


def heard(client: Client) -> list[bytes | str]:
    """The bodies of what has come, and the names of the other methods."""
    return [event.body if event.method.name == "basic.deliver" else event.method.name for event in client.take()]


OK, CANCEL = "basic.consume-ok", "basic.cancel"


@pytest.mark.parametrize(("until", "end"), [("last", 9), (0, 0), (4, 4), (6, 6), (9, 9)])
def test_it_is_cancelled_behind_what_it_has_asked_for(driver: NodeDriver, until: object, end: int) -> None:
    publisher = a_stream(driver)
    for first in (0, 3, 6):
        fill(driver, publisher, *numbers(first, first + 3))
    assert heard(reader(driver, x_stream_until=until))[1:] == [OK, *numbers(0, end), CANCEL]
    assert driver.queue("s").consumer_count() == 0


def test_what_comes_later_is_not_the_last(driver: NodeDriver) -> None:
    """It ends without a credit for what it does not get; and an offset that is not there yet is waited for."""
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 3))
    last, fifth = reader(driver, 3, x_stream_until="last"), reader(driver, x_stream_until=5)
    slow = reader(driver, 2, x_stream_until="last")
    assert heard(last)[1:] == [OK, *numbers(0, 3), CANCEL]
    assert heard(fifth)[1:] == [OK, *numbers(0, 3)]
    assert heard(slow)[1:] == [OK, *numbers(0, 2)]
    fill(driver, publisher, *numbers(3, 9))
    assert heard(fifth) == [*numbers(3, 5), CANCEL]
    slow.send(1, methods.BasicAck(0, True))
    driver.settle()
    assert heard(slow) == [b"2", CANCEL]


def test_nothing_is_there_and_nothing_comes(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    assert heard(reader(driver, x_stream_until="last"))[1:] == [OK, CANCEL]
    fill(driver, publisher, *numbers(0, 3))
    assert heard(reader(driver, x_stream_until=2, x_stream_offset="next"))[1:] == [OK, CANCEL]
    driver.settle()
    assert driver.queue("s").consumer_count() == 0


def test_times_ages_and_filters(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 3), headers={"x-stream-filter-value": "red"})
    driver.wait(MINUTE)
    moment = datetime.fromtimestamp(driver.now / 1000, UTC)
    driver.wait(MINUTE)
    fill(driver, publisher, *numbers(3, 6), headers={"x-stream-filter-value": "blue"})
    assert heard(reader(driver, x_stream_until=moment))[1:] == [OK, *numbers(0, 3), CANCEL]
    assert heard(reader(driver, x_stream_until="1m"))[1:] == [OK, *numbers(0, 3), CANCEL]
    assert heard(reader(driver, x_stream_until="last", x_stream_filter="red"))[1:] == [OK, *numbers(0, 3), CANCEL]
    assert heard(reader(driver, x_stream_until="last", x_stream_filter="none"))[1:] == [OK, CANCEL]


@pytest.mark.parametrize("until", ["first", "next", -1, "soon", 1.5, True, None])
def test_other_ends_are_refused(driver: NodeDriver, until: object) -> None:
    a_stream(driver)
    refused = reader(driver, x_stream_until=until).take()[-1].method
    assert (refused.name, refused.reply_code) == ("channel.close", 406)
    assert "invalid arg 'x-stream-until'" in refused.reply_text


def test_groups_do_not_end(driver: NodeDriver) -> None:
    a_stream(driver)
    refused = reader(driver, x_stream_until="last", x_stream_group="g").take()[-1].method
    assert (refused.reply_code, "it is of who reads alone" in refused.reply_text) == (406, True)


def test_at_a_node_that_has_no_copy() -> None:
    cluster = NodeCluster(4, queue_groups=1, quorum_size=3)
    cluster.run_until_ready()
    settle(cluster)
    driver = cluster.nodes[guest_of(cluster)]
    publisher = driver.client(1)
    publisher.send(1, declare())
    cluster.run(300)
    for number in range(5):
        publisher.publish(1, "s", b"%d" % number)
    cluster.run(300)
    client = driver.client(1, capabilities=("consumer_cancel_notify",))
    client.send(1, qos(100), consume(x_stream_until="last"))
    cluster.run(500)
    assert heard(client)[1:] == [OK, *numbers(0, 5), CANCEL]
    client.send(1, consume(x_stream_until=2))
    cluster.run(500)
    assert heard(client) == [OK, *numbers(0, 2), CANCEL]
