"""The client's handshake, closing from both sides, and everything that may go wrong with a connection."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from amqp_broker.client import ClientError, ClientTimeout, ConnectFailed, Connection, ConnectionClosed
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.frames import encode_method_frame
from tests.client.scripted_server import SERVER_PROPERTIES, Peer, scripted

CERTIFICATE = Path(__file__).with_name("localhost.pem")


def test_handshake() -> None:
    def script(peer: Peer) -> None:
        assert peer.read_exactly(8) == b"AMQP\x00\x00\x09\x01"
        peer.send(0, m.ConnectionStart(0, 9, SERVER_PROPERTIES, b"EXTERNAL PLAIN", b"en_US"))
        start_ok = peer.expect(m.ConnectionStartOk, 0)
        assert (start_ok.mechanism, start_ok.response, start_ok.locale) == (
            "PLAIN",
            b"\0us/er\0p@ss",
            "en_US",
        )
        assert start_ok.client_properties["connection_name"] == "a tool"
        assert start_ok.client_properties["team"] == "red"
        capabilities = start_ok.client_properties["capabilities"]
        assert capabilities["authentication_failure_close"] is capabilities["consumer_cancel_notify"] is True
        peer.send(0, m.ConnectionTune(10, 8192, 60))
        assert peer.expect(m.ConnectionTuneOk, 0) == m.ConnectionTuneOk(10, 8192, 0)
        assert peer.expect(m.ConnectionOpen, 0).virtual_host == "v/h"
        peer.send(0, m.ConnectionOpenOk())
        peer.close()

    with scripted(script) as url:
        url = url.replace("amqp://", "amqp://us%2Fer:p%40ss@") + "/v%2Fh"
        with Connection.open(url, name="a tool", client_properties={"team": "red"}) as connection:
            assert connection.server_properties == {"product": "script"}
            assert (connection.frame_max, connection.channel_max) == (8192, 10)
            assert connection.is_open
        assert not connection.is_open


@pytest.mark.parametrize(
    ("offered", "wanted", "agreed"),
    [(0, 131072, 131072), (131072, 0, 131072), (0, 0, 0), (131072, 4096, 4096)],
)
def test_frame_max_is_the_lower_of_both_and_zero_is_no_limit(offered: int, wanted: int, agreed: int) -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands(frame_max=offered, channel_max=0)
        peer.close()

    with scripted(script) as url, Connection.open(url, frame_max=wanted) as connection:
        assert (connection.frame_max, connection.channel_max) == (agreed, 65535)


def test_external_login_sends_no_password() -> None:
    def script(peer: Peer) -> None:
        start_ok = peer.shake_hands()
        assert (start_ok.mechanism, start_ok.response) == ("EXTERNAL", b"")
        peer.close()

    with scripted(script) as url:
        Connection.open(url, mechanism="EXTERNAL").close()


def test_every_octet_by_itself() -> None:
    def script(peer: Peer) -> None:
        peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.read_exactly(8)
        start = m.ConnectionStart(0, 9, SERVER_PROPERTIES, b"PLAIN", b"en_US")
        for octet in c.HEARTBEAT_FRAME + encode_method_frame(0, start) + c.HEARTBEAT_FRAME:
            peer.socket.sendall(bytes([octet]))
        peer.expect(m.ConnectionStartOk, 0)
        peer.send(0, m.ConnectionTune(10, 8192, 60))
        peer.expect(m.ConnectionTuneOk, 0)
        peer.expect(m.ConnectionOpen, 0)
        peer.send(0, m.ConnectionOpenOk())
        peer.close()

    with scripted(script) as url:
        Connection.open(url).close()


def test_refused_login_carries_the_brokers_code_and_text() -> None:
    def script(peer: Peer) -> None:
        peer.read_exactly(8)
        peer.send(0, m.ConnectionStart(0, 9, SERVER_PROPERTIES, b"PLAIN", b"en_US"))
        peer.expect(m.ConnectionStartOk, 0)
        peer.send(0, m.ConnectionClose(403, "ACCESS_REFUSED - Login was refused"))
        peer.expect(m.ConnectionCloseOk, 0)
        peer.expect_end()

    with scripted(script) as url, pytest.raises(ConnectFailed, match="403 ACCESS_REFUSED - Login") as caught:
        Connection.open(url)
    assert (caught.value.reply_code, caught.value.reply_text) == (403, "ACCESS_REFUSED - Login was refused")


def test_a_mechanism_that_is_not_offered() -> None:
    def script(peer: Peer) -> None:
        peer.read_exactly(8)
        peer.send(0, m.ConnectionStart(0, 9, SERVER_PROPERTIES, b"PLAIN AMQPLAIN", b"en_US"))
        peer.expect_end()

    with (
        scripted(script) as url,
        pytest.raises(ConnectFailed, match=r"EXTERNAL is not among .*: PLAIN AMQPLAIN"),
    ):
        Connection.open(url, mechanism="EXTERNAL")


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (b"", "closed by the peer without a word"),
        (b"AMQP\x00\x01\x00\x00", "offers another protocol: b'AMQP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "unknown frame type 72"),
        (
            b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x63\xce",
            r"unknown method 99 of class 10 \(connection\)",
        ),
        (b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x1f\xce", "malformed arguments of connection.tune-ok"),
        (encode_method_frame(0, m.ConnectionOpenOk()), "sent connection.open-ok instead of connection.start"),
        (b"\x03\x00\x00\x7f\x00\x00\x00", "at most 131064 were negotiated"),
    ],
)
def test_a_peer_that_is_no_broker(octets: bytes, message: str) -> None:
    def script(peer: Peer) -> None:
        peer.read_exactly(8)
        peer.socket.sendall(octets)

    with scripted(script) as url, pytest.raises(ConnectFailed, match=message):
        Connection.open(url)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(
        ConnectFailed, match=rf"cannot connect to amqp://127\.0\.0\.1:{port}: .*is the broker running"
    ):
        Connection.open(f"amqp://127.0.0.1:{port}")


def test_a_broker_that_says_nothing() -> None:
    def script(peer: Peer) -> None:
        peer.read_exactly(8)
        peer.expect_end()

    with (
        scripted(script) as url,
        pytest.raises(ConnectFailed, match=r"timed out waiting for connection\.start"),
    ):
        Connection.open(url, timeout=0.05)


def test_the_broker_closes_the_connection() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(m.QueueDeclare, 1)
        peer.send(0, m.ConnectionClose(320, "CONNECTION_FORCED - shutdown"))
        peer.expect(m.ConnectionCloseOk, 0)
        peer.expect_end()

    with scripted(script) as url, Connection.open(url) as connection:
        channel = connection.channel()
        with pytest.raises(ConnectionClosed, match="closed by the broker: 320 CONNECTION_FORCED") as caught:
            channel.call(m.QueueDeclare())
        assert caught.value.reply_code == 320
        assert not connection.is_open
        assert not channel.is_open
        for call in (connection.channel, lambda: channel.get("q"), lambda: channel.publish("", "q", b"")):
            with pytest.raises(ConnectionClosed, match="320"):
                call()
        channel.close()


def test_a_lost_transport() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()

    with scripted(script) as url, Connection.open(url) as connection:
        channel = connection.channel()
        with pytest.raises(ConnectionClosed, match=r"closed by the peer without a word|lost while"):
            channel.call(m.QueueDeclare())
        with pytest.raises(ConnectionClosed):
            connection.channel()


def test_why_the_broker_closed_is_known_even_if_sending_fails_first() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.send(0, m.ConnectionClose(501, "FRAME_ERROR - too much"))

    with scripted(script) as url, Connection.open(url) as connection:
        channel = connection.channel()

        def publish_for_ever() -> None:
            while True:
                channel.publish("", "q", bytes(100_000))

        with pytest.raises(ConnectionClosed, match="501 FRAME_ERROR"):
            publish_for_ever()


def test_close_waits_for_close_ok_past_everything_else() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(m.ConnectionClose, 0)
        peer.send_message(1, m.BasicDeliver("t", 1, False, "", "q"), b"late")
        peer.send(0, m.ConnectionBlocked("late"))
        peer.socket.sendall(c.HEARTBEAT_FRAME)
        peer.send(0, m.ConnectionCloseOk())
        peer.expect_end()

    with scripted(script) as url:
        connection = Connection.open(url)
        channel = connection.channel()
        connection.close()
        connection.close()
        with pytest.raises(ConnectionClosed, match="closed by this program"):
            channel.get("q")


def test_channels_take_the_lowest_free_number_up_to_channel_max() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands(channel_max=2)
        peer.open_channel(1)
        peer.open_channel(2)
        peer.close_channel(1)
        peer.open_channel(1)
        peer.close()

    with scripted(script) as url, Connection.open(url) as connection:
        first = connection.channel()
        assert connection.channel().number == 2
        with pytest.raises(ClientError, match="all 2 channels of the connection are open"):
            connection.channel()
        first.close()
        assert connection.channel().number == 1


def test_blocked_and_unblocked() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.send(0, m.ConnectionBlocked("low on memory"))
        peer.open_channel()
        peer.expect(m.ConnectionUpdateSecret, 0)
        peer.send(0, m.ConnectionUnblocked())
        peer.send(0, m.ConnectionUpdateSecretOk())
        peer.close()

    with scripted(script) as url, Connection.open(url) as connection:
        connection.channel()
        assert connection.blocked_reason == "low on memory"
        assert connection.call(m.ConnectionUpdateSecret(b"new", "renewal")) == m.ConnectionUpdateSecretOk()
        assert connection.blocked_reason is None


def test_a_broker_that_stops_reading_is_a_timeout_that_says_why() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.send(0, m.ConnectionBlocked("low on disk"))
        peer.expect(m.BasicPublish, 1)
        done.recv(1)

    ours, done = socket.socketpair()
    done.settimeout(60)
    with ours, done, scripted(script) as url, Connection.open(url) as connection:
        channel = connection.channel()
        connection.timeout = 0.1
        with pytest.raises(
            ClientTimeout, match=r"room to send .* which says that it is blocked: low on disk"
        ):
            channel.publish("", "q", bytes(50_000_000))
        ours.sendall(b"x")


def test_both_sides_sending_at_once_is_no_deadlock() -> None:
    size = 20_000_000

    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        for _ in range(size // 100_000):
            peer.send_message(1, m.BasicDeliver("t", 1, False, "", "q"), bytes(100_000))
        peer.expect(m.BasicPublish, 1)
        assert sum(map(len, peer.expect_content(1)[1])) == size
        peer.close()

    with scripted(script) as url, Connection.open(url) as connection:
        connection.channel().publish("", "q", bytes(size))


def test_a_call_of_the_connection_that_is_not_answered_gives_it_up() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.expect(m.ConnectionUpdateSecret, 0)
        peer.expect_end()

    with scripted(script) as url, Connection.open(url) as connection:
        with pytest.raises(ClientTimeout, match=r"the reply to connection\.update-secret"):
            connection.call(m.ConnectionUpdateSecret(b"s", "r"), timeout=0.05)
        assert not connection.is_open


def test_frames_of_channels_that_are_not_open_are_ignored() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.send(7, m.ChannelClose(404, "late"))
        peer.open_channel()
        peer.close()

    with scripted(script) as url, Connection.open(url) as connection:
        assert connection.channel().is_open


def test_tls() -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(CERTIFICATE)
    size = 3_000_000

    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(m.BasicPublish, 1)
        assert sum(map(len, peer.expect_content(1)[1])) == size
        peer.expect(m.BasicGet, 1)
        peer.send_message(1, m.BasicGetOk(1, False, "", "q", 0), bytes(size))
        peer.expect(m.ConnectionClose, 0)
        peer.send(0, m.ConnectionCloseOk())

    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    with scripted(script, server) as url, Connection.open(url, ssl_context=trusting) as connection:
        channel = connection.channel()
        channel.publish("", "q", bytes(size))
        delivery = channel.get("q")
        assert delivery is not None
        assert len(delivery.body) == size


def test_a_certificate_that_is_not_trusted() -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(CERTIFICATE)
    with (
        pytest.raises(ssl.SSLError),
        scripted(lambda peer: None, server) as url,
        pytest.raises(
            ConnectFailed, match=r"no TLS connection to amqps://localhost:.*CERTIFICATE_VERIFY_FAILED"
        ),
    ):
        Connection.open(url)


def test_a_tls_context_for_an_unencrypted_url_is_refused() -> None:
    with pytest.raises(ValueError, match="not encrypted although an ssl_context is given"):
        Connection.open("amqp://localhost", ssl_context=ssl.create_default_context())


def test_the_client_is_light_to_import() -> None:
    """It lives in other projects' tests: no grammar, no event loop, no TLS, no other package of ours."""
    heavy = ["construct", "asyncio", "ssl", "uvloop", "amqp_broker.octets", "queues", "storage", "exchanges", "Cython"]
    program = f"import sys, amqp_broker.client; print([name for name in {heavy} if name in sys.modules])"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_greeting_needs_no_login_and_somebody_who_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ConnectFailed, match=r"connection\.start"):
            Connection.greet(f"amqp://127.0.0.1:{port}", timeout=0.05)


def interrupted_at(moment: int, run: Callable[[], object]) -> bool:
    """Whether a Ctrl-C came at the client's line of that number."""
    lines = 0

    def on_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines == moment and event == "line":
            raise KeyboardInterrupt
        return on_line

    def on_call(frame: FrameType, event: str, _: object) -> Any:
        return on_line if "/amqp_broker/client/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_whoever_is_interrupted_says_and_waits_for_nothing_more() -> None:
    """Whenever that is: octets that were read are lost to it, and a goodbye would wait for its whole timeout."""
    heard = b""
    goodbye = m.encode_method(m.ConnectionClose(200, ""))[:4]

    def script(peer: Peer) -> None:
        nonlocal heard
        peer.shake_hands()
        heard = peer.socket.recv(65536)
        answer = encode_method_frame(1, m.ChannelOpenOk())
        with suppress(OSError):
            peer.socket.sendall(answer[:5])
            peer.socket.sendall(answer[5:])
            while data := peer.socket.recv(65536):
                heard += data
                if goodbye in heard:
                    peer.send(0, m.ConnectionCloseOk())

    moment = 0
    is_interrupted = True
    while is_interrupted:
        moment += 1
        with scripted(script) as url:
            connection = Connection.open(url)
            with suppress(KeyboardInterrupt), connection:
                is_interrupted = interrupted_at(moment, connection.channel)
                if is_interrupted:
                    raise KeyboardInterrupt
            with pytest.raises(ConnectionClosed, match="aborted" if is_interrupted else "closed by this program"):
                connection.channel()
        assert (goodbye in heard) != is_interrupted, moment
    assert moment > 50
