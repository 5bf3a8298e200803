"""LeaseWorld: a World in which readers outside take messages on lease, besides all that its clients do.

A step is a turn of its own, so that what it has taken can be judged at once."""

from __future__ import annotations

from typing import Any

from queues.leases import LeaseGroup
from queues.page import AddressBook, Page
from tests.queues.lease_life import ack, claim, groups_by_name, open_lease, release
from tests.simulation.lease_model import LeaseModel
from tests.simulation.observer import message_number
from tests.simulation.state import Incarnation, Violation
from tests.simulation.world import World

_ALL = 1 << 40


class LeaseWorld(World):
    """One run of a seed."""

    def __init__(self, seed: int, trace: Any = None) -> None:
        super().__init__(seed, trace)
        self.leases = LeaseModel(self.model)

    # -- what happens --------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        if self.clients and self.chance.random() < 0.3:
            self._lease()
        else:
            super()._act()

    def _lease(self) -> None:
        """One step with one group of one queue."""
        chance = self.chance
        name = self.workload._queue()
        for _ in range(10):
            if not self._turn_is_open:
                break
            self._end_turn()
        queue = self.node.broker.vhosts["/"].queues.get(name)
        known = self.model.live.get(name)
        if self._turn_is_open or known is None or queue is None or self.specs[name].is_fixed:
            return
        group_name = chance.choice("ab")
        group = groups_by_name(queue).get(group_name)
        draw = chance.random()
        if group is None or draw < 0.05:
            owner, incarnation = chance.choice("xy"), f"{chance.getrandbits(64):032x}"
            self.note(f"group {group_name} of {name} is opened for {owner}")
            self._input(lambda: open_lease(queue, group_name, owner, incarnation, self.now))
            self.leases.opened(known, group_name, incarnation, owner)
        elif draw < 0.6:
            self._claim(known, group)
        elif draw < 0.93:
            upto = chance.randint(group.trimmed, group.next)
            self.note(f"group {group_name} of {name} acknowledges up to {upto}")
            self._input(lambda: ack(group, upto, self.now))
            self.leases.acked(known, group_name, upto)
        else:
            self._release(known, group)
        self._end_turn()

    def _claim(self, known: Incarnation, group: LeaseGroup) -> None:
        most, octets = self.chance.choice([1, 3, 50]), self.chance.choice([300, _ALL, _ALL])
        first = group.next
        self.note(f"group {group.name} of {known.spec.name} claims {most}")
        self._input(lambda: claim(group, most, octets, self.now))
        numbers = numbers_of(group, first)
        self.note(f"it has {numbers}")
        self.leases.claimed(known, group.name, numbers)

    def _release(self, known: Incarnation, group: LeaseGroup) -> None:
        self.note(f"group {group.name} of {known.spec.name} is released")
        self.leases.released(known, group.name)
        self._input(lambda: release(group, self.now))

    # -- crashes and the end -------------------------------------------------------------------------------------------

    def _tell_model(self, in_doubt: Any = ()) -> None:
        found: dict[Incarnation, dict[str, tuple[str, str, int, list[int]]]] = {}
        for queue in [*self.model.live.values(), *self.model.past]:
            there = self.node.broker.vhosts["/"].queues.get(queue.spec.name)
            if there is not None and there.queue_id == queue.queue_id:
                found[queue] = {
                    name: (group.incarnation, group.owner, group.trimmed, numbers_of(group, group.trimmed))
                    for name, group in groups_by_name(there).items()
                }
        leased = self.leases.recover(found)
        super()._tell_model(in_doubt)
        self.leases.recovered(leased)

    def _is_empty(self) -> bool:
        """What is leased goes back, and is drained too."""
        groups = [
            (self.model.live[queue.name], group)
            for queue in self.node.broker.vhosts["/"].queues.all_made()
            for group in list(groups_by_name(queue).values())
        ]
        for known, group in groups:
            self._release(known, group)
        return not groups and super()._is_empty()


def numbers_of(group: LeaseGroup, first: int) -> list[int]:
    """The messages of a group from an offset on."""
    numbers: list[int] = []
    while first < group.next:
        for stretch in group.read(first, group.next, 1000):
            if stretch.first != first:
                raise Violation(f"group '{group.name}': offset {stretch.first} is read, wanted was {first}")
            page = Page(stretch.data, 0, 0, 0, 0)
            page.start, page.size = stretch.start, stretch.end - stretch.start
            numbers += [message_number(entry.message.body_bytes()) for entry in page.entries(AddressBook())]
            first += stretch.messages
    return numbers
