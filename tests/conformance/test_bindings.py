"""queue.bind and unbind, exchange.bind and unbind: the graph that routing walks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.replies import DEFAULT_EXCHANGE, NO_PREVIOUS_QUEUE, no_exchange, no_queue
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Named = Callable[[str], str]


@pytest.fixture
def exchange(channel: Channel, named: Named) -> str:
    name = named("exchange")
    channel.call("exchange.declare", exchange=name, type="direct")
    return name


@pytest.mark.holds("queue.bind: missing exchange -> 404, before a missing queue")
def test_binding_to_a_missing_exchange_is_a_404(connection: Connection, channel: Channel, vhost: str) -> None:
    """With both missing the exchange is named."""
    queue = channel.declare(exclusive=True)
    for name in (queue, "missing-queue"):
        text = no_exchange("missing-exchange", vhost)
        connection.channel().refused(404, text, "queue.bind", queue=name, exchange="missing-exchange")


@pytest.mark.holds("queue.bind: missing queue -> 404")
def test_binding_a_missing_queue_is_a_404(channel: Channel, exchange: str, vhost: str) -> None:
    """The queue is named."""
    text = no_queue("missing-queue", vhost)
    channel.refused(404, text, "queue.bind", queue="missing-queue", exchange=exchange)


@pytest.mark.holds("queue.bind, queue.unbind: default exchange -> 403")
@pytest.mark.parametrize("name", ["queue.bind", "queue.unbind"])
def test_the_default_exchange_has_no_explicit_bindings(channel: Channel, name: str) -> None:
    """It cannot be bound to, nor unbound from."""
    queue = channel.declare(exclusive=True)
    channel.refused(403, DEFAULT_EXCHANGE, name, queue=queue, routing_key="key")


@pytest.mark.holds("queue.bind: empty queue name is the last declared queue; without one -> 404")
def test_an_empty_queue_name_is_the_last_declared(connection: Connection, channel: Channel, exchange: str) -> None:
    """The last declared queue is remembered per channel; passive declares count."""
    channel.declare(exclusive=True)
    second = channel.declare(exclusive=True)
    channel.call("queue.bind", exchange=exchange, routing_key="key")
    channel.publish(exchange, "key", b"a")
    assert channel.get_bodies(second) == [b"a"]
    other = connection.channel()
    other.counts(second)
    other.call("queue.unbind", exchange=exchange, routing_key="key")
    connection.channel().refused(404, NO_PREVIOUS_QUEUE, "queue.bind", exchange=exchange, routing_key="key")


@pytest.mark.holds("queue.bind: empty queue name and empty key: the key is that queue's name")
def test_empty_queue_and_key_bind_by_name(channel: Channel, exchange: str) -> None:
    """With a queue name given, the empty key stays empty."""
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", exchange=exchange)
    channel.publish(exchange, queue, b"by name")
    channel.publish(exchange, "", b"by nothing")
    assert channel.get_bodies(queue) == [b"by name"]
    channel.call("queue.bind", queue=queue, exchange=exchange)
    channel.publish(exchange, "", b"by nothing")
    assert channel.get_bodies(queue) == [b"by nothing"]


@pytest.mark.holds("queue.bind: a duplicate is ok and changes nothing")
def test_a_duplicate_binding_is_one_binding(channel: Channel, exchange: str) -> None:
    """Bound twice, delivered once, unbound once."""
    queue = channel.declare(exclusive=True)
    for _ in range(2):
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="key", arguments={"note": 1})
    channel.publish(exchange, "key", b"once")
    assert channel.get_bodies(queue) == [b"once"]
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="key", arguments={"note": 1})
    channel.publish(exchange, "key", b"never")
    assert channel.get_bodies(queue) == []


@pytest.mark.holds("queue.bind: arguments are part of a binding's identity")
def test_arguments_make_bindings_different(channel: Channel, exchange: str) -> None:
    """The same key with other arguments is a second binding, and is unbound by its own arguments."""
    queue = channel.declare(exclusive=True)
    for note in (1, 2):
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="key", arguments={"note": note})
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="key", arguments={"note": 1})
    channel.publish(exchange, "key", b"still bound")
    assert channel.get_bodies(queue) == [b"still bound"]
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="key", arguments={"note": 2})
    channel.publish(exchange, "key", b"unbound")
    assert channel.get_bodies(queue) == []


@pytest.mark.holds("basic.publish: a queue that matches through several bindings gets the message once")
def test_a_queue_gets_a_message_once(channel: Channel, named: Named) -> None:
    """Two bindings of a topic exchange, and a path through a second exchange, all match."""
    topic, fanout = named("topic"), named("fanout")
    channel.call("exchange.declare", exchange=topic, type="topic")
    channel.call("exchange.declare", exchange=fanout, type="fanout")
    queue = channel.declare(exclusive=True)
    for key in ("a.*", "a.#", "a.b"):
        channel.call("queue.bind", queue=queue, exchange=topic, routing_key=key)
    channel.call("exchange.bind", destination=fanout, source=topic, routing_key="#")
    channel.call("queue.bind", queue=queue, exchange=fanout)
    channel.publish(topic, "a.b", b"once")
    assert channel.get_bodies(queue) == [b"once"]


@pytest.mark.holds("queue.unbind: a missing binding, queue or exchange -> unbind-ok")
@pytest.mark.parametrize("missing", ["binding", "queue", "exchange"])
def test_unbinding_what_is_missing_is_ok(channel: Channel, exchange: str, missing: str) -> None:
    """The result is what was asked for."""
    queue = "missing-queue" if missing == "queue" else channel.declare(exclusive=True)
    source = "missing-exchange" if missing == "exchange" else exchange
    channel.call("queue.unbind", queue=queue, exchange=source, routing_key="never-bound")


@pytest.mark.holds("queue.bind: nowait has no answer")
def test_nowait_binds_silently(channel: Channel, exchange: str) -> None:
    """The binding is in place for the next request."""
    queue = channel.declare(exclusive=True)
    channel.send("queue.bind", queue=queue, exchange=exchange, routing_key="key", nowait=True)
    channel.publish(exchange, "key", b"bound")
    assert channel.get_bodies(queue) == [b"bound"]


@pytest.mark.holds("exchange.bind: messages flow from source to destination, with the key of the message")
def test_exchanges_bind_to_exchanges(channel: Channel, exchange: str, named: Named) -> None:
    """The second exchange routes by the same routing key; deliveries name the exchange that was published
    to.
    """
    topic = named("topic")
    channel.call("exchange.declare", exchange=topic, type="topic")
    channel.call("exchange.bind", destination=topic, source=exchange, routing_key="a.b")
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=topic, routing_key="*.b")
    channel.publish(exchange, "a.b", b"through")
    channel.publish(exchange, "c.b", b"not bound")
    message = channel.get(queue)
    assert message is not None
    assert (message.body, message.exchange, message.routing_key) == (b"through", exchange, "a.b")
    assert channel.get(queue) is None
    channel.call("exchange.unbind", destination=topic, source=exchange, routing_key="a.b")
    channel.publish(exchange, "a.b", b"unbound")
    assert channel.get(queue) is None


@pytest.mark.holds("exchange.bind: nowait has no answer; exchange.unbind: nowait likewise")
def test_nowait_binds_exchanges_silently(channel: Channel, exchange: str, named: Named) -> None:
    """Both take effect before the next request."""
    fanout = named("fanout")
    channel.call("exchange.declare", exchange=fanout, type="fanout")
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=fanout)
    for name, expected in (("exchange.bind", [b"m"]), ("exchange.unbind", [])):
        channel.send(name, destination=fanout, source=exchange, routing_key="key", nowait=True)
        channel.publish(exchange, "key", b"m")
        assert channel.get_bodies(queue) == expected


@pytest.mark.holds("exchange.bind: a cycle of exchanges delivers once")
def test_a_cycle_of_exchanges_delivers_once(channel: Channel, named: Named) -> None:
    """Each exchange is visited once for a message."""
    first, second = named("first"), named("second")
    for name in (first, second):
        channel.call("exchange.declare", exchange=name, type="fanout")
    channel.call("exchange.bind", destination=second, source=first)
    channel.call("exchange.bind", destination=first, source=second)
    channel.call("exchange.bind", destination=first, source=first)
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=second)
    channel.publish(first, "", b"once")
    assert channel.get_bodies(queue) == [b"once"]


@pytest.mark.holds("exchange.bind: missing source or destination -> 404")
@pytest.mark.parametrize(
    "ends",
    [
        {"source": "missing-exchange", "destination": "amq.direct"},
        {"source": "amq.direct", "destination": "missing-exchange"},
    ],
    ids=["source", "destination"],
)
def test_binding_missing_exchanges_is_a_404(channel: Channel, vhost: str, ends: dict[str, Any]) -> None:
    """Whichever end is missing is named."""
    channel.refused(404, no_exchange("missing-exchange", vhost), "exchange.bind", **ends)


@pytest.mark.holds("exchange.unbind: a missing binding or exchange -> unbind-ok")
@pytest.mark.parametrize(
    "ends",
    [
        {"source": "missing-exchange", "destination": "amq.direct"},
        {"source": "amq.direct", "destination": "missing-exchange"},
        {"source": "amq.direct", "destination": "amq.fanout"},
    ],
    ids=["source", "destination", "binding"],
)
def test_unbinding_missing_exchanges_is_ok(channel: Channel, ends: dict[str, Any]) -> None:
    """The result is what was asked for."""
    channel.call("exchange.unbind", routing_key="never-bound", **ends)


@pytest.mark.holds("queue.delete, exchange.delete: take their bindings along")
def test_deleting_an_end_removes_the_binding(channel: Channel, exchange: str, named: Named) -> None:
    """A new exchange or queue of the old name starts unbound."""
    queue = channel.declare(named("queue"))
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="key")
    channel.call("exchange.delete", exchange=exchange)
    channel.call("exchange.declare", exchange=exchange, type="direct")
    channel.publish(exchange, "key", b"lost", mandatory=True)
    assert channel.expect_message("basic.return").body == b"lost"
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="key")
    channel.call("queue.delete", queue=queue)
    channel.declare(queue)
    channel.publish(exchange, "key", b"lost too", mandatory=True)
    assert channel.expect_message("basic.return").body == b"lost too"
