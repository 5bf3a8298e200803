"""Members that come and go, and leaders that are spread, on whole nodes in one process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amqp_broker.cluster.membership import CALM_MS, LOOK_MS
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.tenants import head_of
from amqp_broker.management.request import Request
from amqp_broker.settings.kinds import parse_members
from raft.membership import TransferResult
from tests.cluster.verbs import verbs_of
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver, declare, small_config

N4 = "n4=127.0.0.1:7003"


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster()
    made.run_until_ready()
    made.run(2 * LOOK_MS)
    return made


def ask(cluster: NodeCluster, name: str, verb: str, **fields: Any) -> dict[str, Any]:
    """A verb's answer; what it proposes is applied."""
    answer, proposal = verbs_of(cluster.nodes[name].node)[verb](Request(fields))
    for _ in range(300):
        if proposal is None or proposal.is_done:
            if not answer.get("ok", True):
                raise ValueError(answer["error"])
            return answer
        cluster.run(10)
    raise AssertionError(f"{verb} is not applied")


def voters(driver: NodeDriver) -> list[tuple[str, ...]]:
    return [group.members for group in driver.node.replication.host.groups.values()]


def recorded(driver: NodeDriver) -> dict[str, str]:
    return dict(driver.node.broker.metadata.members())


def leaders(cluster: NodeCluster) -> set[str]:
    return {cluster.leader(group_id) for group_id in groups(cluster)}


def groups(cluster: NodeCluster) -> list[int]:
    return list(next(iter(cluster.nodes.values())).node.replication.host.groups)


def others_of(cluster: NodeCluster, name: str) -> list[str]:
    return [other for other in cluster.names if other != name]


# -- who is a member ---------------------------------------------------------------------------------------------------


def test_the_first_members_are_told_to_the_metadata_once(cluster: NodeCluster) -> None:
    wanted = {"n1": "127.0.0.1:7000", "n2": "127.0.0.1:7001", "n3": "127.0.0.1:7002"}
    for driver in cluster.nodes.values():
        assert recorded(driver) == wanted
        addresses = driver.node.membership.addresses()
        assert {**{name: str(address) for name, address in addresses.items()}, driver.config.node_name: ""} == {
            **wanted, driver.config.node_name: "",
        }  # fmt: skip
    index = cluster.nodes["n1"].node.replication.metadata_group.last_index
    cluster.run(10 * LOOK_MS)
    assert cluster.nodes["n1"].node.replication.metadata_group.last_index == index, "and nothing again"


def test_a_node_alone_says_nothing_of_itself() -> None:
    driver = NodeDriver()
    driver.wait(10 * LOOK_MS)
    assert recorded(driver) == {}
    assert driver.node.membership.addresses() == {}


def test_a_node_that_is_added_learns_everything_and_gets_a_vote(cluster: NodeCluster) -> None:
    client = cluster.nodes["n1"].client(1)
    client.send(1, declare("q"))
    cluster.run(300)
    new = cluster.join("n4")
    cluster.run(2000)
    assert not new.node.is_ready, "nobody has added it yet"
    answer = ask(cluster, "n2", "cluster.add", node=N4)
    assert answer["members"] == ["n1=127.0.0.1:7000", "n2=127.0.0.1:7001", "n3=127.0.0.1:7002", N4]
    cluster.run(4000)
    assert new.node.is_ready
    assert "q" in new.node.broker.vhosts["/"].queues
    for driver in cluster.nodes.values():
        assert voters(driver) == [("n1", "n2", "n3", "n4")] * len(groups(cluster))
        assert recorded(driver)["n4"] == "127.0.0.1:7003"


def test_who_is_heard_of_again_after_the_driver_has_looked_gets_a_link(cluster: NodeCluster) -> None:
    """Between the word of it and the driver's look it is not known for a moment."""
    node = cluster.nodes["n1"].node
    said = json.dumps({"index": 1 << 40, "members": {"n9": "127.0.0.1:7009"}}).encode()
    node.membership._on_members("n2", said, cluster.now)
    cluster.cut("n1", "n2")
    assert "n9" not in node.membership.take_addresses()
    version = node.membership.version
    cluster.link("n1", "n2")
    cluster.run(50)
    node.membership._on_members("n2", said, cluster.now)
    assert node.membership.version > version
    assert "n9" in node.membership.take_addresses()


def test_a_node_that_gets_ready_tells_those_that_had_links_before_who_is_a_member(cluster: NodeCluster) -> None:
    """It could not say so when they came, and nothing that it knows need have changed."""
    membership = cluster.nodes["n1"].node.membership
    told: list[list[str]] = []
    membership._say_members = lambda names: told.append(sorted(names))  # type: ignore[method-assign]
    membership.start(cluster.now)
    assert told == [["n2", "n3"]]


@pytest.mark.parametrize("restarts", [False, True])
def test_who_was_away_while_a_member_came_hears_of_it(cluster: NodeCluster, restarts: bool) -> None:
    """The new one leads, and the other one does not know it: without a link it could never be told."""
    name = others_of(cluster, cluster.leader())[0]
    rest = others_of(cluster, name)
    away = cluster.kill(name) if restarts else cluster.nodes[name]
    cluster.isolate(name)
    cluster.join("n4")
    cluster.cut("n4", name)
    ask(cluster, rest[0], "cluster.add", node=N4)
    cluster.run(4000)
    for group_id in groups(cluster):
        leader = next(each for each in rest if cluster.nodes[each].node.replication.host.groups[group_id].is_leader)
        cluster.nodes[leader].node.replication.host.groups[group_id].transfer_leadership("n4")
    cluster.run(2000)
    if restarts:
        cluster.revive(name, away)
        cluster.cut("n4", name)
    for other in rest:
        cluster.link(name, other)
    assert "n4" not in recorded(away)
    cluster.run(1000)
    assert str(away.node.membership.addresses()["n4"]) == "127.0.0.1:7003"
    cluster.link(name, "n4")
    cluster.run(3000)
    assert away.node.is_ready
    assert recorded(away) == recorded(cluster.nodes["n4"])


def test_what_an_old_member_says_of_the_members_counts_for_nothing(cluster: NodeCluster) -> None:
    """It has not heard that somebody is gone."""
    node = cluster.nodes["n1"].node
    for index, is_believed in ((1, False), (1 << 40, True)):
        said = {"index": index, "members": {"n9": "127.0.0.1:7009", "n8": "", "n7": "nowhere"}}
        node.membership._on_members("n2", json.dumps(said).encode(), cluster.now)
        assert ("n9" in node.membership.addresses()) is is_believed
        assert not {"n8", "n7"} & set(node.membership.addresses())
    cluster.cut("n1", "n2")
    assert "n9" not in node.membership.addresses()


@pytest.mark.parametrize(
    "octets", [b"", b"\xff", b"[]", b"{}", b'{"index": "x", "members": {}}', b'{"index": 1, "members": 1}']
)
def test_members_that_are_not_understood_change_nothing(cluster: NodeCluster, octets: bytes) -> None:
    before = cluster.nodes["n1"].node.membership.addresses()
    cluster.nodes["n1"].node.membership._on_members("n2", octets, cluster.now)
    assert cluster.nodes["n1"].node.membership.addresses() == before


def test_a_member_that_is_removed_is_gone_from_every_group_and_knows_it(cluster: NodeCluster) -> None:
    name = others_of(cluster, cluster.leader())[0]
    rest = tuple(others_of(cluster, name))
    ask(cluster, cluster.leader(), "cluster.remove", node=name)
    cluster.run(3000)
    for other in rest:
        assert voters(cluster.nodes[other]) == [rest] * len(groups(cluster))
        assert name not in cluster.nodes[other].node.membership.addresses(), "no link is wanted any more"
        assert not cluster.nodes[other].node.membership.is_removed
    assert cluster.nodes[name].node.membership.is_removed


def test_a_removed_node_goes_on_until_it_is_released(cluster: NodeCluster) -> None:
    """The others may need its vote before every group is rid of it."""
    name = others_of(cluster, cluster.leader())[0]
    rest = others_of(cluster, name)
    node = cluster.nodes[name].node
    for other in rest:
        cluster.nodes[other].node.membership._reconcile = lambda group, recorded: None  # type: ignore[method-assign]
    ask(cluster, cluster.leader(), "cluster.remove", node=name)
    cluster.run(CALM_MS + 1000)
    assert name not in recorded(cluster.nodes[name])
    assert not node.membership.is_removed
    for other in rest:
        del cluster.nodes[other].node.membership._reconcile
    cluster.cut(name, rest[0])
    cluster.run(3000)
    assert not node.membership.is_removed, "one of two has released it"
    cluster.link(name, rest[0])
    cluster.run(3000)
    assert node.membership.is_removed


def test_a_removed_node_that_starts_again_and_leads_hands_over_and_goes(cluster: NodeCluster) -> None:
    """It does not get ready, as nobody tells it of the command that removed it."""
    name = others_of(cluster, cluster.leader())[0]
    rest = others_of(cluster, name)
    for other in rest:  # they leave one group alone
        membership = cluster.nodes[other].node.membership
        reconcile = membership._reconcile
        membership._reconcile = (  # type: ignore[method-assign]
            lambda group, recorded, reconcile=reconcile: group.group_id == 1 or reconcile(group, recorded)
        )
    driver = cluster.kill(name)
    ask(cluster, cluster.leader(), "cluster.remove", node=name)
    cluster.run(3000)
    cluster.revive(name, driver)
    cluster.run(500)
    leading = cluster.nodes[cluster.leader(1)].node.replication.host.groups[1]
    assert leading.transfer_leadership(name) is TransferResult.STARTED
    cluster.run(1000)
    assert cluster.leader(1) == name
    assert not driver.node.is_ready
    assert not driver.node.membership.is_removed
    for other in rest:
        del cluster.nodes[other].node.membership._reconcile
    cluster.run(3000)
    assert cluster.leader(1) in rest
    for other in rest:
        assert voters(cluster.nodes[other]) == [tuple(rest)] * len(groups(cluster))
    assert driver.node.membership.is_removed


def test_a_node_that_joins_is_not_taken_for_a_removed_one(cluster: NodeCluster) -> None:
    """As long as it is not added, all others say that it is in no group; that counts for nothing afterwards."""
    joining = cluster.join("n4")
    cluster.run(3 * LOOK_MS)
    assert joining.node.membership._releasing == {}
    assert not joining.node.membership.is_removed
    ask(cluster, cluster.leader(), "cluster.add", node=N4)
    joining.node.membership._on_release("n2", b"", joining.now)
    assert not joining.node.membership.is_removed
    cluster.run(4000)
    assert joining.node.is_ready
    assert not joining.node.membership.is_removed


def test_a_removed_node_to_which_nobody_talks_gives_up(cluster: NodeCluster) -> None:
    name = others_of(cluster, cluster.leader())[0]
    ask(cluster, cluster.leader(), "cluster.remove", node=name)
    assert name not in recorded(cluster.nodes[name])
    cluster.isolate(name)
    cluster.run(CALM_MS - 1000)
    assert not cluster.nodes[name].node.membership.is_removed
    cluster.run(2000)
    assert cluster.nodes[name].node.membership.is_removed


def test_one_change_of_members_at_a_time() -> None:
    """Two that are removed at once, or one after the other too soon, could leave no majority of those who vote."""
    cluster = NodeCluster(4)
    cluster.run_until_ready()
    cluster.run(2 * LOOK_MS)
    leader = cluster.leader()
    one, two, three = others_of(cluster, leader)
    requests = [
        verbs_of(cluster.nodes[asked].node)["cluster.remove"](Request({"node": name}))
        for asked, name in ((two, one), (three, two))
    ]
    for _ in range(20):
        cluster.step()
    assert sorted(answer.get("ok", True) for answer, _ in requests) == [False, True]
    with pytest.raises(ValueError, match="another change of members is going on"):
        ask(cluster, leader, "cluster.remove", node=three)
    cluster.run(3000)
    ask(cluster, leader, "cluster.remove", node=three)


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_one_of_two_is_removed(name: str) -> None:
    cluster = NodeCluster(2)
    cluster.run_until_ready()
    cluster.run(2 * LOOK_MS)
    (rest,) = others_of(cluster, name)
    ask(cluster, rest, "cluster.remove", node=name)
    cluster.run(3000)
    assert voters(cluster.nodes[rest]) == [(rest,)] * len(groups(cluster))
    cluster.kill(name)
    client = cluster.nodes[rest].client(1)
    client.send(1, declare("q"))
    cluster.run(300)
    assert client.names() == ["queue.declare-ok"]


@pytest.mark.parametrize("drops_queues", [False, True])
def test_a_queue_that_is_declared_on_a_member_that_is_being_removed(cluster: NodeCluster, drops_queues: bool) -> None:
    """It makes the removal fail, or it goes; it is never there without a home."""
    name = others_of(cluster, cluster.leader())[0]
    rest = others_of(cluster, name)
    early = cluster.nodes[name].client(1)
    late = cluster.nodes[name].client(1)
    early.send(1, declare("q"))
    cluster.step()  # the command is in the log, and applied nowhere
    verb = verbs_of(cluster.nodes[cluster.leader()].node)["cluster.remove"]
    answer, _ = verb(Request({"node": name, "drops_queues": drops_queues}))
    cluster.run(3000)
    assert early.names() == ["connection.close" if drops_queues else "queue.declare-ok"]
    late.send(1, declare("r"))
    cluster.run(300)
    found = ["q" in cluster.nodes[each].node.broker.vhosts["/"].queues for each in rest]
    if drops_queues:
        assert answer.get("ok", True)
        assert found == [False, False]
        [closed] = [event.method for event in late.take()]
        assert (closed.name, closed.reply_code) == ("connection.close", 320)
        assert "is no member of the cluster any more" in closed.reply_text
    else:
        assert not answer["ok"]
        assert "declared a queue on" in answer["error"]
        assert found == [True, True]
        assert late.names() == ["queue.declare-ok"]


def test_a_leader_that_is_removed_hands_over_first(cluster: NodeCluster) -> None:
    name = cluster.leader()
    rest = tuple(others_of(cluster, name))
    ask(cluster, name, "cluster.remove", node=name)
    cluster.run(5000)
    for other in rest:
        assert voters(cluster.nodes[other]) == [rest] * len(groups(cluster))
    assert name not in leaders(cluster)


def test_a_dead_member_is_replaced(cluster: NodeCluster) -> None:
    dead = others_of(cluster, cluster.leader())[0]
    cluster.kill(dead)
    asked = cluster.leader()
    ask(cluster, asked, "cluster.remove", node=dead)
    cluster.run(2000)
    cluster.join("n4")
    ask(cluster, asked, "cluster.add", node=N4)
    cluster.run(5000)
    assert voters(cluster.nodes["n4"]) == [tuple(others_of(cluster, dead))] * len(groups(cluster))


def test_a_change_goes_on_when_its_leader_dies_halfway(cluster: NodeCluster) -> None:
    old = cluster.leader()
    cluster.join("n4")
    ask(cluster, old, "cluster.add", node=N4)
    cluster.kill(old)
    cluster.run(8000)
    assert all("n4" in each for each in voters(cluster.nodes[cluster.leader()]))


def test_groups_are_left_alone_while_the_metadata_name_a_minority(cluster: NodeCluster) -> None:
    node = cluster.nodes[cluster.leader()].node
    for group in node.replication.host.groups.values():
        node.membership._reconcile(group, {"n1": ""})
    cluster.run(1000)
    assert voters(cluster.nodes["n1"]) == [("n1", "n2", "n3")] * len(groups(cluster))


@pytest.mark.parametrize(
    ("verb", "fields", "text"),
    [
        ("cluster.add", {"node": "n4"}, "node 'n4' is not NAME=HOST:PORT"),
        ("cluster.add", {"node": "n4=127.0.0.1:7001"}, "127.0.0.1:7001 is the address of n2 already"),
        ("cluster.add", {"node": "n2=127.0.0.1:7001"}, "n2 is a member already: .* cluster rejoin --node-name n2 "),
        ("cluster.add", {"node": 4}, "field node has to be a string"),
        ("cluster.remove", {"node": "n7"}, "no member 'n7'; there are n1, n2, n3"),
        ("cluster.transfer", {"vhost": "/", "queue": "no", "node": "n1"}, "no queue 'no' in vhost '/'"),
        ("cluster.transfer", {"vhost": "/", "queue": "classic", "node": "n1"}, "is a classic queue, and has no leader"),
    ],
)
def test_what_cannot_be_is_refused(cluster: NodeCluster, verb: str, fields: dict[str, Any], text: str) -> None:
    client = cluster.nodes["n1"].client(1)
    client.send(1, declare("classic"))
    cluster.run(300)
    with pytest.raises(ValueError, match=text):
        ask(cluster, "n1", verb, **fields)


def test_nobody_joins_while_a_member_is_of_the_version_before(cluster: NodeCluster) -> None:
    """It would stop at a command that it does not know."""
    cluster.nodes["n1"].node.replication.acquaintances.links["n3"].is_current = False
    with pytest.raises(ValueError, match=r"n3 would not understand it, of an older version: upgrade all members"):
        ask(cluster, "n1", "cluster.add", node=N4, identity="00" * 16)
    ask(cluster, "n1", "cluster.add", node=N4)


@pytest.mark.parametrize("identity", ["00", "x" * 32, "00" * 17])
def test_an_identity_that_is_none_is_refused(cluster: NodeCluster, identity: str) -> None:
    with pytest.raises(ValueError, match="field identity has to be 16 octets in hexadecimal"):
        ask(cluster, "n1", "cluster.add", node=N4, identity=identity)


def test_a_node_is_added_with_one_folder(cluster: NodeCluster) -> None:
    ask(cluster, "n1", "cluster.add", node=N4, identity="0a" * 16)
    ask(cluster, "n2", "cluster.add", node=N4, identity="0a" * 16)
    with pytest.raises(ValueError, match=r"n4 is a member already: .* cluster rejoin"):
        ask(cluster, "n1", "cluster.add", node=N4, identity="0b" * 16)


def test_who_is_leaving_is_not_added_again_while_a_group_has_it(cluster: NodeCluster) -> None:
    """It would be let in with an empty folder, and the group still counts its vote."""
    asked = cluster.leader()
    leaving, other = others_of(cluster, asked)
    ask(cluster, asked, "cluster.remove", node=leaving)
    address = "127.0.0.1:7009"
    assert any(leaving in each for each in voters(cluster.nodes[asked]))
    with pytest.raises(ValueError, match=f"{leaving} is leaving, or .*: it may still be in some group"):
        ask(cluster, asked, "cluster.add", node=f"{leaving}={address}")
    cluster.run(8000)
    ask(cluster, asked, "cluster.add", node=f"{leaving}={address}")
    assert leaving in cluster.nodes[other].node.broker.metadata.members()


def test_a_removal_that_its_leader_alone_has_in_its_log_is_none(cluster: NodeCluster) -> None:
    """The next leader may not have it, and counts the votes of whoever was removed."""
    leader = cluster.leader()
    gather(cluster, leader)
    gone, other = others_of(cluster, leader)
    cluster.kill(gone)
    cluster.run(100)
    ask(cluster, leader, "cluster.remove", node=gone)
    cluster.cut(leader, other)
    cluster.run(LOOK_MS)
    node = cluster.nodes[leader].node
    assert any(gone not in group.members for group in node.replication.host.groups.values()), "it has begun"
    for group in node.replication.host.groups.values():
        group.remove_member(gone)
    assert gone not in node.membership.grouped()
    assert not node.membership.has_left(gone)
    with pytest.raises(ValueError, match=f"{gone} is leaving, or "):
        verbs_of(node)["cluster.add"](Request({"node": f"{gone}=127.0.0.1:7009"}))
    cluster.heal()
    cluster.run(3000)
    assert all(driver.node.membership.has_left(gone) for driver in cluster.nodes.values())


def test_who_has_left_is_known_again_after_a_start(cluster: NodeCluster) -> None:
    leader = cluster.leader()
    gone, other = others_of(cluster, leader)
    cluster.kill(gone)
    ask(cluster, leader, "cluster.remove", node=gone)
    cluster.run(3000)
    for name in (other, leader):
        cluster.revive(name, cluster.kill(name))
        cluster.run(5000)
        assert all(driver.node.membership.has_left(gone) for driver in cluster.nodes.values())


def test_what_was_said_before_the_removal_counts_for_nothing(cluster: NodeCluster) -> None:
    """Somebody who has not heard of it may still be about to add who is removed."""
    leader = cluster.leader()
    gone, other = others_of(cluster, leader)
    cluster.kill(gone)
    ask(cluster, leader, "cluster.remove", node=gone)
    cluster.run(3000)
    membership = cluster.nodes[leader].node.membership
    _, grouped = membership._groupings[other]
    assert membership.has_left(gone)
    membership._groupings[other] = (membership._removed_at[gone] - 1, grouped)
    assert not membership.has_left(gone)


def test_the_status_says_whether_a_node_has_left(cluster: NodeCluster) -> None:
    verb, leader = "cluster.status", cluster.leader()
    gone = others_of(cluster, leader)[0]
    assert "has_left" not in ask(cluster, leader, verb)
    assert not ask(cluster, leader, verb, node=gone)["has_left"]
    cluster.kill(gone)
    ask(cluster, leader, "cluster.remove", node=gone)
    cluster.run(3000)
    assert ask(cluster, leader, verb, node=gone)["has_left"]


def test_a_node_that_has_not_come_yet_may_be_added_once_more(cluster: NodeCluster) -> None:
    """An answer that was lost."""
    ask(cluster, "n1", "cluster.add", node=N4)
    cluster.run(1000)
    assert "n4=" in str(ask(cluster, "n2", "cluster.add", node=N4)["members"])


def test_who_has_come_is_not_added_again_before_it_has_a_vote_either(cluster: NodeCluster) -> None:
    ask(cluster, "n1", "cluster.add", node=N4)
    cluster.join("n4")
    asked = cluster.nodes["n1"].node
    while "n4" not in asked.replication.host.memory.witnesses:
        cluster.step()
    with pytest.raises(ValueError, match="n4 is a member already"):
        ask(cluster, "n1", "cluster.add", node=N4)


def test_nobody_is_removed_without_whom_there_would_be_no_majority(cluster: NodeCluster) -> None:
    dead, living = others_of(cluster, cluster.leader())
    cluster.kill(dead)
    cluster.run(2000)
    with pytest.raises(ValueError, match=rf"1 of the 2 others are linked; remove who is gone \({dead}\) first"):
        ask(cluster, cluster.leader(), "cluster.remove", node=living)


def test_classic_queues_of_a_removed_node_are_dropped_only_if_that_is_said(cluster: NodeCluster) -> None:
    name = others_of(cluster, cluster.leader())[0]
    client = cluster.nodes[name].client(1)
    client.send(1, declare("orders"))
    cluster.run(300)
    with pytest.raises(ValueError, match=rf"1 durable classic queues live on {name} and would be gone: 'orders'"):
        ask(cluster, cluster.leader(), "cluster.remove", node=name)
    answer = ask(cluster, cluster.leader(), "cluster.remove", node=name, drops_queues=True)
    assert answer["dropped_queues"] == 1
    cluster.run(1000)
    assert "orders" not in cluster.nodes[cluster.leader()].node.broker.vhosts["/"].queues


def test_a_node_alone_that_nobody_can_reach_adds_nobody() -> None:
    driver = NodeDriver()
    with pytest.raises(ValueError, match="has no address for other members: start it with cluster_listen"):
        verbs_of(driver.node)["cluster.add"](Request({"node": N4}))


class JustStarted(NodeDriver):
    """Nothing that it says at its start is applied yet."""

    def add_user(self) -> None:
        pass


def test_a_node_that_has_only_just_started_adds_others() -> None:
    """Clients come as soon as it is ready, and what it says then of where it is takes a sync."""
    alone = parse_members("n1=127.0.0.1:7000")
    driver = JustStarted(
        small_config(node_name="n1", cluster_listen=(alone[0].address,), cluster_secret_file="secret", cluster=alone)
    )
    assert recorded(driver) == {}
    answer, _ = verbs_of(driver.node)["cluster.add"](Request({"node": N4}))
    assert answer["members"] == ["n1=127.0.0.1:7000", N4]
    driver.wait(LOOK_MS)
    assert recorded(driver) == {"n1": "127.0.0.1:7000", "n4": "127.0.0.1:7003"}


# -- leaders -----------------------------------------------------------------------------------------------------------


def test_a_transfer_may_be_asked_of_any_node(cluster: NodeCluster) -> None:
    old = cluster.leader()
    for asked in (old, *others_of(cluster, old)):
        target = others_of(cluster, cluster.leader())[0]
        result = cluster.nodes[asked].node.transfers.request(0, target)
        assert result is TransferResult.STARTED
        cluster.run(1000)
        assert cluster.leader() == target
    assert cluster.nodes[old].node.transfers.request(0, target) is TransferResult.LEADER_ALREADY
    follower = others_of(cluster, target)[0]
    assert cluster.nodes[follower].node.transfers.request(0, "n9") is TransferResult.NOT_A_VOTER


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"group": 99, "to": "n1"}', b'{"group": 0, "to": 1}', b"\xff"])
def test_a_request_that_is_not_understood_changes_nothing(
    cluster: NodeCluster, payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    leader = cluster.leader()
    other = others_of(cluster, leader)[0]
    cluster.nodes[other].node.tenants.outbox.put(leader, head_of(FrameKind.TRANSFER_REQUEST) + payload)
    cluster.run(500)
    assert cluster.leader() == leader
    assert f"{other} asks for a transfer in a way that is not understood" in caplog.text


def gather(cluster: NodeCluster, name: str) -> None:
    """Have one node lead every group."""
    for group_id in groups(cluster):
        cluster.nodes[name].node.transfers.request(group_id, name)
    cluster.run(2000)
    assert leaders(cluster) == {name}


def test_one_that_leads_all_gives_some_away_when_all_are_linked_for_a_while(cluster: NodeCluster) -> None:
    gather(cluster, "n2")
    cluster.cut("n1", "n2")
    cluster.run(2 * LOOK_MS)
    cluster.heal()
    cluster.run(CALM_MS - 2000)
    assert leaders(cluster) == {"n2"}
    cluster.run(4000)
    assert len(leaders(cluster)) == 3
    gather(cluster, "n2")
    cluster.run(CALM_MS + 4000)
    assert leaders(cluster) == {"n2"}, "once: then somebody has wanted it so"


def test_rebalance_spreads_at_once(cluster: NodeCluster) -> None:
    gather(cluster, "n3")
    answer = ask(cluster, "n1", "cluster.rebalance")
    assert all(move["is_started"] for move in answer["moves"])
    cluster.run(1000)
    assert len(leaders(cluster)) == 3
    assert ask(cluster, "n1", "cluster.rebalance") == {"moves": []}


# -- status ------------------------------------------------------------------------------------------------------------


def test_the_status_of_a_leader_says_how_far_the_others_are(cluster: NodeCluster) -> None:
    leader = cluster.leader()
    one, two = others_of(cluster, leader)
    status = ask(cluster, leader, "cluster.status")
    assert (status["node"], status["cluster"]) == (leader, "amqp-broker")
    assert [(row["node"], row["is_linked"]) for row in status["members"]] == [("n1", True), ("n2", True), ("n3", True)]
    row = status["groups"][0]
    assert (row["group"], row["holds"], row["leader"], row["role"]) == (0, "metadata", leader, "leader")
    assert row["voters"] == ["n1", "n2", "n3"]
    assert row["lag"] == {one: 0, two: 0}
    assert row["commit_index"] == row["applied_index"] > 0
    assert not row["is_critical"]
    cluster.kill(two)
    cluster.run(500)
    status = ask(cluster, leader, "cluster.status")
    assert all(row["is_critical"] for row in status["groups"])
    assert {row["node"]: row["is_linked"] for row in status["members"]} == {leader: True, one: True, two: False}


def test_the_status_of_a_node_alone() -> None:
    driver = NodeDriver()
    status, _ = verbs_of(driver.node)["cluster.status"](Request({}))
    assert [row["is_this_node"] for row in status["members"]] == [True]
    assert not any(row["is_critical"] for row in status["groups"])
