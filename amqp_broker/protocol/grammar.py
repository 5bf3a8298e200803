"""The wire format of AMQP 0-9-1 with RabbitMQ's extensions, declared with construct: the one source of truth.

Frame envelope, content header with its properties, field table, and the arguments of every method, in the
order of the specification. It parses and builds by itself, losslessly: a field table becomes a list of (key,
kind, value), so that nothing of the octets is interpreted away.

It is not fast (a queue.declare costs construct 70 to 180 microseconds and importing construct 50
milliseconds), so what runs is derived from it: `generate.py` writes methods.py from METHODS, and the tests
hold every codec of this package equal to this grammar. Nothing that runs in a broker or a client imports this
module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from construct import (
    Adapter,
    BitStruct,
    Bytes,
    Computed,
    Const,
    Error,
    Flag,
    Float32b,
    Float64b,
    FocusedSeq,
    GreedyBytes,
    GreedyRange,
    If,
    Int8sb,
    Int8ub,
    Int16sb,
    Int16ub,
    Int32sb,
    Int32ub,
    Int64sb,
    Int64ub,
    LazyBound,
    OneOf,
    Padding,
    Prefixed,
    Struct,
    Switch,
    Terminated,
    this,
)

from amqp_broker.protocol import constants as c

Grammar: TypeAlias = Any  # untyped: as construct has it


class _Text(Adapter):  # type: ignore[misc]
    """Octets as str: UTF-8, and what is not UTF-8 as lone surrogates, so that nothing is lost."""

    def _decode(self, obj: bytes, context: object, path: str) -> str:
        return obj.decode("utf-8", "surrogateescape")

    def _encode(self, obj: str, context: object, path: str) -> bytes:
        return obj.encode("utf-8", "surrogateescape")


# Elementary domains (§4.2.5)

Octet: Final[Grammar] = Int8ub * "Octet"
Short: Final[Grammar] = Int16ub * "Short"
Long: Final[Grammar] = Int32ub * "Long"
LongLong: Final[Grammar] = Int64ub * "LongLong"
ShortString: Final[Grammar] = _Text(Prefixed(Int8ub, GreedyBytes)) * "ShortString"
LongString: Final[Grammar] = Prefixed(Int32ub, GreedyBytes) * "LongString"


class Bits(Adapter):  # type: ignore[misc]
    """Consecutive bit arguments share an octet, the first one in its lowest bit (§4.2.5.2)."""

    def __init__(self, *names: str) -> None:
        assert len(names) <= 8, "more than eight bits would need a second octet"
        super().__init__(BitStruct(Padding(8 - len(names)), *(name / Flag for name in reversed(names))))
        self.names = names

    def _decode(self, obj: Grammar, context: object, path: str) -> dict[str, bool]:
        return {name: obj[name] for name in self.names}

    def _encode(self, obj: Grammar, context: object, path: str) -> Grammar:
        return obj


# Field table (§4.2.5.5, with RabbitMQ's type letters)

_Value: Final[Grammar] = Struct(
    "kind" / Bytes(1),
    "value"
    / Switch(
        this.kind,
        {
            b"t": Flag,
            b"b": Int8sb,
            b"B": Int8ub,
            b"s": Int16sb,
            b"u": Int16ub,
            b"I": Int32sb,
            b"i": Int32ub,
            b"l": Int64sb,
            b"L": Int64sb,
            b"f": Float32b,
            b"d": Float64b,
            b"D": Struct("scale" / Int8ub, "unscaled" / Int32sb),
            b"S": Prefixed(Int32ub, GreedyBytes),
            b"x": Prefixed(Int32ub, GreedyBytes),
            b"T": Int64ub,
            b"A": LazyBound(lambda: _Array),
            b"F": LazyBound(lambda: FieldTable),
            b"V": Computed(None),
        },
        default=Error,
    ),
)


def _all_of(element: Grammar) -> Grammar:
    """Elements up to the end; GreedyRange alone would take an element that does not parse for the end."""
    return FocusedSeq("elements", "elements" / GreedyRange(element), Terminated)


_Array: Final[Grammar] = Prefixed(Int32ub, _all_of(_Value))
TableContents: Final[Grammar] = _all_of(Struct("key" / ShortString, "field" / _Value))
FieldTable: Final[Grammar] = Prefixed(Int32ub, TableContents) * "FieldTable"


# Frames (§4.2.3)

ProtocolHeader: Final[Grammar] = Struct("name" / Const(b"AMQP"), "id" / Int8ub, "version" / Bytes(3))

Frame: Final[Grammar] = Struct(
    "type" / OneOf(Int8ub, c.FRAME_TYPES),
    "channel" / Int16ub,
    "payload" / Prefixed(Int32ub, GreedyBytes),
    "end" / Const(c.FRAME_END, Int8ub),
)


# Content header (§4.2.6.1): the first property's flag is the highest bit; the lowest says that more flags
# follow

BASIC_PROPERTIES: Final = (
    ("content_type", ShortString),
    ("content_encoding", ShortString),
    ("headers", FieldTable),
    ("delivery_mode", Octet),
    ("priority", Octet),
    ("correlation_id", ShortString),
    ("reply_to", ShortString),
    ("expiration", ShortString),
    ("message_id", ShortString),
    ("timestamp", LongLong),
    ("type", ShortString),
    ("user_id", ShortString),
    ("app_id", ShortString),
    ("cluster_id", ShortString),
)

PropertySection: Final[Grammar] = Struct(
    "flags"
    / BitStruct(
        *(name / Flag for name, _ in BASIC_PROPERTIES),
        "unused" / Const(False, Flag),
        "more" / Const(False, Flag),
    ),
    *(name / If(this.flags[name], domain) for name, domain in BASIC_PROPERTIES),
    Terminated,
)

ContentHeader: Final[Grammar] = Struct(
    "class_id" / Int16ub,
    "weight" / Const(0, Int16ub),
    "body_size" / Int64ub,
    "properties" / GreedyBytes,
)


# Methods (§4.2.4)


@dataclass(frozen=True)
class MethodGrammar:
    """One method: its name in the specification, its index, its arguments, and what may answer it."""

    name: str
    index: int
    arguments: tuple[Grammar, ...]
    replies: tuple[str, ...] = ()
    has_content: bool = False

    @property
    def payload(self) -> Grammar:
        """The grammar of a method frame's payload."""
        return Struct("index" / Const(self.index, Int32ub), *self.arguments, Terminated)

    def field_names(self) -> list[str]:
        """The arguments in order, with the bits one by one."""
        names: list[str] = []
        for argument in self.arguments:
            names.extend(argument.subcon.names if isinstance(argument.subcon, Bits) else [argument.name])
        return names

    def parse(self, payload: bytes) -> dict[str, Grammar]:
        """Argument values by name; construct.ConstructError where the payload is not this method's."""
        parsed = self.payload.parse(payload)
        values: dict[str, Grammar] = {}
        for argument in self.arguments:
            values.update(
                parsed[argument.name]
                if isinstance(argument.subcon, Bits)
                else {argument.name: parsed[argument.name]}
            )
        return values

    def build(self, values: dict[str, Grammar]) -> bytes:
        """The payload of a method frame with these argument values."""
        flat = dict(values)
        for argument in self.arguments:
            if isinstance(argument.subcon, Bits):
                flat[argument.name] = {name: flat.pop(name) for name in argument.subcon.names}
        built: bytes = self.payload.build(flat)
        return built


def _method(
    name: str, index: int, *arguments: Grammar, replies: tuple[str, ...] = (), has_content: bool = False
) -> MethodGrammar:
    return MethodGrammar(name, index, arguments, replies, has_content)


def _bits(*names: str) -> Grammar:
    return "bits" / Bits(*names)


_TICKET: Final[Grammar] = "ticket" / Short
"""What access.request once handed out; brokers ignore it, and the specification calls it reserved."""

CONNECTION_METHODS: Final = (
    _method(
        "connection.start", c.CONNECTION_START,
        "version_major" / Octet, "version_minor" / Octet, "server_properties" / FieldTable,
        "mechanisms" / LongString, "locales" / LongString,
        replies=("connection.start-ok",),
    ),
    _method(
        "connection.start-ok", c.CONNECTION_START_OK,
        "client_properties" / FieldTable, "mechanism" / ShortString, "response" / LongString,
        "locale" / ShortString,
    ),
    _method(
        "connection.secure", c.CONNECTION_SECURE, "challenge" / LongString,
        replies=("connection.secure-ok",),
    ),
    _method("connection.secure-ok", c.CONNECTION_SECURE_OK, "response" / LongString),
    _method(
        "connection.tune", c.CONNECTION_TUNE,
        "channel_max" / Short, "frame_max" / Long, "heartbeat" / Short,
        replies=("connection.tune-ok",),
    ),
    _method(
        "connection.tune-ok", c.CONNECTION_TUNE_OK,
        "channel_max" / Short, "frame_max" / Long, "heartbeat" / Short,
    ),
    _method(
        "connection.open", c.CONNECTION_OPEN,
        "virtual_host" / ShortString, "reserved_1" / ShortString, _bits("reserved_2"),
        replies=("connection.open-ok",),
    ),
    _method("connection.open-ok", c.CONNECTION_OPEN_OK, "reserved_1" / ShortString),
    _method(
        "connection.close", c.CONNECTION_CLOSE,
        "reply_code" / Short, "reply_text" / ShortString, "class_id" / Short, "method_id" / Short,
        replies=("connection.close-ok",),
    ),
    _method("connection.close-ok", c.CONNECTION_CLOSE_OK),
    _method("connection.blocked", c.CONNECTION_BLOCKED, "reason" / ShortString),
    _method("connection.unblocked", c.CONNECTION_UNBLOCKED),
    _method(
        "connection.update-secret", c.CONNECTION_UPDATE_SECRET,
        "new_secret" / LongString, "reason" / ShortString,
        replies=("connection.update-secret-ok",),
    ),
    _method("connection.update-secret-ok", c.CONNECTION_UPDATE_SECRET_OK),
)  # fmt: skip

CHANNEL_METHODS: Final = (
    _method("channel.open", c.CHANNEL_OPEN, "reserved_1" / ShortString, replies=("channel.open-ok",)),
    _method("channel.open-ok", c.CHANNEL_OPEN_OK, "reserved_1" / LongString),
    _method("channel.flow", c.CHANNEL_FLOW, _bits("active"), replies=("channel.flow-ok",)),
    _method("channel.flow-ok", c.CHANNEL_FLOW_OK, _bits("active")),
    _method(
        "channel.close", c.CHANNEL_CLOSE,
        "reply_code" / Short, "reply_text" / ShortString, "class_id" / Short, "method_id" / Short,
        replies=("channel.close-ok",),
    ),
    _method("channel.close-ok", c.CHANNEL_CLOSE_OK),
    _method(
        "access.request", c.ACCESS_REQUEST,
        "realm" / ShortString, _bits("exclusive", "passive", "active", "write", "read"),
        replies=("access.request-ok",),
    ),
    _method("access.request-ok", c.ACCESS_REQUEST_OK, _TICKET),
)  # fmt: skip

EXCHANGE_METHODS: Final = (
    _method(
        "exchange.declare", c.EXCHANGE_DECLARE,
        _TICKET, "exchange" / ShortString, "type" / ShortString,
        _bits("passive", "durable", "auto_delete", "internal", "nowait"), "arguments" / FieldTable,
        replies=("exchange.declare-ok",),
    ),
    _method("exchange.declare-ok", c.EXCHANGE_DECLARE_OK),
    _method(
        "exchange.delete", c.EXCHANGE_DELETE, _TICKET, "exchange" / ShortString, _bits("if_unused", "nowait"),
        replies=("exchange.delete-ok",),
    ),
    _method("exchange.delete-ok", c.EXCHANGE_DELETE_OK),
    _method(
        "exchange.bind", c.EXCHANGE_BIND,
        _TICKET, "destination" / ShortString, "source" / ShortString, "routing_key" / ShortString,
        _bits("nowait"), "arguments" / FieldTable,
        replies=("exchange.bind-ok",),
    ),
    _method("exchange.bind-ok", c.EXCHANGE_BIND_OK),
    _method(
        "exchange.unbind", c.EXCHANGE_UNBIND,
        _TICKET, "destination" / ShortString, "source" / ShortString, "routing_key" / ShortString,
        _bits("nowait"), "arguments" / FieldTable,
        replies=("exchange.unbind-ok",),
    ),
    _method("exchange.unbind-ok", c.EXCHANGE_UNBIND_OK),
)  # fmt: skip

QUEUE_METHODS: Final = (
    _method(
        "queue.declare", c.QUEUE_DECLARE,
        _TICKET, "queue" / ShortString, _bits("passive", "durable", "exclusive", "auto_delete", "nowait"),
        "arguments" / FieldTable,
        replies=("queue.declare-ok",),
    ),
    _method(
        "queue.declare-ok", c.QUEUE_DECLARE_OK,
        "queue" / ShortString, "message_count" / Long, "consumer_count" / Long,
    ),
    _method(
        "queue.bind", c.QUEUE_BIND,
        _TICKET, "queue" / ShortString, "exchange" / ShortString, "routing_key" / ShortString,
        _bits("nowait"), "arguments" / FieldTable,
        replies=("queue.bind-ok",),
    ),
    _method("queue.bind-ok", c.QUEUE_BIND_OK),
    _method(
        "queue.purge", c.QUEUE_PURGE, _TICKET, "queue" / ShortString, _bits("nowait"),
        replies=("queue.purge-ok",),
    ),
    _method("queue.purge-ok", c.QUEUE_PURGE_OK, "message_count" / Long),
    _method(
        "queue.delete", c.QUEUE_DELETE,
        _TICKET, "queue" / ShortString, _bits("if_unused", "if_empty", "nowait"),
        replies=("queue.delete-ok",),
    ),
    _method("queue.delete-ok", c.QUEUE_DELETE_OK, "message_count" / Long),
    _method(
        "queue.unbind", c.QUEUE_UNBIND,
        _TICKET, "queue" / ShortString, "exchange" / ShortString, "routing_key" / ShortString,
        "arguments" / FieldTable,
        replies=("queue.unbind-ok",),
    ),
    _method("queue.unbind-ok", c.QUEUE_UNBIND_OK),
)  # fmt: skip

BASIC_METHODS: Final = (
    _method(
        "basic.qos", c.BASIC_QOS, "prefetch_size" / Long, "prefetch_count" / Short, _bits("global_"),
        replies=("basic.qos-ok",),
    ),
    _method("basic.qos-ok", c.BASIC_QOS_OK),
    _method(
        "basic.consume", c.BASIC_CONSUME,
        _TICKET, "queue" / ShortString, "consumer_tag" / ShortString,
        _bits("no_local", "no_ack", "exclusive", "nowait"), "arguments" / FieldTable,
        replies=("basic.consume-ok",),
    ),
    _method("basic.consume-ok", c.BASIC_CONSUME_OK, "consumer_tag" / ShortString),
    _method(
        "basic.cancel", c.BASIC_CANCEL, "consumer_tag" / ShortString, _bits("nowait"),
        replies=("basic.cancel-ok",),
    ),
    _method("basic.cancel-ok", c.BASIC_CANCEL_OK, "consumer_tag" / ShortString),
    _method(
        "basic.publish", c.BASIC_PUBLISH,
        _TICKET, "exchange" / ShortString, "routing_key" / ShortString, _bits("mandatory", "immediate"),
        has_content=True,
    ),
    _method(
        "basic.return", c.BASIC_RETURN,
        "reply_code" / Short, "reply_text" / ShortString,
        "exchange" / ShortString, "routing_key" / ShortString,
        has_content=True,
    ),
    _method(
        "basic.deliver", c.BASIC_DELIVER,
        "consumer_tag" / ShortString, "delivery_tag" / LongLong, _bits("redelivered"),
        "exchange" / ShortString, "routing_key" / ShortString,
        has_content=True,
    ),
    _method(
        "basic.get", c.BASIC_GET, _TICKET, "queue" / ShortString, _bits("no_ack"),
        replies=("basic.get-ok", "basic.get-empty"),
    ),
    _method(
        "basic.get-ok", c.BASIC_GET_OK,
        "delivery_tag" / LongLong, _bits("redelivered"),
        "exchange" / ShortString, "routing_key" / ShortString, "message_count" / Long,
        has_content=True,
    ),
    _method("basic.get-empty", c.BASIC_GET_EMPTY, "reserved_1" / ShortString),
    _method("basic.ack", c.BASIC_ACK, "delivery_tag" / LongLong, _bits("multiple")),
    _method("basic.reject", c.BASIC_REJECT, "delivery_tag" / LongLong, _bits("requeue")),
    _method("basic.recover-async", c.BASIC_RECOVER_ASYNC, _bits("requeue")),
    _method("basic.recover", c.BASIC_RECOVER, _bits("requeue"), replies=("basic.recover-ok",)),
    _method("basic.recover-ok", c.BASIC_RECOVER_OK),
    _method("basic.nack", c.BASIC_NACK, "delivery_tag" / LongLong, _bits("multiple", "requeue")),
)  # fmt: skip

CONFIRM_AND_TX_METHODS: Final = (
    _method("confirm.select", c.CONFIRM_SELECT, _bits("nowait"), replies=("confirm.select-ok",)),
    _method("confirm.select-ok", c.CONFIRM_SELECT_OK),
    _method("tx.select", c.TX_SELECT, replies=("tx.select-ok",)),
    _method("tx.select-ok", c.TX_SELECT_OK),
    _method("tx.commit", c.TX_COMMIT, replies=("tx.commit-ok",)),
    _method("tx.commit-ok", c.TX_COMMIT_OK),
    _method("tx.rollback", c.TX_ROLLBACK, replies=("tx.rollback-ok",)),
    _method("tx.rollback-ok", c.TX_ROLLBACK_OK),
)

METHODS: Final[tuple[MethodGrammar, ...]] = (
    *CONNECTION_METHODS,
    *CHANNEL_METHODS,
    *EXCHANGE_METHODS,
    *QUEUE_METHODS,
    *BASIC_METHODS,
    *CONFIRM_AND_TX_METHODS,
)
