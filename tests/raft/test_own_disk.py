"""A leader leaves its own disk to a later sync where other voters' disks commit about as soon (decision 0024)."""

from __future__ import annotations

from collections.abc import Container

from raft.settings import RaftSettings
from tests.raft.cluster import Cluster
from tests.raft.raft_node import RaftNode


def leading(size: int) -> tuple[Cluster, RaftNode]:
    cluster = Cluster(size)
    cluster.elect("n1")
    cluster.settle()
    return cluster, cluster["n1"]


def carry(cluster: Cluster, synced: Container[str]) -> None:
    """Let messages happen until nothing moves; only these have a disk that answers."""
    has_moved = True
    while has_moved:
        has_moved = False
        for node in cluster.up:
            node.host.end_turn(cluster.now)
            if node.name in synced and node.port.journal.has_pending:
                node.sync(cluster.now)
                has_moved = True
            for receiver, frames in node.host.outbox.take():
                for frame in frames:
                    has_moved = cluster.deliver(node.name, receiver, frame) or has_moved


def wait(cluster: Cluster, leader: RaftNode, milliseconds: int) -> None:
    cluster.now += milliseconds
    leader.host.tick(cluster.now)
    leader.host.end_turn(cluster.now)


def test_two_followers_disks_commit_without_the_leaders() -> None:
    cluster, leader = leading(3)
    cluster.propose(b"x")
    carry(cluster, {"n2", "n3"})
    log = leader.group().member.log
    assert leader.group().commit_index == log.last_index > log.synced_index
    assert leader.machines[1].data == [b"x"]
    assert not leader.host.wants_sync
    assert leader.host.has_unsynced


def test_what_two_followers_have_survives_the_leader_that_has_it_in_ram_only() -> None:
    cluster, leader = leading(3)
    cluster.propose(b"x")
    carry(cluster, {"n2", "n3"})
    cluster.restart("n1")
    cluster.pass_time(5000)
    assert [cluster.machine(name).data for name in cluster.nodes] == [[b"x"]] * 3
    assert leader.group().member.log.synced_index == leader.group().last_index


def test_the_leaders_disk_is_needed_where_the_others_are_too_few() -> None:
    for size in (1, 2):
        cluster, leader = leading(size)
        cluster.propose(b"x")
        leader.host.end_turn(cluster.now)
        assert leader.host.wants_sync, size
    cluster, leader = leading(3)
    cluster.crash("n3")
    cluster.propose(b"x")
    leader.host.end_turn(cluster.now)
    assert leader.host.wants_sync


def test_a_follower_that_hangs_costs_own_disk_wait_once() -> None:
    cluster, leader = leading(3)
    limit = cluster.settings.own_disk_wait_ms
    cluster.propose(b"x")
    carry(cluster, {"n2"})
    assert leader.machines[1].data == []
    due = leader.host.next_deadline()
    assert due is not None
    assert due <= cluster.now + limit
    wait(cluster, leader, limit - 1)
    assert not leader.host.wants_sync
    wait(cluster, leader, 1)
    assert leader.host.wants_sync
    carry(cluster, {"n1", "n2"})
    assert leader.machines[1].data == [b"x"]
    cluster.propose(b"y")
    leader.host.end_turn(cluster.now)
    assert leader.host.wants_sync  # it is known to be slow
    carry(cluster, {"n1", "n2"})
    assert leader.machines[1].data == [b"x", b"y"]


def test_the_leaders_disk_is_spared_again_when_the_follower_has_recovered() -> None:
    cluster, leader = leading(3)
    cluster.propose(b"x")
    carry(cluster, {"n2"})
    wait(cluster, leader, cluster.settings.own_disk_wait_ms)
    carry(cluster, cluster.nodes)
    for number in range(100):
        cluster.propose(bytes([number]))
        leader.host.end_turn(cluster.now)
        if not leader.host.wants_sync:
            break
        carry(cluster, cluster.nodes)
    assert 3 < number < 30


def test_a_follower_that_is_far_away_does_not_slow_a_near_one() -> None:
    """The far one answers 30 ms later: with the own disk a commit takes the near one's time."""
    cluster, leader = leading(3)
    for _ in range(20):
        cluster.propose(b"x")
        carry(cluster, {"n1", "n2"})
        cluster.now += 30
        carry(cluster, cluster.nodes)
    cluster.propose(b"y")
    leader.host.end_turn(cluster.now)
    assert leader.host.wants_sync


def test_a_slow_disk_is_spared_where_the_followers_differ_by_less_than_it_takes() -> None:
    """8 ms each sync, and the second follower 5 ms later than the first: to sync here would hold up all else for 8."""
    cluster, leader = leading(3)
    cluster.crash("n3")
    for _ in range(40):  # so the own disk is needed, and timed
        cluster.propose(b"x")
        carry(cluster, ())
        cluster.now += 8
        carry(cluster, {"n1", "n2"})
    cluster.restart("n3")
    cluster.pass_time(1000)
    for _ in range(40):
        cluster.propose(b"x")
        carry(cluster, ())
        cluster.now += 8
        carry(cluster, {"n1", "n2"})
        cluster.now += 5
        carry(cluster, cluster.nodes)
    lags = [leader.group().member.role.progress[name].lag_ms for name in ("n2", "n3")]
    assert 2 < lags[1] - lags[0] < 8
    cluster.propose(b"y")
    leader.host.end_turn(cluster.now)
    assert not leader.host.wants_sync


def test_with_no_wait_the_own_disk_is_asked_at_once() -> None:
    cluster = Cluster(3, settings=RaftSettings(own_disk_wait_ms=0))
    cluster.elect("n1")
    leader = cluster["n1"]
    cluster.propose(b"x")
    leader.host.end_turn(cluster.now)
    wait(cluster, leader, 0)
    assert leader.host.wants_sync
