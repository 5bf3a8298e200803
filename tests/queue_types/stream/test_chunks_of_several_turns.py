"""What comes while the disk is busy goes into one chunk: it would wait for the next sync in any case."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from tests.node.node_driver import Client, NodeDriver, publish_octets, small_config
from tests.queue_types.stream.test_streams_of_a_node import a_stream, consume, declare, delivered, qos


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver(small_config(queue_groups=1))


def chunks(driver: NodeDriver, name: str = "s") -> list[tuple[int, int]]:
    """Of the stream: first offset and records of each."""
    stream = driver.queue(name).stream()
    return [(stored.first, stored.chunk.records) for stored in stream.log.chunks(0)] if stream is not None else []


def publish(driver: NodeDriver, client: Client, *bodies: bytes, name: str = "s") -> None:
    """All in one turn."""
    for body in bodies:
        client.publish(1, name, body)
    driver.turn()


def confirmed(client: Client) -> list[int]:
    return [event.method.delivery_tag for event in client.take() if event.method.name == "basic.ack"]


def busy(driver: NodeDriver, client: Client) -> Any:
    """A sync of one message is under way."""
    client.send(1, methods.ConfirmSelect(False))
    driver.settle()
    client.take()
    publish(driver, client, b"first")
    return driver.take_sync()


def test_turns_while_a_sync_is_under_way_are_one_chunk(driver: NodeDriver) -> None:
    client = a_stream(driver)
    job = busy(driver, client)
    publish(driver, client, b"1", b"2")
    publish(driver, client, b"3")
    assert confirmed(client) == []
    driver.synced(job)
    assert confirmed(client) == [1]
    job = driver.take_sync()  # what was held is in the next one
    driver.synced(job)
    assert confirmed(client) == [4]
    assert chunks(driver) == [(0, 1), (1, 3)]
    driver.crash()
    assert chunks(driver) == [(0, 1), (1, 3)]
    reader = driver.client(1)
    reader.send(1, qos(10), consume())
    driver.settle()
    assert delivered(reader) == [(0, b"first"), (1, b"1"), (2, b"2"), (3, b"3")]


def test_what_was_held_at_a_crash_was_not_confirmed(driver: NodeDriver) -> None:
    client = a_stream(driver)
    job = busy(driver, client)
    publish(driver, client, b"1")
    job.run()
    assert confirmed(client) == []
    driver.crash()
    assert chunks(driver) == [(0, 1)]


def test_a_sync_in_which_the_group_has_nothing_lets_it_go_on(driver: NodeDriver) -> None:
    """Another queue's sync is under way: nobody else would tell the group that it is over."""
    client = a_stream(driver)
    client.send(1, methods.ConfirmSelect(False), methods.QueueDeclare(0, "c", False, True))
    driver.settle()
    client.take()
    publish(driver, client, b"classic", name="c")
    job = driver.take_sync()
    publish(driver, client, b"1")
    publish(driver, client, b"2")
    driver.synced(job)
    driver.synced(driver.take_sync())
    assert confirmed(client)[-1] == 3
    assert chunks(driver) == [(0, 2)]


def test_a_chunk_is_no_longer_for_that(driver: NodeDriver) -> None:
    """A disk that hangs: what is held is not more than a few chunks."""
    client = a_stream(driver)
    job = busy(driver, client)
    for _ in range(12):
        publish(driver, client, b"x" * 100_000)
    group = driver.queue("s").group
    assert group.backlog_bytes() >= 9 * 100_000
    driver.synced(job)
    driver.settle()
    assert confirmed(client)[-1] == 13
    assert sum(records for _, records in chunks(driver)) == 13
    assert max(records for _, records in chunks(driver)) == 3


def test_many_streams_are_not_held(driver: NodeDriver) -> None:
    """Nobody counts what they have in hand."""
    client = a_stream(driver)
    names = [f"s{number}" for number in range(5)]
    client.send(1, *[declare(name) for name in names])
    driver.settle()
    for count, held in ((4, True), (5, False)):
        job = busy(driver, client)
        before = driver.queue("s").group.backlog_bytes()
        client.send_octets(b"".join(publish_octets(1, name, b"x" * 1000) for name in names[:count]))
        driver.turn()
        assert (driver.queue("s").group.backlog_bytes() - before < 1000) == held
        driver.synced(job)
        driver.settle()
    assert [len(chunks(driver, name)) for name in names] == [2, 2, 2, 2, 1]
