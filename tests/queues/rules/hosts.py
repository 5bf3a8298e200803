"""Queues of all hosts of QueueRules, to be told the same and asked the same: messages go by their names.

Everything that a test does is over when the method returns: consumers have what they may have, and nothing is due.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from amqp_broker.protocol.fields import Table
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from amqp_broker.queue_types.quorum.cursor_arguments import parse_cursor_arguments
from queues.arguments import ArgumentError, QueueArguments
from queues.consumer import Consumer
from queues.effects import AttachRefused, Discarded, Effect, GetAnswered, Refusal
from queues.lease import Lease
from queues.lease_rules import LeaseRules
from queues.lease_source import Caller
from queues.message import Entry, Message
from queues.pager import Pager
from queues.quorum.commands import Detach, Enqueue, Get, How, Purge, Settle
from queues.quorum.cursor_commands import OpenCursor
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.lease_commands import AckLease, Claim, LeaseCommand, OpenLease
from queues.quorum.queue import QuorumQueue
from queues.reason import Reason
from queues.rule import Rule
from queues.rules import QueueRules
from queues.stream.commands import OpenStream
from queues.stream.settings import StreamSettings
from queues.write_group import WriteGroup
from storage.page_store import PageStore
from tests.queues.queue_world import (
    HEAD_BYTES,
    HEAD_MESSAGES,
    PAGE_BYTES,
    PAGE_SEGMENT_BYTES,
    Client,
    World,
    message_named,
    name_of,
)
from tests.queues.quorum.quorum_world import (
    Group,
    Member,
    Stream,
    deliveries,
    letters_of,
    of_type,
    ready_names,
    refusals,
    settings_of,
)
from tests.queues.stream.cursor_world import cursor_of, publish_all
from tests.queues.stream.cursor_world import settings_of as cursor_settings_of
from tests.queues.stream.stream_world import STREAM, commit_as, records
from tests.simulation.simulated_disk import SimulatedDisk

BUDGET_BYTES = 1 << 30
#: The name of a lease group.
GROUP = "group"


class Lacking(Exception):
    """A host lacks a rule that was asked for, and has said so, or not heeded it."""

    def __init__(self, rule: Rule, reason: str) -> None:
        super().__init__(f"{rule.name}: {reason}")
        self.rule = rule


class InUse(Exception):
    """A consumer is refused: somebody has the queue for itself alone, or it wants that while others are there."""


class Host:
    """One queue. log: (consumer, name, redelivered) of all deliveries, in order. lacks: as its type says."""

    lacks: ClassVar[Mapping[Rule, str]]

    def __init__(self) -> None:
        self.log: list[tuple[int, int, bool]] = []

    def names(self) -> list[int]:
        """Whatever was delivered, in order."""
        return [name for _, name, _ in self.log]

    @classmethod
    def refuse(cls, rule: Rule, key: str) -> None:
        """An argument asks for a rule that it lacks: raises Lacking, as the declaration is refused."""
        raise NotImplementedError

    def apply(self, arguments: QueueArguments) -> None:
        """Other arguments are in force."""
        raise NotImplementedError

    def publish(self, name: int, **options: Any) -> bool:
        """Options as in message_named. False: refused."""
        raise NotImplementedError

    def consume(self, limit: int, priority: int = 0, is_exclusive: bool = False) -> int:
        """A consumer who may hold so many. Returns its number. Raises InUse."""
        raise NotImplementedError

    def cancel(self, consumer: int) -> None:
        """It gets nothing more."""
        raise NotImplementedError

    def settle(self, consumer: int, how: How, *names: int) -> None:
        """What a consumer holds."""
        raise NotImplementedError

    def get(self, after: int = 0) -> int | None:
        """The first one, which is held; asked for as soon as so many milliseconds have passed, before anything else
        happens."""
        raise NotImplementedError

    def lease(self, command: LeaseCommand) -> Refusal | None:
        """What the owner of a lease group does."""
        raise NotImplementedError

    def leased(self) -> Lease | None:
        """The lease group, where there is one that is open."""
        raise NotImplementedError

    def advance(self, milliseconds: int) -> None:
        """Time passes."""
        raise NotImplementedError

    def purge(self) -> int:
        """How many there were."""
        raise NotImplementedError

    def ready(self) -> list[int]:
        """In the order in which they would be delivered."""
        raise NotImplementedError

    def dead(self) -> list[tuple[int, str]]:
        """Dead letters, each with its reason."""
        raise NotImplementedError

    def discarded(self) -> int:
        """So many came back too often, and are nowhere."""
        raise NotImplementedError

    def unacked(self) -> int:
        """So many are held."""
        raise NotImplementedError


class _Local(Host):
    """A queue that is an object of the test."""

    lacks = QueueRules.lacks
    queue: Any
    now = 1

    def __init__(self) -> None:
        super().__init__()
        self.clients: list[Client] = []
        self.held: dict[tuple[int, int], Entry] = {}
        self.raw: list[Any] = []

    def consume(
        self, limit: int, priority: int = 0, is_exclusive: bool = False, no_ack: bool = False
    ) -> int:
        client: Any = Client(self.raw, limit, no_ack, priority)
        client.is_exclusive = is_exclusive
        self.join(client)
        self.clients.append(client)
        self.look()
        return len(self.clients) - 1

    def join(self, client: Client) -> None:
        raise NotImplementedError

    def cancel(self, consumer: int) -> None:
        self.queue.remove_consumer(self.clients[consumer])
        self.look()

    def settle(self, consumer: int, how: How, *names: int) -> None:
        client = self.clients[consumer]
        entries = [self.held.pop((consumer, name)) for name in names]
        client.unsettled -= len(entries)
        if how is How.ACK:
            for entry in entries:
                self.queue.ack(entry)
        elif how is How.REJECT:
            for entry in entries:
                self.queue.reject(entry, self.now)
        else:
            self.back(entries, how is How.REQUEUE)
        if client in self.queue.dispatcher.consumers:
            self.queue.dispatcher.credit_returned(client)
        self.look()

    def back(self, entries: list[Entry], counts: bool) -> None:
        raise NotImplementedError

    def look(self) -> None:
        """Everything happens that may, and the log has it."""
        self.queue.dispatch(self.now)
        self.work()
        for client, entry, message, is_redelivered in self.raw:
            number = self.clients.index(client)
            self.log.append((number, name_of(message), is_redelivered))
            if entry is not None:
                self.held[number, name_of(message)] = entry
        self.raw.clear()

    def work(self) -> None:
        raise NotImplementedError

    def leased(self) -> Lease | None:
        found = self.queue.lease_groups
        return found.groups.get(GROUP) if found is not None else None

    def unacked(self) -> int:
        return int(self.queue.unacked)

    def ready(self) -> list[int]:
        levels = self.queue.levels()
        found = []
        for level in reversed(levels):
            entries = [*level.head, *level.stragglers]
            for page in level.pages or ():
                self.queue.pager.load(self.queue.queue_id, page)
                entries += page.entries(self.queue.pager.addresses)
            names = [name_of(entry.message) for entry in sorted(entries, key=lambda entry: entry.sequence)]
            if level.pages is not None and level.tail.count:
                page = level.tail.seal()
                level.pages.append(page)
                names += [name_of(entry.message) for entry in page.entries(self.queue.pager.addresses)]
            found += names
        return found


class ClassicHost(_Local):
    """A ClassicQueue, with its journal."""

    def __init__(self, arguments: QueueArguments) -> None:
        super().__init__()
        host = self
        self._discarded = 0

        class OwnWorld(World):
            def discard(self, queue: Any) -> None:
                host._discarded += 1

        self.world = OwnWorld(SimulatedDisk(random.Random(1)), [arguments], self.now, BUDGET_BYTES)
        self.queue = self.world.queues[0]
        self.queue.declaration = QueueDeclaration("q", True, False, None, Table({}), "/")

    def apply(self, arguments: QueueArguments) -> None:
        self.queue.apply_settings(arguments)
        self.look()

    def join(self, client: Client) -> None:
        told: list[Exception | None] = []
        self.queue.admit(client, told.append)
        if told != [None]:
            raise InUse

    def publish(self, name: int, **options: Any) -> bool:
        before = self.queue.next_sequence
        self.world.vhost.publish(message_named(name, **options), [self.queue], self.now)
        self.look()
        return bool(self.queue.next_sequence > before)

    def back(self, entries: list[Entry], counts: bool) -> None:
        if counts:
            self.queue.put_back(entries, self.now)
        else:
            self.queue.take_back(entries, self.now)

    def get(self, after: int = 0) -> int | None:
        self.now += after
        self.world.now = self.now
        told: list[Entry | None] = []
        self.queue.fetch(Client(self.raw, 1), self.now, lambda refusal, entry, left: told.append(entry))
        self.world.advance(0)
        self.look()
        (entry,) = told
        return name_of(entry.message) if entry is not None else None

    def lease(self, command: LeaseCommand) -> Refusal | None:
        refused: list[Refusal | None] = []
        source, caller = self.queue.leases(), caller_of(command)
        if isinstance(command, OpenLease):
            source.open(caller, self.now, refused.append)
        elif isinstance(command, Claim):
            source.claim(
                caller, command.after, command.messages, command.octets, command.adds, self.now, refused.append
            )
        elif isinstance(command, AckLease):
            source.ack(caller, command.upto, self.now, refused.append)
        else:
            source.release(caller, self.now, refused.append)
        self.look()
        (refusal,) = refused
        return refusal

    def advance(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.world.advance(milliseconds)
        self.look()

    def work(self) -> None:
        self.world.work()

    def purge(self) -> int:
        return int(self.queue.purge())

    def dead(self) -> list[tuple[int, str]]:
        return [(name_of(message), reason) for _, message, reason in self.world.dead_letters]

    def discarded(self) -> int:
        return self._discarded


class BareQueue(QueueRules):
    """The rules and nothing else: what happens to messages is in lists."""

    def __init__(self, pager: Pager, arguments: QueueArguments) -> None:
        super().__init__("bare", 1, False, WriteGroup(), pager, arguments, 3)
        self.apply_arguments(arguments)
        self.buried: list[tuple[int, str]] = []
        self.nowhere = 0
        self.is_scheduled = False

    def give(self, entry: Entry, consumer: Consumer, now: int) -> int:
        if consumer.no_ack:
            self.forget(entry)
            consumer.deliver_at_once(entry.message, entry.is_redelivered)
        else:
            entry.consumer = consumer
            self.unacked += 1
            consumer.deliver(entry)
        return 1

    def forget(self, entry: Entry) -> Any:
        self.pager.used -= entry.message.size
        return 0  # what the compiled method returns

    def bury(self, entry: Entry, reason: Reason) -> Any:
        self.buried.append((name_of(entry.message), reason.word))
        return self.forget(entry)

    def bury_refused(self, message: Message) -> Any:
        self.buried.append((name_of(message), Reason.MAXLEN.word))
        return 0

    def discarded(self, messages: int) -> Any:
        self.nowhere += messages
        return 0

    def schedule(self) -> Any:
        self.is_scheduled = True
        return 0

    def watch(self, expires_at: int, now: int) -> Any:
        if expires_at <= now:  # as a classic queue: it has expired before it is one too many
            self.drop_expired(3, now)
        return 0

    def dispatch(self, now: int) -> Any:
        if self.hand_out(2, now) <= 0:
            self.is_scheduled = True
        return 0


class BareLease(Lease):
    """A lease group that is in nobody's log."""

    def take(self, max_messages: int, max_bytes: int, now: int) -> int:
        self.queue.drop_expired(1 << 30, now)
        entries = self.queue.take_ready(max_messages, max_bytes, True, now)
        for entry in entries:
            self.queue.forget(entry)
            self.add(entry.message, entry.sequence, entry.expires_at, 0, entry.returns, entry.is_redelivered)
        return len(entries)

    def part_with(self, left: int) -> tuple[list[Entry], int]:
        entries = self.take_last(left)
        return entries, len(entries)

    def discard(self) -> None:
        self.forget()


class BareLeases(LeaseRules[BareLease]):
    """The rules of leases and nothing else; in steps of three messages."""

    def share(self) -> int:
        return 3

    def make(self, caller: Caller) -> BareLease:
        return BareLease(2, self.queue, None, *caller)


class BareHost(_Local):
    """A BareQueue, which does a very little at once."""

    def __init__(self, arguments: QueueArguments) -> None:
        super().__init__()
        store = PageStore(SimulatedDisk(random.Random(1)), PAGE_SEGMENT_BYTES)
        self.queue = BareQueue(Pager(store, BUDGET_BYTES, PAGE_BYTES, HEAD_MESSAGES, HEAD_BYTES), arguments)
        self.leases = self.queue.lease_groups = BareLeases(self.queue)

    def apply(self, arguments: QueueArguments) -> None:
        self.queue.apply_arguments(arguments)
        self.look()

    def publish(self, name: int, **options: Any) -> bool:
        is_there = self.queue.accept(message_named(name, **options), self.now)
        self.look()
        return bool(is_there)

    def join(self, client: Any) -> None:
        if self.queue.is_in_exclusive_use(client.is_exclusive):
            raise InUse
        client.queue = self.queue
        self.queue.dispatcher.add(client)

    def cancel(self, consumer: int) -> None:
        self.queue.dispatcher.remove(self.clients[consumer])
        self.look()

    def back(self, entries: list[Entry], counts: bool) -> None:
        self.queue.bring_back(entries, counts, self.now)

    def get(self, after: int = 0) -> int | None:
        self.now += after
        entry = self.queue.take_first(self.now)
        while entry is None and self.queue.ready.has_next():
            entry = self.queue.take_first(self.now)
        if entry is None:
            return None
        self.queue.unacked += 1
        self.look()
        return name_of(entry.message)

    def lease(self, command: LeaseCommand) -> Refusal | None:
        leases, caller, refusal = self.leases, caller_of(command), None
        if isinstance(command, OpenLease):
            leases.open(caller, self.now)
        elif isinstance(command, Claim):
            refusal = leases.claim(caller, command.after, command.messages, command.octets, command.adds, self.now)
        elif isinstance(command, AckLease):
            refusal = leases.ack(caller, command.upto, self.now)
        else:
            refusal = leases.release(caller, self.now)
        self.look()
        return refusal

    def advance(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.look()

    def work(self) -> None:
        queue = self.queue
        while True:
            queue.is_scheduled = bool(self.leases.parting)
            self.leases.put_back(self.now)
            left = min(queue.drop_excess(3), queue.drop_expired(3, self.now))
            queue.dispatch(self.now)
            if left > 0 and not queue.is_scheduled:
                return

    def purge(self) -> int:
        count = int(self.queue.ready.count)
        self.queue.ready.clear()
        return count

    def dead(self) -> list[tuple[int, str]]:
        return list(self.queue.buried)

    def discarded(self) -> int:
        return int(self.queue.nowhere)


class QuorumHost(Host):
    """A group of one member, driven by commands."""

    lacks = QuorumQueue.lacks

    def __init__(self, arguments: QueueArguments) -> None:
        super().__init__()
        self.member = Member("n1")
        self.member.machine.role_changed(True, "n1", 1, 0)
        self.group = Group(self.member)
        self.stream = Stream(self.group, self.member)
        self.open(arguments)
        self.numbers: list[int] = []
        self.held: deque[tuple[int, int, int]] = deque()
        self._discarded = 0

    def _look(self, effects: list[Effect]) -> list[Effect]:
        for number, delivery, name, _ in deliveries(effects):
            consumer = self.numbers.index(number)
            entry = self.member.queue().delivery_owners["n1", number].held[delivery][0]
            self.log.append((consumer, name, entry.is_redelivered))
            self.held.append((consumer, delivery, name))
        self._discarded += sum(each.messages for each in of_type(effects, Discarded))
        return effects

    def _send(self, *commands: Any) -> list[Effect]:
        effects = self._look(self.stream.send(*commands))
        while (due := self.member.machine.next_deadline()) is not None and due <= self.group.now:
            effects += self._look(self.group.lead()["n1"])
        return effects

    def open(self, arguments: QueueArguments) -> None:
        """The queue is there, with these arguments."""
        self.group.open(1, settings_of(**_fields(arguments)))

    def apply(self, arguments: QueueArguments) -> None:
        self.open(arguments)
        self._send()

    def publish(self, name: int, **options: Any) -> bool:
        return not refusals(self._send(Enqueue((1,), message_named(name, **options))))

    def consume(self, limit: int, priority: int = 0, is_exclusive: bool = False) -> int:
        self.numbers.append(self.stream.consumers + 1)
        effects = self.stream.attach(prefetch=limit, priority=priority, exclusive=is_exclusive)[1]
        if of_type(effects, AttachRefused):
            self.numbers.pop()
            raise InUse
        self._look(effects)
        self._send()
        return len(self.numbers) - 1

    def cancel(self, consumer: int) -> None:
        self._send(Detach(self.numbers[consumer], False, 1 << 40))

    def settle(self, consumer: int, how: How, *names: int) -> None:
        found = [each for each in self.held if each[0] == consumer and each[2] in names]
        assert len(found) == len(names)
        for each in found:
            self.held.remove(each)
        # One after the other in one command, as a client's settlement of several comes.
        self._send(Settle(self.numbers[consumer], how, tuple((delivery, delivery) for _, delivery, _ in found)))

    def get(self, after: int = 0) -> int | None:
        self.group.now += after
        while True:  # as a node asks
            effects = self._send(Get(self.stream.new_consumer(), 1))
            answer = of_type(effects, GetAnswered)[0]
            if answer.message is not None:
                return name_of(answer.message)
            if not answer.ready:
                return None

    def lease(self, command: LeaseCommand) -> Refusal | None:
        found = refusals(self._send(command))
        return found[0] if found else None

    def leased(self) -> Lease | None:
        return self.member.machine.lease_groups(1).get(GROUP)

    def advance(self, milliseconds: int) -> None:
        self._look(self.group.advance(milliseconds)["n1"])

    def purge(self) -> int:
        before = len(self.ready())
        self._send(Purge(1))
        return before - len(self.ready())

    def ready(self) -> list[int]:
        return ready_names(self.member)

    def dead(self) -> list[tuple[int, str]]:
        return [(name, reason.lower()) for name, reason, _ in letters_of(self.member)]

    def discarded(self) -> int:
        return self._discarded

    def unacked(self) -> int:
        return int(self.member.queue().unacked)


class CursorHost(QuorumHost):
    """The same of a queue over a stream, to which the messages are published."""

    lacks = CursorQueue.lacks

    def open(self, arguments: QueueArguments) -> None:
        for rule in self.lacks:
            for key in rule.arguments:
                if key in _asked_for(arguments):
                    self.refuse(rule, key)
        self.arguments = arguments
        commit_as(self.group, "admin", len(self.group.log), OpenStream(STREAM, StreamSettings()))
        commit_as(self.group, "admin", len(self.group.log), OpenCursor(1, cursor_settings_of(**_fields(arguments))))

    @classmethod
    def refuse(cls, rule: Rule, key: str) -> None:
        with pytest.raises(ArgumentError) as refused:
            parse_cursor_arguments({key: 1}, STREAM)
        assert refused.value.key == key
        assert refused.value.reason.endswith(f" has no messages of its own: {cls.lacks[rule]}")
        raise Lacking(rule, refused.value.reason)

    def publish(self, name: int, **options: Any) -> bool:
        assert refusals(self.stream.send(Enqueue((1,), message_named(name, **options)))) == [Refusal.FULL]
        before = len(self.member.effects)
        publish_all(self.group, message_named(name, **options))
        self._look(self.member.effects[before:])
        self._send()
        if options.get("expiration", -1) >= 0:
            self._see_no_expiration(name, options["expiration"])
        return True

    def _see_no_expiration(self, name: int, expiration: int) -> None:
        """What the message says of its expiry is not heeded."""
        ttl = self.arguments.message_ttl
        if ttl is None or expiration < ttl:
            self.advance(min(expiration, 1000))
            assert name in self.ready()
        raise Lacking(Rule.EXPIRATION, self.lacks[Rule.EXPIRATION])

    def lease(self, command: LeaseCommand) -> Refusal | None:
        assert super().lease(command) is Refusal.LEASE_GONE
        raise Lacking(Rule.LEASES, self.lacks[Rule.LEASES])

    def ready(self) -> list[int]:
        place = cursor_of(self.member, 1).place
        assert place.stream is not None
        came_back = [name_of(place.message(entry)) for entry in place.head]
        return came_back + [int(body.split()[0]) for _, body in records(place.stream, place.next)]


def caller_of(command: LeaseCommand) -> Caller:
    return Caller(command.name, command.incarnation, command.owner)


def _asked_for(arguments: QueueArguments) -> set[str]:
    """The keys of those that say something."""
    said = [name for name, value in _fields(arguments).items() if value != getattr(QueueArguments(), name)]
    return {f"x-{name.replace('_', '-')}" for name in said}


def _fields(arguments: QueueArguments) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in QueueArguments.__slots__}
