"""What a group writes to the node's journal (numbers big endian):

    RAFT_ENTRY       u32 group, u64 index, u64 term, u8 kind, data
    RAFT_STATE       u32 group, u64 term, u8 length and UTF-8 of voted_for (length 0: nobody)
    RAFT_CHECKPOINT  u32 group, u64 index, u64 term, u8 replaces_log, u32 number, u32 count, data

    RAFT_LIVES, RAFT_WITNESS, RAFT_GIVEN_UP    of no group but of the node: raft/memory.py

The data of an entry of kind PLACED are a short form, which its machine's Placer puts together.

A checkpoint is `count` of these with numbers from 0, one after the other; the first holds the configuration as of
the index. It counts when all are there. What they mean to each other: raft/recovery.py.
"""

from __future__ import annotations

import struct

from amqp_broker.octets.buffer import Buffer
from raft.entry import KINDS, MAX_NUMBER, PLACED, Entry

FIRST_RAFT_KIND = 16
RAFT_ENTRY = 16
RAFT_STATE = 17
RAFT_CHECKPOINT = 18
RAFT_LIVES = 19
RAFT_WITNESS = 20
RAFT_GIVEN_UP = 21
#: Those that are of the node, and of no group.
MEMORY_KINDS = (RAFT_LIVES, RAFT_WITNESS, RAFT_GIVEN_UP)

_ENTRY = struct.Struct(">IQQB")
_STATE = struct.Struct(">IQB")
_CHECKPOINT = struct.Struct(">IQQBII")
_GROUP = struct.Struct(">I")


def put_entry(buffer: Buffer, group_id: int, entry: Entry) -> None:
    """The payload of a RAFT_ENTRY."""
    data, index, term, kind = entry
    buffer.put_u32(group_id)
    buffer.put_u64(index)
    buffer.put_u64(term)
    buffer.put_u8(kind)
    buffer.put_bytes(data)


def put_state(buffer: Buffer, group_id: int, term: int, voted_for: str | None) -> None:
    """The payload of a RAFT_STATE."""
    name = (voted_for or "").encode()
    buffer.put_bytes(_STATE.pack(group_id, term, len(name)) + name)


def put_checkpoint(
    buffer: Buffer, group_id: int, index: int, term: int, replaces_log: bool, number: int, count: int, data: bytes
) -> None:
    """The payload of one RAFT_CHECKPOINT."""
    buffer.put_bytes(_CHECKPOINT.pack(group_id, index, term, replaces_log, number, count))
    buffer.put_bytes(data)


def group_of(payload: bytes) -> int:
    """The group of any record. Raises ValueError when it is too short."""
    if len(payload) < _GROUP.size:
        raise ValueError(f"a record of {len(payload)} octets names no group")
    return int(_GROUP.unpack_from(payload)[0])


def read_entry(payload: bytes) -> Entry:
    """Raises ValueError."""
    if len(payload) < _ENTRY.size:
        raise ValueError(f"an entry of {len(payload)} octets is too short")
    _, index, term, kind = _ENTRY.unpack_from(payload)
    if (kind not in KINDS and kind != PLACED) or not 0 < index <= MAX_NUMBER or not 0 < term <= MAX_NUMBER:
        raise ValueError(f"an entry of kind {kind}, index {index} and term {term}")
    return bytes(payload[_ENTRY.size :]), index, term, kind


def read_state(payload: bytes) -> tuple[int, str | None]:
    """(term, voted_for). Raises ValueError."""
    if len(payload) < _STATE.size:
        raise ValueError(f"a state of {len(payload)} octets is too short")
    _, term, length = _STATE.unpack_from(payload)
    if len(payload) != _STATE.size + length or term > MAX_NUMBER:
        raise ValueError(f"a state of {len(payload)} octets with a name of {length} and term {term}")
    return term, bytes(payload[_STATE.size :]).decode() or None


def read_checkpoint(payload: bytes) -> tuple[int, int, bool, int, int, bytes]:
    """(index, term, replaces_log, number, count, data). Raises ValueError."""
    if len(payload) < _CHECKPOINT.size:
        raise ValueError(f"a checkpoint of {len(payload)} octets is too short")
    _, index, term, replaces_log, number, count = _CHECKPOINT.unpack_from(payload)
    if replaces_log > 1 or number >= count or max(index, term) > MAX_NUMBER:
        raise ValueError(f"part {number} of {count} of a checkpoint at index {index}, term {term}")
    return index, term, bool(replaces_log), number, count, bytes(payload[_CHECKPOINT.size :])
