"""The end of a connection: what is said last arrives, and what is still on its way to us costs nothing."""

from __future__ import annotations

from amqp_broker.flow.state import CLOSED, CLOSING, ENDING
from amqp_broker.protocol import methods
from tests.node.node_driver import NodeDriver, declare, publish_octets, small_config

CLOSE = methods.ConnectionClose(200, "bye", 0, 0)


def test_a_client_that_closes_closes_its_transport_itself() -> None:
    """Beyond its connection.close more may come: it is discarded, and the transport stays until the client closes."""
    driver = NodeDriver()
    client = driver.client(1)
    client.closes = False
    client.send(1, declare("a", durable=False))
    client.send_octets(publish_octets(1, "a", b"before"))
    client.send(0, CLOSE)
    client.send_octets(publish_octets(1, "a", b"behind") + b"garbage")
    turn = driver.turn()
    assert client.names()[-1] == "connection.close-ok"
    assert turn.dropped == []
    assert client.connection.state == ENDING
    client.send_octets(publish_octets(1, "a", b"later"))
    assert client.connection.pending == b""
    assert driver.queue("a").ready.count == 1
    assert not driver.node.background.jobs
    driver.lose(client)
    assert not driver.node.clients.connections
    assert not driver.node.clients.closing


def test_a_client_that_closes_and_stays_is_dropped_in_the_end() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.closes = False
    client.send(0, CLOSE)
    driver.wait(driver.config.closing_timeout_ms - 1)
    assert not client.is_closed
    driver.wait(1)
    assert client.is_closed
    assert client.connection.is_abandoned


def test_beyond_our_close_all_but_the_answer_is_passed_over() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a", durable=False))
    client.send_octets(publish_octets(1, "a", b"one") + b"\x01\x00\x00\x00\x00\x00\x02xx\xce")  # half a method
    client.send_octets(publish_octets(1, "a", b"x" * 50_000) * 3)
    driver.turn()
    assert client.names()[-1] == "connection.close"
    assert client.connection.state == CLOSING
    assert driver.queue("a").ready.count == 1
    client.send(0, methods.ConnectionCloseOk())
    turn = driver.turn()
    assert turn.dropped == [client.connection]
    assert not client.connection.is_abandoned


def test_garbage_beyond_our_close_does_not_keep_the_client_from_reading_it() -> None:
    """Its transport is left to it: to close it now could reset what was said."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send_octets(b"GET / HTTP/1.1\r\n" * 10)
    client.send_octets(b"GET / HTTP/1.1\r\n" * 10)
    turn = driver.turn()
    assert client.names() == ["connection.close"]
    assert not [connection for connection in turn.dropped if connection.is_abandoned]


def test_of_many_that_do_not_close_the_oldest_is_dropped() -> None:
    driver = NodeDriver(small_config(max_closing_connections=2))
    clients = [driver.client(1) for _ in range(4)]
    for client in clients:
        client.closes = False
        client.send(0, CLOSE)
        driver.turn()
    assert [client.is_closed for client in clients] == [True, True, False, False]


def test_those_that_are_at_their_end_take_nobodys_place() -> None:
    driver = NodeDriver(small_config(max_connections=1))
    client = driver.client(1)
    client.closes = False
    client.send(0, CLOSE)
    driver.turn()
    driver.client(1)
    assert len(driver.node.clients.connections) == 2


def test_a_publisher_that_is_paused_hears_our_close_and_answers_it() -> None:
    """Its answer is behind what it published, so that has to be read."""
    driver = NodeDriver(small_config(publish_backlog_bytes=1000))
    client = driver.client(1)
    client.send(1, declare("a"))
    driver.settle()
    client.publish(1, "a", b"x" * 2000)
    driver.turn()
    client.publish(1, "a", b"y")
    driver.turn()
    assert client.connection.is_paused
    driver.node.shut_down(driver.now)
    turn = driver.turn()
    assert turn.reading == [client.connection]
    assert not client.connection.is_paused
    client.publish(1, "a", b"z")
    client.send(0, methods.ConnectionCloseOk())
    driver.turn()
    assert client.is_closed


def test_a_shutdown_waits_for_nobody_who_has_closed_already() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.closes = False
    client.send(0, CLOSE)
    driver.turn()
    driver.node.shut_down(driver.now)
    turn = driver.turn()
    assert turn.dropped == [client.connection]
    assert client.connection.state == CLOSED
