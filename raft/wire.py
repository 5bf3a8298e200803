"""The wire: one frame is one message. The driver puts a length before it and has authenticated the peer.

    frame      u8 version, u8 type, body; numbers are big endian
    APPEND           u32 group, u64 term, u64 prev_index, u64 prev_term, u64 commit_index, u32 count,
                     count times u64 term, u8 kind, u32 length, data
    APPEND_REPLY     u32 group, u64 term, u8 is_success, u64 match_index, u64 match_term, u64 prev_index
    HEARTBEAT, COMMIT_NOTICE    any number of u32 group, u64 term, u64 commit_index, u64 sent_index
    HEARTBEAT_REPLY  any number of u32 group, u64 term, u64 sent_index, u64 match_index
    VOTE_REQUEST     u32 group, u64 term, u8 is_pre, u8 is_transfer, u64 last_index, u64 last_term
    VOTE_REPLY       u32 group, u64 term, u8 is_pre, u8 is_granted
    INSTALL_CHUNK    u32 group, u64 term, u64 install_id, u64 last_index, u64 last_term, u32 number, u8 is_last,
                     u16 length and configuration, data
    INSTALL_REPLY    u32 group, u64 term, u64 install_id, u32 next_number, u8 is_done
    TIMEOUT_NOW      u32 group, u64 term

Frames of type 11 are not Raft's, and none is ever going to be: whoever shares the links with it has them.

It knows no roles. The decoder believes nothing: whatever is not exactly what `encode` makes raises PeerProtocolError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import cython

from raft.configuration import decode_configuration
from raft.entry import MAX_NUMBER, MEMBERSHIP, Entry
from raft.errors import PeerProtocolError
from raft.install import CHUNK_BYTES
from raft.messages import (
    Append,
    AppendReply,
    Beat,
    CommitNotice,
    Heartbeat,
    HeartbeatReply,
    InstallChunk,
    InstallReply,
    Message,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u32, get_u64

VERSION = 1

APPEND = 1
APPEND_REPLY = 2
HEARTBEAT = 3
HEARTBEAT_REPLY = 4
COMMIT_NOTICE = 5
VOTE_REQUEST = 6
VOTE_REPLY = 7
INSTALL_CHUNK = 8
INSTALL_REPLY = 9
TIMEOUT_NOW = 10
#: The type of the frames of those who share the links.
FOREIGN = 11

_HEAD_BYTES = 2
_APPEND = struct.Struct(">BBIQQQQI")
_ENTRY = struct.Struct(">QBI")
_APPEND_REPLY = struct.Struct(">BBIQBQQQ")
_BEAT = struct.Struct(">IQQQ")
_VOTE_REQUEST = struct.Struct(">BBIQBBQQ")
_VOTE_REPLY = struct.Struct(">BBIQBB")
_INSTALL_CHUNK = struct.Struct(">BBIQQQQIBH")
_INSTALL_REPLY = struct.Struct(">BBIQQIB")
_TIMEOUT_NOW = struct.Struct(">BBIQ")

# As integers of this module, which a compiled one compares in C.
_VERSION = VERSION
_APPEND_KIND = APPEND
_APPEND_REPLY_KIND = APPEND_REPLY
_MAX_NUMBER = MAX_NUMBER
_MEMBERSHIP = MEMBERSHIP
_APPEND_BYTES = _APPEND.size
_ENTRY_BYTES = _ENTRY.size
_APPEND_REPLY_BYTES = _APPEND_REPLY.size

_BEATS_HEAD = {kind: bytes([VERSION, kind]) for kind in (HEARTBEAT, HEARTBEAT_REPLY, COMMIT_NOTICE)}


# -- encoding ----------------------------------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    """The frame of a message."""
    if isinstance(message, Append):
        return _encode_append(message)
    if isinstance(message, AppendReply):
        return _APPEND_REPLY.pack(VERSION, APPEND_REPLY, *message)
    if isinstance(message, Heartbeat):
        return _encode_beats(HEARTBEAT, message.beats)
    if isinstance(message, HeartbeatReply):
        return _encode_beats(HEARTBEAT_REPLY, message.replies)
    if isinstance(message, CommitNotice):
        return _encode_beats(COMMIT_NOTICE, message.beats)
    if isinstance(message, VoteRequest):
        return _VOTE_REQUEST.pack(VERSION, VOTE_REQUEST, *message)
    if isinstance(message, VoteReply):
        return _VOTE_REPLY.pack(VERSION, VOTE_REPLY, *message)
    if isinstance(message, InstallChunk):
        return _encode_install_chunk(message)
    if isinstance(message, InstallReply):
        return _INSTALL_REPLY.pack(VERSION, INSTALL_REPLY, *message)
    return _TIMEOUT_NOW.pack(VERSION, TIMEOUT_NOW, *message)


def _encode_append(append: Append) -> bytes:
    group, term, prev_index, prev_term, commit_index, entries = append
    pieces = [_APPEND.pack(VERSION, APPEND, group, term, prev_index, prev_term, commit_index, len(entries))]
    pack = _ENTRY.pack
    for data, _, entry_term, kind in entries:
        pieces.append(pack(entry_term, kind, len(data)))
        pieces.append(data)
    return b"".join(pieces)


def _encode_beats(kind: int, beats: list[Beat]) -> bytes:
    pack = _BEAT.pack
    return _BEATS_HEAD[kind] + b"".join([pack(*beat) for beat in beats])


def _encode_install_chunk(chunk: InstallChunk) -> bytes:
    configuration = chunk.configuration.encode()
    head = _INSTALL_CHUNK.pack(
        VERSION,
        INSTALL_CHUNK,
        chunk.group,
        chunk.term,
        chunk.install_id,
        chunk.last_index,
        chunk.last_term,
        chunk.number,
        chunk.is_last,
        len(configuration),
    )
    return b"".join((head, configuration, chunk.data))


# -- decoding ----------------------------------------------------------------------------------------------------------


def decode(frame: bytes) -> Message:
    """The message of a frame. Raises PeerProtocolError."""
    if len(frame) < _HEAD_BYTES:
        raise PeerProtocolError(f"a frame of {len(frame)} octets has no head")
    version, kind = frame[0], frame[1]
    if version != _VERSION:
        raise PeerProtocolError(f"a frame of version {version}; this node speaks {VERSION}: update the older node")
    try:
        if kind == _APPEND_KIND:  # the most by far, with the next
            return _decode_append(frame)
        if kind == _APPEND_REPLY_KIND:
            return _decode_append_reply(frame)
        decoder = _DECODERS.get(kind)
        if decoder is None:
            raise PeerProtocolError(f"a frame of the unknown type {kind}")
        return decoder(frame)
    except (struct.error, ValueError) as error:
        raise PeerProtocolError(f"a frame of type {kind} with {len(frame)} octets: {error}") from None


def _flag(value: int) -> bool:
    if value > 1:
        raise ValueError(f"a flag is {value}")
    return value == 1


def _numbers(*values: int) -> None:
    if max(values) > MAX_NUMBER:
        raise ValueError(f"a number is {max(values)}, more than 63 bits")


def _decode_append(frame: bytes) -> Append:
    size = len(frame)
    if size < _APPEND_BYTES:
        raise ValueError("it ends within its head")
    group, term = get_u32(frame, 2), get_u64(frame, 6)
    prev_index, prev_term = get_u64(frame, 14), get_u64(frame, 22)
    commit_index, count = get_u64(frame, 30), get_u32(frame, 38)
    if term > _MAX_NUMBER or prev_index > _MAX_NUMBER - count or commit_index > _MAX_NUMBER:
        raise ValueError(f"one of the numbers {term}, {prev_index} + {count} and {commit_index} has more than 63 bits")
    if prev_term > term or not term:
        raise ValueError(f"an entry of term {prev_term} in a message of term {term}")
    entries: list[Entry] = []
    position = _APPEND_BYTES
    index = prev_index
    before = prev_term
    for _ in range(count):
        if size - position < _ENTRY_BYTES:
            raise ValueError("it ends within the head of an entry")
        entry_term, kind, length = get_u64(frame, position), frame[position + 8], get_u32(frame, position + 9)
        position += _ENTRY_BYTES
        if length > size - position:
            raise ValueError(f"an entry of {length} octets ends behind the frame")
        if kind > _MEMBERSHIP or not before <= entry_term <= term or not entry_term:
            raise ValueError(f"an entry of kind {kind} and term {entry_term} after term {before}")
        data = frame[position : position + length]
        if kind == _MEMBERSHIP:
            decode_configuration(data)
        index += 1
        entries.append((data, index, entry_term, kind))
        before = entry_term
        position += length
    if position != size:
        raise ValueError(f"{size - position} octets too many")
    return Append(group, term, prev_index, prev_term, commit_index, entries)


def _decode_append_reply(frame: bytes) -> AppendReply:
    if len(frame) != _APPEND_REPLY_BYTES:
        raise ValueError(f"it should have {_APPEND_REPLY_BYTES}")
    group, term, is_success = get_u32(frame, 2), get_u64(frame, 6), frame[14]
    index, index_term, prev_index = get_u64(frame, 15), get_u64(frame, 23), get_u64(frame, 31)
    if term > _MAX_NUMBER or index > _MAX_NUMBER or index_term > _MAX_NUMBER or prev_index > _MAX_NUMBER:
        raise ValueError(f"one of the numbers {term}, {index}, {index_term} and {prev_index} has more than 63 bits")
    if is_success > 1:
        raise ValueError(f"a flag is {is_success}")
    return AppendReply(group, term, is_success == 1, index, index_term, prev_index)


def _decode_beats(frame: bytes) -> list[Beat]:
    beats = list(_BEAT.iter_unpack(memoryview(frame)[_HEAD_BYTES:]))
    for beat in beats:
        if beat[1] > MAX_NUMBER or beat[2] > MAX_NUMBER or beat[3] > MAX_NUMBER:
            raise ValueError(f"the beat {beat} has a number of more than 63 bits")
    return beats


def _decode_heartbeat(frame: bytes) -> Heartbeat:
    return Heartbeat(_decode_beats(frame))


def _decode_heartbeat_reply(frame: bytes) -> HeartbeatReply:
    return HeartbeatReply(_decode_beats(frame))


def _decode_commit_notice(frame: bytes) -> CommitNotice:
    return CommitNotice(_decode_beats(frame))


def _decode_vote_request(frame: bytes) -> VoteRequest:
    _, _, group, term, is_pre, is_transfer, last_index, last_term = _VOTE_REQUEST.unpack(frame)
    _numbers(term, last_index, last_term)
    return VoteRequest(group, term, _flag(is_pre), _flag(is_transfer), last_index, last_term)


def _decode_vote_reply(frame: bytes) -> VoteReply:
    _, _, group, term, is_pre, is_granted = _VOTE_REPLY.unpack(frame)
    _numbers(term)
    return VoteReply(group, term, _flag(is_pre), _flag(is_granted))


def _decode_install_chunk(frame: bytes) -> InstallChunk:
    fields = _INSTALL_CHUNK.unpack_from(frame)
    _, _, group, term, install_id, index, index_term, number, is_last, length = fields
    _numbers(term, install_id, index)
    start = _INSTALL_CHUNK.size
    if len(frame) < start + length:
        raise ValueError("the configuration ends behind the frame")
    configuration = decode_configuration(frame[start : start + length])
    data = frame[start + length :]
    if _flag(is_last) != (not data) or len(data) > CHUNK_BYTES or index_term > term or not index:
        raise ValueError(f"chunk {number} of {len(data)} octets of the state at {index}, term {index_term}")
    return InstallChunk(group, term, install_id, index, index_term, configuration, number, is_last == 1, data)


def _decode_install_reply(frame: bytes) -> InstallReply:
    _, _, group, term, install_id, next_number, is_done = _INSTALL_REPLY.unpack(frame)
    _numbers(term, install_id)
    return InstallReply(group, term, install_id, next_number, _flag(is_done))


def _decode_timeout_now(frame: bytes) -> TimeoutNow:
    _, _, group, term = _TIMEOUT_NOW.unpack(frame)
    _numbers(term)
    return TimeoutNow(group, term)


_DECODERS: dict[int, Callable[[bytes], Message]] = {
    HEARTBEAT: _decode_heartbeat,
    HEARTBEAT_REPLY: _decode_heartbeat_reply,
    COMMIT_NOTICE: _decode_commit_notice,
    VOTE_REQUEST: _decode_vote_request,
    VOTE_REPLY: _decode_vote_reply,
    INSTALL_CHUNK: _decode_install_chunk,
    INSTALL_REPLY: _decode_install_reply,
    TIMEOUT_NOW: _decode_timeout_now,
}
