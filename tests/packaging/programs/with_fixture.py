"""Tests of an application with packages that have the names of ours, on the fixture `amqp_broker`."""

from __future__ import annotations

import pika

import queues.classic
import storage
from amqp_broker.pytest_plugin import BrokerForTest


def test_a_message_goes_through_the_broker(amqp_broker: BrokerForTest) -> None:
    with pika.BlockingConnection(pika.URLParameters(amqp_broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"hello")
        assert channel.basic_get("q")[2] == b"hello"
    assert queues.classic.OWNER == "stranger's queues"
    assert storage.OWNER == "stranger's storage"
