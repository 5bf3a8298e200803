"""x-delayed-message: built in here, a plugin elsewhere; a header says how many milliseconds a message waits
before it is routed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interop_tests.broker_under_test import Restartable
from tests.conformance.wire import Connection, parse_url
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import Typed

Named = Callable[[str], str]

pytestmark = pytest.mark.ours_only("this exchange type is a plugin that Debian does not have")


def _bound(channel: Channel, named: Named, kind: str = "direct", key: str = "key", **flags: Any) -> tuple[str, str]:
    """(exchange, queue): a delayed exchange of a type, and a queue bound to it that a consumer waits on."""
    exchange = named("delayed")
    arguments = {"x-delayed-type": kind}
    channel.call("exchange.declare", exchange=exchange, type="x-delayed-message", arguments=arguments, **flags)
    queue = channel.declare(named("queue"), **flags)
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=key)
    return exchange, queue


@pytest.mark.holds("x-delayed-message: without x-delay, or with 0 or less, routed at once")
@pytest.mark.parametrize("headers", [{}, {"x-delay": 0}, {"x-delay": -5}], ids=str)
def test_without_a_delay_it_is_routed_at_once(channel: Channel, named: Named, headers: dict[str, Any]) -> None:
    """Like the exchange of its x-delayed-type."""
    exchange, queue = _bound(channel, named)
    channel.publish(exchange, "key", b"now", headers=headers)
    assert channel.get_bodies(queue) == [b"now"]


@pytest.mark.holds("x-delayed-message: x-delay in milliseconds; delivered when due, in due order")
@pytest.mark.parametrize("kind", ["I", "l", "s"])
def test_messages_arrive_in_due_order(channel: Channel, named: Named, kind: str) -> None:
    """Whatever the order of publishing and the integer's size."""
    exchange, queue = _bound(channel, named)
    channel.consume(queue, no_ack=True)
    for delay in (300, 100, 200):
        channel.publish(exchange, "key", b"%d" % delay, headers={"x-delay": Typed(kind, delay)})
    channel.expect_silence(queue)
    channel.expect_deliveries(b"100", b"200", b"300")


@pytest.mark.holds("x-delayed-message: not before its time")
def test_a_message_is_not_early(connection: Connection, channel: Channel, named: Named) -> None:
    """By the broker's own clock: a shorter wait ends first, and the queue is empty until then."""
    exchange, queue = _bound(channel, named)
    channel.publish(exchange, "key", b"later", headers={"x-delay": 600})
    connection.let_pass(200)
    assert channel.get(queue) is None
    channel.consume(queue, no_ack=True)
    channel.expect_deliveries(b"later")


@pytest.mark.holds("x-delayed-message: routes as its x-delayed-type when due")
@pytest.mark.parametrize(
    ("kind", "binding", "key"),
    [("direct", "a.b", "a.b"), ("topic", "a.*", "a.b"), ("fanout", "", "anything")],
)
def test_it_routes_as_its_type(channel: Channel, named: Named, kind: str, binding: str, key: str) -> None:
    """The delivery names the delayed exchange."""
    exchange, queue = _bound(channel, named, kind, binding)
    channel.consume(queue, no_ack=True)
    channel.publish(exchange, key, b"m", headers={"x-delay": 20})
    message = channel.expect_delivery()
    assert (message.exchange, message.routing_key) == (exchange, key)


@pytest.mark.holds("x-delayed-message: headers as x-delayed-type")
def test_it_routes_by_headers(channel: Channel, named: Named) -> None:
    """x-delay is no part of the match."""
    exchange = named("delayed")
    arguments = {"x-delayed-type": "headers"}
    channel.call("exchange.declare", exchange=exchange, type="x-delayed-message", arguments=arguments)
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=exchange, arguments={"a": 1})
    channel.consume(queue, no_ack=True)
    channel.publish(exchange, "", b"no", headers={"a": 2, "x-delay": 10})
    channel.publish(exchange, "", b"yes", headers={"a": 1, "x-delay": 20})
    channel.expect_deliveries(b"yes")


@pytest.mark.holds("x-delayed-message: bindings count when the message is due, not when it is published")
def test_a_later_binding_counts(channel: Channel, named: Named) -> None:
    """The queue is bound while the message waits."""
    exchange, _queue = _bound(channel, named)
    channel.publish(exchange, "other", b"m", headers={"x-delay": 200})
    late = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=late, exchange=exchange, routing_key="other")
    channel.consume(late, no_ack=True)
    channel.expect_deliveries(b"m")


@pytest.mark.holds("x-delayed-message: a delayed publish is confirmed when it is kept")
def test_a_delayed_publish_is_confirmed(channel: Channel, named: Named) -> None:
    """Long before it is due, mandatory or not; a mandatory one is not returned."""
    exchange, _queue = _bound(channel, named, durable=True)
    channel.call("confirm.select")
    for mandatory in (False, True):
        channel.publish(exchange, "nowhere", b"m", mandatory, delivery_mode=2, headers={"x-delay": 600_000})
    channel.expect_confirms(2)
    channel.expect_silence()


@pytest.mark.holds("x-delayed-message: missing, unknown or own x-delayed-type -> 406")
@pytest.mark.parametrize(
    "arguments",
    [{}, {"x-delayed-type": "nonsense"}, {"x-delayed-type": 5}, {"x-delayed-type": "x-delayed-message"}],
    ids=str,
)
def test_a_bad_delayed_type_is_a_406(channel: Channel, named: Named, arguments: dict[str, Any]) -> None:
    """The text names the argument."""
    channel.send("exchange.declare", exchange=named("delayed"), type="x-delayed-message", arguments=arguments)
    assert "x-delayed-type" in channel.expect_close(406, by="exchange.declare")


@pytest.mark.holds("x-delayed-message: messages that wait go with their exchange")
def test_waiting_messages_go_with_the_exchange(connection: Connection, channel: Channel, named: Named) -> None:
    """Declared again, it is a new one."""
    exchange, queue = _bound(channel, named)
    channel.publish(exchange, "key", b"m", headers={"x-delay": 100})
    channel.call("exchange.delete", exchange=exchange)
    arguments = {"x-delayed-type": "direct"}
    channel.call("exchange.declare", exchange=exchange, type="x-delayed-message", arguments=arguments)
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="key")
    connection.let_pass(400)
    assert channel.get(queue) is None


@pytest.mark.holds("x-delayed-message: CC and BCC count when the message is due; BCC is removed then")
@pytest.mark.parametrize("durable", [False, True])
def test_copies_are_made_when_it_is_due(channel: Channel, named: Named, durable: bool) -> None:
    """As for a message that does not wait."""
    exchange, queue = _bound(channel, named, durable=durable)
    copies = [channel.declare(exclusive=True) for _ in range(2)]
    for copy in copies:
        channel.call("queue.bind", queue=copy, exchange=exchange, routing_key=copy)
    headers = {"x-delay": 50, "CC": [copies[0]], "BCC": [copies[1]]}
    channel.publish(exchange, "key", b"m", delivery_mode=1 + durable, headers=headers)
    for each in (queue, *copies):
        channel.consume(each, consumer_tag=each, no_ack=True)
    found = [channel.expect_delivery() for _ in range(3)]
    assert {each.consumer_tag for each in found} == {queue, *copies}
    assert all(each.headers == {"x-delay": -50, "CC": [copies[0]]} for each in found)


@pytest.mark.holds("x-delayed-message: x-delay of a message that has waited is negative, and does not count again")
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("delay", "waited"), [(20, -20), ("20", -20), (20.9, -20)], ids=str)
def test_a_message_waits_once(channel: Channel, named: Named, durable: bool, delay: Any, waited: int) -> None:
    """Here it comes back to the exchange as a dead letter."""
    exchange, queue = _bound(channel, named, durable=durable)
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "key"}
    first = channel.declare(exclusive=True, arguments=arguments)
    channel.call("queue.bind", queue=first, exchange=exchange, routing_key="first")
    channel.consume(first)
    channel.publish(exchange, "first", b"m", delivery_mode=1 + durable, headers={"x-delay": delay})
    message = channel.expect_delivery()
    assert message.headers["x-delay"] == waited
    channel.send("basic.reject", delivery_tag=message.delivery_tag)
    message = channel.get(queue)
    assert message is not None, "it is there at once"
    assert message.headers["x-delay"] == waited


@pytest.mark.octets_too_slow
@pytest.mark.holds("x-delayed-message: persistent messages survive a restart and arrive when due")
def test_delayed_messages_survive_a_restart(restartable: Restartable, named: Named) -> None:
    """One that is due while the broker is down, one that is due later."""
    connection = Connection(parse_url(restartable.url)).open()
    channel = connection.channel()
    exchange, queue = _bound(channel, named, durable=True)
    channel.call("confirm.select")
    for delay in (1500, 10):
        channel.publish(exchange, "key", b"%d" % delay, delivery_mode=2, headers={"x-delay": delay})
    channel.expect_confirms(2)
    connection.drop()
    restartable.stop()
    restartable.start()
    connection = Connection(parse_url(restartable.url)).open()
    channel = connection.channel()
    channel.consume(queue, no_ack=True)
    channel.expect_deliveries(b"10", b"1500")
    connection.drop()
