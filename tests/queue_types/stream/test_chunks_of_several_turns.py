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


def test_what_is_held_is_under_way_until_it_is_in_the_log(driver: NodeDriver) -> None:
    """Its client is not to publish by way of another worker before. What others publish meanwhile does not count."""
    client = a_stream(driver)
    job = busy(driver, client)
    publish(driver, client, b"1")
    groups = driver.node.groups
    under_way = groups.leave_what_is_applied(groups.under_way())
    assert under_way
    driver.synced(job)
    job = driver.take_sync()
    publish(driver, client, b"another's")
    under_way = groups.leave_what_is_applied(under_way)
    assert under_way
    driver.synced(job)
    assert groups.leave_what_is_applied(under_way) == {}
    assert chunks(driver)[:2] == [(0, 1), (1, 1)]


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


def many(driver: NodeDriver, client: Client, count: int) -> list[str]:
    """The names of so many streams that are declared."""
    names = [f"s{number}" for number in range(count)]
    for name in names:
        client.send(1, declare(name))
        driver.settle()
    return names


def fill(driver: NodeDriver, client: Client, names: list[str], size: int) -> None:
    """One message for each stream, in a turn."""
    client.send_octets(b"".join(publish_octets(1, name, b"x" * size) for name in names))
    driver.turn()


@pytest.mark.parametrize(
    ("streams", "size", "are_held"), [(100, 1000, True), (256, 1, True), (257, 1, False), (60, 20_000, False)]
)
def test_many_streams_are_held_as_long_as_it_is_not_much(
    driver: NodeDriver, streams: int, size: int, are_held: bool
) -> None:
    client = a_stream(driver)
    names = many(driver, client, streams)
    job = busy(driver, client)
    fill(driver, client, names, size)
    fill(driver, client, names, size)
    driver.synced(job)
    driver.settle()
    assert confirmed(client)[-1] == 1 + 2 * streams
    assert {len(chunks(driver, name)) for name in names} == {1 if are_held else 2}


def test_what_is_held_of_many_is_counted_and_gone_afterwards(driver: NodeDriver) -> None:
    """Publishers wait when it is too much."""
    client = a_stream(driver)
    names = many(driver, client, 100)
    job = busy(driver, client)
    group = driver.queue("s").group
    before = group.backlog_bytes()
    fill(driver, client, names, 1000)
    assert group.filled_bytes > 100 * 1000
    assert group.backlog_bytes() == before + group.filled_bytes
    driver.synced(job)
    driver.settle()
    assert (group.filled_bytes, group.backlog_bytes()) == (0, 0)


def test_the_node_does_not_read_again_what_it_has_packed(driver: NodeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others do, and so does a start."""
    client = a_stream(driver)
    client.send(1, methods.ConfirmSelect(False))
    publish(driver, client, b"makes it")
    driver.settle()

    def read(data: bytes, addresses: object) -> None:
        raise AssertionError("a batch of this node's own is decoded")

    with monkeypatch.context() as patch:
        patch.setattr("queues.quorum.machine.decode_batch", read)
        publish(driver, client, b"1", b"2")
        driver.settle()
    assert confirmed(client)[-1] == 3
    before = chunks(driver)
    driver.crash()
    assert chunks(driver) == before == [(0, 1), (1, 2)]


def test_small_chunks_wait_for_more_of_a_client_that_is_being_read(driver: NodeDriver) -> None:
    """The disk has nothing to do: what one read brings for many streams is a message or two for each."""
    client = a_stream(driver)
    names = many(driver, client, 3)
    client.send(1, methods.ConfirmSelect(False))
    driver.settle()
    for _ in range(3):
        driver.node.input_goes_on(True, driver.now)
        fill(driver, client, names, 10)
    driver.turn()  # of a sync of others
    assert confirmed(client) == []
    assert driver.node.take_sync() is None
    driver.node.input_goes_on(False, driver.now)  # a read that was not full: there is nothing to wait for
    fill(driver, client, names, 10)
    driver.settle()
    assert confirmed(client)[-1] == 12
    assert [chunks(driver, name) for name in names] == [[(0, 4)]] * 3


def test_they_wait_for_a_few_turns_at_most(driver: NodeDriver) -> None:
    client = a_stream(driver)
    names = many(driver, client, 3)
    for _ in range(10):
        driver.node.input_goes_on(True, driver.now)
        fill(driver, client, names, 10)
        if (job := driver.node.take_sync()) is not None:
            driver.synced(job)
    assert {len(chunks(driver, name)) for name in names} == {2}
    assert chunks(driver, names[0])[0] == (0, 5)


def test_they_do_not_wait_for_who_says_nothing_more(driver: NodeDriver) -> None:
    """It may be paused, or gone: a deadline has them submitted."""
    client = a_stream(driver)
    client.send(1, methods.ConfirmSelect(False))
    driver.settle()
    driver.node.input_goes_on(True, driver.now)
    publish(driver, client, b"1")
    assert driver.queue("s").group.filled_bytes > 0
    driver.wait(2)
    assert driver.queue("s").group.filled_bytes == 0
    driver.settle()
    assert confirmed(client)[-1] == 1


def test_while_the_disk_is_busy_no_deadline_looks_after_them(driver: NodeDriver) -> None:
    """It may hang."""
    client = a_stream(driver)
    client.send(1, methods.QueueDeclare(0, "c", False, True))
    driver.settle()
    group = driver.queue("s").group
    driver.node.input_goes_on(True, driver.now)
    publish(driver, client, b"1")
    assert group.next_deadline() == driver.now + 1
    publish(driver, client, b"classic", name="c")
    job = driver.take_sync()
    driver.wait(1)
    assert group.filled_bytes > 0
    assert group.next_deadline() == 0
    driver.synced(job)
    driver.wait(3)
    assert group.filled_bytes == 0


def test_what_is_expected_and_does_not_come_is_forgotten(driver: NodeDriver) -> None:
    client = a_stream(driver)
    driver.node.input_goes_on(True, driver.now)
    driver.wait(5)
    publish(driver, client, b"1")
    assert driver.queue("s").group.filled_bytes == 0


def test_longer_chunks_do_not_wait(driver: NodeDriver) -> None:
    client = a_stream(driver)
    driver.node.input_goes_on(True, driver.now)
    publish(driver, client, b"x" * 4000)
    assert driver.queue("s").group.filled_bytes == 0
