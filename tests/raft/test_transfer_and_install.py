"""Handing over the leadership, and members that are too far behind for the log."""

from __future__ import annotations

from raft.membership import TransferResult
from raft.settings import RaftSettings
from tests.raft.cluster import Cluster, leading
from tests.raft.raft_node import RaftNode

SMALL = RaftSettings(log_bytes=2_000, log_cap_bytes=4_000, install_in_flight_bytes=500)


def others(cluster: Cluster, leader: RaftNode) -> list[str]:
    return [name for name in cluster.nodes if name != leader.name]


# -- transfer ----------------------------------------------------------------------------------------------------------


def test_a_leader_hands_over_at_once() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    name = others(cluster, leader)[0]
    assert leader.group().transfer_leadership(name) is TransferResult.STARTED
    assert not leader.group().propose(b"while it is handed over")
    cluster.settle()
    assert cluster.leader() is cluster[name]
    assert leader.group().leader == name
    cluster.propose(b"after")
    cluster.settle()
    assert cluster.machine(leader.name).data == [b"after"]


def test_who_is_behind_gets_the_log_first() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    name = others(cluster, leader)[0]
    cluster.passes = lambda sender, receiver, frame: receiver != name
    for number in range(20):
        cluster.propose(b"%d" % number)
    cluster.settle()
    assert leader.group().transfer_leadership(name) is TransferResult.STARTED
    cluster.settle()
    assert leader.group().is_leader
    cluster.passes = lambda sender, receiver, frame: True
    cluster.pass_time(1000)
    assert cluster.leader() is cluster[name]
    assert len(cluster.machine(name).data) == 20


def test_a_transfer_that_does_not_come_about_is_given_up() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    name = others(cluster, leader)[0]
    cluster.passes = lambda sender, receiver, frame: receiver != name
    cluster.propose(b"which it has not")
    cluster.settle()
    assert leader.group().transfer_leadership(name) is TransferResult.STARTED
    told = len(leader.machines[1].roles)
    cluster.pass_time(1500)
    assert leader.group().propose(b"again")
    assert leader.machines[1].roles[told:] == [(True, leader.name, leader.group().term)]


def test_what_a_transfer_is_refused_for() -> None:
    cluster = Cluster(3, joiners=1)
    leader = leading(cluster)
    first, second = others(cluster, leader)[:2]
    assert cluster[first].group().transfer_leadership(second) is TransferResult.NOT_LEADER
    assert leader.group().transfer_leadership(leader.name) is TransferResult.LEADER_ALREADY
    assert leader.group().transfer_leadership("n4") is TransferResult.NOT_A_VOTER
    cluster.crash(first)
    assert leader.group().transfer_leadership(first) is TransferResult.NOT_CONNECTED
    cluster.passes = lambda sender, receiver, frame: False
    assert leader.group().transfer_leadership(second) is TransferResult.STARTED
    assert leader.group().transfer_leadership(second) is TransferResult.IN_PROGRESS


# -- install -----------------------------------------------------------------------------------------------------------


def fill(cluster: Cluster, count: int) -> None:
    for number in range(count):
        cluster.propose(b"%d " % number + bytes(100))
        cluster.settle()
        if number % 10 == 0:
            cluster.pass_time(100)


def test_who_was_away_for_too_long_gets_the_state() -> None:
    cluster = Cluster(3, settings=SMALL)
    leader = leading(cluster)
    name = others(cluster, leader)[0]
    cluster.crash(name)
    fill(cluster, 200)
    assert leader.group().statistics().base_index > 100
    cluster.restart(name)
    cluster.pass_time(300)
    assert cluster.machine(name).installs == 1
    assert cluster.machine(name).data == leader.machines[1].data
    cluster.propose(b"after")
    cluster.settle()
    assert cluster.machine(name).data[-1] == b"after"


def test_who_was_away_shortly_gets_the_entries() -> None:
    cluster = Cluster(3, settings=SMALL)
    leader = leading(cluster)
    fill(cluster, 50)
    name = others(cluster, leader)[0]
    cluster.crash(name)
    fill(cluster, 2)
    cluster.restart(name)
    cluster.pass_time(300)
    assert cluster.machine(name).installs == 0
    assert cluster.machine(name).data == leader.machines[1].data


def test_traffic_goes_on_during_an_install() -> None:
    cluster = Cluster(3, settings=SMALL)
    leader = leading(cluster)
    name = others(cluster, leader)[0]
    cluster.crash(name)
    fill(cluster, 200)
    chunks: list[int] = []

    def passes(sender: str, receiver: str, frame: bytes) -> bool:
        """An entry is proposed at each of the install's chunks."""
        if frame[1] == 8:
            chunks.append(len(frame))
            assert leader.group().propose(b"during %d" % len(chunks))
        return True

    cluster.passes = passes
    cluster.restart(name)
    cluster.pass_time(2000)
    assert len(chunks) > 20
    assert cluster.machine(name).data == leader.machines[1].data
    assert sum(data.startswith(b"during") for data in leader.machines[1].data) == len(chunks)


def test_an_installed_state_survives_a_crash() -> None:
    cluster = Cluster(3, settings=SMALL)
    leader = leading(cluster)
    name = others(cluster, leader)[0]
    cluster.crash(name)
    fill(cluster, 200)
    cluster.restart(name)
    cluster.pass_time(300)
    data = list(cluster.machine(name).data)
    cluster.passes = lambda sender, receiver, frame: receiver != name
    cluster.restart(name)
    assert cluster.machine(name).data == data[: len(cluster.machine(name).data)]
    assert len(cluster.machine(name).data) > 150


def test_an_install_is_begun_again_after_a_crash_in_its_midst() -> None:
    cluster = Cluster(3, settings=SMALL)
    leader = leading(cluster)
    name = others(cluster, leader)[0]
    cluster.crash(name)
    fill(cluster, 200)
    passed: list[None] = []

    def passes(sender: str, receiver: str, frame: bytes) -> bool:
        """A few chunks pass, then nothing."""
        if frame[1] == 8:
            passed.append(None)
        return len(passed) < 5

    cluster.passes = passes
    cluster.restart(name)
    cluster.pass_time(200)
    assert len(passed) >= 5
    assert cluster.machine(name).installs == 0
    cluster.passes = lambda sender, receiver, frame: True
    cluster.restart(name)
    cluster.pass_time(2000)
    assert cluster.machine(name).installs == 1
    assert cluster.machine(name).data == cluster.machine(others(cluster, leader)[1]).data


def test_a_joining_node_gets_the_state() -> None:
    cluster = Cluster(3, joiners=1, settings=SMALL)
    leader = leading(cluster)
    fill(cluster, 200)
    leader.group().add_member("n4")
    cluster.pass_time(1000)
    assert cluster.machine("n4").installs == 1
    assert cluster.machine("n4").data == leader.machines[1].data
    assert cluster["n4"].group().members == ("n1", "n2", "n3", "n4")


def test_the_log_in_ram_is_bounded_while_a_member_is_away() -> None:
    cluster = Cluster(3, settings=SMALL)
    leader = leading(cluster)
    cluster.crash(others(cluster, leader)[0])
    most = 0
    for _ in range(20):
        fill(cluster, 10)
        most = max(most, leader.group().statistics().log_bytes)
    assert most < 3 * SMALL.log_cap_bytes


def test_an_install_waits_for_the_machine_that_takes_it() -> None:
    """Neither its first part nor its last one is taken at once, and both come again."""
    cluster = Cluster(3, settings=SMALL)
    leader = leading(cluster)
    name = others(cluster, leader)[0]
    cluster.crash(name)
    fill(cluster, 200)
    cluster.restart(name)
    machine = cluster.machine(name)
    machine.not_now.update({"begin": 3, "end": 3})
    cluster.pass_time(5000)
    assert (machine.not_now.total(), machine.installs, machine.aborted_installs) == (0, 1, 0)
    assert machine.data == leader.machines[1].data
    cluster.propose(b"after")
    cluster.settle()
    assert machine.data[-1] == b"after"
