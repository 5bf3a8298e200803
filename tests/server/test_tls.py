"""TLS for real: a stock client over a verified connection, and one whose certificate is its login."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
import trustme

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.frames import FrameParser
from tests.fuzz.harness import handshake, on_channel
from tests.robustness.broker import frames_of


class Place:
    """A broker with a TLS listener, and the authority that signed its certificate."""

    def __init__(self, broker: amqp_broker.RunningBroker, authority: trustme.CA, port: int) -> None:
        self.broker = broker
        self.authority = authority
        self.port = port

    def context(self) -> ssl.SSLContext:
        """A client's context that trusts the authority."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    with (folder / "certificate.pem").open("wb") as file:
        for blob in certificate.cert_chain_pems:
            file.write(blob.bytes())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with amqp_broker.running(
        tls_listen=f"127.0.0.1:{port}",
        tls_certificate=folder / "certificate.pem",
        tls_key=folder / "key.pem",
        tls_client_ca=folder / "ca.pem",
        tls_verify_client=False,
    ) as broker:
        yield Place(broker, authority, port)


def _parameters(place: Place, context: ssl.SSLContext, credentials: object) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        "localhost",
        place.port,
        credentials=credentials,
        ssl_options=pika.SSLOptions(context, "localhost"),
        blocked_connection_timeout=10,
    )


def _round_trip(connection: pika.BlockingConnection, body: bytes) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, body, mandatory=True)
    assert channel.basic_get(queue, auto_ack=True)[2] == body
    connection.close()


def test_a_password_over_tls(place: Place) -> None:
    """Small and large bodies arrive whole."""
    credentials = pika.PlainCredentials("guest", "guest")
    for body in (b"small", b"x" * 3_000_000):
        _round_trip(pika.BlockingConnection(_parameters(place, place.context(), credentials)), body)


def test_a_stranger_is_not_trusted(place: Place) -> None:
    """A client that does not know the authority refuses the broker."""
    with pytest.raises(ssl.SSLCertVerificationError):
        pika.BlockingConnection(
            _parameters(place, ssl.create_default_context(), pika.PlainCredentials("guest", "guest"))
        )


def test_the_certificate_is_the_login(place: Place) -> None:
    """EXTERNAL: the common name of the client's certificate is the user."""
    client = place.authority.issue_cert("client.example", common_name="guest")
    context = place.context()
    client.configure_cert(context)
    _round_trip(
        pika.BlockingConnection(_parameters(place, context, pika.credentials.ExternalCredentials())), b"by certificate"
    )


def test_external_needs_a_certificate(place: Place) -> None:
    """Without one the mechanism is not even offered."""
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(_parameters(place, place.context(), pika.credentials.ExternalCredentials()))


def _raw(place: Place, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLSocket:
    """A transport whose handshakes are done, and a channel open."""
    plain = socket.create_connection(("127.0.0.1", place.port), timeout=10)
    context = place.context()
    context.maximum_version = version
    transport = context.wrap_socket(plain, server_hostname="localhost")
    transport.sendall(handshake() + on_channel(1, m.ChannelOpen()))
    assert len(frames_of(transport, until=4)) == 4
    return transport


def test_a_close_that_overtakes_what_was_published(place: Place) -> None:
    """What comes behind it is read and discarded, and the client closes first."""
    transport = _raw(place)
    publish = on_channel(1, (m.BasicPublish(0, "", "nobody"), b"\x00\x00", b"x" * 1000))
    transport.sendall(on_channel(0, m.ConnectionClose(200, "bye")))
    for _ in range(20):
        transport.sendall(publish * 1000)
    ((_, payload),) = frames_of(transport, until=1)
    assert isinstance(m.decode_method(payload), m.ConnectionCloseOk)
    transport.close()


def test_our_close_arrives_whatever_is_on_its_way(place: Place) -> None:
    transport = _raw(place)
    publish = on_channel(1, (m.BasicPublish(0, "", "nobody"), b"\x00\x00", b"x" * 1000))
    transport.sendall(on_channel(9, m.BasicQos(0, 1, False)))
    for _ in range(20):
        transport.sendall(publish * 1000)
    ((_, payload),) = frames_of(transport, until=1)
    close = m.decode_method(payload)
    assert isinstance(close, m.ConnectionClose)
    assert close.reply_code == 504
    transport.sendall(on_channel(0, m.ConnectionCloseOk()))
    assert transport.recv(1) == b"", "the broker closes when it has the answer"
    transport.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_what_comes_behind_the_last_close_ok_resets_nothing(place: Place, version: ssl.TLSVersion) -> None:
    """Another thread of the client may still publish: our close_notify arrives, and nothing is torn off."""
    publish = on_channel(1, (m.BasicPublish(0, "", "nobody"), b"\x00\x00", b"x" * 1000))
    for _ in range(10):
        transport = _raw(place, version)
        transport.sendall(on_channel(9, m.BasicQos(0, 1, False)))
        assert isinstance(m.decode_method(frames_of(transport, until=1)[0][1]), m.ConnectionClose)
        transport.sendall(on_channel(0, m.ConnectionCloseOk()))
        transport.sendall(publish * 2000)
        assert transport.recv(1) == b""
        with transport.unwrap() as plain:
            plain.sendall(b"a few octets more")
            assert plain.recv(1) == b"", "and then the end of the transport, no reset"


def test_a_publisher_that_goes_without_a_word_has_published(place: Place) -> None:
    """All that it has sent is taken, as without TLS: 2,000 messages, and the end of the transport behind them."""
    transport = _raw(place)
    transport.sendall(on_channel(1, m.QueueDeclare(queue="gone")))
    frames_of(transport, until=1)
    publish = on_channel(1, (m.BasicPublish(0, "", "gone"), b"\x00\x00", b"x" * 1000))
    transport.sendall(publish * 2000)
    transport.close()
    with Connection.open(place.broker.url) as connection, connection.channel() as channel:
        consumer = channel.consume("gone", no_ack=True)
        for _ in range(2000):
            assert consumer.next(timeout=30) is not None


def test_a_client_that_says_goodbye_hears_one(place: Place) -> None:
    """Its close_notify is answered."""
    transport = _raw(place)
    transport.unwrap().close()


class Hasty:
    """A client over TLS that says a last word and its goodbye in one go, and reads until the broker has said all."""

    def __init__(self, place: Place) -> None:
        self._socket = socket.create_connection(("127.0.0.1", place.port), timeout=30)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._records = place.context().wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        while not self._is_done():
            self._send()
            self._incoming.write(self._socket.recv(65536))
        self._records.write(handshake() + on_channel(1, m.ChannelOpen()))
        self._send()
        self._heard = b""
        while len(self.methods()) < 4:
            self._incoming.write(self._socket.recv(65536))
            self._read()

    def _is_done(self) -> bool:
        try:
            self._records.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _send(self) -> None:
        self._socket.sendall(self._outgoing.read())

    def _read(self) -> bool:
        """Whether the broker has said all."""
        try:
            while octets := self._records.read(65536):
                self._heard += octets
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLZeroReturnError:
            pass
        return True

    def methods(self) -> list[m.Method]:
        """All that it has heard."""
        frames = FrameParser(131072).receive_data(self._heard)
        return [m.decode_method(frame.payload) for frame in frames if frame.type == c.FRAME_METHOD]

    def leave(self, octets: bytes) -> list[m.Method]:
        """Returns what the broker says to that, until its own goodbye."""
        before = len(self.methods())
        self._records.write(octets)
        with pytest.raises(ssl.SSLWantReadError):
            self._records.unwrap()
        self._send()
        while not self._read():
            octets = self._socket.recv(65536)
            assert octets, "the transport ended without a goodbye"
            self._incoming.write(octets)
        self._socket.close()
        return self.methods()[before:]


def test_a_goodbye_does_not_overtake_the_answer_to_a_close(place: Place) -> None:
    (answer,) = Hasty(place).leave(on_channel(0, m.ConnectionClose(200, "bye")))
    assert isinstance(answer, m.ConnectionCloseOk)


def test_a_goodbye_does_not_overtake_our_close(place: Place) -> None:
    (close,) = Hasty(place).leave(on_channel(9, m.BasicQos(0, 1, False)))
    assert isinstance(close, m.ConnectionClose)
    assert close.reply_code == 504


def test_a_goodbye_does_not_overtake_what_waits_for_the_disk(place: Place) -> None:
    """The messages stand behind a declaration that is answered later, and are published all the same."""
    octets = on_channel(1, m.QueueDeclare(queue="behind", durable=True))
    octets += on_channel(1, *[(m.BasicPublish(0, "", "behind"), b"\x00\x00", b"x")] * 100)
    octets += on_channel(0, m.ConnectionClose(200, "bye"))
    answers = Hasty(place).leave(octets)
    assert [type(answer) for answer in answers] == [m.QueueDeclareOk, m.ConnectionCloseOk]
    with Connection.open(place.broker.url) as connection, connection.channel() as channel:
        assert channel.call(m.QueueDelete(queue="behind")).message_count == 100
