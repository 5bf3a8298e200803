"""Members of a queue group without Raft: a log that everybody applies, disks that crash, checkpoints that are durable
when they should be. Everything is tiny, so that a handful of messages pages.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from queues.arguments import QueueArguments
from queues.effects import Confirmed, Delivered, Effect, Refusal
from queues.pager import Pager
from queues.quorum.commands import (
    Attach,
    Batch,
    Command,
    Dispatched,
    Enqueue,
    NodeDown,
    OpenQueue,
    Tick,
    encode_batch,
    encode_leader_batch,
)
from queues.quorum.consumer import QuorumConsumer
from queues.quorum.machine import QueueGroupMachine
from queues.quorum.queue import QuorumQueue
from queues.quorum.resting import Resting
from queues.quorum.settings import QuorumSettings
from queues.quorum.state import GroupState
from storage.page_store import PageStore
from tests.queues.queue_world import PAGE_BYTES, PAGE_SEGMENT_BYTES, message_named, name_of
from tests.queues.quorum.digest import entries_of
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.page_files import sync_pages

SESSION = 1_000
START = 10_000
BUDGETS = (1_500, 6_000, 1 << 30)


class Member:
    """One node's machine on a disk of its own, with what Raft and the node's journal do for it."""

    def __init__(self, name: str, budget_bytes: int = BUDGETS[-1], seed: int = 0, head_messages: int = 3) -> None:
        self.name = name
        self.budget_bytes = budget_bytes
        self.head_messages = head_messages
        self.disk = SimulatedDisk(random.Random(seed))
        self.applied = 0
        self.position = 0
        self.effects: list[Effect] = []
        self.saved: tuple[int, list[bytes]] = (0, [])
        self.checkpointing: Iterator[bytes | None] | None = None
        self.is_preparing = False
        self.begun = 0
        self.chunks: list[bytes] = []
        self._build()
        self.saved = (0, self.machine.checkpoint())

    def _build(self) -> None:
        self.page_store = PageStore(self.disk, PAGE_SEGMENT_BYTES)
        self.pager = Pager(self.page_store, self.budget_bytes, PAGE_BYTES, self.head_messages, 1_500)
        self.machine = QueueGroupMachine(self.name, self.pager)
        self.machine.watch_discards(self.discard)

    def discard(self) -> None:
        """All slices at once."""
        while self.machine.discard_some(0):
            pass

    @property
    def state(self) -> GroupState:
        return self.machine._execution.state

    def queue(self, queue_id: int = 1) -> QuorumQueue:
        return self.state.queues[queue_id]

    def apply(self, log: list[bytes]) -> list[Effect]:
        """Apply what is new in the log. Returns the effects."""
        for data in log[self.applied :]:
            self.applied += 1
            self.machine.apply(self.applied, 1, data, 0)
        taken = self.machine.take_effects()
        self.effects += taken
        self._end_turn()
        return taken

    def _end_turn(self) -> None:
        self.position += 1
        self.machine.end_turn(self.position)
        if self.pager.used > self.pager.tight_bytes:
            self.machine.page_out(self.pager.used - self.pager.tight_bytes)

    def prepare_checkpoint(self) -> None:
        """One is to be taken, as of when it is prepared."""
        self.checkpointing, self.is_preparing = self.machine.prepare_checkpoint(), True

    def go_on_with_checkpoint(self, slices: int, is_synced: bool = True) -> bool:
        """So many slices of the one that is prepared or was begun, if there is one. Returns whether it is whole: then
        it is written."""
        if self.checkpointing is None:
            return False
        for _ in range(slices):
            try:
                chunk = next(self.checkpointing)
            except StopIteration:
                if self.is_preparing:
                    self.checkpointing, self.is_preparing = self.machine.checkpoint_in_slices(), False
                    self.begun, self.chunks = self.applied, []
                    continue
                self.checkpointing = None
                self._write_checkpoint(self.begun, self.chunks, is_synced)
                return True
            if chunk is not None:
                self.chunks.append(chunk)
        return False

    def checkpoint(self, is_synced: bool = True) -> None:
        """Take a checkpoint; unless it is synced it counts for nothing after a crash."""
        self.checkpointing = None
        self._write_checkpoint(self.applied, self.machine.checkpoint(), is_synced)

    def _write_checkpoint(self, applied: int, chunks: list[bytes], is_synced: bool) -> None:
        self._end_turn()
        if is_synced:
            sync_pages(self.page_store)
            self.pager.has_named_pages = False
            self.saved = (applied, chunks)
            self.machine.synced(self.position)

    def restart(self, log: list[bytes]) -> None:
        """Crash, recover from the last durable checkpoint, and apply the log behind it as far as before."""
        session = self.machine.own_session
        self.disk.crash()
        self.checkpointing = None
        applied = self.applied
        self._build()
        self.applied, chunks = self.saved
        self.machine.restore(chunks)
        self.page_store.drop_orphans(self.machine.queue_ids())
        for data in log[self.applied : applied]:
            self.applied += 1
            self.machine.apply(self.applied, 1, data, 0)
        self.machine.take_effects()
        self.machine.begin_session(session)

    def install_from(self, other: Member) -> None:
        """Take over the other's state of now."""
        self.discard()
        self.machine.begin_install()
        for chunk in other.machine.export():
            self.machine.install_chunk(chunk)
        self.machine.end_install()
        self.applied = other.applied
        self.effects += self.machine.take_effects()
        self.checkpoint()


class Stream:
    """Writes a node's commands into the log, with numbers as OwnStream gives them; `member` is the node's own."""

    def __init__(self, group: Group, member: Member, session: int = SESSION) -> None:
        self.group = group
        self.member = member
        self.session = session
        self.sequence = 0
        self.seen = 0
        self.consumers = session << 20
        member.machine.begin_session(session)

    def new_consumer(self) -> int:
        self.consumers += 1
        return self.consumers

    def send(self, *commands: Command) -> list[Effect]:
        """Have commands committed in one batch, and applied everywhere. Returns the effects at this node."""
        first = self.sequence + 1
        self.sequence += len(commands)
        batch = Batch(self.group.now, self.member.name, self.session, first, self.seen, list(commands))
        return self.group.commit(encode_batch(batch))[self.member.name]

    def attach(self, queue_id: int = 1, prefetch: int = 0, **options: Any) -> tuple[int, list[Effect]]:
        """A new consumer. Returns its number and the effects."""
        number = self.new_consumer()
        attach = Attach(number, queue_id, prefetch, False, 0, False, "tag")._replace(**options)
        return number, self.send(attach)

    def publish(self, *names: int, queue_id: int = 1, **options: Any) -> list[Effect]:
        """One message each, with its name."""
        return self.send(*[Enqueue((queue_id,), message_named(name, **options)) for name in names])


class Group:
    """Members that apply the same log. now: the leader's clock."""

    def __init__(self, *members: Member, settings: QuorumSettings | None = None) -> None:
        self.members = list(members)
        self.log: list[bytes] = []
        self.now = START
        if settings is not None:
            self.open(1, settings)

    def open(self, queue_id: int, settings: QuorumSettings) -> None:
        """Open a queue, on behalf of a node that does nothing else."""
        admin = f"admin of {queue_id} at {len(self.log)}"
        self.commit(encode_batch(Batch(self.now, admin, 1, 1, 0, [OpenQueue(queue_id, settings)])))

    def commit(self, data: bytes) -> dict[str, list[Effect]]:
        """Put an entry into the log, and apply it everywhere. Returns the effects by node."""
        self.log.append(data)
        return {member.name: member.apply(self.log) for member in self.members}

    def lead(self, *commands: Tick | NodeDown | Dispatched) -> dict[str, list[Effect]]:
        """Commands of the leader."""
        return self.commit(encode_leader_batch(self.now, commands or [Tick()]))

    def advance(self, milliseconds: int) -> dict[str, list[Effect]]:
        """Time passes, and the leader proposes ticks as long as something is due."""
        self.now += milliseconds
        collected = self.lead()
        while (due := self.members[0].machine.next_deadline()) is not None and due <= self.now:
            for name, effects in self.lead().items():
                collected[name] += effects
        return collected


def settings_of(**arguments: Any) -> QuorumSettings:
    """Settings by the names of both dataclasses."""
    own = {"consumer_timeout", "deduplication_window", "deduplication_ttl", "at_least_once", "holds_back", "retry"}
    own |= {"gives_way"}
    settings = QuorumSettings(QueueArguments(**{key: arguments[key] for key in arguments if key not in own}))
    return replace(settings, **{key: arguments[key] for key in arguments if key in own})


def one_node(**arguments: Any) -> tuple[Group, Stream]:
    """A group of one member with queue 1, and its node's stream."""
    member = Member("n1")
    group = Group(member, settings=settings_of(**arguments))
    return group, Stream(group, member)


def deliveries(effects: list[Effect]) -> list[tuple[int, int, int, int]]:
    """(consumer, delivery id, name, delivery count) of all Delivered."""
    return [
        (each.consumer, each.delivery_id, name_of(each.message), each.delivery_count)
        for each in effects
        if isinstance(each, Delivered)
    ]


def names_delivered(effects: list[Effect]) -> list[int]:
    return [name for _, _, name, _ in deliveries(effects)]


def of_type(effects: list[Effect], kind: type) -> list[Any]:
    return [each for each in effects if isinstance(each, kind)]


def ready_names(member: Member, queue_id: int = 1) -> list[int]:
    """What is ready, in the order in which it would be delivered."""
    queue = member.queue(queue_id)
    levels = reversed(queue.levels())
    return [name_of(entry.message) for level in levels for entry in entries_of(level, queue_id, member.pager)]


def resting_of(member: Member, queue_id: int = 1) -> list[int]:
    """What rests, in the order in which it comes again."""
    resting = member.queue(queue_id).resting
    if not isinstance(resting, Resting):
        return []
    return [name_of(entry.message) for entry in entries_of(resting.waiting, queue_id, member.pager)]


def letters_of(member: Member, queue_id: int = 1) -> list[tuple[int, str, int]]:
    """(name, reason, delivery count) of the pending dead letters, in order."""
    letters = member.queue(queue_id).letters
    waiting = list(entries_of(letters.waiting, queue_id, member.pager))
    effects = [letters.effect(entry) for entry in [*letters.transit, *waiting]]
    return [(name_of(each.message), each.reason.name, each.delivery_count) for each in effects]


def holders_of(member: Member, queue_id: int = 1) -> list[QuorumConsumer]:
    return list(member.queue(queue_id).delivery_owners.values())


def refusals(effects: list[Effect]) -> list[Refusal]:
    return [refused.refusal for each in of_type(effects, Confirmed) for refused in each.refused]
