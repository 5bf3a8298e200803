"""Passwords are checked elsewhere: the connection waits, everybody else goes on, and failures count one by one."""

from __future__ import annotations

import hashlib
from functools import partial

import pytest

from amqp_broker.auth.session import SERVICE_USER
from amqp_broker.connection.logins import PasswordCheck
from amqp_broker.metadata import commands
from amqp_broker.node import Node
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import PROTOCOL_HEADER
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.auth.hashed_password import hash_password
from tests.node import node_driver
from tests.node.node_driver import Client, NodeDriver, declare, handshake_octets, small_config

CAPABILITIES = {"capabilities": {"authentication_failure_close": True}}


def start(driver: NodeDriver, user: str, password: str) -> Client:
    """A client that has said who it is; the turn is not over."""
    client = driver.raw_client()
    said = methods.ConnectionStartOk(Table(CAPABILITIES), "PLAIN", f"\0{user}\0{password}".encode(), "en_US")
    client.send_octets(PROTOCOL_HEADER + encode_method_frame(0, said))
    return client


def hear(driver: NodeDriver) -> list[PasswordCheck]:
    """End a turn; what is to be checked."""
    turn = driver.node.end_turn(driver.now)
    for connection in turn.dirty:
        connection.transport.hear(b"".join(connection.take_output()))
    return list(turn.checks)


def last(client: Client) -> str:
    names = client.names()
    return names[-1] if names else ""


def test_nothing_is_computed_between_an_input_and_the_end_of_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = NodeDriver()
    other = driver.client(1)
    driver.node.broker.propose(commands.put_user("slow", hash_password("secret", bytes), []))
    driver.node.broker.propose(commands.set_permission("slow", "/", ".*", ".*", ".*"))
    driver.settle()
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "scrypt", None)
        client = start(driver, "slow", "secret")
        assert client.connection.is_parked
        client.send(0, methods.ConnectionTuneOk(100, 4096, 0), methods.ConnectionOpen("/"))
        (check,) = hear(driver)
        other.send(1, declare("a", durable=False))
        assert hear(driver) == []
        assert last(other) == "queue.declare-ok"
        assert last(client) == "connection.start"
    check.run()
    driver.node.checked(check, driver.now)
    assert hear(driver) == []
    assert client.names() == ["connection.tune", "connection.open-ok"]
    assert not client.connection.is_paused
    again = driver.raw_client()
    again.send_octets(handshake_octets())
    assert hear(driver) == [], "a password that was right is known"


def test_one_at_a_time_and_whoever_is_gone_is_passed_over() -> None:
    driver = NodeDriver()
    clients = [start(driver, "guest", f"wrong {number}") for number in range(4)]
    (first,) = hear(driver)
    assert hear(driver) == []
    driver.node.connection_lost(clients[1].connection, driver.now)
    driver.node.connection_lost(clients[0].connection, driver.now)
    first.run()
    driver.node.checked(first, driver.now)
    (third,) = hear(driver)
    assert third.connection is clients[2].connection
    third.run()
    driver.node.checked(third, driver.now)
    driver.turn()
    assert [last(client) for client in clients[2:]] == ["connection.close"] * 2


def test_a_flood_of_guesses_waits_after_ten_failures() -> None:
    """Each is judged when its turn comes, so that sending many at once gains nothing."""
    driver = NodeDriver(small_config(login_backoff_ms=1000, login_backoff_max_ms=30_000))
    clients = [start(driver, "guest", f"wrong {number}") for number in range(30)]
    computed = 0
    while checks := hear(driver):
        for check in checks:
            computed += 1
            check.run()
            driver.node.checked(check, driver.now)
    assert computed == 10
    assert [last(client) for client in clients] == ["connection.close"] * 30


def test_the_nodes_own_user_who_comes_from_an_address_forgives_it_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its management process does, now and then, from where every user of the machine comes."""
    monkeypatch.setattr(node_driver, "Node", partial(Node, service_token="token"))
    driver = NodeDriver(small_config(login_backoff_ms=1000, login_backoff_max_ms=30_000))
    computed = 0
    for number in range(12):
        client = start(driver, "guest", f"wrong {number}")
        for check in hear(driver):
            computed += 1
            check.run()
            driver.node.checked(check, driver.now)
        own = start(driver, SERVICE_USER, "token")
        driver.settle()
        assert last(own) == "connection.tune"
        assert last(client) == "connection.close"
    assert computed == 10


def test_a_password_that_changes_while_it_is_checked() -> None:
    driver = NodeDriver()
    driver.node.broker.propose(commands.put_user("changing", hash_password("old", bytes), []))
    client = start(driver, "changing", "old")
    (check,) = hear(driver)
    driver.node.broker.propose(commands.put_user("changing", hash_password("new", bytes), []))
    check.run()
    driver.node.checked(check, driver.now)
    driver.turn()
    assert last(client) == "connection.close"


def test_a_handshake_that_ends_while_its_password_is_checked() -> None:
    driver = NodeDriver()
    client = start(driver, "guest", "guest")
    (check,) = hear(driver)
    driver.now += driver.config.handshake_timeout_ms
    driver.node.tick(driver.now)
    driver.turn()
    assert client.is_closed
    check.run()
    driver.node.checked(check, driver.now)
    assert driver.turn().dirty == []
