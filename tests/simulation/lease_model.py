"""LeaseModel: what the model knows of lease groups: which copies each of them has had, at which offsets.

A copy is ready, held, leased or gone, and in one of these only. A group's log only grows at its end and is given up
from its front, so after a crash one may be anywhere between what was durable and what was done last; what it holds at
an offset is what it held there before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.model import Model
from tests.simulation.state import GONE, HELD, READY, Copy, Incarnation, Violation

LEASED = "leased"


@dataclass(slots=True, eq=False)
class LeaseGroup:
    """history: (turn, trimmed, next) after each step; -1 for trimmed: it was released."""

    name: str
    incarnation: str
    owner: str
    log: list[Copy] = field(default_factory=list)
    history: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def trimmed(self) -> int:
        return self.history[-1][1]

    @property
    def is_released(self) -> bool:
        return self.history[-1][1] < 0


class LeaseModel:
    """The groups of all queues: by the queue, those that are open by name, and all by incarnation."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.groups: dict[Incarnation, dict[str, LeaseGroup]] = {}
        self.counts = {"claimed": 0, "acked": 0, "released": 0}
        self._was_durable: dict[Copy, bool] = {}

    def open_groups(self, queue: Incarnation) -> dict[str, LeaseGroup]:
        """Those that are open, by name."""
        known = self.groups.get(queue, {})
        return {group.name: group for group in known.values() if not group.is_released}

    # -- what is done ------------------------------------------------------------------------------------------------

    def opened(self, queue: Incarnation, name: str, incarnation: str, owner: str) -> None:
        """A group is made, or has another owner."""
        group = self.open_groups(queue).get(name)
        if group is None:
            group = LeaseGroup(name, incarnation, owner, [], [(self._model.turn, 0, 0)])
            self.groups.setdefault(queue, {})[incarnation] = group
        group.owner = owner

    def claimed(self, queue: Incarnation, name: str, numbers: list[int]) -> None:
        """The group has taken these messages, in this order. Raises Violation."""
        model = self._model
        group = self.open_groups(queue)[name]
        before: Copy | None = None
        for number in numbers:
            copy = queue.copies.get((number, ""))
            if copy is None or copy.state != READY:
                raise Violation(f"message {number} is claimed from '{queue.spec.name}': {copy}")
            if before is not None and copy.is_ordered and before.is_ordered and _comes_first(copy, before):
                raise Violation(f"{copy} is claimed after {before}")
            before = copy
            self._was_durable.setdefault(copy, copy.is_durable)
            if queue.spec.is_durable and not copy.is_durable:
                copy.is_durable = True
                copy.stored_turn = 0
            copy.state = LEASED
            copy.is_maybe = False
            copy.was_delivered = True
            group.log.append(copy)
        for other in queue.copies.values():
            if before is not None and other.is_ordered and model.is_surely_ready(other) and _comes_first(other, before):
                raise Violation(f"{before} is claimed while {other} waits before it")
        self.counts["claimed"] += len(numbers)
        group.history.append((model.turn, group.trimmed, len(group.log)))

    def acked(self, queue: Incarnation, name: str, upto: int) -> None:
        """The group is done with what is below `upto`."""
        group = self.open_groups(queue)[name]
        for copy in group.log[group.trimmed : upto]:
            self._model._settle(copy, "lease")
        self.counts["acked"] += upto - group.trimmed
        group.history.append((self._model.turn, upto, len(group.log)))

    def released(self, queue: Incarnation, name: str) -> None:
        """The group is gone, and what it held is back."""
        group = self.open_groups(queue)[name]
        for copy in group.log[group.trimmed :]:
            self._model._requeue(copy)
        self.counts["released"] += len(group.log) - group.trimmed
        group.history.append((self._model.turn, -1, len(group.log)))

    # -- crashes -------------------------------------------------------------------------------------------------------

    def recover(self, found: dict[Incarnation, dict[str, tuple[str, str, int, list[int]]]]) -> list[Copy]:
        """Before the model recovers. found: for each queue that is there again its groups: (incarnation, owner,
        trimmed, numbers of what it holds). Returns what is leased. Raises Violation."""
        leased: list[Copy] = []
        groups: dict[Incarnation, dict[str, LeaseGroup]] = {}
        for queue, known in self.groups.items():
            if queue not in found:
                continue
            there = {facts[0]: facts for facts in found[queue].values()}
            for incarnation, group in known.items():
                facts = there.pop(incarnation, None)
                if facts is None:
                    self._is_not_there(queue, group)
                else:
                    leased += self._is_there(queue, group, facts)
                    groups.setdefault(queue, {})[incarnation] = group
            if there:
                raise Violation(f"groups of '{queue.spec.name}' are there that nobody made: {there}")
        for queue, facts_by_name in found.items():
            if facts_by_name and queue not in self.groups:
                raise Violation(f"groups of '{queue.spec.name}' are there that nobody made: {facts_by_name}")
        self.groups = groups
        return leased

    def _is_not_there(self, queue: Incarnation, group: LeaseGroup) -> None:
        """It was released, or its opening was not durable."""
        durable = self._durable(group)
        if durable is not None and durable[1] >= 0 and not group.is_released:
            raise Violation(f"group '{group.name}' of '{queue.spec.name}' is lost")
        is_surely_released = durable is not None
        for copy in group.log:
            if not self._was_durable[copy] and not is_surely_released:
                # Its claim, and so all that it owes its being on the disk to, is lost; or all of it is there.
                copy.is_maybe = True
            if copy.state == LEASED or (copy.reason == "lease" and durable is None):
                copy.state = READY
                copy.reason = ""
                copy.is_durable = self._was_durable[copy]

    def _is_there(self, queue: Incarnation, group: LeaseGroup, facts: tuple[str, str, int, list[int]]) -> list[Copy]:
        _, owner, trimmed, numbers = facts
        durable = self._durable(group)
        if durable is not None and durable[1] < 0:
            raise Violation(f"group '{group.name}' of '{queue.spec.name}' is back: it was released")
        least = durable if durable is not None else (0, 0, 0)
        steps = [(low, high) for turn, low, high in group.history if low >= 0 and turn >= least[0]]
        end = trimmed + len(numbers)
        if (trimmed, end) not in steps:
            raise Violation(f"group '{group.name}' holds {trimmed}..{end} after the restart, it may hold {steps}")
        held = group.log[trimmed:end]
        if [copy.message.number for copy in held] != numbers:
            raise Violation(f"group '{group.name}' holds {numbers}, it held {[str(copy) for copy in held]}")
        for copy in group.log[:trimmed]:
            if copy.reason == "lease":
                copy.settled_turn = 0  # for good
        for copy in held:
            if copy.state == GONE and copy.settled_turn <= self._model.durable_turn:
                raise Violation(f"{copy} is leased again: it was settled")
            copy.state = HELD
            copy.is_durable = True
            copy.is_maybe = False
        for copy in group.log[end:]:
            if copy.state == LEASED or copy.reason == "lease":
                copy.state = READY
                copy.reason = ""
                copy.is_durable = self._was_durable[copy]
        group.log = group.log[:end]
        group.owner = owner
        group.history = [(self._model.turn, trimmed, end)]
        return held

    def recovered(self, leased: list[Copy]) -> None:
        """After the model has recovered."""
        for copy in leased:
            copy.state = LEASED
            copy.is_maybe = False
            copy.stored_turn = 0
            self._was_durable[copy] = True

    def _durable(self, group: LeaseGroup) -> tuple[int, int, int] | None:
        """The last step that is durable."""
        steps = [step for step in group.history if step[0] <= self._model.durable_turn]
        return steps[-1] if steps else None


def _comes_first(copy: Copy, other: Copy) -> bool:
    return copy.level > other.level or (copy.level == other.level and copy.place < other.place)
