"""Streams in images of a group (queues/quorum/image.py): what they are after, and their pages.

    STREAM        u64 id, u64 first, u64 next, u64 octets since the beginning, settings,
                  u32 n, n x (u64 offset, u64 time, u64 octets before): marks,
                  u32 n, n x (short producer, u64 sequence, u64 offset),
                  u32 n, n x (short name, u64 offset, u64 until): holds,
                  u32 n, n x (short name, u64 position, u64 delivered, u64 generation,
                              u32 m, m x (short node, u64 number): members): groups,
                  u32 n, n x (short name, u32 m, m x (short node, u64 number): members,
                              u32 p, p x (u32 place of its member + 1, or 0): partitions): shares,
                  u32 n, n x (short node, u64 offset): up to where nodes have compacted it
    STREAM_COMPACTED u64 below, u64 needed, u64 tombstones, u64 first of them, u64 its time: of this member's pages
    STREAM_NAMES  n x (u64 offsets, u64 first, u64 time, u32 segment, u64 offset, u32 length, u32 octets): the pages on
                  the disk, and how many octets they have; where that is more than the length, they are packed
    STREAM_PACKED u64 below: pages before this offset are packed, or it does not pay; with STREAM_NAMES only
    STREAM_PAGE   u64 offsets, u64 first, u64 time, octets
    STREAM_TAIL   octets as of a page, of what is in none
    STREAM_END
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from amqp_broker.octets.buffer import Buffer
from queues.page import Page
from queues.pager import Pager
from queues.stream.damaged import reading
from queues.stream.groups import Member, ReaderGroup
from queues.stream.log import StreamLog
from queues.stream.marks import Mark
from queues.stream.pages import Part
from queues.stream.settings import get_settings, put_settings
from queues.stream.shares import Share
from queues.stream.stream import Hold, Published, Stream
from queues.stream.tail import Stored, tail_octets
from queues.wire.reader import Reader, octets_of
from storage.errors import CorruptRecord
from storage.page_store import PageLocation

STREAM, STREAM_NAMES, STREAM_PAGE, STREAM_TAIL, STREAM_END, STREAM_COMPACTED = 16, 17, 18, 19, 20, 21
STREAM_PACKED = 22


def stream_octets(stream: Stream) -> bytes:
    """Everything that members agree on, but for the messages."""
    buffer = Buffer()
    buffer.put_u64(stream.queue_id)
    buffer.put_u64(stream.first)
    buffer.put_u64(stream.next)
    buffer.put_u64(stream.marks.octets)
    put_settings(buffer, stream.settings)
    buffer.put_u32(len(stream.marks.marks))
    for mark in stream.marks.marks:
        buffer.put_u64(mark.offset)
        buffer.put_u64(mark.time)
        buffer.put_u64(mark.octets)
    buffer.put_u32(len(stream.producers))
    for producer, published in stream.producers.items():
        buffer.put_shortstr(producer)
        buffer.put_u64(published.sequence)
        buffer.put_u64(published.offset)
    buffer.put_u32(len(stream.holds))
    for name, hold in stream.holds.items():
        buffer.put_shortstr(octets_of(name))
        buffer.put_u64(hold.offset)
        buffer.put_u64(hold.until)
    buffer.put_u32(len(stream.groups))
    for name, group in stream.groups:
        buffer.put_shortstr(octets_of(name))
        buffer.put_u64(group.position)
        buffer.put_u64(group.delivered)
        buffer.put_u64(group.generation)
        _put_members(buffer, group.members)
    buffer.put_u32(len(stream.shares))
    for name, share in stream.shares:
        buffer.put_shortstr(octets_of(name))
        _put_members(buffer, share.members)
        buffer.put_u32(len(share.owners))
        places = {member: place for place, member in enumerate(share.members, 1)}
        for owner in share.owners:
            buffer.put_u32(places[owner] if owner is not None else 0)
    buffer.put_u32(len(stream.claims))
    for name, below in stream.claims.items():
        buffer.put_shortstr(octets_of(name))
        buffer.put_u64(below)
    return buffer.take()


def _put_members(buffer: Buffer, members: list[Member]) -> None:
    buffer.put_u32(len(members))
    for member in members:
        buffer.put_shortstr(octets_of(member.node))
        buffer.put_u64(member.number)


def _get_members(reader: Reader) -> list[Member]:
    return [Member(reader.name(), reader.u64()) for _ in range(reader.count(9))]


def stream_pieces(stream: Stream) -> Iterator[bytes]:
    """Everything that members agree on, for their digests. What is left of a stream that is compacted they need not
    agree on. Raises CorruptRecord, OSError where pages have to be read."""
    yield stream_octets(stream)
    if stream.settings.key:
        return
    for stored in stream.log.chunks(stream.first):
        yield tail_octets([stored.apart()])


class StreamPart:
    """A page as it was at the capture: its octets, or where they are. data: if they were in RAM."""

    def __init__(self, log: StreamLog, part: Part, data: bytes | None) -> None:
        page = part.page
        self._log = log
        self._part = part
        self._time = part.time
        self._records = page.count
        self._first = page.first
        self._location: PageLocation | None = page.location
        self._data = data
        self._size = part.taken

    def encode(self, pager: Pager) -> tuple[int, bytes]:
        """As a record. Raises Damaged where the page has to be read."""
        buffer = Buffer()
        buffer.put_u64(self._records)
        buffer.put_u64(self._first)
        buffer.put_u64(self._time)
        data = self._data
        if data is None:
            assert self._location is not None  # what is not in RAM is on disk
            with reading(self._log.queue_id):
                data = self._read(pager, self._location)
        return STREAM_PAGE, buffer.take() + data

    def _read(self, pager: Pager, location: PageLocation) -> bytes:
        try:
            return pager.page_store.read(self._log.queue_id, location, self._size)
        except (CorruptRecord, OSError):
            self._log.unreadable(self._part)
            raise


class StreamTail:
    """What was in no page at the capture: its chunks are in RAM anyway, and never change."""

    def __init__(self, tail: list[Stored]) -> None:
        self._tail = tail

    def encode(self, pager: Pager) -> tuple[int, bytes]:
        """As a record."""
        return STREAM_TAIL, tail_octets(self._tail)


def stream_parts(stream: Stream, names_places: bool) -> Iterator[StreamPart | StreamTail | tuple[int, bytes]]:
    """A stream as of now. Of its pages those that have no name yet are looked at here, and no others."""
    parts: list[StreamPart | StreamTail | tuple[int, bytes]] = [(STREAM, stream_octets(stream))]
    named: Iterator[StreamPart] = iter(())
    log = stream.log
    if stream.settings.key:
        parts.append((STREAM_COMPACTED, log.compacted.octets()))
    if names_places:
        parts.append((STREAM_NAMES, bytes(log.names)))
        if log.packed:
            parts.append((STREAM_PACKED, log.packed.to_bytes(8, "big")))
    else:
        in_ram = log.octets_in_ram()
        named = (StreamPart(log, part, in_ram.get(part.page.location)) for part in log.noted())
    rest: list[StreamPart | StreamTail | tuple[int, bytes]] = [
        StreamPart(log, part, part.page.data) for part in log.unnamed()
    ]
    tail = log.tail()
    if tail:
        rest.append(StreamTail(tail))
    rest.append((STREAM_END, b""))
    return chain(parts, named, rest)


class StreamsState(Protocol):
    """What a group's state has of streams."""

    streams: dict[int, Stream]


def _get_share(reader: Reader) -> Share:
    share = Share()
    share.members += _get_members(reader)
    for _ in range(reader.count(4)):
        place = reader.u32()
        if place > len(share.members):
            raise reader.fail(f"a partition of member {place} of {len(share.members)}")
        share.owners.append(share.members[place - 1] if place else None)
    return share


class StreamReader:
    """The records of one stream, up to STREAM_END."""

    def __init__(self, reader: Reader, pager: Pager) -> None:
        self._pager = pager
        queue_id, self._first, self._next, octets = reader.u64(), reader.u64(), reader.u64(), reader.u64()
        self.queue_id = queue_id
        self.stream = stream = Stream(queue_id, get_settings(reader), pager)
        stream.log.first = stream.log.next = self._next
        stream.marks.octets = octets
        for _ in range(reader.count(24)):
            stream.marks.marks.append(Mark(reader.u64(), reader.u64(), reader.u64()))
        for _ in range(reader.count(17)):
            producer = reader.short()
            stream.producers[producer] = Published(reader.u64(), reader.u64())
        for _ in range(reader.count(17)):
            name = reader.name()
            stream.holds[name] = Hold(reader.u64(), reader.u64())
        for _ in range(reader.count(29)):
            name = reader.name()
            group = ReaderGroup(reader.u64(), reader.u64(), reader.u64())
            group.members += _get_members(reader)
            stream.groups.put(name, group)
        for _ in range(reader.count(9)):
            stream.shares.put(reader.name(), _get_share(reader))
        for _ in range(reader.count(9)):
            name = reader.name()
            stream.claims[name] = reader.u64()

    def add_to(self, state: StreamsState) -> None:
        """The stream is whole."""
        state.streams[self.stream.queue_id] = self.stream

    def take(self, kind: int, reader: Reader) -> bool:
        """One record. Returns whether it was the last one."""
        log = self.stream.log
        if kind == STREAM_NAMES:
            log.restore_names(reader.rest())
        elif kind == STREAM_PACKED:
            log.packed = reader.u64()
        elif kind == STREAM_COMPACTED:
            log.compacted.read(reader)
        elif kind == STREAM_PAGE:
            records, first, time = reader.u64(), reader.u64(), reader.u64()
            page = Page(reader.rest(), records, first, first + records - 1, 0)
            self._pager.add_used(page.size)
            log.restore_page(time, page)
            log.name_next()
        elif kind == STREAM_TAIL:
            log.restore_tail(reader.rest())
        elif kind == STREAM_END:
            if log.next != self._next or not log.first <= self._first <= self._next:
                wanted = f"{self._first}..{self._next}"
                raise reader.fail(f"a stream of {log.first}..{log.next} that should be one of {wanted}")
            log.first = self._first
            return True
        else:
            raise reader.fail("it does not belong into a stream, or is of a newer version")
        return False
