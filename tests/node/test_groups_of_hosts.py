"""Groups of queues at several workers of the hosts of a cluster: a host votes by the worker that has the group."""

from __future__ import annotations

import random
from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.settings.config import Config
from amqp_broker.settings.workers import node_of_worker, worker_name
from storage.errors import StorageError
from tests.node.host_cluster import HostCluster
from tests.node.node_driver import Client, NodeDriver, declare, small_config
from tests.node.test_spread_groups import read
from tests.queue_types.test_quorum_cluster import CONFIRM, answer, bodies, confirmed, publish
from tests.queues.quorum.digest import digest_of
from tests.simulation.simulated_disk import SimulatedDisk

pytestmark = pytest.mark.once

GROUPS = 4
#: By host: which worker has which group.
ALIKE = {"n1": (1, 0, 1, 0), "n2": (1, 0, 1, 0), "n3": (1, 0, 1, 0)}
UNLIKE = {"n1": (1, 0, 1, 0), "n2": (0, 1, 1), "n3": ()}


class SpreadCluster(HostCluster):
    """places: by host, which worker has each group."""

    def __init__(self, places: dict[str, tuple[int, ...]], **settings: Any) -> None:
        self.places = places
        super().__init__(queue_groups=GROUPS, **settings)

    def _config(self, name: str) -> Config:
        config = super()._config(name)
        object.__setattr__(config, "group_workers", self.places[node_of_worker(name)])
        return config

    def process(self, host: str, group_id: int) -> str:
        workers = self.places[host]
        return worker_name(host, workers[group_id - 1] if group_id <= len(workers) else 0)

    def processes(self, group_id: int) -> list[str]:
        return [name for name in (self.process(host, group_id) for host in self.hosts) if name in self.nodes]

    def group(self, name: str, group_id: int) -> Any:
        return self.nodes[name].node.groups.all[group_id]

    def leads(self, group_id: int) -> str:
        """The process that leads a group; there has to be one."""
        found = [name for name in self.nodes if self.group(name, group_id).raft.is_leader]
        assert len(found) == 1, found
        return found[0]

    def settle(self) -> None:
        """Until everybody knows who leads each group, and all members have the same."""
        for _ in range(100):
            if all(self._is_settled(group_id) for group_id in range(1, GROUPS + 1)):
                return
            self.run(100)
        raise AssertionError({name: [each.leader for each in self.nodes[name].node.groups] for name in self.nodes})

    def _is_settled(self, group_id: int) -> bool:
        groups = [self.group(name, group_id) for name in self.nodes]
        members = [self.group(name, group_id) for name in self.processes(group_id)]
        led = [name for name in self.nodes if self.group(name, group_id).raft.is_leader]
        is_known = len(led) == 1 and {each.leader for each in groups} == {led[0]}
        are_all = {each.raft.members for each in members} == {tuple(self.hosts)}
        return is_known and are_all and len({each.raft.last_applied for each in members}) == 1

    def agree(self) -> None:
        for group_id in range(1, GROUPS + 1):
            machines = [self.group(name, group_id).machine for name in self.processes(group_id)]
            assert len({digest_of(machine) for machine in machines}) == 1

    def group_of(self, queue: str) -> int:
        record = next(iter(self.nodes.values())).node.broker.metadata.queue("/", queue)
        return int(record.queue_id) % GROUPS + 1

    def queues(self, **arguments: object) -> dict[int, str]:
        """A queue in each group."""
        found: dict[int, str] = {}
        client = self.client("n1", 1)
        number = 0
        while len(found) < GROUPS:
            name = f"q{number}"
            client.send(1, declare(name, x_queue_type="quorum", x_queue_leader_locator="balanced", **arguments))
            self.run(200)
            assert client.names() == ["queue.declare-ok"]
            found.setdefault(self.group_of(name), name)
            number += 1
        return found

    def confirming(self, at: str) -> Client:
        client = self.client(at, 1)
        answer(self, client, CONFIRM)
        return client


@pytest.fixture(params=[ALIKE, UNLIKE], ids=["alike", "unlike"])
def cluster(request: pytest.FixtureRequest) -> SpreadCluster:
    made = SpreadCluster(request.param)
    made.settle()
    return made


def founded_groups(cluster: SpreadCluster) -> list[tuple[int, str]]:
    return [(group_id, name) for group_id in range(1, GROUPS + 1) for name in cluster.nodes]


def test_voters_are_hosts_and_one_process_of_each_has_the_group(cluster: SpreadCluster) -> None:
    for group_id, name in founded_groups(cluster):
        group = cluster.group(name, group_id)
        if name in cluster.processes(group_id):
            assert group.raft.members == ("n1", "n2", "n3")
            assert group.guest is None
        else:
            assert group.raft.is_outside
            assert group.guest is not None
        assert group.members() == tuple(cluster.processes(group_id))


def test_clients_of_all_processes_use_the_queues_of_all_groups(cluster: SpreadCluster) -> None:
    queues = cluster.queues()
    for number, name in enumerate(cluster.names):
        client = cluster.confirming(name)
        for queue in queues.values():
            publish(client, b"%d" % number, key=queue)
        cluster.run(500)
        assert confirmed(client) == GROUPS
    for number, queue in enumerate(queues.values()):
        reader = cluster.client(cluster.names[number], 1)
        read(reader, queue)
        cluster.run(500)
        assert bodies(reader) == [b"%d" % each for each in range(len(cluster.names))]
    cluster.agree()


@pytest.mark.parametrize("is_whole_host", [False, True])
def test_a_worker_that_dies_with_the_groups_that_it_leads_loses_nothing(
    cluster: SpreadCluster, is_whole_host: bool
) -> None:
    queues = cluster.queues()
    for group_id, queue in queues.items():
        killed = cluster.leads(group_id)
        other = next(name for name in cluster.names if node_of_worker(name) != node_of_worker(killed))
        client = cluster.confirming(other)
        publish(client, b"before", key=queue)
        cluster.run(300)
        assert confirmed(client) == 1
        host = node_of_worker(killed)
        down = cluster.kill_host(host) if is_whole_host else {killed: cluster.kill(killed)}
        publish(client, b"meanwhile", key=queue)
        cluster.run(4000)
        assert confirmed(client) == 2, "others lead it"
        for name, driver in down.items():
            cluster.revive(name, driver)
        cluster.run(4000)
        cluster.settle()
        cluster.agree()
        reader = cluster.client(killed, 1)
        read(reader, queue)
        cluster.run(500)
        assert bodies(reader) == [b"before", b"meanwhile"]


def test_a_worker_0_that_is_away_stops_no_group_of_another_worker(cluster: SpreadCluster) -> None:
    queues = cluster.queues()
    host = next(each for each in cluster.hosts if any(cluster.places[each]))
    down = cluster.kill(host)
    client = cluster.confirming(worker_name(host, 1))
    for queue in queues.values():
        publish(client, b"one", key=queue)
    cluster.run(4000)
    assert confirmed(client) == GROUPS
    cluster.revive(host, down)
    cluster.run(3000)
    cluster.settle()
    cluster.agree()


def test_a_worker_that_has_lost_its_folder_does_not_vote() -> None:
    """What it has promised is known to the workers that had it from it."""
    cluster = SpreadCluster(ALIKE)
    cluster.settle()
    cluster.queues()
    cluster.run(2000)
    lost = cluster.kill("n2/1")
    emptied = NodeDriver(lost.config, SimulatedDisk(random.Random(99)), seed=99)
    cluster.revive("n2/1", emptied)
    cluster.run(3000)
    node = cluster.nodes["n2/1"].node
    assert node.acquaintances.is_over
    assert "its folder was" in node.acquaintances.reason
    assert not any(node.acquaintances.is_admitted(name) for name in cluster.names if not name.startswith("n2"))


def test_workers_with_groups_count_for_each_other_after_a_restart_of_all() -> None:
    cluster = SpreadCluster(ALIKE)
    cluster.settle()
    queues = cluster.queues()
    client = cluster.confirming("n1")
    for queue in queues.values():
        publish(client, b"one", key=queue)
    cluster.run(500)
    assert confirmed(client) == GROUPS
    down = {name: cluster.nodes[name] for name in cluster.names}
    for name in cluster.names[:-1]:
        cluster.kill(name)
    last = cluster.names[-1]
    for name in cluster.names[:-1]:
        cluster.revive(name, down[name])
    down[last] = cluster.kill(last)
    cluster.revive(last, down[last])
    cluster.run(6000)
    cluster.settle()
    cluster.agree()
    for queue in queues.values():
        reader = cluster.client(last, 1)
        read(reader, queue)
        cluster.run(500)
        assert bodies(reader) == [b"one"]


def test_a_folder_that_says_otherwise_than_the_cluster_knows_is_not_used() -> None:
    cluster = SpreadCluster(ALIKE)
    cluster.settle()
    down = cluster.kill("n3")
    config = down.config
    names = ("node_name", "worker", "workers", "worker_processes", "queue_groups", "cluster", "cluster_listen",
             "cluster_secret_file")  # fmt: skip
    down.config = small_config(**{name: getattr(config, name) for name in names}, group_workers=())
    cluster.revive("n3", down)
    with pytest.raises(StorageError, match="the cluster knows them at"):
        cluster.run(5000)


def test_a_host_that_is_removed_goes_from_all_groups(cluster: SpreadCluster) -> None:
    host = cluster.follower()
    asked = cluster.leader()
    cluster.nodes[asked].node.replication.propose(commands.remove_member(host, queues=commands.DROP))
    for _ in range(100):
        cluster.run(100)
        if cluster.nodes[host].node.membership.is_removed:
            break
    assert cluster.nodes[host].node.membership.is_removed
    rest = tuple(each for each in cluster.hosts if each != host)
    for group_id in range(1, GROUPS + 1):
        for each in rest:
            assert cluster.group(cluster.process(each, group_id), group_id).raft.members == rest
    cluster.run(2000)
    assert cluster.nodes[asked].node.membership.has_left(host)


def test_leaders_are_spread_over_hosts_again(cluster: SpreadCluster) -> None:
    leader = cluster.leader()
    membership = cluster.nodes[leader].node.membership
    for move in membership.plan():
        cluster.nodes[leader].node.transfers.request(move.group_id, move.target)
        cluster.run(1000)
    cluster.settle()
    led = [node_of_worker(cluster.leads(group_id)) for group_id in range(1, GROUPS + 1)]
    counts = [led.count(host) + (host == cluster.leader()) for host in cluster.hosts]
    assert max(counts) - min(counts) <= 1, counts


def test_a_reader_of_a_stream_reads_at_every_process(cluster: SpreadCluster) -> None:
    client = cluster.confirming("n1")
    names = [f"s{number}" for number in range(GROUPS)]
    for name in names:
        answer(cluster, client, declare(name, x_queue_type="stream", x_queue_leader_locator="balanced"))
        publish(client, b"one", b"two", key=name)
    cluster.run(1000)
    client.take()
    for at in cluster.names:
        for name in names:
            reader = cluster.client(at, 1)
            read(reader, name, x_stream_offset="first")
            cluster.run(300)
            assert bodies(reader) == [b"one", b"two"], (at, name)


def test_what_is_promised_is_on_the_disk_of_the_worker_that_has_the_group(cluster: SpreadCluster) -> None:
    memories = {name: driver.node.replication.host.memory for name, driver in cluster.nodes.items()}
    for name in cluster.names:
        has_groups = name in cluster.hosts or any(name in cluster.processes(each) for each in range(1, GROUPS + 1))
        assert memories[name].is_open is has_groups
        known = [each for each in memories[name].witnesses if each in cluster.names]
        if has_groups:
            others = [other for other in cluster.names if node_of_worker(other) != node_of_worker(name)]
            assert sorted(known) == [other for other in others if memories[other].is_open]


def test_methods_are_answered_by_all(cluster: SpreadCluster) -> None:
    queues = cluster.queues()
    for name in cluster.names:
        client = cluster.client(name, 1)
        for queue in queues.values():
            found = answer(cluster, client, methods.QueuePurge(0, queue, False))
            assert [each.name for each in found] == ["queue.purge-ok"]
