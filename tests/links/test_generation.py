"""A node of the cluster as it was before it was restored is never taken for one of the cluster as it is, and what it
says counts for nothing."""

from __future__ import annotations

import json

import pytest

from amqp_broker.links.acquaintance import GENERATION
from amqp_broker.links.acquaintances import Acquaintances
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.generation import Standing, compare, next_generation
from amqp_broker.links.tenants import head_of
from raft.errors import FolderGivenUp
from tests.cluster.restored_cluster import RestoredCluster, without_generation
from tests.node.node_driver import NodeDriver

FAREWELL = head_of(FrameKind.RELEASE)


@pytest.fixture
def cluster() -> RestoredCluster:
    return RestoredCluster()


def acquaintances_of(driver: NodeDriver) -> Acquaintances:
    made: Acquaintances = driver.node.replication.acquaintances
    return made


def reason_of(driver: NodeDriver) -> str:
    return acquaintances_of(driver).reason


def test_an_old_node_does_not_end_the_restored_one_when_its_successor_is_added(
    cluster: RestoredCluster, caplog: pytest.LogCaptureFixture
) -> None:
    restored, old = cluster.nodes["n1"], cluster.start_old("n3")
    known = cluster.add("n3")
    cluster.link("n1", "n3")
    cluster.run(3000)
    assert reason_of(restored) == ""
    generation = acquaintances_of(restored).generation
    assert f"this folder belongs to generation 0 of the cluster, and node n1 to {generation}" in reason_of(old)
    assert "amqp-broker cluster rejoin --node-name n3" in reason_of(old)
    refusals = [record.message for record in caplog.records if "n3 is not let in" in record.message]
    assert len(refusals) == 1
    assert f"it belongs to generation 0 of the cluster, and this node to {generation}" in refusals[0]

    cluster.stop("n3")
    with pytest.raises(FolderGivenUp, match="belongs to generation 0 of the cluster"):
        old.start()
    new = cluster.start_new("n3", known)
    cluster.link("n1", "n3")
    cluster.run(8000)
    assert new.node.is_ready
    assert all(group.members == ("n1", "n3") for group in restored.node.replication.host.groups.values())
    assert reason_of(restored) == reason_of(new) == ""


def test_an_old_node_that_hears_that_it_is_no_member_hears_why(cluster: RestoredCluster) -> None:
    """It calls the restored node, which does not know it any more: the link is for no more than that word."""
    restored, old = cluster.nodes["n1"], cluster.start_old("n3")
    said = restored.node.membership.farewell("n3")
    assert said[-1] == FAREWELL
    old.node.peer_connected("n1", cluster.now)
    for frame in said:
        old.node.receive_peer("n1", frame, cluster.now)
    assert "this folder belongs to generation 0 of the cluster, and node n1 to" in reason_of(old)


def test_that_a_node_is_no_member_counts_for_nothing_from_an_old_one(cluster: RestoredCluster) -> None:
    """The old cluster had removed it; the restored one has just started, and a majority is that old node alone."""
    restored = cluster.nodes["n1"]
    cluster.start_new("n2", cluster.add("n2"))
    cluster.link("n1", "n2")
    cluster.run(5000)
    cluster.stop("n2")
    cluster.kill("n1")
    restored.start()
    assert not restored.node.is_ready
    restored.node.peer_connected("n2", restored.now)
    restored.node.receive_peer("n2", FAREWELL, restored.now)
    assert restored.node.membership.dismissed_by == {}
    assert not restored.node.membership.is_removed
    assert reason_of(restored) == ""


def test_who_does_not_greet_at_all_has_no_place_in_a_restored_cluster(
    cluster: RestoredCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version from before any of this, in the old cluster."""
    cluster.add("n3")
    with monkeypatch.context() as patch:
        patch.setattr(Acquaintances, "open", lambda *_: None)
        old = cluster.start_old("n3")
    del old.node.tenants.receivers[FrameKind.ACQUAINTANCE]
    cluster.link("n1", "n3")
    cluster.run(3000)
    restored = cluster.nodes["n1"]
    assert not acquaintances_of(restored).is_admitted("n3")
    assert reason_of(restored) == ""


def test_a_node_that_was_told_of_no_generation_takes_that_of_the_cluster(cluster: RestoredCluster) -> None:
    """One that was made by flags: `--cluster-join` on an empty folder."""
    new = cluster.start_new("n2", without_generation(cluster.add("n2")))
    cluster.link("n1", "n2")
    cluster.run(8000)
    assert new.node.is_ready
    assert acquaintances_of(new).generation == acquaintances_of(cluster.nodes["n1"]).generation > 0
    assert acquaintances_of(new).describe_folder((), joins=True).generation > 0


def test_a_second_restore_is_later_than_the_first(cluster: RestoredCluster) -> None:
    first = acquaintances_of(cluster.nodes["n1"]).generation
    driver = cluster.kill("n1")
    cluster.restore(driver, driver.now + 1000)
    assert acquaintances_of(driver).generation > first


@pytest.mark.parametrize("generation", ["x", [], {}])
def test_a_generation_that_is_none_is_logged_and_changes_nothing(
    cluster: RestoredCluster, generation: object, caplog: pytest.LogCaptureFixture
) -> None:
    restored = cluster.nodes["n1"]
    cluster.start_old("n3")
    cluster.link("n1", "n3")
    said = json.dumps({"what": GENERATION, "generation": generation}).encode()
    acquaintances_of(restored).on_said("n3", said, cluster.now)
    assert "not understood" in caplog.text
    assert reason_of(restored) == ""


def test_a_restore_is_later_than_its_folder_and_than_every_earlier_one() -> None:
    assert next_generation(0, 5000) == 5000
    assert next_generation(5000, 6000) == 6000
    assert next_generation(5000, 4000) == 5001, "the clock was set back"


@pytest.mark.parametrize(
    ("theirs", "standing"), [(6, Standing.EARLIER), (7, Standing.SAME), (8, Standing.LATER), (0, Standing.EARLIER)]
)
def test_generations_are_ordered(theirs: int, standing: Standing) -> None:
    assert compare(7, theirs) is standing
