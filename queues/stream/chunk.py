"""Chunks: what a node's clients published to a stream in one turn, as one run of octets with a checksum.

    u8 version; u8 flags (1: has a filter; 2: has holes); u16 octets of the filter; u16 producers; u32 records; u32
    octets of the records; u32 CRC-32 of all that follows (of one with holes, of the head too, with 0 in this place);
    filter; producers: each a short name, u64 first sequence, u32 first record, u32 records; records (record.py)

It is the same in a command of the log, in a page and on its way to another node. Offsets and time are not in it: they
are given when it is applied, and stand beside it wherever it is kept.

Invariants:
1. A chunk has a record at least; records are numbered from 0 in their order. After a part of it was dropped (runs that
   were known) the rest is packed anew, so that this holds again.
2. The runs of producers do not overlap, and rise.
3. One with holes is what compaction has left of a chunk: its records have the numbers that they had, which rise, and
   `records` is how many there were. It is in pages alone: no command has one. It has no producers.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

import cython

from amqp_broker.octets.buffer import Buffer, Pointer
from amqp_broker.octets.checksum import crc32
from queues.message import Message
from queues.stream.bloom import Bloom
from queues.wire.reader import Malformed

if cython.compiled:  # pragma: no cover
    from cython.cimports.libc.string import memcpy
else:
    from amqp_broker.octets.buffer import get_u16, get_u32
    from queues.stream.record import check_record, filter_hash_of, next_record, put_record

VERSION = 1
_HAS_FILTER, _HAS_HOLES = 1, 2
_HEAD = struct.Struct(">BBHHLLL")
HEAD_BYTES = _HEAD.size
_HEAD_BYTES = HEAD_BYTES
_NO_HEAD = bytes(HEAD_BYTES)
_RECORDS_AT = 6
#: What a builder has room for at first, octets.
_ROOM = 4096
_RUN = struct.Struct(">QLL")
#: A record's octets before its address, and the two octets that an address has at least, and its end.
_LEAST_RECORD = 24
_NO_RUNS: list[Run] = []
#: Of CRC-32, its bits in the order of the sum's.
_POLYNOMIAL = 0xEDB88320
_U32_MAX = 2**32 - 1


def sum_before_zeroes(count: int) -> int:
    """What a CRC-32 has to begin with to be 0 behind so many octets of 0: what follows has the sum that it has by
    itself. So records are summed where they are, behind the place of their head, and nothing is made of them first."""
    register = _U32_MAX  # a sum of 0, as it is kept while octets come; each step back is one bit
    for _ in range(8 * count):
        register = ((register ^ _POLYNOMIAL) << 1 | 1) if register >> 31 else register << 1
    return register ^ _U32_MAX


def records_of(data: bytes | memoryview, begin: int) -> int:
    """How many records a chunk has that begins there; of one with holes, how many it had."""
    return int.from_bytes(data[begin + _RECORDS_AT : begin + _RECORDS_AT + 4], "big")


#: The sum of a chunk begins with it where its head is not there yet.
_BEFORE_NO_HEAD = sum_before_zeroes(HEAD_BYTES)


class Run(NamedTuple):
    """Records of one producer that follow each other: so many from `record`, with sequences from `sequence` on."""

    producer: bytes
    sequence: int
    record: int
    records: int


class ChunkBuilder:
    """Takes the messages of a turn. filter_bytes: of the Bloom filter, which is there if a message has a value."""

    def __init__(self, filter_bytes: int) -> None:
        self.records = 0
        self._filter_bytes = filter_bytes
        self._buffer = Buffer(_ROOM)
        self._buffer.put_bytes(_NO_HEAD)  # where most have nothing between head and records, it is put in
        self._runs: list[Run] = []
        self._values: dict[int, None] = {}

    def add(self, message: Message, key_hash: int, filter_hash: int, flags: int = 0) -> int:
        """One more message. Returns the octets of the records so far. Raises ValueError for one whose properties are
        cut; nothing was added then."""
        put_record(self._buffer, message, self.records, key_hash, filter_hash, flags)
        self.records += 1
        if filter_hash:
            self._values[filter_hash] = None
        return self._buffer.length - _HEAD_BYTES

    def produced(self, producer: bytes, sequence: int) -> None:
        """The message that was added last has this producer and number."""
        last = self._runs[-1] if self._runs else None
        record = self.records - 1
        if last is not None and last.producer == producer and (
            last.record + last.records == record and last.sequence + last.records == sequence
        ):
            self._runs[-1] = last._replace(records=last.records + 1)
        else:
            self._runs.append(Run(producer, sequence, record, 1))

    def seal(self) -> bytes:
        """The octets of what `take` gives."""
        return self.take().octets

    def take(self) -> Chunk:
        """The chunk, whose records were looked at (`check`); the builder is empty afterwards."""
        if self._values or self._runs:
            found = Bloom.of(self._values, self._filter_bytes).octets if self._values else b""
            packed = self._buffer.take()[_HEAD_BYTES:]
            chunk = Chunk(encode_chunk(found, self._runs, self.records, packed), is_sound=True)
            self._runs = []
            self._values = {}
        else:
            chunk = self._plain()
        self._buffer.put_bytes(_NO_HEAD)
        self.records = 0
        chunk.check()
        return chunk

    def _plain(self) -> Chunk:
        """As `encode_chunk` makes it, without filter and producers: the head is put before the records where they
        are."""
        buffer = self._buffer
        size = buffer.length
        octets = buffer.take()
        checksum: int = crc32(octets, _BEFORE_NO_HEAD)
        buffer.put_bytes(_NO_HEAD)  # where the next chunk has it
        buffer.set_u16(0, VERSION << 8)
        buffer.set_u32(_RECORDS_AT, self.records)
        buffer.set_u32(_RECORDS_AT + 4, size - _HEAD_BYTES)
        buffer.set_u32(_RECORDS_AT + 8, checksum)
        if cython.compiled:
            target: Pointer = octets  # nobody else has it yet
            source: Pointer = buffer.data
            memcpy(target, source, _HEAD_BYTES)
        else:
            octets = bytes(buffer.data) + octets[_HEAD_BYTES:]
        buffer.clear()
        chunk = Chunk.__new__(Chunk)
        chunk.octets = octets
        chunk.bloom = b""
        chunk.runs = _NO_RUNS
        chunk.records = self.records
        chunk.has_holes = False
        chunk.start = _HEAD_BYTES
        chunk.end = size
        chunk._at = 0
        return chunk


def encode_chunk(
    bloom: bytes, runs: Iterable[Run], records: int, packed: bytes, has_holes: bool = False
) -> bytes:
    """A chunk of packed records. bloom: its filter, b"" for none."""
    runs = list(runs)
    parts = [bloom]
    for producer, sequence, record, count in runs:
        parts += [bytes([len(producer)]), producer, _RUN.pack(sequence, record, count)]
    parts.append(packed)
    flags = (_HAS_FILTER if bloom else 0) | (_HAS_HOLES if has_holes else 0)
    checksum = _checksum_of_head(flags, len(bloom), len(runs), records, len(packed)) if has_holes else 0
    for part in parts:
        checksum = crc32(part, checksum)
    return b"".join((_HEAD.pack(VERSION, flags, len(bloom), len(runs), records, len(packed), checksum), *parts))


def _checksum_of_head(flags: int, bloom: int, runs: int, records: int, packed: int) -> int:
    """What the checksum begins with. The head of one with holes is covered: its number of records says nothing of how
    many follow, so that nothing else would show damage there, or that a whole one is taken for one with holes."""
    found: int = crc32(_HEAD.pack(VERSION, flags, bloom, runs, records, packed, 0))
    return found


# A chunk has octets, and names of producers: nothing that could be a cycle, and there are very many.
@cython.no_gc
@cython.cclass
class Chunk:
    """A chunk that was looked at. records: how many; has_holes: some of them are not there any more. start: where the
    first of them begins in `octets`, end: where the last one ends."""

    def __init__(self, octets: bytes, at: int = 0, is_sound: bool = False) -> None:
        """is_sound: somebody has compared the checksum. Raises Malformed for what is no chunk of this version, or whose
        checksum is wrong."""
        self._read(octets, at, is_sound)

    def _read(self, octets: bytes, at: int, is_sound: bool) -> None:
        if len(octets) - at < _HEAD_BYTES:
            raise Malformed(f"a chunk of {len(octets) - at} octets has no head")
        head = octets
        version, flags, bloom = head[at], head[at + 1], get_u16(head, at + 2)
        runs, records = get_u16(head, at + 4), get_u32(head, at + _RECORDS_AT)
        packed, checksum = get_u32(head, at + 10), get_u32(head, at + 14)
        if version != VERSION:
            raise Malformed(f"a chunk of version {version}; this program reads version {VERSION}: update it")
        body = at + _HEAD_BYTES
        self._at = at
        self.records: int = records
        self.has_holes = bool(flags & _HAS_HOLES)
        self.octets = octets
        self.bloom = octets[body : body + bloom] if bloom else b""
        self.runs, self.start = _NO_RUNS, body + bloom
        if runs:
            self.runs, self.start = _read_runs(octets, body + bloom, runs)
        self.end = self.start + packed
        if self.end > len(octets) or bool(bloom) != bool(flags & _HAS_FILTER) or flags & ~(_HAS_FILTER | _HAS_HOLES):
            raise Malformed(f"a chunk with flags {flags:#x} and {bloom} + {packed} octets is cut")
        began = _checksum_of_head(flags, bloom, runs, records, packed) if flags & _HAS_HOLES else 0
        if not is_sound and crc32(memoryview(octets)[body : self.end], began) != checksum:
            raise Malformed("the checksum of a chunk is wrong")
        if not self.records or (1 if self.has_holes else self.records) * _LEAST_RECORD > packed:
            raise Malformed(f"{self.records} records in {packed} octets")

    @property
    def length(self) -> int:
        """How many octets it has, of which `octets` may have more."""
        return int(self.end - self._at)

    def apart(self) -> Chunk:
        """The same with octets of its own, without what lies around them."""
        return Chunk(self.octets[self._at : self.end], is_sound=True)

    def check(self) -> None:
        """Whether its records fill it and count as they should: of what comes from elsewhere. Raises Malformed."""
        octets, at, end = self.octets, self.start, self.end
        if self.has_holes:
            raise Malformed("a chunk with holes, which only pages have")
        for number in range(self.records):
            if at + _LEAST_RECORD > end or get_u32(octets, at + 4) != number:
                raise Malformed(f"record {number} of a chunk is not where it should be")
            check_record(octets, at, end)
            at = next_record(octets, at)
        if at != end:
            raise Malformed(f"{end - at} octets behind the last record of a chunk")
        free = 0
        for run in self.runs:
            if run.record < free or not run.records or run.record + run.records > self.records:
                raise Malformed(f"a producer's run of {run.records} records from {run.record} in {self.records}")
            free = run.record + run.records

    def places(self) -> Iterator[int]:
        """Where its records begin."""
        at = self.start
        while at < self.end:
            yield at
            at = next_record(self.octets, at)

    def place_of(self, number: int) -> int:
        """Where the record of this number begins, -1 if it is not there any more."""
        for at in self.places():
            if get_u32(self.octets, at + 4) >= number:
                return at if get_u32(self.octets, at + 4) == number else -1
        return -1

    def keeping(self, places: Iterable[int], filter_bytes: int) -> bytes:
        """The chunk with these records alone, one at least, which keep their numbers."""
        packed = bytearray()
        values: dict[int, None] = {}
        for at in places:
            packed += self.octets[at : next_record(self.octets, at)]
            if value := filter_hash_of(self.octets, at):
                values[value] = None
        found = Bloom.of(values, filter_bytes).octets if values else b""
        return encode_chunk(found, (), self.records, bytes(packed), has_holes=True)

    def without(self, dropped: Iterable[Run], filter_bytes: int) -> bytes | None:
        """The chunk without the records of these runs, each the beginning of one of its own, packed anew; None if
        nothing is left."""
        gone = {number for run in dropped for number in range(run.record, run.record + run.records)}
        packed = bytearray()
        numbers: dict[int, int] = {}
        values: dict[int, None] = {}
        for number, at in enumerate(self.places()):
            if number in gone:
                continue
            packed += self.octets[at : at + 4]
            packed += len(numbers).to_bytes(4, "big")
            packed += self.octets[at + 8 : next_record(self.octets, at)]
            numbers[number] = len(numbers)
            if value := filter_hash_of(self.octets, at):
                values[value] = None
        if not numbers:
            return None
        rests = [_rest_of(run, gone) for run in self.runs]
        runs = [rest._replace(record=numbers[rest.record]) for rest in rests if rest.records]
        found = Bloom.of(values, filter_bytes).octets if values else b""
        return encode_chunk(found, runs, len(numbers), bytes(packed))


def _rest_of(run: Run, gone: Container[int]) -> Run:
    """What is left of a run whose beginning is gone."""
    lost = 0
    while lost < run.records and run.record + lost in gone:
        lost += 1
    return Run(run.producer, run.sequence + lost, run.record + lost, run.records - lost)


def _read_runs(octets: bytes, at: int, count: int) -> tuple[list[Run], int]:
    runs = []
    for _ in range(count):
        name = at + 1
        if name > len(octets) or name + octets[at] + _RUN.size > len(octets):
            raise Malformed("the producers of a chunk are cut")
        producer, at = octets[name : name + octets[at]], name + octets[at]
        runs.append(Run(producer, *_RUN.unpack_from(octets, at)))
        at += _RUN.size
    return runs, at
