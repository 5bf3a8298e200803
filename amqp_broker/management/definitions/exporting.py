"""Exports the metadata as RabbitMQ's definitions.

RabbitMQ imports the result, save two things that it does not have: our scrypt hashes (give such a user a
new password there) and queue arguments of its own plugins.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

from amqp_broker.auth import passwords
from amqp_broker.management.definitions.arguments import describe_arguments
from amqp_broker.metadata.cluster_identity import INTERNAL
from amqp_broker.metadata.entities import BindingRecord, ExchangeRecord, Policy, QueueRecord, User, VHost
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.turn.letting_go import let_go
from amqp_broker.version import __version__
from exchanges.bindings import EXCHANGE

RABBIT_VERSION: Final = "3.13.0"
"""The release of RabbitMQ whose form of definitions this is."""
SCRYPT_ALGORITHM: Final = "amqp_broker_scrypt"
OPERATOR_POLICY: Final = "operator_policy"
LIMITS_PARAMETER: Final = "vhost-limits"

Definitions = JsonObject
#: Items of a category; None: nothing to describe among those that were just looked at.
Items = Iterator[JsonObject | None]
#: So many records are looked at before one says so.
_LOOK: Final = 32


def export(metadata: Metadata, vhost: str | None = None) -> Definitions:
    """All definitions, or those inside of one vhost (which then is not named in them, but described beside them), as a
    JSON object."""
    about, categories = export_items(metadata, vhost)
    described = {category: [item for item in items if item is not None] for category, items in categories.items()}
    return about | described


def export_items(metadata: Metadata, vhost: str | None = None) -> tuple[Definitions, dict[str, Items]]:
    """The same in parts: what is said of the whole, and the items by category, each described as it is when it is
    come to. The categories are to be taken in their order: what has come since the first, and what refers to that, is
    left out, so that all of it can be imported."""
    vhosts = [found for found in metadata.vhosts() if vhost in (None, found.name)]
    about: Definitions = {
        "rabbit_version": RABBIT_VERSION,
        "rabbitmq_version": RABBIT_VERSION,
        "product_name": "amqp-broker",
        "product_version": __version__,
    }
    inside = _inside(metadata, vhosts)
    if vhost is not None:
        for found in vhosts:
            about |= {"metadata": _described(found), "description": found.description, "limits": dict(found.limits)}
        return about, {category: map(_without_vhost, items) for category, items in inside.items()}
    return about, _shared(metadata) | inside


def _without_vhost(item: JsonObject | None) -> JsonObject | None:
    if item is not None:
        del item["vhost"]
    return item


def _inside(metadata: Metadata, vhosts: list[VHost]) -> dict[str, Items]:
    """What lies in the vhosts."""
    names = [found.name for found in vhosts]
    declared = _Declared(metadata, names)
    return {
        "parameters": (item for found in vhosts for item in _parameters(metadata, found)),
        "policies": (_policy(item) for name in names for item in metadata.policies(name)),
        "queues": declared.queues(),
        "exchanges": declared.exchanges(),
        "bindings": declared.bindings(),
    }


class _Declared:
    """What was declared in some vhosts, read bit by bit. Queues are known by their ids, which rise; exchanges that are
    sources or destinations of bindings by name: those that were there when it was their turn."""

    def __init__(self, metadata: Metadata, vhosts: list[str]) -> None:
        self._metadata = metadata
        self._vhosts = dict.fromkeys(vhosts)
        self._next_queue_id = metadata.next_queue_id
        self._exchanges: set[tuple[str, str]] = set()

    def queues(self) -> Items:
        """Those that outlive a restart, without partitions."""
        before, (block, found) = 0, self._metadata.queues_after(0)
        while block != before:
            for queue in found:
                if self._was_there(queue) and queue.vhost in self._vhosts and not queue.part_of:
                    yield _queue(queue)
            yield None
            before, (block, found) = block, self._metadata.queues_after(block)

    def exchanges(self) -> Items:
        """Those that outlive a restart, without RabbitMQ's own."""
        for vhost in self._vhosts:
            place, found = self._metadata.exchanges_after(vhost, 0, _LOOK)
            while found:
                for exchange in found:
                    if exchange.durable:
                        self._exchanges.add((vhost, exchange.name))
                        if not exchange.is_predeclared:
                            yield _exchange(exchange)
                yield None
                place, found = self._metadata.exchanges_after(vhost, place, _LOOK)

    def bindings(self) -> Items:
        """Those between durable ends: in a cluster the metadata know the others too, which whoever needs them
        declares."""
        for vhost in self._vhosts:
            before, (block, found) = 0, self._metadata.bindings_after(vhost, 0)
            while block != before:
                for binding in found:
                    if (vhost, binding.source) in self._exchanges and self._is_end(vhost, binding):
                        yield _binding(vhost, binding)
                yield None
                before, (block, found) = block, self._metadata.bindings_after(vhost, block)
        yield from let_go(self._exchanges)

    def _is_end(self, vhost: str, binding: BindingRecord) -> bool:
        if binding.destination_kind == EXCHANGE:
            return (vhost, binding.destination) in self._exchanges
        queue = self._metadata.queue(vhost, binding.destination)
        return queue is not None and self._was_there(queue)

    def _was_there(self, queue: QueueRecord) -> bool:
        return queue.durable and queue.queue_id < self._next_queue_id


def _shared(metadata: Metadata) -> dict[str, Items]:
    """What lies outside of the vhosts, and the vhosts themselves."""
    return {
        "users": map(describe_user, metadata.users()),
        "vhosts": map(_vhost, metadata.vhosts()),
        "permissions": (
            {
                "user": grant.user,
                "vhost": grant.vhost,
                "configure": grant.configure,
                "write": grant.write,
                "read": grant.read,
            }
            for grant in metadata.permissions()
        ),
        "topic_permissions": (
            {
                "user": grant.user,
                "vhost": grant.vhost,
                "exchange": grant.exchange,
                "write": grant.write,
                "read": grant.read,
            }
            for grant in metadata.topic_permissions()
        ),
        "global_parameters": (
            {"name": parameter.name, "value": copy.deepcopy(parameter.value)}
            for parameter in metadata.global_parameters()
            if not parameter.name.startswith(INTERNAL)
        ),
    }


def describe_user(user: User) -> JsonObject:
    """A user as definitions have one."""
    algorithm, password_hash = passwords.to_rabbit(user.password_hash) or (
        SCRYPT_ALGORITHM,
        user.password_hash,
    )
    return {
        "name": user.name,
        "password_hash": password_hash,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def _vhost(vhost: VHost) -> JsonObject:
    return {
        "name": vhost.name, "description": vhost.description, "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type, "tracing": vhost.tracing, "metadata": _described(vhost),
    }  # fmt: skip


def _described(vhost: VHost) -> JsonObject:
    about: JsonObject = {
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type,
    }
    return about | ({"protected_from_deletion": True} if vhost.is_protected else {})


def _parameters(metadata: Metadata, vhost: VHost) -> Iterator[JsonObject]:
    """The vhost's parameters, and what RabbitMQ holds as such: operator policies and limits."""
    for parameter in metadata.parameters(vhost.name):
        yield _parameter(vhost, parameter.component, parameter.name, copy.deepcopy(parameter.value))
    for policy in metadata.operator_policies(vhost.name):
        yield _parameter(vhost, OPERATOR_POLICY, policy.name, _policy_value(policy))
    if vhost.limits:
        yield _parameter(vhost, LIMITS_PARAMETER, "limits", dict(vhost.limits))


def _parameter(vhost: VHost, component: str, name: str, value: JsonValue) -> JsonObject:
    return {"vhost": vhost.name, "component": component, "name": name, "value": value}


def _policy_value(policy: Policy) -> JsonObject:
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": copy.deepcopy(dict(policy.definition)),
        "priority": policy.priority,
    }


def _policy(policy: Policy) -> JsonObject:
    return {"vhost": policy.vhost, "name": policy.name, **_policy_value(policy)}


def _exchange(exchange: ExchangeRecord) -> JsonObject:
    return {
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.type,
        "durable": True,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        **describe_arguments(exchange.arguments_raw),
    }


def _queue(queue: QueueRecord) -> JsonObject:
    return {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.type,
        "durable": True,
        "auto_delete": queue.auto_delete,
        **describe_arguments(queue.arguments_raw),
    }


def _binding(vhost: str, binding: BindingRecord) -> JsonObject:
    return {
        "source": binding.source,
        "vhost": vhost,
        "destination": binding.destination,
        "destination_type": binding.destination_kind,
        "routing_key": binding.binding_key,
        **describe_arguments(binding.arguments_raw),
    }
