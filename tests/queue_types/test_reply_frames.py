"""Direct replies between nodes: addresses, and frames that are whole or refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.octets.buffer import Buffer
from amqp_broker.routing.reply_to import REPLY_PREFIX, ReplyConsumers, node_of
from queues.message import Address, Message, build_message
from queues.page import put_message
from raft.errors import PeerProtocolError

TOKEN = "0123456789abcdef" * 2


class Ends:
    """The replies of two nodes, n1 and n2; `carried` are frames from n1 on their way."""

    def __init__(self) -> None:
        self.carried: list[bytes] = []
        self.is_linked = True
        self.one = ReplyConsumers(random.Random(1).randbytes)
        self.two = ReplyConsumers(random.Random(2).randbytes)
        self.one.own_node, self.two.own_node = "n1", "n2"
        self.one.send = self._from_one
        self.two.send = self._from_two

    def _from_one(self, node: str, payload: bytes) -> bool:
        assert node == "n2"
        if self.is_linked:
            self.carried.append(payload)
        return self.is_linked

    def _from_two(self, node: str, payload: bytes) -> bool:
        self.one.receive("n2", payload, 1)
        return True

    def arrive(self) -> None:
        carried, self.carried = self.carried, []
        for payload in carried:
            self.two.receive("n1", payload, 1)


def reply(address: str, size: int = 10) -> Message:
    octets = address.encode()
    raw = b"\x00" + bytes([len(octets)]) + octets
    return build_message(Address(raw), b"\x00\x00", bytes(size), False, -1, -1, 1)


def packed(message: Message) -> bytes:
    buffer = Buffer()
    put_message(buffer, message)
    return buffer.take()


@pytest.mark.parametrize(
    ("address", "node"),
    [
        (REPLY_PREFIX + TOKEN, ""),
        (REPLY_PREFIX + TOKEN + ".n1", "n1"),
        (REPLY_PREFIX + TOKEN + ".broker@host.example.com", "broker@host.example.com"),
        (REPLY_PREFIX, ""),
        ("", ""),
    ],
)
def test_an_address_names_its_node(address: str, node: str) -> None:
    assert node_of(address) == node


def test_an_address_of_a_node_that_is_alone() -> None:
    consumers = ReplyConsumers(random.Random(1).randbytes)
    address = consumers.add(object())
    assert node_of(address) == ""
    assert consumers.find(address) is not None
    assert consumers.deliver(reply(REPLY_PREFIX + TOKEN + ".n2")) is False


def test_what_is_on_its_way_is_bounded() -> None:
    ends = Ends()
    address = REPLY_PREFIX + TOKEN + ".n2"
    size = 1024 * 1024
    for _ in range(100):
        assert ends.one.deliver(reply(address, size))
    assert 16 <= len(ends.carried) <= 17
    ends.arrive()
    for _ in range(100):
        ends.one.deliver(reply(address, size))
    assert 16 <= len(ends.carried) <= 17


def test_a_new_link_begins_empty() -> None:
    ends = Ends()
    address = REPLY_PREFIX + TOKEN + ".n2"
    for _ in range(100):
        ends.one.deliver(reply(address, 1024 * 1024))
    ends.carried.clear()
    ends.one.peer_disconnected("n2", 1)
    ends.two.peer_disconnected("n1", 1)
    ends.is_linked = False
    assert not ends.one.deliver(reply(address))
    ends.is_linked = True
    assert ends.one.deliver(reply(address))
    assert len(ends.carried) == 1


@given(st.binary(max_size=120))
def test_any_octets_are_a_reply_or_refused(data: bytes) -> None:
    for frame in (data, b"\x01\x01" + data, b"\x01\x02" + data):
        try:
            Ends().two.receive("n1", frame, 1)
        except PeerProtocolError:
            continue
        assert frame[:2] in (b"\x01\x01", b"\x01\x02")


def test_a_reply_that_is_cut_anywhere_is_refused() -> None:
    frame = b"\x01\x01" + packed(reply(REPLY_PREFIX + TOKEN))
    Ends().two.receive("n1", frame, 1)
    for end in range(len(frame)):
        with pytest.raises(PeerProtocolError):
            Ends().two.receive("n1", frame[:end], 1)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [(b"\x02\x01", "version 2"), (b"\x01\x03", "unknown kind 3"), (b"\x01\x02" + bytes(9), "too many")],
)
def test_what_makes_no_sense_is_refused_with_the_reason(frame: bytes, reason: str) -> None:
    with pytest.raises(PeerProtocolError, match=f"n1: .*{reason}"):
        Ends().two.receive("n1", frame, 1)
