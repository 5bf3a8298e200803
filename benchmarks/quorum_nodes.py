"""`python -m benchmarks.quorum_nodes`: machine instructions that three whole nodes spend on a message of a quorum
queue when messages come one at a time, counted by callgrind.

It is where latency comes from: at low rates each message has a turn, a round of Raft and a sync of its own, and what a
node does at the end of every turn counts as much as the message. The nodes are driven as the server does it, without
sockets and clock: each frame of a link, each read of a client and each sync is an input with a turn of its own. The
clients are at the node that leads. Time passes as at 1,000 messages a second.

    python -m benchmarks.quorum_nodes                     the count
    python -m benchmarks.quorum_nodes --carry 500         carry them, print nothing (for a profiler)
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import click

from amqp_broker.bench.ring import build_publish
from amqp_broker.bench.scenario import Scenario
from amqp_broker.connection.connection import Connection
from amqp_broker.flow.peer import Peer
from amqp_broker.node import Node
from amqp_broker.protocol import constants, methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import FrameParser, encode_method_frame
from amqp_broker.protocol.methods import Method
from amqp_broker.settings.config import Config
from amqp_broker.settings.kinds import parse_members
from benchmarks.brokers import own_environment, temporary_folder
from benchmarks.instructions import check_valgrind, read_total
from benchmarks.machine import is_compiled
from storage.disk import FileDisk

NAMES = ("n1", "n2", "n3")
CHANNEL = 1
QUEUE = "counted"
PREFETCH = 1000
NOW = 1_700_000_000_000
WARM_MESSAGES = 100
FEW, MANY = 500, 1500
SCENARIO = Scenario(queue=QUEUE, durable=True, persistent=True, size=1024)


class Member:
    """One of the nodes on a folder of its own. inbox: what others have said to it, the oldest first."""

    def __init__(self, name: str, number: int, folder: Path, room: Room) -> None:
        self.name = name
        self.room = room
        self.inbox: list[tuple[str, list[bytes]]] = []
        own = folder / name
        self.disk = FileDisk(own)
        self.disk.lock()
        members = parse_members(",".join(f"{each}=127.0.0.1:{7001 + place}" for place, each in enumerate(NAMES)))
        config = Config(data_dir=own)
        chosen = {
            "node_name": name,
            "cluster": members,
            "cluster_listen": (("127.0.0.1", 0),),
            "cluster_secret_file": "s",
        }
        for key, value in chosen.items():
            object.__setattr__(config, key, value)
        self.node = Node(config, self.disk, room.now, random.Random(number).randbytes)
        self.node.recover(room.now)
        self.due = 0

    def turn(self) -> None:
        """End a turn, and run the sync that it wants, as the server does it within its loop."""
        while True:
            turn = self.node.end_turn(self.room.now)
            self._say(turn.peers)
            for check in turn.checks:
                check.run()
                self.node.checked(check, self.room.now)
            self.due = turn.next_deadline or 0
            job = self.node.take_sync() if turn.wants_sync else None
            if job is not None:
                job.run()
                self.node.synced(job, self.room.now)
                self._say(self.node.take_peers())
            elif not turn.checks:
                break

    def _say(self, peers: list[tuple[str, list[bytes]]]) -> None:
        for name, frames in peers:
            self.room.members[name].inbox.append((self.name, frames))

    def hear(self) -> bool:
        """Take what one other node has said, in a turn. Returns whether there was something."""
        if not self.inbox:
            return False
        name, frames = self.inbox.pop(0)
        for frame in frames:
            self.node.receive_peer(name, frame, self.room.now)
        self.turn()
        return True

    def tick(self) -> None:
        """Its deadline has come, if it has."""
        if self.due and self.due <= self.room.now:
            self.node.tick(self.room.now)
            self.turn()


class Room:
    """The three nodes, and the way of their frames."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.members: dict[str, Member] = {}
        for number, name in enumerate(NAMES):
            self.members[name] = Member(name, number, folder, self)
        for one in NAMES:
            for other in NAMES:
                if one != other:
                    self.members[one].node.peer_connected(other, self.now)
        self.rest()

    def rest(self) -> None:
        """Until nobody has anything more to say."""
        while sum([member.hear() for member in self.members.values()]):
            pass

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        for _ in range(milliseconds):
            self.now += 1
            for member in self.members.values():
                member.tick()
            self.rest()

    def run_until_ready(self) -> None:
        """Until clients may come. Raises RuntimeError."""
        for member in self.members.values():
            member.turn()
        for _ in range(100):
            self.wait(100)
            if all(member.node.is_ready for member in self.members.values()):
                self.wait(500)
                return
        raise RuntimeError("the nodes do not get ready")

    def close(self) -> None:
        """Let go of the folders."""
        for member in self.members.values():
            member.disk.close()


class Client:
    """A connection to a node with an open channel."""

    def __init__(self, member: Member, *calls: Method) -> None:
        self.member = member
        self.parser = FrameParser()
        peer = Peer("127.0.0.1", 40000, "127.0.0.1", 5672, is_loopback=True)
        self.connection: Connection = member.node.open_connection(peer, member.room.now)
        opening: list[tuple[int, Method]] = [
            (0, methods.ConnectionStartOk(Table(), "PLAIN", b"\0guest\0guest", "en_US")),
            (0, methods.ConnectionTuneOk(2047, constants.DEFAULT_FRAME_MAX, 0)),
            (0, methods.ConnectionOpen(virtual_host="/")),
            (CHANNEL, methods.ChannelOpen()),
        ]
        self.feed(constants.PROTOCOL_HEADER)
        for channel, method in [*opening, *((CHANNEL, call) for call in calls)]:
            self.feed(encode_method_frame(channel, method))
            member.room.wait(5)

    def feed(self, octets: bytes) -> None:
        """Octets from the client, and the turn that they cause."""
        self.member.node.receive_data(self.connection, octets, self.member.room.now)
        self.member.turn()

    def said(self) -> list[Method]:
        """The methods among what it was told."""
        frames = self.parser.receive_data(b"".join(self.connection.take_output()))
        return [methods.decode_method(frame.payload) for frame in frames if frame.type == constants.FRAME_METHOD]


class Load:
    """A publisher and a consumer at the node that leads the queue's group."""

    def __init__(self, room: Room) -> None:
        self.room = room
        arguments = Table({"x-queue-type": "quorum"})
        declare = methods.QueueDeclare(queue=QUEUE, durable=True, arguments=arguments)
        first = room.members[NAMES[0]]
        Client(first, declare)
        queue_id = first.node.broker.vhosts["/"].queues[QUEUE].queue_id
        group_id = first.node.groups.of(queue_id).group_id
        leader = next(
            each for each in room.members.values() if each.node.groups.all[group_id].raft.is_leader
        )
        self.producer = Client(leader, methods.ConfirmSelect())
        self.consumer = Client(
            leader, methods.BasicQos(prefetch_count=PREFETCH), methods.BasicConsume(queue=QUEUE, consumer_tag=QUEUE)
        )
        self.publish = build_publish(SCENARIO, SCENARIO.routes()[0], constants.DEFAULT_FRAME_MAX, CHANNEL)
        for client in (self.producer, self.consumer):
            client.connection.take_output()

    def carry(self, messages: int, first: int = 1) -> None:
        """Publish, deliver, confirm and acknowledge, one a millisecond."""
        producer, consumer, room = self.producer, self.consumer, self.room
        for number in range(first, first + messages):
            producer.feed(self.publish)
            room.rest()
            confirmed = producer.connection.take_output()
            delivered = consumer.connection.take_output()
            if not confirmed or not delivered:
                raise RuntimeError(f"message {number} was not confirmed, or not delivered, when all nodes were at rest")
            consumer.feed(encode_method_frame(CHANNEL, methods.BasicAck(delivery_tag=number, multiple=False)))
            room.wait(1)


def carry(messages: int) -> None:
    """Three nodes carry so many messages."""
    with temporary_folder() as folder:
        room = Room(folder)
        room.run_until_ready()
        load = Load(room)
        load.carry(messages)
        room.close()


def instructions_per_message() -> int:
    """Instructions of all three nodes that one more message costs."""
    totals = []
    for count in (FEW, MANY):
        with temporary_folder() as folder:
            counts = folder / "callgrind.out"
            valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", "--log-file=/dev/null"]
            load = [sys.executable, "-m", "benchmarks.quorum_nodes", "--carry", str(count)]
            subprocess.run([*valgrind, *load], env={**own_environment(), "PYTHONHASHSEED": "0"}, check=True)
            totals.append(read_total(counts.read_text(encoding="utf-8", errors="replace")))
    return round((totals[1] - totals[0]) / (MANY - FEW))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--carry", "carried", type=int, default=None, help="Carry so many messages, print nothing.")
def main(carried: int | None) -> None:
    """What a message of a quorum queue costs three whole nodes, one message a turn."""
    if carried is not None:
        carry(carried)
        return
    check_valgrind()
    print(f"{'compiled' if is_compiled() else 'plain'} modules, bodies of {SCENARIO.size} octets, 1,000 a second")
    print(f"{instructions_per_message():,} instructions a message, three nodes together")


if __name__ == "__main__":
    main()
