"""What a node of several workers counts and uses: each of them, and all together. `totals` and `facts` as the verbs
`totals` and `node` answer."""

from __future__ import annotations

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.settings.workers import node_of_worker, worker_number
from amqp_broker.web.machine import Usage, usage_of
from amqp_broker.web.totals import SHARED, budget_of


def workers_of(totals: JsonObject) -> dict[int, JsonObject]:
    """By number what each has said, and of those that do not answer {}. None at all of a node that is one process."""
    node = node_of_worker(totals["node"])
    names = [name for name in (*totals["nodes"], *totals["stale"]) if node_of_worker(name) == node]
    if len(names) == 1:
        return {}
    return {worker_number(name): totals["nodes"].get(name, {}) for name in sorted(names, key=worker_number)}


def facts_of_workers(facts: JsonObject) -> dict[int, JsonObject]:
    """By number what each that answers says of itself; of a node that is one process that of number 0. {} without
    facts."""
    nodes = facts.get("nodes", {})
    own = [name for name in nodes if node_of_worker(name) == facts["name"]]
    return {worker_number(name): nodes[name] for name in sorted(own, key=worker_number)}


def usages_of(facts: JsonObject) -> dict[int, Usage]:
    """By number what each that answers uses of the machine."""
    return {
        worker: usage_of(int(told.get("os_pid") or 0), told.get("data_dir"))
        for worker, told in facts_of_workers(facts).items()
    }


def whole_node(totals: JsonObject, name: str | None = None) -> JsonObject:
    """Totals of which those of the asked worker are the node's: sums, of those that do not answer the counters that
    were heard last. name: of another node, whose they are to be."""
    node = node_of_worker(totals["node"]) if name is None else name
    parts = {**totals["before"], **totals["nodes"]}
    found: JsonObject = {}
    for worker, counted in parts.items():
        if node_of_worker(worker) == node:
            found = {**_sum(counted, found), "at": totals["at"]}
    if "memory_budget" in found:
        found["memory_budget"] = budget_of([found])
    return {**totals, **found} if name is None else found


def _sum(counted: JsonValue, before: JsonValue, name: str = "") -> JsonValue:
    """Numbers, and whatever of lists and objects are numbers, two and two."""
    if isinstance(counted, dict):
        known = before if isinstance(before, dict) else {}
        return {**known, **{key: _sum(value, known.get(key), key) for key, value in counted.items()}}
    if isinstance(counted, list):
        others = before if isinstance(before, list) else [0] * len(counted)
        return [_sum(value, other) for value, other in zip(counted, others, strict=True)]
    if before is None:
        return counted
    return max(counted, before) if name in SHARED else counted + before
