"""What happens to a simulated cluster: proposals, faults of all kinds, and then peace, in which it must converge."""

from __future__ import annotations

from collections.abc import Callable

from raft.membership import MembershipResult, TransferResult
from tests.raft.raft_node import Item
from tests.raft.simulation_checks import Violation
from tests.raft.simulation_node import SimulatedNode
from tests.raft.simulation_world import MS, SECOND, World


class Storm(World):
    """A run: `run` takes it from the start to the end, or raises Violation."""

    #: Names of the only faults, if a test wants certain ones, and how long it is from one to the next (ms).
    faults: tuple[str, ...] = ()
    calm = (10, 600)
    downtime: tuple[int, ...] = (1, 50, 500, 3000)

    def run(self, seconds: int = 12) -> None:
        for node in self.nodes.values():
            self.start(node)
        self._faults = self._draw_faults()
        self._is_over = False
        self._serial = 0
        self._propose_later()
        self._fault_later()
        try:
            self.run_until(seconds * SECOND)
            self._make_peace()
            self._converge()
        except Violation as error:
            raise Violation(f"seed {self.seed} at {self.time / SECOND:.4f} s: {error}") from error

    # -- proposals -----------------------------------------------------------------------------------------------------

    def _propose_later(self) -> None:
        def propose() -> None:
            if not self._is_over:
                self._propose()
                self._propose_later()

        self.after(self.chance.randint(1 * MS, 30 * MS), propose)

    def _propose(self) -> None:
        """To whoever believes that it leads."""
        group = self.chance.choice(self.group_ids)
        leaders = [node for node in self.nodes.values() if node.is_up and node.group(group).is_leader]
        if leaders:
            node = self.chance.choice(leaders)
            self.on_node(node, 0, lambda now: self._propose_to(node, group, self.chance.choice([1, 1, 3, 10])))

    def _propose_to(self, node: SimulatedNode, group: int, count: int) -> None:
        for _ in range(count):
            self._serial += 1
            data = b"%d:" % self._serial + bytes(self.chance.choice([0, 5, 50, 300]))
            if node.group(group).propose(data):
                self.checks.proposed(node, group, data)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _draw_faults(self) -> list[Callable[[], None]]:
        """Each seed has some kinds of faults, and each of them with its own weight."""
        kinds = [
            self._crash_one, self._crash_one, self._crash_leader, self._crash_all, self._partition,
            self._partition_one_way, self._heal, self._heal, self._pause, self._jump, self._stall, self._fail_disk,
            self._change_members, self._change_members, self._transfer, self._reset_link,
        ]  # fmt: skip
        if self.faults:
            return [getattr(self, name) for name in self.faults]
        chosen = [kind for kind in kinds if self.chance.random() < 0.6]
        return [kind for kind in chosen for _ in range(self.chance.randint(1, 4))] or [self._crash_one]

    def _fault_later(self) -> None:
        def strike() -> None:
            if not self._is_over:
                self.chance.choice(self._faults)()
                self._fault_later()

        self.after(self.chance.randint(self.calm[0] * MS, self.calm[1] * MS), strike)

    def _up(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.is_up]

    def _crash_one(self) -> None:
        if self._up():
            self._crash_for_a_while(self.chance.choice(self._up()))

    def _crash_leader(self) -> None:
        leaders = [node for node in self._up() if any(group.is_leader for group in node.host.groups.values())]
        if leaders:
            self._crash_for_a_while(self.chance.choice(leaders))

    def _crash_all(self) -> None:
        for node in self._up():
            self._crash_for_a_while(node)

    def _crash_for_a_while(self, node: SimulatedNode) -> None:
        self.crash(node)
        lives = node.lives

        def start() -> None:
            if not node.is_up and node.lives == lives:
                self.start(node)

        self.after(self.chance.choice(self.downtime) * MS, start)

    def _partition(self) -> None:
        side = [name for name in self.names if self.chance.random() < 0.5]
        self.note(f"partition: {side} and the others")
        self.counts["partitions"] += 1
        for name in self.names:
            for other in self.names:
                if (name in side) != (other in side):
                    self.blocked[name, other] = None

    def _partition_one_way(self) -> None:
        name, other = self.chance.sample(self.names, 2)
        self.note(f"nothing goes from {name} to {other}")
        self.counts["one-way partitions"] += 1
        self.blocked[name, other] = None

    def _heal(self) -> None:
        self.note("all links work again")
        self.blocked.clear()

    def _reset_link(self) -> None:
        """A connection breaks and is made again."""
        if len(self._up()) < 2:
            return
        node, other = self.chance.sample(self._up(), 2)
        self._unlink(node, other.name)
        self._unlink(other, node.name)
        self.after(self.chance.randint(1, 300) * MS, lambda: self._link_again(node, other))

    def _link_again(self, node: SimulatedNode, other: SimulatedNode) -> None:
        if node.is_up and other.is_up:
            self.link(node, other)

    def _pause(self) -> None:
        node = self.chance.choice(list(self.nodes.values()))
        node.frozen_until = self.time + self.chance.choice([30, 300, 2000]) * MS
        self.note(f"{node.name} is paused until {node.frozen_until / SECOND:.3f}")
        self.counts["pauses"] += 1

    def _jump(self) -> None:
        node = self.chance.choice(list(self.nodes.values()))
        node.offset += self.chance.choice([-3_600_000, -700, 700, 3_600_000])
        self.note(f"the clock of {node.name} is set")
        self.counts["clock jumps"] += 1
        if node.is_up:
            self.on_node(node, 0, node.host.tick)

    def _stall(self) -> None:
        node = self.chance.choice(list(self.nodes.values()))
        node.stalls_until = self.time + self.chance.choice([50, 500, 3000]) * MS
        self.note(f"the disk of {node.name} stalls")
        self.counts["stalls"] += 1

    def _fail_disk(self) -> None:
        if not self._up():
            return
        node = self.chance.choice(self._up())
        node.disk.fail_sync_at = self.chance.randint(1, 3)
        lives = node.lives

        def start() -> None:
            if not node.is_up and node.lives == lives:
                self.start(node)

        self.after(self.chance.choice([500, 2000]) * MS, start)

    def _leader_of(self, group: int) -> SimulatedNode | None:
        leaders = [node for node in self._up() if node.group(group).is_leader]
        return max(leaders, key=lambda node: node.group(group).term) if leaders else None

    def _change_members(self) -> None:
        group = self.chance.choice(self.group_ids)
        node, name = self._leader_of(group), self.chance.choice(self.names)
        if node is not None:
            self.on_node(node, 0, lambda now: self._change(node, group, name))

    def _change(self, node: SimulatedNode, group_id: int, name: str) -> None:
        group = node.group(group_id)
        if name in group.members and len(group.members) <= 3:
            return  # too few are left for the faults that this world has
        is_member = name in group.members or name in group.learners
        result = group.remove_member(name) if is_member else group.add_member(name)
        self.note(f"{node.name}: {'remove' if is_member else 'add'} {name} in group {group_id}: {result.name}")
        if result is MembershipResult.ACCEPTED:
            self.counts["membership changes"] += 1

    def _transfer(self) -> None:
        group = self.chance.choice(self.group_ids)
        node = self._leader_of(group)
        if node is not None:
            self.on_node(node, 0, lambda now: self._transfer_from(node, group))

    def _transfer_from(self, node: SimulatedNode, group_id: int) -> None:
        name = self.chance.choice(self.names)
        if node.group(group_id).transfer_leadership(name) is TransferResult.STARTED:
            self.note(f"{node.name}: group {group_id} is handed over to {name}")
            self.counts["transfers"] += 1

    # -- the end -------------------------------------------------------------------------------------------------------

    def _make_peace(self) -> None:
        self.note("peace")
        self._is_over = True
        self.blocked.clear()
        self.loss = self.copies = 0.0
        self.is_wild = False
        for node in self.nodes.values():
            node.stalls_until = 0
            node.disk.fail_sync_at = None
        for node in self.nodes.values():
            if not node.is_up:
                self.start(node)
        for node in self.nodes.values():
            for other in self.nodes.values():
                if node.name < other.name:
                    self._unlink(node, other.name)
                    self._unlink(other, node.name)
                    self.after(10 * MS, lambda node=node, other=other: self._link_again(node, other))  # type: ignore[misc]

    def _converge(self) -> None:
        """Every group elects, commits something new, and all of its members get to the same state."""
        for group in self.group_ids:
            probe = b""
            for _ in range(150):
                self.run_until(self.time + 200 * MS)
                node = self._leader_of(group)
                if node is None:
                    continue
                if not probe or (group, probe) not in self.checks.acknowledged:
                    self._serial += 1
                    probe = b"probe %d" % self._serial
                    self._probe(node, group, probe)
                elif self._has_converged(node, group):
                    break
            else:
                states = [each.group(group).statistics() for each in self.nodes.values()]
                raise Violation("no convergence:\n" + "\n".join(map(str, states)))
            self.checks.at_the_end(group, self._states(node, group))
        self._count()

    def _probe(self, node: SimulatedNode, group: int, probe: bytes) -> None:
        def propose(now: int) -> None:
            if node.group(group).propose(probe):
                self.checks.proposed(node, group, probe)

        self.turn(node, propose)

    def _everybody(self, node: SimulatedNode, group: int) -> list[SimulatedNode]:
        configuration = node.group(group).member.configuration
        return [self.nodes[name] for name in configuration.everybody]

    def _has_converged(self, node: SimulatedNode, group: int) -> bool:
        leader = node.group(group)
        return not leader.learners and all(
            each.group(group).last_applied == leader.last_index for each in self._everybody(node, group)
        )

    def _states(self, node: SimulatedNode, group: int) -> dict[str, list[Item]]:
        return {each.name: each.machines[group].items for each in self._everybody(node, group)}

    def _count(self) -> None:
        for node in self.nodes.values():
            self.counts["retired segments"] += node.port.retired
            for machine in node.machines.values():
                self.counts["installs"] += machine.installs
                self.counts["aborted installs"] += machine.aborted_installs
        self.counts["terms"] = max(self.checks.terms())
