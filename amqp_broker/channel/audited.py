"""What clients change in a virtual host, and are refused there, written down in the audit log.

Only what lasts is: a queue that goes with its connection, its last consumer or by itself (exclusive, auto-delete,
x-expires) is a reply queue, and there may be thousands a second of these; so are exchanges that are not durable, and
bindings of either.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from amqp_broker.audit.actor import actor_of
from amqp_broker.metadata.commands import decode_arguments
from amqp_broker.protocol.fields import decode_table
from exchanges.bindings import QUEUE, Destination

if TYPE_CHECKING:
    from amqp_broker.audit.actor import Actor
    from amqp_broker.channel.channel import Channel
    from amqp_broker.metadata.commands import Command
    from amqp_broker.protocol.fields import Table
    from amqp_broker.protocol.json_values import JsonObject
    from queues.queue import Queue


def lasts(queue: Queue | None) -> bool:
    """Whether a queue is there until somebody deletes it."""
    if queue is None:
        return False
    declaration = queue.declaration
    is_reply = declaration.is_auto_delete or declaration.owner is not None or "x-expires" in declaration.arguments
    return bool(declaration.is_durable and not is_reply)


def exchange_lasts(channel: Channel, name: str) -> bool:
    """The same for an exchange."""
    entry = channel.vhost.find_exchange(name)
    return entry is not None and entry.durable and not entry.auto_delete


def binding_lasts(channel: Channel, source: str, destination: Destination) -> bool:
    """Whether both ends do."""
    if not exchange_lasts(channel, source):
        return False
    if destination.kind == QUEUE:
        return lasts(channel.vhost.find_queue(destination.name))
    return exchange_lasts(channel, destination.name)


def recorder_of(channel: Channel, what: str, command: Command) -> Callable[[], None] | None:
    """What is to be called when the command of a declaration or binding has made something; None where it is not
    written down. It needs the client no more."""
    if command.get("auto_delete") or command.get("exclusive") or not command.get("durable", True):
        return None
    arguments = decode_table(decode_arguments(command["arguments_raw"]))
    if "source" in command:
        name, source = command["destination"], command["source"]
        destination = Destination(command["destination_kind"], name)
        if not binding_lasts(channel, source, destination):
            return None
        shown = _binding(source, destination, command["binding_key"])
    elif "x-expires" in arguments:
        return None
    else:
        name, shown = command["name"], {"type": command["type"]}
    audit, actor, vhost = channel.services.audit, _actor(channel), channel.vhost.name
    return partial(audit.record, actor, what, vhost, name, _with_arguments(shown, arguments))


def record(channel: Channel, what: str, name: str, details: JsonObject | None = None) -> None:
    """A client has done this."""
    channel.services.audit.record(_actor(channel), what, channel.vhost.name, name, details)


def record_unbound(
    channel: Channel, what: str, source: str, destination: Destination, key: str, arguments: Table
) -> None:
    """A client has taken a binding away."""
    record(channel, what, destination.name, _with_arguments(_binding(source, destination, key), arguments))


def refuse(channel: Channel, what: str, why: str) -> None:
    """A client wanted to do this, and may not."""
    channel.services.audit.refuse(_actor(channel), what, why, channel.vhost.name)


def _actor(channel: Channel) -> Actor:
    peer = channel.connection.peer
    return actor_of(channel.session, peer.host, peer.port)


def _binding(source: str, destination: Destination, key: str) -> JsonObject:
    return {"source": source, "destination_type": destination.kind, "routing_key": key}


def _with_arguments(shown: JsonObject, arguments: Table) -> JsonObject:
    if not arguments:
        return shown
    return {**shown, "arguments": {key: _plain(value) for key, value in arguments.items()}}


def _plain(value: object) -> object:
    return value if isinstance(value, (str, int, bool)) else str(value)
