"""`python -m benchmarks.quorum_path`: what a message of a quorum queue costs each of three nodes.

Three RaftHosts with a QueueGroupMachine and a journal each hand each other their frames in one process, without
sockets, clients and a real disk. One of them, the origin, has a publisher and a consumer: in each turn it submits a
number of messages of 1 KiB, and settles what came of the turn before. Every phase of every node is timed apart, so that
the table says what the leader and a follower spend on one message, in microseconds of CPU time:

    submit      the origin encodes commands, and joins them to batches
    propose     the leader reads a batch, puts in the time, appends it to its log
    replicate   frames are made, read and appended; replies and commit indexes are taken
    apply       the state machine
    effects     the origin takes what it is to do: deliveries, confirms
    write       the journal's checksum and the hand-over to the disk (in a node, its second thread does it)

`--instructions` counts machine instructions of all three nodes together instead, with callgrind: they do not depend on
how busy the machine is. `--memory` tells what an empty queue takes, `--idle` what idle groups cost.
"""

from __future__ import annotations

import gc
import random
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import click

import amqp_broker  # noqa: F401  # decides which modules run
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.levels import LEVEL
from amqp_broker.links.tenants import Tenants
from benchmarks.brokers import own_environment, temporary_folder
from benchmarks.instructions import check_valgrind, read_total
from benchmarks.machine import is_compiled
from queues.effects import Delivered, Refusal
from queues.message import Address, Message, build_message
from queues.pager import Pager
from queues.quorum.commands import Attach, Enqueue, How, OpenQueue, Settle, with_time
from queues.quorum.machine import QueueGroupMachine
from queues.quorum.session import OwnStream
from queues.quorum.settings import QuorumSettings
from raft.host import RaftHost
from raft.outbox import Outbox
from raft.settings import RaftSettings
from storage.disk import Octets
from storage.journal import Journal
from storage.page_store import PageStore
from tests.queues.quorum.digest import digest_of

NAMES = ("n1", "n2", "n3")
PHASES = ("submit", "propose", "replicate", "apply", "effects", "write")
BATCHES = (1, 10, 50, 200)
BODY_BYTES = 1024
PREFETCH = 500
#: So many different messages, so that they are not all in the processor's nearest cache.
MESSAGES = 2000
MIB = 1024 * 1024
CONSUMER_TAG = "counted"


class ForgetfulDisk:
    """A disk in memory that keeps pages, and of the journal only how long it is."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._sizes: dict[str, int] = {}

    def read(self, path: str, offset: int, length: int) -> bytes:
        return bytes(self._files[path][offset : offset + length])

    def size(self, path: str) -> int:
        return self._sizes[path]

    def exists(self, path: str) -> bool:
        return path in self._sizes

    def list(self, folder: str) -> list[str]:
        inside = folder + "/"
        return sorted({path[len(inside) :].partition("/")[0] for path in self._sizes if path.startswith(inside)})

    def append(self, path: str, buffers: Sequence[Octets]) -> None:
        for each in buffers:
            self._sizes[path] = self._sizes.get(path, 0) + len(each)
            if not path.startswith("journal"):
                self._files.setdefault(path, bytearray()).extend(each)

    def write(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        self._sizes[path] = max(self._sizes[path], offset + sum(len(each) for each in buffers))

    def sync(self, path: str) -> None:
        """There is nothing to lose."""

    def write_and_sync(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        self.write(path, offset, buffers)

    def sync_folder(self, folder: str) -> None:
        """There is nothing to lose."""

    def truncate(self, path: str, size: int) -> None:
        self._sizes[path] = size

    def remove(self, path: str) -> None:
        del self._sizes[path]
        self._files.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        self._sizes[new] = self._sizes.pop(old)

    def replace(self, path: str, octets: Octets) -> None:
        self._sizes[path] = len(octets)

    def make_folder(self, path: str) -> None:
        """Folders are parts of names."""

    def remove_folder(self, path: str) -> None:
        """Folders are parts of names."""

    def read_ahead(self, path: str, offset: int, length: int) -> None:
        """It is in memory."""

    def in_background(self, work: Callable[[], bytes]) -> None:
        """Nothing runs beside."""

    def rewrite(self, work: Callable[[], bytes]) -> None:
        """Nothing is."""

    def free_bytes(self) -> int:
        return 1 << 40


class Port:
    """The journal as groups see it; no segment is ever retired."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.open_entry = journal.open_entry
        self.close_entry = journal.close_entry

    @property
    def position(self) -> int:
        return int(self.journal.position)

    @property
    def current_segment(self) -> int:
        return int(self.journal.current_segment)

    def touch(self, segment: int, owner: Any) -> None:
        """Nothing is ever retired."""

    def carry(self, octets: int) -> None:
        """Nothing is ever retired."""


class TimedMachine(QueueGroupMachine):
    """A machine that takes the time of `apply` apart from what it is called in."""

    def __init__(self, node: BenchNode, pager: Pager) -> None:
        super().__init__(node.name, pager)
        self.node = node

    def apply(self, index: int, term: int, data: bytes, now: int) -> None:
        began = time.process_time_ns()
        super().apply(index, term, data, now)
        self.node.inner += self.node.spend("apply", began)


class BenchNode:
    """One of the three. spent: CPU time by phase, ns, less what taking the time takes. inner: of it what lies within
    another phase."""

    def __init__(self, name: str, room: Room) -> None:
        self.name = name
        self.room = room
        self.spent = dict.fromkeys(PHASES, 0)
        self.inner = 0
        disk = ForgetfulDisk()
        self.journal = Journal(disk)
        list(self.journal.recover())
        pager = Pager(PageStore(disk, 16 * MIB), 512 * MIB, 64 * 1024, 1000, 4 * MIB)
        outbox = Outbox()
        self.tenants = Tenants(outbox)
        self.host = RaftHost(name, Port(self.journal), RaftSettings(), random.Random(name), outbox)
        self.tenants.register_raft(self.host.receive_peer)
        self.send_batch = self.tenants.register(FrameKind.QUEUE_BATCH, self._on_batch)
        self.machines = {group: TimedMachine(self, pager) for group in range(1, room.groups + 1)}

    def spend(self, phase: str, began: int) -> int:
        """Count the time since `began`. Returns it."""
        took = time.process_time_ns() - began
        self.spent[phase] += took - self.room.clock_ns
        return took

    def measure(self, phase: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call, and count the time, but for what was counted inside."""
        self.inner = 0
        began = time.process_time_ns()
        result = call(*arguments)
        self.spend(phase, began)
        self.spent[phase] -= self.inner
        return result

    def propose(self, group: int, batch: bytes | memoryview, now: int) -> None:
        """As the leader does it with its own batches and those of others."""
        self.machines[group].propose(self.host.groups[group], batch, now)

    def _on_batch(self, sender: str, payload: bytes, now: int) -> None:
        began = time.process_time_ns()
        self.propose(int.from_bytes(payload[:4], "big"), memoryview(payload)[4:], now)
        self.inner += self.spend("propose", began)

    def write(self) -> None:
        """What the second thread does."""
        batch = self.journal.take_batch()
        if batch is not None:
            batch.write_and_sync()
            self.journal.batch_done(batch)


class Room:
    """The three nodes, and the way of their frames."""

    def __init__(self, groups: int = 1) -> None:
        self.groups = groups
        self.clock_ns = clock_cost()
        self.now = 1_700_000_000_000
        self.nodes = {name: BenchNode(name, self) for name in NAMES}
        for node in self.nodes.values():
            for other in NAMES:
                if other != node.name:
                    node.tenants.link_up(other, LEVEL)
                    node.host.peer_connected(other, self.now)
            for group, machine in node.machines.items():
                node.host.open_group(group, machine, NAMES, self.now)

    def settle(self) -> None:
        """Turns of all nodes, until nobody has anything more to say."""
        has_moved = True
        while has_moved:
            has_moved = False
            for node in self.nodes.values():
                for receiver, frames in self._turn(node):
                    has_moved = True
                    other = self.nodes[receiver]
                    for frame in frames:
                        other.measure("replicate", other.tenants.receive, node.name, frame, self.now)
        for node in self.nodes.values():
            if node.host.has_unsynced:  # a leader has left its own disk for later
                self._sync(node)

    def _turn(self, node: BenchNode) -> list[tuple[str, list[bytes]]]:
        host = node.host
        node.measure("replicate", host.end_turn, self.now)
        if host.wants_sync:
            self._sync(node)
            node.measure("replicate", host.end_turn, self.now)
        output: list[tuple[str, list[bytes]]] = node.measure("replicate", host.outbox.take)
        return output

    def _sync(self, node: BenchNode) -> None:
        node.measure("write", node.write)
        position = node.journal.position
        for machine in node.machines.values():
            machine.end_turn(position)
            machine.synced(position)
        node.measure("replicate", node.host.synced, position, self.now)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, tick by tick."""
        end = self.now + milliseconds
        while self.now < end:
            deadlines = [node.host.next_deadline() or end for node in self.nodes.values()]
            self.now = max(self.now + 1, min(end, *deadlines))
            for node in self.nodes.values():
                if (node.host.next_deadline() or 0) <= self.now:
                    node.measure("replicate", node.host.tick, self.now)
            self.settle()

    def gather(self, name: str) -> None:
        """Have one node lead all groups. Raises RuntimeError."""
        for group in range(1, self.groups + 1):
            for _ in range(100):
                leader = next((each for each in NAMES if self.nodes[each].host.groups[group].is_leader), None)
                if leader == name:
                    break
                if leader is not None:
                    self.nodes[leader].host.groups[group].transfer_leadership(name)
                self.pass_time(50)
            else:
                raise RuntimeError(f"{name} does not lead group {group}")

    def forget(self) -> None:
        """Begin to count."""
        for node in self.nodes.values():
            node.spent = dict.fromkeys(PHASES, 0)


def clock_cost() -> int:
    """What it takes to take the time, ns."""
    costs = []
    for _ in range(1000):
        began = time.process_time_ns()
        costs.append(time.process_time_ns() - began)
    return sorted(costs)[len(costs) // 2]


class Publisher:
    """Who waits for what became of a publish: nobody, but there is one, as on a node."""

    def complete(self, refusal: Refusal | None) -> None:
        """See Token."""


class Load:
    """A publisher and a consumer at `origin`; n1 leads."""

    def __init__(self, room: Room, origin: str, acks_each: bool) -> None:
        self.room = room
        self.node = room.nodes[origin]
        self.machine = self.node.machines[1]
        self.stream = OwnStream(origin, 1)
        self.token = Publisher()
        self.machine.begin_session(1)
        self.consumer = self.stream.new_consumer()
        self.acks_each = acks_each
        self.delivered = 0
        self.confirmed = 0
        self.unsettled = 0
        address = Address(b"\0\5queue")
        self.messages: list[Message] = [
            build_message(address, b"\x10\x00\x02", bytes([number % 251]) * BODY_BYTES, True, -1, -1, room.now)
            for number in range(MESSAGES)
        ]
        self._carry([OpenQueue(1, QuorumSettings()), Attach(self.consumer, 1, PREFETCH, False, 0, False, CONSUMER_TAG)])

    def _carry(self, commands: list[Any]) -> None:
        for command in commands:
            self.stream.submit(command, command)
        self._send(self.stream.take_batches())
        self.take_effects()

    def turn(self, count: int, first: int) -> None:
        """Publish `count` messages, settle those of the turn before, take the effects."""
        node = self.node
        node.measure("submit", self.submit, count, first)
        self._send(node.measure("submit", self.stream.take_batches))
        node.measure("effects", self.take_effects)

    def submit(self, count: int, first: int) -> None:
        """The commands of a turn, as the channels of a node give them."""
        stream = self.stream
        messages = self.messages
        if self.unsettled:
            start, end = self.delivered - self.unsettled + 1, self.delivered
            ranges = [(each, each) for each in range(start, end + 1)] if self.acks_each else [(start, end)]
            for each in ranges:
                stream.submit(Settle(self.consumer, How.ACK, (each,)))
            self.unsettled = 0
        for number in range(first, first + count):
            stream.submit(Enqueue((1,), messages[number % MESSAGES]), self.token)

    def _send(self, batches: list[bytes]) -> None:
        room, node = self.room, self.node
        for batch in batches:
            if node.host.groups[1].is_leader:
                node.measure("propose", node.propose, 1, batch, room.now)
            else:
                payload = b"\0\0\0\1" + batch
                node.measure("replicate", node.send_batch, NAMES[0], payload)
        room.settle()

    def take_effects(self) -> None:
        """Deliveries, which a client is going to acknowledge, and confirms."""
        effects = self.machine.take_effects()
        for effect in effects:
            if type(effect) is Delivered:
                self.delivered += 1
                self.unsettled += 1
        self.confirmed += len(self.stream.on_effects(effects))


def carry(origin: str, batch: int, messages: int, acks_each: bool = False, warm: bool = True) -> Room:
    """Carry so many messages through the three nodes. Raises RuntimeError unless all are delivered and confirmed."""
    room = Room()
    room.gather(NAMES[0])
    load = Load(room, origin, acks_each)
    before = 0
    if warm:
        before = min(messages, 2000) // batch * batch
        for first in range(0, before, batch):
            load.turn(batch, first)
    room.forget()
    for first in range(before, before + messages, batch):
        load.turn(batch, first)
    sent = before + -(-messages // batch) * batch
    if (load.delivered, load.confirmed) != (sent, sent + 2):
        raise RuntimeError(f"of {sent} messages {load.delivered} were delivered, {load.confirmed - 2} confirmed")
    room.pass_time(RaftSettings().notice_ms)  # who does not wait for the last commit hears of it
    digests = {digest_of(node.machines[1]) for node in room.nodes.values()}
    if len(digests) != 1:
        raise RuntimeError("the members disagree")
    return room


def print_table(batches: Sequence[int], messages: int, acks_each: bool, repeat: int) -> None:
    """The best of `repeat` runs for each number."""
    for origin in NAMES[:2]:
        where = "leader" if origin == NAMES[0] else "follower"
        print(f"\nclients at the {where}; us of CPU a message")
        print(f"{'batch':>6} {'node':<16}" + "".join(f"{phase:>11}" for phase in PHASES) + f"{'all':>9}")
        for batch in batches:
            count = max(batch, messages if batch >= 10 else messages // 5)
            rooms = [carry(origin, batch, count, acks_each) for _ in range(repeat)]
            for name in NAMES:
                best = [min(room.nodes[name].spent[phase] for room in rooms) / count / 1000 for phase in PHASES]
                role = ("leader" if name == NAMES[0] else "follower") + (", clients" if name == origin else "")
                print(f"{batch:>6} {role:<16}" + "".join(f"{each:>11.2f}" for each in best) + f"{sum(best):>9.2f}")


def instructions_per_message(origin: str, batch: int, few: int, many: int) -> int:
    """Instructions of all three nodes that one more message costs."""
    totals = []
    for count in (few, many):
        with temporary_folder() as folder:
            counts = folder / "callgrind.out"
            valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", "--log-file=/dev/null"]
            load = [sys.executable, "-m", "benchmarks.quorum_path", "--carry", origin, str(batch), str(count)]
            environment = {**own_environment(), "PYTHONHASHSEED": "0"}
            subprocess.run([*valgrind, *load], env=environment, check=True)
            totals.append(read_total(counts.read_text(encoding="utf-8", errors="replace")))
    return round((totals[1] - totals[0]) / (many - few))


def print_instructions(batches: Sequence[int]) -> None:
    """For each place of the clients and each size of a batch."""
    check_valgrind()
    for origin in NAMES[:2]:
        where = "leader" if origin == NAMES[0] else "follower"
        for batch in batches:
            few = max(batch, 200)
            count = instructions_per_message(origin, batch, few, 3 * few)
            print(f"clients at the {where}, batches of {batch}: {count:,} instructions a message, three nodes together")


def print_memory(queues: int, groups: int) -> None:
    """What an empty queue takes on one node."""
    pager = Pager(PageStore(ForgetfulDisk(), 16 * MIB), 512 * MIB, 64 * 1024, 1000, 4 * MIB)
    machines = [QueueGroupMachine("n1", pager) for _ in range(groups)]
    streams = [OwnStream("n1", 1) for _ in machines]
    settings = QuorumSettings()
    gc.collect()
    resident = resident_bytes()
    tracemalloc.start()
    for queue_id in range(1, queues + 1):
        group = queue_id % groups
        streams[group].submit(OpenQueue(queue_id, settings))
        for batch in streams[group].take_batches():
            machines[group].apply(queue_id, 1, with_time(batch, 1), 1)
        streams[group].on_effects(machines[group].take_effects())
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"{queues} empty queues in {groups} groups: {traced / queues:,.0f} octets each by the allocator")
    print(f"resident memory grew by {(resident_bytes() - resident) / queues:,.0f} octets each, tracing included")
    timers = [machine.next_deadline() for machine in machines]
    print(f"deadlines of the groups: {timers}")
    size = sum(len(chunk) for machine in machines for chunk in machine.checkpoint())
    print(f"a checkpoint has {size / queues:,.0f} octets each")


def resident_bytes() -> int:
    """The process's memory now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def print_idle(groups: int) -> None:
    """What idle groups of three cost each node."""
    room = Room(groups)
    room.pass_time(3000)
    room.gather(NAMES[0])
    room.pass_time(2000)
    room.forget()
    began = time.process_time()
    room.pass_time(10_000)
    whole = time.process_time() - began
    for name, node in room.nodes.items():
        share = sum(node.spent.values()) / 1e9 / 10 * 100
        print(f"{groups} idle groups led by {NAMES[0]}: {name} {share:.2f} % of a core")
    print(f"the whole process, with this loop: {whole / 10 * 100:.2f} %")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--batch", "batches", multiple=True, type=int, help="Messages a turn (again for more).")
@click.option("--messages", default=10_000, show_default=True, help="Messages of a run.")
@click.option("--repeat", default=3, show_default=True, help="Runs, of which the best counts.")
@click.option("--acks-each", is_flag=True, help="Settle every message by a command of its own.")
@click.option("--instructions", is_flag=True, help="Count instructions with callgrind.")
@click.option("--memory", is_flag=True, help="The memory of 10,000 empty queues.")
@click.option("--idle", is_flag=True, help="The cost of 64 idle groups.")
@click.option("--carry", "carried", nargs=3, default=None, help="ORIGIN BATCH MESSAGES: carry them, print nothing.")
def main(
    batches: tuple[int, ...],
    messages: int,
    repeat: int,
    acks_each: bool,
    instructions: bool,
    memory: bool,
    idle: bool,
    carried: tuple[str, str, str] | None,
) -> None:
    """What a message of a quorum queue costs each of three nodes."""
    if carried is not None:
        carry(carried[0], int(carried[1]), int(carried[2]), acks_each, warm=False)
        return
    print(f"{'compiled' if is_compiled() else 'plain'} modules, bodies of {BODY_BYTES} octets")
    if instructions:
        print_instructions(batches or BATCHES)
    elif memory:
        print_memory(10_000, 8)
    elif idle:
        print_idle(64)
    else:
        print_table(batches or BATCHES, messages, acks_each, repeat)


if __name__ == "__main__":
    main()
