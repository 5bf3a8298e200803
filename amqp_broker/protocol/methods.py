"""One class per method of AMQP, with the arguments in the specification's order.

Written by generate.py from grammar.py: change the grammar and run `python -m amqp_broker.protocol.generate`.
Strings are str (UTF-8 with surrogateescape), long strings bytes, tables Table. What is not given is zero,
empty or false.
"""

from __future__ import annotations

from typing import Final

from amqp_broker.protocol import constants as c
from amqp_broker.protocol import method_codec
from amqp_broker.protocol.method_codec import (
    EMPTY_TABLE,
    Bit,
    FieldTable,
    Long,
    LongLong,
    LongString,
    Octet,
    Short,
    ShortString,
)
from amqp_broker.protocol.method_codec import Method as Method


class ConnectionStart(
    Method, name="connection.start", index=c.CONNECTION_START, replies=("connection.start-ok",)
):
    version_major: Octet = 0
    version_minor: Octet = 0
    server_properties: FieldTable = EMPTY_TABLE
    mechanisms: LongString = b""
    locales: LongString = b""


class ConnectionStartOk(Method, name="connection.start-ok", index=c.CONNECTION_START_OK):
    client_properties: FieldTable = EMPTY_TABLE
    mechanism: ShortString = ""
    response: LongString = b""
    locale: ShortString = ""


class ConnectionSecure(
    Method, name="connection.secure", index=c.CONNECTION_SECURE, replies=("connection.secure-ok",)
):
    challenge: LongString = b""


class ConnectionSecureOk(Method, name="connection.secure-ok", index=c.CONNECTION_SECURE_OK):
    response: LongString = b""


class ConnectionTune(
    Method, name="connection.tune", index=c.CONNECTION_TUNE, replies=("connection.tune-ok",)
):
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionTuneOk(Method, name="connection.tune-ok", index=c.CONNECTION_TUNE_OK):
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionOpen(
    Method, name="connection.open", index=c.CONNECTION_OPEN, replies=("connection.open-ok",)
):
    virtual_host: ShortString = ""
    reserved_1: ShortString = ""
    reserved_2: Bit = False


class ConnectionOpenOk(Method, name="connection.open-ok", index=c.CONNECTION_OPEN_OK):
    reserved_1: ShortString = ""


class ConnectionClose(
    Method, name="connection.close", index=c.CONNECTION_CLOSE, replies=("connection.close-ok",)
):
    reply_code: Short = 0
    reply_text: ShortString = ""
    class_id: Short = 0
    method_id: Short = 0


class ConnectionCloseOk(Method, name="connection.close-ok", index=c.CONNECTION_CLOSE_OK):
    """No arguments."""


class ConnectionBlocked(Method, name="connection.blocked", index=c.CONNECTION_BLOCKED):
    reason: ShortString = ""


class ConnectionUnblocked(Method, name="connection.unblocked", index=c.CONNECTION_UNBLOCKED):
    """No arguments."""


class ConnectionUpdateSecret(
    Method,
    name="connection.update-secret",
    index=c.CONNECTION_UPDATE_SECRET,
    replies=("connection.update-secret-ok",),
):
    new_secret: LongString = b""
    reason: ShortString = ""


class ConnectionUpdateSecretOk(
    Method, name="connection.update-secret-ok", index=c.CONNECTION_UPDATE_SECRET_OK
):
    """No arguments."""


class ChannelOpen(Method, name="channel.open", index=c.CHANNEL_OPEN, replies=("channel.open-ok",)):
    reserved_1: ShortString = ""


class ChannelOpenOk(Method, name="channel.open-ok", index=c.CHANNEL_OPEN_OK):
    reserved_1: LongString = b""


class ChannelFlow(Method, name="channel.flow", index=c.CHANNEL_FLOW, replies=("channel.flow-ok",)):
    active: Bit = False


class ChannelFlowOk(Method, name="channel.flow-ok", index=c.CHANNEL_FLOW_OK):
    active: Bit = False


class ChannelClose(Method, name="channel.close", index=c.CHANNEL_CLOSE, replies=("channel.close-ok",)):
    reply_code: Short = 0
    reply_text: ShortString = ""
    class_id: Short = 0
    method_id: Short = 0


class ChannelCloseOk(Method, name="channel.close-ok", index=c.CHANNEL_CLOSE_OK):
    """No arguments."""


class AccessRequest(Method, name="access.request", index=c.ACCESS_REQUEST, replies=("access.request-ok",)):
    realm: ShortString = ""
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


class AccessRequestOk(Method, name="access.request-ok", index=c.ACCESS_REQUEST_OK):
    ticket: Short = 0


class ExchangeDeclare(
    Method, name="exchange.declare", index=c.EXCHANGE_DECLARE, replies=("exchange.declare-ok",)
):
    ticket: Short = 0
    exchange: ShortString = ""
    type: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: FieldTable = EMPTY_TABLE


class ExchangeDeclareOk(Method, name="exchange.declare-ok", index=c.EXCHANGE_DECLARE_OK):
    """No arguments."""


class ExchangeDelete(
    Method, name="exchange.delete", index=c.EXCHANGE_DELETE, replies=("exchange.delete-ok",)
):
    ticket: Short = 0
    exchange: ShortString = ""
    if_unused: Bit = False
    nowait: Bit = False


class ExchangeDeleteOk(Method, name="exchange.delete-ok", index=c.EXCHANGE_DELETE_OK):
    """No arguments."""


class ExchangeBind(Method, name="exchange.bind", index=c.EXCHANGE_BIND, replies=("exchange.bind-ok",)):
    ticket: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: FieldTable = EMPTY_TABLE


class ExchangeBindOk(Method, name="exchange.bind-ok", index=c.EXCHANGE_BIND_OK):
    """No arguments."""


class ExchangeUnbind(
    Method, name="exchange.unbind", index=c.EXCHANGE_UNBIND, replies=("exchange.unbind-ok",)
):
    ticket: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: FieldTable = EMPTY_TABLE


class ExchangeUnbindOk(Method, name="exchange.unbind-ok", index=c.EXCHANGE_UNBIND_OK):
    """No arguments."""


class QueueDeclare(Method, name="queue.declare", index=c.QUEUE_DECLARE, replies=("queue.declare-ok",)):
    ticket: Short = 0
    queue: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: FieldTable = EMPTY_TABLE


class QueueDeclareOk(Method, name="queue.declare-ok", index=c.QUEUE_DECLARE_OK):
    queue: ShortString = ""
    message_count: Long = 0
    consumer_count: Long = 0


class QueueBind(Method, name="queue.bind", index=c.QUEUE_BIND, replies=("queue.bind-ok",)):
    ticket: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: FieldTable = EMPTY_TABLE


class QueueBindOk(Method, name="queue.bind-ok", index=c.QUEUE_BIND_OK):
    """No arguments."""


class QueuePurge(Method, name="queue.purge", index=c.QUEUE_PURGE, replies=("queue.purge-ok",)):
    ticket: Short = 0
    queue: ShortString = ""
    nowait: Bit = False


class QueuePurgeOk(Method, name="queue.purge-ok", index=c.QUEUE_PURGE_OK):
    message_count: Long = 0


class QueueDelete(Method, name="queue.delete", index=c.QUEUE_DELETE, replies=("queue.delete-ok",)):
    ticket: Short = 0
    queue: ShortString = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


class QueueDeleteOk(Method, name="queue.delete-ok", index=c.QUEUE_DELETE_OK):
    message_count: Long = 0


class QueueUnbind(Method, name="queue.unbind", index=c.QUEUE_UNBIND, replies=("queue.unbind-ok",)):
    ticket: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    arguments: FieldTable = EMPTY_TABLE


class QueueUnbindOk(Method, name="queue.unbind-ok", index=c.QUEUE_UNBIND_OK):
    """No arguments."""


class BasicQos(Method, name="basic.qos", index=c.BASIC_QOS, replies=("basic.qos-ok",)):
    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_: Bit = False


class BasicQosOk(Method, name="basic.qos-ok", index=c.BASIC_QOS_OK):
    """No arguments."""


class BasicConsume(Method, name="basic.consume", index=c.BASIC_CONSUME, replies=("basic.consume-ok",)):
    ticket: Short = 0
    queue: ShortString = ""
    consumer_tag: ShortString = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: FieldTable = EMPTY_TABLE


class BasicConsumeOk(Method, name="basic.consume-ok", index=c.BASIC_CONSUME_OK):
    consumer_tag: ShortString = ""


class BasicCancel(Method, name="basic.cancel", index=c.BASIC_CANCEL, replies=("basic.cancel-ok",)):
    consumer_tag: ShortString = ""
    nowait: Bit = False


class BasicCancelOk(Method, name="basic.cancel-ok", index=c.BASIC_CANCEL_OK):
    consumer_tag: ShortString = ""


class BasicPublish(Method, name="basic.publish", index=c.BASIC_PUBLISH, has_content=True):
    ticket: Short = 0
    exchange: ShortString = ""
    routing_key: ShortString = ""
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method, name="basic.return", index=c.BASIC_RETURN, has_content=True):
    reply_code: Short = 0
    reply_text: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""


class BasicDeliver(Method, name="basic.deliver", index=c.BASIC_DELIVER, has_content=True):
    consumer_tag: ShortString = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""


class BasicGet(Method, name="basic.get", index=c.BASIC_GET, replies=("basic.get-ok", "basic.get-empty")):
    ticket: Short = 0
    queue: ShortString = ""
    no_ack: Bit = False


class BasicGetOk(Method, name="basic.get-ok", index=c.BASIC_GET_OK, has_content=True):
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""
    message_count: Long = 0


class BasicGetEmpty(Method, name="basic.get-empty", index=c.BASIC_GET_EMPTY):
    reserved_1: ShortString = ""


class BasicAck(Method, name="basic.ack", index=c.BASIC_ACK):
    delivery_tag: LongLong = 0
    multiple: Bit = False


class BasicReject(Method, name="basic.reject", index=c.BASIC_REJECT):
    delivery_tag: LongLong = 0
    requeue: Bit = False


class BasicRecoverAsync(Method, name="basic.recover-async", index=c.BASIC_RECOVER_ASYNC):
    requeue: Bit = False


class BasicRecover(Method, name="basic.recover", index=c.BASIC_RECOVER, replies=("basic.recover-ok",)):
    requeue: Bit = False


class BasicRecoverOk(Method, name="basic.recover-ok", index=c.BASIC_RECOVER_OK):
    """No arguments."""


class BasicNack(Method, name="basic.nack", index=c.BASIC_NACK):
    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = False


class ConfirmSelect(Method, name="confirm.select", index=c.CONFIRM_SELECT, replies=("confirm.select-ok",)):
    nowait: Bit = False


class ConfirmSelectOk(Method, name="confirm.select-ok", index=c.CONFIRM_SELECT_OK):
    """No arguments."""


class TxSelect(Method, name="tx.select", index=c.TX_SELECT, replies=("tx.select-ok",)):
    """No arguments."""


class TxSelectOk(Method, name="tx.select-ok", index=c.TX_SELECT_OK):
    """No arguments."""


class TxCommit(Method, name="tx.commit", index=c.TX_COMMIT, replies=("tx.commit-ok",)):
    """No arguments."""


class TxCommitOk(Method, name="tx.commit-ok", index=c.TX_COMMIT_OK):
    """No arguments."""


class TxRollback(Method, name="tx.rollback", index=c.TX_ROLLBACK, replies=("tx.rollback-ok",)):
    """No arguments."""


class TxRollbackOk(Method, name="tx.rollback-ok", index=c.TX_ROLLBACK_OK):
    """No arguments."""


METHODS: Final[dict[tuple[int, int], type[Method]]] = {
    method.ids: method for method in Method.__subclasses__()
}
"""Every method by (class id, method id)."""
METHODS_BY_NAME: Final[dict[str, type[Method]]] = {method.name: method for method in METHODS.values()}
_METHODS_BY_INDEX: Final = {method.index: method for method in METHODS.values()}


def decode_method(payload: bytes) -> Method:
    """The method in a method frame's payload; MethodDecodeError (with the cause) or UnknownMethod."""
    return method_codec.decode(_METHODS_BY_INDEX, payload)


def encode_method(method: Method) -> bytes:
    """The payload of a method frame; EncodeError names the argument that the wire cannot carry."""
    return method_codec.encode(method)
