"""Definitions: files that RabbitMQ 3.10.8 wrote, our own, and what is wrong with bad ones."""

from __future__ import annotations

import copy
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from amqp_broker.auth.passwords import verify_password
from amqp_broker.links.levels import LEVEL
from amqp_broker.management.definitions import DefinitionsError, export, import_commands, plan_import
from amqp_broker.management.definitions.importing import Bounds
from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import BindingRecord, VHost
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.protocol.fields import decode_table, encode_table, typed
from amqp_broker.vhosts.policies import keys_without_effect
from tests.auth.hashed_password import hash_password
from tests.metadata import metadata_strategies

FILES = Path(__file__).parent


def zeros(count: int) -> bytes:
    return bytes(count)


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / name).read_text())
    return found


def latest() -> Metadata:
    """With nothing in it, where all members are of this version."""
    metadata = Metadata()
    metadata.apply(commands.raise_level(LEVEL))
    return metadata


def imported(definitions: dict[str, Any], metadata: Metadata | None = None, **options: Any) -> Metadata:
    metadata = metadata or latest()
    for command in import_commands(definitions, metadata, zeros, **options):
        assert metadata.apply(command), command
    return metadata


BOTH_EXPORTS = pytest.mark.parametrize("name", ["rabbitmq_3_10_8_http.json", "rabbitmq_3_10_8_ctl.json"])


@BOTH_EXPORTS
def test_users_and_what_they_may_do(name: str) -> None:
    metadata = imported(read(name))
    alice, without_password = metadata.user("alice"), metadata.user("nopw")
    assert alice is not None
    assert without_password is not None
    assert verify_password("secret", alice.password_hash)
    assert alice.tags == ("monitoring", "management")
    assert alice.limits == {"max-connections": 5}
    assert without_password.password_hash == ""
    guest = metadata.user("guest")
    assert guest is not None
    assert verify_password("guest", guest.password_hash)
    grant = metadata.permission("alice", "v1")
    assert grant is not None
    assert (grant.configure, grant.write, grant.read) == ("", "^(?!amq\\.).*", ".*")
    assert metadata.permission("alice", "/") is None
    topic = metadata.topic_permission("alice", "v1", "amq.topic")
    assert topic is not None
    assert (topic.write, topic.read) == ("^{username}-.*", "")


@BOTH_EXPORTS
def test_vhosts_policies_and_parameters(name: str) -> None:
    metadata = imported(read(name))
    assert [vhost.name for vhost in metadata.vhosts()] == ["/", "v1"]
    vhost = metadata.vhost("v1")
    assert vhost is not None
    assert vhost.limits == {"max-queues": 100}
    assert {(policy.name, policy.apply_to, policy.priority) for policy in metadata.policies("v1")} == {
        ("p1", "queues", 3),
        ("p2", "exchanges", 0),
        ("mirror", "queues", 1),
    }
    (operator_policy,) = metadata.operator_policies("v1")
    assert (operator_policy.name, operator_policy.pattern) == ("op1", ".*")
    assert operator_policy.definition == {"message-ttl": 500}
    assert [parameter.name for parameter in metadata.global_parameters()] == ["gp"]
    assert metadata.parameters("v1") == []


def test_the_command_line_exports_what_describes_a_vhost() -> None:
    vhost = imported(read("rabbitmq_3_10_8_ctl.json")).vhost("v1")
    assert vhost is not None
    assert (vhost.description, vhost.tags) == ("first", ("a", "b"))


@BOTH_EXPORTS
def test_exchanges_queues_and_bindings(name: str) -> None:
    metadata = imported(read(name))
    exchange, queue = metadata.exchange("v1", "e1"), metadata.queue("v1", "orders")
    assert exchange is not None
    assert exchange.type == "topic"
    assert decode_table(exchange.arguments_raw) == {"alternate-exchange": "amq.fanout"}
    assert queue is not None
    assert decode_table(queue.arguments_raw) == {
        "x-dead-letter-exchange": "dead",
        "x-max-priority": 5,
        "x-message-ttl": 60000,
        "x-single-active-consumer": True,
    }
    lazy = metadata.queue("v1", "lazy")
    assert lazy is not None
    assert lazy.auto_delete
    assert sorted(found.queue_id for found in metadata.queues("v1")) == [1, 2, 3]
    bindings = [binding[:4] for binding in metadata.bindings("v1")]
    assert bindings == [
        ("amq.topic", "exchange", "e1", "#"),
        ("amq.topic", "queue", "z1", "alice"),
        ("ch", "queue", "lazy", "10"),
        ("e1", "queue", "orders", "a.*.#"),
        ("h", "queue", "orders", ""),
    ]
    (by_headers,) = [each for each in metadata.bindings("v1") if each.source == "h"]
    assert decode_table(by_headers.arguments_raw) == {"b": True, "d": 2.5, "n": 1, "s": "t", "x-match": "all"}


def test_what_was_left_out_is_said() -> None:
    definitions = read("rabbitmq_3_10_8_http.json")
    plan = plan_import(definitions, Metadata(), zeros)
    without_effect = [
        (number, text)
        for number, policy in enumerate(definitions["policies"])
        for text in keys_without_effect(policy["definition"])
    ]
    assert [text.split()[0] for _, text in without_effect] == [
        "definition.ha-mode", "definition.ha-params", "definition.ha-sync-mode"
    ]  # fmt: skip
    assert plan.notes == [
        "exchanges[3]: exchange 'tmp' was left out: it is not durable; whoever needs it declares it",
        "global_parameters[1]: 'internal_cluster_id' belongs to the cluster that it came from",
        *(f"policies[{number}]: {text}" for number, text in without_effect),
        "queues[1]: queue 't1' was left out: it is not durable; whoever needs it declares it",
        "bindings[0]: the binding was left out, as one of its ends was",
        "bindings[6]: the binding was left out, as one of its ends was",
    ]


def test_the_export_of_one_vhost_goes_where_it_is_told_to() -> None:
    metadata = Metadata()
    metadata.apply(commands.put_vhost("elsewhere"))
    imported(read("rabbitmq_3_10_8_vhost.json"), metadata, vhost="elsewhere")
    assert metadata.queue("elsewhere", "orders") is not None
    assert len(metadata.bindings("elsewhere")) == 5
    assert [policy.name for policy in metadata.operator_policies("elsewhere")] == ["op1"]
    vhost = metadata.vhost("elsewhere")
    assert vhost is not None
    assert vhost.limits == {"max-queues": 100}


def test_into_one_vhost_goes_only_what_lives_in_one() -> None:
    metadata = Metadata()
    metadata.apply(commands.put_vhost("elsewhere"))
    plan = plan_import(read("rabbitmq_3_10_8_http.json"), metadata, zeros, vhost="elsewhere")
    left_out = [note.partition(":")[0] for note in plan.notes if "only virtual host 'elsewhere'" in note]
    assert left_out == ["users", "vhosts", "permissions", "topic_permissions", "global_parameters"]
    assert {command.get("vhost") for command in plan.commands} == {"elsewhere"}


@BOTH_EXPORTS
def test_importing_again_changes_nothing(name: str) -> None:
    definitions = read(name)
    before = copy.deepcopy(definitions)
    metadata = imported(definitions)
    assert import_commands(definitions, metadata, zeros) == []
    assert definitions == before


def test_planning_leaves_the_metadata_alone() -> None:
    metadata = Metadata()
    plan_import(read("rabbitmq_3_10_8_http.json"), metadata, zeros)
    assert metadata.vhosts() == []


@BOTH_EXPORTS
def test_our_export_imports_as_the_same(name: str) -> None:
    metadata = imported(read(name))
    again = imported(json.loads(json.dumps(export(metadata))))
    assert again.snapshot() == metadata.snapshot()


def test_a_round_trip_keeps_what_json_and_rabbitmq_lack() -> None:
    metadata = latest()
    raw = encode_table({"when": datetime(2020, 1, 2), "blob": b"\x00\xff", "width": typed("s", 5)})
    for command in (
        commands.put_vhost("v", description="d", tags=["a", "b"], tracing=True),
        commands.put_user("zoë", hash_password("secret", zeros), ["impersonator"]),
        commands.limit_user("zoë", {"max-channels": 3}),
        commands.set_policy("v", "o", pattern="", definition={"overflow": "drop-head"}, operator=True),
        commands.set_parameter("v", "shovel", "s", {"src": None}),
        commands.declare_exchange("v", "e", "headers", internal=True, auto_delete=True),
        commands.declare_queue("v", "q\udc80", 1, arguments_raw=raw),
        commands.add_binding("v", BindingRecord("e", "queue", "q\udc80", "", raw)),
    ):
        assert metadata.apply(command)
    definitions = json.loads(json.dumps(export(metadata)))
    assert imported(definitions).snapshot() == metadata.snapshot()
    assert import_commands(definitions, metadata, zeros) == []


def test_one_vhost_is_exported_without_its_name() -> None:
    metadata = imported(read("rabbitmq_3_10_8_http.json"))
    definitions = export(metadata, "v1")
    assert "users" not in definitions
    assert not any(
        "vhost" in item for items in definitions.values() if isinstance(items, list) for item in items
    )
    other = Metadata()
    other.apply(commands.put_vhost("v1"))
    imported(definitions, other, vhost="v1")
    assert other.queues("v1") == metadata.queues("v1")
    assert other.bindings("v1") == metadata.bindings("v1")
    assert other.operator_policies("v1") == metadata.operator_policies("v1")
    assert other.vhost("v1") == metadata.vhost("v1")


def test_the_form_is_that_of_rabbitmq() -> None:
    """Every key that RabbitMQ's own export has, for the same content, and values of the same kinds."""
    theirs = read("rabbitmq_3_10_8_http.json")
    ours = export(imported(theirs))
    assert set(theirs) <= set(ours)
    for category, items in theirs.items():
        if isinstance(items, list):
            for item in items[:1]:
                like = [found for found in ours[category] if found.get("name") == item.get("name")] or ours[
                    category
                ]
                assert set(item) <= set(like[0]), category
    alice = next(user for user in theirs["users"] if user["name"] == "alice")
    assert alice in ours["users"]


def settled() -> Metadata:
    metadata = Metadata()
    for command in (
        commands.put_vhost("v"),
        commands.put_user("u", "", []),
        commands.declare_queue("v", "q", 1),
        commands.declare_exchange("v", "e", "headers"),
    ):
        metadata.apply(command)
    return metadata


def commands_for(category: str, *items: dict[str, Any], metadata: Metadata | None = None) -> list[Command]:
    return import_commands({category: list(items)}, metadata or settled(), zeros)


def test_a_password_in_clear_is_hashed_and_not_hashed_again() -> None:
    metadata = settled()
    user = {"name": "new", "password": "secret", "tags": "administrator, monitoring"}
    (command,) = commands_for("users", user, metadata=metadata)
    assert command["tags"] == ["administrator", "monitoring"]
    assert verify_password("secret", command["password_hash"])
    metadata.apply(command)
    assert commands_for("users", user, metadata=metadata) == []
    (changed,) = commands_for("users", {**user, "password": "other"}, metadata=metadata)
    assert verify_password("other", changed["password_hash"])


def test_existing_queues_and_exchanges_stay_as_they_are() -> None:
    assert commands_for("queues", {"name": "q", "vhost": "v", "auto_delete": True}) == []
    assert commands_for("exchanges", {"name": "e", "vhost": "v", "type": "fanout"}) == []
    assert commands_for("exchanges", {"name": "amq.topic", "vhost": "v", "type": "topic"}) == []


def test_a_virtual_host_is_protected_once_all_members_know_how() -> None:
    definitions = {"vhosts": [{"name": "v", "metadata": {"protected_from_deletion": True}}]}
    earlier = plan_import(definitions, Metadata(), zeros)
    assert [command["op"] for command in earlier.commands] == ["vhost.put"]
    assert ["before all members" in note for note in earlier.notes] == [True]
    metadata = imported(definitions)
    assert metadata.vhost("v") == VHost("v", is_protected=True)
    # A file that says nothing of it leaves it as it is, one that says no takes it away.
    assert import_commands({"vhosts": [{"name": "v"}]}, metadata, zeros) == []
    taken = import_commands({"vhosts": [{"name": "v", "protected_from_deletion": False}]}, metadata, zeros)
    assert taken == [commands.protect_vhost("v", False)]


def test_existing_users_vhosts_and_policies_are_brought_up_to_date() -> None:
    metadata = settled()
    assert commands_for("users", {"name": "u", "password_hash": "", "tags": ["t"]}, metadata=metadata) == [
        commands.put_user("u", "", ["t"])
    ]
    assert commands_for("vhosts", {"name": "v", "description": "new"}, metadata=metadata) == [
        commands.put_vhost("v", description="new")
    ]
    assert commands_for("vhosts", {"name": "v", "default_queue_type": "undefined"}, metadata=metadata) == []


def test_bindings_are_told_apart_by_the_value_of_their_arguments() -> None:
    metadata = settled()
    raw = encode_table({"n": typed("s", 1), "x-match": "any"})
    metadata.apply(commands.add_binding("v", BindingRecord("e", "queue", "q", "", raw)))
    binding = {
        "vhost": "v",
        "source": "e",
        "destination": "q",
        "destination_type": "queue",
        "routing_key": "",
    }
    same = {**binding, "arguments": {"x-match": "any", "n": 1}}
    other = {**binding, "arguments": {"x-match": "any", "n": 2}}
    assert commands_for("bindings", same, metadata=metadata) == []
    assert len(commands_for("bindings", same, other, other, binding, metadata=metadata)) == 2


def test_bindings_of_the_default_exchange_are_there_already() -> None:
    binding = {
        "vhost": "v",
        "source": "",
        "destination": "q",
        "destination_type": "queue",
        "routing_key": "q",
    }
    assert commands_for("bindings", binding) == []


def test_a_queue_limit_holds_for_an_import() -> None:
    metadata = settled()
    metadata.apply(commands.limit_vhost("v", {"max-queues": 2}))
    queues = [{"name": name, "vhost": "v"} for name in ("q", "r")]
    assert len(commands_for("queues", *queues, metadata=metadata)) == 1
    with pytest.raises(DefinitionsError, match=r"^queues\[2\]: virtual host 'v' may hold 2 queues and does"):
        commands_for("queues", *queues, {"name": "s", "vhost": "v"}, metadata=metadata)


QUEUE = {"name": "n", "vhost": "v"}
BINDING = {"vhost": "v", "source": "e", "destination": "q", "destination_type": "queue", "routing_key": ""}
POLICY = {"vhost": "v", "name": "p", "pattern": "", "definition": {"max-length": 1}}
OPERATOR_POLICY = {"component": "operator_policy", "vhost": "v", "name": "o"}
USER = {"name": "new", "tags": []}


@pytest.mark.parametrize(
    ("category", "item", "message"),
    [
        ("queues", 5, r"queues\[0\]: 5 is not an object"),
        ("queues", {"vhost": "v"}, r"queues\[0\].name: a string is missing here"),
        ("queues", {**QUEUE, "name": ""}, r"queues\[0\].name: it must not be empty"),
        ("queues", {**QUEUE, "name": "ä" * 128}, r"queues\[0\].name: 256 octets are more than the 255"),
        ("queues", {**QUEUE, "vhost": "w"}, r"queues\[0\].vhost: there is no virtual host 'w'; add it"),
        ("queues", {"name": "n"}, r"queues\[0\].vhost: a string is missing here"),
        ("queues", {**QUEUE, "durable": "yes"}, r"queues\[0\].durable: 'yes' must be true or false"),
        ("queues", {**QUEUE, "auto_delete": 1}, r"queues\[0\].auto_delete: 1 must be true or false"),
        ("queues", {**QUEUE, "arguments": 5}, r"queues\[0\].arguments: 5 is not an object"),
        (
            "queues",
            {**QUEUE, "arguments": {"x-message-ttl": "5"}},
            r"queues\[0\].arguments.x-message-ttl: expected",
        ),
        (
            "queues",
            {**QUEUE, "arguments": {"x-expires": 0}},
            r"queues\[0\].arguments.x-expires: 0 is below 1",
        ),
        ("queues", {**QUEUE, "arguments": {"n": 2**64}}, r"queues\[0\].arguments.n: "),
        ("queues", {**QUEUE, "arguments_raw": "x"}, r"queues\[0\].arguments_raw: it is not the base64"),
        ("queues", {**QUEUE, "type": "later"}, r"queues\[0\].type: 'later' queues cannot be had"),
        ("queues", {**QUEUE, "type": "stream"}, r"queues\[0\].type: 'stream' queues need a cluster at level 2, and"),
        (
            "queues",
            {**QUEUE, "type": "quorum", "auto_delete": True},
            r"queues\[0\].auto_delete: a quorum queue cannot be one that is deleted with its last consumer",
        ),
        (
            "queues",
            {**QUEUE, "type": "quorum", "arguments": {"x-queue-mode": "lazy"}},
            r"queues\[0\].arguments.x-queue-mode: quorum queues have no such argument",
        ),
        (
            "queues",
            {**QUEUE, "arguments": {"x-queue-type": "later"}},
            r"queues\[0\].arguments.x-queue-type: 'later' queues cannot be had",
        ),
        (
            "exchanges",
            {"name": "x", "vhost": "v", "type": "x-none"},
            r"exchanges\[0\]: unknown exchange type 'x-none'",
        ),
        ("exchanges", {"name": "x", "vhost": "v"}, r"exchanges\[0\].type: a string is missing"),
        (
            "bindings",
            {**BINDING, "source": "x"},
            r"bindings\[0\].source: there is no exchange 'x' in virtual host 'v'",
        ),
        ("bindings", {**BINDING, "destination": "x"}, r"bindings\[0\].destination: there is no queue 'x'"),
        (
            "bindings",
            {**BINDING, "destination_type": "topic"},
            r"bindings\[0\].destination_type: 'topic' must be",
        ),
        (
            "bindings",
            {**BINDING, "arguments": {"x-match": "some"}},
            r"bindings\[0\]: Invalid x-match field value 'some'",
        ),
        ("bindings", {**BINDING, "source": ""}, r"bindings\[0\].source: nothing can be bound to the default"),
        ("users", {"tags": []}, r"users\[0\].name: a string is missing"),
        ("users", {**USER, "tags": 5}, r"users\[0\].tags: 5 is neither a list"),
        (
            "users",
            {**USER, "password": "x", "password_hash": "y"},
            r"users\[0\].password: there is a password_hash",
        ),
        (
            "users",
            {**USER, "password_hash": "AAAA"},
            r"users\[0\].password_hash: a rabbit-sha256 hash holds 36",
        ),
        (
            "users",
            {**USER, "password_hash": "AAAA", "hashing_algorithm": "rabbit_password_hashing_md5"},
            r"users\[0\].password_hash: password hashes of algorithm '.*_md5' are not accepted",
        ),
        (
            "users",
            {**USER, "password_hash": "scrypt$3", "hashing_algorithm": "amqp_broker_scrypt"},
            r"users\[0\].password_hash: a scrypt hash reads",
        ),
        (
            "users",
            {**USER, "limits": {"max-queues": 1}},
            r"users\[0\].limits.max-queues: is no limit; these are",
        ),
        (
            "users",
            {**USER, "limits": {"max-channels": "1"}},
            r"users\[0\].limits.max-channels: '1' is not an integer",
        ),
        ("vhosts", {"name": ""}, r"vhosts\[0\].name: it must not be empty"),
        ("vhosts", {"name": "x", "metadata": {"tags": 5}}, r"vhosts\[0\].metadata.tags: 5 is neither"),
        (
            "vhosts",
            {"name": "x", "default_queue_type": "later"},
            r"vhosts\[0\].default_queue_type: 'later' must be one of classic, quorum, stream",
        ),
        ("permissions", {"user": "x", "vhost": "v"}, r"permissions\[0\].user: there is no user 'x'"),
        ("permissions", {"user": "u", "vhost": "v"}, r"permissions\[0\].configure: a string is missing"),
        (
            "permissions",
            {"user": "u", "vhost": "v", "configure": "", "write": "(a)\\1", "read": ""},
            r"permissions\[0\].write: pattern '\(a\)\\1' cannot be used: back references are not supported",
        ),
        (
            "topic_permissions",
            {"user": "u", "vhost": "v", "exchange": "e", "write": "", "read": "["},
            r"topic_permissions\[0\].read: pattern '\[' cannot be used: missing \]",
        ),
        ("policies", {**POLICY, "pattern": None}, r"policies\[0\].pattern: None is not a string"),
        (
            "policies",
            {**POLICY, "definition": {"x": 1}},
            r"policies\[0\].definition.x: is nothing that a policy sets",
        ),
        ("policies", {**POLICY, "apply-to": "some"}, r"policies\[0\].apply-to: 'some' must be one of"),
        ("policies", {**POLICY, "priority": 1.5}, r"policies\[0\].priority: 1.5 is not an integer"),
        (
            "parameters",
            {**OPERATOR_POLICY, "value": {"pattern": "(", "definition": {"expires": 1}}},
            r"parameters\[0\].value.pattern: pattern '\(' cannot be used",
        ),
        (
            "parameters",
            {"component": "vhost-limits", "vhost": "v", "name": "limits", "value": {"max": 1}},
            r"parameters\[0\].value.max: is no limit; these are: max-connections, max-queues",
        ),
        ("parameters", {"vhost": "v", "name": "n"}, r"parameters\[0\].component: a string is missing"),
    ],
)
def test_errors_say_where_and_why(category: str, item: Any, message: str) -> None:
    with pytest.raises(DefinitionsError, match=f"^{message}"):
        commands_for(category, item)


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ([], r"definitions: \[\] is not an object"),
        ({"queues": {}}, "queues: dict found, a list is needed"),
        ({"queues": [{"name": "q", "vhost": "v"}, {"name": "q2"}]}, r"queues\[1\].vhost: "),
    ],
)
def test_errors_in_the_whole(definitions: Any, message: str) -> None:
    with pytest.raises(DefinitionsError, match=f"^{message}"):
        import_commands(definitions, settled(), zeros)


def test_names_of_the_broker_itself_are_left_out() -> None:
    plan = plan_import(
        {
            "exchanges": [{"name": "amq.rabbitmq.log", "vhost": "v", "type": "topic"}],
            "bindings": [{**BINDING, "source": "amq.rabbitmq.log"}],
        },
        settled(),
        zeros,
    )
    assert plan.commands == []
    assert [note.partition(":")[0] for note in plan.notes] == ["exchanges[0]", "bindings[0]"]


@given(metadata_strategies.histories)
def test_whatever_was_made_is_exported_and_imported_without_loss(history: list[Command]) -> None:
    """The parts that definitions carry; what the random commands make up beyond valid ones is left aside."""
    metadata = Metadata()
    for command in history:
        if command["op"].startswith(("vhost", "user", "permission", "topic_permission", "queue", "exchange")):
            metadata.apply({**command, "arguments_raw": ""} if "arguments_raw" in command else command)
    users = [user for user in metadata.users() if user.password_hash]
    for user in users:
        metadata.apply(commands.put_user(user.name, "", user.tags))
    for user in metadata.users():
        metadata.apply(commands.limit_user(user.name, {}))
    again = imported(json.loads(json.dumps(export(metadata))))
    assert again.vhosts() == metadata.vhosts()
    assert again.users() == metadata.users()
    assert again.permissions() == metadata.permissions()
    assert again.topic_permissions() == metadata.topic_permissions()
    for vhost in metadata.vhosts():
        exchanges = [each._replace(number=0) for each in metadata.exchanges(vhost.name) if each.durable]
        assert again.exchanges(vhost.name) == exchanges
        assert [queue.name for queue in again.queues(vhost.name)] == [
            queue.name for queue in metadata.queues(vhost.name) if queue.durable
        ]


def _over_a_stream(source: str = "orders") -> dict[str, Any]:
    over = {"x-queue-type": "quorum", "x-stream-source": source}
    kinds = {"billing": over, "other": {"x-queue-type": "quorum"}, "orders": {"x-queue-type": "stream"}}
    queues = [
        {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
        for name, arguments in kinds.items()
    ]
    return {"vhosts": [{"name": "/"}], "queues": queues}


@pytest.mark.parametrize("groups", [1, 3, 8])
def test_a_queue_over_a_stream_comes_behind_the_stream_and_into_its_group(groups: int) -> None:
    """Wherever it stands in the file."""
    metadata = imported(_over_a_stream(), bounds=in_groups(groups))
    billing, orders = metadata.queue("/", "billing"), metadata.queue("/", "orders")
    assert billing is not None
    assert orders is not None
    assert billing.queue_id > orders.queue_id
    assert billing.queue_id % groups == orders.queue_id % groups
    again = imported(export(metadata), bounds=in_groups(groups))
    assert {each.name for each in again.queues("/")} == {"billing", "orders", "other"}


@pytest.mark.parametrize("source", ["nowhere", "other"])
def test_a_queue_over_no_stream_is_refused(source: str) -> None:
    with pytest.raises(DefinitionsError, match=f"queues\\[0\\].*x-stream-source.*no stream '{source}'"):
        imported(_over_a_stream(source))


def in_groups(count: int) -> Bounds:
    """Of a node with so many groups of queues."""
    return Bounds(count, groups_of_size=lambda size: range(count))


def stream(name: str, partitions: int = 0, **arguments: object) -> dict[str, object]:
    """A stream, as in a file."""
    said = {"x-queue-type": "stream", **({"x-stream-partitions": partitions} if partitions else {}), **arguments}
    return {"vhost": "v", "name": name, "durable": True, "arguments": said}


def over(source: str) -> dict[str, object]:
    """A queue over it."""
    arguments = {"x-queue-type": "quorum", "x-stream-source": source}
    return {"vhost": "v", "name": "over", "durable": True, "arguments": arguments}


def newest() -> Metadata:
    """Of a cluster that has all there is."""
    metadata = settled()
    metadata.apply(commands.raise_level(LEVEL))
    return metadata


def test_a_queue_is_over_a_stream_that_is_whole() -> None:
    """As where it is declared: a partition may be its source, what consists of them may not."""
    assert import_commands({"queues": [over("s-1"), stream("s", 2)]}, newest(), zeros)
    with pytest.raises(DefinitionsError, match="'s' has 2 partitions: say which, 's-0' to 's-1'"):
        import_commands({"queues": [over("s"), stream("s", 2)]}, newest(), zeros)


def test_names_of_partitions_can_be_said() -> None:
    assert import_commands({"queues": [stream("n" * 253, 10)]}, newest(), zeros)
    for name, partitions in (("n" * 254, 2), ("n" * 253, 11), ("\u00e9" * 127, 2)):
        with pytest.raises(DefinitionsError, match="longer than 255 octets"):
            import_commands({"queues": [stream(name, partitions)]}, newest(), zeros)


def test_there_are_no_more_queues_than_the_node_has_room_for() -> None:
    queues = [{"vhost": "v", "name": "q1", "durable": True}, stream("s", 2)]
    assert import_commands({"queues": queues}, newest(), zeros, bounds=Bounds(room=4))
    with pytest.raises(DefinitionsError, match=r"queues\[1\]: the node has room for 3 more .*max_queues"):
        import_commands({"queues": queues}, newest(), zeros, bounds=Bounds(room=3))


def test_what_is_to_be_on_so_many_nodes_is_in_a_group_of_that_size() -> None:
    metadata = newest()
    bounds = Bounds(5, groups_of_size=lambda size: [1, 3] if size == 3 else [0, 1, 2, 3, 4])
    sized = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 3}
    queues = [{"vhost": "v", "name": f"q{number}", "durable": True, "arguments": sized} for number in range(4)]
    queues.append(stream("s", 3, **{"x-initial-cluster-size": 3}))
    for command in import_commands({"queues": queues}, metadata, zeros, bounds=bounds):
        assert metadata.apply(command)
    assert {queue.queue_id % 5 for queue in metadata.queues("v")} == {1, 3}


def test_a_policy_says_it_of_streams_whatever_their_arguments_say() -> None:
    metadata = newest()
    bounds = Bounds(5, groups_of_size=lambda size: [1, 3] if size == 3 else [0, 1, 2, 3, 4])
    policy = {
        "vhost": "v", "name": "p", "pattern": "^s", "apply-to": "streams", "definition": {"initial-cluster-size": 3},
    }  # fmt: skip
    whole = stream("s", 3, **{"x-initial-cluster-size": 5})
    one = {"vhost": "v", "name": "s1", "durable": True, "arguments": {"x-queue-type": "stream"}}
    for command in import_commands({"policies": [policy], "queues": [whole, one]}, metadata, zeros, bounds=bounds):
        assert metadata.apply(command)
    assert {queue.queue_id % 5 for queue in metadata.queues("v")} == {1, 3}


def test_a_stream_has_no_more_partitions_than_the_node_lets_it_have() -> None:
    queue, metadata = stream("s", 9), newest()
    assert import_commands({"queues": [queue]}, metadata, zeros, bounds=Bounds(max_partitions=9))
    with pytest.raises(DefinitionsError, match="limit is 8"):
        import_commands({"queues": [queue]}, metadata, zeros, bounds=Bounds(max_partitions=8))
