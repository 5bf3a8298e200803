"""The port of a node with several workers: who dials gets to the worker that it looks for, however its octets come."""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from amqp_broker.links.peer_handshake import NONCE_BYTES, LinkIdentity
from amqp_broker.links.peer_protocol import PeerProtocol
from amqp_broker.server.client_hello import LONGEST, server_name_in
from amqp_broker.server.cluster_door import ClusterDoor, worker_wanted
from amqp_broker.server.peer_tls import server_name, worker_of_server_name
from amqp_broker.server.sockets import address_of
from amqp_broker.settings.config import Config
from amqp_broker.settings.kinds import Address

PATIENCE_S = 20.0


def hello(acceptor: str) -> bytes:
    """What a node says that dials another one."""
    identity = LinkIdentity("n2/1", "amqp-broker", b"a secret that nobody could ever guess", 1 << 20)
    return PeerProtocol(identity, {acceptor}, bytes(NONCE_BYTES), dialled=acceptor).take_output()


def client_hello(name: str | None) -> bytes:
    """What TLS says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("octets", "worker"),
    [
        (hello("n1"), 0),
        (hello("n1/3"), 3),
        (hello("n1/x"), 0),
        (client_hello(None), 0),
        (client_hello(server_name("n1/12")), 12),
        (client_hello("somewhere.example"), 0),
    ],
    ids=["a node", "a worker", "no worker", "TLS to a node", "TLS to a worker", "TLS to somebody else"],
)
def test_who_dials_says_which_worker_and_until_then_nobody_knows(octets: bytes, worker: int) -> None:
    assert [worker_wanted(octets[:length]) for length in range(len(octets))] == [None] * len(octets)
    assert worker_wanted(octets) == worker
    assert worker_wanted(octets + b"more") == worker


@pytest.mark.parametrize(
    "octets",
    [b"GET / HTTP/1.1\r\n", b"AMQP\x00\x00\x09\x01", b"\x00\x00\x00\x10" + b"x" * 16, b"\x00\x00\x00\x00",
     b"\x16\x03\x01\xff\xff" + b"x" * (LONGEST - 5), b"\x16\x03\x01\x00\x04\x01\x00\x00\x09"],
    ids=["HTTP", "AMQP", "an unknown frame", "nothing", "an endless record", "a short record"],
)  # fmt: skip
def test_strangers_are_worker_0s_which_says_why_it_refuses_them(octets: bytes) -> None:
    assert worker_wanted(octets) == 0


def test_a_client_hello_that_is_cut_anywhere_inside_names_nobody() -> None:
    record = client_hello(server_name("n1/1"))
    for length in range(1, len(record) - 5):
        cut = record[:3] + length.to_bytes(2, "big") + record[5 : 5 + length]
        assert server_name_in(cut) in ("", server_name("n1/1"))


def test_a_name_says_its_worker() -> None:
    assert [worker_of_server_name(server_name(f"n1/{number}") or "") for number in (0, 1, 99)] == [0, 1, 99]
    assert [worker_of_server_name(name) for name in ("", "worker-", "worker-x", "7", "n1")] == [0] * 5


class Handed:
    """What has been handed on: to which worker, what was read, and what comes behind it."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, bytes]] = []
        self.sockets: list[socket.socket] = []

    def take(self, number: int, link: socket.socket, octets: bytes) -> bool:
        self.taken.append((number, octets))
        self.sockets.append(link.dup())
        return True


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as made:
        yield made


def run(selector: selectors.BaseSelector, door: ClusterDoor, is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        assert time.monotonic() < deadline
        for key, _ in selector.select(0.05):
            key.data()
        door.look(time.monotonic())


def open_door(selector: selectors.BaseSelector, handed: Handed, **settings: object) -> ClusterDoor:
    config = replace(Config(), cluster_secret_file="secret", cluster_listen=(Address("127.0.0.1", 0),), **settings)  # type: ignore[arg-type]
    door = ClusterDoor(config, selector, handed.take)
    door.open()
    door.open()
    return door


def test_a_socket_goes_to_its_worker_with_what_was_read(selector: selectors.BaseSelector) -> None:
    handed = Handed()
    door = open_door(selector, handed)
    with contextlib.closing(door), socket.create_connection(address_of(door.sockets[0])) as link:
        said = hello("n1/2")
        link.sendall(said[:7])
        run(selector, door, lambda: len(selector.get_map()) == 2)
        link.sendall(said[7:])
        run(selector, door, lambda: bool(handed.taken))
        assert handed.taken == [(2, said)]
        link.sendall(b"behind")
        with handed.sockets[0] as there:
            there.setblocking(True)
            assert there.recv(100) == b"behind"
            there.sendall(b"answer")
        assert link.recv(100) == b"answer"
        assert len(selector.get_map()) == 1, "the door looks no more at what it has handed on"


def test_who_says_nothing_is_closed_in_time_and_of_many_the_oldest(selector: selectors.BaseSelector) -> None:
    handed = Handed()
    door = open_door(selector, handed, max_pending_peers=2, peer_handshake_timeout_ms=200)
    with contextlib.closing(door), contextlib.ExitStack() as stack:
        links = [stack.enter_context(socket.create_connection(address_of(door.sockets[0]))) for _ in range(3)]
        run(selector, door, lambda: len(selector.get_map()) == 3)
        links[0].settimeout(PATIENCE_S)
        assert links[0].recv(1) == b""
        run(selector, door, lambda: len(selector.get_map()) == 1)
        assert [link.recv(1) for link in links[1:]] == [b"", b""]
        assert handed.taken == []


def test_without_descriptors_nobody_is_accepted_for_a_moment(
    selector: selectors.BaseSelector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who waits would wake the loop all the time, and be logged each time."""

    def refuse(_: socket.socket) -> tuple[socket.socket, object]:
        raise OSError(errno.EMFILE, "Too many open files")

    handed = Handed()
    door = open_door(selector, handed)
    with contextlib.closing(door), socket.create_connection(address_of(door.sockets[0])) as link:
        with monkeypatch.context() as short:
            short.setattr(socket.socket, "accept", refuse)
            for _ in range(20):
                for key, _ in selector.select(0.01):
                    key.data()
                door.look(time.monotonic())
        assert caplog.text.count("cannot accept a link") == 1
        assert "raise `ulimit -n`" in caplog.text
        assert door.is_busy
        link.sendall(hello("n1/2"))
        run(selector, door, lambda: bool(handed.taken))
        assert not door.is_busy
