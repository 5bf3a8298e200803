"""LoadPage: what each worker of a node has to do, in a page of memory that all of them share.

The supervisor makes it before it starts a worker, and each worker writes its own place about once a second, when it
says anyway that its loop turns. Whoever wants to know reads it: nobody is asked, and nobody wakes up for it.

Invariants:
1. A place has one writer at a time: the process that is that worker.
2. Each place has a checksum, so who reads while it is being written takes nothing half: `read` says what it has found
   last then. That holds whatever order a processor writes in.
3. A place says when it was written. What is older than FRESH_MS says nothing of the present: its worker is dead, is
   starting, or stands still.
4. The page says which version it is of. Of another one nothing is read.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from amqp_broker.octets.checksum import crc32

VERSION: Final = 1
#: What is older is of the past, milliseconds: three times as long as a worker may go on without writing.
FRESH_MS: Final = 3000
_MAGIC: Final = b"AMQPLOAD"
#: magic, version, octets of a place, places.
_HEAD: Final = struct.Struct("<8sIII")
_HEAD_BYTES: Final = 64
#: number, written at (milliseconds of the machine's monotonic clock), share of a core in thousandths, octets of
#: messages held, octets of them in RAM, octets of RAM that it may have, queues. Then the checksum.
_FIELDS: Final = struct.Struct("<QQQQQQQ")
_SUM: Final = struct.Struct("<I")
_WRITTEN_BYTES: Final = _FIELDS.size + _SUM.size
_PLACE_BYTES: Final = 64


class WorkerLoad(NamedTuple):
    """number: grows with each that a worker's place is given. written_at: milliseconds of the machine's monotonic
    clock. busy: processor time of the second before, thousandths of a core, all threads. held_bytes: of messages, in
    RAM and in pages on the disk. used_bytes: those in RAM. budget_bytes: what it may have there. queues: that live
    there."""

    number: int
    written_at: int
    busy: int
    held_bytes: int
    used_bytes: int
    budget_bytes: int
    queues: int


class LoadPage:
    """clock: the machine's monotonic clock, seconds. octets: of the page; None: of a new one, which is shared with
    whoever is forked later."""

    def __init__(self, places: int, clock: Callable[[], float], octets: mmap.mmap | None = None) -> None:
        size = _HEAD_BYTES + places * _PLACE_BYTES
        self._clock = clock
        self._places = places
        self._octets = mmap.mmap(-1, size) if octets is None else octets
        self._last: dict[int, WorkerLoad] = {}
        if octets is None:
            _HEAD.pack_into(self._octets, 0, _MAGIC, VERSION, _PLACE_BYTES, places)
        head = _HEAD.unpack_from(self._octets)
        self._is_known = len(self._octets) >= size and head == (_MAGIC, VERSION, _PLACE_BYTES, places)

    def write(
        self, worker: int, busy: int, held_bytes: int, used_bytes: int, budget_bytes: int, queues: int
    ) -> None:
        """What a worker, the caller, has to do just now. Of one that the page has no place for nothing is kept."""
        self._put(worker, WorkerLoad(0, self._now(), busy, held_bytes, used_bytes, budget_bytes, queues))

    def forget(self, worker: int) -> None:
        """Its process has ended: what it has said is of the past. To be called by who has started it."""
        self._put(worker, WorkerLoad(0, 0, 0, 0, 0, 0, 0))

    def read(self, worker: int) -> WorkerLoad | None:
        """What a worker has said last; None: nothing yet."""
        if not self._has(worker):
            return None
        begin = _HEAD_BYTES + worker * _PLACE_BYTES
        octets = self._octets[begin : begin + _WRITTEN_BYTES]
        fields = octets[: _FIELDS.size]
        (checksum,) = _SUM.unpack_from(octets, _FIELDS.size)
        if checksum == crc32(fields) and (found := WorkerLoad._make(_FIELDS.unpack(fields))).number:
            self._last[worker] = found
        return self._last.get(worker)

    def fresh(self, worker: int) -> WorkerLoad | None:
        """The same, if that is of the present."""
        found = self.read(worker)
        return found if found is not None and self._now() - found.written_at <= FRESH_MS else None

    def _put(self, worker: int, load: WorkerLoad) -> None:
        if not self._has(worker):
            return
        before = self.read(worker)
        fields = _FIELDS.pack(*load._replace(number=1 if before is None else before.number + 1))
        begin = _HEAD_BYTES + worker * _PLACE_BYTES
        self._octets[begin : begin + _WRITTEN_BYTES] = fields + _SUM.pack(crc32(fields))

    def _has(self, worker: int) -> bool:
        return self._is_known and 0 <= worker < self._places

    def _now(self) -> int:
        return int(self._clock() * 1000)
