"""Export, import, export is a fixed point for all that can be declared; and what RabbitMQ wrote of quorum queues."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.management.definitions import export, import_commands
from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.protocol.fields import decode_table, encode_table, typed
from exchanges.bindings import identity
from exchanges.registry import EXCHANGE_TYPES, create_exchange
from tests.example_counts import examples
from tests.management.definitions.test_definitions import imported, in_groups, latest, read, zeros

QUORUM_EXPORT = "rabbitmq_3_10_8_quorum.json"


def test_an_export_of_rabbitmq_with_quorum_queues_goes_in_unchanged() -> None:
    definitions = read(QUORUM_EXPORT)
    before = copy.deepcopy(definitions)
    metadata = imported(definitions)
    assert definitions == before
    types = {queue.name: queue.type for queue in metadata.queues("q1")}
    assert types == {queue["name"]: queue["type"] for queue in definitions["queues"]}
    orders = metadata.queue("q1", "orders")
    assert orders is not None
    assert orders.home == ""
    assert decode_table(orders.arguments_raw)["x-delivery-limit"] == 5
    ours = export(metadata)
    for category in ("queues", "bindings", "exchanges", "policies", "permissions", "topic_permissions"):
        for item in definitions[category]:
            assert any(item.items() <= found.items() for found in ours[category]), category
    assert len(ours["queues"]) == len(definitions["queues"])
    assert import_commands(definitions, metadata, zeros) == []


def test_quorum_queues_of_an_import_are_spread_over_the_groups() -> None:
    definitions: dict[str, Any] = {"queues": []}
    for number in range(6):
        definitions["queues"].append({"name": f"classic {number}", "vhost": "v"})
        definitions["queues"].append({"name": f"quorum {number}", "vhost": "v", "type": "quorum"})
    metadata = Metadata()
    metadata.apply(commands.put_vhost("v"))
    for command in import_commands(definitions, metadata, zeros, bounds=in_groups(2)):
        metadata.apply(command)
    groups = [queue.queue_id % 2 for queue in metadata.queues("v") if queue.type == "quorum"]
    assert groups.count(0) == groups.count(1) == 3


# -- all that can be declared ------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b.c", "zoë", "x\udc80", "a b", "amq.gen-1"])
plain = st.sampled_from(["a", "b.c"])
times = st.integers(1, 10**6)
vhost_names = st.sampled_from(["/", "v", "zoë"])
user_names = st.sampled_from(["guest", "u"])
patterns = st.sampled_from(["", ".*", "^a", "(?i)b|c"])
#: Values that JSON has no form for, too.
values = st.one_of(
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False),
    st.text("aé\udc80", max_size=3),
    st.binary(max_size=3),
    st.none(),
    st.just(typed("s", 5)),
    st.lists(st.integers(0, 3), max_size=2),
)
OF_EVERY_QUEUE: dict[str, st.SearchStrategy[Any]] = {
    "x-message-ttl": times,
    "x-expires": times,
    "x-max-length": times,
    "x-max-length-bytes": times,
    "x-overflow": st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"]),
    "x-dead-letter-exchange": names,
    "x-single-active-consumer": st.booleans(),
    "x-delivery-limit": st.integers(-1, 50),
    "x-lease-expires": times,
    "of nobody": values,
}
OF_CLASSIC = {
    "x-max-priority": st.integers(0, 255),
    "x-queue-mode": st.sampled_from(["default", "lazy"]),
    "x-queue-version": st.integers(1, 2),
    "x-queue-master-locator": names,
    "x-queue-type": st.just("classic"),
}
OF_QUORUM = {
    "x-dead-letter-strategy": st.sampled_from(["at-most-once", "at-least-once"]),
    "x-quorum-initial-group-size": st.integers(1, 5),
    "x-queue-leader-locator": st.sampled_from(["client-local", "balanced"]),
    "x-max-in-memory-length": times,
    "x-message-deduplication": st.one_of(st.booleans(), st.integers(0, 1000)),
    "x-consumer-timeout": times,
    "x-delayed-retry-min": st.integers(1, 1000),
    "x-delayed-retry-max": st.integers(1000, 9000),
    "x-queue-type": st.just("quorum"),
}
LIMITS = st.dictionaries(st.sampled_from(["max-connections", "max-queues"]), st.integers(-1, 9), max_size=2)
USER_LIMITS = st.dictionaries(st.sampled_from(["max-connections", "max-channels"]), st.integers(-1, 9), max_size=2)
ARGUMENTS_OF_EXCHANGES = {
    "x-delayed-message": {"x-delayed-type": st.sampled_from(["direct", "topic", "fanout"])},
    "x-consistent-hash": {"hash-header": plain},
}


@st.composite
def tables(draw: st.DrawFn, *of: dict[str, st.SearchStrategy[Any]], always: bool = False) -> bytes:
    """The octets of a field table with some of these fields."""
    known = {key: value for each in of for key, value in each.items()}
    keys = list(known) if always else draw(st.lists(st.sampled_from(sorted(known)), unique=True, max_size=5))
    return encode_table({key: draw(known[key]) for key in keys})


@st.composite
def queues(draw: st.DrawFn) -> Command:
    """A durable queue that a client may declare."""
    is_quorum = draw(st.booleans())
    return commands.declare_queue(
        draw(vhost_names), draw(names), 1, type_name="quorum" if is_quorum else "classic",
        auto_delete=not is_quorum and draw(st.booleans()),
        arguments_raw=draw(tables(OF_EVERY_QUEUE, OF_QUORUM if is_quorum else OF_CLASSIC)),
    )  # fmt: skip


@st.composite
def exchanges(draw: st.DrawFn) -> Command:
    kind = draw(st.sampled_from(sorted(EXCHANGE_TYPES)))
    needed = ARGUMENTS_OF_EXCHANGES.get(kind)
    raw = draw(tables(needed, always=True) if needed else tables({"alternate-exchange": plain, "other": values}))
    name = draw(names.filter(lambda name: not name.startswith("amq.")))
    return commands.declare_exchange(
        draw(vhost_names), name, kind, auto_delete=draw(st.booleans()), internal=draw(st.booleans()),
        arguments_raw=raw, numbered=kind == "x-delayed-message",
    )  # fmt: skip


@st.composite
def bindings(draw: st.DrawFn) -> Command:
    kind = draw(st.sampled_from(["queue", "exchange"]))
    by_headers = {"x-match": st.sampled_from(["all", "any", "all-with-x"]), "h": values, "i": values}
    record = BindingRecord(
        draw(st.one_of(names, st.sampled_from(["amq.topic", "amq.headers"]))), kind, draw(names),
        draw(st.sampled_from(["", "1", "a.#", "b.*"])), draw(st.one_of(st.just(b""), tables(by_headers))),
    )  # fmt: skip
    return commands.add_binding(draw(vhost_names), record)


def policies(is_operator: bool) -> st.SearchStrategy[Command]:
    definition = {"max-length": times, "expires": times, "delivery-limit": st.integers(-1, 9)}
    if not is_operator:
        definition |= {"dead-letter-exchange": names, "alternate-exchange": names}
    return st.builds(
        commands.set_policy, vhost_names, names, pattern=patterns, priority=st.integers(-3, 3),
        definition=st.lists(st.sampled_from(sorted(definition)), min_size=1, unique=True).flatmap(
            lambda keys: st.fixed_dictionaries({key: definition[key] for key in keys})
        ),
        apply_to=st.sampled_from(["all", "queues", "classic_queues", "quorum_queues", "exchanges"]),
        operator=st.just(is_operator),
    )  # fmt: skip


json_values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2)
)
HASHES = ["", f"scrypt$16384$8$1${'c2FsdHNhbHRzYWx0c2FsdA=='}${'A' * 43}=", f"rabbit-sha256${'A' * 48}"]
declared = st.one_of(
    st.builds(
        commands.put_vhost, vhost_names, description=names, tags=st.lists(st.sampled_from(["t", "s"]), max_size=2),
        default_queue_type=st.sampled_from(["classic", "quorum"]), tracing=st.booleans(),
    ),
    st.builds(commands.limit_vhost, vhost_names, LIMITS),
    st.builds(commands.protect_vhost, vhost_names, st.booleans()),
    st.builds(commands.put_user, user_names, st.sampled_from(HASHES), st.lists(st.just("administrator"), max_size=1)),
    st.builds(commands.limit_user, user_names, USER_LIMITS),
    st.builds(commands.set_permission, user_names, vhost_names, patterns, patterns, patterns),
    st.builds(commands.set_topic_permission, user_names, vhost_names, names, patterns, patterns),
    policies(False),
    policies(True),
    st.builds(commands.set_parameter, vhost_names, st.just("shovel"), names, json_values),
    st.builds(commands.set_global_parameter, names, json_values),
    queues(),
    queues(),
    exchanges(),
    bindings(),
)  # fmt: skip
SETTLED = [
    *[commands.put_vhost(name) for name in ("/", "v", "zoë")],
    *[commands.put_user(name, "", []) for name in ("guest", "u")],
]


def is_possible(metadata: Metadata, command: Command) -> bool:
    """Whether a client could have it: what a declaration is refused for is none."""
    if command["op"] == "binding.add":
        source = metadata.exchange(command["vhost"], command["source"])
        if source is None:
            return False
        exchange = create_exchange(source.type, decode_table(source.arguments_raw))
        arguments = decode_table(commands.decode_arguments(command["arguments_raw"]))
        try:
            exchange.check_binding(command["binding_key"], arguments)
        except ValueError:
            return False
        # A binding is told from others by the value of its arguments, not by their octets.
        return all(
            (each.source, each.binding_key) != (source.name, command["binding_key"])
            or identity("", decode_table(each.arguments_raw)) != identity("", arguments)
            for each in metadata.bindings_to(command["vhost"], command["destination_kind"], command["destination"])
        )
    return True


@settings(max_examples=examples(300))
@given(st.lists(declared, max_size=25))
def test_export_import_export_is_a_fixed_point(history: list[Command]) -> None:
    metadata = latest()
    for command in [*SETTLED, *history]:
        if is_possible(metadata, command):
            metadata.apply(command)
    first = json.loads(json.dumps(export(metadata)))
    again = imported(first)
    assert json.loads(json.dumps(export(again))) == first
    assert import_commands(first, metadata, zeros) == []
    for vhost in metadata.vhosts():
        told = json.loads(json.dumps(export(metadata, vhost.name)))
        other = latest()
        # What describes it is told, and stays that of whoever imports into one.
        other.apply(
            commands.put_vhost(
                vhost.name, description=vhost.description, tags=vhost.tags,
                default_queue_type=vhost.default_queue_type, tracing=vhost.tracing,
            )
        )
        other.apply(commands.protect_vhost(vhost.name, vhost.is_protected))
        for command in import_commands(told, other, zeros, vhost=vhost.name):
            other.apply(command)
        assert json.loads(json.dumps(export(other, vhost.name))) == told
