"""What outlives the broker, and how it says goodbye. Against RabbitMQ these tests stop the whole
application.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interop_tests.broker_under_test import Restartable
from tests.conformance.replies import no_queue
from tests.conformance.wire import Connection

Named = Callable[[str], str]

pytestmark = pytest.mark.octets_too_slow


@pytest.mark.holds("shutdown: every connection gets 320 CONNECTION_FORCED")
def test_a_shutdown_says_goodbye(dialled: Callable[[], Connection], restartable: Restartable) -> None:
    """Row 35: with the reason, then the end of the transport."""
    connections = [dialled(), dialled()]
    connections[0].channel().call("basic.qos")
    restartable.stop()
    for connection in connections:
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        connection.expect_close(320, text)


@pytest.mark.holds("restart: durable queues, exchanges and bindings and persistent messages stay; the rest goes")
def test_durable_things_survive(dialled: Callable[[], Connection], restartable: Restartable, named: Named) -> None:
    """A persistent message in a durable queue, unacknowledged ones included, in order and with its
    properties.
    """
    connection = dialled()
    channel, vhost = connection.channel(), connection.vhost
    exchange, queue = named("exchange"), named("durable")
    channel.call("exchange.declare", exchange=exchange, type="topic", durable=True)
    channel.declare(queue, durable=True, arguments={"x-max-length": 10})
    transient, transient_exchange = named("transient"), named("transient-exchange")
    channel.declare(transient)
    channel.call("exchange.declare", exchange=transient_exchange, type="fanout")
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="a.#")
    connection.fill(queue, b"1", b"2", delivery_mode=2, headers={"h": [1, "x"]}, priority=3)
    connection.fill(queue, b"lost", delivery_mode=1)
    connection.fill(queue, b"3", delivery_mode=2)
    connection.fill(transient, b"lost too", delivery_mode=2)
    assert channel.get(queue, no_ack=False) is not None
    restartable.stop()
    restartable.start()

    connection = dialled()
    channel = connection.channel()
    text = no_queue(transient, vhost)
    connection.channel().refused(404, text, "queue.declare", queue=transient, passive=True)
    gone = connection.channel()
    gone.send("exchange.declare", exchange=transient_exchange, passive=True)
    gone.expect_close(404, by="exchange.declare")
    channel.call("exchange.declare", exchange=exchange, type="topic", durable=True)
    channel.declare(queue, durable=True, arguments={"x-max-length": 10})
    channel.publish(exchange, "a.b", b"4")
    first = channel.get(queue)
    assert first is not None
    assert (first.body, first.properties) == (
        b"1", {"delivery_mode": 2, "headers": {"h": [1, "x"]}, "priority": 3}
    )  # fmt: skip
    assert channel.get_bodies(queue) == [b"2", b"3", b"4"]


@pytest.mark.holds("restart: acknowledged messages do not return")
def test_settled_messages_stay_settled(
    dialled: Callable[[], Connection], restartable: Restartable, named: Named
) -> None:
    """After an orderly shutdown every settlement has been kept."""
    connection = dialled()
    channel, queue = connection.channel(), named("durable")
    channel.declare(queue, durable=True)
    connection.fill(queue, *[b"%d" % index for index in range(10)], delivery_mode=2)
    for _ in range(6):
        assert channel.get(queue, no_ack=False) is not None
    for tag in (1, 3, 5):
        channel.send("basic.ack", delivery_tag=tag)
    channel.send("basic.reject", delivery_tag=6)
    channel.call("basic.qos")
    restartable.stop()
    restartable.start()
    channel = dialled().channel()
    assert channel.get_bodies(queue) == [b"1", b"3", b"6", b"7", b"8", b"9"]


@pytest.mark.holds("restart: the same port accepts again, and only when the queues are there")
def test_what_was_confirmed_is_there_at_once(
    dialled: Callable[[], Connection], restartable: Restartable, named: Named
) -> None:
    """The first connection after the start finds every message."""
    connection = dialled()
    queues = [named("durable") for _ in range(20)]
    channel = connection.channel()
    for queue in queues:
        channel.declare(queue, durable=True)
        connection.fill(queue, *[b"%d" % index for index in range(50)], delivery_mode=2)
    restartable.stop()
    restartable.start()
    channel = dialled().channel()
    assert [channel.counts(queue)[0] for queue in queues] == [50] * 20
    assert channel.get_bodies(queues[7]) == [b"%d" % index for index in range(50)]
