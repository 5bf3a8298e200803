"""New passwords are hashed elsewhere, one at a time: while one is, everybody else is served."""

from __future__ import annotations

import json

from amqp_broker.auth.hashing import PasswordHash
from amqp_broker.auth.passwords import verify_password
from amqp_broker.metadata import commands
from amqp_broker.node import Turn
from amqp_broker.protocol import methods
from tests.node.node_driver import NodeDriver, handshake_octets, small_config
from tests.node.system_service import SystemService


class SlowDriver(NodeDriver):
    """What is to be hashed or compared waits until the test runs it."""

    is_slow = False

    def turn(self) -> Turn:
        if not self.is_slow:
            return super().turn()
        turn = self.node.end_turn(self.now)
        for connection in turn.dirty:
            connection.transport.hear(b"".join(connection.take_output()))
        self.checks += turn.checks
        return turn

    def start(self) -> None:
        self.checks: list[object] = []
        super().start()

    def run_check(self) -> object:
        check = self.checks.pop(0)
        check.run()  # type: ignore[attr-defined]
        self.node.checked(check, self.now)  # type: ignore[arg-type]
        self.settle()
        return check


def slow_driver() -> tuple[SlowDriver, SystemService]:
    driver = SlowDriver()
    service = SystemService(driver)
    driver.is_slow = True
    return driver, service


def test_the_passwords_of_an_import_are_hashed_elsewhere_one_by_one() -> None:
    driver, service = slow_driver()
    users = [{"name": f"u{number}", "password": f"p{number}", "tags": []} for number in range(3)]
    service.send("definitions.import", json.dumps({"definitions": {"users": users}}).encode())
    driver.settle()
    for _ in users:
        assert len(driver.checks) == 1
        assert service.answers() == []
        driver.run_check()
    assert driver.checks == []
    assert service.answers() == [{"ok": True, "commands": 3, "notes": []}]
    for number in range(3):
        user = driver.node.broker.metadata.user(f"u{number}")
        assert user is not None
        assert verify_password(f"p{number}", user.password_hash)


def test_logins_and_others_have_their_turn_between_two_hashes() -> None:
    driver, service = slow_driver()
    users = [{"name": f"u{number}", "password": "p", "tags": []} for number in range(4)]
    service.send("definitions.import", json.dumps({"definitions": {"users": users}}).encode())
    driver.settle()
    client = driver.raw_client()
    driver.node.broker.passwords._seen.clear()
    client.send_octets(handshake_octets())
    driver.settle()
    kinds = [isinstance(driver.run_check(), PasswordHash), isinstance(driver.run_check(), PasswordHash)]
    assert kinds == [True, False]
    assert "connection.open-ok" in client.names()
    client.send(1, methods.ChannelOpen())
    driver.settle()
    assert client.names() == ["channel.open-ok"]


def test_a_new_password_of_a_user_is_hashed_elsewhere() -> None:
    driver, service = slow_driver()
    service.send("user.put", b'{"name": "u", "password": "p"}')
    driver.settle()
    assert service.answers() == []
    driver.run_check()
    assert service.answers() == [{"ok": True}]


def test_a_client_that_waits_for_many_hashes_is_not_given_up() -> None:
    """Each of them takes a while; together they take longer than a command may."""
    driver, service = slow_driver()
    users = [{"name": f"u{number}", "password": "p", "tags": []} for number in range(4)]
    service.send("definitions.import", json.dumps({"definitions": {"users": users}}).encode())
    driver.settle()
    for _ in users:
        driver.now += driver.config.command_timeout_ms - 1000
        driver.node.tick(driver.now)
        driver.run_check()
    assert [answer["ok"] for answer in service.answers()] == [True]


def test_the_password_of_a_first_start_is_hashed_elsewhere() -> None:
    driver = SlowDriver(small_config(default_user="first", default_password="secret"))
    driver.node.broker.propose(commands.delete_user("first"))
    driver.settle()
    driver.is_slow = True
    task = driver.node.broker.populate()
    driver.settle()
    assert not task.is_done
    driver.run_check()
    assert task.is_done
    user = driver.node.broker.metadata.user("first")
    assert user is not None
    assert verify_password("secret", user.password_hash)
