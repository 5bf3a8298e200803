"""Who logs in as somebody else, and the node's own account."""

from __future__ import annotations

import logging

import pytest

from amqp_broker.auth.service_account import ServiceAccount
from amqp_broker.metadata import commands
from amqp_broker.node import Node
from amqp_broker.protocol import methods
from tests.management.users import PASSWORD, USER, add_user, log_in
from tests.node.node_driver import NodeDriver, declare, small_config

TOKEN = "ab" * 32


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> NodeDriver:
    def with_token(*given: object) -> Node:
        return Node(*given, TOKEN)  # type: ignore[arg-type]

    monkeypatch.setattr("tests.node.node_driver.Node", with_token)
    driver = NodeDriver(small_config(max_connections=1))
    add_user(driver, "shop")
    add_user(driver, "clerk", "monitoring")
    return driver


def is_open(names: list[str]) -> bool:
    return "connection.open-ok" in names


def test_an_administrator_logs_in_as_somebody_else(driver: NodeDriver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client = log_in(driver, USER, identity="shop")
    assert is_open(client.names())
    session = client.connection.session
    assert (session.user, session.acting) == ("shop", USER)
    assert not session.has_tag("administrator")
    assert f"user 'shop' by '{USER}'" in caplog.text


@pytest.mark.parametrize(
    ("user", "password", "identity"),
    [
        ("clerk", PASSWORD, "shop"),
        ("shop", PASSWORD, USER),
        (USER, "wrong", "shop"),
        (USER, PASSWORD, "nobody"),
        ("amq.management", "cd" * 32, ""),
        ("amq.management", "", ""),
        ("amq.management", TOKEN, "nobody"),
    ],
)
def test_nobody_else_does(driver: NodeDriver, user: str, password: str, identity: str) -> None:
    client = log_in(driver, user, password, identity)
    (closed,) = [event.method for event in client.take() if event.method.name == "connection.close"]
    assert closed.reply_code == 403


def test_an_own_identity_is_no_other(driver: NodeDriver) -> None:
    assert is_open(log_in(driver, "shop", identity="shop").names())


def test_the_service_account_is_in_no_list_and_counts_in_no_limit(driver: NodeDriver) -> None:
    first, second = log_in(driver, "amq.management", TOKEN), log_in(driver, "amq.management", TOKEN)
    assert is_open(first.names())
    assert is_open(second.names())
    assert first.connection.session.tags() == ("administrator",)
    assert driver.node.broker.metadata.user("amq.management") is None
    # max_connections is 1: it is for others.
    assert is_open(log_in(driver, "shop").names())
    assert not is_open(log_in(driver, "shop").names())


def test_the_service_account_may_touch_nothing_but_act_as_others(driver: NodeDriver) -> None:
    client = log_in(driver, "amq.management", TOKEN)
    client.send(1, methods.ChannelOpen(), declare("q"))
    driver.settle()
    (closed,) = [event.method for event in client.take() if event.method.name == "channel.close"]
    assert closed.reply_code == 403
    driver.lose(client)
    assert is_open(log_in(driver, "amq.management", TOKEN, identity="shop").names())


def test_the_account_needs_no_certain_virtual_host(driver: NodeDriver) -> None:
    """The one that it was told of when the node started may be deleted since."""
    driver.node.broker.propose(commands.put_vhost("left"))
    driver.node.broker.propose(commands.delete_vhost("/"))
    driver.settle()
    client = log_in(driver, "amq.management", TOKEN)
    assert is_open(client.names())
    assert client.connection.session.vhost == "left"
    assert "connection.close" in log_in(driver, USER).names(), "nobody else is put elsewhere"


def test_it_comes_from_this_machine_only() -> None:
    account = ServiceAccount(TOKEN)
    assert account.accepts(TOKEN, True)
    assert not account.accepts(TOKEN, False)


def test_who_acts_as_others_goes_with_the_account(driver: NodeDriver) -> None:
    add_user(driver, "other", "administrator")
    client = log_in(driver, "other", identity="shop")
    assert is_open(client.names())
    driver.node.broker.propose(commands.delete_user("other"))
    driver.settle()
    assert "connection.close" in client.names()


def test_without_a_token_there_is_no_account() -> None:
    driver = NodeDriver()
    client = log_in(driver, "amq.management", "")
    assert "connection.close" in client.names()
