"""What a client declared: the frozen record beside a queue or an exchange, and the rules of equivalence.

A declaration of something that is there succeeds if it asks for the same (AMQP 0-9-1 §1.6.2.1, §1.7.2.1, in
RabbitMQ's stricter reading): otherwise the texts name the first difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp_broker.errors import ChannelException, inequivalent
from amqp_broker.metadata.entities import DEFAULT_TYPE
from amqp_broker.protocol.fields import KIND_NAMES, Table

if TYPE_CHECKING:
    from queues.declaration import Declaration, Owner
    from queues.queue import Queue

#: Arguments of a queue that a declaration is compared by, in the order in which differences are reported: RabbitMQ's,
#: and those of more than one type. What is one type's alone comes behind them (QueueType.own_arguments).
_QUEUE_ARGUMENTS = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-single-active-consumer",
    "x-delivery-limit",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-message-deduplication",
    "x-deduplication-ttl",
    "x-consumer-timeout",
    "x-lease-expires",
    "x-queue-type",
    "x-queue-version",
)

_TYPE = "x-queue-type"


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """A queue as it was declared. `owner`: of an exclusive queue; `type` is in force also
    where the arguments have none. part_of: the stream of which it is a partition, "" for none."""

    name: str
    is_durable: bool
    is_auto_delete: bool
    owner: Owner | None
    arguments: Table
    vhost: str
    type: str = DEFAULT_TYPE
    part_of: str = ""

    @property
    def governed_as(self) -> str:
        """The name by which policies apply to it: those of a partition are those of the whole."""
        return self.part_of or self.name

    def disown(self, queue: Queue) -> None:
        """The queue that was declared so goes: if it is exclusive, it is no longer its owner's."""
        if self.owner is not None:
            self.owner.disown(queue)


def _flag(value: bool) -> str:
    return "'true'" if value else "'false'"


def check_equivalent_flag(argument: str, kind: str, name: str, vhost: str, received: bool, current: bool) -> None:
    """Raises ChannelException (406) when the two differ."""
    if received != current:
        raise inequivalent(argument, kind, name, vhost, _flag(received), _flag(current))


def check_equivalent_queue(
    declaration: Declaration,
    is_durable: bool,
    is_auto_delete: bool,
    arguments: Table,
    default_type: str,
    own_arguments: tuple[str, ...],
) -> None:
    """Raises ChannelException (406) for the first difference. default_type: of a queue that is declared without one.
    own_arguments: those of its type alone."""
    name, vhost = declaration.name, declaration.vhost
    check_equivalent_flag("durable", "queue", name, vhost, is_durable, declaration.is_durable)
    check_equivalent_flag("auto_delete", "queue", name, vhost, is_auto_delete, declaration.is_auto_delete)
    for key in (*_QUEUE_ARGUMENTS, *own_arguments):
        if key != _TYPE:
            check_equivalent_argument(key, "queue", name, vhost, arguments, declaration.arguments)
        elif arguments.get(_TYPE, default_type) != declaration.type:
            raise _differing(_TYPE, "queue", name, vhost, arguments, declaration.arguments)


def check_equivalent_argument(
    key: str, kind: str, name: str, vhost: str, received: Table, current: Table
) -> None:
    """Raises ChannelException (406) when a table argument differs; integers of all widths compare by value, and with
    each other only."""
    new, old = received.get(key), current.get(key)
    if new == old and all(isinstance(new, kind) == isinstance(old, kind) for kind in (bool, float)):
        return
    raise _differing(key, kind, name, vhost, received, current)


def _differing(key: str, kind: str, name: str, vhost: str, received: Table, current: Table) -> ChannelException:
    if key in received and key in current:
        return inequivalent(key, kind, name, vhost, f"'{_text(received[key])}'", f"'{_text(current[key])}'")
    return inequivalent(key, kind, name, vhost, _described(key, received), _described(key, current))


def _described(key: str, table: Table) -> str:
    if key not in table:
        return "none"
    return f"the value '{_text(table[key])}' of type '{KIND_NAMES.get(table.kind(key), '?')}'"


def kind_name(table: Table, key: str) -> str:
    """The type of an argument as reply texts call it."""
    return KIND_NAMES.get(table.kind(key), "unknown")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
