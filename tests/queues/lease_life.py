"""A queue with lease groups, beside a model of both, on a disk that crashes: what tests of leases share.

Names of messages rise in the order of publication, so the ready messages of a queue are in the order of their names,
also when some have come back.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from queues.arguments import QueueArguments
from queues.classic import ClassicQueue
from queues.journaled_leases import leases_of
from queues.lease_source import Caller
from queues.leases import LeaseGroup
from queues.message import Entry
from queues.page import AddressBook, Page
from tests.queues.queue_world import BUDGET_BYTES, Client, World, message_named, name_of
from tests.simulation.simulated_disk import SimulatedDisk

SETTINGS = [QueueArguments(), QueueArguments()]


def open_lease(queue: ClassicQueue, name: str, owner: str, incarnation: str, now: int) -> LeaseGroup:
    """The group of that name, which belongs to `owner` from now on; with this incarnation, if it is new."""
    groups = leases_of(queue)
    groups.open(Caller(name, incarnation, owner), now)
    return groups.groups[name]


def claim(group: LeaseGroup, most: int, octets: int, now: int) -> int:
    """By its owner, beside whatever it holds. Returns how many it has got."""
    before = group.next
    assert leases_of(group.queue).claim(_owner_of(group), before, most, octets, False, now) is None
    return group.next - before


def ack(group: LeaseGroup, upto: int, now: int) -> int:
    """By its owner. Returns what is trimmed then."""
    assert leases_of(group.queue).ack(_owner_of(group), upto, now) is None
    return group.trimmed


def release(group: LeaseGroup, now: int) -> int:
    """By its owner. Returns how many messages it held."""
    count = group.count
    assert leases_of(group.queue).release(_owner_of(group), now) is None
    return count


def _owner_of(group: LeaseGroup) -> Caller:
    return Caller(group.name, group.incarnation, group.owner)


def groups_by_name(queue: ClassicQueue) -> dict[str, LeaseGroup]:
    return leases_of(queue).groups


def entries_of(group: LeaseGroup, first: int | None = None, last: int | None = None) -> list[Entry]:
    """Everything in [first, last) of a group, read in pieces."""
    position = group.trimmed if first is None else first
    end = group.next if last is None else last
    found: list[Entry] = []
    while position < end:
        stretches = group.read(position, end, 300)
        for stretch in stretches:
            assert stretch.first == position
            page = Page(stretch.data, 0, 0, 0, 0)
            page.start = stretch.start
            page.size = stretch.end - stretch.start
            entries = page.entries(AddressBook())
            assert len(entries) == stretch.messages
            found += entries
            position += len(entries)
        assert stretches
    return found


def names_in(group: LeaseGroup) -> list[int]:
    return [name_of(entry.message) for entry in entries_of(group)]


def ready_names(world: World, queue: ClassicQueue) -> list[int]:
    """All that is ready, in order, without disturbing it much."""
    ready = queue.ready
    entries = [*ready.head, *ready.stragglers]
    for page in list(ready.pages or ()):
        was_in_ram = page.data is not None
        world.pager.load(queue.queue_id, page)
        entries += page.entries(world.pager.addresses)
        if not was_in_ram:
            world.pager.drop(page)
    if ready.tail is not None and ready.tail.count:
        data = ready.tail.buffer.get_bytes(0, ready.tail.buffer.length)
        entries += Page(data, 0, 0, 0, 0).entries(world.pager.addresses)
    assert len(entries) == ready.count
    return [name_of(entry.message) for entry in sorted(entries, key=lambda entry: entry.sequence)]


@dataclass
class Shape:
    """What has to survive a crash. ready: names, in order, of those that are on the disk."""

    ready: list[int] = field(default_factory=list)
    groups: dict[str, tuple[str, str, int, list[int]]] = field(default_factory=dict)


@dataclass
class Life:
    """One queue's life. The model: `ready` and `held` have the names, with whether they are durable."""

    chance: random.Random
    disk: SimulatedDisk
    budget_bytes: int = BUDGET_BYTES
    ready: dict[int, bool] = field(default_factory=dict)
    held: dict[int, tuple[Entry, bool]] = field(default_factory=dict)
    groups: dict[str, tuple[str, str, int, list[int]]] = field(default_factory=dict)
    last_name: int = 0
    incarnations: int = 0
    released: int = 0
    #: The shape at the last sync, and at the one that is under way.
    shapes: list[Shape] = field(default_factory=lambda: [Shape()])

    def open(self) -> None:
        """Recover, check that everything is as it was at one of the syncs, and go on from there."""
        self.world = World(self.disk, SETTINGS, now=self.chance.randint(1, 1 << 40), budget_bytes=self.budget_bytes)
        self.queue = self.world.queues[0]
        while leases_of(self.queue).parting:
            self.world.advance(1)
        found = Shape(ready_names(self.world, self.queue), self.groups_found())
        assert found in self.shapes
        self.ready = dict.fromkeys(found.ready, True)
        self.held = {}
        self.groups = dict(found.groups)
        self.shapes = [found]

    def groups_found(self) -> dict[str, tuple[str, str, int, list[int]]]:
        return {
            name: (group.incarnation, group.owner, group.trimmed, names_in(group))
            for name, group in groups_by_name(self.queue).items()
        }

    def shape(self) -> Shape:
        lasting = [name for name, is_durable in self.ready.items() if is_durable]
        lasting += [name for name, (_, is_durable) in self.held.items() if is_durable]
        return Shape(sorted(lasting), dict(self.groups))

    def check(self) -> None:
        assert ready_names(self.world, self.queue) == sorted(self.ready)
        assert self.groups_found() == self.groups
        leased = sum(len(names) for _, _, _, names in self.groups.values())
        assert self.queue.leased_count() == leased
        assert self.queue.unacked == len(self.held)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        for _ in range(self.chance.randint(1, 12)):
            self.last_name += 1
            is_durable = self.chance.random() < 0.8
            size = self.chance.choice((8, 60, 60, 400))
            message = message_named(self.last_name, size, is_durable)
            self.world.vhost.publish(message, self.world.queues[: self.chance.randint(1, 2)], self.world.now)
            self.ready[self.last_name] = is_durable

    def get(self) -> None:
        entry = self.queue.get(self.world.now)
        if entry is None:
            assert not self.ready
            return
        name = name_of(entry.message)
        assert name == min(self.ready)
        is_durable = self.ready.pop(name)
        if self.chance.random() < 0.5:
            self.queue.forget(entry)
        else:
            self.queue.take_held(entry, Client([], 1))
            self.held[name] = (entry, is_durable)

    def settle(self) -> None:
        if not self.held:
            return
        name = self.chance.choice(list(self.held))
        entry, is_durable = self.held.pop(name)
        if self.chance.random() < 0.5:
            self.queue.ack(entry)
        else:
            self.queue.put_back([entry], self.world.now)
            self.ready[name] = is_durable

    def open_group(self) -> None:
        name = self.chance.choice("ab")
        owner = self.chance.choice("xyz")
        self.incarnations += 1
        group = open_lease(self.queue, name, owner, f"{self.incarnations:032x}", self.world.now)
        before = self.groups.get(name, (f"{self.incarnations:032x}", owner, 0, []))
        self.groups[name] = (before[0], owner, *before[2:])
        assert group.incarnation == before[0]

    def claim(self) -> None:
        for name, (incarnation, owner, trimmed, names) in self.groups.items():
            most = self.chance.randint(1, 20)
            octets = self.chance.choice((1, 500, 100_000))
            count = claim(groups_by_name(self.queue)[name], most, octets, self.world.now)
            assert (count > 0) == bool(self.ready)
            assert count <= most
            assert octets == 500 or count == (min(most, len(self.ready)) if octets > 500 else min(1, len(self.ready)))
            taken = sorted(self.ready)[:count]
            for each in taken:
                del self.ready[each]
            self.groups[name] = (incarnation, owner, trimmed, [*names, *taken])

    def ack(self) -> None:
        for name, (incarnation, owner, trimmed, names) in self.groups.items():
            count = self.chance.randint(0, len(names))
            upto = trimmed + count
            assert ack(groups_by_name(self.queue)[name], upto, self.world.now) == upto
            self.groups[name] = (incarnation, owner, upto, names[count:])

    def release(self) -> None:
        if not self.groups or self.chance.random() < 0.7:
            return
        name = self.chance.choice(list(self.groups))
        names = self.groups.pop(name)[3]
        assert release(groups_by_name(self.queue)[name], self.world.now) == len(names)
        self.ready.update(dict.fromkeys(names, True))
        while leases_of(self.queue).parting:
            self.sync()
            self.world.advance(1)
        self.released += len(names)

    def purge(self) -> None:
        if self.chance.random() < 0.1:
            assert self.queue.purge() == len(self.ready)
            self.ready = {}

    def page_out(self) -> None:
        for group in self.queue.leased():
            group.page_out(self.chance.randint(1, 2000))

    def other_traffic(self) -> None:
        """The other queue empties itself, so that segments are retired."""
        while (entry := self.world.queues[1].get(self.world.now)) is not None:
            self.world.queues[1].forget(entry)

    def sync(self) -> None:
        shape = self.shape()
        self.world.begin_sync()
        self.shapes.append(shape)
        self.world.finish_sync()
        self.shapes = [shape]
