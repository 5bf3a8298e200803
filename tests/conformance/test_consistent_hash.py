"""x-consistent-hash: messages spread by the hash of their key, the same key always to the same queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interop_tests.broker_under_test import BrokerUnderTest
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Connect = Callable[..., Connection]
Named = Callable[[str], str]


@pytest.fixture(autouse=True)
def _needs_the_plugin(broker: BrokerUnderTest, connect: Connect, named: Named) -> None:
    """RabbitMQ has this type as a plugin, which may be off; ours has it built in."""
    if not broker.is_rabbitmq:
        return
    connection = connect()
    connection.channel().send("exchange.declare", exchange=named("probe"), type="x-consistent-hash")
    connection.send_method(0, "connection.close", reply_code=200)
    method = connection.next_method(0)
    if method.name != "connection.close-ok":
        pytest.skip("this RabbitMQ runs without the plugin rabbitmq_consistent_hash_exchange")


def _exchange_with_queues(channel: Channel, named: Named, *weights: str, **arguments: object) -> tuple[str, list[str]]:
    exchange = named("hash")
    channel.call("exchange.declare", exchange=exchange, type="x-consistent-hash", arguments=arguments)
    queues = []
    for weight in weights:
        queues.append(channel.declare(exclusive=True))
        channel.call("queue.bind", queue=queues[-1], exchange=exchange, routing_key=weight)
    return exchange, queues


@pytest.mark.holds("x-consistent-hash: every message goes to exactly one queue, the same key to the same queue")
def test_a_key_keeps_its_queue(channel: Channel, named: Named) -> None:
    """Each of fifty keys, sent twice, has both messages in one queue."""
    exchange, queues = _exchange_with_queues(channel, named, "1", "1", "1")
    keys = [b"key-%d" % index for index in range(50)]
    for key in keys * 2:
        channel.publish(exchange, key.decode(), key)
    contents = [channel.get_bodies(queue) for queue in queues]
    assert sorted(body for bodies in contents for body in bodies) == sorted(keys * 2)
    for bodies in contents:
        assert all(bodies.count(body) == 2 for body in bodies)


@pytest.mark.octets_too_slow
@pytest.mark.holds("x-consistent-hash: the binding key is the weight")
def test_the_binding_key_is_the_weight(channel: Channel, named: Named) -> None:
    """Weights 1 and 9: the second gets most of a thousand keys, the first not none."""
    exchange, queues = _exchange_with_queues(channel, named, "10", "90")
    for index in range(1000):
        channel.publish(exchange, f"key-{index}", b"m")
    light, heavy = (len(channel.get_bodies(queue)) for queue in queues)
    assert light + heavy == 1000
    assert 0 < light < heavy


@pytest.mark.octets_too_slow
@pytest.mark.holds("x-consistent-hash: removing a queue moves only its own keys")
def test_only_the_keys_of_a_removed_queue_move(channel: Channel, named: Named) -> None:
    """That is what the consistency is for."""
    exchange, queues = _exchange_with_queues(channel, named, "10", "10", "10")

    def placement() -> dict[bytes, str]:
        for index in range(200):
            channel.publish(exchange, f"key-{index}", b"%d" % index)
        return {body: queue for queue in queues for body in channel.get_bodies(queue)}

    before = placement()
    removed = queues.pop()
    channel.call("queue.delete", queue=removed)
    after = placement()
    assert set(after) == set(before)
    assert all(after[body] == queue for body, queue in before.items() if queue != removed)


@pytest.mark.holds("x-consistent-hash: hash-header hashes a header instead of the routing key")
def test_a_header_can_be_hashed(channel: Channel, named: Named) -> None:
    """Other keys, same header: same queue."""
    exchange, queues = _exchange_with_queues(channel, named, "1", "1", **{"hash-header": "customer"})
    for index in range(20):
        channel.publish(exchange, f"key-{index}", b"m", headers={"customer": "always the same"})
    assert sorted(len(channel.get_bodies(queue)) for queue in queues) == [0, 20]


@pytest.mark.holds("x-consistent-hash: hash-property hashes a property")
@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_a_property_can_be_hashed(channel: Channel, named: Named, name: str) -> None:
    """Other keys, same property: same queue."""
    exchange, queues = _exchange_with_queues(channel, named, "1", "1", **{"hash-property": name})
    value = 17 if name == "timestamp" else "always the same"
    for index in range(20):
        channel.publish(exchange, f"key-{index}", b"m", False, False, **{name: value})
    assert sorted(len(channel.get_bodies(queue)) for queue in queues) == [0, 20]


@pytest.mark.holds("x-consistent-hash: a weight that is no positive integer -> 406")
@pytest.mark.parametrize("weight", ["heavy", "0", "-1"])
def test_a_bad_weight_is_a_406(channel: Channel, named: Named, weight: str) -> None:
    """The text speaks of the binding key."""
    exchange, _ = _exchange_with_queues(channel, named)
    queue = channel.declare(exclusive=True)
    channel.send("queue.bind", queue=queue, exchange=exchange, routing_key=weight)
    assert "binding key" in channel.expect_close(406, by="queue.bind")


@pytest.mark.holds("x-consistent-hash: without queues messages are unroutable")
def test_without_queues_nothing_is_routed(channel: Channel, named: Named) -> None:
    """Mandatory ones return."""
    exchange, _ = _exchange_with_queues(channel, named)
    channel.publish(exchange, "key", b"lost", mandatory=True)
    assert channel.expect_message("basic.return").body == b"lost"
