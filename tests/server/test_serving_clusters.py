"""Clusters of real processes: who leads when somebody dies, who comes, who goes, and what is waited for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import amqp_broker
from amqp_broker import ClusterNode, RunningCluster
from amqp_broker.client import Connection
from amqp_broker.client.errors import ChannelClosed, ConnectionClosed
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare
from amqp_broker.system_client import SystemClient

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90.0


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with amqp_broker.running_cluster(3) as made:
        yield made


@pytest.fixture(scope="module")
def two_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a cluster of two has left behind."""
    folder = tmp_path_factory.mktemp("cluster")
    with amqp_broker.running_cluster(2, folder):
        pass
    return folder


def status_of(node: ClusterNode) -> dict[str, Any]:
    with SystemClient(node.url) as client:
        return client.request("cluster.status")


def until(node: ClusterNode, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask a node for its status until it is as it should be."""
    deadline = time.monotonic() + PATIENCE_S
    with SystemClient(node.url) as client:
        while not condition(status := client.request("cluster.status")):
            assert time.monotonic() < deadline, (status, node.logs)
    return status


def leader_of(node: ClusterNode, group: int = 0) -> str:
    """Who leads a group, once somebody does."""
    status = until(node, lambda status: status["groups"][group]["leader"] is not None)
    return str(status["groups"][group]["leader"])


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def links_of(status: dict[str, Any]) -> dict[str, bool]:
    return {row["node"]: row["is_linked"] for row in status["members"]}


def is_voter_everywhere(status: dict[str, Any], name: str) -> bool:
    return all(name in row["voters"] for row in status["groups"])


def declare(node: ClusterNode, name: str, **arguments: object) -> None:
    table = Table({key.replace("_", "-"): value for key, value in arguments.items()})
    with Connection.open(node.url) as connection, connection.channel() as channel:
        channel.call(QueueDeclare(0, name, False, True, False, False, False, table))


def has_queue(node: ClusterNode, name: str) -> bool:
    with Connection.open(node.url) as connection, connection.channel() as channel:
        try:
            channel.call(QueueDeclare(0, name, True, False, False, False, False, Table()))
        except ChannelClosed as error:
            if error.reply_code != 404:
                raise
            return False
    return True


def test_the_life_of_a_cluster(cluster: RunningCluster) -> None:
    """Start, lose the leader, get it back, add a fourth node, remove it."""
    first, second, third = cluster.nodes
    for node in cluster.nodes:
        until(node, lambda status: links_of(status) == {"n1": True, "n2": True, "n3": True})
    declare(first, "before")
    assert has_queue(second, "before")
    assert has_queue(third, "before")

    old = leader_of(first)
    cluster.node(old).kill()
    killed_at = time.monotonic()
    rest = [node for node in cluster.nodes if node.name != old]
    for node in rest:
        status = until(node, lambda status: status["groups"][0]["leader"] not in (None, old))
        assert not links_of(status)[old]
        assert status["groups"][0]["is_critical"]
    assert time.monotonic() - killed_at < 30.0, "as quick as an election: what it takes is measured by tests/chaos"
    declare(rest[0], "without")
    assert has_queue(rest[1], "without")

    cluster.node(old).start()
    until(rest[0], lambda status: links_of(status)[old] and not status["groups"][0]["is_critical"])
    assert has_queue(cluster.node(old), "without"), "a node that is ready knows what happened while it was away"

    fourth = cluster.add_node()
    until(fourth, lambda status: is_voter_everywhere(status, "n4"))
    declare(fourth, "of four")
    assert has_queue(first, "of four")
    fourth.restart(kill=True)
    assert has_queue(fourth, "of four")

    with SystemClient(first.url) as client, pytest.raises(Exception, match="durable classic queues live on n4"):
        client.request("cluster.remove", node="n4")
    with SystemClient(first.url) as client:
        client.request("cluster.remove", node="n4", drops_queues=True)
    until(first, lambda status: set(links_of(status)) == {"n1", "n2", "n3"})
    assert fourth.broker.process.wait(PATIENCE_S) == 0
    assert "this node was removed from the cluster" in fourth.logs


def test_a_leader_that_stops_hands_over(cluster: RunningCluster) -> None:
    first = cluster.nodes[0]
    old = leader_of(first)
    term = status_of(first)["groups"][0]["term"]
    cluster.node(old).stop()
    rest = [node for node in cluster.nodes if node.name != old]
    status = status_of(rest[0])
    assert status["groups"][0]["leader"] in [node.name for node in rest], "at once: nobody waits for an election"
    assert status["groups"][0]["term"] == term + 1
    assert "groups are handed over" in cluster.node(old).logs


def test_a_node_that_stops_gives_back_what_its_clients_held(cluster: RunningCluster) -> None:
    """At once, and not after node_down: another node's client gets it."""
    first, second, _ = cluster.nodes
    declare(first, "q", x_queue_type="quorum")
    with Connection.open(first.url) as connection, connection.channel() as channel:
        channel.confirm_select()
        channel.publish("", "q", b"held")
        assert channel.wait_for_confirms() == []
        assert channel.get("q", no_ack=False) is not None
        first.stop()
    with Connection.open(second.url) as connection, connection.channel() as channel:
        delivery = channel.get("q", no_ack=True)
        assert delivery is not None
        assert (delivery.body, delivery.redelivered) == (b"held", True)


def test_what_was_confirmed_is_there_without_the_node_that_confirmed_it(cluster: RunningCluster) -> None:
    first, second, _ = cluster.nodes
    declare(first, "q", x_queue_type="quorum")
    with Connection.open(first.url) as connection, connection.channel() as channel:
        channel.confirm_select()
        for number in range(100):
            channel.publish("", "q", b"%d" % number)
        assert channel.wait_for_confirms() == []
        first.kill()
    until(second, lambda status: all(row["leader"] not in (None, "n1") for row in status["groups"]))
    with Connection.open(second.url) as connection, connection.channel() as channel:
        bodies = [int(delivery.body) for delivery in iter(lambda: channel.get("q", no_ack=True), None)]
    assert bodies == list(range(100))


def test_all_at_once_and_all_again(cluster: RunningCluster) -> None:
    declare(cluster.nodes[1], "q")
    for node in cluster.nodes:
        node.kill()
    for node in cluster.nodes:
        node.broker.launch()
    for node in cluster.nodes:
        node.broker.wait_until_ready()
        assert has_queue(node, "q")


def test_one_of_three_waits_and_says_for_whom_and_ends_when_asked(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 4)
    secret.chmod(0o600)
    flags = [
        "--node-name=n1", "--listen=127.0.0.1:0", f"--data-dir={tmp_path / 'd1'}", "--cluster-listen=127.0.0.1:0",
        "--cluster=n1=127.0.0.1:1,n2=127.0.0.1:2,n3=127.0.0.1:3", f"--cluster-secret-file={secret}",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "amqp_broker", "serve",
        "--management-listen=off", "--prometheus-listen=off", *flags],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "waiting" in line:
            break
    assert "waiting for a majority of n1, n2, n3: nobody leads, no link with n2, n3" in lines[-1]
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, "")


def test_a_node_alone_is_grown_by_a_second_and_both_know_each_other_after_a_restart(tmp_path: Path) -> None:
    with amqp_broker.running_cluster(1, tmp_path) as cluster:
        first = cluster.nodes[0]
        declare(first, "q")
        second = cluster.add_node()
        assert has_queue(second, "q")
        until(first, lambda status: is_voter_everywhere(status, "n2"))
        assert (second.broker.data_dir / "MEMBERS").exists()
        for node in cluster.nodes:
            node.kill()
        for node in cluster.nodes:
            node.broker.launch()
        for node in cluster.nodes:
            node.broker.wait_until_ready()
            assert links_of(status_of(node)) == {"n1": True, "n2": True}


def test_nodes_are_added_one_right_after_the_other(tmp_path: Path) -> None:
    with amqp_broker.running_cluster(1, tmp_path) as cluster:
        cluster.add_node()
        third = cluster.add_node()
        until(third, lambda status: all(is_voter_everywhere(status, name) for name in ("n1", "n2", "n3")))


def test_who_has_joined_outlives_the_first(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 4)
    secret.chmod(0o600)
    first_address, second_address = free_address(), free_address()
    both = {"cluster_secret_file": str(secret), "cluster": f"n1={first_address},n2={second_address}"}
    with amqp_broker.running(
        node_name="n1", cluster_listen=first_address, cluster_secret_file=str(secret), cluster=f"n1={first_address}"
    ) as first:
        with SystemClient(first.url) as client:
            client.request("cluster.add", node=f"n2={second_address}")
        with amqp_broker.running(
            tmp_path / "n2", node_name="n2", cluster_listen=second_address, cluster_join=True, **both
        ) as second, SystemClient(second.url) as client:
            deadline = time.monotonic() + PATIENCE_S
            while not is_voter_everywhere(client.request("cluster.status"), "n2"):
                assert time.monotonic() < deadline
            client.request("cluster.remove", node="n1")
            assert first.process.wait(PATIENCE_S) == 0
            while len(client.request("cluster.status")["members"]) > 1:
                assert time.monotonic() < deadline
    with (
        amqp_broker.running(
            tmp_path / "n2", node_name="n2", cluster_listen=second_address, cluster_secret_file=str(secret)
        ) as second,
        SystemClient(second.url) as client,
    ):
        assert [row["node"] for row in client.request("cluster.status")["members"]] == ["n2"]


def test_a_folder_goes_by_the_name_that_it_was_made_under(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path / "data", node_name="old"):
        pass
    with amqp_broker.running(tmp_path / "data", node_name="new") as broker, SystemClient(broker.url) as client:
        assert client.request("cluster.status")["node"] == "old", "a node alone, whose host was given another name"
    (tmp_path / "secret").write_text("0123456789abcdef" * 4)
    (tmp_path / "secret").chmod(0o600)
    cluster = {"cluster": "new=127.0.0.1:1", "cluster_secret_file": str(tmp_path / "secret")}
    broker = amqp_broker.running(tmp_path / "data", node_name="new", cluster_listen="127.0.0.1:0", **cluster)
    with pytest.raises(amqp_broker.BrokerStartError, match="this folder belongs to node old, and node_name is new"):
        broker.start()
    broker = amqp_broker.running(tmp_path / "data", queue_groups=9)
    with pytest.raises(amqp_broker.BrokerStartError, match=r"has 8 groups .* start it with --queue-groups 8"):
        broker.start()


def test_a_minority_answers_nothing_that_needs_the_others() -> None:
    with amqp_broker.running_cluster(3, command_timeout="1s") as cluster:
        first, *others = cluster.nodes
        for node in others:
            node.kill()
        until(first, lambda status: status["groups"][0]["leader"] is None)
        with pytest.raises(ConnectionClosed, match=r"541 .*queue.declare.*: no majority of the members has answered"):
            declare(first, "q")
        others[0].start()
        declare(first, "q")
        assert has_queue(others[0], "q")


def test_a_node_alone_is_ready_at_once(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path / "data"):
        pass
    beyond = []
    for _ in range(3):  # the machine may have other things to do
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import amqp_broker.server.main"], check=True, cwd=ROOT)
        loaded = time.monotonic()
        with amqp_broker.running(tmp_path / "data"):
            beyond.append(time.monotonic() - loaded - (loaded - began))
    assert min(beyond) < 0.5, "beyond what it takes to load the program"


def test_what_was_changed_stays_changed_after_a_restart(tmp_path: Path) -> None:
    """The first user is made once: not again because the log was not read yet."""
    with amqp_broker.running(tmp_path / "data") as broker:
        with SystemClient(broker.url) as client:
            client.request("user.put", name="guest", password="another", tags=["administrator"])
        for kill in (False, True):
            broker.restart(kill=kill)
            Connection.open(broker.url.replace("guest:guest", "guest:another")).close()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n1", "node_name: 'n1' is not valid; allowed: n2, the name that this folder was made for"),
        ("n2", "cluster_listen: '' is not valid; allowed: an address, because this folder belongs to a cluster with"),
    ],
)
def test_a_folder_of_a_cluster_is_started_as_what_it_is(two_folders: Path, name: str, text: str) -> None:
    broker = amqp_broker.running(two_folders / "n2", node_name=name)
    with pytest.raises(amqp_broker.BrokerStartError) as failure:
        broker.start()
    assert failure.value.status == 2
    assert text in failure.value.log
