"""The commands of the metadata machine: JSON objects, made and checked here.

A command is written to the log of the metadata group and applied on every node, so that its form is a file
format: a field once introduced keeps its name and meaning, and a new one must have a default (`DEFAULTS`) for the
logs that were written without it. `arguments_raw` is base64 of the octets of a field table.

This module knows the form of each command. What a command does is in metadata.py; whether it makes sense
is for the caller to find out before it proposes one.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from amqp_broker.metadata.entities import DEFAULT_TYPE, DESTINATION_KINDS, BindingRecord
from amqp_broker.protocol.json_values import JsonObject, JsonValue

Command = JsonObject

_to_json = json.JSONEncoder(separators=(",", ":")).encode


def encode(value: object) -> bytes:
    """JSON in ASCII, so that lone surrogates (octets of a name that are not UTF-8) survive."""
    return _to_json(value).encode("ascii")


class _Form(NamedTuple):
    name: str
    fits: Callable[[object], bool]


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


#: Levels of lists and objects in a value: copying one, and writing it, takes some of the interpreter's stack for each.
MAX_JSON_DEPTH = 64


def _is_json(value: object, depth: int = MAX_JSON_DEPTH) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(key, str) and _is_json(item, depth - 1) for key, item in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_is_json(item, depth - 1) for item in value)
    return value is None or isinstance(value, (str, int, float))


def _is_object(value: object) -> bool:
    return isinstance(value, dict) and _is_json(value)


def _is_limits(value: object) -> bool:
    return (
        isinstance(value, dict) and _is_object(value) and all(_is_number(limit) for limit in value.values())
    )


def _is_base64(value: object) -> bool:
    if value == "":
        return True
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except (binascii.Error, ValueError):
        return False


_TEXT: Final = _Form("a string", lambda value: isinstance(value, str))
_NUMBERS: Final = _Form(
    "a list of integers", lambda value: isinstance(value, list) and all(_is_number(item) for item in value)
)
_TEXTS: Final = _Form("a list of strings", _is_texts)
_FLAG: Final = _Form("true or false", lambda value: isinstance(value, bool))
_NUMBER: Final = _Form("an integer", _is_number)
_ID: Final = _Form(
    "an integer above zero", lambda value: isinstance(value, int) and _is_number(value) and value > 0
)
_LIMITS: Final = _Form("an object of integers", _is_limits)
_OBJECT: Final = _Form(f"an object of at most {MAX_JSON_DEPTH} levels", _is_object)
_ANY: Final = _Form(f"a JSON value of at most {MAX_JSON_DEPTH} levels", _is_json)
_RAW: Final = _Form("base64", _is_base64)
_KIND: Final = _Form(f"one of {', '.join(DESTINATION_KINDS)}", lambda value: value in DESTINATION_KINDS)

#: What becomes of durable classic queues that live on a member that is removed: they stay (so it was once), go, or have
#: the command change nothing.
KEEP, DROP, REFUSE = "keep", "drop", "refuse"
_QUEUES: Final = _Form(f"one of {KEEP}, {DROP}, {REFUSE}", lambda value: value in (KEEP, DROP, REFUSE))

_POLICY: Final = {
    "vhost": _TEXT,
    "name": _TEXT,
    "pattern": _TEXT,
    "apply_to": _TEXT,
    "priority": _NUMBER,
    "definition": _OBJECT,
}
_BINDING: Final = {
    "vhost": _TEXT,
    "source": _TEXT,
    "destination_kind": _KIND,
    "destination": _TEXT,
    "binding_key": _TEXT,
    "arguments_raw": _RAW,
}

FIELDS: Final[Mapping[str, Mapping[str, _Form]]] = {
    "vhost.put": {
        "vhost": _TEXT,
        "description": _TEXT,
        "tags": _TEXTS,
        "default_queue_type": _TEXT,
        "tracing": _FLAG,
    },
    "vhost.limits": {"vhost": _TEXT, "limits": _LIMITS},
    "vhost.protect": {"vhost": _TEXT, "is_protected": _FLAG},
    "vhost.delete": {"vhost": _TEXT},
    "user.put": {"user": _TEXT, "password_hash": _TEXT, "tags": _TEXTS, "leaves_administrator": _FLAG},
    "user.limits": {"user": _TEXT, "limits": _LIMITS},
    "user.delete": {"user": _TEXT, "leaves_administrator": _FLAG},
    "permission.set": {"user": _TEXT, "vhost": _TEXT, "configure": _TEXT, "write": _TEXT, "read": _TEXT},
    "permission.clear": {"user": _TEXT, "vhost": _TEXT},
    "topic_permission.set": {"user": _TEXT, "vhost": _TEXT, "exchange": _TEXT, "write": _TEXT, "read": _TEXT},
    "topic_permission.clear": {"user": _TEXT, "vhost": _TEXT, "exchange": _TEXT},
    "policy.set": _POLICY,
    "policy.clear": {"vhost": _TEXT, "name": _TEXT},
    "operator_policy.set": _POLICY,
    "operator_policy.clear": {"vhost": _TEXT, "name": _TEXT},
    "parameter.set": {"vhost": _TEXT, "component": _TEXT, "name": _TEXT, "value": _ANY},
    "parameter.clear": {"vhost": _TEXT, "component": _TEXT, "name": _TEXT},
    "global_parameter.set": {"name": _TEXT, "value": _ANY, "is_first": _FLAG},
    "global_parameter.clear": {"name": _TEXT},
    "exchange.declare": {
        "vhost": _TEXT,
        "name": _TEXT,
        "type": _TEXT,
        "auto_delete": _FLAG,
        "internal": _FLAG,
        "arguments_raw": _RAW,
        "durable": _FLAG,
        "numbered": _FLAG,
    },
    "exchange.number": {"vhost": _TEXT, "name": _TEXT, "number": _ID},
    "exchange.delete": {"vhost": _TEXT, "name": _TEXT},
    "queue.declare": {
        "vhost": _TEXT,
        "name": _TEXT,
        "queue_id": _ID,
        "type": _TEXT,
        "auto_delete": _FLAG,
        "arguments_raw": _RAW,
        "durable": _FLAG,
        "exclusive": _FLAG,
        "home": _TEXT,
        "part_of": _TEXT,
    },
    "queue.delete": {"vhost": _TEXT, "name": _TEXT, "queue_id": _ID, "partition_ids": _NUMBERS},
    "partitions.declare": {
        "vhost": _TEXT,
        "name": _TEXT,
        "queue_id": _ID,
        "type": _TEXT,
        "arguments_raw": _RAW,
        "first": _NUMBER,
        "partition_ids": _NUMBERS,
        "partition_arguments_raw": _RAW,
    },
    "queue.rehome": {
        "vhost": _TEXT,
        "name": _TEXT,
        "queue_id": _ID,
        "new_queue_id": _ID,
        "home": _TEXT,
        "session": _ID,
    },
    "queue_id.reserve": {"next_queue_id": _ID},
    "app.put": {"vhost": _TEXT, "app": _TEXT, "home": _TEXT, "user": _TEXT},
    "app.delete": {"vhost": _TEXT, "app": _TEXT, "home": _TEXT},
    "binding.add": _BINDING,
    "binding.remove": _BINDING,
    "node.started": {"node": _TEXT},
    "node.gone": {"node": _TEXT},
    "member.put": {"node": _TEXT, "address": _TEXT, "identity": _TEXT},
    "member.add": {"node": _TEXT, "address": _TEXT, "identity": _TEXT},
    "member.remove": {"node": _TEXT, "expected": _TEXTS, "queues": _QUEUES},
    "level.raise": {"level": _ID},
    "group.members": {"group": _ID, "nodes": _TEXTS, "expected": _TEXTS, "size": _ID},
    "member.workers": {"node": _TEXT, "workers": _NUMBERS, "closing": _NUMBERS, "groups": _NUMBERS},
    "member.rack": {"node": _TEXT, "rack": _TEXT},
}
"""Every command and its fields; `op` names the command. All must be there, but for those in `DEFAULTS`."""

DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "user.put": {"leaves_administrator": False},
    "user.delete": {"leaves_administrator": False},
    "global_parameter.set": {"is_first": False},
    "exchange.declare": {"durable": True, "numbered": False},
    "queue.declare": {"durable": True, "exclusive": False, "home": "", "part_of": ""},
    "queue.delete": {"partition_ids": []},
    "member.put": {"identity": ""},
    "member.remove": {"expected": [], "queues": KEEP},
    "group.members": {"size": 0},
    "member.workers": {"groups": []},
}
"""What an optional field means where it is left out."""


def check_command(command: Mapping[str, JsonValue]) -> None:
    """Raises ValueError naming the command, the field and what it should be, where the form is not kept."""
    op = command.get("op")
    fields = FIELDS.get(op) if isinstance(op, str) else None
    if fields is None:
        raise ValueError(f"unknown metadata command {op!r}: it is of a newer version, or no command at all")
    optional = DEFAULTS.get(op, {}) if isinstance(op, str) else {}
    absent = 0
    for name, form in fields.items():
        if name not in command:
            if name in optional:
                absent += 1
                continue
            raise ValueError(f"metadata command {op} lacks {name}, {form.name}")
        if not form.fits(command[name]):
            raise ValueError(f"metadata command {op}: {name} is {command[name]!r} and must be {form.name}")
    if len(command) != len(fields) + 1 - absent:
        unknown = [name for name in command if name != "op" and name not in fields]
        raise ValueError(f"metadata command {op} has unknown fields {unknown}: it is of a newer version")


def encode_arguments(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def decode_arguments(encoded: str) -> bytes:
    return b"" if not encoded else base64.b64decode(encoded, validate=True)


def _command(op: str, *values: object) -> Command:
    """With these values of its fields, in the order of FIELDS. What is at its default is left out, so that programs of
    before the field was introduced read it."""
    defaults = DEFAULTS.get(op, {})
    fields = zip(FIELDS[op], values, strict=True)
    return {"op": op, **{name: value for name, value in fields if name not in defaults or value != defaults[name]}}


def put_vhost(
    vhost: str,
    *,
    description: str = "",
    tags: Iterable[str] = (),
    default_queue_type: str = DEFAULT_TYPE,
    tracing: bool = False,
) -> Command:
    """Creates a vhost with its predeclared exchanges, or changes what describes it."""
    return _command("vhost.put", vhost, description, list(tags), default_queue_type, tracing)


def limit_vhost(vhost: str, limits: Mapping[str, int]) -> Command:
    """Replaces all limits of a vhost."""
    return _command("vhost.limits", vhost, dict(limits))


def protect_vhost(vhost: str, is_protected: bool) -> Command:
    """Whether a vhost is not deleted, whoever asks. Of level `DELETION_PROTECTION`."""
    return _command("vhost.protect", vhost, is_protected)


def delete_vhost(vhost: str) -> Command:
    """One that is protected stays."""
    return _command("vhost.delete", vhost)


def put_user(user: str, password_hash: str, tags: Iterable[str], leaves_administrator: bool = False) -> Command:
    """Creates a user, or replaces password hash and tags of one; limits stay. leaves_administrator: changes nothing if
    nobody would have the tag administrator any more; of level `LAST_ADMINISTRATOR`."""
    return _command("user.put", user, password_hash, list(tags), leaves_administrator)


def limit_user(user: str, limits: Mapping[str, int]) -> Command:
    """Replaces all limits of a user."""
    return _command("user.limits", user, dict(limits))


def delete_user(user: str, leaves_administrator: bool = False) -> Command:
    """leaves_administrator: see put_user."""
    return _command("user.delete", user, leaves_administrator)


def set_permission(user: str, vhost: str, configure: str, write: str, read: str) -> Command:
    return _command("permission.set", user, vhost, configure, write, read)


def clear_permission(user: str, vhost: str) -> Command:
    return _command("permission.clear", user, vhost)


def set_topic_permission(user: str, vhost: str, exchange: str, write: str, read: str) -> Command:
    return _command("topic_permission.set", user, vhost, exchange, write, read)


def clear_topic_permission(user: str, vhost: str, exchange: str) -> Command:
    return _command("topic_permission.clear", user, vhost, exchange)


def set_policy(
    vhost: str,
    name: str,
    *,
    pattern: str,
    definition: Mapping[str, object],
    apply_to: str = "all",
    priority: int = 0,
    operator: bool = False,
) -> Command:
    """Creates or replaces a policy, or an operator policy."""
    op = "operator_policy.set" if operator else "policy.set"
    return _command(op, vhost, name, pattern, apply_to, priority, dict(definition))


def clear_policy(vhost: str, name: str, *, operator: bool = False) -> Command:
    return _command("operator_policy.clear" if operator else "policy.clear", vhost, name)


def set_parameter(vhost: str, component: str, name: str, value: object) -> Command:
    return _command("parameter.set", vhost, component, name, value)


def clear_parameter(vhost: str, component: str, name: str) -> Command:
    return _command("parameter.clear", vhost, component, name)


def set_global_parameter(name: str, value: object, is_first: bool = False) -> Command:
    """is_first: changes nothing where the parameter is there; of level `FIRST_ONE_STAYS`."""
    return _command("global_parameter.set", name, value, is_first)


def clear_global_parameter(name: str) -> Command:
    return _command("global_parameter.clear", name)


def declare_exchange(
    vhost: str,
    name: str,
    type_name: str,
    *,
    auto_delete: bool = False,
    internal: bool = False,
    arguments_raw: bytes = b"",
    durable: bool = True,
    numbered: bool = False,
) -> Command:
    """numbered: it gets a number that no other exchange ever has."""
    return _command(
        "exchange.declare", vhost, name, type_name, auto_delete, internal, encode_arguments(arguments_raw), durable,
        numbered,
    )  # fmt: skip


def number_exchange(vhost: str, name: str, number: int) -> Command:
    """The number that an exchange has. For snapshots: whoever declares one does not know it yet."""
    return _command("exchange.number", vhost, name, number)


def delete_exchange(vhost: str, name: str) -> Command:
    return _command("exchange.delete", vhost, name)


def declare_queue(
    vhost: str,
    name: str,
    queue_id: int,
    *,
    type_name: str = DEFAULT_TYPE,
    auto_delete: bool = False,
    arguments_raw: bytes = b"",
    durable: bool = True,
    exclusive: bool = False,
    home: str = "",
    part_of: str = "",
) -> Command:
    """Declares a queue. `queue_id` is the lowest id that it may get. home: the node where a classic queue lives; ""
    is every node's own (as in definitions): where the command comes from. part_of: the stream of which it is a
    partition. Of level `STREAMS`."""
    return _command(
        "queue.declare", vhost, name, queue_id, type_name, auto_delete, encode_arguments(arguments_raw), durable,
        exclusive, home, part_of,
    )  # fmt: skip


def delete_queue(vhost: str, name: str, queue_id: int, partition_ids: Sequence[int] = ()) -> Command:
    """Deletes the queue of that name if it still is the one with that id, and these partitions of it."""
    return _command("queue.delete", vhost, name, queue_id, list(partition_ids))


def rehome_queue(vhost: str, name: str, queue_id: int, new_queue_id: int, home: str, session: int) -> Command:
    """The queue of that name, if it still is the one with that id, lives at another home from now on, and has the id
    under which that has its messages: one that was reserved. session: of the stream of commands of the new home, which
    has them since that began; if it has begun another one, nothing changes. Of level `REHOMING`."""
    return _command("queue.rehome", vhost, name, queue_id, new_queue_id, home, session)


def partition_stream(
    vhost: str,
    name: str,
    queue_id: int,
    type_name: str,
    arguments_raw: bytes,
    first: int,
    partition_ids: Sequence[int],
    partition_arguments_raw: bytes,
) -> Command:
    """Declares a stream with partitions, the ids of which are as in `declare_queue`; or (first > 0) adds some to one
    that has so many, which has these arguments from then on. Nothing changes where one of the names is taken, or
    somebody was faster. Of level `STREAMS`."""
    return _command(
        "partitions.declare", vhost, name, queue_id, type_name, encode_arguments(arguments_raw), first,
        list(partition_ids), encode_arguments(partition_arguments_raw),
    )  # fmt: skip


def node_started(node: str) -> Command:
    """A node begins anew: its queues that do not survive that are gone."""
    return _command("node.started", node)


def node_gone(node: str) -> Command:
    """A node was away for too long: its queues that do not survive that are gone."""
    return _command("node.gone", node)


def put_member(node: str, address: str, identity: str = "") -> Command:
    """Where the other members reach a node, HOST:PORT. identity: of its folder from now on; "" leaves it as it is."""
    return _command("member.put", node, address, identity)


def add_member(node: str, address: str, identity: str) -> Command:
    """A node on a new folder of this identity is a member, unless there is one of its name with another folder."""
    return _command("member.add", node, address, identity)


def remove_member(node: str, *, expected: Sequence[str] = (), queues: str = DROP) -> Command:
    """A node is no member any more. expected: only if these are the members then; nothing: whoever they are. queues:
    what becomes of those that live on it (KEEP, DROP, REFUSE)."""
    return _command("member.remove", node, list(expected), queues)


def put_group_members(group_id: int, nodes: Iterable[str], expected: Iterable[str] = (), size: int = 0) -> Command:
    """A group of queues is on these nodes, if it was to be on `expected` until then; no names: on all. size: it is to
    be on so many once there are more nodes. Of level `SOME_MEMBERS`."""
    return _command("group.members", group_id, sorted(nodes), sorted(expected), size)


def put_member_workers(
    node: str, workers: Iterable[int], closing: Iterable[int], groups: Iterable[int] = ()
) -> Command:
    """The workers that a member has besides worker 0, and those of them that are to be emptied. groups: which worker
    has each group of queues, from group 1 on. Of level `WORKERS`."""
    return _command("member.workers", node, sorted(workers), sorted(closing), list(groups))


def put_member_rack(node: str, rack: str) -> Command:
    """In which rack a member is; "": in none. Of level `RACKS`."""
    return _command("member.rack", node, rack)


def raise_level(level: int) -> Command:
    """All members speak this level, so that what it has brought is said and written from now on."""
    return _command("level.raise", level)


def reserve_queue_ids(next_queue_id: int) -> Command:
    """No later queue gets an id below `next_queue_id`."""
    return _command("queue_id.reserve", next_queue_id)


def put_app(vhost: str, app: str, home: str, user: str) -> Command:
    """The transactions of an application live on a node, and the application is a user's, if it has no home yet."""
    return _command("app.put", vhost, app, home, user)


def delete_app(vhost: str, app: str, home: str) -> Command:
    """An application is forgotten, if that is its home."""
    return _command("app.delete", vhost, app, home)


def add_binding(vhost: str, binding: BindingRecord) -> Command:
    return _binding("binding.add", vhost, binding)


def remove_binding(vhost: str, binding: BindingRecord) -> Command:
    """Removes the binding that equals this one octet for octet (take it from the metadata's listings)."""
    return _binding("binding.remove", vhost, binding)


def _binding(op: str, vhost: str, binding: BindingRecord) -> Command:
    return _command(
        op, vhost, binding.source, binding.destination_kind, binding.destination, binding.binding_key,
        encode_arguments(binding.arguments_raw),
    )  # fmt: skip
