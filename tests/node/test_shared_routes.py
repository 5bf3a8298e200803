"""Addresses with the same queues share one route, as long as these queues are there."""

from __future__ import annotations

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets, small_config


def publish(client: Client, routing_key: str) -> None:
    method = encode_method_frame(1, methods.BasicPublish(0, "amq.direct", routing_key, False, False))
    header = frame_octets(2, 1, b"\x00\x3c\x00\x00" + (1).to_bytes(8, "big") + b"\x00\x00")
    client.send_octets(method + header + frame_octets(3, 1, b"x"))


def bind(driver: NodeDriver, client: Client, *keys: str) -> None:
    client.send(1, declare("q", durable=False))
    driver.settle()
    for key in keys:
        client.send(1, methods.QueueBind(0, "q", "amq.direct", key, False, Table({})))
        driver.settle()


def test_keys_of_the_same_queues_share_a_route() -> None:
    driver = NodeDriver()
    bind(driver, driver.client(1), "one", "two")
    vhost = driver.node.broker.vhosts["/"]
    direct, topic = vhost.router.get("amq.direct"), vhost.router.get("amq.topic")
    route = vhost.route_to(direct, ["q"])
    assert route.queues == [driver.queue("q")]
    assert route.entry is direct
    assert vhost.route_to(direct, ["q"]) is route
    assert vhost.route_to(topic, ["q"]) is not route


def test_what_is_not_there_is_not_remembered() -> None:
    vhost = NodeDriver().node.broker.vhosts["/"]
    entry = vhost.router.get("amq.direct")
    assert vhost.route_to(entry, ["gone"]).queues == []
    assert vhost.route_to(entry, ["gone"]) is not vhost.route_to(entry, ["gone"])


def test_a_queue_made_anew_gets_what_comes_for_it() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    bind(driver, client, "one", "two")
    publish(client, "one")
    old = driver.queue("q")
    client.send(1, methods.QueueDelete(0, "q", False, False, False))
    driver.settle()
    bind(driver, client, "one", "two")
    for key in ("one", "two", "two"):
        publish(client, key)
    driver.settle()
    assert driver.queue("q") is not old
    assert driver.queue("q").message_count() == 3


def test_what_goes_to_no_queue_is_counted_and_what_goes_to_one_is_not() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    bind(driver, client, "one")
    for key in ("nobody", "one", "nobody", "somebody else"):
        publish(client, key)
    driver.settle()
    assert driver.node.broker.unroutable == 3
    assert driver.queue("q").message_count() == 1


def test_keys_in_turn_and_a_binding_between_go_where_they_belong() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    bind(driver, client, "one", "two")
    for _ in range(3):
        for key in ("one", "two", "three"):
            publish(client, key)
    driver.settle()
    assert driver.queue("q").message_count() == 6
    client.send(1, methods.QueueBind(0, "q", "amq.direct", "three", False, Table({})))
    client.send(1, methods.QueueUnbind(0, "q", "amq.direct", "one", Table({})))
    driver.settle()
    for key in ("three", "one", "three"):
        publish(client, key)
    driver.settle()
    assert driver.queue("q").message_count() == 8
    client.take()
    client.send(1, consume("q", no_ack=True))
    driver.settle()
    delivered = [event.method for event in client.take() if isinstance(event.method, methods.BasicDeliver)]
    assert [method.routing_key for method in delivered] == ["one", "two"] * 3 + ["three", "three"]
    assert {method.exchange for method in delivered} == {"amq.direct"}


def test_routes_are_forgotten_between_the_parts_of_a_message() -> None:
    """The number under which a channel knows its route is another's when the table was emptied and filled again."""
    driver = NodeDriver(small_config(max_cached_routes=2))
    client = driver.client(1, 2)
    client.send(1, declare("p", durable=False), declare("r", durable=False))
    bind(driver, client, "one")
    for name, keys in (("p", ("two", "both")), ("r", ("three", "both"))):
        client.send(1, *(methods.QueueBind(0, name, "amq.direct", key, False, Table({})) for key in keys))
    driver.settle()
    keys = ("both", "one", "nobody", "two", "both", "three", "one")
    for key in keys:
        publish(client, key)
        octets = encode_method_frame(2, methods.BasicPublish(0, "amq.direct", key, False, False))
        client.send_octets(octets)
        for between in keys:
            publish(client, between)
        client.send_octets(frame_octets(2, 2, b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"))
    driver.settle()
    each = len(keys) + 2
    counts = {name: driver.queue(name).message_count() for name in ("q", "p", "r")}
    assert counts == {"q": 2 * each, "p": 3 * each, "r": 3 * each}
    assert driver.node.broker.unroutable == each
