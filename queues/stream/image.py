"""Streams in images of a group (queues/quorum/image.py): what they are after, and their pages.

    STREAM        u64 id, u64 first, u64 next, u64 octets since the beginning, settings,
                  u32 n, n x (u64 offset, u64 time, u64 octets before): marks,
                  u32 n, n x (short producer, u64 sequence, u64 offset),
                  u32 n, n x (short name, u64 offset, u64 until): holds
    STREAM_PAGE   u32 records, u64 first, u64 time, octets
    STREAM_AT     the same, with u32 segment, u64 offset, u32 length of the page for the octets
    STREAM_TAIL   u32 records, octets of the open page
    STREAM_END
"""

from __future__ import annotations

from amqp_broker.octets.buffer import Buffer
from queues.page import Page
from queues.pager import Pager
from queues.quorum.reader import Reader, octets_of
from queues.stream.marks import Mark
from queues.stream.settings import get_settings, put_settings
from queues.stream.stream import Hold, Published, Stream
from storage.page_store import PageLocation

STREAM, STREAM_PAGE, STREAM_AT, STREAM_TAIL, STREAM_END = 16, 17, 18, 19, 20


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
    return buffer.take()


class StreamPart:
    """A page as it was at the capture: its octets, or where they are. names_place: the image refers to its place."""

    def __init__(self, queue_id: int, time: int, page: Page, names_place: bool) -> None:
        self._queue_id = queue_id
        self._time = time
        self._records = page.count
        self._first = page.first
        self._location: PageLocation | None = page.location
        self._names_place = names_place and page.location is not None
        self._data = None if self._names_place else page.data

    def encode(self, pager: Pager) -> tuple[int, bytes]:
        """As a record. Raises CorruptRecord, OSError where the page has to be read."""
        buffer = Buffer()
        buffer.put_u32(self._records)
        buffer.put_u64(self._first)
        buffer.put_u64(self._time)
        if self._names_place and self._location is not None:
            buffer.put_u32(self._location.segment)
            buffer.put_u64(self._location.offset)
            buffer.put_u32(self._location.length)
            return STREAM_AT, buffer.take()
        data = self._data
        if data is None:
            assert self._location is not None  # what is not in RAM is on disk
            data = pager.page_store.read(self._queue_id, self._location)
        return STREAM_PAGE, buffer.take() + data


def stream_parts(stream: Stream, names_places: bool) -> list[StreamPart | tuple[int, bytes]]:
    """A stream as of now."""
    parts: list[StreamPart | tuple[int, bytes]] = [(STREAM, stream_octets(stream))]
    log = stream.log
    parts += [StreamPart(stream.queue_id, time, page, names_places) for time, page in log.pages()]
    tail, records = log.tail()
    if records:
        parts.append((STREAM_TAIL, records.to_bytes(4, "big") + tail))
    parts.append((STREAM_END, b""))
    return parts


class StreamReader:
    """The records of one stream, up to STREAM_END."""

    def __init__(self, reader: Reader, pager: Pager) -> None:
        self._pager = pager
        queue_id, self._first, self._next, octets = reader.u64(), reader.u64(), reader.u64(), reader.u64()
        self.stream = stream = Stream(queue_id, get_settings(reader), pager)
        stream.log.begin(self._next)
        stream.marks.octets = octets
        for _ in range(reader.count(24)):
            stream.marks.marks.append(Mark(reader.u64(), reader.u64(), reader.u64()))
        for _ in range(reader.count(17)):
            stream.producers[reader.short()] = Published(reader.u64(), reader.u64())
        for _ in range(reader.count(17)):
            stream.holds[reader.name()] = Hold(reader.u64(), reader.u64())

    def take(self, kind: int, reader: Reader) -> bool:
        """One record. Returns whether it was the last one."""
        log = self.stream.log
        if kind in (STREAM_PAGE, STREAM_AT):
            records, first, time = reader.u32(), reader.u64(), reader.u64()
            location = PageLocation(reader.u32(), reader.u64(), reader.u32()) if kind == STREAM_AT else None
            page = Page(reader.rest() if location is None else None, records, first, first + records - 1, 0)
            if location is not None:
                page.location = location
                page.is_named = True
                self._pager.page_store.adopt(self.stream.queue_id, [location])
            else:
                self._pager.add_used(page.size)
            log.restore_page(time, page)
        elif kind == STREAM_TAIL:
            records = reader.u32()
            log.restore_tail(reader.rest(), records)
        elif kind == STREAM_END:
            if log.next != self._next:
                raise reader.fail(f"a stream up to {log.next} that should go up to {self._next}")
            log.first = self._first
            return True
        else:
            raise reader.fail("it does not belong into a stream, or is of a newer version")
        return False
