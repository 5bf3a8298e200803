"""Messages: published to an exchange, and got from a queue."""

from __future__ import annotations

import base64
import binascii

import msgspec

from amqp_broker.client.channel import Channel
from amqp_broker.client.errors import ChannelClosed, ClientTimeout
from amqp_broker.client.messages import Delivery
from amqp_broker.protocol.json_values import JsonObject, JsonValue, properties_as_json
from amqp_broker.system_client import SYSTEM_EXCHANGE
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import integer, read_body
from amqp_broker.web.endpoints.exchange_names import exchange_of
from amqp_broker.web.errors import bad_request, kind_not_found
from amqp_broker.web.field_values import read_properties

_NOT_FOUND = 404
_ACK_MODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
_ENCODINGS = ("auto", "base64")
#: Of base64: many write it in lines.
_WITHOUT_SPACE = str.maketrans("", "", " \t\r\n")
_CONFIRM_TIMEOUT_S = 5.0
#: So much is got at most by one request, however many messages it asks for.
MAX_GET_OCTETS = 64 << 20
MAX_GET_MESSAGES = 10_000


class PublishBody(msgspec.Struct):
    """A message."""

    routing_key: str
    properties: JsonValue
    payload: JsonValue
    payload_encoding: str


class GetBody(msgspec.Struct):
    """How many, what becomes of them, and how bodies are shown."""

    count: JsonValue
    ackmode: str
    encoding: str
    truncate: JsonValue = None


def publish_message(asked: Asked) -> Answer:
    """Mandatory and confirmed, so that the answer says whether a queue has it."""
    vhost, exchange = asked.name("vhost"), exchange_of(asked.name("exchange"))
    if exchange == SYSTEM_EXCHANGE:
        raise bad_request(f"'{exchange}' takes requests and no messages: the HTTP API has an endpoint for each of them")
    body = read_body(asked.body, PublishBody)
    payload, properties = _payload(body), read_properties(body.properties)
    try:
        with asked.channel(vhost) as channel:
            channel.confirm_select()
            channel.publish(exchange, body.routing_key, payload, properties, mandatory=True)
            refused = channel.wait_for_confirms(_CONFIRM_TIMEOUT_S)
            is_routed = not channel.take_returned()
    except ClientTimeout as error:
        raise bad_request(f"the message was not confirmed in {_CONFIRM_TIMEOUT_S:.0f} s: {error}") from None
    except ChannelClosed as error:
        if error.reply_code == _NOT_FOUND:
            raise kind_not_found("exchange") from None
        raise
    if refused:
        raise bad_request("the broker has refused the message: a queue that it goes to is full (see its limits)")
    return Answer(value={"routed": is_routed})


def _payload(body: PublishBody) -> bytes:
    if not isinstance(body.payload, str):
        raise bad_request("payload_not_string")
    if body.payload_encoding == "string":
        try:
            return body.payload.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise bad_request(f"payload: no text that UTF-8 can carry: {error}") from None
    if body.payload_encoding != "base64":
        raise bad_request(["unsupported_encoding", body.payload_encoding])
    try:
        return base64.b64decode(body.payload.translate(_WITHOUT_SPACE), validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("payload is not base64") from None


def get_messages(asked: Asked) -> Answer:
    """All are fetched, and then put back where they were, or not."""
    vhost, queue = asked.name("vhost"), asked.name("queue")
    body = read_body(asked.body, GetBody)
    count = integer(body.count, "count")
    truncate = None if body.truncate is None else integer(body.truncate, "truncate")
    if body.ackmode not in _ACK_MODES or body.encoding not in _ENCODINGS or count < 1 or (truncate or 0) < 0:
        raise bad_request(
            f"ackmode is one of {', '.join(_ACK_MODES)}, encoding one of {', '.join(_ENCODINGS)}, count at least 1"
        )
    try:
        with asked.channel(vhost) as channel:
            found = _get(channel, queue, min(count, MAX_GET_MESSAGES), no_ack=body.ackmode == "ack_requeue_false")
            if found and body.ackmode == "reject_requeue_false":
                channel.nack(found[-1], multiple=True, requeue=False)
            elif found and body.ackmode != "ack_requeue_false":
                channel.nack(found[-1], multiple=True, requeue=True)
    except ChannelClosed as error:
        if error.reply_code == _NOT_FOUND:
            raise kind_not_found("queue") from None
        raise
    return Answer(value=[_show(each, body.encoding, truncate) for each in found])


def _get(channel: Channel, queue: str, count: int, no_ack: bool) -> list[Delivery]:
    found: list[Delivery] = []
    octets = 0
    while len(found) < count and octets < MAX_GET_OCTETS:
        delivery = channel.get(queue, no_ack)
        if delivery is None:
            break
        found.append(delivery)
        octets += len(delivery.body)
    return found


def _show(delivery: Delivery, encoding: str, truncate: int | None) -> JsonObject:
    shown = delivery.body if truncate is None else delivery.body[:truncate]
    try:
        payload, how = (shown.decode("utf-8"), "string") if encoding == "auto" else _base64(shown)
    except UnicodeDecodeError:
        payload, how = _base64(shown)
    return {
        "payload_bytes": len(delivery.body),
        "redelivered": delivery.redelivered,
        "exchange": delivery.exchange,
        "routing_key": delivery.routing_key,
        "message_count": delivery.message_count,
        "properties": properties_as_json(delivery.properties),
        "payload": payload,
        "payload_encoding": how,
    }


def _base64(octets: bytes) -> tuple[str, str]:
    return base64.b64encode(octets).decode("ascii"), "base64"
