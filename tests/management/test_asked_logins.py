"""The verb `login`: off the loop, with the back-off that AMQP has, too."""

from __future__ import annotations

import pytest

from tests.management.users import PASSWORD, USER, add_user, log_in
from tests.node.node_driver import NodeDriver
from tests.node.system_service import SystemService

HOST = "10.1.2.3"


@pytest.fixture
def driver() -> NodeDriver:
    driver = NodeDriver()
    add_user(driver, "shop", "monitoring")
    return driver


def test_a_right_password_lets_in(driver: NodeDriver) -> None:
    desk = SystemService(driver)
    answer = desk.ask("login", user="shop", password=PASSWORD, host=HOST)
    assert answer == {"ok": True, "name": "shop", "tags": ["monitoring"]}


def test_nothing_is_computed_in_the_turn(driver: NodeDriver) -> None:
    desk = SystemService(driver)
    desk.send("login", b'{"user": "shop", "password": "wrong", "host": "10.1.2.3"}')
    turn = driver.node.end_turn(driver.now)
    (check,) = turn.checks
    assert desk.answers() == []
    check.run()
    driver.node.checked(check, driver.now)
    driver.settle()
    (answer,) = desk.answers()
    assert (answer["ok"], answer["code"]) == (False, "not_authorised")


@pytest.mark.parametrize(("user", "password"), [("shop", "wrong"), ("nobody", "x"), ("shop", "")])
def test_a_wrong_one_does_not(driver: NodeDriver, user: str, password: str) -> None:
    answer = SystemService(driver).ask("login", user=user, password=password, host=HOST)
    assert answer["code"] == "not_authorised"
    assert "retry_after_ms" not in answer


def test_loopback_users_come_from_this_machine(driver: NodeDriver) -> None:
    desk = SystemService(driver)
    assert not desk.ask("login", user=USER, password=PASSWORD, host=HOST)["ok"]
    assert not desk.ask("login", user=USER, password=PASSWORD, host="name")["ok"]
    assert desk.ask("login", user=USER, password=PASSWORD, host="::1")["ok"]


def test_the_back_off_is_shared_with_amqp(driver: NodeDriver) -> None:
    desk = SystemService(driver)
    for _ in range(10):
        assert "retry_after_ms" not in desk.ask("login", user="shop", password="wrong", host="127.0.0.1")
    refused = desk.ask("login", user="shop", password="worse", host="127.0.0.1")
    assert refused["retry_after_ms"] == driver.config.login_backoff_ms
    # Over AMQP, too: but what has been right before is let through.
    assert "connection.close" in log_in(driver, "shop", "worst").names()
    assert desk.ask("login", user="nobody", password=PASSWORD, host="10.9.9.9")["ok"] is False
    driver.wait(driver.config.login_backoff_ms)
    assert desk.ask("login", user="shop", password=PASSWORD, host="127.0.0.1")["ok"]
    totals = desk.ask("totals")["auth_attempts"]["http"]
    assert totals == {"attempts": 13, "failed": 12, "succeeded": 1}
