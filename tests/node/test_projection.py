"""What the metadata say is true at run time: also when another member's state takes the place of this node's."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.metadata.machine import MetadataMachine
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.node import Node
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from exchanges.bindings import QUEUE, Destination
from tests.auth.hashed_password import hash_password
from tests.node.node_driver import NodeDriver, consume, declare, handshake_octets
from tests.simulation.settings import PASSWORD_HASH, USER

Picture = dict[str, object]


def copied(metadata: Metadata) -> Metadata:
    """Another machine in the same state."""
    other = Metadata()
    for command in metadata.snapshot():
        other.apply(command)
    return other


def picture(node: Node) -> Picture:
    """What clients find, by virtual host."""
    found: Picture = {}
    for name, vhost in node.broker.vhosts.items():
        found[name] = {
            "queues": {queue.name: (queue.queue_id, queue.settings) for queue in vhost.queues.all_made()},
            "exchanges": {entry.name: entry.exchange.type_name for entry in vhost.router.entries()},
            "alternates": {entry.name: entry.alternate for entry in vhost.router.entries()},
            "bindings": sorted(
                (source, each.destination, each.binding_key) for source, each in vhost.router.bindings()
            ),
            "delayed": sorted(vhost.delayed),
        }
    return found


def metadata_of(history: Iterable[Command]) -> Metadata:
    metadata = Metadata()
    for command in history:
        metadata.apply(command)
    return metadata


def install(driver: NodeDriver, other: Metadata) -> None:
    """The state of a member that is ahead comes."""
    machine = driver.node.replication.machine
    ahead = MetadataMachine(other, driver.node.replication)
    ahead._sessions = dict(machine._sessions)  # it has applied all that this node has
    machine.begin_install()
    for part in ahead.export():
        machine.install_chunk(part)
    machine.end_install()
    driver.turn()


def bind(source: str, queue: str, key: str = "") -> Command:
    return commands.add_binding("/", BindingRecord(source, QUEUE, queue, key, b""))


OWN = [
    commands.put_vhost("/"),
    commands.put_user(USER, PASSWORD_HASH, ["administrator"]),
    commands.set_permission(USER, "/", ".*", ".*", ".*"),
]
DELAYS = b"\x0ex-delayed-typeS\0\0\0\x06direct"
STATES: dict[str, list[Command]] = {
    "nothing": [],
    "queues": [commands.declare_queue("/", name, 1) for name in ("a", "b", "c")],
    "the same names, other queues": [
        commands.reserve_queue_ids(50),
        commands.declare_queue("/", "b", 1),
        commands.declare_queue("/", "a", 1),
    ],
    "exchanges": [
        commands.declare_exchange("/", "e", "topic"),
        commands.declare_exchange("/", "later", "x-delayed-message", arguments_raw=DELAYS),
        commands.declare_exchange("/", "f", "fanout"),
    ],
    "bindings": [
        commands.declare_exchange("/", "e", "topic"),
        *(commands.declare_queue("/", name, 1) for name in ("a", "b")),
        bind("e", "a", "x.#"),
        bind("e", "b"),
        bind("amq.fanout", "a"),
        commands.add_binding("/", BindingRecord("e", "exchange", "amq.topic", "k", b"")),
    ],
    "other bindings": [
        commands.declare_exchange("/", "e", "topic"),
        *(commands.declare_queue("/", name, 1) for name in ("a", "b")),
        bind("e", "a", "y"),
        bind("amq.fanout", "b"),
    ],
    "policies": [
        *(commands.declare_queue("/", name, 1) for name in ("a", "b")),
        commands.declare_exchange("/", "e", "topic"),
        commands.set_policy("/", "p", pattern="^a", definition={"max-length": 5}),
        commands.set_policy("/", "q", pattern="^e", definition={"alternate-exchange": "amq.fanout"}),
    ],
    "virtual hosts": [
        commands.put_vhost("eu"),
        commands.declare_queue("eu", "a", 1),
        commands.add_binding("eu", BindingRecord("amq.direct", QUEUE, "a", "k", b"")),
    ],
}


@pytest.mark.parametrize("after", STATES)
@pytest.mark.parametrize("before", STATES)
def test_an_install_replaces_everything(before: str, after: str) -> None:
    """Afterwards it is as on a node that was started with that state."""
    driver = NodeDriver()
    for command in STATES[before]:
        driver.node.broker.propose(command)
    driver.settle()
    other = metadata_of([*OWN, *STATES[after]])
    install(driver, other)
    wanted = NodeDriver()
    for command in other.snapshot():
        wanted.node.broker.propose(command)
    wanted.settle()
    assert picture(driver.node) == picture(wanted.node)
    assert driver.node.broker.queue_count == wanted.node.broker.queue_count


def test_a_queue_that_is_still_there_keeps_its_messages_and_one_that_is_not_loses_its_consumers() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("kept"), declare("gone"), consume("gone"))
    client.publish(1, "kept", b"message")
    driver.settle()
    client.take()
    snapshot = driver.node.broker.metadata.snapshot()
    install(driver, metadata_of([each for each in snapshot if each.get("name") != "gone"]))
    assert driver.queue("kept").message_count() == 1
    assert "gone" not in driver.node.broker.vhosts["/"].queues
    client.send(1, declare("gone"))
    driver.settle()
    assert driver.queue("gone").consumer_count() == 0


def test_connections_to_a_virtual_host_that_is_gone_are_closed() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    install(driver, metadata_of([commands.put_vhost("eu")]))
    assert [event.method.reply_code for event in client.take()] == [320]
    assert list(driver.node.broker.vhosts) == ["eu"]


def test_what_was_transient_stays_out_of_it() -> None:
    """A node alone does not tell the metadata of it."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(
        1,
        declare("brief", durable=False),
        methods.ExchangeDeclare(0, "quick", "fanout", False, False, False, False, False, Table({})),
        methods.QueueBind(0, "brief", "quick", "", False, Table({})),
        methods.QueueBind(0, "brief", "amq.fanout", "", False, Table({})),
    )
    driver.settle()
    install(driver, copied(driver.node.broker.metadata))
    vhost = driver.node.broker.vhosts["/"]
    assert "brief" in vhost.queues
    for source in ("quick", "amq.fanout"):
        entry = vhost.router.get(source)
        assert entry is not None
        assert entry.exchange.has_binding(Destination(QUEUE, "brief"), "", Table({}))


def test_a_new_password_counts_after_an_install() -> None:
    driver = NodeDriver()
    driver.client(1)
    stored = hash_password("other", driver.node.broker.random_bytes)
    install(driver, metadata_of([*OWN, commands.put_user(USER, stored, [])]))
    late = driver.raw_client()
    late.send_octets(handshake_octets())
    driver.turn()
    assert "connection.open-ok" not in late.names()


def test_commands_that_an_install_has_brought_are_done() -> None:
    """Whoever waits for one goes on, and finds what it has made."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a"))
    driver.turn()
    assert client.names() == []
    replication = driver.node.replication
    ahead = MetadataMachine(copied(driver.node.broker.metadata), replication)
    ahead.metadata.apply(commands.declare_queue("/", "a", 1))
    ahead._sessions[replication.own_node] = (replication.stream.session, replication.stream.unapplied[-1].number)
    replication.machine.begin_install()
    for part in ahead.export():
        replication.machine.install_chunk(part)
    replication.machine.end_install()
    replication.absorb(driver.now)
    driver.turn()
    assert client.names() == ["queue.declare-ok"]


def test_what_goes_with_its_node_goes_at_once_and_leaves_nothing_to_who_comes_next() -> None:
    driver = NodeDriver()
    propose = driver.node.broker.propose
    for number in range(50):
        propose(commands.declare_queue("/", f"t{number}", 1, durable=False))
        propose(bind("amq.topic", f"t{number}", "old"))
    propose(commands.declare_queue("/", "stays", 1))
    driver.settle()
    vhost = driver.node.broker.vhosts["/"]
    propose(commands.node_gone(""))
    driver.settle()
    assert list(vhost.queues) == ["stays"]
    propose(commands.declare_queue("/", "t49", 1))
    driver.settle()
    assert {queue.name: queue.queue_id for queue in vhost.queues.all_made()} == {"stays": 51, "t49": 52}
    assert [each for _, each in vhost.router.bindings()] == []
    assert driver.node.broker.queue_count == 2
