"""The primitives of the hot loops in plain Python, for where `loops` runs uncompiled.

Compiled, the C functions of the same names and meanings in loops.pxd take their place: there `data` is a
pointer and the interpreter's lock is not held. Descriptors are used directly, so that both ways work on the
same blocking socket with its own time-outs (SO_RCVTIMEO, SO_SNDTIMEO).
"""

from __future__ import annotations

import os
import select
import struct
import time

END_OF_STREAM = -1
"""What receive_octets returns when the peer has closed; other failures are the negated errno."""

_ACK = struct.Struct(">BHLLQBB")


def u32(data: bytearray, position: int) -> int:
    """The big-endian 32-bit integer at `position`; the caller knows that it is there."""
    return int.from_bytes(data[position : position + 4], "big")


def u64(data: bytearray, position: int) -> int:
    """The big-endian 64-bit integer at `position`; the caller knows that it is there."""
    return int.from_bytes(data[position : position + 8], "big")


def put_u64(data: bytearray, position: int, value: int) -> None:
    """Write a big-endian 64-bit integer."""
    data[position : position + 8] = value.to_bytes(8, "big")


def put_ack(data: bytearray, position: int, channel: int, delivery_tag: int, is_multiple: bool) -> None:
    """Write the 21 octets of a basic.ack frame (AMQP 0-9-1 §1.8.3.13)."""
    _ACK.pack_into(data, position, 1, channel, 13, 60 << 16 | 80, delivery_tag, is_multiple, 0xCE)


def move_octets(data: bytearray, start: int, length: int) -> None:
    """Move `length` octets from `start` to the front."""
    data[:length] = data[start : start + length]


def receive_octets(fd: int, data: bytearray, start: int, room: int, at_once: bool) -> int:
    """Read at most `room` octets to `start`: how many, 0 for none now, or less for a failure."""
    if at_once and not select.select([fd], [], [], 0)[0]:
        return 0
    try:
        with memoryview(data) as view:
            return os.readv(fd, [view[start : start + room]]) or END_OF_STREAM
    except BlockingIOError:
        return 0
    except OSError as error:
        return -(error.errno or 1)


def send_octets(fd: int, data: bytearray, start: int, end: int) -> int:
    """Write some of data[start:end]: how many octets, 0 for none now, or the negated errno."""
    try:
        with memoryview(data) as view:
            return os.write(fd, view[start:end])
    except BlockingIOError:
        return 0
    except OSError as error:
        return -(error.errno or 1)


def wait_readable(fd: int, ns: int) -> None:
    """Until the peer has sent something, `ns` nanoseconds at the most."""
    select.select([fd], [], [], ns / 1e9)


def monotonic_ns() -> int:
    """Nanoseconds of the clock that all processes of one machine share."""
    return time.monotonic_ns()
