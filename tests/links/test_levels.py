"""Levels: which forms nodes use towards each other and in their folders, while a cluster is of two versions."""

from __future__ import annotations

import pytest

from amqp_broker.links import levels
from amqp_broker.links.frame_kinds import SINCE, FrameKind
from amqp_broker.links.levels import FOLDER_FORMATS, LEAST, LEVEL, OWN, Levels, read_levels, why_refused
from amqp_broker.links.tenants import Tenants
from raft.outbox import Outbox
from storage.folder_format import BASE_VERSION, FORMAT_VERSION
from tests.metadata.drafts import draft_of
from tests.node.node_cluster import NodeCluster

BEFORE = Levels(1, 1)
A_WHILE_MS = 3000


def test_a_version_speaks_its_level_and_the_one_before() -> None:
    assert OWN == (LEVEL - 1, LEVEL)
    assert {FOLDER_FORMATS[LEAST], FOLDER_FORMATS[LEVEL]} == {BASE_VERSION, FORMAT_VERSION}
    assert set(SINCE.values()) <= {*range(2, LEVEL + 1)}


@pytest.mark.parametrize(
    ("theirs", "level", "own", "why"),
    [
        (BEFORE, 1, OWN, ""),
        (OWN, 1, OWN, ""),
        (OWN, 2, OWN, ""),
        (Levels(2, 3), 1, OWN, ""),
        (BEFORE, 2, OWN, "it speaks level 1 at most, and the cluster is at level 2"),
        (BEFORE, 1, Levels(2, 3), "it speaks level 1 at most, and the cluster is at level 2"),
        (Levels(3, 4), 2, OWN, "it speaks level 3 at least, and this node 2 at most"),
    ],
)
def test_who_is_let_in(theirs: Levels, level: int, own: Levels, why: str) -> None:
    said = why_refused(theirs, level, own)
    assert said.startswith(why)
    assert bool(said) is bool(why)


def test_who_names_no_level_is_of_the_first() -> None:
    assert read_levels(None) == BEFORE
    assert read_levels([2, 3]) == Levels(2, 3)


def test_a_frame_of_a_later_level_is_not_said_to_who_does_not_know_it() -> None:
    tenants = Tenants(Outbox())
    send = tenants.register(FrameKind.MANAGEMENT, lambda name, payload, now: None)
    tenants.link_up("n2", 1)
    tenants.link_up("n3", 2)
    assert not send("n2", b"said")
    assert send("n3", b"said")
    assert [name for name, _ in tenants.outbox.take()] == ["n3"]


def cluster_of_the_version_before(monkeypatch: pytest.MonkeyPatch) -> NodeCluster:
    with monkeypatch.context() as patch:
        patch.setattr(levels, "OWN", BEFORE)
        cluster = NodeCluster()
        cluster.run(A_WHILE_MS)
    return cluster


def change(cluster: NodeCluster, name: str) -> None:
    """Stop a node, and start it with the version that is there now."""
    cluster.revive(name, cluster.kill(name))
    cluster.run(A_WHILE_MS)


def levels_of(cluster: NodeCluster) -> list[int]:
    return [driver.node.broker.metadata.level for driver in cluster.nodes.values()]


def test_the_level_is_raised_when_the_last_member_speaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of_the_version_before(monkeypatch)
    for name in cluster.names:
        assert levels_of(cluster) == [1, 1, 1]
        change(cluster, name)
    assert levels_of(cluster) == [LEVEL, LEVEL, LEVEL]


def test_it_is_not_raised_while_one_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of_the_version_before(monkeypatch)
    away = cluster.kill("n3")
    for name in ("n1", "n2"):
        change(cluster, name)
    assert levels_of(cluster) == [1, 1]
    cluster.revive("n3", away)
    cluster.run(A_WHILE_MS)
    assert levels_of(cluster) == [LEVEL, LEVEL, LEVEL]


def test_nobody_goes_back_once_it_is_raised(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    cluster = NodeCluster()
    cluster.run(A_WHILE_MS)
    assert levels_of(cluster) == [LEVEL, LEVEL, LEVEL]
    with monkeypatch.context() as patch:
        patch.setattr(levels, "OWN", BEFORE)
        change(cluster, "n3")
    assert not cluster.nodes["n1"].node.replication.is_connected("n3")
    said = "n3 is not let in: it speaks level 1 at most, and the cluster is at level 2"
    assert sum(record.getMessage().startswith(said) for record in caplog.records) == 2, "each of the others, once"
    change(cluster, "n3")
    assert cluster.nodes["n1"].node.replication.is_connected("n3")


def test_it_is_in_checkpoints() -> None:
    cluster = NodeCluster()
    cluster.run(A_WHILE_MS)
    metadata = cluster.nodes["n1"].node.broker.metadata
    assert {"op": "level.raise", "level": LEVEL} in metadata.snapshot()
    assert draft_of(metadata).level == LEVEL
