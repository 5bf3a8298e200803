"""The four messages by which two nodes prove to each other who they are, and the keys that follow from them.

    dialler                                                    acceptor
      HELLO      magic, version, is_protected, nonce, cluster,
                 own name, acceptor's name, MAC              ->
                                                             <-  CHALLENGE  nonce, proof
      PROOF      epoch, proof                                ->
                                                             <-  READY      epoch, proof

This module encodes and checks single messages; `peer_protocol` knows their order. It knows no sockets and draws no
random octets. Integers are big endian.

Invariants:
1. Every MAC is HMAC-SHA256 under a key of the secret and the cluster's name, begins with a label that no other MAC has,
   and covers everything said before: version, both names, both nonces, and the channel's binding.
2. The HELLO carries a MAC, so whoever has not the secret is told nothing, not even a nonce.
3. Proofs are compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

MAGIC = b"AMQPLINK"
VERSION = 1
NONCE_BYTES = 32
PROOF_BYTES = 32
#: No message of the handshake is longer; whoever announces more is no peer.
MAX_HANDSHAKE_BYTES = 1024
MAX_NAME_BYTES = 255
#: What opens CHALLENGE, PROOF and READY.
CHALLENGE, PROOF, READY = 2, 3, 4

_FIXED = struct.Struct(f">8sBB{NONCE_BYTES}s")
_CHALLENGE = struct.Struct(f">B{NONCE_BYTES}s{PROOF_BYTES}s")
_EPOCH_AND_PROOF = struct.Struct(f">BQ{PROOF_BYTES}s")
_EPOCH = struct.Struct(">Q")


class PeerLinkError(Exception):
    """The link must be closed, with nothing said on it; the text says why, for the log."""


@dataclass(frozen=True, slots=True)
class LinkIdentity:
    """What all links of a node share. `secret` is the cluster's; the largest payload is in octets. is_inside: they
    lead to processes of the same node, over the loopback device, and frames have no MACs."""

    node_name: str
    cluster_name: str
    secret: bytes = field(repr=False)
    max_frame_bytes: int
    is_inside: bool = False


class TlsFacts(NamedTuple):
    """What TLS says of a link: the names in the peer's certificate, and octets that both ends compute from their
    channel and nobody between them could."""

    certificate_names: tuple[str, ...]
    binding: bytes


class Hello(NamedTuple):
    """The first message, without its MAC. `is_protected`: frames have no MACs, as TLS protects them, or the machine."""

    is_protected: bool
    nonce: bytes
    cluster_name: str
    dialler: str
    acceptor: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """What both ends know after the two nonces: a hash of all that was said, under the key of the cluster."""

    key: bytes = field(repr=False)
    transcript: bytes

    def challenge_proof(self) -> bytes:
        """Says: I am the acceptor."""
        return _mac(self.key, b"acceptor", self.transcript)

    def dialler_proof(self, epoch: int) -> bytes:
        """Says: I am the dialler, and this is the number that I give to the link (0: you number it)."""
        return _mac(self.key, b"dialler", self.transcript + _EPOCH.pack(epoch))

    def ready_proof(self, epoch: int) -> bytes:
        """Says: I have seen your proof, and this is the number of the link."""
        return _mac(self.key, b"ready", self.transcript + _EPOCH.pack(epoch))

    def frame_keys(self) -> tuple[bytes, bytes]:
        """The keys of the frames: what the dialler sends, what the acceptor sends."""
        return (
            _mac(self.key, b"frames of the dialler", self.transcript),
            _mac(self.key, b"frames of the acceptor", self.transcript),
        )


def cluster_key(identity: LinkIdentity) -> bytes:
    """The key of all handshakes: the secret, for this purpose, this version and this cluster only."""
    label = f"amqp-broker cluster link {VERSION}\0{identity.cluster_name}"
    return hmac.digest(identity.secret, label.encode(), "sha256")


def agree(key: bytes, hello: bytes, nonce: bytes, binding: bytes) -> Agreement:
    """The agreement after a HELLO (the octets of its payload) and the acceptor's nonce."""
    return Agreement(key, hashlib.sha256(_said(hello, binding) + nonce).digest())


def encode_hello(hello: Hello, key: bytes, binding: bytes) -> bytes:
    """The payload of a HELLO. Raises ValueError for a name that is empty or too long."""
    fields = _FIXED.pack(MAGIC, VERSION, hello.is_protected, hello.nonce)
    for name in (hello.cluster_name, hello.dialler, hello.acceptor):
        octets = name.encode()
        if not 0 < len(octets) <= MAX_NAME_BYTES:
            raise ValueError(f"the name {name!r} has {len(octets)} octets: 1 to {MAX_NAME_BYTES} are allowed")
        fields += bytes((len(octets),)) + octets
    return fields + _mac(key, b"hello", _said(fields, binding))


def decode_hello(payload: bytes) -> Hello:
    """What a HELLO says; its MAC is not looked at. Raises PeerLinkError."""
    if not payload.startswith(MAGIC):
        raise PeerLinkError(f"it does not begin as a node of a cluster does, but with {payload[:16]!r}")
    if len(payload) > len(MAGIC) and payload[len(MAGIC)] != VERSION:
        raise PeerLinkError(
            f"it speaks version {payload[len(MAGIC)]} of the link protocol and this node version {VERSION}: "
            f"run versions of the broker that go together"
        )
    if len(payload) < _FIXED.size + PROOF_BYTES:
        raise PeerLinkError(f"its HELLO is cut short: {len(payload)} octets")
    _, _, is_protected, nonce = _FIXED.unpack_from(payload)
    names, offset, end = [], _FIXED.size, len(payload) - PROOF_BYTES
    for _ in range(3):
        length = payload[offset] if offset < end else 0
        octets = payload[offset + 1 : offset + 1 + length]
        offset += 1 + length
        if not length or offset > end:
            raise PeerLinkError("its HELLO is malformed: a name is empty or reaches beyond the end")
        try:
            names.append(octets.decode())
        except UnicodeDecodeError:
            raise PeerLinkError(f"its HELLO is malformed: the name {octets!r} is not UTF-8") from None
    if offset != end or is_protected > 1:
        raise PeerLinkError("its HELLO is malformed: octets that mean nothing")
    return Hello(bool(is_protected), nonce, names[0], names[1], names[2])


def is_hello_proved(payload: bytes, key: bytes, binding: bytes) -> bool:
    """Whether the MAC at the end of a HELLO is right."""
    fields, mac = payload[:-PROOF_BYTES], payload[-PROOF_BYTES:]
    return hmac.compare_digest(mac, _mac(key, b"hello", _said(fields, binding)))


def encode_challenge(nonce: bytes, proof: bytes) -> bytes:
    """The payload of a CHALLENGE."""
    return _CHALLENGE.pack(CHALLENGE, nonce, proof)


def decode_challenge(payload: bytes) -> tuple[bytes, bytes]:
    """Nonce and proof. Raises PeerLinkError."""
    _check(payload, CHALLENGE, _CHALLENGE.size, "CHALLENGE")
    _, nonce, proof = _CHALLENGE.unpack(payload)
    return nonce, proof


def encode_epoch_and_proof(kind: int, epoch: int, proof: bytes) -> bytes:
    """The payload of a PROOF or a READY."""
    return _EPOCH_AND_PROOF.pack(kind, epoch, proof)


def decode_epoch_and_proof(kind: int, payload: bytes) -> tuple[int, bytes]:
    """Epoch and proof of a PROOF or a READY. Raises PeerLinkError."""
    _check(payload, kind, _EPOCH_AND_PROOF.size, "PROOF" if kind == PROOF else "READY")
    _, epoch, proof = _EPOCH_AND_PROOF.unpack(payload)
    return epoch, proof


def _check(payload: bytes, kind: int, size: int, name: str) -> None:
    if len(payload) != size or payload[0] != kind:
        raise PeerLinkError(f"{len(payload)} octets that begin with {payload[:1]!r} came where a {name} was due")


def _said(fields: bytes, binding: bytes) -> bytes:
    """One hash of fixed length over two texts of any length."""
    return hashlib.sha256(hashlib.sha256(binding).digest() + hashlib.sha256(fields).digest()).digest()


def _mac(key: bytes, label: bytes, said: bytes) -> bytes:
    return hmac.digest(key, label + b"\0" + said, "sha256")
