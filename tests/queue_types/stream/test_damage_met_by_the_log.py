"""A page of a stream that one node cannot read, met while the log is applied there, or sent whole to another node: it
is had from another member, as for a reader, and nobody sees a difference."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.queue_types.groups.damaged_pages import AGAIN_MS
from raft.errors import RaftStopped
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client
from tests.queue_types.stream.test_damaged_pages import (
    BODIES,
    a_cluster,
    damage,
    log_of,
    queue_of,
    tiny_pages,
)
from tests.queue_types.stream.test_streams_of_a_node import qos
from tests.queues.quorum.digest import digest_of

__all__ = ["tiny_pages"]
pytestmark = pytest.mark.usefixtures("tiny_pages")

#: Of a queue that looks at each message before it hands it out, and wants them all.
FILTERED = {"x_stream_filter": "none", "x_stream_match_unfiltered": True}


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING):
        yield caplog


def a_queue_over_it(cluster: NodeCluster, name: str, **arguments: object) -> Client:
    """A client of that node."""
    client = cluster.nodes[name].client(1)
    table = {"x-queue-type": "quorum", "x-stream-source": "s", "x-stream-offset": "first",
             **{key.replace("_", "-"): each for key, each in arguments.items()}}  # fmt: skip
    declare = methods.QueueDeclare(0, "over", False, True, False, False, False, Table(table))
    client.send(1, declare, qos(10))
    cluster.run(500)
    assert "queue.declare-ok" in client.names()
    return client


def worked(cluster: NodeCluster, client: Client, rounds: int = 60) -> list[bytes]:
    """Everything that comes, acknowledged as it comes."""
    client.send(1, methods.BasicConsume(0, "over", "tag", False, False, False, False, Table({})))
    bodies: list[bytes] = []
    for _ in range(rounds):
        cluster.run(30)
        found = [event for event in client.take() if event.method.name == "basic.deliver"]
        bodies += [event.body for event in found]
        if found:
            client.send(1, methods.BasicAck(found[-1].method.delivery_tag, True))
    return bodies


def digests(cluster: NodeCluster) -> set[bytes]:
    return {digest_of(queue_of(cluster, name).group.machine) for name in cluster.nodes}


@pytest.mark.parametrize("arguments", [{}, FILTERED, {"x_message_ttl": 3_600_000}], ids=str)
@pytest.mark.parametrize("where", ["at the consumer's node", "elsewhere", "at the leader"])
def test_what_a_queue_over_it_comes_to_is_had_from_another_node(
    arguments: dict[str, object], where: str, told: pytest.LogCaptureFixture
) -> None:
    cluster = a_cluster()
    leader = queue_of(cluster, "n1").group.leader
    name, other = [each for each in cluster.names if each != leader]
    damaged = {"at the consumer's node": name, "elsewhere": other, "at the leader": leader}[where]
    client = a_queue_over_it(cluster, name, **arguments)
    damage(cluster, damaged)
    assert worked(cluster, client) == BODIES
    if arguments or damaged == name:  # else it is read nowhere
        assert "are whole again" in told.text
    assert len(cluster.nodes) == len(cluster.names)
    assert len(digests(cluster)) == 1


def test_a_dead_letter_is_a_copy_of_what_is_had_from_another_node(told: pytest.LogCaptureFixture) -> None:
    """What a consumer holds is read again when it rejects it: on all nodes, and long after it was handed out."""
    cluster = a_cluster()
    client = a_queue_over_it(cluster, "n1", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    client.send(1, methods.QueueDeclare(0, "dead", False, True, False, False, False, Table({})), qos(200))
    client.send(1, methods.BasicConsume(0, "over", "tag", False, False, False, False, Table({})))
    cluster.run(1000)
    tags = [event.method.delivery_tag for event in client.take() if event.method.name == "basic.deliver"]
    assert len(tags) == len(BODIES)
    for name in cluster.names:
        log_of(cluster, name).page_out(1 << 40)
    damage(cluster, "n2")
    damage(cluster, "n3", 90)
    client.send(1, methods.BasicNack(tags[-1], True, False))
    cluster.run(3000)
    assert told.text.count("are whole again") == 2
    client.send(1, methods.QueueDeclare(0, "dead", True, True, False, False, False, Table({})))
    cluster.run(100)
    counts = [event.method.message_count for event in client.take() if event.method.name == "queue.declare-ok"]
    assert counts == [len(BODIES)]


def test_what_comes_back_and_cannot_be_read_comes_again(told: pytest.LogCaptureFixture) -> None:
    cluster = a_cluster()
    client = a_queue_over_it(cluster, "n2")
    client.send(1, qos(200), methods.BasicConsume(0, "over", "tag", False, False, False, False, Table({})))
    cluster.run(1000)
    assert len([event for event in client.take() if event.method.name == "basic.deliver"]) == len(BODIES)
    log_of(cluster, "n2").page_out(1 << 40)
    damage(cluster, "n2")
    client.send(1, methods.BasicRecover(True))
    cluster.run(3000)
    found = [event.body for event in client.take() if event.method.name == "basic.deliver"]
    assert sorted(found) == BODIES
    assert "are whole again" in told.text


def test_where_a_queue_begins_is_found_with_what_another_node_has(told: pytest.LogCaptureFixture) -> None:
    cluster = a_cluster()
    damage(cluster, "n2", len(BODIES) - 1)
    a_queue_over_it(cluster, "n1", x_stream_offset="last")
    cluster.run(1000)
    assert "are whole again" in told.text
    assert len(digests(cluster)) == 1


def test_a_node_ends_only_if_nobody_has_what_its_log_needs(told: pytest.LogCaptureFixture) -> None:
    cluster = a_cluster()
    client = a_queue_over_it(cluster, "n1", **FILTERED)
    for name in cluster.names:
        damage(cluster, name)
    with pytest.raises(RaftStopped, match="applying entry"):
        worked(cluster, client)
    assert "no other member has it" in told.text


# -- what a leader sends to a member that is too far behind


def installs(cluster: NodeCluster, leader: str, lost: str) -> None:
    """The leader begins to send its state to a member, whatever its log has."""
    group = queue_of(cluster, leader).group
    progress = group.raft.member.role.progress[lost]
    progress.drop_install()
    assert group.raft.member.role._begin_install(progress) in (True, None)
    group.raft.go_on()


def test_a_state_is_sent_whole_with_what_another_member_has(told: pytest.LogCaptureFixture) -> None:
    cluster = a_cluster()
    leader = str(queue_of(cluster, "n1").group.leader)
    name = next(each for each in cluster.names if each != leader)
    damage(cluster, leader)
    installs(cluster, leader, name)
    cluster.run(5000)
    assert "are whole again" in told.text
    assert len(digests(cluster)) == 1
    group = queue_of(cluster, leader).group
    assert group.raft.member.role.progress[name].install is None
    assert group.machine._places.exports == 0


def test_a_state_that_nobody_can_read_whole_is_not_sent_and_all_others_go_on(
    told: pytest.LogCaptureFixture,
) -> None:
    cluster = a_cluster()
    leader = str(queue_of(cluster, "n1").group.leader)
    name = next(each for each in cluster.names if each != leader)
    for each in cluster.names:
        damage(cluster, each)
    installs(cluster, leader, name)
    cluster.run(5000)
    assert told.text.count("its state cannot be sent") == 1
    client = cluster.nodes[leader].client(1)
    client.send(1, methods.ConfirmSelect(False))
    client.publish(1, "s", b"more")
    cluster.run(500)
    assert "basic.ack" in client.names()
    cluster.run(AGAIN_MS)
    assert len(cluster.nodes) == len(cluster.names)
