"""Users with tags, and what they ask."""

from __future__ import annotations

from typing import Any

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import PROTOCOL_HEADER
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import Client, NodeDriver
from tests.node.system_service import SystemService
from tests.simulation.settings import PASSWORD, PASSWORD_HASH, USER

CAPABILITIES = {"capabilities": {"authentication_failure_close": True}}


def add_user(driver: NodeDriver, name: str, *tags: str, vhosts: tuple[str, ...] = ("/",)) -> None:
    """A user whose password is PASSWORD."""
    driver.node.broker.propose(commands.put_user(name, PASSWORD_HASH, list(tags)))
    for vhost in vhosts:
        driver.node.broker.propose(commands.set_permission(name, vhost, ".*", ".*", ".*"))
    driver.settle()


def log_in(driver: NodeDriver, user: str, password: str = PASSWORD, identity: str = "", vhost: str = "/") -> Client:
    """A client that has said all that a login takes; whoever reads it sees what became of that."""
    client = driver.raw_client()
    response = f"{identity}\0{user}\0{password}".encode()
    said = methods.ConnectionStartOk(Table(CAPABILITIES), "PLAIN", response, "en_US")
    client.send_octets(PROTOCOL_HEADER + encode_method_frame(0, said))
    driver.settle()
    if not client.is_closed and "connection.tune" in [event.method.name for event in client.events]:
        client.send(0, methods.ConnectionTuneOk(100, 4096, 0), methods.ConnectionOpen(vhost))
        driver.settle()
    return client


class TaggedDesk:
    """An administrator's service, where requests are made as somebody else."""

    def __init__(self, driver: NodeDriver) -> None:
        self.service = SystemService(driver)

    def ask_as(self, asker: str, verb: str, **fields: object) -> dict[str, Any]:
        return self.service.ask(verb, as_user=asker, **fields)


__all__ = ["PASSWORD", "USER", "TaggedDesk", "add_user", "log_in"]
