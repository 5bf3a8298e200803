"""Several nodes as one broker: what is declared on one is there on all."""

from __future__ import annotations

import pytest

from amqp_broker.metadata import commands
from amqp_broker.metadata.machine import MetadataMachine
from amqp_broker.metadata.stream import BATCH_COMMANDS
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import declare


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster()
    made.run_until_ready()
    return made


def test_what_one_node_is_told_is_known_to_all_when_it_is_answered(cluster: NodeCluster) -> None:
    for name, driver in cluster.nodes.items():
        client = driver.client(1)
        client.send(1, declare(f"of {name}"))
        for _ in range(200):
            cluster.step()
            if client.events:
                break
        assert client.names() == ["queue.declare-ok"]
        for other in cluster.nodes.values():
            assert f"of {name}" in other.node.broker.vhosts["/"].queues


def test_two_that_declare_the_same_differently_cannot_both_succeed(cluster: NodeCluster) -> None:
    clients = [driver.client(1) for driver in cluster.nodes.values()]
    for number, client in enumerate(clients):
        client.send(1, declare("q", x_max_length=number))
    cluster.run(500)
    assert sorted(client.names() for client in clients) == [["channel.close"], ["channel.close"], ["queue.declare-ok"]]


def test_a_minority_answers_nothing_and_goes_on_when_it_is_back(cluster: NodeCluster) -> None:
    old = cluster.leader()
    client = cluster.nodes[old].client(1)
    cluster.isolate(old)
    client.send(1, declare("q"))
    cluster.run(5000)
    assert client.names() == []
    assert cluster.nodes[old].node.replication.host.groups[0].is_leader is False
    cluster.heal()
    cluster.run(3000)
    assert client.names() == ["queue.declare-ok"]
    assert all("q" in driver.node.broker.vhosts["/"].queues for driver in cluster.nodes.values())


def test_after_the_command_timeout_the_connection_is_told(cluster: NodeCluster) -> None:
    old = cluster.leader()
    client = cluster.nodes[old].client(1)
    cluster.isolate(old)
    client.send(1, declare("q"))
    cluster.run(cluster.nodes[old].config.command_timeout_ms + 1000)
    (event,) = client.take()
    assert (event.method.name, event.method.reply_code) == ("connection.close", 541)
    assert "queue.declare" in event.method.reply_text


def test_a_node_that_was_away_catches_up(cluster: NodeCluster) -> None:
    away = cluster.leader()
    driver = cluster.kill(away)
    cluster.run(3000)
    client = cluster.nodes[cluster.leader()].client(1)
    exchange = methods.ExchangeDeclare(0, "e", "fanout", False, True, False, False, False, Table({}))
    client.send(1, declare("q"), exchange, methods.QueueBind(0, "q", "e", "key", False, Table({})))
    cluster.run(500)
    assert client.names() == ["queue.declare-ok", "exchange.declare-ok", "queue.bind-ok"]
    cluster.revive(away, driver)
    cluster.run(3000)
    assert driver.node.is_ready
    vhost = driver.node.broker.vhosts["/"]
    assert "q" in vhost.queues
    assert [binding.destination.name for _, binding in vhost.router.bindings()] == ["q"]


def test_transient_queues_go_with_their_node(cluster: NodeCluster) -> None:
    client = cluster.nodes["n2"].client(1)
    exclusive = methods.QueueDeclare(0, "mine", False, False, True, False, False)
    client.send(1, declare("transient", durable=False), exclusive)
    cluster.run(500)
    assert client.names() == ["queue.declare-ok", "queue.declare-ok"]
    assert "transient" in cluster.nodes["n1"].node.broker.vhosts["/"].queues
    driver = cluster.kill("n2")
    cluster.run(2000)
    cluster.revive("n2", driver)
    cluster.run(3000)
    for each in cluster.nodes.values():
        assert not each.node.broker.vhosts["/"].queues


def test_auto_delete_exchanges_go_when_their_last_queue_goes_with_its_node_that_starts_again(
    cluster: NodeCluster,
) -> None:
    """Before anybody has missed it. Others, and what leads elsewhere too, stay."""
    client = cluster.nodes["n2"].client(1)
    client.send(1, methods.QueueDeclare(0, "mine", False, False, True, False, False), declare("kept"))
    for name in ("gone", "before", "kept", "never bound", "stays"):
        client.send(1, methods.ExchangeDeclare(0, name, "fanout", durable=True, auto_delete=name != "stays"))
    for name in ("gone", "kept", "stays"):
        client.send(1, methods.QueueBind(0, "mine", name, "", False, Table({})))
    client.send(1, methods.QueueBind(0, "kept", "kept", "", False, Table({})))
    client.send(1, methods.ExchangeBind(0, "gone", "before", "", False, Table({})))
    cluster.run(500)
    driver = cluster.kill("n2")
    cluster.run(100)
    cluster.revive("n2", driver)
    cluster.run(3000)
    for each in cluster.nodes.values():
        vhost = each.node.broker.vhosts["/"]
        found = {entry.name for entry in vhost.router.entries() if entry.name and not entry.name.startswith("amq.")}
        assert found == {"kept", "never bound", "stays"}
        assert [*vhost.queues] == ["kept"]


def test_an_exclusive_queue_goes_with_its_connection_on_all_nodes(cluster: NodeCluster) -> None:
    client = cluster.nodes["n3"].client(1)
    client.send(1, methods.QueueDeclare(0, "", False, False, True, False, False))
    cluster.run(500)
    (event,) = client.take()
    name = event.method.queue
    assert name in cluster.nodes["n1"].node.broker.vhosts["/"].queues
    other = cluster.nodes["n1"].client(1)
    other.send(1, methods.QueueDeclare(0, name, True, False, False, False, False))
    cluster.run(100)
    (event,) = other.take()
    assert event.method.reply_code == 405
    client.send(0, methods.ConnectionClose(200, "bye", 0, 0))
    cluster.run(500)
    assert all(name not in each.node.broker.vhosts["/"].queues for each in cluster.nodes.values())


def test_who_owned_what_has_gone_leaves_the_queue_that_has_its_name() -> None:
    """A node that was taken for gone is there after all."""
    cluster = NodeCluster()
    cluster.run_until_ready()
    n1, n2 = cluster.nodes["n1"], cluster.nodes["n2"]
    owner = n1.client(1)
    owner.send(1, methods.QueueDeclare(0, "e", False, False, True))
    cluster.run(500)
    n2.node.broker.propose(commands.node_gone("n1"))
    cluster.run(500)
    n2.node.broker.propose(commands.declare_queue("/", "e", 1, home="n2"))
    cluster.run(500)
    n1.lose(owner)
    cluster.run(1500)
    for each in cluster.nodes.values():
        broker = each.node.broker
        assert [queue.durable for queue in broker.metadata.all_queues()] == [True]
        assert list(broker.vhosts["/"].queues) == ["e"]
        assert broker.queue_count == 1


@pytest.mark.parametrize("how", ["it is away", "it starts again"])
def test_very_many_queues_go_with_their_node_a_few_in_each_entry(
    cluster: NodeCluster, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """What one entry takes along, each member does in one turn."""
    client = cluster.nodes["n2"].client(1)
    client.send(1, methods.ExchangeDeclare(0, "fan", "fanout", False, False, True, False))
    for number in range(300):
        client.send(1, declare(f"t{number}", durable=False), methods.QueueBind(0, f"t{number}", "fan", ""))
    cluster.run(30_000)
    assert len(cluster.nodes["n1"].node.broker.metadata.transients("n2")) == 300
    gone_in_one = []
    apply = MetadataMachine.apply

    def counted(machine: MetadataMachine, index: int, term: int, data: bytes, now: int) -> None:
        before = machine.metadata.queue_count("/")
        apply(machine, index, term, data, now)
        gone_in_one.append(before - machine.metadata.queue_count("/"))

    monkeypatch.setattr(MetadataMachine, "apply", counted)
    driver = cluster.kill("n2")
    if how == "it is away":
        cluster.run(driver.config.node_down_ms + 2000)
        for each in cluster.nodes.values():
            assert not each.node.broker.vhosts["/"].queues
            # Who removes them proposes the end of what was only there for them, too.
            assert each.node.broker.vhosts["/"].router.get("fan") is None
    cluster.revive("n2", driver)
    cluster.run(3000)
    for each in cluster.nodes.values():
        assert not each.node.broker.vhosts["/"].queues
    assert sum(gone_in_one) >= 300
    assert max(gone_in_one) <= BATCH_COMMANDS
