"""ConnectionState: what there is to know of a connection that is quiet, so that another worker can go on with it.

    octets     all that follows, big endian; texts are u16 length, octets
    head       the fields of _NUMBERS, u8 is_loopback
    texts      host, local_host, user, acting, mechanism, vhost
    u32 length, client_properties; u32 length, the octets that were read and are not handled
    u16 count, channels (ChannelState)
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from amqp_broker.channel.channel_state import ChannelState
from amqp_broker.protocol.fields import Table, decode_table
from queues.wire.reader import Malformed, Reader

_NUMBERS: Final = struct.Struct(">11q?")
_TEXTS: Final = 6
#: Of the fields, these and those behind it are in _NUMBERS.
_FIRST_NUMBER: Final = 9


class ConnectionState(NamedTuple):
    """applied: up to there are the metadata applied on which it relies. moves: how often it has moved, this time
    included. properties: client_properties, encoded. pending: octets that were read and are not handled, from a frame's
    border on. The others are as they are called in Peer, Session and Connection."""

    host: str
    local_host: str
    user: str
    acting: str
    mechanism: str
    vhost: str
    properties: bytes
    pending: bytes
    channels: tuple[ChannelState, ...]
    applied: int
    moves: int
    port: int
    local_port: int
    frame_max: int
    payload_max: int
    channel_max: int
    heartbeat_ms: int
    received_bytes: int
    sent_bytes: int
    connected_at: int
    is_loopback: bool

    def encode(self) -> bytes:
        """Octets, for `decode`."""
        texts = (self.host, self.local_host, self.user, self.acting, self.mechanism, self.vhost)
        pieces = [_NUMBERS.pack(*self[_FIRST_NUMBER:])]
        for octets in [text.encode("utf-8", "surrogateescape") for text in texts]:
            pieces += (len(octets).to_bytes(2, "big"), octets)
        for octets in (self.properties, self.pending):
            pieces += (len(octets).to_bytes(4, "big"), octets)
        pieces.append(len(self.channels).to_bytes(2, "big"))
        pieces += [channel.encode() for channel in self.channels]
        return b"".join(pieces)

    @classmethod
    def decode(cls, octets: bytes) -> ConnectionState:
        """The state that these octets are. Raises Malformed."""
        reader = Reader(octets, "state of a connection")
        numbers = _NUMBERS.unpack(reader.octets(_NUMBERS.size))
        host, local_host, user, acting, mechanism, vhost = (
            reader.octets(reader.u16()).decode("utf-8", "surrogateescape") for _ in range(_TEXTS)
        )
        properties, pending = (reader.octets(reader.u32()) for _ in range(2))
        channels = tuple([ChannelState.read(reader) for _ in range(reader.u16())])
        reader.finish()
        return cls(
            host, local_host, user, acting, mechanism, vhost, properties, pending, channels, *numbers
        )  # fmt: skip

    def client_properties(self) -> Table:
        """What the client said of itself. Raises Malformed."""
        try:
            return decode_table(self.properties)
        except ValueError as error:
            raise Malformed(f"client properties: {error}") from error
