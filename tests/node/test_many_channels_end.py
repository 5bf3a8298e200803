"""Very many channels that end with their connection: their consumers leave in slices, what they held comes back behind
that, and nothing goes to any of them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from amqp_broker.channel.settlement import FEW
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.routing.reply_to import REPLY_TO
from tests.node.node_driver import Client, NodeDriver, consume, handshake_octets, publish_octets, small_config
from tests.node.one_slice import OneSlice

pytestmark = pytest.mark.once

CHANNELS = 150
EACH = FEW // CHANNELS + 5
#: So many of them leave between two turns at most.
AT_ONCE = 64


def lose(driver: NodeDriver, client: Client) -> None:
    driver.lose(client)


def close(driver: NodeDriver, client: Client) -> None:
    client.send(0, methods.ConnectionClose(200, "", 0, 0))
    driver.turn()


def crowd(kind: str = "classic", *, exclusive: bool = False) -> tuple[NodeDriver, Client]:
    """A client whose channels consume from the queue `q` and hold all that is in it, the first ones on the first
    channel; one slice of work a turn from now on."""
    driver = NodeDriver(small_config(output_limit_bytes=1 << 30, background_time_ms=1000))
    client = driver.raw_client()
    client.send_octets(handshake_octets(channel_max=CHANNELS))
    driver.settle()
    client.send(1, methods.ChannelOpen())
    arguments = Table({"x-queue-type": kind})
    client.send(1, methods.QueueDeclare(0, "q", False, kind == "quorum", exclusive, False, False, arguments))
    driver.settle()
    for start in range(0, CHANNELS * EACH, 100):
        octets = [publish_octets(1, "q", b"%d" % n, persistent=False) for n in range(start, start + 100)]
        client.send_octets(b"".join(octets[: CHANNELS * EACH - start]))
        driver.settle()
    for number in range(1, CHANNELS + 1):
        client.send(number, *[methods.ChannelOpen()][: number - 1], methods.BasicQos(0, EACH, False), consume("q"))
        driver.settle()
    assert driver.queue("q").unacked_count() == CHANNELS * EACH > FEW
    client.take()
    driver.node.background.set_pace(OneSlice())
    return driver, client


def bodies(client: Client) -> list[int]:
    return [int(event.body) for event in client.take() if event.method.name == "basic.deliver"]


def heard(driver: NodeDriver, client: Client) -> list[int]:
    driver.settle()
    return bodies(client)


def step(driver: NodeDriver) -> None:
    """A turn, and a sync if one is wanted."""
    if driver.turn().wants_sync and (job := driver.node.take_sync()) is not None:
        driver.synced(job)


def finish(driver: NodeDriver) -> None:
    """Until there is no work left."""
    while driver.node.background.jobs:
        step(driver)
    driver.settle()


@pytest.mark.parametrize("end", [lose, close])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_they_leave_in_slices_and_get_nothing_meanwhile(end: Callable[[NodeDriver, Client], None], kind: str) -> None:
    driver, client = crowd(kind)
    rival = driver.client(1)
    queue, new = driver.queue("q"), CHANNELS * EACH
    end(driver, client)
    assert driver.node.clients.sums.delivered == CHANNELS * EACH
    left = [CHANNELS, queue.consumer_count()]
    while driver.node.background.jobs:
        rival.send_octets(publish_octets(1, "q", b"%d" % new, persistent=False))
        new += 1
        step(driver)
        left.append(queue.consumer_count())
    assert max(before - after for before, after in pairwise(left)) <= AT_ONCE
    driver.settle()
    assert left[-1] == queue.consumer_count() == 0
    assert (queue.unacked_count(), queue.message_count()) == (0, new)
    assert {event.method.name for event in client.take()} <= {"connection.close-ok"}
    rival.send(1, consume("q", no_ack=True))
    found: list[int] = []
    while some := heard(driver, rival):
        found += some
    assert found == list(range(new))


def test_others_get_all_of_it_in_order() -> None:
    driver, client = crowd()
    rival = driver.client(1)
    rival.send(1, consume("q", no_ack=True))
    driver.turn()
    driver.lose(client)
    finish(driver)
    assert bodies(rival) == list(range(CHANNELS * EACH))


def test_their_queue_may_go_in_between() -> None:
    driver, client = crowd()
    other = driver.client(1)
    driver.lose(client)
    driver.turn()
    assert 0 < driver.queue("q").consumer_count() < CHANNELS
    other.send(1, methods.QueueDelete(0, "q", False, False, False))
    finish(driver)
    assert other.names() == ["queue.delete-ok"]
    assert "q" not in driver.node.broker.vhosts["/"].queues
    assert driver.node.store.pager.used == 0


def test_an_exclusive_queue_goes_with_them() -> None:
    driver, client = crowd(exclusive=True)
    driver.lose(client)
    finish(driver)
    assert "q" not in driver.node.broker.vhosts["/"].queues
    assert driver.node.store.pager.used == 0


def test_a_queue_that_is_deleted_with_its_last_consumer_goes_when_all_have_left() -> None:
    driver, client = crowd()
    declaring = driver.client(1)
    declaring.send(1, methods.QueueDeclare(0, "auto", False, False, False, True, False, Table({})))
    for number in range(1, CHANNELS + 1):
        client.send(number, methods.BasicConsume(0, "auto", "two", False, False, False, False, Table({})))
    driver.settle()
    assert driver.queue("auto").consumer_count() == CHANNELS
    driver.lose(client)
    driver.turn()
    assert "auto" in driver.node.broker.vhosts["/"].queues
    finish(driver)
    assert "auto" not in driver.node.broker.vhosts["/"].queues


def autos(driver: NodeDriver, client: Client, declaring: Client) -> list[str]:
    """The names of queues that are deleted with their last consumer, which is the client's: of more than go in a
    slice."""
    found = [f"auto-{number}" for number in range(3 * AT_ONCE)]
    for name in found:
        declaring.send(1, methods.QueueDeclare(0, name, False, False, False, True, False, Table({})))
        client.send(1, consume(name, name))
        driver.settle()
    declaring.take()
    return found


@pytest.mark.parametrize("slices", range(12))
def test_a_queue_that_goes_in_slices_is_gone_or_stays_with_who_consumes_from_it(slices: int) -> None:
    driver, client = crowd()
    other = driver.client(1)
    names = autos(driver, client, other)
    queues = driver.node.broker.vhosts["/"].queues
    driver.lose(client)
    while names[0] in queues and queues[names[0]].consumer_count():
        step(driver)
    for _ in range(slices):
        step(driver)
    other.send(1, consume(names[0]))
    finish(driver)
    assert other.names() == (["basic.consume-ok"] if names[0] in queues else ["channel.close"])
    assert not [name for name in names[1:] if name in queues]


def test_what_a_closing_channel_has_done_is_counted_once_though_its_connection_is_lost_meanwhile() -> None:
    driver, client = crowd()
    clients = driver.node.clients
    for number in range(2, CHANNELS + 1):
        client.send(number, methods.ChannelClose(200, "", 0, 0))
        finish(driver)
    client.send(1, methods.BasicQos(0, 0, False), consume("q", "rest"))
    finish(driver)
    client.take()
    delivered = CHANNELS * EACH * 2 - EACH
    client.send(1, methods.ChannelClose(200, "", 0, 0))
    driver.turn()
    assert driver.node.background.jobs
    assert client.names() == []
    going_on = client.connection.channels.values()
    assert clients.sums.delivered + sum(each.messages_delivered() for each in going_on) == delivered
    driver.lose(client)
    finish(driver)
    assert clients.sums.delivered == delivered
    assert clients.channels_closed == clients.channels_opened == CHANNELS


@pytest.mark.parametrize("end", [lose, close])
def test_replies_go_to_none_of_them(end: Callable[[NodeDriver, Client], None]) -> None:
    driver, client = crowd()
    client.send(CHANNELS, methods.BasicConsume(0, REPLY_TO, "replies", False, True, False, False, Table({})))
    driver.settle()
    consumer = client.connection.channels[CHANNELS].reply_consumer
    other = driver.client(1)
    client.take()
    end(driver, client)
    assert driver.node.background.jobs
    other.send_octets(publish_octets(1, consumer.address, b"late", persistent=False))
    finish(driver)
    assert {event.method.name for event in client.take()} <= {"connection.close-ok"}
