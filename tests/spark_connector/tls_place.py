"""A broker that speaks TLS and wants certificates of its clients, and the files of who trusts whom."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

import amqp_broker


@dataclass
class TlsPlace:
    """plain, url: without and with TLS. ca: who signed the broker's certificate and trusts that in cert, with its key;
    other_*: strangers."""

    plain: str
    url: str
    ca: str
    cert: str
    key: str
    other_ca: str
    other_cert: str

    @property
    def options(self) -> dict[str, str]:
        return {"uri": self.url, "caFile": self.ca, "certFile": self.cert, "keyFile": self.key}


@contextmanager
def tls_place(folder: Path) -> Iterator[TlsPlace]:
    """A broker of its own."""
    authority, stranger = trustme.CA(), trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    client = authority.issue_cert("client.example")
    files = {
        "ca": authority.cert_pem, "server": server.private_key_and_cert_chain_pem, "cert": client.cert_chain_pems[0],
        "key": client.private_key_pem, "other-ca": stranger.cert_pem,
        "other-cert": stranger.issue_cert("client.example").private_key_and_cert_chain_pem,
    }  # fmt: skip
    for name, blob in files.items():
        blob.write_to_path(folder / f"{name}.pem")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with amqp_broker.running(
        tls_listen=f"127.0.0.1:{port}", tls_certificate=folder / "server.pem", tls_key=folder / "server.pem",
        tls_client_ca=folder / "ca.pem", tls_verify_client=True,
    ) as broker:  # fmt: skip
        names = ("ca", "cert", "key", "other-ca", "other-cert")
        yield TlsPlace(broker.url, f"amqps://localhost:{port}/", *(str(folder / f"{each}.pem") for each in names))
