"""ChunkPlacer: large chunks of a group's entries lie in the files of their streams, and the journal only says where
(raft's Placer; docs/placement.md has the proof).

    an entry is appended -> place -> a page for each large chunk, and the short form for the journal
    applied -> take -> the page is the stream's, or dead (settle)      cut, or replaced by an install -> take_back: dead
    a start -> put_together: the entry, from the short form and its places

    short form   u8 version, u16 n, n x (u32 begin in the data, u64 queue id, u32 segment, u64 offset, u32 length,
                 u32 checksum as in the chunk's head), the data without these chunks

Invariants:
1. A place belongs to one entry, then to one page of a stream, or to nobody: then it is released as one that a
   checkpoint names, that is when a later checkpoint is on the disk.
2. Whose folder has a place of an entry that is not applied is in `queue_ids`: the folder stays.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import cython

from amqp_broker.octets.buffer import Buffer
from queues.pager import Pager
from queues.quorum.commands import VERSION_WITH_STREAMS, put_command
from queues.stream.chunk import HEAD_BYTES, VERSION, records_of
from queues.stream.commands import APPEND_CHUNK, Trim
from queues.stream.place import Place
from queues.wire.reader import Malformed
from storage.errors import CorruptRecord
from storage.page_store import PageLocation, page_path

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u32

_SHORT_VERSION = 1
_SHORT_HEAD = struct.Struct(">BH")
_SHORT_PLACE = struct.Struct(">LQLQLL")
#: Of a batch: version and time; session, number of its first command, what was seen, how many commands.
_BEFORE_ORIGIN = 9
_BEHIND_ORIGIN = struct.Struct(">QQQL")
#: Of a command: kind and length; and the stream's id before the chunk.
_COMMAND = struct.Struct(">BL")
_STREAM = struct.Struct(">Q")
_SUM_AT = HEAD_BYTES - 4
# As integers of this module, which a compiled one has in C.
_BEFORE_ORIGIN_BYTES, _BEHIND_ORIGIN_BYTES = _BEFORE_ORIGIN, _BEHIND_ORIGIN.size
_COMMAND_BYTES, _STREAM_BYTES, _APPEND_CHUNK = _COMMAND.size, _STREAM.size, APPEND_CHUNK
#: A sync brings the chunks of so many streams to their files at most; what others have is in the journal.
MOST_FILES = 4


class _Found(NamedTuple):
    """A chunk in a batch: data[begin:end], of command `number`, whose head is at `head`."""

    number: int
    head: int
    queue_id: int
    begin: int
    end: int


class ChunkPlacer:
    """least_bytes: of a chunk that gets a place. is_there: whether there is a stream, as far as was applied. died: told
    in whose folders places are dead."""

    def __init__(
        self, pager: Pager, least_bytes: int, is_there: Callable[[int], bool], died: Callable[[list[int]], None]
    ) -> None:
        self.least_bytes = least_bytes
        self._is_there = is_there
        self._died = died
        self._pager = pager
        self._placed: dict[int, list[Place]] = {}  # by the index of the entry
        self._salvages = False
        self._losses: list[str] = []

    # -- raft's Placer -------------------------------------------------------------------------------------------------

    def place(self, index: int, data: bytes) -> bytes | None:
        """See Placer. Raises OSError, but not for a full disk: then the journal has it all."""
        if data[0] != VERSION_WITH_STREAMS or not has_chunk_of(data, self.least_bytes):
            return None
        placing = self._pager.page_store.placing
        octets = memoryview(data)
        found: list[tuple[_Found, PageLocation]] = []
        for chunk in _chunks_in(data):
            queue_id, begin, end = chunk.queue_id, chunk.begin, chunk.end
            is_one_more = queue_id not in placing
            if end - begin < self.least_bytes or not self._is_there(queue_id):
                continue
            if is_one_more and len(placing) >= MOST_FILES:
                continue
            location = self._pager.place(queue_id, octets[begin:end], records_of(octets, begin))
            if location is None:
                break
            found.append((chunk, location))
        if not found:
            return None
        self._placed[index] = [Place(chunk.number, chunk.queue_id, location) for chunk, location in found]
        return _short_form(data, found)

    def put_together(self, index: int, short: bytes) -> bytes:
        """See Placer. Raises Malformed besides."""
        pieces: list[bytes] = []
        places, rest = _read_short(short)
        at = length = 0
        wanted: dict[int, tuple[int, PageLocation]] = {}
        for begin, queue_id, segment, offset, size, checksum in places:
            location = PageLocation(segment, offset, size)
            pieces += [rest[at : at + begin - length], self._read(queue_id, location, checksum)]
            at += begin - length
            length = begin + size
            wanted[begin] = (queue_id, location)
        pieces.append(rest[at:])
        data = b"".join(pieces)
        placed, gone = [], []
        for chunk in _chunks_in(data):
            known = wanted.pop(chunk.begin, None)
            if known is None:
                continue
            if data[chunk.begin] != VERSION:
                gone.append(chunk)
            else:
                self._pager.page_store.adopt(chunk.queue_id, [known[1]])
                placed.append(Place(chunk.number, *known))
        if wanted:
            raise Malformed(f"entry {index} names places of chunks that are none")
        self._placed[index] = placed
        return _without(data, gone) if gone else data

    def _read(self, queue_id: int, location: PageLocation, checksum: int) -> bytes:
        """The chunk in a place; while salvaging as many zeroes for one that cannot be read."""
        store = self._pager.page_store
        try:
            octets: bytes = store.read(queue_id, location)
            if int.from_bytes(octets[_SUM_AT:HEAD_BYTES], "big") != checksum:
                path = page_path(queue_id, location.segment)
                raise CorruptRecord(path, location.offset, "it is another chunk than the one that the log names")
        except CorruptRecord as error:
            if not self._salvages:
                raise
            copy = store.set_aside(queue_id, location)
            self._losses.append(f"a chunk of stream {queue_id}: {error.reason}, in {error.file}; it is in {copy}")
            return bytes(location.length)
        return octets

    def take_back(self, index: int) -> None:
        """See Placer."""
        for each in [each for each in self._placed if each >= index]:
            self.settle(self._placed.pop(each))

    def salvage(self) -> None:
        """See Placer."""
        self._salvages = True

    def take_losses(self) -> list[str]:
        """See Placer."""
        losses, self._losses, self._salvages = self._losses, [], False
        return losses

    # -- the machine ---------------------------------------------------------------------------------------------------

    def take(self, index: int) -> list[Place] | None:
        """An entry is applied: its places, which `settle` wants to see afterwards."""
        return self._placed.pop(index, None) if self._placed else None

    def settle(self, places: Iterable[Place]) -> None:
        """Places that nobody has taken are dead."""
        dead = [place for place in places if not place.is_taken]
        self._pager.release_places([(place.queue_id, place.location, True) for place in dead])
        if dead:
            self._died([place.queue_id for place in dead])

    def queue_ids(self) -> list[int]:
        """The queues with places that entries name which were not applied."""
        return list(dict.fromkeys(place.queue_id for places in self._placed.values() for place in places))


def has_chunk_of(data: bytes, least_bytes: int) -> bool:
    """Whether a batch of version VERSION_WITH_STREAMS has a chunk of so many octets: most have many smaller ones."""
    octets, size = data, len(data)
    at = _BEFORE_ORIGIN_BYTES + 1 + octets[_BEFORE_ORIGIN_BYTES] + _BEHIND_ORIGIN_BYTES
    least = least_bytes + _STREAM_BYTES
    while at + _COMMAND_BYTES <= size:
        length = get_u32(octets, at + 1)
        if length >= least and octets[at] == _APPEND_CHUNK:
            return True
        at += _COMMAND_BYTES + length
    return False


def _chunks_in(data: bytes) -> Iterator[_Found]:
    """The chunks of a batch of version VERSION_WITH_STREAMS, in order."""
    at = _BEFORE_ORIGIN + 1 + data[_BEFORE_ORIGIN]
    *_, count = _BEHIND_ORIGIN.unpack_from(data, at)
    at += _BEHIND_ORIGIN.size
    for number in range(count):
        kind, length = _COMMAND.unpack_from(data, at)
        begin = at + _COMMAND.size
        if kind == APPEND_CHUNK:
            (queue_id,) = _STREAM.unpack_from(data, begin)
            yield _Found(number, at, queue_id, begin + _STREAM.size, begin + length)
        at = begin + length


def _short_form(data: bytes, found: list[tuple[_Found, PageLocation]]) -> bytes:
    head = [_SHORT_HEAD.pack(_SHORT_VERSION, len(found))]
    rest: list[Any] = []
    octets = memoryview(data)
    at = 0
    for chunk, location in found:
        checksum = int.from_bytes(octets[chunk.begin + _SUM_AT : chunk.begin + HEAD_BYTES], "big")
        head.append(_SHORT_PLACE.pack(chunk.begin, chunk.queue_id, *location, checksum))
        rest.append(octets[at : chunk.begin])
        at = chunk.end
    rest.append(octets[at:])
    return b"".join([*head, *rest])


def _read_short(short: bytes) -> tuple[list[tuple[int, ...]], bytes]:
    """The places of a short form, and the rest of the data. Raises Malformed."""
    if len(short) < _SHORT_HEAD.size:
        raise Malformed(f"a short form of {len(short)} octets")
    version, count = _SHORT_HEAD.unpack_from(short)
    if version != _SHORT_VERSION:
        raise Malformed(f"a short form of version {version}; this program reads version {_SHORT_VERSION}: update it")
    end = _SHORT_HEAD.size + count * _SHORT_PLACE.size
    if end > len(short):
        raise Malformed(f"a short form of {len(short)} octets is too short for {count} places")
    return list(_SHORT_PLACE.iter_unpack(short[_SHORT_HEAD.size : end])), short[end:]


def _without(data: bytes, gone: list[_Found]) -> bytes:
    """A batch in which these commands do nothing, so that the others keep their numbers."""
    pieces = []
    at = 0
    for chunk in gone:
        buffer = Buffer()
        put_command(buffer, Trim(chunk.queue_id, 0))
        pieces += [data[at : chunk.head], buffer.take()]
        at = chunk.end
    return b"".join([*pieces, data[at:]])
