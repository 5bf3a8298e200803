"""Totals: what the node counts as a whole, with an hour of what it counted before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.settings.workers import node_of_worker
from amqp_broker.web.node_client import NodeClient
from amqp_broker.web.rates import History, Reading

REUSED_S: Final = 1.0
#: What all members know alike: the other counts are each node's own.
SHARED: Final = frozenset({"vhosts", "queues", "exchanges", "bindings", "memory_budget_of_node"})
#: What `deliver_get` is the sum of, as clients expect it.
DELIVERED: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")


class Totals:
    """clock: seconds that only grow. took_s: how long the node has taken for its last answer."""

    def __init__(self, node: NodeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._clock = clock
        self._guard = threading.Lock()
        self._last: JsonObject | None = None
        self._until = self.took_s = 0.0
        self._history = History()

    def read(self) -> JsonObject:
        """The counts, at most a second older than the node's. Raises SystemRequestError, NodeGone."""
        with self._guard:
            if self._last is None or self._clock() >= self._until:
                self._last = self._ask()
                self._until = self._clock() + REUSED_S
            return self._last

    def sample(self) -> None:
        """A reading for the history, too."""
        with self._guard:
            self._last = self._ask()
            self._until = self._clock() + REUSED_S
        self._history.add(int(time.time() * 1000) - self._last.get("age_ms", 0), sums_of(self._last))

    def readings(self) -> list[Reading]:
        """What was sampled, the oldest first."""
        return self._history.readings()

    def forget(self) -> None:
        with self._guard:
            self._last = None

    def _ask(self) -> JsonObject:
        began = self._clock()
        found = self._node.request("totals")
        self.took_s = self._clock() - began
        return found


def budget_of(workers: Iterable[JsonObject]) -> int:
    """The memory that all workers of a node may use for messages, octets: all of them know it alike. What each goes by
    is a part of it, which changes, and some of it is nobody's for a moment. Of a version before only the parts are
    known."""
    parts = list(workers)
    whole = max((int(each.get("memory_budget_of_node", 0)) for each in parts), default=0)
    return whole or sum(int(each.get("memory_budget", 0)) for each in parts)


def sums_of(totals: Mapping[str, JsonValue]) -> dict[str, int | float]:
    """The counts of all members that answered, together, and the counters of all others that the node has heard of:
    so counters do not fall while a member is away."""
    sums: dict[str, int | float] = {}
    for node in [*totals["nodes"].values(), *totals["before"].values()]:
        for name, value in node.items():
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                continue
            known = sums.get(name, 0)
            sums[name] = max(known, value) if name in SHARED else known + value
    hosts: dict[str, list[JsonObject]] = {}
    for name, node in totals["nodes"].items():
        hosts.setdefault(node_of_worker(name), []).append(node)
    sums["memory_budget"] = sum(map(budget_of, hosts.values()))
    sums["deliver_get"] = sum(sums.get(name, 0) for name in DELIVERED)
    return sums
