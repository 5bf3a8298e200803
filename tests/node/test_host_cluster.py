"""A cluster of hosts that have several workers each: hosts are the members, and all workers know the same."""

from __future__ import annotations

import json

import pytest

from amqp_broker.cluster.membership import CALM_MS
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.tenants import head_of
from amqp_broker.management.request import Request
from amqp_broker.metadata import commands
from amqp_broker.metadata.stream import SETTLE_MS
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.cluster.verbs import verbs_of
from tests.node.host_cluster import HostCluster
from tests.node.test_dead_letters import publish

pytestmark = pytest.mark.once

DECLARED = ["queue.declare-ok"]


def exclusive(name: str) -> methods.QueueDeclare:
    return methods.QueueDeclare(0, name, False, False, True, False, False, Table({}))


@pytest.fixture
def cluster() -> HostCluster:
    return HostCluster()


def founded(cluster: HostCluster) -> None:
    """Everybody knows of all members and workers."""
    for _ in range(50):
        known = [driver.node.broker.metadata for driver in cluster.nodes.values()]
        groups = [group.members for host in cluster.hosts for group in cluster.nodes[host].node.replication.groups()]
        if all(len(each.worker_names()) == len(cluster.hosts) for each in known) and min(map(len, groups)) == 3:
            return
        cluster.run(100)
    raise AssertionError("they do not hear of each other")


def test_members_and_voters_are_hosts(cluster: HostCluster) -> None:
    founded(cluster)
    for driver in cluster.nodes.values():
        metadata = driver.node.broker.metadata
        assert list(metadata.members()) == ["n1", "n2", "n3"]
        assert sorted(metadata.worker_names()) == ["n1/1", "n2/1", "n3/1"]
        own = driver.config.node_name.partition("/")[0]
        called = {name.partition("/")[0] for name in driver.node.membership.worker_addresses()}
        assert called == {"n1", "n2", "n3"} - {own}, "those beside it have other links"
    for host in cluster.hosts:
        groups = cluster.nodes[host].node.replication.groups()
        assert [group.members for group in groups] == [("n1", "n2", "n3")] * 3
        assert cluster.nodes[host].node.membership.is_settled


@pytest.mark.parametrize("of_leader", [True, False])
def test_what_is_answered_is_known_at_every_worker_of_every_host(cluster: HostCluster, of_leader: bool) -> None:
    """Who is asked has links with none of those of which it waits for one."""
    asked = f"{cluster.leader() if of_leader else cluster.follower()}/1"
    other = next(host for host in reversed(cluster.hosts) if host not in (cluster.leader(), asked.partition("/")[0]))
    cluster.held.add((other, f"{other}/1"))
    client = cluster.declare(asked, "q")
    cluster.run(500)
    assert client.names() == []
    assert "q" not in cluster.homes(f"{other}/1")
    cluster.held.clear()
    cluster.run(100)
    assert client.names() == DECLARED
    assert all(cluster.homes(name)["q"] == asked for name in cluster.nodes)


def test_a_worker_that_hears_nothing_is_not_waited_for_longer_than_others_are(cluster: HostCluster) -> None:
    cluster.held.add(("n3", "n3/1"))
    client = cluster.declare("n1/1", "q")
    cluster.run(SETTLE_MS + 200)
    assert client.names() == DECLARED


def test_messages_go_between_workers_of_different_hosts(cluster: HostCluster) -> None:
    home = cluster.declare("n2/1", "q")
    cluster.run(200)
    assert home.names() == DECLARED
    client = cluster.client("n3/1", 1)
    publish(client, "q", b"one", b"two")
    cluster.run(200)
    assert cluster.nodes["n2/1"].queue("q").message_count() == 2


def test_a_proposal_of_a_worker_is_executed_once_whoever_leads_then(cluster: HostCluster) -> None:
    """It is on its way to a leader that goes just then, and is said again to the next one."""
    leader, follower = cluster.leader(), cluster.follower()
    proposed = [f"v{number}" for number in range(30)]
    metadata = cluster.nodes[f"{follower}/1"].node.replication
    applied: list[object] = []
    for name in proposed:
        metadata.propose(commands.put_vhost(name), applied.append)
        if name == "v10":
            cluster.step()
            cluster.step()
    down = cluster.kill(leader)
    cluster.run(4000)
    assert len(applied) == len(proposed)
    cluster.revive(leader, down)
    cluster.run(3000)
    sessions = set()
    for driver in cluster.nodes.values():
        machine, known = driver.node.replication.machine, driver.node.broker.metadata.vhosts()
        assert [each.name for each in known if each.name in proposed] == proposed
        sessions.add(machine.last_number(f"{follower}/1", metadata.session))
    assert len(sessions) == 1, "each has executed as many of its commands"


def test_workers_go_on_while_their_worker_0_is_away(cluster: HostCluster) -> None:
    """Also when it is away for as long as takes a member's transient queues."""
    host = cluster.follower()
    client = cluster.client(f"{host}/1", 1)
    client.send(1, exclusive("own"))
    cluster.run(300)
    assert client.names() == DECLARED
    down = cluster.kill(host)
    cluster.run(cluster.nodes[cluster.leader()].config.node_down_ms + 1000)
    other = cluster.client(f"{cluster.leader()}/1", 1)
    publish(other, "own", b"one")
    cluster.run(200)
    assert cluster.nodes[f"{host}/1"].queue("own").message_count() == 1
    cluster.revive(host, down)
    cluster.run(2000)
    late = cluster.declare(f"{host}/1", "late")
    cluster.run(500)
    assert late.names() == DECLARED


def test_transient_queues_of_a_worker_that_stays_away_are_gone(cluster: HostCluster) -> None:
    host = cluster.follower()
    cluster.client(f"{host}/1", 1).send(1, exclusive("own"))
    cluster.run(300)
    cluster.kill(f"{host}/1")
    cluster.run(cluster.nodes[host].config.node_down_ms + 1000)
    assert "own" not in cluster.homes(cluster.leader())


def test_transient_queues_of_a_host_that_stays_away_are_gone(cluster: HostCluster) -> None:
    host = cluster.follower()
    for name in (host, f"{host}/1"):
        cluster.client(name, 1).send(1, exclusive(f"of {name}"))
    cluster.run(300)
    cluster.kill_host(host)
    leader = cluster.leader()
    cluster.run(cluster.nodes[leader].config.node_down_ms + 1000)
    assert [name for name in cluster.homes(leader) if name.startswith("of")] == []


def test_a_host_is_not_removed_while_queues_live_at_its_workers(cluster: HostCluster) -> None:
    founded(cluster)
    host, asked = cluster.follower(), cluster.leader()
    cluster.declare(f"{host}/1", "q")
    cluster.run(300)
    with pytest.raises(ValueError, match=f"1 durable classic queues live on {host} and would be gone: 'q'"):
        verbs_of(cluster.nodes[asked].node)["cluster.remove"](Request({"node": host}))


def test_transient_queues_of_a_worker_go_though_who_leads_has_never_met_it(cluster: HostCluster) -> None:
    host, leader = cluster.follower(), cluster.leader()
    cluster.client(f"{host}/1", 1).send(1, exclusive("own"))
    cluster.run(300)
    cluster.kill(f"{host}/1")
    down = {name: cluster.kill(name) for name in cluster.hosts}
    for name, driver in down.items():
        cluster.revive(name, driver)
    cluster.run(2000)
    assert "own" in cluster.homes(cluster.leader())
    cluster.run(cluster.nodes[leader].config.node_down_ms + 1000)
    assert "own" not in cluster.homes(cluster.leader())


def test_a_removed_host_ends_and_workers_are_not_released(cluster: HostCluster) -> None:
    founded(cluster)
    host, asked = cluster.follower(), cluster.leader()
    released: list[str] = []
    for name, driver in cluster.nodes.items():
        if name not in cluster.hosts:
            driver.node.tenants.receivers[FrameKind.RELEASE] = lambda by, payload, now: released.append(by)
    cluster.nodes[asked].node.replication.propose(commands.remove_member(host, queues=commands.DROP))
    for _ in range(100):
        cluster.run(100)
        if cluster.nodes[host].node.membership.is_removed:
            break
    assert cluster.nodes[host].node.membership.is_removed
    assert released == []
    assert not [name for name in cluster.nodes[asked].node.membership.worker_addresses() if name.startswith(host)]


def test_a_removed_host_ends_though_its_own_workers_talk_to_it(cluster: HostCluster) -> None:
    """The others do not any more."""
    founded(cluster)
    host, asked = cluster.follower(), cluster.leader()
    node = cluster.nodes[host].node
    cluster.nodes[asked].node.replication.propose(commands.remove_member(host, queues=commands.DROP))
    while host in node.broker.metadata.members():
        cluster.step()
    for name in cluster.names:
        if not name.startswith(host):
            cluster.cut(host, name)
            cluster.cut(f"{host}/1", name)
    assert not node.membership.is_removed
    for _ in range(4):
        for driver in cluster.nodes.values():
            driver.now += CALM_MS // 2
        cluster.run(100)
    assert node.replication.is_connected(f"{host}/1")
    assert node.membership.is_removed


def said(cluster: HostCluster, **changed: object) -> bytes:
    acquaintances = cluster.nodes["n2"].node.acquaintances
    word = {
        "what": "worker", "generation": acquaintances.generation, "replaces": False, "levels": [1, 2], "since": 0,
        "identity": cluster.nodes["n2"].node.identity.hex(), **changed,
    }  # fmt: skip
    return head_of(FrameKind.ACQUAINTANCE) + json.dumps(word).encode()


@pytest.mark.parametrize(
    ("changed", "counts"),
    [({}, True), ({"generation": 7}, False), ({"levels": [1, 1]}, False), ({"levels": [4, 5]}, False)],
)
def test_a_worker_counts_when_it_is_of_this_cluster(
    cluster: HostCluster, changed: dict[str, object], counts: bool
) -> None:
    cluster.cut("n1", "n2/1")
    node = cluster.nodes["n1"].node
    node.peer_connected("n2/1", cluster.now)
    assert not node.acquaintances.is_admitted("n2/1"), "it has not said anything"
    node.receive_peer("n2/1", said(cluster, **changed), cluster.now)
    assert node.acquaintances.is_admitted("n2/1") is counts


def test_a_worker_of_an_old_folder_of_its_node_does_not_count(cluster: HostCluster) -> None:
    cluster.nodes["n1"].node.replication.propose(commands.put_member("n2", "127.0.0.1:7001", "ab" * 16))
    cluster.run(100)
    cluster.cut("n1", "n2/1")
    node = cluster.nodes["n1"].node
    node.peer_connected("n2/1", cluster.now)
    node.receive_peer("n2/1", said(cluster), cluster.now)
    assert not node.acquaintances.is_admitted("n2/1")
    node.receive_peer("n2/1", said(cluster, identity="ab" * 16), cluster.now)
    assert node.acquaintances.is_admitted("n2/1")


@pytest.mark.parametrize("is_again", [False, True])
def test_the_workers_of_a_node_that_was_added_anew_count_for_each_other(cluster: HostCluster, is_again: bool) -> None:
    """Its worker 0 hears of the folder while it is linked with them: as it is added, and when it applies its log again
    behind a start. It took theirs for an old one of its node, for as long as the link was there."""
    founded(cluster)
    identity = cluster.nodes["n1"].node.replication.identity.hex()
    cluster.nodes["n2"].node.replication.propose(commands.put_member("n1", "127.0.0.1:7000", identity))
    cluster.run(100)
    if is_again:
        cluster.revive("n1", cluster.kill("n1"))
        cluster.run_until_ready()
    for name, other in (("n1", "n1/1"), ("n1/1", "n1")):
        assert cluster.nodes[name].node.broker.metadata.identity_of("n1") == identity
        assert cluster.nodes[name].node.replication.acquaintances.is_admitted(other), (name, other)
        assert cluster.nodes[name].node.replication.is_connected(other), (name, other)


def test_a_node_that_takes_the_generation_of_others_tells_its_workers(cluster: HostCluster) -> None:
    """They say it to the others then, and those let them in; and they count for their own worker 0 as before."""
    founded(cluster)
    made, its_worker = (cluster.nodes[name].node.replication.acquaintances for name in ("n1", "n1/1"))
    made.joins = True
    groups, made._groups = made._groups, {}  # it belongs nowhere yet
    made._hear_generation("n2", made.links["n2"], 1_700_000_000_000, False, cluster.now)
    made._groups = groups
    cluster.run(100)
    assert made.is_admitted("n1/1")
    assert its_worker.generation == 1_700_000_000_000
