"""Messages for very many queues, and very many requests at once: whoever sends them does not hold up the others, nor
loses any, nor is it let go on before its time."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import Client, NodeDriver, declare, frame_octets, small_config

QUEUES = 50
MESSAGES = 40
#: The body of a frame, octets.
FRAME = 4000


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver(small_config(max_turn_copies=4 * QUEUES))


def wide_publisher(driver: NodeDriver) -> Client:
    """Every message that it publishes is for many queues."""
    client = driver.client(1)
    client.send(1, methods.ExchangeDeclare(0, "wide", "fanout", False, False, False, False, False, Table({})))
    driver.settle()
    for number in range(QUEUES):
        client.send(1, declare(f"q{number}", durable=False))
        driver.settle()
        client.send(1, methods.QueueBind(0, f"q{number}", "wide", "", False, Table({})))
        driver.settle()
    client.take()
    return client


@pytest.fixture
def publisher(driver: NodeDriver) -> Client:
    return wide_publisher(driver)


def publish(client: Client, count: int, size: int = 1) -> None:
    method = encode_method_frame(1, methods.BasicPublish(0, "wide", "", False, False))
    header = frame_octets(2, 1, b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\x00\x00")
    body = b"".join(frame_octets(3, 1, bytes(min(FRAME, size - start))) for start in range(0, size, FRAME))
    client.send_octets((method + header + body) * count)


def go_on(driver: NodeDriver) -> None:
    """The others were looked at: those that rest have their share."""
    driver.node.tick(driver.now)
    driver.turn()


def counts(driver: NodeDriver) -> set[int]:
    return {driver.queue(f"q{number}").message_count() for number in range(QUEUES)}


def test_what_one_read_holds_takes_several_turns(driver: NodeDriver, publisher: Client) -> None:
    publish(publisher, MESSAGES)
    assert counts(driver) == {4}
    driver.turn()
    assert publisher.connection.is_paused  # so that what it has still to say stays outside
    other = driver.client(1)
    other.send(1, methods.QueueDeclare(0, "q0", True, False, False, False, False, Table({})))
    driver.turn()
    assert other.names()[-1] == "queue.declare-ok"
    go_on(driver)
    assert counts(driver) == {4 + 4}
    driver.wait(MESSAGES)
    assert counts(driver) == {MESSAGES}
    assert not publisher.connection.is_paused


def test_who_goes_meanwhile_does_no_harm(driver: NodeDriver, publisher: Client) -> None:
    publish(publisher, MESSAGES)
    driver.lose(publisher)
    driver.wait(MESSAGES)
    assert counts(driver) == {4}


def test_a_commit_is_answered_before_anything_else_is_handled(driver: NodeDriver, publisher: Client) -> None:
    """It may be parked for its answer: nobody else is to let it go on."""
    publisher.send(1, methods.TxSelect())
    publish(publisher, MESSAGES)
    publisher.send(1, methods.TxCommit())
    driver.wait(MESSAGES)
    assert publisher.names()[-1] == "tx.commit-ok"
    assert counts(driver) == {MESSAGES}


REQUESTS = 300
GET = methods.BasicGet(0, "q0", True)
#: So many requests are a turn's share here.
SHARE = 4 * QUEUES // 16 + 1


def answers(client: Client) -> int:
    return len(client.names())


def test_what_one_read_holds_of_requests_takes_several_turns(driver: NodeDriver, publisher: Client) -> None:
    publisher.send(1, *[GET] * REQUESTS)
    driver.turn()
    assert answers(publisher) == SHARE
    assert publisher.connection.is_paused
    other = driver.client(1)
    other.send(1, GET)
    driver.turn()
    assert answers(other) == 1
    heard = []
    for _ in range(REQUESTS):
        go_on(driver)
        heard.append(answers(publisher))
    assert max(heard) <= SHARE
    assert sum(heard) == REQUESTS - SHARE
    assert not publisher.connection.is_paused


class Patience:
    """A Pace: so many times it says that there is time left."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._left = 0

    def start(self) -> None:
        self._left = self._times

    def goes_on(self) -> bool:
        self._left -= 1
        return self._left > 0


def test_a_share_is_over_when_its_time_is(publisher: Client, driver: NodeDriver) -> None:
    """However little was done in it: requests take as long as they take."""
    driver.turn()
    driver.node.turn_share.set_pace(Patience(5))
    publisher.send(1, *[GET] * 12)
    heard = []
    for _ in range(3):
        driver.turn()
        heard.append(answers(publisher))
        driver.node.tick(driver.now)
    assert heard == [5, 5, 2]


def test_those_who_rest_go_on_whatever_the_others_ask(publisher: Client, driver: NodeDriver) -> None:
    driver.turn()
    driver.node.turn_share.set_pace(Patience(5))
    other = driver.client(1)
    publisher.send(1, *[GET] * 8)
    driver.turn()
    answers(publisher)
    other.send(1, *[GET] * 5)
    go_on(driver)
    assert answers(publisher) == 3


def test_those_who_ask_much_take_turns(driver: NodeDriver, publisher: Client) -> None:
    others = [driver.client(1) for _ in range(3)]
    driver.turn()
    for other in others:
        other.send(1, *[GET] * REQUESTS)
    driver.turn()
    for other in others:
        other.take()
    heard = [0] * len(others)
    for _ in range(3 * len(others)):
        go_on(driver)
        heard = [count + answers(other) for count, other in zip(heard, others, strict=True)]
    assert sum(heard) >= 3 * len(others) * (SHARE - 1)
    assert max(heard) - min(heard) <= SHARE


def test_requests_that_fail_count_too(driver: NodeDriver, publisher: Client) -> None:
    """The next one is on a channel of its own each time."""
    bad = methods.BasicGet(0, "nowhere", True)
    for number in range(2, 40):
        publisher.send(number, methods.ChannelOpen())
    driver.wait(10)
    publisher.take()
    publisher.send_octets(b"".join(encode_method_frame(number, bad) for number in range(2, 40)))
    driver.turn()
    assert publisher.names() == ["channel.close"] * SHARE
    driver.wait(10)
    assert publisher.names() == ["channel.close"] * (38 - SHARE)


def test_channels_that_are_opened_count_too(driver: NodeDriver, publisher: Client) -> None:
    """There may be thousands of them on one connection."""
    publisher.send_octets(b"".join(encode_method_frame(number, methods.ChannelOpen()) for number in range(2, 40)))
    driver.turn()
    assert publisher.names() == ["channel.open-ok"] * SHARE
    driver.wait(10)
    assert publisher.names() == ["channel.open-ok"] * (38 - SHARE)


def test_who_waits_for_the_disk_is_not_let_go_on_by_the_clock(driver: NodeDriver, publisher: Client) -> None:
    """A declaration that uses up the share is answered when it is committed, and what comes behind it after that."""
    driver.turn()
    driver.node.turn_share.copies = 4 * QUEUES
    publisher.send(1, declare("durable"), GET)
    driver.turn()
    driver.now += 5
    driver.node.tick(driver.now)
    driver.turn()
    assert publisher.names() == []
    driver.settle()
    assert publisher.names() == ["queue.declare-ok", "basic.get-empty"]


def test_changes_count_more(driver: NodeDriver, publisher: Client) -> None:
    publisher.send(1, *[declare(f"other{number}", durable=False) for number in range(20)])
    driver.turn()
    assert answers(publisher) == 2
    driver.wait(20)
    assert answers(publisher) == 18


def test_who_goes_while_it_rests_does_not_keep_the_others_waiting(driver: NodeDriver, publisher: Client) -> None:
    other = driver.client(1)
    driver.turn()
    for client in (publisher, other):
        client.send(1, *[GET] * REQUESTS)
    driver.lose(publisher)
    driver.wait(REQUESTS)
    assert answers(other) == REQUESTS


DELAY_MS = 25


def consumer_of(driver: NodeDriver) -> Client:
    """It consumes from one of the queues to which the publisher publishes."""
    client = driver.client(1)
    client.send(1, methods.BasicConsume(0, "q0", "c", False, True, False, False, Table({})))
    driver.turn()
    client.take()
    return client


@pytest.fixture
def consumer(driver: NodeDriver, publisher: Client) -> Client:
    return consumer_of(driver)


def delivered(client: Client) -> int:
    return client.names().count("basic.deliver")


def test_what_those_who_rest_have_delivered_leaves_together(
    driver: NodeDriver, publisher: Client, consumer: Client
) -> None:
    publish(publisher, MESSAGES)
    driver.turn()
    assert delivered(consumer) == 4  # of the first share, as always
    go_on(driver)
    go_on(driver)
    assert delivered(consumer) == 0
    driver.now += DELAY_MS - 1
    go_on(driver)
    assert delivered(consumer) == 0
    driver.now += 1
    go_on(driver)
    assert delivered(consumer) == 16
    driver.now -= 1000  # a clock that was set back keeps nobody waiting
    go_on(driver)
    driver.now -= 1000
    go_on(driver)
    assert delivered(consumer) == 8
    driver.wait(MESSAGES)
    assert delivered(consumer) == MESSAGES - 4 - 16 - 8
    assert not driver.node.clients.held


def test_it_leaves_with_whatever_else_is_said(driver: NodeDriver, publisher: Client, consumer: Client) -> None:
    publish(publisher, MESSAGES)
    driver.turn()
    go_on(driver)
    assert delivered(consumer) == 4
    consumer.send(1, GET)
    driver.turn()
    assert consumer.names() == [*["basic.deliver"] * 4, "basic.get-empty"]


def test_it_leaves_when_nobody_rests_any_more(driver: NodeDriver, publisher: Client, consumer: Client) -> None:
    publish(publisher, MESSAGES)
    driver.turn()
    go_on(driver)
    assert delivered(consumer) == 4
    driver.lose(publisher)
    go_on(driver)
    assert delivered(consumer) == 4


def test_much_of_it_does_not_wait(driver: NodeDriver, publisher: Client, consumer: Client) -> None:
    publish(publisher, 12, size=30_000)
    driver.turn()
    assert delivered(consumer) == 4
    go_on(driver)
    assert publisher.connection.is_paused
    assert delivered(consumer) == 4


def test_where_the_delay_is_none_nothing_is_held_back() -> None:
    driver = NodeDriver(small_config(max_turn_copies=4 * QUEUES, max_delivery_delay_ms=0))
    publisher = wide_publisher(driver)
    consumer = consumer_of(driver)
    publish(publisher, MESSAGES)
    driver.turn()
    go_on(driver)
    assert delivered(consumer) == 8
