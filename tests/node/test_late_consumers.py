"""A consumer that holds a delivery for too long (consumer_timeout)."""

from __future__ import annotations

from itertools import pairwise

from tests.node.node_driver import Client, NodeDriver, consume, declare, publish_octets, small_config
from tests.node.one_slice import OneSlice

TIMEOUT_MS = 2000
#: So many deliveries that they are not dealt with at once, and how many are at most.
MANY = 3000
AT_ONCE = 256


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


def holder_of_many() -> tuple[NodeDriver, Client]:
    """A client that has held very much for longer than it may; nobody has looked yet. One slice of work a turn from
    now on."""
    settings = {"output_limit_bytes": 1 << 30, "background_time_ms": 1000}
    driver = NodeDriver(small_config(consumer_timeout_ms=TIMEOUT_MS, **settings))
    client = driver.client(1, capabilities=["consumer_cancel_notify"])
    client.send(1, declare("q", durable=False), consume("q"), declare("other"), consume("other", "innocent"))
    for start in range(0, MANY, 100):
        octets = [publish_octets(1, "q", b"%d" % n, persistent=False) for n in range(start, start + 100)]
        client.send_octets(b"".join(octets))
        driver.settle()
    assert client.connection.channels[1].held_count() == MANY
    driver.wait(TIMEOUT_MS)
    client.take()
    driver.now += TIMEOUT_MS // 10
    driver.node.background.set_pace(OneSlice())
    driver.node.tick(driver.now)
    return driver, client


def finish(driver: NodeDriver) -> None:
    """Until there is no work left."""
    while driver.node.background.jobs:
        driver.settle()
    driver.settle()


def test_what_it_held_comes_back_in_slices_and_in_order() -> None:
    driver, client = holder_of_many()
    queue = driver.queue("q")
    counts = [0, queue.message_count()]
    while driver.node.background.jobs:
        driver.turn()
        counts.append(queue.message_count())
    assert counts[-1] == MANY
    assert max(after - before for before, after in pairwise(counts)) <= AT_ONCE
    finish(driver)
    assert client.names() == ["basic.cancel"]
    client.send(1, consume("q", "again", no_ack=True))
    finish(driver)
    bodies = [int(event.body) for event in client.take() if event.method.name == "basic.deliver"]
    assert bodies == list(range(MANY))


def test_a_connection_that_is_lost_meanwhile_gives_back_the_rest() -> None:
    for turns in range(0, 30, 3):
        driver, client = holder_of_many()
        for _ in range(turns):
            driver.turn()
        driver.lose(client)
        finish(driver)
        assert (driver.queue("q").message_count(), driver.queue("q").unacked_count()) == (MANY, 0)
