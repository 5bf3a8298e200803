"""The group behind a quorum queue: leader, term, how far each member is, and who led when and why."""

from __future__ import annotations

import json

import pytest

from raft.leader_changes import ALONE, ELECTED, FIRST_HEARD, HANDED_OVER, MOST, NOT_HEARD, LeaderChanges
from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.management.users import TaggedDesk, add_user
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver, declare
from tests.node.system_service import SystemService


@pytest.fixture
def desk() -> ClusterDesk:
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)
    client = cluster.nodes["n1"].client(1)
    client.send(1, declare("q", x_queue_type="quorum"), declare("classic"))
    cluster.run(300)
    client.publish(1, "q", b"x")
    cluster.run(300)
    return desk


def test_each_node_shows_the_same_group(desk: ClusterDesk) -> None:
    views = [desk.ask(node, "quorum.view", vhost="/", name="q") for node in ("n1", "n2", "n3")]
    assert len({(view["group"], view["term"], view["leader"]) for view in views}) == 1
    for view in views:
        assert [member["node"] for member in view["members"]] == ["n1", "n2", "n3"]
        assert [member["lag"] for member in view["members"]] == [0, 0, 0]
        leading = next(member for member in view["members"] if member["role"] == "leader")
        assert leading["node"] == view["leader"]
        assert {member["acknowledged_index"] for member in view["members"]} == {leading["last_index"]}
        assert all(member["is_voter"] and member["is_linked"] for member in view["members"])
        level = desk.cluster.nodes["n1"].node.broker.metadata.level
        assert {member["level"] for member in view["members"]} == {level}
        assert all(member["checkpoint_index"] <= member["applied_index"] for member in view["members"])
        assert view["stale"] == []


def test_a_change_of_the_leader_says_why(desk: ClusterDesk) -> None:
    before = desk.ask("n1", "quorum.view", vhost="/", name="q")
    target = next(name for name in ("n1", "n2", "n3") if name != before["leader"])
    desk.desks["n1"].send("cluster.transfer", json.dumps({"vhost": "/", "queue": "q", "node": target}).encode())
    desk.cluster.run(3000)
    desk.desks["n1"].answers()
    after = desk.ask("n1", "quorum.view", vhost="/", name="q")
    assert (after["leader"], after["term"] > before["term"]) == (target, True)
    newest = [each for each in after["leader_changes"] if each["term"] == after["term"]]
    whys = {each["seen_by"]: each["why"] for each in newest}
    assert whys.pop(target) == HANDED_OVER
    assert set(whys.values()) == {ELECTED}
    assert {each["before"] for each in newest} == {before["leader"]}


def test_a_member_that_is_away_is_shown_so(desk: ClusterDesk) -> None:
    before = desk.ask("n1", "quorum.view", vhost="/", name="q")
    away = before["leader"]
    asked = next(name for name in ("n1", "n2", "n3") if name != away)
    desk.cluster.isolate(away)
    desk.cluster.run(10_000)
    view = desk.ask(asked, "quorum.view", vhost="/", name="q")
    assert view["leader"] not in (None, away)
    assert view["stale"] == [away]
    gone = next(member for member in view["members"] if member["node"] == away)
    assert (gone["role"], gone["is_linked"]) == ("unknown", False)
    first = next(each for each in view["leader_changes"] if each["seen_by"] == view["leader"])
    assert first["why"] == NOT_HEARD


def test_a_node_alone_and_what_has_no_group() -> None:
    driver = NodeDriver()
    service = SystemService(driver)
    service.client.send(1, declare("<q>", x_queue_type="quorum"), declare("classic"))
    driver.settle()
    service.client.take()
    view = service.ask("quorum.view", vhost="/", name="<q>")
    assert [each["why"] for each in view["leader_changes"]] == [ALONE]
    assert [member["role"] for member in view["members"]] == ["leader"]
    assert "which is on one node only" in service.ask("quorum.view", vhost="/", name="classic")["error"]
    assert service.ask("quorum.view", vhost="/", name="no")["code"] == "not_found"
    assert service.ask("quorum.view", vhost="no", name="q")["code"] == "not_found"
    add_user(driver, "elsewhere", "management", vhosts=())
    asked = TaggedDesk(driver).ask_as("elsewhere", "quorum.view", vhost="/", name="<q>")
    assert asked["code"] == "not_authorised"


def test_as_many_changes_are_kept_as_there_is_room_for() -> None:
    changes = LeaderChanges()
    changes.seen("n2", 1, False, False, 5)
    changes.seen("n2", 1, False, False, 6)
    assert [(each.at, each.why) for each in changes.all] == [(5, FIRST_HEARD)]
    changes.seen(None, 1, False, False, 7)
    changes.seen(None, 2, False, False, 8)
    assert changes.without_since == 7
    for term in range(2, 2 + 2 * MOST):
        changes.campaigns(term % 2 == 0)
        changes.seen("n1", term, True, False, term)
    assert len(changes.all) == MOST
    assert changes.without_since == 0
    assert [each.why for each in changes.all][-2:] == [HANDED_OVER, NOT_HEARD]
