"""Frames: bad ones and their codes, any cutting of the octets, body sizes and splitting."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import Connection, Sends
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    encode_content_header,
    encode_frame,
    encode_method,
    encode_properties,
)

Connect = Callable[..., Connection]
NO_PROPERTIES = encode_properties({})
HEADER_OF_ONE = encode_content_header(1, NO_PROPERTIES)
NOT_A_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NOT_A_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
NOT_A_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"


def _frame_error(connection: Connection, octets: bytes, code: int) -> str:
    connection.send_octets(octets)
    return connection.expect_close(code)


@pytest.mark.holds("frame: wrong end octet -> 501")
def test_a_wrong_end_octet_is_a_501(connection: Connection) -> None:
    """Every frame ends with 0xCE."""
    octets = encode_frame(FRAME_METHOD, 1, encode_method("channel.open"))
    assert octets[-1] == FRAME_END
    assert _frame_error(connection, octets[:-1] + b"\0", 501).startswith("FRAME_ERROR - ")


@pytest.mark.holds("frame: unknown type -> 501")
@pytest.mark.parametrize("kind", [0, 4, 5, 6, 7, 9, 255])
def test_an_unknown_frame_type_is_a_501(connection: Connection, kind: int) -> None:
    """Only method, header, body and heartbeat frames exist."""
    assert _frame_error(connection, encode_frame(kind, 0, b""), 501).startswith("FRAME_ERROR - ")


@pytest.mark.holds("frame: heartbeat with a payload -> 501")
def test_a_heartbeat_with_a_payload_is_a_501(connection: Connection) -> None:
    """A heartbeat is empty."""
    _frame_error(connection, encode_frame(FRAME_HEARTBEAT, 0, b"abc"), 501)


@pytest.mark.holds("frame: heartbeat on a channel other than 0 -> 505")
def test_a_heartbeat_on_a_channel_is_a_505(connection: Connection) -> None:
    """Heartbeats belong to the connection."""
    text = _frame_error(connection, encode_frame(FRAME_HEARTBEAT, 1, b""), 505)
    assert text.startswith("UNEXPECTED_FRAME - ")


@pytest.mark.holds("frame: payload above frame_max - 8 -> 501")
def test_a_frame_above_frame_max_is_a_501(channel: Channel) -> None:
    """RabbitMQ tolerates eight octets more, so the test is well above."""
    connection = channel.connection
    channel.send("basic.publish")
    connection.send_frame(FRAME_HEADER, channel.number, encode_content_header(140_000, NO_PROPERTIES))
    connection.send_frame(FRAME_BODY, channel.number, b"a" * 132_000)
    assert connection.expect_close(501).startswith("FRAME_ERROR - ")


@pytest.mark.holds("frame: a payload of exactly frame_max - 8 is accepted")
def test_a_frame_of_frame_max_is_accepted(channel: Channel) -> None:
    """One body frame of the largest size."""
    queue = channel.declare(exclusive=True)
    body = b"a" * (channel.connection.frame_max - 8)
    channel.publish("", queue, body)
    message = channel.get(queue)
    assert message is not None
    assert (message.body, message.frame_sizes) == (body, [len(body)])


@pytest.mark.octets_too_slow
@pytest.mark.holds("frame: a payload of frame_max, eight octets too many, is tolerated")
def test_a_payload_of_frame_max_is_tolerated(channel: Channel) -> None:
    """amqpstorm fills its body frames so; the envelope is on top."""
    queue = channel.declare(exclusive=True)
    connection = channel.connection
    size = connection.frame_max
    channel.send("basic.publish", routing_key=queue)
    connection.send_frame(FRAME_HEADER, channel.number, encode_content_header(2 * size, NO_PROPERTIES))
    for _ in range(2):
        connection.send_frame(FRAME_BODY, channel.number, b"a" * size)
    message = channel.get(queue)
    assert message is not None
    assert message.body == b"a" * (2 * size)


@pytest.mark.ours_only("501; 502 is what the specification asks for")
@pytest.mark.holds("method: malformed arguments -> 502")
@pytest.mark.parametrize(
    "payload",
    [
        encode_method("queue.declare", queue="abc")[:-3],
        encode_method("queue.declare") + b"zz",
        encode_method("queue.declare")[:-4] + b"\0\0\0\x50abc",
        encode_method("queue.declare", arguments=b"\x01aZ\0"),
        encode_method("queue.declare", arguments=b"\x05a"),
    ],
    ids=["cut short", "octets left over", "table too long", "unknown table type", "table key cut short"],
)
def test_malformed_arguments_are_a_502(channel: Channel, payload: bytes) -> None:
    """The frame is well formed, what it carries is not."""
    channel.connection.send_frame(FRAME_METHOD, channel.number, payload)
    assert channel.connection.expect_close(502, by="queue.declare").startswith("SYNTAX_ERROR - ")


@pytest.mark.ours_only("resets the transport")
@pytest.mark.holds("method: unknown class or method -> 503 or 540")
@pytest.mark.parametrize("ids", [b"\0\x63\0\x0a", b"\0\x32\0\x63"], ids=["class 99", "queue method 99"])
def test_an_unknown_method_is_told(channel: Channel, ids: bytes) -> None:
    """A proper close, whichever of the two codes: command invalid, or not implemented."""
    channel.connection.send_frame(FRAME_METHOD, channel.number, ids)
    close = channel.connection.expect("connection.close")
    assert close.reply_code in (503, 540)


@pytest.mark.holds("method: a payload shorter than its ids -> 501")
@pytest.mark.parametrize("payload", [b"", b"\0\x32\0"])
def test_a_method_without_ids_is_a_501(channel: Channel, payload: bytes) -> None:
    """Class and method need four octets."""
    channel.connection.send_frame(FRAME_METHOD, channel.number, payload)
    channel.connection.expect_close(501)


@pytest.mark.holds("method: one that only brokers send -> 503")
@pytest.mark.parametrize("name", ["queue.declare-ok", "channel.open-ok", "channel.close-ok", "basic.cancel-ok"])
def test_an_answer_from_a_client_is_a_503(channel: Channel, name: str) -> None:
    """A client that answers what nobody asked."""
    channel.send(name)
    channel.connection.expect_close(503, "COMMAND_INVALID - unimplemented method", by=name)


@pytest.mark.ours_only("waits for ever for the rest of the content")
@pytest.mark.holds("method: basic.deliver from a client -> 503")
@pytest.mark.parametrize("name", ["basic.deliver", "basic.return", "basic.get-ok"])
def test_a_content_that_only_brokers_send_is_a_503(channel: Channel, name: str) -> None:
    """Deliveries go one way."""
    channel.send(name)
    channel.send_content(b"", NO_PROPERTIES)
    channel.connection.expect_close(503, by=name)


@pytest.mark.holds("content: a header or body frame that no publish announced -> 505")
@pytest.mark.parametrize(
    ("kind", "payload"), [(FRAME_HEADER, HEADER_OF_ONE), (FRAME_BODY, b"a")], ids=["header", "body"]
)
def test_content_without_a_publish_is_a_505(channel: Channel, kind: int, payload: bytes) -> None:
    """A channel between two methods takes methods only."""
    channel.connection.send_frame(kind, channel.number, payload)
    channel.connection.expect_close(505, NOT_A_METHOD)


@pytest.mark.holds("content: anything but a header after basic.publish -> 505")
@pytest.mark.parametrize(
    ("kind", "payload"),
    [(FRAME_METHOD, encode_method("basic.qos")), (FRAME_BODY, b"a")],
    ids=["method", "body"],
)
def test_no_header_after_a_publish_is_a_505(channel: Channel, kind: int, payload: bytes) -> None:
    """basic.publish is followed by its content header."""
    channel.send("basic.publish")
    channel.connection.send_frame(kind, channel.number, payload)
    channel.connection.expect_close(505, NOT_A_HEADER, by="basic.publish")


@pytest.mark.holds("content: anything but a body after a content header -> 505")
@pytest.mark.parametrize(
    ("kind", "payload"),
    [(FRAME_METHOD, encode_method("basic.qos")), (FRAME_HEADER, HEADER_OF_ONE)],
    ids=["method", "header"],
)
def test_no_body_after_a_header_is_a_505(channel: Channel, kind: int, payload: bytes) -> None:
    """A header that announces octets is followed by them."""
    channel.send("basic.publish")
    channel.connection.send_frame(FRAME_HEADER, channel.number, HEADER_OF_ONE)
    channel.connection.send_frame(kind, channel.number, payload)
    channel.connection.expect_close(505, NOT_A_BODY, by="basic.publish")


@pytest.mark.holds("content: header of another class -> 505")
def test_a_header_of_another_class_is_a_505(channel: Channel) -> None:
    """The header repeats the class of its method."""
    channel.send("basic.publish")
    header = encode_content_header(0, NO_PROPERTIES, class_id=50)
    channel.connection.send_frame(FRAME_HEADER, channel.number, header)
    text = "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
    channel.connection.expect_close(505, text, by="basic.publish")


@pytest.mark.ours_only("waits for ever for the declared size")
@pytest.mark.holds("content: more body than declared -> 501")
def test_more_body_than_declared_is_a_501(channel: Channel) -> None:
    """Three octets are announced, four come."""
    channel.send("basic.publish")
    channel.send_content(b"four", NO_PROPERTIES, size=3)
    text = channel.connection.expect_close(501)
    assert text == "FRAME_ERROR - content body frame exceeds remaining content size"


@pytest.mark.ours_only("takes it as announced and waits")
@pytest.mark.holds("content: a header that announces more than 512 MiB -> 501")
@pytest.mark.parametrize("size", [512 * 1024 * 1024 + 1, 2**63, 2**64 - 1])
def test_an_absurd_body_size_is_a_501(channel: Channel, size: int) -> None:
    """Refused at the header, before any of it is read."""
    channel.send("basic.publish")
    channel.send_content(b"", NO_PROPERTIES, size=size)
    channel.connection.expect_close(501)


@pytest.mark.ours_only("answers 541")
@pytest.mark.holds("content: malformed property section -> 501 or 502")
@pytest.mark.parametrize("section", [b"\x80\x00", b"\x20\x00\x00\x00\x00\x09abc"], ids=["no value", "table cut short"])
def test_a_malformed_property_section_is_told(channel: Channel, section: bytes) -> None:
    """A flag without its value is the client's mistake, not an internal error."""
    queue = channel.declare(exclusive=True)
    channel.send("basic.publish", routing_key=queue)
    channel.send_content(b"", section)
    close = channel.connection.expect("connection.close")
    assert close.reply_code in (501, 502)


@pytest.mark.holds("content: a body of zero octets has no body frame, in and out")
def test_an_empty_body_needs_no_frame(channel: Channel) -> None:
    """The header alone completes the message; a body frame after it belongs to nothing."""
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"")
    message = channel.get(queue)
    assert message is not None
    assert (message.body, message.frame_sizes) == (b"", [])
    channel.publish("", queue, b"")
    channel.connection.send_frame(FRAME_BODY, channel.number, b"")
    channel.connection.expect_close(505, NOT_A_METHOD)


@pytest.mark.holds("content: empty body frames inside a body are accepted")
def test_empty_body_frames_are_accepted(channel: Channel) -> None:
    """They add nothing, and take nothing away."""
    queue = channel.declare(exclusive=True)
    channel.send("basic.publish", routing_key=queue)
    connection = channel.connection
    connection.send_frame(FRAME_HEADER, channel.number, encode_content_header(4, NO_PROPERTIES))
    for piece in (b"", b"ab", b"", b"cd"):
        connection.send_frame(FRAME_BODY, channel.number, piece)
    message = channel.get(queue)
    assert message is not None
    assert message.body == b"abcd"


@pytest.mark.holds("content: a body above frame_max is split at frame_max - 8")
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_large_body_is_split(connect: Connect, extra: int) -> None:
    """All frames but the last are full, on both sides of the boundary."""
    channel = connect(frame_max=8192).channel()
    queue = channel.declare(exclusive=True)
    body = bytes(index % 251 for index in range(2 * 8184 + extra))
    channel.publish("", queue, body)
    message = channel.get(queue)
    assert message is not None
    assert message.body == body
    assert message.frame_sizes == [8184, 8184 + min(extra, 0)] + [1] * max(extra, 0)


@pytest.mark.holds("content: frames of other channels may interleave with a body")
def test_bodies_of_two_channels_interleave(connection: Connection) -> None:
    """Two half-sent messages on two channels and a request on a third do not mix."""
    first, second, third = connection.channel(), connection.channel(), connection.channel()
    queue = first.declare(exclusive=True)
    for channel in (first, second):
        channel.send("basic.publish", routing_key=queue)
        connection.send_frame(FRAME_HEADER, channel.number, encode_content_header(4, NO_PROPERTIES))
    connection.send_frame(FRAME_BODY, first.number, b"on")
    connection.send_frame(FRAME_BODY, second.number, b"tw")
    third.call("basic.qos")
    connection.send_frame(FRAME_BODY, second.number, b"o!")
    second.call("basic.qos")
    connection.send_frame(FRAME_BODY, first.number, b"e!")
    assert first.get_bodies(queue) == [b"two!", b"one!"]


@pytest.mark.octets_too_slow
@pytest.mark.holds("frame: octets may arrive cut anywhere")
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 8, 19, 64, 4096])
def test_any_cutting_of_the_octets_gives_the_same_answers(connect: Connect, piece: int) -> None:
    """A whole conversation is sent in pieces of one size, each on its own; a second connection sends it at
    once.
    """
    connection = connect()
    queue = f"cut-{piece}-{id(connection)}"
    octets = bytearray()
    for name, arguments in (
        ("channel.open", {}),
        ("queue.declare", {"queue": queue, "exclusive": True, "arguments": {"x-max-length": 10}}),
        ("confirm.select", {}),
    ):
        octets += encode_frame(FRAME_METHOD, 1, encode_method(name, **arguments))
    for body in (b"", b"a", b"b" * 5000):
        octets += encode_frame(FRAME_METHOD, 1, encode_method("basic.publish", routing_key=queue))
        octets += encode_frame(FRAME_HEADER, 1, encode_content_header(len(body), NO_PROPERTIES))
        if body:
            octets += encode_frame(FRAME_BODY, 1, body)
    for start in range(0, len(octets), piece):
        connection.send_octets(bytes(octets[start : start + piece]))
        connection.flush()
    channel = connection.unopened_channel(1)
    for name in ("channel.open-ok", "queue.declare-ok", "confirm.select-ok"):
        channel.expect(name)
    channel.expect_confirms(3)
    assert channel.get_bodies(queue) == [b"", b"a", b"b" * 5000]


@pytest.mark.octets_too_slow
@pytest.mark.holds("frame: a pipelined conversation is answered in order")
def test_a_thousand_pipelined_requests_are_answered_in_order(connection: Connection) -> None:
    """Requests that arrive together are answered one by one, in the order in which they were sent."""
    channel = connection.channel()
    assert connection.sends is Sends.PIPELINED
    for index in range(1000):
        channel.send("basic.cancel", consumer_tag=f"tag-{index}")
    for index in range(1000):
        assert channel.expect("basic.cancel-ok").consumer_tag == f"tag-{index}"
