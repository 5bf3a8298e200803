"""The metadata machine against a naive one, its snapshots, and the JSON form of its commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from amqp_broker.metadata.commands import Command, check_command
from amqp_broker.metadata.metadata import Metadata
from tests.metadata import metadata_model
from tests.metadata import metadata_strategies as strategies
from tests.metadata.drafts import draft_of

Jobs = list[Callable[[int], bool]]
#: Every how many commands what is left to be done in slices gets one; 0: never.
paces = st.sampled_from([0, 1, 3])


def applied(history: list[Command], pace: int = 1) -> Metadata:
    jobs: Jobs = []
    metadata = Metadata(jobs.append)
    for number, command in enumerate(history, 1):
        metadata.apply(command)
        do_slice(jobs, number, pace)
    return metadata


def do_slice(jobs: Jobs, number: int, pace: int) -> None:
    if jobs and pace and number % pace == 0 and not jobs[0](0):
        del jobs[0]


def contents(metadata: Metadata) -> dict[str, list[dict[str, Any]]]:
    """What the machine holds, read through its listings, in the form of the model."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in metadata_model.TABLES}
    for vhost in metadata.vhosts():
        rows["vhosts"].append(
            {
                "key": (vhost.name,),
                "description": vhost.description,
                "tags": list(vhost.tags),
                "default_queue_type": vhost.default_queue_type,
                "tracing": vhost.tracing,
                "limits": dict(vhost.limits),
                "protected": vhost.is_protected,
            }
        )
        add_vhost_contents(rows, metadata, vhost.name)
    rows["users"] = [
        {
            "key": (user.name,),
            "password_hash": user.password_hash,
            "tags": list(user.tags),
            "limits": dict(user.limits),
        }
        for user in metadata.users()
    ]
    rows["permissions"] = [
        {
            "key": (grant.user, grant.vhost),
            "configure": grant.configure,
            "write": grant.write,
            "read": grant.read,
        }
        for grant in metadata.permissions()
    ]
    rows["topic_permissions"] = [
        {"key": (grant.user, grant.vhost, grant.exchange), "write": grant.write, "read": grant.read}
        for grant in metadata.topic_permissions()
    ]
    rows["global_parameters"] = [
        {"key": (found.name,), "value": found.value} for found in metadata.global_parameters()
    ]
    rows["members"] = [
        {"key": (node,), "address": address, "identity": metadata.identity_of(node)}
        for node, address in metadata.members().items()
    ]
    return rows


def add_vhost_contents(rows: dict[str, list[dict[str, Any]]], metadata: Metadata, name: str) -> None:
    """What there is in the virtual host of that name, added to the tables."""
    for table, policies in (
        ("policies", metadata.policies(name)),
        ("operator_policies", metadata.operator_policies(name)),
    ):
        rows[table] += [
            {
                "key": (name, policy.name),
                "pattern": policy.pattern,
                "apply_to": policy.apply_to,
                "priority": policy.priority,
                "definition": policy.definition,
            }
            for policy in policies
        ]
    rows["parameters"] += [
        {"key": (name, found.component, found.name), "value": found.value}
        for found in metadata.parameters(name)
    ]
    rows["apps"] += [{"key": (name, app.name), "home": app.home, "user": app.user} for app in metadata.apps(name)]
    for exchange in metadata.exchanges(name):
        row: dict[str, Any] = {"key": (name, exchange.name), "predeclared": exchange.is_predeclared}
        if not exchange.is_predeclared:
            row |= {
                "type": exchange.type,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments_raw": exchange.arguments_raw.hex(),
                "durable": exchange.durable,
                "number": exchange.number,
            }
        rows["exchanges"].append(row)
    rows["queues"] += [
        {
            "key": (name, queue.name),
            "queue_id": queue.queue_id,
            "type": queue.type,
            "auto_delete": queue.auto_delete,
            "arguments_raw": queue.arguments_raw.hex(),
            "durable": queue.durable,
            "exclusive": queue.exclusive,
            "home": queue.home, "part_of": queue.part_of,
        }
        for queue in metadata.queues(name)
    ]
    rows["bindings"] += [{"key": (name, *binding)} for binding in metadata.bindings(name)]


def as_text(rows: list[dict[str, Any]]) -> list[str]:
    """Rows that can be compared by type as well as value, whatever their order."""
    return sorted(json.dumps({**row, "key": repr(row["key"])}, sort_keys=True) for row in rows)


def assert_lookups_agree(metadata: Metadata, model: metadata_model.NaiveMetadata) -> None:
    for vhost in strategies.VHOSTS:
        assert (metadata.vhost(vhost) is None) == (model.find("vhosts", vhost) is None)
        assert metadata.queue_count(vhost) == len(metadata.queues(vhost))
        rows = [row["key"] for row in model.tables["bindings"] if row["key"][0] == vhost]
        assert [(vhost, *binding) for binding in metadata.bindings(vhost)] == rows, (
            "bindings keep their order"
        )
        for name in strategies.EXCHANGES:
            assert (metadata.exchange(vhost, name) is None) == (model.find("exchanges", vhost, name) is None)
            to_exchange = [(vhost, *binding) for binding in metadata.bindings_to(vhost, "exchange", name)]
            assert to_exchange == [row for row in rows if row[2:4] == ("exchange", name)]
        for name in strategies.QUEUES:
            row = model.find("queues", vhost, name)
            queue = metadata.queue(vhost, name)
            assert (queue and queue.queue_id) == (row and row["queue_id"])
            if queue is not None:
                assert metadata.queue_by_id(queue.queue_id) is queue
            to_queue = [(vhost, *binding) for binding in metadata.bindings_to(vhost, "queue", name)]
            assert to_queue == [row for row in rows if row[2:4] == ("queue", name)]
        for user in strategies.USERS:
            assert (metadata.permission(user, vhost) is None) == (
                model.find("permissions", user, vhost) is None
            )
            for name in strategies.EXCHANGES:
                grant = metadata.topic_permission(user, vhost, name)
                assert (grant is None) == (model.find("topic_permissions", user, vhost, name) is None)
        for component in strategies.NAMES:
            for name in strategies.NAMES:
                parameter = metadata.parameter(vhost, component, name)
                assert (parameter is None) == (model.find("parameters", vhost, component, name) is None)
    live = sorted(row["queue_id"] for row in model.tables["queues"])
    assert [number for number in range(model.next_queue_id) if metadata.queue_by_id(number)] == live
    assert [queue.queue_id for queue in metadata.all_queues()] == live
    for node in strategies.NODES:
        assert metadata.count_at(node) == sum(row["home"] == node for row in model.tables["queues"])
        found = [queue.name for queue in metadata.transients(node)]
        rows = [row for row in model.tables["queues"] if row["home"] == node and not row["durable"]]
        assert sorted(found) == sorted(row["key"][1] for row in rows)


@given(strategies.histories, paces)
def test_does_what_a_naive_machine_does(history: list[Command], pace: int) -> None:
    jobs: Jobs = []
    metadata, model = Metadata(jobs.append), metadata_model.NaiveMetadata()
    for number, command in enumerate(history, 1):
        do_slice(jobs, number, pace)
        before = (metadata.access_generation, metadata.policy_generation)
        changed = metadata.apply(command)
        assert changed == model.apply(command), command
        event(f"{command['op']} {'changed' if changed else 'passed over'}")
        assert metadata.next_queue_id == model.next_queue_id
        assert_generations_moved(metadata, before, command["op"], changed)
    for table, rows in contents(metadata).items():
        assert as_text(rows) == as_text(model.tables[table]), table
    assert_lookups_agree(metadata, model)


def assert_generations_moved(metadata: Metadata, before: tuple[int, int], op: str, changed: bool) -> None:
    access = op.startswith(("user", "permission", "topic_permission")) or op == "vhost.delete"
    policies = op.startswith(("policy", "operator_policy")) or op == "vhost.delete"
    assert metadata.access_generation == before[0] + (changed and access)
    assert metadata.policy_generation == before[1] + (changed and policies)


@given(strategies.histories)
def test_a_command_changes_nothing_the_second_time(history: list[Command]) -> None:
    metadata = Metadata()
    for command in history:
        metadata.apply(command)
        snapshot = metadata.snapshot()
        assert not metadata.apply(command), command
        assert metadata.snapshot() == snapshot


@given(strategies.histories, paces)
def test_a_snapshot_makes_an_equal_machine(history: list[Command], pace: int) -> None:
    metadata = applied(history, pace)
    snapshot = metadata.snapshot()
    again = Metadata()
    for command in snapshot:
        check_command(command)
        # Of the reservation there may be nothing left to do.
        assert again.apply(command) or command["op"] == "queue_id.reserve", command
    assert again.snapshot() == snapshot
    assert [json.loads(line) for line in metadata.snapshot_lines()] == snapshot
    assert contents(again) == contents(metadata), "the orders included"
    assert again.next_queue_id == metadata.next_queue_id
    for vhost in strategies.VHOSTS:
        for name in strategies.EXCHANGES:
            assert again.bindings_to(vhost, "exchange", name) == metadata.bindings_to(vhost, "exchange", name)
        for name in strategies.QUEUES:
            assert again.bindings_to(vhost, "queue", name) == metadata.bindings_to(vhost, "queue", name)


@given(strategies.histories)
def test_commands_survive_json(history: list[Command]) -> None:
    written = [json.dumps(command) for command in history]
    read = [json.loads(line) for line in written]
    assert read == history
    assert applied(read).snapshot() == applied(history).snapshot()


@given(strategies.histories, strategies.histories, paces)
def test_a_draft_without_the_bindings_goes_its_own_way(
    history: list[Command], more: list[Command], pace: int
) -> None:
    metadata = applied(history, pace)
    before = metadata.snapshot()
    draft = draft_of(metadata)
    assert draft.snapshot() == without_bindings(before)
    for command in more:
        draft.apply(command)
    assert metadata.snapshot() == before
    assert without_bindings(draft.snapshot()) == without_bindings(applied(history + more).snapshot())


def without_bindings(taken: list[Command]) -> list[Command]:
    return [command for command in taken if command["op"] != "binding.add"]
