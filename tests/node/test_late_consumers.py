"""A consumer that holds a delivery for too long (consumer_timeout)."""

from __future__ import annotations

from tests.node.node_driver import NodeDriver, consume, declare, small_config

TIMEOUT_MS = 2000


def test_who_holds_a_delivery_for_too_long_is_cancelled_whichever_connection_it_is_of() -> None:
    driver = NodeDriver(small_config(consumer_timeout_ms=TIMEOUT_MS))
    publisher = driver.client(1)
    clients = [driver.client(1, 2, capabilities=["consumer_cancel_notify"]) for _ in range(2)]
    for number, (client, channel_id) in enumerate([(clients[0], 1), (clients[0], 2), (clients[1], 1)]):
        client.send(channel_id, declare(f"q{number}"), consume(f"q{number}"))
    driver.settle()
    for number in range(3):
        publisher.publish(1, f"q{number}", b"x")
    driver.settle()
    for client in clients:
        client.take()
    driver.wait(TIMEOUT_MS // 2)
    assert [client.names() for client in clients] == [[], []]
    driver.wait(TIMEOUT_MS)
    for client, count in zip(clients, (2, 1), strict=True):
        assert client.names() == ["basic.cancel"] * count
    assert [driver.queue(f"q{number}").message_count() for number in range(3)] == [1, 1, 1]
