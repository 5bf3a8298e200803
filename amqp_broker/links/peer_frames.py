"""PeerFrames: the frames of one open link, both ways: payloads in, octets out, and back.

A frame is `length u32 | ...` where the length counts what follows it: where TLS protects the link, the payload alone;
elsewhere `sequence u64 | payload | MAC of 16 octets`. An empty payload is a ping.

It knows no sockets and no handshake: its keys are arguments.

Invariants:
1. Payloads come out in the order and number in which they were put in, or the link fails: the sequence numbers have no
   gap, and each direction has its own key.
2. After a PeerLinkError nothing goes out and nothing is taken.
3. What is kept of an unfinished frame is bounded by the largest frame.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

import cython

from amqp_broker.links.peer_handshake import PeerLinkError
from amqp_broker.octets.buffer import Buffer

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u32, get_u64

if TYPE_CHECKING:
    from hashlib import _Hash

    from amqp_broker.octets.buffer import Pointer

PING = b""
MAC_BYTES = 16
_LENGTH_BYTES = 4
_SEQUENCE_BYTES = 8
_HEADER_BYTES = _LENGTH_BYTES + _SEQUENCE_BYTES
_MAC_BYTES = MAC_BYTES
#: What a frame adds to its payload at most, octets.
FRAME_OVERHEAD = _HEADER_BYTES + MAC_BYTES
#: SHA-256 takes so much at a time, and HMAC fills its key up to it (RFC 2104), octets.
_BLOCK_BYTES = 64
_compare = hmac.compare_digest


class FrameMac:
    """HMAC-SHA-256 (RFC 2104) under one key of 1 to 64 octets, cut to MAC_BYTES.

    Both hashes have taken the key already, and each frame goes on from copies of them: that is a third of the work of
    a small frame, and hmac.HMAC would put a Python object around each step.
    """

    def __init__(self, key: bytes) -> None:
        if not 0 < len(key) <= _BLOCK_BYTES:
            raise ValueError(f"the key of the frames has {len(key)} octets: it takes 1 to {_BLOCK_BYTES}")
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        self.inner: _Hash = hashlib.sha256(bytes([octet ^ 0x36 for octet in padded]))
        self.outer: _Hash = hashlib.sha256(bytes([octet ^ 0x5C for octet in padded]))

    def of(self, header: bytes, payload: bytes) -> bytes:
        """The MAC of a frame."""
        inner = self.inner.copy()
        inner.update(header)
        inner.update(payload)
        outer = self.outer.copy()
        outer.update(inner.digest())
        digest = outer.digest()
        octets: Pointer = digest
        mac: bytes = octets[:_MAC_BYTES]
        return mac


class PeerFrames:
    """See the module's docstring. `sending` and `receiving` are the keys of the two directions, or None where TLS
    protects the link; `max_frame_bytes` is the longest payload, and `peer_name` is for the errors."""

    def __init__(self, peer_name: str, max_frame_bytes: int, sending: bytes | None, receiving: bytes | None) -> None:
        self.has_failed = False
        self.peer_name = peer_name
        self.limit = max_frame_bytes
        self.sending = None if sending is None else FrameMac(sending)
        self.receiving = None if receiving is None else FrameMac(receiving)
        self.sent = self.received = 0
        #: What an unfinished frame has of its octets, and how many it needs until it can be judged.
        self.pending = bytearray()
        self.needed = _LENGTH_BYTES
        self.header = Buffer(_HEADER_BYTES)

    # -- what goes out -----------------------------------------------------------------------------------------------

    def encode(self, payloads: list[bytes]) -> list[bytes]:
        """The octets of frames, in pieces, none of them empty. Raises ValueError if the link has failed or a payload is
        too long."""
        if self.has_failed:
            raise ValueError(f"the link with {self.peer_name!r} has failed: it takes no frames")
        pieces: list[bytes] = []
        header = self.header
        mac = self.sending
        for payload in payloads:
            size = len(payload)
            if size > self.limit:
                raise ValueError(f"a frame of {size} octets for {self.peer_name!r}: at most {self.limit} are allowed")
            if mac is None:
                header.put_u32(size)
            else:
                header.put_u32(size + _SEQUENCE_BYTES + _MAC_BYTES)
                header.put_u64(self.sent)
                self.sent += 1
            head = header.take()
            pieces.append(head)
            if size:
                pieces.append(payload)
            if mac is not None:
                pieces.append(mac.of(head, payload))
        return pieces

    # -- what comes in -----------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[bytes]:
        """The payloads of the frames that are complete, pings left out. Raises PeerLinkError; what was complete before
        the fault is lost too, as it would be with the link."""
        if self.has_failed:
            raise PeerLinkError("it speaks out of turn")
        payloads: list[bytes] = []
        try:
            if len(self.pending):
                self._complete(data, payloads)
            else:
                self._split(data, 0, len(data), payloads)
        except PeerLinkError:
            self.has_failed = True
            self.pending = bytearray()
            raise
        return payloads

    def _complete(self, data: bytes, payloads: list[bytes]) -> None:
        """Add to the unfinished frame what it lacks, and no more: the rest need not be copied."""
        octets: Pointer = data
        offset, end = 0, len(data)
        while offset < end and len(self.pending):
            stop = min(offset + self.needed - len(self.pending), end)
            self.pending += octets[offset:stop]
            offset = stop
            if len(self.pending) == self.needed:
                whole = self.pending
                self.pending = bytearray()
                if cython.compiled:
                    self._split(whole, 0, len(whole), payloads)
                else:
                    self._split(bytes(whole), 0, len(whole), payloads)
        if offset < end:
            self._split(octets, offset, end, payloads)

    def _split(self, octets: Pointer, offset: int, end: int, payloads: list[bytes]) -> None:
        """Take all frames that are complete; what is left is pending, and `needed` octets of it can be judged.
        `octets`: compiled, a pointer; plain, a bytes object."""
        mac = self.receiving
        extra = 0 if mac is None else _SEQUENCE_BYTES + _MAC_BYTES
        self.needed = _LENGTH_BYTES
        while end - offset >= _LENGTH_BYTES:
            length = get_u32(octets, offset)
            if length < extra or length > self.limit + extra:
                raise self._wrong_length(length, extra)
            start = offset + _LENGTH_BYTES
            stop = start + length
            if stop > end:
                self.needed = stop - offset
                break
            if mac is None:
                payload = octets[start:stop]
            else:
                payload = self._verified(mac, octets, offset, stop)
            if payload:
                payloads.append(payload)
            offset = stop
        if offset < end:
            self.pending += octets[offset:end]

    def _verified(self, mac: FrameMac, octets: Pointer, offset: int, stop: int) -> bytes:
        """The payload of a frame whose MAC and sequence number are right."""
        start, mac_at = offset + _HEADER_BYTES, stop - _MAC_BYTES
        header = octets[offset:start]
        payload: bytes = octets[start:mac_at]
        said = octets[mac_at:stop]
        if not _compare(mac.of(header, payload), said):
            raise PeerLinkError(f"a frame of {self.peer_name!r} was changed on its way: its MAC is wrong")
        sequence = get_u64(octets, offset + _LENGTH_BYTES)
        if sequence != self.received:
            raise PeerLinkError(
                f"frame {sequence} of {self.peer_name!r} came where {self.received} was due: "
                f"frames were repeated, lost or exchanged on their way"
            )
        self.received += 1
        return payload

    def _wrong_length(self, length: int, extra: int) -> PeerLinkError:
        return PeerLinkError(
            f"{self.peer_name!r} sends a frame of {length - extra} octets; "
            f"0 to {self.limit} are allowed: is the limit the same on both nodes?"
        )
