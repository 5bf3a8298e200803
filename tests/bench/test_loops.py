"""The hot loops against a peer at the other end of a socket pair.

A SOCK_SEQPACKET pair keeps the boundaries of what is sent, so that a loop reads exactly the chunks that a
test cut.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.bench.loops import Consumer, Control, Producer, State, clock
from amqp_broker.bench.ring import build_ring
from amqp_broker.bench.scenario import Scenario
from amqp_broker.protocol import constants, methods
from amqp_broker.protocol.frames import FrameParser, encode_content, encode_frame, encode_method_frame
from amqp_broker.protocol.methods import Method
from amqp_broker.protocol.properties import NO_PROPERTIES
from tests.example_counts import examples

CHANNEL = 1
HEARTBEAT = constants.HEARTBEAT_FRAME
SECOND = 1_000_000_000


@contextmanager
def pair(kind: int = socket.SOCK_SEQPACKET) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Our end, with the time-outs that the loops need, and the peer's."""
    ours, peer = socket.socketpair(socket.AF_UNIX, kind)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        ours.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", 0, 20_000))
    peer.settimeout(10)
    with ours, peer:
        yield ours, peer


def delivery(tag: int, body: bytes, frame_max: int = 4096) -> bytes:
    deliver = methods.BasicDeliver(consumer_tag="bench", delivery_tag=tag, routing_key="bench")
    return encode_method_frame(CHANNEL, deliver) + encode_content(CHANNEL, NO_PROPERTIES, body, frame_max)


def chunks(octets: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(octets), *(cut % len(octets) for cut in cuts)})
    return [octets[start:end] for start, end in itertools.pairwise(edges)]


def consume(sent: list[bytes], initial: bytes = b"") -> Consumer:
    """A consumer that has read `sent`, chunk by chunk, and the end of the stream."""
    control = Control()
    control.is_measuring = True
    with pair() as (ours, peer):
        for chunk in sent:
            peer.send(chunk)
        peer.shutdown(socket.SHUT_WR)
        consumer = Consumer(ours, initial, control, CHANNEL, 0)
        consumer.run()
    return consumer


def acks_for(count: int, ack_every: int, expected: int) -> list[Method]:
    """The first `expected` acks of a consumer that gets `count` deliveries at once, and then nothing."""
    control = Control()
    parser = FrameParser()
    acks: list[Method] = []
    with pair(socket.SOCK_STREAM) as (ours, peer):
        peer.sendall(b"".join(delivery(tag, b"body") for tag in range(1, count + 1)))
        consumer = Consumer(ours, b"", control, CHANNEL, ack_every)
        thread = threading.Thread(target=consumer.run)
        thread.start()
        while len(acks) < expected:
            acks += [methods.decode_method(frame.payload) for frame in parser.receive_data(peer.recv(65536))]
        control.stop_all = True
        thread.join()
    assert (consumer.received, consumer.state) == (count, State.FINISHED)
    return acks


@settings(deadline=None)
@given(st.lists(st.integers(0, 9000), max_size=6), st.lists(st.integers(0, 10**6), max_size=20))
def test_deliveries_are_counted_however_they_are_cut(sizes: list[int], cuts: list[int]) -> None:
    now = clock()
    octets = HEARTBEAT
    for tag, size in enumerate(sizes, start=1):
        octets += delivery(tag, struct.pack(">Q", now)[:size] + b"\xce" * (size - 8))
    consumer = consume(chunks(octets, cuts))
    assert consumer.received == len(sizes)
    assert consumer.latency.total == sum(size >= 8 for size in sizes)
    assert consumer.latency.highest < SECOND * 60
    assert consumer.state == State.LOST  # the peer has closed, nobody had said stop


@settings(deadline=None, max_examples=examples(30))
@given(st.integers(1, 40), st.integers(1, 9))
def test_acks_come_in_batches_and_for_the_rest_when_nothing_more_comes(count: int, ack_every: int) -> None:
    tags = list(range(ack_every, count + 1, ack_every))
    if count % ack_every:
        tags.append(count)
    multiple = ack_every > 1
    expected = [methods.BasicAck(delivery_tag=tag, multiple=multiple) for tag in tags]
    assert acks_for(count, ack_every, len(tags)) == expected


def test_a_delivery_that_has_arrived_in_part_is_not_acknowledged() -> None:
    control = Control()
    first, second = delivery(1, b"one"), delivery(2, b"two")
    with pair() as (ours, peer):
        consumer = Consumer(ours, b"", control, CHANNEL, 10)
        thread = threading.Thread(target=consumer.run)
        peer.send(first + second[:-5])
        thread.start()
        before = peer.recv(100)
        peer.send(second[-5:])
        after = peer.recv(100)
        control.stop_all = True
        thread.join()
    assert before == encode_method_frame(CHANNEL, methods.BasicAck(delivery_tag=1, multiple=True))
    assert after == encode_method_frame(CHANNEL, methods.BasicAck(delivery_tag=2, multiple=True))


def test_octets_read_before_the_loop_count() -> None:
    octets = delivery(1, b"one") + delivery(2, b"two")
    consumer = consume([octets[100:]], initial=octets[:100])
    assert consumer.received == 2


def test_nothing_is_timed_unless_measuring() -> None:
    control = Control()
    with pair() as (ours, peer):
        peer.send(delivery(1, struct.pack(">Q", clock())))
        peer.shutdown(socket.SHUT_WR)
        consumer = Consumer(ours, b"", control, CHANNEL, 0)
        consumer.run()
    assert consumer.received == 1
    assert consumer.latency.total == 0


@pytest.mark.parametrize("kind", [methods.ChannelClose, methods.ConnectionClose])
def test_a_close_ends_the_loop_and_can_be_read(kind: Callable[..., Method]) -> None:
    close = kind(reply_code=404, reply_text="NOT_FOUND - no queue")
    consumer = consume([delivery(1, b"body") + encode_method_frame(CHANNEL, close) + delivery(2, b"late")])
    assert consumer.state == State.CLOSED
    assert methods.decode_method(consumer.closing) == close
    assert consumer.received == 1


def test_a_cancel_ends_the_loop() -> None:
    consumer = consume([encode_method_frame(CHANNEL, methods.BasicCancel(consumer_tag="bench"))])
    assert consumer.state == State.CANCELLED


def test_blocked_is_noted_and_taken_back() -> None:
    blocked = encode_method_frame(0, methods.ConnectionBlocked(reason="memory"))
    assert consume([blocked]).is_blocked
    assert not consume([blocked + encode_method_frame(0, methods.ConnectionUnblocked())]).is_blocked


@pytest.mark.parametrize(
    "octets",
    [
        encode_frame(1, 1, b"\0\x3c\0\x3c" + b"\0" * 20)[:-1] + b"\0",  # a method without its end octet
        encode_frame(9, 1, b"1234"),  # no such type
        delivery(1, b"12345678")[:-1] + b"\0",  # a body without its end octet
        b"\1\0\1\x7f\xff\xff\xff\0",  # a method of two gigabytes
        delivery(1, b"")[:-1] + b"\xce" + encode_frame(3, 1, b"more than was declared"),
    ],
)
def test_what_is_not_amqp_ends_the_loop(octets: bytes) -> None:
    assert consume([octets]).state == State.CONFUSED


def make_producer(
    ours: socket.socket, control: Control, scenario: Scenario, interval_ns: int = 0, delay_ns: int = 0
) -> Producer:
    ring = build_ring(scenario, 0, 4096, CHANNEL)
    window, quota = scenario.confirm_window, scenario.messages
    return Producer(
        ours,
        b"",
        control,
        CHANNEL,
        ring.octets,
        ring.pitch,
        ring.stamp_at,
        scenario.publish_batch,
        window,
        quota,
        interval_ns,
        delay_ns,
    )


def read_publishes(peer: socket.socket, count: int) -> list[int]:
    """The timestamps of `count` publishes; fails when there are more or fewer."""
    parser = FrameParser()
    stamps: list[int] = []
    while len(stamps) < count:
        for frame in parser.receive_data(peer.recv(1 << 20)):
            if frame.type == constants.FRAME_BODY:
                stamps.append(int.from_bytes(frame.payload[:8], "big"))
    assert len(stamps) == count
    return stamps


def test_a_quota_is_published_and_stamped() -> None:
    control = Control()
    with pair(socket.SOCK_STREAM) as (ours, peer):
        before = clock()
        producer = make_producer(ours, control, Scenario(messages=1000, size=20))
        thread = threading.Thread(target=producer.run)
        thread.start()
        stamps = read_publishes(peer, 1000)
        thread.join()
    assert stamps == sorted(stamps)
    assert before <= stamps[0] <= stamps[-1] <= clock()
    assert producer.is_finished
    assert (producer.published, producer.state) == (1000, State.FINISHED)


@settings(deadline=None, max_examples=examples(50))
@given(st.data())
def test_confirms_settle_in_any_order(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    order = data.draw(st.permutations(range(1, count + 1)))
    multiple = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    nacked = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    control = Control()
    control.is_measuring = True
    settled: set[int] = set()
    answers = b""
    refused = 0
    for tag, is_multiple, is_nack in zip(order, multiple, nacked, strict=True):
        if tag in settled:
            continue
        newly = {number for number in range(1, tag + 1) if number not in settled} if is_multiple else {tag}
        settled |= newly
        refused += len(newly) if is_nack else 0
        kind = methods.BasicNack if is_nack else methods.BasicAck
        answers += encode_method_frame(CHANNEL, kind(delivery_tag=tag, multiple=is_multiple))
    with pair(socket.SOCK_STREAM) as (ours, peer):
        producer = make_producer(ours, control, Scenario(messages=count, confirm_window=200))
        thread = threading.Thread(target=producer.run)
        thread.start()
        read_publishes(peer, count)
        peer.sendall(answers)
        thread.join()
    assert producer.nacked == refused
    assert producer.confirmed == count - refused
    assert producer.latency.total == count
    assert producer.is_finished


def test_the_window_is_never_exceeded() -> None:
    control = Control()
    outstanding = []
    with pair(socket.SOCK_STREAM) as (ours, peer):
        producer = make_producer(ours, control, Scenario(messages=95, confirm_window=10))
        thread = threading.Thread(target=producer.run)
        thread.start()
        parser = FrameParser()
        seen = confirmed = 0
        while confirmed < 95:
            frames = parser.receive_data(peer.recv(1 << 20))
            seen += sum(frame.type == constants.FRAME_BODY for frame in frames)
            outstanding.append(seen - confirmed)
            confirmed = seen
            peer.send(encode_method_frame(CHANNEL, methods.BasicAck(delivery_tag=seen, multiple=True)))
        thread.join()
    assert max(outstanding) <= 10
    assert producer.confirmed == 95


def test_a_confirm_of_what_was_never_published_ends_the_loop() -> None:
    control = Control()
    with pair(socket.SOCK_STREAM) as (ours, peer):
        producer = make_producer(ours, control, Scenario(messages=4, confirm_window=10))
        peer.send(encode_method_frame(CHANNEL, methods.BasicAck(delivery_tag=50)))
        producer.run()
    assert producer.state == State.CONFUSED


def test_returns_are_counted() -> None:
    control = Control()
    returned = encode_method_frame(CHANNEL, methods.BasicReturn(reply_code=312, reply_text="NO_ROUTE"))
    returned += encode_content(CHANNEL, NO_PROPERTIES, b"x" * 200)
    with pair(socket.SOCK_STREAM) as (ours, peer):
        producer = make_producer(ours, control, Scenario(messages=1, confirm_window=10))
        thread = threading.Thread(target=producer.run)
        thread.start()
        read_publishes(peer, 1)
        peer.send(returned + encode_method_frame(CHANNEL, methods.BasicAck(delivery_tag=1)))
        thread.join()
    assert (producer.returned, producer.confirmed) == (1, 1)


def test_a_rate_is_a_lower_bound_on_the_time() -> None:
    control = Control()
    with pair(socket.SOCK_STREAM) as (ours, peer):
        producer = make_producer(ours, control, Scenario(messages=20), interval_ns=1_000_000, delay_ns=2_000_000)
        begin = clock()
        producer.run()
        stamps = read_publishes(peer, 20)
    assert all(stamp >= begin + (number + 2) * 1_000_000 for number, stamp in enumerate(stamps))


def test_a_producer_that_nobody_reads_stops_when_told() -> None:
    control = Control()
    with pair(socket.SOCK_STREAM) as (ours, peer):
        producer = make_producer(ours, control, Scenario(size=4000))
        thread = threading.Thread(target=producer.run)
        thread.start()
        control.stop_publishing = True
        control.stop_all = True
        thread.join(10)
        assert not thread.is_alive()
        assert peer.fileno() >= 0


def test_a_lost_peer_is_noticed_while_publishing() -> None:
    control = Control()
    with pair(socket.SOCK_STREAM) as (ours, peer):
        close = methods.ConnectionClose(reply_code=320, reply_text="CONNECTION_FORCED - shutdown")
        peer.send(encode_method_frame(0, close))
        peer.close()
        producer = make_producer(ours, control, Scenario())
        producer.run()
    assert producer.state == State.CLOSED  # the send failed, yet the broker's last words were read
    assert methods.decode_method(producer.closing) == close


def test_closing_waits_for_the_answer_and_discards_what_comes_before() -> None:
    control = Control()
    control.stop_all = True
    with pair() as (ours, peer):
        consumer = Consumer(ours, b"", control, CHANNEL, 0)
        consumer.run()
        peer.send(delivery(1, b"late") + encode_method_frame(0, methods.ConnectionCloseOk()))
        consumer.close(b"the frame of a close", clock() + 10 * SECOND)
        assert peer.recv(100) == b"the frame of a close"
    assert consumer.state == State.CLOSE_OK
