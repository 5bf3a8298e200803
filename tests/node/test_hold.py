"""A connection that waits for something elsewhere: none of its frames are handled until it has happened, or does not
come."""

from __future__ import annotations

import logging

import pytest

from amqp_broker.errors import ChannelException, ConnectionException
from amqp_broker.flow.pending_answers import PendingAnswer
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from tests.node.node_driver import Client, NodeDriver, declare, small_config

QOS = methods.BasicQos(0, 1, False)


def held(driver: NodeDriver) -> tuple[Client, PendingAnswer]:
    """A client whose declaration waits to be committed, with another method behind it."""
    client = driver.client(1)
    client.send(1, declare("a"), QOS)
    driver.turn()
    (hold,) = driver.node.answers.timed
    return client, hold


def test_frames_behind_it_are_handled_when_it_ends() -> None:
    driver = NodeDriver()
    client, hold = held(driver)
    assert hold.what == "queue.declare"
    assert client.connection.is_parked
    assert client.connection.is_paused, "nothing more is read"
    assert client.names() == []
    driver.settle()
    assert client.names() == ["queue.declare-ok", "basic.qos-ok"]
    assert not client.connection.is_paused
    assert not driver.node.answers.timed


def test_what_does_not_come_ends_the_connection_and_says_what_it_was() -> None:
    driver = NodeDriver(small_config(command_timeout_ms=5000))
    client, hold = held(driver)
    turn = driver.turn()
    assert turn.next_deadline is not None
    assert turn.next_deadline <= driver.now + 5000
    driver.now += 4999
    driver.node.tick(driver.now)
    driver.turn()
    assert client.names() == []
    driver.now += 1
    driver.node.tick(driver.now)
    driver.turn()
    (close,) = [event.method for event in client.take()]
    assert (close.reply_code, close.class_id, close.method_id) == (541, 50, 10)
    assert "queue.declare" in close.reply_text
    assert "5000 ms (command_timeout)" in close.reply_text
    assert "whether it takes effect is not known" in close.reply_text
    driver.settle()
    assert client.names() == [], "its command is applied, and nobody is told"
    assert driver.queue("a").message_count() == 0
    hold.release(lambda: pytest.fail("it is over"))


def test_only_the_first_release_counts() -> None:
    driver = NodeDriver()
    client, hold = held(driver)
    answered: list[int] = []
    hold.release(lambda: answered.append(1))
    hold.release(lambda: answered.append(2))
    assert answered == [1]
    driver.settle()
    assert client.names() == ["basic.qos-ok"], "what was waited for comes too late"


def test_an_answer_may_hold_again() -> None:
    driver = NodeDriver()
    client, hold = held(driver)
    again: list[PendingAnswer] = []
    hold.release(lambda: again.append(driver.node.answers.begin(client.connection, "more")))
    driver.turn()
    assert client.connection.is_parked
    assert client.names() == []
    again[0].release(lambda: None)
    driver.turn()
    assert client.names() == ["basic.qos-ok"]


@pytest.mark.parametrize(
    ("error", "method"),
    [
        (ChannelException(ReplyCode.NOT_FOUND, "no such thing"), "channel.close"),
        (ConnectionException(ReplyCode.NOT_ALLOWED, "not like this"), "connection.close"),
    ],
    ids=["channel", "connection"],
)
def test_an_answer_may_raise_as_a_handler_may(error: Exception, method: str) -> None:
    driver = NodeDriver()
    client, hold = held(driver)

    def answer() -> None:
        raise error

    hold.release(answer)
    driver.turn()
    (close,) = [event.method for event in client.take()]
    assert close.name == method
    assert (close.class_id, close.method_id) == (50, 10), "the method that was held"
    driver.settle()
    assert client.names() == []


def test_a_defect_in_an_answer_ends_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    driver = NodeDriver()
    other = driver.client(1)
    client, hold = held(driver)
    with caplog.at_level(logging.ERROR):
        hold.release(lambda: [][0])
    driver.turn()
    assert [event.method.reply_code for event in client.take()] == [541]
    assert any("defect" in line for line in caplog.messages)
    other.send(1, QOS)
    driver.turn()
    assert other.names() == ["basic.qos-ok"]


def test_a_channel_that_was_closed_meanwhile_is_not_answered() -> None:
    """The broker closes it by itself; what other channels have sent goes on."""
    driver = NodeDriver()
    client = driver.client(1, 2)
    client.take()
    client.send(1, declare("a"))
    client.send(2, QOS)
    driver.turn()
    (hold,) = driver.node.answers.timed
    connection = client.connection
    connection.current = connection.channels[1]
    connection.control.on_channel_exception(connection, ChannelException(ReplyCode.RESOURCE_ERROR, "too much"))
    hold.release(lambda: pytest.fail("nobody is there"))
    driver.turn()
    assert [(event.channel_id, event.method.name) for event in client.take()] == [
        (1, "channel.close"),
        (2, "basic.qos-ok"),
    ]


def test_a_client_that_has_gone_is_not_answered() -> None:
    driver = NodeDriver()
    client, hold = held(driver)
    driver.lose(client)
    driver.settle()
    assert client.names() == []
    assert not driver.node.answers.timed
    assert driver.queue("a").message_count() == 0, "its command was on its way"
    hold.release(lambda: pytest.fail("nobody is there"))


def test_a_shut_down_ends_what_is_held() -> None:
    driver = NodeDriver()
    client, _ = held(driver)
    driver.node.shut_down(driver.now)
    driver.settle()
    assert client.names() == ["connection.close"]


def test_several_that_wait_go_on_in_the_order_of_their_commands() -> None:
    driver = NodeDriver()
    clients = [driver.client(1) for _ in range(5)]
    order: list[int] = []
    for number, client in enumerate(clients):
        client.send(1, declare("a" if number % 2 else f"q{number}"), QOS)
    for number, hold in enumerate(driver.node.answers.timed):
        release = hold.release
        hold.release = lambda answer, number=number, release=release: (order.append(number), release(answer))  # type: ignore[method-assign,misc,assignment]
    driver.settle()
    assert order == [0, 1, 2, 3, 4]
    assert all(client.names() == ["queue.declare-ok", "basic.qos-ok"] for client in clients)
