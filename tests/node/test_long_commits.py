"""A long tx.commit: done in parts, so that it holds up nobody else; and what becomes of it when something happens in
between."""

from __future__ import annotations

from itertools import pairwise

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets, publish_octets, small_config
from tests.node.one_slice import OneSlice

COUNT = 2000
AT_ONCE = 50
GET = methods.BasicGet(0, "old", True)


@pytest.fixture
def driver() -> NodeDriver:
    driver = NodeDriver(small_config(max_tx_at_once=AT_ONCE, max_turn_copies=1_000_000))
    setup = driver.client(1)
    for name in ("old", "new", "other"):
        setup.send(1, declare(name))
        driver.settle()
    return driver


@pytest.fixture
def client(driver: NodeDriver) -> Client:
    client = driver.client(1)
    client.send(1, methods.TxSelect())
    driver.turn()
    return client


def publish(driver: NodeDriver, client: Client, count: int, queue: str = "new") -> None:
    client.send_octets(b"".join(publish_octets(1, queue, b"%d" % number) for number in range(count)))
    driver.turn()
    client.take()


def hold_some(driver: NodeDriver, client: Client, count: int) -> None:
    """The transactional client holds so many deliveries of `old`."""
    publisher = driver.client(1)
    publish(driver, publisher, count, "old")
    driver.synced(driver.take_sync())
    client.send(1, consume("old"))
    driver.turn()
    assert driver.queue("old").unacked_count() == count
    client.take()


def ready(driver: NodeDriver, queue: str = "new") -> int:
    return int(driver.queue(queue).message_count())


def bodies(driver: NodeDriver, queue: str) -> list[bytes]:
    reader = driver.client(1)
    found = []
    while ready(driver, queue):
        reader.send(1, methods.BasicGet(0, queue, True))
        driver.turn()
        (event,) = reader.take()
        found.append(event.body)
    return found


def test_it_does_a_little_in_each_turn_and_others_are_served_meanwhile(driver: NodeDriver, client: Client) -> None:
    driver.node.background.set_pace(OneSlice())
    publish(driver, client, COUNT)
    other = driver.client(1)
    client.send(1, methods.TxCommit(), methods.BasicQos(0, 1, False))
    seen = [ready(driver)]
    while seen[-1] < COUNT:
        other.send(1, methods.BasicGet(0, "other", True))
        driver.turn()
        assert other.names() == ["basic.get-empty"]
        assert client.connection.is_paused, "what it says meanwhile stays outside"
        assert client.names() == []
        seen.append(ready(driver))
    assert max(after - before for before, after in pairwise(seen)) < 100
    driver.settle()
    assert client.names() == ["tx.commit-ok", "basic.qos-ok"]
    assert not client.connection.is_paused
    assert bodies(driver, "new") == [b"%d" % number for number in range(COUNT)]


def test_a_short_one_takes_effect_at_once(driver: NodeDriver, client: Client) -> None:
    driver.node.background.set_pace(OneSlice())
    publish(driver, client, AT_ONCE)
    client.send(1, methods.TxCommit())
    assert ready(driver) == AT_ONCE
    publish(driver, client, AT_ONCE)
    assert ready(driver) == AT_ONCE, "the next transaction waits until the first is on the disk"
    driver.settle()
    assert client.names() == ["tx.commit-ok"]
    client.send(1, methods.TxRollback(), methods.TxCommit())
    driver.settle()
    assert client.names() == ["tx.rollback-ok", "tx.commit-ok"]
    assert ready(driver) == AT_ONCE


def test_what_it_settles_and_what_it_publishes_are_one_transaction(driver: NodeDriver, client: Client) -> None:
    hold_some(driver, client, COUNT)
    driver.node.background.set_pace(OneSlice())
    publish(driver, client, COUNT)
    client.send(
        1,
        methods.BasicAck(COUNT // 2, True),
        methods.BasicReject(COUNT // 2 + 1, False),
        methods.BasicCancel("tag", False),
        methods.BasicNack(0, True, True),
        methods.TxCommit(),
    )
    driver.turn()
    seen = [driver.queue("old").unacked_count()]
    assert seen == [COUNT]
    while driver.queue("old").unacked_count():
        driver.turn()
        if ready(driver) < COUNT:
            assert driver.queue("old").unacked_count() == COUNT, "settled before all was published"
        seen.append(driver.queue("old").unacked_count())
    assert max(before - after for before, after in pairwise(seen)) <= 200
    driver.settle()
    assert client.names() == ["basic.cancel-ok", "tx.commit-ok"]
    assert bodies(driver, "old") == [b"%d" % number for number in range(COUNT // 2 + 1, COUNT)]
    assert ready(driver) == COUNT
    client.send(1, methods.BasicAck(0, True), methods.TxCommit())
    driver.settle()
    assert client.names() == ["tx.commit-ok"]


def test_a_client_that_goes_has_committed(driver: NodeDriver, client: Client) -> None:
    """It is done to the end, as RabbitMQ does."""
    hold_some(driver, client, COUNT)
    publish(driver, client, COUNT)
    driver.node.background.set_pace(OneSlice())
    client.send(1, methods.BasicAck(0, True), methods.TxCommit())
    while not ready(driver):
        driver.turn()
    driver.lose(client)
    while driver.node.background.jobs:
        driver.turn()
    assert ready(driver) == COUNT
    assert ready(driver, "old") == driver.queue("old").unacked_count() == 0
    driver.settle()


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_client_that_goes_before_anything_is_published_has_not(
    driver: NodeDriver, client: Client, turns: int
) -> None:
    hold_some(driver, client, COUNT)
    publish(driver, client, 3)
    driver.node.background.set_pace(OneSlice())
    client.send(1, methods.BasicAck(0, True), methods.TxCommit())
    for _ in range(turns):
        driver.turn()
    driver.lose(client)
    while driver.node.background.jobs:
        driver.turn()
    assert ready(driver) == 0
    assert bodies(driver, "old") == [b"%d" % number for number in range(COUNT)]


def test_a_queue_that_goes_meanwhile_gets_no_more(driver: NodeDriver, client: Client) -> None:
    driver.node.background.set_pace(OneSlice())
    publish(driver, client, COUNT)
    client.send(1, methods.TxCommit())
    driver.turn()
    other = driver.client(1)
    other.send(1, methods.QueueDelete(0, "new", False, False, False))
    while driver.node.background.jobs:
        driver.turn()
    driver.settle()
    assert other.names() == ["queue.delete-ok"]
    assert client.names() == ["tx.commit-ok"]
    assert "new" not in driver.node.broker.vhosts["/"].queues


def test_an_exchange_that_goes_meanwhile_does_not_end_it(driver: NodeDriver, client: Client) -> None:
    """It was halfway then, and answered 404: what was published first was there, and the rest was not."""
    setup = driver.client(1)
    setup.send(1, methods.ExchangeDeclare(0, "x", "fanout", False, False, False, False, False, Table({})))
    driver.settle()
    setup.send(1, methods.QueueBind(0, "new", "x", "", False, Table({})))
    driver.settle()
    hold_some(driver, client, AT_ONCE)
    content = frame_octets(2, 1, b"\x00\x3c\x00\x00" + bytes(10))
    client.send_octets((encode_method_frame(1, methods.BasicPublish(0, "x", "", False, False)) + content) * COUNT)
    client.send(1, methods.BasicAck(0, True), methods.TxCommit())
    driver.node.background.set_pace(OneSlice())
    while not ready(driver):
        driver.turn()
    setup.send(1, methods.ExchangeDelete(0, "x", False, False))
    while driver.node.background.jobs:
        driver.turn()
    driver.settle()
    assert client.names() == ["tx.commit-ok"]
    assert ready(driver) == COUNT
    assert (ready(driver, "old"), driver.queue("old").unacked_count()) == (0, 0)


def test_a_queue_that_refuses_one_of_many(driver: NodeDriver, client: Client) -> None:
    """The client was told that all was done."""
    setup = driver.client(1)
    setup.send(1, declare("full", x_max_length=COUNT - 1, x_overflow="reject-publish"))
    driver.settle()
    publish(driver, client, COUNT, "full")
    driver.node.background.set_pace(OneSlice())
    client.send(1, methods.TxCommit())
    while driver.node.background.jobs:
        driver.turn()
    driver.settle()
    close = client.take()[-1].method
    assert (close.name, close.reply_code) == ("channel.close", 406)
    assert close.reply_text.startswith("PRECONDITION_FAILED - partial tx completion")
    assert ready(driver, "full") == COUNT - 1


def test_a_mandatory_message_whose_queue_goes_is_returned(driver: NodeDriver, client: Client) -> None:
    content = frame_octets(2, 1, b"\x00\x3c\x00\x00" + bytes(10))
    client.send_octets(encode_method_frame(1, methods.BasicPublish(0, "", "new", True, False)) + content)
    driver.turn()
    client.take()
    setup = driver.client(1)
    setup.send(1, methods.QueueDelete(0, "new", False, False, False))
    driver.settle()
    client.send(1, methods.TxCommit())
    driver.settle()
    assert client.names() == ["basic.return", "tx.commit-ok"]


def test_a_virtual_host_that_goes_meanwhile_does_no_harm(driver: NodeDriver, client: Client) -> None:
    driver.node.background.set_pace(OneSlice())
    publish(driver, client, COUNT)
    client.send(1, methods.TxCommit())
    driver.turn()
    driver.node.broker.propose(commands.delete_vhost("/"))
    while driver.node.background.jobs:
        if driver.turn().wants_sync and (job := driver.node.take_sync()) is not None:
            driver.synced(job)
    driver.settle()
    names = client.names()
    assert "tx.commit-ok" not in names
    assert names[-1] == "connection.close"


@pytest.mark.parametrize("turns", range(0, 200, 17))
def test_a_crash_in_between_loses_nothing_that_was_to_be_acknowledged(
    driver: NodeDriver, client: Client, turns: int
) -> None:
    """A part of the publishes may be there, the first ones; who has not seen commit-ok does it again."""
    hold_some(driver, client, COUNT)
    publish(driver, client, COUNT)
    client.send(1, methods.BasicAck(0, True), methods.TxCommit())
    driver.node.background.set_pace(OneSlice())
    for _ in range(turns):
        driver.turn()
        if (job := driver.node.take_sync()) is not None:
            driver.synced(job)
    is_answered = "tx.commit-ok" in client.names()
    driver.crash()
    found = bodies(driver, "new")
    assert found == [b"%d" % number for number in range(len(found))]
    if len(found) < COUNT:
        assert ready(driver, "old") == COUNT
    if is_answered:
        assert (len(found), ready(driver, "old")) == (COUNT, 0)
