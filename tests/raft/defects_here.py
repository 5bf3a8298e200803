"""S1 to S13 on what this package makes of it: each scenario returns what went wrong, or an empty text."""

from __future__ import annotations

import random

from raft.configuration import Configuration
from raft.entry import NO_OP, REGULAR, Entry
from raft.errors import RaftStopped
from raft.membership import MembershipResult
from raft.messages import (
    Append,
    AppendReply,
    Heartbeat,
    InstallChunk,
    InstallReply,
    Message,
    VoteReply,
    VoteRequest,
)
from raft.settings import RaftSettings
from raft.wire import decode, encode
from storage.errors import CorruptRecord
from tests.raft.cluster import Cluster
from tests.raft.raft_node import RaftNode, pack_items
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk

MEMBERS = ("n1", "n2", "n3")


def alone(name: str = "n2", members: tuple[str, ...] = MEMBERS, settings: RaftSettings | None = None) -> RaftNode:
    """A node whose peers are played by the test."""
    node = RaftNode(name, SimulatedDisk(random.Random(1)), {1: members}, settings, 1)
    node.start(0)
    for other in (*members, "stranger"):
        if other != name:
            node.host.peer_connected(other, 0)
    node.sync(0)
    return node


def feed(node: RaftNode, sender: str, message: Message, syncs: bool = True) -> list[Message]:
    """What the node answers to the sender."""
    node.host.receive_peer(sender, encode(message), node.host._now or 0)
    node.host.end_turn(node.host._now or 0)
    if syncs:
        node.sync(node.host._now or 0)
    return [decode(frame) for peer, frames in node.host.outbox.take() if peer == sender for frame in frames]


def entries(first: int, count: int, term: int) -> list[Entry]:
    return [(b"x%d" % index, index, term, REGULAR) for index in range(first, first + count)]


def lead(node: RaftNode, voters: list[str]) -> None:
    """Make the node the leader by these votes (the own one comes with the sync)."""
    now = (node.host._now or 0) + 10_000
    for _ in range(20):
        now += 100
        node.host.tick(now)
        node.host.end_turn(now)
        node.host.outbox.take()
    for is_pre in (True, False):
        term = node.group().term + (1 if is_pre else 0)
        for voter in voters:
            feed(node, voter, VoteReply(1, term, is_pre, True))
    assert node.group().is_leader


def s1() -> str:
    node = alone()
    feed(node, "n1", Append(1, 1, 0, 0, 0, entries(1, 1, 1)))
    feed(node, "n1", Append(1, 1, 1, 1, 0, entries(2, 4, 1)))
    acknowledged = node.group().last_index
    answers = feed(node, "n1", Append(1, 1, 1, 1, 0, entries(2, 1, 1)))
    is_kept = node.group().last_index == acknowledged == 5 and answers == [AppendReply(1, 1, True, 5, 0, 0)]
    return "" if is_kept else "cut"


def s2() -> str:
    node = alone()
    lead(node, ["n1"])
    node.group().propose(b"divergent")
    node.sync(0)
    feed(node, "n3", Heartbeat([(1, 9, 50, 0)]))
    feed(node, "n3", InstallChunk(1, 9, 1, 50, 9, Configuration(MEMBERS), 0, False, pack_items([(2, 1, b"x")])))
    feed(node, "n3", Append(1, 9, 0, 0, 50, []))
    return "committed" if node.group().commit_index or node.machines[1].items else ""


def s3() -> str:
    cluster = Cluster(1)
    cluster.settle()
    for number in range(5):
        cluster.propose(b"%d" % number)
    cluster.settle()
    for number in range(20):
        cluster.propose(b"%d" % (100 + number))
    member = cluster["n1"].group().member
    assert member.take_checkpoint()  # as of the fifth; the twenty follow it in the journal's past
    cluster.settle()
    acknowledged = list(cluster.machine("n1").data)
    cluster.restart("n1")
    cluster.settle()
    return "" if cluster.machine("n1").data == acknowledged and len(acknowledged) == 25 else "lost"


def s4() -> str:
    node = alone()
    answers = feed(node, "n1", Append(1, 1, 0, 0, 1, entries(1, 1, 1)), syncs=False)
    if answers:
        return "acknowledged before the sync"
    leader = alone("n1")
    lead(leader, ["n2"])
    disk = leader.disk
    assert isinstance(disk, SimulatedDisk)
    syncs = disk.sync_count
    leader.group().propose(b"x")
    index = leader.group().last_index
    leader.host.end_turn(0)
    if leader.group().commit_index >= index or disk.sync_count != syncs:
        return "committed before the sync"
    leader.sync(0)
    if leader.group().commit_index >= index:
        return "committed by one disk of three"
    feed(leader, "n2", AppendReply(1, leader.group().term, True, index, 0, 0))
    return "" if leader.group().commit_index == index else "not committed by two disks"


def s5() -> str:
    node = alone()
    request = VoteRequest(1, 7, False, False, 9, 6)
    if feed(node, "n1", request, syncs=False):
        return "voted before the sync"
    node.sync(0)
    disk = node.disk
    assert isinstance(disk, SimulatedDisk)
    disk.crash()
    node.start(0)
    for other in ("n1", "n3"):
        node.host.peer_connected(other, 0)
    again = feed(node, "n3", request)
    if again != [VoteReply(1, 7, False, False)] or node.group().term != 7:
        return "voted twice"
    path = disk.files()[0]
    node.host.end_turn(0)
    feed(node, "n1", VoteRequest(1, 8, False, False, 9, 6))
    node.port.journal.mark()
    node.sync(0)
    octets = bytearray(disk.contents(path))
    octets[60] ^= 1
    disk.overwrite(path, bytes(octets))
    try:
        node.start(0)
    except CorruptRecord:
        return ""
    return "a damaged journal is taken for a good one"


def s6() -> str:
    node = alone("n1")
    feed(node, "n3", Append(1, 1, 0, 0, 5, entries(1, 5, 1)))
    assert node.group().commit_index == 5
    disk = node.disk
    assert isinstance(disk, SimulatedDisk)
    disk.crash()
    node.start(0)
    for other in ("n2", "n3"):
        node.host.peer_connected(other, 0)
    if node.group().commit_index:
        return "a commit index from the disk"
    lead(node, ["n2"])
    node.group().propose(b"alone")
    node.sync(0)
    node.host.end_turn(0)
    return "acknowledged alone" if node.machines[1].items else ""


def s7() -> str:
    node = alone("n1")
    feed(node, "n2", Append(1, 1, 0, 0, 0, entries(1, 5, 1)))
    lead(node, ["n2"])
    node.group().propose(b"new")
    node.sync(0)
    late = AppendReply(1, 1, True, node.group().last_index, 0, 0)
    feed(node, "n3", late)
    if node.group().commit_index:
        return "committed by a late reply"
    feed(node, "n3", late._replace(term=node.group().term))
    return "" if node.group().commit_index == node.group().last_index else "not committed by a reply of this term"


def s8() -> str:
    node = alone("n1", ("n1", "n2", "n3", "n4", "n5"))
    now = 0
    while node.group().statistics().role != "candidate":
        now += 100
        node.host.tick(now)
    for voter in ("n2", "n2", "stranger"):
        feed(node, voter, VoteReply(1, 1, True, True))
    if node.group().term:
        return "asked twice, counted twice"
    feed(node, "n3", VoteReply(1, 1, True, True))
    for voter in ("n2", "n2", "stranger"):
        feed(node, voter, VoteReply(1, 1, False, True))
    if node.group().is_leader:
        return "leads by two votes of five"
    feed(node, "n4", VoteReply(1, 1, False, True))
    return "" if node.group().is_leader else "does not lead by three votes of five"


def s9() -> str:
    cluster = Cluster(3, joiners=4)
    cluster.pass_time(3000)
    leader = cluster.leader()
    assert leader is not None
    results = [leader.group().add_member(f"n{number}") for number in (4, 5, 6, 7)]
    if results != [MembershipResult.ACCEPTED, *[MembershipResult.NOT_READY] * 3]:
        return f"accepted: {results}"
    if leader.group().members != MEMBERS or leader.group().learners != ("n4",):
        return "a new member counts at once"
    cluster.pass_time(500)
    return "" if leader.group().members == (*MEMBERS, "n4") else "it never counts"


def s10() -> str:
    """A crash at every write while segments are left and retired; then a flipped bit."""
    for crash_at in range(1, 60):
        disk = SimulatedDisk(random.Random(crash_at))
        node = RaftNode("n1", disk, {1: ("n1",)}, RaftSettings(), 1, segment_bytes=600, limit_bytes=1200)
        node.start(0)
        node.sync(0)
        disk.crash_at = crash_at
        acknowledged: list[bytes] = []
        try:
            for number in range(40):
                node.group().propose(b"entry %d" % number)
                node.port.shorten()
                node.host.end_turn(0)
                node.sync(0)
                acknowledged = list(node.machines[1].data)
        except SimulatedCrash:
            disk.crash()
        node.start(0)
        node.sync(0)
        if node.machines[1].data[: len(acknowledged)] != acknowledged:
            return f"crash {crash_at} lost acknowledged entries"
        assert crash_at < 59 or len(acknowledged) > 5
    path = disk.files()[-1]
    node.group().propose(b"the end")
    node.sync(0)
    octets = bytearray(disk.contents(path))
    octets[45] ^= 1
    disk.overwrite(path, bytes(octets))
    try:
        node.start(0)
    except CorruptRecord:
        return ""
    return "a flipped bit goes unnoticed"


def s11() -> str:
    node = alone()
    chunk = InstallChunk(1, 1, 1, 50, 1, Configuration(MEMBERS), 0, False, b"no state")
    try:
        answers = feed(node, "n1", chunk)
        answers += feed(node, "n1", chunk._replace(number=1, is_last=True, data=b""))
    except RaftStopped:
        return ""
    return f"goes on, and answers {[each for each in answers if isinstance(each, InstallReply)]}"


def s12() -> str:
    node = alone("n1", ("n1",))
    machine = node.machines[1]
    applied: list[bytes] = []

    def fail(item: tuple[int, int, bytes]) -> None:
        applied.append(item[2])
        raise ValueError("apply fails")

    machine.on_apply = fail
    node.group().propose(b"once")
    node.group().propose(b"after")
    stops = 0
    for now in (100, 200, 300):
        try:
            node.sync(now) if not stops else node.host.tick(now)
        except RaftStopped:
            stops += 1
    return "" if applied == [b"once"] and stops == 3 else f"applied {applied}, stopped {stops} times"


def s13() -> str:
    for length in range(2 * 2**16 - 100, 2 * 2**16 + 10, 3):
        append = Append(1, 2, 1, 1, 0, [(b"", 2, 2, NO_OP), (b"x" * length, 3, 2, REGULAR)])
        if decode(encode(append)) != append:
            return f"an entry of {length} octets is changed on the wire"
    cluster = Cluster(3)
    cluster.pass_time(3000)
    sizes = [2**16 - 1, 2**17 - 75, 2**17 - 1, 2**17, 2**18, 3 * 2**20]
    for size in sizes:
        cluster.propose(bytes(size))
    cluster.settle()
    received = [[len(data) for data in cluster.machine(name).data] for name in MEMBERS]
    return "" if received == [sizes] * 3 else f"received: {received}"
