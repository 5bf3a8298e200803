"""Exports the metadata as RabbitMQ's definitions.

RabbitMQ imports the result, save two things that it does not have: our scrypt hashes (give such a user a
new password there) and queue arguments of its own plugins.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from amqp_broker.auth import passwords
from amqp_broker.management.definitions.arguments import describe_arguments
from amqp_broker.metadata.entities import BindingRecord, ExchangeRecord, Policy, QueueRecord, User, VHost
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.version import __version__
from exchanges.bindings import EXCHANGE, QUEUE

RABBIT_VERSION: Final = "3.13.0"
"""The release of RabbitMQ whose form of definitions this is."""
SCRYPT_ALGORITHM: Final = "amqp_broker_scrypt"
OPERATOR_POLICY: Final = "operator_policy"
LIMITS_PARAMETER: Final = "vhost-limits"

Definitions = JsonObject
#: Items of a category; None: nothing to describe among those that were just looked at.
Items = Iterator[JsonObject | None]
Record = TypeVar("Record")
#: So many records are looked at before one says so.
_LOOK: Final = 32


def export(metadata: Metadata, vhost: str | None = None) -> Definitions:
    """All definitions, or those inside of one vhost (which then is not named in them), as a JSON object."""
    about, categories = export_items(metadata, vhost)
    described = {category: [item for item in items if item is not None] for category, items in categories.items()}
    return about | described


def export_items(metadata: Metadata, vhost: str | None = None) -> tuple[Definitions, dict[str, Items]]:
    """The same in parts: what is said of the whole, and the items by category, each described when it is taken: as it
    is now, whatever becomes of the metadata meanwhile."""
    vhosts = [found for found in metadata.vhosts() if vhost in (None, found.name)]
    about: Definitions = {
        "rabbit_version": RABBIT_VERSION,
        "rabbitmq_version": RABBIT_VERSION,
        "product_name": "amqp-broker",
        "product_version": __version__,
    }
    inside = _inside(metadata, vhosts)
    if vhost is not None:
        return about, {category: map(_without_vhost, items) for category, items in inside.items()}
    return about, _shared(metadata) | inside


def _without_vhost(item: JsonObject | None) -> JsonObject | None:
    if item is not None:
        del item["vhost"]
    return item


def _described(
    records: Iterable[Record], describe: Callable[[Record], JsonObject], is_meant: Callable[[Record], bool]
) -> Items:
    """Those that are meant."""
    for number, each in enumerate(records):
        if is_meant(each):
            yield describe(each)
        elif number % _LOOK == 0:
            yield None


def _inside(metadata: Metadata, vhosts: list[VHost]) -> dict[str, Items]:
    """What lies in the vhosts. Lists of records are taken at once: these never change."""
    names = [found.name for found in vhosts]
    queues, exchanges = map(metadata.queues, names), map(metadata.exchanges, names)
    held = list(zip(names, exchanges, queues, map(metadata.bindings, names), strict=True))
    return {
        "parameters": iter([item for found in vhosts for item in _parameters(metadata, found)]),
        "policies": map(_policy, [item for name in names for item in metadata.policies(name)]),
        "queues": _described(
            (item for _, _, each, _ in held for item in each), _queue, lambda item: item.durable and not item.part_of
        ),
        "exchanges": _described((item for _, each, _, _ in held for item in each), _exchange, _is_own),
        "bindings": (item for each in held for item in _bindings(*each)),
    }


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
    about = {
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type,
    }
    metadata = copy.deepcopy(about) | ({"protected_from_deletion": True} if vhost.is_protected else {})
    return {"name": vhost.name, **about, "tracing": vhost.tracing, "metadata": metadata}


def _parameters(metadata: Metadata, vhost: VHost) -> list[JsonObject]:
    """The vhost's parameters, and what RabbitMQ holds as such: operator policies and limits."""
    found = [
        (parameter.component, parameter.name, copy.deepcopy(parameter.value))
        for parameter in metadata.parameters(vhost.name)
    ]
    found += [
        (OPERATOR_POLICY, policy.name, _policy_value(policy))
        for policy in metadata.operator_policies(vhost.name)
    ]
    if vhost.limits:
        found.append((LIMITS_PARAMETER, "limits", dict(vhost.limits)))
    return [
        {"vhost": vhost.name, "component": component, "name": name, "value": value}
        for component, name, value in found
    ]


def _policy_value(policy: Policy) -> JsonObject:
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": copy.deepcopy(dict(policy.definition)),
        "priority": policy.priority,
    }


def _policy(policy: Policy) -> JsonObject:
    return {"vhost": policy.vhost, "name": policy.name, **_policy_value(policy)}


def _is_own(exchange: ExchangeRecord) -> bool:
    return exchange.durable and not exchange.is_predeclared


def _bindings(
    vhost: str, exchanges: list[ExchangeRecord], queues: list[QueueRecord], bindings: list[BindingRecord]
) -> Items:
    """Those between durable ends: in a cluster the metadata know the others too, which whoever needs them declares."""
    ends: dict[str, set[str]] = {EXCHANGE: set(), QUEUE: set()}
    records: tuple[tuple[str, list[ExchangeRecord] | list[QueueRecord]], ...] = (EXCHANGE, exchanges), (QUEUE, queues)
    for kind, found in records:
        for start in range(0, len(found), _LOOK):
            ends[kind].update([each.name for each in found[start : start + _LOOK] if each.durable])
            yield None
    sources = ends[EXCHANGE]
    yield from _described(
        bindings,
        lambda each: _binding(vhost, each),
        lambda each: each.source in sources and each.destination in ends[each.destination_kind],
    )
    for names in ends.values():  # to forget very many at once takes long, too
        while names:
            for _ in range(min(_LOOK, len(names))):
                names.pop()
            yield None


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
