"""What the metadata holds: values that never change; a change puts a new one in the old one's place.

`arguments_raw` is a field table as octets, without the four of its length, just as the client sent it:
nothing here looks inside. Names are text with surrogateescape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from exchanges.bindings import EXCHANGE, QUEUE
from exchanges.registry import PREDECLARED

DESTINATION_KINDS: Final = (QUEUE, EXCHANGE)
#: The type of a queue that is declared without one, in a virtual host that says nothing.
DEFAULT_TYPE: Final = "classic"
_NO_LIMITS: Final[Mapping[str, int]] = {}


class VHost(NamedTuple):
    """`limits` has the keys max-connections and max-queues; a missing or negative one is no limit.
    is_protected: from deletion."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = DEFAULT_TYPE
    tracing: bool = False
    limits: Mapping[str, int] = _NO_LIMITS
    is_protected: bool = False


class User(NamedTuple):
    """`password_hash` is a text of auth/passwords.py, empty where no password opens the account.

    `limits` has the keys max-connections and max-channels; a missing or negative one is no limit.
    """

    name: str
    password_hash: str = ""
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = _NO_LIMITS


class PermissionGrant(NamedTuple):
    """Three patterns over the names of the queues and exchanges of `vhost`."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicGrant(NamedTuple):
    """Two patterns over routing keys of one exchange of `vhost`."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class Policy(NamedTuple):
    """A policy or an operator policy: `definition` holds for what `pattern` matches and `apply_to` admits."""

    vhost: str
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: Mapping[str, object]


class Parameter(NamedTuple):
    """A runtime parameter that this broker merely keeps; `value` is any JSON value."""

    vhost: str
    component: str
    name: str
    value: object


class GlobalParameter(NamedTuple):
    name: str
    value: object


class ExchangeRecord(NamedTuple):
    """An exchange that all nodes know. `is_predeclared`: it came with its vhost and goes with it. `number`: no other
    exchange ever had it; 0 for none."""

    vhost: str
    name: str
    type: str
    auto_delete: bool = False
    internal: bool = False
    arguments_raw: bytes = b""
    is_predeclared: bool = False
    durable: bool = True
    number: int = 0


class QueueRecord(NamedTuple):
    """A queue that all nodes know. `queue_id` was never another queue's and never will be. `home`: the node where a
    classic queue lives. `part_of`: the partitioned stream of which it is a partition, "" for none."""

    vhost: str
    name: str
    queue_id: int
    type: str = DEFAULT_TYPE
    auto_delete: bool = False
    arguments_raw: bytes = b""
    durable: bool = True
    exclusive: bool = False
    home: str = ""
    part_of: str = ""


class AppRecord(NamedTuple):
    """An application that uses transactions: the node where its parts are staged, and the user whose it is."""

    name: str
    home: str
    user: str


class BindingRecord(NamedTuple):
    """A binding between durable things of one vhost; `destination_kind` is "queue" or "exchange"."""

    source: str
    destination_kind: str
    destination: str
    binding_key: str
    arguments_raw: bytes


def predeclared_exchanges(vhost: str) -> list[ExchangeRecord]:
    """The exchanges of a new vhost (AMQP 0-9-1 §3.1.3.1, and the ones that RabbitMQ adds)."""
    return [
        ExchangeRecord(vhost, name, type_name, internal=internal, is_predeclared=True)
        for name, type_name, internal in PREDECLARED
    ]


def is_same(known: object, new: object, json_field: str) -> bool:
    """Whether two entities are equal, in their JSON field also by type: 1, 1.0 and true are three values."""
    return known == new and _as_text(known, json_field) == _as_text(new, json_field)


def _as_text(entity: object, json_field: str) -> str:
    return json.dumps(getattr(entity, json_field), sort_keys=True)
