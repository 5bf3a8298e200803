"""The metadata feed: a follower is what its source is, whenever it comes, and however often its link is lost."""

from __future__ import annotations

import random

import pytest

from amqp_broker.metadata import commands
from amqp_broker.metadata.feed import FeedFollower, FeedSource, FollowedGroup
from amqp_broker.metadata.machine import Batch, MetadataMachine
from amqp_broker.metadata.metadata import Metadata
from raft.errors import PeerProtocolError
from tests.example_counts import examples, seeds


class Listener:
    """Counts what it hears."""

    def __init__(self) -> None:
        self.applied_commands: list[int] = []
        self.times_replaced = 0

    def applied(self, index: int, origin: str, session: int, number: int, command: object, changed: bool) -> None:
        self.applied_commands.append(index)

    def replaced(self, index: int) -> None:
        self.times_replaced += 1

    def leads(self, is_leader: bool, leader: str | None) -> None:
        raise AssertionError("nobody asks who leads")


class Host:
    """Worker 0 and one follower, and what is on the link between them, each way."""

    def __init__(self) -> None:
        self.index = 0
        self.number = 0
        self.machine = MetadataMachine(Metadata(), Listener())
        self.source = FeedSource(self.machine, lambda: self.index)
        self.machine.feed(self.source)
        self.down: list[bytes] = []
        self.up: list[bytes] = []
        self.source.send_with(lambda name, frame: self.down.append(frame) is None)
        self.heard = Listener()
        self.follows = MetadataMachine(Metadata(), self.heard)
        self.group = FollowedGroup("n1")
        self.follower = FeedFollower(self.follows, self.group)
        self.follower.send_with(lambda name, frame: self.up.append(frame) is None)

    def connect(self) -> None:
        self.down.clear()
        self.up.clear()
        self.source.peer_disconnected("n1/1")
        self.follower.peer_disconnected("n1")
        self.follower.peer_connected("n1")

    def commit(self, command: commands.Command | None = None) -> None:
        self.index += 1
        if command is None:
            self.source.reach(self.index)
            return
        self.number += 1
        self.machine.apply(self.index, 1, Batch("n1", 1, self.number, [command]).encode(), 0)

    def step(self) -> bool:
        """One frame arrives. False: there is none."""
        if self.up:
            self.source.receive("n1/1", self.up.pop(0), 0)
        elif self.down:
            self.follower.receive("n1", self.down.pop(0), 0)
        else:
            return False
        return True

    def settle(self) -> None:
        while self.step():
            pass

    def is_same(self) -> bool:
        same = self.machine.metadata.snapshot_lines() == self.follows.metadata.snapshot_lines()
        return same and self.group.last_applied == self.index and self.follows.session_of("n1") == min(self.number, 1)


def declare(number: int) -> commands.Command:
    return commands.declare_queue("/", f"q{number}", number + 1, type_name="classic", home=f"n1/{number % 2}")


def test_who_comes_later_gets_the_whole_state_and_then_every_entry() -> None:
    host = Host()
    host.commit(commands.put_vhost("/"))
    for number in range(3000):
        host.commit(declare(number))
    host.connect()
    assert host.step()
    assert len(host.down) == 2, "that it begins, and one chunk: the next one when this one was taken"
    host.commit(declare(3000))
    host.settle()
    assert host.is_same()
    assert host.heard.times_replaced == 1
    host.commit(commands.delete_queue("/", "q7", 8))
    host.commit()
    host.settle()
    assert host.is_same()
    assert host.heard.applied_commands == [3002, 3003]


def test_who_has_missed_nothing_gets_no_state() -> None:
    host = Host()
    host.connect()
    host.commit(commands.put_vhost("/"))
    host.settle()
    host.connect()
    host.settle()
    host.commit(declare(1))
    host.settle()
    assert host.is_same()
    assert host.heard.times_replaced <= 1


def test_who_follows_an_empty_worker_0_gets_the_state_that_this_is_given() -> None:
    """A worker 0 whose folder was lost comes back as a new member: its log is put in place behind its state."""
    host, member = Host(), Host()
    host.connect()
    host.settle()
    member.commit(commands.put_vhost("/"))
    for number in range(3):
        member.commit(declare(number))
    chunks = list(member.machine.export())
    host.machine.begin_install()
    for chunk in chunks:
        host.machine.install_chunk(chunk)
    host.machine.end_install()
    host.index, host.number = member.index, member.number
    host.source.reach(host.index)
    host.commit(declare(3))
    host.settle()
    assert host.is_same()


@pytest.mark.parametrize("seed", seeds(range(examples(12))))
def test_whatever_is_lost_the_follower_is_what_the_source_is(seed: int) -> None:
    chance, host = random.Random(seed), Host()
    host.commit(commands.put_vhost("/"))
    for number in range(2, 120):
        match chance.randrange(8):
            case 0:
                host.connect()
            case 1:
                host.commit()
            case 2 | 3:
                host.commit(declare(number))
            case 4:
                host.commit(commands.delete_queue("/", f"q{number - 2}", number - 1))
            case 5 if chance.random() < 0.1:
                host.source.replaced(host.index)
            case _:
                host.step()
    host.connect()
    host.settle()
    assert host.is_same()
    assert host.heard.applied_commands == sorted(host.heard.applied_commands)


@pytest.mark.parametrize("frame", [b"", b"\x01", b"\x02\x06", b"\x01\x06abc", b"\x01\x09", b"\x01\x04", b"\x01\x05xx"])
def test_what_is_no_metadata_ends_the_link(frame: bytes) -> None:
    host = Host()
    with pytest.raises(PeerProtocolError):
        host.follower.receive("n1", frame, 0)
    with pytest.raises(PeerProtocolError):
        host.source.receive("n1/1", frame, 0)


def test_metadata_come_from_worker_0_alone() -> None:
    with pytest.raises(PeerProtocolError, match="n1/2 sends metadata, and this worker follows n1"):
        Host().follower.receive("n1/2", b"\x01\x03", 0)
