"""The host: elections by passed time, one heartbeat frame a peer, prompt commits, and stopping for good."""

from __future__ import annotations

from itertools import pairwise

import pytest

from raft.errors import PeerProtocolError, RaftStopped
from raft.membership import MembershipResult
from raft.messages import Append, CommitNotice, Heartbeat, HeartbeatReply
from raft.settings import RaftSettings
from raft.wire import decode, encode
from tests.raft.cluster import Cluster, leading
from tests.raft.raft_node import ListMachine


def test_a_group_of_one_leads_with_its_first_sync() -> None:
    cluster = Cluster(1)
    node = cluster["n1"]
    assert not node.group().is_leader
    assert node.host.wants_sync
    cluster.settle()
    assert node.group().is_leader
    assert not node.host.wants_sync
    cluster.propose(b"x")
    node.host.end_turn(cluster.now)
    assert node.machines[1].data == []
    cluster.settle()
    assert node.machines[1].data == [b"x"]


def test_failover_takes_less_than_three_seconds() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    cluster.crash(leader.name)
    began = cluster.now
    while cluster.leader() is None:
        cluster.pass_time(50)
    assert cluster.now - began < 2000


def test_followers_learn_of_a_commit_in_the_same_turn() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    seen: list[str] = []

    def passes(sender: str, receiver: str, frame: bytes) -> bool:
        seen.append(type(decode(frame)).__name__)
        return True

    cluster.passes = passes
    cluster.propose(b"x")
    cluster.settle()  # no time passes
    assert [cluster.machine(name).data for name in cluster.nodes] == [[b"x"]] * 3
    assert seen == ["Append", "Append", "AppendReply", "AppendReply", "CommitNotice", "CommitNotice"]
    assert leader.group().commit_index == 2


def test_who_does_not_wait_for_a_commit_hears_of_it_a_little_later() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    waiting, other = (name for name in cluster.nodes if name != leader.name)
    leader.machines[1].concerned = {waiting}
    cluster.propose(b"x")
    cluster.settle()
    assert cluster.machine(waiting).data == [b"x"]
    assert cluster.machine(other).data == []
    due = leader.host.next_deadline()
    assert due is not None
    assert 0 < due - cluster.now <= cluster.settings.notice_ms
    cluster.now = due
    leader.host.tick(due)
    cluster.settle()
    assert cluster.machine(other).data == [b"x"]
    again = leader.host.next_deadline()
    assert again is not None
    assert again - cluster.now > cluster.settings.notice_ms  # nobody else is to be told


def test_the_next_entry_tells_of_the_commit_before_it() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    leader.machines[1].concerned = ()
    cluster.propose(b"x")
    cluster.settle()
    seen: list[str] = []

    def passes(sender: str, receiver: str, frame: bytes) -> bool:
        seen.append(type(decode(frame)).__name__)
        return True

    cluster.passes = passes
    cluster.propose(b"y")
    cluster.settle()
    assert [cluster.machine(name).data for name in cluster.nodes if name != leader.name] == [[b"x"]] * 2
    assert seen == ["Append", "Append", "AppendReply", "AppendReply"]


def test_one_heartbeat_frame_a_peer_for_all_groups() -> None:
    cluster = Cluster(3, groups=64)
    cluster.pass_time(3000)
    for group in range(1, 65):
        cluster.elect("n1", group)
    frames: list[tuple[str, str, object]] = []

    def passes(sender: str, receiver: str, frame: bytes) -> bool:
        frames.append((sender, receiver, decode(frame)))
        return True

    cluster.passes = passes
    cluster.pass_time(100)
    beats = [message for _, _, message in frames if isinstance(message, Heartbeat)]
    replies = [message for _, _, message in frames if isinstance(message, HeartbeatReply)]
    assert [len(each.beats) for each in beats] == [64, 64]
    assert [len(each.replies) for each in replies] == [64, 64]
    assert len(frames) == 4


@pytest.mark.parametrize("jump", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_deposes_nobody(jump: int) -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    term = leader.group().term
    for name in cluster.nodes:
        cluster.now += jump
        cluster[name].host.tick(cluster.now)
        cluster.settle()
    cluster.pass_time(2000)
    assert cluster.leader() is leader
    assert leader.group().term == term


def test_who_comes_back_raises_no_term() -> None:
    """Pre-vote: a member that was cut off for long has asked in vain, and follows at once."""
    cluster = Cluster(3)
    leader = leading(cluster)
    term = leader.group().term
    name = next(name for name in cluster.nodes if name != leader.name)
    cluster.passes = lambda sender, receiver, frame: name not in (sender, receiver)
    cluster.pass_time(20_000)
    cluster.passes = lambda sender, receiver, frame: True
    cluster.pass_time(500)
    assert cluster.leader() is leader
    assert leader.group().term == term
    assert cluster[name].group().leader == leader.name


def test_a_leader_without_a_majority_steps_down() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    cluster.passes = lambda sender, receiver, frame: leader.name not in (sender, receiver)
    cluster.pass_time(1500)
    assert not leader.group().is_leader
    assert not leader.group().propose(b"x")


def test_a_divergent_tail_backs_off_one_round_a_term() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    cluster.passes = lambda sender, receiver, frame: leader.name not in (sender, receiver)
    for number in range(300):
        leader.group().propose(b"lost %d" % number)
    cluster.pass_time(4000)
    cluster.propose(b"kept")
    cluster.settle()
    appends: list[Append] = []

    def passes(sender: str, receiver: str, frame: bytes) -> bool:
        message = decode(frame)
        if isinstance(message, Append) and receiver == leader.name:
            appends.append(message)
        return True

    cluster.passes = passes
    cluster.pass_time(500)
    assert [node.machines[1].data for node in cluster.up] == [[b"kept"]] * 3
    assert len(appends) <= 6


def test_octets_in_flight_are_bounded() -> None:
    settings = RaftSettings(append_bytes=1_000, in_flight_bytes=5_000)
    cluster = Cluster(3, settings=settings)
    leader = leading(cluster)
    sizes: dict[str, int] = dict.fromkeys(cluster.nodes, 0)

    def passes(sender: str, receiver: str, frame: bytes) -> bool:
        if sender == leader.name and isinstance(decode(frame), Append):
            sizes[receiver] += len(frame)
        return False

    cluster.passes = passes
    for _ in range(100):
        cluster.propose(bytes(500))
    cluster.settle()
    assert all(size < 7_000 for name, size in sizes.items() if name != leader.name)
    cluster.passes = lambda sender, receiver, frame: True
    cluster.pass_time(1000)
    assert all(len(cluster.machine(name).data) == 100 for name in cluster.nodes)


def test_a_frame_of_a_peer_that_is_not_connected_is_dropped() -> None:
    cluster = Cluster(3)
    cluster["n1"].host.receive_peer("stranger", b"nonsense", cluster.now)
    with pytest.raises(PeerProtocolError):
        cluster["n1"].host.receive_peer("n2", b"nonsense", cluster.now)


def test_after_a_stop_nothing_goes_out_and_nothing_goes_on() -> None:
    cluster = Cluster(1)
    cluster.settle()
    node = cluster["n1"]

    def fail(item: object) -> None:
        raise ValueError("apply fails")

    node.machines[1].on_apply = fail
    node.group().propose(b"x")
    with pytest.raises(RaftStopped, match="applying entry 2 of term 1 failed: ValueError: apply fails"):
        node.sync(cluster.now)
    assert node.host.outbox.take() == []
    for call in (node.host.tick, node.host.end_turn, lambda now: node.host.synced(10**9, now)):
        with pytest.raises(RaftStopped):
            call(cluster.now)
    with pytest.raises(RaftStopped):
        node.group().propose(b"y")


def test_a_group_is_opened_once() -> None:
    cluster = Cluster(1)
    with pytest.raises(ValueError, match="group 1 is open already"):
        cluster["n1"].host.open_group(1, ListMachine(), ("n1",), cluster.now)


def test_an_entry_that_is_too_large_is_refused() -> None:
    cluster = Cluster(1, settings=RaftSettings(entry_bytes=100))
    cluster.settle()
    with pytest.raises(ValueError, match="an entry of 101 octets; at most 100"):
        cluster["n1"].group().propose(bytes(101))


@pytest.mark.parametrize("bad", [
    {"heartbeat_ms": 400}, {"election_timeout_max_ms": 600}, {"append_bytes": 0}, {"log_cap_bytes": 1},
])  # fmt: skip
def test_settings_that_cannot_work_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="_"):
        RaftSettings(**bad)


def test_the_next_deadline_is_a_heartbeat_away_at_most() -> None:
    cluster = Cluster(3)
    leading(cluster)
    for node in cluster.up:
        deadline = node.host.next_deadline()
        assert deadline is not None
        assert cluster.now <= deadline <= cluster.now + node.settings.heartbeat_ms * 9 // 8


def test_members_that_lead_groups_beat_together() -> None:
    cluster = Cluster(3, groups=3)
    cluster.pass_time(3000)
    for number in (1, 2, 3):
        cluster.elect(f"n{number}", number)
    beats: list[tuple[int, str]] = []

    def passes(sender: str, receiver: str, frame: bytes) -> bool:
        if isinstance(decode(frame), Heartbeat):
            beats.append((cluster.now, sender))
        return True

    cluster.passes = passes
    period = cluster.settings.heartbeat_ms
    for offset, name in enumerate(cluster.nodes):  # each by itself, apart from the others
        cluster[name].host._heartbeat_at = cluster[name].host._clock + period * (offset + 1) // 4
    for _ in range(20 * period):
        cluster.now += 1
        for node in cluster.up:
            node.host.tick(cluster.now)
        cluster.settle()
    late = [each for each in beats if each[0] > cluster.now - 10 * period]
    times = sorted({time for time, _ in late})
    assert [later - time for time, later in pairwise(times)] == [period] * (len(times) - 1)
    for time in times:
        assert sorted({sender for when, sender in late if when == time}) == ["n1", "n2", "n3"]
    assert len(late) == 2 * 3 * len(times)  # each tells each of the others once


def test_an_idle_commit_notice_is_not_answered() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    follower = next(node for node in cluster.up if node is not leader)
    follower.host.receive_peer(leader.name, encode(CommitNotice([(1, leader.group().term, 1, 1)])), cluster.now)
    follower.host.end_turn(cluster.now)
    assert follower.host.outbox.take() == []


def test_a_node_alone_is_at_rest_until_something_happens() -> None:
    cluster = Cluster(1)
    cluster.settle()
    cluster.pass_time(3000)
    host = cluster["n1"].host
    assert host.next_deadline() is None, "nobody is to be told that it is there"
    cluster.now += 3_600_000
    cluster.propose(b"x")
    cluster.settle()
    assert cluster.machine("n1").data == [b"x"]
    assert host.next_deadline() is not None, "what the log holds in RAM is looked at once more"
    cluster.pass_time(1000)
    assert host.next_deadline() is None


def test_who_has_no_vote_is_at_rest_and_wakes_with_a_vote() -> None:
    cluster = Cluster(3, joiners=1)
    leader = leading(cluster)
    joiner = cluster["n4"].host
    cluster.pass_time(3000)
    assert joiner.next_deadline() is None, "it waits for no election"
    cluster.now += 3_600_000
    leader.host.tick(cluster.now)
    assert leader.group().add_member("n4") is MembershipResult.ACCEPTED
    cluster.pass_time(3000)
    assert "n4" in leader.group().members
    assert joiner.next_deadline() is not None
    cluster.crash(leader.name)
    cluster.pass_time(3000)
    successor = cluster.leader()
    assert successor is not None
    if successor.name != "n4":
        cluster.elect("n4")
    found = cluster.leader()
    assert found is not None
    assert found.name == "n4"


def test_who_loses_its_leader_before_it_has_a_vote_is_at_rest_again() -> None:
    cluster = Cluster(1, joiners=1)
    leader = leading(cluster)
    cluster.passes = lambda sender, receiver, frame: receiver != "n1"  # so it never catches up
    assert leader.group().add_member("n2") is MembershipResult.ACCEPTED
    cluster.pass_time(500)
    assert cluster["n2"].group().leader == "n1"
    assert leader.host.next_deadline() is not None, "now there is somebody to be told"
    cluster.crash("n1")
    cluster.pass_time(3000)
    assert cluster["n2"].group().leader is None
    assert cluster["n2"].host.next_deadline() is None
