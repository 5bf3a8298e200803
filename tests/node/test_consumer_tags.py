"""Tags of any length come with each delivery: what that begins with is kept in the consumer, or beside it if long."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from tests.node.node_driver import NodeDriver, consume, declare


@pytest.mark.parametrize("length", [1, 31, 59, 60, 61, 128, 255])
@pytest.mark.parametrize("no_ack", [False, True])
def test_a_tag_of_any_length(length: int, no_ack: bool) -> None:
    driver = NodeDriver()
    client = driver.client(1, 2)
    tags = ["t" * (length - 1) + end for end in "ab"]
    client.send(1, declare("one", durable=False), declare("two", durable=False))
    client.send(1, consume("one", tags[0], no_ack=no_ack))
    client.send(2, consume("two", tags[1], no_ack=no_ack))
    driver.settle()
    client.take()
    for number in range(3):
        client.publish(1, "one", b"%d" % number)
        client.publish(1, "two", b"x" * 20_000)
    driver.settle()
    heard = [event for event in client.take() if isinstance(event.method, methods.BasicDeliver)]
    assert sorted({(event.channel_id, event.method.consumer_tag) for event in heard}) == [(1, tags[0]), (2, tags[1])]
    assert [event.body for event in heard if event.channel_id == 1] == [b"0", b"1", b"2"]
    assert [event.body for event in heard if event.channel_id == 2] == [b"x" * 20_000] * 3


def test_a_tag_that_the_broker_makes() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("one", durable=False))
    client.send(1, consume("one", ""))
    driver.settle()
    (ok,) = [event.method for event in client.take() if isinstance(event.method, methods.BasicConsumeOk)]
    client.publish(1, "one", b"a")
    driver.settle()
    (delivery,) = [event.method for event in client.take() if isinstance(event.method, methods.BasicDeliver)]
    assert delivery.consumer_tag == ok.consumer_tag != ""


def test_what_get_has_fetched_gives_no_credit_to_a_consumer() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("one", durable=False), methods.BasicQos(0, 1, False))
    for number in range(4):
        client.publish(1, "one", b"%d" % number)
    client.send(1, methods.BasicGet(0, "one", False))
    client.send(1, consume("one"))
    driver.settle()
    client.take()
    client.send(1, methods.BasicAck(1, False))
    driver.settle()
    assert client.take() == [], "the consumer may hold one, and holds it"
    client.send(1, methods.BasicAck(2, False))
    driver.settle()
    assert [event.body for event in client.take()] == [b"2"]
