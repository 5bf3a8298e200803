"""What a turn asks the kernel for: octets of a socket, octets to one, and the time.

Compiled, these are the calls of the C library: those of a socket object parse arguments, make objects and give the
interpreter's lock away and take it again, which after a sleep costs as much as all that the broker does with a message
(decision 0017). Only for what is long they give the lock away, so that threads get it that read pages or sync.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from collections import deque

    from amqp_broker.octets.buffer import Pointer

if cython.compiled:  # pragma: no cover
    from cython.cimports.cpython.time import monotonic
else:
    from time import monotonic

#: What is longer takes so long to copy that another thread may run meanwhile, octets.
_SHORT_BYTES = 16 * 1024
_NO_SIGNAL = int(socket.MSG_NOSIGNAL)


def receive_into(client: socket.socket, number: int, data: bytearray, start: int, most: int, flags: int) -> int:
    """recv(2) of at most `most` octets into data[start:], for which there is room. `number`: the socket's descriptor.
    Returns how many came, 0 at the end. Raises OSError."""
    if cython.compiled:
        target: Pointer = data
        count: int
        if most > _SHORT_BYTES:
            with cython.nogil:
                count = recv(number, target + start, most, flags)  # type: ignore[name-defined]  # noqa: F821
        else:
            count = recv(number, target + start, most, flags)  # type: ignore[name-defined]  # noqa: F821
        if count >= 0:
            return count
    # What is wrong is said by the socket's own method.
    with memoryview(data) as view:
        return client.recv_into(view[start : start + most], most, flags)


def receive_octets(client: socket.socket, number: int, room: bytearray, most: int) -> bytes:
    """recv(2) of at most `most` octets, through `room`, which is as large. `number`: the socket's descriptor. Returns
    what came, nothing at the end. Raises OSError."""
    if cython.compiled:
        count = receive_into(client, number, room, 0, most, 0)
        source: Pointer = room
        octets: bytes = source[:count]
        return octets
    else:
        return client.recv(most)


def send_bytes(client: socket.socket, number: int, octets: bytes) -> int:
    """send(2). Returns how many octets the socket took. Raises OSError."""
    if cython.compiled:
        source: Pointer = octets
        size = len(octets)
        count: int
        if size > _SHORT_BYTES:
            with cython.nogil:
                count = send(number, source, size, _NO_SIGNAL)  # type: ignore[name-defined]  # noqa: F821
        else:
            count = send(number, source, size, _NO_SIGNAL)  # type: ignore[name-defined]  # noqa: F821
        if count >= 0:
            return count
    return client.send(octets)


def drop_sent(unsent: deque[bytes | bytearray | memoryview], sent: int) -> bool:
    """So many octets of these were sent. Returns whether the socket took whole pieces only, and so maybe more."""
    while sent:
        size = len(unsent[0])
        if size > sent:
            unsent[0] = memoryview(unsent[0])[sent:]
            return False
        sent -= size
        unsent.popleft()
    return True


def monotonic_time() -> float:
    """CLOCK_MONOTONIC, seconds: that of `time.monotonic`."""
    return float(monotonic())
