"""basic.publish and basic.return: errors, mandatory, CC and BCC, user-id, expiration, and properties octet by
octet.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.conformance.replies import no_exchange
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import PROPERTIES, Typed, encode_properties, encode_shortstr, encode_table

Connect = Callable[..., Connection]
Named = Callable[[str], str]


@pytest.mark.holds("basic.publish: default exchange -> the queue that the routing key names")
def test_the_default_exchange_routes_by_queue_name(channel: Channel) -> None:
    """The delivery says exchange "" and the routing key."""
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"hello")
    message = channel.get(queue)
    assert message is not None
    assert (message.body, message.exchange, message.routing_key) == (b"hello", "", queue)


@pytest.mark.holds("basic.publish: missing exchange -> 404; what follows on the channel is discarded")
def test_publishing_to_a_missing_exchange_is_a_404(connection: Connection, vhost: str) -> None:
    """Row 19: a later publish of the same octets does not arrive and is not confirmed, an earlier one is."""
    channel, other = connection.channel(), connection.channel()
    queue = other.declare(exclusive=True)
    channel.call("confirm.select")
    channel.publish("missing-exchange", "key", b"lost")
    channel.publish("", queue, b"discarded")
    channel.expect_close(404, no_exchange("missing-exchange", vhost), by="basic.publish")
    channel.open()
    channel.call("basic.qos")
    assert other.get_bodies(queue) == []


@pytest.mark.holds("basic.publish: unroutable and not mandatory -> dropped without a word")
def test_an_unroutable_message_is_dropped(channel: Channel) -> None:
    """The default exchange knows no such queue."""
    channel.publish("", "no-such-queue", b"lost")
    channel.expect_silence()


@pytest.mark.holds("basic.publish: immediate=true -> 540")
def test_immediate_is_a_540(channel: Channel) -> None:
    """A hard error that names the flag."""
    channel.publish("", "anywhere", b"now", immediate=True)
    channel.connection.expect_close(540, "NOT_IMPLEMENTED - immediate=true", by="basic.publish")


@pytest.mark.holds("basic.publish: immediate=true to a missing exchange -> 540 before 404")
def test_immediate_comes_before_a_missing_exchange(channel: Channel) -> None:
    """No exchange has it."""
    channel.publish("no-such-exchange", "anywhere", b"now", immediate=True)
    channel.connection.expect_close(540, "NOT_IMPLEMENTED - immediate=true", by="basic.publish")


@pytest.mark.holds("basic.publish: mandatory and unroutable -> basic.return 312 NO_ROUTE with header and body")
@pytest.mark.parametrize("body", [b"", b"lost", b"l" * 200_000], ids=["empty", "small", "large"])
@pytest.mark.octets_too_slow
def test_an_unroutable_mandatory_message_is_returned(channel: Channel, body: bytes) -> None:
    """Row 18: with its exchange, key and properties as they came."""
    channel.publish("amq.direct", "nowhere", body, mandatory=True, headers={"a": 1}, message_id="m1")
    message = channel.expect_message("basic.return")
    assert (message.reply_code, message.reply_text) == (312, "NO_ROUTE")
    assert (message.exchange, message.routing_key, message.body) == ("amq.direct", "nowhere", body)
    assert message.section == encode_properties({"headers": {"a": 1}, "message_id": "m1"})


@pytest.mark.holds("basic.publish: mandatory and routed -> no return")
def test_a_routed_mandatory_message_is_not_returned(channel: Channel) -> None:
    """It is in the queue instead."""
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"m", mandatory=True)
    channel.expect_silence(queue)
    assert channel.get_bodies(queue) == [b"m"]


@pytest.mark.holds("basic.publish: bad expiration -> 406")
@pytest.mark.parametrize("expiration", ["", "abc", "12abc", "-1", "1.5", "315360000001", "+", "++1", "1+", "+-1"])
def test_a_bad_expiration_is_a_406(channel: Channel, expiration: str) -> None:
    """The property is a decimal string of milliseconds, ten years at most; the text ends with the cause."""
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"m", expiration=expiration)
    text = channel.expect_close(406, by="basic.publish")
    assert text.startswith(f"PRECONDITION_FAILED - invalid expiration '{expiration}': ")


@pytest.mark.holds("basic.publish: an expiration may have a plus sign")
def test_an_expiration_may_have_a_sign(channel: Channel) -> None:
    """It counts as the number, and is delivered as it came."""
    dead = channel.declare(exclusive=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = channel.declare(exclusive=True, arguments=arguments)
    channel.consume(dead, no_ack=True)
    channel.publish("", queue, b"short", expiration="+1")
    channel.expect_deliveries(b"short")
    channel.publish("", queue, b"long", expiration="+60000")
    assert channel.get_bodies(queue) == [b"long"]


@pytest.mark.holds("basic.publish: user_id of the connection's user -> ok; another -> 406")
def test_the_user_id_is_checked(channel: Channel) -> None:
    """Who claims to be someone else is refused."""
    user = channel.connection.address.user
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"mine", user_id=user)
    message = channel.get(queue)
    assert message is not None
    assert message.properties["user_id"] == user
    channel.publish("", queue, b"not mine", user_id="somebody")
    text = f"PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was '{user}'"
    channel.expect_close(406, text, by="basic.publish")


@pytest.mark.octets_too_slow
@pytest.mark.holds("basic.publish: larger than the configured maximum -> 406")
def test_a_too_large_message_is_a_406(channel: Channel) -> None:
    """The text names both sizes; the channel can be opened again."""
    size = 134_217_728 + 1
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"x" * size)
    text = channel.expect_close(406, by="basic.publish")
    assert text.startswith(f"PRECONDITION_FAILED - message size {size} is larger than configured max size ")
    channel.open()
    assert channel.get(queue) is None


@pytest.mark.holds("CC header: additional routing keys, kept in the message")
def test_cc_routes_to_more_keys(channel: Channel) -> None:
    """Each queue gets it once, whichever key it is under; the header stays."""
    queues = [channel.declare(exclusive=True) for _ in range(3)]
    headers = {"CC": [queues[1], queues[2], queues[0]]}
    channel.publish("", queues[0], b"copies", headers=headers)
    for queue in queues:
        message = channel.get(queue)
        assert message is not None
        assert (message.body, message.headers) == (b"copies", headers)
        assert message.routing_key == queues[0]
        assert channel.get(queue) is None


@pytest.mark.holds("BCC header: additional routing keys, removed from the message")
def test_bcc_routes_and_is_removed(channel: Channel) -> None:
    """The other headers stay as they were."""
    queues = [channel.declare(exclusive=True) for _ in range(2)]
    headers = {"a": 1, "BCC": [queues[1]], "b": "two"}
    channel.publish("", queues[0], b"copies", headers=headers)
    for queue in queues:
        message = channel.get(queue)
        assert message is not None
        assert message.headers == {"a": 1, "b": "two"}


@pytest.mark.holds("CC and BCC: a mandatory message is routed if any key is")
def test_cc_counts_for_mandatory(channel: Channel) -> None:
    """The primary key leads nowhere, a copy arrives."""
    queue = channel.declare(exclusive=True)
    channel.publish("", "no-such-queue", b"copy", mandatory=True, headers={"CC": [queue]})
    channel.expect_silence(queue)
    assert channel.get_bodies(queue) == [b"copy"]


@pytest.mark.holds("CC and BCC headers: not an array of strings -> 406")
@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("value", ["a-string", 5, None, {"a": "table"}], ids=str)
def test_a_malformed_cc_is_a_406(channel: Channel, header: str, value: Any) -> None:
    """One string is no array."""
    channel.publish("", "anywhere", b"m", headers={header: value})
    assert header in channel.expect_close(406, by="basic.publish")


ALL_PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"key": "value"},
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "c-1",
    "reply_to": "replies",
    "expiration": "60000",
    "message_id": "m-1",
    "timestamp": 1_700_000_000,
    "type": "greeting",
    "user_id": "guest",
    "app_id": "suite",
    "cluster_id": "old",
}


@pytest.mark.holds("properties: all fourteen are delivered octet by octet")
@pytest.mark.parametrize("present", ["none", "all", *[name for name, _ in PROPERTIES]])
def test_properties_are_delivered_as_published(channel: Channel, present: str) -> None:
    """Row 32: each alone, all together, none at all."""
    chosen = {name: value for name, value in ALL_PROPERTIES.items() if present in (name, "all")}
    if "user_id" in chosen:
        chosen["user_id"] = channel.connection.address.user
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"m", **chosen)
    message = channel.get(queue)
    assert message is not None
    assert message.section == encode_properties(chosen)


EVERY_TYPE = {
    "t": True, "b": Typed("b", -5), "B": Typed("B", 200), "s": Typed("s", -300), "u": Typed("u", 60_000),
    "I": -70_000, "i": Typed("i", 4_000_000_000), "l": Typed("l", 5), "f": Typed("f", 1.5), "d": 2.25,
    "D": Decimal("-12.345"), "S": "text", "A": [1, "two", [3.0], {"four": None}], "T": Typed("T", 17),
    "F": {"nested": {"deeper": [True]}}, "V": None, "x": b"\x00\xff octets", "": "empty key",
}  # fmt: skip


@pytest.mark.holds("headers: every table type is delivered octet by octet")
@pytest.mark.parametrize(
    "table",
    [
        encode_table(EVERY_TYPE),
        encode_table({}),
        encode_table({"bytes": Typed("S", b"\xff\xfe\x00 not UTF-8")}),
        encode_table(encode_shortstr(b"\xff\xfe") + b"t\x01"),
    ],
    ids=["every type", "empty", "a string that is not UTF-8", "a key that is not UTF-8"],
)
def test_headers_are_delivered_as_published(channel: Channel, table: bytes) -> None:
    """Row 32: nothing is decoded and encoded again on the way."""
    queue = channel.declare(exclusive=True)
    section = struct.pack(">H", 0x2000) + table
    channel.send("basic.publish", routing_key=queue)
    channel.send_content(b"m", section)
    message = channel.get(queue)
    assert message is not None
    assert message.section == section


@pytest.mark.holds("basic.publish: any priority is delivered as it came")
@pytest.mark.parametrize("priority", [0, 1, 9, 255])
def test_any_priority_is_delivered(channel: Channel, priority: int) -> None:
    """A queue without priorities does not judge the number."""
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"m", priority=priority)
    message = channel.get(queue)
    assert message is not None
    assert message.properties == {"priority": priority}


@pytest.mark.holds("order: one channel, one exchange, one queue, one consumer is first in, first out")
def test_messages_keep_their_order(connection: Connection) -> None:
    """Row 13: two hundred messages, large and small, through an exchange to a consumer."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key=queue)
    channel.consume(queue, no_ack=True)
    bodies = [b"%d:" % index + b"x" * (index * 7 % 97) for index in range(200)]
    for body in bodies:
        channel.publish("amq.direct", queue, body)
    messages = channel.expect_deliveries(*bodies)
    assert [message.delivery_tag for message in messages] == list(range(1, 201))
