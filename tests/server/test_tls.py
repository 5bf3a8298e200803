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
