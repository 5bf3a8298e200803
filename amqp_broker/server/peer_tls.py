"""TLS between nodes: each shows a certificate of the cluster's authority. Octets in, octets out, no socket.

asyncio could do it, but does not say why a handshake has failed, and a stranger at the door belongs into the log.

Invariants:
1. Nothing older than TLS 1.3, no resumption: each link has shown its certificates anew.
2. Who the peer is and what binds the link to its channel is known as soon as `is_established`.
"""

from __future__ import annotations

import hashlib
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

from amqp_broker.links.peer_handshake import PeerLinkError, TlsFacts
from amqp_broker.server.tls_files import load_authorities, load_certificate
from amqp_broker.settings.workers import worker_number

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_broker.settings.cluster_config import ClusterConfig

_SERVER_NAME = "worker-"
_READ_BYTES = 256 * 1024
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class TlsCredentials(NamedTuple):
    """What a node needs for its links: a context for each side, and its own certificate, DER."""

    dialling: ssl.SSLContext
    accepting: ssl.SSLContext
    certificate: bytes


def load_credentials(config: ClusterConfig) -> TlsCredentials | None:
    """The credentials that are configured, None for none. Raises OSError, which names the file that cannot be used."""
    if config.cluster_cert is None or config.cluster_key is None or config.cluster_ca is None:
        return None
    contexts = []
    for protocol in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER):
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # nodes have names of their own: PeerProtocol compares them
        context.verify_mode = ssl.CERT_REQUIRED
        load_certificate(context, config.cluster_cert, config.cluster_key)
        load_authorities(context, config.cluster_ca)
        contexts.append(context)
    contexts[1].num_tickets = 0
    return TlsCredentials(contexts[0], contexts[1], _first_certificate(config.cluster_cert))


def _first_certificate(path: Path) -> bytes:
    """The node's own certificate, DER: the first of the chain, as OpenSSL takes it."""
    text = path.read_text(encoding="ascii", errors="replace")
    start = text.index(_BEGIN)
    return ssl.PEM_cert_to_DER_cert(text[start : text.index(_END, start) + len(_END)])


def _names_in(certificate: dict[str, Any]) -> tuple[str, ...]:  # untyped: as ssl has it
    """The DNS names and the common names of a certificate."""
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    names += [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return tuple(dict.fromkeys(names))


def server_name(node: str) -> str | None:
    """What who dials says in the clear (SNI): the number of the worker, which is all that whoever has the port of a
    node needs to know. None for a node itself, as versions without workers do."""
    number = worker_number(node)
    return f"{_SERVER_NAME}{number}" if number else None


def worker_of_server_name(name: str) -> int:
    """Which worker is looked for; 0 for a name that says none."""
    digits = name.removeprefix(_SERVER_NAME)
    return int(digits) if digits != name and digits.isdecimal() else 0


class TlsChannel:
    """One end of one link's TLS. dialled: the node that was dialled, None where the link was accepted."""

    def __init__(self, credentials: TlsCredentials, dialled: str | None) -> None:
        self.is_established = False
        self._own = credentials.certificate
        self._is_dialler = is_dialler = dialled is not None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        context = credentials.dialling if is_dialler else credentials.accepting
        name = None if dialled is None else server_name(dialled)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=not is_dialler, server_hostname=name)

    def receive(self, data: bytes) -> bytes:
        """Octets from the socket; returns what they say. Raises PeerLinkError; there may be output even then."""
        self._incoming.write(data)
        pieces = []
        try:
            if not self.is_established:
                self._tls.do_handshake()
                self.is_established = True
            while piece := self._tls.read(_READ_BYTES):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        except ssl.SSLZeroReturnError:
            pass
        except ssl.SSLError as error:
            raise PeerLinkError(f"TLS has failed: {_reason(error)}") from error
        raise PeerLinkError("it has closed the link")

    def encrypt(self, data: bytes) -> bytes:
        """The octets for the socket that say `data`."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]  # OpenSSL takes a record at a time
        return self._outgoing.read()

    def take_output(self) -> bytes:
        """What TLS itself has to say: the handshake, an alert."""
        return self._outgoing.read()

    def facts(self) -> TlsFacts:
        """Who the peer is by its certificate, and the binding: the hashes of both certificates, the acceptor's first
        (RFC 5929 section 4, tls-server-end-point, for both ends)."""
        theirs = self._tls.getpeercert(binary_form=True)
        parsed = self._tls.getpeercert()
        assert theirs is not None
        assert parsed is not None
        accepting, dialling = (theirs, self._own) if self._is_dialler else (self._own, theirs)
        binding = hashlib.sha256(accepting).digest() + hashlib.sha256(dialling).digest()
        return TlsFacts(_names_in(parsed), binding)


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted, {error.verify_message}: is it of the authority in cluster_ca?"
    if error.reason in ("TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_BAD_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED"):
        return f"it does not accept this node's certificate ({error.reason})"
    return f"{error.reason or error}: does the peer use TLS between nodes?"
