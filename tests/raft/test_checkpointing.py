"""Checkpoints that are made in slices, while entries go on being applied."""

from __future__ import annotations

import pytest

from raft.entry import ENTRY_OVERHEAD_BYTES
from raft.settings import RaftSettings
from tests.raft.cluster import Cluster, leading
from tests.raft.raft_node import RaftNode

SMALL = RaftSettings(log_bytes=2_000, log_cap_bytes=4_000, install_in_flight_bytes=500)
ENTRIES = 30


def begun(cluster: Cluster) -> tuple[RaftNode, int]:
    """The only node, of which a checkpoint has begun; and as of which index."""
    node = cluster["n1"]
    node.slices = []
    cluster.restart("n1")
    leading(cluster)
    while not node.slices:
        propose(cluster, 1)
    making = node.group().member._checkpointing  # type: ignore[attr-defined]  # of a Member
    while not making.index:  # it is prepared first
        assert step(node)
        propose(cluster, 1)
    return node, making.index


def propose(cluster: Cluster, count: int) -> None:
    for _ in range(count):
        cluster.propose(b"entry %d " % cluster["n1"].group().last_index + bytes(60))
    cluster.settle()


def step(node: RaftNode) -> bool:
    """A slice. Returns whether there is more."""
    assert node.slices is not None
    goes_on = node.slices[0](0)
    if not goes_on:
        node.slices.pop(0)
    return goes_on


def test_it_is_of_when_it_was_begun_and_what_follows_stays() -> None:
    cluster = Cluster(1, settings=SMALL)
    node, index = begun(cluster)
    before = node.group().statistics().checkpoint_index
    while step(node):
        assert node.group().statistics().checkpoint_index == before
        propose(cluster, 1)
    last = node.group().last_applied
    assert node.group().statistics().checkpoint_index == index < last
    log = node.group().member.log
    above = [data for data, at, _, _ in node.group().entries if at > index]
    assert log.appended_bytes == sum(len(data) + ENTRY_OVERHEAD_BYTES for data in above)
    cluster.settle()
    wanted = node.machines[1].data
    cluster.restart("n1")
    assert node.group().statistics().checkpoint_index == index
    leading(cluster)
    assert node.machines[1].data[: len(wanted)] == wanted


@pytest.mark.parametrize("slices", [0, 1, 7, 40])
def test_a_crash_in_the_midst_of_it_loses_nothing(slices: int) -> None:
    cluster = Cluster(1, settings=SMALL)
    node, _ = begun(cluster)
    for _ in range(slices):
        step(node)
        propose(cluster, 1)
    wanted = node.machines[1].data
    cluster.restart("n1")
    leading(cluster)
    assert node.machines[1].data[: len(wanted)] == wanted


def test_one_at_a_time() -> None:
    cluster = Cluster(1, settings=SMALL)
    node, index = begun(cluster)
    propose(cluster, 2 * ENTRIES)
    assert node.slices is not None
    assert len(node.slices) == 1
    assert not node.group().take_checkpoint()
    while step(node):
        pass
    assert node.group().statistics().checkpoint_index == index


def test_who_is_to_leave_a_segment_makes_one_in_slices_first() -> None:
    cluster = Cluster(1, settings=SMALL)
    node, _ = begun(cluster)
    while step(node):
        pass
    cluster.settle()
    log, host = node.group().member.log, node.host
    segment = log.checkpoint_segment
    propose(cluster, 1)
    assert not host.prepare_to_leave(segment)
    index = node.group().last_applied
    while step(node):
        assert not host.prepare_to_leave(segment)
    assert host.prepare_to_leave(segment)
    assert node.group().statistics().checkpoint_index == index


def test_one_that_is_not_prepared_makes_it_at_once() -> None:
    cluster = Cluster(1, settings=SMALL)
    node, _ = begun(cluster)
    propose(cluster, 5)
    segment = node.group().member.log.checkpoint_segment
    node.group().leave_segment(segment)
    assert node.group().statistics().checkpoint_index == node.group().last_applied
    assert not step(node), "the one in slices has come to nothing"
    cluster.settle()
    wanted = node.machines[1].data
    cluster.restart("n1")
    leading(cluster)
    assert node.machines[1].data[: len(wanted)] == wanted
