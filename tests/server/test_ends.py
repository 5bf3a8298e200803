"""The end of a real socket: what the broker said last is there to be read, whatever was on its way to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.system_client import SystemClient
from tests.fuzz.harness import handshake, on_channel
from tests.robustness.broker import Broker, frames_of

CLOSE = on_channel(0, m.ConnectionClose(200, "bye"))
PUBLISH = on_channel(1, (m.BasicPublish(0, "", "nobody"), b"\x00\x00", b"x" * 1000))
#: More than the kernel takes for a receiver that does not read.
FLOOD = PUBLISH * 20_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    flags = ("--closing-timeout", "2s", "--login-refusal-delay", "100ms")
    with Broker(tmp_path_factory.mktemp("ends"), *flags) as running:
        yield running


def opened(broker: Broker) -> socket.socket:
    """A transport with a channel."""
    transport = broker.raw()
    transport.sendall(on_channel(1, m.ChannelOpen()))
    frames_of(transport, until=4)
    return transport


def send_all(transport: socket.socket, octets: bytes) -> threading.Thread:
    """Send in a thread, as a client does that reads meanwhile; that it cannot send all of it is no matter."""

    def send() -> None:
        try:
            transport.sendall(octets)
        except OSError as error:
            failures.append(error)

    failures: list[OSError] = []
    thread = threading.Thread(target=send)
    thread.failures = failures  # type: ignore[attr-defined]
    thread.start()
    return thread


def methods_until_end(transport: socket.socket) -> list[m.Method]:
    """What is said until the end of the transport, which is no reset."""
    transport.settimeout(10)
    said = b""
    while data := transport.recv(65536):
        said += data
    found = []
    while said:
        size = int.from_bytes(said[3:7], "big")
        found.append(m.decode_method(said[7 : 7 + size]))
        said = said[8 + size :]
    return found


def test_a_close_that_overtakes_what_was_published(broker: Broker) -> None:
    """As amqplib does: the close is handled, and thousands of publishes come behind it."""
    transport = opened(broker)
    sender = send_all(transport, CLOSE + FLOOD)
    (_, payload), *rest = frames_of(transport, 10, until=1)
    assert isinstance(m.decode_method(payload), m.ConnectionCloseOk)
    assert not rest
    sender.join()
    assert sender.failures == []  # type: ignore[attr-defined]
    transport.shutdown(socket.SHUT_WR)
    assert transport.recv(1) == b""


def test_the_client_closes_first(broker: Broker) -> None:
    """Its end of the transport is not seen as closed before it has closed its own."""
    transport = opened(broker)
    transport.sendall(CLOSE)
    assert len(frames_of(transport, 10, until=1)) == 1
    transport.settimeout(0.3)
    with pytest.raises(TimeoutError):
        transport.recv(1)
    transport.close()


def test_who_closes_its_half_hears_the_answer(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also where that waits until another worker knows what was exclusive."""
    with Broker(tmp_path_factory.mktemp("halves"), "--workers=2") as broker:
        for _ in range(5):
            transport = opened(broker)
            transport.sendall(on_channel(1, m.QueueDeclare(exclusive=True)))
            frames_of(transport, 10, until=1)
            transport.sendall(CLOSE)
            transport.shutdown(socket.SHUT_WR)
            assert [method.name for method in methods_until_end(transport)] == ["connection.close-ok"]
            transport.close()


def test_who_never_closes_is_closed(broker: Broker) -> None:
    transport = opened(broker)
    transport.sendall(CLOSE)
    assert len(methods_until_end(transport)) == 1


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        pytest.param(b"\x01\x00\x00\x00\x00\x00\x04garb\xff", 501, id="a frame without its end"),
        pytest.param(on_channel(7, m.BasicQos(0, 1, False)), 504, id="a channel that is not open"),
        pytest.param(on_channel(1, *[m.BasicConsume(queue="", consumer_tag="one")] * 2), 530, id="a tag used twice"),
    ],
)
def test_our_close_arrives_whatever_is_on_its_way(broker: Broker, octets: bytes, code: int) -> None:
    transport = opened(broker)
    transport.sendall(on_channel(1, m.QueueDeclare(exclusive=True)))
    frames_of(transport, until=1)
    answers_and_goes(transport, octets, code)


def answers_and_goes(transport: socket.socket, octets: bytes, code: int) -> None:
    """A client that is closed with a code for what it says, with much behind it: it hears so, answers and is closed."""
    sender = send_all(transport, octets + FLOOD)
    said = frames_until(transport, m.ConnectionClose)
    assert said.reply_code == code
    sender.join()
    assert sender.failures == []  # type: ignore[attr-defined]
    transport.sendall(on_channel(0, m.ConnectionCloseOk()))
    transport.settimeout(10)
    assert transport.recv(1) == b""


def frames_until(transport: socket.socket, kind: type[m.ConnectionClose]) -> m.ConnectionClose:
    """The first method of this kind."""
    while found := frames_of(transport, 10, until=1):
        for _, payload in found:
            method = m.decode_method(payload)
            if isinstance(method, kind):
                return method
    raise AssertionError(f"no {kind.__name__} has come")


def test_a_virtual_host_that_is_not_there(broker: Broker) -> None:
    says = handshake()[: -len(on_channel(0, m.ConnectionOpen("/")))] + on_channel(0, m.ConnectionOpen("nowhere"))
    answers_and_goes(broker.socket(), says, 530)


def test_a_defect_is_heard(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Broker(tmp_path_factory.mktemp("defect"), module="tests.robustness.defective_broker") as broken:
        answers_and_goes(opened(broken), on_channel(1, m.BasicQos(0, 1, False)), 541)
        assert "KeyError: 'a defect'" in broken.log_text()


def test_our_close_arrives_behind_what_was_not_read(broker: Broker) -> None:
    """A client that reads nothing for a while has said all: it is still told why it is closed."""
    transport = broker.socket()
    transport.sendall(handshake() + on_channel(1, m.ChannelOpen(), m.QueueDeclare(queue="unread")))
    frames_of(transport, until=5)
    with broker.connect() as client, client.channel() as channel:
        for _ in range(200):
            channel.publish("", "unread", bytes(100_000))
        # So many that more is unsent than the kernel takes, and less than makes the broker stop reading.
        transport.sendall(on_channel(1, m.BasicConsume(queue="unread", no_ack=True)))
        while channel.call(m.QueueDeclare(queue="unread", passive=True)).message_count == 200:
            pass
    transport.sendall(on_channel(7, m.BasicQos(0, 1, False)))
    transport.shutdown(socket.SHUT_WR)
    while "expected 'channel.open'" not in broker.log_text():
        pass
    broker.statistics()
    *_, (_, payload) = frames_of(transport, 10)
    close = m.decode_method(payload)
    assert isinstance(close, m.ConnectionClose)
    assert close.reply_code == 504


def start_ok(password: str, **capabilities: bool) -> bytes:
    properties = Table({"capabilities": capabilities})
    return encode_method_frame(0, m.ConnectionStartOk(properties, "PLAIN", f"\0guest\0{password}".encode(), "en_US"))


def test_a_refused_login_is_read(broker: Broker) -> None:
    transport = broker.socket()
    refused = c.PROTOCOL_HEADER + start_ok("wrong", authentication_failure_close=True)
    sender = send_all(transport, refused + PUBLISH * 2000)
    frames = frames_of(transport, 10, until=2)
    close = m.decode_method(frames[1][1])
    assert isinstance(close, m.ConnectionClose)
    assert close.reply_code == 403
    sender.join()
    transport.sendall(on_channel(0, m.ConnectionCloseOk()))
    transport.settimeout(10)
    assert transport.recv(1) == b""


def test_an_older_client_sees_a_refused_login_as_the_end(broker: Broker) -> None:
    transport = broker.socket()
    transport.sendall(c.PROTOCOL_HEADER + start_ok("wrong") + PUBLISH * 100)
    assert [type(method) for method in methods_until_end(transport)] == [m.ConnectionStart]


def test_a_wrong_protocol_header_gets_ours_and_the_end(broker: Broker) -> None:
    transport = broker.socket()
    sender = send_all(transport, b"AMQP\x03\x01\x00\x00" + bytes(8_000_000))
    transport.settimeout(10)
    assert transport.recv(100) == c.PROTOCOL_HEADER
    assert transport.recv(100) == b""
    sender.join()
    assert sender.failures == []  # type: ignore[attr-defined]
    transport.close()


def test_a_shutdown_is_read_by_a_publisher(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Broker(tmp_path_factory.mktemp("shutdown")) as broker:
        transport = opened(broker)
        sender = send_all(transport, FLOOD * 5)
        broker.process.terminate()
        (_, payload), *_ = frames_of(transport, 10, until=1)
        close = m.decode_method(payload)
        assert isinstance(close, m.ConnectionClose)
        assert close.reply_code == 320
        transport.sendall(on_channel(0, m.ConnectionCloseOk())) if not sender.is_alive() else None
        assert broker.process.wait(10) == 0  # the publisher has not answered, and the end comes all the same
        sender.join()
        transport.close()


def test_clients_that_close_while_the_node_is_drained(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever is first: each hears a close or the answer to its own, is not reset, and none of them is left."""
    with Broker(tmp_path_factory.mktemp("drained")) as broker, SystemClient(broker.url) as administrator:
        clients = [opened(broker) for _ in range(30)]
        administrator.request("node.drain", pace=100)
        senders = [send_all(each, PUBLISH * 1000 + CLOSE + PUBLISH * 1000) for each in clients]
        for each in clients:
            hear_the_end(each)
        for sender in senders:
            sender.join()
            assert sender.failures == []  # type: ignore[attr-defined]
        assert broker.settled_statistics(connections=2)["connections"] == 2
        assert administrator.request("node.guard")["connections"] == 0
        for each in clients:
            each.close()


def hear_the_end(transport: socket.socket) -> None:
    """Read until the close is answered, or answer one; then go."""
    is_over = False
    while not is_over:
        frames = frames_of(transport, 20, until=1)
        assert frames, "no close has come"
        for _, payload in frames:
            method = m.decode_method(payload)
            if isinstance(method, m.ConnectionClose):
                transport.sendall(on_channel(0, m.ConnectionCloseOk()))
            is_over = is_over or isinstance(method, m.ConnectionClose | m.ConnectionCloseOk)
    transport.shutdown(socket.SHUT_WR)
    transport.settimeout(20)
    while transport.recv(1000):  # the answer to a close that has crossed ours
        pass
