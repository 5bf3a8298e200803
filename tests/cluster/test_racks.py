"""Racks: what each node says of its own, and where groups are placed by it, on whole nodes in one process."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from amqp_broker.cli.cluster import render_status
from amqp_broker.cluster.membership import LOOK_MS
from amqp_broker.links import levels
from amqp_broker.links.levels import Levels
from amqp_broker.management.request import Request
from amqp_broker.management.verbs.groups import GroupVerbs
from amqp_broker.settings.config import Config
from tests.cluster.verbs import verbs_of
from tests.node.node_cluster import NodeCluster

#: Two nodes in each of three racks; in the order of their names a group of three would be in two.
RACKS = {"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c", "n6": "c"}


class RackCluster(NodeCluster):
    """racks: of the nodes, when they start."""

    def __init__(self, count: int = 6, racks: dict[str, str] | None = None, **settings: Any) -> None:
        self.racks = dict(racks if racks is not None else RACKS)
        super().__init__(count, **{"queue_groups": 3, "quorum_size": 3, **settings})

    def _config(self, name: str) -> Config:
        return dataclasses.replace(super()._config(name), rack=self.racks.get(name, ""))

    def metadata(self, name: str | None = None) -> Any:
        return self.nodes[name or self.leader()].node.broker.metadata

    def lists(self) -> list[list[str]]:
        """The racks of the members of each group."""
        return [
            sorted(self.racks[name] for name in members) for members in self.metadata().group_lists().values()
        ]

    def settle(self) -> None:
        """Until all groups have the members that they are to have."""
        for _ in range(200):
            self.run(50)
            lists = self.metadata().group_lists()
            found = {
                group_id: {driver.node.replication.host.groups[group_id].members for driver in self.nodes.values()}
                - {()}
                for group_id in lists
            }
            if lists and all(found[group_id] == {members} for group_id, members in lists.items()):
                return
        raise AssertionError((lists, found))

    def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        node = self.nodes[self.leader()].node
        groups = GroupVerbs(node.broker.metadata, node.replication, node.membership, node.groups).verbs
        answer, proposal = {**verbs_of(node), **groups}[verb](Request(fields))
        while proposal is not None and not proposal.is_done:
            self.run(10)
        return answer

    def restart(self, name: str, rack: str) -> None:
        driver = self.kill(name)
        self.racks[name] = rack
        driver.config = self._config(name)
        self.revive(name, driver)
        self.run_until_ready()
        self.run(3 * LOOK_MS)


@pytest.fixture
def cluster() -> RackCluster:
    made = RackCluster()
    made.run_until_ready()
    made.settle()
    return made


def test_each_group_is_on_one_node_of_each_rack(cluster: RackCluster) -> None:
    assert cluster.lists() == [["a", "b", "c"]] * 3
    for name in cluster.nodes:
        assert dict(cluster.metadata(name).member_racks()) == RACKS


def test_what_is_known_already_is_not_said_again(cluster: RackCluster) -> None:
    before = cluster.nodes["n1"].node.replication.last_applied
    cluster.run(10 * LOOK_MS)
    assert cluster.nodes["n1"].node.replication.last_applied == before


def test_who_places_groups_waits_for_a_node_that_has_not_said_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = RackCluster()
    late = made.nodes["n6"].node.membership
    monkeypatch.setattr(late, "_register_rack", lambda own: None)
    made.run_until_ready()
    made.run(6 * LOOK_MS)
    assert len(made.metadata().member_racks()) == 5
    assert not made.metadata().group_lists()
    monkeypatch.undo()
    made.settle()
    assert made.lists() == [["a", "b", "c"]] * 3


def test_without_racks_it_is_as_before() -> None:
    made = RackCluster(4, racks={})
    made.run_until_ready()
    made.racks = dict.fromkeys(made.names, "")
    made.settle()
    assert dict(made.metadata().member_racks()) == dict.fromkeys(made.names, "")
    assert [len(each) for each in made.lists()] == [3] * 3


def test_a_restart_with_another_rack(cluster: RackCluster) -> None:
    """Groups stay where they are, until somebody asks for more."""
    lists = dict(cluster.metadata().group_lists())
    cluster.restart("n5", "a")
    cluster.restart("n6", "a")
    assert dict(cluster.metadata().member_racks()) == {**RACKS, "n5": "a", "n6": "a"}
    assert dict(cluster.metadata().group_lists()) == lists
    cluster.restart("n2", "c")
    assert any(len(set(racks)) < 3 for racks in cluster.lists())
    cluster.ask("queues.rebalance")
    cluster.settle()
    assert cluster.lists() == [["a", "b", "c"]] * 3
    cluster.restart("n2", "")
    assert cluster.metadata().member_racks()["n2"] == ""


def test_one_of_the_same_rack_takes_the_place_of_a_node_that_is_removed(cluster: RackCluster) -> None:
    gone = cluster.metadata().group_members(1)[0]
    if gone == cluster.leader():
        gone = cluster.metadata().group_members(1)[1]
    cluster.ask("cluster.remove", node=gone)
    cluster.run(100)
    assert cluster.lists() == [["a", "b", "c"]] * 3
    assert gone not in cluster.metadata().member_racks()


def test_the_status_shows_racks(cluster: RackCluster) -> None:
    status = cluster.ask("cluster.status")
    assert {row["node"]: row["rack"] for row in status["members"]} == RACKS
    lines = render_status(status)
    assert lines[2].split() == ["member", "address", "rack", "link"]
    assert any(line.split()[:3] == ["n4", "127.0.0.1:7003", "b"] for line in lines)


def test_the_status_has_no_column_for_racks_where_there_are_none() -> None:
    made = RackCluster(3, racks={})
    made.run_until_ready()
    assert render_status(made.ask("cluster.status"))[2].split() == ["member", "address", "link"]


def test_members_of_the_version_before_hear_of_no_rack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "OWN", Levels(1, 1))
    made = RackCluster(quorum_size=0)
    made.run_until_ready()
    made.run(6 * LOOK_MS)
    assert made.metadata().level == 1
    assert not made.metadata().member_racks()
    assert not [each for each in made.metadata().snapshot() if each["op"] == "member.rack"]
