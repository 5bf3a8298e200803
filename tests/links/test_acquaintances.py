"""Who has forgotten what it has promised is not let in, on whole nodes in one process (decision 0020)."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace

import pytest

from amqp_broker.links.acquaintances import TELL_MS, Acquaintances
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.levels import OWN
from amqp_broker.links.members_file import KnownMembers, write_members
from amqp_broker.management.request import Request
from amqp_broker.metadata import commands
from amqp_broker.settings.kinds import parse_member
from raft.errors import FolderGivenUp
from raft.memory import Memory, Point
from tests.cluster.verbs import verbs_of
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver
from tests.simulation.simulated_disk import SimulatedDisk

A_WHILE = 3 * TELL_MS


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster()
    made.run_until_ready()
    made.run(A_WHILE)
    return made


def is_let_in(cluster: NodeCluster, name: str) -> bool:
    """Whether anybody takes what this node says for what it is worth."""
    return any(
        driver.node.replication.acquaintances.is_admitted(name)
        for other, driver in cluster.nodes.items()
        if other != name
    )


def reason_of(driver: NodeDriver) -> str:
    return driver.node.replication.acquaintances.reason


def begin_life(driver: NodeDriver, disk: SimulatedDisk | None = None, seed: int = 77) -> NodeDriver:
    """The node is to start with another disk, if one is given, and other chance."""
    driver._seed = seed
    if disk is not None:
        driver.disk = disk
    return driver


def write(cluster: NodeCluster, name: str, vhost: str) -> None:
    """Something that all who are there acknowledge."""
    cluster.nodes[name].node.replication.propose(commands.put_vhost(vhost))
    cluster.run(500)
    for driver in cluster.nodes.values():
        assert vhost in [record.name for record in driver.node.broker.metadata.vhosts()]


def test_who_starts_again_on_its_folder_is_let_in(cluster: NodeCluster) -> None:
    cluster.revive("n3", begin_life(cluster.kill("n3")))
    cluster.run(A_WHILE)
    assert is_let_in(cluster, "n3")
    assert reason_of(cluster.nodes["n3"]) == ""


def test_who_comes_with_an_emptied_folder_is_refused_by_each_of_the_others(cluster: NodeCluster) -> None:
    """Also by the one that has never led, alone: the others are gone."""
    down = cluster.kill("n3")
    leader = cluster.leader()
    cluster.kill(leader)
    begin_life(down, SimulatedDisk(random.Random(9)))
    cluster.revive("n3", down)
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, "n3")
    assert "it was emptied, or is another one" in reason_of(down)
    assert "amqp-broker cluster rejoin --node-name n3" in reason_of(down)


def folder_of_another_cluster() -> SimulatedDisk:
    """That of a node n3 which has met other nodes n1 and n2, as the node of a copied configuration has."""
    other = NodeCluster(first_seed=50)
    other.run_until_ready()
    other.run(A_WHILE)
    return other.kill("n3").disk


def test_who_comes_with_the_folder_of_another_cluster_ends_and_nobody_else(cluster: NodeCluster) -> None:
    """It remembers other folders of all: the word of one against that of the others."""
    down = cluster.kill("n3")
    cluster.revive("n3", begin_life(down, folder_of_another_cluster()))
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, "n3")
    assert "it was emptied, or is another one" in reason_of(down)
    assert [reason_of(cluster.nodes[name]) for name in ("n1", "n2")] == ["", ""]
    write_of_two(cluster)


def test_of_two_who_contradict_each_other_neither_ends_before_a_third_says_who_is_right(cluster: NodeCluster) -> None:
    downs = {name: cluster.kill(name) for name in ("n2", "n3")}
    cluster.revive("n3", begin_life(downs["n3"], folder_of_another_cluster()))
    cluster.run(A_WHILE)
    first = cluster.nodes["n1"].node.replication.acquaintances
    assert [reason_of(driver) for driver in cluster.nodes.values()] == ["", ""]
    assert not is_let_in(cluster, "n3")
    assert not is_let_in(cluster, "n1")
    cluster.revive("n2", begin_life(downs["n2"]))
    cluster.run(A_WHILE)
    assert "this folder has forgotten" in reason_of(downs["n3"])
    assert first.is_admitted("n2")
    write_of_two(cluster)


def test_who_is_contradicted_takes_nobody_at_his_word_until_most_know_him(cluster: NodeCluster) -> None:
    """Not even one who has nothing against him: who is the stranger is not known yet."""
    down = cluster.kill("n3")
    cluster.kill("n2")
    cluster.revive("n3", begin_life(down, folder_of_another_cluster()))
    cluster.run(A_WHILE)
    made = cluster.nodes["n3"].node.replication.acquaintances
    made.link_up("n9", cluster.now)
    made.on_said("n9", greeting(None), cluster.now)
    made.on_said("n9", b'{"what": "remembers"}', cluster.now)
    cluster.nodes["n3"].settle()
    made.on_said("n9", b'{"what": "recorded"}', cluster.now)
    assert made.links["n9"].is_on_disk
    assert not made.is_admitted("n9")
    made.link_down("n1", cluster.now)
    assert made.is_admitted("n9")


def write_of_two(cluster: NodeCluster) -> None:
    cluster.nodes["n1"].node.replication.propose(commands.put_vhost("later"))
    cluster.run(2000)
    for name in ("n1", "n2"):
        assert "later" in [record.name for record in cluster.nodes[name].node.broker.metadata.vhosts()]


def test_who_has_forgotten_knows_it_at_its_next_start_without_anybody(cluster: NodeCluster) -> None:
    down = cluster.kill("n3")
    cluster.revive("n3", begin_life(down, SimulatedDisk(random.Random(9))))
    cluster.run(A_WHILE)
    cluster.kill("n3")
    with pytest.raises(FolderGivenUp, match="this folder has forgotten"):
        down.start()


def test_a_copy_from_before_the_last_start_is_refused(cluster: NodeCluster) -> None:
    down = cluster.kill("n3")
    copied = copy.deepcopy(down.disk)
    cluster.revive("n3", begin_life(down, seed=70))
    cluster.run(A_WHILE)
    cluster.kill("n3")
    for name in [name for name in cluster.nodes if name != "n3"][:1]:
        cluster.kill(name)  # one is enough
    cluster.revive("n3", begin_life(down, copied, seed=71))
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, "n3")
    assert "it is an older copy" in reason_of(down)


def test_a_copy_of_a_running_node_is_refused_by_who_has_seen_it_go_on(cluster: NodeCluster) -> None:
    copied = copy.deepcopy(cluster.nodes["n3"].disk)
    copied.crash()
    write(cluster, "n1", "later")
    cluster.run(A_WHILE)
    down = cluster.kill("n3")
    for name in [name for name in cluster.nodes if name != "n3"][1:]:
        cluster.kill(name)
    cluster.revive("n3", begin_life(down, copied))
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, "n3")
    assert "octets of its journal" in reason_of(down)


def test_a_copy_that_is_moments_old_is_refused_by_the_leader(
    cluster: NodeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a member has acknowledged, its leader knows at once."""
    monkeypatch.setattr(Acquaintances, "_on_point", lambda *_: None)
    name = next(name for name in cluster.names if all(cluster.leader(group) != name for group in (0, 1, 2)))
    copied = copy.deepcopy(cluster.nodes[name].disk)
    copied.crash()
    write(cluster, cluster.leader(), "later")
    down = cluster.kill(name)
    cluster.revive(name, begin_life(down, copied))
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, name)
    assert "it had acknowledged entry" in reason_of(down)


def test_a_copy_after_which_nothing_was_promised_is_as_good_as_the_folder(cluster: NodeCluster) -> None:
    down = cluster.kill("n3")
    cluster.revive("n3", begin_life(down, copy.deepcopy(down.disk)))
    cluster.run(A_WHILE)
    assert is_let_in(cluster, "n3")


def test_all_start_again_together(cluster: NodeCluster) -> None:
    down = {name: cluster.kill(name) for name in cluster.names}
    now = next(iter(down.values())).now
    for number, (name, driver) in enumerate(down.items()):
        driver.now = now
        begin_life(driver, seed=50 + number).start()
        cluster.nodes[name] = driver
        cluster.heal()
    cluster.run(3000)
    assert all(is_let_in(cluster, name) for name in cluster.names)
    assert all(driver.node.is_ready for driver in cluster.nodes.values())


def test_nobody_counts_before_all_who_are_there_were_asked(cluster: NodeCluster) -> None:
    """For an election's time-out: who links last may know better."""
    down = cluster.kill("n3")
    for name in cluster.nodes:
        cluster.cut("n3", name)
    down.now = cluster.now
    begin_life(down).start()
    cluster.nodes["n3"] = down
    cluster.link("n3", "n1")
    cluster.run(200)
    assert not is_let_in(cluster, "n3"), "n2 was not asked"
    cluster.link("n3", "n2")
    cluster.run(100)
    assert is_let_in(cluster, "n3")


def test_one_who_is_away_is_not_waited_for_for_long(cluster: NodeCluster) -> None:
    cluster.kill("n2")
    cluster.revive("n3", begin_life(cluster.kill("n3")))
    cluster.run(100)
    assert not is_let_in(cluster, "n3")
    cluster.run(2 * cluster.nodes["n3"].config.raft_election_timeout_ms)
    assert is_let_in(cluster, "n3")


def remove(cluster: NodeCluster, name: str) -> None:
    """A member that is down is removed, and has left every group."""
    leader = cluster.leader()
    cluster.nodes[leader].node.replication.propose(commands.remove_member(name))
    cluster.run(3000)
    assert all(driver.node.membership.has_left(name) for driver in cluster.nodes.values())


def add(cluster: NodeCluster, name: str, identity: str) -> KnownMembers:
    """A member is added with a folder of this identity: what that has to know."""
    request = Request({"node": f"{name}=127.0.0.1:7009", "identity": identity})
    answer, proposal = verbs_of(cluster.nodes[cluster.leader()].node)["cluster.add"](request)
    cluster.run(500)
    assert proposal is not None
    assert proposal.is_done
    assert answer.get("ok", True), answer
    return KnownMembers(name, tuple(map(parse_member, answer["members"])), True, answer["index"], identity)


def start_successor(cluster: NodeCluster, known: KnownMembers) -> NodeDriver:
    disk = SimulatedDisk(random.Random(31))
    write_members(disk, known)
    config = cluster._config(known.node)
    object.__setattr__(config, "cluster_join", True)
    made = NodeDriver(config, disk, seed=31)
    cluster.revive(known.node, made)
    return made


def test_an_old_machine_that_comes_back_before_its_successor_is_not_taken_for_it(
    cluster: NodeCluster,
) -> None:
    """Nobody remembers its folder any more; but the cluster knows which one it waits for."""
    old = cluster.kill("n3")
    remove(cluster, "n3")
    known = add(cluster, "n3", "00112233445566778899aabbccddeeff")
    cluster.revive("n3", begin_life(old))
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, "n3")
    assert "its folder was 00112233, and this one is" in reason_of(old)
    cluster.kill("n3")

    successor = start_successor(cluster, known)
    cluster.run(8000)
    assert successor.node.is_ready
    assert is_let_in(cluster, "n3")
    assert [reason_of(driver) for driver in cluster.nodes.values()] == ["", "", ""]


def test_an_old_machine_of_the_version_before_is_told_too(
    cluster: NodeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It understands what others have seen of it, and nothing of recorded folders."""
    old = cluster.kill("n3")
    remove(cluster, "n3")
    add(cluster, "n3", "00112233445566778899aabbccddeeff")
    said = Acquaintances.on_said

    def as_before(self: Acquaintances, name: str, payload: bytes, now: int) -> None:
        if self is old.node.replication.acquaintances:
            fields = json.loads(payload)
            payload = json.dumps({key: value for key, value in fields.items() if key != "recorded"}).encode()
        said(self, name, payload, now)

    monkeypatch.setattr(Acquaintances, "on_said", as_before)
    old.now = cluster.now
    begin_life(old)
    cluster.revive("n3", old)
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, "n3")
    assert "its folder was 00112233" in reason_of(old)


def test_an_old_machine_that_does_not_listen_is_refused_all_the_same(
    cluster: NodeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = cluster.kill("n3")
    remove(cluster, "n3")
    add(cluster, "n3", "00112233445566778899aabbccddeeff")
    monkeypatch.setattr(Memory, "missing", lambda self, seen: "")
    cluster.revive("n3", begin_life(old))
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, "n3")
    assert "the cluster has added it with 00112233: it is an old one of its name" in caplog.text


def test_an_old_machine_that_is_linked_when_the_cluster_hears_of_its_successor_loses_its_place(
    cluster: NodeCluster,
) -> None:
    leader = cluster.leader()
    old = next(name for name in cluster.names if name != leader)
    put = commands.put_member(old, "127.0.0.1:7009", "00112233445566778899aabbccddeeff")
    cluster.nodes[leader].node.replication.propose(put)
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, old)
    assert "its folder was 00112233" in reason_of(cluster.nodes[old])
    assert [reason_of(driver) for name, driver in cluster.nodes.items() if name != old] == ["", ""]


#: How the octets of a greeting begin.
GREETS = b'{"what": "greeting", "levels": [1, 2]'


def greeting(seen: Point | None, **fields: object) -> bytes:
    """What a node of another folder says first."""
    point = [(b"x" * 16).hex(), 1, 1, 1]
    shown = None if seen is None else [seen.identity.hex(), *seen[1:]]
    said = {"what": "greeting", "generation": 0, "levels": OWN, "point": point, "seen": shown}
    return json.dumps({**said, "as_of": 0, "leads": {}, **fields}).encode()


@pytest.mark.parametrize("is_seen", [False, True])
def test_what_a_stale_leader_had_from_the_folder_before_is_asked_of_nobody(cluster: NodeCluster, is_seen: bool) -> None:
    """It leads a group as far as it knows, and has not heard that who acknowledged was removed and added anew."""
    made = cluster.nodes["n3"].node.replication.acquaintances
    made.joined_at = 7
    seen = Point(b"y" * 16, 3, 3, 3) if is_seen else None
    made.on_said("n2", greeting(seen, as_of=6, leads={"0": [99, 10_000]}), cluster.now)
    assert made.reason == ""
    own = made._memory.point(0)
    made.on_said("n2", greeting(own, as_of=6, leads={"0": [99, 10_000]}), cluster.now)
    assert "it had acknowledged entry 10000 of group 0 in term 99" in made.reason


def test_the_folder_before_is_not_seen_at_a_time_when_there_is_another(cluster: NodeCluster) -> None:
    """It was added by name alone, and its old machine is still linked and says how far it has come: that is no word of
    the new one, which would be accused of having forgotten it."""
    made = cluster.nodes["n1"].node.replication.acquaintances
    index = made._applied + 5
    made.member_removed("n3", index, cluster.now)
    assert "n3" not in made._memory.witnesses
    point = made.links["n3"].point
    assert point is not None
    later = json.dumps({"what": "point", "point": [point.identity.hex(), *point[1:3], point.position + 1]}).encode()
    made.on_said("n3", later, cluster.now)
    assert "n3" not in made._memory.witnesses
    made.member_added("n3", index + 1, cluster.now)
    assert not made.is_admitted("n3")


def test_who_was_added_after_a_removal_is_not_forgotten_with_it(cluster: NodeCluster) -> None:
    """A member that lags applies the removal when its successor has long been there."""
    made = cluster.nodes["n1"].node.replication.acquaintances
    index = made._applied + 50
    made.links["n3"].since = index
    point = made.links["n3"].point
    assert point is not None
    later = json.dumps({"what": "point", "point": [point.identity.hex(), *point[1:3], point.position + 1]}).encode()
    made.on_said("n3", later, cluster.now)
    made.member_removed("n3", index - 2, cluster.now)
    made.member_added("n3", index - 1, cluster.now)
    assert "n3" in made._memory.witnesses
    assert made.is_admitted("n3")


def test_what_is_written_of_a_folder_names_it(cluster: NodeCluster) -> None:
    """A node of before that: its `since` is that of its first start since then, and would excuse an emptied journal."""
    made = cluster.nodes["n3"].node.replication
    known = made.acquaintances.describe_folder((), joins=True)
    assert known.identity == made.host.memory.identity.hex() != ""
    down = cluster.kill("n3")
    disk = SimulatedDisk(random.Random(9))
    write_members(disk, replace(known, since=1 << 40))
    cluster.revive("n3", begin_life(down, disk))
    cluster.run(A_WHILE)
    assert not is_let_in(cluster, "n3")
    assert "times, and this folder 1 times" in reason_of(down) or "was another one" in reason_of(down)


def start_as_before(driver: NodeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of the version before: it says nothing of what it remembers, and understands nothing of it."""
    with monkeypatch.context() as patch:
        patch.setattr(Acquaintances, "open", lambda *_: None)
        driver.start()
    del driver.node.tenants.receivers[FrameKind.ACQUAINTANCE]


def test_nodes_of_this_version_and_of_the_one_before_get_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rolling upgrade: one after the other, on the folders that they have."""
    with monkeypatch.context() as patch:
        patch.setattr(Acquaintances, "open", lambda *_: None)
        cluster = NodeCluster()
        for driver in cluster.nodes.values():
            del driver.node.tenants.receivers[FrameKind.ACQUAINTANCE]
    cluster.run_until_ready()
    for number, name in enumerate(cluster.names):
        cluster.revive(name, begin_life(cluster.kill(name), seed=60 + number))
        cluster.run(5000)
        assert all(driver.node.is_ready for driver in cluster.nodes.values()), name
        write(cluster, name, f"after {name}")
    assert all(
        set(driver.node.replication.host.memory.witnesses) == {*cluster.names} - {name}
        for name, driver in cluster.nodes.items()
    )


def test_who_has_said_once_who_it_is_has_to_ever_after(
    cluster: NodeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    down = cluster.kill("n3")
    down.now = cluster.now
    start_as_before(down, monkeypatch)
    cluster.nodes["n3"] = down
    cluster.heal()
    cluster.run(5000)
    assert not is_let_in(cluster, "n3")
    assert [record.message for record in caplog.records if "n3 is not let in" in record.message] == [
        "n3 is not let in: once it said who it is, and now it does not: is it of an older version?"
    ] * 2, "once from each"


def test_what_makes_no_sense_is_logged_and_changes_nothing(
    cluster: NodeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    made = cluster.nodes["n1"].node.replication.acquaintances
    before = dict(made._memory.witnesses)
    for octets in (b"", b"[]", b"{}", GREETS + b"}", GREETS + b', "point": [1], "seen": null}'):
        made.on_said("n2", octets, cluster.now)
    assert sum("not understood" in record.message for record in caplog.records) == 5
    assert made._memory.witnesses == before
    assert made.reason == ""
