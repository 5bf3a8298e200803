"""TlsLayer between a socket pair: what has come is read to its end, whatever the room for it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import pytest
import trustme

from amqp_broker.server.tls_layer import TlsLayer

AUTHORITY = trustme.CA()
ROOM = 20_000


class Pair:
    """A client's socket, and the layer at the other end of it."""

    def __init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert("localhost").configure_cert(context)
        trusting = ssl.create_default_context()
        AUTHORITY.configure_trust(trusting)
        self.layer = TlsLayer(context)
        self.client, self.server = socket.socketpair()
        self.client.settimeout(30)
        self.server.setblocking(False)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.records = trusting.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.shake_hands()

    def shake_hands(self) -> None:
        """Until both sides are done."""
        is_done = is_served = False
        while not (is_done and is_served):
            try:
                self.records.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            is_served = self.layer.shake_hands(self.outgoing.read())
            for octets in self.layer.take():
                self.incoming.write(octets)

    def send(self, octets: bytes) -> None:
        """As records, all of which are in the socket then."""
        left = memoryview(octets)
        while left:
            left = left[self.records.write(left) :]  # type: ignore[arg-type]
        self.client.sendall(self.outgoing.read())

    def say_goodbye(self) -> None:
        """A close_notify."""
        with pytest.raises(ssl.SSLWantReadError):
            self.records.unwrap()
        self.client.sendall(self.outgoing.read())

    def receive(self) -> bytes:
        """What one call brings."""
        target = bytearray(ROOM)
        return bytes(target[: self.layer.receive(self.server, memoryview(target))])

    def receive_all(self) -> bytes:
        """What is there: called again as long as the layer says that there is more."""
        octets = self.receive()
        while self.layer.has_more:
            octets += self.receive()
        return octets


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.client.close()
    made.server.close()


def test_what_finds_no_room_is_announced(pair: Pair) -> None:
    """The socket is empty then: nobody else would say that there is more."""
    body = bytes(range(256)) * 80
    pair.send(body)
    octets = pair.receive()
    while len(octets) < len(body):
        if not pair.layer.has_more:
            assert pair.server.recv(1, socket.MSG_PEEK), "it is in the socket, or announced"
        octets += pair.receive()
    assert octets == body
    with pytest.raises(BlockingIOError):
        pair.receive()
    assert not pair.layer.has_more


def test_a_part_of_a_record_is_nothing_yet(pair: Pair) -> None:
    """And is not announced either: its rest will come through the socket."""
    pair.records.write(b"x" * 1000)  # type: ignore[arg-type]
    record = pair.outgoing.read()
    pair.client.sendall(record[:500])
    with pytest.raises(BlockingIOError):
        pair.receive()
    assert not pair.layer.has_more
    pair.client.sendall(record[500:])
    assert pair.receive() == b"x" * 1000


def test_a_goodbye_behind_octets_comes_after_them_and_can_be_answered(pair: Pair) -> None:
    """As often as it is asked for: who hears it may have something to say before."""
    pair.send(b"last words")
    pair.say_goodbye()
    assert pair.receive() == b"last words"
    for _ in range(2):
        assert pair.layer.has_more
        assert pair.receive() == b""
    assert pair.layer.take() == []
    pair.layer.end()
    (answer,) = pair.layer.take()
    pair.incoming.write(answer)
    pair.records.unwrap()
    pair.layer.seal([b"too late"])
    assert pair.layer.take() == []


def test_an_end_without_a_goodbye_is_an_error_behind_what_came(pair: Pair) -> None:
    pair.send(b"last words")
    pair.client.shutdown(socket.SHUT_WR)
    assert pair.receive_all() == b"last words"
    with pytest.raises(ssl.SSLError):
        pair.receive()


def test_what_is_not_tls_is_an_error_behind_what_came(pair: Pair) -> None:
    pair.send(b"sound")
    pair.client.sendall(b"not a record at all, whatever it is")
    assert pair.receive() == b"sound"
    assert pair.layer.has_more
    with pytest.raises(ssl.SSLError):
        pair.receive()


def test_large_chunks_leave_whole_and_in_order(pair: Pair) -> None:
    body = bytes(range(256)) * 1000
    pair.layer.seal([b"head", body])
    pair.layer.end()
    for octets in pair.layer.take():
        pair.incoming.write(octets)
    heard = b""
    while part := pair.records.read(1 << 20):
        heard += part
    assert heard == b"head" + body
