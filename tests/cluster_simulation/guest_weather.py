"""GuestWeather: groups of queues are on some of the nodes, grow and shrink, while everything else goes wrong.

Nodes are in racks, and come to be in others: that is known everywhere at the end.
"""

from __future__ import annotations

import random
from typing import Any

from amqp_broker.management.request import Request
from amqp_broker.management.verbs.groups import GroupVerbs
from tests.cluster_simulation.cluster_node import ClusterNode
from tests.cluster_simulation.weather import Weather
from tests.simulation.state import Violation


def _configs_of(node: ClusterNode) -> tuple[Any, ...]:
    return tuple(node.configs) if hasattr(node, "configs") else (node.config,)


class GuestWeather(Weather):
    """One node more than are asked for, so that each group of three has a guest."""

    faults = (
        "regroup", "regroup", "regroup", "crash_one", "crash_leader", "partition", "heal", "heal", "reset_link",
        "freeze", "stall", "transfer",
    )  # fmt: skip
    pause = (10, 200)
    downtime = (1, 50, 300)

    def __init__(self, seed: int, size: int = 3, trace: Any = None) -> None:
        super().__init__(seed, size + 1, trace)
        self._groups_chance = random.Random(f"groups {seed}")
        wanted = self._groups_chance.choice([1, size, size])
        self._racks: dict[str, str] = {}
        for name, node in self.nodes.items():
            for config in _configs_of(node):
                object.__setattr__(config, "quorum_size", wanted)
            self._put_into_rack(name)

    def _put_into_rack(self, name: str) -> None:
        """As its settings say from now on."""
        self._racks[name] = self._groups_chance.choice(["", "a", "b", "c"])
        for config in _configs_of(self.nodes[name]):
            object.__setattr__(config, "rack", self._racks[name])

    def _begin(self) -> None:
        super()._begin()
        self.wait_for(self._are_placed, "groups are on some of the nodes")

    def _are_placed(self) -> bool:
        return all(group.guest is not None or not group.raft.is_outside for group in self.groups()) and any(
            group.guest is not None and group.guest.leader is not None for group in self.groups()
        )

    def groups(self) -> list[Any]:
        """Of queues, on all nodes that are up."""
        return [group for node in self.up() for group in node.node.groups.all.values()]

    def regroup(self) -> None:
        """Somebody is asked to have a node come into a group, or leave it; or a node is in another rack."""
        if self._groups_chance.random() < 0.2:
            self._put_into_rack(self._groups_chance.choice(list(self.nodes)))
            self.counts["racks"] += 1
        if not self.serving():
            return
        if self._groups_chance.random() < 0.2:
            self.ask_members(self._groups_chance.choice(self.serving()), "queues.rebalance", {})
            return
        asked: ClusterNode = self.chance.choice(self.serving())
        node = self.chance.choice(list(self.nodes))
        names = [record.name for record in asked.node.broker.metadata.queues("/") if record.type == "quorum"]
        verb = self.chance.choice(["queues.grow", "queues.grow", "queues.shrink"])
        fields: dict[str, object] = {"node": node}
        if names:
            fields |= {"vhost": "/", "queue": self.chance.choice(names)}

        self.ask_members(asked, verb, fields)

    def ask_members(self, asked: ClusterNode, verb: str, fields: dict[str, object]) -> None:
        """Have a node ask for other members of groups. It may be refused."""

        def ask(now: int) -> None:
            broker = asked.node
            verbs = GroupVerbs(broker.broker.metadata, broker.replication, broker.membership, broker.groups).verbs
            try:
                verbs[verb](Request(fields))
            except ValueError as error:
                self.note(f"{asked.name}: {verb} {fields}: {error}")
                return
            self.note(f"{asked.name}: {verb} {fields}")
            self.counts[verb] += 1

        self.on_node(asked, 0, ask)

    def _check_rest(self) -> None:
        super()._check_rest()
        for node in self.serving():
            metadata = node.node.broker.metadata
            known, racks = dict(metadata.member_racks()), {name: self._racks[name] for name in metadata.members()}
            if known != racks:
                raise Violation(f"{node.name} knows the racks {known}, and they are {racks}")

    def _dismiss(self) -> None:
        super()._dismiss()
        self.counts["guests"] += sum(group.guest is not None for group in self.groups())
