"""Very many connections that are closed together (their user or virtual host is deleted, the node stops) end in slices,
each with the word that says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.node.node_driver import Client, NodeDriver, consume, declare, handshake_octets
from tests.node.one_slice import OneSlice
from tests.node.system_service import SystemService
from tests.simulation.settings import USER

pytestmark = pytest.mark.once

COUNT = 120
AT_ONCE = 8


def delete_user(driver: NodeDriver) -> str:
    driver.node.control.close_user(USER)
    return f"user '{USER}' is deleted"


def delete_vhost(driver: NodeDriver) -> str:
    driver.node.broker.propose(commands.delete_vhost("/"))
    return "vhost '/' is deleted"


def stop(driver: NodeDriver) -> str:
    driver.node.shut_down(driver.now)
    return "broker forced connection closure with reason 'shutdown'"


def step(driver: NodeDriver) -> None:
    """A turn, and a sync if one is wanted."""
    if driver.turn().wants_sync and (job := driver.node.take_sync()) is not None:
        driver.synced(job)


def crowd(vhost: str = "/") -> tuple[NodeDriver, list[Client]]:
    """So many clients of a node that does one slice a turn."""
    driver = NodeDriver()
    if vhost != "/":
        put_vhost(driver, vhost)
    clients = [driver.client(1, vhost=vhost) for _ in range(COUNT)]
    driver.node.background.set_pace(OneSlice())
    return driver, clients


def put_vhost(driver: NodeDriver, name: str) -> None:
    driver.node.broker.propose(commands.put_vhost(name))
    driver.node.broker.propose(commands.set_permission(USER, name, ".*", ".*", ".*"))
    driver.settle()


def begin_to_delete(driver: NodeDriver, vhost: str) -> None:
    """The virtual host is gone, and some of its clients do not know yet."""
    driver.node.broker.propose(commands.delete_vhost(vhost))
    while vhost in driver.node.broker.vhosts:
        step(driver)
    assert driver.node.clients.open_count > COUNT // 2


def closed_with(client: Client) -> tuple[int, str]:
    """What the broker's close of the connection says, which is the last that the client has heard."""
    method = client.take()[-1].method
    assert isinstance(method, methods.ConnectionClose)
    return method.reply_code, method.reply_text


DELETED = (320, "CONNECTION_FORCED - vhost 'v' is deleted")


@pytest.mark.parametrize("end", [delete_user, delete_vhost, stop])
def test_they_end_a_few_in_a_turn(end: Callable[[NodeDriver], str]) -> None:
    driver, clients = crowd()
    text = end(driver)
    left = driver.node.clients.open_count
    assert left == COUNT
    while left:
        step(driver)
        assert left - AT_ONCE <= driver.node.clients.open_count <= left
        left = driver.node.clients.open_count
    driver.settle()
    for client in clients:
        assert closed_with(client) == (320, f"CONNECTION_FORCED - {text}")


def test_who_goes_in_between_does_no_harm() -> None:
    driver, clients = crowd()
    driver.node.control.close_user(USER)
    for client in clients[COUNT // 2 :]:
        driver.lose(client)
    newcomer = driver.client(1)
    for _ in range(COUNT):
        driver.turn()
    assert driver.node.clients.open_count == 1
    assert newcomer.names() == []


def test_who_stops_the_node_hears_when_all_have_been_told() -> None:
    driver, clients = crowd()
    closing = driver.node.shut_down(driver.now)
    turns = 0
    while not closing.is_done:
        driver.turn()
        turns += 1
    assert turns >= COUNT // AT_ONCE
    assert not driver.node.clients.open_count
    assert {client.names()[-1] for client in clients} == {"connection.close"}


def test_a_deleted_virtual_host_is_entered_by_nobody() -> None:
    driver, _ = crowd("v")
    begin_to_delete(driver, "v")
    late = driver.raw_client()
    late.send_octets(handshake_octets(vhost="v"))
    step(driver)
    assert closed_with(late) == (530, "NOT_ALLOWED - vhost v not found")


def test_who_deletes_a_virtual_host_hears_when_its_connections_and_queues_are_gone() -> None:
    driver, clients = crowd("v")
    clients[0].send(1, declare("q"))
    driver.settle()
    service = SystemService(driver)
    service.send("vhost.delete", b'{"name": "v"}')
    while not (answers := service.answers()):
        step(driver)
    assert answers == [{"ok": True}]
    assert driver.node.clients.open_count == 1
    assert driver.node.broker.queue_count == 0


SAYINGS = {
    "declares": lambda client: client.send(1, declare("new")),
    "binds": lambda client: client.send(1, methods.QueueBind(0, "q", "amq.direct", "k", False, Table({}))),
    "deletes": lambda client: client.send(1, methods.QueueDelete(0, "q", False, False, False)),
    "publishes": lambda client: client.publish(1, "q", b"late"),
    "consumes": lambda client: client.send(1, consume("q", "late")),
    "gets": lambda client: client.send(1, methods.BasicGet(0, "q", False)),
    "commits": lambda client: client.send(1, methods.TxCommit()),
    "opens a channel": lambda client: client.send(2, methods.ChannelOpen()),
    "closes its channel": lambda client: client.send(1, methods.ChannelClose(200, "", 0, 0)),
}


@pytest.mark.parametrize("is_there_again", [False, True], ids=["gone", "there again"])
@pytest.mark.parametrize("name", SAYINGS)
def test_who_says_something_meanwhile_hears_it_at_once(name: str, is_there_again: bool) -> None:
    """Nothing of it is done, neither there nor in another virtual host of that name."""
    driver, clients = crowd("v")
    last = clients[-1]
    last.send(1, declare("q"))
    driver.settle()
    last.publish(1, "q", b"before")  # its route is remembered
    if name == "commits":
        last.send(1, methods.TxSelect())
    driver.settle()
    last.take()
    begin_to_delete(driver, "v")
    if is_there_again:
        driver.node.broker.propose(commands.put_vhost("v"))
        driver.node.broker.propose(commands.set_permission(USER, "v", ".*", ".*", ".*"))
        while "v" not in driver.node.broker.vhosts:
            step(driver)
        step(driver)
    before = driver.node.clients.open_count
    SAYINGS[name](last)
    assert driver.node.clients.open_count == before - 1
    step(driver)
    assert closed_with(last) == DELETED
    finish(driver)
    assert driver.node.clients.open_count == 0
    assert driver.node.broker.queue_count == 0
    assert driver.node.store.pager.used == 0
    assert [each.names()[-1] for each in clients[:-1]] == ["connection.close"] * (COUNT - 1)


def finish(driver: NodeDriver) -> None:
    """All that is to be done in slices is."""
    driver.settle()
    while driver.node.background.jobs:
        step(driver)
    driver.settle()


def test_what_was_asked_for_before_is_not_done_in_another_one_of_that_name() -> None:
    """The declaration is under way when the virtual host goes."""
    driver, clients = crowd("v")
    last = clients[-1]
    driver.node.broker.propose(commands.delete_vhost("v"))
    driver.node.broker.propose(commands.put_vhost("v"))
    driver.node.broker.propose(commands.set_permission(USER, "v", ".*", ".*", ".*"))
    last.send(1, declare("q"))
    finish(driver)
    assert closed_with(last) == DELETED
    assert driver.node.clients.open_count == 0


def test_a_long_commit_ends_with_its_virtual_host() -> None:
    driver, clients = crowd("v")
    last = clients[-1]
    last.send(1, declare("q"), methods.TxSelect())
    driver.settle()
    for _ in range(4000):
        last.publish(1, "q", b"x")
    last.take()
    last.send(1, methods.TxCommit())
    driver.turn()
    begin_to_delete(driver, "v")
    finish(driver)
    assert closed_with(last) == DELETED
    assert driver.node.broker.queue_count == 0
    assert driver.node.store.pager.used == 0


def test_what_its_queues_do_meanwhile_concerns_no_other_one_of_that_name() -> None:
    """Messages expire, and a queue; the letters of the old one are for nobody."""
    driver, clients = crowd("v")
    first = clients[0]
    letters: dict[str, object] = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
    first.send(1, declare("source", x_message_ttl=1000, **letters), declare("short", x_expires=1000))
    driver.settle()
    for _ in range(10):
        first.publish(1, "source", b"x")
    driver.settle()
    begin_to_delete(driver, "v")
    driver.node.broker.propose(commands.put_vhost("v"))
    driver.node.broker.propose(commands.set_permission(USER, "v", ".*", ".*", ".*"))
    driver.node.broker.propose(commands.declare_queue("v", "dead", driver.node.broker.metadata.next_queue_id))
    while "v" not in driver.node.broker.vhosts or "dead" not in driver.node.broker.vhosts["v"].queues:
        step(driver)
    assert driver.node.broker.queue_count > 1
    driver.now += 2000
    driver.node.tick(driver.now)
    finish(driver)
    assert driver.node.broker.vhosts["v"].queues["dead"].message_count() == 0
    assert list(driver.node.broker.vhosts["v"].queues) == ["dead"]
    assert driver.node.broker.queue_count == 1
    assert driver.node.store.pager.used == 0


def test_a_crash_meanwhile_leaves_nothing_of_it() -> None:
    driver, clients = crowd("v")
    clients[-1].send(1, declare("q"))
    driver.settle()
    clients[-1].publish(1, "q", b"x")
    driver.settle()
    begin_to_delete(driver, "v")
    clients[-1].publish(1, "q", b"late")
    step(driver)
    driver.crash()
    assert list(driver.node.broker.vhosts) == ["/"]
    assert driver.node.broker.queue_count == 0
    assert driver.node.store.pager.used == 0
