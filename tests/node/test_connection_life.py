"""A connection from its first octet to its last: chunks, handshake, heartbeats, shutdown."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import PROTOCOL_HEADER
from amqp_broker.protocol.frames import encode_method_frame
from tests.example_counts import ONE_OF, each_octet
from tests.node.node_driver import NodeDriver, consume, declare, handshake_octets, publish_octets, small_config


def _conversation() -> bytes:
    """Handshake, declarations that park, publishes in one and in several frames, a consumer, a tx."""
    said = [
        encode_method_frame(1, methods.ChannelOpen()),
        encode_method_frame(1, declare("a")),
        encode_method_frame(1, methods.ConfirmSelect(False)),
        publish_octets(1, "a", b"hello"),
        publish_octets(1, "a", b"in pieces", split=2, persistent=False),
        publish_octets(1, "a", b""),
        encode_method_frame(2, methods.ChannelOpen()),
        encode_method_frame(2, consume("a", no_ack=True)),
        encode_method_frame(1, declare("b", durable=False)),
        encode_method_frame(1, methods.BasicGet(0, "b", True)),
        encode_method_frame(0, methods.ConnectionClose(200, "bye", 0, 0)),
    ]
    return handshake_octets() + b"".join(said)


def _heard(chunks: list[bytes]) -> bytes:
    driver = NodeDriver()
    client = driver.raw_client()
    for chunk in chunks:
        client.send_octets(chunk)
    driver.settle()
    assert client.is_closed
    return client.heard


@each_octet()
def test_frames_cut_anywhere_give_the_same_answers(first: int) -> None:
    said = _conversation()
    whole = _heard([said])
    assert b"hello" in whole
    for cut in range(1 + first, len(said), ONE_OF):
        assert _heard([said[:cut], said[cut:]]) == whole, f"cut at {cut}"


def test_octet_by_octet_gives_the_same_answers() -> None:
    said = _conversation()
    assert _heard([said[index : index + 1] for index in range(len(said))]) == _heard([said])


def test_a_buffer_of_the_drivers_gives_the_same_answers() -> None:
    """`receive_buffer` is what the asyncio driver calls: the rest of the last chunk lies before the new one."""
    said = _conversation()
    driver = NodeDriver()
    client = driver.raw_client()
    for start in range(0, len(said), 50):
        data = bytearray(client.connection.pending + said[start : start + 50])
        client.connection.receive_buffer(data, len(data), driver.now)
    driver.settle()
    assert client.heard == _heard([said])


def test_a_wrong_protocol_header_is_answered_with_ours() -> None:
    driver = NodeDriver()
    client = driver.raw_client()
    client.send_octets(b"GET / HTTP/1.1\r\n")
    turn = driver.node.end_turn(driver.now)
    assert turn.dropped == [client.connection]
    assert b"".join(client.connection.take_output()) == PROTOCOL_HEADER


def test_a_handshake_that_takes_too_long_is_dropped() -> None:
    driver = NodeDriver()
    client = driver.raw_client()
    driver.wait(driver.config.handshake_timeout_ms - 1)
    assert not client.is_closed
    driver.wait(1)
    assert client.is_closed
    assert not driver.node.clients.connections


def test_a_handshake_in_time_is_left_alone() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    driver.wait(2 * driver.config.handshake_timeout_ms)
    assert not client.is_closed


def test_the_oldest_handshake_goes_when_there_are_too_many() -> None:
    driver = NodeDriver(small_config(max_pending_handshakes=2))
    clients = [driver.raw_client() for _ in range(3)]
    driver.turn()
    assert [client.is_closed for client in clients] == [True, False, False]


def test_a_heartbeat_is_sent_after_half_the_interval() -> None:
    driver = NodeDriver()
    client = driver.client(1, heartbeat=10)
    before = client.heard
    driver.wait(5000)
    assert client.heard == before + b"\x08\x00\x00\x00\x00\x00\x00\xce"


@pytest.mark.parametrize("interval_s", [1, 2, 3, 10, 60])
@pytest.mark.parametrize("offset_ms", [0, 1, 300, 499, 999])
def test_a_silent_client_is_dropped_after_two_intervals_and_at_most_a_second(interval_s: int, offset_ms: int) -> None:
    driver = NodeDriver()
    client = driver.client(1, heartbeat=interval_s)
    driver.wait(offset_ms)
    client.send_octets(b"\x08\x00\x00\x00\x00\x00\x00\xce")
    driver.wait(2000 * interval_s)
    assert not client.is_closed
    driver.wait(1000)
    assert client.is_closed


def test_what_came_while_the_broker_was_held_up_is_read_before_a_client_is_dropped() -> None:
    """A timer that runs late says nothing about the client."""
    driver = NodeDriver()
    client = driver.client(1, heartbeat=1)
    driver.wait(900)
    driver.now += 5000
    driver.node.tick(driver.now)
    driver.turn()
    assert not client.is_closed
    client.send_octets(b"\x08\x00\x00\x00\x00\x00\x00\xce")
    driver.wait(1900)
    assert not client.is_closed


def test_any_octet_counts_as_a_heartbeat() -> None:
    driver = NodeDriver()
    client = driver.client(1, heartbeat=10)
    for _ in range(10):
        driver.wait(10_000)
        client.send_octets(b"\x08\x00\x00\x00\x00\x00\x00\xce")
    assert not client.is_closed


def test_shutdown_closes_everybody_with_320() -> None:
    driver = NodeDriver()
    clients = [driver.client(1), driver.client(1)]
    driver.node.shut_down(driver.now)
    driver.turn()
    for client in clients:
        (event,) = client.take()
        assert event.method.name == "connection.close"
        assert event.method.reply_code == 320
        assert event.method.reply_text == "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        client.send(0, methods.ConnectionCloseOk())
    driver.settle()
    assert not driver.node.clients.connections


def test_a_client_that_does_not_answer_the_close_is_dropped() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    driver.node.shut_down(driver.now)
    driver.wait(driver.config.closing_timeout_ms)
    assert client.is_closed


def test_shutdown_reaches_a_parked_connection() -> None:
    """Its close-ok must not wait behind the frames that were parked."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a"))
    driver.turn()
    job = driver.take_sync()
    driver.node.shut_down(driver.now)
    driver.turn()
    client.send(0, methods.ConnectionCloseOk())
    driver.synced(job)
    driver.settle()
    assert client.is_closed


@pytest.mark.parametrize("is_polite", [True, False])
def test_unacknowledged_messages_return_when_the_connection_ends(is_polite: bool) -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a", durable=False), consume("a"))
    client.publish(1, "a", b"x")
    driver.turn()
    assert driver.queue("a").unacked == 1
    if is_polite:
        client.send(0, methods.ConnectionClose(200, "bye", 0, 0))
        driver.turn()
    else:
        driver.lose(client)
    assert driver.queue("a").unacked == 0
    assert driver.queue("a").ready.count == 1
