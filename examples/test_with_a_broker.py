"""Tests of an application against a real broker: the fixture `amqp_broker` comes with the package.

    pytest examples/test_with_a_broker.py

The broker starts with the first test that asks for it, on a free port, and ends with the run. Every test has a virtual
host of its own, so none sees what another has left; `-n 4` (pytest-xdist) works too.
"""

import json

import pika
import pytest

# -- the application, which would be in modules of its own -------------------------------------------------------------


def place_order(channel, drink):
    channel.basic_publish("", "orders", json.dumps({"drink": drink}).encode(), mandatory=True)


def serve_next(channel):
    """Takes an order and does it. Returns what was served, None if there is nothing to do."""
    method, _, body = channel.basic_get("orders")
    if method is None:
        return None
    drink = json.loads(body)["drink"]
    if drink == "beer":
        channel.basic_reject(method.delivery_tag, requeue=False)  # it becomes a dead letter
        return None
    channel.basic_ack(method.delivery_tag)
    return drink


# -- its tests ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def channel(amqp_broker):
    connection = pika.BlockingConnection(pika.URLParameters(amqp_broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("refused")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "refused"}
    channel.queue_declare("orders", durable=True, arguments=arguments)
    yield channel
    connection.close()


def test_orders_are_served_in_turn(channel):
    place_order(channel, "coffee")
    place_order(channel, "tea")
    assert [serve_next(channel), serve_next(channel), serve_next(channel)] == ["coffee", "tea", None]


def test_what_is_not_served_is_kept_aside(channel):
    place_order(channel, "beer")
    assert serve_next(channel) is None
    # A dead letter is published behind the back of who has rejected it: wait for it.
    _, _, body = next(channel.consume("refused", auto_ack=True, inactivity_timeout=10))
    assert json.loads(body) == {"drink": "beer"}


def test_nothing_is_left_of_the_other_tests(channel):
    assert serve_next(channel) is None


def test_an_order_without_a_queue_is_an_error(amqp_broker):
    connection = pika.BlockingConnection(pika.URLParameters(amqp_broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        place_order(channel, "coffee")
    connection.close()
