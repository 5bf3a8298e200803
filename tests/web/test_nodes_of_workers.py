"""A node of several processes in the list of nodes: what one of them is short of, the node is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoints.cluster import list_attempts
from amqp_broker.web.endpoints.nodes import show_node
from amqp_broker.web.rates import Readings
from amqp_broker.web.totals import sums_of
from amqp_broker.web.workers import whole_node

NAMES = ("n1", "n1/1", "n2", "n2/1")


def facts_of(name: str, **more: object) -> dict[str, Any]:
    return {
        "name": name.partition("/")[0], "at": 1000, "started_at": 0, "mem_limit": 100, "mem_used": 10,
        "mem_alarm": False, "disk_free_alarm": False, "being_drained": False, "sockets_used": 3, **more,
    }  # fmt: skip


def counted(number: int) -> dict[str, Any]:
    attempts = {"amqp091": {"attempts": number, "failed": 1, "succeeded": number - 1}}
    return {"connection_created": number, "io_write_count": 10 * number, "io_sync_ms": 8, "io_sync_count": 2,
            "auth_attempts": attempts}  # fmt: skip


def asked(name: str, facts: dict[str, dict[str, Any]], gone: tuple[str, ...] = ()) -> Asked:
    counts = {each: counted(number) for number, each in enumerate(NAMES, 1)}
    totals = {
        **counts["n1"], "node": "n1", "at": 1000, "stale": list(gone),
        "nodes": {each: counts[each] for each in NAMES if each not in gone},
        "before": {each: counts[each] for each in gone},
    }  # fmt: skip
    node = {**facts["n1"], "members": ["n1", "n2"], "nodes": facts}
    services = SimpleNamespace(
        totals=SimpleNamespace(read=lambda: totals),
        node=SimpleNamespace(request=lambda verb, **fields: node),
        readings=Readings(10),
        places=(),
    )
    user = SimpleNamespace(name="guest")
    return Asked(cast("Any", services), cast("Any", user), "GET", f"/nodes/{name}", {"node": name})


@pytest.mark.parametrize("name", ["n1", "n2"])
@pytest.mark.parametrize("field", ["mem_alarm", "disk_free_alarm", "being_drained"])
def test_an_alarm_of_any_worker_is_the_nodes(name: str, field: str) -> None:
    facts = {each: facts_of(each) for each in NAMES}
    facts[f"{name}/1"][field] = True
    for each in ("n1", "n2"):
        shown = show_node(asked(each, facts)).value
        assert shown[field] is (each == name)
        assert (shown["mem_limit"], shown["sockets_used"]) == (200, 6)


@pytest.mark.parametrize("gone", [(), ("n2/1",)], ids=["all", "one gone"])
def test_what_all_workers_have_counted_is_the_nodes(gone: tuple[str, ...]) -> None:
    """Of one that does not answer what was heard last: counters do not fall."""
    facts = {each: facts_of(each) for each in NAMES if each not in gone}
    for name, whole in (("n1", 3), ("n2", 7)):
        shown = show_node(asked(name, facts, gone)).value
        assert (shown["connection_created"], shown["io_write_count"]) == (whole, 10 * whole)
        assert shown["io_sync_avg_time"] == 4
        (row,) = list_attempts(asked(name, facts, gone)).value
        assert row["auth_attempts"] == whole
    assert show_node(asked("n2", facts, gone)).value["mem_used"] == 20 - 10 * len(gone)


def test_the_memory_of_a_node_is_what_it_is_set_to_however_it_is_lent() -> None:
    """Some of it is on its way from one worker to another, or one of them does not answer."""
    facts = {each: facts_of(each, mem_limit=30, memory_budget=100) for each in ("n1", "n1/1", "n2")}
    for each in ("n1", "n2"):
        assert show_node(asked(each, facts)).value["mem_limit"] == 100
    parts = {each: {"memory_budget": 30, "memory_budget_of_node": 100} for each in facts}
    old = {"memory_budget": 40}
    told = {"node": "n1", "at": 1, "nodes": {**parts, "n3": old, "n3/1": old}, "before": {}, "stale": []}
    assert sums_of(told)["memory_budget"] == 280
    assert [whole_node(told, each)["memory_budget"] for each in ("n1", "n2", "n3")] == [100, 100, 80]


@pytest.mark.parametrize(("name", "rack"), [("n1", "a"), ("n2", "")])
@pytest.mark.parametrize("is_down", [False, True])
def test_a_node_shows_its_rack_also_when_it_is_down(name: str, rack: str, is_down: bool) -> None:
    facts = {each: facts_of(each, racks={"n1": "a"}) for each in NAMES}
    wanted = asked(name, facts)
    if is_down:
        del facts[name]
    shown: Any = show_node(wanted).value
    assert (shown["rack"], shown["running"]) == (rack, not is_down)
